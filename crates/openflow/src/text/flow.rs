//! Flow entries, changes of them, and files of changes, from text and as text.

use super::error::{Parsed, TextError, TextErrors, TextWarning};
use super::line::{FLAGS, Line, unknown};
use super::matching::Demands;
use super::packet::Known;
use super::scan::Pairs;
use super::value::{show_port, show_table};
use super::{show_action, show_match};
use crate::{Flow, FlowMod, Instructions, Names, Select, TableId};
use std::fmt::Write;
use weir_flow::Match;

/// What is done to flow entries, by the words of a file of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// `add`.
    Add,
    /// `modify`: entries whose match is covered.
    Modify,
    /// `modify_strict`: the entry of that match and priority.
    ModifyStrict,
    /// `delete`.
    Delete,
    /// `delete_strict`.
    DeleteStrict,
}

impl FlowCommand {
    const WORDS: &[(&str, Self)] = &[
        ("add", Self::Add),
        ("modify", Self::Modify),
        ("modify_strict", Self::ModifyStrict),
        ("delete", Self::Delete),
        ("delete_strict", Self::DeleteStrict),
    ];

    /// The word at the front of a line, or `add`, and what follows.
    fn split(line: &str) -> (Self, &str) {
        let line = line.trim_start();
        let end = line.find([',', ' ', '\t']).unwrap_or(line.len());
        let found = Self::WORDS.iter().find(|(word, _)| *word == &line[..end]);
        found.map_or((Self::Add, line), |(_, command)| (*command, &line[end..]))
    }

    pub(super) fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, command)| *command == self).map_or("", |(word, _)| word)
    }

    pub(super) const fn strict(self) -> bool {
        matches!(self, Self::ModifyStrict | Self::DeleteStrict)
    }

    pub(super) const fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteStrict)
    }
}

/// A file of flows: what it changes, in order, and what it says in vain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowFile {
    /// The changes.
    pub changes: Vec<FlowMod>,
    /// The line of each change, from 1.
    pub lines: Vec<u32>,
    /// Parts of matches that were left out.
    pub warnings: Vec<TextWarning>,
}

impl Flow {
    /// Reads a flow as `ovs-ofctl add-flow` takes it.
    ///
    /// # Errors
    ///
    /// The first word that is wrong, where it stands and how to mend it.
    pub fn parse(text: &str, names: &Names) -> Result<Self, TextError> {
        let line = Line::read(text, FlowCommand::Add, names, &mut Vec::new());
        line.map(Line::flow).map_err(|fault| fault.within(text, None))
    }

    /// The flow as `ovs-ofctl dump-flows --no-stats` prints it; [`Flow::parse`] reads it back.
    pub fn text(&self, names: &Names) -> String {
        let mut out = String::new();
        if self.cookie != 0 {
            let _ = write!(out, "cookie={:#x}, ", self.cookie);
        }
        if self.table != TableId(0) || names.table_name(self.table).is_some() {
            out.push_str("table=");
            show_table(&mut out, self.table, names);
            out.push_str(", ");
        }
        self.options_text(&mut out);
        let matching =
            show_match::show(&self.matching, names, Some(self.priority).filter(|it| *it != Self::PRIORITY));
        out.push_str(&matching);
        if !matching.is_empty() {
            out.push(' ');
        }
        out.push_str("actions=");
        out.push_str(&self.instructions.text(&self.matching, names));
        out
    }

    fn options_text(&self, out: &mut String) {
        for (name, seconds) in [("idle_timeout", self.idle_timeout), ("hard_timeout", self.hard_timeout)] {
            if seconds != 0 {
                let _ = write!(out, "{name}={seconds}, ");
            }
        }
        let mut flags = self.flags;
        for (word, flag) in FLAGS {
            if *flag(&mut flags) {
                let _ = write!(out, "{word} ");
            }
        }
        if self.importance != 0 {
            let _ = write!(out, "importance={}, ", self.importance);
        }
    }
}

impl Instructions {
    /// What `ovs-ofctl` prints after `actions=`. The match says which fields packets have.
    pub fn text(&self, matching: &Match, names: &Names) -> String {
        show_action::instructions(self, names, Known::of(matching))
    }
}

/// A match as `ovs-ofctl` prints it, without the priority; empty where everything matches.
pub fn match_text(matching: &Match, names: &Names) -> String {
    show_match::show(matching, names, None)
}

/// Reads a match alone: fields, commas or white space between them.
///
/// # Errors
///
/// The first word that is wrong.
pub fn parse_match(text: &str, names: &Names) -> Result<Match, TextError> {
    let mut demands = Demands::new();
    for pair in Pairs::of(text) {
        match demands.take(&pair, names) {
            Ok(true) => {}
            Ok(false) => return Err(unknown(&pair).within(text, None)),
            Err(fault) => return Err(fault.within(text, None)),
        }
    }
    Ok(demands.finish(&mut Vec::new()))
}

impl FlowMod {
    /// Reads a line of a file of flows, which may begin with `add`, `modify`, `modify_strict`, `delete`
    /// or `delete_strict`; without, it adds.
    ///
    /// # Errors
    ///
    /// The first word that is wrong, where it stands and how to mend it.
    pub fn parse(text: &str, names: &Names) -> Result<Self, TextError> {
        let (command, rest) = FlowCommand::split(text);
        read(rest, command, names, &mut Vec::new()).map_err(|fault| fault.within(text, None))
    }

    /// Reads what `ovs-ofctl add-flow`, `mod-flows` and `del-flows` take, with and without `--strict`.
    ///
    /// # Errors
    ///
    /// The first word that is wrong.
    pub fn parse_as(command: FlowCommand, text: &str, names: &Names) -> Result<Self, TextError> {
        read(text, command, names, &mut Vec::new()).map_err(|fault| fault.within(text, None))
    }

    /// The change as a line of a file of flows.
    pub fn text(&self, names: &Names) -> String {
        match self {
            Self::Add(flow) => format!("add {}", flow.text(names)),
            Self::Modify { flow, cookie, select, .. } => {
                let strict = select.strict.is_some();
                let command = if strict { FlowCommand::ModifyStrict } else { FlowCommand::Modify };
                let flow = Flow { cookie: 0, ..flow.clone() };
                let mut front = String::new();
                if select.cookie.1 != 0 {
                    let _ = write!(front, "cookie={:#x}/{:#x}, ", select.cookie.0, select.cookie.1);
                }
                if let Some(cookie) = cookie {
                    let _ = write!(front, "cookie={cookie:#x}, ");
                }
                // A table that is named is meant, be it 0.
                if select.table == Some(TableId(0)) && names.table_name(TableId(0)).is_none() {
                    front.push_str("table=0, ");
                }
                format!("{} {front}{}", command.word(), flow.text(names))
            }
            Self::Delete(select) => {
                let strict = select.strict.is_some();
                let command = if strict { FlowCommand::DeleteStrict } else { FlowCommand::Delete };
                format!("{} {}", command.word(), select.text(names)).trim_end().to_owned()
            }
        }
    }
}

impl Select {
    /// Reads which flows are meant, as `ovs-ofctl dump-flows` and `del-flows` take it.
    ///
    /// # Errors
    ///
    /// The first word that is wrong.
    pub fn parse(text: &str, names: &Names) -> Result<Self, TextError> {
        let line = Line::read(text, FlowCommand::Delete, names, &mut Vec::new());
        line.map(|line| line.select(FlowCommand::Delete)).map_err(|fault| fault.within(text, None))
    }

    /// As [`Select::parse`], or for a strict one [`FlowMod::parse_as`], reads it.
    pub fn text(&self, names: &Names) -> String {
        let mut out = String::new();
        if self.cookie.1 != 0 {
            let _ = write!(out, "cookie={:#x}/{:#x},", self.cookie.0, self.cookie.1);
        }
        if let Some(table) = self.table {
            out.push_str("table=");
            show_table(&mut out, table, names);
            out.push(',');
        }
        if let Some(port) = self.out_port {
            out.push_str("out_port=");
            show_port(&mut out, port, names);
            out.push(',');
        }
        if let Some(group) = self.out_group {
            let _ = write!(out, "out_group={group},");
        }
        let priority = self.strict.filter(|priority| *priority != Flow::PRIORITY);
        out.push_str(&show_match::show(&self.matching, names, priority));
        out.trim_end_matches(',').to_owned()
    }
}

fn read(text: &str, command: FlowCommand, names: &Names, warnings: &mut Vec<TextWarning>) -> Parsed<FlowMod> {
    Ok(Line::read(text, command, names, warnings)?.change(command))
}

/// Reads a file of flows as `ovs-ofctl add-flows` takes it: a change a line ([`FlowMod::parse`]), what
/// follows `#` is a comment, and empty lines do not matter.
///
/// # Errors
///
/// Every line that is wrong, so that all can be mended at once.
pub fn parse_flow_file(text: &str, names: &Names) -> Result<FlowFile, TextErrors> {
    let (mut file, mut errors) = (FlowFile::default(), Vec::new());
    // A file may have half a million lines: room for them is asked for once.
    let lines = text.lines().count();
    file.changes.reserve_exact(lines);
    file.lines.reserve_exact(lines);
    for (number, whole) in (1_u32..).zip(text.lines()) {
        let line = whole.split('#').next().unwrap_or(whole);
        if line.trim().is_empty() {
            continue;
        }
        let (command, rest) = FlowCommand::split(line);
        let before = file.warnings.len();
        match read(rest, command, names, &mut file.warnings) {
            Ok(change) => {
                file.changes.push(change);
                file.lines.push(number);
            }
            Err(fault) => errors.push(fault.within(line, Some(number))),
        }
        for warning in &mut file.warnings[before..] {
            warning.line = Some(number);
        }
    }
    if errors.is_empty() { Ok(file) } else { Err(TextErrors(errors)) }
}

/// The changes of a file of flows, for those who need no warnings ([`parse_flow_file`]).
///
/// # Errors
///
/// Every line that is wrong.
pub fn parse_flows(text: &str, names: &Names) -> Result<Vec<FlowMod>, TextErrors> {
    parse_flow_file(text, names).map(|file| file.changes)
}
