//! Bundles: a run as one file that travels (docs/bundles.md).
//!
//! - **Container**: a gzip of a plain tar archive, which other programs unpack. First `manifest.json`, with the sha256 of
//!   every other part; then `signature.json`, where it was signed; then the parts in the manifest's order.
//! - **Address**: the sha256 of the manifest's bytes. A run gives the same bundle on every machine: nothing in it depends on
//!   the database it was in.
//! - **Reading** trusts nothing: bounds on everything that is unpacked, no name that reaches a file system, every hash
//!   checked before a part is parsed. What follows from the trials is checked by the caller, who can derive it again.
//!
//! Cost: a whole run stands in memory, as it does when it is loaded from a store.

mod container;
mod error;
mod numbers;
mod parts;
mod sign;
mod texts;
mod unknown;

pub use error::{BundleError, BundleResult};
pub use parts::{Head, PointHead};
pub use sign::{PublicKey, Signature, SigningKey};
pub use weir_trial::run::sha256;

use container::{Unpacking, pack, shown};
use error::part;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{BufRead, Read as _};
use unknown::Unknown;
use weir_trial::run::Run;

/// Version of the bundles that this Weir writes, and the newest that it reads.
pub const BUNDLE_VERSION: u32 = 2;
/// The oldest version: a run that came in such a bundle, signed, goes on in it.
const OLDEST: u32 = 1;

/// Most bytes that a bundle is unpacked to.
pub const MOST_BYTES: u64 = 256 << 20;
/// Most points of a bundle.
pub const MOST_POINTS: u32 = 20_000;
/// Most trials of a bundle.
pub const MOST_TRIALS: u32 = 200_000;
/// Most bytes of a manifest: four parts a point, of some 150 bytes each.
const MOST_MANIFEST: u64 = 16 << 20;
/// Most bytes of a signature's document.
const MOST_SIGNATURE: u64 = 4096;

const MANIFEST: &str = "manifest.json";
const SIGNATURE: &str = "signature.json";

/// The part `manifest.json`: which run it is, and the hash of every part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of the bundle: [`BUNDLE_VERSION`] of whoever wrote it.
    pub bundle: u32,
    /// The run's identity everywhere: a UUID (RFC 9562).
    pub uuid: String,
    /// Its name in the database that it was measured into.
    pub name: String,
    /// Version and commit of the Weir that measured it.
    pub weir: String,
    /// How many points there are.
    pub points: u32,
    /// How many trials there are in all points.
    pub trials: u32,
    /// Every part but the manifest and its signature, in the order they stand.
    pub parts: Vec<Part>,
}

/// One part of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Its name in the archive.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// Who stands behind a bundle that is written.
#[derive(Clone, Copy, Debug)]
pub enum Seal<'a> {
    /// Nobody signs it.
    None,
    /// It is signed now.
    Sign(&'a SigningKey),
    /// It came with a signature, which still holds if nothing changed, and is left out if something did.
    Kept(&'a Signature),
}

/// A bundle that was written.
#[derive(Debug)]
pub struct Written {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its address: `sha256:` and the hash of its manifest.
    pub address: String,
    /// Whether it is signed.
    pub signed: bool,
}

/// A bundle that was read: every hash holds, and the signature where there is one.
#[derive(Debug)]
pub struct Bundle {
    /// The run. Its number is 0: it is in no database.
    pub run: Run,
    /// The thresholds that its results were judged by.
    pub thresholds: Value,
    /// Its address: `sha256:` and the hash of its manifest.
    pub address: String,
    /// Parts whose hashes were checked.
    pub parts: usize,
    /// Bytes of these parts, unpacked.
    pub bytes: u64,
    /// The signature, and whose it is.
    pub signed: Option<(Signature, PublicKey)>,
    /// What it holds that this Weir does not know and would drop: fields, by their place.
    pub unknown: Vec<String>,
}

/// Writes a run as a bundle. It is read back before it is given out.
pub fn write(run: &Run, thresholds: &Value, seal: Seal<'_>) -> BundleResult<Written> {
    if let Seal::Kept(signature) = seal {
        // A signature is of the form that was signed.
        for version in (OLDEST..=BUNDLE_VERSION).rev() {
            let stated = Stated::of(version, run, thresholds)?;
            if signature.check(&stated.manifest).is_ok() {
                return stated.sealed(Some(signature.clone()), run);
            }
        }
    }
    let stated = Stated::of(BUNDLE_VERSION, run, thresholds)?;
    let signature = match seal {
        Seal::Sign(key) => Some(key.sign(&stated.manifest)),
        Seal::None | Seal::Kept(_) => None,
    };
    stated.sealed(signature, run)
}

/// The parts of a bundle that is written, and its manifest.
struct Stated {
    manifest: Vec<u8>,
    parts: Vec<(String, Vec<u8>)>,
}

impl Stated {
    fn of(version: u32, run: &Run, thresholds: &Value) -> BundleResult<Self> {
        if run.uuid.is_empty() {
            return Err(part("run.json", "the run has no identity; a store gives it one"));
        }
        let trials: usize = run.points.iter().map(|point| point.trials.len()).sum();
        let contents = parts::take_apart(version, run, thresholds)?;
        let parts: Vec<_> = parts::names(version, run.points.len()).into_iter().zip(contents).collect();
        let of_part = |(name, content): &(String, Vec<u8>)| Part {
            name: name.clone(),
            bytes: content.len() as u64,
            sha256: sha256(content),
        };
        let manifest = Manifest {
            bundle: version,
            uuid: run.uuid.clone(),
            name: run.name.clone(),
            weir: run.weir.clone(),
            points: run.points.len() as u32,
            trials: trials as u32,
            parts: parts.iter().map(of_part).collect(),
        };
        Ok(Self { manifest: parts::document(&manifest)?, parts })
    }

    fn sealed(self, signature: Option<Signature>, run: &Run) -> BundleResult<Written> {
        let address = address(&self.manifest);
        let mut files = vec![(MANIFEST.to_owned(), self.manifest)];
        if let Some(signature) = &signature {
            files.push((SIGNATURE.to_owned(), parts::document(signature)?));
        }
        files.extend(self.parts);
        let bytes = pack(&files);
        let back = read(bytes.as_slice())?;
        if back.run != (Run { id: 0, ..run.clone() }) {
            return Err(part(
                "run.json",
                "what was written does not read back as the run; please report this",
            ));
        }
        Ok(Written { bytes, address, signed: signature.is_some() })
    }
}

/// Reads a bundle, and checks its version, its bounds, every hash, and its signature.
pub fn read(mut stream: impl BufRead) -> BundleResult<Bundle> {
    is_gzip(&mut stream)?;
    let mut unpacking = Unpacking::new(stream, MOST_BYTES);
    let (first, text) = unpacking
        .next(MOST_MANIFEST)?
        .ok_or_else(|| BundleError::NotABundle("there is nothing in the archive".to_owned()))?;
    if first != MANIFEST {
        let what = format!("the archive begins with {}, not with `{MANIFEST}`", shown(&first));
        return Err(BundleError::NotABundle(what));
    }
    let manifest = manifest(&text)?;
    let mut next = unpacking.next(MOST_BYTES)?;
    let mut signed = None;
    if let Some((_, content)) = next.take_if(|(name, _)| name == SIGNATURE) {
        let signature: Signature = Some(&content)
            .filter(|content| content.len() as u64 <= MOST_SIGNATURE)
            .and_then(|content| serde_json::from_slice(content).ok())
            .ok_or_else(|| BundleError::Signature(format!("`{SIGNATURE}` cannot be read")))?;
        let key = signature.check(&text)?;
        signed = Some((signature, key));
        next = unpacking.next(MOST_BYTES)?;
    }
    let mut unknown = Unknown::default();
    unknown.look(MANIFEST, &text, &manifest)?;
    let mut together = parts::Together::new(manifest.trials as usize, &mut unknown);
    let mut left = manifest.parts.iter();
    for stated in left.by_ref() {
        let content = match next.take() {
            Some((name, content)) if name == stated.name => content,
            Some((name, _)) => {
                let what = format!("it has {} where `{}` must be", shown(&name), stated.name);
                return Err(BundleError::Damaged(what));
            }
            None => unpacking.file(&stated.name, MOST_BYTES)?,
        };
        hash_holds(stated, &content)?;
        together.take(&stated.name, &content)?;
    }
    if unpacking.next(0)?.is_some() {
        return Err(BundleError::Damaged("it has a part that the manifest does not name".to_owned()));
    }
    unpacking.end()?;
    let (run, thresholds) = together.done()?;
    agrees(&manifest, &run)?;
    let (parts, bytes) = (manifest.parts.len(), manifest.parts.iter().map(|part| part.bytes).sum());
    Ok(Bundle { run, thresholds, address: address(&text), parts, bytes, signed, unknown: unknown.fields() })
}

impl Bundle {
    /// What of its numbers cannot be counted with: beyond 2^53 readers of JSON differ, and sums overflow.
    pub fn numbers_hold(&self) -> BundleResult<()> {
        numbers::hold(&self.run)
    }
}

/// Whether a file begins as bundles do: a gzip of something.
pub fn looks_like_one(path: &std::path::Path) -> bool {
    let mut head = [0_u8; 2];
    path.is_file()
        && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && head == GZIP
}

const GZIP: [u8; 2] = [0x1f, 0x8b];

fn is_gzip(stream: &mut impl BufRead) -> BundleResult<()> {
    let head = stream.fill_buf().map_err(|error| BundleError::NotABundle(error.to_string()))?;
    if head.is_empty() {
        return Err(BundleError::NotABundle("the file is empty".to_owned()));
    }
    if !head.starts_with(&GZIP[..head.len().min(2)]) {
        return Err(BundleError::NotABundle("its first bytes are not gzip's".to_owned()));
    }
    Ok(())
}

/// Reads a manifest, its version first: a newer one may have another form.
fn manifest(text: &[u8]) -> BundleResult<Manifest> {
    let value: Value = serde_json::from_slice(text).map_err(|error| part(MANIFEST, error))?;
    let version = value.get("bundle").and_then(Value::as_u64);
    let found = version.ok_or_else(|| part(MANIFEST, "it states no version (`bundle`)"))?;
    if found > u64::from(BUNDLE_VERSION) {
        let text = |key| value.get(key).and_then(Value::as_str).map_or("not told".to_owned(), shown);
        let what = format!("run {}, measured by {}", text("name"), text("weir"));
        return Err(BundleError::Newer { found, known: BUNDLE_VERSION, what });
    }
    let manifest: Manifest = serde_json::from_value(value).map_err(|error| part(MANIFEST, error))?;
    for (what, count, bound) in
        [("points", manifest.points, MOST_POINTS), ("trials", manifest.trials, MOST_TRIALS)]
    {
        if count > bound {
            let what = format!("it has {count} {what}");
            return Err(BundleError::TooLarge { what, bound: u64::from(bound) });
        }
    }
    let names = parts::names(manifest.bundle, manifest.points as usize);
    if names.len() != manifest.parts.len() {
        let why = format!(
            "it names {} parts, and a run of {} points has {}",
            manifest.parts.len(),
            manifest.points,
            names.len()
        );
        return Err(part(MANIFEST, why));
    }
    match names.iter().zip(&manifest.parts).find(|(name, part)| **name != part.name) {
        Some((name, found)) => {
            Err(part(MANIFEST, format!("it names {} where `{name}` must be", shown(&found.name))))
        }
        None => Ok(manifest),
    }
}

fn hash_holds(stated: &Part, content: &[u8]) -> BundleResult<()> {
    if content.len() as u64 != stated.bytes {
        let why = format!("it has {} bytes, and the manifest says {}", content.len(), stated.bytes);
        return Err(part(&stated.name, why));
    }
    let found = sha256(content);
    if found != stated.sha256 {
        let stated_hash = stated.sha256.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
        return Err(BundleError::Changed { part: stated.name.clone(), found, stated: stated_hash });
    }
    Ok(())
}

/// Whether the manifest says of the run what its parts say.
fn agrees(manifest: &Manifest, run: &Run) -> BundleResult<()> {
    let trials: usize = run.points.iter().map(|point| point.trials.len()).sum();
    let same = (&manifest.uuid, &manifest.name, &manifest.weir) == (&run.uuid, &run.name, &run.weir)
        && manifest.trials as usize == trials;
    if same { Ok(()) } else { Err(part(MANIFEST, "it does not say of the run what its parts say")) }
}

fn address(manifest: &[u8]) -> String {
    format!("sha256:{}", sha256(manifest))
}

#[cfg(test)]
mod tests;
