//! Medians, ranges, ratios, and how they are shown. No clock, no files.

/// The middle value; the mean of the two where there is no single one. NaN for none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (length, half) if length % 2 == 1 => sorted[half],
        (_, half) => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

#[allow(dead_code, reason = "not every program asks for it")]
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Median and range: `1.23 (1.10–2.00)`.
pub(crate) fn spread(values: &[f64]) -> String {
    if values.is_empty() {
        return "–".to_owned();
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} ({}–{})", short(median(values)), short(least), short(most))
}

/// The median of the ratios round by round: what the host does to one it does to the other.
pub(crate) fn ratio(values: &[f64], others: &[f64]) -> String {
    let pairs: Vec<f64> = values.iter().zip(others).map(|(value, other)| value / other).collect();
    if pairs.is_empty() { "–".to_owned() } else { format!("×{}", short(median(&pairs))) }
}

/// Three significant figures, more or less.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[test]
fn medians_are_in_the_middle() {
    assert_eq!(median(&[3.0, 1.0, 2.0]).to_string(), "2");
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]).to_string(), "2.5");
    assert_eq!(spread(&[2.0, 1.0, 30.0]), "2.00 (1.00–30.0)");
    assert_eq!(ratio(&[2.0, 9.0], &[1.0, 3.0]), "×2.50");
}
