//! The JSON API, version 1: everything that programs do with a server, beside the pages.
//!
//! Each address is one [`Endpoint`]: what routes it, and what the OpenAPI document says of it, are one value, so that neither is
//! there without the other (`openapi`). Forms are Rust types with their schemas. Errors are problem details (RFC 9457).

mod answers;
mod handlers;
mod openapi;

use crate::answer::{Answer, Fault};
use crate::site::Site;
use answers::Problem;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, delete, get, patch, post};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::sync::Arc;
use weir_store::Visibility;
use weir_store::accounts::Scope;
use weir_trial::run::Run;

/// Where the API is.
pub(crate) const BASE: &str = "/api/v1";

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A parameter of an address.
pub(crate) struct Parameter {
    name: &'static str,
    /// In the path; else in the query.
    in_path: bool,
    about: &'static str,
    /// It may be there several times.
    repeated: bool,
    schema: SchemaOf,
}

/// A body: its media type, and its form where that is JSON.
struct Body {
    kind: &'static str,
    about: &'static str,
    schema: Option<SchemaOf>,
}

/// An address with a method.
pub(crate) struct Endpoint {
    method: &'static str,
    /// Below [`BASE`].
    path: &'static str,
    name: &'static str,
    about: &'static str,
    /// What a token must allow; nothing where none is needed.
    scope: Option<Scope>,
    parameters: Vec<Parameter>,
    body: Option<Body>,
    status: u16,
    answers: Vec<Body>,
    /// Statuses of errors that are its own, beside those that every address has.
    errors: &'static [u16],
    handler: MethodRouter<Arc<Site>>,
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

fn json<T: JsonSchema>(about: &'static str) -> Vec<Body> {
    vec![Body { kind: "application/json", about, schema: Some(of::<T>) }]
}

fn query(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, in_path: false, about, repeated: false, schema: text }
}

fn run() -> Parameter {
    let about = "A run: its UUID, name, the beginning of its name, its number, or `@last`; an unlisted one by its UUID alone.";
    Parameter { name: "run", in_path: true, about, repeated: false, schema: text }
}

/// Every address.
fn endpoints() -> Vec<Endpoint> {
    let mut all = Vec::new();
    all.extend(of_server());
    all.extend(of_runs());
    all.extend(of_comparisons());
    all
}

/// What is asked with GET by anybody, and has no parameters: its path, its name, and what it is.
fn asked(
    [path, name, about]: [&'static str; 3],
    answers: Vec<Body>,
    handler: MethodRouter<Arc<Site>>,
) -> Endpoint {
    Endpoint {
        method: "get",
        path,
        name,
        about,
        scope: None,
        parameters: Vec::new(),
        body: None,
        status: 200,
        answers,
        errors: &[],
        handler,
    }
}

fn of_server() -> [Endpoint; 3] {
    [
        asked(
            ["", "server", "What this server is, and what it takes."],
            json::<answers::Server>("The server."),
            get(handlers::server),
        ),
        asked(
            ["/openapi.json", "openapi", "This document."],
            vec![Body {
                kind: "application/json",
                about: "An OpenAPI document, version 3.1.",
                schema: Some(|_| json_schema!({ "type": "object" })),
            }],
            get(handlers::openapi),
        ),
        Endpoint {
            scope: Some(Scope::Read),
            ..asked(
                ["/account", "account", "The account of the token."],
                json::<answers::Account>("The account."),
                get(handlers::account),
            )
        },
    ]
}

fn of_runs() -> [Endpoint; 6] {
    let file = Parameter {
        name: "file",
        in_path: true,
        about: "Which file.",
        repeated: false,
        schema: |_| json_schema!({ "type": "string", "enum": ["run.json", "trials.csv", "bundle.weir", "plan.toml"] }),
    };
    let files = vec![
        Body { kind: "application/json", about: "The run, whole, of run.json.", schema: Some(of::<Run>) },
        Body { kind: "text/csv", about: "", schema: None },
        Body { kind: "application/gzip", about: "", schema: None },
        Body { kind: "application/toml", about: "", schema: None },
    ];
    let visibility = Parameter {
        name: "visibility",
        in_path: false,
        about: "Who may see it. Without it a new run is private, and one that is here stays as it is.",
        repeated: false,
        schema: of::<Visibility>,
    };
    let of_one = |texts, handler| Endpoint {
        parameters: vec![run()],
        errors: &[404],
        ..asked(texts, json::<answers::OneRun>("The run."), handler)
    };
    [
        Endpoint {
            parameters: list(),
            ..asked(
                ["/runs", "listRuns", "Runs that are listed for who asks, newest first."],
                json::<answers::Runs>("The runs of the page that was asked for."),
                get(handlers::list),
            )
        },
        Endpoint {
            method: "post",
            scope: Some(Scope::Push),
            parameters: vec![visibility],
            body: Some(Body {
                kind: "application/gzip",
                about: "A bundle, as `weir export --bundle` writes it.",
                schema: None,
            }),
            status: 201,
            errors: &[403, 409, 413, 422],
            ..asked(
                [
                    "/runs",
                    "pushRun",
                    "Pushes a run: verified as `weir import` verifies, kept whole or not at all. Doing it again is harmless.",
                ],
                json::<answers::Pushed>(
                    "It is kept: nothing but the loss of the disk loses it. Of a run that was there, the status is 200.",
                ),
                post(handlers::push),
            )
        },
        of_one(["/runs/{run}", "getRun", "A run in one line."], get(handlers::one)),
        Endpoint {
            method: "patch",
            scope: Some(Scope::Push),
            body: Some(Body {
                kind: "application/json",
                about: "What is to change.",
                schema: Some(of::<answers::Change>),
            }),
            errors: &[403, 404],
            ..of_one(
                ["/runs/{run}", "changeRun", "Changes who may see a run of the account."],
                patch(handlers::change),
            )
        },
        Endpoint {
            method: "delete",
            scope: Some(Scope::Push),
            status: 204,
            answers: Vec::new(),
            errors: &[403, 404],
            ..of_one(
                [
                    "/runs/{run}",
                    "deleteRun",
                    "Forgets a run of the account, with all that was measured in it.",
                ],
                delete(handlers::remove),
            )
        },
        Endpoint {
            parameters: vec![run(), file],
            answers: files,
            errors: &[404, 409],
            ..of_one(["/runs/{run}/{file}", "getRunFile", "A run as a file."], get(handlers::file))
        },
    ]
}

fn of_comparisons() -> [Endpoint; 2] {
    let history =
        list().into_iter().filter(|parameter| !["sort", "order", "page", "per"].contains(&parameter.name));
    let history = history.chain([
        query("quantity", "What was measured, as `forwarded rate`."),
        query("series", "One series by its identity."),
    ]);
    [
        Endpoint {
            parameters: vec![
                query("base", "The baseline."),
                query("with", "What is compared with it."),
                query("bound", "How much worse it may be: `3%`."),
            ],
            errors: &[404],
            ..asked(
                [
                    "/compare",
                    "compare",
                    "Two sides compared, as `weir compare --json` does: RUN, or RUN/DEVICE.",
                ],
                json::<weir_methods::compare::Comparison>("The comparison."),
                get(handlers::compare),
            )
        },
        Endpoint {
            parameters: history.collect(),
            errors: &[404],
            ..asked(
                ["/history", "history", "Points over time, as `weir history --json` does."],
                json::<weir_methods::history::Document>("The series."),
                get(handlers::history),
            )
        },
    ]
}

/// The parameters of a list of runs.
fn list() -> Vec<Parameter> {
    let facets = crate::catalogue::Facet::ALL
        .map(|facet| Parameter { repeated: true, ..query(facet.key(), facet.label()) });
    let others = [
        query("q", "Words, all of which must be found; `dut:ovs` looks at one parameter alone."),
        query("from", "The first day, as 2026-11-21."),
        query("to", "The last day."),
        query("sort", "started, name, state, points, trials or took."),
        query("order", "`turned` turns the order."),
        Parameter {
            schema: |_| json_schema!({ "type": "integer", "minimum": 1 }),
            ..query("page", "Which page, from 1.")
        },
        Parameter {
            schema: |_| json_schema!({ "type": "integer", "minimum": 1, "maximum": 500 }),
            ..query("per", "Runs on a page, 50 if nothing is said.")
        },
    ];
    facets.into_iter().chain(others).collect()
}

/// Routes every address.
pub(crate) fn routes() -> Router<Arc<Site>> {
    let route = |router: Router<Arc<Site>>, endpoint: Endpoint| {
        router.route(&format!("{BASE}{}", endpoint.path), endpoint.handler)
    };
    endpoints().into_iter().fold(Router::new(), route)
}

/// A value as JSON, and why not.
fn written<T: serde::Serialize>(value: &T) -> Result<String, Fault> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Fault::Broken(error.to_string()))?;
    Ok(format!("{text}\n"))
}

/// What went wrong, for programs.
pub(crate) fn problem(status: StatusCode, what: &str) -> Answer {
    let title = status.canonical_reason().unwrap_or("It did not work").to_owned();
    let problem = Problem { kind: "about:blank", title, status: status.as_u16(), detail: what.to_owned() };
    let text = written(&problem).unwrap_or_default();
    Answer::text("application/problem+json", text)
}
