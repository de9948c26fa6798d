//! Texts of the lab: routes, rules, rates and times, histograms.

use super::{seeds, shown, shown_rounded, text};
use crate::{Budget, Outcome, Target, refused};
use std::fmt::{Debug, Display};
use std::str::FromStr;
use weir_store::Selector;
use weir_traffic::Shape;
use weir_traffic::trace::Sizes;
use weir_units::{Bps, FrameSize, LatencyHistogram, LineRate, Nanos, Pps, Ratio};
use weir_wire::MacAddress;
use weir_wire::table::{self, Entry, FiveTuple, Route, Rule, first_match, longest_match};

const BUDGET: Budget = Budget::of(8192, 400, 100, 16);

pub(super) const ROUTES: Target = Target {
    name: "routes",
    about: "a file of routes is read, written and read again, and the longest match is one of them",
    budget: BUDGET,
    longest: 4096,
    words: &["0.0.0.0/0", "255.255.255.255/32", "/33", "10.0.0.0/8", "# ", "\n", "1"],
    seeds: || seeds(&["10.0.0.0/8 0\n198.18.0.0/15 1 # a comment\n\n0.0.0.0/0 1\n", "1.2.3.4/32 0"]),
    run: |input| {
        table::<Route>(input, |routes| {
            if let Some(route) = longest_match(routes, [10, 0, 0, 1].into()) {
                assert!(routes.contains(route));
            }
        })
    },
    workers: false,
};

pub(super) const RULES: Target = Target {
    name: "rules",
    about: "a file of filter rules (five-tuples with prefixes and ranges) is read, written and read again",
    budget: BUDGET,
    longest: 4096,
    words: &[
        "0-65535",
        "1024-1023",
        "256",
        "udp",
        "tcp",
        "icmp",
        "any",
        "allow",
        "deny",
        "0.0.0.0/0",
        "\n",
        "# ",
    ],
    seeds: || {
        let rules = weir_trial::Nf::Firewall { rules: 20 }.rules();
        let mut texts = vec![table::write(&rules).into_bytes()];
        texts.extend(seeds(&[
            "deny udp 198.18.4.0/24 1024-65535 198.19.0.0/20 53 # a comment\nallow any any any any any",
        ]));
        texts
    },
    run: |input| {
        table::<Rule>(input, |rules| {
            let packet = FiveTuple {
                source: [198, 18, 0, 1].into(),
                destination: [198, 19, 0, 1].into(),
                protocol: 17,
                ports: Some((1000, 80)),
            };
            if let Some(rule) = first_match(rules, &packet) {
                assert!(rule.matches(&packet));
            }
        })
    },
    workers: false,
};

fn table<E: Entry + PartialEq + Debug>(input: &[u8], look: fn(&[E])) -> Outcome {
    match table::read::<E>("the file", &text(input)) {
        Err(error) => refused(&error.to_string(), input),
        Ok(entries) => {
            look(&entries);
            let written = table::write(&entries);
            assert_eq!(table::read::<E>("again", &written).as_ref(), Ok(&entries), "{written}");
            Outcome::of(entries.len().min(4))
        }
    }
}

pub(super) const UNITS: Target = Target {
    name: "units",
    about: "what people type for rates, times, shares, sizes, addresses, runs",
    budget: Budget::of(32 << 10, 400, 400, 4),
    longest: 256,
    words: &[
        "Mpps", "kpps", "Gbps", "ms", "us", "µs", "ns", "%", "e", ".", "inf", "nan", "-", "min", "@last",
        "~", "imix",
    ],
    seeds: || {
        seeds(&[
            "10Gbps",
            "14.88Mpps",
            "1e6",
            "0.5%",
            "20ms",
            "1.5s",
            "2min",
            "64",
            "imix",
            "poisson",
            "bursts:32",
            "02:00:00:00:00:01",
            "@last",
            "@last~2",
            "7",
            "0.000001",
            "64..1518",
        ])
    },
    run: units,
    workers: false,
};

/// What can be read, can be read; what not, is refused with a sentence.
fn is_read<T: FromStr>(text: &str) -> bool
where
    T::Err: Display,
{
    text.parse::<T>().map_err(|error| refused(&error.to_string(), text.as_bytes())).is_ok()
}

fn units(input: &[u8]) -> Outcome {
    let text = &*text(input);
    if let Some(size) = text.parse().ok().and_then(|bytes| FrameSize::new(bytes).ok()) {
        assert!(size >= FrameSize::MIN);
    }
    Outcome::of([
        shown::<Pps>(text),
        shown::<Bps>(text),
        shown_rounded::<Nanos>(text),
        is_read::<Ratio>(text),
        shown::<LineRate>(text),
        shown::<Sizes>(text),
        shown::<MacAddress>(text),
        is_read::<Shape>(text),
        is_read::<Selector>(text),
    ])
}

pub(super) const HISTOGRAM: Target = Target {
    name: "histogram",
    about: "a stored histogram of latencies, as base64: its numbers stand in an order",
    // A histogram of its full range takes this much, whatever the text says of it.
    budget: Budget::of(4 << 20, 64, 120, 2),
    longest: 4096,
    words: &["AAAA", "HISTFAAAAB", "/"],
    seeds: || {
        let mut histogram = LatencyHistogram::default();
        let empty = histogram.to_base64();
        [1, 900, 40_000, 3_000_000].into_iter().for_each(|nanos| histogram.record_many(Nanos(nanos), nanos));
        vec![empty.into_bytes(), histogram.to_base64().into_bytes()]
    },
    run: |input| match LatencyHistogram::from_base64(&text(input)) {
        Err(error) => refused(&error.to_string(), input),
        Ok(histogram) => {
            let percentiles = [0.0, 50.0, 99.0, 100.0].map(|percent| histogram.percentile(percent));
            assert!(percentiles.is_sorted(), "{percentiles:?}");
            assert_eq!(histogram.count() == 0, histogram.max().is_none());
            let again =
                LatencyHistogram::from_base64(&histogram.to_base64()).expect("what is written is read");
            assert_eq!(again.count(), histogram.count());
            Outcome::of((histogram.count() > 0, histogram.distribution().len().min(5)))
        }
    },
    workers: false,
};
