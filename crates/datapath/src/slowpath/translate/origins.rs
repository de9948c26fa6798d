//! How the bits of a packet, as it is now, depend on the packet as it came to the caches.
//!
//! A bit is as it came; or it is *fixed*, the same for every packet of the megaflow, because an action wrote
//! it; or its field was *lowered*: then each of its bits depends on all that the field had of the packet,
//! as the borrow goes through them; or it is the packet's *own*: a service may have changed it for this packet
//! alone, or a header that came to light holds it, and there is nothing to know it by but the bit itself.

use weir_flow::{Field, Mask, ONE_STAGE, PACKET_BITS};

/// Where each bit's value comes from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    fixed: Mask,
    /// Fields that were lowered.
    lowered: Mask,
    /// The bits as they came on which these depend.
    sources: Mask,
    /// Bits that services may have changed.
    own: Mask,
}

/// Bits of a word on which others depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sources {
    /// Of the packet as it came to the caches.
    pub(super) came: u64,
    /// Of the packet as it was when this stage began.
    pub(super) own: u64,
}

impl Origins {
    /// Bits of a word are the same for every packet from now on.
    pub(super) fn fix(&mut self, place: usize, bits: u64) {
        self.fixed.add(place, bits);
    }

    /// Bits that are the same for every packet.
    pub(super) fn fixed(&self) -> &Mask {
        &self.fixed
    }

    /// A field is lowered, from what it is now.
    pub(super) fn lower(&mut self, field: Field) {
        for (place, _, bits) in field.spread(0, u128::MAX) {
            let free = bits & !self.fixed.word(place);
            if free != 0 {
                // Bits that were fixed take part in the borrow: they are not any more.
                self.fixed.remove(place, bits);
                self.lowered.add(place, bits);
                self.sources.add(place, free);
            }
        }
    }

    /// What bits of a word depend on.
    pub(super) fn of(&self, place: usize, bits: u64) -> Sources {
        let free = bits & !self.fixed.word(place);
        let lowered = free & self.lowered.word(place) != 0;
        let sources = if lowered { free | self.sources.word(place) } else { free };
        let own = sources & self.own.word(place);
        Sources { came: sources & !own, own }
    }

    /// The same when a stage behind a service begins: all that starts anew with a stage is fixed, and
    /// what the service may have changed is the packet's own.
    pub(crate) fn next_stage(&self, rewrites: &Mask) -> Self {
        let mut next = self.clone();
        for field in [Field::SfStage, Field::SfAction] {
            field.examine(&mut next.fixed, u128::MAX);
        }
        for (place, bits) in ONE_STAGE.into_iter().enumerate() {
            next.fixed.add(place, bits);
        }
        next.takes(rewrites);
        next
    }

    /// Bits that a service may have changed are the packet's own.
    fn takes(&mut self, rewrites: &Mask) {
        // What was lowered from the packet's own is its own, too.
        for (place, bits) in self.lowered.clone().iter() {
            if self.sources.word(place) & self.own.word(place) != 0 {
                self.own.add(place, bits);
                self.lowered.remove(place, bits);
            }
        }
        self.disown(rewrites.iter());
    }

    /// The same behind `ct`, which begins no stage: registers and the like go on. `fixed` is the same for
    /// every packet.
    pub(super) fn tracked(&self, rewrites: &Mask, fixed: &Mask) -> Self {
        let mut next = self.clone();
        Field::RecircId.examine(&mut next.fixed, u128::MAX);
        next.takes(rewrites);
        for (place, bits) in fixed.iter() {
            next.own.remove(place, bits);
            next.fixed.add(place, bits);
        }
        next
    }

    /// Headers came to light that the packet's key did not have: from the next stage on, all that headers say is
    /// the packet's own.
    pub(super) fn show(&mut self) {
        self.disown(PACKET_BITS.into_iter().enumerate());
    }

    /// Bits of words are the packet's own.
    fn disown(&mut self, words: impl Iterator<Item = (usize, u64)>) {
        for (place, bits) in words {
            self.fixed.remove(place, bits);
            self.lowered.remove(place, bits);
            self.own.add(place, bits);
        }
    }

    /// Words that hold anything that is not as it came, one bit each.
    pub(crate) fn rewritten(&self) -> u64 {
        self.fixed.present() | self.lowered.present() | self.own.present()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::span::TTL;

    /// The bits of the time to live on which bits of it depend.
    fn ttl(origins: &Origins, bits: u64) -> u64 {
        TTL.of(origins.of(TTL.place(), TTL.put(bits)).came)
    }

    fn fixed(bits: u64) -> Origins {
        let mut origins = Origins::default();
        origins.fix(TTL.place(), TTL.put(bits));
        origins
    }

    #[test]
    fn a_bit_of_a_lowered_field_depends_on_all_that_the_field_had_of_the_packet() {
        let mut origins = Origins::default();
        assert_eq!(ttl(&origins, 0x80), 0x80);
        origins.lower(Field::NwTtl);
        assert_eq!(ttl(&origins, 0x80), 0xff);
        origins.fix(TTL.place(), TTL.put(0x26));
        assert_eq!(ttl(&origins, 0x81), 0xff, "also on bits that were written since");
        assert_eq!(ttl(&origins, 0x22), 0);
        origins.lower(Field::NwTtl);
        assert_eq!(ttl(&origins, 0x02), 0xff, "the borrow goes through what was written");
    }

    #[test]
    fn a_field_that_is_lowered_after_it_was_written_depends_on_the_rest_of_it_alone() {
        let mut origins = fixed(0xf0);
        origins.lower(Field::NwTtl);
        assert_eq!(ttl(&origins, 0x80), 0x8f);
        let mut origins = fixed(0xff);
        origins.lower(Field::NwTtl);
        assert_eq!(ttl(&origins, 0xff), 0);
    }

    #[test]
    fn behind_a_service_what_was_lowered_still_depends_on_the_packet_as_it_came() {
        let mut origins = Origins::default();
        origins.lower(Field::NwTtl);
        let mut rewrites = Mask::new();
        assert_eq!(ttl(&origins.next_stage(&rewrites), 1), 0xff);
        assert_eq!(origins.rewritten(), 1 << 4);
        Field::NwTtl.examine(&mut rewrites, u128::MAX);
        let own = Sources { came: 0, own: 1 << 40 };
        let behind = origins.next_stage(&rewrites);
        assert_eq!(behind.of(4, 1 << 40), own, "the service may have written it");
        assert_eq!(behind.rewritten() >> 4 & 1, 1, "it is not as it came");
    }

    #[test]
    fn what_a_service_changed_is_the_packets_own_behind_all_later_services_too() {
        let mut rewrites = Mask::new();
        Field::NwTtl.examine(&mut rewrites, u128::MAX);
        let mut origins = Origins::default().next_stage(&rewrites);
        let own = |bits: u64| Sources { came: 0, own: bits << 40 };
        assert_eq!(origins.next_stage(&Mask::new()).of(4, 1 << 40), own(1));
        origins.lower(Field::NwTtl);
        assert_eq!(origins.of(4, 1 << 40), own(0xff), "as it was when the stage began");
        assert_eq!(origins.next_stage(&Mask::new()).of(4, 1 << 40), own(1), "as it is, lowered");
        origins.fix(4, 1 << 40);
        assert_eq!(origins.next_stage(&Mask::new()).of(4, 1 << 40), own(0), "written since");
    }
}
