//! Gives several files the same prompt: each in its own conversation, side by side.
//!
//! Each file is worked on by a nagent of its own; its JSON becomes one of `files`. What needs no model (undo, history) is done
//! by the caller, one file after the other, and reported here.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::call::Call;
use super::child_flags::child_flags;
use super::{change_report, file_conversation, prompt_input, run};
use crate::diff::file_diff::DiffText;
use crate::drive::nagent_child::{ChildAnswer, child_job};
use crate::exit::{Exit, Signal};
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::sys::clock::Stopwatch;
use crate::sys::file_stamp::FileStamp;
use crate::sys::names::shown;
use crate::sys::process::Jobs;
use crate::sys::process::job::{Finished, Job, JobId};
use crate::sys::{env, terminal};

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

/// A file and its report.
struct Slot {
    /// As it was named.
    file: PathBuf,
    job: Option<JobId>,
    report: Option<Report>,
}

/// Gives all files the same prompt, at most `jobs` of them at the same time.
pub fn edit_all(call: &Call<'_>, files: Vec<PathBuf>, usage: &str) -> Result<Report, Problem> {
    let args = call.args;
    refuse_single_file_flags(call)?;
    let watch = Stopwatch::start();
    let prompt = prompt_input::read_prompt(args, args.clear, &call.interrupts)?;
    if prompt.is_none() && args.read.is_empty() && !args.clear {
        return Err(Problem::usage(usage));
    }
    call.root().prepare()?;
    let folder = call.folder()?;
    // Checked here, since the children append to one recording side by side.
    if let Some(path) = &args.record {
        run::check_recording(&folder.join(path), &call.env)?;
    }
    let slots = files.into_iter().map(|file| Slot { file, job: None, report: None });
    let mut work = Work {
        call,
        prompt,
        folder,
        jobs: Jobs::new(),
        slots: slots.collect(),
        is_shown: !call.quiet && terminal::stderr_is_terminal(),
    };
    work.run_all();
    prompt_input::report_unread(call);
    let report = sum_up(join_reports(call, work.slots, call.interrupts.pending()));
    Ok(report.with("seconds", (watch.elapsed().as_secs_f64() * 1000.0).round() / 1000.0))
}

/// Reports what was done to each file without a model.
pub fn report_all(call: &Call<'_>, reports: Vec<(PathBuf, Report)>) -> Report {
    let slots =
        reports.into_iter().map(|(file, report)| Slot { file, job: None, report: Some(report) });
    join_reports(call, slots.collect(), None)
}

fn refuse_single_file_flags(call: &Call<'_>) -> Result<(), Problem> {
    if call.args.check.is_some() {
        return Err(Problem::usage(
            "--check works with one --file: the command would see the other files half done, and one file's failure would be \
             blamed on another; give one --file, or run the command afterwards",
        ));
    }
    if call.args.show_request {
        return Err(Problem::usage("--show-request shows one request; give one --file"));
    }
    Ok(())
}

/// The files without those that are the same file under another name. A wrong name is refused before a model is asked.
pub fn distinct_files(call: &Call<'_>, files: &[PathBuf]) -> Result<Vec<PathBuf>, Problem> {
    let mut distinct: Vec<(PathBuf, PathBuf)> = Vec::new();
    for file in files {
        let path = file_conversation::resolve_target(call, file)?;
        let stamp = FileStamp::of(&path);
        let is_same = |known: &Path| {
            let known_stamp = FileStamp::of(known);
            known == path
                || stamp.as_ref().zip(known_stamp.as_ref()).is_some_and(|(a, b)| a.same_file(b))
        };
        if let Some((first, _)) = distinct.iter().find(|(_, known)| is_same(known)) {
            let (file, first) = (shown(file), shown(first));
            call.print_note(&format!("{file} is the same file as {first}; it is edited once"));
        } else {
            distinct.push((file.clone(), path));
        }
    }
    Ok(distinct.into_iter().map(|(file, _)| file).collect())
}

/// The children and what they are given.
struct Work<'a> {
    call: &'a Call<'a>,
    prompt: Option<Vec<u8>>,
    folder: PathBuf,
    jobs: Jobs,
    slots: Vec<Slot>,
    is_shown: bool,
}

impl Work<'_> {
    /// Runs all of them, a limited number at the same time.
    fn run_all(&mut self) {
        let limit = usize::try_from(self.call.settings.jobs.value).unwrap_or(1).max(1);
        let interrupts = &self.call.interrupts;
        let mut waiting: VecDeque<usize> = (0..self.slots.len()).collect();
        loop {
            while self.jobs.running() < limit && interrupts.pending().is_none() {
                let Some(at) = waiting.pop_front() else { break };
                self.start(at);
            }
            let Some(finished) = self.jobs.next_finished(interrupts) else {
                if waiting.is_empty() || interrupts.pending().is_some() {
                    break;
                }
                continue;
            };
            self.record_end(&finished);
        }
        if let Some(signal) = interrupts.pending() {
            for slot in self.slots.iter_mut().filter(|slot| slot.report.is_none()) {
                let message = format!("not started: interrupted by {}", signal.name());
                slot.report = Some(Report::failed(Exit::Signal(signal), message));
            }
        }
    }

    fn start(&mut self, at: usize) {
        match self.jobs.start(self.build_job(at)) {
            Ok(id) => {
                self.slots[at].job = Some(id);
                self.print_progress(at, "started");
            }
            Err(error) => {
                self.slots[at].report = Some(Report::failed(Exit::Failed, error.to_string()));
            }
        }
    }

    fn print_progress(&self, at: usize, what: &str) {
        if self.is_shown {
            out::line(&format!("→ {}  {what}", shown(&self.slots[at].file)));
        }
    }

    fn build_job(&self, at: usize) -> Job {
        let (call, file) = (self.call, &self.slots[at].file);
        let (flags, env) = (call.args, &call.env);
        let model = call.settings.model.as_ref().map(|model| model.value.as_str());
        let mut argv = vec![env.tool("nagent").into_os_string()];
        argv.extend(child_flags(call, model));
        let mut target = OsString::from("--file-edit=");
        target.push(file);
        argv.push(target);
        argv.push("--quiet".into());
        argv.extend(flags.read.iter().map(|path| format!("--read={path}").into()));
        argv.extend(flags.limits.words().map(OsString::from));
        argv.push(format!("--lock-timeout={}", call.settings.lock_timeout.value).into());
        argv.extend(flags.clear.then(|| "--clear".into()));
        let lineage = format!("{}.{}", env.get(env::LINEAGE).unwrap_or("0"), at + 1);
        let env = env.for_children(&[(env::LINEAGE, lineage)]);
        child_job(argv, self.prompt.clone(), self.folder.clone(), env)
    }

    /// Takes the answer of a child that ended.
    fn record_end(&mut self, finished: &Finished) {
        let Some(at) = self.slots.iter().position(|slot| slot.job == Some(finished.id)) else {
            return;
        };
        let report = report_child(ChildAnswer::read(finished));
        let name = shown(&self.slots[at].file);
        // The error comes with the report; every other line must not be missed.
        let own_error = report.error.as_ref().map(|error| format!("nagent: {error}"));
        let said = String::from_utf8_lossy(&finished.stderr);
        let lines = said.lines().filter(|line| Some(*line) != own_error.as_deref());
        for line in lines {
            out::line(&format!("{name}: {line}"));
        }
        if let Some(error) = &report.error {
            out::line(&format!("{}: {name}: {error}", self.call.tool));
        }
        if self.is_shown {
            let seconds = finished.took.as_secs_f64();
            let code = report.exit.code();
            let end = if code == 0 { "done".to_owned() } else { format!("exit {code}") };
            self.print_progress(at, &format!("{end}, {seconds:.1} s"));
            if let Some(diff) = diff_of(&report.json) {
                let path = report.json.get("source_path").and_then(Value::as_str);
                let path = path.map_or_else(|| self.slots[at].file.clone(), PathBuf::from);
                let before = report.json.get("before_sha256").and_then(Value::as_str);
                let outputs = self.call.root().outputs();
                let before = before.map(|hash| outputs.join(format!("{hash}.txt")));
                change_report::print_diff(&path, before.as_deref(), &diff);
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

/// A child's report, from its answer.
fn report_child(answer: ChildAnswer) -> Report {
    let problem = answer.problem();
    let texts: Vec<&str> = answer.responses().map(|text| text.trim_end_matches('\n')).collect();
    let mut text = texts.join("\n");
    let json = answer.json;
    if text.is_empty() && !json.contains_key("responses") {
        for (key, label) in [("archived_path", "archived"), ("conversation_path", "conversation")] {
            if let Some(path) = json.get(key).and_then(Value::as_str) {
                text.push_str(&format!("{label}:{path}\n"));
            }
        }
    }
    let exit = problem.as_ref().map_or(Exit::Done, |problem| problem.exit);
    Report { exit, json, error: problem.map(|problem| problem.message), ..Report::done(text) }
}

/// Makes one report of all: the answers under the names of the files, and one object for each file.
fn join_reports(call: &Call<'_>, slots: Vec<Slot>, signal: Option<Signal>) -> Report {
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
                out::line(&format!("{}: {}: {error}", call.tool, shown(&slot.file)));
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
    let report = Report { exit, error, ..Report::done(text) };
    report.with("files", objects.into_iter().map(Value::Object).collect::<Vec<_>>())
}

/// Adds the sums over all files.
fn sum_up(mut report: Report) -> Report {
    let files = report.json.remove("files").unwrap_or_default();
    let objects: Vec<&Value> = files.as_array().into_iter().flatten().collect();
    for key in SUMS {
        let counts = objects.iter().filter_map(|object| object.get(key)?.as_u64());
        report = report.with(key, counts.fold(0, u64::saturating_add));
    }
    let costs: Vec<f64> =
        objects.iter().filter_map(|object| object.get("cost")?.as_f64()).collect();
    let cost = if costs.is_empty() { Value::Null } else { costs.iter().sum::<f64>().into() };
    let is_estimated =
        objects.iter().any(|object| object.get("estimated") == Some(&Value::Bool(true)));
    report.with("cost", cost).with("estimated", is_estimated).with("files", files)
}
