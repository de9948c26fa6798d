//! What a chain makes of a packet: from function to function, until it leaves by an end of the chain or ends inside.
//!
//! A balancer may have made it one of several frames, each of which is followed. What a firewall with connections lets through
//! only as an answer is an answer to a packet that must have come there: the oracle has no memory, and knows only that the lab
//! sends it ([`super::gateway`]). So where functions stand in its way that may have dropped or changed it, such an
//! answer's disposition is open.

use super::{Expected, Oracle, other};
use crate::NfKind;

/// Functions that a packet may meet in a chain: what is routed forth and back for longer is left open.
const MOST_HOPS: usize = 64;

/// A packet on its way through a chain.
struct Step {
    /// The function that it comes to, and by which of its ports.
    place: usize,
    port: u8,
    frame: Vec<u8>,
    /// Functions that it has met.
    hops: usize,
}

impl Oracle {
    /// What must become of a packet that comes in by an end of the chain.
    pub(super) fn chained(&self, in_port: u8, frame: &[u8]) -> Expected {
        let place = if in_port == 0 { 0 } else { self.members.len() - 1 };
        self.follow(Step { place, port: in_port, frame: frame.to_vec(), hops: 0 })
    }

    fn follow(&self, mut step: Step) -> Expected {
        let last = self.members.len() - 1;
        while step.hops < MOST_HOPS {
            step.hops += 1;
            let Step { place, port, .. } = step;
            let member = &self.members[place];
            if member.only_answers(&step.frame) && !self.is_clear(place, other(port)) {
                return Expected::Open;
            }
            let (out, frames) = match member.expected(port, &step.frame) {
                Expected::Forward { port, frame } => (port, vec![frame]),
                Expected::OneOf { port, frames } => (port, frames),
                ends => return ends,
            };
            let next = match (out, place) {
                (0, 0) => return leaving(out, frames),
                (0, _) => place - 1,
                (_, place) if place == last => return leaving(out, frames),
                _ => place + 1,
            };
            let Ok([frame]) = <[Vec<u8>; 1]>::try_from(frames.clone()) else {
                let each = frames.into_iter().map(|frame| Step {
                    place: next,
                    port: other(out),
                    frame,
                    hops: step.hops,
                });
                return together(each.map(|step| self.follow(step)).collect());
            };
            step = Step { place: next, port: other(out), frame, ..step };
        }
        Expected::Open
    }

    /// Whether the functions between an end of the chain and the one at a place leave every packet as it is and let it pass. The
    /// end is that of the member's port.
    fn is_clear(&self, place: usize, port: u8) -> bool {
        let between = if port == 0 { &self.members[..place] } else { &self.members[place + 1..] };
        between.iter().all(|member| matches!(member.nf.kind(), NfKind::L2Fwd | NfKind::PipelineD))
    }
}

/// What leaves the chain.
fn leaving(port: u8, mut frames: Vec<Vec<u8>>) -> Expected {
    match frames.pop() {
        Some(frame) if frames.is_empty() => Expected::Forward { port, frame },
        Some(frame) => {
            frames.push(frame);
            Expected::OneOf { port, frames }
        }
        None => Expected::Open,
    }
}

/// One of several dispositions, of which the device chooses.
fn together(dispositions: Vec<Expected>) -> Expected {
    let mut found: Option<(u8, Vec<Vec<u8>>)> = None;
    for disposition in &dispositions {
        let (port, more) = match disposition {
            Expected::Forward { port, frame } => (*port, std::slice::from_ref(frame)),
            Expected::OneOf { port, frames } => (*port, frames.as_slice()),
            // All of them must not come out, or nobody knows.
            Expected::Drop(reason)
                if dispositions.iter().all(|disposition| matches!(disposition, Expected::Drop(_))) =>
            {
                return Expected::Drop(*reason);
            }
            _ => return Expected::Open,
        };
        match &mut found {
            None => found = Some((port, more.to_vec())),
            Some((known, frames)) if *known == port => frames.extend_from_slice(more),
            Some(_) => return Expected::Open,
        }
    }
    found.map_or(Expected::Open, |(port, frames)| leaving(port, frames))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nf;
    use crate::expected::Reason;

    #[test]
    fn fates_of_frames_that_a_device_chooses_among_are_one_if_they_agree() {
        let forward = |port, byte| Expected::Forward { port, frame: vec![byte] };
        assert_eq!(
            together(vec![forward(1, 1), Expected::OneOf { port: 1, frames: vec![vec![2], vec![3]] }]),
            Expected::OneOf { port: 1, frames: vec![vec![1], vec![2], vec![3]] }
        );
        assert_eq!(together(vec![forward(1, 1), forward(0, 1)]), Expected::Open, "by one port or the other");
        let gone = Expected::Drop(Reason::NoRoute);
        assert_eq!(together(vec![gone.clone(), forward(1, 1)]), Expected::Open);
        assert_eq!(together(vec![gone.clone(), gone.clone()]), gone);
    }

    #[test]
    fn answers_are_known_only_where_nothing_can_have_kept_their_questions() {
        let clear = |nf: &str, place, port| Oracle::new(nf.parse::<Nf>().unwrap()).is_clear(place, port);
        assert!(
            clear("pipeline-a:16+l2fwd+pipeline-d:2", 0, 0)
                && clear("pipeline-a:16+l2fwd+pipeline-d:2", 0, 1)
        );
        assert!(
            !clear("firewall:10+pipeline-a:16+l2fwd", 1, 0) && clear("firewall:10+pipeline-a:16+l2fwd", 1, 1)
        );
    }
}
