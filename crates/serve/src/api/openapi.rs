//! The API as an OpenAPI document, made from what routes it.

use super::answers::Problem;
use super::{BASE, Body, Endpoint, Parameter, endpoints, of};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use weir_store::accounts::Scope;

const ABOUT: &str = "\
Runs on a server of Weir's: found, compared, followed over time, taken along as files, and pushed. Whoever has no token sees what \
is public. Numbers are in base units, which stand in their names: `_ms` milliseconds since 1970-01-01 UTC, `_ns` nanoseconds.";

/// Statuses of errors, and when they come.
const ERRORS: [(u16, &str); 11] = [
    (400, "The request says what cannot be."),
    (401, "The token is wrong, or was revoked."),
    (403, "It is not allowed, or a quota is used up."),
    (404, "It is not there, or not for who asks."),
    (408, "The body came too slowly."),
    (409, "What is there does not allow it."),
    (413, "The body is too large."),
    (415, "The body is of another kind."),
    (422, "The bundle was verified, and is refused."),
    (429, "Too often; the header Retry-After says when again."),
    (503, "Too busy; the header Retry-After says when again."),
];
/// Those that every address has.
const ALWAYS: [u16; 4] = [400, 401, 429, 503];

/// The document.
pub(super) fn document(version: &str) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for endpoint in endpoints() {
        let path = paths.entry(format!("{BASE}{}", endpoint.path)).or_insert_with(|| json!({}));
        path[endpoint.method] = operation(&endpoint, &mut generator);
    }
    let problem = of::<Problem>(&mut generator);
    let responses: Map<String, Value> = ERRORS
        .iter()
        .map(|(status, about)| {
            let content = json!({ "application/problem+json": { "schema": problem } });
            (status.to_string(), json!({ "description": about, "content": content }))
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Weir", "summary": "Measurements of software dataplanes", "description": ABOUT, "version": version },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": responses,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer", "description": "A token of `weir account add`." } },
        },
    })
}

fn operation(endpoint: &Endpoint, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    let mut answer =
        json!({ "description": endpoint.answers.first().map_or("It is done.", |body| body.about) });
    if !endpoint.answers.is_empty() {
        answer["content"] = content(&endpoint.answers, generator);
    }
    if endpoint.status == 201 {
        responses.insert("200".to_owned(), answer.clone());
    }
    responses.insert(endpoint.status.to_string(), answer);
    let mut errors = [&ALWAYS, endpoint.errors].concat();
    if endpoint.body.is_some() {
        errors.push(415);
    }
    if endpoint.body.is_some() && endpoint.status == 201 {
        errors.push(408);
    }
    for status in errors {
        responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{status}") }));
    }
    let mut operation = json!({
        "operationId": endpoint.name,
        "summary": endpoint.about,
        "responses": responses,
        // A token shows what is not public; where one is needed, nothing else does.
        "security": match endpoint.scope { None => json!([{}, { "token": [] }]), Some(_) => json!([{ "token": [] }]) },
    });
    if let Some(scope) = endpoint.scope {
        let needed = if scope == Scope::Push { "Takes a token that may push." } else { "Takes a token." };
        operation["description"] = json!(needed);
    }
    if !endpoint.parameters.is_empty() {
        operation["parameters"] = endpoint.parameters.iter().map(|one| parameter(one, generator)).collect();
    }
    if let Some(body) = &endpoint.body {
        let content = content(std::slice::from_ref(body), generator);
        operation["requestBody"] = json!({ "required": true, "description": body.about, "content": content });
    }
    operation
}

fn parameter(parameter: &Parameter, generator: &mut SchemaGenerator) -> Value {
    let mut schema = json!((parameter.schema)(generator));
    if parameter.repeated {
        schema = json!({ "type": "array", "items": schema });
    }
    let place = if parameter.in_path { "path" } else { "query" };
    json!({ "name": parameter.name, "in": place, "description": parameter.about, "required": parameter.in_path, "schema": schema })
}

fn content(bodies: &[Body], generator: &mut SchemaGenerator) -> Value {
    let of = |body: &Body| {
        let content = body.schema.map_or_else(|| json!({}), |schema| json!({ "schema": schema(generator) }));
        (body.kind.to_owned(), content)
    };
    Value::Object(bodies.iter().map(of).collect())
}
