//! The pages, one file each; here are their addresses and what stands around each of them.

mod account;
pub(crate) mod assets;
mod badge;
mod compare;
pub(crate) mod fault;
mod figures;
mod history;
mod point;
mod run;
mod runs;
mod start;

pub(crate) use history::prepare;

use crate::answer::{Answer, Fault};
use crate::site::Site;
use axum::Router;
use axum::routing::{get, post};
use maud::{DOCTYPE, Markup, html};
use std::sync::Arc;
use weir_store::{ParseSelectorError, Selector, View};
use weir_trial::run::Run;

/// What a handler gives.
type Page = Result<Answer, Fault>;

// What the API has of the pages.
pub(crate) use account::changed;
pub(crate) use compare::json as comparison;
pub(crate) use history::json as history_document;
pub(crate) use run::file as run_file;
pub(crate) use runs::summary;

/// Every address.
pub(crate) fn routes() -> Router<Arc<Site>> {
    Router::new()
        .route("/", get(runs::first))
        .route("/runs", get(runs::page))
        .route("/runs.json", get(runs::json))
        .route("/runs/{run}", get(run::page))
        .route("/runs/{run}/points/{point}", get(point::page))
        .route("/runs/{run}/{file}", get(run::file))
        .route("/compare", get(compare::page))
        .route("/compare.json", get(compare::json))
        .route("/figures", get(figures::page))
        .route("/figures/{file}", get(figures::file))
        .route("/start", get(start::page).post(start::send))
        .route("/start/enter", post(start::enter))
        .route("/start/check", post(start::check))
        .route("/start/resume", get(start::ask).post(start::resume))
        .route("/start/jobs/{number}", get(start::job))
        .route("/start/jobs/{number}/stop", post(start::stop))
        .route("/start/jobs/{number}/events", get(start::events))
        .route("/history", get(history::page))
        .route("/history.json", get(history::json))
        .route("/history.svg", get(history::plot))
        .route("/static/{file}", get(assets::file))
        .route("/badge/{run}/{file}", get(badge::page))
        .route("/account", get(account::page))
        .route("/account/enter", post(account::enter))
        .route("/account/leave", post(account::leave))
        .route("/runs/{run}/visibility", post(account::change))
        .route("/runs/{run}/delete", post(account::delete))
        .merge(crate::api::routes())
}

/// The parts of the site, as its navigation names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    Runs,
    Compare,
    History,
    Figures,
    Start,
    Account,
    Nowhere,
}

const PARTS: [(Here, &str, &str); 6] = [
    (Here::Runs, "/runs", "Runs"),
    (Here::Compare, "/compare", "Compare"),
    (Here::History, "/history", "History"),
    (Here::Figures, "/figures", "Figures"),
    (Here::Start, "/start", "Start"),
    (Here::Account, "/account", "Account"),
];

/// A page of the site.
pub(crate) fn page(title: &str, here: Here, main: &Markup) -> Answer {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Weir" }
                link rel="stylesheet" href=(assets::path(assets::BASE));
                (head())
            }
            body class="site" {
                (top(here))
                main id="main" tabindex="-1" { (main) }
            }
        }
    };
    Answer::page(page.into_string())
}

/// What every page has in its head beside the base style, which a run's page has in itself.
pub(crate) fn head() -> Markup {
    html! {
        link rel="stylesheet" href=(assets::path(assets::STYLE));
        link rel="icon" type="image/svg+xml" href=(assets::path(assets::ICON));
        script src=(assets::path(assets::SCRIPT)) defer {}
    }
}

/// The navigation.
pub(crate) fn top(here: Here) -> Markup {
    html! {
        a class="skip" href="#main" { "To the content" }
        div class="site-top" {
            a class="site-name" href="/" { "Weir" }
            nav aria-label="Site" {
                @for (part, address, name) in PARTS {
                    a href=(address) aria-current=[(part == here).then_some("page")] { (name) }
                }
            }
        }
    }
}

/// A table that may be wider than the page: it scrolls by itself, by mouse, finger and keys, and shows where more of it is.
pub(crate) fn wide(label: &str, table: Markup) -> Markup {
    html! { div class="scroll" tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// A command that can be copied; the button is there with scripts only.
pub(crate) fn command(text: &str) -> Markup {
    html! { span class="copy" { code { (text) } button type="button" class="copier" hidden { "Copy" } } }
}

/// A part of a page as text, for [`weir_report`].
pub(crate) fn raw(markup: Markup) -> String {
    markup.into_string()
}

/// The run that an address names.
pub(crate) fn selector(name: &str) -> Result<Selector, Fault> {
    name.parse().map_err(|error: ParseSelectorError| Fault::Missing(error.to_string()))
}

/// The runs that an address names, whole.
pub(crate) fn load(view: &View<'_>, runs: &[Selector]) -> Result<Vec<Run>, Fault> {
    runs.iter().map(|run| Ok(view.load(view.find(run)?)?)).collect()
}

/// What names a run in addresses.
pub(crate) fn address_of(run: &Run) -> String {
    if run.uuid.is_empty() { run.id.to_string() } else { run.uuid.clone() }
}
