//! TCP: what each side may send now, and how far the connection is.
//!
//! Why: a filter that looks at flags alone lets anyone inject data or resets into a connection whose
//! ports he guesses. The tracker follows both windows instead (G. van Rooij, "Real Stateful TCP Packet
//! Filtering in IP Filter", 2001). For a segment of side *s* with sequence numbers from `seq` to `end`
//! and acknowledgement `ack`, the other side being *r*:
//!
//! | | rule | in words |
//! |---|---|---|
//! | I | `end ≤ s.max_end` | nothing beyond the window that r ever opened; a FIN alone may stand one behind |
//! | II | `end ≥ s.end − r.max_win − 1` | nothing older than a window, and a keep-alive before it |
//! | III | `ack ≤ r.end` | nothing acknowledged that was never sent |
//! | IV | `ack ≥ r.end − max(s.max_win, 66000)` | no acknowledgement older than a window |
//!
//! Windows are scaled (RFC 7323) if both SYNs said so. A zero window counts as one byte, for probes.
//!
//! Resets and SYNs follow RFC 5961: a reset ends the connection only with exactly the next sequence
//! number; elsewhere in the window it is passed without effect, as the receiver will ask by a challenge
//! ACK; outside it is invalid. A SYN within a connection is passed without effect for the same reason:
//! if it is real, the challenge ACK is answered by an exact reset. The exact number is what the
//! receiver acknowledged last, or the end of what the sender sent.
//!
//! A SYN opens anew what was reset, or what is in TIME-WAIT if its number is greater (RFC 9293, section
//! 3.6.1). Connections that are met in the middle, if that is allowed, get windows as wide as the widest
//! scaling, as theirs is not known.
//!
//! Cost: about thirty cycles for a segment of an established connection. Threads: plain data.

use super::entry::State;
use super::reason::Reason;
use super::segment::flag::{ACK, FIN, RST, SYN, URG};
use super::segment::{MAX_SCALE, Plain, Segment};

/// Acknowledgements may always lag by so many bytes (van Rooij's MAXACKWINDOW).
const ACK_WINDOW: u32 = 66_000;

/// One side: what it sent and may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Peer {
    /// Behind the last byte it sent; SYN and FIN count as one each.
    end: u32,
    /// Behind the last byte the other side ever allowed.
    max_end: u32,
    /// The widest window it advertised, scaled, in bytes.
    max_win: u32,
    /// What it acknowledged. Before it did: the other side's initial sequence number.
    max_ack: u32,
}

/// Its SYN was seen, or it was met in the middle.
const SENT_SYN: u8 = 1;
/// Its SYN is acknowledged.
const SYN_ACKED: u8 = 1 << 1;
/// It sent a FIN.
const SENT_FIN: u8 = 1 << 2;
/// Its FIN is acknowledged.
const FIN_ACKED: u8 = 1 << 3;
/// Its SYN offered window scaling.
const SCALES: u8 = 1 << 4;
/// Its SYN permitted selective acknowledgements (RFC 2018).
const SACKS: u8 = 1 << 5;
/// Met in the middle.
const MIDDLE: u8 = 1 << 6;
/// Side 1 only: it answered a SYN by an acknowledgement of something else; `max_end` holds which.
const CHALLENGED: u8 = 1 << 7;

/// Both sides, the originator first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tcp {
    peers: [Peer; 2],
    flags: [u8; 2],
    /// Window scaling: the originator's in the low four bits, the responder's in the high ones.
    scale: u8,
    /// How far the connection is. Other protocols have nothing but this.
    pub(super) state: State,
}

/// What a valid segment does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The connection is in this state now, and its timeout starts anew.
    Lives(State),
    /// It passes but changes nothing: whoever receives it will challenge it.
    Passes,
    /// The connection is over and a new one begins with this segment.
    Reopens,
}

/// Whether a ≤ b, in sequence space.
#[inline]
const fn up_to(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) as i32 >= 0
}

#[inline]
const fn later(a: u32, b: u32) -> u32 {
    if up_to(a, b) { b } else { a }
}

impl Tcp {
    /// A connection of another protocol.
    pub(super) fn only(state: State) -> Self {
        Self { peers: [Peer::default(); 2], flags: [0; 2], scale: 0, state }
    }

    /// A connection that begins with this segment.
    pub(super) fn open(segment: &Segment, loose: bool) -> Result<Self, Reason> {
        let mut tcp = Self::only(State::SynSent);
        if segment.flags & !URG == SYN {
            tcp.begin(0, segment);
            return Ok(tcp);
        }
        if segment.flags & !URG != ACK || !loose {
            return Err(Reason::NotOpening);
        }
        let widest = u32::from(u16::MAX) << MAX_SCALE;
        let window = u32::from(segment.window.max(1)) << MAX_SCALE;
        let end = segment.end();
        tcp.flags = [SENT_SYN | SYN_ACKED | SCALES | MIDDLE, SCALES];
        tcp.scale = MAX_SCALE << 4 | MAX_SCALE;
        let sent = Peer { end, max_end: end.wrapping_add(widest), max_win: window, max_ack: segment.ack };
        let max_end = segment.ack.wrapping_add(window);
        let answers = Peer { end: segment.ack, max_end, max_win: widest, max_ack: segment.seq };
        tcp.peers = [sent, answers];
        tcp.state = State::Established;
        Ok(tcp)
    }

    #[inline]
    const fn scale_of(&self, side: usize) -> u8 {
        self.scale >> (4 * side) & 0x0f
    }

    /// A side's SYN.
    fn begin(&mut self, side: usize, syn: &Segment) {
        let other = self.peers[1 - side];
        let end = syn.end();
        let open = if self.flags[1 - side] & SENT_SYN == 0 {
            end
        } else {
            syn.seq.wrapping_add(1).wrapping_add(other.max_win)
        };
        self.peers[side] = Peer {
            end,
            max_end: later(end, open),
            max_win: u32::from(syn.window.max(1)),
            max_ack: self.peers[side].max_ack,
        };
        self.peers[1 - side].max_ack = syn.seq;
        self.flags[side] =
            SENT_SYN | if syn.scale.is_some() { SCALES } else { 0 } | if syn.sack { SACKS } else { 0 };
        let shift = 4 * side;
        self.scale = self.scale & !(0x0f << shift) | syn.scale.unwrap_or(0) << shift;
    }

    /// What a segment of this side does, or why it is invalid.
    #[inline(always)]
    pub(super) fn step(&mut self, side: usize, segment: &Segment) -> Result<Step, Reason> {
        let state = self.state;
        if segment.flags & (SYN | RST) != 0 {
            return self.rare(side, segment, state);
        }
        if state == State::SynSent {
            return self.challenge(side, segment);
        }
        if self.flags[side] & SENT_SYN == 0 {
            self.flags[side] |= SENT_SYN | SYN_ACKED;
        }
        self.advance(side, segment, state)
    }

    /// SYNs and resets.
    #[inline(never)]
    fn rare(&mut self, side: usize, segment: &Segment, state: State) -> Result<Step, Reason> {
        match (segment.has(SYN), segment.has(ACK)) {
            (false, _) => self.reset(side, segment, state),
            (true, false) => Ok(self.syn(side, segment, state)),
            (true, true) => self.syn_ack(side, segment, state),
        }
    }

    /// The one who got a SYN answers by acknowledging something else, as it believes in an old
    /// connection. That passes: the answer to it is a reset that clears the way.
    fn challenge(&mut self, side: usize, segment: &Segment) -> Result<Step, Reason> {
        if side == 0 || segment.flags & FIN != 0 || segment.length > 0 {
            return Err(Reason::Handshake);
        }
        self.flags[1] |= CHALLENGED;
        self.peers[1].max_end = segment.ack;
        Ok(Step::Passes)
    }

    fn syn(&mut self, side: usize, segment: &Segment, state: State) -> Step {
        match (state, side) {
            (State::SynSent, 0) => {
                // Again, or another attempt: nobody answered yet, so there is nothing to protect.
                self.flags[1] = 0;
                self.begin(0, segment);
                Step::Lives(State::SynSent)
            }
            (State::SynSent, _) => {
                self.begin(1, segment);
                Step::Lives(State::SynReceived)
            }
            (State::Closed, _) => Step::Reopens,
            (State::TimeWait, _) if !up_to(segment.seq, self.peers[side].end) => Step::Reopens,
            _ => Step::Passes,
        }
    }

    fn syn_ack(&mut self, side: usize, segment: &Segment, state: State) -> Result<Step, Reason> {
        let answered = self.flags[1] & (SENT_SYN | SYN_ACKED);
        let first = side == 1 && state == State::SynSent;
        // A SYN cookie may change between two answers (RFC 4987, section 3.6).
        let again = side == 1
            && state == State::SynReceived
            && answered == SENT_SYN
            && self.peers[0].max_ack != segment.seq;
        if first || again {
            let initial = if self.flags[0] & SYN_ACKED == 0 {
                self.peers[1].max_ack
            } else {
                self.peers[1].max_ack.wrapping_sub(1)
            };
            if up_to(segment.ack, initial) || !up_to(segment.ack, self.peers[0].end) {
                return Err(Reason::Handshake);
            }
            self.begin(1, segment);
            self.peers[1].max_ack = initial;
            self.acknowledge(1, segment.ack, self.peers[1].max_win);
            return Ok(Step::Lives(State::SynReceived));
        }
        if state == State::SynSent {
            return Err(Reason::Handshake);
        }
        if state == State::SynReceived {
            return self.advance(side, segment, state);
        }
        self.check(side, segment).map(|()| Step::Passes)
    }

    fn reset(&mut self, side: usize, segment: &Segment, state: State) -> Result<Step, Reason> {
        let closes = Ok(Step::Lives(State::Closed));
        let [originator, responder] = &self.peers;
        if state == State::SynSent {
            let acknowledges = segment.has(ACK)
                && up_to(segment.ack, originator.end)
                && !up_to(segment.ack, responder.max_ack);
            let clears = self.flags[1] & CHALLENGED != 0 && segment.seq == responder.max_end;
            return match side {
                1 if acknowledges => closes,
                0 if segment.seq == originator.end => closes,
                0 if clears => Ok(Step::Passes),
                _ => Err(Reason::Reset),
            };
        }
        let (sender, receiver) = (&self.peers[side], &self.peers[1 - side]);
        let acked = self.flags[side] & SYN_ACKED != 0;
        if segment.seq == sender.end || acked && segment.seq == receiver.max_ack {
            return closes;
        }
        let lowest = if acked { receiver.max_ack } else { sender.end.wrapping_sub(receiver.max_win) };
        if up_to(lowest, segment.seq) && up_to(segment.seq, sender.max_end) {
            return Ok(Step::Passes);
        }
        Err(Reason::Reset)
    }

    /// Van Rooij's rules.
    #[inline(always)]
    fn check(&self, side: usize, segment: &Segment) -> Result<(), Reason> {
        let (sender, receiver) = (&self.peers[side], &self.peers[1 - side]);
        let end = segment.end();
        // A FIN that stands alone behind the window is nothing that anyone has to hold.
        let data_end = segment.seq.wrapping_add(segment.length);
        let finished = self.flags[side] & SENT_FIN != 0;
        let middle = (self.flags[0] | self.flags[1]) & MIDDLE != 0;
        let sent = if middle { later(receiver.end, receiver.max_end) } else { receiver.end };
        if !up_to(data_end, sender.max_end) || finished && !up_to(end, sender.end) {
            Err(Reason::SeqAbove)
        } else if !up_to(sender.end.wrapping_sub(receiver.max_win + 1), end) {
            Err(Reason::SeqBelow)
        } else if !up_to(segment.ack, sent) {
            Err(Reason::AckAbove)
        } else if !up_to(receiver.end.wrapping_sub(sender.max_win.max(ACK_WINDOW)), segment.ack) {
            Err(Reason::AckBelow)
        } else {
            Ok(())
        }
    }

    /// A segment with ACK, without RST, of a side that was heard before.
    #[inline(always)]
    fn advance(&mut self, side: usize, segment: &Segment, state: State) -> Result<Step, Reason> {
        self.check(side, segment)?;
        let scales = self.flags[0] & self.flags[1] & SCALES != 0 && !segment.has(SYN);
        let window = u32::from(segment.window) << if scales { self.scale_of(side) } else { 0 };
        let sender = &mut self.peers[side];
        sender.end = later(sender.end, segment.end());
        sender.max_win = sender.max_win.max(window);
        if segment.has(FIN) {
            self.flags[side] |= SENT_FIN;
        }
        self.acknowledge(side, segment.ack, window);
        Ok(Step::Lives(if state == State::Closed { state } else { self.derived_state() }))
    }

    /// This side acknowledges, and opens its window behind that.
    #[inline(always)]
    fn acknowledge(&mut self, side: usize, ack: u32, window: u32) {
        let other = 1 - side;
        let newer = !up_to(ack, self.peers[side].max_ack);
        if newer {
            self.peers[side].max_ack = ack;
            self.flags[other] |= SYN_ACKED;
        }
        let open = ack.wrapping_add(window.max(1));
        let sender = &mut self.peers[other];
        sender.max_end = later(sender.max_end, open);
        // Only for connections met in the middle can more be acknowledged than was seen.
        sender.end = later(sender.end, ack);
        if self.flags[other] & (SENT_FIN | FIN_ACKED) == SENT_FIN && ack == sender.end {
            self.flags[other] |= FIN_ACKED;
        }
    }

    #[inline(always)]
    fn derived_state(&self) -> State {
        let either = self.flags[0] | self.flags[1];
        let both = self.flags[0] & self.flags[1];
        if either & SENT_FIN == 0 {
            let open = both & SYN_ACKED != 0 || either & MIDDLE != 0;
            return if open { State::Established } else { State::SynReceived };
        }
        match (both & SENT_FIN != 0, both & FIN_ACKED != 0, either & FIN_ACKED != 0) {
            (true, true, _) => State::TimeWait,
            (true, false, _) => State::LastAck,
            (false, _, true) => State::CloseWait,
            (false, _, false) => State::FinWait,
        }
    }

    /// Whether the connection is open and nothing unusual: both SYNs are acknowledged, no FIN was sent,
    /// and it was not met in the middle.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        const LOOKED_AT: u16 = (SENT_SYN | SYN_ACKED | SENT_FIN | FIN_ACKED | MIDDLE) as u16 * 0x0101;
        const PLAIN: u16 = (SENT_SYN | SYN_ACKED) as u16 * 0x0101;
        self.state == State::Established && u16::from_ne_bytes(self.flags) & LOOKED_AT == PLAIN
    }

    /// What [`Self::step`] does with a segment with ACK and no other flag, of a plain connection: nothing,
    /// and false, if it is invalid. Without branches but that one.
    #[inline(always)]
    pub(super) fn step_plain(&mut self, side: usize, segment: &Plain) -> bool {
        let scales = self.flags[0] & self.flags[1] & SCALES != 0;
        let window = u32::from(segment.window) << if scales { self.scale_of(side) } else { 0 };
        let [first, second] = &mut self.peers;
        let (sender, receiver) = if side == 0 { (first, second) } else { (second, first) };
        let (end, ack) = (segment.seq.wrapping_add(segment.length), segment.ack);
        let within = up_to(end, sender.max_end)
            & up_to(sender.end.wrapping_sub(receiver.max_win + 1), end)
            & up_to(ack, receiver.end)
            & up_to(receiver.end.wrapping_sub(sender.max_win.max(ACK_WINDOW)), ack);
        if !within {
            return false;
        }
        sender.end = later(sender.end, end);
        sender.max_win = sender.max_win.max(window);
        sender.max_ack = if up_to(ack, sender.max_ack) { sender.max_ack } else { ack };
        receiver.max_end = later(receiver.max_end, ack.wrapping_add(window.max(1)));
        true
    }

    /// Whether a side waits for something to be acknowledged.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.peers[0].end != self.peers[1].max_ack || self.peers[1].end != self.peers[0].max_ack
    }

    /// Whether an ICMP error may be about a segment of this side with this sequence number: only what
    /// was sent within the last window can be on its way (RFC 5927, section 4.1).
    pub(super) fn may_be_on_its_way(&self, side: usize, seq: u32) -> bool {
        let (sender, receiver) = (&self.peers[side], &self.peers[1 - side]);
        let oldest = sender.end.wrapping_sub(receiver.max_win.max(ACK_WINDOW));
        up_to(oldest, seq) && up_to(seq, sender.end)
    }

    /// Whether a side may send so many bytes of data in this segment: no more than its window has room for.
    pub(super) fn may_send(&self, side: usize, segment: &Segment, bytes: u32) -> bool {
        let syn = u32::from(segment.has(SYN));
        up_to(segment.seq.wrapping_add(syn).wrapping_add(bytes), self.peers[side].max_end)
    }

    /// What `dump` tells of it: for each side the scaling and whether it takes selective
    /// acknowledgements.
    pub(super) fn options(&self) -> [(Option<u8>, bool); 2] {
        std::array::from_fn(|side| {
            let flags = self.flags[side];
            let scale = flags & (SCALES | MIDDLE) == SCALES && self.flags[0] & MIDDLE == 0;
            (scale.then_some(self.scale_of(side)), flags & SACKS != 0)
        })
    }
}
