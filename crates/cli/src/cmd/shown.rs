//! Text that may be somebody else's, as it is shown: runs, bundles and files hold names, versions and errors that others
//! wrote, and a terminal obeys what stands in them.
//!
//! Everything that is printed passes here, in [`print()`](super::print()) and in the program's error message. A character that does
//! something to a terminal or a reader ([`is_hostile`]) is written as `\u001b`. JSON reads that as the character itself, so
//! documents stay what they are. Of escape sequences those pass that this program writes itself, a few colours: in a run they
//! could do no more than colour a word.

use super::layout::STYLES;
use std::borrow::Cow;
use weir_report::{is_hostile, write_out};

/// The text with every hostile character written out.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hostile) {
        return Cow::Borrowed(text);
    }
    let ours = styles();
    let mut safe = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if let Some(whole) = ours.iter().find(|sequence| rest.starts_with(sequence.as_str())) {
            safe.push_str(whole);
            rest = &rest[whole.len()..];
            continue;
        }
        // Files of other systems end their lines so.
        let is_end = letter == '\r' && rest.starts_with("\r\n");
        if is_hostile(letter) && !is_end {
            write_out(letter, &mut safe);
        } else {
            safe.push(letter);
        }
        rest = &rest[letter.len_utf8()..];
    }
    Cow::Owned(safe)
}

/// The sequences that this program writes: each style's beginning and the end of all.
fn styles() -> Vec<String> {
    let begins = STYLES.iter().map(|style| style.render().to_string());
    begins.chain([STYLES[0].render_reset().to_string()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::layout::{BAD, paint};

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        for (text, safe) in [
            ("plain µs, Mpps → 1\n", "plain µs, Mpps → 1\n"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u001b[2J\\u001b]0;title\\u0007"),
            ("\u{9b}2J\u{7f}", "\\u009b2J\\u007f"),
            ("50 %\rFAST\r\n", "50 %\\u000dFAST\r\n"),
            ("nf\u{202e}reversed\u{200b}\u{feff}", "nf\\u202ereversed\\u200b\\ufeff"),
            ("tag \u{e0041}", "tag \\udb40\\udc41"),
            ("\u{1b}[8mhidden\u{1b}[38;5;0m", "\\u001b[8mhidden\\u001b[38;5;0m"),
        ] {
            assert_eq!(shown(text), safe, "{text:?}");
        }
        assert!(matches!(shown("nothing to do\n"), Cow::Borrowed(_)));
        let ours = paint(BAD, "DIFFERS");
        assert_eq!(shown(&ours), ours, "the program's own colours stay");
    }

    #[test]
    fn a_document_means_the_same_as_before() {
        let value = serde_json::json!({ "name": "a\u{9b}b\u{202e}c\u{e0041}\u{1b}" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let safe = shown(&text);
        assert!(!safe.chars().any(is_hostile), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}
