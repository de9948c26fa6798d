//! Figures as PGF for LaTeX: the numbers themselves, drawn by the package pgfplots in the document's own fonts.
//!
//! A file is one `tikzpicture`; it needs `\usepackage{pgfplots}` and a document in UTF-8. Who drew it from which runs stands
//! in its first lines. Text of a run is escaped: what LaTeX would read as its own is written out.

use crate::figure::{Axis, Bars, Figure, Lines, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::svg::{HUES, limit_at, style, tick_text};
use crate::table::{comment, latex};
use crate::units::{RATE_UNITS, RateUnit};
use std::fmt::Write as _;

/// The marks of pgfplots that come nearest to ours, by hue.
const MARKS: [&str; HUES] = [
    "*",
    "square*",
    "triangle*",
    "diamond*",
    "triangle*, mark options={rotate=180}",
    "+",
    "star",
    "pentagon*",
];
/// Strokes, as in the page.
const STROKES: [&str; 4] = ["solid", "dashed", "dotted", "dash dot"];
/// Points of a theoretical line.
const STEPS: u32 = 40;
/// A theoretical line this many times above what was measured does not stretch the axis to itself.
const FAR_ABOVE: f64 = 1.6;

/// A figure as one `tikzpicture`.
pub(crate) fn pgf(figure: &Figure) -> String {
    let mut text = format!(
        "% {}. From {}.\n% Needs \\usepackage{{pgfplots}} and \\pgfplotsset{{compat=1.18}}, in UTF-8. {}\n",
        comment(&figure.title),
        comment(&figure.provenance),
        comment(&figure.caption)
    );
    text.push_str("\\begin{tikzpicture}\n");
    for hue in 0..HUES {
        let _ = writeln!(text, "\\definecolor{{weir{hue}}}{{HTML}}{{{}}}", style::on_paper(hue));
    }
    match &figure.plot {
        Plot::Lines(plot) if plot.is_by_row() => rows(plot, &mut text),
        Plot::Lines(plot) => lines(plot, &mut text),
        Plot::Bars(plot) => bars(plot, &mut text),
    }
    text.push_str("\\end{tikzpicture}\n");
    text
}

/// What an axis' values are divided by, and the unit that its label then has.
fn unit(axis: &Axis, greatest: f64) -> (f64, &'static str) {
    match axis.quantity {
        Quantity::Rate | Quantity::Load => {
            let key = RateUnit::fitting(greatest);
            let unit = RATE_UNITS.iter().find(|unit| unit.key == key);
            unit.map_or((1.0, ""), |unit| {
                (
                    10_f64.powi(match key {
                        "mpps" => 6,
                        "kpps" => 3,
                        _ => 0,
                    }),
                    unit.label,
                )
            })
        }
        Quantity::Time if greatest >= 1e7 => (1e6, "ms"),
        Quantity::Time if greatest >= 1e4 => (1e3, "µs"),
        Quantity::Time => (1.0, "ns"),
        Quantity::Share => (0.01, "%"),
        Quantity::FrameBytes | Quantity::Tail | Quantity::Cycles | Quantity::Plain | Quantity::Place => {
            (1.0, "")
        }
    }
}

fn label(axis: &Axis, unit: &str) -> String {
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    latex(&format!("{}{unit}", axis.label))
}

/// What can be drawn: places above zero, finite values.
fn drawable(series: &Series) -> impl Iterator<Item = &Sample> {
    series.samples.iter().filter(|sample| sample.x.is_finite() && sample.x > 0.0)
}

fn lines(plot: &Lines, text: &mut String) {
    let samples: Vec<&Sample> = plot.series.iter().flat_map(drawable).collect();
    let heights = samples.iter().flat_map(|sample| {
        let (low, high) = sample.interval.unzip();
        [low, sample.y, high].into_iter().flatten()
    });
    let finite = |value: &f64| value.is_finite() && *value > 0.0;
    let greatest = heights.filter(finite).fold(0.0, f64::max);
    let across = samples.iter().map(|sample| sample.x);
    let (least_x, greatest_x) = across.fold((f64::INFINITY, 0.0), |(low, high), x| (x.min(low), x.max(high)));
    let (by_x, unit_x) = unit(&plot.x, greatest_x);
    let (by_y, unit_y) = unit(&plot.y, greatest);
    let mut options = vec![
        "width=\\linewidth".to_owned(),
        "height=0.6\\linewidth".to_owned(),
        "grid=major".to_owned(),
        "unbounded coords=jump".to_owned(),
        "legend style={font=\\footnotesize, at={(0.5,-0.28)}, anchor=north, legend columns=1}".to_owned(),
        "legend cell align=left".to_owned(),
        "log ticks with fixed point".to_owned(),
        format!("xlabel={{{}}}", label(&plot.x, unit_x)),
        format!("ylabel={{{}}}", label(&plot.y, unit_y)),
    ];
    options.extend((plot.x.spacing == Spacing::Log).then(|| "xmode=log".to_owned()));
    match plot.y.spacing {
        Spacing::Log => options.push("ymode=log".to_owned()),
        Spacing::Linear => {
            let line = plot.limits.iter().map(|limit| limit_at(limit, least_x)).fold(0.0, f64::max);
            let top = if line <= greatest * FAR_ABOVE { greatest.max(line) } else { greatest };
            let top = if top > 0.0 { top * 1.08 / by_y } else { 1.0 };
            options.push(format!("ymin=0, ymax={top:.6}"));
        }
    }
    options.extend(ticks(plot, &samples));
    let _ = writeln!(text, "\\begin{{axis}}[\n    {}\n]", options.join(",\n    "));
    for limit in &plot.limits {
        let place = |step: u32| least_x * (greatest_x / least_x).powf(f64::from(step) / f64::from(STEPS));
        let points = (0..=STEPS).map(place).map(|x| format!("({x:.3},{:.6})", limit_at(limit, x) / by_y));
        let points: String = points.collect();
        let _ = writeln!(text, "\\addplot[gray, thick, no marks] coordinates {{{points}}};");
        let _ = writeln!(text, "\\addlegendentry{{{}}}", latex(&limit.label));
    }
    plot.series.iter().for_each(|series| draw(series, (by_x, by_y), text));
    for marker in &plot.markers {
        let hue = plot.series.get(marker.series).map_or(0, |series| series.hue) % HUES;
        let x = marker.x / by_x;
        let _ = writeln!(
            text,
            "\\draw[weir{hue}, densely dashed] ({{axis cs:{x},1}} |- {{rel axis cs:0,0}}) -- ({{axis cs:{x},1}} |- {{rel axis cs:0,1}}) \
             node[pos=0.95, right, font=\\footnotesize] {{{}}};",
            latex(&marker.label)
        );
    }
    text.push_str("\\end{axis}\n");
}

/// Places across that have names, or that are sizes of frames or percentiles: each is marked.
fn ticks(plot: &Lines, samples: &[&Sample]) -> Vec<String> {
    let mut places: Vec<(f64, String)> = match plot.x.quantity {
        Quantity::FrameBytes | Quantity::Place => samples
            .iter()
            .filter(|sample| sample.x_name.is_some() || plot.x.quantity == Quantity::FrameBytes)
            .map(|sample| {
                let name = sample.x_name.clone();
                (sample.x, name.unwrap_or_else(|| tick_text(plot.x.quantity, sample.x)))
            })
            .collect(),
        Quantity::Tail => {
            let greatest = samples.iter().map(|sample| sample.x).fold(1.0, f64::max);
            let tens = (0..12).map(|nines| 10_f64.powi(nines)).take_while(|tick| *tick <= greatest * 1.001);
            tens.chain([2.0]).map(|tick| (tick, tick_text(Quantity::Tail, tick))).collect()
        }
        _ => return Vec::new(),
    };
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.dedup_by(|a, b| a.0 == b.0);
    let at: Vec<String> = places.iter().map(|(x, _)| x.to_string()).collect();
    let names: Vec<String> = places.iter().map(|(_, name)| format!("{{{}}}", latex(name))).collect();
    vec![
        format!("xtick={{{}}}", at.join(",")),
        format!("xticklabels={{{}}}", names.join(",")),
        "x tick label style={rotate=45, anchor=north east, font=\\footnotesize}".to_owned(),
    ]
}

fn draw(series: &Series, (by_x, by_y): (f64, f64), text: &mut String) {
    let hue = series.hue % HUES;
    let marks = if series.marks { format!("mark={}", MARKS[hue]) } else { "no marks".to_owned() };
    let mut coordinates = String::new();
    for sample in drawable(series) {
        let x = sample.x / by_x;
        let Some(y) = sample.y.filter(|y| y.is_finite()) else {
            let _ = write!(coordinates, " ({x},nan)");
            continue;
        };
        let _ = write!(coordinates, " ({x},{:.6})", y / by_y);
        if let Some((low, high)) = sample.interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
            let (up, down) = ((high - y).max(0.0) / by_y, (y - low).max(0.0) / by_y);
            let _ = write!(coordinates, " += (0,{up:.6}) -= (0,{down:.6})");
        }
    }
    let stroke = STROKES[series.stroke % STROKES.len()];
    let _ = writeln!(
        text,
        "\\addplot[weir{hue}, {stroke}, {marks}, error bars/.cd, y dir=both, y explicit] coordinates {{{coordinates}}};"
    );
    let _ = writeln!(text, "\\addlegendentry{{{}}}", latex(&series.label));
    for sample in drawable(series) {
        let x = sample.x / by_x;
        match sample.y.filter(|y| y.is_finite()) {
            // Nothing could be measured there: a cross on the axis, as on the page.
            None if series.marks => {
                let _ = writeln!(
                    text,
                    "\\node[weir{hue}] at ({{axis cs:{x},1}} |- {{rel axis cs:0,0.03}}) {{$\\times$}};"
                );
            }
            Some(y) if sample.suspect => {
                let y = y / by_y;
                let _ = writeln!(
                    text,
                    "\\addplot[red, only marks, mark=o, mark size=4pt, forget plot] coordinates {{({x},{y:.6})}};"
                );
            }
            _ => {}
        }
    }
}

/// Each series in a row with its name, as on the page.
fn rows(plot: &Lines, text: &mut String) {
    let named: Vec<(&Series, &Sample)> =
        plot.series.iter().flat_map(|series| drawable(series).map(move |sample| (series, sample))).collect();
    let values = named.iter().flat_map(|(_, sample)| [sample.y, sample.interval.map(|(_, high)| high)]);
    let greatest = values.flatten().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let (by, unit) = unit(&plot.y, greatest);
    let one_size = plot.one_size();
    let across = match &one_size {
        Some((_, name)) => format!("{} ({name})", plot.y.label),
        None => plot.y.label.clone(),
    };
    let names: Vec<String> = named
        .iter()
        .map(|(series, sample)| match one_size {
            Some(_) => format!("{{{}}}", latex(&series.label)),
            None => format!("{{{}}}", latex(&format!("{} · {}", series.label, sample.size().1))),
        })
        .collect();
    let places: Vec<String> = (0..named.len()).map(|row| row.to_string()).collect();
    let _ = writeln!(
        text,
        "\\begin{{axis}}[\n    y dir=reverse, ymin=-0.6, ymax={:.1}, xmin=0,\n    width=0.65\\linewidth, height={:.2}cm,\n    \
         grid=major, xlabel={{{}}},\n    ytick={{{}}},\n    yticklabels={{{}}},\n    y tick label style={{font=\\footnotesize}}\n]",
        named.len() as f64 - 0.4,
        1.6 + 0.6 * named.len() as f64,
        label(&Axis { label: across, ..plot.y.clone() }, unit),
        places.join(","),
        names.join(","),
    );
    for (row, (series, sample)) in named.iter().enumerate() {
        let hue = series.hue % HUES;
        let Some(value) = sample.y.filter(|value| value.is_finite()) else {
            let _ = writeln!(text, "\\node[weir{hue}] at (axis cs:0,{row}) {{$\\times$}};");
            continue;
        };
        let (low, high) = sample
            .interval
            .filter(|(low, high)| low.is_finite() && high.is_finite())
            .unwrap_or((value, value));
        let _ = writeln!(
            text,
            "\\addplot[weir{hue}, only marks, mark={}, error bars/.cd, x dir=both, x explicit] coordinates \
             {{({:.6},{row}) += ({:.6},0) -= ({:.6},0)}};",
            MARKS[hue],
            value / by,
            (high - value).max(0.0) / by,
            (value - low).max(0.0) / by
        );
        if sample.suspect {
            let _ = writeln!(
                text,
                "\\addplot[red, only marks, mark=o, mark size=4pt] coordinates {{({:.6},{row})}};",
                value / by
            );
        }
    }
    text.push_str("\\end{axis}\n");
}

fn bars(plot: &Bars, text: &mut String) {
    let rows = plot.bars.len();
    let places: Vec<String> = (0..rows).map(|place| place.to_string()).collect();
    let names: Vec<String> = plot.bars.iter().map(|bar| format!("{{{}}}", latex(&bar.label))).collect();
    let _ = writeln!(
        text,
        "\\begin{{axis}}[\n    xbar stacked, y dir=reverse, bar width=6pt,\n    width=0.75\\linewidth, height={:.2}cm,\n    xmin=0, \
         xlabel={{{}, \\%}},\n    ytick={{{}}},\n    yticklabels={{{}}},\n    legend style={{font=\\footnotesize, at={{(0.5,-0.3)}}, \
         anchor=north, legend columns=1}},\n    legend cell align=left\n]",
        1.6 + 0.45 * rows as f64,
        latex(&plot.label),
        places.join(","),
        names.join(","),
    );
    for (part, name) in plot.parts.iter().enumerate() {
        let coordinates: String = plot
            .bars
            .iter()
            .enumerate()
            .map(|(row, bar)| {
                let share = bar.shares.get(part).copied().filter(|share| share.is_finite()).unwrap_or(0.0);
                format!(" ({:.6},{row})", 100.0 * share)
            })
            .collect();
        let hue = part % HUES;
        let _ = writeln!(text, "\\addplot[fill=weir{hue}, draw=weir{hue}] coordinates {{{coordinates}}};");
        let _ = writeln!(text, "\\addlegendentry{{{}}}", latex(name));
    }
    text.push_str("\\end{axis}\n");
}

#[cfg(test)]
mod tests {
    use crate::exhibit::{Form, exhibits};
    use weir_trial::run::Run;

    fn run(text: &str) -> Run {
        serde_json::from_str(text).unwrap()
    }

    /// Braces and environments that close, and no control character: what LaTeX needs of any file.
    fn is_closed(text: &str, place: &str) {
        let mut depth = 0_i32;
        let mut escaped = false;
        for letter in text.lines().filter(|line| !line.starts_with('%')).flat_map(str::chars) {
            assert!(!letter.is_control(), "{place}: {letter:?}");
            match letter {
                '{' if !escaped => depth += 1,
                '}' if !escaped => depth -= 1,
                _ => {}
            }
            assert!(depth >= 0, "{place}: a brace closes that was not opened: {text}");
            escaped = letter == '\\' && !escaped;
        }
        assert_eq!(depth, 0, "{place}: {text}");
        for environment in ["tikzpicture", "axis"] {
            let count = |word: &str| text.matches(&format!("\\{word}{{{environment}}}")).count();
            assert_eq!((count("begin"), count("end")), (1, 1), "{place}");
        }
    }

    #[test]
    fn every_plot_of_a_run_is_a_closed_picture_that_names_its_run() {
        let mut plots = 0;
        for text in
            [include_str!("../../../docs/runs/flows.json"), include_str!("../../../docs/runs/readme.json")]
        {
            let run = run(text);
            for exhibit in exhibits(std::slice::from_ref(&run)) {
                let Some(pgf) = exhibit.written(Form::Pgf) else { continue };
                is_closed(&pgf, exhibit.id());
                assert!(pgf.lines().next().unwrap().contains(&run.uuid), "{pgf}");
                assert!(pgf.contains("\\addplot["), "{pgf}");
                plots += 1;
            }
        }
        assert!(plots >= 3, "{plots}");
    }

    #[test]
    fn texts_of_a_run_are_no_commands_of_latex() {
        let mut run = run(include_str!("../../../docs/runs/readme.json"));
        run.name = "a\n\\input{/etc/passwd}".to_owned();
        for point in &mut run.points {
            point.key.dut = "\\write18{rm} 50 % # $x_1^2$ & {".to_owned();
        }
        for exhibit in exhibits(&[run]) {
            let Some(pgf) = exhibit.written(Form::Pgf) else { continue };
            is_closed(&pgf, exhibit.id());
            let commands = pgf.lines().filter(|line| !line.starts_with('%'));
            assert!(
                commands.clone().all(|line| !line.contains("\\write18") && !line.contains("\\input")),
                "{pgf}"
            );
        }
    }
}
