//! Answers and checks as people read them.

use super::super::layout::{BAD, BEWARE, GOOD, STRONG, paint, table};
use std::fmt::Write as _;
use weir_advice::{Advice, Answer, Says};
use weir_trial::run::Run;
use weir_trial::run::advice::{AdviceCheck, Asked, CheckVerdict, Compared, Prediction, Quantity};
use weir_units::{Interval, Spread};

/// Which run, and what was asked for.
pub(super) fn heading(run: &Run, asked: &Asked) -> String {
    let load = asked.load.map_or_else(|| "no load".to_owned(), |load| load.to_string());
    let delay = asked.delay.map_or_else(String::new, |goal| format!(", {goal}"));
    format!("run {} · asked for: {load}, a loss of at most {}{delay}\n\n", run.name, asked.loss)
}

/// All answers, those without advice last.
pub(super) fn answers(answers: &[Answer]) -> String {
    let advised = answers.iter().filter(|answer| matches!(answer.says, Says::Advice(_))).map(answer);
    advised.collect::<String>() + &unanswered(answers)
}

/// One answer with advice.
pub(super) fn answer(answer: &Answer) -> String {
    let Says::Advice(advice) = &answer.says else { return String::new() };
    let question = paint(STRONG, answer.question.name());
    let mut text = format!("{question}  {}\n  {}\n", answer.about, advice.says);
    for prediction in predicted(advice) {
        let _ = writeln!(text, "  expected: {}", self::prediction(prediction));
    }
    let _ = writeln!(text, "  model: {}", advice.model);
    let _ = writeln!(text, "  from: {}", points(&advice.derived_from));
    for what in &advice.extrapolated {
        let _ = writeln!(text, "  {}: {what}", paint(BEWARE, "extrapolated"));
    }
    for note in &advice.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    text.push('\n');
    text
}

/// What is predicted; a loss is what was asked for, not what a model says.
fn predicted(advice: &Advice) -> impl Iterator<Item = &Prediction> {
    advice.predictions.iter().filter(|one| !matches!(one.quantity, Quantity::Loss { .. }))
}

fn prediction(prediction: &Prediction) -> String {
    let Prediction { quantity, value, interval } = prediction;
    match interval {
        Some(Interval { low, high }) => format!(
            "{quantity} {} (95 % prediction interval {} to {})",
            quantity.show(*value),
            quantity.show(*low),
            quantity.show(*high)
        ),
        None => format!("{quantity} {} (no interval: measured too few times)", quantity.show(*value)),
    }
}

fn points(points: &[u32]) -> String {
    let numbers: Vec<String> = points.iter().map(u32::to_string).collect();
    format!("point{} {}", if points.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

/// The questions without an answer: those of several points that have one reason, in one row.
pub(super) fn unanswered(answers: &[Answer]) -> String {
    let mut rows: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for answer in answers {
        let Says::Unanswered { why, .. } = &answer.says else { continue };
        let name = answer.question.name();
        match rows.iter_mut().find(|(question, reason, _)| (*question, *reason) == (name, why.as_str())) {
            Some((.., about)) => about.push(&answer.about),
            None => rows.push((name, why, vec![&answer.about])),
        }
    }
    let row = |(question, why, about): &(&str, &str, Vec<&str>)| {
        let of = match about.as_slice() {
            [one] => (*one).to_owned(),
            [first, others @ ..] => format!("{first}, and {} more", others.len()),
            [] => String::new(),
        };
        vec![(*question).to_owned(), of, (*why).to_owned()]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("{}\n", table(&["not answered", "of", "because"], &[], &rows)),
    }
}

/// What to do next.
pub(super) fn next(run: &Run, answers: &[Answer], flag: &str) -> String {
    let advised = answers.iter().any(|answer| matches!(answer.says, Says::Advice(_)));
    let open = answers.iter().find(|answer| matches!(answer.says, Says::Unanswered { needed: Some(_), .. }));
    let mut text = String::new();
    if advised {
        let _ = writeln!(text, "Next: the same with --check measures each advice");
    }
    if let Some(open) = open {
        let question = open.question;
        let _ = writeln!(
            text,
            "The plan that would answer `{question}`: weir advise {} --question {question} --plan{flag}",
            run.name
        );
    }
    text
}

/// What a check came to.
pub(super) fn check(check: &AdviceCheck) -> String {
    let style = match check.verdict {
        CheckVerdict::Confirmed => GOOD,
        CheckVerdict::Refuted => BAD,
        CheckVerdict::Undecided => BEWARE,
    };
    let mut text = String::new();
    for row in &check.compared {
        let quantity = &row.predicted.quantity;
        let error = row.error().map_or_else(String::new, |error| format!(", {:+.1} %", 100.0 * error));
        let _ =
            writeln!(text, "  measured: {quantity} {}{error} ({})", quantity.show(row.measured), place(row));
    }
    let of = if check.run.is_empty() { String::new() } else { format!(" by run {}", check.run) };
    let _ = writeln!(text, "  {}{of}: {}\n", paint(style, check.verdict.name()), check.why);
    text
}

fn place(row: &Compared) -> &'static str {
    match row.inside {
        Some(true) => "inside",
        Some(false) => "outside",
        None => "no interval",
    }
}

/// All checks: prediction against measurement, and what they come to.
pub(super) fn errors(checks: &[(&str, &AdviceCheck)]) -> String {
    let mut rows = Vec::new();
    let (mut off, mut inside, mut told) = (Vec::new(), 0, 0);
    for (of, check) in checks {
        let first = [check.question.name().to_owned(), (*of).to_owned(), subject(check)];
        let verdict = check.verdict.name().to_owned();
        if check.compared.is_empty() {
            rows.push(
                [first.as_slice(), std::slice::from_ref(&check.why), empty(4).as_slice(), &[verdict]]
                    .concat(),
            );
            continue;
        }
        for (place, row) in check.compared.iter().enumerate() {
            off.extend(row.error().map(f64::abs));
            if row.error().is_some() {
                told += u32::from(row.inside.is_some());
                inside += u32::from(row.inside == Some(true));
            }
            let first = if place == 0 { first.to_vec() } else { empty(3) };
            let verdict = if place == 0 { verdict.clone() } else { String::new() };
            rows.push([first, cells(row), vec![verdict]].concat());
        }
    }
    if rows.is_empty() {
        return "no advice was checked yet\n\nNext: weir advise @last --load RATE --check\n".to_owned();
    }
    let headings = [
        "question",
        "from run",
        "advised",
        "quantity",
        "predicted",
        "95 % interval",
        "measured",
        "error",
        "",
    ];
    let mut text = format!("{}\n", table(&headings, &[4, 6, 7], &rows));
    let refuted = checks.iter().filter(|(_, check)| check.verdict == CheckVerdict::Refuted).count();
    let undecided = checks.iter().filter(|(_, check)| check.verdict == CheckVerdict::Undecided).count();
    let confirmed = checks.len() - refuted - undecided;
    let _ = writeln!(
        text,
        "{} check(s): {confirmed} confirmed, {refuted} refuted, {undecided} undecided; {inside} of {told} predictions with an interval lie in it",
        checks.len()
    );
    if let Some(spread) = Spread::of(&off) {
        let _ = writeln!(
            text,
            "error, without its sign: median {:.1} %, greatest {:.1} %, of {} predictions",
            100.0 * spread.median,
            100.0 * spread.max,
            spread.count
        );
    }
    text
}

fn empty(cells: usize) -> Vec<String> {
    vec![String::new(); cells]
}

fn subject(check: &AdviceCheck) -> String {
    format!("{} on {}", check.key.nf, check.key.device())
}

fn cells(row: &Compared) -> Vec<String> {
    let quantity = &row.predicted.quantity;
    let of_loss = matches!(quantity, Quantity::Loss { .. });
    let interval = match row.predicted.interval {
        _ if of_loss => String::new(),
        Some(Interval { low, high }) => format!("{} to {}", quantity.show(low), quantity.show(high)),
        None => "none".to_owned(),
    };
    let error = row.error().map_or_else(String::new, |error| format!("{:+.1} %", 100.0 * error));
    let predicted = quantity.show(row.predicted.value);
    let predicted = if of_loss { format!("at most {predicted}") } else { predicted };
    vec![quantity.to_string(), predicted, interval, quantity.show(row.measured), error]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::run::advice::Question;

    #[test]
    fn points_that_have_one_reason_stand_in_one_row() {
        let open = |about: &str, why: &str| Answer {
            question: Question::Speed,
            about: about.to_owned(),
            says: Says::Unanswered { why: why.to_owned(), needed: None },
        };
        let text =
            unanswered(&[open("l2fwd", "one speed"), open("nat", "no rate"), open("l3fwd:10", "one speed")]);
        let rows: Vec<&str> = text.lines().skip(1).filter(|line| !line.is_empty()).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(rows[0].contains("l2fwd, and 1 more") && rows[0].contains("one speed"), "{text}");
        assert!(rows[1].contains("nat ") && rows[1].contains("no rate"), "{text}");
        assert_eq!(unanswered(&[]), "");
    }
}
