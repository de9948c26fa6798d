//! Mistakes in a TOML file that people write: where, what, what is allowed. Plans and the switch's
//! configuration are refused in the same words.
//!
//! ```text
//! plans/mine.toml:4:1: unknown key `sizes`
//!    |
//!  4 | sizes = [64, 1500]
//!    | ^^^^^ did you mean `size`?
//!    = allowed: name, nf, dut, …
//! ```

use std::fmt;
use std::ops::Range;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Place in the text, in bytes.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// Said beside the caret: the likeliest cure. May be empty.
    pub label: String,
    /// What may be written there.
    pub allowed: Vec<String>,
}

/// A file that cannot be used: every mistake, with its place.
///
/// `Display` prints each with file, line, column and the line itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    file: String,
    source: String,
    diagnostics: Vec<Diagnostic>,
}

/// Line and column of a mistake, both from 1; columns count characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
    /// What may be written there, where that is a list.
    pub allowed: Vec<String>,
}

/// The choice that `text` most likely meant, if one is near.
pub fn nearest<'a>(text: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_lowercase();
    let far = 1 + text.chars().count() / 3;
    choices
        .into_iter()
        .map(|choice| (strsim::damerau_levenshtein(&text, &choice.to_lowercase()), choice))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, choice)| choice)
}

/// ` (did you mean ...?)`, or nothing.
pub fn suggestion<'a>(text: &str, choices: impl IntoIterator<Item = &'a str>) -> String {
    nearest(text, choices).map_or(String::new(), |choice| format!(" (did you mean \"{choice}\"?)"))
}

impl Diagnostic {
    /// A mistake without choices.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), label: String::new(), allowed: Vec::new() }
    }

    /// A word that is none of the choices.
    pub fn unknown(span: Range<usize>, what: &str, text: &str, choices: &[&str]) -> Self {
        let label = nearest(text, choices.iter().copied()).map(|choice| format!("did you mean `{choice}`?"));
        Self {
            label: label.unwrap_or_default(),
            allowed: choices.iter().map(|choice| (*choice).to_owned()).collect(),
            ..Self::new(span, format!("unknown {what} `{text}`"))
        }
    }

    /// What the TOML reader or a value's own reader refused.
    pub fn of_toml(error: &toml::de::Error, source: &str) -> Self {
        let message = error.message();
        let span = error.span().unwrap_or(0..0);
        let mut words = message.split('`').skip(1).step_by(2);
        let kind = message.split(' ').take(2).collect::<Vec<_>>().join(" ");
        match kind.as_str() {
            "unknown field" | "unknown variant" => {
                let text = words.next().unwrap_or_default();
                let choices: Vec<&str> = words.collect();
                let what = if kind == "unknown field" { "key" } else { "value" };
                Self::unknown(span, what, text, &choices)
            }
            "missing field" => {
                let key = words.next().unwrap_or_default();
                Self::new(start_of_content(span, source), format!("the key `{key}` is missing"))
            }
            _ => match key_at(source, span.start) {
                Some(key) => Self::new(span, format!("`{key}`: {message}")),
                None => Self::new(span, message),
            },
        }
    }
}

/// A missing key has no place: point at the first line of its table that is no comment.
fn start_of_content(span: Range<usize>, source: &str) -> Range<usize> {
    let mut start = span.start;
    for line in source[span.start..].split_inclusive('\n') {
        let text = line.trim();
        if !text.is_empty() && !text.starts_with('#') {
            return start..start + line.trim_end().len();
        }
        start += line.len();
    }
    span.start..span.start
}

/// The key whose value is being read at `offset`: of the line itself, or of the nearest line above
/// that has one (values may go over several lines).
fn key_at(source: &str, offset: usize) -> Option<&str> {
    let end = source[offset..].find('\n').map_or(source.len(), |length| offset + length);
    source[..end].lines().rev().find_map(|line| {
        let (key, _) = line.split_once('=')?;
        let key = key.trim();
        let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        (!key.is_empty() && key.chars().all(bare)).then_some(key)
    })
}

impl FileError {
    /// The mistakes found in a file of this name and text.
    pub fn new(file: String, source: &str, mut diagnostics: Vec<Diagnostic>) -> Self {
        diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        Self { file, source: source.to_owned(), diagnostics }
    }

    /// Every mistake's place and message, in the order of the file.
    pub fn places(&self) -> Vec<Place> {
        let place = |diagnostic: &Diagnostic| {
            let (line, column, _) = self.locate(diagnostic.span.start);
            Place { line, column, message: diagnostic.message.clone(), allowed: diagnostic.allowed.clone() }
        };
        self.diagnostics.iter().map(place).collect()
    }

    /// Takes the mistakes out that lie within a part of the text.
    pub fn take_within(&mut self, part: &Range<usize>) -> Vec<Diagnostic> {
        let within = |mistake: &mut Diagnostic| part.contains(&mistake.span.start);
        self.diagnostics.extract_if(.., within).collect()
    }

    /// Whether no mistake is left.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Line and column (from 1) of a byte, and the line's text.
    fn locate(&self, offset: usize) -> (usize, usize, &str) {
        let mut offset = offset.min(self.source.len());
        while !self.source.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &self.source[..offset];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let text = self.source[start..].lines().next().unwrap_or_default();
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1, text)
    }
}

/// Mistakes that are shown, at most.
const MOST_SHOWN: usize = 100;

/// Characters of a line that are shown, at most.
const WIDEST: usize = 160;

/// What is shown of a line, and the column in it: around the mistake, where the line is very long.
fn excerpt(text: &str, column: usize) -> (String, usize) {
    let length = text.chars().count();
    if length <= WIDEST {
        return (text.to_owned(), column);
    }
    let from = (column - 1).saturating_sub(WIDEST / 2).min(length - WIDEST);
    let part: String = text.chars().skip(from).take(WIDEST).collect();
    let (before, behind) = (if from > 0 { "…" } else { "" }, if from + WIDEST < length { "…" } else { "" });
    (format!("{before}{part}{behind}"), column - from + usize::from(from > 0))
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, diagnostic) in self.diagnostics.iter().take(MOST_SHOWN).enumerate() {
            let (line, column, text) = self.locate(diagnostic.span.start);
            let margin = " ".repeat(line.to_string().len());
            if place > 0 {
                f.write_str("\n\n")?;
            }
            writeln!(f, "{}:{line}:{column}: {}", self.file, diagnostic.message)?;
            let (text, column) = excerpt(text, column);
            writeln!(f, " {margin} |")?;
            writeln!(f, " {line} | {text}")?;
            // A tab stays a tab, so that the caret stands below its character.
            let indent: String =
                text.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let rest = text.chars().count().saturating_sub(column - 1);
            let span = self.source.get(diagnostic.span.clone()).unwrap_or_default();
            let carets = "^".repeat(span.chars().count().min(rest).max(1));
            write!(f, " {margin} | {}", format!("{indent}{carets} {}", diagnostic.label).trim_end())?;
            if !diagnostic.allowed.is_empty() {
                write!(f, "\n {margin} = allowed: {}", diagnostic.allowed.join(", "))?;
            }
        }
        match self.diagnostics.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n\n{}: and {more} more mistakes", self.file),
        }
    }
}

impl std::error::Error for FileError {}

/// Takes `null` out of a schema: TOML has no such value, a key is there or it is not.
pub fn without_null(schema: &mut serde_json::Value) {
    use serde_json::Value;
    match schema {
        Value::Array(parts) => parts.iter_mut().for_each(without_null),
        Value::Object(parts) => {
            if let Some(Value::Array(types)) = parts.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    parts.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = parts.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    parts.remove("anyOf");
                    parts.extend(only);
                }
            }
            parts.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_length_with_any_number_of_mistakes_is_shown_in_part() {
        let source = format!("first = 1\n{}!{}\n", "ab".repeat(400), "cd".repeat(5000));
        let at = source.find('!').unwrap();
        let one =
            FileError::new("f.toml".to_owned(), &source, vec![Diagnostic::new(at..at + 1, "no")]).to_string();
        let lines: Vec<&str> = one.lines().collect();
        let [shown, carets] = [lines[2], lines[3]].map(|line| line.chars().skip(5).collect::<Vec<char>>());
        assert_eq!(lines[0], "f.toml:2:801: no");
        assert_eq!(shown.len(), WIDEST + 2);
        assert!(shown[0] == '…' && shown.last() == Some(&'…'));
        let caret = carets.iter().position(|letter| *letter == '^').unwrap();
        assert_eq!((shown[caret], carets.len()), ('!', caret + 1));

        let many = (0..5000).map(|number| Diagnostic::new(at + number..at + number + 1, "no")).collect();
        let many = FileError::new("f.toml".to_owned(), &source, many).to_string();
        assert!(many.ends_with("\n\nf.toml: and 4900 more mistakes"), "{}", &many[many.len() - 60..]);
        assert!(many.len() < 50_000 && many.matches("f.toml:2:").count() == MOST_SHOWN, "{}", many.len());
    }

    #[test]
    fn a_mistake_at_either_end_of_a_long_line_has_its_caret_below_it() {
        for at in [0, 5, 79, 80, 81, 400, 799] {
            let text: String = (0..800).map(|place| if place == at { '!' } else { 'x' }).collect();
            let (shown, column) = excerpt(&text, at + 1);
            assert_eq!(shown.chars().nth(column - 1), Some('!'), "{at}");
            assert!(shown.chars().count() <= WIDEST + 2);
        }
        assert_eq!(excerpt("short", 3), ("short".to_owned(), 3));
    }
}
