//! A browser under test: Debian's Chromium, driven through ChromeDriver by W3C WebDriver over HTTP.
//!
//! Browser and driver live as long as the value; their profile is a folder of its own that goes with them.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// What Chromium needs in a container without a screen, and what keeps it from the network.
const SWITCHES: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
];

pub(crate) struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
    folder: TempDir,
}

impl Browser {
    /// Starts a browser with a window of this size.
    pub(crate) fn start(width: u32, height: u32) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut driver = Command::new(program("chromedriver"))
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let port = port(&mut driver);
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build();
        let mut browser = Self {
            driver,
            agent: config.into(),
            session: format!("http://127.0.0.1:{port}/session"),
            folder,
        };
        let mut switches: Vec<String> = SWITCHES.iter().map(ToString::to_string).collect();
        switches.push(format!("--user-data-dir={}", browser.folder.path().join("profile").display()));
        switches.push(format!("--window-size={width},{height}"));
        let answer = browser.post(
            "",
            json!({ "capabilities": { "alwaysMatch": {
                "goog:chromeOptions": { "binary": program("chromium"), "args": switches },
                "goog:loggingPrefs": { "browser": "ALL" },
            } } }),
        );
        let id = answer["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}"));
        browser.session = format!("{}/{id}", browser.session);
        browser
    }

    /// Switches the scripts of pages off, as a careful reader does; [`Self::run`] still works, from outside.
    pub(crate) fn forbid_scripts(&self) {
        self.command("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    }

    /// A command of Chromium's own protocol, for what WebDriver has none.
    pub(crate) fn command(&self, name: &str, parameters: Value) {
        self.post("/goog/cdp/execute", json!({ "cmd": name, "params": parameters }));
    }

    /// Opens a page from a file.
    pub(crate) fn open(&self, page: &str) {
        let path = self.folder.path().join("page.html");
        std::fs::write(&path, page).expect("the page can be written");
        self.post("/url", json!({ "url": format!("file://{}", path.display()) }));
    }

    /// Runs a script's body in the page; `arguments` are its arguments.
    pub(crate) fn run(&self, script: &str, arguments: Value) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": arguments }))
    }

    /// The text that one element shows, as a person reads it.
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.run("return document.querySelector(arguments[0])?.innerText", json!([selector]));
        text.as_str().unwrap_or_else(|| panic!("`{selector}` is not in the page")).to_owned()
    }

    /// Clicks, as a mouse does: what is covered or hidden cannot be clicked.
    pub(crate) fn click(&self, selector: &str) {
        self.post(&format!("/element/{}/click", self.element(selector)), json!({}));
    }

    /// Moves the pointer to the middle of an element.
    pub(crate) fn point_at(&self, selector: &str) {
        let element = self.element(selector);
        self.run("arguments[0].scrollIntoView({ block: 'center' })", json!([{ ELEMENT: element }]));
        let step =
            json!({ "type": "pointerMove", "duration": 0, "origin": { ELEMENT: element }, "x": 0, "y": 0 });
        let mouse = json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": [step] });
        self.post("/actions", json!({ "actions": [mouse] }));
    }

    /// Presses a key while an element has the focus.
    pub(crate) fn press(&self, selector: &str, key: char) {
        self.post(&format!("/element/{}/value", self.element(selector)), json!({ "text": key.to_string() }));
    }

    /// What the page wrote to its console.
    pub(crate) fn console(&self) -> Vec<Value> {
        self.post("/se/log", json!({ "type": "browser" })).as_array().cloned().unwrap_or_default()
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("`{selector}`: {found}")).to_owned()
    }

    fn post(&self, path: &str, body: Value) -> Value {
        let mut answer = self
            .agent
            .post(format!("{}{path}", self.session))
            .send_json(body)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let status = answer.status();
        let mut answer: Value = answer.body_mut().read_json().expect("WebDriver answers in JSON");
        assert!(status.is_success(), "{path}: {}", answer["value"]["message"]);
        answer["value"].take()
    }
}

/// The name under which WebDriver passes elements (W3C WebDriver, section 12.2).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Drop for Browser {
    fn drop(&mut self) {
        // Ending the session ends Chromium; then the driver has no children left.
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// A program on the search path.
fn program(name: &str) -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths)
        .chain([Path::new("/usr/bin").to_owned()])
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| {
            panic!("`{name}` is not installed, and this test needs it: run `./x setup --test`")
        })
}

/// The port that the driver chose, from what it prints when it is ready.
fn port(driver: &mut Child) -> u16 {
    let output = driver.stdout.take().expect("its output is a pipe");
    let ready = "started successfully on port ";
    for line in BufReader::new(output).lines() {
        let line = line.expect("chromedriver prints text");
        if let Some((_, port)) = line.split_once(ready) {
            return port.trim_end_matches('.').parse().expect("a port is a number");
        }
    }
    panic!("chromedriver ended before it was ready");
}
