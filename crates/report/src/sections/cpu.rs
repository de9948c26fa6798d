//! CPU use by frame size: how many cores a device has in use at the greatest load, and what that comes to for a packet.

use super::{Part, by_function, rates, series, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Plot, Quantity, Sample};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::number;
use weir_trial::Nf;
use weir_trial::run::CpuUse;

/// The whole section; nothing where no device told its CPU time.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    by_function(digest, figure, table)
}

fn used(entry: &Entry<'_>) -> Option<CpuUse> {
    CpuUse::of(entry.point, entry.environment)
}

fn figure(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let pick = |entry: Entry<'_>| {
        let cpu = used(&entry)?;
        let at = cpu.load.map_or("a load of its own".to_owned(), |load| load.to_string());
        let mut lines = vec![format!("{} cores in use at {at}", number(cpu.cores.mean, 2))];
        lines.extend(
            cpu.cycles.map(|cycles| format!("{}{} cycles a packet", most(&cpu), number(cycles.mean, 0))),
        );
        lines.push(CpuUse::counted(entry.point).to_owned());
        Some(Sample {
            x: entry.bytes(),
            x_name: entry.size_name(),
            y: Some(cpu.cores.mean),
            interval: cpu.cores.interval.map(|interval| (interval.low, interval.high)),
            suspect: false,
            hollow: cpu.waits,
            detail: lines.join("\n"),
        })
    };
    let series = series(digest, nf, str::to_owned, 0, pick);
    (!series.is_empty()).then(|| Figure {
        id: format!("cpu-{}", slug(&nf.to_string())),
        title: format!("{nf}: cores in use"),
        caption: "CPU time over time at the greatest load of each frame size. A device that polls has its core in use whether \
                  packets come or not; it is hollow where it carried the load, so that it may have waited. Of the kernel \
                  it is the time of its soft and hard interrupts; the table says what was counted."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: rates::size_axis(),
            y: Axis { label: "Cores in use".into(), quantity: Quantity::Plain, spacing: Spacing::Linear },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    })
}

fn most(cpu: &CpuUse) -> &'static str {
    if cpu.waits { "at most " } else { "" }
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let row = |entry: Entry<'_>| {
        let cpu = used(&entry)?;
        let plain = |value: Option<f64>, decimals: usize| {
            value.map_or(Cell::None, |value| Cell::Number(number(value, decimals), value))
        };
        let interval = |spread: weir_units::Spread| spread.interval;
        let (cores, cycles) = (interval(cpu.cores), cpu.cycles.and_then(interval));
        Some(Row {
            cells: vec![
                Cell::Text(entry.size()),
                Cell::Text(digest.subjects[entry.subject].clone()),
                Cell::rate(cpu.load, entry.bytes()),
                plain(Some(cpu.cores.mean), 3),
                plain(cores.map(|interval| interval.low), 3),
                plain(cores.map(|interval| interval.high), 3),
                plain(cpu.cycles.map(|cycles| cycles.mean), 1),
                plain(cycles.map(|interval| interval.low), 1),
                plain(cycles.map(|interval| interval.high), 1),
                Cell::count(u64::from(cpu.cores.count)),
                Cell::Text(format!("{}{}", most(&cpu), CpuUse::counted(entry.point))),
            ],
            suspect: false,
        })
    };
    Table {
        id: format!("cpu-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: cores in use and cycles a packet at the greatest load"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Load", "load_pps", Kind::Rate),
            column("Cores", "cores", Kind::Number),
            column("Interval from", "cores_low", Kind::Number),
            column("Interval to", "cores_high", Kind::Number),
            column("Cycles a packet", "cycles_per_packet", Kind::Number),
            column("Interval from", "cycles_low", Kind::Number),
            column("Interval to", "cycles_high", Kind::Number),
            column("Trials", "trials", Kind::Number),
            column("Counted", "counted", Kind::Text),
        ],
        rows: digest.of(nf).into_iter().filter_map(row).collect(),
    }
}
