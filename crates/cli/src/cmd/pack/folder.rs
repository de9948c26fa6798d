//! What is in a pack: every file by its name, made of the runs alone.

use super::inputs::{self, Input};
use super::short::short;
use super::{sums, text};
use crate::cmd::BadUse;
use crate::cmd::export::sealed;
use crate::cmd::rescore::plan_of;
use crate::cmd::stored::Database;
use crate::cmd::verify::unexplained;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_campaign::plan::{ASSUMED_OVERHEAD, Plan};
use weir_report::{Form, PageOptions, exhibits};
use weir_store::bundle::SigningKey;
use weir_store::{Selector, beside};
use weir_trial::run::Run;
use weir_units::Nanos;

/// Version of packs.
pub(super) const PACK_VERSION: u32 = 1;
/// What the pack is, for programs.
pub(super) const MANIFEST: &str = "pack.json";
/// The script that measures everything again.
pub(super) const RERUN: &str = "rerun.sh";
/// The script that compares.
pub(super) const COMPARE: &str = "compare.sh";
/// Where the scripts measure.
pub(super) const AGAIN: &str = "again";
/// A run's bundle, in the run's folder.
pub(super) const BUNDLE: &str = "run.weir";
/// A run's plan, in the run's folder.
pub(super) const PLAN: &str = "plan.toml";
/// The plan cut down.
pub(super) const SHORT: &str = "short.toml";
/// The machine, as it was captured.
pub(super) const ENVIRONMENT: &str = "environment.txt";
/// The page.
const PAGE: &str = "page.html";

/// `pack.json`: what a pack is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(in crate::cmd) struct Manifest {
    /// Version of the pack.
    pub(super) pack: u32,
    /// Version and commit of the Weir that made it.
    pub(super) weir: String,
    /// The runs, each with a folder.
    pub(super) runs: Vec<Head>,
}

/// One run of a pack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Head {
    /// Its folder: `runs/NAME`.
    pub(super) folder: String,
    /// Its name.
    pub(super) name: String,
    /// Its identity everywhere: a UUID (RFC 9562).
    pub(super) uuid: String,
    /// The address of its bundle: `sha256:` and the hash of the bundle's manifest.
    pub(super) address: String,
    /// The files that its plan names.
    #[serde(default)]
    pub(super) inputs: Vec<Input>,
}

/// One run as it goes into a pack.
pub(super) struct Packed {
    pub(super) head: Head,
    pub(super) run: Run,
    pub(super) plan: Plan,
    bundle: Vec<u8>,
    inputs: Vec<(String, Vec<u8>)>,
}

impl Packed {
    /// The run that is meant, if it may go into a pack: whole, from its trials, and not twice.
    pub(super) fn of(
        database: &Database,
        selector: &Selector,
        key: Option<&SigningKey>,
        before: &[Self],
    ) -> anyhow::Result<Self> {
        let (run, written) = sealed(database, selector, key)?;
        let wrong = |why: String| BadUse::new(format!("run {}: {why}", run.name));
        if before.iter().any(|packed| packed.run.uuid == run.uuid) {
            return Err(wrong("it is named twice; name each run once".to_owned()).into());
        }
        let differences = unexplained(&run)?;
        if let Some(first) = differences.first() {
            let (more, selector) = (differences.len() - 1, selector);
            let more = if more == 0 { String::new() } else { format!(", and {more} more") };
            return Err(wrong(format!(
                "what does not follow from its trials is not packed: {first}{more}; `weir verify {selector}` lists what \
                 differs"
            ))
            .into());
        }
        let name = folder_name(&run.name);
        let taken = |name: &str| before.iter().any(|packed| packed.head.folder == format!("runs/{name}"));
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let name = std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(name);
        let copies = database.named().map(PathBuf::from).or_else(|| weir_store::default_path().ok());
        let copies = copies.map(|database| beside(&database, "flows"));
        let inputs = inputs::of(&run, copies.as_deref());
        let head = Head {
            folder: format!("runs/{name}"),
            name: run.name.clone(),
            uuid: run.uuid.clone(),
            address: written.address,
            inputs: inputs.iter().map(|(input, _)| input.clone()).collect(),
        };
        let inputs = inputs.into_iter().filter_map(|(input, bytes)| Some((input.path, bytes?))).collect();
        let plan = plan_of(&run)?;
        // A run in a database has a number there; a pack does not depend on it.
        Ok(Self { head, run: Run { id: 0, ..run }, plan, bundle: written.bytes, inputs })
    }

    /// How long a plan takes to be measured, as it says itself.
    pub(super) fn takes(plan: &Plan) -> Nanos {
        plan.estimate(ASSUMED_OVERHEAD).time
    }

    /// How long the plan takes when it is cut down.
    pub(super) fn takes_short(&self) -> Nanos {
        let run = Run { plan: short(&self.plan), points: Vec::new(), ..self.run.clone() };
        plan_of(&run).map_or_else(|_| Self::takes(&self.plan), |plan| Self::takes(&plan))
    }
}

/// A run's name as the name of a folder.
fn folder_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = name.chars().map(|c| if plain(c) { c } else { '_' }).take(100).collect();
    let name = name.trim_start_matches(['.', '-']).to_owned();
    if name.is_empty() { "run".to_owned() } else { name }
}

/// All files of a pack.
pub(super) struct Pack {
    /// Bytes by name, `/` between folders.
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

impl Pack {
    /// The pack of some runs.
    pub(super) fn of(packed: &[Packed]) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        let mut put = |name: String, bytes: Vec<u8>| files.insert(name, bytes);
        for one in packed {
            for (name, bytes) in of_run(&one.run, &one.plan) {
                put(format!("{}/{name}", one.head.folder), bytes);
            }
            put(format!("{}/{BUNDLE}", one.head.folder), one.bundle.clone());
            for (path, bytes) in &one.inputs {
                let name = format!("{}/{path}", one.head.folder);
                if put(name.clone(), bytes.clone()).is_some() {
                    let why = format!(
                        "the plan of run {} names a file {path}, where `{name}` has its place in the pack; rename it",
                        one.head.name
                    );
                    return Err(BadUse::new(why).into());
                }
            }
        }
        let runs = packed.iter().map(|one| one.head.clone()).collect();
        let manifest = Manifest { pack: PACK_VERSION, weir: crate::cmd::WEIR.to_owned(), runs };
        put(MANIFEST.to_owned(), format!("{}\n", serde_json::to_string_pretty(&manifest)?).into_bytes());
        put(RERUN.to_owned(), text::RERUN.as_bytes().to_vec());
        put(COMPARE.to_owned(), text::COMPARE.as_bytes().to_vec());
        put("README.md".to_owned(), text::readme(packed).into_bytes());
        let sums = sums::written(&files);
        files.insert(sums::FILE.to_owned(), sums.into_bytes());
        Ok(Self { files })
    }

    /// Writes the folder, which appears whole or not at all.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let refused = |error: std::io::Error| {
            BadUse::new(format!("pack {}: {error}; name another folder with -o", folder.display()))
        };
        let beside =
            folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let making = tempfile::Builder::new()
            .prefix(".weir-pack-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir_in(beside)
            .map_err(refused)?;
        for (name, bytes) in &self.files {
            let path = making.path().join(name);
            path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(refused)?;
            std::fs::write(&path, bytes).map_err(refused)?;
            if name.ends_with(".sh") {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                std::fs::set_permissions(&path, mode).map_err(refused)?;
            }
        }
        // An empty folder that came meanwhile is the only thing that this could take the place of.
        std::fs::rename(making.path(), folder).map_err(refused)?;
        let _ = making.keep();
        Ok(())
    }
}

/// What stands in a run's folder beside its bundle and the files that its plan names: all of it follows from the run.
pub(super) fn of_run(run: &Run, plan: &Plan) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut put = |name: &str, text: String| files.insert(name.to_owned(), text.into_bytes());
    put(PLAN, run.plan.clone());
    put(SHORT, short(plan));
    put(ENVIRONMENT, text::environment(run));
    let runs = std::slice::from_ref(run);
    let options = PageOptions { ratios: crate::cmd::compare::ratios(runs), ..PageOptions::default() };
    put(PAGE, weir_report::render(runs, &options));
    for exhibit in exhibits(runs) {
        for form in exhibit.forms() {
            if let Some(text) = exhibit.written(*form) {
                put(&format!("figures/{}.{}", exhibit.id(), form.ending()), text);
            }
        }
    }
    files
}

/// Whether a file of a run's folder is drawn, and so may look otherwise when another Weir draws it.
pub(super) fn is_drawn(name: &str) -> bool {
    name == PAGE || name == SHORT || name.starts_with("figures/")
}

/// The forms that figures have in a pack, for its page.
pub(super) fn forms() -> String {
    Form::ALL.map(|form| format!(".{}", form.ending())).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runs_name_cannot_lead_out_of_the_pack() {
        for (name, folder) in [
            ("2026-11-21-otter-3f9a", "2026-11-21-otter-3f9a"),
            ("../../etc/passwd", "_.._etc_passwd"),
            ("a b;$(reboot)`\n\u{1b}[2J", "a_b___reboot_____2J"),
            ("...", "run"),
            ("-rf", "rf"),
            ("", "run"),
        ] {
            assert_eq!(folder_name(name), folder, "{name:?}");
        }
        assert_eq!(folder_name(&"x".repeat(300)).len(), 100);
    }
}
