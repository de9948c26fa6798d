//! Where the switches differ on purpose, or because Open vSwitch 3.1 is wrong: what a packet must be for
//! each, and how far what leaves may differ then. Anything else is a mistake.

use crate::frames::{self, Sample};
use crate::ours::Ours;
use crate::ovs::{At, Ovs};
use weir_flow::Field;

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
    /// Where a label is pushed and another pushed or popped, Open vSwitch writes the one over the other, and leaves the
    /// EtherType, 0x8847 or 0x8848, as it was.
    LabelType,
    /// Of a neighbour message with both addresses of the link layer, Open vSwitch writes the one that comes first.
    SecondOption,
    /// Weir ends a packet whose header is to be changed and is malformed or cut short. Open vSwitch lets it
    /// pass as it is.
    MalformedHeader,
    /// A packet whose time to live is over ends in Weir (RFC 1812, section 5.3.1). In Open vSwitch it ends
    /// in the list of actions at hand only: the table that resubmitted it, and the action set, go on.
    TimeToLive,
    /// An action set does `pop_vlan` first, whatever was written first. A VLAN that is set behind it has no tag: in Weir
    /// nothing is done, as with every header that is not there; Open vSwitch pushes a tag (and refuses the same
    /// where it sees it in one list).
    NoTag,
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

    /// Whether Weir did the same, but that some frames have a tag in Open vSwitch alone.
    fn differ_by_tags(&self) -> bool {
        let untagged =
            |(port, frame): &At| (*port, [&frame[..12], frame.get(16..).unwrap_or_default()].concat());
        let mut mine: Vec<&At> = self.mine.iter().collect();
        let same = |theirs: &At, mine: &At| theirs == mine || untagged(theirs) == *mine;
        let mut found = |theirs: &At| {
            let at = mine.iter().position(|mine| same(theirs, mine));
            at.map(|at| mine.remove(at)).is_some()
        };
        self.theirs.len() == self.mine.len() && self.theirs.iter().all(&mut found)
    }

    /// Whether Weir did the same, but for which of the two EtherTypes labels have.
    fn differ_by_label_type(&self) -> bool {
        let unicast = |(port, frame): &At| {
            let (mut frame, at) = (frame.clone(), 12 + 4 * frames::tags(frame));
            if let Some([0x88, kind @ (0x47 | 0x48)]) = frame.get_mut(at..at + 2) {
                *kind = 0x47;
            }
            (*port, frame)
        };
        let [mut theirs, mut mine] =
            [self.theirs, self.mine].map(|all| all.iter().map(unicast).collect::<Vec<At>>());
        theirs.sort();
        mine.sort();
        theirs == mine
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
    let pushes = |behind: &str| behind.contains(" push_vlan:");
    let first = |behind: &str| {
        [" set_vlan_vid:", "->vlan_vid"].map(|word| behind.find(word)).into_iter().flatten().min()
    };
    let sets = |behind: &str| first(behind).is_some_and(|at| !pushes(&behind[..at]));
    let popped = |place: (usize, &str)| sets(&story[place.0..]);
    if story.match_indices(" pop_vlan").any(popped) && answers.differ_by_tags() {
        return Some(Difference::NoTag);
    }
    if count(" push_mpls:") > 0
        && count(" push_mpls:") + count(" pop_mpls:") > 1
        && answers.differ_by_label_type()
    {
        return Some(Difference::LabelType);
    }
    let options = [Field::NdSll, Field::NdTll].iter().all(|option| option.get(&sample.key) != 0);
    // An address, and the checksum.
    if options && count("->nd_") > 0 && answers.differ_within(8) {
        return Some(Difference::SecondOption);
    }
    let of_length = if frames::has_length(frame) && count("_mpls:") > 0 { 4 } else { 0 };
    if of_length > 0 && (answers.differ_within(of_length) || ours.refuses(at)) {
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
    // The length may differ besides.
    if !answers.are_fewer(bytes + of_length) {
        return None;
    }
    if ours.refuses(at) {
        return Some(Difference::MalformedHeader);
    }
    let trace = ovs.ask(&["ofproto/trace", "br", &format!("in_port={port}"), &crate::hex(frame)]);
    trace.contains("decrement TTL exception").then_some(Difference::TimeToLive)
}
