//! Formats a file's history and its summary: for the first context of the file's own conversation, and for `--history`.
//!
//! ```text
//! {file-history}
//! File: PATH
//! Repository: FOLDER
//!
//! Individuals who edited this file:             with `--history` only
//! - NAME <ADDRESS>: N commits
//!
//! Step-by-step history, in the order of the branch (dates are the authors'):
//! - 2026-05-01 1234abc NAME: SUMMARY           oldest first; the subject where there is no summary
//! - 2026-05-02 1234abd (merge, renamed from OLD) NAME: SUMMARY       the NAME with `--history` only
//!
//! Files edited in the same commits, of its latest 12 that were compared:
//! | file | commits together |
//! | --- | ---: |
//! | PATH | 9 |
//!
//! (a paragraph on how to use the table; not for `--history`)
//! {/file-history}
//!
//! {file-summary}
//! File: PATH
//! Source: nagent-file-summarize
//!
//! TEXT
//! {/file-summary}
//! ```
//! A conversation that already has this gets only the new part ([`format_news`]):
//!
//! ```text
//! {file-history}
//! More commits:
//! - 2026-05-02 1234abd: SUMMARY
//!
//! Summaries of commits above:
//! - 2026-05-01 1234abc: SUMMARY                was named by its subject before
//! {/file-history}
//! ```
//! The same history gives the same text on any day. Names, addresses, subjects, paths and summaries are untrusted: each
//! stays on its line and in its cell, and none contains a marker ([`conversation::format::harmless`]). Pure.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, UNIX_EPOCH};

use super::History;
use super::commit::{CommitKind, FileChange, FileCommit};
use conversation::format::harmless;
use conversation::limits;

/// Bytes of the steps and of the rows at the start of a conversation, whose every request carries them.
const STEPS: usize = 970;
const ROWS: usize = 280;
const MAX_ROWS: usize = 5;
/// Characters of what a step did, or of a path in a row, there.
const STEP: usize = 80;
const MAX_SUMMARY: usize = 6_000;
const MAX_NAME: usize = 80;
const MAX_PATH: usize = 400;

const GUIDANCE: &str = "The table counts past commits, and does not tell you what to change. Before you change an interface, \
    configuration or what a test checks, look at its first files.";

/// The part of a history that is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The bounded part at the start of a conversation.
    Latest,
    /// All of it.
    Whole,
}

/// Summaries of commits, by commit id.
pub type Summaries = BTreeMap<String, String>;

/// Formats a history; empty if no commit touched the file.
pub fn format_history(history: &History, summaries: &Summaries, extent: Extent) -> String {
    if history.commits.is_empty() {
        return String::new();
    }
    let is_whole = extent == Extent::Whole;
    let mut text = format!("{{file-history}}\nFile: {}\n", show_path(&history.path));
    let toplevel = history.toplevel.as_os_str().as_encoded_bytes();
    let _ = writeln!(text, "Repository: {}", show_path(toplevel));
    if is_whole {
        add_people(&mut text, history);
    }
    add_steps(&mut text, history, summaries, extent);
    add_co_changed(&mut text, history, is_whole);
    if !is_whole && !history.co_changed.is_empty() {
        let _ = writeln!(text, "\n{GUIDANCE}");
    }
    text.push_str("{/file-history}");
    text
}

/// Formats the commits of a history that are not in `known`, the history text that the conversation already has; empty
/// if nothing is new. `redact` masks a line in the same way as those in `known`.
pub fn format_news(
    history: &History,
    summaries: &Summaries,
    known: &str,
    redact: &dyn Fn(String) -> String,
) -> String {
    let known_ids: HashSet<&str> = known.lines().filter_map(parse_step_id).collect();
    let latest = &history.commits[..history.commits.len().min(limits::HISTORY_STEPS)];
    // Those before the newest known one were left out for their length.
    let is_known = |commit: &FileCommit| known_ids.contains(shorten_id(&commit.id));
    let newest = latest.iter().position(is_known).unwrap_or(latest.len());
    let latest = latest.iter().enumerate().filter(|(at, it)| *at < newest || is_known(it)).rev();
    let steps = latest.map(|(_, commit)| redact(format_step(commit, summaries, Extent::Latest)));
    let known_lines: HashSet<&str> = known.lines().collect();
    let steps = steps.filter(|line| !known_lines.contains(line.trim_end_matches('\n')));
    // A summary may arrive after the commit was named by its subject.
    let (late, mut more): (Vec<String>, Vec<String>) =
        steps.partition(|line| parse_step_id(line).is_some_and(|id| known_ids.contains(id)));
    if more.len() == limits::HISTORY_STEPS && history.commits.len() > more.len() {
        more.insert(0, "- earlier commits are left out here\n".to_owned());
    }
    let mut text = String::new();
    let parts = [("More commits", more), ("Summaries of commits above", late)];
    for (heading, lines) in parts {
        if !lines.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{gap}{heading}:\n{}", lines.concat());
        }
    }
    if text.is_empty() { text } else { format!("{{file-history}}\n{text}{{/file-history}}") }
}

fn add_people(text: &mut String, history: &History) {
    // A shallow clone has only its oldest commit, whose author need not have written the file.
    if history.people.is_empty() {
        return;
    }
    text.push_str("\nIndividuals who edited this file:\n");
    for person in &history.people {
        let commits = if person.commits == 1 { "commit" } else { "commits" };
        let (name, email) = (show_line(&person.name, MAX_NAME), show_line(&person.email, MAX_NAME));
        let _ = writeln!(text, "- {name} <{email}>: {} {commits}", person.commits);
    }
}

/// The first lines that fit into so many bytes, one at least.
fn take_fitting(lines: impl Iterator<Item = String>, most: usize) -> Vec<String> {
    let mut bytes = 0;
    let fits = |line: &String| {
        let is_first = bytes == 0;
        bytes += line.len();
        is_first || bytes <= most
    };
    lines.take_while(fits).collect()
}

fn add_steps(text: &mut String, history: &History, summaries: &Summaries, extent: Extent) {
    let steps = history.commits.iter().map(|commit| format_step(commit, summaries, extent));
    let steps: Vec<String> = match extent {
        Extent::Whole => steps.collect(),
        Extent::Latest => take_fitting(steps.take(limits::HISTORY_STEPS), STEPS),
    };
    text.push_str("\nStep-by-step history, in the order of the branch (dates are the authors'):\n");
    let earlier = history.commits.len() - steps.len();
    if let Some(time) = history.read_back_to {
        let day = format_date(time, 0);
        let _ = writeln!(text, "- history read back to {day}: older commits took too long to read");
    }
    if earlier > 0 {
        let _ = writeln!(text, "- {earlier} earlier commits are left out here");
    } else if history.is_shallow {
        text.push_str("- earlier commits are not in this clone, which is shallow\n");
    }
    text.extend(steps.into_iter().rev());
}

/// The commit of a line, if it is one of [`format_step`].
fn parse_step_id(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("- ")?.split(' ').skip(1);
    words
        .next()
        .map(|id| id.trim_end_matches(':'))
        .filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Formats the line of a commit. A model needs no names of people.
fn format_step(commit: &FileCommit, summaries: &Summaries, extent: Extent) -> String {
    let what = summaries.get(&commit.id).unwrap_or(&commit.subject);
    let (name, most) = match extent {
        Extent::Latest => (String::new(), STEP),
        Extent::Whole => (format!(" {}", show_line(&commit.name, MAX_NAME)), limits::HISTORY_STEP),
    };
    let (date, id) = (format_date(commit.time, commit.offset), shorten_id(&commit.id));
    format!("- {date} {id}{}{name}: {}\n", show_marks(commit), show_line(what, most))
}

fn add_co_changed(text: &mut String, history: &History, is_whole: bool) {
    if history.co_changed.is_empty() {
        return;
    }
    let counted = history.counted;
    let _ = writeln!(
        text,
        "\nFiles edited in the same commits, of its latest {counted} that were compared:\n| file | commits together |\n| --- | ---: |"
    );
    let rows = history.co_changed.iter().map(|file| {
        let path =
            harmless::truncate(&show_path(&file.path), if is_whole { MAX_PATH } else { STEP });
        format!("| {} | {} |\n", escape_cell(&path), file.together)
    });
    if is_whole {
        return text.extend(rows);
    }
    text.extend(take_fitting(rows.take(MAX_ROWS), ROWS));
}

/// Formats a file's summary, or the reason why there is none.
pub fn format_summary(file: &[u8], summary: Result<&str, &str>) -> String {
    let text = match summary {
        Ok(text) => show_paragraphs(text),
        Err(why) => format!("{UNAVAILABLE}{}", show_line(why, MAX_SUMMARY)),
    };
    format!(
        "{{file-summary}}\nFile: {}\nSource: nagent-file-summarize\n\n{text}\n{{/file-summary}}",
        show_path(file)
    )
}

/// The beginning of the text if there is no summary.
const UNAVAILABLE: &str = "Unavailable: ";

/// Finds the last summary block in the text that a conversation was given, including one with the reason why there is
/// none.
pub fn find_summary(known: &str) -> Option<&str> {
    let start = known.rfind("{file-summary}\n")?;
    let end = "\n{/file-summary}";
    let stop = start + known[start..].find(end)? + end.len();
    Some(&known[start..stop])
}

/// Whether a summary block has a summary.
pub fn has_summary(block: &str) -> bool {
    !block.contains(&format!("\n\n{UNAVAILABLE}"))
}

/// Formats the special properties of a commit.
pub(super) fn show_marks(commit: &FileCommit) -> String {
    let kind = match commit.kind {
        CommitKind::Plain => None,
        CommitKind::Merge => Some("merge".to_owned()),
        CommitKind::Import => Some("import".to_owned()),
        CommitKind::Boundary => Some("edge of a shallow clone".to_owned()),
    };
    let change = match &commit.change {
        FileChange::Modified => None,
        // All files look new there.
        FileChange::Added if commit.kind == CommitKind::Boundary => None,
        FileChange::Added => Some("added".to_owned()),
        FileChange::Renamed { from } => Some(format!("renamed from {}", show_path(from))),
        FileChange::Deleted => Some("deleted".to_owned()),
    };
    let marks: Vec<String> = kind.into_iter().chain(change).collect();
    if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) }
}

/// Returns the first seven digits of a commit id.
pub(crate) fn shorten_id(id: &str) -> &str {
    &id[..id.floor_char_boundary(7)]
}

/// Formats the day of a commit in its author's time zone: `2026-05-01`. Days before 1970 and after 9999 become question marks.
pub fn format_date(time: i64, offset: i32) -> String {
    let local = time.saturating_add(i64::from(offset).saturating_mul(60));
    match u64::try_from(local) {
        Ok(seconds @ ..=253_402_300_799) => {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            let mut text = humantime::format_rfc3339_seconds(time).to_string();
            text.truncate("2026-05-01".len());
            text
        }
        _ => "????-??-??".to_owned(),
    }
}

fn show_line(text: &str, limit: usize) -> String {
    harmless::without_markers(&harmless::escape_line(text, limit))
}

pub(super) fn show_path(path: &[u8]) -> String {
    let shown = harmless::truncate(&harmless::quote_name(OsStr::from_bytes(path)), MAX_PATH);
    harmless::without_markers(&shown)
}

/// Escapes a text so that no bar in it ends the cell of the table.
fn escape_cell(text: &str) -> String {
    if text.contains('|') { text.replace('\\', r"\\").replace('|', r"\|") } else { text.to_owned() }
}

/// Formats untrusted lines: shows hidden characters, removes markers, escapes headings, and joins runs of blank lines.
fn show_paragraphs(text: &str) -> String {
    let text = harmless::truncate(text.trim(), MAX_SUMMARY);
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
