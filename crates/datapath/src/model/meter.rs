//! Meters: policing by rate (OpenFlow 1.3.5, section 5.7).
//!
//! Each band is a virtual-scheduling meter (the generic cell rate algorithm, ITU-T I.371): one number,
//! the time up to which what has passed is paid for. All workers share it and change it by compare and
//! swap, so that a meter means the same for one worker or ten; only packets that meet a meter pay for
//! that. `crates/models` has this very file, and goes through all orders of two workers' steps.

use crate::model::atomics::{AtomicU64, Ordering};
use weir_openflow::{BandKind, Meter, MeterUnit};
use weir_units::Nanos;

/// A nanosecond is so many parts.
const PARTS: u64 = 256;

/// A meter's state.
#[derive(Debug)]
pub(crate) struct MeterState {
    bands: Vec<BandState>,
    unit: MeterUnit,
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

#[derive(Debug)]
struct BandState {
    /// Its place among the meter's bands.
    place: usize,
    kind: BandKind,
    rate: u32,
    /// What one bit or one packet costs, in parts of a nanosecond.
    cost: u64,
    /// How far ahead the paid-for time may be, in the same.
    burst: u64,
    paid: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// What a meter says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metered {
    /// It passes.
    Pass,
    /// It is dropped.
    Drop,
    /// Its drop precedence is raised by so many levels.
    Remark(u8),
}

impl MeterState {
    /// The state of a meter that nothing has passed yet.
    pub(crate) fn new(meter: &Meter) -> Self {
        let bands = meter.bands.iter().enumerate().map(|(place, band)| {
            // Rates count packets, or thousand bits.
            let per_second = match meter.unit {
                MeterUnit::PacketsPerSecond => u64::from(band.rate),
                MeterUnit::KilobitsPerSecond => u64::from(band.rate) * 1000,
            };
            let cost = (Nanos::PER_SECOND * PARTS).checked_div(per_second).unwrap_or(0);
            // Without a burst size, one second of the rate.
            let seconds = if meter.burst && band.burst > 0 && band.rate > 0 {
                f64::from(band.burst) / f64::from(band.rate)
            } else {
                1.0
            };
            BandState {
                place,
                kind: band.kind,
                rate: band.rate,
                cost,
                burst: (seconds * (Nanos::PER_SECOND * PARTS) as f64) as u64,
                paid: AtomicU64::new(0),
                packets: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
            }
        });
        let mut bands: Vec<BandState> = bands.collect();
        bands.sort_by_key(|band| std::cmp::Reverse(band.rate));
        Self { bands, unit: meter.unit, packets: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// What each band acted on: packets and bytes, in the order of the meter's bands.
    pub(crate) fn bands(&self) -> Vec<(u64, u64)> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut bands: Vec<&BandState> = self.bands.iter().collect();
        bands.sort_by_key(|band| band.place);
        bands.into_iter().map(|band| (read(&band.packets), read(&band.bytes))).collect()
    }

    /// Counts a packet and says what becomes of it: of the bands that it exceeds, that of the highest
    /// rate acts.
    pub(crate) fn pass(&self, bytes: usize, now: Nanos) -> Metered {
        let amount = match self.unit {
            MeterUnit::PacketsPerSecond => 1,
            MeterUnit::KilobitsPerSecond => bytes as u64 * 8,
        };
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut acting = None;
        for band in &self.bands {
            if !band.conforms(amount, now) && acting.is_none() {
                acting = Some(band);
            }
        }
        let Some(band) = acting else { return Metered::Pass };
        band.packets.fetch_add(1, Ordering::Relaxed);
        band.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        match band.kind {
            BandKind::Drop => Metered::Drop,
            BandKind::DscpRemark(levels) => Metered::Remark(levels),
        }
    }
}

impl BandState {
    /// Pays for a packet, if its time has come.
    fn conforms(&self, amount: u64, now: Nanos) -> bool {
        if self.rate == 0 {
            return false;
        }
        let now = now.0.saturating_mul(PARTS);
        let cost = self.cost.saturating_mul(amount);
        let pay = |paid: u64| {
            let start = paid.max(now);
            (start - now <= self.burst.saturating_sub(cost.min(self.burst)))
                .then(|| start.saturating_add(cost))
        };
        self.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).is_ok()
    }
}

/// The DSCP of a packet whose drop precedence is raised: classes AF1 to AF4 have three levels (RFC 2597);
/// others have none and stay.
pub(crate) fn remark(dscp: u8, levels: u8) -> u8 {
    let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
    if dscp & 1 == 1 || !(1..=4).contains(&class) || precedence == 0 {
        return dscp;
    }
    class << 3 | precedence.saturating_add(levels).min(3) << 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_openflow::{Band, MeterId};

    fn meter(unit: MeterUnit, rate: u32, burst: u32) -> MeterState {
        let band = Band { kind: BandKind::Drop, rate, burst };
        MeterState::new(&Meter { id: MeterId(1), unit, burst: true, stats: true, bands: vec![band] })
    }

    /// Packets that pass when one of this many bytes comes each microsecond for a second.
    fn passing(state: &MeterState, bytes: usize) -> u32 {
        let passes = |time: &u64| state.pass(bytes, Nanos(5_000_000_000 + time * 1000)) == Metered::Pass;
        (0..1_000_000).filter(passes).count() as u32
    }

    #[test]
    fn a_meter_lets_its_rate_and_one_burst_pass() {
        let packets = passing(&meter(MeterUnit::PacketsPerSecond, 10_000, 100), 64);
        assert!((10_090..=10_110).contains(&packets), "{packets}");
        // 8 Mb/s in packets of 1000 bits, and a burst of 800 kb.
        let packets = passing(&meter(MeterUnit::KilobitsPerSecond, 8_000, 800), 125);
        assert!((8_790..=8_810).contains(&packets), "{packets}");
    }

    #[test]
    fn a_rate_of_zero_lets_nothing_pass() {
        assert_eq!(passing(&meter(MeterUnit::PacketsPerSecond, 0, 0), 64), 0);
    }

    #[test]
    fn of_the_bands_exceeded_that_of_the_highest_rate_acts() {
        let band = |kind, rate| Band { kind, rate, burst: 1 };
        let bands = vec![band(BandKind::DscpRemark(1), 10), band(BandKind::Drop, 1000)];
        let unit = MeterUnit::PacketsPerSecond;
        let state = MeterState::new(&Meter { id: MeterId(1), unit, burst: true, stats: true, bands });
        let at = |ms: u64| state.pass(64, Nanos(ms * 1_000_000));
        assert_eq!((at(1000), at(1002), at(1002)), (Metered::Pass, Metered::Remark(1), Metered::Drop));
        assert_eq!(state.bands(), [(1, 64), (1, 64)], "each at its place");
    }

    #[test]
    fn drop_precedence_rises_to_the_third_level_in_assured_forwarding_only() {
        assert_eq!((remark(10, 1), remark(10, 2), remark(14, 1), remark(34, 1)), (12, 14, 14, 36));
        assert_eq!((remark(0, 1), remark(46, 1), remark(8, 2)), (0, 46, 8));
    }
}
