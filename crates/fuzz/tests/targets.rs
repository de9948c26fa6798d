//! Every fuzz target: what is kept of its inputs, and some that are changed at random.
//!
//! `WEIR_FUZZ_MILLIS` says for how long each is tried, `WEIR_FUZZ_SEED` by which inputs; `WEIR_FUZZ_INPUTS`, how many at most.
//! They are the same in each run, whatever the commit: what new ones find is no fault of the change that is tested.
//! `./x fuzz` draws others.

use std::time::Duration;
use weir_cpu::{CountingAllocator, Heap};
use weir_fuzz::{Effort, TARGETS, go};
use weir_testkit::asked;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Outcomes that can be told apart, at least: of a target that always says the same, nothing is learnt.
const OUTCOMES: u64 = 3;

/// Tries the target of this name.
fn hold(name: &str) {
    assert!(Heap::is_counted());
    let target = weir_fuzz::target(name).unwrap_or_else(|| panic!("there is no target {name}"));
    let effort = Effort {
        seed: asked("WEIR_FUZZ_SEED", 31),
        inputs: asked("WEIR_FUZZ_INPUTS", 4_000),
        time: Duration::from_millis(asked("WEIR_FUZZ_MILLIS", 1200)),
    };
    let account = go(target, effort).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{name}: {account}");
    assert!(account.outcomes >= OUTCOMES && account.drawn > 0, "{name}: {account}");
}

macro_rules! targets {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                hold($name);
            }
        )*

        #[test]
        fn every_target_is_tried_here() {
            let tried = [$($name),*];
            // Those with workers are in `workers.rs`.
            let alone = || TARGETS.iter().filter(|target| !target.workers).map(|target| target.name);
            let left: Vec<&str> = alone().filter(|name| !tried.contains(name)).collect();
            assert_eq!((left, tried.len()), (vec![], alone().count()));
        }
    };
}

targets! {
    any_frame_becomes_a_key_and_offsets_within_it: "frame",
    the_testers_walk_stays_within_any_frame: "dissect",
    edits_of_any_frame_keep_bytes_offsets_and_key_in_step: "edit",
    a_stamp_is_one_or_is_none: "stamp",
    a_pcap_file_is_read_to_its_end_or_to_what_is_wrong: "pcap",
    a_pcapng_file_is_read_to_its_end_or_to_what_is_wrong: "pcapng",
    routes_are_read_and_written_or_refused: "routes",
    rules_are_read_and_written_or_refused: "rules",
    what_people_type_is_shown_as_what_reads_the_same: "units",
    a_stored_histogram_takes_no_more_memory_than_one_of_ours: "histogram",
    a_flow_is_printed_as_what_reads_the_same: "ofctl-flow",
    a_file_of_flows_is_taken_or_each_mistake_has_its_line: "ofctl-file",
    a_group_is_printed_as_what_reads_the_same: "ofctl-group",
    a_meter_is_printed_as_what_reads_the_same: "ofctl-meter",
    a_match_is_printed_as_what_reads_the_same: "ofctl-match",
    an_openflow_message_is_refused_with_an_answer_or_written_again: "openflow-message",
    an_openflow_stream_is_cut_where_its_lengths_say: "openflow-stream",
    any_openflow_session_leaves_a_switch_that_greets_others: "openflow-session",
    a_table_finds_what_a_list_finds: "table",
    a_lookup_takes_no_more_probes_than_promised: "caches",
    the_tracker_is_bounded_and_allocates_nothing: "conntrack",
    helpers_stay_within_what_is_said: "helpers",
    pieces_of_datagrams_are_bounded: "fragments",
    settings_of_services_are_taken_or_refused: "service-settings",
    a_service_judges_every_packet_of_a_burst: "service-burst",
    a_bundle_is_refused_or_its_hashes_hold: "bundle",
    an_archive_of_parts_is_refused_or_its_hashes_hold: "bundle-parts",
    a_run_of_json_becomes_a_page_and_a_bundle_or_is_refused: "run-json",
    a_plan_has_points_or_mistakes_with_their_place: "plan",
    a_function_is_shown_as_what_reads_the_same: "function",
    where_functions_run_is_shown_as_what_reads_the_same: "devices",
    a_switchs_configuration_is_taken_or_refused: "switch-config",
    lines_at_the_control_socket_leave_a_switch_that_answers: "control",
    requests_for_metrics_leave_an_endpoint_that_answers: "metrics",
    a_ledger_of_any_names_is_text_that_prometheus_reads: "prometheus",
    a_ports_spec_is_taken_or_refused: "port-spec",
}
