//! Groups.

use super::{Encoded, duration, put_duration, some_port};
use crate::action::{Known, put_actions, read_actions};
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::{
    ALL_GROUPS, ANY_GROUP, BucketAt, Code, GroupCommand, GroupFeatures, GroupMod, GroupStats, Version,
};
use weir_openflow::{Bucket, Group, GroupId, GroupKind, PortNo};

/// The greatest number of a group.
const LAST_GROUP: GroupId = GroupId(0xffff_ff00);

/// Numbers that stand for buckets (OpenFlow 1.5).
const FIRST_BUCKET: u32 = 0xffff_fffd;
const LAST_BUCKET: u32 = 0xffff_fffe;
const ALL_BUCKETS: u32 = 0xffff_ffff;

/// Properties of a bucket (OpenFlow 1.5).
const WEIGHT: u16 = 0;
const WATCH_PORT: u16 = 1;
const WATCH_GROUP: u16 = 2;

/// Whether groups are written as OpenFlow 1.5 has them, as Nicira's extension to 1.0 does too.
const fn is_new(version: Version) -> bool {
    matches!(version, Version::V10 | Version::V15)
}

fn kind(number: u8) -> Decoded<GroupKind> {
    match number {
        0 => Ok(GroupKind::All),
        1 => Ok(GroupKind::Select),
        2 => Ok(GroupKind::Indirect),
        3 => Ok(GroupKind::FastFailover),
        _ => Err(Fault::new(Code::GroupType, "there is no such kind of group")),
    }
}

fn bucket_at(number: u32) -> BucketAt {
    match number {
        FIRST_BUCKET => BucketAt::First,
        LAST_BUCKET => BucketAt::Last,
        ALL_BUCKETS => BucketAt::All,
        number => BucketAt::Number(number),
    }
}

fn command(number: u16, at: BucketAt, version: Version) -> Decoded<GroupCommand> {
    match number {
        0 => Ok(GroupCommand::Add),
        1 => Ok(GroupCommand::Modify),
        2 => Ok(GroupCommand::Delete),
        3 if is_new(version) => Ok(GroupCommand::InsertBucket(at)),
        5 if is_new(version) => Ok(GroupCommand::RemoveBucket(at)),
        0x8000 => Ok(GroupCommand::AddOrModify),
        _ => Err(Fault::new(Code::GroupCommand, "there is no such command")),
    }
}

fn read_bucket(body: &mut Cursor<'_>, version: Version, next: u32) -> Decoded<Bucket> {
    let length = usize::from(body.u16()?);
    let inside = length.checked_sub(2).ok_or(body.fault("a bucket is shorter than its header"))?;
    let mut body = body.part(inside)?;
    if is_new(version) {
        return read_new_bucket(body, version);
    }
    let weight = body.u16()?;
    let (watch_port, watch_group) = (some_port(PortNo(body.u32()?)), some_group(body.u32()?));
    body.skip(4)?;
    let actions = read_actions(body, version, Known::default())?;
    Ok(Bucket { id: next, weight, watch_port, watch_group, actions })
}

fn some_group(number: u32) -> Option<GroupId> {
    Some(GroupId(number)).filter(|group| *group != ANY_GROUP)
}

fn read_new_bucket(mut body: Cursor<'_>, version: Version) -> Decoded<Bucket> {
    let (length, id) = (body.u16()?, body.u32()?);
    let actions = read_actions(body.part(length.into())?, version, Known::default())?;
    let mut out = Bucket { id, weight: 0, watch_port: None, watch_group: None, actions };
    let mut properties = body.with(Code::PropertyLength);
    while !properties.is_empty() {
        let (kind, mut value) = properties.property()?;
        match kind {
            WEIGHT => out.weight = value.u16()?,
            WATCH_PORT => out.watch_port = some_port(PortNo(value.u32()?)),
            WATCH_GROUP => out.watch_group = some_group(value.u32()?),
            _ => return Err(Fault::new(Code::PropertyType, "buckets have no such property")),
        }
    }
    Ok(out)
}

fn read_buckets(body: Cursor<'_>, version: Version) -> Decoded<Vec<Bucket>> {
    let mut body = body.with(Code::GroupBucket);
    let mut out: Vec<Bucket> = Vec::new();
    while !body.is_empty() {
        let bucket = read_bucket(&mut body, version, out.len() as u32)?;
        out.push(bucket);
    }
    Ok(out)
}

pub(crate) fn read_mod(mut body: Cursor<'_>, version: Version) -> Decoded<GroupMod> {
    let (number, group_kind) = (body.u16()?, body.u8()?);
    body.skip(1)?;
    let id = GroupId(body.u32()?);
    let mut at = BucketAt::All;
    let buckets = if is_new(version) {
        let length = usize::from(body.u16()?);
        body.skip(2)?;
        at = bucket_at(body.u32()?);
        let buckets = body.with(Code::GroupBucket).part(length)?;
        body.skip(length)?;
        if !body.is_empty() {
            return Err(Fault::new(Code::PropertyExperimenter, "groups have no such property"));
        }
        buckets
    } else {
        body
    };
    let command = command(number, at, version)?;
    let group = Group { id, kind: kind(group_kind)?, buckets: read_buckets(buckets, version)? };
    check(command, &group)?;
    Ok(GroupMod { command, group })
}

/// Checks what needs no knowledge of other groups (OpenFlow 1.3.5, sections 5.6.1 and 7.3.4.2).
fn check(command: GroupCommand, group: &Group) -> Decoded<()> {
    let wrong = |code, what| Err(Fault::new(code, what));
    if !matches!(command, GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify) {
        return if group.id > LAST_GROUP && group.id != ALL_GROUPS {
            wrong(Code::GroupInvalid, "no group can have this number")
        } else {
            Ok(())
        };
    }
    if group.id > LAST_GROUP {
        return wrong(Code::GroupInvalid, "no group can have this number");
    }
    let watches = |bucket: &Bucket| bucket.watch_port.is_some() || bucket.watch_group.is_some();
    match group.kind {
        GroupKind::Indirect if group.buckets.len() != 1 => {
            wrong(Code::GroupInvalid, "an indirect group has one bucket")
        }
        kind if kind != GroupKind::Select && group.buckets.iter().any(|bucket| bucket.weight != 0) => {
            wrong(Code::GroupInvalid, "only buckets of select groups have weights")
        }
        GroupKind::FastFailover if !group.buckets.iter().all(watches) => {
            wrong(Code::GroupInvalid, "a bucket of a fast-failover group watches nothing")
        }
        _ => Ok(()),
    }
}

fn put_bucket(out: &mut Vec<u8>, bucket: &Bucket, kind: GroupKind, version: Version) -> Encoded {
    let start = out.len();
    let (port, group) = (bucket.watch_port.unwrap_or(PortNo::ANY), bucket.watch_group.unwrap_or(ANY_GROUP));
    out.zeros(2);
    if !is_new(version) {
        out.u16(bucket.weight);
        out.u32(port.0);
        out.u32(group.0);
        out.zeros(4);
        put_actions(out, version, &bucket.actions, false)?;
        out.length(start, start);
        return Ok(());
    }
    out.zeros(2);
    out.u32(bucket.id);
    let actions = out.len();
    put_actions(out, version, &bucket.actions, false)?;
    out.length(start + 2, actions);
    let mut property = |kind, value: [u8; 4]| {
        let start = out.open(kind);
        out.extend_from_slice(&value);
        out.close(start);
    };
    if bucket.weight != 0 || kind == GroupKind::Select {
        let [high, low] = bucket.weight.to_be_bytes();
        property(WEIGHT, [high, low, 0, 0]);
    }
    if port != PortNo::ANY {
        property(WATCH_PORT, port.0.to_be_bytes());
    }
    if group != ANY_GROUP {
        property(WATCH_GROUP, group.0.to_be_bytes());
    }
    out.length(start, start);
    Ok(())
}

fn put_buckets(out: &mut Vec<u8>, group: &Group, version: Version) -> Encoded {
    group.buckets.iter().try_for_each(|bucket| put_bucket(out, bucket, group.kind, version))
}

pub(crate) fn put_mod(out: &mut Vec<u8>, change: &GroupMod, version: Version) -> Encoded {
    let (number, at) = match change.command {
        GroupCommand::Add => (0, BucketAt::All),
        GroupCommand::Modify => (1, BucketAt::All),
        GroupCommand::Delete => (2, BucketAt::All),
        GroupCommand::AddOrModify => (0x8000, BucketAt::All),
        GroupCommand::InsertBucket(_) | GroupCommand::RemoveBucket(_) if !is_new(version) => {
            return Err(crate::action::Unsayable("a change of single buckets"));
        }
        GroupCommand::InsertBucket(at) => (3, at),
        GroupCommand::RemoveBucket(at) => (5, at),
    };
    out.u16(number);
    out.u8(change.group.kind as u8);
    out.zeros(1);
    out.u32(change.group.id.0);
    if !is_new(version) {
        return put_buckets(out, &change.group, version);
    }
    let length = out.len();
    out.zeros(4);
    out.u32(match at {
        BucketAt::First => FIRST_BUCKET,
        BucketAt::Last => LAST_BUCKET,
        BucketAt::All => ALL_BUCKETS,
        BucketAt::Number(number) => number,
    });
    let start = out.len();
    put_buckets(out, &change.group, version)?;
    out.length(length, start);
    Ok(())
}

pub(crate) fn read_desc(body: &mut Cursor<'_>, version: Version) -> Decoded<Group> {
    let length = usize::from(body.u16()?);
    let inside = length.checked_sub(2).ok_or(body.fault("a group is shorter than its header"))?;
    let mut body = body.part(inside)?;
    let kind = kind(body.u8()?)?;
    body.skip(1)?;
    let id = GroupId(body.u32()?);
    if is_new(version) {
        let length = body.u16()?;
        body.skip(6)?;
        body = body.part(length.into())?;
    }
    Ok(Group { id, kind, buckets: read_buckets(body, version)? })
}

pub(crate) fn put_desc(out: &mut Vec<u8>, group: &Group, version: Version) -> Encoded {
    let start = out.len();
    out.zeros(2);
    out.u8(group.kind as u8);
    out.zeros(1);
    out.u32(group.id.0);
    if is_new(version) {
        let at = out.len();
        out.zeros(8);
        let buckets = out.len();
        put_buckets(out, group, version)?;
        out.length(at, buckets);
    } else {
        put_buckets(out, group, version)?;
    }
    out.length(start, start);
    Ok(())
}

pub(crate) fn read_stats(body: &mut Cursor<'_>) -> Decoded<GroupStats> {
    let length = usize::from(body.u16()?);
    let inside = length.checked_sub(2).ok_or(body.fault("counters are shorter than their header"))?;
    let mut body = body.part(inside)?;
    body.skip(2)?;
    let (group, references) = (GroupId(body.u32()?), body.u32()?);
    body.skip(4)?;
    let (packets, bytes) = (body.u64()?, body.u64()?);
    let duration = duration(&mut body)?;
    let buckets = counts(body)?;
    Ok(GroupStats { group, references, packets, bytes, duration, buckets })
}

pub(crate) fn put_stats(out: &mut Vec<u8>, stats: &GroupStats) {
    let start = out.len();
    out.zeros(4);
    out.u32(stats.group.0);
    out.u32(stats.references);
    out.zeros(4);
    out.u64(stats.packets);
    out.u64(stats.bytes);
    put_duration(out, stats.duration);
    put_counts(out, &stats.buckets);
    out.length(start, start);
}

/// Packets and bytes, to the end.
pub(super) fn counts(mut body: Cursor<'_>) -> Decoded<Vec<(u64, u64)>> {
    let mut out = Vec::with_capacity(body.len() / 16);
    while !body.is_empty() {
        out.push((body.u64()?, body.u64()?));
    }
    Ok(out)
}

pub(super) fn put_counts(out: &mut Vec<u8>, counts: &[(u64, u64)]) {
    for (packets, bytes) in counts {
        out.u64(*packets);
        out.u64(*bytes);
    }
}

pub(crate) fn read_features(mut body: Cursor<'_>) -> Decoded<GroupFeatures> {
    let mut out = GroupFeatures { kinds: body.u32()?, capabilities: body.u32()?, ..GroupFeatures::default() };
    for place in out.most.iter_mut().chain(&mut out.actions) {
        *place = body.u32()?;
    }
    Ok(out)
}

pub(crate) fn put_features(out: &mut Vec<u8>, features: &GroupFeatures) {
    out.u32(features.kinds);
    out.u32(features.capabilities);
    for number in features.most.iter().chain(&features.actions) {
        out.u32(*number);
    }
}
