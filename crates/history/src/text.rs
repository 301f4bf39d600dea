//! Formats a file's history and its summary: for the first context of the file's own conversation, and for `--history`.
//!
//! ```text
//! {file-history}
//! File: PATH
//! Repository: FOLDER
//!
//! Individuals who edited this file:
//! - NAME <ADDRESS>: N commits
//!
//! Step-by-step history, in the order of the branch (dates are the authors'):
//! - 2026-05-01 1234abc NAME: SUMMARY           oldest first; the subject where there is no summary
//! - 2026-05-02 1234abd (merge, renamed from OLD) NAME: SUMMARY
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
//! - 2026-05-02 1234abd NAME: SUMMARY
//!
//! Summaries of commits above:
//! - 2026-05-01 1234abc NAME: SUMMARY           was named by its subject before
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

const MAX_PEOPLE: usize = 20;
const MAX_ROWS: usize = 20;
const MAX_SUMMARY: usize = 6_000;
const MAX_NAME: usize = 80;
const MAX_PATH: usize = 400;

const GUIDANCE: &str = "The table counts past commits: it suggests where to look, and does not tell you what to change. Before you change an \
    interface, something that a test checks, configuration, or code that has a counterpart, look at the files that most of \
    these commits changed. Change one of them only if the task, or what you found in the code, calls for it.";

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
    let limit = |bound: usize| if extent == Extent::Whole { usize::MAX } else { bound };
    let renamed = history.path_at_head.as_deref().map_or_else(String::new, |old| {
        format!(" (renamed from {}, not committed yet)", show_path(old))
    });
    let mut text = format!("{{file-history}}\nFile: {}{renamed}\n", show_path(&history.path));
    let toplevel = history.toplevel.as_os_str().as_encoded_bytes();
    let _ = writeln!(text, "Repository: {}", show_path(toplevel));
    add_people(&mut text, history, limit(MAX_PEOPLE));
    let commits = &history.commits[..history.commits.len().min(limit(limits::HISTORY_STEPS))];
    add_steps(&mut text, history, commits, summaries);
    add_co_changed(&mut text, history, limit(MAX_ROWS));
    if extent == Extent::Latest && !history.co_changed.is_empty() {
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
    let known_lines: HashSet<&str> = known.lines().collect();
    let known_ids: HashSet<&str> = known.lines().filter_map(parse_step_id).collect();
    let latest = history.commits.iter().take(limits::HISTORY_STEPS).rev();
    let steps = latest.map(|commit| redact(format_step(commit, summaries)));
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

fn add_people(text: &mut String, history: &History, limit: usize) {
    // A shallow clone has only its oldest commit, whose author need not have written the file.
    if history.people.is_empty() {
        return;
    }
    text.push_str("\nIndividuals who edited this file:\n");
    for person in history.people.iter().take(limit) {
        let commits = if person.commits == 1 { "commit" } else { "commits" };
        let (name, email) = (show_line(&person.name, MAX_NAME), show_line(&person.email, MAX_NAME));
        let _ = writeln!(text, "- {name} <{email}>: {} {commits}", person.commits);
    }
    if let Some(more) = history.people.len().checked_sub(limit).filter(|more| *more > 0) {
        let _ = writeln!(text, "- and {more} more, with fewer commits");
    }
}

fn add_steps(text: &mut String, history: &History, commits: &[FileCommit], summaries: &Summaries) {
    text.push_str("\nStep-by-step history, in the order of the branch (dates are the authors'):\n");
    let earlier = history.commits.len() - commits.len();
    if let Some(time) = history.read_back_to {
        let day = format_date(time, 0);
        let _ = writeln!(text, "- history read back to {day}: older commits took too long to read");
    }
    if earlier > 0 {
        let _ = writeln!(text, "- {earlier} earlier commits are left out here");
    } else if history.is_shallow {
        text.push_str("- earlier commits are not in this clone, which is shallow\n");
    }
    for commit in commits.iter().rev() {
        text.push_str(&format_step(commit, summaries));
    }
}

/// The commit of a line, if it is one of [`format_step`].
fn parse_step_id(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("- ")?.split(' ').skip(1);
    words.next().filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Formats the line of a commit.
fn format_step(commit: &FileCommit, summaries: &Summaries) -> String {
    let what = summaries.get(&commit.id).unwrap_or(&commit.subject);
    format!(
        "- {} {}{} {}: {}\n",
        format_date(commit.time, commit.offset),
        shorten_id(&commit.id),
        show_marks(commit),
        show_line(&commit.name, MAX_NAME),
        show_line(what, limits::HISTORY_STEP)
    )
}

fn add_co_changed(text: &mut String, history: &History, limit: usize) {
    if history.co_changed.is_empty() {
        return;
    }
    let counted = history.counted;
    let _ = writeln!(
        text,
        "\nFiles edited in the same commits, of its latest {counted} that were compared:\n| file | commits together |\n| --- | ---: |"
    );
    for file in history.co_changed.iter().take(limit) {
        let _ = writeln!(text, "| {} | {} |", escape_cell(&show_path(&file.path)), file.together);
    }
    if let Some(more) = history.co_changed.len().checked_sub(limit).filter(|more| *more > 0) {
        let _ = writeln!(text, "\n{more} more files, with fewer commits, are left out.");
    }
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
