//! `texts.json`: what configured the devices of all points, each text once, by its SHA-256.

use super::error::{BundleError, BundleResult, part};
use std::collections::{BTreeMap, BTreeSet};
use weir_trial::run::{MOST_REPEATED, Point, sha256};

/// Texts by their hashes.
type ByHash<T> = BTreeMap<String, T>;
/// Of a point, the name of each file, and the hash of its text.
type Named = BTreeMap<String, String>;

/// The texts of all points, and of each point which it has.
pub(super) fn apart(points: &[Point]) -> (ByHash<&str>, Vec<Named>) {
    let mut texts = BTreeMap::new();
    let mut named = |(file, text): (&String, &'_ String)| (file.clone(), sha256(text.as_bytes()));
    let mut configurations = Vec::with_capacity(points.len());
    for point in points {
        let names: Named = point.configuration.iter().map(&mut named).collect();
        texts.extend(names.values().cloned().zip(point.configuration.values().map(String::as_str)));
        configurations.push(names);
    }
    (texts, configurations)
}

/// The texts of a bundle that is being read.
pub(super) struct Texts {
    part: String,
    by_hash: ByHash<String>,
    /// Those that a point has.
    used: BTreeSet<String>,
    /// Bytes of texts, as the points have them.
    bytes: u64,
}

impl Texts {
    /// Texts that have the hashes they stand under.
    pub(super) fn of(name: &str, by_hash: ByHash<String>) -> BundleResult<Self> {
        match by_hash.iter().find(|(hash, text)| **hash != sha256(text.as_bytes())) {
            Some((_, text)) => {
                let why =
                    format!("a text does not stand under its sha256, which is {}", sha256(text.as_bytes()));
                Err(part(name, why))
            }
            None => Ok(Self { part: name.to_owned(), by_hash, used: BTreeSet::new(), bytes: 0 }),
        }
    }

    /// The texts of a point, by the files that they stand for.
    pub(super) fn of_point(&mut self, name: &str, named: Named) -> BundleResult<BTreeMap<String, String>> {
        let mut configuration = BTreeMap::new();
        for (file, hash) in named {
            let text = self.by_hash.get(&hash).ok_or_else(|| {
                let hash: String = hash.escape_debug().take(64).collect();
                part(
                    name,
                    format!("it names a text with the sha256 {hash}, which `{}` does not have", self.part),
                )
            })?;
            self.bytes += text.len() as u64;
            if self.bytes > MOST_REPEATED {
                let what = "the texts of its points together have more bytes".to_owned();
                return Err(BundleError::TooLarge { what, bound: MOST_REPEATED });
            }
            self.used.insert(hash);
            configuration.insert(file, text.clone());
        }
        Ok(configuration)
    }

    /// Whether a point has each of them: one that none has would be lost.
    pub(super) fn all_named(&self) -> BundleResult<()> {
        match self.by_hash.keys().find(|hash| !self.used.contains(*hash)) {
            Some(hash) => Err(part(&self.part, format!("no point has its text with the sha256 {hash}"))),
            None => Ok(()),
        }
    }
}
