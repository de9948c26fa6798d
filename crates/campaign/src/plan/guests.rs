//! What the guests of a plan's points are: the axes `vcpus`, `memory` and `accel`, of deployment `vm`.

use super::check::{Checker, Placed};
use super::text::List;
use super::{AXES, Axis};
use toml::Spanned;
use weir_trial::{Accel, Guest};

/// Most processors of a guest.
const MOST_VCPUS: u32 = 64;

/// The memory that a guest may be given, in MiB: from what no kernel boots in to more than machines have.
const MEMORY: std::ops::RangeInclusive<u32> = 16..=1 << 24;

/// The axes as the file has them.
pub(super) struct GuestAxes {
    pub(super) vcpus: Option<Spanned<List<u32>>>,
    pub(super) memory: Option<Spanned<List<u32>>>,
    pub(super) accel: Option<Spanned<List<String>>>,
}

/// The axes of guests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Guests {
    pub(super) vcpus: Vec<u32>,
    pub(super) memory: Vec<u32>,
    pub(super) accel: Vec<Accel>,
}

impl Guests {
    /// The guest at these places of the axes, where there is one; nothing at all where there is none, and the point is
    /// the same as one before.
    pub(super) fn at(&self, place: &[usize; AXES], has_guests: bool) -> Option<Option<Guest>> {
        let [vcpus, memory, accel] =
            [Axis::Vcpus, Axis::Memory, Axis::Accel].map(|axis| place[axis as usize]);
        if !has_guests {
            return (vcpus + memory + accel == 0).then_some(None);
        }
        let guest = Guest { vcpus: self.vcpus[vcpus], memory: self.memory[memory], accel: self.accel[accel] };
        Some(Some(guest))
    }
}

impl Checker<'_> {
    /// The axes of guests.
    pub(super) fn guests(&mut self, axes: GuestAxes, has_guests: bool) -> Guests {
        let GuestAxes { vcpus, memory, accel } = axes;
        let spans = [
            ("vcpus", vcpus.as_ref().map(Spanned::span)),
            ("memory", memory.as_ref().map(Spanned::span)),
            ("accel", accel.as_ref().map(Spanned::span)),
        ];
        for (key, span) in spans {
            if let Some(span) = span.filter(|_| !has_guests) {
                self.refuse(
                    &span,
                    format!("`{key}` is said of guests; add deployment `vm`, or leave it out"),
                );
            }
        }
        let accel = self.words("accel", accel, &Accel::ALL.map(Accel::name), Accel::Kvm);
        let vcpus = self.numbers(("vcpus", "processors"), vcpus, 1..=MOST_VCPUS, Guest::VCPUS);
        let memory = self.numbers(("memory", "MiB"), memory, MEMORY, Guest::MEMORY);
        Guests { vcpus, memory, accel }
    }

    /// An axis of numbers within bounds.
    fn numbers(
        &mut self,
        (key, unit): (&str, &str),
        list: Option<Spanned<List<u32>>>,
        bounds: std::ops::RangeInclusive<u32>,
        default: u32,
    ) -> Vec<u32> {
        let Some(list) = list else { return vec![default] };
        let (mut found, (least, most)) = (Vec::new(), (bounds.start(), bounds.end()));
        let axis: Vec<Placed<u32>> = self.axis(key, list);
        for (span, number) in axis {
            if bounds.contains(&number) {
                found.push(number);
            } else {
                self.refuse(&span, format!("`{key}`: {number} is outside of {least} to {most} {unit}"));
            }
        }
        if found.is_empty() { vec![default] } else { found }
    }
}
