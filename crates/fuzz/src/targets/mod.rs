//! The targets.

mod captures;
mod classify;
mod connections;
mod metrics;
mod openflow;
mod packets;
mod plans;
mod ports;
mod results;
mod services;
mod switch;
mod tables;
mod text;
mod workers;

use crate::{Target, refused};
use std::fmt::{Debug, Display};
use std::str::FromStr;

/// All of them.
pub const TARGETS: &[Target] = &[
    packets::FRAME,
    packets::DISSECT,
    packets::EDIT,
    packets::STAMP,
    captures::PCAP,
    captures::PCAPNG,
    tables::ROUTES,
    tables::RULES,
    tables::UNITS,
    tables::HISTOGRAM,
    text::FLOW,
    text::FLOW_FILE,
    text::GROUP,
    text::METER,
    text::MATCH,
    openflow::MESSAGE,
    openflow::STREAM,
    openflow::SESSION,
    classify::TABLE,
    classify::CACHES,
    connections::CONNTRACK,
    connections::HELPERS,
    connections::FRAGMENTS_TARGET,
    services::SETTINGS,
    services::BURST,
    results::BUNDLE,
    results::PARTS,
    results::RUN_JSON,
    plans::PLAN,
    plans::FUNCTION,
    plans::DEVICES,
    switch::CONFIG,
    switch::CONTROL,
    metrics::METRICS,
    metrics::PROMETHEUS,
    ports::PORT,
    workers::WORKERS,
];

/// The one of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The text of an input; what is no text is replaced.
fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// Texts as seeds.
fn seeds(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// What can be read is shown, and what is shown can be read; rounded as it is then.
fn shown<T: FromStr + Display>(text: &str) -> bool
where
    T::Err: Display,
{
    shown_by::<T>(text, |once, again| assert_eq!(again.to_string(), once, "{text:?}"))
}

/// The same of what is shown with as many digits as its rounding left: 12.01 s as `12.0 s`, and that as `12 s`, which reads
/// the same.
fn shown_rounded<T: FromStr + Display + PartialEq + Debug>(text: &str) -> bool
where
    T::Err: Display,
{
    shown_by::<T>(text, |once, again| {
        assert_eq!(again.to_string().parse().ok(), Some(again), "{text:?}: {once:?}");
    })
}

fn shown_by<T: FromStr + Display>(text: &str, same: impl Fn(&str, T)) -> bool
where
    T::Err: Display,
{
    match text.parse::<T>() {
        Ok(value) => {
            let once = value.to_string();
            match once.parse::<T>() {
                Ok(again) => same(&once, again),
                Err(error) => panic!("{text:?} is shown as {once:?}: {error}"),
            }
            true
        }
        Err(error) => {
            refused(&error.to_string(), text.as_bytes());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_one_target_each_and_can_be_file_names() {
        let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        let is_plain = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        assert!(names.iter().all(is_plain), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TARGETS.len());
    }

    #[test]
    fn every_seed_fits_its_target() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(!seeds.is_empty(), "{} has no seed", target.name);
            let longest = seeds.iter().map(Vec::len).max().unwrap_or(0);
            assert!(longest <= target.longest, "{}: a seed of {longest} bytes", target.name);
        }
    }
}
