//! Writes the page of runs on simulated devices, to look at while working on the page:
//! `cargo run -p weir-report --example demo -- page.html [RUNS|curves]`.

#[path = "../tests/common/mod.rs"]
mod common;

use weir_report::{PageOptions, render};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "demo.html".to_owned());
    let runs = match arguments.next().as_deref() {
        Some("0") => vec![common::empty()],
        Some("curves") => vec![common::curves("2026-11-21-heron", 2)],
        Some("2") => vec![common::run("2026-11-21-otter", 1, 1.0), common::run("2026-11-21-heron", 2, 1.12)],
        _ => vec![common::run("2026-11-21-otter", 1, 1.0)],
    };
    std::fs::write(path, render(&runs, &PageOptions::default()))
}
