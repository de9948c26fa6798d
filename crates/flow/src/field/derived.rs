//! What is made of the table: for each word of a key, bits that have something in common.

use super::span::HIDDEN;
use super::{Field, Source, Span};

/// Words of a key.
pub const WORDS: usize = words(false);

/// Words of a key up to the last that holds something of the packet.
pub const PACKET_WORDS: usize = words(true);

/// The bits of each of the first words that come from the packet; later words have none.
pub const PACKET_BITS: [u64; PACKET_WORDS] = front(Kind::Packet);

/// Those of them that plain packets have all alike.
pub(crate) const IMPLIED: [u64; PACKET_WORDS] = front(Kind::Implied);

/// Those of them that plain packets have and no header mask reads.
pub(crate) const UNREAD: [u64; PACKET_WORDS] = front(Kind::Unread);

/// Those of them that header masks read, and the bit of a plain packet's frame at which each begins.
pub(crate) const READ: [(Span, u16); read_from().1] = *read_from().0.first_chunk().expect("it is as long");

/// Those of them that can be set where they lie: all that actions may write, but what says what follows it.
pub const SETTABLE: [u64; PACKET_WORDS] = front(Kind::Settable);

/// The bits of each word that last for one stage.
pub const ONE_STAGE: [u64; WORDS] = bits(Kind::OneStage);

/// What bits have in common.
#[derive(Clone, Copy)]
enum Kind {
    Any,
    Packet,
    Implied,
    Unread,
    Settable,
    OneStage,
}

const fn is(field: Field, kind: Kind) -> bool {
    let about = field.about();
    match kind {
        Kind::Any => field.is_owner(),
        Kind::Packet => about.source.is_packet(),
        Kind::Implied => matches!(about.source, Source::Implied),
        Kind::Unread => matches!(about.source, Source::Unread),
        Kind::Settable => about.source.is_packet() && about.writable && !about.leads,
        Kind::OneStage => matches!(about.source, Source::OneStage),
    }
}

const fn words(packet: bool) -> usize {
    let (mut words, mut at) = (0, 0);
    while at < Field::ALL.len() {
        let about = Field::ALL[at].about();
        let end = about.word as usize + if about.bits > 64 { 2 } else { 1 };
        if end > words && (!packet || about.source.is_packet()) {
            words = end;
        }
        at += 1;
    }
    let mut at = 0;
    while at < HIDDEN.len() {
        if HIDDEN[at].span.place() >= words {
            words = HIDDEN[at].span.place() + 1;
        }
        at += 1;
    }
    words
}

const fn bits(kind: Kind) -> [u64; WORDS] {
    let mut bits = [0; WORDS];
    let mut at = 0;
    while at < Field::ALL.len() {
        let field = Field::ALL[at];
        if is(field, kind) {
            let place = field.span().place();
            if matches!(kind, Kind::Any) && bits[place] & field.span().mask() != 0 {
                panic!("{}", field.name());
            }
            bits[place] |= field.span().mask();
            if field.about().bits > 64 {
                bits[place + 1] = u64::MAX;
            }
        }
        at += 1;
    }
    let mut at = 0;
    while at < HIDDEN.len() && matches!(kind, Kind::Any | Kind::Packet | Kind::Implied) {
        let span = HIDDEN[at].span;
        if matches!(kind, Kind::Any) && bits[span.place()] & span.mask() != 0 {
            panic!("{}", HIDDEN[at].name);
        }
        bits[span.place()] |= span.mask();
        at += 1;
    }
    bits
}

/// Fields that header masks read, and how many they are.
const fn read_from() -> ([(Span, u16); Field::ALL.len()], usize) {
    let mut read = [(Field::EthDst.span(), 0); Field::ALL.len()];
    let (mut count, mut at) = (0, 0);
    while at < Field::ALL.len() {
        let field = Field::ALL[at];
        if let (Source::At(from), true) = (field.about().source, field.is_owner()) {
            read[count] = (field.span(), from);
            count += 1;
        }
        at += 1;
    }
    (read, count)
}

const fn front(kind: Kind) -> [u64; PACKET_WORDS] {
    *bits(kind).first_chunk().expect("a key is longer than its front")
}

/// No two fields have the same bits, but where the table says so: if this does not compile, it names one that has
/// those of another.
const _: [u64; WORDS] = bits(Kind::Any);
