//! A plan file read as far as it can be: every key that cannot be is reported and taken out, so that one
//! reading finds all mistakes.
//!
//! What is taken out is overwritten with blanks, so that all other places stay where they are. A key that
//! every plan must have is put back with a value that stands for it, before the text; checks across keys
//! are then left out ([`Read::whole`]).

use super::file::PlanFile;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use weir_diagnostic::Diagnostic;

/// Mistakes after which a file is given up on.
const MOST: usize = 100;

/// The keys that every plan must have, each with a value to go on with.
const MUST: [(&str, &str); 2] = [("trace", "trace = \"simple\"\n"), ("size", "size = 64\n")];

/// What could be read.
pub(super) struct Read {
    /// The file, without what was taken out; nothing where it is no TOML.
    pub(super) file: Option<PlanFile>,
    /// Length of what was put before the text: places count from there.
    pub(super) before: usize,
    /// What was wrong, with its place in the text.
    pub(super) found: Vec<Diagnostic>,
}

impl Read {
    /// Whether nothing had to be taken out.
    pub(super) fn whole(&self) -> bool {
        self.found.is_empty()
    }
}

/// Reads the text of a plan.
pub(super) fn read(text: &str) -> Read {
    let (_, mistakes) = DeTable::parse_recoverable(text);
    if !mistakes.is_empty() {
        // What is no TOML in each of its lines has a mistake for each, and each is looked for from the beginning.
        let found = mistakes.iter().take(MOST).map(|error| Diagnostic::of_toml(error, text)).collect();
        return Read { file: None, before: 0, found };
    }
    let (mut source, mut before, mut found) = (text.to_owned(), String::new(), Vec::new());
    while found.len() < MOST {
        let error = match toml::from_str(&format!("{before}{source}")) {
            Ok(file) => {
                drop_echoes(&mut found);
                return Read { file: Some(file), before: before.len(), found };
            }
            Err(error) => error,
        };
        let whole = format!("{before}{source}");
        let shift = |place: usize| place.saturating_sub(before.len()).min(text.len());
        let mut mistake = Diagnostic::of_toml(&error, &whole);
        mistake.span = shift(mistake.span.start)..shift(mistake.span.end);
        let span = error.span().map_or(0..0, |span| shift(span.start)..shift(span.end));
        found.push(mistake);
        if let Some(stands_for) = missing(&error) {
            before.push_str(stands_for);
            continue;
        }
        let Some((key, part)) = place_of(&source, &span) else { break };
        blank(&mut source, part);
        let gone = !DeTable::parse(&source).is_ok_and(|table| table.get_ref().contains_key(key.as_str()));
        if let Some((_, stands_for)) = MUST.iter().find(|(must, _)| gone && *must == key) {
            before.push_str(stands_for);
        }
    }
    drop_echoes(&mut found);
    Read { file: None, before: 0, found }
}

/// A key that was only misspelt is not missing besides.
fn drop_echoes(found: &mut Vec<Diagnostic>) {
    for (must, _) in MUST {
        let meant = format!("did you mean `{must}`?");
        if found.iter().any(|mistake| mistake.label == meant) {
            found.retain(|mistake| mistake.message != format!("the key `{must}` is missing"));
        }
    }
}

/// What to go on with where a key that must be there is not.
fn missing(error: &toml::de::Error) -> Option<&'static str> {
    let key = error.message().strip_prefix("missing field `")?.strip_suffix('`')?;
    Some(MUST.iter().find(|(must, _)| *must == key)?.1)
}

/// The least that must go for a mistake to go: an element of a list, a key with its value, or a table;
/// with the name of the key of the file that it belongs to.
fn place_of(source: &str, span: &Range<usize>) -> Option<(String, Range<usize>)> {
    let table = DeTable::parse(source).ok()?;
    let (mut key, part) = within(table.get_ref(), source, span)?;
    if key.is_empty() {
        key = source[part.clone()].to_owned();
    }
    Some((key, part))
}

fn within(table: &DeTable<'_>, source: &str, span: &Range<usize>) -> Option<(String, Range<usize>)> {
    let holds = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    for (key, value) in table {
        let (name, place) = (key.get_ref().to_string(), value.span());
        match value.get_ref() {
            DeValue::Table(inner) => {
                if let Some((_, part)) = within(inner, source, span) {
                    return Some((name, part));
                }
                let part = table_text(source, key.span(), &place);
                if holds(&key.span()) || holds(&place) || holds(&part) {
                    return Some((name, part));
                }
            }
            DeValue::Array(list) if list.len() > 1 && holds(&place) => {
                let element = list.iter().map(|element| element.span()).find(|element| holds(element));
                return Some((name, element.map_or(key.span().start..place.end, |one| listed(source, one))));
            }
            _ if holds(&(key.span().start..place.end)) => return Some((name, key.span().start..place.end)),
            _ => {}
        }
    }
    None
}

/// A table's text: up to the end of its braces, or from its header to the next one.
fn table_text(source: &str, key: Range<usize>, value: &Range<usize>) -> Range<usize> {
    if source[value.clone()].starts_with('{') {
        return key.start..value.end;
    }
    let start = source[..key.start].rfind('\n').map_or(0, |newline| newline + 1);
    let mut end = start;
    for (number, line) in source[start..].split_inclusive('\n').enumerate() {
        if number > 0 && line.trim_start().starts_with('[') {
            break;
        }
        end += line.len();
    }
    start..end
}

/// An element of a list with the comma behind it, or else the one before.
fn listed(source: &str, element: Range<usize>) -> Range<usize> {
    let rest = &source[element.end..];
    let comma = rest.find(|c: char| !c.is_whitespace()).filter(|at| rest[*at..].starts_with(','));
    match comma {
        Some(at) => element.start..element.end + at + 1,
        None => source[..element.start].rfind(',').unwrap_or(element.start)..element.end,
    }
}

/// Overwrites a part with as many blanks; its lines stay lines.
fn blank(source: &mut String, part: Range<usize>) {
    let blanks: String =
        source[part.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    source.replace_range(part, &blanks);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of what is wrong, each with its place in the text.
    fn mistakes(text: &str) -> Vec<(usize, String)> {
        read(text).found.into_iter().map(|mistake| (mistake.span.start, mistake.message)).collect()
    }

    #[test]
    fn a_text_that_is_no_toml_in_each_line_is_given_up_on() {
        let found = mistakes(&"x\n".repeat(40_000));
        assert_eq!(found.len(), MOST, "with {:?}", found.last());
    }

    #[test]
    fn a_good_file_is_read_whole() {
        let read = read("nf = \"l2fwd\"\ntrace = \"simple\"\nsize = [64, 128]\n[mrr]\ntrials = 2\n");
        assert!(read.whole() && read.file.is_some() && read.before == 0);
    }

    #[test]
    fn mistakes_of_every_kind_are_found_in_one_reading_each_in_its_place() {
        let text = "nf = \"l2fwd\"\nsizes = 64\nsize = [63, 64, 62]\ntrace = \"simple\"\nline_rate = \"10Q\"\n\
                    [mrr]\ntrials = -1\nload = \"x\"\n[mrrr]\ntrials = 1\n[latency]\nduration = \"1s\"\n";
        let found = mistakes(text);
        for (word, says) in [
            ("sizes", "unknown key `sizes`"),
            ("63", "63 B"),
            ("62", "62 B"),
            ("\"10Q\"", "line_rate"),
            ("-1", "trials"),
            ("\"x\"", "load"),
            ("mrrr", "unknown key `mrrr`"),
            ("[latency]", "`loads` is missing"),
        ] {
            let at = text.find(word).unwrap();
            let there = found.iter().any(|(place, message)| *place == at && message.contains(says));
            assert!(there, "{word} ({at}): {found:#?}");
        }
        assert_eq!(found.len(), 8, "{found:#?}");
    }

    #[test]
    fn keys_that_must_be_there_are_all_missed_at_once() {
        let found = mistakes("seed = 1\n");
        let missed: Vec<&str> = found.iter().map(|(_, message)| message.as_str()).collect();
        assert_eq!(missed.len(), 2, "{missed:?}");
        for key in ["trace", "size"] {
            assert!(missed.iter().any(|message| message.contains(&format!("`{key}`"))), "{missed:?}");
        }
    }

    #[test]
    fn text_that_is_no_toml_has_all_its_mistakes_told() {
        let found = mistakes("nf = \"l2fwd\nsize = 64\ntrace = = 3\n");
        assert!(found.len() >= 2, "{found:?}");
        assert!(read("nf = ").file.is_none());
    }

    #[test]
    fn letters_of_many_bytes_keep_their_places() {
        let text = "# größer als µ\nname = \"µ\"\nnf = 3\ntrace = \"simple\"\nsize = \"größe\"\n";
        let found = mistakes(text);
        assert!(found.iter().any(|(place, _)| *place == text.find("\"größe\"").unwrap()), "{found:?}");
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
