//! One line of a file of flows, word by word.

use super::action::{INSTRUCTIONS, Reader, argument, group_id, meter, mixed};
use super::error::{Fault, Parsed, TextWarning};
use super::flow::FlowCommand;
use super::matching::{Demands, PROTOCOLS};
use super::packet::Known;
use super::scan::{Pair, Pairs, number_u16, number_u64};
use super::spelling::{self, Spelling};
use super::value;
use crate::{Flow, FlowFlags, FlowMod, GroupId, Instructions, Names, PortNo, Select, TableId};
use weir_flow::Match;

/// The words of a line, before they become a flow or a selection.
pub(super) struct Line {
    table: Option<TableId>,
    priority: Option<u16>,
    /// What is given to the entry.
    cookie: Option<u64>,
    /// Value and mask of those meant.
    cookies: Option<(u64, u64)>,
    timeouts: [u16; 2],
    importance: u16,
    flags: FlowFlags,
    out_port: Option<PortNo>,
    out_group: Option<GroupId>,
    matching: Match,
    instructions: Instructions,
}

/// The place of a flag.
type Flag = fn(&mut FlowFlags) -> &mut bool;

/// Words that stand for themselves, without a value.
pub(super) const FLAGS: &[(&str, Flag)] = &[
    ("send_flow_rem", |flags| &mut flags.send_flow_rem),
    ("check_overlap", |flags| &mut flags.check_overlap),
    ("reset_counts", |flags| &mut flags.reset_counts),
    ("no_packet_counts", |flags| &mut flags.no_packet_counts),
    ("no_byte_counts", |flags| &mut flags.no_byte_counts),
];

/// Words of dumps, and such that mean nothing to any switch.
const IGNORED: &[&str] =
    &["duration", "n_packets", "n_bytes", "idle_age", "hard_age", "no_readonly_table", "allow_hidden_fields"];

/// Words with a value that are no fields.
const KEYS: &[&str] = &[
    "table",
    "priority",
    "cookie",
    "idle_timeout",
    "hard_timeout",
    "importance",
    "out_port",
    "out_group",
    "actions",
];

/// Splits off what follows `actions=`.
fn split_actions(text: &str) -> (&str, Option<&str>) {
    let mut from = 0;
    while let Some(found) = text[from..].find("action") {
        let start = from + found;
        let end = start + "action".len();
        let rest = text[end..].strip_prefix('s').unwrap_or(&text[end..]).trim_start();
        let alone = text[..start].bytes().next_back().is_none_or(|byte| matches!(byte, b',' | b' ' | b'\t'));
        if let Some(actions) = rest.strip_prefix('=').filter(|_| alone) {
            return (&text[..start], Some(actions));
        }
        from = end;
    }
    (text, None)
}

impl Line {
    pub(super) fn read(
        text: &str,
        command: FlowCommand,
        names: &Names,
        warnings: &mut Vec<TextWarning>,
    ) -> Parsed<Self> {
        let (before, actions) = split_actions(text);
        let mut line = Self {
            table: None,
            priority: None,
            cookie: None,
            cookies: None,
            timeouts: [0; 2],
            importance: 0,
            flags: FlowFlags::default(),
            out_port: None,
            out_group: None,
            matching: Match::any(),
            instructions: Instructions::default(),
        };
        let mut demands = Demands::new();
        for pair in Pairs::of(before) {
            if !line.take(&pair, command, names)? && !demands.take(&pair, names)? {
                return Err(unknown(&pair));
            }
        }
        line.matching = demands.finish(warnings);
        match actions {
            Some(actions) if command.deletes() => {
                Err(Fault::new(actions, "a deletion takes no actions").mend("leave `actions=` out"))
            }
            None if !command.deletes() => {
                Err(Fault::new(text, "there are no actions").mend("end with actions=…, or actions=drop"))
            }
            Some(actions) => {
                line.instructions = line.read_instructions(actions, names)?;
                Ok(line)
            }
            None => Ok(line),
        }
    }

    /// Takes a pair if it is about the entry and not its match.
    fn take(&mut self, pair: &Pair<'_>, command: FlowCommand, names: &Names) -> Parsed<bool> {
        if IGNORED.contains(&pair.key) {
            return Ok(true);
        }
        if let Some((_, flag)) = FLAGS.iter().find(|(word, _)| *word == pair.key) {
            *flag(&mut self.flags) = true;
            return if command.deletes() { Err(misplaced(pair, command)) } else { Ok(true) };
        }
        if !KEYS.contains(&pair.key) {
            return Ok(false);
        }
        let text = argument(pair)?;
        let allowed = match pair.key {
            "table" | "cookie" => true,
            "priority" => command != FlowCommand::Delete,
            "out_port" | "out_group" => command.deletes(),
            "importance" => command == FlowCommand::Add,
            _ => !command.deletes(),
        };
        if !allowed {
            return Err(misplaced(pair, command));
        }
        match pair.key {
            "table" => self.table = value::table(text, names)?,
            "priority" => self.priority = Some(number_u16(text)?),
            "cookie" => self.take_cookie(text, command)?,
            "idle_timeout" => self.timeouts[0] = number_u16(text)?,
            "hard_timeout" => self.timeouts[1] = number_u16(text)?,
            "importance" => self.importance = number_u16(text)?,
            "out_port" => {
                self.out_port = Some(value::known_port(text, names)?).filter(|it| *it != PortNo::ANY)
            }
            _ if text.eq_ignore_ascii_case("any") => self.out_group = None,
            _ => self.out_group = Some(group_id(text)?),
        }
        Ok(true)
    }

    fn take_cookie(&mut self, text: &str, command: FlowCommand) -> Parsed<()> {
        match text.split_once('/') {
            Some(_) if command == FlowCommand::Add => {
                return Err(
                    Fault::new(text, "a flow that is added has one cookie").mend("leave the mask out")
                );
            }
            Some((value, mask)) => self.cookies = Some((number_u64(value)?, number_u64(mask)?)),
            None if command.deletes() => {
                let advice = format!("to select by cookie write cookie={text}/-1");
                return Err(Fault::new(text, "a deletion gives no cookie").mend(advice));
            }
            None => self.cookie = Some(number_u64(text)?),
        }
        Ok(())
    }

    /// Instructions must stand in the order in which they are done.
    fn read_instructions(&self, text: &str, names: &Names) -> Parsed<Instructions> {
        const ORDER: &[&str] =
            &["meter", "actions", "clear_actions", "write_actions", "write_metadata", "goto_table"];
        let mut reader = Reader::new(names, Known::of(&self.matching));
        let (mut out, mut done, mut drop) = (Instructions::default(), None, None);
        for pair in Pairs::of(text) {
            let word = pair.key.to_ascii_lowercase();
            if word == "drop" {
                drop = Some(pair);
                continue;
            }
            let step = ORDER.iter().position(|step| *step == word).unwrap_or(1);
            // After the first, a meter is an action (OpenFlow 1.5).
            let step = if step == 0 && done.is_some() { 1 } else { step };
            if done.is_some_and(|done| step < done || step == done && step != 1) {
                let what = format!("`{}` comes too late or twice", pair.key);
                return Err(Fault::new(pair.whole, what).mend(format!("the order is {}", ORDER.join(", "))));
            }
            done = Some(step);
            self.instruction(step, &pair, &mut reader, &mut out)?;
        }
        if out.mixes_conjunctions() {
            return Err(mixed(text));
        }
        match drop {
            Some(pair) if done.is_some() => {
                Err(Fault::new(pair.whole, "`drop` must stand alone")
                    .mend("leave it or the other actions out"))
            }
            _ => Ok(out),
        }
    }

    fn instruction(
        &self,
        step: usize,
        pair: &Pair<'_>,
        reader: &mut Reader<'_>,
        out: &mut Instructions,
    ) -> Parsed<()> {
        match step {
            0 => out.meter = Some(meter(pair)?),
            2 => out.clear = true,
            3 => {
                let outside = reader.known;
                out.write = reader.list(pair.value)?;
                reader.known = outside;
            }
            4 => {
                let text = argument(pair)?;
                let (value, mask) = text.split_once('/').unwrap_or((text, "-1"));
                out.metadata = Some((number_u64(value)?, number_u64(mask)?));
            }
            5 => {
                let text = argument(pair)?;
                let here = self.table.unwrap_or_default();
                let next = value::table(text, reader.names)?.filter(|next| *next > here);
                out.goto = Some(next.ok_or_else(|| {
                    Fault::new(text, format!("this table does not come after table {here}"))
                        .mend("goto_table only goes on; `resubmit` may go back")
                })?);
            }
            _ if pair.key.eq_ignore_ascii_case("apply_actions") => {
                return Err(Fault::new(pair.whole, "this needs no word").mend("write the actions alone"));
            }
            _ => out.apply.push(reader.one(pair)?),
        }
        Ok(())
    }

    pub(super) fn flow(self) -> Flow {
        Flow {
            table: self.table.unwrap_or_default(),
            priority: self.priority.unwrap_or(Flow::PRIORITY),
            matching: self.matching,
            instructions: self.instructions,
            cookie: self.cookie.unwrap_or(0),
            idle_timeout: self.timeouts[0],
            hard_timeout: self.timeouts[1],
            importance: self.importance,
            flags: self.flags,
        }
    }

    pub(super) fn select(&self, command: FlowCommand) -> Select {
        let (cookie, mask) = self.cookies.unwrap_or_default();
        Select {
            table: self.table,
            matching: self.matching.clone(),
            strict: command.strict().then_some(self.priority.unwrap_or(Flow::PRIORITY)),
            cookie: (cookie & mask, mask),
            out_port: self.out_port,
            out_group: self.out_group,
        }
    }

    pub(super) fn change(self, command: FlowCommand) -> FlowMod {
        match command {
            FlowCommand::Add => FlowMod::Add(self.flow()),
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                let (select, cookie) = (self.select(command), self.cookie);
                let or_add = select.cookie.1 == 0;
                FlowMod::Modify { flow: self.flow(), cookie, select, or_add }
            }
            FlowCommand::Delete | FlowCommand::DeleteStrict => FlowMod::Delete(self.select(command)),
        }
    }
}

fn misplaced(pair: &Pair<'_>, command: FlowCommand) -> Fault {
    let what = format!("`{}` has no place in `{}`", pair.key, command.word());
    Fault::new(pair.whole, what).mend("leave it out")
}

/// Neither a key nor a field has this name.
pub(super) fn unknown(pair: &Pair<'_>) -> Fault {
    if !pair.value.is_empty() {
        return spelling::unknown_among(pair.key, KEYS);
    }
    let words = PROTOCOLS.iter().map(|row| row.0).chain(FLAGS.iter().map(|row| row.0));
    Fault::new(pair.whole, "this word means nothing here").meant(
        pair.key,
        words.chain(Spelling::names()).chain(KEYS.iter().copied()).chain(INSTRUCTIONS.iter().copied()),
    )
}
