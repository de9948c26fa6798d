//! Style, script and icon: each at an address that changes with its content, so that browsers keep it.

use crate::answer::{Answer, Fault};
use crate::site::Site;
use axum::extract::{Path, State};
use ring::digest::{SHA256, digest};
use std::sync::{Arc, LazyLock};

/// An asset by its place.
#[derive(Clone, Copy)]
pub(crate) struct Asset(usize);

/// The style of a run's page, for the other pages.
pub(crate) const BASE: Asset = Asset(0);
/// What the site adds to it.
pub(crate) const STYLE: Asset = Asset(1);
/// The script.
pub(crate) const SCRIPT: Asset = Asset(2);
/// The icon.
pub(crate) const ICON: Asset = Asset(3);

/// Name, media type, content.
struct File(String, &'static str, String);

static FILES: LazyLock<[File; 4]> = LazyLock::new(|| {
    let file = |stem: &str, ending: &str, kind, text: String| {
        let hash: String =
            digest(&SHA256, text.as_bytes()).as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        File(format!("{stem}.{hash}.{ending}"), kind, text)
    };
    [
        file("base", "css", "text/css; charset=utf-8", weir_report::style()),
        file("site", "css", "text/css; charset=utf-8", include_str!("../assets/site.css").to_owned()),
        file("site", "js", "text/javascript; charset=utf-8", include_str!("../assets/site.js").to_owned()),
        file("icon", "svg", "image/svg+xml", include_str!("../assets/icon.svg").to_owned()),
    ]
});

/// Where an asset is.
pub(crate) fn path(asset: Asset) -> String {
    format!("/static/{}", FILES[asset.0].0)
}

/// An asset by its name.
pub(crate) async fn file(State(_): State<Arc<Site>>, Path(name): Path<String>) -> Result<Answer, Fault> {
    let found = FILES.iter().find(|File(known, ..)| *known == name);
    let File(_, kind, text) = found.ok_or_else(|| {
        Fault::Missing("this file is of another version of the site; load its page again".to_owned())
    })?;
    Ok(Answer::text(kind, text.clone()).lasting())
}
