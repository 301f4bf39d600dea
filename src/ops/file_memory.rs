//! Gathers what a file's own conversation learns of its file at its start: the history and a summary. It asks the model for
//! summaries that are not cached, and prints nothing but a progress line on a terminal.
//!
//! Nothing here stops a run: what is missing is left out or said to be missing, with a note on stderr. What the conversation
//! has already is repeated word for word, so that it gets no update without news.

mod commits;
mod report;

use std::path::Path;
use std::thread;
use std::time::Duration;

use self::commits::CommitSummaries;
pub use self::report::report_history;
use super::call::Call;
use super::progress::Progress;
use super::progress_line::ProgressLine;
use super::settings::Settings;
use super::summaries::{JOBS, Writers};
use crate::context;
use crate::drive::ProgressEvent;
use crate::format::conversation::Piece;
use crate::history::History;
use crate::history::text::{self, Extent};
use crate::llm::Usage;
use crate::llm::provider::Provider;
use crate::out;
use crate::problem::Problem;
use crate::segments::content::{self, ContentKind};
use crate::segments::file_summary;
use crate::segments::summary_queue::{SummaryQueue, SummaryTotals};
use crate::sys::conversation_file::ConversationFile;
use crate::sys::git::{self, ReadingTime};
use crate::sys::names::shown;
use crate::sys::{fs, read};

/// Files up to this many bytes get no summary: the model reads the file at the same cost.
pub const MAX_SHORT: u64 = 4 * 1024;
/// Files over this many bytes get no summary at a start: that would take many requests which nobody asked for.
pub const MIN_LONG: u64 = 256 * 1024;
/// The longest wait for a busy provider. A summary is not worth more; the run's own requests have their own limit.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is shown where the model gave no summary. The reason is on stderr: here it would be an update each time it differs.
const REFUSED: &str =
    "the model was asked for one and gave none; nagent-file-summarize --file PATH asks again";

#[derive(Default)]
struct PreviousMemory {
    section: Option<String>,
    /// The SHA-256 of the content that the conversation knew last.
    sha256: Option<String>,
}

impl PreviousMemory {
    /// Finds the content in the attributes of the conversation's blocks (see [`crate::memory`]).
    fn new(text: &str, pieces: &[Piece]) -> Self {
        let mut sections = context::known_sections(text, pieces).into_iter().rev();
        let section = sections.find(|section| section.title == context::MEMORY);
        let mut contents = pieces.iter().rev();
        let sha256 = contents.find_map(|piece| piece.get("after").or_else(|| piece.get("before")));
        Self { section: section.map(|section| section.text), sha256: sha256.map(str::to_owned) }
    }
}

/// The section on the file, and what it cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileMemory {
    /// The text of the section; empty where there is nothing to say.
    pub text: String,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Number of requests to the model.
    pub requests: u64,
    /// Their tokens.
    pub usage: Usage,
}

/// What the section says about the content of the file.
enum ContentBlock {
    /// Nothing: the file is short, empty or missing.
    None,
    /// The block that the conversation has already.
    Unchanged(String),
    /// A new summary.
    Summary,
    /// Why there is no summary.
    Unavailable(String),
}

/// Gathers the section on the file; empty in a conversation that does not belong to a file. `run` has the conversation and
/// the model; without it a conversation is only begun, and no model is asked. After a signal it is the section that the
/// conversation has already.
pub(super) fn gather_memory(
    call: &Call<'_>,
    run: Option<(&ConversationFile, &str)>,
    progress: &mut Progress,
) -> FileMemory {
    let Some(Ok(file)) = call.which.file_edit.as_ref().map(|file| call.env.absolute_path(file))
    else {
        return FileMemory::default();
    };
    let file = fs::real_path(&file).unwrap_or(file);
    let memory = gather_sections(call, &file, run);
    for note in &memory.notes {
        progress.show(ProgressEvent::Note(note));
    }
    memory
}

fn gather_sections(
    call: &Call<'_>,
    file: &Path,
    run: Option<(&ConversationFile, &str)>,
) -> FileMemory {
    let previous = run.map_or_else(PreviousMemory::default, |(journal, _)| {
        PreviousMemory::new(journal.text(), journal.pieces())
    });
    let root = call.root();
    let is_interrupted = || call.interrupts.pending().is_some();
    let mut line = (!call.quiet).then(|| ProgressLine::new(call.tool));
    let words = format!("reading the history of {}", shown(file));
    let mut keep_waiting = || {
        if let Some(line) = &mut line {
            line.show_text(&words);
        }
        !is_interrupted()
    };
    let lookup = git::read_history(file, &root.history(), ReadingTime::START, &mut keep_waiting);
    let history = lookup.history.unwrap_or_default();
    // A file outside of a repository, or one that was never committed, needs no note.
    let notes = if lookup.is_trouble { lookup.notes } else { Vec::new() };
    let mut memory = FileMemory { notes, ..FileMemory::default() };
    memory.notes.extend(history.notes.iter().cloned());

    let (mut commits, missing) =
        commits::read_cached(&root.summaries(), &history.commits, crate::limits::HISTORY_STEPS);
    let block = choose_block(file, &history, &previous);
    // A recording has answers to the run's own requests only; a request for a summary would show the file unmasked.
    let (config, provider) = (&call.settings.config, call.settings.provider);
    let is_allowed = config.file_summaries && !config.redact && !call.args.show_request;
    let may_ask = run.is_some() && is_allowed && provider.is_some_and(|p| p != Provider::Replay);
    let settings = request_settings(&call.settings, run.map(|(_, model)| model));
    let (tool, env, interrupts) = (call.tool, &call.env, &call.interrupts);
    let writers = Writers { tool, settings: &settings, env, interrupts };
    let wants_file = matches!(block, ContentBlock::Summary);
    let wants_commits = may_ask && !missing.is_empty();
    if let Some(line) = line.as_mut().filter(|_| wants_commits || wants_file && may_ask) {
        line.show_now(&format!("asking for summaries of {} and its commits", shown(file)));
    }
    let (asked_commits, asked_file) = thread::scope(|scope| {
        let ask_commits = || commits::request_summaries(&writers, &history, &missing);
        let commits = wants_commits.then(|| scope.spawn(ask_commits));
        let file = wants_file.then(|| summarize_file(&writers, file, may_ask));
        (commits.and_then(|thread| thread.join().ok()), file)
    });
    drop(line);
    let CommitSummaries { summaries, notes, requests, usage } = asked_commits.unwrap_or_default();
    let (summary, totals) = asked_file.unwrap_or_default();
    memory.requests = requests + totals.requests;
    memory.usage = usage;
    memory.usage.add(&totals.usage);
    if is_interrupted() {
        memory.text = previous.section.unwrap_or_default();
        return memory;
    }
    memory.notes.extend(notes);
    commits.extend(summaries);

    let path = file.as_os_str().as_encoded_bytes();
    let summary = match (block, summary) {
        (ContentBlock::Unchanged(block), _) => Some(block),
        (ContentBlock::Unavailable(why), _) => Some(text::format_summary(path, Err(&why))),
        (ContentBlock::Summary, Some(Ok(summary))) => {
            Some(text::format_summary(path, Ok(&summary)))
        }
        (ContentBlock::Summary, Some(Err(why))) => {
            memory.notes.push(format!("no summary of {} this time: {why}", shown(file)));
            Some(text::format_summary(path, Err(REFUSED)))
        }
        (ContentBlock::None | ContentBlock::Summary, _) => None,
    };
    let history = text::format_history(&history, &commits, Extent::Latest);
    let blocks: Vec<String> =
        [history].into_iter().chain(summary).filter(|block| !block.is_empty()).collect();
    memory.text = blocks.join("\n\n");
    memory
}

/// Returns the settings for these requests: with the run's model, and little patience.
fn request_settings(settings: &Settings, model: Option<&str>) -> Settings {
    let mut settings = settings.clone();
    settings.config.patience = settings.config.patience.min(PATIENCE.as_secs_f64());
    if let Some(model) = model.filter(|model| !model.is_empty()) {
        settings.config.model = Some(model.to_owned());
    }
    settings
}

fn choose_block(file: &Path, history: &History, previous: &PreviousMemory) -> ContentBlock {
    // If the file cannot be read, the run itself reports it.
    let Ok((size, head)) = read::read_range(file, 0, content::HEAD) else {
        return ContentBlock::None;
    };
    match content::detect_content(&head) {
        ContentKind::Empty | ContentKind::Blank => return ContentBlock::None,
        ContentKind::Binary(_) => return ContentBlock::Summary,
        ContentKind::Text(_) if size <= MAX_SHORT => return ContentBlock::None,
        ContentKind::Text(_) => {}
    }
    if size > MIN_LONG {
        return ContentBlock::Unavailable(format!(
            "the file has {}; files over {} are summarized only on request, by nagent-file-summarize --file PATH",
            out::bytes(size),
            out::bytes(MIN_LONG)
        ));
    }
    find_unchanged(file, history, previous).map_or(ContentBlock::Summary, ContentBlock::Unchanged)
}

/// Finds the summary that the conversation has, if nobody else has changed the file and no commit has touched it since.
fn find_unchanged(file: &Path, history: &History, previous: &PreviousMemory) -> Option<String> {
    let section = previous.section.as_deref()?;
    let block = text::find_summary(section, file.as_os_str().as_encoded_bytes())?;
    let is_known = history.commits.first().is_none_or(|commit| text::lists_commit(section, commit));
    let (_, bytes) = read::read_range(file, 0, MIN_LONG).ok()?;
    (is_known && previous.sha256.as_deref() == Some(&fs::sha256(&bytes))).then(|| block.to_owned())
}

/// The file's summary, or why there is none, and what it cost. Without `may_ask` it can come from the cache only.
fn summarize_file(
    writers: &Writers<'_>,
    file: &Path,
    may_ask: bool,
) -> (Option<Result<String, String>>, SummaryTotals) {
    let mut rules = writers.rules(JOBS);
    if !may_ask {
        if !fs::exists(&rules.folder) {
            return Default::default();
        }
        rules.connect = Box::new(|| Err(Problem::failed("the summary is not cached")));
        rules.report = Box::new(|_| ());
    }
    let queue = SummaryQueue::new(rules);
    let summary = match file_summary::summarize_file(&queue, file, None, &mut |_, _| ()) {
        Ok(done) => Some(Ok(done.summary.text)),
        Err(problem) => may_ask.then_some(Err(problem.message)),
    };
    (summary, queue.totals())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::conversation::parse;

    #[test]
    fn what_the_conversation_last_knew_of_the_file() {
        let check = |text: &str, expect: Option<&str>| {
            let previous = PreviousMemory::new(text, &parse(text).pieces);
            assert_eq!(previous.sha256.as_deref(), expect, "{text}");
        };
        let prompt = "<user-prompt at=\"t\" before=\"a\">\nx\n</user-prompt>\n\n";
        let edit = "<nagent-edit-result status=\"ok\" after=\"b\">\n</nagent-edit-result>\n\n";
        let undo = "<system change=\"undo\" before=\"b\" after=\"a\" count=\"1\">\nx\n</system>\n";
        check("", None);
        check(prompt, Some("a"));
        check(&format!("{prompt}{edit}"), Some("b"));
        check(&format!("{prompt}{edit}{undo}"), Some("a"));
    }
}
