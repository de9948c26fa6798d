//! Groups, from text and as text, as `ovs-ofctl add-group` takes them:
//! `group_id=1,type=select,bucket=weight:100,actions=output:1`.

use super::action::{Reader, argument, group_id};
use super::error::{Fault, Parsed, TextError};
use super::packet::Known;
use super::scan::{Pair, Pairs, number_u16, number_u32};
use super::show_action;
use super::value;
use crate::{Bucket, Group, GroupId, GroupKind, Names, PortNo};
use std::fmt::Write;

/// Kinds by word; the first of a kind is printed.
const KINDS: &[(&str, GroupKind)] = &[
    ("all", GroupKind::All),
    ("select", GroupKind::Select),
    ("indirect", GroupKind::Indirect),
    ("ff", GroupKind::FastFailover),
    ("fast_failover", GroupKind::FastFailover),
];

/// What stands before a bucket.
const BUCKET: &str = "bucket=";
/// The greatest number of a bucket (OpenFlow 1.5.1, section 7.3.4.3).
const LAST_BUCKET: u32 = 0xffff_ff00;

impl Group {
    /// Reads a group. Buckets without a number get the smallest that are free, in order.
    ///
    /// # Errors
    ///
    /// The first word that is wrong.
    pub fn parse(text: &str, names: &Names) -> Result<Self, TextError> {
        read(text, names).map_err(|fault| fault.within(text, None))
    }

    /// The group as [`Group::parse`], and `ovs-ofctl add-group`, read it.
    pub fn text(&self, names: &Names) -> String {
        let kind = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(word, _)| word);
        let mut out = format!("group_id={},type={kind}", self.id);
        for bucket in &self.buckets {
            let _ = write!(out, ",{BUCKET}bucket_id:{},", bucket.id);
            if bucket.weight != default_weight(self.kind) {
                let _ = write!(out, "weight:{},", bucket.weight);
            }
            if let Some(port) = bucket.watch_port {
                out.push_str("watch_port:");
                value::show_port(&mut out, port, names);
                out.push(',');
            }
            if let Some(group) = bucket.watch_group {
                let _ = write!(out, "watch_group:{group},");
            }
            out.push_str("actions=");
            out.push_str(&show_action::actions(&bucket.actions, names, Known::nothing()));
        }
        out
    }
}

const fn default_weight(kind: GroupKind) -> u16 {
    matches!(kind, GroupKind::Select) as u16
}

fn read(text: &str, names: &Names) -> Parsed<Group> {
    let (head, rest) = match text.find(BUCKET) {
        Some(at) => (&text[..at], Some(&text[at + BUCKET.len()..])),
        None => (text, None),
    };
    let (mut id, mut kind) = (None, None);
    for pair in Pairs::of(head) {
        match pair.key {
            "group_id" => id = Some(group_id(argument(&pair)?)?),
            "type" => kind = Some(read_kind(argument(&pair)?)?),
            "selection_method" | "selection_method_param" | "fields" => {
                let what = format!("group property `{}` is not supported", pair.key);
                return Err(
                    Fault::new(pair.whole, what).mend("select groups go by the flow's hash and the weights")
                );
            }
            _ => return Err(unknown(&pair)),
        }
    }
    let missing =
        |what: &str, advice: &str| Fault::new(text, format!("the group has no {what}")).mend(advice);
    let id = id.ok_or_else(|| missing("number", "write group_id=NUMBER"))?;
    let kind = kind.ok_or_else(|| missing("type", "write type=all, select, indirect or ff"))?;
    let buckets = rest.map_or(Ok(Vec::new()), |rest| read_buckets(rest, kind, names))?;
    if kind == GroupKind::Indirect && buckets.len() > 1 {
        return Err(Fault::new(text, "an indirect group has one bucket").mend("write type=all or select"));
    }
    Ok(Group { id, kind, buckets })
}

fn read_kind(text: &str) -> Parsed<GroupKind> {
    let found = KINDS.iter().find(|(word, _)| *word == text);
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        Fault::new(text, "no kind of group has this name")
            .mend("kinds are all, select, indirect and ff")
            .meant(text, KINDS.iter().map(|(word, _)| *word))
    })
}

fn unknown(pair: &Pair<'_>) -> Fault {
    Fault::new(pair.whole, "a group knows nothing of this name")
        .meant(pair.key, ["group_id", "type", "bucket"])
}

fn read_buckets(text: &str, kind: GroupKind, names: &Names) -> Parsed<Vec<Bucket>> {
    let mut numbered = Vec::new();
    for text in text.split(BUCKET) {
        numbered.push(read_bucket(text, kind, names)?);
    }
    let taken: Vec<u32> = numbered.iter().filter_map(|(id, _)| *id).collect();
    if let Some(id) = taken.iter().enumerate().find_map(|(at, id)| taken[..at].contains(id).then_some(id)) {
        return Err(
            Fault::new(text, format!("two buckets have the number {id}")).mend("number each differently")
        );
    }
    let mut free = (0..).filter(|id| !taken.contains(id));
    let numbered = numbered
        .into_iter()
        .map(|(id, bucket)| Bucket { id: id.or_else(|| free.next()).unwrap_or(0), ..bucket });
    Ok(numbered.collect())
}

fn read_bucket(text: &str, kind: GroupKind, names: &Names) -> Parsed<(Option<u32>, Bucket)> {
    let (mut id, mut acts, mut drop) = (None, false, None);
    let mut bucket = Bucket {
        id: 0,
        weight: default_weight(kind),
        watch_port: None,
        watch_group: None,
        actions: Vec::new(),
    };
    let mut reader = Reader::new(names, Known::nothing());
    for pair in Pairs::of(text) {
        match pair.key.to_ascii_lowercase().as_str() {
            "bucket_id" => id = Some(bucket_id(argument(&pair)?)?),
            "weight" => {
                bucket.weight = number_u16(argument(&pair)?)?;
                if kind != GroupKind::Select && bucket.weight != 0 {
                    return Err(
                        Fault::new(pair.whole, "only select groups have weights").mend("leave it out")
                    );
                }
            }
            "watch_port" => bucket.watch_port = watched(argument(&pair)?, names)?,
            "watch_group" => bucket.watch_group = watched_group(argument(&pair)?)?,
            "action" | "actions" => {
                acts = true;
                for action in Pairs::of(pair.value) {
                    add(&mut bucket, &action, &mut drop, &mut reader)?;
                }
            }
            _ => {
                acts = true;
                add(&mut bucket, &pair, &mut drop, &mut reader)?;
            }
        }
    }
    if let Some(word) = drop.filter(|_| !bucket.actions.is_empty()) {
        return Err(Fault::new(word, "`drop` must stand alone").mend("leave it or the other actions out"));
    }
    if !acts {
        return Err(
            Fault::new(text, "the bucket has no actions").mend("end it with actions=…, or actions=drop")
        );
    }
    if kind == GroupKind::FastFailover && bucket.watch_port.is_none() && bucket.watch_group.is_none() {
        return Err(Fault::new(text, "nothing says whether this bucket is alive")
            .mend("add watch_port:PORT or watch_group:GROUP"));
    }
    Ok((id, bucket))
}

fn add<'a>(
    bucket: &mut Bucket,
    pair: &Pair<'a>,
    drop: &mut Option<&'a str>,
    reader: &mut Reader<'_>,
) -> Parsed<()> {
    if pair.key.eq_ignore_ascii_case("drop") {
        *drop = Some(pair.whole);
    } else {
        bucket.actions.push(reader.one(pair)?);
    }
    Ok(())
}

fn bucket_id(text: &str) -> Parsed<u32> {
    let id = number_u32(text)?;
    if id > LAST_BUCKET {
        return Err(Fault::new(text, "no bucket can have this number")
            .mend(format!("buckets are 0 to {LAST_BUCKET}")));
    }
    Ok(id)
}

fn watched(text: &str, names: &Names) -> Parsed<Option<PortNo>> {
    let port = value::known_port(text, names)?;
    match port {
        PortNo::ANY => Ok(None),
        PortNo::CONTROLLER => Ok(Some(port)),
        port if port >= PortNo::MAX => {
            Err(Fault::new(text, "the link of this port cannot be watched").mend("name a real port"))
        }
        port => Ok(Some(port)),
    }
}

fn watched_group(text: &str) -> Parsed<Option<GroupId>> {
    group_id(text).map(Some)
}
