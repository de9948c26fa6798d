//! Names for runs: a date, an animal and four digits, easy to say aloud and to tell apart.

use uuid::Uuid;

/// The animals, in the order of the alphabet so that consecutive runs differ at the first letter.
const ANIMALS: [&str; 26] = [
    "auk", "badger", "crane", "dipper", "eel", "finch", "grebe", "heron", "ibis", "jackdaw", "kite", "lark",
    "marten", "newt", "otter", "perch", "quail", "rail", "stork", "trout", "urchin", "vole", "wren", "xerus",
    "yak", "zander",
];

const MS_PER_DAY: i64 = 86_400_000;

/// `2026-11-21` for an instant in milliseconds since 1970 UTC (proleptic Gregorian calendar).
pub fn date(ms: i64) -> String {
    // Days since 0000-03-01, so that leap days end a year and centuries end an era of 400 years.
    let days = ms.div_euclid(MS_PER_DAY) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The `n`th name of a run that begins then: `2026-11-21-otter-3f9a`. Its end comes from the run's identity,
/// so that runs of two databases have two names; the animal from the day and `n`.
pub(crate) fn nth(ms: i64, n: usize, uuid: Uuid) -> String {
    let day = usize::try_from(ms.div_euclid(MS_PER_DAY).unsigned_abs()).unwrap_or(0);
    let animal = ANIMALS[(day.wrapping_mul(7) + n) % ANIMALS.len()];
    // The last bytes are the random ones (RFC 9562, section 5.7).
    let [.., high, low] = *uuid.as_bytes();
    format!("{}-{animal}-{high:02x}{low:02x}", date(ms))
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
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400_000), "2000-02-29");
        assert_eq!(date(1_795_219_199_999), "2026-11-20");
        assert_eq!(date(1_795_219_200_000), "2026-11-21");
        assert_eq!(date(-1), "1969-12-31");
    }

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
