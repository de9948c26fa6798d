//! Instructions from and to the wire (OpenFlow 1.3.5, section 7.2.4).

use crate::action::{Known, MIXED, Unsayable, put_actions, put_resubmit, put_write_metadata, read_actions};
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::{Code, NICIRA, Version};
use weir_flow::Match;
use weir_flow::protocol::TAG_PRESENT;
use weir_flow::span::TCI;
use weir_openflow::{Action, Instructions, MeterId, TableId};

const GOTO: u16 = 1;
const METADATA: u16 = 2;
const WRITE: u16 = 3;
const APPLY: u16 = 4;
const CLEAR: u16 = 5;
const METER: u16 = 6;
const EXPERIMENTER: u16 = 0xffff;

/// The instructions of a flow entry; in OpenFlow 1.0, its actions.
pub(crate) fn read_instructions(
    bytes: Cursor<'_>,
    version: Version,
    matching: &Match,
) -> Decoded<Instructions> {
    let known = Known::of(matching);
    if version == Version::V10 {
        return unmixed(read_actions10(bytes, known)?);
    }
    let mut bytes = bytes.with(Code::InstructionLength);
    let mut out = Instructions::default();
    let mut seen = 0_u32;
    while !bytes.is_empty() {
        let (kind, length) = (bytes.u16()?, usize::from(bytes.u16()?));
        if length < 8 || !length.is_multiple_of(8) {
            return Err(bytes.fault("the length of an instruction is no multiple of 8"));
        }
        let body = bytes.part(length - 4)?;
        let bit = 1 << kind.min(31);
        if seen & bit != 0 {
            return Err(Fault::new(Code::InstructionTwice, "an instruction is there twice"));
        }
        seen |= bit;
        read_one(kind, body, version, known, &mut out)?;
    }
    unmixed(out)
}

/// Refuses `conjunction` beside an instruction.
fn unmixed(instructions: Instructions) -> Decoded<Instructions> {
    if instructions.mixes_conjunctions() { Err(MIXED) } else { Ok(instructions) }
}

fn read_one(
    kind: u16,
    mut body: Cursor<'_>,
    version: Version,
    known: Known,
    out: &mut Instructions,
) -> Decoded<()> {
    let exactly = |body: &Cursor<'_>, bytes| {
        if body.len() == bytes { Ok(()) } else { Err(body.fault("an instruction has another length")) }
    };
    match kind {
        GOTO => {
            exactly(&body, 4)?;
            let table = TableId(body.u8()?);
            if table > TableId::LAST {
                return Err(Fault::new(Code::InstructionTable, "there is no such table"));
            }
            out.goto = Some(table);
        }
        METADATA => {
            exactly(&body, 20)?;
            body.skip(4)?;
            let (value, mask) = (body.u64()?, body.u64()?);
            out.metadata = Some((value & mask, mask));
        }
        WRITE | APPLY => {
            body.skip(4)?;
            let actions = read_actions(body, version, known)?;
            if kind == WRITE { out.write = actions } else { out.apply = actions }
        }
        CLEAR => {
            exactly(&body, 4)?;
            out.clear = true;
        }
        METER if version < Version::V15 => {
            exactly(&body, 4)?;
            out.meter = Some(MeterId(body.u32()?));
        }
        EXPERIMENTER => {
            return Err(Fault::new(Code::InstructionExperimenter, "this experimenter is not known"));
        }
        _ => return Err(Fault::new(Code::InstructionUnknown, "there is no such instruction")),
    }
    Ok(())
}

/// The actions of an entry of OpenFlow 1.0, among which Nicira's `write_metadata` stands for an
/// instruction.
fn read_actions10(bytes: Cursor<'_>, known: Known) -> Decoded<Instructions> {
    /// Bytes of `write_metadata`.
    const LENGTH: usize = 32;
    let mut out = Instructions::default();
    let all = bytes.with(Code::ActionLength);
    // It comes behind all actions but a last `resubmit`, which OpenFlow 1.0 has for `goto_table`.
    let mut rest = all;
    while !rest.is_empty() {
        let before = all.len() - rest.len();
        let mut here = rest;
        let (kind, length) = (here.u16()?, usize::from(here.u16()?).max(8));
        let mut one = rest.part(length)?;
        one.skip(4)?;
        let found = kind == EXPERIMENTER
            && length == LENGTH
            && one.u32().is_ok_and(|whose| whose == NICIRA)
            && one.u16().is_ok_and(|kind| kind == 22);
        if found {
            one.skip(6)?;
            let (value, mask) = (one.u64()?, one.u64()?);
            out.metadata = Some((value & mask, mask));
            out.apply = read_actions(all.clone().part(before)?, Version::V10, known)?;
            out.apply.extend(read_actions(rest, Version::V10, known)?);
            return Ok(out);
        }
    }
    out.apply = read_actions(all, Version::V10, known)?;
    Ok(out)
}

/// Writes instructions; in OpenFlow 1.0, actions.
pub(crate) fn put_instructions(
    out: &mut Vec<u8>,
    version: Version,
    instructions: &Instructions,
    matching: &Match,
) -> Result<(), Unsayable> {
    let Instructions { meter, apply, clear, write, metadata, goto } = instructions;
    if version == Version::V10 {
        if meter.is_some() || *clear || !write.is_empty() {
            return Err(Unsayable("an instruction other than a list of actions"));
        }
        put_actions(out, version, apply, false)?;
        if let Some(metadata) = metadata {
            put_write_metadata(out, *metadata);
        }
        if goto.is_some() {
            put_resubmit(out, None, *goto);
        }
        return Ok(());
    }
    let tagged = is_tagged(matching);
    // Until OpenFlow 1.4 the meter is an instruction, from 1.5 on an action.
    let (meter, apply) = match apply.as_slice() {
        [Action::Meter(first), rest @ ..] if meter.is_none() && version < Version::V15 => {
            (Some(*first), rest)
        }
        all => (*meter, all),
    };
    let early = meter.filter(|_| version < Version::V15);
    let late = meter.filter(|_| version == Version::V15);
    if let Some(meter) = early {
        put_plain(out, METER, meter.0.to_be_bytes());
    }
    if !apply.is_empty() || late.is_some() {
        let start = open(out, APPLY);
        if let Some(meter) = late {
            put_actions(out, version, &[Action::Meter(meter)], tagged)?;
        }
        put_actions(out, version, apply, tagged)?;
        out.close(start);
    }
    if *clear {
        put_plain(out, CLEAR, [0; 4]);
    }
    if !write.is_empty() {
        let start = open(out, WRITE);
        put_actions(out, version, write, tagged)?;
        out.close(start);
    }
    if let Some((value, mask)) = metadata {
        let start = open(out, METADATA);
        out.u64(*value);
        out.u64(*mask);
        out.close(start);
    }
    if let Some(table) = goto {
        put_plain(out, GOTO, [table.0, 0, 0, 0]);
    }
    Ok(())
}

/// Begins an instruction that has four bytes of padding.
fn open(out: &mut Vec<u8>, kind: u16) -> usize {
    let start = out.open(kind);
    out.zeros(4);
    start
}

fn put_plain(out: &mut Vec<u8>, kind: u16, argument: [u8; 4]) {
    let start = out.open(kind);
    out.extend_from_slice(&argument);
    out.close(start);
}

/// Whether packets of this match have an 802.1Q tag.
fn is_tagged(matching: &Match) -> bool {
    let bit = TCI.put(TAG_PRESENT.into());
    matching.terms().iter().any(|term| term.place == TCI.word && term.value & bit != 0)
}
