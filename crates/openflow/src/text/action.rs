//! Actions, from text. [`WORDS`] is the table of all of them: word and how its argument is read.

use super::ct;
use super::error::{Fault, Parsed};
use super::packet::Known;
use super::scan::{
    Pair, Pairs, hex_bytes, number, number_of, number_u8, number_u16, number_u32, number_u64, up_to_colon,
    up_to_comma,
};
use super::set;
use super::spelling;
use super::value;
use crate::unsupported::{Unsupported, unsupported};
use crate::{Action, Argument, Arguments, Conjunction, GroupId, MeterId, Names, PortNo, ToController};
use weir_flow::{Field, ones};

/// What actions are read with.
pub(super) struct Reader<'a> {
    pub(super) names: &'a Names,
    pub(super) known: Known,
    /// Whether these are the actions of `ct`, done to a connection.
    pub(super) tracked: bool,
    /// Lists within lists.
    depth: u32,
}

/// Lists within lists that are read at most.
const DEPTH: u32 = 64;
/// The greatest number of a group (OpenFlow 1.3.5, section 7.3.4.2).
pub(super) const LAST_GROUP: u32 = 0xffff_ff00;
/// The greatest number of a meter (section 7.3.4.4).
pub(super) const LAST_METER: u32 = 0xffff_0000;

/// Why a controller gets a packet, by number (OpenFlow 1.4.1, section 7.4.1).
pub(super) const REASONS: &[&str] =
    &["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];

type Read = fn(&mut Reader<'_>, &Pair<'_>) -> Parsed<Action>;

/// Actions by word, and how their argument is read.
const WORDS: &[(&str, Read)] = &[
    ("output", output),
    ("controller", |_, pair| controller(pair)),
    ("group", |_, pair| group(pair)),
    ("set_field", set::set_field),
    ("load", set::load),
    ("move", set::copy),
    ("mod_dl_src", |it, pair| set::set_whole(it, pair, "eth_src")),
    ("mod_dl_dst", |it, pair| set::set_whole(it, pair, "eth_dst")),
    ("mod_nw_src", |it, pair| set::set_whole(it, pair, "ip_src")),
    ("mod_nw_dst", |it, pair| set::set_whole(it, pair, "ip_dst")),
    ("mod_nw_tos", |it, pair| set::set_whole(it, pair, "nw_tos")),
    ("mod_nw_ecn", |it, pair| set::set_whole(it, pair, "nw_ecn")),
    ("mod_tp_src", |it, pair| set::port(it, pair, true)),
    ("mod_tp_dst", |it, pair| set::port(it, pair, false)),
    ("set_mpls_label", |it, pair| set::set_whole(it, pair, "mpls_label")),
    ("set_mpls_tc", |it, pair| set::set_whole(it, pair, "mpls_tc")),
    ("set_tunnel", |_, pair| set::tunnel(pair)),
    ("set_tunnel64", |_, pair| set::tunnel(pair)),
    ("mod_vlan_vid", |it, pair| set::vlan(it, pair, true)),
    ("set_vlan_vid", |it, pair| set::vlan(it, pair, false)),
    ("mod_vlan_pcp", |it, pair| set::priority(it, pair, true)),
    ("set_vlan_pcp", |it, pair| set::priority(it, pair, false)),
    ("push_vlan", push_vlan),
    ("pop_vlan", |it, _| pop_vlan(it)),
    ("strip_vlan", |it, _| pop_vlan(it)),
    ("push_mpls", push_mpls),
    ("pop_mpls", pop_mpls),
    ("push_pbb", push_pbb),
    ("pop_pbb", |it, _| pop_pbb(it)),
    ("set_mpls_ttl", |_, pair| Ok(Action::SetMplsTtl(number_u8(argument(pair)?)?))),
    ("dec_mpls_ttl", |_, _| Ok(Action::DecMplsTtl)),
    ("mod_nw_ttl", |_, pair| Ok(Action::SetNwTtl(number_u8(argument(pair)?)?))),
    ("set_nw_ttl", |_, pair| Ok(Action::SetNwTtl(number_u8(argument(pair)?)?))),
    ("dec_ttl", |_, pair| dec_ttl(pair)),
    ("copy_ttl_out", |_, _| Ok(Action::CopyTtlOut)),
    ("copy_ttl_in", |_, _| Ok(Action::CopyTtlIn)),
    ("resubmit", resubmit),
    ("softflow", softflow),
    ("meter", |_, pair| meter(pair).map(Action::Meter)),
    ("clone", clone),
    ("ct", ct::ct),
    ("nat", |_, pair| Err(ct::nat_alone(pair))),
    ("ct_clear", |_, _| Ok(Action::CtClear)),
    ("conjunction", |_, pair| conjunction(pair)),
    ("exit", |_, _| Ok(Action::Exit)),
    ("note", |_, pair| hex_bytes(pair.value).map(Action::Note)),
];

/// Words that are instructions.
pub(super) const INSTRUCTIONS: &[&str] =
    &["goto_table", "write_metadata", "write_actions", "clear_actions", "apply_actions"];

/// The argument of an action that needs one.
pub(super) fn argument<'a>(pair: &Pair<'a>) -> Parsed<&'a str> {
    if pair.value.is_empty() {
        let what = format!("`{}` needs a value", pair.key);
        return Err(Fault::new(pair.whole, what).mend(format!("write {}:VALUE", pair.key)));
    }
    Ok(pair.value)
}

/// An action that Weir has not got.
fn refused(text: &str, action: &Unsupported) -> Fault {
    let Unsupported { word, why, instead } = action;
    Fault::new(text, format!("action `{word}` is not supported: {why}")).mend(*instead)
}

/// No action has this name.
fn unknown(pair: &Pair<'_>) -> Fault {
    let word = pair.key.to_ascii_lowercase();
    if let Some(foreign) = unsupported(&word) {
        return refused(pair.whole, foreign);
    }
    if INSTRUCTIONS.contains(&word.as_str()) {
        return Fault::new(pair.whole, "an instruction cannot be among these actions");
    }
    if word == "drop" {
        return Fault::new(pair.whole, "`drop` must stand alone").mend("leave it or the other actions out");
    }
    let words = WORDS.iter().map(|(word, _)| *word).chain(["drop"]);
    Fault::new(pair.whole, "no action and no port has this name")
        .meant(&word, words.chain(INSTRUCTIONS.iter().copied()))
}

impl<'a> Reader<'a> {
    pub(super) fn new(names: &'a Names, known: Known) -> Self {
        Self { names, known, tracked: false, depth: 0 }
    }

    /// One action.
    pub(super) fn one(&mut self, pair: &Pair<'_>) -> Parsed<Action> {
        let row = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(pair.key));
        match row {
            Some((_, read)) => read(self, pair),
            None => self.bare_port(pair),
        }
    }

    /// A port's number or name is an action by itself.
    fn bare_port(&mut self, pair: &Pair<'_>) -> Parsed<Action> {
        let found = if pair.value.is_empty() { value::port(pair.key, self.names) } else { None };
        send(found.ok_or_else(|| unknown(pair))?, pair.whole)
    }

    /// A list of actions; `drop` alone is the empty one.
    pub(super) fn list(&mut self, text: &str) -> Parsed<Vec<Action>> {
        if self.depth == DEPTH {
            return Err(Fault::new(text, format!("lists are nested more than {DEPTH} deep")));
        }
        self.depth += 1;
        let (mut actions, mut drop) = (Vec::new(), None);
        for pair in Pairs::of(text) {
            if pair.key.eq_ignore_ascii_case("drop") {
                drop = Some(pair);
            } else {
                actions.push(self.one(&pair)?);
            }
        }
        self.depth -= 1;
        if Action::beside_conjunction(&actions).is_some() {
            return Err(mixed(text));
        }
        match drop {
            Some(pair) if !actions.is_empty() => Err(unknown(&pair)),
            _ => Ok(actions),
        }
    }
}

/// Sends to a port, if it is one that can be sent to.
fn send(port: PortNo, word: &str) -> Parsed<Action> {
    match port {
        PortNo::CONTROLLER => Ok(Action::Controller(ToController::default())),
        PortNo::IN_PORT | PortNo::TABLE | PortNo::NORMAL | PortNo::FLOOD | PortNo::ALL | PortNo::LOCAL => {
            Ok(Action::Output(port))
        }
        port if port >= PortNo::MAX => Err(Fault::new(word, "nothing can be sent to this port")
            .mend("ports are 0 to 65279 and the reserved words")),
        port => Ok(Action::Output(port)),
    }
}

fn output(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let text = argument(pair)?;
    if let Some(port) = value::port(text, it.names) {
        return send(port, text);
    }
    if text.contains("max_len")
        && let Some(cut) = unsupported("output with max_len")
    {
        return Err(refused(pair.whole, cut));
    }
    match spelling::subfield(text) {
        Ok((named, "")) => set::readable(it, named.resolve(text)?, text).map(Action::OutputReg),
        _ => value::known_port(text, it.names).and_then(|port| send(port, text)),
    }
}

fn controller(pair: &Pair<'_>) -> Parsed<Action> {
    let mut to = ToController::default();
    if pair.value.starts_with(|digit: char| digit.is_ascii_digit()) {
        to.max_len = number_u16(pair.value)?;
        return Ok(Action::Controller(to));
    }
    for part in Pairs::of(pair.value) {
        match part.key {
            "max_len" => to.max_len = number_u16(argument(&part)?)?,
            "id" => to.id = number_u16(argument(&part)?)?,
            "userdata" => to.userdata = hex_bytes(part.value)?,
            "reason" => {
                let word = argument(&part)?;
                let place = REASONS.iter().position(|reason| reason.eq_ignore_ascii_case(word));
                to.reason = match place {
                    Some(place) => place as u8,
                    None if number(word).is_ok() => number_u8(word)?,
                    None => {
                        let known = format!("reasons are {}", REASONS.join(", "));
                        return Err(Fault::new(word, "no reason has this name").mend(known));
                    }
                };
            }
            _ => {
                if let Some(foreign) = unsupported(&format!("controller with {}", part.key)) {
                    return Err(refused(part.whole, foreign));
                }
                return Err(Fault::new(part.whole, "`controller` knows nothing of this name")
                    .mend("it takes max_len, reason, id and userdata"));
            }
        }
    }
    Ok(Action::Controller(to))
}

fn group(pair: &Pair<'_>) -> Parsed<Action> {
    group_id(argument(pair)?).map(Action::Group)
}

/// The number of a group.
pub(super) fn group_id(text: &str) -> Parsed<GroupId> {
    let id = number_u32(text)?;
    if id > LAST_GROUP {
        return Err(
            Fault::new(text, "no group can have this number").mend(format!("groups are 0 to {LAST_GROUP}"))
        );
    }
    Ok(GroupId(id))
}

/// The number of a meter.
pub(super) fn meter(pair: &Pair<'_>) -> Parsed<MeterId> {
    let text = argument(pair)?;
    let id = number_u32(text)?;
    if id == 0 || id > LAST_METER {
        return Err(
            Fault::new(text, "no meter can have this number").mend(format!("meters are 1 to {LAST_METER}"))
        );
    }
    Ok(MeterId(id))
}

fn push_vlan(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let text = argument(pair)?;
    let tpid = number_u16(text)?;
    if !matches!(tpid, 0x8100 | 0x88a8) {
        return Err(Fault::new(text, "no VLAN tag begins like this").mend("write 0x8100 or 0x88a8"));
    }
    if !it.known.push_tag() {
        return Err(Fault::new(pair.whole, "the packet has two tags here, and can have no third"));
    }
    Ok(Action::PushVlan(tpid))
}

fn pop_vlan(it: &mut Reader<'_>) -> Parsed<Action> {
    it.known.pop_tag();
    Ok(Action::PopVlan)
}

fn push_mpls(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let text = argument(pair)?;
    let ether_type = number_u16(text)?;
    if !matches!(ether_type, 0x8847 | 0x8848) {
        return Err(Fault::new(text, "this is not MPLS").mend("write 0x8847, or 0x8848 for multicast"));
    }
    it.known.push_header(ether_type);
    Ok(Action::PushMpls(ether_type))
}

fn pop_mpls(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let ether_type = number_u16(argument(pair)?)?;
    it.known.pop_header(ether_type);
    Ok(Action::PopMpls(ether_type))
}

fn push_pbb(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let text = argument(pair)?;
    let ether_type = number_u16(text)?;
    if ether_type != super::matching::ether::PBB {
        return Err(Fault::new(text, "this is not PBB").mend("write 0x88e7"));
    }
    it.known.push_header(ether_type);
    Ok(Action::PushPbb(ether_type))
}

fn pop_pbb(it: &mut Reader<'_>) -> Parsed<Action> {
    it.known.pop_header(0);
    Ok(Action::PopPbb)
}

fn dec_ttl(pair: &Pair<'_>) -> Parsed<Action> {
    let words = pair.value.split([',', ' ']).filter(|word| !word.is_empty());
    let ids: Vec<u16> = words.map(number_u16).collect::<Parsed<_>>()?;
    if ids.is_empty() && !pair.value.is_empty() {
        return Err(Fault::new(pair.whole, "no controller is named").mend("write dec_ttl or dec_ttl(ID,ID)"));
    }
    Ok(Action::DecTtl(ids))
}

fn resubmit(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let (port, rest) = up_to_comma(pair.value);
    let (table, more) = up_to_comma(rest);
    let given = |text: &str| !text.is_empty();
    let port = given(port).then(|| value::known_port(port, it.names)).transpose()?;
    let table = given(table).then(|| value::table(table, it.names)).transpose()?.flatten();
    let tracked = more.eq_ignore_ascii_case("ct");
    if given(more) && !tracked {
        let what = format!("action `resubmit` with `{more}` is not supported");
        return Err(Fault::new(more, what));
    }
    let port = port.filter(|port| *port != PortNo::IN_PORT);
    if port.is_none() && table.is_none() {
        return Err(Fault::new(pair.whole, "this neither names a port nor a table")
            .mend("write resubmit(,TABLE), resubmit(PORT,TABLE) or resubmit:PORT"));
    }
    Ok(if tracked { Action::ResubmitTracked { port, table } } else { Action::Resubmit { port, table } })
}

fn softflow(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let (name, mut rest) = up_to_colon(argument(pair)?);
    let service = value::service(name, it.names)?;
    let mut arguments = Vec::new();
    while let Some(text) = rest {
        let (word, more) = up_to_colon(text);
        arguments.push(match value::unquoted(word) {
            Some(text) => Argument::Text(text.into()),
            None => Argument::Number(number_u32(word).map_err(|fault| {
                fault.mend("arguments of a service are numbers, and texts in quotes: softflow:NAME:7:\"web\"")
            })?),
        });
        rest = more;
    }
    Arguments::new(arguments)
        .map(|arguments| arguments.call(service))
        .map_err(|what| Fault::new(pair.whole, what))
}

/// `conjunction` stands beside other actions in this.
pub(super) fn mixed(text: &str) -> Fault {
    Fault::new(text, "`conjunction` can stand beside `note`, but beside no other action or instruction")
        .mend("give what is to be done to an entry that matches conj_id")
}

fn conjunction(pair: &Pair<'_>) -> Parsed<Action> {
    let wrong = |what| Fault::new(pair.whole, what).mend("write conjunction(ID,K/N)");
    let parts = pair.value.split_once(',').and_then(|(id, of)| Some((id, of.split_once('/')?)));
    let (id, (dimension, dimensions)) =
        parts.ok_or_else(|| wrong("`conjunction` needs a number, and which dimension it is of how many"))?;
    let id = number_u32(id.trim())?;
    let (dimension, dimensions) = (number_u8(dimension.trim())?, number_u8(dimensions.trim())?);
    Conjunction { id, dimension, dimensions }.check().map(Action::Conjunction).map_err(wrong)
}

fn clone(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let outside = it.known;
    let actions = it.list(pair.value)?;
    it.known = outside;
    Ok(Action::Clone(actions))
}

/// `value`, if it is one of a field of so many bits, else what is wrong.
pub(super) fn fits(text: &str, bits: u32) -> Parsed<u128> {
    number_of(text, bits).map(|value| value & ones(bits))
}

/// Whether text may set this field at all.
pub(super) fn writable(it: &Reader<'_>, field: Field, word: &str) -> Parsed<()> {
    if !field.about().writable {
        return Err(Fault::new(word, format!("`{}` cannot be written", field.name())));
    }
    let of_connection = matches!(field, Field::CtMark | Field::CtLabel);
    if it.tracked && !of_connection {
        let what = format!("`{}` is nothing of a connection", field.name());
        return Err(Fault::new(word, what).mend("within ct(exec(...)) set ct_mark or ct_label"));
    }
    if of_connection && !it.tracked {
        let what = format!("`{}` is only written where connections are tracked", field.name());
        return Err(Fault::new(word, what).mend("write ct(commit,exec(set_field:VALUE->FIELD))"));
    }
    Ok(())
}

/// Reads a number of 64 bits.
pub(super) fn argument_u64(pair: &Pair<'_>) -> Parsed<u64> {
    number_u64(argument(pair)?)
}
