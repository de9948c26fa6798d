//! The table walk: packets that no megaflow answers for, classified by the tables themselves.
//!
//! What: a graph of the ways that packets take through the tables. A node is a lookup that is due, with all that was
//! done before it; an edge leads from it, by the entry that the lookup finds, to the next node, or to the operations at
//! the end. So a packet costs a table lookup and an edge for each table and makes nothing: no mask, no translation, no
//! megaflow. Its cost has a bound that depends on the tables alone and not on what other packets there are, which no
//! cache can state.
//!
//! How: a missing edge is added by a translation that notes the lookups that are due on its way ([`DueLookup`]). Lookups
//! at which the same is left to do share a node, so that a pipeline of 500 + 500 + 500 entries has 1,500 edges and not
//! 500 × 500 × 500. That holds where all that a translation asks of a packet between two lookups is in its [`context`];
//! where it asks more (it moves bits, pushes a header, lowers a TTL before a lookup), the edge says so, and such packets
//! take a megaflow.
//!
//! Counters are of edges, and flushed to entries when somebody asks. Entries never change (a new one takes their place),
//! so that edges stay right when tables change; a change of ports, groups or services empties the graph.
//!
//! Cost: some 20 cycles an edge beside the table's lookup; a microsecond or two to add one. Edges have a limit
//! ([`EDGES`]). Threads: one worker's.

mod numbers;

use crate::actions::program::{Credit, Segment, Step};
use crate::model::entries::{Entry, TableCounts};
use crate::model::pipeline::Pipeline;
use crate::slowpath::translate::{Begin, DueLookup, FrozenStore, Origins, Subject, Trail, Watch, translate};
use numbers::Numbers;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weir_flow::protocol::{FRAGMENT_LATER, TAG_PRESENT};
use weir_flow::{Field, Key, Layout, Span};
use weir_openflow::TableId;
use weir_units::Nanos;

/// Edges of a graph, at most; packets that need more take megaflows.
const EDGES: usize = 1 << 18;

/// Nodes of a graph, at most: as many as have a number in an edge's name.
const NODES: usize = 1 << 16;

/// Lookups of one packet, at most.
const STEPS: usize = 32;

/// Where an edge leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// To another lookup.
    Node(u32),
    /// To operations.
    End(u32),
    /// To what this graph cannot say.
    Megaflow,
}

#[derive(Debug)]
struct Edge {
    next: Next,
    table: TableId,
    /// Nothing for a lookup that finds nothing.
    entry: Option<Arc<Entry>>,
    packets: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Node {
    table: u8,
    in_port: Option<u32>,
    context: u64,
    due: DueLookup,
}

const STAGE: Span = Field::SfStage.span();
const RECIRC_ID: Span = Field::RecircId.span();

/// What a translation may ask of a packet without looking it up: its port and stage, whether it has a tag,
/// which of the protocols that fields need it is of, whether it is a later fragment, and whether it is too
/// short for its transport header.
#[inline]
fn context(key: &Key) -> u64 {
    let ethertype: u64 = match key.ether_type() {
        0x0800 => 1,
        0x86dd => 2,
        0x0806 | 0x8035 => 3,
        0x8847 | 0x8848 => 4,
        0x88e7 => 5,
        _ => 0,
    };
    let protocol: u64 = match key.protocol() {
        6 => 1,
        17 => 2,
        132 => 3,
        1 => 4,
        58 => 5,
        _ => 0,
    };
    let cut = u64::from(key.is_cut());
    let later = u64::from(key.fragment() & FRAGMENT_LATER != 0);
    let tagged = u64::from(key.tci() & TAG_PRESENT != 0);
    let origin = u64::from(key.in_port()) << 32 | STAGE.get(key) << 24;
    origin | ethertype << 8 | protocol << 4 | cut << 2 | later << 1 | tagged
}

/// Which packet is to be sent on its way.
pub(crate) struct Packet<'a> {
    pub(crate) key: &'a Key,
    pub(crate) layout: Layout,
    pub(crate) frame: &'a [u8],
}

/// A worker's graph.
#[derive(Debug)]
pub(crate) struct TableWalk {
    roots: Numbers,
    nodes: Vec<Node>,
    /// By context and digest; of those that have the same, by the next digest.
    known: Numbers,
    /// By address of the entry and number of the node.
    names: Numbers,
    edges: Vec<Edge>,
    ends: Vec<Segment>,
    /// Edges and ends with something to flush.
    dirty: Vec<u32>,
    dirty_ends: Vec<u32>,
    /// Of those, the ones whose turn it is.
    due: Vec<u32>,
    due_ends: Vec<u32>,
    /// The generation of the tables it is right for.
    generation: u64,
    /// A key to be looked up other than as it came.
    scratch: Key,
    /// How often a change cleared it.
    cleared: u64,
}

/// Where a walk came to.
enum Walked {
    End(u32),
    /// An edge is missing.
    Unknown,
    Megaflow,
}

impl TableWalk {
    pub(crate) fn new() -> Self {
        Self {
            roots: Numbers::new(),
            nodes: Vec::new(),
            known: Numbers::new(),
            names: Numbers::new(),
            edges: Vec::new(),
            ends: Vec::new(),
            dirty: Vec::new(),
            dirty_ends: Vec::new(),
            due: Vec::new(),
            due_ends: Vec::new(),
            generation: 0,
            scratch: Key::new(),
            cleared: 0,
        }
    }

    /// How often a change cleared it.
    pub(crate) const fn cleared(&self) -> u64 {
        self.cleared
    }

    /// Edges that there are.
    pub(crate) fn len(&self) -> usize {
        self.edges.len()
    }

    /// Bytes it takes, about.
    pub(crate) fn memory(&self) -> usize {
        self.names.memory()
            + self.roots.memory()
            + self.edges.len() * size_of::<Edge>()
            + self.nodes.len() * size_of::<Node>()
            + self.ends.len() * (size_of::<Segment>() + 64)
    }

    /// The operations at an end.
    #[inline]
    pub(crate) fn end(&mut self, end: u32) -> Option<Step<'_>> {
        self.ends.get_mut(end as usize).map(Segment::step)
    }

    /// Makes it right for these tables.
    #[inline]
    pub(crate) fn keep_up(&mut self, pipeline: &Pipeline, now: Nanos) {
        if self.generation != pipeline.generation {
            self.renew(pipeline, now);
        }
    }

    #[cold]
    fn renew(&mut self, pipeline: &Pipeline, now: Nanos) {
        let of_entries = pipeline.journal().is_of_entries(self.generation);
        // Edges by entries that went are never taken again: now and then they are cleared away.
        if self.edges.len() >= EDGES / 2 || !of_entries {
            self.begin_flush();
            self.flush_some(usize::MAX, &pipeline.table_counts, now);
            *self = Self { cleared: self.cleared + u64::from(!self.edges.is_empty()), ..Self::new() };
        }
        self.generation = pipeline.generation;
    }

    /// Finds the operations for a packet, counted. Nothing where it takes a megaflow.
    #[inline]
    pub(crate) fn find(
        &mut self,
        pipeline: &Pipeline,
        packet: &Packet<'_>,
        store: &mut FrozenStore,
    ) -> Option<u32> {
        if RECIRC_ID.get(packet.key) != 0 {
            // It comes back from a recirculation, in the middle of its way.
            return None;
        }
        let mut steps = Steps { edges: [0; STEPS], len: 0 };
        let mut walked = self.walk(pipeline, packet.key, &mut steps);
        if let Walked::Unknown = walked {
            self.draw(pipeline, packet, store);
            steps.len = 0;
            walked = self.walk(pipeline, packet.key, &mut steps);
        }
        let Walked::End(end) = walked else { return None };
        let bytes = packet.frame.len() as u64;
        for &edge in &steps.edges[..steps.len] {
            let counted = &mut self.edges[edge as usize];
            if counted.packets == 0 {
                self.dirty.push(edge);
            }
            counted.packets += 1;
            counted.bytes += bytes;
        }
        if self.ends[end as usize].counted.packets == 0 {
            self.dirty_ends.push(end);
        }
        Some(end)
    }

    #[inline]
    fn walk(&mut self, pipeline: &Pipeline, key: &Key, steps: &mut Steps) -> Walked {
        let Some(mut at) = self.roots.get(context(key)) else { return Walked::Unknown };
        loop {
            let node = &self.nodes[at as usize];
            let table = &pipeline.tables[usize::from(node.table)];
            let written = &node.due.written;
            let found = if written.is_empty() && node.in_port.is_none() {
                table.find(key)
            } else {
                self.scratch.clone_from(key);
                for &(place, value, mask) in written {
                    self.scratch.set_bits(usize::from(place), value, mask);
                }
                if let Some(port) = node.in_port {
                    Field::InPort.set(&mut self.scratch, u128::from(port));
                }
                table.find(&self.scratch)
            };
            let Some(edge) = self.names.get(name(at, found.map(|rule| &rule.value))) else {
                return Walked::Unknown;
            };
            if steps.len == STEPS {
                return Walked::Megaflow;
            }
            steps.edges[steps.len] = edge;
            steps.len += 1;
            match self.edges[edge as usize].next {
                Next::Node(next) => at = next,
                Next::End(end) => return Walked::End(end),
                Next::Megaflow => return Walked::Megaflow,
            }
        }
    }

    /// Draws the way of a packet.
    #[cold]
    fn draw(&mut self, pipeline: &Pipeline, packet: &Packet<'_>, store: &mut FrozenStore) {
        if self.edges.len() >= EDGES || self.nodes.len() >= NODES - STEPS {
            return;
        }
        let as_it_came = Origins::default();
        let subject = Subject {
            key: packet.key,
            layout: packet.layout,
            frame: packet.frame,
            origins: &as_it_came,
            begin: Begin::Port,
        };
        let mut trail = Trail::default();
        let outcome = translate(pipeline, &subject, store, Watch::Trail(&mut trail));
        let Trail { steps, is_plain } = trail;
        let context = context(packet.key);
        let mut from: Option<usize> = None;
        for step in steps {
            let node = self.node(context, step.due);
            match from {
                Some(edge) => self.edges[edge].next = Next::Node(node),
                None if self.roots.get(context).is_none() => self.roots.insert(context, node),
                None => {}
            }
            let name = name(node, step.entry.as_ref());
            let table = TableId(self.nodes[node as usize].table);
            let known = self.names.get(name);
            let edge = known.unwrap_or(self.edges.len() as u32);
            from = Some(edge as usize);
            if known.is_none() {
                let next = Next::Megaflow;
                self.edges.push(Edge { next, table, entry: step.entry, packets: 0, bytes: 0 });
                self.names.insert(name, edge);
            }
        }
        let Some(edge) = from.map(|edge| &mut self.edges[edge]) else { return };
        if is_plain && edge.next == Next::Megaflow {
            edge.next = Next::End(self.ends.len() as u32);
            let mut segment = outcome.segment;
            segment.credits.retain(|credit| matches!(credit, Credit::Counts(_)));
            self.ends.push(segment);
        }
    }

    /// The node at which this is due.
    fn node(&mut self, context: u64, due: DueLookup) -> u32 {
        let mut digest = due.digest() ^ context.rotate_left(32);
        while let Some(at) = self.known.get(digest) {
            let known = &self.nodes[at as usize];
            if known.context == context && known.due.is(&due) {
                return at;
            }
            digest = digest.wrapping_add(1);
        }
        let at = self.nodes.len() as u32;
        self.known.insert(digest, at);
        self.nodes.push(Node { table: due.table.0, in_port: due.in_port, context, due });
        at
    }

    /// From here on all that was counted is given to those it belongs to, by so many calls of
    /// [`Self::flush_some`] as it takes.
    pub(crate) fn begin_flush(&mut self) {
        self.due.append(&mut self.dirty);
        self.due_ends.append(&mut self.dirty_ends);
    }

    /// Credits some of what was counted before the beginning, and says whether that was the last of it.
    pub(crate) fn flush_some(&mut self, most: usize, counts: &[TableCounts], now: Nanos) -> bool {
        for edge in self.due.drain(self.due.len().saturating_sub(most)..) {
            let edge = &mut self.edges[edge as usize];
            let (packets, bytes) = (std::mem::take(&mut edge.packets), std::mem::take(&mut edge.bytes));
            let table = &counts[usize::from(edge.table.0)];
            table.lookups.fetch_add(packets, Relaxed);
            if let Some(entry) = &edge.entry {
                table.matched.fetch_add(packets, Relaxed);
                entry.counts().add(packets, bytes, now);
            }
        }
        for end in self.due_ends.drain(self.due_ends.len().saturating_sub(most)..) {
            self.ends[end as usize].credit(counts, now);
        }
        self.due.is_empty() && self.due_ends.is_empty()
    }
}

#[cfg(test)]
impl TableWalk {
    /// Who is credited for what was found since it was asked last, the end at which the packet came out
    /// included.
    pub(crate) fn counted(&mut self, end: u32) -> Vec<Credit> {
        self.dirty_ends.clear();
        let mut all = self.ends[end as usize].credits.clone();
        for edge in self.dirty.drain(..) {
            let edge = &mut self.edges[edge as usize];
            for _ in 0..std::mem::take(&mut edge.packets) {
                all.push(edge.entry.clone().map_or(Credit::Miss(edge.table), Credit::Entry));
            }
        }
        all
    }
}

/// The edges that a walk took.
struct Steps {
    edges: [u32; STEPS],
    len: usize,
}

/// An edge's name: where it starts, and by which entry. Addresses have 48 bits, and an edge keeps its entry
/// alive, so that no other takes its address.
#[inline]
fn name(node: u32, entry: Option<&Arc<Entry>>) -> u64 {
    u64::from(node) << 48 | entry.map_or(0, |entry| Arc::as_ptr(entry).addr() as u64)
}
