//! What a switch does otherwise than usual for an experiment: SoftFlow's figures 6, 9 and 11 vary what caches and services give by
//! themselves.
//!
//! Nothing of it is looked at a packet: caches are built otherwise, or a burst, and a service's share of one, ask once whether there is an
//! experiment. Packets are drawn in turns ([`Draw`]), not at random, so that a share is exact over any longer time.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A share of packets, in 2^32ths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u64);

/// All of them.
const WHOLE: u64 = 1 << 32;

impl Share {
    /// None, and all.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self(WHOLE);

    /// As a number from 0 to 1.
    pub fn ratio(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.ratio() * 100.0).map(|()| ())
    }
}

impl FromStr for Share {
    type Err = String;

    /// `25%` or `0.25`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no share from 0% to 100%");
        let number = match text.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
            None => text.parse(),
        };
        let number = number.map_err(|_| wrong())?;
        if (0.0..=1.0).contains(&number) {
            Ok(Self((number * WHOLE as f64).round() as u64))
        } else {
            Err(wrong())
        }
    }
}

/// An experiment; by default, none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Whether the exact-match cache remembers anything.
    pub exact: bool,
    /// Whether the fast path does.
    pub fast_path: bool,
    /// The share of packets that the slow path translates as they come in, whatever the caches know of them. It makes no
    /// megaflow of them.
    pub misses: Share,
    /// The share of packets that go on as their service lets them, of those that it lets; the others are looked up again.
    pub coalesced: Share,
    /// Whether a packet's megaflow is named by its IPv4 identification.
    pub hints: bool,
    /// The share of packets whose hint is read.
    pub offloaded: Share,
}

impl Default for Experiment {
    fn default() -> Self {
        Self {
            exact: true,
            fast_path: true,
            misses: Share::NONE,
            coalesced: Share::ALL,
            hints: false,
            offloaded: Share::ALL,
        }
    }
}

impl FromStr for Experiment {
    type Err = String;

    /// Settings with commas between them: `exact=off,misses=10%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut experiment = Self::default();
        for setting in text.split(',') {
            match setting.split_once('=') {
                Some(("exact", "off")) => experiment.exact = false,
                Some(("fast-path", "off")) => experiment.fast_path = false,
                Some(("misses", share)) => experiment.misses = share.parse()?,
                Some(("coalesced", share)) => experiment.coalesced = share.parse()?,
                Some(("hints", "ip-id")) => experiment.hints = true,
                Some(("offloaded", share)) => experiment.offloaded = share.parse()?,
                _ => {
                    return Err(format!(
                        "`{setting}` is none of exact=off, fast-path=off, misses=SHARE, coalesced=SHARE, hints=ip-id and \
                         offloaded=SHARE"
                    ));
                }
            }
        }
        if experiment.offloaded != Share::ALL && !experiment.hints {
            return Err(
                "`offloaded` is a share of the packets with hints: write hints=ip-id beside it".to_owned()
            );
        }
        Ok(experiment)
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |name: &str, share: Share, usual: Share| {
            (share != usual)
                .then(|| format!("{name}={}%", share.to_string().trim_end_matches('0').trim_end_matches('.')))
        };
        let parts = [
            (!self.exact).then(|| "exact=off".to_owned()),
            (!self.fast_path).then(|| "fast-path=off".to_owned()),
            share("misses", self.misses, Share::NONE),
            share("coalesced", self.coalesced, Share::ALL),
            self.hints.then(|| "hints=ip-id".to_owned()),
            share("offloaded", self.offloaded, Share::ALL),
        ];
        f.pad(&parts.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

impl Serialize for Experiment {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Draws a share of what comes, in turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    share: u64,
    sum: u64,
}

impl Draw {
    pub(crate) const fn new(share: Share) -> Self {
        Self { share: share.0, sum: 0 }
    }

    /// Whether it is the turn of the next.
    pub(crate) fn next(&mut self) -> bool {
        self.sum += self.share;
        let is_drawn = self.sum >= WHOLE;
        self.sum %= WHOLE;
        is_drawn
    }

    /// Of these, those whose turn it is.
    pub(crate) fn of(&mut self, packets: u64) -> u64 {
        weir_flow::places(packets).filter(|_| self.next()).fold(0, |drawn, at| drawn | 1 << at)
    }
}

/// What a worker draws for an experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    pub(crate) misses: Draw,
    /// Those that are not to be coalesced.
    pub(crate) apart: Draw,
}

impl Drawn {
    /// Nothing where the experiment draws nothing.
    pub(crate) fn of(experiment: &Experiment) -> Option<Box<Self>> {
        let Experiment { misses, coalesced, .. } = *experiment;
        let apart = Share(WHOLE - coalesced.0);
        let draws = misses != Share::NONE || apart != Share::NONE;
        draws.then(|| Box::new(Self { misses: Draw::new(misses), apart: Draw::new(apart) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_is_read_back_as_it_is_written_and_mistakes_are_named() {
        let text = "exact=off,fast-path=off,misses=12.5%,coalesced=0%,hints=ip-id,offloaded=50%";
        let experiment: Experiment = text.parse().unwrap();
        assert_eq!(experiment.to_string(), text);
        assert_eq!(Experiment::default().to_string(), "");
        assert_eq!("misses=0.125".parse::<Experiment>().unwrap().to_string(), "misses=12.5%");
        for (text, named) in [
            ("", "`` is none of exact=off"),
            ("exact=on", "`exact=on`"),
            ("misses=101%", "0% to 100%"),
            ("coalesced=half", "`half`"),
            ("offloaded=50%", "hints=ip-id beside it"),
        ] {
            let error = text.parse::<Experiment>().unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_share_is_drawn_exactly_over_time() {
        for (share, of_thousand) in [("0%", 0), ("100%", 1000), ("12.5%", 125), ("33%", 330)] {
            let mut draw = Draw::new(share.parse().unwrap());
            let drawn = (0..1000).filter(|_| draw.next()).count();
            assert!(drawn.abs_diff(of_thousand) <= 1, "{share}: {drawn}");
        }
        let mut half = Draw::new("50%".parse().unwrap());
        assert_eq!(half.of(0b1111_0110).count_ones(), 3);
        assert!(Drawn::of(&Experiment::default()).is_none());
    }
}
