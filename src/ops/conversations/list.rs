//! Lists conversations, the newest first: for a terminal as a table, for a pipe as lines with tabs.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Catalog, Conversation};
use crate::out::Report;
use crate::overview::{ConversationKind, TurnsUsage};
use crate::view::table::{column_widths, pad_row};
use conversation::format::columns::{truncate, width, wrap_line};
use conversation::format::harmless;
use conversation::format::numbers::{format_age, format_count};
use conversation::problem::Problem;
use sys::{clock, terminal};

/// The least room for the first words beside the other columns.
const WORDS_ROOM: usize = 20;
/// The most columns of a name where there is not much room.
const NAME_ROOM: usize = 24;
/// The fewest of a folder beside which first words are shown.
const FOLDER_ROOM: usize = 12;

/// Which conversations are listed.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// Those that were given a name only.
    pub saved: bool,
    /// Those whose last prompt was given in the working folder.
    pub here: bool,
    /// Those that contain this text, in any case, outside of the first context.
    pub search: Option<String>,
}

/// What is kept of a conversation for its row.
struct ListRow {
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
        let is_wanted = (!filter.saved || one.kind == ConversationKind::Named)
            && here
                .as_deref()
                .is_none_or(|here| one.overview.folder.as_deref().map(Path::new) == Some(here))
            && search.as_deref().is_none_or(|search| contains(&one, search));
        is_wanted.then(|| make_row(one))
    })?;
    rows.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.name.cmp(&b.name)));
    let text = if terminal::stdout_is_terminal() {
        format_table(&rows, catalog.env.home_folder().as_deref(), terminal::width())
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

fn make_row(one: Conversation) -> ListRow {
    let overview = &one.overview;
    let usage = overview.usage;
    let value = json!({
        "name": one.name,
        "path": one.path.display().to_string(),
        "kind": one.kind.as_str(),
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
    ListRow {
        modified: one.modified,
        kind: one.kind.as_str(),
        folder: harmless::escape_line(&place.or(one.overview.folder).unwrap_or_default(), 4096),
        prompts: one.overview.prompts,
        name: one.name,
        usage,
        words,
        value,
    }
}

/// A row with tabs between its fields, for scripts. The age is a time here.
fn format_line(row: &ListRow) -> String {
    let cost = row.usage.known_cost().map(|cost| format!("{cost:.4}")).unwrap_or_default();
    let modified = clock::format_time(row.modified);
    let tokens = row.usage.tokens();
    let ListRow { name, kind, folder, prompts, words, .. } = row;
    format!("{name}\t{kind}\t{modified}\t{folder}\t{prompts}\t{tokens}\t{cost}\t{words}\n")
}

/// A table with a heading, no line wider than the terminal.
fn format_table(rows: &[ListRow], home: Option<&Path>, columns: usize) -> String {
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
    let mut widths = column_widths(&cells);
    let used = |widths: &[usize]| widths[..7].iter().map(|width| width + 2).sum::<usize>();
    if used(&widths) + WORDS_ROOM > columns {
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        widths[0] = widths[0].min(name_room(&names));
    }
    if used(&widths) - widths[3] > columns {
        return cells[1..].iter().map(|cells| format_narrow(cells, columns)).collect();
    }
    // A folder gives way as far as it can; then the first words have a line of their own.
    let others = used(&widths) - widths[3];
    let is_narrow = others + widths[3].min(FOLDER_ROOM) + WORDS_ROOM > columns;
    let room = columns.saturating_sub(others + if is_narrow { 0 } else { WORDS_ROOM });
    widths[3] = widths[3].min(room.max("FOLDER".len()));
    let line = |row: &[String; 8]| {
        let mut row = row.clone();
        row[0] = truncate(&row[0], widths[0]);
        if width(&row[3]) > widths[3] {
            row[3] = truncate_left(&row[3], widths[3]);
        }
        let words = if is_narrow { std::mem::take(&mut row[7]) } else { String::new() };
        let line = pad_row(&row, &widths, &[2, 4, 5, 6]);
        let below = (!words.is_empty()).then(|| format!("    {words}"));
        let lines = [line].into_iter().chain(below);
        lines.map(|line| truncate(line.trim_end(), columns) + "\n").collect::<String>()
    };
    cells.iter().map(line).collect()
}

/// The room in which each name is cut to no less than a beginning of its own, which names it in other commands.
fn name_room(names: &[&str]) -> usize {
    let mut names = names.to_vec();
    names.sort_unstable();
    let common = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    // A letter more than what two have in common, and the ellipsis.
    let needed = names.windows(2).filter_map(|pair| match pair {
        [a, b] => Some(common(a, b) + 2),
        _ => None,
    });
    needed.max().unwrap_or_default().max(NAME_ROOM)
}

/// A conversation on lines of its own, for a terminal that is too narrow for a table.
fn format_narrow(cells: &[String; 8], columns: usize) -> String {
    let [name, kind, age, folder, prompts, tokens, cost, words] = cells;
    let figures = [
        kind.clone(),
        age.clone(),
        format_count(prompts.parse().unwrap_or(0), "prompt"),
        format!("{tokens} tokens"),
        cost.clone(),
    ];
    let mut lines = wrap_line(name, columns).join("\n") + "\n";
    for text in [figures.join(", "), folder.clone(), words.clone()] {
        let rows = wrap_line(&text, columns.saturating_sub(2)).into_iter().map(str::trim);
        lines.extend(rows.filter(|row| !row.is_empty()).map(|row| format!("  {row}\n")));
    }
    lines
}

/// The end of a text that fits into this many columns, behind an ellipsis.
fn truncate_left(text: &str, columns: usize) -> String {
    let starts = text.char_indices().map(|(at, _)| &text[at..]);
    let fits = starts.into_iter().find(|rest| width(rest) < columns).unwrap_or_default();
    format!("…{fits}")
}

/// `~/work` for a folder below the home folder.
fn shorten_folder(folder: &str, home: Option<&Path>) -> String {
    match home.and_then(|home| Path::new(folder).strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => folder.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_folders() {
        assert_eq!(
            (truncate_left("/a/世界", 4), truncate_left("/a/bc", 4)),
            ("…界".into(), "…/bc".into())
        );
        assert_eq!(shorten_folder("/home/me/x", Some(Path::new("/home/me"))), "~/x");
    }

    #[test]
    fn names_are_cut_to_beginnings_of_their_own() {
        let shell = "latest-vm-13595-2266968";
        let names =
            [shell.to_owned(), format!("{shell}.callers"), format!("{shell}-f08dd3e9-2152-454c")];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let room = name_room(&names);
        let cut: Vec<String> = names.iter().map(|name| truncate(name, room)).collect();
        assert_eq!(cut, [shell.to_owned(), format!("{shell}.…"), format!("{shell}-…")]);
        assert_eq!(name_room(&["a", "b"]), NAME_ROOM);
    }
}
