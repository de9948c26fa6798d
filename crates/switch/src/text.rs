//! The text of flows, groups and meters, with file names in what is refused.

use crate::config::TableText;
use std::fmt::Write as _;
use weir_datapath::{FlowStats, GroupStats, MeterStats};
use weir_flow::Match;
use weir_openflow::{
    Flow, FlowCommand, FlowMod, Group, Meter, Names, Select, TableId, TextError, parse_flow_file, parse_match,
};

/// Changes of flow entries, and what was said in vain.
pub(crate) struct Changes {
    pub(crate) changes: Vec<FlowMod>,
    pub(crate) warnings: Vec<String>,
}

/// Lines that add, modify or delete.
pub(crate) fn flow_mods(text: &TableText, names: &Names) -> Result<Changes, String> {
    let file = parse_flow_file(&text.text, names).map_err(|errors| {
        let lines: Vec<String> = errors.0.iter().map(|error| format!("{}: {error}", text.name)).collect();
        lines.join("\n")
    })?;
    let warnings = file.warnings.iter().map(|warning| format!("{}: {warning}", text.name)).collect();
    Ok(Changes { changes: file.changes, warnings })
}

/// Lines that only add: what tables are to hold.
pub(crate) fn entries(text: &TableText, names: &Names) -> Result<(Vec<Flow>, Vec<String>), String> {
    let read = flow_mods(text, names)?;
    let entry = |change| match change {
        FlowMod::Add(flow) => Ok(flow),
        other => Err(format!(
            "{}: `{}` changes what is there; what tables are to hold is only added",
            text.name,
            other.text(names)
        )),
    };
    Ok((read.changes.into_iter().map(entry).collect::<Result<_, _>>()?, read.warnings))
}

/// One line that adds.
pub(crate) fn entry(text: &str, names: &Names) -> Result<Flow, String> {
    Flow::parse(text, names).map_err(said)
}

/// One line that modifies.
pub(crate) fn modify(text: &str, strict: bool, names: &Names) -> Result<FlowMod, String> {
    let command = if strict { FlowCommand::ModifyStrict } else { FlowCommand::Modify };
    FlowMod::parse_as(command, text, names).map_err(said)
}

/// One line that deletes.
pub(crate) fn delete(text: &str, strict: bool, names: &Names) -> Result<FlowMod, String> {
    let command = if strict { FlowCommand::DeleteStrict } else { FlowCommand::Delete };
    FlowMod::parse_as(command, text, names).map_err(said)
}

/// Which entries are meant.
pub(crate) fn select(text: &str, names: &Names) -> Result<Select, String> {
    Select::parse(text, names).map_err(said)
}

/// A match alone.
pub(crate) fn matching(text: &str, names: &Names) -> Result<Match, String> {
    parse_match(text, names).map_err(said)
}

/// A flow entry, as it can be read back.
pub(crate) fn flow(flow: &Flow, names: &Names) -> String {
    flow.text(names)
}

/// A flow entry with its counters, as `ovs-ofctl dump-flows` prints it.
pub(crate) fn dump_line(stats: &FlowStats, names: &Names) -> String {
    let flow = &stats.flow;
    let mut line = format!(
        "cookie={:#x}, duration={:.3}s, table={}, n_packets={}, n_bytes={}, ",
        flow.cookie,
        stats.age.as_secs_f64(),
        flow.table,
        stats.packets,
        stats.bytes
    );
    let _ = write!(line, "idle_age={}, ", stats.idle.as_secs());
    // Cookie and table are said already.
    let rest = Flow { cookie: 0, table: TableId(0), ..flow.clone() };
    line + &rest.text(names)
}

/// A group's counters, as `ovs-ofctl dump-group-stats` prints them.
pub(crate) fn group_line(stats: &GroupStats) -> String {
    let mut line = format!(
        "group_id={},duration={:.3}s,ref_count={},packet_count={},byte_count={}",
        stats.group.id,
        stats.age.as_secs_f64(),
        stats.flows,
        stats.packets,
        stats.bytes
    );
    for (place, (packets, bytes)) in stats.buckets.iter().enumerate() {
        let _ = write!(line, ",bucket{place}:packet_count={packets},byte_count={bytes}");
    }
    line
}

/// A meter's counters, as `ovs-ofctl meter-stats` prints them, in one line.
pub(crate) fn meter_line(stats: &MeterStats) -> String {
    let mut line = format!(
        "meter:{} flow_count:{} packet_in_count:{} byte_in_count:{} duration:{:.3}s bands:",
        stats.meter.id,
        stats.flows,
        stats.packets,
        stats.bytes,
        stats.age.as_secs_f64()
    );
    for (place, (packets, bytes)) in stats.bands.iter().enumerate() {
        let _ = write!(line, " {place}: packet_count:{packets} byte_count:{bytes}");
    }
    line
}

/// One group.
pub(crate) fn group(text: &str, names: &Names) -> Result<Group, String> {
    Group::parse(text, names).map_err(said)
}

/// One meter.
pub(crate) fn meter(text: &str) -> Result<Meter, String> {
    Meter::parse(text).map_err(said)
}

/// A group a line.
pub(crate) fn groups(text: &TableText, names: &Names) -> Result<Vec<Group>, String> {
    each_line(text, |line| Group::parse(line, names))
}

/// A meter a line.
pub(crate) fn meters(text: &TableText) -> Result<Vec<Meter>, String> {
    each_line(text, Meter::parse)
}

fn said(error: TextError) -> String {
    error.to_string()
}

/// Reads every line but comments and empty ones; all that are wrong are told.
fn each_line<T>(text: &TableText, read: impl Fn(&str) -> Result<T, TextError>) -> Result<Vec<T>, String> {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.text.lines()) {
        let line = line.split('#').next().unwrap_or(line);
        if line.trim().is_empty() {
            continue;
        }
        match read(line) {
            Ok(one) => found.push(one),
            Err(error) => {
                let error = TextError { line: Some(number), ..error };
                wrong.push(format!("{}: {error}", text.name));
            }
        }
    }
    if wrong.is_empty() { Ok(found) } else { Err(wrong.join("\n")) }
}
