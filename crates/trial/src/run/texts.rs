//! Texts that several points of a run have, such as a flow table: in a document each of them stands once.
//!
//! The first point that has a text holds it; those after it hold `sha256:` and its hash in its place. Short texts stand wherever
//! they belong, to be read there. In memory every point has its own.

use super::Point;
use ring::digest::{SHA256, digest};
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Bytes from which on a text stands once.
const LEAST: usize = 1024;
/// Most bytes of texts that stand for references when a run is read: a small document must not fill the memory.
pub const MOST_REPEATED: u64 = 256 << 20;

/// The SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn reference(text: &str) -> String {
    format!("sha256:{}", sha256(text.as_bytes()))
}

fn is_reference(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|letter| letter.is_ascii_hexdigit()))
}

/// Points as a document has them.
pub(super) fn serialize<S: Serializer>(points: &[Point], to: S) -> Result<S::Ok, S::Error> {
    let mut known = HashMap::new();
    to.collect_seq(points.iter().map(|point| referring(point, &mut known)))
}

/// The point with references in the place of texts that are known.
fn referring<'a>(point: &'a Point, known: &mut HashMap<&'a str, String>) -> Cow<'a, Point> {
    let mut repeated = BTreeMap::new();
    for (file, text) in point.configuration.iter().filter(|(_, text)| text.len() >= LEAST) {
        match known.get(text.as_str()) {
            Some(reference) => _ = repeated.insert(file.clone(), reference.clone()),
            None => _ = known.insert(text, reference(text)),
        }
    }
    if repeated.is_empty() {
        return Cow::Borrowed(point);
    }
    let mut point = point.clone();
    point.configuration.extend(repeated);
    Cow::Owned(point)
}

/// Points of a document, each with its texts.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Point>, D::Error> {
    let mut points = Vec::<Point>::deserialize(from)?;
    resolve(&mut points, MOST_REPEATED).map_err(D::Error::custom)?;
    Ok(points)
}

/// Puts texts in the place of references to them, so many bytes at most.
fn resolve(points: &mut [Point], most: u64) -> Result<(), String> {
    let mut known: HashMap<String, String> = HashMap::new();
    let mut repeated = 0;
    for point in points {
        for (file, text) in &mut point.configuration {
            if text.len() >= LEAST {
                known.entry(reference(text)).or_insert_with(|| text.clone());
            } else if is_reference(text) {
                let of = |what: &str| format!("point {}: `{file}` is {text}, {what}", point.index);
                let whole = known.get(text).ok_or_else(|| of("and no point before it has that text"))?;
                repeated += whole.len() as u64;
                if repeated > most {
                    return Err(of(&format!("and with it the points' texts have more than {most} bytes")));
                }
                text.clone_from(whole);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use serde_json::Value;

    fn run(texts: &[&str]) -> Run {
        let mut run = Run::from_json(include_str!("../../../../docs/runs/readme.json")).unwrap();
        let first = run.points[0].clone();
        run.points = texts.iter().map(|_| first.clone()).collect();
        for ((index, point), text) in (0..).zip(&mut run.points).zip(texts) {
            point.index = index;
            point.configuration =
                [("a.flows", *text), ("short", "on")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        }
        run
    }

    #[test]
    fn a_long_text_stands_once_in_a_document_and_with_every_point_when_it_is_read() {
        let (long, other) = ("table=0\n".repeat(1000), "x".repeat(1024));
        let run = run(&[&long, &other, &long, &long, "short", "short"]);
        let text = run.to_json_line().unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let at = |point: usize| document["points"][point]["configuration"]["a.flows"].as_str().unwrap();
        // printf 'table=0\n%.0s' $(seq 1000) | sha256sum
        let hash = "sha256:1f2678700da6b42340e9f3fe8f720aea2ba285c5c3c78ee3e7845b0133e8823e";
        assert_eq!([at(0), at(1), at(2), at(3), at(4), at(5)], [&long, &other, hash, hash, "short", "short"]);
        assert_eq!(Run::from_json(&text).unwrap(), run);
    }

    #[test]
    fn references_to_nothing_and_to_too_much_are_refused() {
        let gone = format!("sha256:{}", "0".repeat(64));
        let document = run(&["a", &gone]).to_json_line().unwrap();
        let error = Run::from_json(&document).unwrap_err().to_string();
        assert!(error.contains("point 1: `a.flows` is sha256:000"), "{error}");
        let long = "x".repeat(1024);
        let mut points = run(&[&long, &super::reference(&long), &super::reference(&long)]).points;
        assert_eq!(super::resolve(&mut points.clone(), 2048), Ok(()));
        let error = super::resolve(&mut points, 2047).unwrap_err();
        assert!(error.contains("point 2: `a.flows`") && error.contains("more than 2047 bytes"), "{error}");
    }
}
