//! Actions of Open vSwitch that Weir has not got: why, and what to do instead. The home of these words: the text
//! reader, the codec and `docs/openflow.md` have them from here.

/// An action that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Its name in `ovs-actions(7)`.
    pub word: &'static str,
    /// Why it is refused.
    pub why: &'static str,
    /// What does the same, or as much of it as can be done.
    pub instead: &'static str,
}

const fn row(word: &'static str, why: &'static str, instead: &'static str) -> Unsupported {
    Unsupported { word, why, instead }
}

/// Ports have none of what these name.
const NO_QUEUES: &str = "ports have no queues that could be named";
/// What does as much.
const METER: &str = "police what is too much by a meter: meter:NUMBER";
/// Nothing is put in front of a packet but tags and labels.
const NO_TUNNELS: &str = "packets are not encapsulated, and no port is a tunnel";
/// What does that.
const BESIDE: &str = "have the kernel or another program do it at the port";
/// They are of no use to anybody else.
const INSIDE: &str = "it tests Open vSwitch's own datapath";

/// All of them, by their words.
pub const UNSUPPORTED: &[Unsupported] = &[
    row("bundle", "links are chosen by groups", "use a group of the type select, or ff for fast failover"),
    row(
        "bundle_load",
        "links are chosen by groups",
        "use a group of the type select, or ff for fast failover",
    ),
    row(
        "controller with meter_id",
        "a meter is not named by an action that sends",
        "put meter:NUMBER before it; each port has a bound anyway",
    ),
    row(
        "controller with pause",
        "a packet is not taken up where it stopped",
        "let the controller send it out",
    ),
    row("check_pkt_larger", "no action looks at a packet's length", "name the longest frame by max_frame"),
    row("debug_recirc", INSIDE, "leave it out"),
    row("debug_slow", INSIDE, "leave it out"),
    row("dec_nsh_ttl", NO_TUNNELS, BESIDE),
    row("decap", NO_TUNNELS, BESIDE),
    row("delete_field", NO_TUNNELS, "leave it out"),
    row("encap", NO_TUNNELS, BESIDE),
    row("enqueue", NO_QUEUES, METER),
    row(
        "fin_timeout",
        "timeouts of entries do not follow TCP",
        "track connections by ct, which forgets them when they end",
    ),
    row(
        "learn",
        "packets make no entries",
        "keep state by ct or a service (softflow:NAME), learn addresses by fail_mode = \"standalone\", or have a \
         controller add entries for packets that it is sent",
    ),
    row("multipath", "links are chosen by groups", "use a group of the type select"),
    row(
        "output with max_len",
        "packets are not cut",
        "have a controller see their beginning: controller(max_len=N)",
    ),
    row("pop", "there is no stack", "keep the value in a register: move:FIELD->NXM_NX_REG0[]"),
    row("pop_queue", NO_QUEUES, METER),
    row("push", "there is no stack", "keep the value in a register: move:FIELD->NXM_NX_REG0[]"),
    row("sample", "nothing is exported by IPFIX or sFlow", "record packets with `weir switch capture`"),
    row("set_queue", NO_QUEUES, METER),
    row("unroll_xlate", INSIDE, "leave it out"),
];

/// The action of this name, if it is one of these.
pub fn unsupported(word: &str) -> Option<&'static Unsupported> {
    UNSUPPORTED.iter().find(|one| one.word.eq_ignore_ascii_case(word))
}
