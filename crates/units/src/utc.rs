//! Moments as people write them.

use jiff::Timestamp;

/// The day of a moment: `2026-11-21`.
pub const DAY: &str = "%Y-%m-%d";
/// A moment to the minute: `2026-11-21 12:45 UTC`.
pub const MINUTE: &str = "%Y-%m-%d %H:%M UTC";
/// A moment to the second: `2026-11-21 12:45:09 UTC`.
pub const SECOND: &str = "%Y-%m-%d %H:%M:%S UTC";

/// A moment in UTC, by milliseconds since 1970-01-01, in one of the forms above or another of `strftime`'s. A
/// moment outside the years -9999 to 9999 is written as the nearest one in them.
pub fn utc(milliseconds: i64, form: &str) -> String {
    let edge = if milliseconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(milliseconds).unwrap_or(edge).strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_at_leap_days_and_before_1970() {
        assert_eq!(utc(0, MINUTE), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400_000, MINUTE), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_795_265_134_000, SECOND), "2026-11-21 12:45:34 UTC");
        assert_eq!(utc(1_795_219_199_999, DAY), "2026-11-20");
        assert_eq!(utc(-60_000, MINUTE), "1969-12-31 23:59 UTC");
        assert_eq!(utc(i64::MAX, DAY), "9999-12-30");
        assert_eq!(utc(i64::MIN, DAY), "-9999-01-02");
    }
}
