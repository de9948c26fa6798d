//! What a page holds, read from its text: nothing fetched, nothing hidden, nothing unescaped.

mod common;

use weir_report::{Exhibit, Form, PageOptions, render};
use weir_trial::run::{
    BackToBackResult, ConnectionsResult, CurveResult, Estimate, FlowModsResult, FrameLossResult,
    LatencyResult, MrrResult, Point, PointResult, Run, RunState, SoakResult, ThroughputResult,
};
use weir_trial::{Fault, Limit, Limiter, PacketCheck, Passed, StageReading, StageTaps};
use weir_units::{Nanos, Pps, Ratio, Spread};

fn page(runs: &[Run]) -> String {
    render(runs, &PageOptions::default())
}

fn otter() -> Run {
    common::run("2026-11-21-otter", 1, 1.0)
}

fn limit_of(result: &mut PointResult) -> Option<&mut Limit> {
    match result {
        PointResult::Throughput(ThroughputResult { limit, .. })
        | PointResult::Mrr(MrrResult { limit, .. }) => limit.as_mut(),
        _ => None,
    }
}

fn first_point(run: &mut Run) -> &mut Point {
    &mut run.points[0]
}

#[test]
fn a_page_fetches_nothing() {
    let page = page(&[otter()]);
    for scheme in ["http:", "https:", "//cdn", "@import", "<link", "<img", "<iframe", " src="] {
        assert!(!page.contains(scheme), "the page holds `{scheme}`");
    }
    let targets = page.match_indices("url(").map(|(at, _)| &page[at..at + 5]);
    assert!(targets.into_iter().all(|target| target == "url(#"), "a style refers to something outside");
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn texts_of_a_run_cannot_become_markup() {
    let hostile = "<script>alert(1)</script>\"'><img onerror=alert(2)>&amp;";
    let mut run = Run { name: hostile.into(), plan: hostile.into(), weir: hostile.into(), ..otter() };
    let curves = common::curves("2026-11-21-heron", 2);
    run.points.extend(curves.points);
    run.self_checks = curves.self_checks;
    for check in &mut run.self_checks {
        (check.wiring, check.size, check.loop_of) = (hostile.into(), hostile.into(), hostile.into());
    }
    for limit in run.points.iter_mut().flat_map(|point| &mut point.results).filter_map(limit_of) {
        limit.why = hostile.into();
    }
    run.environment.insert(hostile.into(), hostile.into());
    for point in &mut run.points {
        for text in [&mut point.key.dut, &mut point.key.wiring, &mut point.key.trace, &mut point.key.size] {
            *text = hostile.into();
        }
        point.dut_version = Some(hostile.into());
        for result in &mut point.results {
            match result {
                PointResult::Throughput(ThroughputResult { goal, irregular, .. }) => {
                    *goal = hostile.into();
                    *irregular = Some(hostile.into());
                }
                PointResult::Latency(LatencyResult { label, .. }) => *label = hostile.into(),
                PointResult::FlowMods(FlowModsResult { label, .. }) => *label = hostile.into(),
                PointResult::Soak(SoakResult { label, .. }) => *label = hostile.into(),
                PointResult::BackToBack(BackToBackResult { goal, invalid, .. }) => {
                    *goal = hostile.into();
                    *invalid = Some(hostile.into());
                }
                PointResult::Connections(ConnectionsResult { limit, .. }) => {
                    *limit = Some(Limit { by: Limiter::Tester, why: hostile.into() });
                }
                PointResult::Mrr(_) | PointResult::LatencyCurve(_) | PointResult::FrameLoss(_) => {}
            }
        }
    }
    first_point(&mut run).error = Some(hostile.into());
    let options = PageOptions { title: Some(hostile.into()), made_ms: Some(0), ..PageOptions::default() };
    let page = render(&[run], &options);
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "a hostile name became an element");
    assert_eq!(page.matches("<script").count(), 1, "only the page's own script");
    let attributes =
        page.split('<').filter(|tag| tag.contains("onerror=") && tag.find("onerror=") < tag.find('>'));
    let broken: Vec<_> = attributes.filter(|tag| !tag.contains("&quot;")).collect();
    assert!(broken.is_empty(), "a hostile name left its attribute: {broken:?}");
}

#[test]
fn every_throughput_stands_with_bounds_and_trials() {
    let run = otter();
    let page = page(std::slice::from_ref(&run));
    let mut seen = 0;
    for point in &run.points {
        for result in &point.results {
            let PointResult::Throughput(ThroughputResult {
                throughput: Some(rate),
                lower: Some(lower),
                trials,
                ..
            }) = result
            else {
                continue;
            };
            for value in [rate, lower] {
                let shown = format!("{:.3}", value.0 / 1e6);
                assert!(
                    page.contains(&format!("<span class=\"u u-mpps\">{shown}</span>")),
                    "{shown} is missing"
                );
            }
            assert!(page.contains(&format!("{trials} trials, the last of 250 ms, under 60")));
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn what_failed_is_shown_with_its_error() {
    let page = page(&[otter()]);
    assert!(page.contains("2 points were not measured"));
    assert!(page.contains("testpmd would not start: &lt;no free memory segments&gt;"));
    assert!(page.contains("class=\"mark failed\""), "a failed point has its cross in the plot");
    assert!(page.contains("irregular: the greatest load passed"));
    assert!(page.contains("the tester was late with"));
}

#[test]
fn a_function_where_everything_failed_still_has_its_errors() {
    let mut run = otter();
    for point in &mut run.points {
        point.results.clear();
        point.trials.clear();
        point.error = Some("the device needs huge pages".into());
    }
    let page = page(&[run]);
    assert!(page.contains("72 points were not measured"));
    assert!(page.contains("No valid rate was found: the device needs huge pages."));
    assert!(page.contains("not measured: the device needs huge pages"), "the table has its row");
}

#[test]
fn wrong_packets_are_named_with_their_example_and_right_ones_are_counted() {
    assert!(!page(&[otter()]).contains("id=\"packets\""), "nothing was compared");
    let mut run = otter();
    let right = PacketCheck { compared: 20_576, ..PacketCheck::default() };
    first_point(&mut run).packets = Some(right.clone());
    let page_right = page(&[run.clone()]);
    assert!(page_right.contains("No packet was wrong.") && page_right.contains("id=\"packets-table\""));

    let mut wrong = right;
    wrong.note(Fault::Ttl, || "UDP <b>: time to live 64, must be 63".to_owned());
    first_point(&mut run).trials[0].result.packets = Some(wrong);
    let page_wrong = page(&[run]);
    assert!(page_wrong.contains("Wrong packets: the rates of these points"));
    assert!(page_wrong.contains("1 wrong time to live, for one UDP &lt;b&gt;: time to live 64, must be 63"));
    assert!(!page_wrong.contains("No packet was wrong."));
}

#[test]
fn runs_cut_off_or_empty_say_so() {
    let empty = page(&[common::empty()]);
    assert!(empty.contains("Nothing was measured") && empty.contains("weir bench --resume"));
    assert!(page(&[]).contains("No runs"));
    let mut cut = Run { state: RunState::Interrupted, ended_ms: None, ..otter() };
    cut.points.truncate(3);
    let last = &mut cut.points[2];
    last.finished = false;
    last.results.clear();
    let page = page(&[cut]);
    assert!(page.contains("was interrupted"));
    assert!(page.contains("cut off before its measurement came to an end"));
}

#[test]
fn trials_of_a_cut_off_attempt_decide_nothing() {
    let mut run = otter();
    run.points.truncate(1);
    let plain = page(&[run.clone()]);
    let point = first_point(&mut run);
    let mut ghost = point.trials[0].clone();
    ghost.superseded = true;
    ghost.result.directions[0].foreign = 77_777;
    point.trials.push(ghost);
    let count = point.trials.len();
    let trials = format!(", {count} trials");
    let with_ghost = page(&[run]).replace(&trials, &format!(", {} trials", count - 1));
    assert!(with_ghost == plain, "only the count of trials may differ");
}

#[test]
fn a_damaged_histogram_is_named_and_its_percentiles_stay() {
    let mut run = otter();
    let trial = first_point(&mut run)
        .trials
        .iter_mut()
        .rfind(|trial| trial.purpose == weir_trial::run::Purpose::Latency);
    trial.unwrap().result.latency.as_mut().unwrap().histogram = "damaged".into();
    let page = page(&[run]);
    assert!(page.contains("nf · vhost · 90% ndr: stored latency histogram is damaged"));
}

#[test]
fn several_runs_share_plots_after_the_difference_of_their_environments() {
    let page = page(&[otter(), common::run("2026-11-21-heron", 2, 1.1)]);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("`{text}` is missing"));
    assert!(place("Where the runs' environments differ") < place("What was found"));
    assert!(page.contains("cpu.governor") && page.contains("powersave"));
    assert!(page.contains("nf · vhost · 2026-11-21-heron · ndr"));
    assert_eq!(page.matches("id=\"throughput-l2fwd\"").count(), 1);
}

#[test]
fn identifiers_are_unique() {
    let page = page(&[otter(), common::run("2026-11-21-heron", 2, 1.1)]);
    let mut ids: Vec<_> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn numbers_that_are_none_or_not_finite_do_not_spoil_a_page() {
    let mut run = otter();
    run.points.extend(common::curves("2026-11-21-heron", 2).points);
    for (index, result) in run.points.iter_mut().flat_map(|point| &mut point.results).enumerate() {
        match result {
            PointResult::Throughput(ThroughputResult {
                throughput, lower, upper, trial_duration, ..
            }) => {
                (*throughput, *lower, *upper) = match index % 3 {
                    0 => (None, None, Some(Pps(1.0))),
                    1 => (Some(Pps(f64::NAN)), Some(Pps(0.0)), Some(Pps(f64::INFINITY))),
                    _ => (Some(Pps(0.0)), Some(Pps(0.0)), None),
                };
                *trial_duration = Nanos(0);
            }
            PointResult::Mrr(MrrResult { rates, mean, cycles_per_packet, .. }) => {
                rates.clear();
                *mean = Pps(0.0);
                *cycles_per_packet = None;
            }
            PointResult::Latency(LatencyResult { trial, .. }) => *trial = u32::MAX,
            PointResult::LatencyCurve(CurveResult { steps, knee, saturation, .. }) => {
                steps[0].load = Pps(f64::NAN);
                steps[1].trial = u32::MAX;
                (*knee, saturation.upper) = (Some(Pps(f64::NAN)), None);
            }
            PointResult::FrameLoss(FrameLossResult { steps, .. }) => {
                steps[0].share = Ratio(f64::INFINITY);
                steps[1].loss_ratio = Ratio(f64::NAN);
            }
            PointResult::BackToBack(BackToBackResult { bursts, implied, .. }) => {
                (*bursts, *implied) = (None, None)
            }
            PointResult::FlowMods(FlowModsResult { load, pairs, rate, cost, lag, .. }) => {
                pairs.clear();
                (*load, *cost, *lag) = (Pps(f64::NAN), None, None);
                *rate = rate.map(|rate| Spread { mean: f64::INFINITY, ..rate });
            }
            PointResult::Connections(ConnectionsResult { searches, rate, held, .. }) => {
                searches.clear();
                *rate = rate.map(|rate| Spread { mean: f64::NAN, ..rate });
                *held = None;
            }
            PointResult::Soak(SoakResult { found, .. }) => {
                found.trials.truncate(1);
                found.intended = 0;
            }
        }
    }
    let page = page(&[run]);
    let drawn: Vec<_> = page.split(" d=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(drawn.iter().all(|path| !path.contains("NaN") && !path.contains("inf")), "a path has no place");
}

#[test]
fn a_curve_stands_with_its_knee_and_every_load() {
    let run = common::curves("2026-11-21-heron", 2);
    let page = page(std::slice::from_ref(&run));
    let mut knees = 0;
    for result in run.points.iter().flat_map(|point| &point.results) {
        let PointResult::LatencyCurve(CurveResult { steps, knee: Some(knee), .. }) = result else { continue };
        assert!(page.contains(&format!("knee {knee}")), "the knee at {knee} is not drawn");
        for step in steps {
            assert!(page.contains(&format!(" · {} · ", step.load)), "no mark at {}", step.load);
        }
        knees += 1;
    }
    assert_eq!(knees, 4, "two devices at two sizes");
    assert!(page.contains("Kleinrock, 1979"));
}

#[test]
fn bursts_that_are_not_valid_say_why_and_the_others_their_buffer() {
    let run = common::curves("2026-11-21-heron", 2);
    let page = page(std::slice::from_ref(&run));
    assert!(page.contains("not valid: the tester did not reach the line rate of"));
    let corrected = run.points.iter().flat_map(|point| &point.results).find_map(|result| match result {
        PointResult::BackToBack(BackToBackResult { corrected, .. }) => *corrected,
        _ => None,
    });
    let shown = corrected.unwrap().to_string().replace(' ', "\u{a0}");
    assert!(page.contains(&shown), "the buffer of {shown} is missing");
}

#[test]
fn changes_of_flow_entries_are_drawn_with_their_rate_and_how_many_were_in_force_late() {
    let run = common::curves("2026-11-21-heron", 2);
    let page = page(std::slice::from_ref(&run));
    let found = run.points.iter().flat_map(|point| &point.results).find_map(|result| match result {
        PointResult::FlowMods(result) => Some(result),
        _ => None,
    });
    let rate = weir_trial::run::changes(found.unwrap().rate.unwrap().mean);
    assert!(page.contains(&rate), "the rate of {rate} is missing");
    assert!(page.contains("3 confirmed changes looked for: 3 in force late, 0 not at all"));
    assert!(page.contains("id=\"flow-mods-l2fwd\""), "no figure");
}

#[test]
fn connections_are_drawn_with_their_rate_and_how_many_were_held_at_a_time() {
    let run = common::curves("2026-11-21-heron", 2);
    let page = page(std::slice::from_ref(&run));
    let found = run.points.iter().flat_map(|point| &point.results).find_map(|result| match result {
        PointResult::Connections(result) => Some(result),
        _ => None,
    });
    let found = found.unwrap();
    let rate = weir_trial::run::changes(found.rate.unwrap().mean);
    assert!(page.contains(&rate), "the rate of {rate} is missing");
    assert!(page.contains("limited by the device: at "), "who limits it is missing");
    assert!(page.contains("id=\"connections-l2fwd\""), "no figure");
    let held = found.held.as_ref().unwrap().passed.unwrap();
    assert!((3_900..=4_000).contains(&held), "{held}");
}

#[test]
fn each_loss_of_a_soak_has_its_time() {
    let run = common::curves("2026-11-21-heron", 2);
    let page = page(std::slice::from_ref(&run));
    let mut losses = 0;
    for point in &run.points {
        for result in &point.results {
            let PointResult::Soak(SoakResult { found, .. }) = result else { continue };
            for trial in &found.lossy {
                let second = point.trial(*trial).unwrap().started_ms / 1000 % 60;
                assert!(page.contains(&format!(":{second:02} UTC")), "the loss of trial {trial} has no time");
                losses += 1;
            }
        }
    }
    assert!(losses > 3, "{losses}");
}

#[test]
fn invalid_results_are_marked_and_never_ranked() {
    let run = common::curves("2026-11-21-heron", 2);
    let invalid = run.points.iter().filter(|point| {
        point
            .results
            .iter()
            .any(|result| matches!(result, PointResult::Mrr(_)) && point.doubt(result).is_some())
    });
    assert_eq!(invalid.count(), 1, "the example has a point whose forwarded rates are wrong");
    let page = page(std::slice::from_ref(&run));
    assert!(page.contains("INVALID, not ranked: 3 of 3 trials wrong: 5 packets came that nobody sent"));
    assert!(page.contains("ranked nowhere: the tables say why"));
    assert!(page.contains("no valid result: 3 of 3 trials wrong"));
}

#[test]
fn who_limits_a_result_and_what_the_tester_can_do_stand_on_the_page() {
    let page = page(&[common::curves("2026-11-21-heron", 2)]);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("`{text}` is missing"));
    assert!(place("What the tester can do") < place("What was found"));
    for text in [
        "limited by the tester",
        "limited by the device",
        "limited by the tester: the ceiling of this wiring is",
    ] {
        place(text);
    }
    assert!(!self::page(&[otter()]).contains("What the tester can do"), "older runs have no self-checks");
}

#[test]
fn a_chain_says_what_limits_it_and_draws_its_losses_and_times_by_stage() {
    let mut run = otter();
    let passed = |delay: u64| Passed { packets: 1_000, delay: Nanos(1_000 * delay) };
    let edge = |delay| [passed(delay), passed(delay)];
    let stage = |name: &str, process, (came, left)| StageReading {
        name: name.to_owned(),
        process,
        received: [1_000, 1_000],
        sent: [1_000, 990],
        refused: Some(10),
        busy: Some(400_000),
        taps: Some(StageTaps { came: edge(came), left: edge(left) }),
        ..StageReading::default()
    };
    for trial in &mut first_point(&mut run).trials {
        trial.result.stages =
            vec![stage("nf 1 l2fwd", 0, (2_000, 2_100)), stage("nf 2 l2fwd", 1, (5_000, 9_000))];
    }
    let page = page(&[run]);
    let section = page.split("<section id=\"stages\">").nth(1).expect("the section is there");
    let section = section.split("</section>").next().unwrap();
    for says in [
        &format!("longest inside nf 2 l2fwd: {}", Nanos(4_000)),
        "In its queue",
        "Cycles/packet",
        "1 nf 1 l2fwd",
        "before it, in its queue",
    ] {
        assert!(section.contains(says), "{says}: {section}");
    }
    // The name of the device stands above its stages, whole.
    assert!(section.contains("class=\"tick head\" x=\"0\""), "{section}");
}

#[test]
fn bundles_beside_one_another_have_a_rate_each_their_sum_and_how_fairly_they_share() {
    let mut run = otter();
    assert!(!page(&[otter()]).contains("<section id=\"bundles\">"), "it has one of everything");
    let point = first_point(&mut run);
    point.key.placement.bundles = 2;
    point.key.placement.deployment = weir_trial::Deployment::Vale;
    for trial in &mut point.trials {
        let counts = |received| weir_trial::DirectionCounts {
            intended: 1_000,
            sent: 1_000,
            received,
            ..weir_trial::DirectionCounts::default()
        };
        trial.result.directions = vec![counts(1_000), counts(1_000), counts(200), counts(300)];
        trial.result.windows = None;
    }
    let page = page(&[run]);
    let section = page.split("<section id=\"bundles\">").nth(1).expect("the section is there");
    let section = section.split("</section>").next().unwrap();
    // 2,000 of 2,500 packets, of which a quarter went through the second; (2.5)²/(2 (2² + 0.5²)).
    for says in ["nf in vale, 2 bundles", "80.0", "20.0", "0.7353", "Fairness (Jain)", ">all<", "bundle 2"] {
        assert!(section.contains(says), "{says}: {section}");
    }
}

#[test]
fn repeats_are_summed_up_beside_their_single_results() {
    let page = page(&[common::curves("2026-11-21-heron", 2)]);
    assert!(page.contains("id=\"repeats-l2fwd-table\""));
    assert!(page.contains("Interval from"));
    assert!(!self::page(&[otter()]).contains("id=\"repeats-"), "nothing was repeated there");
}

/// The cards of a function, one text each.
fn cards(page: &str, nf: &str) -> Vec<String> {
    let cards = page.split("<article class=\"card\">").skip(1);
    let cards = cards.filter_map(|rest| rest.split("</article>").next());
    cards.filter(|card| card.starts_with(&format!("<h3>{nf}</h3>"))).map(str::to_owned).collect()
}

/// The results of the example's points of this function, device, wiring and size.
fn results_of<'a>(run: &'a mut Run, dut: &str, wiring: &str, size: &str) -> &'a mut Point {
    run.points
        .iter_mut()
        .find(|point| {
            let key = &point.key;
            let nf = key.nf == weir_trial::Nf::L2Fwd;
            nf && (key.dut.as_str(), key.wiring.as_str(), key.size.as_str()) == (dut, wiring, size)
        })
        .unwrap()
}

#[test]
fn a_card_compares_devices_at_one_size_over_one_wiring_under_one_goal() {
    let mut run = otter();
    let plain = cards(&page(std::slice::from_ref(&run)), "l2fwd");
    assert_eq!(plain.len(), 2, "what was fed from inside stands apart from what came over a wire");
    assert!(plain[0].contains("vhost · tr3e · 2 directions") && plain[0].contains("<h4>64\u{a0}B</h4>"));
    assert!(!plain[0].contains("fed") && plain[1].contains("fed · tr3e"));

    // Without a result of testpmd at 64 B the smallest size that both have is shown, for both.
    let lost = results_of(&mut run, "testpmd", "vhost", "64");
    (lost.results, lost.error) = (Vec::new(), Some("it would not start".to_owned()));
    let card = &cards(&page(&[run]), "l2fwd")[0];
    assert!(!card.contains("<h4>64\u{a0}B</h4>"), "{card}");
    assert_eq!(card.matches("<h4>").count(), 2, "{card}");
    for size in card.split("<h4>").skip(1) {
        assert!(size.contains("nf · vhost <strong>") && size.contains("testpmd · vhost <strong>"), "{size}");
        assert_eq!(size.matches("ndr ").count(), 2, "the same goal: {size}");
    }
}

#[test]
fn a_card_says_why_a_device_has_no_result_where_others_have() {
    let mut run = otter();
    run.points.retain(|point| point.key.size == "64");
    let lost = results_of(&mut run, "testpmd", "vhost", "64");
    (lost.results, lost.error) = (Vec::new(), Some("it would not start".to_owned()));
    let card = &cards(&page(&[run]), "l2fwd")[0];
    assert!(card.contains("testpmd · vhost no valid result: it would not start"), "{card}");
}

#[test]
fn of_repeats_a_card_shows_the_median_and_from_where_to_where_they_went() {
    let mut run = otter();
    let point = results_of(&mut run, "nf", "vhost", "64");
    let PointResult::Throughput(_) = &point.results[0] else { panic!("{:?}", point.results[0]) };
    let with = |rate: f64| {
        let mut result = point.results[0].clone();
        let PointResult::Throughput(ThroughputResult { throughput, irregular, .. }) = &mut result else {
            unreachable!()
        };
        *throughput = Some(Pps(rate));
        *irregular = (rate < 1.5e6).then(|| "the search's time ran out".to_owned());
        result
    };
    let repeats = [with(3e6), with(1e6), with(2.5e6)];
    point.results = repeats.to_vec();
    let card = &cards(&page(&[run]), "l2fwd")[0];
    assert!(card.contains("<strong>2.500 Mpps</strong>"), "{card}");
    assert!(card.contains("ndr, median of 3 repeats, 1.000 Mpps to 3.000 Mpps"), "{card}");
    assert!(card.contains("title=\"the search's time ran out\">irregular<"), "marked here, too: {card}");
}

#[test]
fn nothing_passes_the_ceiling_unremarked() {
    let mut run = common::curves("2026-11-21-heron", 2);
    let clean = page(std::slice::from_ref(&run));
    assert!(!clean.contains("above the ceiling"), "the example keeps below it");
    run.self_checks.iter_mut().for_each(|check| check.ceiling = Pps(1e3));
    let page = page(&[run]);
    assert!(page.contains("above the ceiling of 1.000 kpps that tester and wiring reached"));
    assert!(page.contains("above what tester and wiring reached with nothing in between"));
}

#[test]
fn an_estimate_is_drawn_hollow_at_the_bound_that_is_known_and_never_as_a_cross() {
    let mut run = otter();
    run.points.retain(|point| point.key.size == "64" && point.key.wiring == "vhost" && point.key.dut == "nf");
    run.points.truncate(1);
    let point = first_point(&mut run);
    point.results.truncate(1);
    let hollow = |page: &str| page.matches("class=\"mark hollow\"").count();
    assert_eq!(hollow(&page(std::slice::from_ref(&run))), 0, "what was settled is filled");
    let PointResult::Throughput(ThroughputResult { throughput, lower, irregular, .. }) =
        &mut run.points[0].results[0]
    else {
        panic!("{:?}", run.points[0].results)
    };
    (*throughput, *lower) = (None, None);
    *irregular = Some("the search's time ran out".to_owned());
    let page = page(&[run]);
    assert_eq!(hollow(&page), 3, "one a view: packets, bits on layer 2 and on layer 1");
    assert!(!page.contains("class=\"mark failed\""), "no cross");
    assert!(page.contains("irregular: the search's time ran out"));
}

#[test]
fn a_search_that_was_not_settled_shows_what_is_known_in_its_card_and_table() {
    let mut run = otter();
    run.points.retain(|point| point.key.size == "64" && point.key.wiring == "vhost" && point.key.dut == "nf");
    run.points.truncate(1);
    let point = first_point(&mut run);
    point.results.truncate(1);
    let PointResult::Throughput(ThroughputResult { throughput, lower, upper, irregular, estimate, .. }) =
        &mut point.results[0]
    else {
        panic!("{:?}", point.results)
    };
    (*throughput, *lower, *upper) = (None, None, None);
    *irregular = Some("the search's time ran out".to_owned());
    let (least, most) = (Some(Pps(2.135e6)), Some(Pps(2.315e6)));
    let reason = "time ran out".to_owned();
    *estimate = Some(Estimate { lower: least, upper: most, measured: Nanos(1), reason });
    let page = page(&[run]);
    let card = &cards(&page, "l2fwd")[0];
    assert!(!card.contains("No valid rate"), "{card}");
    assert!(card.contains("<h4>64\u{a0}B</h4>"), "{card}");
    assert!(card.contains("between 2.135 Mpps and 2.315 Mpps") && card.contains(">estimate<"), "{card}");
    assert_eq!(page.matches("title=\"an estimate, no result\"").count(), 2, "both bounds, in the table");
}

#[test]
fn a_run_that_looks_for_no_rate_says_so_and_shows_what_was_measured() {
    let mut run = otter();
    run.points.retain(|point| point.results.iter().any(|result| matches!(result, PointResult::Latency(_))));
    for point in &mut run.points {
        point.results.retain(|result| matches!(result, PointResult::Latency(_)));
    }
    let page = page(&[run]);
    let card = &cards(&page, "l2fwd")[0];
    assert!(!card.contains("No valid rate"), "{card}");
    assert!(card.contains("No method of this run looks for a rate.") && card.contains("Delay of "), "{card}");
}

#[test]
fn every_plot_and_table_of_a_page_is_an_exhibit_with_a_name_of_its_own() {
    let runs = [otter(), common::curves("2026-11-21-heron", 2)];
    let page = page(&runs);
    let exhibits = weir_report::exhibits(&runs);
    let plots = exhibits.iter().filter(|exhibit| exhibit.forms().contains(&Form::Svg)).count();
    assert_eq!(plots, page.matches("<figure id=").count());
    let tables = exhibits.iter().filter(|exhibit| exhibit.forms().contains(&Form::Csv));
    for table in tables {
        assert!(page.contains(&format!("<table id=\"{}\"", table.id())), "{} is not on the page", table.id());
    }
    let mut ids: Vec<&str> = exhibits.iter().map(Exhibit::id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), exhibits.len(), "two exhibits have one name");
    for exhibit in &exhibits {
        assert!(!exhibit.title().is_empty());
        for form in Form::ALL {
            assert_eq!(exhibit.written(form).is_some(), exhibit.forms().contains(&form), "{}", exhibit.id());
        }
    }
}

#[test]
fn a_drawing_that_stands_alone_has_its_colours_its_legend_and_its_runs() {
    let hostile = "<script>alert(1)</script>\"'&";
    let mut run = Run { name: hostile.into(), ..otter() };
    first_point(&mut run).key.dut = hostile.into();
    for exhibit in weir_report::exhibits(&[run]) {
        let Some(svg) = exhibit.written(Form::Svg) else { continue };
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{}", exhibit.id());
        assert!(!svg.contains("var(--"), "{}: a colour is left to somebody else", exhibit.id());
        assert!(!svg.contains("<script"), "{}: a name became markup", exhibit.id());
        assert!(svg.contains("&lt;script&gt;"), "{}: it does not say which run it is from", exhibit.id());
        let (open, close) = (svg.matches("<g").count(), svg.matches("</g>").count());
        assert_eq!(open, close, "{}", exhibit.id());
    }
}

#[test]
fn a_rate_that_no_wire_carried_is_not_held_against_a_wire() {
    let page = page(&[otter()]);
    let (_, table) = page.split_once("l2fwd: greatest forwarded rate (MRR)").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let fed: Vec<&str> = table.split("<tr").filter(|row| row.contains("· fed")).collect();
    assert!(!fed.is_empty(), "{table}");
    for row in fed {
        assert!(!row.contains('%'), "{row}");
    }
}

/// A figure of a page, up to its end.
fn figure<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, figure) = page.split_once(&format!("<figure id=\"{id}\"")).unwrap();
    figure.split_once("</figure>").unwrap().0
}

#[test]
fn where_each_device_has_one_frame_size_it_has_a_row_with_its_name_and_value() {
    let mut run = otter();
    run.points.retain(|point| point.key.size == "64");
    let drawn = page(std::slice::from_ref(&run));
    let rows = figure(&drawn, "throughput-l2fwd");
    assert!(rows.contains("(frames: 64\u{a0}B)") && !rows.contains("against frame size"), "{rows}");
    // Each view names each of two devices under two goals and MRR.
    let named = |rows: &str| rows.matches("<text class=\"tick\" ").count();
    assert_eq!((named(rows), rows.matches("<text class=\"tick end\"").count()), (18, 18), "{rows}");
    run.points.retain(|point| point.key.dut == "nf" || point.key.wiring == "fed");
    run.points.extend(otter().points.into_iter().filter(|p| p.key.dut == "testpmd" && p.key.size == "imix"));
    let drawn = page(std::slice::from_ref(&run));
    let rows = figure(&drawn, "throughput-l2fwd");
    assert!(rows.contains("ndr · imix") && rows.contains("ndr · 64\u{a0}B"), "{rows}");
    for exhibit in weir_report::exhibits(&[run]).iter().filter(|one| one.id() == "throughput-l2fwd") {
        let pgf = exhibit.written(Form::Pgf).unwrap();
        assert!(pgf.contains("yticklabels={{nf") && pgf.contains("ndr $\\cdot$ imix"), "{pgf}");
        assert!(!exhibit.written(Form::Svg).unwrap().contains("class=\"key"), "rows have their names");
    }
    let whole = page(&[otter()]);
    assert!(figure(&whole, "throughput-l2fwd").contains("against frame size"));
}
