//! A file's history and its summary as text: what the file's own conversation is told at its start, and what `--history`
//! prints.
//!
//! ```text
//! {file-history}
//! File: PATH
//! Repository: FOLDER
//!
//! Individuals who edited this file:
//! - NAME <ADDRESS>: N commits
//!
//! Step-by-step history:
//! - 2026-05-01 1234abc NAME: SUMMARY           the oldest first; the subject where there is no summary
//! - 2026-05-02 1234abd (merge, renamed from OLD) NAME: SUMMARY
//!
//! Files edited in the same commits:
//! | file | commits together | historical co-edit rate |
//! | --- | ---: | --- |
//! | PATH | N | high (75%) |
//!
//! (a paragraph that says how to take the table)
//!
//! Summarized commits:
//! - ID (1234abd): SUMMARY                      the newest first
//! {/file-history}
//!
//! {file-summary}
//! File: PATH
//! Source: nagent-file-summarize
//!
//! TEXT
//! {/file-summary}
//! ```
//! The same history is the same text, whatever the day. Names, addresses, subjects, paths and summaries were written by
//! anybody: each stays on its line and in its cell, and none holds a marker ([`crate::format::harmless`]). Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Change, History, Sort, Touch};
use crate::format::harmless;

/// The commits that a conversation is told of, the latest.
pub const STEPS: usize = 50;
/// The people that it is told of.
const PEOPLE: usize = 20;
/// The rows of the table.
const ROWS: usize = 20;
/// The longest summary of a file, in characters.
const SUMMARY: usize = 6_000;
/// The longest name, address and path on a line, in characters.
const NAME: usize = 80;
const PATH: usize = 400;
/// The longest subject, or summary of a commit.
const STEP: usize = 300;

/// How to take the table.
const GUIDANCE: &str = "The table counts past commits: it hints at where to look and orders nothing. Before a change to an interface, to \
    what a test checks, to configuration or to code that has a counterpart, look into the files marked high. Change one of \
    them only when the task, or what you found in the code, calls for it.";

/// How much of a history is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What a conversation begins with: bounded.
    Latest,
    /// All of it.
    Whole,
}

/// Summaries of commits, by commit.
pub type Summaries = BTreeMap<String, String>;

/// The history as text; empty where no commit touched the file. `summaries` are those that there are.
pub fn history(history: &History, summaries: &Summaries, extent: Extent) -> String {
    if history.touches.is_empty() {
        return String::new();
    }
    let most = |bound: usize| if extent == Extent::Whole { usize::MAX } else { bound };
    let mut text = format!("{{file-history}}\nFile: {}\n", path(&history.path));
    let toplevel = history.toplevel.as_os_str().as_encoded_bytes();
    let _ = writeln!(text, "Repository: {}", path(toplevel));
    people(&mut text, history, most(PEOPLE));
    let touches = &history.touches[..history.touches.len().min(most(STEPS))];
    steps(&mut text, history, touches, summaries);
    neighbours(&mut text, history, most(ROWS));
    text.push_str("\nSummarized commits:\n");
    let mut has_one = false;
    for touch in touches {
        if let Some(summary) = summaries.get(&touch.id) {
            has_one = true;
            let _ =
                writeln!(text, "- {} ({}): {}", touch.id, short(&touch.id), line(summary, STEP));
        }
    }
    if !has_one {
        text.push_str("- None yet.\n");
    }
    text.push_str("{/file-history}");
    text
}

fn people(text: &mut String, history: &History, most: usize) {
    text.push_str("\nIndividuals who edited this file:\n");
    if history.people.is_empty() {
        // As at the edge of a shallow clone, whose commit only seems to have made the file.
        text.push_str("- Not known.\n");
    }
    for person in history.people.iter().take(most) {
        let commits = if person.commits == 1 { "commit" } else { "commits" };
        let (name, email) = (line(&person.name, NAME), line(&person.email, NAME));
        let _ = writeln!(text, "- {name} <{email}>: {} {commits}", person.commits);
    }
    if let Some(more) = history.people.len().checked_sub(most).filter(|more| *more > 0) {
        let _ = writeln!(text, "- and {more} more, with fewer commits");
    }
}

fn steps(text: &mut String, history: &History, touches: &[Touch], summaries: &Summaries) {
    text.push_str("\nStep-by-step history:\n");
    let earlier = history.touches.len() - touches.len();
    if earlier > 0 {
        let _ = writeln!(text, "- {earlier} earlier commits are left out here");
    } else if history.is_shallow {
        text.push_str("- what came before is not in this clone, which is a shallow one\n");
    }
    for touch in touches.iter().rev() {
        let what = summaries.get(&touch.id).unwrap_or(&touch.subject);
        let _ = writeln!(
            text,
            "- {} {}{} {}: {}",
            date(touch.time, touch.offset),
            short(&touch.id),
            marks(touch),
            line(&touch.name, NAME),
            line(what, STEP)
        );
    }
}

fn neighbours(text: &mut String, history: &History, most: usize) {
    text.push_str("\nFiles edited in the same commits:\n");
    if history.neighbours.is_empty() {
        text.push_str("- None found.\n");
        return;
    }
    text.push_str("| file | commits together | historical co-edit rate |\n| --- | ---: | --- |\n");
    for neighbour in history.neighbours.iter().take(most) {
        let _ = writeln!(
            text,
            "| {} | {} | {} ({}%) |",
            cell(&path(&neighbour.path)),
            neighbour.together,
            neighbour.rate.name(),
            percent(neighbour.share)
        );
    }
    if let Some(more) = history.neighbours.len().checked_sub(most).filter(|more| *more > 0) {
        let _ = writeln!(text, "\n{more} more files, with lower rates, are left out.");
    }
    let _ = writeln!(text, "\n{GUIDANCE}");
}

/// A file's summary as text, or why there is none.
pub fn summary(file: &[u8], summary: Result<&str, &str>) -> String {
    let text = match summary {
        Ok(text) => paragraphs(text),
        Err(why) => format!("{UNAVAILABLE}{}", line(why, SUMMARY)),
    };
    format!(
        "{{file-summary}}\nFile: {}\nSource: nagent-file-summarize\n\n{text}\n{{/file-summary}}",
        path(file)
    )
}

/// What the text begins with where there is no summary.
const UNAVAILABLE: &str = "Unavailable: ";

/// The summary that a conversation was told, as it stands in its section: of this file, and a true one.
pub fn told_summary<'a>(section: &'a str, file: &[u8]) -> Option<&'a str> {
    let start = section.rfind("{file-summary}\n")?;
    let end = "\n{/file-summary}";
    let stop = start + section[start..].find(end)? + end.len();
    let block = &section[start..stop];
    let head = format!("{{file-summary}}\nFile: {}\n", path(file));
    let is_true = block.starts_with(&head) && !block.contains(&format!("\n\n{UNAVAILABLE}"));
    is_true.then_some(block)
}

/// Whether a section that was told has a commit among its steps.
pub fn told_step(section: &str, touch: &Touch) -> bool {
    let start = format!("\n- {} {}", date(touch.time, touch.offset), short(&touch.id));
    section.contains(&start)
}

/// What is said of a commit in a word.
fn marks(touch: &Touch) -> String {
    let sort = match touch.sort {
        Sort::Plain => None,
        Sort::Merge => Some("merge".to_owned()),
        Sort::Import => Some("import".to_owned()),
        Sort::Boundary => Some("edge of a shallow clone".to_owned()),
    };
    let change = match &touch.change {
        Change::Modified => None,
        // That the file is new there says nothing of it.
        Change::Added if touch.sort == Sort::Boundary => None,
        Change::Added => Some("added".to_owned()),
        Change::Renamed { from } => Some(format!("renamed from {}", path(from))),
        Change::Deleted => Some("deleted".to_owned()),
    };
    let marks: Vec<String> = sort.into_iter().chain(change).collect();
    if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) }
}

/// A commit's id as people write it.
pub fn short(id: &str) -> &str {
    &id[..id.floor_char_boundary(7)]
}

/// A share of 0 to 1 in percent; what is no number is none.
pub fn percent(share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 100, and a cast of what is no number gives 0"
    )]
    let percent = (share.clamp(0.0, 1.0) * 100.0).round() as u64;
    percent
}

/// The day of a commit where its author was: `2026-05-01`. Times that no calendar has show as question marks.
pub fn date(time: i64, offset: i32) -> String {
    let local = time.saturating_add(i64::from(offset).saturating_mul(60));
    let days = local.div_euclid(86_400);
    // The years 0 to 9999.
    if !(-719_528..=2_932_896).contains(&days) {
        return "????-??-??".to_owned();
    }
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since 1970-01-01: the algorithm of Howard Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms", which counts years from March on so that the leap day is the last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn line(text: &str, most: usize) -> String {
    harmless::without_markers(&harmless::escape_line(text, most))
}

fn path(bytes: &[u8]) -> String {
    let shown = harmless::truncate(&harmless::escape_name(bytes), PATH);
    harmless::without_markers(&shown)
}

/// A text in a cell of a table: no bar of it ends the cell, whatever stands before the bar.
fn cell(text: &str) -> String {
    if text.contains('|') { text.replace('\\', r"\\").replace('|', r"\|") } else { text.to_owned() }
}

/// Lines of anybody: hidden characters shown, no marker, no line that could be taken for the heading of a section, blank
/// lines one at a time.
fn paragraphs(text: &str) -> String {
    let text = harmless::truncate(text.trim(), SUMMARY);
    let text = harmless::escape_text(&text);
    let mut out = String::with_capacity(text.len());
    let mut blank = false;
    for line in text.lines().map(str::trim_end) {
        if line.is_empty() {
            blank = true;
            continue;
        }
        if !out.is_empty() {
            out.push_str(if blank { "\n\n" } else { "\n" });
        }
        blank = false;
        if line.starts_with('#') {
            out.push('\\');
        }
        out.push_str(line);
    }
    harmless::without_markers(&out)
}

#[cfg(test)]
mod tests;
