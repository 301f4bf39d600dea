//! Several `--file` in one call: each in its own conversation, side by side, with the same prompt.
//!
//! Each file is a process of this same executable, told with `--json` and the prompt on stdin; what it says of itself
//! becomes one of `files`. What needs no model (`--undo`, `--history`) is done here, one file after the other.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{Args, Ground, USAGE, in_our_words, nagent, one, plain};
use crate::cli::Tool;
use crate::cmd::nagent::changed;
use crate::cmd::nagent::input::{self, Prompt};
use crate::diff::file_diff::DiffText;
use crate::drive::children::{ANSWER, GRACE, KEEP};
use crate::exit::{Exit, Signal};
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::sys::clock::Stopwatch;
use crate::sys::names::shown;
use crate::sys::process::Jobs;
use crate::sys::process::job::{Finished, Job, JobId, Outcome, Output, Stdin};
use crate::sys::{env, fs, terminal};

/// Keys of a run that are summed up over all files.
const SUMS: [&str; 9] = [
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

/// A file and what came of it.
struct Slot {
    /// As it was named.
    file: PathBuf,
    job: Option<JobId>,
    report: Option<Report>,
}

pub(super) fn run(args: &Args) -> Result<Report, Problem> {
    refuse(args)?;
    let ground = Ground::find(args)?;
    let files = distinct(args, &ground)?;
    if let [file] = files.as_slice() {
        return one(args, file);
    }
    if args.undo.is_some() || args.history {
        let slots = files.into_iter().map(|file| {
            let report = one(args, &file).unwrap_or_else(Report::from);
            Slot { file, job: None, report: Some(report) }
        });
        return Ok(put_together(args, slots.collect(), None));
    }
    let watch = Stopwatch::start();
    let call = plain(args);
    let may_lack_prompt = args.clear;
    let prompt =
        match input::prompt(&call, may_lack_prompt, &ground.interrupts).map_err(in_our_words)? {
            Prompt::Interrupted(signal) => return Err(interrupted(signal)),
            Prompt::None if args.read.is_empty() && !may_lack_prompt => {
                return Err(Problem::usage(USAGE));
            }
            Prompt::None => None,
            Prompt::Text(text) => Some(text),
        };
    ground.settings.root.value.prepare()?;
    let folder = ground.env.folder.clone().map_err(Problem::usage)?;
    // Asked here, since the children append to one recording side by side.
    if let Some(path) = args.record.as_ref().map(|path| folder.join(path))
        && ground.env.get(env::LINEAGE).is_none()
        && fs::file_size(&path).is_some_and(|size| size > 0)
    {
        return Err(Problem::usage(nagent::start::holds_a_recording(&path)));
    }
    let slots = files.into_iter().map(|file| Slot { file, job: None, report: None });
    let mut work = Work {
        args,
        ground: &ground,
        prompt,
        folder,
        jobs: Jobs::new(),
        slots: slots.collect(),
        is_shown: !args.quiet
            && ground.settings.config.quiet != Some(true)
            && terminal::stderr_is_terminal(),
    };
    work.go();
    input::tell_of_ignored(&call);
    let signal = ground.interrupts.pending();
    let report = put_together(args, work.slots, signal);
    Ok(report.with("seconds", (watch.elapsed().as_secs_f64() * 1000.0).round() / 1000.0))
}

fn interrupted(signal: Signal) -> Problem {
    Problem::new(
        Exit::Signal(signal),
        format!("interrupted by {} while reading stdin", signal.name()),
    )
}

/// What several files cannot have.
fn refuse(args: &Args) -> Result<(), Problem> {
    if args.check.is_some() {
        return Err(Problem::usage(
            "--check with several --file: the command would see the other files half done, and one run's failure would be \
             laid to another; give one --file, or edit without --check and run the command afterwards",
        ));
    }
    if args.show_request {
        return Err(Problem::usage("--show-request shows one request; give one --file"));
    }
    Ok(())
}

/// The files, each once: two names of one file are told and the first counts.
fn distinct(args: &Args, ground: &Ground) -> Result<Vec<PathBuf>, Problem> {
    let mut seen: Vec<(PathBuf, String)> = Vec::new();
    for file in &args.file {
        // A wrong name is refused before any model is asked.
        let path = nagent::file_edit::absolute(&ground.env, file).map_err(in_our_words)?;
        let id = fs::file_id(&path).unwrap_or_else(|| format!("path:{}", path.display()));
        if let Some((first, _)) = seen.iter().find(|(_, known)| *known == id) {
            out::line(&format!(
                "{}: note: {} is the same file as {}; it is worked on once",
                Args::NAME,
                shown(file),
                shown(first)
            ));
        } else {
            seen.push((file.clone(), id));
        }
    }
    Ok(seen.into_iter().map(|(file, _)| file).collect())
}

/// The children and what they are given.
struct Work<'a> {
    args: &'a Args,
    ground: &'a Ground,
    prompt: Option<Vec<u8>>,
    folder: PathBuf,
    jobs: Jobs,
    slots: Vec<Slot>,
    is_shown: bool,
}

impl Work<'_> {
    /// Runs all of them, so many at once.
    fn go(&mut self) {
        let jobs = self.args.jobs.and_then(|jobs| usize::try_from(jobs).ok());
        let at_once = jobs.or(self.ground.settings.config.jobs).unwrap_or(4).max(1);
        let mut waiting: VecDeque<usize> = (0..self.slots.len()).collect();
        loop {
            while self.jobs.running() < at_once && self.ground.interrupts.pending().is_none() {
                let Some(at) = waiting.pop_front() else { break };
                self.start(at);
            }
            let Some(finished) = self.jobs.next_finished(&self.ground.interrupts) else {
                if waiting.is_empty() || self.ground.interrupts.pending().is_some() {
                    break;
                }
                continue;
            };
            self.settle(&finished);
        }
        if let Some(signal) = self.ground.interrupts.pending() {
            for slot in self.slots.iter_mut().filter(|slot| slot.report.is_none()) {
                let message = format!("not started: interrupted by {}", signal.name());
                slot.report = Some(Report::failed(Exit::Signal(signal), message));
            }
        }
    }

    fn start(&mut self, at: usize) {
        let job = self.job(at);
        match self.jobs.start(job) {
            Ok(id) => {
                self.slots[at].job = Some(id);
                self.say(at, "started");
            }
            Err(error) => {
                self.slots[at].report = Some(Report::failed(Exit::Failed, error.to_string()));
            }
        }
    }

    fn say(&self, at: usize, what: &str) {
        if self.is_shown {
            out::line(&format!("→ {}  {what}", shown(&self.slots[at].file)));
        }
    }

    fn job(&self, at: usize) -> Job {
        let env = &self.ground.env;
        let program = env.tool(Args::NAME);
        let mut argv = vec![program.into_os_string()];
        argv.extend(self.flags(&self.slots[at].file));
        let lineage = format!("{}.{}", env.get(env::LINEAGE).unwrap_or("0"), at + 1);
        let mut job =
            Job::new(argv, self.folder.clone(), env.for_children(&[(env::LINEAGE, lineage)]));
        if let Some(prompt) = &self.prompt {
            job.argv.push("-".into());
            job.stdin = Stdin::Bytes(prompt.clone());
        }
        job.output = Output::Separate;
        job.grace = GRACE;
        job.keep = KEEP;
        job.spool = Some(self.ground.settings.root.value.outputs());
        job.unlinked = true;
        job
    }

    /// What a child is told, in one word each: values may begin with a dash.
    fn flags(&self, file: &Path) -> Vec<OsString> {
        let args = self.args;
        let mut words: Vec<OsString> = vec!["--json".into(), "--quiet".into()];
        let mut flag = |name: &str, value: &std::ffi::OsStr| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            words.push(word);
        };
        flag("file", file.as_os_str());
        for (name, value) in [
            ("provider", args.model.provider.as_ref()),
            ("model", args.model.model.as_ref()),
            ("base-url", args.model.base_url.as_ref()),
            ("profile", args.model.profile.as_ref()),
        ] {
            if let Some(value) = value {
                flag(name, value.as_ref());
            }
        }
        for (name, value) in [
            ("config", args.model.config.as_ref()),
            ("root", args.model.root.as_ref()),
            ("record", args.record.as_ref()),
        ] {
            if let Some(value) = value {
                flag(name, value.as_os_str());
            }
        }
        for (name, value) in [
            ("patience", args.model.patience.map(|value| value.to_string())),
            ("lock-timeout", args.lock_timeout.map(|value| value.to_string())),
        ] {
            if let Some(value) = value {
                flag(name, value.as_ref());
            }
        }
        for path in &args.read {
            flag("read", path.as_ref());
        }
        for folder in &args.write {
            flag("write", folder.as_os_str());
        }
        words.extend(args.limits.words().chain(args.sandbox.words()).map(OsString::from));
        for (name, is_set) in [
            ("--clear", args.clear),
            ("--redact", args.redact),
            ("--no-summaries", args.no_summaries),
        ] {
            words.extend(is_set.then(|| name.into()));
        }
        words
    }

    /// Takes what a child said.
    fn settle(&mut self, finished: &Finished) {
        let Some(at) = self.slots.iter().position(|slot| slot.job == Some(finished.id)) else {
            return;
        };
        let report = report(finished);
        let name = shown(&self.slots[at].file);
        // What must not go unsaid is said with the file's name; the error comes with the report.
        let said = finished.stderr.head_text();
        let error = report.error.clone().unwrap_or_default();
        let is_error = |line: &str| {
            line.strip_prefix(Args::NAME).is_some_and(|rest| rest == format!(": {error}"))
        };
        for line in said.lines().filter(|line| !is_error(line)) {
            out::line(&format!("{name}: {line}"));
        }
        if let Some(error) = &report.error {
            out::line(&format!("{}: {name}: {error}", Args::NAME));
        }
        if self.is_shown {
            let seconds = finished.took.as_secs_f64();
            let code = report.exit.code();
            let end = if code == 0 { "done".to_owned() } else { format!("exit {code}") };
            self.say(at, &format!("{end}, {seconds:.1} s"));
            if let Some(diff) = diff_of(&report.json) {
                let path = report.json.get("source_path").and_then(Value::as_str);
                let path = path.map_or_else(|| self.slots[at].file.clone(), PathBuf::from);
                let before = report.json.get("before_sha256").and_then(Value::as_str);
                let outputs = self.ground.settings.root.value.outputs();
                let before = before.map(|hash| outputs.join(format!("{hash}.txt")));
                changed::show(&path, before.as_deref(), &diff);
            }
        }
        self.slots[at].report = Some(report);
    }
}

fn diff_of(json: &Map<String, Value>) -> Option<DiffText> {
    let text = json.get("diff")?.as_str()?.to_owned();
    let is_cut = json.get("diff_cut").and_then(Value::as_bool).unwrap_or(false);
    Some(DiffText { text, is_cut, removed: None, added: None })
}

/// A child's report, from its JSON.
fn report(finished: &Finished) -> Report {
    let ended_by = match finished.outcome {
        Outcome::Interrupted(signal) => {
            Some((Exit::Signal(signal), format!("interrupted by {}", signal.name())))
        }
        Outcome::Killed { signal } => Some((Exit::Failed, format!("ended by signal {signal}"))),
        Outcome::TooMuch => Some((Exit::Failed, "ended because it wrote too much".to_owned())),
        _ => None,
    };
    let answer = finished.stdout.whole_text(ANSWER);
    let json: Option<Map<String, Value>> = answer.and_then(|text| serde_json::from_str(&text).ok());
    let Some(mut json) = json else {
        let (exit, why) = ended_by.unwrap_or_else(|| {
            let said = finished.stderr.head_text();
            (Exit::Failed, format!("it gave no answer that can be read; it said: {}", said.trim()))
        });
        return Report::failed(exit, why);
    };
    let code = json.remove("exit_code").and_then(|code| code.as_u64()).unwrap_or(1);
    let error = json.remove("error").and_then(|error| error.as_str().map(str::to_owned));
    // A child is told to end by SIGTERM, whatever this process got.
    let is_done = code == 0 && matches!(finished.outcome, Outcome::Interrupted(_));
    let (exit, error) = match ended_by {
        Some((exit, why)) if !is_done => (exit, Some(why)),
        _ => (Exit::of(code).unwrap_or(Exit::Failed), error),
    };
    let text: Vec<&str> = json
        .get("responses")
        .and_then(Value::as_array)
        .map(|texts| texts.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut text =
        text.iter().map(|text| text.trim_end_matches('\n')).collect::<Vec<_>>().join("\n");
    if text.is_empty() && !json.contains_key("responses") {
        for (key, label) in [("archived_path", "archived"), ("conversation_path", "conversation")] {
            if let Some(path) = json.get(key).and_then(Value::as_str) {
                text.push_str(&format!("{label}:{path}\n"));
            }
        }
    }
    Report { exit, json, error, ..Report::done(text) }
}

/// One report of all: answers under the files' names, one object each, sums.
fn put_together(args: &Args, slots: Vec<Slot>, signal: Option<Signal>) -> Report {
    let (mut text, mut objects, mut failed) = (String::new(), Vec::new(), Vec::new());
    let mut exit = Exit::Done;
    for slot in slots {
        let report = slot.report.unwrap_or_else(|| Report::failed(Exit::Failed, "not started"));
        if !report.text.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n" };
            let end = if report.text.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("{gap}==> {} <==\n{}{end}", shown(&slot.file), report.text));
        }
        if report.exit != Exit::Done {
            exit = if exit == Exit::Done { report.exit } else { exit };
            failed.push(shown(&slot.file));
            if let Some(error) = report.error.as_ref().filter(|_| slot.job.is_none()) {
                out::line(&format!("{}: {}: {error}", Args::NAME, shown(&slot.file)));
            }
        }
        let mut object = Map::new();
        object.insert("file".to_owned(), slot.file.display().to_string().into());
        object.insert("exit_code".to_owned(), report.exit.code().into());
        if let Some(error) = report.error {
            object.insert("error".to_owned(), error.into());
        }
        // A history has a `file` of its own; here it is the one that was named.
        for (key, value) in report.json {
            object.entry(key).or_insert(value);
        }
        objects.push(object);
    }
    let exit = signal.map_or(exit, Exit::Signal);
    let error = match (signal, failed.is_empty()) {
        (Some(signal), _) => Some(format!("interrupted by {}", signal.name())),
        (None, true) => None,
        (None, false) => {
            let which = failed.join(", ");
            Some(format!("{} of {} files failed: {which}", failed.len(), objects.len()))
        }
    };
    let mut report = Report { exit, error, ..Report::done(text) };
    if args.undo.is_none() && !args.history {
        report = sums(report, &objects);
    }
    report.with("files", objects.into_iter().map(Value::Object).collect::<Vec<_>>())
}

fn sums(mut report: Report, objects: &[Map<String, Value>]) -> Report {
    for key in SUMS {
        let sum: u64 = objects
            .iter()
            .filter_map(|object| object.get(key)?.as_u64())
            .fold(0, u64::saturating_add);
        report = report.with(key, sum);
    }
    let costs: Vec<f64> =
        objects.iter().filter_map(|object| object.get("cost")?.as_f64()).collect();
    let cost = if costs.is_empty() { Value::Null } else { costs.iter().sum::<f64>().into() };
    let is_estimated =
        objects.iter().any(|object| object.get("estimated") == Some(&Value::Bool(true)));
    report.with("cost", cost).with("estimated", is_estimated)
}
