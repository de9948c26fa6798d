//! How people name a run on the command line.

use std::fmt;
use std::str::FromStr;

/// Which run is meant: `@last`, `@last~2`, a number, a name or the beginning of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// `@last` is 0, `@last~1` the run before it, and so on.
    Last(u32),
    /// The run's number in its database.
    Number(i64),
    /// A name, the beginning of exactly one, or a UUID.
    Name(String),
}

/// A text that selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` selects no run; write a name, the beginning of a name, a number, @last or @last~1")]
pub struct ParseSelectorError(String);

impl FromStr for Selector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseSelectorError(text.to_owned());
        if let Some(rest) = text.strip_prefix('@') {
            let back = match rest.strip_prefix("last").ok_or_else(error)? {
                "" => 0,
                back => back.strip_prefix('~').and_then(|n| n.parse().ok()).ok_or_else(error)?,
            };
            return Ok(Self::Last(back));
        }
        if text.is_empty() {
            return Err(error());
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self::Number).map_err(|_| error());
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last(0) => f.write_str("@last"),
            Self::Last(back) => write!(f, "@last~{back}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_and_printed() {
        for (text, selector) in [
            ("@last", Selector::Last(0)),
            ("@last~3", Selector::Last(3)),
            ("17", Selector::Number(17)),
            ("2026-11-21-otter", Selector::Name("2026-11-21-otter".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(selector.clone()));
            assert_eq!(selector.to_string(), text);
        }
    }

    #[test]
    fn texts_that_select_nothing_are_refused_with_the_choices() {
        for text in ["", "@first", "@last~", "@last~x", "@last-1", "99999999999999999999"] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains("@last~1"), "{error}");
        }
    }
}
