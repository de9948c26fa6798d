//! What a trusted port at full rate loses, and how fast it goes on, while the guest of the port beside it dies, lies and takes
//! its memory away, as the table of docs/untrusted.md. The tests of `apart.rs` hold the same in less time.

use super::guest::Guest;
use super::rates::spread;
use super::{Switch, signal};
use crate::lab::wait_for;
use nix::sys::signal::Signal;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_testkit::{Dice, seed};

/// Rounds of each attack, and how long one goes on.
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1500);

/// What goes on at the port beside the trusted one, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    /// A guest is there and does nothing.
    Nothing,
    /// The helper is killed, as by a flaw in its driver.
    HelperDies,
    /// The guest makes its memory shorter while packets are in it.
    MemoryGoes,
    /// The guest writes nonsense into its ring.
    RingLies,
    /// The guest goes and comes.
    GuestDies,
}

impl Attack {
    const ALL: [Self; 5] =
        [Self::Nothing, Self::HelperDies, Self::MemoryGoes, Self::RingLies, Self::GuestDies];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "a guest that does nothing",
            Self::HelperDies => "its helper is killed",
            Self::MemoryGoes => "a guest that makes its memory shorter",
            Self::RingLies => "a guest that writes nonsense into its ring",
            Self::GuestDies => "a guest that goes and comes",
        }
    }

    /// Once; whoever the guest is then.
    fn once(self, switch: &Switch, mut guest: Guest, dice: &mut Dice) -> Guest {
        let socket = switch.folder().join("guest.sock");
        match self {
            Self::Nothing => std::thread::sleep(Duration::from_millis(20)),
            Self::RingLies => {
                guest.lie(|end| dice.below(end));
                std::thread::sleep(Duration::from_micros(100));
            }
            Self::GuestDies => {
                drop(guest);
                guest = connected(switch, &socket);
            }
            Self::HelperDies | Self::MemoryGoes => {
                let before = switch.ports().fault("guest", "restarts");
                let _connection = if self == Self::MemoryGoes {
                    guest.send(10, 60);
                    Some(guest.take_memory_away())
                } else {
                    switch.helpers().iter().for_each(|helper| signal(*helper, Signal::SIGKILL));
                    None
                };
                switch.wait("another helper", |ports| ports.fault("guest", "restarts") > before);
                guest = connected(switch, &socket);
            }
        }
        guest
    }
}

/// A guest whose link is up.
fn connected(switch: &Switch, socket: &Path) -> Guest {
    let guest = wait_for("the socket", || Guest::try_connect(socket));
    switch.wait("the guest's link", |ports| ports.port("guest")["link_up"] == true);
    guest
}

/// Packets of the trusted port during an attack, in millions a second, and how often it was made. None was lost.
fn beside(attack: Attack, dice: &mut Dice) -> (u64, f64, u64) {
    let switch =
        Switch::start(&["guest=untrusted:net_vhost0,iface=guest.sock"], &["in_port=guest,actions=in_port"]);
    let mut guest = connected(&switch, &switch.folder().join("guest.sock"));
    let read = || {
        let ports = switch.ports();
        ports.nothing_is_lost();
        (ports.count("trusted", "received"), ports.0["uptime_ns"].as_u64().unwrap())
    };
    let ((count, begin), since, mut times) = (read(), Instant::now(), 0);
    while since.elapsed() < TIME {
        guest = attack.once(&switch, guest, dice);
        times += u64::from(attack != Attack::Nothing);
    }
    let (after, end) = read();
    assert!(attack == Attack::Nothing || times > 0, "{attack:?}");
    (after - count, (after - count) as f64 * 1e3 / (end - begin) as f64, times)
}

#[test]
#[ignore = "a minute, and its rates mean something only on a machine that does nothing else"]
fn a_trusted_port_at_full_rate_beside_a_guest_that_attacks() {
    let mut dice = Dice::new(seed(22));
    let mut of = Attack::ALL.map(|_| (0, Vec::new(), 0));
    for _ in 0..ROUNDS {
        for (attack, (packets, rates, times)) in Attack::ALL.into_iter().zip(&mut of) {
            let (more, rate, made) = beside(attack, &mut dice);
            *packets += more;
            rates.push(rate);
            *times += made;
        }
    }
    let mut table = String::from(
        "| beside it | times | packets of the trusted port | lost | Mpps |\n|---|---|---|---|---|\n",
    );
    for (attack, (packets, rates, times)) in Attack::ALL.into_iter().zip(of) {
        let (name, rate) = (attack.name(), spread(rates));
        let _ = writeln!(table, "| {name} | {times} | {packets} | none | {rate} |");
    }
    println!("{table}");
}
