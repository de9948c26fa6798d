//! Rate against a number that a plan sweeps: flows of the trace, masks of an attack, services in a row, random reads, packets that
//! miss, how fast the device's cores are.
//!
//! A number stands in a name (`flows:N`, `tse-colocated:N`, `pipeline-d:N`, `weir:reads=N`, `weir:misses=N%`) or in the placement. Points whose names differ in that
//! number alone make a line. Several sizes, wirings or functions are lines of their own.

use super::found::{Found, Greatest, doubted};
use super::{Part, rate_words};
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::number;
use weir_trial::run::PointKey;
use weir_trial::{DENIED_BITS, Frequency, Nf, Placement};

/// Rates that differ by more than this factor are drawn by ratio, or the lesser could not be read.
const FAR_APART: f64 = 8.0;

/// The attack of one who knows the list (`weir_traffic`'s `explosion`).
const COLOCATED: &str = "tse-colocated";

/// What is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    Flows,
    Masks,
    Services,
    Reads,
    Misses,
    Share,
    Clock,
}

/// A point as a mark of a line.
struct Place<'a> {
    number: f64,
    /// What the line is: the device, then all else that tells lines apart.
    line: Vec<String>,
    entry: Entry<'a>,
    rate: f64,
    /// Cycles of the device's cores a packet, where they are known.
    cycles: Option<f64>,
    interval: Option<(f64, f64)>,
    suspect: bool,
}

impl Sweep {
    const ALL: [Self; 7] =
        [Self::Flows, Self::Masks, Self::Services, Self::Reads, Self::Misses, Self::Share, Self::Clock];

    const fn id(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Masks => "masks",
            Self::Services => "services",
            Self::Reads => "reads",
            Self::Misses => "misses",
            Self::Share => "share",
            Self::Clock => "clock",
        }
    }

    const fn across(self) -> &'static str {
        match self {
            Self::Flows => "Flows or conversations of the trace",
            Self::Masks => "Masks of the attack",
            Self::Services => "Services in a row",
            Self::Reads => "Random reads a packet",
            Self::Misses => "Packets that miss the caches, percent",
            Self::Share => "Share of the cores' time, percent",
            Self::Clock => "Clock of the cores, GHz",
        }
    }

    /// Whether it is of the device's cores, so that cycles a packet tell whether the work stayed the same.
    const fn is_of_cores(self) -> bool {
        matches!(self, Self::Share | Self::Clock)
    }

    /// Takes a point's key apart: the number, and what is left of device, function and trace.
    fn split(self, key: &PointKey) -> Option<(f64, [String; 3])> {
        let (dut, nf, trace) = (key.device(), key.nf.to_string(), key.trace.clone());
        match self {
            Self::Flows => {
                let (kind, rest) = key.trace.split_once(':').filter(|(_, rest)| !rest.contains('|'))?;
                if kind == COLOCATED {
                    return None;
                }
                let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let number = rest[..digits].parse().ok()?;
                Some((number, [dut, nf, format!("{kind}{}", &rest[digits..])]))
            }
            Self::Masks => {
                let (kind, fields) = key.trace.split_once(':')?;
                // It attacks the first so many fields.
                let attacked = DENIED_BITS.get(..fields.parse().ok()?).filter(|_| kind == COLOCATED)?;
                Some((attacked.iter().map(|&bits| f64::from(bits)).product(), [dut, nf, kind.to_owned()]))
            }
            Self::Services => match key.nf {
                Nf::PipelineD { noops } => Some((f64::from(noops), [dut, "pipeline-d".to_owned(), trace])),
                _ => None,
            },
            Self::Reads | Self::Misses => {
                let (device, variant) = key.dut.split_once(':').unwrap_or((&key.dut, ""));
                let value =
                    |setting: &str| setting.strip_prefix(self.id())?.strip_prefix('=').map(str::to_owned);
                let number = variant.split('+').find_map(value)?.trim_end_matches('%').parse().ok()?;
                let rest: Vec<&str> = variant.split('+').filter(|setting| value(setting).is_none()).collect();
                let dut = [device, &rest.join("+")].join(if rest.is_empty() { "" } else { ":" });
                Some((number, [dut, nf, trace]))
            }
            Self::Share | Self::Clock => {
                let number = match (self, key.placement.frequency?) {
                    (Self::Share, Frequency::Share(percent)) => f64::from(percent),
                    (Self::Clock, Frequency::Clock(megahertz)) => f64::from(megahertz) / 1e3,
                    _ => return None,
                };
                let placement = Placement { frequency: None, ..key.placement.clone() };
                Some((number, [placement.of(&key.dut), nf, trace]))
            }
        }
    }
}

/// The whole section; nothing where no number was swept.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    Sweep::ALL.into_iter().filter_map(|sweep| part(digest, sweep)).collect()
}

fn part(digest: &Digest<'_>, sweep: Sweep) -> Option<Part> {
    let lines = lines(digest, sweep);
    (!lines.is_empty()).then(|| Part::plot(figure(digest, sweep, &lines), table(sweep, &lines)))
}

/// The lines of a sweep, each of two places or more in rising order.
fn lines<'a>(digest: &Digest<'a>, sweep: Sweep) -> Vec<Vec<Place<'a>>> {
    let mut lines: Vec<Vec<Place<'a>>> = Vec::new();
    for place in digest.functions().into_iter().flat_map(|nf| digest.of(nf)).filter_map(|e| place(sweep, e)) {
        match lines.iter_mut().find(|line| line[0].line == place.line) {
            Some(line) => line.push(place),
            None => lines.push(vec![place]),
        }
    }
    for line in &mut lines {
        line.sort_by(|a, b| a.number.total_cmp(&b.number));
    }
    lines.retain(|line| line.first().map(|place| place.number) != line.last().map(|place| place.number));
    lines
}

/// A point's place: by its greatest rate, else by what its first search found.
fn place(sweep: Sweep, entry: Entry<'_>) -> Option<Place<'_>> {
    let key = &entry.point.key;
    let (number, rest) = sweep.split(key)?;
    let results = &entry.point.results;
    let greatest = results.iter().find_map(Greatest::of);
    let (rate, interval, suspect) = match greatest {
        Some(mrr) => (mrr.mean.0, mrr.spread(), doubted(&entry, mrr.result).is_some()),
        None => {
            let found = results.iter().find_map(Found::of)?;
            let bounds = found.lower.zip(found.upper).map(|(lower, upper)| (lower.0, upper.0));
            (found.throughput?.0, bounds, !found.warnings(&entry).is_empty())
        }
    };
    let cycles = results.iter().find_map(Greatest::of).and_then(|mrr| mrr.cycles);
    let mut line = rest.to_vec();
    line.extend([key.wiring.clone(), entry.size()]);
    Some(Place { number, line, entry, rate, cycles, interval, suspect })
}

/// The names of lines: what differs between them, the device always.
fn names(lines: &[Vec<Place<'_>>]) -> Vec<String> {
    let of = |line: &[Place<'_>]| line[0].line.clone();
    let first = of(&lines[0]);
    let differs = |part: usize| lines.iter().any(|line| of(line)[part] != first[part]);
    let parts: Vec<usize> = (0..first.len()).filter(|part| *part == 0 || differs(*part)).collect();
    let name = |line: &Vec<Place<'_>>| {
        let of = of(line);
        parts.iter().map(|part| of[*part].clone()).collect::<Vec<_>>().join(" · ")
    };
    lines.iter().map(name).collect()
}

fn figure(digest: &Digest<'_>, sweep: Sweep, lines: &[Vec<Place<'_>>]) -> Figure {
    let mut devices: Vec<&str> = Vec::new();
    let mut others: Vec<&[String]> = Vec::new();
    let mut series = Vec::new();
    for (line, label) in lines.iter().zip(names(lines)) {
        let (device, other) = (line[0].line[0].as_str(), &line[0].line[1..]);
        let hue = position(&mut devices, device);
        let stroke = position(&mut others, other);
        let samples = line.iter().map(|place| sample(sweep, place, &label)).collect();
        series.push(Series { label, hue, stroke, marks: true, samples });
    }
    let rates = || lines.iter().flatten().map(|place| place.rate);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let (words, spacing) = if least > 0.0 && most > FAR_APART * least {
        ("Forwarded, Mpps, logarithmic", Spacing::Log)
    } else {
        ("Forwarded, Mpps", Spacing::Linear)
    };
    // By ratio only where none is at zero.
    let across =
        if lines.iter().flatten().all(|place| place.number > 0.0) { Spacing::Log } else { Spacing::Linear };
    Figure {
        id: format!("sweep-{}", sweep.id()),
        title: format!("Rate against {}", sweep.across().to_lowercase()),
        caption: "Each mark is the mean forwarded rate at the greatest load (MRR), or what the first goal's search found \
                  where no such rate was taken; its bar the spread over the trials, or the search's bounds. A ring warns \
                  of a result."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: Axis { label: sweep.across().into(), quantity: Quantity::Plain, spacing: across },
            y: Axis { label: words.into(), quantity: Quantity::Plain, spacing },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    }
}

/// The place of something in a list, at whose end it is put where it is new.
fn position<T: PartialEq>(known: &mut Vec<T>, one: T) -> usize {
    match known.iter().position(|other| *other == one) {
        Some(place) => place,
        None => {
            known.push(one);
            known.len() - 1
        }
    }
}

fn sample(sweep: Sweep, place: &Place<'_>, label: &str) -> Sample {
    let millions = |rate: f64| rate / 1e6;
    Sample {
        x: place.number,
        x_name: None,
        y: Some(millions(place.rate)),
        interval: place.interval.map(|(low, high)| (millions(low), millions(high))),
        suspect: place.suspect,
        hollow: false,
        detail: format!(
            "{label}\n{}: {}\n{}",
            sweep.across(),
            place.number,
            rate_words(place.rate, place.entry.bytes())
        ),
    }
}

fn table(sweep: Sweep, lines: &[Vec<Place<'_>>]) -> Table {
    let with_cycles = sweep.is_of_cores() && lines.iter().flatten().any(|place| place.cycles.is_some());
    let mut rows = Vec::new();
    for (line, name) in lines.iter().zip(names(lines)) {
        for place in line {
            let rate = place.rate / 1e6;
            let digits = if sweep == Sweep::Clock { 3 } else { 0 };
            let mut cells = vec![
                Cell::Text(name.clone()),
                Cell::Number(number(place.number, digits), place.number),
                Cell::Number(number(rate, 3), rate),
            ];
            if with_cycles {
                cells.push(place.cycles.map_or(Cell::Text("not known".to_owned()), |cycles| {
                    Cell::Number(number(cycles, 1), cycles)
                }));
            }
            rows.push(Row { cells, suspect: place.suspect });
        }
    }
    let mut columns = vec![
        column("Line", "line", Kind::Text),
        column(sweep.across(), sweep.id(), Kind::Number),
        column("Mpps", "mpps", Kind::Number),
    ];
    if with_cycles {
        columns.push(column("Cycles per packet", "cycles_per_packet", Kind::Number));
    }
    Table {
        id: format!("sweep-{}-table", sweep.id()),
        caption: format!("Rate against {}", sweep.across().to_lowercase()),
        columns,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::{Bps, LineRate};

    fn key(dut: &str, nf: &str, trace: &str) -> PointKey {
        PointKey {
            nf: nf.parse().unwrap(),
            dut: dut.into(),
            wiring: "fed".into(),
            trace: trace.into(),
            size: "64".into(),
            mean_frame_bytes: 64.0,
            directions: 2,
            placement: weir_trial::Placement::default(),
            huge_pages: false,
            line_rate: LineRate(Bps(1e10)),
        }
    }

    #[test]
    fn a_number_is_taken_out_of_its_name() {
        let split = |sweep: Sweep, dut, nf, trace| sweep.split(&key(dut, nf, trace));
        let three = |a: &str, b: &str, c: &str| [a.to_owned(), b.to_owned(), c.to_owned()];
        let found = split(Sweep::Flows, "weir", "l2fwd", "conversations:32x256");
        assert_eq!(found, Some((32.0, three("weir", "l2fwd", "conversationsx256"))));
        assert_eq!(split(Sweep::Flows, "weir", "l2fwd", "t3"), None);
        assert_eq!(split(Sweep::Flows, "weir", "exposed:3", "tse-colocated:3"), None);
        let found = split(Sweep::Masks, "weir", "exposed:3", "tse-colocated:3");
        assert_eq!(found, Some((8192.0, three("weir", "exposed:3", "tse-colocated"))));
        assert_eq!(split(Sweep::Masks, "weir", "exposed:3", "tse-general:10000"), None);
        assert_eq!(split(Sweep::Masks, "weir", "exposed:3", "tse-colocated:4"), None);
        let found = split(Sweep::Services, "weir", "pipeline-d:4", "t3");
        assert_eq!(found, Some((4.0, three("weir", "pipeline-d", "t3"))));
        assert_eq!(split(Sweep::Services, "weir", "l2fwd", "t3"), None);
        let found = split(Sweep::Reads, "weir:nocoalesce+reads=10", "pipeline-d:1", "t3");
        assert_eq!(found, Some((10.0, three("weir:nocoalesce", "pipeline-d:1", "t3"))));
        let found = split(Sweep::Reads, "weir:reads=5", "pipeline-d:1", "t3");
        assert_eq!(found, Some((5.0, three("weir", "pipeline-d:1", "t3"))));
        let found = split(Sweep::Misses, "weir:exact=off+misses=0.1%", "pipeline-a", "t3");
        assert_eq!(found, Some((0.1, three("weir:exact=off", "pipeline-a:500", "t3"))));
    }

    #[test]
    fn how_fast_the_cores_are_is_taken_out_of_the_placement() {
        let mut key = key("nf", "l2fwd", "t3");
        assert_eq!(Sweep::Share.split(&key), None);
        key.placement.frequency = Some(Frequency::Share(25));
        let rest = ["nf", "l2fwd", "t3"].map(str::to_owned);
        assert_eq!(Sweep::Share.split(&key), Some((25.0, rest.clone())));
        assert_eq!(Sweep::Clock.split(&key), None);
        key.placement.frequency = Some(Frequency::Clock(1_500));
        assert_eq!(Sweep::Clock.split(&key), Some((1.5, rest)));
    }
}
