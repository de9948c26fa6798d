//! The same measurement several times, and how far its results scatter.
//!
//! A mean never stands alone: [`Spread`] carries count, median, extremes, sample standard deviation
//! and a 95 % confidence interval of the mean by Student's t distribution. That interval assumes
//! that repeats are independent and roughly normal; repeats of a search are taken one after the
//! other on one machine, so it does not cover what differs between machines or days.

pub use weir_units::{Interval, Spread};

/// Results of a measurement taken several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeated<T> {
    /// Every result, in order.
    pub results: Vec<T>,
    /// Spread of the number that was asked for; nothing when no result had one.
    pub spread: Option<Spread>,
}

/// Takes a measurement `times` times (at least once) and gives the spread of one number of each
/// result; a result without that number (an irregular search) is kept but has no part in it.
/// The first error ends it.
pub fn repeat<T, E>(
    times: u32,
    mut measure: impl FnMut(u32) -> Result<T, E>,
    number: impl Fn(&T) -> Option<f64>,
) -> Result<Repeated<T>, E> {
    let results = (0..times.max(1)).map(&mut measure).collect::<Result<Vec<T>, E>>()?;
    let numbers: Vec<f64> = results.iter().filter_map(number).collect();
    Ok(Repeated { spread: Spread::of(&numbers), results })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn irregular_results_are_kept_out_of_the_spread_but_not_thrown_away() {
        let repeated = repeat(4, |n| Ok::<_, ()>(f64::from(n)), |n| (*n > 0.5).then_some(*n)).unwrap();
        assert_eq!(repeated.results.len(), 4);
        assert_eq!(repeated.spread.unwrap().count, 3);
    }

    #[test]
    fn the_first_error_ends_the_repeats() {
        let mut runs = 0;
        let outcome = repeat(
            5,
            |n| {
                runs += 1;
                if n == 1 { Err("the device died") } else { Ok(1.0) }
            },
            |n| Some(*n),
        );
        assert_eq!(outcome, Err("the device died"));
        assert_eq!(runs, 2);
    }
}
