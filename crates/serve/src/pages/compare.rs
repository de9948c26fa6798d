//! Runs and devices compared: what `weir compare` says of a baseline and each of the others, environments first, and the plots
//! of all of them over each other.

mod address;
mod text;

use super::{Here, Page, command, head, page as framed, raw, top};
use crate::answer::{Answer, Fault};
use crate::catalogue::{Index, short, state};
use crate::central::who::Who;
use crate::pages::figures;
use crate::site::Site;
use address::{Asked, Which};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use std::sync::Arc;
use weir_methods::compare::{Comparison, Side, compare, fault};
use weir_report::{Around, Form, PageOptions};
use weir_store::View;
use weir_trial::run::{Run, RunState};
use weir_units::utc;

/// Runs that are offered where nothing is chosen yet.
const OFFERED: usize = 30;

/// The page.
pub(crate) async fn page(
    State(site): State<Arc<Site>>,
    who: Who,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    let asked = Asked::read(&query.unwrap_or_default())?;
    if !asked.ticked.is_empty() {
        let open = asked.clone();
        let chosen = site.stores.read(who.viewer, move |view| chosen(view, &open)).await?;
        return Ok(Redirect::to(&chosen.address()).into_response());
    }
    if asked.base.is_none() || asked.with.is_empty() {
        let index = site.index(&who).await?;
        return Ok(framed("Compare", Here::Compare, &choice(&asked, &index)).into_response());
    }
    let shared = Arc::clone(&site);
    let page = site.stores.read(who.viewer, move |view| {
        let sides = Sides::load(view, &asked)?;
        Ok(Answer::page(sides.page(&shared)?))
    });
    Ok(page.await?.into_response())
}

/// What `weir compare --json` prints of the baseline and the first of the others.
pub(crate) async fn json(State(site): State<Arc<Site>>, who: Who, RawQuery(query): RawQuery) -> Page {
    let asked = Asked::read(&query.unwrap_or_default())?;
    let write = move |view: &View<'_>| {
        let sides = Sides::load(view, &asked)?;
        let [comparison] = &sides.compared()?[..] else {
            return Err(Fault::Bad("as JSON two sides are compared: write base=RUN&with=RUN".to_owned()));
        };
        let text =
            serde_json::to_string_pretty(comparison).map_err(|error| Fault::Broken(error.to_string()))?;
        Ok(Answer::text("application/json", format!("{text}\n")))
    };
    site.stores.read(who.viewer, write).await
}

/// What was ticked in the list, as an address that says it: the first is the baseline; one run alone is compared by its devices.
fn chosen(view: &View<'_>, asked: &Asked) -> Result<Asked, Fault> {
    let mut sides = asked.ticked.clone();
    if let [only] = &sides[..]
        && asked.base.is_none()
    {
        let facts = view.facts(view.find(&only.run)?)?;
        if facts.duts.len() > 1 {
            sides = facts.duts.iter().map(|dut| Which { dut: Some(dut.clone()), ..only.clone() }).collect();
        }
    }
    let mut sides = asked.base.clone().into_iter().chain(sides);
    let base = sides.next();
    Asked { base, with: sides.collect(), ticked: Vec::new(), bound: asked.bound }.checked()
}

/// A form, and runs to choose from.
fn choice(asked: &Asked, index: &Index) -> Markup {
    let base = asked.base.as_ref().map(ToString::to_string).unwrap_or_default();
    let offered = |name: &str| match asked.base {
        Some(_) => Asked { with: vec![Which::of(name)], ..asked.clone() }.address(),
        None => Asked { base: Some(Which::of(name)), ..asked.clone() }.address(),
    };
    html! {
        h1 { "Compare" }
        p { "A side is a run or one dataplane of it: " code { "RUN" } " or " code { "RUN/DEVICE" } ". Runs are ticked in the " a href="/runs" { "list" } ", too." }
        (form(&base, "", asked))
        @if index.runs.is_empty() { p { "There is no run in this store yet; " a href="/runs" { "how to get one" } "." } } @else {
            h2 { @if asked.base.is_some() { "Compare " code { (base) } " with" } @else { "Choose the baseline" } }
            ul class="columns" {
                @for run in index.runs.iter().take(OFFERED).filter(|run| run.address() != base && run.outline.name != base) {
                    li { a href=(offered(&run.address())) { (short(&run.outline.name, 60)) } " " span class="hint" { (run.day) ", " (state(&run.outline)) } }
                }
            }
        }
    }
}

fn form(base: &str, with: &str, asked: &Asked) -> Markup {
    html! {
        form class="sides" action="/compare" method="get" {
            label { span { "Baseline, A" } input name="base" required maxlength="200" value=(base) placeholder="@last~1"; }
            label { span { "Compared with it, B" } input name="with" required maxlength="200" value=(with) placeholder="@last"; }
            @for other in asked.with.iter().filter(|other| other.to_string() != with) { input type="hidden" name="with" value=(other); }
            label { span { "Bound, where B may not be worse" } input name="bound" maxlength="20" value=[asked.bound_text()] placeholder="3%"; }
            button { "Compare" }
        }
    }
}

/// The sides, loaded: the baseline first.
struct Sides {
    asked: Asked,
    /// Each run once.
    runs: Vec<Run>,
    /// Of each side, the place of its run, and its device.
    sides: Vec<(usize, Option<String>)>,
}

impl Sides {
    fn load(view: &View<'_>, asked: &Asked) -> Result<Self, Fault> {
        let Some(base) = asked.base.clone().filter(|_| !asked.with.is_empty()) else {
            return Err(Fault::Bad("two sides are compared: write base=RUN&with=RUN".to_owned()));
        };
        let (mut ids, mut runs, mut sides) = (Vec::new(), Vec::new(), Vec::new());
        let mut named = Vec::new();
        for which in std::iter::once(&base).chain(&asked.with) {
            let id = view.find(&which.run)?;
            let place = match ids.iter().position(|known| *known == id) {
                Some(place) => place,
                None => {
                    ids.push(id);
                    runs.push(view.load(id)?);
                    runs.len() - 1
                }
            };
            // Named by its identity, which means the same run tomorrow.
            named.push(Which::of_run(&runs[place], which.dut.clone()));
            sides.push((place, which.dut.clone()));
        }
        let with = named.split_off(1);
        let asked = Asked { base: named.pop(), with, ticked: Vec::new(), bound: asked.bound };
        Ok(Self { asked, runs, sides })
    }

    fn side(&self, place: usize) -> Side<'_> {
        let (run, dut) = &self.sides[place];
        Side { run: &self.runs[*run], dut: dut.as_deref() }
    }

    /// What it is called on the command line.
    fn name(&self, place: usize) -> String {
        let side = self.side(place);
        side.dut.map_or_else(|| side.run.name.clone(), |dut| format!("{}/{dut}", side.run.name))
    }

    /// The baseline with each of the others.
    fn compared(&self) -> Result<Vec<Comparison>, Fault> {
        let one = |place: usize| match fault(self.side(0), self.side(place)) {
            Some(why) => Err(Fault::Bad(why)),
            None => Ok(compare(self.side(0), self.side(place), self.asked.bound)),
        };
        (1..self.sides.len()).map(one).collect()
    }

    /// The runs with those points that are compared, for the plots.
    fn drawn(&self) -> Vec<Run> {
        let is_meant = |run: usize, point: &weir_trial::run::Point| {
            let of = self.sides.iter().filter(|(place, _)| *place == run);
            of.into_iter().any(|(_, dut)| match dut {
                Some(dut) => *dut == point.key.dut || *dut == point.key.device(),
                None => true,
            })
        };
        let mut runs = self.runs.clone();
        for (place, run) in runs.iter_mut().enumerate() {
            run.points.retain(|point| is_meant(place, point));
        }
        runs
    }

    fn page(&self, site: &Site) -> Result<String, Fault> {
        let compared = self.compared()?;
        let around = [
            raw(head()),
            raw(html! { (top(Here::Compare)) span id="main" tabindex="-1" {} }),
            raw(self.said(site, &compared)),
        ];
        let runs = self.drawn();
        let foot = |id: &str, forms: &[Form]| raw(figures::foot(site, &runs, id, forms));
        // Figures have addresses by run; one of some devices of a run is not to be had alone.
        let whole = self.sides.iter().all(|(_, dut)| dut.is_none());
        let around = Around {
            head: &around[0],
            top: &around[1],
            beside: &around[2],
            foot: whole.then_some(&foot as &dyn Fn(&str, &[Form]) -> String),
            compares: true,
        };
        let others = (1..self.sides.len()).map(|place| self.name(place)).collect::<Vec<_>>().join(", ");
        let title = format!("{others} against {}", self.name(0));
        Ok(weir_report::render_within(
            &runs,
            &PageOptions { title: Some(title), ..PageOptions::default() },
            &around,
        ))
    }

    /// The comparison in words and tables.
    fn said(&self, site: &Site, compared: &[Comparison]) -> Markup {
        let several = compared.len() > 1;
        html! {
            div class="compared" {
                (self.list())
                @for (place, comparison) in (1..).zip(compared) {
                    section id=(format!("b{place}")) {
                        // Of two sides alone the title says it.
                        @if several { h2 { (place) ". B: " (self.name(place)) " against A: " (self.name(0)) } }
                        (text::comparison(comparison))
                    }
                }
                (text::notes(compared))
                (self.take(site))
            }
            h2 { "Drawn over each other" }
        }
    }

    /// Who is compared; a click makes another one the baseline.
    fn list(&self) -> Markup {
        html! {
            (super::wide("Sides", html! {
                table class="facts" {
                    caption class="unseen" { "The sides" }
                    thead { tr {
                        @for head in ["Side", "Run or dataplane", "Begun", "State", "Points, trials", "Measured by"] { th scope="col" { (head) } }
                        th scope="col" { span class="unseen" { "Change" } }
                    } }
                    tbody { @for place in 0..self.sides.len() { (self.one(place)) } }
                }
            }))
            details class="cite" {
                summary { "Add a side, or a bound" }
                (form(&self.asked.base.as_ref().map(ToString::to_string).unwrap_or_default(), "", &self.asked))
            }
        }
    }

    fn one(&self, place: usize) -> Markup {
        let run = self.side(place).run;
        html! {
            tr {
                td { strong { @if place == 0 { "A" } @else { "B" } } @if place == 0 { " baseline" } }
                th scope="row" { a href=(format!("/runs/{}", super::address_of(run))) { (self.name(place)) } }
                td { (utc(run.started_ms, utc::MINUTE)) }
                td { @if run.state == RunState::Finished { span class="state good" { "finished" } } @else { span class="state bad" { "not finished" } } }
                td { (run.points.len()) ", " (run.points.iter().map(|point| point.trials.len()).sum::<usize>()) }
                td { (run.weir) }
                td {
                    @if place > 0 {
                        a href=(self.asked.with_base(place - 1).address()) { "Make it the baseline" }
                        @if self.sides.len() > 2 { " · " a href=(self.asked.without(place - 1).address()) { "Drop" } }
                    }
                }
            }
        }
    }

    fn take(&self, site: &Site) -> Markup {
        let flag = site.program.db_flag();
        let bound = self.asked.bound_text().map_or_else(String::new, |bound| format!(" --bound {bound}"));
        html! {
            details class="cite" open {
                summary { "Take it along" }
                p { "Address, which stays: " (command(&self.asked.address())) }
                @for place in 1..self.sides.len() {
                    p { "Command: " (command(&format!("weir compare {} {}{bound}{flag}", self.name(0), self.name(place)))) }
                }
                @if self.sides.len() == 2 { p { a href=(self.asked.address().replacen("/compare", "/compare.json", 1)) { "As JSON" } } }
            }
        }
    }
}
