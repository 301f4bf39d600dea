//! The record of `nagent-each`: the results of inputs. An input without a result is asked about again.
//!
//! ```text
//! {"begin": {"job": …, "host": …, "pid": …, "at": …}}   one for each call
//! {"result": KEY, …}                                      a result, durable before it is printed
//! ```
//!
//! Lines that are neither are skipped: older versions wrote more, and a kill or a power cut leaves half of one.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::args::EachArgs;
use super::inputs::EachInput;
use super::result_line::ResultLine;
use crate::ops::run::call::Call;
use crate::overview::{NEW_DIGITS, is_id, is_new_name};
use conversation::exit::Exit;
use conversation::limits;
use conversation::problem::Problem;
use sys::clock;
use sys::journal::Journal;
use sys::lock::LockError;
use sys::run_note::Process;

/// Time to wait for processes of a killed call: they keep the lock until they have ended.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// The beginning of every journal.
const BEGIN: &str = "{\"begin\"";

/// The journal and its content.
#[derive(Debug)]
pub(super) struct Record {
    journal: Journal,
    /// The last result of each input, by its key.
    pub results: HashMap<String, ResultLine>,
    /// US dollars that all results have cost.
    pub spent: f64,
}

impl Record {
    /// Opens the journal of a job, and reads it if the call resumes.
    pub(super) fn open(
        call: &Call<'_>,
        args: &EachArgs,
        path: &Path,
        job: &Value,
    ) -> Result<Self, Problem> {
        let (journal, text) = open_journal(call, path)?;
        // Before its first line is whole, nothing was recorded.
        let text = if is_torn_begin(&text) { "" } else { text.trim() };
        let resumes = args.resume || args.shard.is_some();
        if !text.is_empty() && !resumes {
            if args.journal.is_some() {
                return Err(Problem::usage(format!(
                    "{} already has results; add --resume to continue, or name another file with --journal",
                    path.display()
                )));
            }
            let micros = clock::since_epoch().as_micros();
            journal.archive(&path.with_extension(format!("{micros}.jsonl")))?;
            return Self::open(call, args, path, job);
        }
        let mut record = Self { journal, results: HashMap::new(), spent: 0.0 };
        let known = record.read(text, args.own);
        if text.is_empty() && args.resume {
            let path = path.display();
            call.print_note(&format!("nothing to resume in {path}; starting from the beginning"));
        } else if !text.is_empty() && known.as_ref() != Some(job) {
            let why = match known {
                Some(_) => "belongs to another job: repeat that command as it was, or name",
                None => "is not a journal of nagent-each, and was left unchanged; name",
            };
            let path = path.display();
            return Err(Problem::usage(format!("{path} {why} another file with --journal")));
        }
        let Process { host, pid, .. } = Process::current();
        let begin = json!({"begin": {"job": job, "host": host, "pid": pid, "at": clock::now()}});
        record.journal.append(&begin.to_string())?;
        Ok(record)
    }

    /// Reads the lines of a journal, and returns the job that they are of.
    fn read(&mut self, text: &str, is_own: bool) -> Option<Value> {
        let (mut job, mut keys) = (None, HashMap::new());
        let lines = text.lines().filter_map(|line| serde_json::from_str::<ResultLine>(line).ok());
        for mut line in lines {
            let word = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
            let conversation = word("conversation").unwrap_or_default();
            if let Some(begin) = line.get("begin") {
                job = Some(begin["job"].clone());
            } else if let (Some(id), Some(content)) = (word("start"), word("content")) {
                // An older version wrote here which content the result will be of.
                keys.insert(id.clone(), EachInput::key_of(&id, Some(&content)));
            } else if let Some(id) = word("result") {
                // A journal may come from anywhere, and its results name conversations to whoever reads them.
                if is_own || is_made_here(&conversation) {
                    line.shift_remove("result");
                    self.take(keys.get(&id).cloned().unwrap_or(id), line);
                }
            }
        }
        job
    }

    fn take(&mut self, key: String, result: ResultLine) {
        self.spent += result.get("cost").and_then(Value::as_f64).unwrap_or(0.0);
        self.results.insert(key, result);
    }

    /// The recorded answer of an input, which is not asked for again.
    pub(super) fn answer(&self, item: &EachInput) -> Option<&ResultLine> {
        let result = self.results.get(&item.key)?;
        (result.get("exit_code") == Some(&Exit::Done.code().into())).then_some(result)
    }

    /// Stores a result, durably.
    pub(super) fn finish(&mut self, key: &str, result: ResultLine) -> Result<(), Problem> {
        let mut line = Map::from_iter([("result".to_owned(), key.into())]);
        line.extend(result.clone());
        self.journal.append(&Value::Object(line).to_string())?;
        self.take(key.to_owned(), result);
        Ok(())
    }
}

fn open_journal(call: &Call<'_>, path: &Path) -> Result<(Journal, String), Problem> {
    let who = || last_holder(path).map_or_else(String::new, |who| format!(" by {who}"));
    let timeout = call.args.lock_timeout;
    let mut waiting = || {
        if timeout.is_some() {
            call.print_note(&format!("waiting for {}, in use{}", path.display(), who()));
        }
    };
    let patience = timeout.map_or(END_PATIENCE, Duration::from_secs_f64);
    match Journal::open(path, limits::EACH_JOURNAL, patience, &call.interrupts, &mut waiting) {
        Err(LockError::Busy(_)) => Err(Problem::failed(format!(
            "this job is running{}; it is recorded in {} (--lock-timeout S waits for its end)",
            who(),
            path.display()
        ))),
        opened => Ok(opened?),
    }
}

/// Whether this is a first line torn by a kill or a power cut: a part of it, perhaps with zeros, or nothing.
fn is_torn_begin(text: &str) -> bool {
    let text = text.trim_end_matches('\0');
    !text.contains('\n') && (BEGIN.starts_with(text) || text.starts_with(BEGIN))
}

/// Whether this is the name of an input's conversation, of a fork of one, or empty because there was none.
fn is_made_here(name: &str) -> bool {
    let (made, fork) = name.split_at_checked("new-".len() + NEW_DIGITS).unwrap_or((name, ""));
    name.is_empty()
        || is_new_name(made) && (fork.is_empty() || fork.strip_prefix('-').is_some_and(is_id))
}

/// The process that began to work on a journal last.
fn last_holder(path: &Path) -> Option<String> {
    let text = sys::fs::read_text(path, limits::EACH_JOURNAL).ok()??;
    let mut lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let begin = lines.find_map(|line| line.get("begin").cloned())?;
    let (pid, at) = (begin["pid"].as_u64()?, begin["at"].as_str()?);
    Some(format!("process {pid} on {}, since {at}", begin["host"].as_str()?))
}
