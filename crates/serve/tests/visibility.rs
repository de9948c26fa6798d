//! Every address of the site, asked for by everybody: nobody gets anything of a run that is not theirs to see.

use crate::central::Central;
use crate::common::{Site, small};
use std::time::Duration;
use weir_serve::{Limits, Options};
use weir_store::Visibility;
use weir_trial::run::Run;

/// What stands in the run that is looked for, and in no other.
const SECRET: &str = "zyxsecretzyx";

fn secret(number: u32, name: &str) -> Run {
    let mut run = small(&format!("{name}-{SECRET}"), number);
    run.plan = format!("# {SECRET}\n{}", run.plan);
    run.environment.insert("machine.id".to_owned(), SECRET.to_owned());
    for point in &mut run.points {
        point.key.dut = format!("dut-{SECRET}");
    }
    run
}

/// The addresses of a run by a name, each with what must be sent; of those with `{N}` a point.
const OF_RUN: [(&str, &str); 21] = [
    ("GET", "/runs/{run}"),
    ("GET", "/runs/{run}/points/0"),
    ("GET", "/runs/{run}/run.json"),
    ("GET", "/runs/{run}/trials.csv"),
    ("GET", "/runs/{run}/bundle.weir"),
    ("GET", "/runs/{run}/plan.toml"),
    ("GET", "/compare?base={run}&with=here"),
    ("GET", "/compare?base=here&with={run}"),
    ("GET", "/compare?run={run}&run=here"),
    ("GET", "/compare.json?base={run}&with=here"),
    ("GET", "/figures?run={run}"),
    ("GET", "/figures/throughput-l2fwd.svg?run={run}"),
    ("GET", "/badge/{run}/0.svg"),
    ("GET", "/api/v1/runs/{run}"),
    ("GET", "/api/v1/runs/{run}/run.json"),
    ("GET", "/api/v1/runs/{run}/bundle.weir"),
    ("PATCH", "/api/v1/runs/{run}"),
    ("DELETE", "/api/v1/runs/{run}"),
    ("GET", "/api/v1/compare?base={run}&with=here"),
    ("POST", "/runs/{run}/visibility"),
    ("POST", "/runs/{run}/delete"),
];

/// Addresses of no run, which may have something of many.
const OF_MANY: [&str; 15] = [
    "/",
    "/runs",
    "/runs?q=zyx",
    "/runs?per=500&sort=name",
    "/runs.json",
    "/compare",
    "/compare?base=here",
    "/history",
    "/history?nf=l2fwd",
    "/history.json",
    "/history.svg?nf=l2fwd&size=64",
    "/figures",
    "/api/v1/runs?per=500",
    "/api/v1/history?nf=l2fwd",
    "/account",
];

/// Addresses that have nothing of any run, or are refused here.
const OF_NONE: [&str; 14] = [
    "/api/v1",
    "/api/v1/openapi.json",
    "/api/v1/account",
    "/static/{file}",
    "/account/enter",
    "/account/leave",
    "/start",
    "/start/enter",
    "/start/check",
    "/start/resume",
    "/start/jobs/{number}",
    "/start/jobs/{number}/stop",
    "/start/jobs/{number}/events",
    "/api/v1/runs",
];

/// The addresses that the site routes, as its source has them.
fn routed() -> Vec<String> {
    let pages = include_str!("../src/pages/mod.rs").split(".route(\"").skip(1);
    let mut all: Vec<String> = pages.map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
    let site = Site::of(&[]);
    let document: serde_json::Value = serde_json::from_str(&site.get("/api/v1/openapi.json").page()).unwrap();
    all.extend(document["paths"].as_object().unwrap().keys().cloned());
    all
}

/// An address without what is asked of it, its parts as the router names them.
fn plain(address: &str) -> String {
    let path = address.split('?').next().unwrap();
    let words: Vec<&str> = path.split('/').collect();
    let named =
        words.iter().enumerate().map(|(place, word)| match (words[..place].join("/").as_str(), *word) {
            ("/runs/{run}/points", _) => "{point}",
            ("/runs/{run}" | "/api/v1/runs/{run}" | "/badge/{run}" | "/figures", word)
                if word.contains('.') =>
            {
                "{file}"
            }
            (_, word) => word,
        });
    named.collect::<Vec<_>>().join("/")
}

#[test]
fn every_address_is_looked_at_here() {
    let known: Vec<String> =
        OF_RUN.iter().map(|(_, address)| *address).chain(OF_MANY).chain(OF_NONE).map(plain).collect();
    let routed = routed();
    assert!(routed.len() > 30, "{routed:?}");
    for address in routed {
        assert!(known.contains(&address), "{address} is in no list of this test");
    }
}

/// The names by which a run could be asked for.
fn names(central: &Central, run: &Run) -> Vec<String> {
    let store = weir_store::Store::open(Some(&central.database)).unwrap();
    let id = store.find(&run.uuid.parse().unwrap()).unwrap();
    let by_number = id.0.to_string();
    vec![
        run.uuid.clone(),
        run.name.clone(),
        run.name[..8].to_owned(),
        by_number,
        "@last".to_owned(),
        "@last~1".to_owned(),
    ]
}

/// The header lines of those who are not the run's account.
fn others(central: &Central) -> Vec<String> {
    vec![String::new(), format!("Authorization: Bearer {}\r\n", central.other), central.enter(&central.other)]
}

fn ask(central: &Central, method: &str, address: &str, lines: &str) -> crate::common::Answer {
    let body =
        if method == "PATCH" { "{\"visibility\": \"public\"}" } else { "visibility=public&sure=yes&word=x" };
    let kind = if method == "PATCH" { "application/json" } else { "application/x-www-form-urlencoded" };
    let (host, length) = (central.site.address, if method == "GET" { 0 } else { body.len() });
    let body = if method == "GET" { "" } else { body };
    central.site.say(&format!(
        "{method} {address} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: text/html\r\n{lines}Content-Length: {length}\r\n\
         Content-Type: {kind}\r\n\r\n{body}"
    ))
}

#[test]
fn nothing_of_a_private_run_is_told_to_anybody_else() {
    let central = Central::of(&[small("here", 1), small("there", 2)]);
    let run = secret(3, "private");
    central.push(&central.mine, &run, Visibility::Private);
    let names = names(&central, &run);
    for lines in others(&central) {
        for (method, address) in OF_RUN {
            for name in &names {
                let answer = ask(&central, method, &address.replace("{run}", name), &lines);
                assert!(
                    !answer.body.contains(SECRET)
                        || answer.body.contains(&format!("no run matches `{name}`"))
                        || answer.body.contains(&format!("No run matches `{name}`")),
                    "{method} {address} by {name}: {}",
                    answer.body
                );
                let is_other =
                    name.starts_with('@') || address.starts_with("/compare?run=") && answer.status == 303;
                assert!(
                    is_other || (400..500).contains(&answer.status),
                    "{method} {address} by {name}: {}",
                    answer.status
                );
            }
        }
        for address in OF_MANY {
            let answer = ask(&central, "GET", address, &lines);
            assert!(!answer.body.contains(SECRET), "{address}: {}", answer.body);
        }
        let list = ask(&central, "GET", "/runs", &lines).body;
        assert!(list.contains("2 runs"), "{list}");
    }
    // It is as it was, and its account has it by all of its names.
    for lines in [
        format!("Authorization: Bearer {}\r\n", central.mine),
        format!("Authorization: Bearer {}\r\n", central.reader),
        central.enter(&central.mine),
    ] {
        for name in &names[..5] {
            assert_eq!(
                ask(&central, "GET", &format!("/runs/{name}/plan.toml"), &lines).status,
                200,
                "{name}"
            );
        }
        assert!(ask(&central, "GET", "/runs", &lines).body.contains("3 runs"));
        assert!(ask(&central, "GET", "/history?nf=l2fwd", &lines).body.contains(SECRET));
    }
}

#[test]
fn an_unlisted_run_is_there_by_its_address_and_in_no_list() {
    let central = Central::of(&[small("here", 1), small("there", 2)]);
    let run = secret(3, "unlisted");
    central.push(&central.mine, &run, Visibility::Unlisted);
    let names = names(&central, &run);
    for lines in others(&central) {
        for (_, address) in OF_RUN.iter().filter(|(method, _)| *method == "GET") {
            let by_address = ask(&central, "GET", &address.replace("{run}", &run.uuid), &lines);
            assert!(
                matches!(by_address.status, 200 | 303),
                "{address}: {} {}",
                by_address.status,
                by_address.body
            );
            for name in names[1..].iter().filter(|name| !name.starts_with('@')) {
                let answer = ask(&central, "GET", &address.replace("{run}", name), &lines);
                // What was ticked becomes an address, and that one is not there.
                let is_address = address.starts_with("/compare?run=") && answer.status == 303;
                assert!(is_address || answer.status == 404, "{address} by {name}: {}", answer.status);
            }
        }
        for address in OF_MANY {
            assert!(!ask(&central, "GET", address, &lines).body.contains(SECRET), "{address}");
        }
        for (method, address) in OF_RUN.iter().filter(|(method, _)| *method != "GET") {
            let answer = ask(&central, method, &address.replace("{run}", &run.uuid), &lines);
            assert!(matches!(answer.status, 401 | 403), "{method} {address}: {}", answer.status);
        }
    }
    assert!(
        ask(&central, "GET", &format!("/runs/{}", run.uuid), "")
            .body
            .contains("Seen by whoever has its address")
    );
}

#[test]
fn an_account_changes_who_may_see_its_run_by_page_and_by_program_and_it_holds_at_once() {
    // The list is kept for a minute: what was changed here is known all the same.
    let limits = Limits { fresh: Duration::from_secs(60), ..Limits::default() };
    let central = Central::with(&[small("here", 1)], weir_serve::Pushes::default(), limits);
    let run = secret(3, "mine");
    let list = || central.site.get("/runs").page().contains(SECRET);
    assert!(!list());
    central.push(&central.mine, &run, Visibility::Public);
    assert!(list());
    let page = central.site.get(&format!("/runs/{}", run.uuid)).page();
    assert!(page.contains("Pushed by <strong>mine</strong>") && page.contains("rel=\"license\""), "{page}");
    assert!(!page.contains("/visibility"), "others have no form");
    let change = |token: &str, visibility: &str| {
        let body = format!("{{\"visibility\": \"{visibility}\"}}");
        central.ask("PATCH", &format!("/api/v1/runs/{}", run.uuid), Some(token), body.as_bytes()).status
    };
    assert_eq!((change(&central.other, "private"), change(&central.reader, "private")), (403, 403));
    assert_eq!(change(&central.mine, "nobody"), 400);
    assert!(list());
    assert_eq!(change(&central.mine, "private"), 200);
    assert!(!list() && central.site.get(&format!("/runs/{}", run.uuid)).status == 404);
    let cookie = central.enter(&central.mine);
    let page = central.site.ask("GET", &format!("/runs/{}", run.uuid), &cookie).page();
    let word = page.split("name=\"word\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let at = format!("/runs/{}", run.uuid);
    assert_eq!(central.form(&format!("{at}/visibility"), &cookie, "visibility=public&word=0").status, 403);
    assert!(!list());
    assert_eq!(
        central.form(&format!("{at}/visibility"), &cookie, &format!("visibility=public&word={word}")).status,
        303
    );
    assert!(list());
    assert_eq!(
        central.form(&format!("{at}/delete"), &cookie, &format!("word={word}")).status,
        400,
        "it must be ticked"
    );
    assert_eq!(central.form(&format!("{at}/delete"), &cookie, &format!("sure=yes&word={word}")).status, 303);
    assert!(!list() && central.site.get(&at).status == 404);
    central.push(&central.mine, &run, Visibility::Public);
    assert_eq!(central.ask("DELETE", &format!("/api/v1{at}"), Some(&central.other), b"").status, 403);
    assert_eq!(central.ask("DELETE", &format!("/api/v1{at}"), Some(&central.mine), b"").status, 204);
    assert!(!list());
}

#[test]
fn who_may_see_what_holds_on_a_server_that_takes_no_runs_too() {
    let central = Central::of(&[small("here", 1)]);
    central.push(&central.mine, &secret(3, "private"), Visibility::Private);
    let limits = Limits { fresh: Duration::ZERO, ..Limits::default() };
    let reading = Site::under(
        tempfile::tempdir().unwrap(),
        central.database.clone(),
        Options { limits, ..Options::default() },
    );
    assert!(reading.get("/runs").page().contains("1 run<"));
    for lines in ["", &format!("Authorization: Bearer {}\r\n", central.mine)] {
        assert_eq!(reading.ask("GET", "/runs/private-zyxsecretzyx", lines).status, 404);
    }
}

#[test]
fn pages_read_runs_through_views_alone() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pages");
    let mut folders = vec![std::path::PathBuf::from(folder)];
    let mut looked = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            looked += 1;
            let is_account = path.ends_with("account.rs");
            assert!(
                is_account || !text.contains(".whole("),
                "{}: a page reads the whole store",
                path.display()
            );
            assert!(
                !text.contains("weir_store::Store;")
                    && !text.contains("&Store,")
                    && !text.contains("&Store)")
                    && !text.contains("&Store|"),
                "{}: a page has a store",
                path.display()
            );
        }
    }
    assert!(looked > 15, "{looked}");
}
