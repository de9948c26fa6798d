//! The API against its own document: each address is asked, and each answer is what the document says.

use crate::central::{Central, bundle};
use crate::common::{Answer, Site, small};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weir_store::Visibility;

/// A document, and what of it was tried.
struct Api {
    document: Value,
    tried: BTreeSet<(String, String, u16)>,
}

impl Api {
    fn of(site: &Site) -> Self {
        Self {
            document: serde_json::from_str(&site.get("/api/v1/openapi.json").page()).unwrap(),
            tried: BTreeSet::new(),
        }
    }

    /// An answer held against the document.
    fn check(&mut self, method: &str, path: &str, status: u16, answer: &Answer) {
        let label = format!("{method} {path}");
        assert_eq!(answer.status, status, "{label}: {}", answer.body);
        let operation = &self.document["paths"][path][method];
        assert!(operation.is_object(), "{label} is not in the document");
        let mut response = &operation["responses"][status.to_string()];
        if let Some(place) = response["$ref"].as_str() {
            response = self.document.pointer(place.trim_start_matches('#')).unwrap();
        }
        assert!(response["description"].is_string(), "{label} does not say what {status} is");
        self.tried.insert((method.to_owned(), path.to_owned(), status));
        let Some(content) = response.get("content") else {
            assert_eq!(answer.body, "", "{label}");
            return;
        };
        let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
        let said = content.get(kind).unwrap_or_else(|| panic!("{label}: {status} is not said to be {kind}"));
        let Some(schema) = said.get("schema") else { return };
        let value: Value = serde_json::from_str(&answer.body)
            .unwrap_or_else(|error| panic!("{label}: {error}: {}", answer.body));
        let mut whole = schema.clone();
        whole["components"] = self.document["components"].clone();
        let validator = jsonschema::validator_for(&whole).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{label}: {wrong:?}\n{value:#}");
    }
}

#[test]
fn every_address_answers_as_the_document_says() {
    let central = Central::of(&[small("here", 1), small("there", 2)]);
    let mut api = Api::of(&central.site);
    let mine = Some(central.mine.as_str());
    let pushed = small("pushed", 3);
    let of = format!("/api/v1/runs/{}", pushed.uuid);
    for (method, path, asked, token, body, status) in [
        ("get", "/api/v1", "/api/v1", None, Vec::new(), 200),
        ("get", "/api/v1/openapi.json", "/api/v1/openapi.json", None, Vec::new(), 200),
        ("get", "/api/v1/account", "/api/v1/account", mine, Vec::new(), 200),
        ("get", "/api/v1/account", "/api/v1/account", None, Vec::new(), 401),
        ("post", "/api/v1/runs", "/api/v1/runs?visibility=unlisted", mine, bundle(&pushed), 201),
        ("post", "/api/v1/runs", "/api/v1/runs", mine, bundle(&pushed), 200),
        ("post", "/api/v1/runs", "/api/v1/runs?visibility=nobody", mine, bundle(&pushed), 400),
        ("post", "/api/v1/runs", "/api/v1/runs", mine, b"no bundle".to_vec(), 422),
        ("post", "/api/v1/runs", "/api/v1/runs", Some(central.reader.as_str()), Vec::new(), 403),
        ("post", "/api/v1/runs", "/api/v1/runs", Some(central.other.as_str()), bundle(&pushed), 409),
        ("get", "/api/v1/runs", "/api/v1/runs?per=2&sort=name", None, Vec::new(), 200),
        ("get", "/api/v1/runs", "/api/v1/runs", mine, Vec::new(), 200),
        ("get", "/api/v1/runs", "/api/v1/runs?colour=red", None, Vec::new(), 400),
        ("get", "/api/v1/runs/{run}", of.as_str(), None, Vec::new(), 200),
        ("get", "/api/v1/runs/{run}", "/api/v1/runs/nobody", None, Vec::new(), 404),
        (
            "patch",
            "/api/v1/runs/{run}",
            of.as_str(),
            mine,
            json!({ "visibility": "public" }).to_string().into(),
            200,
        ),
        ("patch", "/api/v1/runs/{run}", of.as_str(), mine, b"{}".to_vec(), 400),
        ("get", "/api/v1/runs/{run}/{file}", &format!("{of}/run.json"), None, Vec::new(), 200),
        ("get", "/api/v1/runs/{run}/{file}", &format!("{of}/trials.csv"), None, Vec::new(), 200),
        ("get", "/api/v1/runs/{run}/{file}", &format!("{of}/plan.toml"), None, Vec::new(), 200),
        ("get", "/api/v1/runs/{run}/{file}", &format!("{of}/bundle.weir"), None, Vec::new(), 200),
        ("get", "/api/v1/runs/{run}/{file}", &format!("{of}/secret.txt"), None, Vec::new(), 404),
        ("get", "/api/v1/compare", "/api/v1/compare?base=here&with=there&bound=3%25", None, Vec::new(), 200),
        ("get", "/api/v1/compare", "/api/v1/compare?base=here", None, Vec::new(), 400),
        ("get", "/api/v1/history", "/api/v1/history?nf=l2fwd", None, Vec::new(), 200),
        ("delete", "/api/v1/runs/{run}", of.as_str(), mine, Vec::new(), 204),
        ("delete", "/api/v1/runs/{run}", of.as_str(), mine, Vec::new(), 404),
    ] {
        let answer = central.ask(&method.to_uppercase(), asked, token, &body);
        api.check(method, path, status, &answer);
    }
    let paths = api.document["paths"].as_object().unwrap();
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let good =
                api.tried.iter().any(|(known, of, status)| known == method && of == path && *status < 300);
            assert!(good, "{method} {path} was not tried");
        }
    }
}

#[test]
fn the_document_is_whole_and_says_of_each_address_who_may_ask_it() {
    let site = Site::of(&[]);
    let api = Api::of(&site);
    let document = &api.document;
    assert_eq!(document["openapi"], "3.1.0");
    let text = document.to_string();
    for place in text.split("\"$ref\":\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        let place = place.trim_start_matches('#').replace("~1", "/");
        assert!(document.pointer(&place).is_some(), "{place} leads nowhere");
    }
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let label = format!("{method} {path}");
            assert!(
                names.insert(operation["operationId"].as_str().unwrap().to_owned()),
                "{label} has another's name"
            );
            assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{label}");
            let of_path: Vec<&str> =
                path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let stated: Vec<&str> = parameters
                .iter()
                .filter(|one| one["in"] == "path")
                .map(|one| one["name"].as_str().unwrap())
                .collect();
            assert_eq!(of_path, stated, "{label}");
            let takes =
                operation["security"].as_array().unwrap().iter().all(|one| one.get("token").is_some());
            assert_eq!(takes, method != "get" || path == "/api/v1/account", "{label}");
        }
    }
    assert_eq!(names.len(), 11);
}

#[test]
fn errors_are_problem_details_whoever_asks() {
    let central = Central::of(&[]);
    central.push(&central.mine, &small("otter", 1), Visibility::Public);
    for path in ["/api/v1/nowhere", "/api/v1/runs/nobody", "/api/v1/runs?colour=red"] {
        let answer = central.site.get(path);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{path}");
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            (said["type"].as_str(), said["status"].as_u64()),
            (Some("about:blank"), Some(answer.status.into())),
            "{path}"
        );
        assert!(
            !said["detail"].as_str().unwrap().contains("weir.db"),
            "where the database is, is told to nobody: {said}"
        );
    }
    let wrong = central.ask("PUT", "/api/v1/runs", None, b"");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("get,head,post")));
}
