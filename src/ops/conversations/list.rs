//! Lists conversations: for a terminal as a table, the newest last, for a pipe as lines with tabs, the newest first.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Catalog, Conversation};
use crate::ops::setup::flags::parse_count;
use crate::out::{PagedFrom, Report};
use conversation::format::columns::truncate;
use conversation::format::harmless;
use conversation::format::numbers::format_age;
use conversation::problem::Problem;
use sys::{clock, terminal};
use view::overview::ConversationKind;
use view::table::format_table;

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

/// The row of a conversation.
struct ListRow {
    modified: Duration,
    name: String,
    /// The cells after the name and the age.
    cells: [String; 3],
    /// The row with tabs between its fields, for scripts.
    line: String,
    value: Value,
}

/// Lists the conversations that pass the filter.
pub fn list_conversations(catalog: &Catalog, filter: &ListFilter) -> Result<Report, Problem> {
    let here = if filter.here { Some(catalog.env.current_folder()?) } else { None };
    let search = filter.search.as_ref().map(|text| text.to_lowercase());
    let mut rows = catalog.read_all(&|one| {
        let is_of_file = one.kind == ConversationKind::File && one.overview.parent.is_none();
        let is_by_person = one.kind.is_of_a_person() || is_of_file;
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
        format_list(&rows, terminal::width())
    } else {
        rows.iter().map(|row| row.line.as_str()).collect()
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
        "tokens_in": usage.tokens_in,
        "tokens_cached": usage.cached,
        "tokens_out": usage.tokens_out,
        "cost": usage.known_cost(),
        "first_words": overview.first_words,
        "damaged": one.trouble,
    });
    let words = match &one.trouble {
        Some(trouble) => format!("damaged: {}", harmless::escape_line(trouble, 200)),
        None => one.overview.first_words.clone(),
    };
    // A file's own conversation is about the file, wherever it is continued.
    let place = one.file.map(|file| file.display().to_string()).or(one.overview.folder);
    let folder = harmless::escape_line(&place.unwrap_or_default(), 4096);
    let (name, kind, prompts) = (one.name, one.kind.as_str(), one.overview.prompts);
    let (modified, tokens) = (clock::format_time(one.modified), usage.tokens());
    let cost = usage.known_cost();
    let cost = cost.map(|cost| format!("{cost:.4}"));
    let exact = cost.as_deref().unwrap_or_default();
    let line =
        format!("{name}\t{kind}\t{modified}\t{folder}\t{prompts}\t{tokens}\t{exact}\t{words}\n");
    let cost = cost.map_or_else(|| "?".to_owned(), |cost| format!("${cost}"));
    let cells = [prompts.to_string(), cost, words];
    ListRow { modified: one.modified, name, cells, line, value }
}

/// Columns for a name. A longer one moves the rest of its own row to the right, and not of all rows.
const NAME: usize = 24;

/// A table with a heading, cut at the width of the terminal.
fn format_list(rows: &[ListRow], columns: usize) -> String {
    if rows.is_empty() {
        return "no conversations\n".to_owned();
    }
    let now = clock::since_epoch();
    let mut table = vec![["NAME", "AGE", "PROMPTS", "COST", "FIRST WORDS"].map(str::to_owned)];
    table.extend(rows.iter().map(|row| {
        let [prompts, cost, words] = row.cells.clone();
        let name: String = row.name.chars().take(NAME).collect();
        [name, format_age(now.saturating_sub(row.modified)), prompts, cost, words]
    }));
    let table = format_table(&table, &[1, 2, 3]);
    let rests = rows
        .iter()
        .map(|row| row.name.char_indices().nth(NAME).map_or("", |(at, _)| &row.name[at..]));
    let lines = table.lines().zip([""].into_iter().chain(rests));
    let with_rest = |(line, rest): (&str, &str)| {
        let at =
            if rest.is_empty() { 0 } else { line.char_indices().nth(NAME).map_or(0, |(at, _)| at) };
        truncate(&[&line[..at], rest, &line[at..]].concat(), columns) + "\n"
    };
    lines.map(with_rest).collect()
}
