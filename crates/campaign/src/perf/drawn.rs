//! Rows that are drawn anew for each release, so that nobody tunes to them: functions, sizes of tables, numbers of
//! flows, kinds of traffic and seeds follow from the version by arithmetic, and are known once it is out.

use super::rows::{OVS, Row, TUNED, Target, Work, beside, work};
use crate::traffic::mixed;

/// A source of numbers that follow from a version.
struct Source(u64);

impl Source {
    fn of(version: &str) -> Self {
        Self(version.bytes().fold(0, |seed, byte| mixed(seed ^ u64::from(byte))))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mixed(self.0)
    }

    /// A number from `least` to `most`.
    fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    fn one_of(&mut self, choices: &[&'static str]) -> &'static str {
        choices[(self.next() % choices.len() as u64) as usize]
    }
}

/// The rows of a release. Made once, so their texts live as long as the program.
pub(super) fn rows(version: &str) -> Vec<Row> {
    let mut source = Source::of(version);
    let kinds = ["flows", "shuffled", "zipf", "newports"];
    let mut of = |id: &'static str, nf: &str, entries: (u64, u64), directions: u8| {
        let nf = format!("{nf}:{}", source.within(entries.0, entries.1));
        let flows = source.within(1_000, 50_000);
        let trace = match directions {
            1 => format!("{}:{flows}", source.one_of(&kinds)),
            _ => format!("conversations:{flows}:{}", nf.rsplit(':').next().unwrap_or_default()),
        };
        let seed = source.within(1, u64::from(u32::MAX));
        let words = format!("drawn for {version}: {nf}, {trace}, seed {seed}");
        (id, words, Work { seed: Some(seed), ..work(nf.leak(), trace.leak(), directions) })
    };
    let drawn = [
        of("drawn-routes", "l3fwd", (2, 200), 1),
        of("drawn-rules", "firewall", (2, 100), 1),
        of("drawn-a", "pipeline-a", (100, 1_000), 2),
    ];
    let sides: [(&'static [&'static str], f64); 3] =
        [(&["l3fwd", OVS], 0.8), (&["ip_pipeline", OVS], 1.0), (&[OVS, TUNED], 3.0)];
    let row = |((id, words, work), (others, times)): (
        (&'static str, String, Work),
        (&'static [&'static str], f64),
    )| { beside(id, words.leak(), others, work).reach(Target::Times(times)) };
    drawn.into_iter().zip(sides).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_release_has_its_own_rows_and_always_the_same() {
        let words = |version: &str| rows(version).iter().map(|row| row.work).collect::<Vec<_>>();
        assert_eq!(words("0.1.0"), words("0.1.0"));
        let versions: Vec<String> = (0..50).map(|minor| format!("0.{minor}.0")).collect();
        let all: HashSet<_> = versions.iter().map(|version| words(version)).collect();
        assert_eq!(all.len(), versions.len(), "no two releases have the same");
    }
}
