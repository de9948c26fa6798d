//! Where the switches differ on purpose, or because Open vSwitch 3.1 is wrong: what a packet must be for
//! each, and how far what leaves may differ then. Anything else is a mistake.

use crate::frames::{self, Sample};
use crate::ours::Ours;
use crate::ovs::{At, Ovs};

/// A reason to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// Open vSwitch has keys of two tags. With a third, pushed or found behind popped ones, it loses a tag
    /// or does not see one; Weir looks again behind what it popped.
    ThirdTag,
    /// Open vSwitch has keys of three labels, and drops packets that would have more.
    FourthLabel,
    /// In a frame that names its length (IEEE 802.3) Open vSwitch puts labels, and takes them away, without
    /// changing the length. Weir changes it, and ends a frame that has no EtherType to be changed.
    LengthWithLabels,
    /// Weir ends a packet whose header is to be changed and is malformed or cut short. Open vSwitch lets it
    /// pass as it is.
    MalformedHeader,
    /// A packet whose time to live is over ends in Weir (RFC 1812, section 5.3.1). In Open vSwitch it ends
    /// in the list of actions at hand only: the table that resubmitted it, and the action set, go on.
    TimeToLive,
    /// IP of protocol 0 and ARP of operation 0: Open vSwitch takes a zero for no header at all, and
    /// changes its fields in its tables only. So it does with reverse ARP.
    NotWritten,
    /// Where an address or an ICMP type is changed, Open vSwitch writes what is not there: into the data of later
    /// fragments, and in transport headers that both take for malformed. The checksum behind IPv6 it leaves wrong
    /// behind a routing header with a hop to go (the source's, too), and behind two fragment headers or
    /// that of a whole packet (RFC 6946).
    Transport,
    /// What an older megaflow of Open vSwitch did; asked anew, it agrees. It does not look at the bits of a
    /// label that it writes back, so the first packet's label is given to all others of its megaflow.
    TheirMegaflow,
}

/// Both answers about a packet.
pub(crate) struct Answers<'a> {
    pub(crate) theirs: &'a [At],
    pub(crate) mine: &'a [At],
}

impl Answers<'_> {
    /// Whether Weir did the same, but for so many bytes of each frame.
    fn differ_within(&self, bytes: usize) -> bool {
        self.theirs.len() == self.mine.len() && self.are_fewer(bytes)
    }

    /// Whether Weir did the same, or a part of it, but for so many bytes of each frame.
    fn are_fewer(&self, bytes: usize) -> bool {
        let alike = |(port, frame): &At, (other, changed): &At| {
            let differing = frame.iter().zip(changed).filter(|(a, b)| a != b).count();
            port == other && frame.len() == changed.len() && differing <= bytes
        };
        // The bytes that differ may have changed the order.
        let mut theirs: Vec<&At> = self.theirs.iter().collect();
        self.mine.iter().all(|frame| {
            let found = theirs.iter().position(|other| alike(frame, other));
            found.map(|at| theirs.remove(at)).is_some()
        })
    }
}

/// Why the switches may differ about a packet, if they may.
pub(crate) fn find(ovs: &mut Ovs, ours: &mut Ours, at: &At, answers: &Answers<'_>) -> Option<Difference> {
    let (port, frame) = at;
    let story = ours.explain(at);
    let count = |word: &str| story.matches(word).count();
    let sample = Sample::new(*port, frame.clone());
    if frames::tags(frame) + count(" push_vlan:") > frames::MAX_TAGS {
        return Some(Difference::ThirdTag);
    }
    if frames::labels(frame) + count(" push_mpls:") > frames::MAX_LABELS {
        return Some(Difference::FourthLabel);
    }
    if frames::has_length(frame) && count("_mpls:") > 0 && (answers.differ_within(4) || ours.refuses(at)) {
        return Some(Difference::LengthWithLabels);
    }
    let (reason, bytes) = if sample.is_not_written() {
        (Some(Difference::NotWritten), 40)
    } else if sample.may_lack_transport() {
        (Some(Difference::Transport), 4)
    } else {
        (None, 0)
    };
    if reason.is_some() && answers.differ_within(bytes) {
        return reason;
    }
    if !answers.are_fewer(bytes) {
        return None;
    }
    if ours.refuses(at) {
        return Some(Difference::MalformedHeader);
    }
    let trace = ovs.ask(&["ofproto/trace", "br", &format!("in_port={port}"), &crate::hex(frame)]);
    trace.contains("decrement TTL exception").then_some(Difference::TimeToLive)
}
