//! Zones, limits, and who makes room.

use super::*;

#[test]
fn zones_know_nothing_of_each_other() {
    let mut net = Net::small();
    let (ask, answer) = (udp(v4(1, 1), v4(20, 2), 9), udp(v4(20, 2), v4(1, 1), 9));
    assert_eq!(state(net.judge(&ask, 7, true)), NEW);
    assert_eq!(refused(net.judge(&answer, 0, false)), Reason::NotCommitted);
    assert_eq!(refused(net.judge(&answer, 8, false)), Reason::NotCommitted);
    assert_eq!(state(net.judge(&answer, 7, false)), REPLY);
    let (_, place) = net.tracker.all(0).next().unwrap();
    assert_eq!(net.tracker.connection(place, net.tick_now()).unwrap().zone, 7);
}

/// A datagram of a client of this number that is answered, so that its connection is settled.
fn settled(net: &mut Net, port: u32, zone: u16, number: u16) -> bool {
    let allowed = net.judge_from(port, &udp(v4(1, number), v4(20, 2), 9), zone, true).refused.is_none();
    allowed && net.judge_from(9, &udp(v4(20, 2), v4(1, number), 9), zone, false).refused.is_none()
}

#[test]
fn a_zone_has_no_more_than_its_limit() {
    let settings = Settings {
        connections: 100,
        zone_connections: 3,
        zones: [(5, 6)].into_iter().collect(),
        ..Settings::default()
    };
    let mut net = Net::new(settings);
    for (zone, most) in [(0, 3), (1, 3), (5, 6)] {
        let allowed: Vec<bool> = (0..10).map(|number| settled(&mut net, 1, zone, number)).collect();
        assert_eq!(allowed, (0..10).map(|number| number < most).collect::<Vec<_>>());
    }
    assert_eq!(net.tracker.counters().refused(Reason::LimitZone), 7 + 7 + 4);
    net.wait(121);
    assert_eq!(state(net.judge(&udp(v4(1, 9), v4(20, 2), 9), 1, true)), NEW, "they leave room when they end");
    // One that is half-open makes room in its zone, and no other does.
    for number in 20..40 {
        assert_eq!(state(net.judge(&udp(v4(1, number), v4(20, 2), 9), 1, true)), NEW);
        assert!(
            net.tracker
                .all(0)
                .filter(|(_, place)| { net.tracker.connection(*place, net.tick_now()).unwrap().zone == 1 })
                .count()
                <= 3
        );
    }
}

#[test]
fn a_flood_takes_room_of_its_own_port_and_zone() {
    let settings = Settings { connections: 100, half_open: 40, ..Settings::default() };
    let mut net = Net::new(settings);
    let open = |net: &mut Net, port: u32, zone: u16, number: u16| {
        net.judge_from(port, &udp(v4(2, number), v4(20, 2), 9), zone, true).refused.is_none()
    };
    for number in 0..10 {
        assert!(open(&mut net, 1, 1, number) && open(&mut net, 2, 2, number));
    }
    for number in 1000..2000 {
        assert!(open(&mut net, 3, 1, number), "the newest has room");
    }
    assert_eq!(net.tracker.half_open(), 40);
    let lives = |net: &mut Net, port: u32, zone: u16, number: u16| {
        net.judge_from(port, &udp(v4(20, 2), v4(2, number), 9), zone, false).refused.is_none()
    };
    for number in 0..10 {
        assert!(lives(&mut net, 9, 1, number) && lives(&mut net, 9, 2, number), "nobody else's went");
    }
    let shares = net.tracker.shares();
    let of = |zone: u16, port: u32| {
        *shares.iter().find(|share| (share.tenant.zone, share.tenant.port) == (zone, port)).unwrap()
    };
    assert_eq!((of(1, 3).half_open, of(1, 3).evicted), (20, 980));
    assert_eq!((of(1, 1).connections, of(1, 1).half_open, of(1, 1).evicted), (10, 0, 0));
    // The same among settled ones.
    for number in 0..200 {
        assert!(settled(&mut net, 3, 1, 5000 + number));
    }
    for number in 0..10 {
        assert!(lives(&mut net, 9, 1, number) && lives(&mut net, 9, 2, number), "of settled ones neither");
    }
}

#[test]
fn the_oldest_half_open_connection_makes_room_and_no_other() {
    let mut talk = Talk::with(Settings { connections: 50, half_open: 10, ..Settings::default() }).shake();
    for number in 0..30 {
        assert_eq!(state(talk.net.allow(&tcp(v4(2, number), talk.server, syn(1)))), NEW);
        assert!(talk.net.tracker.half_open() <= 10);
    }
    assert_eq!(talk.net.tracker.counters().of(Event::Evicted), 20);
    assert_eq!(state(talk.says(data(101, 501, 10))), EST, "an established one stays");
    let server = talk.server;
    let answered = |talk: &mut Talk, number| {
        talk.net.pass(&tcp(server, v4(2, number), syn_ack(500, 2))).refused.is_none()
    };
    assert!(!answered(&mut talk, 19), "evicted");
    assert!(answered(&mut talk, 20), "the youngest ten are there");
}

#[test]
fn of_a_full_table_the_one_that_was_idle_for_longest_makes_room() {
    let mut net = Net::new(Settings { connections: 20, ..Settings::default() });
    for number in 0..20 {
        assert!(settled(&mut net, 1, 0, number));
        net.wait(1);
    }
    for round in 0..60 {
        // The first ones stay in use.
        for number in 0..4 {
            assert!(settled(&mut net, 1, 0, number), "round {round}: one in use went");
        }
        net.wait(1);
        assert!(settled(&mut net, 1, 0, 1000 + round), "the newest has room");
    }
    assert_eq!(net.tracker.connections(), 20);
    assert_eq!(net.tracker.counters().of(Event::EvictedSettled), 60);
    assert_eq!(net.tracker.counters().refused(Reason::LimitConnections), 0);
}

#[test]
fn what_is_over_makes_room_before_anything_else_does() {
    let mut net = Net::new(Settings { connections: 1000, half_open: 0, ..Settings::default() });
    for number in 0..990 {
        net.allow(&udp(v4(1, number), v4(20, 2), 9));
    }
    net.wait(20);
    for number in 0..10 {
        assert!(settled(&mut net, 1, 7, number));
    }
    net.wait(11);
    for number in 0..990 {
        assert_eq!(net.allow(&udp(v4(2, number), v4(20, 2), 9)).refused, None);
    }
    assert_eq!(net.tracker.counters().of(Event::Evicted), 0);
    assert_eq!(net.tracker.counters().of(Event::EvictedSettled), 0);
    assert!(net.tracker.counters().of(Event::Expired) >= 980);
}
