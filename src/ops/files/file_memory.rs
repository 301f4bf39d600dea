//! Gathers the facts on a file for the start of its own conversation: the history and a summary. It asks the model for
//! summaries that are not cached, and prints nothing but a spinner on a terminal.
//!
//! A conversation that has the section already gets only the new parts. Nothing here stops a run: a missing part is
//! omitted or reported as missing, with a note on stderr.

mod commits;
mod report;

use std::path::Path;
use std::thread;

pub use self::report::report_history;
use super::summaries::{JOBS, Writers};
use crate::drive::ProgressEvent;
use crate::ops::run::call::Call;
use crate::ops::screen::progress::Progress;
use crate::ops::screen::spinner::Spinner;
use conversation::context;
use conversation::format::file::Piece;
use conversation::format::harmless::quote_name;
use conversation::format::numbers;
use conversation::memory::changes::{NO_FILE, is_hash_of};
use conversation::model::Usage;
use conversation::problem::Problem;
use history::summaries::CommitToSummarize;
use history::text::{self, Extent};
use history::{CommitKind, History, git};
use models::provider::Provider;
use segments::content::{self, ContentKind};
use segments::file_summary;
use segments::summary_queue::{SummaryQueue, SummaryTotals};
use sys::conversation_file::ConversationFile;
use sys::{fs, read};

/// Files up to this many bytes get no summary: the model reads the file at the same cost.
pub const MAX_SHORT: u64 = 4 * 1024;
/// Files over this many bytes get no summary at a start: that would take many requests which nobody asked for.
pub const MIN_LONG: u64 = 256 * 1024;
/// Text when the model gave no summary. The reason goes to stderr only, since a text that differs each time would be an update.
const REFUSED: &str = "the model returned none; run nagent-file-summarize FILE";
/// Text when the summary is of an older content, and no new one was requested.
const OUTDATED: &str = "the file has changed since the last summary";

#[derive(Default)]
struct PreviousMemory {
    /// All texts of the section, the oldest first.
    sections: String,
    /// The SHA-256 of the content that the conversation knew last; its first digits are enough.
    known: Option<String>,
    /// The SHA-256 of each content that it wrote.
    written: Vec<String>,
    /// Whether the conversation made the file.
    has_created: bool,
}

impl PreviousMemory {
    /// Finds the contents in the attributes of the conversation's blocks (see [`conversation::memory`]).
    fn new(text: &str, pieces: &[Piece]) -> Self {
        let sections = context::known_sections(text, pieces).into_iter();
        let sections = sections.filter(|section| section.title == context::MEMORY);
        let sections: Vec<String> = sections.map(|section| section.text).collect();
        let mut contents = pieces.iter().rev();
        let known = contents.find_map(|piece| piece.get("after").or_else(|| piece.get("before")));
        let written = pieces.iter().filter_map(|piece| piece.get("after"));
        let first = pieces.iter().find_map(|piece| piece.get("before"));
        Self {
            has_created: first == Some(NO_FILE),
            sections: sections.join("\n\n"),
            known: known.map(str::to_owned),
            written: written.map(str::to_owned).collect(),
        }
    }

    /// Whether this is the content that the conversation knew last.
    fn is_last_known(&self, sha256: &str) -> bool {
        self.known.as_deref().is_some_and(|known| is_hash_of(known, sha256))
    }

    /// Whether the conversation wrote this content: then the model knows it.
    fn has_written(&self, sha256: &str) -> bool {
        self.written.iter().any(|written| is_hash_of(written, sha256))
    }
}

/// The section on the file, and what it cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileMemory {
    /// The text of the section, or what is new in it; empty where there is nothing to say.
    pub text: String,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Number of requests to the model.
    pub requests: u64,
    /// Their tokens.
    pub usage: Usage,
}

/// The part of the section about the content of the file.
enum ContentBlock {
    /// Nothing: the file is short, empty or missing, or the conversation has a summary and knows what was changed since.
    None,
    /// A new summary.
    Summary,
    /// The reason why there is no summary.
    Unavailable(String),
}

/// Gathers the section on the file; empty in a conversation that does not belong to a file. `run` has the conversation and
/// the model; without it a conversation is only begun, and no model is asked. `redact` masks credentials. After a signal
/// there is nothing new.
pub(crate) fn gather_memory(
    call: &Call<'_>,
    run: Option<(&ConversationFile, &str)>,
    redact: &dyn Fn(String) -> String,
    progress: &mut Progress<'_>,
) -> FileMemory {
    let Some(Ok(file)) = call.which.file_edit.as_ref().map(|file| call.env.absolute_path(file))
    else {
        return FileMemory::default();
    };
    let file = fs::real_path(&file).unwrap_or(file);
    let memory = gather_sections(call, &file, run, redact, progress);
    for note in &memory.notes {
        progress.show_event(ProgressEvent::Note(note));
    }
    memory
}

fn gather_sections(
    call: &Call<'_>,
    file: &Path,
    run: Option<(&ConversationFile, &str)>,
    redact: &dyn Fn(String) -> String,
    progress: &mut Progress<'_>,
) -> FileMemory {
    let previous = run.map_or_else(PreviousMemory::default, |(journal, _)| {
        PreviousMemory::new(journal.text(), journal.pieces())
    });
    let root = call.root();
    progress.spinner.start("history");
    let (mut history, mut notes) = read_history(call, file);
    history.commits.retain(|commit| commit.kind != CommitKind::Merge);
    let (mut commits, missing) = commits::read_cached(
        &root.summaries_folder(),
        &history.commits,
        conversation::limits::HISTORY_STEPS,
    );
    let block = choose_block(file, &previous);
    let may_ask = run.is_some() && may_ask(call);
    let settings = call.settings.for_summaries(run.map(|(_, model)| model));
    let (tool, env, interrupts) = (call.tool, &call.env, &call.interrupts);
    // What is cached costs nothing.
    let spinner = &Spinner::new(false);
    let lookup = Writers { tool, settings: &settings, env, interrupts, spinner };
    let asked_file = match block {
        ContentBlock::Summary => summarize_file(&lookup, file, false),
        _ => Default::default(),
    };
    let wants_file = matches!(block, ContentBlock::Summary) && may_ask && asked_file.0.is_none();
    let missing = if may_ask { missing.as_slice() } else { &[] };
    let unknown = commits::read_texts(&lookup, &history, missing).unwrap_or_else(|problem| {
        notes.push(commits::failure_note(&problem));
        Vec::new()
    });
    let is_own = |commit: &CommitToSummarize<'_>| {
        commit.text.content.as_ref().is_some_and(|content| previous.has_written(content))
    };
    let unknown: Vec<CommitToSummarize<'_>> =
        unknown.into_iter().filter(|commit| !is_own(commit)).collect();
    let cost = describe_cost(wants_file.then_some(file), &unknown);
    if let Some(cost) = cost.filter(|_| progress.shows_events()) {
        progress.show_event(ProgressEvent::Note(&cost));
    }
    progress.spinner.start("summaries");
    let writers = Writers { spinner: &progress.spinner, ..lookup };
    let (asked_commits, new_file) = thread::scope(|scope| {
        let ask_commits = || commits::request_summaries(&writers, &unknown);
        let commits = (!unknown.is_empty()).then(|| scope.spawn(ask_commits));
        let file = wants_file.then(|| summarize_file(&writers, file, true));
        (commits.and_then(|thread| thread.join().ok()), file)
    });
    progress.spinner.stop();
    let asked = asked_commits.unwrap_or_default();
    let (summary, totals) = new_file.unwrap_or(asked_file);
    let mut memory = FileMemory { notes, ..FileMemory::default() };
    memory.requests = asked.requests + totals.requests;
    memory.usage = asked.usage;
    memory.usage.add(&totals.usage);
    if interrupts.pending().is_some() {
        return memory;
    }
    memory.notes.extend(asked.notes);
    commits.extend(asked.summaries);
    let summary = format_summary(file, (block, summary), &previous, &mut memory.notes);
    let known = previous.sections.as_str();
    let history = if known.is_empty() {
        redact(text::format_history(&history, &commits, Extent::Latest))
    } else {
        text::format_news(&history, &commits, known, redact)
    };
    let summary = summary.map(redact).filter(|new| text::find_summary(known) != Some(new));
    let blocks: Vec<String> =
        [history].into_iter().chain(summary).filter(|block| !block.is_empty()).collect();
    memory.text = blocks.join("\n\n");
    memory
}

/// The note on the summaries that are requested before the run, if there are any.
fn describe_cost(file: Option<&Path>, commits: &[CommitToSummarize<'_>]) -> Option<String> {
    let texts = commits.iter().map(|it| (it.text.message.len() + it.text.diff.len()) as u64);
    let bytes = texts.sum::<u64>() + file.and_then(fs::file_size).unwrap_or(0);
    let (count, tokens) = (commits.len() + file.iter().len(), numbers::format_tokens(bytes / 4));
    let parts = numbers::format_count(count as u64, "part");
    let text = "of the file and its history first";
    let text =
        format!("summarizing {parts} {text}, about {tokens} tokens; --no-summaries omits it");
    (count > 0).then_some(text)
}

/// Reads the history of the file, with notes for the user.
fn read_history(call: &Call<'_>, file: &Path) -> (History, Vec<String>) {
    let mut keep_waiting = || call.interrupts.pending().is_none();
    let cache = call.root().history_folder();
    let lookup = git::read_history(file, &cache, git::START_TIME, &mut keep_waiting);
    let history = lookup.history.unwrap_or_default();
    // A file outside of a repository, or one that was never committed, needs no note.
    let mut notes = if lookup.is_trouble { lookup.notes } else { Vec::new() };
    notes.extend(history.notes.iter().cloned());
    (history, notes)
}

/// Whether the model may be asked for summaries. A conversation that another one started has a full prompt, and reads
/// what it needs of the file: summaries would cost more than they save. A recording has answers to the run's own
/// requests only.
fn may_ask(call: &Call<'_>) -> bool {
    let (config, provider) = (&call.settings.config, call.settings.provider);
    let is_allowed = config.file_summaries && !call.args.show_request;
    is_allowed && !call.delegated && provider != Provider::Replay
}

/// The block on the content of the file, with a note where the model gave none.
fn format_summary(
    file: &Path,
    (block, summary): (ContentBlock, Option<Result<String, String>>),
    previous: &PreviousMemory,
    notes: &mut Vec<String>,
) -> Option<String> {
    let format = |summary: Result<&str, &str>| {
        Some(text::format_summary(file.as_os_str().as_encoded_bytes(), summary))
    };
    match (block, summary) {
        (ContentBlock::Unavailable(why), _) => format(Err(&why)),
        (ContentBlock::Summary, Some(Ok(summary))) => format(Ok(&summary)),
        (ContentBlock::Summary, Some(Err(why))) => {
            notes.push(format!("no summary of {} this time: {why}", quote_name(file)));
            format(Err(REFUSED))
        }
        (ContentBlock::Summary, None) => {
            let last = text::find_summary(&previous.sections);
            last.filter(|block| text::has_summary(block)).and_then(|_| format(Err(OUTDATED)))
        }
        (ContentBlock::None, _) => None,
    }
}

/// Chooses the part of the section about the content of the file.
fn choose_block(file: &Path, previous: &PreviousMemory) -> ContentBlock {
    // If the file cannot be read, the run itself reports it.
    let Ok((size, head)) = read::read_range(file, 0, content::HEAD) else {
        return ContentBlock::None;
    };
    match content::detect_content(&head) {
        ContentKind::Empty | ContentKind::Blank => return ContentBlock::None,
        ContentKind::Binary => return ContentBlock::Summary,
        ContentKind::Text(_) if size <= MAX_SHORT => return ContentBlock::None,
        ContentKind::Text(_) => {}
    }
    if size > MIN_LONG {
        return ContentBlock::Unavailable(format!(
            "the file has {}; files over {} are summarized only on request, by nagent-file-summarize FILE",
            numbers::format_bytes(size),
            numbers::format_bytes(MIN_LONG)
        ));
    }
    let has_summary = text::find_summary(&previous.sections).is_some_and(text::has_summary);
    let is_known = |(_, bytes): (u64, Vec<u8>)| previous.is_last_known(&fs::sha256(&bytes));
    if (has_summary || previous.has_created)
        && read::read_range(file, 0, MIN_LONG).is_ok_and(is_known)
    {
        return ContentBlock::None;
    }
    ContentBlock::Summary
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
    let summary = match file_summary::summarize_file(&queue, file, &|_, _| ()) {
        Ok(done) => Some(Ok(done.summary.text)),
        Err(problem) => may_ask.then_some(Err(problem.to_string())),
    };
    (summary, queue.totals())
}

#[cfg(test)]
mod tests {
    use super::*;
    use conversation::format::file::parse;

    #[test]
    fn what_the_conversation_knew_and_wrote_of_the_file() {
        let [a, b] = ["a".repeat(64), "b".repeat(64)];
        let check = |text: &str, known: Option<&str>, written: &[&str]| {
            let previous = PreviousMemory::new(text, &parse(text).pieces);
            assert_eq!(known.is_some(), previous.known.is_some());
            assert!(known.is_none_or(|known| previous.is_last_known(known)), "{text}");
            for hash in [&a, &b] {
                let expect = written.contains(&hash.as_str());
                assert_eq!(previous.has_written(hash), expect, "{text}");
            }
        };
        let prompt = format!("<user-prompt at=\"t\" before=\"{a}\">\nx\n</user-prompt>\n\n");
        // The first digits of a hash are enough, but a few are not.
        let edit =
            format!("<nagent-edit-result after=\"{}\">\n</nagent-edit-result>\n\n", &b[..12]);
        let undo = format!(
            "<system change=\"undo\" before=\"{b}\" after=\"{a}\" count=\"1\">\nx\n</system>\n"
        );
        check("", None, &[]);
        check(&prompt, Some(&a), &[]);
        check(&format!("{prompt}{edit}"), Some(&b), &[&b]);
        check(&format!("{prompt}{edit}{undo}"), Some(&a), &[&a, &b]);
        let short = "<nagent-edit-result after=\"bbb\">\n</nagent-edit-result>\n";
        assert!(!PreviousMemory::new(short, &parse(short).pieces).has_written(&b));
    }
}
