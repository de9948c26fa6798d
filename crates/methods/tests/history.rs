//! Where a history jumps: against the Python package `jumpavg` of FD.io CSIT, which shares no code with ours, and how often
//! it jumps where nothing changed.

use crate::oracle::ask_of;
use serde_json::json;
use weir_methods::history::{CONFIRMED, groups};
use weir_testkit::Dice;

/// A normal deviate (Box and Muller).
fn normal(dice: &mut Dice) -> f64 {
    let (radius, turn) = (1.0 - dice.uniform(), dice.uniform());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

/// Kinds of noise around one: what a run's number is on a machine that did not change.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Log-normal, of this scatter.
    Normal(f64),
    /// The same, and one run in ten loses up to half.
    Disturbed(f64),
    /// The same, in steps: each run has what the one before had, and a little of its own.
    Wandering(f64),
}

impl Noise {
    fn draw(self, count: usize, dice: &mut Dice) -> Vec<f64> {
        let mut drift = 0.0;
        let mut one = |_| match self {
            Self::Normal(scatter) => (scatter * normal(dice)).exp(),
            Self::Disturbed(scatter) => {
                let lost = if dice.one_in(10) { dice.uniform() / 2.0 } else { 0.0 };
                (scatter * normal(dice)).exp() * (1.0 - lost)
            }
            Self::Wandering(scatter) => {
                drift = 0.7 * drift + scatter * normal(dice);
                drift.exp()
            }
        };
        (0..count).map(&mut one).map(|factor| 5e6 * factor).collect()
    }
}

#[test]
fn groups_are_those_of_the_python_package() {
    let mut dice = Dice::new(20);
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0], vec![5e6; 30], vec![1.0, 2.0], vec![1e-9, 1e9]];
    for _ in 0..600 {
        let (count, scatter) = (1 + dice.below(60) as usize, 0.3 * dice.uniform().powi(3));
        let mut row = Noise::Normal(scatter).draw(count, &mut dice);
        let mut level = 1.0;
        for value in &mut row {
            if dice.one_in(15) {
                level = 0.3 + dice.uniform();
            }
            *value *= level;
        }
        // Whole numbers, such as counts: equal ones, and small ones in steps of their resolution.
        if dice.one_in(4) {
            row.iter_mut().for_each(|value| *value = (*value / 1e5).round().max(1.0));
        }
        rows.push(row);
    }
    let questions: Vec<_> = rows.iter().map(|row| json!(row)).collect();
    let (mut jumps, mut several) = (0, 0);
    for (row, theirs) in rows.iter().zip(ask_of("groups.py", &questions)) {
        let ours = groups(row);
        let theirs: Vec<(usize, f64, f64)> = serde_json::from_value(theirs).unwrap();
        let sizes: Vec<usize> = ours.iter().map(|group| group.count).collect();
        assert_eq!(sizes, theirs.iter().map(|group| group.0).collect::<Vec<_>>(), "{row:?}");
        for (ours, (_, mean, deviation)) in ours.iter().zip(&theirs) {
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * mean.abs();
            assert!(
                near(ours.mean, *mean) && near(ours.deviation, *deviation),
                "{ours:?} {mean} {deviation}"
            );
        }
        jumps += ours.len() - 1;
        several += usize::from(ours.len() > 1);
    }
    // The comparison is of rows that jump and of rows that do not.
    assert!(jumps > 300 && several > 200 && several < rows.len() - 100, "{jumps} {several}");
}

/// Of so many rows the share with a change, and with one that two runs on each side confirm.
fn false_alarms(noise: Noise, runs: usize, rows: usize) -> (f64, f64) {
    let mut dice = Dice::new(runs as u64);
    let (mut any, mut confirmed) = (0, 0);
    for _ in 0..rows {
        let found = groups(&noise.draw(runs, &mut dice));
        any += usize::from(found.len() > 1);
        confirmed +=
            usize::from(found.windows(2).any(|pair| pair.iter().all(|group| group.count >= CONFIRMED)));
    }
    (any as f64 / rows as f64, confirmed as f64 / rows as f64)
}

/// How often a step of so many scatters, half way along, is seen within three runs of where it is.
fn seen(scatter: f64, steps: f64, runs: usize, rows: usize) -> f64 {
    let mut dice = Dice::new(7 + runs as u64);
    let is_seen = |dice: &mut Dice| {
        let mut row = Noise::Normal(scatter).draw(runs, dice);
        row[runs / 2..].iter_mut().for_each(|value| *value *= (-scatter * steps).exp());
        groups(&row)[1..].iter().any(|group| group.first.abs_diff(runs / 2) <= 3)
    };
    (0..rows).filter(|_| is_seen(&mut dice)).count() as f64 / rows as f64
}

/// The figures of docs/history.md. `cargo test -p weir-methods --test tests history:: -- --nocapture` prints them.
#[test]
fn how_often_a_jump_is_seen_where_nothing_changed_is_as_stated() {
    for (noise, any, confirmed) in [
        (Noise::Normal(0.01), 0.01, 0.01),
        (Noise::Normal(0.04), 0.05, 0.02),
        (Noise::Normal(0.07), 0.08, 0.02),
        (Noise::Normal(0.16), 0.25, 0.05),
        (Noise::Normal(0.28), 0.65, 0.08),
        (Noise::Disturbed(0.04), 0.95, 0.16),
        (Noise::Wandering(0.04), 0.40, 0.40),
    ] {
        let found = [10, 20, 50, 100].map(|runs| false_alarms(noise, runs, 400));
        let line: Vec<String> =
            found.iter().map(|(any, sure)| format!("{:.1} % ({:.1})", 100.0 * any, 100.0 * sure)).collect();
        println!("{noise:?}: {}", line.join(" | "));
        assert!(found.iter().all(|found| found.0 <= any && found.1 <= confirmed), "{noise:?}: {found:?}");
    }
    for steps in [1.0, 2.0, 3.0, 4.0, 6.0] {
        let found = [10, 20, 50, 100].map(|runs| seen(0.04, steps, runs, 400));
        let line = found.map(|share| format!("{:.0} %", 100.0 * share));
        println!("a step of {steps} scatters: {}", line.join(" | "));
        assert!(steps < 4.0 || found[1] > 0.9, "{found:?}");
    }
}
