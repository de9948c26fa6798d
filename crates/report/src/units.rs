//! The units a reader may choose for rates, and how numbers are written.
//!
//! A rate is kept in packets a second; bit rates follow from the mean frame size. Every unit's text
//! is written into the page, and the page's style shows one of them: the choice works without scripts.

use maud::{Markup, html};
use weir_units::WIRE_OVERHEAD_BYTES;

/// What is counted; each has its own picture, as bits are no multiple of packets across sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Packets.
    Packets,
    /// Bits of the frames, FCS included.
    Layer2,
    /// Bits of the frames and of what the wire needs beside them ([`WIRE_OVERHEAD_BYTES`]).
    Layer1,
}

impl View {
    pub(crate) const ALL: [Self; 3] = [Self::Packets, Self::Layer2, Self::Layer1];

    /// The class of what is drawn for this view.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Packets => "v v-packets",
            Self::Layer2 => "v v-layer2",
            Self::Layer1 => "v v-layer1",
        }
    }

    /// What the axis shows.
    pub(crate) const fn quantity(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Layer2 => "bits, L2 with FCS",
            Self::Layer1 => "bits, L1 with wire overhead",
        }
    }

    /// Packets a second of a mean frame size, in this view: packets or bits a second.
    pub(crate) fn of(self, pps: f64, mean_frame_bytes: f64) -> f64 {
        match self {
            Self::Packets => pps,
            Self::Layer2 => pps * 8.0 * mean_frame_bytes,
            Self::Layer1 => pps * 8.0 * (mean_frame_bytes + f64::from(WIRE_OVERHEAD_BYTES)),
        }
    }
}

/// One unit of the choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateUnit {
    /// Names it in classes and identifiers.
    pub(crate) key: &'static str,
    /// As printed.
    pub(crate) label: &'static str,
    /// What it counts.
    pub(crate) view: View,
    scale: f64,
    decimals: usize,
}

/// All units, in the order of the switch.
pub(crate) const RATE_UNITS: [RateUnit; 6] = [
    RateUnit { key: "pps", label: "pps", view: View::Packets, scale: 1.0, decimals: 0 },
    RateUnit { key: "kpps", label: "kpps", view: View::Packets, scale: 1e3, decimals: 1 },
    RateUnit { key: "mpps", label: "Mpps", view: View::Packets, scale: 1e6, decimals: 3 },
    RateUnit { key: "mbps", label: "Mb/s", view: View::Layer2, scale: 1e6, decimals: 1 },
    RateUnit { key: "gbps", label: "Gb/s", view: View::Layer2, scale: 1e9, decimals: 3 },
    RateUnit { key: "l1", label: "Gb/s L1", view: View::Layer1, scale: 1e9, decimals: 3 },
];

impl RateUnit {
    /// The unit in which a page of this greatest rate reads best.
    pub(crate) fn fitting(greatest_pps: f64) -> &'static str {
        match greatest_pps {
            rate if rate >= 1e6 => "mpps",
            rate if rate >= 1e3 => "kpps",
            _ => "pps",
        }
    }

    /// The class of texts in this unit.
    pub(crate) fn class(self) -> String {
        format!("u u-{}", self.key)
    }

    /// A rate in this unit, without its name.
    pub(crate) fn number(self, pps: f64, mean_frame_bytes: f64) -> String {
        number(self.view.of(pps, mean_frame_bytes) / self.scale, self.decimals)
    }

    /// An axis value of this unit's view, without the unit's name.
    pub(crate) fn tick(self, value: f64) -> String {
        trimmed(value / self.scale)
    }
}

/// A rate in every unit, with or without the unit's name; the style shows the chosen one.
pub(crate) fn rate(pps: f64, mean_frame_bytes: f64, named: bool) -> Markup {
    html! {
        @for unit in RATE_UNITS {
            span class=(unit.class()) {
                (unit.number(pps, mean_frame_bytes)) @if named { "\u{a0}" (unit.label) }
            }
        }
    }
}

/// The chosen unit's name.
pub(crate) fn rate_unit() -> Markup {
    html! { @for unit in RATE_UNITS { span class=(unit.class()) { (unit.label) } } }
}

/// A number with its thousands set apart, and at least three figures where it is small.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let magnitude = value.abs();
    let needed = if magnitude > 0.0 && magnitude < 1.0 {
        usize::try_from(2 - magnitude.log10().floor() as i64).unwrap_or(0).min(9)
    } else {
        0
    };
    let text = format!("{value:.precision$}", precision = decimals.max(needed));
    group(&text)
}

/// Thousands set apart by a narrow space that does not break (ISO 80000-1, section 7.3.1).
fn group(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("−", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut grouped = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && whole.len() > 4 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// A count of packets.
pub(crate) fn count(value: u64) -> String {
    group(&value.to_string())
}

/// A number as short as it can be without losing four figures.
pub(crate) fn trimmed(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = usize::try_from(3 - value.abs().log10().floor() as i64).unwrap_or(0).min(9);
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    group(text)
}

/// A share in per cent: two decimals, more where it is tiny, never a false zero.
pub(crate) fn percent(share: f64) -> String {
    format!("{}\u{a0}%", number(share * 100.0, 2))
}

/// A mean frame size in bytes.
pub(crate) fn bytes(mean_frame_bytes: f64) -> String {
    format!("{}\u{a0}B", trimmed((mean_frame_bytes * 10.0).round() / 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_same_in_all_units() {
        let texts: Vec<_> =
            RATE_UNITS.iter().map(|unit| (unit.label, unit.number(14_880_952.38, 64.0))).collect();
        assert_eq!(
            texts,
            [
                ("pps", "14\u{202f}880\u{202f}952".to_owned()),
                ("kpps", "14\u{202f}881.0".to_owned()),
                ("Mpps", "14.881".to_owned()),
                ("Mb/s", "7619.0".to_owned()),
                ("Gb/s", "7.619".to_owned()),
                ("Gb/s L1", "10.000".to_owned()),
            ]
        );
    }

    #[test]
    fn small_numbers_keep_three_figures() {
        assert_eq!(number(0.000_123_4, 2), "0.000123");
        assert_eq!(number(0.0, 3), "0.000");
        assert_eq!(number(f64::NAN, 1), "–");
        assert_eq!(percent(0.000_01), "0.00100\u{a0}%");
        assert_eq!(trimmed(2_500_000.0), "2\u{202f}500\u{202f}000");
        assert_eq!(
            (trimmed(0.25), trimmed(100.0), trimmed(1500.0)),
            ("0.25".into(), "100".into(), "1500".into())
        );
        assert_eq!(number(-1234.5, 1), "−1234.5");
    }
}
