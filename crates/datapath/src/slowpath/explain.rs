//! What a translation tells of itself to a person who asks (`weir switch trace`), and nothing otherwise.

use super::laps::Laps;
use crate::model::entries::Entry;
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use weir_classifier::{Rule, Table};
use weir_flow::span::CUT;
use weir_flow::{Field, Key, Mask, Match};
use weir_openflow::{Action, Flow, Instructions, Names, match_text};

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// An entry matched.
    Matched(Arc<Entry>),
    /// An action was done.
    Action(Action),
    /// Bits of a word of the key came to matter, and why.
    Examined { place: usize, bits: u64, why: String },
    /// Words.
    Say(String),
}

/// Everything that happened, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// What happened, each with the number of its task.
    steps: Vec<(usize, Step)>,
    /// The tasks of the walk, by name.
    pub(crate) tasks: Vec<&'static str>,
    why: String,
}

/// Why bits of a field matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    /// The field's name.
    pub(crate) field: &'static str,
    /// Its bits.
    pub(crate) bits: u128,
    /// What looked at them.
    pub(crate) why: String,
    /// The tasks that were the first to do so.
    pub(crate) tasks: Vec<usize>,
}

/// Where a translation tells what it does.
pub(crate) enum Explain<'a> {
    /// Nowhere; telling costs a branch.
    Silent,
    /// To a person.
    Story(&'a mut Story),
    /// When each task begins, and nothing else.
    Laps(&'a mut Laps),
}

impl Explain<'_> {
    /// The next task begins.
    #[inline]
    pub(crate) fn task(&mut self, name: impl FnOnce() -> &'static str) {
        match self {
            Self::Silent => {}
            Self::Story(story) => story.tasks.push(name()),
            Self::Laps(laps) => laps.mark(),
        }
    }

    /// Says what the bits that are looked at next matter for.
    pub(crate) fn why(&mut self, why: &dyn Display) {
        if let Self::Story(story) = self {
            story.why = why.to_string();
        }
    }

    pub(crate) fn examined(&mut self, place: usize, bits: u64) {
        if let Self::Story(story) = self {
            let why = story.why.clone();
            story.push(Step::Examined { place, bits, why });
        }
    }

    pub(crate) fn matched(&mut self, entry: &Arc<Entry>) {
        if let Self::Story(story) = self {
            story.push(Step::Matched(entry.clone()));
        }
    }

    pub(crate) fn action(&mut self, action: &Action) {
        if let Self::Story(story) = self {
            story.push(Step::Action(action.clone()));
        }
    }

    /// Says something, if there is something to say.
    pub(super) fn say_if(&mut self, words: impl FnOnce() -> Option<String>) {
        if let Self::Story(story) = self
            && let Some(words) = words()
        {
            story.push(Step::Say(words));
        }
    }

    pub(super) fn say(&mut self, words: impl FnOnce() -> String) {
        if let Self::Story(story) = self {
            story.push(Step::Say(words()));
        }
    }
}

impl Story {
    fn push(&mut self, step: Step) {
        self.steps.push((self.tasks.len().saturating_sub(1), step));
    }

    /// The story for people: lines, each with the number of its task.
    pub(crate) fn lines(&self, names: &Names) -> Vec<(usize, String)> {
        let line = |step: &Step| match step {
            Step::Matched(entry) => {
                Some(format!("  table {}: {}", entry.flow.table, matched(&entry.flow, names)))
            }
            Step::Action(action) => Some(format!("      {}", action_text(action, names))),
            Step::Say(words) => Some(format!("      {words}")),
            Step::Examined { .. } => None,
        };
        self.steps.iter().filter_map(|(task, step)| Some((*task, line(step)?))).collect()
    }

    /// Which bits came to matter, and why, by field.
    pub(crate) fn reasons(&self) -> Vec<Reason> {
        let mut out = Vec::new();
        for field in fields() {
            self.reasons_of(&mut out, field.name(), |mask| field.mask_of(mask));
        }
        self.reasons_of(&mut out, "(header cut)", |mask| CUT.mask_of(mask).into());
        out
    }

    /// Why bits of a part of the key matter.
    fn reasons_of(&self, out: &mut Vec<Reason>, field: &'static str, part: impl Fn(&Mask) -> u128) {
        let begin = out.len();
        for (task, step) in &self.steps {
            let Step::Examined { place, bits, why } = step else { continue };
            let mut mask = Mask::new();
            mask.add(*place, *bits);
            let bits = part(&mask);
            if bits == 0 {
                continue;
            }
            match out[begin..].iter_mut().find(|reason| reason.why == *why) {
                Some(reason) => {
                    reason.bits |= bits;
                    if !reason.tasks.contains(task) {
                        reason.tasks.push(*task);
                    }
                }
                None => out.push(Reason { field, bits, why: why.clone(), tasks: vec![*task] }),
            }
        }
    }
}

/// Fields that overlap no other in the list: together they are all of a key. Of those that have the same bits, the
/// first.
fn fields() -> impl Iterator<Item = Field> {
    let mut seen = Mask::new();
    Field::ALL.iter().copied().filter(move |field| {
        let owner = field.about().owner;
        let whole = field.bits() == owner.bits();
        let mut own = Mask::new();
        field.examine(&mut own, u128::MAX);
        let new = whole && own.iter().any(|(place, bits)| bits & !seen.word(place) != 0);
        if new {
            seen.union(&own);
        }
        new
    })
}

/// By which entries a packet meets all dimensions of a conjunction, if the entry that it found is that conjunction's.
pub(super) fn conjunction(
    of: &Table<Arc<Entry>>,
    key: &Key,
    found: Option<&Rule<Arc<Entry>>>,
) -> Option<String> {
    let id =
        found.map(|rule| rule.matching.field(Field::ConjId)).filter(|(id, mask)| *mask != 0 && *id != 0)?.0;
    let met = of.dimensions_met(key, id as u32);
    let mut out = format!("conjunction {id} holds: ");
    for (place, rule) in met.iter().enumerate() {
        let conjunctions = rule.value.flow.instructions.conjunctions().filter(|of| u128::from(of.id) == id);
        let dimensions: Vec<String> =
            conjunctions.map(|of| format!("{}/{}", of.dimension, of.dimensions)).collect();
        let entry = matched(&rule.value.flow, &Names::default());
        let behind = if place == 0 { "" } else { "; " };
        let _ = write!(out, "{behind}{} by {entry}", dimensions.join(" and "));
    }
    Some(out)
}

/// An entry by its match and priority.
fn matched(flow: &Flow, names: &Names) -> String {
    let text = match_text(&flow.matching, names);
    let any = if text.is_empty() { "any packet" } else { &text };
    format!("{any}, priority {}", flow.priority)
}

fn action_text(action: &Action, names: &Names) -> String {
    let one = Instructions { apply: vec![action.clone()], ..Instructions::default() };
    one.text(&Match::any(), names)
}

/// A packet as a match: its fields that are not zero.
pub(crate) fn described(key: &Key) -> Match {
    let mut matching = Match::any();
    for field in fields() {
        let value = field.get(key);
        if value != 0 {
            matching.demand(field, value, u128::MAX);
        }
    }
    matching
}

/// The part of a key that a mask names, as a match.
pub(crate) fn masked(key: &Key, mask: &Mask) -> Match {
    let mut matching = Match::any();
    for (place, bits) in mask.iter() {
        matching.demand_bits(place, key.word(place), bits);
    }
    matching
}
