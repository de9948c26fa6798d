//! Stages: what a service leaves of what the tables knew of a packet (SoftFlow, section 3.1).

use weir_flow::{Field, HEAD, Key, ONE_STAGE, places};

/// The greatest stage; more is taken for a loop (SoftFlow, section 5.2: a loop detector).
pub(crate) const STAGES: u8 = 64;

/// What a packet's key is when it comes out of a service: one stage on, and nothing left of what the
/// tables knew of it but `sf_metadata`, as if it came in anew (SoftFlow, section 3.1).
#[inline]
pub(crate) fn next_stage(key: &mut Key, service: u16) {
    let stage = Field::SfStage.get(key) + 1;
    Field::SfStage.set(key, stage.min(255));
    Field::SfAction.set(key, u128::from(service));
    if key.present() & BEHIND != 0 {
        forget_stage(key);
    }
}

/// Words behind the key's head that have bits which last for one stage.
const BEHIND: u64 = {
    let (mut words, mut place) = (0, 0);
    while place < ONE_STAGE.len() {
        assert!(place >= HEAD || ONE_STAGE[place] == 0, "the head is not looked at when a stage ends");
        if ONE_STAGE[place] != 0 {
            words |= 1 << place;
        }
        place += 1;
    }
    words
};

#[cold]
fn forget_stage(key: &mut Key) {
    for place in places(BEHIND & key.present()) {
        key.set_bits(place, 0, ONE_STAGE[place]);
    }
}
