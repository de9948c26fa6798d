//! Bundles as nobody should write them: every one is refused with a reason, or harmless.

use super::*;
use crate::bundle::container::pack;
use proptest::prelude::*;
use serde_json::json;
use std::sync::LazyLock;
use weir_simulated::SimulatedDut;
use weir_trial::run::{Point, PointKey, Purpose, RunState, StoredTrial};
use weir_trial::{Nf, TrialSpec};
use weir_units::{Bps, LineRate, Nanos, Pps};

fn run() -> Run {
    let trial = |sequence: u32| {
        let spec = TrialSpec { load: Pps(1e6), duration: Nanos(Nanos::PER_SECOND) };
        StoredTrial::new(sequence, Purpose::Search, 5, SimulatedDut::default().start().run(spec))
    };
    let key = PointKey {
        nf: Nf::L2Fwd,
        dut: "simulated".to_owned(),
        wiring: "fed".to_owned(),
        trace: "simple".to_owned(),
        size: "64".to_owned(),
        mean_frame_bytes: 64.0,
        directions: 1,
        placement: weir_trial::Placement::default(),
        huge_pages: false,
        line_rate: LineRate(Bps(10e9)),
    };
    let point = |index| Point {
        index,
        key: key.clone(),
        dut_version: None,
        configuration: [("a.conf".to_owned(), "on\n".to_owned())].into(),
        trace_hashes: vec!["00ff".to_owned()],
        seed: u64::MAX,
        packets: None,
        error: None,
        finished: true,
        results: Vec::new(),
        trials: vec![trial(0), trial(1)],
    };
    Run {
        schema: 1,
        id: 0,
        uuid: "01938f2e-0000-7000-8000-0000000000aa".to_owned(),
        name: "2026-11-21-otter-00aa".to_owned(),
        started_ms: 5,
        ended_ms: Some(9),
        state: RunState::Finished,
        plan: "nf = \"l2fwd\"\n".to_owned(),
        weir: "weir 0.1.0".to_owned(),
        environment: [("cpu".to_owned(), "a test".to_owned())].into(),
        sessions: Vec::new(),
        self_checks: Vec::new(),
        points: vec![point(0), point(3)],
        advice: Vec::new(),
    }
}

static WHOLE: LazyLock<Vec<u8>> =
    LazyLock::new(|| write(&run(), &json!({ "goals": [] }), Seal::None).unwrap().bytes);

/// The files of a bundle, to be changed and packed again.
fn files(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut unpacking = Unpacking::new(bytes, MOST_BYTES);
    std::iter::from_fn(|| unpacking.next(MOST_BYTES).unwrap()).collect()
}

/// The whole bundle with its parts changed, and what a reader says to it.
fn changed(change: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) -> BundleResult<Bundle> {
    let mut files = files(&WHOLE);
    change(&mut files);
    read(pack(&files).as_slice())
}

/// The same with the manifest as JSON, whose hashes are made right again for all parts.
fn restated(change: impl FnOnce(&mut Value, &mut Vec<(String, Vec<u8>)>)) -> BundleResult<Bundle> {
    changed(|files| {
        let mut manifest: Value = serde_json::from_slice(&files[0].1).unwrap();
        let mut parts = files.split_off(1);
        change(&mut manifest, &mut parts);
        if let Some(stated) = manifest["parts"].as_array_mut() {
            for (stated, (_, content)) in stated.iter_mut().zip(&parts) {
                stated["bytes"] = content.len().into();
                stated["sha256"] = sha256(content).into();
            }
        }
        files[0].1 = serde_json::to_vec(&manifest).unwrap();
        files.append(&mut parts);
    })
}

fn place(files: &[(String, Vec<u8>)], name: &str) -> usize {
    files.iter().position(|(known, _)| known == name).unwrap()
}

fn says(result: BundleResult<Bundle>, what: &[&str]) {
    let error = result.map(|bundle| bundle.run.name).unwrap_err().to_string();
    for what in what {
        assert!(error.contains(what), "{what:?} is missing in: {error}");
    }
}

#[test]
fn a_changed_part_is_named_whichever_it_is() {
    for (name, _) in files(&WHOLE).into_iter().skip(1) {
        let result = changed(|files| {
            let at = place(files, &name);
            // As a hand would: a digit, or a letter, for another one.
            let byte = files[at].1.iter_mut().find(|byte| byte.is_ascii_alphanumeric());
            if let Some(byte) = byte {
                *byte = if *byte == b'1' { b'2' } else { b'1' };
            } else {
                files[at].1[0] = b' ';
            }
        });
        says(result, &[&format!("`{name}` was changed"), "sha256"]);
    }
    let longer = changed(|files| files[2].1.push(b'\n'));
    says(longer, &["`plan.toml`", "bytes"]);
}

#[test]
fn a_newer_version_says_what_it_holds_and_who_wrote_it() {
    let newer = restated(|manifest, parts| {
        manifest["bundle"] = json!(7);
        manifest["weir"] = json!("weir 9.0.0");
        manifest.as_object_mut().unwrap().remove("points");
        parts.truncate(1);
    });
    says(newer, &["version 7", "up to version 2", "2026-11-21-otter-00aa", "weir 9.0.0"]);
}

#[test]
fn fields_that_a_newer_weir_wrote_are_named_and_not_dropped_without_a_word() {
    let bundle = restated(|_, parts| {
        let at = place(parts, "points/1/trials.jsonl");
        let text = String::from_utf8(parts[at].1.clone()).unwrap();
        let text = text.replace("\"superseded\":", "\"temperature\":41.5,\"superseded\":");
        parts[at].1 = text.into_bytes();
        let at = place(parts, "run.json");
        let mut head: Value = serde_json::from_slice(&parts[at].1).unwrap();
        head["weather"] = json!({ "rain": true });
        parts[at].1 = serde_json::to_vec(&head).unwrap();
    });
    assert_eq!(bundle.unwrap().unknown, ["run.weather", "trials.temperature"]);
    assert!(read(WHOLE.as_slice()).unwrap().unknown.is_empty());
}

#[test]
fn another_writers_blanks_and_order_of_keys_are_no_difference() {
    let bundle = restated(|_, parts| {
        for (name, content) in parts.iter_mut().filter(|(name, _)| name.ends_with(".json")) {
            let value: Value = serde_json::from_slice(content).unwrap_or_else(|_| panic!("{name}"));
            *content = serde_json::to_vec(&value).unwrap();
        }
    })
    .unwrap();
    assert_eq!(bundle.run, run());
    assert!(bundle.unknown.is_empty(), "{:?}", bundle.unknown);
}

#[test]
fn names_that_lead_elsewhere_are_refused_and_never_used() {
    for name in ["../../etc/passwd", "/etc/passwd", "points/9/trials.jsonl", "run.json", "a\x1b[31m", ""] {
        let result = changed(|files| files[3].0 = name.to_owned());
        let error = result.map(|bundle| bundle.run.name).unwrap_err().to_string();
        assert!(!error.contains('\x1b'), "{error:?}");
        let named = restated(|manifest, parts| {
            manifest["parts"][2]["name"] = json!(name);
            parts[2].0 = name.to_owned();
        });
        says(named, &["must be"]);
    }
}

/// A header of a kind that no bundle has, with its checksum made right.
fn with_header(change: impl Fn(&mut [u8])) -> BundleResult<Bundle> {
    use std::io::{Read as _, Write as _};
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(WHOLE.as_slice()).read_to_end(&mut tar).unwrap();
    change(&mut tar[..512]);
    tar[148..156].fill(b' ');
    let sum: u32 = tar[..512].iter().map(|byte| u32::from(*byte)).sum();
    tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&tar).unwrap();
    read(packed.finish().unwrap().as_slice())
}

#[test]
fn links_folders_and_lies_about_length_are_refused() {
    for kind in [b'1', b'2', b'5', b'x', b'g', b'L'] {
        says(with_header(|header| header[156] = kind), &["no plain file"]);
    }
    for (size, why) in [
        ("77777777777", "bound"),
        ("00000000001", "manifest.json"),
        ("not a size ", "no size"),
        ("00010000000", ""),
    ] {
        says(with_header(|header| header[124..135].copy_from_slice(size.as_bytes())), &[why]);
    }
    // Sizes in base 256, as some programs write them.
    says(with_header(|header| header[124] = 0x80), &["no size"]);
}

#[test]
fn counts_beyond_the_bounds_allocate_nothing() {
    let of = |key: &'static str, count: u64| restated(move |manifest, _| manifest[key] = json!(count));
    says(of("points", 4_000_000_000), &["4000000000 points", "20000"]);
    says(of("trials", 4_000_000_000), &["4000000000 trials"]);
    says(of("points", 3), &["13 parts, and a run of 3 points has 17"]);
    says(of("points", u64::MAX), &["manifest.json"]);
    says(of("trials", 5), &["what its parts say"]);
    says(of("trials", 3), &["more trials than the manifest says"]);
}

#[test]
fn a_bomb_is_left_where_the_bound_is() {
    let bomb = restated(|_, parts| parts[1].1 = vec![b'\n'; MOST_BYTES as usize + 1]);
    says(bomb, &["too large"]);
    let deep = restated(|_, parts| parts[2].1 = [vec![b'['; 100_000], vec![b']'; 100_000]].concat());
    says(deep, &["thresholds.json", "recursion"]);
}

#[test]
fn what_follows_the_end_or_is_missing_there_is_refused() {
    let mut longer = WHOLE.clone();
    longer.extend(WHOLE.iter());
    says(read(longer.as_slice()), &["something follows its end"]);
    says(changed(|files| files.push(("more".to_owned(), Vec::new()))), &["does not name"]);
    says(changed(|files| drop(files.pop())), &["points/1/trials.jsonl` is missing"]);
    says(changed(|files| files.swap(1, 2)), &["must be"]);
    says(changed(|files| drop(files.remove(0))), &["begins with `run.json`"]);
    for end in [0, 1, 2, 9, 10, WHOLE.len() / 2, WHOLE.len() - 1] {
        assert!(read(&WHOLE[..end]).is_err(), "{end} bytes of it");
    }
    for text in ["", "x", "{}", "SQLite format 3\0"] {
        says(read(text.as_bytes()), &["no bundle", "weir export"]);
    }
}

#[test]
fn runs_that_contradict_themselves_are_refused() {
    let edit = |name: &'static str, from: &'static str, to: &'static str| {
        restated(move |_, parts| {
            let at = place(parts, name);
            let text = String::from_utf8(parts[at].1.clone()).unwrap();
            assert!(text.contains(from), "{name}: {text}");
            parts[at].1 = text.replace(from, to).into_bytes();
        })
    };
    says(edit("run.json", "otter", "heron"), &["manifest.json", "what its parts say"]);
    says(edit("run.json", "01938f2e", "01938f2f"), &["what its parts say"]);
    says(edit("run.json", "01938f2e", "x"), &["run.json"]);
    says(edit("run.json", "2026-11-21-otter", "@last"), &["run.json", "cannot name a run"]);
    says(edit("segments.json", "\"started_ms\": 5", "\"started_ms\": 6"), &["segments.json", "beginning"]);
    says(edit("points/1/point.json", "\"index\": 3", "\"index\": 0"), &["points/1/point.json", "index 0"]);
    says(edit("points/0/trials.jsonl", "\"sequence\":1", "\"sequence\":0"), &["line 2", "sequence"]);
    says(edit("points/0/trials.jsonl", "\"sequence\":1", "\"sequence\":-1"), &["line 2"]);
    says(edit("points/0/trials.jsonl", "\"load\":1000000.0", "\"load\":1e999"), &["line 1"]);
    says(edit("points/0/results.json", "[]", "[{}]"), &["points/0/results.json"]);
}

#[test]
fn a_text_that_all_points_have_stands_once_and_under_its_hash() {
    // printf 'on\n' | sha256sum
    let hash = "b6ac5bc39377e44ee783dff946f6703a994f5eb31a438e69dc0735b40060d2e8";
    let files = files(&WHOLE);
    let json = |name: &str| serde_json::from_slice::<Value>(&files[place(&files, name)].1).unwrap();
    assert_eq!(json("texts.json"), json!({ hash: "on\n" }));
    for point in 0..2 {
        assert_eq!(json(&format!("points/{point}/configuration.json")), json!({ "a.conf": hash }));
    }
    let with = |name: &'static str, value: Value| {
        restated(move |_, parts| {
            let at = place(parts, name);
            parts[at].1 = value.to_string().into_bytes();
        })
    };
    says(
        with("texts.json", json!({ hash: "off\n" })),
        &["`texts.json`: a text does not stand under its sha256"],
    );
    says(
        with("texts.json", json!({})),
        &["`points/0/configuration.json`", hash, "`texts.json` does not have"],
    );
    let more = json!({ hash: "on\n", sha256(b"more"): "more" });
    says(with("texts.json", more), &["`texts.json`: no point has its text", &sha256(b"more")]);
    says(with("points/1/configuration.json", json!({ "a": "\u{1b}[31m" })), &["points/1", "\\u{1b}"]);
}

#[test]
fn a_few_bytes_do_not_become_texts_without_end() {
    let text = "x".repeat(16 << 20);
    let hash = sha256(text.as_bytes());
    let bomb = restated(|_, parts| {
        let names: std::collections::BTreeMap<String, &str> =
            (0..17).map(|file| (format!("{file}"), hash.as_str())).collect();
        let (texts, point) = (place(parts, "texts.json"), place(parts, "points/0/configuration.json"));
        parts[texts].1 = json!({ &hash: &text }).to_string().into_bytes();
        parts[point].1 = serde_json::to_vec(&names).unwrap();
    });
    says(bomb, &["too large", "texts of its points together", "268435456"]);
}

/// The run as version 1 had it: each point with its own texts.
fn first_version() -> Vec<u8> {
    let stated = Stated::of(1, &run(), &json!({ "goals": [] })).unwrap();
    stated.sealed(None, &run()).unwrap().bytes
}

#[test]
fn a_bundle_of_the_first_version_is_read_and_its_signature_goes_on() {
    let (files, back) = (files(&first_version()), read(first_version().as_slice()).unwrap());
    assert_eq!((back.run, back.unknown), (run(), Vec::new()));
    let configuration = &files[place(&files, "points/1/configuration.json")].1;
    assert_eq!(serde_json::from_slice::<Value>(configuration).unwrap(), json!({ "a.conf": "on\n" }));
    assert!(!files.iter().any(|(name, _)| name == "texts.json"));
    let thresholds = json!({ "goals": [] });
    let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let key = SigningKey(key);
    for version in [1, 2] {
        let stated = Stated::of(version, &run(), &thresholds).unwrap();
        let signature = key.sign(&stated.manifest);
        let signed = stated.sealed(Some(signature.clone()), &run()).unwrap();
        let again = write(&run(), &thresholds, Seal::Kept(&signature)).unwrap();
        assert!(again.signed && again.bytes == signed.bytes, "version {version}");
    }
}

#[test]
fn numbers_that_nobody_counts_are_named() {
    let mut great = run();
    great.points[1].trials[0].result.overhead = Nanos(u64::MAX);
    let bytes = write(&great, &Value::Null, Seal::None).unwrap().bytes;
    let error = read(bytes.as_slice()).unwrap().numbers_hold().unwrap_err().to_string();
    assert!(
        error.contains("points/1/trials.jsonl, line 1") && error.contains("18446744073709551615"),
        "{error}"
    );
    read(WHOLE.as_slice()).unwrap().numbers_hold().unwrap();
}

#[test]
fn the_address_is_the_hash_of_the_manifest_and_does_not_depend_on_the_database() {
    let written = write(&run(), &json!({ "goals": [] }), Seal::None).unwrap();
    assert_eq!(written.bytes, *WHOLE);
    assert_eq!(written.address, format!("sha256:{}", sha256(&files(&WHOLE)[0].1)));
    let elsewhere = Run { id: 77, ..run() };
    assert_eq!(write(&elsewhere, &json!({ "goals": [] }), Seal::None).unwrap().bytes, *WHOLE);
    // The first vector of FIPS 180-2.
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_are_refused_or_harmless(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
        inside in any::<bool>(),
    ) {
        use std::io::{Read as _, Write as _};
        let flip = |bytes: &mut Vec<u8>| {
            for (at, by) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= by;
            }
        };
        let mut bytes = WHOLE.clone();
        if inside {
            let mut tar = Vec::new();
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut tar).unwrap();
            flip(&mut tar);
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(&tar).unwrap();
            bytes = packed.finish().unwrap();
        } else {
            flip(&mut bytes);
        }
        if let Ok(bundle) = read(bytes.as_slice()) {
            prop_assert_eq!(bundle.run, run());
        }
    }

    #[test]
    fn a_part_whose_hash_was_made_right_again_is_refused_or_a_run(
        part in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let result = restated(|_, parts| {
            let content = &mut parts[part.index(13)].1;
            for (at, to) in &flips {
                let at = at.index(content.len());
                content[at] = *to;
            }
            if let Some(cut) = cut {
                content.truncate(cut.index(content.len()));
            }
        });
        // Whatever was read of it can be written again.
        if let Ok(bundle) = result {
            let again = write(&bundle.run, &bundle.thresholds, Seal::None).unwrap();
            prop_assert_eq!(read(again.bytes.as_slice()).unwrap().run, bundle.run);
        }
    }
}
