//! Frame sizes: one for all, or a mix.
//!
//! All sizes count the 4-byte FCS. A mix is a distribution given by its quantiles; a lap of `n`
//! packets takes the quantiles `(k + ½)/n`, shuffled by the seed, so that every lap has the exact
//! shares and two laps of one seed are equal.
//!
//! - `imix`: 64, 570 and 1518 B in proportion 7 : 4 : 1, the simple IMIX, mean 353.8 B. The FD.io CSIT
//!   project states the same mix as 28 : 16 : 4 (`IMIX_v4_1`).
//! - `web`: packets of a data-centre web cluster. Both editions of *Benchmarking NFV Software
//!   Dataplanes* (section 4.1) sample them from Roy et al., *Inside the Social Network's
//!   (Datacenter) Network*, SIGCOMM 2015, section 6, and say three things: the median is about 120 B,
//!   most packets are below 256 B, and 10 Gb/s of them carried 8.662 Mpps, which with 20 B of wire
//!   overhead each is a mean of 124 B at most. The raw trace is not public, so `web` is the
//!   piecewise uniform distribution [`WEB_PIECES`] that meets all three. It has far fewer full-size
//!   frames than other services of the same network, and is not meant for them.
//! - `gateway`: a network virtualization gateway's: SoftFlow (section 7.1) says of its T1 that the mean is
//!   937 B, and nothing else. 64 and 1518 B in proportion 2 : 3, mean 936.4 B, as the trace `t1` has them.

use super::TraceError;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use weir_units::FrameSize;

/// Sizes (bytes with FCS) and weights of the simple IMIX.
pub const IMIX_WEIGHTS: [(u16, u32); 3] = [(64, 7), (570, 4), (1518, 1)];

/// The web cluster's sizes: share of packets, then the least and greatest size in bytes with FCS,
/// uniform between the two.
pub const WEB_PIECES: [(f64, u16, u16); 6] = [
    (0.28, 64, 80),
    (0.22, 81, 119),
    (0.36, 120, 150),
    (0.134, 151, 255),
    (0.003, 256, 1023),
    (0.003, 1518, 1518),
];

/// Sizes (bytes with FCS) and weights of the gateway's mix.
pub const GATEWAY_WEIGHTS: ((u16, u32), (u16, u32)) = ((64, 2), (1518, 3));

/// The sizes of a trace's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum Sizes {
    /// All alike.
    Fixed(FrameSize),
    /// 7 : 4 : 1 of 64, 570 and 1518 B.
    Imix,
    /// A data-centre web cluster.
    Web,
    /// A network virtualization gateway: 2 : 3 of 64 and 1518 B.
    Gateway,
    /// As the trace or capture has them.
    Recorded,
}

impl Sizes {
    /// The sizes for which NFPA has its traces (section II.B).
    pub const NFPA: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1500];

    /// The smallest frame.
    pub const SMALLEST: Self = Self::Fixed(FrameSize::MIN);

    /// Whether frames may differ in size.
    pub const fn is_mixed(self) -> bool {
        !matches!(self, Self::Fixed(_))
    }

    /// The size that a share `u` (0 to 1) of the packets does not exceed, roughly.
    fn quantile(self, u: f64) -> u16 {
        match self {
            Self::Fixed(size) => size.bytes(),
            Self::Imix => {
                let total: u32 = IMIX_WEIGHTS.iter().map(|(_, weight)| weight).sum();
                let mut left = u * f64::from(total);
                for (size, weight) in IMIX_WEIGHTS {
                    if left < f64::from(weight) {
                        return size;
                    }
                    left -= f64::from(weight);
                }
                IMIX_WEIGHTS[IMIX_WEIGHTS.len() - 1].0
            }
            Self::Web => {
                let mut left = u;
                for (share, least, greatest) in WEB_PIECES {
                    if left < share {
                        let span = f64::from(greatest - least + 1);
                        return (least + (left / share * span) as u16).min(greatest);
                    }
                    left -= share;
                }
                WEB_PIECES[WEB_PIECES.len() - 1].2
            }
            Self::Gateway => {
                let (small, large) = GATEWAY_WEIGHTS;
                let share = f64::from(small.1) / f64::from(small.1 + large.1);
                if u < share { small.0 } else { large.0 }
            }
            Self::Recorded => FrameSize::MIN.bytes(),
        }
    }

    /// The sizes (bytes with FCS) of a lap of `packets`, in order.
    pub(super) fn lap(self, packets: usize, seed: u64) -> Vec<u16> {
        if let Self::Fixed(size) = self {
            return vec![size.bytes(); packets];
        }
        let mut sizes: Vec<u16> =
            (0..packets).map(|k| self.quantile((k as f64 + 0.5) / packets as f64)).collect();
        sizes.shuffle(&mut ChaCha8Rng::seed_from_u64(seed ^ 0x51_7e5));
        sizes
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => f.pad(&size.bytes().to_string()),
            Self::Imix => f.pad("imix"),
            Self::Web => f.pad("web"),
            Self::Gateway => f.pad("gateway"),
            Self::Recorded => f.pad("recorded"),
        }
    }
}

impl FromStr for Sizes {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().to_ascii_lowercase().as_str() {
            "imix" => Ok(Self::Imix),
            "web" => Ok(Self::Web),
            "gateway" => Ok(Self::Gateway),
            "recorded" => Ok(Self::Recorded),
            other => match other.parse::<u32>() {
                Ok(bytes) => Ok(Self::Fixed(FrameSize::new(bytes)?)),
                Err(_) => Err(TraceError::SizeText { text: text.to_owned() }),
            },
        }
    }
}

impl From<Sizes> for String {
    fn from(sizes: Sizes) -> Self {
        sizes.to_string()
    }
}

impl TryFrom<String> for Sizes {
    type Error = TraceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<FrameSize> for Sizes {
    fn from(size: FrameSize) -> Self {
        Self::Fixed(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_web_mix_has_the_papers_median_share_and_mean() {
        let mut sizes = Sizes::Web.lap(100_000, 1);
        sizes.sort_unstable();
        let mean = sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / 1e5;
        let below_256 = sizes.partition_point(|size| *size < 256) as f64 / 1e5;
        assert!((118..=122).contains(&sizes[50_000]), "median {}", sizes[50_000]);
        assert!(below_256 > 0.99, "share below 256 B is {below_256}");
        // 10 Gb/s at 8.662 Mpps leaves 124.3 B a frame after 20 B of wire overhead.
        let implied = 10e9 / 8.0 / 8.662e6 - 20.0;
        assert!((mean - implied).abs() < 1.0, "mean {mean}, implied {implied}");
        assert!((WEB_PIECES.iter().map(|piece| piece.0).sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn imix_keeps_its_proportions_in_every_lap() {
        let sizes = Sizes::Imix.lap(12_000, 3);
        for (size, weight) in IMIX_WEIGHTS {
            let found = sizes.iter().filter(|found| **found == size).count();
            assert_eq!(found, 1_000 * weight as usize, "{size}");
        }
    }

    #[test]
    fn one_seed_makes_one_order() {
        assert_eq!(Sizes::Web.lap(1_000, 7), Sizes::Web.lap(1_000, 7));
        assert_ne!(Sizes::Web.lap(1_000, 7), Sizes::Web.lap(1_000, 8));
    }

    #[test]
    fn texts_that_are_no_size_are_refused() {
        assert!("63".parse::<Sizes>().unwrap_err().to_string().contains("63 B is outside 64..=9022"));
        assert!("9023".parse::<Sizes>().is_err());
        assert!("small".parse::<Sizes>().unwrap_err().to_string().contains("imix, web"));
        for text in ["64", "9022", "imix", "web", "recorded"] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
    }
}
