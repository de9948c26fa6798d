//! What is wrong with a text: which word, where, why, and how to mend it.

use std::fmt;

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}`{word}`: {what}{}", place(*.line, *.column), advice(.mend))]
pub struct TextError {
    /// The line, from 1, if the text is a file.
    pub line: Option<u32>,
    /// The first byte of the word in its line, from 1, if it stands there as it is.
    pub column: Option<u32>,
    /// The word that is wrong.
    pub word: String,
    /// What is wrong with it.
    pub what: String,
    /// How to mend it; empty where nothing is known.
    pub mend: String,
}

fn place(line: Option<u32>, column: Option<u32>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!("line {line}, column {column}: "),
        (Some(line), None) => format!("line {line}: "),
        (None, Some(column)) => format!("column {column}: "),
        (None, None) => String::new(),
    }
}

fn advice(mend: &str) -> String {
    if mend.is_empty() { String::new() } else { format!("; {mend}") }
}

/// Mistakes that are shown of a file: of a file of another kind every line is one.
const SHOWN: usize = 20;

/// All mistakes of a file, at least one, by line. The first are shown, and how many more there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextErrors(pub Vec<TextError>);

impl fmt::Display for TextErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().take(SHOWN).enumerate() {
            let end = if number == 0 { "" } else { "\n" };
            write!(f, "{end}{error}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            1 => write!(f, "\nand one more line is wrong"),
            more => write!(f, "\nand {more} more lines are wrong"),
        }
    }
}

impl std::error::Error for TextErrors {}

/// A part of a match that says nothing, because what it needs is not matched. Open vSwitch leaves
/// such parts out, and so do we; but a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWarning {
    /// The line, from 1, if the text is a file.
    pub line: Option<u32>,
    /// The field.
    pub field: &'static str,
    /// What it needs.
    pub needs: &'static str,
}

impl fmt::Display for TextWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, needs } = self;
        let place = place(*line, None);
        write!(f, "{place}`{field}` is left out of the match: it needs {needs} beside it")
    }
}

/// A mistake while its place in the line is not yet worked out.
pub(super) struct Fault {
    at: usize,
    error: TextError,
}

pub(super) type Parsed<T> = Result<T, Fault>;

impl Fault {
    /// A mistake in `word`, which should be a piece of the line.
    pub(super) fn new(word: &str, what: impl Into<String>) -> Self {
        let (word, what) = (word.trim(), what.into());
        let error = TextError { line: None, column: None, word: word.to_owned(), what, mend: String::new() };
        Self { at: word.as_ptr().addr(), error }
    }

    /// The same with advice.
    pub(super) fn mend(mut self, advice: impl Into<String>) -> Self {
        self.error.mend = advice.into();
        self
    }

    /// The same with the name that was probably meant.
    pub(super) fn meant<'n>(self, word: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        match closest(word, names) {
            Some(name) => self.mend(format!("did you mean `{name}`?")),
            None => self,
        }
    }

    /// The error, with the place of its word in the line.
    pub(super) fn within(self, line: &str, number: Option<u32>) -> TextError {
        let Self { at, mut error } = self;
        let start = line.as_ptr().addr();
        if (start..=start + line.len()).contains(&at) {
            error.column = u32::try_from(at - start + 1).ok();
        }
        error.line = number;
        error
    }
}

/// The name most like a word, if one is.
fn closest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    /// Below this, a name is not like the word at all.
    const ALIKE: f64 = 0.75;
    let word = word.to_ascii_lowercase();
    let scored = names.into_iter().map(|name| (strsim::jaro_winkler(&word, name), name));
    scored.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn of_a_file_of_another_kind_the_first_mistakes_are_shown_and_the_rest_is_counted() {
        let of = |lines: usize| {
            let text = "tablp\n".repeat(lines);
            crate::parse_flow_file(&text, &Default::default()).unwrap_err()
        };
        let (few, many) = (of(SHOWN), of(970));
        assert_eq!((few.0.len(), few.to_string().lines().count()), (SHOWN, SHOWN));
        let said = many.to_string();
        assert_eq!((many.0.len(), said.lines().count()), (970, SHOWN + 1), "{said}");
        assert!(said.starts_with("line 1") && said.ends_with("and 950 more lines are wrong"), "{said}");
    }
}
