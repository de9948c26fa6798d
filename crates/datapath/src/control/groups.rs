//! Changes of groups and meters, on a draft of the tables: see [`crate::control::tables`].

use crate::control::tables::{Draft, check_actions, groups_of, meters_of, refuse_as};
use crate::model::counts::Counts;
use crate::model::entries::Alive;
use crate::model::entries::{GroupEntry, MOST_BUCKETS, MOST_CHAINED, MeterEntry, Touched};
use crate::model::meter::MeterState;
use crate::model::requests::{BucketPlace, Refusal, Refused, Removal};
use crate::slowpath::translate::ActionSet;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use weir_openflow::{Action, Bucket, Group, GroupId, GroupKind, MOST_GROUPS, MOST_METERS, Meter, MeterId};

impl Draft {
    pub(super) fn add_group(&mut self, group: &Group) -> Result<(), Refused> {
        if self.pipeline.groups.contains_key(&group.id) {
            let text = format!("group {} is there already; a modification changes it", group.id);
            return refuse_as(Refusal::GroupExists, text);
        }
        self.set_group(group)
    }

    pub(super) fn modify_group(&mut self, group: &Group) -> Result<(), Refused> {
        self.group(group.id)?;
        self.set_group(group)
    }

    fn group(&self, id: GroupId) -> Result<Arc<GroupEntry>, Refused> {
        let unknown = || Refused { why: Refusal::GroupUnknown, text: format!("there is no group {id}") };
        self.pipeline.groups.get(&id).cloned().ok_or_else(unknown)
    }

    pub(super) fn insert_buckets(
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

    pub(super) fn remove_buckets(&mut self, id: GroupId, place: BucketPlace) -> Result<(), Refused> {
        let mut group = self.group(id)?.group.clone();
        match place {
            BucketPlace::First => drop(group.buckets.drain(..group.buckets.len().min(1))),
            BucketPlace::Last => drop(group.buckets.pop()),
            BucketPlace::All => group.buckets.clear(),
            BucketPlace::Number(number) => drop(group.buckets.remove(bucket_at(&group, number)?)),
        }
        self.set_group(&group)
    }

    pub(super) fn set_group(&mut self, group: &Group) -> Result<(), Refused> {
        let old = self.pipeline.groups.get(&group.id);
        if old.is_none() && self.pipeline.groups.len() >= MOST_GROUPS {
            let text = format!("group {}: the switch has {MOST_GROUPS} groups, and takes no more", group.id);
            return refuse_as(Refusal::GroupsExhausted, text);
        }
        self.check_group(group)?;
        let goes = old.map_or(0, |old| memory_of(&old.group));
        self.check_memory(memory_of(group), goes).map_err(|text| Refused {
            why: Refusal::BucketsExhausted,
            text: format!("group {}: {text}", group.id),
        })?;
        let counts = old.map(|old| old.counts.clone()).unwrap_or_default();
        let of = |bucket: &Bucket| {
            let place = old.and_then(|old| old.group.buckets.iter().position(|other| other.id == bucket.id));
            place.and_then(|place| old.map(|old| old.buckets[place].clone())).unwrap_or_default()
        };
        let buckets = group.buckets.iter().map(of).collect();
        let actions = group.buckets.iter().map(|bucket| ActionSet::of(&bucket.actions).actions()).collect();
        let created = old.map_or_else(|| self.born.get(), |old| old.created);
        let (leads, watches) = (leads_of(group), watches_of(group));
        let unwatched = Arc::new(Alive::unwatched(group));
        let group = group.clone();
        let entry = GroupEntry { group, created, actions, counts, buckets, leads, watches, unwatched };
        self.pipeline.actions = self.pipeline.actions - goes + memory_of(&entry.group);
        Arc::make_mut(&mut self.pipeline.groups).insert(entry.group.id, Arc::new(entry));
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
        if group.buckets.len() > MOST_BUCKETS {
            let (id, has) = (group.id, group.buckets.len());
            let text = format!("group {id}: {has} buckets; a group has {MOST_BUCKETS} at most");
            return refuse_as(Refusal::BucketsExhausted, text);
        }
        self.check_circle(group.id, &leads_of(group), |entry| &entry.leads, "sends packets to itself")?;
        self.check_circle(group.id, &watches_of(group), |entry| &entry.watches, "watches itself")?;
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

    /// Groups may lead to one another, or watch one another, but not in a circle. Each group is looked at once,
    /// however many ways lead there.
    fn check_circle(
        &self,
        id: GroupId,
        first: &[GroupId],
        next: impl Fn(&GroupEntry) -> &[GroupId],
        does: &str,
    ) -> Result<(), Refused> {
        let mut seen: HashSet<GroupId> = first.iter().copied().collect();
        let mut waiting: Vec<(GroupId, GroupId)> = first.iter().map(|&to| (id, to)).collect();
        while let Some((from, to)) = waiting.pop() {
            if to == id {
                let through = if from == id { String::new() } else { format!(", through group {from}") };
                return refuse_as(Refusal::GroupLoop, format!("group {id} {does}{through}"));
            }
            if seen.len() > MOST_CHAINED {
                let text = format!("group {id}: it leads to more than {MOST_CHAINED} groups, through others");
                return refuse_as(Refusal::GroupsChained, text);
            }
            if let Some(entry) = self.pipeline.groups.get(&to) {
                let new = next(entry).iter().filter(|further| seen.insert(**further));
                waiting.extend(new.map(|&further| (to, further)));
            }
        }
        Ok(())
    }

    pub(super) fn delete_group(&mut self, id: Option<GroupId>) {
        let gone = without(&mut self.pipeline.groups, id);
        if !gone.is_empty() {
            self.pipeline.actions -= gone.values().map(|entry| memory_of(&entry.group)).sum::<usize>();
            // Flows are looked through once, however many groups go.
            self.remove_where(Removal::Group, |flow| groups_of(flow).iter().any(|id| gone.contains_key(id)));
            self.touched.push(Touched::All);
        }
    }

    pub(super) fn add_meter(&mut self, meter: &Meter) -> Result<(), Refused> {
        if self.pipeline.meters.contains_key(&meter.id) {
            let text = format!("meter {} is there already; a modification changes it", meter.id);
            return refuse_as(Refusal::MeterExists, text);
        }
        self.set_meter(meter)
    }

    pub(super) fn modify_meter(&mut self, meter: &Meter) -> Result<(), Refused> {
        if !self.pipeline.meters.contains_key(&meter.id) {
            return refuse_as(Refusal::MeterUnknown, format!("there is no meter {}", meter.id));
        }
        self.set_meter(meter)
    }

    pub(super) fn set_meter(&mut self, meter: &Meter) -> Result<(), Refused> {
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

    pub(super) fn delete_meter(&mut self, id: Option<MeterId>) {
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

/// Bytes that a group's buckets take: as they were told, as they are done, and their counters.
fn memory_of(group: &Group) -> usize {
    let each = size_of::<Bucket>() + size_of::<Counts>() + size_of::<Vec<Action>>();
    let of = |bucket: &Bucket| each + 2 * Action::memory(&bucket.actions);
    group.buckets.iter().map(of).sum()
}

/// The groups that a group's buckets send to, each once.
fn leads_of(group: &Group) -> Vec<GroupId> {
    let actions = group.buckets.iter().flat_map(|bucket| &bucket.actions);
    let leads = actions.filter_map(|action| match action {
        Action::Group(id) => Some(*id),
        _ => None,
    });
    leads.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The groups that a group's buckets watch, each once.
fn watches_of(group: &Group) -> Vec<GroupId> {
    let watches = group.buckets.iter().filter_map(|bucket| bucket.watch_group);
    watches.collect::<BTreeSet<_>>().into_iter().collect()
}

fn bucket_at(group: &Group, number: u32) -> Result<usize, Refused> {
    let text = || format!("group {} has no bucket {number}", group.id);
    let found = group.buckets.iter().position(|bucket| bucket.id == number);
    found.ok_or_else(|| Refused { why: Refusal::BucketUnknown, text: text() })
}
