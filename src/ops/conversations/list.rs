//! Lists conversations: for a terminal as a table, the newest last, for a pipe as lines with tabs, the newest first.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Catalog, Conversation};
use crate::ops::setup::flags::parse_count;
use crate::out::{PagedFrom, Report};
use crate::overview::{ConversationKind, TurnsUsage};
use crate::view::table::format_table;
use conversation::format::columns::{truncate, truncate_left, width};
use conversation::format::harmless;
use conversation::format::numbers::format_age;
use conversation::problem::Problem;
use sys::{clock, terminal};

/// Minimum width for the first words, next to the other columns.
const WORDS_ROOM: usize = 20;
/// Maximum width of a folder.
const FOLDER_ROOM: usize = 20;

/// The conversations that are listed
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ListFilter {
    /// List those too that other conversations started, archives, and edited copies
    #[arg(long)]
    pub all: bool,
    /// List the N newest only
    #[arg(short = 'n', value_name = "N", value_parser = parse_count)]
    pub most: Option<u64>,
    /// List those that were given a name, as saved copies are
    #[arg(long)]
    pub saved: bool,
    /// List those whose last prompt was given in this folder
    #[arg(long)]
    pub here: bool,
    /// List those whose name, prompts, answers or results contain this text
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
}

/// The values in the row of a conversation.
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
        let is_by_person = one.kind.is_of_a_person() || one.kind == ConversationKind::File;
        let is_wanted = (filter.all || is_by_person)
            && (!filter.saved || one.kind == ConversationKind::Named)
            && here
                .as_deref()
                .is_none_or(|here| one.overview.folder.as_deref().map(Path::new) == Some(here))
            && search.as_deref().is_none_or(|search| contains(&one, search));
        is_wanted.then(|| make_row(one))
    })?;
    rows.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.name.cmp(&b.name)));
    let most = filter.most.and_then(|most| usize::try_from(most).ok());
    rows.truncate(most.unwrap_or(usize::MAX));
    let is_paged = terminal::stdout_is_terminal();
    let text = if is_paged {
        // The newest is beside the prompt that follows.
        rows.reverse();
        format_list(&rows, catalog.env.home_folder().as_deref(), terminal::width())
    } else {
        rows.iter().map(format_line).collect()
    };
    let values: Vec<Value> = rows.into_iter().map(|row| row.value).collect();
    let report = Report::done(text).with("conversations", values);
    Ok(Report { paged: is_paged.then_some(PagedFrom::End), ..report })
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

/// A table with a heading, no line wider than the terminal. Where it has no room for the first words, they are below each row.
fn format_list(rows: &[ListRow], home: Option<&Path>, columns: usize) -> String {
    if rows.is_empty() {
        return "no conversations\n".to_owned();
    }
    let now = clock::since_epoch();
    let heading = ["NAME", "KIND", "AGE", "PROMPTS", "TOKENS", "COST", "FOLDER"];
    let mut cells = vec![heading.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        [
            row.name.clone(),
            row.kind.to_owned(),
            format_age(now.saturating_sub(row.modified)),
            row.prompts.to_string(),
            row.usage.tokens().to_string(),
            row.usage.known_cost().map_or_else(|| "?".to_owned(), |cost| format!("${cost:.2}")),
            truncate_left(&shorten_folder(&row.folder, home), FOLDER_ROOM),
        ]
    }));
    let table = format_table(&cells, &[2, 3, 4, 5]);
    let widest = table.lines().map(width).max().unwrap_or(0);
    let gap = " ".repeat(4);
    let words = ["FIRST WORDS"].into_iter().chain(rows.iter().map(|row| row.words.as_str()));
    let lines = table.lines().zip(words).flat_map(|(line, words)| {
        if widest + WORDS_ROOM <= columns {
            let blanks = " ".repeat(widest - width(line) + 2);
            return vec![format!("{line}{blanks}{words}")];
        }
        vec![line.to_owned(), format!("{gap}{words}")]
    });
    lines.map(|line| truncate(line.trim_end(), columns) + "\n").collect()
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
}
