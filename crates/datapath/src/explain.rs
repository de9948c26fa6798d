//! What a translation tells of itself to a person who asks (`weir switch trace`), and nothing otherwise.

use crate::pipeline::Entry;
use std::fmt::Display;
use std::sync::Arc;
use weir_openflow::Action;

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
    pub(crate) steps: Vec<Step>,
    why: String,
}

/// Where a translation tells what it does: a story, or nowhere.
pub(crate) struct Explain<'a>(Option<&'a mut Story>);

impl<'a> Explain<'a> {
    /// Nobody listens; telling costs a branch.
    pub(crate) const SILENT: Self = Self(None);

    /// Tells a story.
    pub(crate) fn to(story: &'a mut Story) -> Self {
        Self(Some(story))
    }

    /// Says what the bits that are looked at next matter for.
    pub(crate) fn why(&mut self, why: &dyn Display) {
        if let Some(story) = &mut self.0 {
            story.why = why.to_string();
        }
    }

    pub(crate) fn examined(&mut self, place: usize, bits: u64) {
        if let Some(story) = &mut self.0 {
            let why = story.why.clone();
            story.steps.push(Step::Examined { place, bits, why });
        }
    }

    pub(crate) fn matched(&mut self, entry: &Arc<Entry>) {
        if let Some(story) = &mut self.0 {
            story.steps.push(Step::Matched(entry.clone()));
        }
    }

    pub(crate) fn action(&mut self, action: &Action) {
        if let Some(story) = &mut self.0 {
            story.steps.push(Step::Action(action.clone()));
        }
    }

    pub(crate) fn say(&mut self, words: impl FnOnce() -> String) {
        if let Some(story) = &mut self.0 {
            story.steps.push(Step::Say(words()));
        }
    }
}
