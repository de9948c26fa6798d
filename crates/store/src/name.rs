//! Names for runs: a date, an animal and four digits, easy to say aloud and to tell apart.

use uuid::Uuid;
use weir_units::utc;

/// The animals, in the order of the alphabet so that consecutive runs differ at the first letter.
const ANIMALS: [&str; 26] = [
    "auk", "badger", "crane", "dipper", "eel", "finch", "grebe", "heron", "ibis", "jackdaw", "kite", "lark",
    "marten", "newt", "otter", "perch", "quail", "rail", "stork", "trout", "urchin", "vole", "wren", "xerus",
    "yak", "zander",
];

const MS_PER_DAY: i64 = 86_400_000;

/// The `n`th name of a run that begins then: `2026-11-21-otter-3f9a`. Its end comes from the run's identity,
/// so that runs of two databases have two names; the animal from the day and `n`.
pub(crate) fn nth(ms: i64, n: usize, uuid: Uuid) -> String {
    let day = usize::try_from(ms.div_euclid(MS_PER_DAY).unsigned_abs()).unwrap_or(0);
    let animal = ANIMALS[(day.wrapping_mul(7) + n) % ANIMALS.len()];
    // The last bytes are the random ones (RFC 9562, section 5.7).
    let [.., high, low] = *uuid.as_bytes();
    format!("{}-{animal}-{high:02x}{low:02x}", utc(ms, utc::DAY))
}

/// What is wrong with a name, if anything.
pub(crate) fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.starts_with(['@', '-']) {
        return Some("names must not begin with `@` or `-`, which commands read otherwise");
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("it would be read as a run's number; add a letter");
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace() || c == '/') {
        return Some("names hold no spaces, slashes or control characters");
    }
    (name.len() > 100).then_some("it is longer than 100 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_day_differ_within_a_database_and_between_two_and_are_valid() {
        let uuids = [Uuid::from_u128(0x3f9a), Uuid::from_u128(0x12_0007)];
        let name = |n: usize| uuids.map(|uuid| nth(1_795_219_200_000, n, uuid));
        let names: std::collections::BTreeSet<_> = (0..26).flat_map(name).collect();
        assert_eq!(names.len(), 52);
        assert!(
            names.iter().any(|name| name.starts_with("2026-11-21-") && name.ends_with("-3f9a")),
            "{names:?}"
        );
        assert!(names.iter().all(|name| fault(name).is_none()));
    }

    #[test]
    fn names_that_commands_would_misread_are_refused() {
        for name in ["", "@last", "42", "a b", "-x", "a/b", "line\nbreak"] {
            assert!(fault(name).is_some(), "{name:?}");
        }
        assert_eq!(fault("quiet-machine"), None);
    }
}
