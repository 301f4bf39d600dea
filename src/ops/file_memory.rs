//! Gathers what a file's own conversation learns of its file at its start: the history and a summary. It asks the model for
//! summaries that are not cached, and prints nothing but a progress line on a terminal.
//!
//! Nothing here stops a run: what is missing is left out or said to be missing, with a note on stderr. What the conversation
//! has already is repeated word for word, so that it gets no update without news.

mod commits;
mod report;

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use self::commits::CommitSummaries;
pub use self::report::report_history;
use super::progress_line::ProgressLine;
use super::settings::{Setting, Settings};
use super::summaries::{self, JOBS, Writers};
use crate::exit::Exit;
use crate::format::conversation::Piece;
use crate::history::text::{self, Extent};
use crate::history::{FileCommit, History};
use crate::llm::Usage;
use crate::llm::provider::Provider;
use crate::out;
use crate::problem::Problem;
use crate::segments::content::{self, ContentKind};
use crate::segments::file_summary::FileSummarizer;
use crate::sys::env::Env;
use crate::sys::git::{self, ReadingTime};
use crate::sys::interrupt::Interrupts;
use crate::sys::names::{expand_home, shown};
use crate::sys::{fs, read_range};

/// Files up to this many bytes get no summary: the model reads the file at the same cost.
pub const MAX_SHORT: u64 = 4 * 1024;
/// Files over this many bytes get no summary at a start: that would take many requests which nobody asked for.
pub const MIN_LONG: u64 = 256 * 1024;
/// The longest wait for a busy provider. A summary is not worth more; the run's own requests have their own limit.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is shown where the model gave no summary. The reason is on stderr: here it would be an update each time it differs.
const REFUSED: &str =
    "the model was asked for one and gave none; nagent-file-summarize --file PATH asks again";
/// How often the line on a terminal is updated.
const TICK: Duration = Duration::from_millis(250);

/// What to gather, and by what means.
pub struct GatherOptions<'a> {
    /// The name of the tool, which begins each line on stderr.
    pub tool: &'static str,
    /// The settings in force.
    pub settings: &'a Settings,
    /// The environment, credentials included.
    pub env: &'a Env,
    /// The working folder.
    pub folder: &'a Path,
    /// Signals.
    pub interrupts: &'a Interrupts,
    /// The file, as the user names it; it need not exist.
    pub file: &'a Path,
    /// The run's model, where it is known.
    pub model: Option<&'a str>,
    /// Whether to ask the model for summaries that are not cached.
    pub may_ask: bool,
    /// Whether to show progress on a terminal.
    pub shows_progress: bool,
    /// What the conversation has already.
    pub previous: PreviousMemory,
}

/// What a conversation has already of its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreviousMemory {
    /// The latest text of the section.
    pub section: Option<String>,
    /// The SHA-256 of the content that the conversation knew last.
    pub sha256: Option<String>,
}

impl PreviousMemory {
    /// Finds the content in the attributes of the conversation's blocks (see [`crate::memory`]).
    pub fn new(section: Option<String>, pieces: &[Piece]) -> Self {
        let mut contents = pieces.iter().rev();
        let sha256 = contents.find_map(|piece| piece.get("after").or_else(|| piece.get("before")));
        Self { section, sha256: sha256.map(str::to_owned) }
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

/// Gathers the section on a file. After a signal it is the one that the conversation has already.
pub fn gather_memory(options: &GatherOptions<'_>) -> FileMemory {
    let home = options.env.home();
    let file = options.folder.join(expand_home(options.file, home.as_deref()));
    let file = fs::real_path(&file).unwrap_or(file);
    let root = &options.settings.root.value;
    let is_interrupted = || options.interrupts.pending().is_some();
    let mut line = options.shows_progress.then(|| ProgressLine::new(options.tool));
    let words = format!("reading the history of {}", shown(&file));
    let mut keep_waiting = || {
        if let Some(line) = &mut line {
            line.show_text(&words);
        }
        !is_interrupted()
    };
    let lookup = git::read_history(&file, &root.history(), ReadingTime::START, &mut keep_waiting);
    let history = lookup.history.unwrap_or_default();
    // A file outside of a repository, or one that was never committed, needs no note.
    let notes = if lookup.is_trouble { lookup.notes } else { Vec::new() };
    let mut memory = FileMemory { notes, ..FileMemory::default() };
    memory.notes.extend(history.notes.iter().cloned());

    let (mut commits, missing) =
        commits::read_cached(&root.summaries(), &history.commits, crate::limits::HISTORY_STEPS);
    let block = choose_block(options, &file, &history);
    // A recording has answers to the run's own requests only.
    let provider = options.settings.provider.as_ref().map(|provider| provider.value);
    let may_ask = options.may_ask && provider.is_some_and(|provider| provider != Provider::Replay);
    let settings = request_settings(options);
    let writers = Writers {
        tool: options.tool,
        settings: &settings,
        env: options.env,
        folder: options.folder,
        interrupts: options.interrupts,
    };
    let requests =
        SummaryRequests { writers: &writers, file: &file, history: &history, missing: &missing };
    let answers = requests.send(may_ask, matches!(block, ContentBlock::Summary), line.as_mut());
    drop(line);
    memory.requests = answers.commits.requests + answers.file.requests;
    memory.usage = answers.commits.usage;
    memory.usage.add(&answers.file.usage);
    if is_interrupted() {
        memory.text = options.previous.section.clone().unwrap_or_default();
        return memory;
    }
    memory.notes.extend(answers.commits.notes);
    commits.extend(answers.commits.summaries);

    let path = file.as_os_str().as_encoded_bytes();
    let summary = match (block, answers.file.summary) {
        (ContentBlock::Unchanged(block), _) => Some(block),
        (ContentBlock::Unavailable(why), _) => Some(text::format_summary(path, Err(&why))),
        (ContentBlock::Summary, Some(Ok(summary))) => {
            Some(text::format_summary(path, Ok(&summary)))
        }
        (ContentBlock::Summary, Some(Err(why))) => {
            memory.notes.push(format!("no summary of {} this time: {why}", shown(&file)));
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
fn request_settings(options: &GatherOptions<'_>) -> Settings {
    let mut settings = options.settings.clone();
    settings.patience.value = settings.patience.value.min(PATIENCE.as_secs_f64());
    if let Some(model) = options.model.filter(|model| !model.is_empty()) {
        settings.model = Some(Setting { value: model.to_owned(), from: "run".to_owned() });
    }
    settings
}

/// Decides what the section says about the content of the file.
fn choose_block(options: &GatherOptions<'_>, file: &Path, history: &History) -> ContentBlock {
    // If the file cannot be read, the run itself reports it.
    let Ok((size, head)) = read_range::read_range(file, 0, content::HEAD) else {
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
    find_unchanged(options, file, history).map_or(ContentBlock::Summary, ContentBlock::Unchanged)
}

/// Finds the summary that the conversation has, if nobody else has changed the file and no commit has touched it since.
fn find_unchanged(options: &GatherOptions<'_>, file: &Path, history: &History) -> Option<String> {
    let section = options.previous.section.as_deref()?;
    let block = text::find_summary(section, file.as_os_str().as_encoded_bytes())?;
    let is_known = history.commits.first().is_none_or(|commit| text::lists_commit(section, commit));
    let (_, bytes) = read_range::read_range(file, 0, MIN_LONG).ok()?;
    (is_known && options.previous.sha256.as_deref() == Some(&fs::sha256(&bytes)))
        .then(|| block.to_owned())
}

/// The requests for summaries, which are sent at the same time.
struct SummaryRequests<'a> {
    writers: &'a Writers<'a>,
    file: &'a Path,
    history: &'a History,
    missing: &'a [&'a FileCommit],
}

/// The answers to them.
#[derive(Default)]
struct SummaryAnswers {
    commits: CommitSummaries,
    file: FileAnswer,
}

/// The file's summary, or why there is none; `None` where it is not cached and may not be requested.
#[derive(Default)]
struct FileAnswer {
    summary: Option<Result<String, String>>,
    requests: u64,
    usage: Usage,
}

impl SummaryRequests<'_> {
    /// Asks for what is missing, if `may_ask`; else the file's summary can come from the cache only.
    fn send(
        &self,
        may_ask: bool,
        wants_file: bool,
        line: Option<&mut ProgressLine>,
    ) -> SummaryAnswers {
        let mut answers = SummaryAnswers::default();
        let wants_commits = may_ask && !self.missing.is_empty();
        if !wants_commits && !wants_file {
            return answers;
        }
        thread::scope(|scope| {
            // Each thread drops its sender at its end.
            let (sender, ended) = channel::<()>();
            let commits = wants_commits.then(|| {
                let sender = sender.clone();
                scope.spawn(move || {
                    let _sender = sender;
                    commits::request_summaries(self.writers, self.history, self.missing)
                })
            });
            let file = wants_file.then(|| {
                let sender = sender.clone();
                scope.spawn(move || {
                    let _sender = sender;
                    self.summarize_file(may_ask)
                })
            });
            drop(sender);
            let words = format!("asking for summaries of {} and its commits", shown(self.file));
            wait_for_threads(&ended, line.filter(|_| may_ask), &words);
            answers.commits = commits.and_then(|thread| thread.join().ok()).unwrap_or_default();
            answers.file = file.and_then(|thread| thread.join().ok()).unwrap_or_default();
        });
        answers
    }

    fn summarize_file(&self, may_ask: bool) -> FileAnswer {
        let voice = || {
            let refusal = || Problem::new(Exit::Failed, "the summary is not cached");
            if may_ask { self.writers.connect() } else { Err(refusal()) }
        };
        let tell = |note: &str| {
            if may_ask {
                self.writers.print_line(&format!("note: {note}"));
            }
        };
        if !may_ask && !fs::exists(&self.writers.cache_folder()) {
            return FileAnswer::default();
        }
        let summarizer = FileSummarizer::new(summaries::rules(self.writers, &voice, &tell, JOBS));
        let result = summarizer.summarize_file(self.file, None, &mut |_, _| ());
        let totals = summarizer.totals();
        let summary = match result {
            Ok(done) => Some(Ok(done.summary.text)),
            Err(_) if !may_ask => None,
            Err(problem) => Some(Err(problem.message)),
        };
        FileAnswer { summary, requests: totals.requests, usage: totals.usage }
    }
}

/// Waits until all threads have ended, and shows on a terminal what they do.
fn wait_for_threads(ended: &Receiver<()>, mut line: Option<&mut ProgressLine>, words: &str) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
        if let Some(line) = &mut line {
            line.show_text(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::conversation::parse;

    #[test]
    fn what_the_conversation_last_knew_of_the_file() {
        let check = |text: &str, expect: Option<&str>| {
            let previous = PreviousMemory::new(None, &parse(text).pieces);
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
