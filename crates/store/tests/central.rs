//! Accounts, what they push, who sees it, and copies of whole stores.

use crate::common::{Place, START_MS, begin, key, on_both, trial};
use crate::conformance::run as any_run;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::path::Path;
use weir_store::accounts::{Amount, MOST_TOKENS, Scope};
use weir_store::{
    Imported, Origin, Outcome, Push, RunId, Selector, Store, StoreError, View, Viewer, Visibility,
};
use weir_trial::run::{Run, RunState};

on_both!(
    a_token_opens_its_account_until_it_is_revoked_or_the_account_closed,
    accounts_are_named_once_and_plainly,
    a_run_is_pushed_once_and_seen_by_whom_its_account_says,
    what_a_viewer_may_not_see_is_not_found_by_anything,
    a_quota_holds_whatever_comes_at_once,
    one_run_pushed_by_two_accounts_at_once_is_ones,
    a_run_that_went_on_is_pushed_again_and_stays_as_private_as_it_was,
    a_copy_has_every_number_and_goes_on,
);

const LICENCE: &str = "CC BY 4.0";

fn origin(run: &Run) -> Origin {
    Origin {
        name: run.name.clone(),
        address: "sha256:00".to_owned(),
        signature: None,
        imported_ms: 7,
        differences: 0,
    }
}

const MUCH: Amount = Amount { bytes: 1 << 40, runs: 1000 };

/// The number of a new account.
fn account(store: &mut Store, name: &str, quota: Amount) -> i64 {
    let token = store.add_account(name, quota, 1).unwrap();
    store.bearer(&token.text()).unwrap().unwrap().account
}

fn push(account: i64, visibility: Option<Visibility>) -> Push<'static> {
    Push { account, visibility, licence: LICENCE, bytes: 1000, now_ms: 5 }
}

/// A run with so many points, as another database had it.
fn measured(number: u32, name: &str, points: u32) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(Some(&folder.path().join("weir.db"))).unwrap();
    let run = begin(&mut store, Some(name));
    for index in 0..points {
        let point = store.add_point(run, index, &key(64)).unwrap();
        store.add_trial(point, &trial(0)).unwrap();
        store.finish_point(point, Outcome::default()).unwrap();
    }
    store.end_run(run, RunState::Interrupted, START_MS + 5).unwrap();
    let uuid = format!("01938f2e-0000-7000-8000-{number:012}");
    Run { id: 0, uuid, ..store.load(run).unwrap() }
}

fn a_token_opens_its_account_until_it_is_revoked_or_the_account_closed(place: &Place) {
    let mut store = place.open();
    let first = store.add_account("lab", MUCH, 10).unwrap();
    let reader = store.add_token("lab", Scope::Read, 11).unwrap();
    let bearer = store.bearer(&first.text()).unwrap().unwrap();
    assert_eq!((bearer.name.as_str(), bearer.scope, bearer.key.as_str()), ("lab", Scope::Push, first.key()));
    assert_eq!(store.bearer(&reader.text()).unwrap().unwrap().scope, Scope::Read);
    // One digit of the secret is another.
    let mut wrong = first.text();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    let mixed = format!("weir_{}_{}", first.key(), reader.text().rsplit('_').next().unwrap());
    for token in [wrong.as_str(), &mixed, "", "weir_", &first.text().replace("weir", "wier")] {
        assert_eq!(store.bearer(token).unwrap(), None, "{token}");
    }
    store.used(&bearer, 60_000).unwrap();
    let bearer = store.bearer(&first.text()).unwrap().unwrap();
    store.used(&bearer, 60_001).unwrap();
    let token = |store: &Store, place: usize| store.accounts().unwrap()[0].tokens[place].clone();
    assert_eq!((token(&store, 0).created_ms, token(&store, 0).used_ms), (10, Some(60_000)), "to the minute");
    assert_eq!(store.revoke("lab", Some(reader.key()), 20).unwrap(), 1);
    assert_eq!(store.bearer(&reader.text()).unwrap(), None);
    assert_eq!(store.bearer_by_key(reader.key()).unwrap(), None);
    assert!(store.bearer_by_key(first.key()).unwrap().is_some());
    assert_eq!(store.revoke("lab", Some(reader.key()), 30).unwrap(), 1, "once more changes nothing");
    assert_eq!(token(&store, 1).revoked_ms, Some(20));
    assert_eq!(store.revoke("lab", None, 40).unwrap(), 1);
    assert_eq!(store.bearer(&first.text()).unwrap(), None);
    let closed = store.add_token("lab", Scope::Push, 50).unwrap_err().to_string();
    assert!(closed.contains("it was closed"), "{closed}");
    let raw = format!("{:?}", store.accounts().unwrap());
    assert!(!raw.contains(first.text().rsplit('_').next().unwrap()), "no secret is shown");
}

fn accounts_are_named_once_and_plainly(place: &Place) {
    let mut store = place.open();
    store.add_account("lab", MUCH, 1).unwrap();
    for name in ["lab", "", "a b", "<script>", "-x"] {
        let error = store.add_account(name, MUCH, 1).unwrap_err();
        assert!(matches!(error, StoreError::BadAccount { .. }) && error.is_bad_use(), "{name}: {error}");
    }
    assert_eq!(store.accounts().unwrap().len(), 1);
    for error in [
        store.add_token("nobody", Scope::Push, 1).unwrap_err(),
        store.set_quota("nobody", MUCH).unwrap_err(),
        store.revoke("nobody", None, 1).unwrap_err(),
    ] {
        assert!(error.to_string().contains("weir account list"), "{error}");
    }
    assert!(store.revoke("lab", Some("0000"), 1).unwrap_err().to_string().contains("no such token"));
    for _ in 1..MOST_TOKENS {
        store.add_token("lab", Scope::Read, 1).unwrap();
    }
    assert!(store.add_token("lab", Scope::Read, 1).is_err());
    store.set_quota("lab", Amount { bytes: u64::MAX, runs: 3 }).unwrap();
    let lab = &store.accounts().unwrap()[0];
    assert_eq!((lab.quota.runs, lab.used, lab.tokens.len()), (3, Amount::default(), MOST_TOKENS));
}

fn a_run_is_pushed_once_and_seen_by_whom_its_account_says(place: &Place) {
    let mut store = place.open();
    let (mine, other) = (account(&mut store, "mine", MUCH), account(&mut store, "other", MUCH));
    let run = measured(1, "otter", 2);
    let imported = store.push(&run, &origin(&run), &push(mine, None)).unwrap();
    let id = imported.run();
    assert_eq!(imported, Imported::Added(id));
    let share = store.share(id).unwrap().unwrap();
    assert_eq!(
        (share.by.as_str(), share.visibility, share.licence.as_str()),
        ("mine", Visibility::Private, LICENCE)
    );
    let uuid = Selector::Name(run.uuid.clone());
    let found = |store: &Store, viewer| store.view(viewer).find(&uuid).is_ok();
    let seen = |store: &Store| {
        [Viewer::Anybody, Viewer::Account(other), Viewer::Account(mine)].map(|viewer| found(store, viewer))
    };
    assert_eq!(seen(&store), [false, false, true]);
    // Another account that has the bundle is told that it is there, and no more.
    let refused = store.push(&run, &origin(&run), &push(other, Some(Visibility::Public))).unwrap_err();
    assert!(matches!(refused, StoreError::OthersRun { .. }), "{refused}");
    assert_eq!(seen(&store), [false, false, true]);
    assert_eq!(store.push(&run, &origin(&run), &push(mine, None)).unwrap(), Imported::Known(id));
    for (visibility, expected) in [
        (Visibility::Unlisted, [true, true, true]),
        (Visibility::Private, [false, false, true]),
        (Visibility::Public, [true, true, true]),
    ] {
        assert!(!store.set_visibility(id, other, visibility).unwrap(), "it is not theirs");
        assert_eq!(
            store.push(&run, &origin(&run), &push(mine, Some(visibility))).unwrap(),
            Imported::Known(id)
        );
        assert_eq!(seen(&store), expected, "{visibility}");
    }
    assert_eq!(
        store.push(&run, &origin(&run), &push(other, None)).unwrap(),
        Imported::Known(id),
        "it is public, and the same"
    );
    let changed = Run { plan: "# another\n".to_owned(), ..run.clone() };
    assert!(matches!(
        store.push(&changed, &origin(&run), &push(mine, None)),
        Err(StoreError::OtherRun { .. })
    ));
    assert!(matches!(
        store.push(&changed, &origin(&run), &push(other, None)),
        Err(StoreError::OthersRun { .. })
    ));
    assert!(!store.remove_shared(id, other).unwrap());
    assert!(store.remove_shared(id, mine).unwrap());
    assert_eq!(seen(&store), [false; 3]);
    assert_eq!(store.accounts().unwrap()[0].used, Amount::default());
}

fn what_a_viewer_may_not_see_is_not_found_by_anything(place: &Place) {
    let mut store = place.open();
    let (mine, other) = (account(&mut store, "mine", MUCH), account(&mut store, "other", MUCH));
    let here = begin(&mut store, Some("here"));
    let mut pushed = |number, name: &str, visibility| {
        let run = measured(number, name, 1);
        let id = store.push(&run, &origin(&run), &push(mine, Some(visibility))).unwrap().run();
        (id, run)
    };
    let (public, _) = pushed(1, "public-run", Visibility::Public);
    let (unlisted, unlisted_run) = pushed(2, "unlisted-run", Visibility::Unlisted);
    let (private, private_run) = pushed(3, "private-run", Visibility::Private);
    let find = |view: &View<'_>, text: &str| view.find(&text.parse().unwrap()).ok();
    for viewer in [Viewer::Anybody, Viewer::Account(other)] {
        let view = store.view(viewer);
        assert_eq!(find(&view, "@last"), Some(public), "private and unlisted ones came later");
        assert_eq!(find(&view, "@last~1"), Some(here));
        assert_eq!(find(&view, "@last~2"), None);
        assert_eq!(find(&view, "public-run"), Some(public));
        assert_eq!(find(&view, &unlisted_run.uuid), Some(unlisted), "by its address alone");
        for text in [
            "unlisted-run",
            "unlisted",
            "private-run",
            "p",
            "u",
            &unlisted.0.to_string(),
            &private.0.to_string(),
            &private_run.uuid,
            &private_run.uuid[..30],
            &unlisted_run.uuid[..35],
        ] {
            let found = find(&view, text);
            assert!(found.is_none() || found == Some(public) && text == "p", "{text}: {found:?}");
        }
        let error = view.find(&Selector::Name(private_run.uuid.clone())).unwrap_err();
        assert!(
            matches!(error, StoreError::NoSuchRun { runs: 2, .. }),
            "as of one that is not there: {error}"
        );
        assert!(view.load(unlisted).is_ok() && view.outline(unlisted).unwrap().is_some());
        assert!(view.load(private).is_err() && view.outline(private).unwrap().is_none());
        assert!(
            view.facts(private).is_err() && view.origin(private).is_err() && view.share(private).is_err()
        );
        assert!(view.load_points(private, &|_| true).is_err());
    }
    let view = store.view(Viewer::Account(mine));
    assert_eq!(find(&view, "@last"), Some(private));
    assert_eq!((find(&view, "private"), find(&view, "unlisted-run")), (Some(private), Some(unlisted)));
    assert_eq!(view.load(private).unwrap().points, private_run.points);
    let lists = |viewer: Viewer| {
        let listed = store.outline().unwrap().into_iter().filter(|run| viewer.lists(run.share.as_ref()));
        listed.map(|run| RunId(run.id)).collect::<Vec<_>>()
    };
    assert_eq!(lists(Viewer::Anybody), [public, here]);
    assert_eq!(lists(Viewer::Account(mine)), [private, unlisted, public, here]);
}

/// Pushes at the same time, each over a connection of its own; how many were taken.
fn at_once(place: &Place, account: i64, runs: &[Run]) -> usize {
    std::thread::scope(|scope| {
        let one = |run| {
            move || match place.open().push(run, &origin(run), &push(account, None)) {
                Ok(_) => 1,
                Err(StoreError::Quota { .. }) => 0,
                Err(error) => panic!("{error}"),
            }
        };
        let all: Vec<_> = runs.iter().map(|run| scope.spawn(one(run))).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    })
}

fn a_quota_holds_whatever_comes_at_once(place: &Place) {
    let mut store = place.open();
    let few = account(&mut store, "few", Amount { bytes: 1 << 40, runs: 3 });
    let small = account(&mut store, "small", Amount { bytes: 2999, runs: 100 });
    let runs: Vec<Run> = (0..8).map(|number| measured(number, "otter", 1)).collect();
    assert_eq!(at_once(place, few, &runs[..4]), 3, "runs");
    assert_eq!(at_once(place, small, &runs[4..]), 2, "bytes: each has 1000");
    let used =
        |store: &Store| store.accounts().unwrap().iter().map(|account| account.used.runs).collect::<Vec<_>>();
    assert_eq!(used(&store), [3, 2]);
    let error = store.has_room(small, 1000).unwrap_err().to_string();
    assert!(error.contains("2000 bytes") && error.contains("2999"), "{error}");
    assert!(store.has_room(small, 999).is_ok() && store.has_room(few, 0).is_err());
    // What is there is there, however full.
    let there = store.runs().unwrap();
    let known = runs[..4].iter().find(|run| there.iter().any(|known| known.uuid == run.uuid)).unwrap();
    assert!(matches!(store.push(known, &origin(known), &push(few, None)), Ok(Imported::Known(_))));
    store.revoke("few", None, 1).unwrap();
    let late = store.push(&measured(90, "late", 1), &origin(&runs[0]), &push(few, None)).unwrap_err();
    assert!(late.to_string().contains("closed"), "{late}");
    assert_eq!(store.runs().unwrap().len(), 5, "nothing of what was refused is there");
}

fn one_run_pushed_by_two_accounts_at_once_is_ones(place: &Place) {
    let mut store = place.open();
    let accounts = ["a", "b", "c"].map(|name| account(&mut store, name, MUCH));
    for number in 0..4 {
        let run = measured(number, "otter", 1);
        let taken: usize = std::thread::scope(|scope| {
            let one = |account| {
                let run = &run;
                move || match place.open().push(run, &origin(run), &push(account, Some(Visibility::Private)))
                {
                    Ok(imported) => {
                        assert!(matches!(imported, Imported::Added(_)));
                        1
                    }
                    Err(StoreError::OthersRun { .. }) => 0,
                    Err(error) => panic!("{error}"),
                }
            };
            let all: Vec<_> = accounts.into_iter().map(|account| scope.spawn(one(account))).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(taken, 1);
    }
    assert_eq!(store.runs().unwrap().len(), 4);
}

fn a_run_that_went_on_is_pushed_again_and_stays_as_private_as_it_was(place: &Place) {
    let mut store = place.open();
    let mine = account(&mut store, "mine", Amount { runs: 1, ..MUCH });
    let run = measured(1, "otter", 3);
    let earlier = Run { points: run.points[..2].to_vec(), ..run.clone() };
    store.push(&earlier, &origin(&run), &push(mine, Some(Visibility::Unlisted))).unwrap();
    let larger = Push { bytes: 3000, ..push(mine, None) };
    let imported = store.push(&run, &origin(&run), &larger).unwrap();
    assert!(matches!(imported, Imported::Continued(_)), "{imported:?}");
    let share = store.share(imported.run()).unwrap().unwrap();
    assert_eq!((share.visibility, share.bytes), (Visibility::Unlisted, 3000));
    assert!(matches!(store.push(&earlier, &origin(&run), &push(mine, None)), Ok(Imported::Older(_))));
    // Whoever has the database imports what goes on further: it is as private as before.
    let mut further = run.clone();
    further.points.push(weir_trial::run::Point { index: 3, ..run.points[0].clone() });
    store.set_visibility(imported.run(), mine, Visibility::Private).unwrap();
    let imported = store.import(&further, &origin(&run)).unwrap();
    assert!(matches!(imported, Imported::Continued(_)), "{imported:?}");
    assert_eq!(store.share(imported.run()).unwrap().unwrap().visibility, Visibility::Private);
}

/// All rows of all tables, as text.
fn dump(store: &Store) -> Vec<String> {
    let mut all: Vec<String> = store.outline().unwrap().iter().map(|run| format!("{run:?}")).collect();
    all.extend(store.runs().unwrap().iter().map(|run| format!("{run:?}")));
    for run in store.outline().unwrap() {
        all.push(format!("{:?}", store.load(RunId(run.id)).unwrap()));
        all.push(format!("{:?}", store.origin(RunId(run.id)).unwrap()));
    }
    all.extend(store.accounts().unwrap().iter().map(|account| format!("{account:?}")));
    all
}

fn a_copy_has_every_number_and_goes_on(place: &Place) {
    let mut store = place.open();
    let token = store.add_account("lab", MUCH, 3).unwrap();
    let lab = store.bearer(&token.text()).unwrap().unwrap().account;
    let mut runner = TestRunner::deterministic();
    for number in 0..6_u32 {
        let run = any_run().new_tree(&mut runner).unwrap().current();
        let run = Run { uuid: format!("01938f2e-0000-7000-8000-{number:012}"), ..run };
        if number % 2 == 0 {
            store.import(&run, &origin(&run)).unwrap();
        } else {
            store.push(&run, &origin(&run), &push(lab, Some(Visibility::ALL[number as usize % 3]))).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.db");
    let mut backup = Store::open(Some(&file)).unwrap();
    let copied = store.copy_into(&mut backup).unwrap();
    assert_eq!((copied.runs, copied.accounts), (6, 1));
    assert_eq!(dump(&backup), dump(&store));
    drop(backup);
    // Back again, into the same kind of database, which goes on where the first would.
    let another = place.another();
    let mut restored = another.open();
    let source = Store::open_copy_of(&file).unwrap();
    assert_eq!(source.copy_into(&mut restored).unwrap(), copied);
    assert_eq!(dump(&restored), dump(&store));
    assert!(restored.bearer(&token.text()).unwrap().is_some());
    let next = begin(&mut restored, Some("next"));
    assert!(store.outline().unwrap().iter().all(|run| run.id < next.0));
    restored.add_token("lab", Scope::Read, 9).unwrap();
    let run = measured(77, "new", 2);
    restored.push(&run, &origin(&run), &push(lab, None)).unwrap();
    // Only into what holds nothing, and nothing is changed by having tried.
    let before = dump(&restored);
    let error = source.copy_into(&mut restored).unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }) && error.is_bad_use(), "{error}");
    assert_eq!(dump(&restored), before);
    assert!(Store::open_copy_of(Path::new("/nowhere/weir.db")).is_err());
}
