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

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, diagnostic) in self.diagnostics.iter().enumerate() {
            let (line, column, text) = self.locate(diagnostic.span.start);
            let margin = " ".repeat(line.to_string().len());
            if place > 0 {
                f.write_str("\n\n")?;
            }
            writeln!(f, "{}:{line}:{column}: {}", self.file, diagnostic.message)?;
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
        Ok(())
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
