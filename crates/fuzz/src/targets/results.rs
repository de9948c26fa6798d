//! Results that travel: bundles, and runs as JSON, up to the page that is made of them.

use super::text;
use crate::{Budget, Outcome, Target, refused};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::sync::OnceLock;
use std::time::Duration;
use weir_report::{PageOptions, render};
use weir_store::bundle::{self, Seal};
use weir_trial::run::Run;

/// A run with a trial or two of each of its points, that an input is not too long for.
fn run() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let stored = include_str!("../../../../docs/runs/readme.json");
        let mut run = Run::from_json(stored).expect("it is a run");
        run.points.truncate(1);
        run.points.iter_mut().for_each(|point| point.trials.truncate(2));
        run.environment.clear();
        run.sessions.iter_mut().for_each(|session| session.environment.clear());
        Run { id: 0, uuid: "01938f2e-0000-7000-8000-0000000000aa".to_owned(), ..run }
    })
}

/// A bundle of it.
fn packed() -> Vec<u8> {
    bundle::write(run(), &json!({ "verdicts": { "late_ratio": 1e-4 } }), Seal::None)
        .expect("it can be written")
        .bytes
}

/// What is unpacked is bounded by a share of what is packed that only zeros reach.
const UNPACKING: Budget =
    Budget::of(2 << 20, 8192, 20_000, 512).within(Duration::from_millis(300), Duration::from_micros(50));

pub(super) const BUNDLE: Target = Target {
    name: "bundle",
    about: "a bundle of results: refused, or the run whose hashes hold",
    budget: UNPACKING,
    longest: 32 << 10,
    words: &[],
    seeds: || vec![packed()],
    run: read,
    workers: false,
};

fn read(input: &[u8]) -> Outcome {
    match bundle::read(input) {
        Err(error) => refused(&error.to_string(), input),
        Ok(bundle) => {
            let again = bundle::write(&bundle.run, &bundle.thresholds, Seal::None);
            Outcome::of((
                bundle.parts,
                bundle.numbers_hold().is_ok(),
                again.is_ok(),
                bundle.unknown.len().min(3),
            ))
        }
    }
}

pub(super) const PARTS: Target = Target {
    name: "bundle-parts",
    about: "the archive within a bundle, packed anew: names, lengths, parts and their hashes",
    budget: UNPACKING,
    longest: 64 << 10,
    words: &[
        "manifest.json",
        "signature.json",
        "run.json",
        "ustar",
        "00000000144\0",
        "\"parts\":",
        "\"bytes\":",
        "{",
        "}",
        "null",
    ],
    seeds: || {
        let mut archive = Vec::new();
        let packed = packed();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut archive).expect("it is a gzip");
        // An archive that ends early, at each block of its beginning.
        let mut seeds: Vec<Vec<u8>> = (1..4).map(|blocks| archive[..512 * blocks].to_vec()).collect();
        seeds.push(archive);
        seeds
    },
    run: |input| {
        let mut stream = GzBuilder::new().write(Vec::new(), Compression::none());
        stream.write_all(input).expect("memory takes everything");
        read(&stream.finish().expect("memory takes everything"))
    },
    workers: false,
};

pub(super) const RUN_JSON: Target = Target {
    name: "run-json",
    about: "a run as JSON, of any Weir: read, derived again, drawn as a page, packed and unpacked as the same",
    budget: Budget::of(24 << 20, 4096, 200_000, 512)
        .within(Duration::from_secs(1), Duration::from_micros(100)),
    longest: 48 << 10,
    words: &[
        "null",
        "1e308",
        "-1",
        "0",
        "18446744073709551615",
        "[]",
        "{}",
        "\"\"",
        "\"<script>\"",
        "\"throughput\"",
        "\"mrr\"",
        "\"latency\"",
        "\"results\":",
        "\"trials\":",
        "\"directions\":",
        "9007199254740993",
        "0.1e-300",
        "true",
    ],
    seeds: || {
        let whole = run().to_json_line().expect("a run can be written").into_bytes();
        let mut other = run().clone();
        other.points.clear();
        let empty = other.to_json_line().expect("a run can be written").into_bytes();
        // The same with what every field may leave out left out.
        let mut least: Value = serde_json::from_slice(&whole).expect("it was written");
        let fields = least.as_object_mut().expect("a run is an object");
        fields.retain(|name, _| {
            !matches!(name.as_str(), "sessions" | "self_checks" | "environment" | "ended_ms")
        });
        vec![whole, empty, least.to_string().into_bytes()]
    },
    run: run_json,
    workers: false,
};

fn run_json(input: &[u8]) -> Outcome {
    let run: Run = match serde_json::from_slice(input) {
        Ok(run) => run,
        Err(error) => return Outcome::said(&error.to_string()),
    };
    let derived: usize = run.points.iter().map(|point| weir_methods::verify::derive(point, None).len()).sum();
    let page = render(std::slice::from_ref(&run), &PageOptions::default());
    assert!(page.len() <= (1 << 20) + 256 * input.len(), "a page of {} bytes", page.len());
    assert!(
        !text(input).contains("<script>\"") || !page.contains("<script>\""),
        "a name became part of the page"
    );
    let packed = match bundle::write(&run, &json!({}), Seal::None) {
        Err(error) => refused(&error.to_string(), input),
        Ok(written) => {
            let back = bundle::read(written.bytes.as_slice()).expect("what is written is read");
            assert_eq!(back.run, Run { id: 0, ..run.clone() });
            Outcome::of(back.numbers_hold().is_ok())
        }
    };
    Outcome::of((packed, derived.min(9), run.points.len().min(3)))
}
