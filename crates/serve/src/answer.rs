//! Bodies with their headers, and what is said instead of one.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use weir_report::shown;
use weir_store::StoreError;

/// What is found at an address.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    kind: &'static str,
    body: Bytes,
    /// The name under which a browser keeps it as a file.
    file: Option<String>,
    /// Whether its address changes with its content.
    lasting: bool,
}

/// What a browser may do with a page, as a header; set by the answer, else [`crate::guard`] has one for pages without
/// anything inline.
#[derive(Clone, Debug)]
pub(crate) struct Policy(pub(crate) String);

impl Answer {
    /// A text of a media type, in UTF-8.
    pub(crate) fn text(kind: &'static str, text: String) -> Self {
        Self { kind, body: text.into(), file: None, lasting: false }
    }

    /// A page, in which no letter of somebody else's does anything to a reader.
    pub(crate) fn page(html: String) -> Self {
        Self::text("text/html; charset=utf-8", shown(html))
    }

    /// Bytes of a media type.
    pub(crate) fn bytes(kind: &'static str, body: Vec<u8>) -> Self {
        Self { kind, body: body.into(), file: None, lasting: false }
    }

    /// A file that a browser keeps under a name.
    pub(crate) fn file(kind: &'static str, body: Vec<u8>, name: &str) -> Self {
        Self { kind, body: body.into(), file: Some(file_name(name)), lasting: false }
    }

    /// Says that its address changes with its content.
    pub(crate) fn lasting(self) -> Self {
        Self { lasting: true, ..self }
    }

    /// Bytes of its body.
    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    /// What may be inline in it: the hashes of its styles and scripts.
    fn policy(&self) -> Option<String> {
        let is_page = self.kind.starts_with("text/html");
        if !is_page && !self.kind.starts_with("image/svg") {
            return None;
        }
        let text = std::str::from_utf8(&self.body).ok()?;
        let hashes = |tag: &str| -> String {
            let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
            let parts = text.split(&open).skip(1).filter_map(|part| part.split_once(&close));
            parts.map(|(inside, _)| format!(" 'sha256-{}'", hash(inside.as_bytes()))).collect()
        };
        Some(policy(&hashes("style"), &hashes("script")))
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let policy = self.policy();
        let tag = tag(&self.body);
        let mut response = Response::new(Body::from(self.body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        let cache = if self.lasting { "public, max-age=31536000, immutable" } else { "private, no-cache" };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(header::ETAG, tag);
        }
        if let Some(file) = self.file.and_then(|file| HeaderValue::try_from(file).ok()) {
            headers.insert(header::CONTENT_DISPOSITION, file);
        }
        if let Some(policy) = policy {
            response.extensions_mut().insert(Policy(policy));
        }
        response
    }
}

/// A policy under which nothing is fetched but from this site, and nothing inline is taken but what has these hashes.
pub(crate) fn policy(styles: &str, scripts: &str) -> String {
    format!(
        "default-src 'none'; style-src 'self'{styles}; script-src 'self'{scripts}; img-src 'self' data:; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
}

/// A SHA-256 in base64 (RFC 4648, section 4).
fn hash(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = digest(&SHA256, bytes);
    let mut text = String::new();
    for three in digest.as_ref().chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place > three.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

/// What a client knows an answer by: the beginning of its hash, in hexadecimal.
fn tag(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    let digits: String = digest.as_ref()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

/// `Content-Disposition` (RFC 6266): a name of letters that every system takes, whatever the run is called.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).take(120).collect();
    format!("attachment; filename=\"{}\"", name.trim_start_matches('.'))
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nothing is at this address.
    Missing(String),
    /// The address, or a form, says what cannot be.
    Bad(String),
    /// It is not allowed, and why.
    Forbidden(String),
    /// A program that this takes is not installed, or failed.
    Lacking(String),
    /// What is there does not allow it now.
    Conflict(String),
    /// Nobody is known by what was sent.
    Unknown(String),
    /// Too often, and when again.
    Often {
        /// What happened.
        what: String,
        /// Seconds until it may be tried again.
        seconds: u64,
    },
    /// What was sent is too large.
    Large(String),
    /// What was sent came too slowly.
    Slow(String),
    /// What was sent is of another kind than what is taken.
    Kind(String),
    /// A bundle that was verified and is refused.
    Refused(String),
    /// The store failed; what it says names the database, and goes into the log alone.
    Store(StoreError),
    /// It is asked under a name that is not ours.
    Misdirected(String),
    /// It took too long.
    Late(String),
    /// The server ends.
    Stopping,
    /// A fault of this program's own.
    Broken(String),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            // Where the store is, is nothing to tell whoever asks.
            StoreError::NoSuchRun { selector, .. } => {
                Self::Missing(format!("no run matches `{selector}`; /runs lists those that there are"))
            }
            StoreError::Gone { .. } | StoreError::Unreachable { .. } => {
                eprintln!("weir: {error}");
                Self::Late("the database is away; try again soon".to_owned())
            }
            StoreError::Busy { seconds, .. } => {
                eprintln!("weir: {error}");
                Self::Late(format!("the database was busy for {seconds} s; try again soon"))
            }
            StoreError::Full { .. } => {
                eprintln!("weir: {error}");
                Self::Late("the server has no room left; whoever runs it is to make some".to_owned())
            }
            StoreError::Ambiguous { .. } => Self::Missing(error.to_string()),
            StoreError::Quota { .. } | StoreError::BadAccount { .. } => Self::Forbidden(error.to_string()),
            StoreError::OtherRun { uuid, .. } => Self::Conflict(format!(
                "run {uuid} is here with another content, and neither goes on where the other stops: one of them was changed"
            )),
            StoreError::OthersRun { .. } | StoreError::RunInUse { .. } => Self::Conflict(error.to_string()),
            StoreError::Unfit { what, .. } => Self::Refused(what),
            error => Self::Store(error),
        }
    }
}

impl Fault {
    /// The status, and what happened in a sentence.
    pub(crate) fn said(&self) -> (StatusCode, String) {
        match self {
            Self::Missing(what) => (StatusCode::NOT_FOUND, what.clone()),
            Self::Bad(what) => (StatusCode::BAD_REQUEST, what.clone()),
            Self::Forbidden(what) => (StatusCode::FORBIDDEN, what.clone()),
            Self::Unknown(what) => (StatusCode::UNAUTHORIZED, what.clone()),
            Self::Often { what, .. } => (StatusCode::TOO_MANY_REQUESTS, what.clone()),
            Self::Large(what) => (StatusCode::PAYLOAD_TOO_LARGE, what.clone()),
            Self::Slow(what) => (StatusCode::REQUEST_TIMEOUT, what.clone()),
            Self::Kind(what) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, what.clone()),
            Self::Refused(what) => (StatusCode::UNPROCESSABLE_ENTITY, what.clone()),
            Self::Lacking(what) => (StatusCode::NOT_IMPLEMENTED, what.clone()),
            Self::Conflict(what) => (StatusCode::CONFLICT, what.clone()),
            Self::Misdirected(what) => (StatusCode::MISDIRECTED_REQUEST, what.clone()),
            Self::Late(what) => (StatusCode::SERVICE_UNAVAILABLE, what.clone()),
            Self::Store(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            Self::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "the server is stopping".to_owned()),
            Self::Broken(what) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("a fault of the server itself: {what}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_that_browsers_compute() {
        // printf %s '' | openssl dgst -sha256 -binary | base64
        assert_eq!(hash(b""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        assert_eq!(hash(b"alert(1)"), "bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=");
    }

    #[test]
    fn what_is_inline_has_its_hash_in_the_policy_and_nothing_else_has() {
        let page = Answer::page("<style></style><script>alert(1)</script><p>&lt;script&gt;".to_owned());
        let policy = page.policy().unwrap();
        assert!(policy.contains("style-src 'self' 'sha256-47DEQpj8"), "{policy}");
        assert!(policy.contains("script-src 'self' 'sha256-bhHHL3z2"), "{policy}");
        assert_eq!(policy.matches("sha256-").count(), 2);
        assert_eq!(Answer::text("text/csv", "<script>x</script>".to_owned()).policy(), None);
    }

    #[test]
    fn a_hostile_name_cannot_leave_its_header() {
        let name = file_name("..\"\r\nX: 1; ü/../<b>.csv");
        assert!(name.starts_with("attachment; filename=\"-") && name.ends_with(".csv\""), "{name}");
        assert!(
            name.is_ascii() && !name.contains(['\r', '\n', '<']) && name.matches('"').count() == 2,
            "{name}"
        );
    }
}
