//! Durations as people write and read them.

use std::time::Duration;

use jiff::SignedDuration;

/// Parses `500ms`, `15s`, `1m 30s` or `PT15S`. A number needs its unit, and a duration is not negative.
///
/// # Errors
/// What was given, what is allowed, what to do.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refuse = |why: &str| {
        let shown: String = text.chars().take(40).collect();
        Err(format!(
            "{shown:?} is not a duration: {why}; write a number with its unit, like 500ms, 15s or 2m"
        ))
    };
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return refuse("it is empty");
    }
    if trimmed.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return refuse("the unit is missing");
    }
    match trimmed.parse::<SignedDuration>() {
        Err(_) if trimmed.starts_with('-') => refuse("it is negative"),
        Err(_) => refuse("it cannot be read, or is longer than can be counted"),
        Ok(duration) => match Duration::try_from(duration) {
            Ok(duration) => Ok(duration),
            Err(_) => refuse("it is negative"),
        },
    }
}

/// A duration for people: at most two units, `9s`, `11.2s`, `3m 12s`, `2h 4m`.
#[must_use]
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.subsec_millis() == 0 => "0s".to_owned(),
        0 => format!("{}ms", duration.subsec_millis()),
        1..=59 if duration.subsec_millis() < 50 => format!("{seconds}s"),
        1..=59 => format!("{:.1}s", duration.as_secs_f64()),
        60..=3_599 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..=86_399 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit} {small}{small_unit}")
    }
}

/// Whole milliseconds, for JSON.
#[must_use]
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b42_what_is_and_what_is_not_a_duration() {
        for (text, millis) in [
            ("500ms", 500),
            ("15s", 15_000),
            ("1m 30s", 90_000),
            ("PT15S", 15_000),
            ("1.5s", 1_500),
            ("0s", 0),
            ("2h", 7_200_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            " ",
            "5",
            "1.5",
            "-3s",
            "-PT3S",
            "NaN",
            "inf",
            "s",
            "5 parsecs",
            "99999999999999999999999s",
            "1e400s",
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains("like 500ms, 15s or 2m"), "{error}");
        }
    }

    #[test]
    fn durations_are_shown_in_two_units() {
        for (millis, text) in [
            (0, "0s"),
            (7, "7ms"),
            (9_000, "9s"),
            (11_240, "11.2s"),
            (192_031, "3m 12s"),
            (7_440_000, "2h 4m"),
            (90_000_000, "1d 1h"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
