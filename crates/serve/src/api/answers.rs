//! The forms of what the API says and takes.

use crate::catalogue::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_store::accounts::{Amount, Scope};
use weir_store::{RunSummary, Share, Viewer, Visibility};

/// What a server is.
#[derive(Serialize, JsonSchema)]
pub(super) struct Server {
    /// Version and commit of the Weir that serves.
    pub(super) weir: String,
    /// Whether runs can be pushed to it.
    pub(super) push: bool,
    /// The licence under which runs are pushed; nothing where none are.
    pub(super) licence: Option<String>,
    /// Most bytes of a bundle as it is sent; nothing where none are.
    pub(super) bundle_bytes: Option<u64>,
}

/// The account of a token.
#[derive(Serialize, JsonSchema)]
pub(super) struct Account {
    /// Its name.
    pub(super) name: String,
    /// What names the token.
    pub(super) token: String,
    /// What the token may do.
    pub(super) scope: Scope,
    /// What the account may push.
    pub(super) quota: Amount,
    /// What it has pushed.
    pub(super) used: Amount,
}

/// What stands with a run that was pushed.
#[derive(Serialize, JsonSchema)]
pub(super) struct Shared {
    /// The account that pushed it.
    pub(super) by: String,
    /// Whether that is the account of the token.
    pub(super) own: bool,
    /// Who may see it.
    pub(super) visibility: Visibility,
    /// The licence under which it was pushed.
    pub(super) licence: String,
    /// Bytes that its bundle unpacks to.
    pub(super) bytes: u64,
    /// When it was pushed last, milliseconds since 1970-01-01 UTC.
    pub(super) pushed_ms: i64,
}

impl Shared {
    pub(super) fn of(share: &Share, viewer: Viewer) -> Self {
        Self {
            by: share.by.clone(),
            own: viewer.owns(Some(share)),
            visibility: share.visibility,
            licence: share.licence.clone(),
            bytes: share.bytes,
            pushed_ms: share.pushed_ms,
        }
    }
}

/// A run in one line.
#[derive(Serialize, JsonSchema)]
pub(super) struct OneRun {
    /// What it is.
    #[serde(flatten)]
    pub(super) run: RunSummary,
    /// Its page on this server.
    pub(super) page: String,
    /// The address of the bundle that it came in: `sha256:` and a hash; nothing of one that was measured here.
    pub(super) bundle: Option<String>,
    /// What stands with it, where it was pushed.
    pub(super) shared: Option<Shared>,
}

impl OneRun {
    pub(super) fn of(entry: &Entry, viewer: Viewer) -> Self {
        Self {
            run: crate::pages::summary(entry),
            page: format!("/runs/{}", entry.address()),
            bundle: entry.facts.bundle.clone(),
            shared: entry.outline.share.as_ref().map(|share| Shared::of(share, viewer)),
        }
    }
}

/// A page of the list of runs.
#[derive(Serialize, JsonSchema)]
pub(super) struct Runs {
    /// How many are meant, on all pages.
    pub(super) total: usize,
    /// Those of this page.
    pub(super) runs: Vec<OneRun>,
}

/// What became of a run that was pushed.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Became {
    /// It was not here.
    Added,
    /// It is here already, just so.
    Known,
    /// It is here, and goes further than what was pushed.
    Older,
    /// It was here, and what was pushed goes further: it was brought up to date.
    Continued,
}

/// A run that was pushed.
#[derive(Serialize, JsonSchema)]
pub(super) struct Pushed {
    /// Its identity everywhere.
    pub(super) uuid: String,
    /// Its name on this server.
    pub(super) name: String,
    /// What became of it.
    pub(super) became: Became,
    /// Its page on this server.
    pub(super) page: String,
    /// The address of its bundle.
    pub(super) bundle: String,
    /// What stands with it.
    pub(super) shared: Shared,
}

/// What is to change of a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// Who may see it.
    pub(super) visibility: Visibility,
}

/// What went wrong: problem details (RFC 9457).
#[derive(Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// `about:blank`: the status says the kind.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The kind in words.
    pub(crate) title: String,
    /// The status.
    pub(crate) status: u16,
    /// What happened, and what can be done about it.
    pub(crate) detail: String,
}
