//! The runs, sorted for the page: which devices there are, what sets them apart, which goals.

use std::collections::{BTreeMap, BTreeSet};
use weir_trial::run::{Point, PointResult, Purpose, Run, StoredTrial, ThroughputResult};
use weir_trial::{DirectionCounts, Nf};
use weir_units::{Bps, Pps};

/// All that the sections of a page draw from.
pub(crate) struct Digest<'a> {
    pub(crate) runs: &'a [Run],
    /// What to call each run: its name, with its number where two share a name.
    pub(crate) run_names: Vec<String>,
    /// Every point of every run, in order.
    pub(crate) entries: Vec<Entry<'a>>,
    /// What is compared: device and wiring, and whatever else differs between points.
    pub(crate) subjects: Vec<String>,
    /// Goals, in the order in which they first appear.
    pub(crate) goals: Vec<String>,
    /// The runs and the versions that measured them, for the foot of every figure.
    pub(crate) provenance: String,
}

/// A point and where it belongs.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) point: &'a Point,
    /// Index of its subject.
    pub(crate) subject: usize,
    /// What tester and wiring reach with nothing in between, where it was measured.
    pub(crate) ceiling: Option<Pps>,
    /// Of its run.
    pub(crate) environment: &'a BTreeMap<String, String>,
}

/// Which of the lesser axes differ between the points of a page.
struct Varying {
    runs: bool,
    trace: bool,
    directions: bool,
    huge_pages: bool,
    line_rate: bool,
}

impl<'a> Digest<'a> {
    pub(crate) fn new(runs: &'a [Run]) -> Self {
        let varying = Varying::of(runs);
        let run_names: Vec<_> = runs.iter().map(|run| run_name(run, runs)).collect();
        let mut subjects: Vec<String> = Vec::new();
        let mut goals: Vec<String> = Vec::new();
        let mut entries = Vec::new();
        for (run, point) in
            runs.iter().enumerate().flat_map(|(i, run)| run.points.iter().map(move |p| (i, p)))
        {
            let label = varying.label(point, &run_names[run]);
            let subject = index_of(&mut subjects, label);
            let check = runs[run].self_checks.iter().find(|check| check.stands_for(&point.key));
            let environment = &runs[run].environment;
            entries.push(Entry { point, subject, ceiling: check.map(|check| check.ceiling), environment });
            for result in &point.results {
                if let PointResult::Throughput(ThroughputResult { goal, .. }) = result {
                    index_of(&mut goals, goal.clone());
                }
            }
        }
        let provenance = runs
            .iter()
            .zip(&run_names)
            .map(|(run, name)| {
                // Runs of before UUIDs have none.
                let identity = if run.uuid.is_empty() { String::new() } else { format!(" ({})", run.uuid) };
                format!("run {name}{identity}, measured by {}", run.weir)
            })
            .collect::<Vec<_>>()
            .join("; ");
        Self { runs, run_names, entries, subjects, goals, provenance }
    }

    /// The network functions, in the order in which they were measured.
    pub(crate) fn functions(&self) -> Vec<Nf> {
        let mut functions = Vec::new();
        for entry in &self.entries {
            if !functions.contains(&entry.point.key.nf) {
                functions.push(entry.point.key.nf);
            }
        }
        functions
    }

    /// The points of one network function, subject by subject, the smallest frames first.
    pub(crate) fn of(&self, nf: Nf) -> Vec<Entry<'a>> {
        let mut entries: Vec<_> = self.entries.iter().copied().filter(|e| e.point.key.nf == nf).collect();
        entries.sort_by(|a, b| {
            (a.subject.cmp(&b.subject))
                .then(a.bytes().total_cmp(&b.bytes()))
                .then(a.point.index.cmp(&b.point.index))
        });
        entries
    }

    /// The greatest rate anywhere, to choose a unit by.
    pub(crate) fn greatest(&self) -> f64 {
        let results = self.entries.iter().flat_map(|entry| &entry.point.results);
        let rates = results.filter_map(|result| result.of_method().greatest()).map(|rate| rate.0);
        rates.fold(0.0, f64::max)
    }
}

impl Varying {
    fn of(runs: &[Run]) -> Self {
        let keys = || runs.iter().flat_map(|run| &run.points).map(|point| &point.key);
        Self {
            runs: runs.len() > 1,
            trace: keys().map(|key| &key.trace).collect::<BTreeSet<_>>().len() > 1,
            directions: keys().map(|key| key.directions).collect::<BTreeSet<_>>().len() > 1,
            huge_pages: keys().map(|key| key.huge_pages).collect::<BTreeSet<_>>().len() > 1,
            line_rate: keys().map(|key| key.line_rate.to_string()).collect::<BTreeSet<_>>().len() > 1,
        }
    }

    fn label(&self, point: &Point, run: &str) -> String {
        let key = &point.key;
        let mut parts = vec![key.device(), key.wiring.clone()];
        if self.trace {
            parts.push(key.trace.clone());
        }
        if self.directions {
            parts.push(if key.directions == 1 {
                "1 direction".to_owned()
            } else {
                format!("{} directions", key.directions)
            });
        }
        if self.huge_pages {
            parts.push(if key.huge_pages { "huge pages" } else { "small pages" }.to_owned());
        }
        if self.line_rate {
            parts.push(key.line_rate.to_string());
        }
        if self.runs {
            parts.push(run.to_owned());
        }
        parts.join(" · ")
    }
}

impl<'a> Entry<'a> {
    /// Mean frame size in bytes, FCS included.
    pub(crate) fn bytes(&self) -> f64 {
        self.point.key.mean_frame_bytes
    }

    /// The size's name where it is not a number: `imix`.
    pub(crate) fn size_name(&self) -> Option<String> {
        let size = &self.point.key.size;
        size.parse::<f64>().is_err().then(|| size.clone())
    }

    /// The size with its unit: `64 B`, `imix (353.8 B)`.
    pub(crate) fn size(&self) -> String {
        let bytes = crate::units::bytes(self.bytes());
        self.size_name().map_or(bytes.clone(), |name| format!("{name} ({bytes})"))
    }

    /// The most that the wire carries over all directions, overhead included.
    pub(crate) fn wire(&self) -> Bps {
        Bps(self.point.key.line_rate.0.0 * f64::from(self.point.key.all_directions()))
    }

    /// The wire in words: `2 × 10G`.
    pub(crate) fn wire_name(&self) -> String {
        format!("{}\u{a0}×\u{a0}{}", self.point.key.all_directions(), self.point.key.line_rate)
    }

    /// Share of the theoretical rate.
    pub(crate) fn of_theoretical(&self, rate: Pps) -> f64 {
        rate.0 / self.point.key.theoretical().0
    }

    /// The trials that count: not those of a measurement that was cut off and made anew.
    pub(crate) fn trials(&self) -> impl Iterator<Item = &'a StoredTrial> + use<'a> {
        self.point.trials.iter().filter(|trial| !trial.superseded)
    }

    /// The search's trials at one load.
    pub(crate) fn at(&self, load: Pps) -> Vec<&'a StoredTrial> {
        let same = |trial: &Pps| (trial.0 - load.0).abs() <= load.0.abs() * 1e-6;
        self.trials().filter(|t| t.purpose == Purpose::Search && same(&t.result.spec.load)).collect()
    }

    /// Why there is no result, where there is none at all.
    pub(crate) fn failure(&self) -> Option<String> {
        match &self.point.error {
            Some(error) => Some(error.clone()),
            None if !self.point.finished => Some("cut off before its measurement came to an end".to_owned()),
            None if self.point.results.is_empty() => Some("measured, but without a result".to_owned()),
            None => None,
        }
    }
}

/// The counts of several trials together.
pub(crate) fn sum(trials: &[&StoredTrial]) -> DirectionCounts {
    let mut sum = DirectionCounts::default();
    trials.iter().for_each(|trial| sum += trial.result.total());
    sum
}

fn index_of(list: &mut Vec<String>, item: String) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

fn run_name(run: &Run, runs: &[Run]) -> String {
    let shared = runs.iter().filter(|other| other.name == run.name).count() > 1;
    if shared { format!("{} #{}", run.name, run.id) } else { run.name.clone() }
}
