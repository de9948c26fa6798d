//! Changes of groups and meters, on a draft of the tables: see [`crate::tables`].

use crate::control::{BucketPlace, Refusal, Refused, Removal};
use crate::meter::MeterState;
use crate::pipeline::{GroupEntry, MeterEntry, Touched};
use crate::tables::{Draft, check_actions, groups_of, meters_of, refuse_as};
use crate::translate::ActionSet;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use weir_openflow::{Action, Bucket, Group, GroupId, GroupKind, Meter, MeterId};

/// Groups, at most.
pub const MOST_GROUPS: usize = 1 << 16;

/// Meters, at most.
pub const MOST_METERS: usize = 1 << 16;

/// Groups that may lead to one another in a row.
const DEEPEST: usize = 32;

impl Draft {
    pub(crate) fn add_group(&mut self, group: &Group) -> Result<(), Refused> {
        if self.pipeline.groups.contains_key(&group.id) {
            let text = format!("group {} is there already; a modification changes it", group.id);
            return refuse_as(Refusal::GroupExists, text);
        }
        self.set_group(group)
    }

    pub(crate) fn modify_group(&mut self, group: &Group) -> Result<(), Refused> {
        self.group(group.id)?;
        self.set_group(group)
    }

    fn group(&self, id: GroupId) -> Result<Arc<GroupEntry>, Refused> {
        let unknown = || Refused { why: Refusal::GroupUnknown, text: format!("there is no group {id}") };
        self.pipeline.groups.get(&id).cloned().ok_or_else(unknown)
    }

    pub(crate) fn insert_buckets(
        &mut self,
        id: GroupId,
        place: BucketPlace,
        buckets: &[Bucket],
    ) -> Result<(), Refused> {
        let mut group = self.group(id)?.group.clone();
        let has = |number: u32| group.buckets.iter().any(|bucket| bucket.id == number);
        if let Some(twice) = buckets.iter().find(|bucket| has(bucket.id)) {
            let text = format!("group {id} has a bucket {} already", twice.id);
            return refuse_as(Refusal::BucketExists, text);
        }
        let at = match place {
            BucketPlace::First => 0,
            BucketPlace::Last | BucketPlace::All => group.buckets.len(),
            BucketPlace::Number(number) => bucket_at(&group, number)? + 1,
        };
        group.buckets.splice(at..at, buckets.iter().cloned());
        self.set_group(&group)
    }

    pub(crate) fn remove_buckets(&mut self, id: GroupId, place: BucketPlace) -> Result<(), Refused> {
        let mut group = self.group(id)?.group.clone();
        match place {
            BucketPlace::First => drop(group.buckets.drain(..group.buckets.len().min(1))),
            BucketPlace::Last => drop(group.buckets.pop()),
            BucketPlace::All => group.buckets.clear(),
            BucketPlace::Number(number) => drop(group.buckets.remove(bucket_at(&group, number)?)),
        }
        self.set_group(&group)
    }

    pub(crate) fn set_group(&mut self, group: &Group) -> Result<(), Refused> {
        let old = self.pipeline.groups.get(&group.id);
        if old.is_none() && self.pipeline.groups.len() >= MOST_GROUPS {
            let text = format!("group {}: the switch has {MOST_GROUPS} groups, and takes no more", group.id);
            return refuse_as(Refusal::GroupsExhausted, text);
        }
        self.check_group(group)?;
        let counts = old.map(|old| old.counts.clone()).unwrap_or_default();
        let of = |bucket: &Bucket| {
            let place = old.and_then(|old| old.group.buckets.iter().position(|other| other.id == bucket.id));
            place.and_then(|place| old.map(|old| old.buckets[place].clone())).unwrap_or_default()
        };
        let buckets = group.buckets.iter().map(of).collect();
        let actions = group.buckets.iter().map(|bucket| ActionSet::of(&bucket.actions).actions()).collect();
        let created = old.map_or_else(|| self.born.get(), |old| old.created);
        let slots = OnceLock::new();
        let entry = GroupEntry { group: group.clone(), created, actions, counts, buckets, slots };
        Arc::make_mut(&mut self.pipeline.groups).insert(group.id, Arc::new(entry));
        self.touched.push(Touched::All);
        Ok(())
    }

    /// Whether a group can be done at all.
    fn check_group(&self, group: &Group) -> Result<(), Refused> {
        if group.kind == GroupKind::Indirect && group.buckets.len() != 1 {
            return refuse_as(
                Refusal::GroupInvalid,
                format!("group {}: an indirect group has one bucket, not {}", group.id, group.buckets.len()),
            );
        }
        self.check_loops(group)?;
        for (at, bucket) in group.buckets.iter().enumerate() {
            if group.buckets[..at].iter().any(|other| other.id == bucket.id) {
                let text = format!("group {}: bucket {} is there twice", group.id, bucket.id);
                return refuse_as(Refusal::BucketExists, text);
            }
            check_actions(&self.pipeline, &bucket.actions, true).map_err(|refused| Refused {
                text: format!("group {}, bucket {}: {}", group.id, bucket.id, refused.text),
                ..refused
            })?;
        }
        Ok(())
    }

    /// Groups may refer to one another, but not in a circle.
    fn check_loops(&self, group: &Group) -> Result<(), Refused> {
        let mut waiting: Vec<(GroupId, usize)> = groups_in(group).map(|id| (id, 1)).collect();
        while let Some((id, depth)) = waiting.pop() {
            if id == group.id || depth > DEEPEST {
                let text = format!("group {} refers to itself, through group {id}", group.id);
                return refuse_as(Refusal::GroupLoop, text);
            }
            if let Some(entry) = self.pipeline.groups.get(&id) {
                waiting.extend(groups_in(&entry.group).map(|next| (next, depth + 1)));
            }
        }
        Ok(())
    }

    pub(crate) fn delete_group(&mut self, id: Option<GroupId>) {
        let gone = without(&mut self.pipeline.groups, id);
        if !gone.is_empty() {
            // Flows are looked through once, however many groups go.
            self.remove_where(Removal::Group, |flow| groups_of(flow).iter().any(|id| gone.contains_key(id)));
            self.touched.push(Touched::All);
        }
    }

    pub(crate) fn add_meter(&mut self, meter: &Meter) -> Result<(), Refused> {
        if self.pipeline.meters.contains_key(&meter.id) {
            let text = format!("meter {} is there already; a modification changes it", meter.id);
            return refuse_as(Refusal::MeterExists, text);
        }
        self.set_meter(meter)
    }

    pub(crate) fn modify_meter(&mut self, meter: &Meter) -> Result<(), Refused> {
        if !self.pipeline.meters.contains_key(&meter.id) {
            return refuse_as(Refusal::MeterUnknown, format!("there is no meter {}", meter.id));
        }
        self.set_meter(meter)
    }

    pub(crate) fn set_meter(&mut self, meter: &Meter) -> Result<(), Refused> {
        let new = !self.pipeline.meters.contains_key(&meter.id);
        if new && self.pipeline.meters.len() >= MOST_METERS {
            let text = format!("meter {}: the switch has {MOST_METERS} meters, and takes no more", meter.id);
            return refuse_as(Refusal::MetersExhausted, text);
        }
        if meter.bands.is_empty() {
            let text = format!("meter {}: it has no band, so it would do nothing", meter.id);
            return refuse_as(Refusal::MeterInvalid, text);
        }
        let state = MeterState::new(meter);
        let entry = MeterEntry { meter: meter.clone(), created: self.born.get(), state };
        Arc::make_mut(&mut self.pipeline.meters).insert(meter.id, Arc::new(entry));
        self.touched.push(Touched::All);
        Ok(())
    }

    pub(crate) fn delete_meter(&mut self, id: Option<MeterId>) {
        let gone = without(&mut self.pipeline.meters, id);
        if !gone.is_empty() {
            self.remove_where(Removal::Meter, |flow| meters_of(flow).iter().any(|id| gone.contains_key(id)));
            self.touched.push(Touched::All);
        }
    }
}

/// Takes one out of a map, or all; hands back what went.
fn without<K: Ord + Copy, V: Clone>(of: &mut Arc<BTreeMap<K, V>>, id: Option<K>) -> BTreeMap<K, V> {
    match id {
        None => Arc::unwrap_or_clone(std::mem::take(of)),
        Some(id) if of.contains_key(&id) => Arc::make_mut(of).remove_entry(&id).into_iter().collect(),
        Some(_) => BTreeMap::new(),
    }
}

/// The groups that a group's buckets lead to.
fn groups_in(group: &Group) -> impl Iterator<Item = GroupId> {
    group.buckets.iter().flat_map(|bucket| &bucket.actions).filter_map(|action| match action {
        Action::Group(id) => Some(*id),
        _ => None,
    })
}

fn bucket_at(group: &Group, number: u32) -> Result<usize, Refused> {
    let text = || format!("group {} has no bucket {number}", group.id);
    let found = group.buckets.iter().position(|bucket| bucket.id == number);
    found.ok_or_else(|| Refused { why: Refusal::BucketUnknown, text: text() })
}
