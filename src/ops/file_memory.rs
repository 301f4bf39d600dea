//! What a file's own conversation is told of its file at its start: its history and a summary. Shared by `nagent` and
//! `nagent-file-edit`. It asks the model for summaries that are not kept, and prints nothing but a line on a terminal
//! while it waits.
//!
//! Nothing here stops a run: what cannot be had is left out or said to be missing, with a note for stderr. What was told
//! already is told again as it was, so that a conversation gets no update that says nothing new.

mod commits;
mod report;

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

pub use self::report::history_report;
use super::progress_line::Line;
use super::settings::{Setting, Settings};
use super::summaries::{self, JOBS, Writers};
use crate::exit::Exit;
use crate::format::conversation::Piece;
use crate::history::text::{self, Extent, Summaries};
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
use crate::sys::names::shown;
use crate::sys::{fs, read_range};

/// Files up to this many bytes get no summary: to read them costs no more than to be told of them.
pub const SHORT: u64 = 4 * 1024;
/// Files over this many bytes get none at a start: that would be too many requests to make unasked.
pub const LONG: u64 = 256 * 1024;
/// The longest wait for a busy provider. A summary is not worth more; the run's own requests wait as long as they may.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is told where the model gave no summary: the same words each time. Why it failed is on stderr, and would be an
/// update each time it differs.
const REFUSED: &str =
    "the model was asked for one and gave none; nagent-file-summarize --file PATH asks again";
/// How often the line on a terminal is looked after.
const TICK: Duration = Duration::from_millis(250);

/// What is wanted, of whom.
pub struct Start<'a> {
    /// The name of the tool, before each line on stderr.
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
    /// The run's model, where it is settled.
    pub model: Option<&'a str>,
    /// Whether the model may be asked. Without, what is kept is told.
    pub may_ask: bool,
    /// Whether a line may be shown on a terminal.
    pub is_shown: bool,
    /// What the conversation was told before.
    pub told: Told,
}

/// What a conversation was told of its file, and what it did to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The section as it was last told.
    pub section: Option<String>,
    /// The content that the conversation last knew of: its SHA-256.
    pub sha256: Option<String>,
}

impl Told {
    /// From the section last told, and the attributes of the conversation's blocks (see [`crate::memory`]).
    pub fn new(section: Option<String>, pieces: &[Piece]) -> Self {
        let mut contents = pieces.iter().rev();
        let sha256 = contents.find_map(|piece| piece.get("after").or_else(|| piece.get("before")));
        Self { section, sha256: sha256.map(str::to_owned) }
    }
}

/// What a conversation is told, and what it cost to know it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// The text of the section; empty where there is nothing to tell.
    pub text: String,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Requests to the model.
    pub requests: u64,
    /// What they used.
    pub usage: Usage,
}

/// What is told of the file itself.
enum Wanted {
    /// Nothing: it is short, empty or not there.
    Nothing,
    /// What was told before.
    Same(String),
    /// A summary.
    Summary,
    /// Why there is none.
    Unavailable(String),
}

/// Finds out what there is to tell. After a signal, what was told before is told again.
pub fn gather(start: &Start<'_>) -> Memory {
    let file =
        start.folder.join(crate::sys::names::expand_home(start.file, start.env.home().as_deref()));
    let file = fs::real_path(&file).unwrap_or(file);
    let root = &start.settings.root.value;
    let stop = || start.interrupts.pending().is_some();
    let mut line = start.is_shown.then(|| Line::new(start.tool));
    let words = format!("reading the history of {}", shown(&file));
    let mut keep_waiting = || {
        if let Some(line) = &mut line {
            line.say(&words);
        }
        !stop()
    };
    let look = git::read_history(&file, &root.history(), ReadingTime::START, &mut keep_waiting);
    let history = look.history.unwrap_or_default();
    // That a file is in no repository, or not committed yet, is nothing to speak of.
    let notes = if look.is_trouble { look.notes } else { Vec::new() };
    let mut memory = Memory { notes, ..Memory::default() };
    memory.notes.extend(history.notes.iter().cloned());

    let folder = root.summaries();
    let (mut known, missing) = commits::read_cached(&folder, &history.commits, text::MAX_STEPS);
    let wanted = wanted(start, &file, &history);
    // A recording has replies to the run's own requests and to no other.
    let provider = start.settings.provider.as_ref().map(|provider| provider.value);
    let may_ask = start.may_ask && provider.is_some_and(|provider| provider != Provider::Replay);
    let settings = settings(start);
    let writers = Writers {
        tool: start.tool,
        settings: &settings,
        env: start.env,
        folder: start.folder,
        interrupts: start.interrupts,
    };
    let asked = Asked { writers: &writers, file: &file, history: &history, missing: &missing };
    let came = asked.all(may_ask, matches!(wanted, Wanted::Summary), line.as_mut());
    drop(line);
    (memory.requests, memory.usage) = (came.requests, came.usage);
    if stop() {
        memory.text = start.told.section.clone().unwrap_or_default();
        return memory;
    }
    memory.notes.extend(came.notes);
    known.extend(came.commits);

    let path = file.as_os_str().as_encoded_bytes();
    let summary = match (wanted, came.file) {
        (Wanted::Same(block), _) => Some(block),
        (Wanted::Unavailable(why), _) => Some(text::format_summary(path, Err(&why))),
        (Wanted::Summary, Some(Ok(summary))) => Some(text::format_summary(path, Ok(&summary))),
        (Wanted::Summary, Some(Err(why))) => {
            memory.notes.push(format!("no summary of {} this time: {why}", shown(&file)));
            Some(text::format_summary(path, Err(REFUSED)))
        }
        (Wanted::Nothing | Wanted::Summary, _) => None,
    };
    let history = text::format_history(&history, &known, Extent::Latest);
    let blocks: Vec<String> =
        [history].into_iter().chain(summary).filter(|block| !block.is_empty()).collect();
    memory.text = blocks.join("\n\n");
    memory
}

/// The settings for requests that nobody waits for long, with the model that the run settled on.
fn settings(start: &Start<'_>) -> Settings {
    let mut settings = start.settings.clone();
    settings.patience.value = settings.patience.value.min(PATIENCE.as_secs_f64());
    if let Some(model) = start.model.filter(|model| !model.is_empty()) {
        settings.model = Some(Setting { value: model.to_owned(), from: "run".to_owned() });
    }
    settings
}

/// Decides what is told of the file itself.
fn wanted(start: &Start<'_>, file: &Path, history: &History) -> Wanted {
    // What cannot be read is the run's to find out.
    let Ok((size, head)) = read_range::read_range(file, 0, content::HEAD) else {
        return Wanted::Nothing;
    };
    match content::detect_content(&head) {
        ContentKind::Empty | ContentKind::Blank => return Wanted::Nothing,
        ContentKind::Binary(_) => return Wanted::Summary,
        ContentKind::Text(_) if size <= SHORT => return Wanted::Nothing,
        ContentKind::Text(_) => {}
    }
    if size > LONG {
        return Wanted::Unavailable(format!(
            "the file has {}, and what is over {} is not summed up unasked; nagent-file-summarize --file PATH does it",
            out::bytes(size),
            out::bytes(LONG)
        ));
    }
    match told_before(start, file, history) {
        Some(block) => Wanted::Same(block),
        None => Wanted::Summary,
    }
}

/// The summary that the conversation was told, while nobody but the conversation itself has changed the file and no
/// commit has touched it since.
fn told_before(start: &Start<'_>, file: &Path, history: &History) -> Option<String> {
    let section = start.told.section.as_deref()?;
    let block = text::find_summary(section, file.as_os_str().as_encoded_bytes())?;
    let is_known = history.commits.first().is_none_or(|commit| text::lists_commit(section, commit));
    let (_, bytes) = read_range::read_range(file, 0, LONG).ok()?;
    (is_known && start.told.sha256.as_deref() == Some(&fs::sha256(&bytes)))
        .then(|| block.to_owned())
}

/// Requests that run side by side.
struct Asked<'a> {
    writers: &'a Writers<'a>,
    file: &'a Path,
    history: &'a History,
    missing: &'a [&'a FileCommit],
}

/// What came of them.
#[derive(Default)]
struct Came {
    commits: Summaries,
    file: Option<Result<String, String>>,
    notes: Vec<String>,
    requests: u64,
    usage: Usage,
}

impl Asked<'_> {
    /// Asks for what is missing, if it may; the file's summary may be kept.
    fn all(&self, may_ask: bool, wants_file: bool, line: Option<&mut Line>) -> Came {
        let mut came = Came::default();
        let commits = may_ask && !self.missing.is_empty();
        if !commits && !wants_file {
            return came;
        }
        thread::scope(|scope| {
            let (sender, ended) = channel();
            let commits = commits.then(|| {
                let sender = sender.clone();
                scope.spawn(move || {
                    let asked =
                        commits::request_summaries(self.writers, self.history, self.missing);
                    drop(sender);
                    asked
                })
            });
            let file = wants_file.then(|| {
                let sender = sender.clone();
                scope.spawn(move || {
                    let asked = self.file(may_ask);
                    drop(sender);
                    asked
                })
            });
            drop(sender);
            let words = format!("asking for summaries of {} and its commits", shown(self.file));
            wait(&ended, line.filter(|_| may_ask), &words);
            if let Some(asked) = commits.and_then(|thread| thread.join().ok()) {
                came.commits = asked.summaries;
                came.notes.extend(asked.notes);
                came.requests += asked.requests;
                came.usage.add(&asked.usage);
            }
            if let Some((result, requests, usage)) = file.and_then(|thread| thread.join().ok()) {
                came.file = result;
                came.requests += requests;
                came.usage.add(&usage);
            }
        });
        came
    }

    /// The file's summary: kept, asked for, or why there is none. `None` where it is not kept and nobody may be asked.
    fn file(&self, may_ask: bool) -> (Option<Result<String, String>>, u64, Usage) {
        let voice = || if may_ask { self.writers.voice() } else { Err(not_asked()) };
        let tell = |note: &str| {
            if may_ask {
                self.writers.tell(&format!("note: {note}"));
            }
        };
        if !may_ask && !fs::exists(&self.writers.kept()) {
            return (None, 0, Usage::default());
        }
        let summarizer = FileSummarizer::new(summaries::rules(self.writers, &voice, &tell, JOBS));
        let result = summarizer.summarize_file(self.file, None, &mut |_, _| ());
        let totals = summarizer.totals();
        let result = match result {
            Ok(done) => Some(Ok(done.summary.text)),
            Err(_) if !may_ask => None,
            Err(failure) => Some(Err(failure.message)),
        };
        (result, totals.requests, totals.usage)
    }
}

/// Waits until nobody is at work any more, and says on a terminal what for.
fn wait(ended: &Receiver<()>, mut line: Option<&mut Line>, words: &str) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
        if let Some(line) = &mut line {
            line.say(words);
        }
    }
}

fn not_asked() -> Problem {
    Problem::new(Exit::Failed, "no summary is kept, and none is asked for")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::conversation::parse;

    #[test]
    fn what_the_conversation_last_knew_of_the_file() {
        let check = |text: &str, expect: Option<&str>| {
            let told = Told::new(None, &parse(text).pieces);
            assert_eq!(told.sha256.as_deref(), expect, "{text}");
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
