//! A run taken apart into the documents of a bundle, and put together again.

use super::error::{BundleResult, part};
use super::texts::{self, Texts};
use super::unknown::Unknown;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use weir_trial::run::{AdviceCheck, Point, PointKey, Run, RunState, Session};
use weir_trial::{PacketCheck, SelfCheck};

/// The version from which on what configured the devices stands once, in `texts.json`, and is named by its hash.
pub(super) const TEXTS_APART: u32 = 2;

/// Most bytes of one line of `trials.jsonl`: a trial with all its windows has some ten thousand.
const MOST_LINE: usize = 16 << 20;

/// The part `run.json`: what stands with the run as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    /// Version of the form of a run.
    pub schema: u32,
    /// The run's identity everywhere: a UUID (RFC 9562).
    pub uuid: String,
    /// Its name in the database that it was measured into.
    pub name: String,
    /// Version and commit of the Weir that began it.
    pub weir: String,
    /// Start, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// End of the last trial, milliseconds since 1970-01-01 UTC.
    pub ended_ms: Option<i64>,
    /// How far it came.
    pub state: RunState,
    /// What the tester itself can do over the run's wirings.
    pub self_checks: Vec<SelfCheck>,
    /// Advice made from it that was checked, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<AdviceCheck>,
}

/// The part `points/N/point.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointHead {
    /// Place in the plan's order, from 0.
    pub index: u32,
    /// What identifies it.
    pub key: PointKey,
    /// Version and configuration of the device as started.
    pub dut_version: Option<String>,
    /// Hashes of the frames sent, one a direction.
    #[serde(default)]
    pub trace_hashes: Vec<String>,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// What the untimed pass over the whole trace came to.
    #[serde(default)]
    pub packets: Option<PacketCheck>,
    /// Why nothing could be measured, where so.
    pub error: Option<String>,
    /// Whether its measurement came to an end.
    pub finished: bool,
}

/// Names of the parts of a run with so many points in a bundle of this version, in their order.
pub(super) fn names(version: u32, points: usize) -> Vec<String> {
    let mut names: Vec<String> =
        ["run.json", "plan.toml", "thresholds.json", "segments.json"].map(str::to_owned).into();
    names.extend((version >= TEXTS_APART).then(|| "texts.json".to_owned()));
    let of_point = ["point.json", "configuration.json", "results.json", "trials.jsonl"];
    for point in 0..points {
        names.extend(of_point.map(|name| format!("points/{point}/{name}")));
    }
    names
}

/// The contents of the parts, in the order of [`names`].
pub(super) fn take_apart(version: u32, run: &Run, thresholds: &Value) -> BundleResult<Vec<Vec<u8>>> {
    let head = Head {
        schema: run.schema,
        uuid: run.uuid.clone(),
        name: run.name.clone(),
        weir: run.weir.clone(),
        started_ms: run.started_ms,
        ended_ms: run.ended_ms,
        state: run.state,
        self_checks: run.self_checks.clone(),
        advice: run.advice.clone(),
    };
    let begun =
        Session { started_ms: run.started_ms, weir: run.weir.clone(), environment: run.environment.clone() };
    let segments: Vec<&Session> = std::iter::once(&begun).chain(&run.sessions).collect();
    let mut parts =
        vec![document(&head)?, run.plan.clone().into_bytes(), document(thresholds)?, document(&segments)?];
    let configurations = match version >= TEXTS_APART {
        true => {
            let (texts, named) = texts::apart(&run.points);
            parts.push(document(&texts)?);
            named.iter().map(document).collect::<BundleResult<Vec<_>>>()?
        }
        false => {
            run.points.iter().map(|point| document(&point.configuration)).collect::<BundleResult<_>>()?
        }
    };
    for (point, configuration) in run.points.iter().zip(configurations) {
        let head = PointHead {
            index: point.index,
            key: point.key.clone(),
            dut_version: point.dut_version.clone(),
            trace_hashes: point.trace_hashes.clone(),
            seed: point.seed,
            packets: point.packets.clone(),
            error: point.error.clone(),
            finished: point.finished,
        };
        let mut trials = Vec::new();
        for trial in &point.trials {
            trials.extend(line(trial)?);
        }
        parts.extend([document(&head)?, configuration, document(&point.results)?, trials]);
    }
    Ok(parts)
}

/// JSON to be read by people too.
pub(super) fn document<T: Serialize + ?Sized>(value: &T) -> BundleResult<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| part("a part", error))?;
    text.push(b'\n');
    Ok(text)
}

/// JSON in a line.
fn line<T: Serialize>(value: &T) -> BundleResult<Vec<u8>> {
    let mut text = serde_json::to_vec(value).map_err(|error| part("a trial", error))?;
    text.push(b'\n');
    Ok(text)
}

/// Puts a run together from its parts, in the order they come.
pub(super) struct Together<'a> {
    run: Run,
    thresholds: Value,
    /// What configured the devices; nothing in a bundle that has it with each point.
    texts: Option<Texts>,
    unknown: &'a mut Unknown,
    /// Trials that there may be, in all points together.
    trials: usize,
}

impl<'a> Together<'a> {
    /// Of a run with so many trials at most; what this Weir does not know is noted in `unknown`.
    pub(super) fn new(trials: usize, unknown: &'a mut Unknown) -> Self {
        let run = Run {
            schema: 0,
            id: 0,
            uuid: String::new(),
            name: String::new(),
            started_ms: 0,
            ended_ms: None,
            state: RunState::Running,
            plan: String::new(),
            weir: String::new(),
            environment: BTreeMap::new(),
            sessions: Vec::new(),
            self_checks: Vec::new(),
            points: Vec::new(),
            advice: Vec::new(),
        };
        Self { run, thresholds: Value::Null, texts: None, unknown, trials }
    }

    /// Takes the next part.
    pub(super) fn take(&mut self, name: &str, content: &[u8]) -> BundleResult<()> {
        match name.rsplit('/').next().unwrap_or(name) {
            "run.json" => self.head(name, content)?,
            "plan.toml" => {
                let plan = std::str::from_utf8(content).map_err(|error| part(name, error))?;
                plan.clone_into(&mut self.run.plan);
            }
            "thresholds.json" => {
                self.thresholds = serde_json::from_slice(content).map_err(|error| part(name, error))?;
            }
            "segments.json" => self.segments(name, content)?,
            "texts.json" => self.texts = Some(Texts::of(name, self.read(name, content)?)?),
            "point.json" => {
                let head: PointHead = self.read(name, content)?;
                self.point(name, head)?;
            }
            "configuration.json" => {
                let named = self.read(name, content)?;
                let configuration = match &mut self.texts {
                    Some(texts) => texts.of_point(name, named)?,
                    None => named,
                };
                self.last(|point| point.configuration = configuration);
            }
            "results.json" => {
                let results = self.read(name, content)?;
                self.last(|point| point.results = results);
            }
            _ => self.trials(name, content)?,
        }
        Ok(())
    }

    /// The run, and the thresholds it was judged by.
    pub(super) fn done(self) -> BundleResult<(Run, Value)> {
        self.texts.iter().try_for_each(Texts::all_named)?;
        Ok((self.run, self.thresholds))
    }

    fn read<T: Serialize + DeserializeOwned>(&mut self, name: &str, content: &[u8]) -> BundleResult<T> {
        let text = std::str::from_utf8(content).map_err(|error| part(name, error))?;
        let value = serde_json::from_str(text).map_err(|error| part(name, error))?;
        self.unknown.look(name, content, &value)?;
        Ok(value)
    }

    fn last(&mut self, change: impl FnOnce(&mut Point)) {
        if let Some(point) = self.run.points.last_mut() {
            change(point);
        }
    }

    fn head(&mut self, name: &str, content: &[u8]) -> BundleResult<()> {
        let head: Head = self.read(name, content)?;
        let run = &mut self.run;
        (run.schema, run.uuid, run.name, run.weir) = (head.schema, head.uuid, head.name, head.weir);
        (run.started_ms, run.ended_ms, run.state) = (head.started_ms, head.ended_ms, head.state);
        (run.self_checks, run.advice) = (head.self_checks, head.advice);
        let uuid = uuid::Uuid::parse_str(&run.uuid).map_err(|error| part(name, error))?;
        if uuid.to_string() != run.uuid {
            return Err(part(name, "its uuid is not written as RFC 9562 has it"));
        }
        match crate::name::fault(&run.name) {
            Some(fault) => Err(part(name, format!("its name cannot name a run: {fault}"))),
            None => Ok(()),
        }
    }

    fn segments(&mut self, name: &str, content: &[u8]) -> BundleResult<()> {
        let mut segments: Vec<Session> = self.read(name, content)?;
        if segments.is_empty() {
            return Err(part(name, "it must have one segment at least, the run's beginning"));
        }
        let begun = segments.remove(0);
        if (begun.started_ms, &begun.weir) != (self.run.started_ms, &self.run.weir) {
            return Err(part(name, "its first segment is not the beginning that `run.json` states"));
        }
        (self.run.environment, self.run.sessions) = (begun.environment, segments);
        Ok(())
    }

    fn point(&mut self, name: &str, head: PointHead) -> BundleResult<()> {
        if self.run.points.last().is_some_and(|last| last.index >= head.index) {
            return Err(part(name, format!("its index {} is not above the point before", head.index)));
        }
        self.run.points.push(Point {
            index: head.index,
            key: head.key,
            dut_version: head.dut_version,
            configuration: BTreeMap::new(),
            trace_hashes: head.trace_hashes,
            seed: head.seed,
            packets: head.packets,
            error: head.error,
            finished: head.finished,
            results: Vec::new(),
            trials: Vec::new(),
        });
        Ok(())
    }

    fn trials(&mut self, name: &str, content: &[u8]) -> BundleResult<()> {
        let mut trials: Vec<weir_trial::run::StoredTrial> = Vec::new();
        let mut lines: Vec<&[u8]> = content.split(|byte| *byte == b'\n').collect();
        if lines.pop().is_some_and(|rest| !rest.is_empty()) {
            return Err(part(name, "its last line does not end"));
        }
        for (number, line) in (1..).zip(lines) {
            let named = format!("{name}, line {number}");
            if line.len() > MOST_LINE {
                return Err(part(&named, format!("it is longer than {MOST_LINE} bytes")));
            }
            self.trials = self
                .trials
                .checked_sub(1)
                .ok_or_else(|| part(&named, "there are more trials than the manifest says".to_owned()))?;
            let trial: weir_trial::run::StoredTrial = self.read(&named, line)?;
            if trials.last().is_some_and(|last| last.sequence >= trial.sequence) {
                return Err(part(&named, "its sequence is not above that of the trial before"));
            }
            trials.push(trial);
        }
        self.last(|point| point.trials = trials);
        Ok(())
    }
}
