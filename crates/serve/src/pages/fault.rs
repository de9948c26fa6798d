//! What is said where there is no page.

use super::{Here, page as framed};
use crate::answer::Answer;
use axum::http::StatusCode;
use maud::html;

/// A fault in words, and the ways on.
pub(crate) fn page(status: StatusCode, what: &str) -> Answer {
    let heading = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::BAD_REQUEST => "This address says what cannot be",
        StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => "Not allowed",
        StatusCode::METHOD_NOT_ALLOWED => "Not to be asked so",
        StatusCode::CONFLICT => "Not now",
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => "Too busy",
        StatusCode::PAYLOAD_TOO_LARGE => "Too large",
        _ => "It did not work",
    };
    let main = html! {
        h1 { (heading) }
        p { (sentence(what)) }
        h2 { "What there is" }
        ul {
            li { a href="/runs" { "All runs" } ", with filters and search" }
            li { code { "/runs/NAME" } " a run by its name, the beginning of it, its number, its UUID, or " a href="/runs/@last" { "@last" } }
            li { code { "/runs/NAME/points/0" } " a point of it, with every trial" }
            li { code { "/compare?base=NAME&with=NAME" } " runs, or dataplanes of them (" code { "NAME/DEVICE" } "), compared" }
            li { code { "/figures?run=NAME" } " its plots and tables as files" }
        }
        p class="provenance" { "Status " (status.as_u16()) }
    };
    framed(heading, Here::Nowhere, &main)
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}
