//! Plots and tables of runs as files, each at an address of its own, with how it is had as a command and how it is cited.

use super::{Here, Page, address_of, command, page as framed, selector, wide};
use crate::answer::{Answer, Fault};
use crate::central::who::Who;
use crate::site::Site;
use axum::extract::{Path, RawQuery, State};
use form_urlencoded::Serializer;
use maud::{Markup, html};
use std::sync::Arc;
use weir_report::{Exhibit, Form, exhibits};
use weir_store::{Selector, View};
use weir_trial::run::Run;

/// What another program makes of a drawing: ending, name, media type.
const MADE: [(&str, &str, &str); 2] = [("pdf", "PDF", "application/pdf"), ("png", "PNG", "image/png")];
/// Most runs that are drawn into one plot.
pub(crate) const MOST_RUNS: usize = 16;

/// The runs that an address names: `run=A&run=B`.
fn named(query: Option<String>) -> Result<Vec<Selector>, Fault> {
    let query = query.unwrap_or_default();
    let mut runs = Vec::new();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if key != "run" {
            return Err(Fault::Bad(format!(
                "figures know `run=NAME` and no `{}`",
                crate::catalogue::short(&key, 60)
            )));
        }
        let run = selector(&value)?;
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    if runs.len() > MOST_RUNS {
        return Err(Fault::Bad(format!("{MOST_RUNS} runs at most are drawn into one plot")));
    }
    Ok(runs)
}

/// The runs, each once however it was named.
fn loaded(view: &View<'_>, which: &[Selector]) -> Result<Vec<Run>, Fault> {
    let mut ids = Vec::new();
    for run in which {
        let id = view.find(run)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.into_iter().map(|id| Ok(view.load(id)?)).collect()
}

/// `?run=A&run=B`.
pub(crate) fn query(runs: &[Run]) -> String {
    let mut query = Serializer::new(String::new());
    runs.iter().for_each(|run| {
        query.append_pair("run", &address_of(run));
    });
    format!("?{}", query.finish())
}

/// What there is of some runs.
pub(crate) async fn page(State(site): State<Arc<Site>>, who: Who, RawQuery(runs): RawQuery) -> Page {
    let which = named(runs)?;
    if which.is_empty() {
        return Ok(without_runs());
    }
    let shared = Arc::clone(&site);
    let draw = move |view: &View<'_>| {
        let runs = loaded(view, &which)?;
        let exhibits = exhibits(&runs);
        Ok(framed("Figures", Here::Figures, &listed(&shared, &runs, &exhibits)))
    };
    site.stores.read(who.viewer, draw).await
}

fn without_runs() -> Answer {
    let main = html! {
        h1 { "Figures" }
        p { "Every plot of a run is to be had as SVG, PDF, PNG and PGF, every table as Markdown, CSV and LaTeX, at an address of its own." }
        form class="inline" action="/figures" method="get" {
            label for="run" { "Run" } " "
            input id="run" name="run" value="@last" maxlength="200" title="A name, the beginning of one, a number, a UUID, @last or @last~1";
            " " button { "Show" }
        }
        p { "Or choose one from the " a href="/runs" { "list" } "." }
    };
    framed("Figures", Here::Figures, &main)
}

fn listed(site: &Site, runs: &[Run], exhibits: &[Exhibit]) -> Markup {
    let query = query(runs);
    html! {
        h1 { "Figures" }
        p { "Of " @for (place, run) in runs.iter().enumerate() { @if place > 0 { ", " } a href=(format!("/runs/{}", address_of(run))) { (run.name) } } "." }
        @if exhibits.is_empty() { p { "No plot and no table: there are no results yet." } } @else {
            (wide("Plots and tables", html! {
                table class="exhibits" {
                    caption { "Plots as drawings and for LaTeX; tables as Markdown, CSV in base units (RFC 4180) and LaTeX for the package booktabs" }
                    thead { tr { th scope="col" { "Shows" } th scope="col" { "As" } } }
                    tbody { @for exhibit in exhibits {
                        tr {
                            th scope="row" { (exhibit.title()) " " code class="hint" { (exhibit.id()) } }
                            td { (links(exhibit.id(), exhibit.forms(), &query)) }
                        }
                    } }
                }
            }))
            @if let Some(first) = exhibits.first() {
                p { "On the terminal, by its identifier; the file's ending says the form: " (command(&as_command(site, runs, first.id(), first.forms()))) }
            }
            p class="hint" { "PDF and PNG are made by Debian's rsvg-convert (librsvg2-bin), where the server has it." }
        }
    }
}

fn links(id: &str, forms: &[Form], query: &str) -> Markup {
    html! {
        @for (place, form) in forms.iter().enumerate() {
            @if place > 0 { " · " }
            a href=(format!("/figures/{id}.{}{query}", form.ending())) { (label(*form)) }
            @if *form == Form::Svg { @for (ending, name, _) in MADE {
                " · " a href=(format!("/figures/{id}.{ending}{query}")) { (name) }
            } }
        }
    }
}

fn label(form: Form) -> &'static str {
    match form {
        Form::Svg => "SVG",
        Form::Pgf => "PGF/TikZ",
        Form::Markdown => "Markdown",
        Form::Csv => "CSV",
        Form::Latex => "LaTeX",
    }
}

fn as_command(site: &Site, runs: &[Run], id: &str, forms: &[Form]) -> String {
    let names = runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(" ");
    let ending = forms.first().map_or("svg", |form| form.ending());
    format!("weir plot {names} --id {id} -o {id}.{ending}{}", site.program.db_flag())
}

/// Under a plot or a table of a page: how it is had elsewhere.
pub(crate) fn foot(site: &Site, runs: &[Run], id: &str, forms: &[Form]) -> Markup {
    let query = query(runs);
    let first = forms.first().map_or("svg", |form| form.ending());
    html! {
        details class="take" {
            summary { "Take it along" }
            p { "Files: " (links(id, forms, &query)) }
            p { "Command: " (command(&as_command(site, runs, id, forms))) }
            p { "Address: " span class="address" { (command(&format!("/figures/{id}.{first}{query}"))) } }
            p { "Cite: " (command(&cited(runs, id))) }
        }
    }
}

fn cited(runs: &[Run], id: &str) -> String {
    let runs = runs.iter().map(super::run::cited).collect::<Vec<_>>().join("; ");
    format!("Figure {id}. {runs}.")
}

/// A plot or a table as a file: its identifier, and the ending of the form.
pub(crate) async fn file(
    State(site): State<Arc<Site>>,
    who: Who,
    Path(file): Path<String>,
    RawQuery(runs): RawQuery,
) -> Page {
    let which = named(runs)?;
    if which.is_empty() {
        return Err(Fault::Bad("a figure is of runs: write /figures/ID.svg?run=NAME".to_owned()));
    }
    let forms = || Form::ALL.map(Form::ending).into_iter().chain(MADE.map(|(ending, ..)| ending));
    let form = file.rsplit_once('.').and_then(|(id, ending)| {
        let made = MADE.into_iter().find(|(known, ..)| *known == ending);
        let form = if made.is_some() { Some(Form::Svg) } else { None };
        let form = form.or_else(|| Form::ALL.into_iter().find(|form| form.ending() == ending))?;
        Some((id.to_owned(), form, made))
    });
    let (id, form, made) = form.ok_or_else(|| {
        Fault::Missing(format!(
            "`{}` ends in no form of a figure; there are {}",
            crate::catalogue::short(&file, 60),
            forms().collect::<Vec<_>>().join(", ")
        ))
    })?;
    let shared = Arc::clone(&site);
    let write = move |view: &View<'_>| {
        let runs = loaded(view, &which)?;
        let exhibits = exhibits(&runs);
        let exhibit = exhibits.iter().find(|exhibit| exhibit.id() == id).ok_or_else(|| {
            let ids: Vec<&str> = exhibits.iter().map(Exhibit::id).take(40).collect();
            Fault::Missing(format!(
                "there is no figure `{}` of these runs; there are {}",
                crate::catalogue::short(&id, 60),
                ids.join(", ")
            ))
        })?;
        let text = exhibit.written(form).ok_or_else(|| {
            let forms = exhibit.forms().iter().map(|form| form.ending()).collect::<Vec<_>>().join(", ");
            let asked = made.map_or(form.ending(), |(ending, ..)| ending);
            Fault::Missing(format!("{id} is not to be had as {asked}; it is written as {forms}"))
        })?;
        if let Some((ending, _, kind)) = made {
            let bytes = shared.program.made(&text, ending).map_err(Fault::Lacking)?;
            return Ok(Answer::bytes(kind, bytes));
        }
        Ok(match form {
            Form::Svg => Answer::text("image/svg+xml", text),
            Form::Markdown => Answer::text("text/markdown; charset=utf-8", text),
            Form::Csv => Answer::file("text/csv; charset=utf-8", text.into(), &format!("{id}.csv")),
            Form::Latex | Form::Pgf => Answer::text("text/plain; charset=utf-8", text),
        })
    };
    site.stores.read(who.viewer, write).await
}
