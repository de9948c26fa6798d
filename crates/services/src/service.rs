//! The contract of a service: SoftFlow's stateful action, run on bursts inside the datapath.
//!
//! A *group* is a configured service (`softflow:NAME` names it): it owns what its instances share and
//! builds one *instance* a worker. It may register further services, *members*, that share what it owns (`softflow:NAME.MEMBER`), with
//! instances of their own. An instance has one entry point over a burst. In it nothing blocks,
//! allocates or reads a clock; it takes the packets one by one from [`Burst::next`], so that a panic
//! loses just the packet at hand.
//!
//! A service may change bytes of a packet, but its length only by a [`Splice`]; a field of the key that it
//! rewrites must be among those its [`Registration`] declares. It may write [`Slot::metadata`] and says by
//! [`Slot::coalesce`] whether the packet may go on with the actions that its megaflow learnt, or must
//! be classified again.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use weir_flow::{Field, Key, Layout, Pairs, Splice};
use weir_openflow::{Argument, Tracking};
use weir_packet::DropReason;
use weir_units::Nanos;

/// One packet before a service, and what the service says of it.
#[derive(Debug)]
pub struct Slot<'a> {
    /// The frame, without FCS.
    pub frame: &'a mut [u8],
    /// Where its headers start.
    pub layout: Layout,
    /// Its fields as they are now; `sf_metadata` as it was when the service was called.
    pub key: &'a mut Key,
    /// What the flow entry tells the service (`sf_argument`); of several arguments the first, 0 if it is a text.
    pub argument: u32,
    /// All that it tells, where that is more than one number; else empty.
    pub arguments: &'a [Argument],
    /// What `ct` asks of a connection tracker, where it is that action that calls.
    pub tracking: Option<&'a Tracking>,
    /// The `sf_metadata` register.
    pub metadata: u32,
    /// What the service noted with the packet's megaflow.
    pub memo: Memo,
    /// Whether the packet may go on without being classified again; false when the service is called.
    pub coalesce: bool,
    /// What becomes of it; passed on when the service is called.
    pub verdict: Verdict,
    /// Which of the service's splices is done to it ([`Service::splice`]); none when the service is called.
    pub splice: Option<u8>,
}

/// A number that the first service on a packet's way notes with its megaflow, and gets back with the next
/// packet of that: where the state of their flow is, probably. A megaflow may stand for several flows, and
/// outlive what was noted, so it is a hint, to be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memo(u32);

impl Memo {
    /// Nothing was noted yet.
    pub const BLANK: Self = Self(u32::MAX);
    /// What is noted is lost: there is no megaflow, or the service gave up noting.
    pub const NOWHERE: Self = Self(u32::MAX - 1);

    /// A note of this number; of the two greatest, none.
    #[inline]
    pub const fn of(number: u32) -> Self {
        if number < Self::NOWHERE.0 { Self(number) } else { Self::NOWHERE }
    }

    /// The number that was noted.
    #[inline]
    pub const fn number(self) -> Option<u32> {
        if self.0 < Self::NOWHERE.0 { Some(self.0) } else { None }
    }
}

/// What a service says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It ends here.
    Drop(DropReason),
}

/// The packets that a service is called for, in the order they came.
#[derive(Debug)]
pub struct Burst<'s, 'p> {
    slots: &'s mut [Slot<'p>],
    next: usize,
    /// The first packet that would be lost now.
    at_hand: usize,
    /// The time, since the switch started, at which the burst was received.
    pub now: Nanos,
}

impl<'s, 'p> Burst<'s, 'p> {
    /// A burst over these packets.
    pub fn new(slots: &'s mut [Slot<'p>], now: Nanos) -> Self {
        Self { slots, next: 0, at_hand: 0, now }
    }

    /// Packets in it, taken or not.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All packets, to be looked at before they are taken: for hashes and prefetching.
    pub fn peek(&self) -> &[Slot<'p>] {
        self.slots
    }

    /// Takes the next packet. If the service panics before it takes another, this one is lost.
    #[expect(clippy::should_implement_trait, reason = "it lends from itself, which an iterator cannot")]
    pub fn next(&mut self) -> Option<&mut Slot<'p>> {
        let slot = self.slots.get_mut(self.next)?;
        self.at_hand = self.next;
        self.next += 1;
        Some(slot)
    }

    /// Takes all packets that are left, for services that work on many at once. If the service panics
    /// thereafter, all of them are lost.
    pub fn rest(&mut self) -> &mut [Slot<'p>] {
        let from = std::mem::replace(&mut self.next, self.slots.len());
        if from < self.next {
            self.at_hand = from;
        }
        &mut self.slots[from..]
    }

    /// Packets taken so far.
    pub fn taken(&self) -> usize {
        self.next
    }

    /// The packets that are lost if the service panics now: the one taken last, or all that
    /// [`Self::rest`] handed out. If it took none yet, the first is: something must be, or a service
    /// that panics over what it peeks at would be called for the same packets for ever.
    pub(crate) fn lost(&self) -> Range<usize> {
        self.at_hand..self.next.max(1).min(self.slots.len())
    }
}

/// What the flows of one zone that came in by one port have of a service's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Share {
    /// Zone.
    pub zone: u16,
    /// Port.
    pub port: u32,
    /// What there is and was of it, by name.
    pub counters: Vec<(String, u64)>,
}

/// One instance, on one worker.
pub trait Service: Send {
    /// Judges the packets of a burst, all of them.
    fn process(&mut self, burst: &mut Burst<'_, '_>);

    /// What replaces bytes of a packet of the last burst by more or fewer: what [`Slot::splice`] names.
    fn splice(&self, _number: u8) -> Option<&Splice> {
        None
    }

    /// Called now and then between bursts, for what is due (timeouts). It must do a bounded amount
    /// of work: a few microseconds.
    fn tick(&mut self, _now: Nanos) {}

    /// What it counted, by name, in an order that stays.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Who has most of its tables, where zones and ports have shares of them; the greatest first, and not more than a
    /// few.
    fn shares(&self) -> Vec<Share> {
        Vec::new()
    }

    /// Does what a person or another part asks (`dump`, `flush`), off the packet path but on the
    /// worker, between bursts. What it returns is one worker's part of the answer.
    ///
    /// # Errors
    /// What the service does not understand, as a sentence.
    fn command(&mut self, command: &str, _argument: &serde_json::Value) -> Result<serde_json::Value, String> {
        Err(format!("this service has no command `{command}`"))
    }

    /// Bytes of state it holds, about.
    fn memory(&self) -> usize {
        0
    }
}

/// Which worker has a flow whose packets have other addresses in each direction.
pub trait OwnerTable: std::fmt::Debug + Send + Sync {
    /// Takes the memory that it needs, if it was not taken yet: before the first flow that it is asked for.
    fn prepare(&self);

    /// The worker that has a packet's flow, if it is one of those. Called for each packet.
    fn of(&self, frame: &[u8], layout: Layout, key: &Key) -> Option<usize>;
}

/// A configured service: what its instances share, and how they are built.
pub trait Group: Send + Sync {
    /// Builds the instance of a worker, from nothing or again after a panic.
    fn instance(&self, worker: usize) -> Box<dyn Service>;

    /// The same of a member, by its place in [`Registration::members`].
    fn member(&self, _which: usize, worker: usize) -> Box<dyn Service> {
        self.instance(worker)
    }

    /// Does what a person or another part asks of the group as a whole, on the thread that asks: for
    /// what takes long (a table to be computed) and for what instances share. `None`: the command is
    /// one for the instances, [`Service::command`].
    fn command(
        &self,
        _command: &str,
        _argument: &serde_json::Value,
    ) -> Option<Result<serde_json::Value, String>> {
        None
    }

    /// Who has which flow, where that does not follow from its addresses: instances of several workers translate them.
    fn owners(&self) -> Option<Arc<dyn OwnerTable>> {
        None
    }

    /// Of which pairs of addresses its instances know connections, where they say so.
    fn pairs(&self) -> Option<Arc<Pairs>> {
        None
    }

    /// Seconds for which an instance keeps what it knows of a flow without saying so by [`Self::pairs`] when no
    /// packet of it comes: for so long at least the flow stays with its worker.
    fn idle_seconds(&self) -> u32 {
        60
    }

    /// For tests and tools that know the kind.
    fn as_any(&self) -> &dyn Any;
}

/// What a service's configuration says wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("service `{service}`: {reason}")]
pub struct ConfigError {
    /// The service, as it is named in the configuration.
    pub service: String,
    /// What is wrong and how to mend it.
    pub reason: String,
}

/// A kind of service, as the registry has it: one word, one file.
pub struct Registration {
    /// Its name; without a configuration, also what flows call it by.
    pub kind: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Fields of the key that it may rewrite. Stages behind it that look at one are not coalesced.
    pub rewrites: &'static [Field],
    /// Whether its verdict may ever be coalesced.
    pub coalesces: bool,
    /// Whether both directions of a flow must meet at one worker: it keeps state by flow.
    pub by_flow: bool,
    /// Further services of the group, which share its state.
    pub members: &'static [Member],
    /// Whether a flow entry may tell it this, its members included: asked when the entry is added, so that the packet path need
    /// not. What is wrong, as a sentence. [`one_number`] is the one for services that read [`Slot::argument`] alone.
    pub arguments: fn(&[Argument]) -> Result<(), String>,
    /// The JSON schema of its configuration.
    pub schema: fn() -> serde_json::Value,
    /// Builds a group from a configuration (an object; empty for all defaults). `seed` makes hashes
    /// and draws repeatable; `workers` is how many instances there will be at most.
    pub build: fn(&GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError>,
}

/// A further service of a group: flows call it by the group's name, a dot and its own. What it rewrites, and whether its state is by
/// flow, are as the group's registration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its own name.
    pub name: &'static str,
    /// Whether its verdict may ever be coalesced.
    pub coalesces: bool,
}

impl Registration {
    /// What flows call the services of a group of this name by: the group's own, then its members'.
    pub fn names(&self, name: &str) -> impl Iterator<Item = String> {
        let members = self.members.iter().map(move |member| format!("{name}.{}", member.name));
        std::iter::once(name.to_owned()).chain(members)
    }
}

/// What a group is built from.
#[derive(Clone, Copy, Debug)]
pub struct GroupConfig<'a> {
    /// What flows call it by.
    pub name: &'a str,
    /// Its configuration: a JSON object, empty for all defaults.
    pub settings: &'a serde_json::Value,
    /// How many instances there will be at most.
    pub workers: usize,
    /// Makes hashes and draws repeatable.
    pub seed: u64,
}

impl GroupConfig<'_> {
    /// Reads the settings; what is not given is as in `T::default()`, if `T` says so.
    ///
    /// # Errors
    /// The field that is unknown, missing or of another type, by name.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let none = serde_json::Value::Object(serde_json::Map::new());
        let settings = if self.settings.is_null() { &none } else { self.settings };
        if !settings.is_object() {
            return Err(
                self.error(format!("its settings must be a table of names and values, not {settings}"))
            );
        }
        T::deserialize(settings).map_err(|error| self.error(error.to_string()))
    }

    /// An error in these settings: what is wrong and how to mend it.
    pub fn error(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError { service: self.name.to_owned(), reason: reason.into() }
    }
}

/// For [`Registration::arguments`]: one number, and nothing else.
///
/// # Errors
/// Anything else.
pub fn one_number(arguments: &[Argument]) -> Result<(), String> {
    match arguments {
        [Argument::Number(_)] => Ok(()),
        _ => Err("it takes one number".to_owned()),
    }
}

/// The JSON schema of a service's settings, for [`Registration::schema`].
pub fn schema<T: JsonSchema>() -> serde_json::Value {
    schemars::schema_for!(T).to_value()
}
