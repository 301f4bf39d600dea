//! What `nagent-each` writes down: which inputs were begun, in which conversation, and the results. From it a later call goes on.
//!
//! ```text
//! {"begin": {"run": …, "job": …, "host": …, "pid": …, "at": …}}           one for each call
//! {"start": ID, "conversation": NAME or null, "prompt": ID, "content": …}   before an input is worked on
//! {"part": ID, "cost": …}                                                   what a run without a result has cost
//! {"result": ID, …}                                                         its result, durable before it is printed
//! ```

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::overview::is_new_name;
use conversation::exit::Exit;
use conversation::format::numbers::format_count;
use conversation::limits;
use conversation::problem::Problem;
use sys::clock;
use sys::interrupt::Interrupts;
use sys::journal::Journal;
use sys::lock::LockError;
use sys::run_note::Process;

/// What every journal begins with.
const BEGIN: &str = "{\"begin\"";

/// An input that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Started {
    /// Its conversation; `None` where that is its file's own.
    pub conversation: Option<String>,
    /// The id of its prompt.
    pub prompt: String,
    /// The hash of its file's content.
    pub content: Option<String>,
}

/// The journal and what is known from it.
#[derive(Debug)]
pub(super) struct Record {
    journal: Journal,
    /// Identifies the first call, for the names of conversations.
    pub run: String,
    /// The last result of each input.
    pub results: HashMap<String, Map<String, Value>>,
    /// The inputs that were begun.
    pub started: HashMap<String, Started>,
    /// US dollars that all inputs have cost, and those of them that each has cost since it was begun.
    pub spent: f64,
    paid: HashMap<String, f64>,
    /// What the answers depend on: the hash of each part.
    job: Map<String, Value>,
    /// How many lines could not be read.
    damaged: u64,
}

/// How a record is opened.
pub(super) struct RecordOptions<'a> {
    /// Its file.
    pub path: &'a Path,
    /// What the answers depend on: the hash of each part, by what it is called in an error.
    pub job: Map<String, Value>,
    /// Whether what is there is continued.
    pub resumes: bool,
    /// Whether the user has asked for that: then a note says if there is nothing to resume.
    pub is_resume: bool,
    /// Whether the user named the file: then it is never archived.
    pub is_named: bool,
    /// How long another process is waited for.
    pub patience: Duration,
    /// The signals that end the wait.
    pub interrupts: &'a Interrupts,
    /// Called with who has it.
    pub tell: &'a dyn Fn(&str),
    /// Called with notes.
    pub note: &'a dyn Fn(&str),
}

impl Record {
    /// Opens the record of a job. `None` in place of a wait that was too long: another process is at work on it.
    pub(super) fn open(options: &RecordOptions<'_>) -> Result<Self, Problem> {
        let RecordOptions { path, patience, interrupts, .. } = *options;
        let who = || last_holder(path).map_or_else(String::new, |who| format!(" by {who}"));
        let mut waiting =
            || (options.tell)(&format!("waiting for {}, in use{}", path.display(), who()));
        let opened = Journal::open(path, limits::EACH_JOURNAL, patience, interrupts, &mut waiting);
        let (journal, text) = match opened {
            Err(LockError::Busy(_)) => {
                return Err(Problem::failed(format!(
                    "this job is running{}; it is recorded in {} (--lock-timeout S waits for its end)",
                    who(),
                    path.display()
                )));
            }
            opened => opened?,
        };
        // Before it is whole, nothing was begun.
        let text = if is_torn_begin(&text) { "" } else { &text };
        if !text.is_empty() && !options.resumes {
            if options.is_named {
                return Err(Problem::usage(format!(
                    "{} has results already: --resume goes on with them, or name another file",
                    path.display()
                )));
            }
            let micros = clock::since_epoch().as_micros();
            journal.archive(&path.with_extension(format!("{micros}.jsonl")))?;
            return Self::open(options);
        }
        let mut record = Self::read(journal, text);
        record.check(options, text)?;
        record.job.clone_from(&options.job);
        if record.run.is_empty() {
            record.run = uuid::Uuid::new_v4().simple().to_string();
        }
        let Process { host, pid, .. } = Process::current();
        let begin = json!({"run": record.run, "job": record.job, "host": host, "pid": pid, "at": clock::now()});
        record.journal.append(&json!({ "begin": begin }).to_string(), true)?;
        Ok(record)
    }

    /// Refuses a file that is not a journal, or that of another job.
    fn check(&self, options: &RecordOptions<'_>, text: &str) -> Result<(), Problem> {
        let path = options.path.display();
        if text.trim().is_empty() {
            if options.is_resume {
                (options.note)(&format!(
                    "nothing to resume in {path}; starting from the beginning"
                ));
            }
            return Ok(());
        }
        let is_known = !(self.run.is_empty() && self.started.is_empty() && self.results.is_empty());
        if !is_known && !text.starts_with(BEGIN) {
            return Err(Problem::usage(format!(
                "{path} is not a journal of nagent-each, and was left unchanged; --journal names another file"
            )));
        }
        let differs = |(name, hash): (&String, &Value)| {
            (self.job.get(name) != Some(hash)).then(|| name.clone())
        };
        // A damaged one may not say what it is of; then it names nothing but conversations.
        let parts = options.job.iter().filter(|_| !self.run.is_empty());
        let differing: Vec<String> = parts.filter_map(differs).collect();
        if !differing.is_empty() {
            return Err(Problem::usage(format!(
                "{path} belongs to a job with another {}: repeat that command as it was, or name another file with --journal",
                differing.join(", another ")
            )));
        }
        if self.damaged > 0 {
            (options.note)(&format!(
                "{} of {path} cannot be read; their results are recovered from conversations, or asked for again",
                format_count(self.damaged, "line")
            ));
        }
        Ok(())
    }

    fn read(journal: Journal, text: &str) -> Self {
        let (results, started, paid, job) = Default::default();
        let (run, spent, damaged) = (String::new(), 0.0, 0);
        let mut record = Self { journal, run, results, started, spent, paid, job, damaged };
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let is_known = serde_json::from_str(line).is_ok_and(|line| record.read_line(line));
            // A kill tears the last line, before the next call begins.
            let is_torn = match lines.peek() {
                Some(next) => next.starts_with(BEGIN),
                None => !text.ends_with('\n'),
            };
            record.damaged += u64::from(!is_known && !is_torn);
        }
        record
    }

    /// Reads a line; `false`: it is not a line of a journal.
    fn read_line(&mut self, mut line: Map<String, Value>) -> bool {
        let word = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(begin) = line.get("begin") {
            begin["run"].as_str().unwrap_or_default().clone_into(&mut self.run);
            self.job = begin["job"].as_object().cloned().unwrap_or_default();
        } else if let (Some(id), Some(prompt)) = (word("start"), word("prompt")) {
            let (conversation, content) = (word("conversation"), word("content"));
            // A journal may come from anywhere.
            if conversation.as_deref().is_some_and(|name| !is_new_name(name)) {
                return false;
            }
            self.paid.remove(&id);
            self.started.insert(id, Started { conversation, prompt, content });
        } else if let Some(id) = word("part") {
            self.count(&id, cost_of(&line));
        } else if let Some(id) = word("result") {
            line.shift_remove("result");
            self.count(&id, cost_of(&line));
            self.results.insert(id, line);
        } else {
            return false;
        }
        true
    }

    /// Counts what an input has cost in all since it was begun, each dollar once. Returns that.
    fn count(&mut self, id: &str, cost: f64) -> f64 {
        let paid = self.paid.entry(id.to_owned()).or_default();
        self.spent += (cost - *paid).max(0.0);
        *paid = paid.max(cost);
        *paid
    }

    /// Records what an input without a result has cost since it was begun, and returns the known cost.
    pub(super) fn note_part(&mut self, id: &str, cost: f64) -> Result<f64, Problem> {
        if cost > self.paid.get(id).copied().unwrap_or(0.0) {
            self.journal.append(&json!({"part": id, "cost": cost}).to_string(), false)?;
        }
        Ok(self.count(id, cost))
    }

    /// Forgets an input whose file has changed, so that it starts over.
    pub(super) fn forget(&mut self, id: &str) {
        self.results.remove(id);
        self.started.remove(id);
    }

    /// The answer that an input has got, and that is not asked for again.
    pub(super) fn answer(&self, id: &str) -> Option<&Map<String, Value>> {
        let result = self.results.get(id)?;
        (result.get("exit_code") == Some(&Exit::Done.code().into())).then_some(result)
    }

    /// Notes that an input is begun.
    pub(super) fn start(&mut self, id: &str, started: &Started) -> Result<(), Problem> {
        let Started { conversation, prompt, content } = started;
        let line = json!({
            "start": id, "conversation": conversation, "prompt": prompt, "content": content, "at": clock::now()
        });
        self.paid.remove(id);
        Ok(self.journal.append(&line.to_string(), false)?)
    }

    /// Stores a result, durably.
    pub(super) fn finish(&mut self, id: &str, result: Map<String, Value>) -> Result<(), Problem> {
        let mut line = Map::from_iter([("result".to_owned(), id.into())]);
        line.extend(result.clone());
        self.journal.append(&Value::Object(line).to_string(), true)?;
        self.count(id, cost_of(&result));
        self.results.insert(id.to_owned(), result);
        Ok(())
    }
}

/// Whether this is what a kill or a power cut leaves of the first line: a part of it, perhaps with zeros, or nothing.
fn is_torn_begin(text: &str) -> bool {
    let text = text.trim_end_matches('\0');
    !text.contains('\n') && (BEGIN.starts_with(text) || text.starts_with(BEGIN))
}

/// The known cost of a result.
fn cost_of(result: &Map<String, Value>) -> f64 {
    result.get("cost").and_then(Value::as_f64).unwrap_or(0.0)
}

/// The process that began to work on a journal last.
fn last_holder(path: &Path) -> Option<String> {
    let text = sys::fs::read_text(path, limits::EACH_JOURNAL).ok()??;
    let mut lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let begin = lines.find_map(|line| line.get("begin").cloned())?;
    let (pid, at) = (begin["pid"].as_u64()?, begin["at"].as_str()?);
    Some(format!("process {pid} on {}, since {at}", begin["host"].as_str()?))
}
