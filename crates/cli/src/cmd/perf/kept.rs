//! Tables that were measured before, and such as were measured in pieces.

use super::super::{BadUse, store_error};
use super::{Args, file, rows};
use std::collections::BTreeMap;
use std::path::Path;
use weir_campaign::perf::{Measured, Perf, SCHEMA_VERSION, find, judge};
use weir_store::Store;
use weir_trial::run::Run;

/// Reads the tables that are asked for, the oldest first. Of a row that several of them measured, only the newest
/// keeps it.
pub(super) fn read(args: &Args) -> anyhow::Result<Vec<Perf>> {
    let mut tables =
        args.stored.iter().map(|stored| table(args, stored)).collect::<anyhow::Result<Vec<Perf>>>()?;
    if tables.len() > 1 && (args.json || tables.iter().any(|table| table.base.is_some())) {
        let why = "several tables print as one, but neither with --json nor where one compares two builds; name one";
        return Err(BadUse::new(format!("--stored: {why}")).into());
    }
    if !args.only.is_empty() {
        let asked: Vec<&str> = rows(args)?.iter().map(|row| row.id).collect();
        tables.iter_mut().for_each(|table| table.rows.retain(|row| asked.contains(&row.row.as_str())));
    }
    tables.sort_by_key(|table| table.started_ms);
    keep_newest(&mut tables);
    Ok(tables)
}

/// Leaves each row in one table: the newest that measured it, or the newest that says why it could not.
fn keep_newest(tables: &mut [Perf]) {
    let mut best: BTreeMap<String, (bool, usize)> = BTreeMap::new();
    for (place, table) in tables.iter().enumerate() {
        for row in &table.rows {
            let best = best.entry(row.row.clone()).or_default();
            *best = (*best).max((!row.pairs.is_empty(), place));
        }
    }
    for (place, table) in tables.iter_mut().enumerate() {
        table.rows.retain(|row| best[&row.row].1 == place);
    }
}

/// Reads a table, and judges its runs again where the store still has them.
fn table(args: &Args, stored: &Path) -> anyhow::Result<Perf> {
    let path = if stored.is_file() {
        stored.to_owned()
    } else {
        let store = Store::open_existing(args.db.as_deref()).map_err(store_error)?;
        file(&store, &stored.to_string_lossy())
    };
    let wrong = |why: String| BadUse::new(format!("--stored {}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let mut perf: Perf = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if perf.schema != SCHEMA_VERSION {
        return Err(wrong(format!(
            "it is of version {}, and this program reads {SCHEMA_VERSION}",
            perf.schema
        ))
        .into());
    }
    if let Ok(store) = Store::open_existing(args.db.as_deref()) {
        perf.rows.iter_mut().for_each(|row| again(row, &store));
    }
    Ok(perf)
}

/// Judges a row's stored runs again; one whose runs are not all in the store stays as it was.
fn again(measured: &mut Measured, store: &Store) {
    let names = measured.pairs.iter().flat_map(|pair| &pair.runs);
    let load = |name: &String| store.load(store.find(&name.parse().ok()?).ok()?).ok();
    let runs: Option<Vec<Run>> = names.map(load).collect();
    if let (Some(row), Some(runs)) = (find(&measured.row), runs.filter(|runs| !runs.is_empty())) {
        *measured = judge(row, &runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_campaign::perf::{Effort, Pair, Side, Unit};

    fn row(name: &str, is_measured: bool) -> Measured {
        let side = Side {
            name: "weir".into(),
            version: None,
            unit: Unit::Pps,
            median: 1e6,
            min: 1e6,
            max: 1e6,
            count: 1,
            left_out: 0,
            cycles_per_packet: None,
        };
        let pair = Pair {
            runs: vec![],
            weir: side,
            other: None,
            ratio: None,
            interval: None,
            alternated: true,
            chance: None,
            visible: None,
        };
        let measured = Measured::unavailable(find(name).unwrap(), "the reason");
        Measured { pairs: if is_measured { vec![pair] } else { vec![] }, ..measured }
    }

    fn kept(tables: &[&[(&str, bool)]]) -> Vec<Vec<String>> {
        let table = |rows: &&[(&str, bool)]| Perf {
            schema: SCHEMA_VERSION,
            name: String::new(),
            started_ms: 0,
            weir: String::new(),
            base: None,
            effort: Effort::QUICK,
            environment: BTreeMap::new(),
            rows: rows.iter().map(|&(name, is_measured)| row(name, is_measured)).collect(),
        };
        let mut tables: Vec<Perf> = tables.iter().map(table).collect();
        keep_newest(&mut tables);
        tables.iter().map(|table| table.rows.iter().map(|row| row.row.clone()).collect()).collect()
    }

    #[test]
    fn a_row_of_several_tables_is_the_newest_ones_that_measured_it() {
        assert_eq!(kept(&[&[("port", true), ("mac", true)], &[("port", true)]]), [vec!["mac"], vec!["port"]]);
        assert_eq!(
            kept(&[&[("port", true)], &[("port", false), ("mac", true)]]),
            [vec!["port"], vec!["mac"]]
        );
        assert_eq!(kept(&[&[("port", false)], &[("port", false)]]), [vec![], vec!["port"]]);
        assert_eq!(
            kept(&[&[("port", true)], &[("port", false)], &[("port", true)]]),
            [vec![], vec![], vec!["port"]]
        );
    }
}
