//! Numbers for people.

/// A number of bytes: `812 B`, `4.1 KB`, `20.0 MB`.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// A number of tokens: `9999`, `12.3k`.
pub fn thousands(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { format!("{:.1}k", count as f64 / 1000.0) }
}

/// A number of things, each with this name: `1 line`, `2 lines`.
pub fn plural(count: u64, name: &str) -> String {
    if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(
            [bytes(0), bytes(999), bytes(4_100), bytes(20_000_000)],
            ["0 B", "999 B", "4.1 KB", "20.0 MB"]
        );
        assert_eq!([thousands(9_999), thousands(12_345)], ["9999", "12.3k"]);
        assert_eq!([plural(0, "line"), plural(1, "line")], ["0 lines", "1 line"]);
    }
}
