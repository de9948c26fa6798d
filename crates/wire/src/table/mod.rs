//! The tables of a network function, as text: routes and firewall rules, one entry a line.
//!
//! Why here: the lab writes these files and our own NF program reads them, and the two never link
//! each other. Both agree on this module: the text forms, what an entry matches (the plain,
//! slow meaning that fast tables are tested against), and the MAC addresses of the test network.
//!
//! A `#` starts a comment that runs to the end of the line; empty lines are skipped. Reading takes
//! time and memory in proportion to the text; nothing here is for the packet path.

mod prefix;
mod range;
mod route;
mod rule;

pub use prefix::{Ipv4Prefix, PrefixError};
pub use range::{PORT_BITS, pieces};
pub use route::{Route, longest_match, next_hop_mac, port_mac};
pub use rule::{Action, FiveTuple, Ports, Rule, first_match, has_ports};

use std::fmt;
use std::str::FromStr;

/// An entry of a table: one line of its file.
pub trait Entry: FromStr<Err = EntryError> + fmt::Display {
    /// What one entry is called.
    const NAME: &'static str;
    /// The form of a line, with an example.
    const FORM: &'static str;
}

/// A text that is no entry: what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EntryError(pub(crate) String);

/// A line of a table file that is no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A line that is no entry.
    #[error("{file}:{line}: `{text}` is no {name}: {error}; write {form}")]
    Line {
        /// File, as the caller named it.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The line, without comment.
        text: String,
        /// What the entry should have been.
        name: &'static str,
        /// What is wrong.
        error: EntryError,
        /// The form that is allowed.
        form: &'static str,
    },
    /// No line is an entry.
    #[error("{file}: holds no {name}; write at least one line of the form {form}")]
    Empty {
        /// File, as the caller named it.
        file: String,
        /// What the entries should have been.
        name: &'static str,
        /// The form that is allowed.
        form: &'static str,
    },
}

/// Reads a table; `file` is the name that errors give.
pub fn read<E: Entry>(file: &str, text: &str) -> Result<Vec<E>, TableError> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let text = line.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        entries.push(text.parse().map_err(|error| TableError::Line {
            file: file.to_owned(),
            line: index + 1,
            text: text.to_owned(),
            name: E::NAME,
            error,
            form: E::FORM,
        })?);
    }
    if entries.is_empty() {
        return Err(TableError::Empty { file: file.to_owned(), name: E::NAME, form: E::FORM });
    }
    Ok(entries)
}

/// Writes a table, so that [`read`] gives the same entries again.
pub fn write<E: Entry>(entries: &[E]) -> String {
    entries.iter().map(|entry| format!("{entry}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_skipped() {
        let routes: Vec<Route> =
            read("r", "# two halves\n\n198.18.0.0/16 0 # left\n198.19.0.0/16 1\n").unwrap();
        assert_eq!(write(&routes), "198.18.0.0/16 0\n198.19.0.0/16 1\n");
    }

    #[test]
    fn a_wrong_line_is_named_with_its_number_and_the_form() {
        let error =
            read::<Route>("routes.txt", "198.18.0.0/16 0\n\n198.19.0.0/40 1\n").unwrap_err().to_string();
        assert!(error.starts_with("routes.txt:3: `198.19.0.0/40 1` is no route"), "{error}");
        assert!(error.contains("`40`") && error.contains("PREFIX PORT"), "{error}");
        let error = read::<Rule>("rules.txt", "deny udp any any any\n").unwrap_err().to_string();
        assert!(error.starts_with("rules.txt:1:") && error.contains("ACTION PROTOCOL"), "{error}");
    }

    #[test]
    fn a_table_without_entries_is_refused() {
        let error = read::<Rule>("empty.txt", "# nothing\n").unwrap_err().to_string();
        assert!(error.contains("empty.txt") && error.contains("no rule"), "{error}");
    }
}
