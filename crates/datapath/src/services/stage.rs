//! Stages: what a service leaves of what the tables knew of a packet (SoftFlow, section 3.1).

use weir_flow::{Field, Key};

/// The greatest stage; more is taken for a loop (SoftFlow, section 5.2: a loop detector).
pub(crate) const STAGES: u8 = 64;

/// What a packet's key is when it comes out of a service: one stage on, and nothing left of what the
/// tables knew of it but `sf_metadata`, as if it came in anew (SoftFlow, section 3.1).
#[inline]
pub(crate) fn next_stage(key: &mut Key, service: u16) {
    let stage = Field::SfStage.get(key) + 1;
    Field::SfStage.set(key, stage.min(255));
    Field::SfAction.set(key, u128::from(service));
    const BEHIND: u64 = {
        let (mut bits, mut at) = (1 << 22, 0);
        while at < STAGE_LOCAL.len() {
            bits |= 1 << STAGE_LOCAL[at];
            at += 1;
        }
        bits
    };
    if key.present() & BEHIND != 0 {
        forget_stage(key);
    }
}

#[cold]
fn forget_stage(key: &mut Key) {
    for place in STAGE_LOCAL {
        if key.word(place) != 0 {
            key.set_word(place, 0);
        }
    }
    Field::RecircId.set(key, 0);
}

/// Words of the key that last for one stage: metadata, registers, conjunctions.
pub(crate) const STAGE_LOCAL: [usize; 10] = [6, 23, 24, 25, 26, 27, 28, 29, 30, 38];
