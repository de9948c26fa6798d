//! Which buckets of groups are alive: worked out once a snapshot, on the control thread.
//!
//! A bucket is alive when the port that it watches is up, or the group that it watches has a bucket that is
//! (OpenFlow 1.3.5, section 5.6.1). Groups do not watch one another in a circle (`control/groups.rs`), so each has its
//! answer when those that it watches have theirs; each is asked once, however many watch it.
//!
//! Cost: as many steps as watching groups have buckets, when groups or ports change; a look into a map for each
//! group that a translation meets. Threads: a value in a snapshot.

use crate::model::entries::{Alive, GroupEntry, PortInfo, watched_port};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use weir_openflow::{Bucket, GroupId, GroupKind, PortNo};

/// The groups of a snapshot in which something is watched.
#[derive(Debug, Default)]
pub(crate) struct Living(HashMap<GroupId, (Arc<GroupEntry>, Arc<Alive>)>);

/// How far a group's answer is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Asked,
    Alive(bool),
}

/// What is asked, and what is known so far.
struct Question<'a> {
    groups: &'a BTreeMap<GroupId, Arc<GroupEntry>>,
    ports: &'a BTreeMap<PortNo, PortInfo>,
    known: HashMap<GroupId, Known>,
}

impl Living {
    /// Of these groups with these ports. What has not changed since `before` is kept, with its slots.
    pub(super) fn of(
        groups: &BTreeMap<GroupId, Arc<GroupEntry>>,
        ports: &BTreeMap<PortNo, PortInfo>,
        before: &Self,
    ) -> Self {
        let mut question = Question { groups, ports, known: HashMap::new() };
        let watching = groups.iter().filter(|(_, entry)| entry.watches_any());
        let of = |(&id, entry): (&GroupId, &Arc<GroupEntry>)| {
            let buckets = question.alive(entry);
            let old = before.0.get(&id);
            let same = old.filter(|(old, alive)| Arc::ptr_eq(old, entry) && alive.buckets == buckets);
            let alive = same.map(|(_, alive)| alive.clone());
            let alive = alive.unwrap_or_else(|| Arc::new(Alive { buckets, slots: OnceLock::new() }));
            (id, (entry.clone(), alive))
        };
        Self(watching.map(of).collect())
    }

    /// The buckets of a group that are alive.
    pub(crate) fn alive(&self, entry: &GroupEntry) -> Arc<Alive> {
        self.0.get(&entry.group.id).map_or_else(|| entry.unwatched.clone(), |(_, alive)| alive.clone())
    }
}

impl Question<'_> {
    /// The buckets of a group that are alive, by place.
    fn alive(&mut self, entry: &Arc<GroupEntry>) -> Vec<usize> {
        entry.watches.iter().for_each(|&watched| self.find_out(watched));
        let buckets = entry.group.buckets.iter().enumerate();
        buckets.filter(|(_, bucket)| self.is_alive(entry, bucket)).map(|(place, _)| place).collect()
    }

    /// Finds out whether a group is alive, after those that it watches; without recursion, which a long chain of
    /// groups would have end the thread.
    fn find_out(&mut self, id: GroupId) {
        let mut waiting = vec![id];
        while let Some(&id) = waiting.last() {
            let first = !self.known.contains_key(&id);
            let Some(entry) = self.groups.get(&id) else {
                self.known.insert(id, Known::Alive(false));
                waiting.pop();
                continue;
            };
            if first {
                self.known.insert(id, Known::Asked);
                let unknown = entry.watches.iter().filter(|watched| !self.known.contains_key(watched));
                waiting.extend(unknown);
                continue;
            }
            if self.known.get(&id) == Some(&Known::Asked) {
                let alive = entry.group.buckets.iter().any(|bucket| self.is_alive(entry, bucket));
                self.known.insert(id, Known::Alive(alive));
            }
            waiting.pop();
        }
    }

    /// Whether a bucket takes part; what it watches is known.
    fn is_alive(&self, entry: &GroupEntry, bucket: &Bucket) -> bool {
        let port = watched_port(bucket);
        if port.is_none() && bucket.watch_group.is_none() {
            return entry.group.kind != GroupKind::FastFailover;
        }
        let port_up = port.is_some_and(|port| self.ports.get(&port).is_some_and(PortInfo::sends));
        let group_up = |watched| self.known.get(&watched) == Some(&Known::Alive(true));
        port_up || bucket.watch_group.is_some_and(group_up)
    }
}
