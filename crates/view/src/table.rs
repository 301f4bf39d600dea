//! Tables of text.

use conversation::format::columns::width;

/// Lays out rows in columns that are two blanks apart. Cells of the columns in `right` are aligned to the right, as numbers are.
pub fn format_table<R: AsRef<[String]>>(rows: &[R], right: &[usize]) -> String {
    let count = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let cells = |at: usize| rows.iter().filter_map(move |row| row.as_ref().get(at));
    let widest = |at| cells(at).map(|cell| width(cell)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(widest).collect();
    let line = |row: &R| {
        let cells = row.as_ref().iter().zip(&widths).enumerate().map(|(at, (cell, most))| {
            let blanks = " ".repeat(most.saturating_sub(width(cell)));
            if right.contains(&at) { blanks + cell } else { cell.clone() + &blanks }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned() {
        let rows = [["NAME", "N"], ["a", "10"], ["世界世", "1"]].map(|row| row.map(str::to_owned));
        assert_eq!(format_table(&rows, &[1]), "NAME     N\na       10\n世界世   1\n");
    }
}
