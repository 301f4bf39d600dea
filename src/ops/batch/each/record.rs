//! The record of `nagent-each`: a file in the root for each job, with a line for each result, `{"result": KEY, …}`. A result
//! is durable before it is printed; an input without one is asked about again. Other lines are skipped: a kill or a power
//! cut leaves half of one.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::inputs::{EachArgs, EachInput, Shard};
use crate::ops::run::call::Call;
use conversation::exit::Exit;
use conversation::limits;
use conversation::problem::Problem;
use sys::journal::Journal;
use sys::lock::LockError;
use sys::{clock, fs};
use view::overview::{NEW_DIGITS, is_id, is_new_name};

/// Time to wait for processes of a killed call: they keep the lock until they have ended.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// The keys of a result.
pub(super) type ResultLine = Map<String, Value>;

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
    /// Opens the record of a job, and reads it if the call resumes; else an old one is archived.
    pub(super) fn open(call: &Call<'_>, args: &EachArgs, job: &str) -> Result<Self, Problem> {
        let part = args.shard.map(|Shard { part, of }| format!(".{part}-of-{of}"));
        let folder = call.root().journals_folder();
        fs::create_private_folder(&folder)?;
        let path = folder.join(format!("{job}{}.jsonl", part.unwrap_or_default()));
        let timeout = call.args.lock_timeout;
        let mut waiting = || {
            if timeout.is_some() {
                call.print_note(&format!("waiting for {}, in use", path.display()));
            }
        };
        let patience = timeout.map_or(END_PATIENCE, Duration::from_secs_f64);
        let opened =
            Journal::open(&path, limits::EACH_JOURNAL, patience, &call.interrupts, &mut waiting);
        let (journal, text) = match opened {
            Err(LockError::Busy(_)) => {
                return Err(Problem::failed(format!(
                    "this job is running; it is recorded in {} (--lock-timeout S waits for its end)",
                    path.display()
                )));
            }
            opened => opened?,
        };
        if !text.is_empty() && !args.resume && args.shard.is_none() {
            let micros = clock::since_epoch().as_micros();
            journal.archive(&path.with_extension(format!("{micros}.jsonl")))?;
            return Self::open(call, args, job);
        }
        if text.is_empty() && args.resume {
            let path = path.display();
            call.print_note(&format!("nothing to resume in {path}; starting from the beginning"));
        }
        let mut record = Self { journal, results: HashMap::new(), spent: 0.0 };
        let lines = text.lines().filter_map(|line| serde_json::from_str::<ResultLine>(line).ok());
        for mut line in lines {
            let name = line.get("conversation").and_then(Value::as_str).unwrap_or_default();
            // Results name conversations to whoever reads them, so they may be those of inputs only.
            let is_ours = args.own || is_made_here(name);
            if let (Some(Value::String(key)), true) = (line.shift_remove("result"), is_ours) {
                record.take(key, line);
            }
        }
        Ok(record)
    }

    fn take(&mut self, key: String, result: ResultLine) {
        self.spent += result.get("cost").and_then(Value::as_f64).unwrap_or(0.0);
        self.results.insert(key, result);
    }

    /// The cost of all inputs; `None` if the price of one is not known.
    pub(super) fn cost(&self) -> Option<f64> {
        let is_priced = |it: &ResultLine| it.get("cost").is_none_or(|cost| !cost.is_null());
        self.results.values().all(is_priced).then_some(self.spent)
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

/// Whether this is the name of an input's conversation, of a fork of one, or empty because there was none.
fn is_made_here(name: &str) -> bool {
    let (made, fork) = name.split_at_checked("new-".len() + NEW_DIGITS).unwrap_or((name, ""));
    name.is_empty()
        || is_new_name(made) && (fork.is_empty() || fork.strip_prefix('-').is_some_and(is_id))
}
