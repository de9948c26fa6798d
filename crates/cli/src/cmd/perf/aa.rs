//! `weir perf --aa`: devices against themselves.

use super::super::print;
use super::runs::Runs;
use super::{Args, default_name, effort};
use anyhow::bail;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_campaign::now_ms;
use weir_campaign::perf::{Aa, Effort, obstacle};
use weir_store::Store;
use weir_units::Spread;

/// Starts of a comparison where none are asked for. Not until an effect is seen: a fixed number is what most
/// comparisons are made of, and the rule's own cost is simulated.
const STARTS: u32 = 5;

pub(super) fn run(args: &Args, comparisons: u32, interrupted: &Arc<AtomicBool>) -> anyhow::Result<ExitCode> {
    let effort =
        Effort { repeats: args.repeats.unwrap_or(STARTS), until: None, ..effort(args, Effort::QUICK) };
    let store = Store::open(args.db.as_deref()).map_err(super::super::store_error)?;
    let name = args.name.clone().unwrap_or_else(|| default_name(now_ms()));
    let (db, kept) = (store.named().to_owned(), file(&store, &name));
    drop(store); // the comparisons' own processes write to it
    let flag = Arc::clone(interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))?;
    let huge_pages = args.huge_pages.into();
    let folder = kept.parent().unwrap_or(Path::new(""));
    let runs = Runs { db: &db, folder, name: &name, effort, huge_pages, base: None, peers: &[] };
    let mut aa = Aa::new(name.clone(), super::super::WEIR.to_owned(), effort, super::super::environment());
    let numbers = (0..comparisons).take_while(|_| !interrupted.load(Ordering::Relaxed));
    let in_the_way = unless(
        || obstacle(huge_pages),
        numbers,
        |number| {
            let plan = aa.plan(number, huge_pages);
            eprintln!("[{}/{comparisons}] {}", number + 1, plan.suffix);
            match runs.bench(&plan)? {
                Ok(run) => aa.note(number, &run),
                Err(why) => aa.remark(why),
            }
            Ok(std::fs::write(&kept, serde_json::to_string_pretty(&aa)?)?)
        },
    )?;
    if let Some((0, why)) = in_the_way {
        bail!("no comparison was made: {why}");
    }
    if let Some((made, why)) = in_the_way {
        bail!("{made} of {comparisons} comparisons were made, kept in {}: {why}", kept.display());
    }
    let (ranked, ..) = aa.total();
    print(&if args.json { format!("{}\n", serde_json::to_string_pretty(&aa)?) } else { text(&aa) })?;
    let fine = ranked > 0 && !interrupted.load(Ordering::Relaxed);
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes the comparisons, unless something of the machine comes in the way, which would be in the way of all the
/// rest: how many were made then, and what it is.
fn unless(
    obstacle: impl Fn() -> Option<String>,
    numbers: impl Iterator<Item = u32>,
    mut make: impl FnMut(u32) -> anyhow::Result<()>,
) -> anyhow::Result<Option<(u32, String)>> {
    for number in numbers {
        if let Some(why) = obstacle() {
            return Ok(Some((number, why)));
        }
        make(number)?;
    }
    Ok(None)
}

/// Where the counts are kept.
fn file(store: &Store, name: &str) -> PathBuf {
    store.beside(&format!("{name}.aa.json"))
}

/// Comparisons that were made before, as they are printed; nothing where the file or name is not of such.
pub(super) fn stored(args: &Args, stored: &Path) -> anyhow::Result<Option<String>> {
    let path = if stored.is_file() {
        stored.to_owned()
    } else {
        let Ok(store) = Store::open_existing(args.db.as_deref()) else { return Ok(None) };
        file(&store, &stored.to_string_lossy())
    };
    let Ok(bytes) = std::fs::read_to_string(&path) else { return Ok(None) };
    let Ok(aa) = serde_json::from_str::<Aa>(&bytes) else { return Ok(None) };
    Ok(Some(if args.json { format!("{}\n", serde_json::to_string_pretty(&aa)?) } else { text(&aa) }))
}

/// The counts by case, and what they come to.
fn text(aa: &Aa) -> String {
    let mut text = format!(
        "{}: {} starts of each side, {} trials of {} at each\n\n",
        aa.name, aa.effort.repeats, aa.effort.trials, aa.effort.duration
    );
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let row = |(case, count): &(weir_campaign::perf::AaCase, weir_campaign::perf::AaCount)| {
        let visible =
            Spread::of(&count.visible).map_or_else(|| "–".to_owned(), |found| percent(found.median));
        let counts = [count.made, count.ranked, count.false_winners].map(|count| count.to_string());
        [vec![case.device.clone(), case.wiring.clone()], counts.to_vec(), vec![visible]].concat()
    };
    let headings = ["device", "wiring", "made", "ranked", "false winners", "visible, median"];
    text += &super::text::plain(&headings, &aa.cases.iter().map(row).collect::<Vec<_>>());
    let (ranked, winners, (low, high)) = aa.total();
    let _ = writeln!(
        text,
        "\n{winners} of {ranked} ranked comparisons of equals named a winner: 95 % confidence interval of the share \
         {} to {}; 5.0 % is what is stated.\nVisible: the smallest effect seen in four of five repetitions.",
        percent(low),
        percent(high),
    );
    for remark in &aa.remarks {
        let _ = writeln!(text, "{remark}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Comparisons made, and what ended them, where pages are gone after so many.
    fn made(pages_for: u32) -> (u32, Option<(u32, String)>) {
        let made = Cell::new(0);
        let obstacle = || (made.get() >= pages_for).then(|| "0 huge pages are free".to_owned());
        let make = |number| {
            made.set(number + 1);
            Ok(())
        };
        let ended = unless(obstacle, 0..100, make).unwrap();
        (made.get(), ended)
    }

    #[test]
    fn what_is_in_the_way_of_all_comparisons_ends_them_at_once() {
        let why = || "0 huge pages are free".to_owned();
        assert_eq!(made(0), (0, Some((0, why()))));
        assert_eq!(made(7), (7, Some((7, why()))));
        assert_eq!(made(100), (100, None));
    }
}
