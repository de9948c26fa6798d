//! The models of `weir-models`, each in all orders of steps, and that they can find something.

use weir_models::{counts, doorbell, marks, meters, owners, rings, wishes};

/// Orders that were gone through: fewer than some, and nothing was interleaved.
fn gone_through(orders: u64) {
    println!("{orders} orders of steps");
    assert!(orders > 3, "{orders}");
}

#[test]
fn tables_that_were_freed_are_used_by_no_worker() {
    gone_through(doorbell::freed_tables_are_not_used());
}

#[test]
fn tables_that_were_freed_are_used_by_no_worker_when_they_change_twice() {
    gone_through(doorbell::nor_when_they_change_twice());
}

#[test]
#[should_panic]
fn a_doorbell_without_one_order_that_all_agree_on_is_found_out() {
    doorbell::a_careless_bell_is_found_out();
}

#[test]
fn two_workers_do_not_have_one_translated_connection() {
    gone_through(owners::two_workers_do_not_have_one_tuple());
}

#[test]
fn a_translated_connection_that_ends_leaves_its_tuple_to_another_worker() {
    gone_through(owners::what_ends_leaves_its_place_to_another());
}

#[test]
fn a_worker_that_begins_anew_takes_nothing_of_another() {
    gone_through(owners::who_begins_anew_takes_nothing_of_others());
}

#[test]
#[should_panic(expected = "both have it")]
fn a_worker_that_does_not_look_again_after_it_wrote_is_found_out() {
    owners::one_that_does_not_look_again_is_found_out();
}

#[test]
fn a_packet_that_comes_to_two_receivers_counts_once() {
    gone_through(marks::a_packet_that_comes_to_two_counts_once());
}

#[test]
fn a_packet_behind_a_later_one_is_out_of_order_whichever_receiver_has_it() {
    gone_through(marks::what_comes_behind_a_later_one_is_out_of_order_once());
}

#[test]
fn a_receiver_a_window_ahead_of_another_loses_nothing() {
    gone_through(marks::a_later_lap_loses_nothing());
}

#[test]
#[should_panic(expected = "counted twice")]
fn marks_that_are_set_in_two_steps_are_found_out() {
    marks::marks_in_two_steps_are_found_out();
}

#[test]
fn two_workers_let_no_more_pass_a_meter_than_one() {
    gone_through(meters::two_workers_let_no_more_pass_than_one());
}

#[test]
fn two_workers_with_several_packets_let_no_more_pass_a_meter_than_one() {
    gone_through(meters::nor_of_several_packets());
}

#[test]
fn packets_come_out_of_a_ring_between_processes_as_they_went_in() {
    gone_through(rings::packets_come_out_as_they_went_in());
}

#[test]
#[should_panic]
fn a_producer_that_does_not_order_its_number_behind_its_packets_is_found_out() {
    rings::a_careless_producer_is_found_out();
}

#[test]
fn whatever_stands_in_the_ring_no_packet_is_longer_than_its_slot() {
    gone_through(rings::no_lie_moves_a_bound());
}

#[test]
fn counters_that_are_read_meanwhile_lose_nothing_and_never_fall() {
    gone_through(counts::nothing_is_lost_and_nothing_falls());
}

#[test]
fn the_channels_thread_sleeps_over_nothing_that_was_left_for_it() {
    gone_through(wishes::nothing_that_is_left_is_slept_over());
}

#[test]
#[should_panic(expected = "it sleeps over what was left")]
fn a_thread_that_takes_its_flag_back_by_a_plain_store_is_found_out() {
    wishes::a_plain_store_is_found_out();
}
