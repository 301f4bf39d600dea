//! What `nagent-each` writes down: which inputs were begun, in which conversation, and the results. From it a later call goes on.
//!
//! ```text
//! {"begin": {"run": …, "host": …, "pid": …, "at": …}}       one for each call
//! {"start": ID, "conversation": NAME or null, "at": …}      before an input is worked on
//! {"result": ID, …}                                         its result, durable before it is printed
//! ```

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::exit::Exit;
use crate::limits;
use crate::problem::Problem;
use crate::sys::clock;
use crate::sys::interrupt::Interrupts;
use crate::sys::journal::Journal;
use crate::sys::lock::LockError;
use crate::sys::run_note::Process;

/// An input that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Started {
    /// Its conversation; `None` where that is its file's own.
    pub conversation: Option<String>,
    /// When, RFC 3339.
    pub at: String,
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
    /// US dollars that all results have cost.
    pub spent: f64,
}

/// How a record is opened.
pub(super) struct Opening<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Whether what is there is continued.
    pub resumes: bool,
    /// Whether the file was named by the user, and is not put aside.
    pub is_named: bool,
    /// How long another process is waited for.
    pub patience: Duration,
    /// The signals that end the wait.
    pub interrupts: &'a Interrupts,
    /// Called with who has it.
    pub tell: &'a dyn Fn(&str),
}

impl Record {
    /// Opens the record of a job. `None` in place of a wait that was too long: another process is at work on it.
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self, Problem> {
        let Opening { path, patience, interrupts, .. } = *opening;
        let who = || last_holder(path).map_or_else(String::new, |who| format!(" by {who}"));
        let mut waiting =
            || (opening.tell)(&format!("waiting for {}, in use{}", path.display(), who()));
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
        if !text.is_empty() && !opening.resumes {
            if opening.is_named {
                return Err(Problem::usage(format!(
                    "{} has results already: --resume goes on with them, or name another file",
                    path.display()
                )));
            }
            let micros = clock::since_epoch().as_micros();
            journal.put_aside(&path.with_extension(format!("{micros}.jsonl")))?;
            return Self::open(opening);
        }
        let mut record = Self::read(journal, &text);
        if record.run.is_empty() {
            record.run = uuid::Uuid::new_v4().simple().to_string();
        }
        let Process { host, pid, .. } = Process::own();
        let begin = json!({"run": record.run, "host": host, "pid": pid, "at": clock::now()});
        record.journal.append(&json!({ "begin": begin }).to_string(), true)?;
        Ok(record)
    }

    fn read(journal: Journal, text: &str) -> Self {
        let (results, started) = Default::default();
        let mut record = Self { journal, run: String::new(), results, started, spent: 0.0 };
        // What is no line of ours is what a kill has left of one.
        for line in text.lines() {
            let Ok(mut line) = serde_json::from_str::<Map<String, Value>>(line) else { continue };
            let word = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
            if let Some(begin) = line.get("begin") {
                begin["run"].as_str().unwrap_or_default().clone_into(&mut record.run);
            } else if let (Some(id), Some(at)) = (word("start"), word("at")) {
                // The first one: what goes on after a kill began then.
                let conversation = word("conversation");
                record.started.entry(id).or_insert(Started { conversation, at });
            } else if let Some(id) = word("result") {
                line.remove("result");
                record.spent += cost_of(&line);
                record.results.insert(id, line);
            }
        }
        record
    }

    /// The answer that an input has got, and that is not asked for again.
    pub(super) fn answer(&self, id: &str) -> Option<&Map<String, Value>> {
        let result = self.results.get(id)?;
        (result.get("exit_code") == Some(&Exit::Done.code().into())).then_some(result)
    }

    /// Notes that an input is begun.
    pub(super) fn start(&mut self, id: &str, started: &Started) -> Result<(), Problem> {
        let Started { conversation, at } = started;
        let line = json!({"start": id, "conversation": conversation, "at": at});
        Ok(self.journal.append(&line.to_string(), false)?)
    }

    /// Stores a result, durably.
    pub(super) fn finish(&mut self, id: &str, result: Map<String, Value>) -> Result<(), Problem> {
        let mut line = Map::from_iter([("result".to_owned(), id.into())]);
        line.extend(result.clone());
        self.journal.append(&Value::Object(line).to_string(), true)?;
        self.spent += cost_of(&result);
        self.results.insert(id.to_owned(), result);
        Ok(())
    }
}

/// What a result has cost, as far as that is known.
fn cost_of(result: &Map<String, Value>) -> f64 {
    result.get("cost").and_then(Value::as_f64).unwrap_or(0.0)
}

/// Who has begun to work on a journal last.
fn last_holder(path: &Path) -> Option<String> {
    let text = crate::sys::fs::read_text(path, limits::EACH_JOURNAL).ok()??;
    let mut lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let begin = lines.find_map(|line| line.get("begin").cloned())?;
    let (pid, at) = (begin["pid"].as_u64()?, begin["at"].as_str()?);
    Some(format!("process {pid} on {}, since {at}", begin["host"].as_str()?))
}
