//! The questions, one a file, and what they share.

mod cores;
mod model;
mod placement;
mod side_by_side;
mod speed;
mod split;

use crate::answer::{Answer, Needed, Says};
use crate::evidence::View;
use model::Context;
use weir_trial::Nf;
use weir_trial::run::advice::{Asked, Question};
use weir_trial::run::{PointKey, Run};

/// What is wanted of a run.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The load, loss and delay.
    pub asked: Asked,
    /// Which questions; all where none is named.
    pub questions: Vec<Question>,
    /// Which points; all where none is named. Points that differ from one of them in what is asked about are looked at as well.
    pub points: Vec<u32>,
    /// A chain that is to be placed; those that were measured where none is named.
    pub chain: Option<Nf>,
}

/// Why most questions need a load.
const NO_LOAD: &str = "no load was named that is to be carried; add --load";

/// The answers that a run's points give.
pub fn advise(run: &Run, wanted: &Wanted) -> Vec<Answer> {
    let view = View::of(run, wanted.asked.loss);
    let context = Context { view: &view, wanted };
    let asks = |question| wanted.questions.is_empty() || wanted.questions.contains(&question);
    let of = |question| match question {
        Question::Speed => speed::answers(&context),
        Question::Cores => cores::answers(&context),
        Question::Copies => side_by_side::answers(&context, &side_by_side::COPIES),
        Question::Vnics => side_by_side::answers(&context, &side_by_side::VNICS),
        Question::Queues => side_by_side::answers(&context, &side_by_side::QUEUES),
        Question::Placement => placement::answers(&context),
        Question::Split => split::answers(&context),
    };
    Question::ALL.into_iter().filter(|question| asks(*question)).flat_map(of).collect()
}

/// A question that points do not answer.
fn unanswered(question: Question, key: &PointKey, why: impl Into<String>, needed: Option<Needed>) -> Answer {
    Answer { question, about: model::about(key), says: Says::Unanswered { why: why.into(), needed } }
}

/// An axis as TOML has it.
fn axis(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}
