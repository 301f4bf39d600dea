//! Formats numbers for people.

use std::time::Duration;

/// The whole part of a number: 0 below zero, and the largest one where it does not fit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub fn whole(number: f64) -> u64 {
    number as u64
}

/// Formats a number of bytes: `812 B`, `4.1 KB`, `20.0 MB`.
pub fn format_bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..999_950 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// Formats a number of tokens: `9999`, `12.3k`, `1.05M`.
pub fn format_tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..999_950 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.2}M", count as f64 / 1e6),
    }
}

/// Formats a count with the name of the things counted: `1 line`, `2 lines`.
pub fn format_count(count: u64, name: &str) -> String {
    if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") }
}

/// Formats a time in seconds: `12 s`, `3 min 5 s`, `2 h 5 min`.
pub fn format_duration(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Formats an age in its largest unit: `3 min`, `5 h`, `12 d`.
pub fn format_age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(
            [format_bytes(0), format_bytes(999), format_bytes(4_100), format_bytes(20_000_000)],
            ["0 B", "999 B", "4.1 KB", "20.0 MB"]
        );
        assert_eq!([format_tokens(9_999), format_tokens(12_345)], ["9999", "12.3k"]);
        assert_eq!([format_bytes(999_960), format_tokens(999_960)], ["1.0 MB", "1.00M"]);
        let age = |seconds| format_age(Duration::from_secs(seconds));
        assert_eq!([age(5), age(90), age(7_200), age(200_000)], ["5 s", "1 min", "2 h", "2 d"]);
        assert_eq!([format_count(0, "line"), format_count(1, "line")], ["0 lines", "1 line"]);
    }
}
