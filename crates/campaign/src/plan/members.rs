//! What stands between the tester's ports: `nf`, or the functions of a `chain`, each on the plan's device or on one of its own.

use super::PointSpec;
use super::check::{Checker, Placed, Span};
use super::text::List;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor, value};
use std::borrow::Cow;
use std::fmt;
use toml::Spanned;
use weir_dut::BETWEEN;
use weir_trial::{Chain, Nf};

/// A function of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    nf: String,
    /// Its device; the plan's where nothing is said.
    dut: Option<String>,
}

/// A function with its device, as a table.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Function with a device of its own")]
struct MemberTable {
    /// The function: l2fwd, l3fwd:N, firewall:N and others, but for nat.
    #[schemars(with = "Nf")]
    nf: String,
    /// The device that it runs on, in place of the plan's `dut`.
    dut: Option<String>,
}

struct MemberVisitor;

impl<'de> Visitor<'de> for MemberVisitor {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function, or { nf = \"l2fwd\", dut = \"testpmd\" }")
    }

    fn visit_str<E: Error>(self, nf: &str) -> Result<Member, E> {
        Ok(Member { nf: nf.to_owned(), dut: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Member, A::Error> {
        let MemberTable { nf, dut } = MemberTable::deserialize(value::MapAccessDeserializer::new(table))?;
        Ok(Member { nf, dut })
    }
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemberVisitor)
    }
}

impl JsonSchema for Member {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Member".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (nf, table) = (generator.subschema_for::<Nf>(), generator.subschema_for::<MemberTable>());
        json_schema!({ "anyOf": [nf, table] })
    }
}

/// The devices of a function's parts, as one name: those of their own, and for all others the plan's.
pub(super) fn placed(nf: Nf, own: &[Option<String>], dut: &str) -> String {
    if own.iter().all(Option::is_none) {
        return dut.to_owned();
    }
    let mut devices: Vec<&str> = (0..nf.members().len())
        .map(|place| own.get(place).and_then(Option::as_deref).unwrap_or(dut))
        .collect();
    if devices.iter().all(|device| *device == devices[0]) {
        devices.truncate(1);
    }
    devices.join(&BETWEEN.to_string())
}

impl Checker<'_> {
    /// What a plan says its functions are: `nf`, or `chain`; and the device of each that has one of its own.
    pub(super) fn either(
        &mut self,
        nf: Option<Spanned<List<String>>>,
        chain: Option<Spanned<Vec<Spanned<Member>>>>,
        lengths: Option<Spanned<List<u32>>>,
    ) -> (Span, Vec<Nf>, Vec<Option<String>>) {
        match (nf, chain) {
            (Some(nf), Some(chain)) => {
                let why = "`nf` and `chain` both say what stands between the ports; write one of them";
                self.refuse(&chain.span(), why);
                (nf.span(), Vec::new(), Vec::new())
            }
            (Some(nf), None) => {
                if let Some(lengths) = lengths {
                    self.refuse(
                        &lengths.span(),
                        "`length` cuts a `chain`, and there is none; write one, or leave it out",
                    );
                }
                let span = nf.span();
                let axis = self.axis("nf", nf);
                (span, self.functions("nf", axis), Vec::new())
            }
            (None, Some(chain)) => {
                let nfs = self.chain(&chain, lengths);
                (chain.span(), nfs, self.devices_of(chain.into_inner()))
            }
            (None, None) => {
                self.refuse(
                    &(0..0),
                    "the plan names no network function; add `nf = \"l2fwd\"`, or a `chain`",
                );
                (0..0, Vec::new(), Vec::new())
            }
        }
    }

    /// The functions of a chain, cut to each length.
    fn chain(
        &mut self,
        chain: &Spanned<Vec<Spanned<Member>>>,
        lengths: Option<Spanned<List<u32>>>,
    ) -> Vec<Nf> {
        let span = chain.span();
        let before = self.found.len();
        let members = chain.as_ref().iter().map(|one| (one.span(), one.as_ref().nf.clone())).collect();
        let members = self.functions("chain", members);
        if chain.as_ref().is_empty() {
            self.refuse(&span, "`chain` is an empty list; give it at least one function");
        }
        if self.found.len() > before {
            return Vec::new();
        }
        let all: Vec<Placed<u32>> = match lengths {
            Some(list) => self.axis("length", list),
            None => vec![(span.clone(), members.len() as u32)],
        };
        let mut chains = Vec::new();
        for (place, length) in all {
            match members.get(..length as usize).filter(|cut| !cut.is_empty()).map(Chain::of) {
                Some(Ok(nf)) => chains.push(nf),
                Some(Err(error)) => self.refuse(&span, format!("`chain`: {error}")),
                None => self.refuse(
                    &place,
                    format!("`length`: {length} is not possible; the chain has {} functions", members.len()),
                ),
            }
        }
        chains
    }

    /// The device of each function that has one of its own.
    fn devices_of(&mut self, chain: Vec<Spanned<Member>>) -> Vec<Option<String>> {
        let mut devices = Vec::new();
        for member in chain {
            let span = member.span();
            let dut = member.into_inner().dut;
            if let Some(dut) = &dut {
                match dut.contains(BETWEEN) {
                    true => self.refuse(
                        &span,
                        format!("`chain`: {dut} are several devices, and a function runs on one"),
                    ),
                    false => drop(self.one_device("chain", &span, dut)),
                }
            }
            devices.push(dut);
        }
        devices
    }

    /// Whether devices of functions and those of the plan go together.
    pub(super) fn own_devices(&mut self, span: Option<&Span>, duts: &[String], own: &[Option<String>]) {
        let Some(span) = span.filter(|_| own.iter().any(Option::is_some) && self.whole) else { return };
        if own.iter().all(Option::is_some) {
            let why = "each function of the `chain` has a device of its own, so that `dut` is nobody's; leave it out";
            self.refuse(span, why);
        } else if let Some(dut) = duts.iter().find(|dut| dut.contains(BETWEEN)) {
            let why =
                "names a device for each function, and so does the `chain` for some; write them in one place";
            self.refuse(span, format!("`dut`: {dut} {why}"));
        }
    }
}

impl PointSpec {
    /// Why its functions cannot all be in one device: they have several; nothing where they have one.
    pub(crate) fn many_devices(&self) -> Option<String> {
        (weir_dut::devices(&self.dut).len() > 1).then(|| {
            format!("{} are devices of a chain's functions; add a `deployment`, such as vhost", self.dut)
        })
    }

    /// Every dataplane that it starts: those of its functions, and what carries packets between them.
    pub(crate) fn programs(&self) -> Vec<&str> {
        match &self.placement.graph {
            Some(graph) => graph.devices.iter().map(|device| device.dut.as_str()).collect(),
            None => weir_dut::devices(&self.dut).into_iter().chain(self.placement.host.as_deref()).collect(),
        }
    }
}
