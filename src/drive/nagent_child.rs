//! A nagent that this one starts: its command line, and the parser of its answer.
//!
//! The prompt travels on stdin, the answer as JSON on stdout. A child has to end its children, so it gets more time
//! than a command.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use conversation::exit::Exit;
use conversation::limits;
use conversation::model::Usage;
use conversation::problem::Problem;
use sys::process::job::{Finished, Job, JobOutcome, Output, Stdin};

/// The time between telling a child to end and ending it.
const GRACE: Duration = Duration::from_secs(2);

/// Keys of a run that are summed up over several.
pub const SUMS: [&str; 9] = [
    "turn_count",
    "recursive_turn_count",
    "conversation_input_tokens",
    "recursive_input_tokens",
    "recursive_output_tokens",
    "recursive_cache_read_tokens",
    "recursive_cache_write_tokens",
    "tokens_in",
    "tokens_out",
];

/// Writes a flag and its value as one word, since values may begin with a dash.
pub fn flag_word(flag: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut word = OsString::from(format!("--{flag}="));
    word.push(value);
    word
}

/// The job that runs a child: a program with its flags. `--json` is added, or `--lines` where the child is to report what
/// it does, and `-` with a prompt.
pub fn child_job(
    mut argv: Vec<OsString>,
    prompt: Option<Vec<u8>>,
    folder: PathBuf,
    env: Vec<(OsString, OsString)>,
    report: bool,
) -> Job {
    argv.push(if report { "--lines" } else { "--json" }.into());
    argv.extend(prompt.is_some().then(|| "-".into()));
    Job {
        stdin: prompt.map_or(Stdin::Null, Stdin::Bytes),
        output: Output::Separate,
        grace: GRACE,
        // Only the last of the lines is needed, and it is read when it arrives.
        keep: if report { 0 } else { limits::CHILD_OUTPUT },
        limit: limits::CHILD_OUTPUT as u64,
        ..Job::new(argv, folder, env)
    }
}

/// The lines of a child that reports what it does.
#[derive(Debug, Default)]
pub struct ChildLines {
    /// The line that is not complete.
    open: Vec<u8>,
    /// Its answer: the last line.
    pub answer: Vec<u8>,
}

impl ChildLines {
    /// Adds output, and passes on each complete line but the last.
    pub fn push(&mut self, bytes: &[u8], on_line: &mut dyn FnMut(&str)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.open.extend_from_slice(part);
            if !part.ends_with(b"\n") {
                return;
            }
            let line = std::mem::take(&mut self.open);
            if line.starts_with(br#"{"event":"end""#) {
                self.answer = line;
            } else {
                on_line(&String::from_utf8_lossy(&line));
            }
        }
    }
}

/// The answer of a child that ended.
#[derive(Debug)]
pub struct ChildAnswer {
    /// Its exit code, as reported.
    pub code: u64,
    /// Its error, as reported; else the reason why there is no answer.
    pub error: Option<String>,
    /// The reason why it was ended; `None` if it ended on its own.
    pub ended_by: Option<Problem>,
    /// The rest of its report; empty if there is no answer.
    pub json: Map<String, Value>,
}

impl ChildAnswer {
    /// Parses the output of a child.
    pub fn parse_output(finished: &Finished) -> Self {
        let failed = |why: &str| Some(Problem::failed(why));
        let ended_by = match finished.outcome {
            JobOutcome::Interrupted(signal) => Some(Problem::interrupted(signal)),
            JobOutcome::Killed { signal } => failed(&format!("ended by signal {signal}")),
            JobOutcome::TooMuch => failed("killed: too much output"),
            _ => None,
        };
        let Ok(mut json) = serde_json::from_slice::<Map<String, Value>>(&finished.stdout) else {
            let code = match finished.outcome {
                JobOutcome::Ended { code } if code != 0 => u64::try_from(code).unwrap_or(1),
                _ => 1,
            };
            let stderr = String::from_utf8_lossy(&finished.stderr);
            let error =
                format!("the child's answer could not be read; its stderr: {}", stderr.trim());
            return Self { code, error: Some(error), ended_by, json: Map::new() };
        };
        json.remove("event");
        let code = json.remove("exit_code").and_then(|code| code.as_u64()).unwrap_or(0);
        let error = json.remove("error").and_then(|error| error.as_str().map(str::to_owned));
        Self { code, error, ended_by, json }
    }

    /// Its problem; `None` if it succeeded, also when a signal came too late to stop it.
    pub fn problem(&self) -> Option<Problem> {
        let is_done = self.code == 0 && self.error.is_none();
        let is_too_late = |problem: &Problem| is_done && matches!(problem.exit, Exit::Signal(_));
        if let Some(problem) = self.ended_by.clone().filter(|problem| !is_too_late(problem)) {
            return Some(problem);
        }
        let exit = Exit::from_code(self.code).filter(|exit| *exit != Exit::Done);
        let error = self.error.clone().unwrap_or_default();
        (!is_done).then(|| Problem::new(exit.unwrap_or(Exit::Failed), error))
    }

    /// The model's answers.
    pub fn responses(&self) -> impl Iterator<Item = &str> {
        let responses = self.json.get("responses").and_then(Value::as_array);
        responses.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The name of its conversation.
    pub fn conversation(&self) -> Option<&str> {
        self.json.get("conversation_path")?.as_str()?.rsplit('/').next()
    }

    /// Its cost in US dollars, if it is known.
    pub fn cost(&self) -> Option<f64> {
        self.json.get("cost")?.as_f64()
    }

    /// The turns that it and its own children took.
    pub fn turns(&self) -> u64 {
        self.count("recursive_turn_count")
    }

    /// The tokens that it and its own children used.
    pub fn usage(&self) -> Usage {
        Usage {
            input: self.count("recursive_input_tokens"),
            cached: self.count("recursive_cache_read_tokens"),
            cache_written: self.count("recursive_cache_write_tokens"),
            output: self.count("recursive_output_tokens"),
            reasoning: self.count("reasoning_tokens"),
            estimated: self.json.get("estimated") == Some(&true.into()),
        }
    }

    fn count(&self, key: &str) -> u64 {
        self.json.get(key).and_then(Value::as_u64).unwrap_or(0)
    }
}
