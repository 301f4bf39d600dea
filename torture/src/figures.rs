//! The table of figures: what was measured, what was to be reached, whether it was. It measures nothing itself.

use std::fmt;

/// The figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// The part that is running.
    pub(crate) part: &'static str,
    rows: Vec<Row>,
    misses: Vec<String>,
}

#[derive(Debug)]
struct Row {
    part: &'static str,
    what: String,
    got: String,
    wanted: String,
    ok: bool,
}

impl Figures {
    /// A figure, and whether it is what it was to be.
    pub(crate) fn row(&mut self, what: &str, got: impl ToString, wanted: impl ToString, ok: bool) {
        let (got, wanted) = (got.to_string(), wanted.to_string());
        println!("  {} {what}: {got} (wanted: {wanted})", if ok { "ok  " } else { "MISS" });
        self.rows.push(Row { part: self.part, what: what.to_owned(), got, wanted, ok });
    }

    /// A count that is to be exactly this.
    pub(crate) fn exactly(&mut self, what: &str, got: usize, wanted: usize) {
        self.row(what, got, wanted, got == wanted);
    }

    /// A count that is to be this or more.
    pub(crate) fn at_least(&mut self, what: &str, got: usize, wanted: usize) {
        self.row(what, got, format!("at least {wanted}"), got >= wanted);
    }

    /// Something that went wrong, in words; the run fails.
    pub(crate) fn miss(&mut self, why: String) {
        println!("  MISS {why}");
        self.misses.push(format!("{}: {why}", self.part));
    }

    /// Whether anything went wrong.
    pub(crate) fn has_misses(&self) -> bool {
        !self.misses.is_empty()
    }

    /// Whether every figure was reached and nothing went wrong.
    pub(crate) fn reached(&self) -> bool {
        !self.rows.is_empty() && self.misses.is_empty() && self.rows.iter().all(|row| row.ok)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| part | figure | reached | wanted | |\n|---|---|--:|--:|---|")?;
        for Row { part, what, got, wanted, ok } in &self.rows {
            let verdict = if *ok { "ok" } else { "**missed**" };
            writeln!(f, "| {part} | {what} | {got} | {wanted} | {verdict} |")?;
        }
        self.misses.iter().try_for_each(|miss| writeln!(f, "\nmissed: {miss}"))
    }
}
