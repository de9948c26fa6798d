//! Whatever a campaign can measure comes back from the store as it went in.

use crate::common::{Place, on_both};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use std::collections::BTreeMap;
use weir_store::{NewRun, Outcome, RunId, Store};
use weir_trial::changes::EntryCheck;
use weir_trial::run::{
    BackToBackResult, BurstSending, Bursts, ChangePair, ConnectionsResult, CurveResult, CurveStep, Drift,
    Estimate, FlowModsResult, FrameLossResult, HeldSearch, LatencyResult, LossStep, MrrResult, Point,
    PointKey, PointResult, Purpose, RateSearch, Run, RunState, SCHEMA_VERSION, Saturation, SoakResult,
    Soaked, StoredTrial, ThroughputResult,
};
use weir_trial::verdict::{Code, Finding, Verdict, Weight};
use weir_trial::windows::{Absences, WindowCounts};
use weir_trial::{Accel, Chain, CoreUse, Deployment, Guest, Passed, Placement, StageReading, StageTaps};
use weir_trial::{
    Audit, ChangesMade, Clocks, Conduct, ConnectionSpec, ConnectionsMade, CoreHealth, DirectionCounts,
    DutReading, Fault, Floor, Graph, GraphDevice, GraphEnd, GraphLink, Health, Join, Latency, Limit, Limiter,
    Nf, PacketCheck, Pauses, Planned, SelfCheck, Shares, TesterAccount, TrialResult, TrialSpec, Windows,
    WrongPackets,
};
use weir_trial::{Frequency, Handed, Held, NodeUse, Offload, Server, Split};
use weir_units::{Bps, Interval, LatencyHistogram, LineRate, Nanos, Pps, Ratio, Spread};

/// Any finite number; NaN is no measurement.
fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64;
    prop_oneof![f64::NORMAL | f64::ZERO | f64::SUBNORMAL, (0_u32..1_000_000_000).prop_map(f64::from)]
}

fn rate() -> impl Strategy<Value = Pps> {
    number().prop_map(Pps)
}

fn nanos() -> impl Strategy<Value = Nanos> {
    any::<u64>().prop_map(Nanos)
}

fn text() -> impl Strategy<Value = String> {
    "[\\PC\n'\"]{0,20}"
}

fn nf() -> impl Strategy<Value = Nf> {
    prop_oneof![
        Just(Nf::L2Fwd),
        (1..=Nf::MAX_ENTRIES).prop_map(|routes| Nf::L3Fwd { routes }),
        (1..=Nf::MAX_ENTRIES).prop_map(|rules| Nf::Firewall { rules }),
        (2..=Nf::MAX_ENTRIES).prop_map(|stations| Nf::L2 { stations }),
        (1..=Nf::MOST_NFPA_ADDRESSES).prop_map(|addresses| Nf::L2Nfpa { addresses }),
        (16..=Nf::MOST_PIPELINE_ENTRIES).prop_map(|entries| Nf::PipelineA { entries }),
        (16..=Nf::MOST_PIPELINE_ENTRIES).prop_map(|entries| Nf::PipelineB { entries }),
        (16..=Nf::MOST_PIPELINE_ENTRIES).prop_map(|entries| Nf::PipelineC { entries }),
        (0..=Nf::MOST_NOOPS).prop_map(|noops| Nf::PipelineD { noops }),
        vec(select(vec![Nf::L2Fwd, Nf::L3Fwd { routes: 7 }, Nf::Firewall { rules: 3 }]), 1..4)
            .prop_map(|members| Chain::of(&members).unwrap()),
    ]
}

fn key() -> impl Strategy<Value = PointKey> {
    let sizes = (number(), 1_u8..=2, any::<bool>(), number());
    (nf(), text(), placement(), text(), text(), text(), sizes).prop_map(
        |(nf, dut, placement, wiring, trace, size, (mean_frame_bytes, directions, huge_pages, line))| {
            PointKey {
                nf,
                dut,
                wiring,
                trace,
                size,
                mean_frame_bytes,
                directions,
                placement,
                huge_pages,
                line_rate: LineRate(Bps(line)),
            }
        },
    )
}

fn counts() -> impl Strategy<Value = DirectionCounts> {
    any::<[u64; 11]>().prop_map(|n| DirectionCounts {
        intended: n[0],
        sent: n[1],
        refused: n[2],
        unsent: n[3],
        received: n[4],
        duplicated: n[5],
        reordered: n[6],
        late: n[7],
        foreign: n[8],
        stamped: n[9],
        damaged: n[10],
    })
}

fn latency() -> impl Strategy<Value = Option<Latency>> {
    vec(1_u64..10_000_000_000, 0..50).prop_map(|values| {
        let mut histogram = LatencyHistogram::default();
        values.into_iter().for_each(|value| histogram.record(Nanos(value)));
        Latency::of(&histogram)
    })
}

fn reading() -> impl Strategy<Value = DutReading> {
    let details = btree_map(text(), any::<u64>(), 0..3);
    (any::<u64>(), any::<u64>(), nanos(), nanos(), of(number()), details).prop_map(
        |(received, sent, elapsed, cpu, cycles_per_packet, details)| DutReading {
            received,
            sent,
            elapsed,
            cpu,
            cycles_per_packet,
            details,
        },
    )
}

fn health() -> impl Strategy<Value = Health> {
    let core = || {
        of((any::<u32>(), nanos(), nanos(), any::<u64>())).prop_map(|c| {
            c.map(|(core, stolen, waited, preempted)| CoreHealth { core, stolen, waited, preempted })
        })
    };
    let pauses =
        (any::<u32>(), nanos(), nanos()).prop_map(|(count, total, longest)| Pauses { count, total, longest });
    let clocks = of((nanos(), nanos())).prop_map(|c| c.map(|(tsc, monotonic)| Clocks { tsc, monotonic }));
    let conduct = (any::<u64>(), any::<u32>(), any::<u64>())
        .prop_map(|(lines, children, elsewhere)| Conduct { lines, children, elsewhere: Nanos(elsewhere) });
    let real_time = any::<bool>();
    let held = of((any::<u8>(), nanos(), nanos(), nanos()).prop_map(|(percent, ran, kept, of)| Held {
        percent,
        ran,
        kept,
        of,
    }));
    let all = (core(), core(), real_time, conduct, of(text()), pauses, clocks, held);
    all.prop_map(|(tester, dut, real_time, conduct, unsettled, pauses, clocks, held)| Health {
        tester,
        dut,
        real_time,
        conduct,
        unsettled,
        held,
        pauses,
        clocks,
    })
}

fn packets() -> impl Strategy<Value = PacketCheck> {
    let wrong = (select(Fault::ALL.to_vec()), any::<u64>(), text())
        .prop_map(|(fault, count, example)| WrongPackets { fault, count, example });
    let ports = vec(any::<u64>(), 0..3);
    let audit = of((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), ports)).prop_map(|a| {
        a.map(|(counted, device, resolution, rate, by_port)| Audit {
            counted,
            device,
            resolution,
            rate,
            by_port,
        })
    });
    (any::<u64>(), vec(wrong, 0..3), of(text()), audit)
        .prop_map(|(compared, wrong, remark, audit)| PacketCheck { compared, wrong, remark, audit })
}

fn account() -> impl Strategy<Value = TesterAccount> {
    let planned =
        of((any::<u64>(), any::<u64>())).prop_map(|p| p.map(|(packets, apart)| Planned { packets, apart }));
    let times = (latency(), latency(), vec(latency(), 0..3), latency());
    let shares = of((any::<u64>(), any::<u64>(), any::<u64>(), text())).prop_map(|s| {
        s.map(|(frames, median, starved, example)| Shares { frames, median, starved, example })
    });
    let strange = (any::<(u64, u64)>(), any::<u64>(), any::<u64>());
    (planned, times, shares, strange).prop_map(
        |(
            planned,
            (sent_late, poll_gaps, delays, paused_delay),
            shares,
            (beside, negative_delays, wire_chatter),
        )| {
            TesterAccount {
                shares,
                planned,
                sent_late,
                poll_gaps,
                delays,
                paused_delay,
                negative_delays,
                beside,
                wire_chatter,
            }
        },
    )
}

fn windows() -> impl Strategy<Value = Windows> {
    let absences = || {
        (any::<u32>(), nanos(), nanos()).prop_map(|(count, total, longest)| Absences {
            count,
            total,
            longest,
        })
    };
    let counts = (any::<u64>(), any::<u64>(), any::<u64>(), of(any::<u64>()), any::<u64>()).prop_map(
        |(sent, refused, unsent, late, received)| WindowCounts { sent, refused, unsent, late, received },
    );
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>());
    (numbers, (nanos(), nanos(), nanos(), of(nanos())), absences(), absences(), vec(counts, 0..3)).prop_map(
        |((count, left_out, lossy), (length, margin, kept, worst_delay), tester, dut, counts)| Windows {
            warm_up: margin,
            length,
            count,
            left_out,
            margin,
            kept,
            lossy,
            worst_delay,
            tester,
            dut,
            counts,
        },
    )
}

fn changes() -> impl Strategy<Value = ChangesMade> {
    let check = (any::<u32>(), any::<u32>(), nanos(), any::<bool>())
        .prop_map(|(probes, stale, lag, in_force)| EntryCheck { probes, stale, lag, in_force });
    (any::<u32>(), any::<u64>(), nanos(), vec(check, 0..3))
        .prop_map(|(batch, made, elapsed, checks)| ChangesMade { batch, made, elapsed, checks })
}

fn connections() -> impl Strategy<Value = ConnectionsMade> {
    let asked = (number(), any::<u64>(), any::<bool>()).prop_map(|(rate, count, held)| ConnectionSpec {
        rate,
        count,
        held,
    });
    let counts = [any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()];
    (asked, counts, nanos(), nanos(), number(), latency()).prop_map(
        |(asked, [begun, opened, proved, whole, broken, reset], took, behind, full, setup)| ConnectionsMade {
            asked,
            begun,
            opened,
            proved,
            whole,
            broken,
            reset,
            took,
            behind,
            full: Ratio(full),
            setup,
        },
    )
}

fn limit() -> impl Strategy<Value = Option<Limit>> {
    let by = prop_oneof![
        Just(Limiter::Dut),
        Just(Limiter::Tester),
        Just(Limiter::Machine),
        Just(Limiter::Line),
        Just(Limiter::Time)
    ];
    of((by, text()).prop_map(|(by, why)| Limit { by, why }))
}

fn finding() -> impl Strategy<Value = Finding> {
    let weight = prop_oneof![Just(Weight::Note), Just(Weight::Invalid), Just(Weight::Wrong)];
    (weight, text()).prop_map(|(weight, says)| Finding { code: Code::Late, weight, says })
}

fn self_check() -> impl Strategy<Value = SelfCheck> {
    let floors = (latency(), vec(floor(), 0..3));
    (text(), number(), any::<bool>(), rate(), floors, counts(), vec(finding(), 0..2)).prop_map(
        |(name, mean_frame_bytes, huge_pages, ceiling, (floor, floors), counts, findings)| SelfCheck {
            wiring: name.clone(),
            size: name.clone(),
            mean_frame_bytes,
            directions: 2,
            pairs: 1,
            queues: 1,
            server: None,
            huge_pages,
            loop_of: name,
            ceiling,
            floor_load: ceiling,
            floor,
            floors,
            counts,
            findings,
        },
    )
}

fn floor() -> impl Strategy<Value = Floor> {
    (rate(), nanos(), nanos()).prop_map(|(load, p50, p99)| Floor { load, p50, p99 })
}

fn stage() -> impl Strategy<Value = StageReading> {
    let counts = (any::<[u64; 2]>(), any::<[u64; 2]>(), of(any::<u64>()));
    let passed = || (any::<u64>(), nanos()).prop_map(|(packets, delay)| Passed { packets, delay });
    let edge = move || (passed(), passed()).prop_map(|(one, other)| [one, other]);
    let taps = of((edge(), edge()).prop_map(|(came, left)| StageTaps { came, left }));
    let handed = of((any::<u64>(), of(any::<u64>())).prop_map(|(sent, refused)| Handed { sent, refused }));
    let copy = (0_u32..9, 0_u32..9, handed).prop_map(|(copy, bundle, handed)| (copy, bundle, [handed, None]));
    (text(), any::<u32>(), counts, (nanos(), of(any::<u64>())), taps, copy).prop_map(
        |(name, process, (received, sent, refused), (cpu, busy), taps, (copy, bundle, handed))| {
            StageReading { name, process, received, sent, refused, cpu, busy, taps, copy, bundle, handed }
        },
    )
}

fn placement() -> impl Strategy<Value = Placement> {
    let deployment = select(Deployment::ALL.to_vec());
    let clock = (100_u32..=10_000).prop_map(Frequency::Clock);
    let share = (5_u8..=100).prop_map(Frequency::Share);
    let frequency = of(prop_oneof![clock, share]);
    let count = (1_u32..=4_095).prop_map(CoreUse::Count);
    let on = btree_set(0_u32..=4_095, 1..4).prop_map(|cores| CoreUse::On(cores.into_iter().rev().collect()));
    let cores = prop_oneof![Just(CoreUse::Own), Just(CoreUse::Shared), count, on];
    let offloads = btree_map(select(Offload::ALL.to_vec()), any::<bool>(), 0..3);
    let node = of(select(NodeUse::ALL.to_vec()));
    let copies = (1_u32..9, select(Split::ALL.to_vec()), (1_u32..9, 1_u32..9, 1_u32..9));
    let machine = (frequency, offloads, (node, of(server()), of(graph())));
    (deployment, of(text()), cores, of(guest()), copies, machine).prop_map(
        |(
            deployment,
            host,
            cores,
            guest,
            (copies, split, (bundles, vnics, queues)),
            (frequency, offloads, (node, server, graph)),
        )| {
            let offloads = offloads.into_iter().collect();
            Placement {
                deployment,
                host,
                cores,
                guest,
                copies,
                vnics,
                bundles,
                queues,
                split,
                frequency,
                offloads,
                node,
                server,
                graph,
            }
        },
    )
}

fn graph() -> impl Strategy<Value = Graph> {
    let end = || ("[a-z]{1,6}", any::<u32>()).prop_map(|(device, port)| GraphEnd { device, port });
    let nf = of(select(vec!["l2fwd", "l3fwd:10"]).prop_map(|nf| nf.parse().unwrap()));
    let device = (text(), text(), nf).prop_map(|(name, dut, nf)| GraphDevice { name, dut, nf });
    let link =
        ([end(), end()], select(Join::ALL.to_vec())).prop_map(|(between, by)| GraphLink { between, by });
    (vec(device, 0..3), vec(link, 0..3)).prop_map(|(devices, links)| Graph { devices, links })
}

fn server() -> impl Strategy<Value = Server> {
    let places = ["ssh://lab2", "ssh://me@10.0.0.2:2222", "netns:far"];
    select(places.to_vec()).prop_map(|place| place.parse().unwrap())
}

fn guest() -> impl Strategy<Value = Guest> {
    let made = (any::<u32>(), any::<u32>(), select(Accel::ALL.to_vec()));
    made.prop_map(|(vcpus, memory, accel)| Guest { vcpus, memory, accel })
}

fn trial() -> impl Strategy<Value = StoredTrial> {
    let more = (vec(stage(), 0..3), of(changes()), of(connections()));
    let facts = (of(reading()), health(), of(packets()), of(account()), of(windows()), more);
    let result = (rate(), nanos(), nanos(), nanos(), vec(counts(), 0..3), latency(), facts).prop_map(
        |(
            load,
            duration,
            elapsed,
            overhead,
            directions,
            latency,
            (dut, health, packets, account, windows, (stages, changes, connections)),
        )| TrialResult {
            spec: TrialSpec { load, duration },
            elapsed,
            overhead,
            directions,
            latency,
            dut,
            health,
            packets,
            account,
            windows,
            stages,
            changes,
            connections,
        },
    );
    let verdict = vec(finding(), 0..3).prop_map(|findings| Verdict { findings });
    let purpose = select(Purpose::ALL.to_vec());
    (purpose, any::<i64>(), any::<bool>(), verdict, result).prop_map(
        |(purpose, started_ms, superseded, verdict, result)| StoredTrial {
            sequence: 0,
            purpose,
            started_ms,
            superseded,
            verdict,
            result,
        },
    )
}

fn estimate() -> impl Strategy<Value = Estimate> {
    (of(rate()), of(rate()), nanos(), text()).prop_map(|(lower, upper, measured, reason)| Estimate {
        lower,
        upper,
        measured,
        reason,
    })
}

fn result() -> impl Strategy<Value = PointResult> {
    let throughput = (
        text(),
        number(),
        of(rate()),
        of(rate()),
        of(rate()),
        (of(text()), of(estimate())),
        nanos(),
        (nanos(), any::<u32>()),
        limit(),
    )
        .prop_map(
            |(
                goal,
                loss,
                throughput,
                lower,
                upper,
                (irregular, estimate),
                trial_duration,
                (duration_sum, trials),
                limit,
            )| {
                PointResult::Throughput(ThroughputResult {
                    goal,
                    loss_ratio: Ratio(loss),
                    throughput,
                    lower,
                    upper,
                    irregular,
                    estimate,
                    trial_duration,
                    duration_sum,
                    trials,
                    limit,
                })
            },
        );
    let mrr = (of(rate()), vec(rate(), 0..5), rate(), rate(), of(number()), limit()).prop_map(
        |(load, rates, mean, deviation, cycles_per_packet, limit)| {
            PointResult::Mrr(MrrResult { load, rates, mean, deviation, cycles_per_packet, limit })
        },
    );
    let latency = (text(), rate(), any::<u32>(), of(floor())).prop_map(|(label, load, trial, floor)| {
        PointResult::Latency(LatencyResult { label, load, trial, floor })
    });
    prop_oneof![
        throughput,
        mrr,
        latency,
        curve(),
        frame_loss(),
        back_to_back(),
        flow_mods(),
        made_connections(),
        soak()
    ]
}

fn curve() -> impl Strategy<Value = PointResult> {
    let step = (rate(), any::<u32>()).prop_map(|(load, trial)| CurveStep { load, trial });
    let saturation = (number(), of(rate()), of(rate())).prop_map(|(loss, lower, upper)| Saturation {
        loss_ratio: Ratio(loss),
        lower,
        upper,
    });
    (vec(step, 0..4), saturation, of(rate()), of(rate()), limit()).prop_map(
        |(steps, saturation, knee, tail, limit)| {
            PointResult::LatencyCurve(CurveResult { steps, saturation, knee, tail, limit })
        },
    )
}

fn frame_loss() -> impl Strategy<Value = PointResult> {
    let step = (number(), rate(), number(), any::<u32>()).prop_map(|(share, load, loss, trial)| LossStep {
        share: Ratio(share),
        load,
        loss_ratio: Ratio(loss),
        trial,
    });
    (rate(), vec(step, 0..4), of(number().prop_map(Ratio)), limit()).prop_map(
        |(line, steps, zero_loss, limit)| {
            PointResult::FrameLoss(FrameLossResult { line, steps, zero_loss, limit })
        },
    )
}

fn back_to_back() -> impl Strategy<Value = PointResult> {
    let bursts = (vec(any::<u64>(), 0..4), number(), any::<u64>(), any::<u64>(), number())
        .prop_map(|(frames, mean, min, max, deviation)| Bursts { frames, mean, min, max, deviation });
    let times = (of(nanos()), of(nanos()), any::<u64>(), any::<u64>());
    let sending = (vec(any::<u32>(), 0..4), any::<u32>(), of(any::<u64>()), any::<u64>(), any::<u32>())
        .prop_map(|(decided, repeated, late, tolerated, apart)| BurstSending {
            decided,
            repeated,
            late,
            tolerated,
            apart,
        });
    let trials = (vec(any::<u32>(), 0..4), of(sending));
    (rate(), of(rate()), text(), of(bursts), times, of(text()), trials, limit()).prop_map(
        |(line, throughput, goal, bursts, (implied, corrected, step, ceiling), invalid, trials, limit)| {
            let (trials, sending) = trials;
            PointResult::BackToBack(BackToBackResult {
                line,
                throughput,
                goal,
                bursts,
                implied,
                corrected,
                step,
                ceiling,
                invalid,
                trials,
                limit,
                sending,
            })
        },
    )
}

fn spread() -> impl Strategy<Value = Spread> {
    let interval = || [number(), number()].prop_map(|[low, high]| Interval { low, high });
    (any::<u32>(), [number(), number(), number(), number()], of(number()), of(interval())).prop_map(
        |(count, [median, mean, min, max], deviation, interval)| Spread {
            count,
            median,
            mean,
            min,
            max,
            deviation,
            interval,
        },
    )
}

fn flow_mods() -> impl Strategy<Value = PointResult> {
    let pair = (any::<(u32, u32)>(), of(number()), [number(), number()], of(nanos())).prop_map(
        |((without, with), rate, [loss_without, loss_with], lag)| ChangePair {
            without,
            with,
            rate,
            loss_without: Ratio(loss_without),
            loss_with: Ratio(loss_with),
            lag,
        },
    );
    let asked = (text(), rate(), any::<u32>());
    let found = (vec(pair, 0..4), [of(spread()), of(spread())], of(nanos()), any::<[u32; 3]>());
    (asked, found, limit()).prop_map(
        |((label, load, batch), (pairs, [rate, cost], lag, [checked, late, never]), limit)| {
            PointResult::FlowMods(FlowModsResult {
                label,
                load,
                batch,
                pairs,
                rate,
                cost,
                lag,
                checked,
                late,
                never,
                limit,
            })
        },
    )
}

fn made_connections() -> impl Strategy<Value = PointResult> {
    let trials = || vec(any::<u32>(), 0..4);
    let search = (of(number()), of(number()), trials()).prop_map(|(passed, failed, trials)| RateSearch {
        passed,
        failed,
        trials,
    });
    let held = (of(any::<u64>()), of(any::<u64>()), number(), trials())
        .prop_map(|(passed, failed, opened_at, trials)| HeldSearch { passed, failed, opened_at, trials });
    (any::<u32>(), nanos(), vec(search, 0..4), of(spread()), of(held), limit()).prop_map(
        |(packets, duration, searches, rate, held, limit)| {
            PointResult::Connections(ConnectionsResult { packets, duration, searches, rate, held, limit })
        },
    )
}

fn soak() -> impl Strategy<Value = PointResult> {
    let numbers = || vec(any::<u32>(), 0..4);
    let drift = of([nanos(), nanos(), nanos(), nanos()]).prop_map(|drift| {
        drift.map(|[p50_first, p50_last, p99_first, p99_last]| Drift {
            p50_first,
            p50_last,
            p99_first,
            p99_last,
        })
    });
    let found = (numbers(), numbers(), numbers(), any::<[u64; 2]>(), nanos(), number(), drift).prop_map(
        |(trials, invalid, lossy, [intended, lost], longest_clean, under_load, drift)| Soaked {
            trials,
            invalid,
            lossy,
            intended,
            lost,
            longest_clean,
            under_load: Ratio(under_load),
            drift,
        },
    );
    (text(), rate(), nanos(), found, limit()).prop_map(|(label, load, slice, found, limit)| {
        PointResult::Soak(SoakResult { label, load, slice, found, limit })
    })
}

fn point() -> impl Strategy<Value = Point> {
    let outcome = of((of(text()), of(text()), vec(result(), 0..4)));
    let told = (vec("[0-9a-f]{16}", 0..3), btree_map(text(), text(), 0..3));
    let sent = (told, any::<u64>(), of(packets()));
    (key(), outcome, sent, vec(trial(), 0..4)).prop_map(|(key, outcome, sent, mut trials)| {
        trials.iter_mut().zip(0..).for_each(|(trial, sequence)| trial.sequence = sequence);
        let finished = outcome.is_some();
        let (dut_version, error, results) = outcome.unwrap_or_default();
        let (trace_hashes, seed, packets) = sent;
        let (trace_hashes, configuration) = trace_hashes;
        Point {
            index: 0,
            key,
            configuration,
            trace_hashes,
            seed,
            packets,
            dut_version,
            error,
            finished,
            results,
            trials,
        }
    })
}

/// Any run that a campaign can leave behind.
pub(crate) fn run() -> impl Strategy<Value = Run> {
    let state = prop_oneof![
        Just((RunState::Running, None)),
        any::<i64>().prop_map(|ms| (RunState::Finished, Some(ms))),
        any::<i64>().prop_map(|ms| (RunState::Interrupted, Some(ms))),
    ];
    let head = ("[a-z][a-z0-9-]{0,20}", any::<i64>(), state, text(), text());
    (head, btree_map(text(), text(), 0..4), vec(self_check(), 0..3), vec(point(), 0..4)).prop_map(
        |((name, started_ms, (state, ended_ms), plan, weir), environment, self_checks, mut points)| {
            points.iter_mut().zip(0..).for_each(|(point, index)| point.index = index * 2);
            Run {
                schema: SCHEMA_VERSION,
                id: 1,
                name,
                started_ms,
                ended_ms,
                state,
                plan,
                weir,
                environment,
                sessions: Vec::new(),
                uuid: String::new(),
                self_checks,
                points,
                advice: Vec::new(),
            }
        },
    )
}

fn keep(store: &mut Store, run: &Run) -> RunId {
    let id = store
        .begin_run(NewRun {
            name: Some(&run.name),
            started_ms: run.started_ms,
            plan: &run.plan,
            weir: &run.weir,
            environment: &run.environment,
        })
        .unwrap();
    run.self_checks.iter().for_each(|check| store.add_self_check(id, check).unwrap());
    for point in &run.points {
        let open = store.add_point(id, point.index, &point.key).unwrap();
        assert_eq!(open.next_sequence, 0);
        store.set_configuration(open, &point.configuration).unwrap();
        store.set_traffic(open, &point.trace_hashes, point.seed).unwrap();
        point.packets.iter().for_each(|check| store.set_packets(open, check).unwrap());
        point.trials.iter().for_each(|trial| store.add_trial(open, trial).unwrap());
        if point.finished {
            let outcome = Outcome {
                dut_version: point.dut_version.as_deref(),
                error: point.error.as_deref(),
                results: &point.results,
            };
            store.finish_point(open, outcome).unwrap();
        }
    }
    if let Some(ended_ms) = run.ended_ms {
        store.end_run(id, run.state, ended_ms).unwrap();
    }
    id
}

on_both!(any_run_survives_the_store_unchanged, two_runs_in_one_database_do_not_mix);

fn any_run_survives_the_store_unchanged(place: &Place) {
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(run in run())| {
        let id = keep(&mut place.open(), &run);
        let mut read = place.open_existing().load(id).unwrap();
        let uuid = std::mem::take(&mut read.uuid);
        prop_assert!(uuid.len() == 36 && uuid.as_bytes()[14] == b'7', "{}", uuid);
        prop_assert_eq!(read, Run { id: id.0, ..run });
        place.open().remove_run(id).unwrap();
    });
}

fn two_runs_in_one_database_do_not_mix(place: &Place) {
    let mut store = place.open();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut runs = Vec::new();
    for (id, name) in [(1, "first"), (2, "second")] {
        let mut run = run().new_tree(&mut runner).unwrap().current();
        run.id = id;
        run.name = name.to_owned();
        run.environment = BTreeMap::from([("name".to_owned(), name.to_owned())]);
        assert_eq!(keep(&mut store, &run), RunId(id));
        runs.push(run);
    }
    for run in runs {
        let stored = Run { uuid: String::new(), ..store.load(RunId(run.id)).unwrap() };
        assert_eq!(stored, run);
    }
}
