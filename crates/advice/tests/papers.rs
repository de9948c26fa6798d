//! The model on figures that others measured: table 1 of *Benchmarking NFV Software Dataplanes*, 64 B, millions of packets a
//! second by clock.

use crate::lab::{Measuring, device, key, run};
use weir_advice::{Advice, Says, Wanted, advise};
use weir_trial::Placement;
use weir_trial::run::advice::{Asked, Question};
use weir_units::{Pps, Ratio};

const CLOCKS: [&str; 5] = ["1.2GHz", "1.6GHz", "2GHz", "2.4GHz", "2.6GHz"];
const BESS_L3FWD: [f64; 5] = [4.31, 5.73, 7.19, 8.60, 9.34];
const BESS_FIREWALL: [f64; 5] = [4.45, 5.92, 7.38, 8.87, 9.59];
const CLICKOS_L3FWD: [f64; 5] = [2.10, 2.82, 3.44, 4.26, 5.34];

/// What is said of a load, from the rates at some of the clocks.
fn advised(rates: [f64; 5], from: &[usize], load: f64) -> Advice {
    let point = |place: &usize| {
        let frequency = Some(CLOCKS[*place].parse().unwrap());
        let key = key("l3fwd:10", Placement { frequency, ..Placement::default() });
        let device = device(&key, 0.0, 1);
        Measuring::new(*place as u32, key, device).rates(vec![Pps(rates[*place] * 1e6)]).done()
    };
    let asked = Asked { load: Some(Pps(load * 1e6)), loss: Ratio(0.0), delay: None };
    let wanted = Wanted { asked, questions: vec![Question::Speed], ..Wanted::default() };
    let answers = advise(&run(from.iter().map(point).collect()), &wanted);
    match answers.into_iter().next().map(|answer| answer.says) {
        Some(Says::Advice(advice)) => *advice,
        other => panic!("{other:?}"),
    }
}

/// The clock that was advised, in GHz.
fn clock(advice: &Advice) -> f64 {
    let text = advice.key.placement.frequency.unwrap().to_string();
    text.trim_end_matches("GHz")
        .parse()
        .unwrap_or_else(|_| text.trim_end_matches("MHz").parse::<f64>().unwrap() / 1e3)
}

#[test]
fn the_clocks_that_were_left_out_are_predicted_within_a_hundredth() {
    for rates in [BESS_L3FWD, BESS_FIREWALL] {
        for left_out in [1, 3] {
            let from: Vec<usize> = (0..5).filter(|place| *place != left_out).collect();
            let advice = advised(rates, &from, 0.5);
            // The model's own words have its two parts.
            let parts: Vec<f64> = advice
                .model
                .split(|c: char| !(c.is_ascii_digit() || c == '.'))
                .filter_map(|part| part.parse().ok())
                .collect();
            let gigahertz: f64 = CLOCKS[left_out].trim_end_matches("GHz").parse().unwrap();
            let predicted = 1e3 / (parts[0] + parts[1] / gigahertz);
            let error = predicted / rates[left_out] - 1.0;
            assert!(error.abs() < 0.01, "{}: {error}", CLOCKS[left_out]);
        }
    }
}

#[test]
fn a_device_that_does_not_follow_its_clock_gets_a_wide_interval() {
    let reach = |rates: [f64; 5], load: f64| {
        let advice = advised(rates, &[0, 1, 2, 3, 4], load);
        let interval = advice.predictions[0].interval.unwrap();
        (interval.high - interval.low) / advice.predictions[0].value
    };
    // ClickOS gains a quarter from 2.4 to 2.6 GHz.
    assert!(reach(CLICKOS_L3FWD, 1.5) > 5.0 * reach(BESS_L3FWD, 3.0));
}

#[test]
fn the_median_load_of_the_papers_data_centre_takes_no_more_than_the_lowest_clock() {
    // 10 % to 20 % of what the trace asks of the link: 0.87 to 1.73 Mpps.
    for rates in [BESS_L3FWD, CLICKOS_L3FWD] {
        let advice = advised(rates, &[0, 1, 2, 3], 1.73);
        assert!(clock(&advice) <= 1.2 && advice.meets == Some(true), "{advice:?}");
    }
}
