//! Lists conversations, the newest first: for a terminal as a table, for a pipe as lines with tabs.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::{Catalog, Conversation};
use crate::format::harmless;
use crate::out::Report;
use crate::overview::{ConversationKind, TurnsUsage};
use crate::problem::Problem;
use crate::sys::{clock, terminal};

/// Which conversations are listed.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// Saved copies only.
    pub saved: bool,
    /// Those whose last prompt was given in the working folder.
    pub here: bool,
    /// Those that contain this text, in any case, outside of the first context.
    pub search: Option<String>,
}

/// What is kept of a conversation for its row.
struct Row {
    modified: Duration,
    name: String,
    kind: &'static str,
    folder: String,
    prompts: u64,
    usage: TurnsUsage,
    words: String,
    value: Value,
}

/// Lists the conversations that pass the filter.
pub fn list_conversations(catalog: &Catalog, filter: &ListFilter) -> Result<Report, Problem> {
    let here = if filter.here { Some(catalog.env.current_folder()?) } else { None };
    let search = filter.search.as_ref().map(|text| text.to_lowercase());
    let mut rows = catalog.read_all(&|one| {
        let is_wanted = (!filter.saved || one.kind == ConversationKind::Saved)
            && here
                .as_deref()
                .is_none_or(|here| one.overview.folder.as_deref().map(Path::new) == Some(here))
            && search.as_deref().is_none_or(|search| contains(&one, search));
        is_wanted.then(|| make_row(one))
    })?;
    rows.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.name.cmp(&b.name)));
    let text = if terminal::stdout_is_terminal() {
        format_table(&rows, catalog.env.home().as_deref(), terminal::width())
    } else {
        rows.iter().map(format_line).collect()
    };
    let values: Vec<Value> = rows.into_iter().map(|row| row.value).collect();
    Ok(Report::done(text).with("conversations", values))
}

/// Whether the text is in the conversation's name or in what was said.
fn contains(one: &Conversation, search: &str) -> bool {
    let context = one.parsed.pieces.first().filter(|piece| piece.name() == Some("initial_context"));
    let said = &one.text[context.map_or(0, |piece| piece.span.end)..];
    one.name.to_lowercase().contains(search) || said.to_lowercase().contains(search)
}

fn make_row(one: Conversation) -> Row {
    let overview = &one.overview;
    let usage = overview.usage;
    let value = json!({
        "name": one.name,
        "path": one.path.display().to_string(),
        "kind": one.kind.word(),
        "file": one.file.as_ref().map(|file| file.display().to_string()),
        "modified": clock::format_time(one.modified),
        "bytes": one.bytes,
        "folder": overview.folder,
        "prompts": overview.prompts,
        "turns": usage.turns,
        "tokens_in": usage.input,
        "tokens_cached": usage.cached,
        "tokens_out": usage.output,
        "cost": usage.known_cost(),
        "first_words": overview.first_words,
        "damaged": one.trouble,
    });
    let words = match &one.trouble {
        Some(trouble) => format!("damaged: {}", harmless::escape_line(trouble, 200)),
        None => one.overview.first_words.clone(),
    };
    // A file's own conversation is about the file, wherever it is continued.
    let place = one.file.map(|file| file.display().to_string());
    Row {
        modified: one.modified,
        kind: one.kind.word(),
        folder: harmless::escape_line(&place.or(one.overview.folder).unwrap_or_default(), 4096),
        prompts: one.overview.prompts,
        name: one.name,
        usage,
        words,
        value,
    }
}

/// A row with tabs between its fields, for scripts. The age is a time here.
fn format_line(row: &Row) -> String {
    let cost = row.usage.known_cost().map(|cost| format!("{cost:.4}")).unwrap_or_default();
    let modified = clock::format_time(row.modified);
    let tokens = row.usage.tokens();
    let Row { name, kind, folder, prompts, words, .. } = row;
    format!("{name}\t{kind}\t{modified}\t{folder}\t{prompts}\t{tokens}\t{cost}\t{words}\n")
}

/// A table with a heading, no line wider than the terminal.
fn format_table(rows: &[Row], home: Option<&Path>, width: usize) -> String {
    if rows.is_empty() {
        return "no conversations\n".to_owned();
    }
    let now = clock::since_epoch();
    let heading = ["NAME", "KIND", "AGE", "FOLDER", "PROMPTS", "TOKENS", "COST", "FIRST WORDS"];
    let mut cells = vec![heading.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        [
            row.name.clone(),
            row.kind.to_owned(),
            format_age(now.saturating_sub(row.modified)),
            shorten_folder(&row.folder, home),
            row.prompts.to_string(),
            row.usage.tokens().to_string(),
            row.usage.known_cost().map_or_else(|| "?".to_owned(), |cost| format!("${cost:.2}")),
            row.words.clone(),
        ]
    }));
    let widest = |column: usize| cells.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(widest).collect();
    let line = |row: &[String; 8]| {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            match column {
                7 => line.push_str(cell),
                // Numbers end below each other.
                2 | 4..=6 => line.push_str(&format!("{blanks}{cell}  ")),
                _ => line.push_str(&format!("{cell}{blanks}  ")),
            }
        }
        cut_columns(line.trim_end(), width) + "\n"
    };
    cells.iter().map(line).collect()
}

/// The beginning of a line that fits into so many columns, with an ellipsis where something is left out.
fn cut_columns(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let mut cut = String::new();
    let mut columns = 1;
    for c in line.chars() {
        columns += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if columns > width {
            break;
        }
        cut.push(c);
    }
    cut + "…"
}

/// `~/work` for a folder below the home folder.
fn shorten_folder(folder: &str, home: Option<&Path>) -> String {
    match home.and_then(|home| Path::new(folder).strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => folder.to_owned(),
    }
}

/// `3 min`, `5 h`, `12 d`
pub(super) fn format_age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_columns() {
        let age = |seconds| format_age(Duration::from_secs(seconds));
        assert_eq!([age(5), age(90), age(7200), age(200_000)], ["5 s", "1 min", "2 h", "2 d"]);
        assert_eq!(cut_columns("世界世界", 6), "世界…");
        assert_eq!(cut_columns("abc", 3), "abc");
        assert_eq!(shorten_folder("/home/me/x", Some(Path::new("/home/me"))), "~/x");
    }
}
