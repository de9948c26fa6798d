//! Where a curve of delay against load turns.
//!
//! [`knee`] is the operating point of greatest *power*, throughput over delay (L. Kleinrock, "Power and
//! deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979): there a
//! ray from the origin touches the curve, so that below it a per cent more load costs less than a per cent
//! more delay, and above it more. It has no parameter, depends on no unit and not on how far the
//! curve was measured, and is known in closed form for simple queues: half the capacity for M/M/1, 2 − √2 of it
//! for M/D/1. A curve that never turns (flat up to its end) has its greatest power at its end: no knee.
//!
//! [`tail`] is the load from which on a percentile stays above a multiple of its level at small loads.
//!
//! Both pass over single outliers: delays are smoothed by the median of three neighbours.

/// A load and what came of it, in any units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operating {
    /// Load offered.
    pub load: f64,
    /// Load forwarded.
    pub throughput: f64,
    /// Delay; positive.
    pub delay: f64,
}

/// Fewer loads have no shape.
const LEAST_POINTS: usize = 5;

/// Power must fall to this share of its greatest behind the knee, or the curve has not turned.
const FALLEN: f64 = 0.8;

/// The load of greatest power; nothing where power does not fall again behind it.
pub fn knee(points: &[Operating]) -> Option<f64> {
    let points = smoothed(points);
    if points.len() < LEAST_POINTS {
        return None;
    }
    let power = |point: &Operating| point.throughput / point.delay;
    let (place, best) = points.iter().enumerate().max_by(|a, b| power(a.1).total_cmp(&power(b.1)))?;
    let turned = points[place + 1..].iter().any(|point| power(point) <= power(best) * FALLEN);
    turned.then_some(best.load)
}

/// The least load from which on all delays exceed `times` the level at small loads: the median of
/// those up to ten times the least load, and of three at least. Nothing where the last does not.
pub fn tail(points: &[Operating], times: f64) -> Option<f64> {
    let points = smoothed(points);
    if points.len() < LEAST_POINTS {
        return None;
    }
    let small = points.iter().take_while(|point| point.load <= points[0].load * 10.0).count().max(3);
    let mut level: Vec<f64> =
        points[..small.min(points.len() / 2).max(1)].iter().map(|one| one.delay).collect();
    level.sort_by(f64::total_cmp);
    let high = level[level.len() / 2] * times;
    let last_low = points.iter().rposition(|point| point.delay <= high)?;
    points.get(last_low + 1).map(|point| point.load)
}

/// In order of load, each delay the median of itself and its neighbours; the ends stay.
fn smoothed(points: &[Operating]) -> Vec<Operating> {
    let usable = |point: &&Operating| point.delay > 0.0 && point.delay.is_finite() && point.load.is_finite();
    let mut points: Vec<Operating> = points.iter().filter(usable).copied().collect();
    points.sort_by(|a, b| a.load.total_cmp(&b.load));
    let mut smooth = points.clone();
    for (middle, three) in smooth.iter_mut().skip(1).zip(points.windows(3)) {
        let mut delays = [three[0].delay, three[1].delay, three[2].delay];
        delays.sort_by(f64::total_cmp);
        middle.delay = delays[1];
    }
    smooth
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of capacity 1 at hundredths of it, up to `last` hundredths.
    fn queue(last: u32, delay: impl Fn(f64) -> f64) -> Vec<Operating> {
        let point = |n: u32| {
            let load = f64::from(n) / 100.0;
            Operating { load, throughput: load.min(1.0), delay: delay(load) }
        };
        (1..=last).map(point).collect()
    }

    fn mm1(load: f64) -> f64 {
        1.0 / (1.0 - load)
    }

    fn md1(load: f64) -> f64 {
        1.0 + load / (2.0 * (1.0 - load))
    }

    /// Deterministic noise of a few per cent.
    fn noisy(points: Vec<Operating>, share: f64) -> Vec<Operating> {
        let shaken = points.into_iter().enumerate().map(|(n, point)| {
            let wobble = (n as f64 * 12.9898).sin() * 43_758.547;
            Operating { delay: point.delay * (1.0 + share * (wobble.fract() - 0.5) * 2.0), ..point }
        });
        shaken.collect()
    }

    #[test]
    fn the_knee_of_mm1_is_half_the_capacity_however_far_it_was_measured() {
        for last in [75, 80, 95, 99] {
            let knee = knee(&queue(last, mm1)).unwrap_or_else(|| panic!("no knee up to {last} %"));
            assert!((knee - 0.5).abs() <= 0.011, "up to {last} %: {knee}");
        }
    }

    #[test]
    fn the_knee_of_md1_is_two_less_the_root_of_two() {
        let knee = knee(&queue(99, md1)).unwrap();
        assert!((knee - (2.0 - 2.0_f64.sqrt())).abs() <= 0.011, "{knee}");
    }

    #[test]
    fn units_do_not_move_the_knee() {
        let scaled: Vec<_> = queue(99, md1)
            .iter()
            .map(|one| Operating {
                load: one.load * 3e6,
                throughput: one.throughput * 3e6,
                delay: one.delay * 333.0,
            })
            .collect();
        assert!((knee(&scaled).unwrap() / 3e6 - knee(&queue(99, md1)).unwrap()).abs() < 1e-9);
    }

    #[test]
    fn a_device_flat_up_to_its_capacity_turns_right_there() {
        let knee = knee(&queue(120, |load| if load <= 1.0 { 1.0 } else { 500.0 })).unwrap();
        assert!((knee - 1.0).abs() <= 0.011, "{knee}");
    }

    #[test]
    fn a_flat_curve_has_neither_knee_nor_tail_also_with_noise() {
        for share in [0.0, 0.05, 0.15] {
            let flat = noisy(queue(100, |_| 7.0), share);
            assert_eq!((knee(&flat), tail(&flat, 10.0)), (None, None), "noise {share}");
        }
        assert_eq!(knee(&queue(30, mm1)), None, "a curve that was not measured as far as its knee");
    }

    #[test]
    fn noise_and_a_single_outlier_move_the_knee_a_little() {
        let mut curve = noisy(queue(99, mm1), 0.1);
        curve[20].delay *= 100.0;
        curve[80].delay /= 100.0;
        let knee = knee(&curve).unwrap();
        assert!((0.35..0.65).contains(&knee), "{knee}");
    }

    #[test]
    fn the_tail_rises_where_it_stays_above_its_level() {
        let tail = tail(&queue(99, mm1), 10.0).unwrap();
        // 1 / (1 - load) is ten times its value at small loads (about 1.05) above 0.905.
        assert!((0.89..0.92).contains(&tail), "{tail}");
    }

    #[test]
    fn too_few_points_have_no_shape() {
        assert_eq!((knee(&[]), tail(&[], 10.0)), (None, None));
        assert_eq!(knee(&queue(4, mm1)), None);
        let broken = vec![Operating { load: f64::NAN, throughput: 1.0, delay: 0.0 }; 9];
        assert_eq!((knee(&broken), tail(&broken, 10.0)), (None, None));
    }
}
