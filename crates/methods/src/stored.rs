//! Which of a point's stored trials stand behind which of its results.
//!
//! Trials that were superseded have no part in anything. A point measured several times holds the
//! results of each time one after the other, and its trials likewise.

use weir_trial::run::{MrrResult, Point, PointResult, Purpose, StoredTrial, ThroughputResult};

/// One throughput search as stored.
#[derive(Clone, Debug, Default)]
pub struct StoredSearch<'a> {
    /// Its answers, one a goal; none where the search was cut off.
    pub results: Vec<&'a PointResult>,
    /// Its trials in order, the warm-up included.
    pub trials: Vec<&'a StoredTrial>,
}

/// The trials that count, in order.
fn counting(point: &Point) -> Vec<&StoredTrial> {
    point.trials.iter().filter(|trial| !trial.superseded).collect()
}

/// The trials of searches, each search's warm-up before it.
fn search_trials(point: &Point) -> Vec<&StoredTrial> {
    let trials = counting(point);
    let leads_to_search = |place: usize| {
        trials[place + 1..].iter().find(|trial| trial.purpose != Purpose::WarmUp).map(|trial| trial.purpose)
            == Some(Purpose::Search)
    };
    let of_search = |(place, trial): (usize, &&StoredTrial)| match trial.purpose {
        Purpose::Search => true,
        Purpose::WarmUp => leads_to_search(place),
        _ => false,
    };
    trials.iter().enumerate().filter(|(place, trial)| of_search((*place, trial))).map(|(_, t)| *t).collect()
}

/// The searches of a point. Of one that was cut off the trials stand last, without results.
pub fn searches(point: &Point) -> Vec<StoredSearch<'_>> {
    let mut found: Vec<StoredSearch<'_>> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for result in &point.results {
        let PointResult::Throughput(ThroughputResult { goal, .. }) = result else { continue };
        // A goal named again begins the next repeat's search.
        if found.is_empty() || names.contains(&goal.as_str()) {
            names.clear();
            found.push(StoredSearch::default());
        }
        names.push(goal);
        if let Some(search) = found.last_mut() {
            search.results.push(result);
        }
    }
    let mut trials = search_trials(point).into_iter();
    for search in &mut found {
        if let Some(PointResult::Throughput(ThroughputResult { trials: count, .. })) = search.results.first()
        {
            search.trials = trials.by_ref().take(*count as usize).collect();
        }
    }
    let rest: Vec<_> = trials.collect();
    if !rest.is_empty() {
        found.push(StoredSearch { results: Vec::new(), trials: rest });
    }
    found
}

/// The forwarded rates of a point: each result with its trials.
pub fn forwarded_rates(point: &Point) -> Vec<(&MrrResult, Vec<&StoredTrial>)> {
    let mut trials = counting(point).into_iter().filter(|trial| trial.purpose == Purpose::Mrr);
    let mut found = Vec::new();
    for result in &point.results {
        if let PointResult::Mrr(result) = result {
            found.push((result, trials.by_ref().take(result.rates.len()).collect()));
        }
    }
    found
}
