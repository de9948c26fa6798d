//! One quantity over time, run by run, with its levels and where it changed: a figure, drawn as every other.

use crate::figure::{Axis, Figure, Lines, Marker, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::svg::alone;

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    /// A short heading: the point.
    pub title: String,
    /// What was measured, with its unit where the ticks carry none.
    pub label: String,
    /// What the values count: [`Quantity::Plain`] where the label has the unit, [`Quantity::Time`] for nanoseconds.
    pub quantity: Quantity,
    /// The runs it was drawn from, with Weir's version.
    pub provenance: String,
    /// One a run, in order.
    pub values: Vec<TrendValue>,
    /// Values in groups that follow each other, the first from place 0 on.
    pub levels: Vec<Level>,
}

/// What one run says.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendValue {
    /// Below the axis; nothing where the one before it stands for it, too.
    pub name: Option<String>,
    /// The value.
    pub value: f64,
    /// Least and greatest of what it stands for.
    pub interval: (f64, f64),
    /// All about it, one statement a line.
    pub detail: String,
}

/// Values around one mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Place of its first value.
    pub first: usize,
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// How it came to be, at its first value: `-20 %`. Nothing of the first level.
    pub change: Option<String>,
}

/// Hue of the values, and of the levels.
const VALUES: usize = 0;
const LEVELS: usize = 1;

impl Trend {
    /// It as a figure.
    pub fn figure(&self) -> Figure {
        // Places begin at 1: an axis begins at zero, and a mark on it would be hidden by its line.
        let place = |at: usize| at as f64 + 1.0;
        let value = |(at, value): (usize, &TrendValue)| Sample {
            x: place(at),
            x_name: value.name.clone(),
            y: Some(value.value),
            interval: Some(value.interval),
            suspect: false,
            hollow: false,
            detail: value.detail.clone(),
        };
        let end = |x: f64, y: f64| Sample {
            x,
            x_name: None,
            y: Some(y),
            interval: None,
            suspect: false,
            hollow: false,
            detail: String::new(),
        };
        // A level's line reaches half a place beyond its values; between two levels the line breaks.
        let level = |level: &Level| {
            let (first, last) = (place(level.first), place(level.first + level.count.max(1) - 1));
            let gap = Sample { y: None, ..end(last + 0.5, 0.0) };
            [end(first - 0.5, level.mean), end(last + 0.5, level.mean), gap]
        };
        let marker = |level: &Level| {
            let label = level.change.clone()?;
            Some(Marker { x: place(level.first) - 0.5, label, series: 1 })
        };
        let axis = |label: &str, quantity, spacing| Axis { label: label.to_owned(), quantity, spacing };
        Figure {
            id: "history".to_owned(),
            title: self.title.clone(),
            caption: "Each mark is a run, with the least and the greatest of its numbers. A level is the mean of the \
                      runs in it; a vertical line is where one ends and the next begins."
                .to_owned(),
            provenance: self.provenance.clone(),
            plot: Plot::Lines(Lines {
                x: axis("runs, in the order of their starts", Quantity::Place, Spacing::Linear),
                y: axis(&self.label, self.quantity, Spacing::Linear),
                limits: Vec::new(),
                markers: self.levels.iter().filter_map(marker).collect(),
                series: vec![
                    Series {
                        label: self.label.clone(),
                        hue: VALUES,
                        stroke: 2,
                        marks: true,
                        samples: self.values.iter().enumerate().map(value).collect(),
                    },
                    Series {
                        label: "level".to_owned(),
                        hue: LEVELS,
                        stroke: 0,
                        marks: false,
                        samples: self.levels.iter().flat_map(level).collect(),
                    },
                ],
            }),
        }
    }

    /// It as an SVG file of its own.
    pub fn svg(&self) -> String {
        alone::svg(&self.figure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_drawn_with_its_levels_its_changes_and_the_names_below_it() {
        let value = |name: Option<&str>, value: f64| TrendValue {
            name: name.map(str::to_owned),
            value,
            interval: (value * 0.9, value * 1.1),
            detail: format!("run <{value}>"),
        };
        let level = |first, count, mean, change: Option<&str>| Level {
            first,
            count,
            mean,
            change: change.map(str::to_owned),
        };
        let trend = Trend {
            title: "l2fwd".to_owned(),
            label: "forwarded rate".to_owned(),
            quantity: Quantity::Load,
            provenance: "4 runs".to_owned(),
            values: vec![
                value(Some("aaaa"), 5e6),
                value(None, 5.1e6),
                value(Some("bbbb"), 4e6),
                value(None, 4.1e6),
            ],
            levels: vec![level(0, 2, 5.05e6, None), level(2, 2, 4.05e6, Some("-20 %"))],
        };
        let svg = trend.svg();
        for part in ["aaaa", "bbbb", "-20 %", "4 Mpps", "run &lt;5000000&gt;", "level", "From 4 runs."] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        assert_eq!(svg.matches("class=\"mark\" transform").count(), 4, "{svg}");
    }
}
