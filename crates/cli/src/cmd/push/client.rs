//! A server's API, as far as pushing needs it.

use crate::cmd::BadUse;
use serde::Deserialize;
use serde_json::Value;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::StatusCode;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, SendBody};
use weir_store::Visibility;

/// How long an answer may take: the server verifies a bundle before it answers.
const ANSWER: Duration = Duration::from_secs(600);
const CONNECT: Duration = Duration::from_secs(15);
/// Most bytes of an answer that are read.
const MOST: u64 = 1 << 20;

/// What the server said, or that it could not be asked.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It says no: asking again changes nothing.
    Refused(String),
    /// It is away or busy: perhaps later, and when it said so after how long.
    Away(String, Option<Duration>),
}

/// What a server is.
#[derive(Debug, Deserialize)]
pub(super) struct Server {
    pub(super) push: bool,
    pub(super) licence: Option<String>,
    pub(super) bundle_bytes: Option<u64>,
}

/// A run on the server.
#[derive(Debug, Deserialize)]
pub(super) struct There {
    pub(super) name: String,
    #[serde(default = "known")]
    pub(super) became: String,
    pub(super) page: String,
    pub(super) bundle: Option<String>,
    pub(super) shared: Option<Shared>,
}

fn known() -> String {
    "known".to_owned()
}

#[derive(Debug, Deserialize)]
pub(super) struct Shared {
    pub(super) own: bool,
    pub(super) visibility: Visibility,
}

/// A server, asked with a token.
pub(super) struct Client {
    agent: Agent,
    pub(super) url: String,
    token: String,
}

impl Client {
    /// Of a server at this address. A token is sent over plain http to this machine alone, unless that is allowed.
    pub(super) fn new(
        url: &str,
        token: String,
        ca_cert: Option<&Path>,
        allow_http: bool,
    ) -> anyhow::Result<Self> {
        let wrong = |why: &str| BadUse::new(format!("server `{url}`: {why}"));
        let uri: ureq::http::Uri = url
            .trim_end_matches('/')
            .parse()
            .map_err(|_| wrong("write https://HOST or https://HOST/PATH"))?;
        let host = uri.host().ok_or_else(|| wrong("it names no host; write https://HOST"))?;
        let is_here = host == "localhost"
            || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_here || allow_http => {}
            Some("http") => {
                return Err(wrong("everybody on the way could read the token; write https://, or allow it with --allow-http").into());
            }
            _ => return Err(wrong("write https://HOST").into()),
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) || uri.query().is_some()
        {
            return Err(wrong(
                "it has more than a host and a path; the token comes from --token-file or WEIR_TOKEN",
            )
            .into());
        }
        let mut tls = TlsConfig::builder();
        if let Some(path) = ca_cert {
            tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates(path)?)));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .tls_config(tls.build())
            .user_agent(crate::cmd::WEIR.replace(['(', ')'], ""))
            .build();
        Ok(Self { agent: agent.into(), url: url.trim_end_matches('/').to_owned(), token })
    }

    /// What the server is.
    pub(super) fn server(&self) -> Result<Server, Trouble> {
        self.asked(self.agent.get(format!("{}/api/v1", self.url)).call())
    }

    /// A run that is there, where it is and this account sees it.
    pub(super) fn run(&self, uuid: &str) -> Result<Option<There>, Trouble> {
        let request = self.agent.get(self.of_run(uuid)).header("Authorization", self.bearer());
        let answer = request.call();
        if answer.as_ref().is_ok_and(|answer| answer.status() == StatusCode::NOT_FOUND) {
            return Ok(None);
        }
        self.asked(answer).map(Some)
    }

    /// Changes who may see a run.
    pub(super) fn change(&self, uuid: &str, visibility: Visibility) -> Result<There, Trouble> {
        let request = self.agent.patch(self.of_run(uuid)).header("Authorization", self.bearer());
        let change = format!("{{\"visibility\": \"{visibility}\"}}");
        self.asked(request.header("Content-Type", "application/json").send(change))
    }

    /// Sends a bundle, of so many bytes.
    pub(super) fn push(
        &self,
        bundle: &mut dyn Read,
        bytes: u64,
        visibility: Option<Visibility>,
    ) -> Result<There, Trouble> {
        let query = visibility.map_or_else(String::new, |visibility| format!("?visibility={visibility}"));
        let request = self.agent.post(format!("{}/api/v1/runs{query}", self.url));
        let request =
            request.header("Authorization", self.bearer()).header("Content-Type", "application/gzip");
        self.asked(request.header("Content-Length", bytes.to_string()).send(SendBody::from_reader(bundle)))
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn of_run(&self, uuid: &str) -> String {
        format!("{}/api/v1/runs/{uuid}", self.url)
    }

    fn asked<T: for<'a> Deserialize<'a>>(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, Trouble> {
        let mut answer = answer.map_err(|error| match error {
            ureq::Error::Tls(_)
            | ureq::Error::Rustls(_)
            | ureq::Error::BadUri(_)
            | ureq::Error::HostNotFound => Trouble::Refused(format!("cannot reach {}: {error}", self.url)),
            // What rustls finds wrong, as a certificate that nobody vouches for, comes as this.
            ureq::Error::Io(why) if why.kind() == ErrorKind::InvalidData => {
                Trouble::Refused(format!("cannot reach {}: {why}", self.url))
            }
            error => Trouble::Away(format!("cannot reach {}: {error}", self.url), None),
        })?;
        let status = answer.status();
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let (again, location) =
            (header("retry-after").and_then(|text| text.parse().ok()), header("location"));
        let text = answer.body_mut().with_config().limit(MOST).read_to_string();
        let text = text
            .map_err(|error| Trouble::Away(format!("{}: its answer broke off: {error}", self.url), None))?;
        if status.is_success() {
            let said = serde_json::from_str(&text);
            return said.map_err(|_| {
                Trouble::Refused(format!("{}: it does not answer as a server of Weir's does", self.url))
            });
        }
        if status.is_redirection() {
            let to = location.unwrap_or_else(|| "somewhere else".to_owned());
            return Err(Trouble::Refused(format!("{} leads to {to}; name that address", self.url)));
        }
        let detail = serde_json::from_str::<Value>(&text)
            .ok()
            .and_then(|said| Some(said.get("detail")?.as_str()?.to_owned()));
        let said = detail.unwrap_or_else(|| format!("it answers {status}"));
        match status.as_u16() {
            408 | 429 | 500 | 502..=504 => Err(Trouble::Away(said, again.map(Duration::from_secs))),
            404 => Err(Trouble::Refused(format!("{said}; is there a `weir serve` at {}?", self.url))),
            _ => Err(Trouble::Refused(said)),
        }
    }
}

/// The certificates in a file.
fn certificates(path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let wrong = |why: &dyn std::fmt::Display| BadUse::new(format!("--ca-cert {}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| wrong(&error))?;
    let mut found = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(&error))? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(wrong(&"it holds no certificate in PEM").into()) } else { Ok(found) }
}
