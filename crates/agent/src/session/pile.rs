//! Messages that are kept for later, as bytes: a tenth of what they are decoded, and freed at once.

use crate::channel::Held;
use weir_codec::{Message, decode, encode, frame};

/// Bytes of a piece from the second one on.
const PIECE: usize = 1 << 20;

/// The messages, and what counts their bytes as the controller's that sent them.
pub(super) struct Pile {
    pieces: Vec<Vec<u8>>,
    count: usize,
    held: Held,
}

impl Pile {
    pub(super) const fn new(held: Held) -> Self {
        Self { pieces: Vec::new(), count: 0, held }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Keeps a message behind the others; false if the controller may have the switch hold no more.
    pub(super) fn push(&mut self, message: &Message) -> bool {
        let full = |piece: &Vec<u8>| piece.len() + weir_codec::LONGEST > PIECE;
        if self.pieces.last().is_none_or(full) {
            let room = if self.pieces.is_empty() { 0 } else { PIECE };
            self.pieces.push(Vec::with_capacity(room));
        }
        let Some(piece) = self.pieces.last_mut() else { return false };
        let start = piece.len();
        let kept = encode(message, piece).is_ok() && self.held.add(piece.len() - start);
        if kept {
            self.count += 1
        } else {
            piece.truncate(start)
        }
        kept
    }

    /// The messages, decoded one after the other.
    pub(super) fn iter(&self) -> impl Iterator<Item = Message> {
        self.pieces.iter().flat_map(|piece| {
            let mut rest = piece.as_slice();
            std::iter::from_fn(move || {
                let message = frame(rest).ok().flatten()?;
                rest = &rest[message.len()..];
                // It was written here.
                decode(message).ok()
            })
        })
    }
}
