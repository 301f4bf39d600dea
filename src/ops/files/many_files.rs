//! Gives several files the same prompt: each in its own conversation, side by side.
//!
//! Each file is worked on by a nagent of its own; its JSON becomes one of `files`. Work that needs no model (undo,
//! history) is done by the caller, one file after the other, and reported here.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::file_conversation;
use crate::drive::ProgressEvent;
use crate::drive::nagent_child::{ChildAnswer, SUMS, child_job};
use crate::ops::batch::child_flags::{nagent_words, part_args};
use crate::ops::batch::side_by_side::{Batch, run_batch};
use crate::ops::run::call::Call;
use crate::ops::run::{prompt_input, run_models};
use crate::ops::screen::change_report;
use crate::ops::screen::progress::Progress;
use crate::ops::setup::flags::RunArgs;
use crate::out::{self, Report};
use crate::view::event::RunEvent;
use conversation::approve::Approve;
use conversation::exit::{Exit, Signal};
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use edits::diff::file_diff::DiffText;
use sys::clock::Stopwatch;
use sys::file_stamp::FileStamp;
use sys::input::is_stream;
use sys::process::job::{Finished, Job};
use sys::{env, fs};

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
    let folder = call.env.current_folder()?;
    // Checked here, since the children append to one recording side by side.
    if let Some(path) = &args.record {
        run_models::check_recording(&folder.join(path), &call.env)?;
    }
    let mut progress = Progress::new(call);
    let is_shown = progress.shows_events();
    let work = FileBatch { call, prompt, folder, is_shown, is_followed: is_shown && !args.clear };
    let reports = work.run_all(&files, &mut progress);
    prompt_input::report_unread(call);
    let files = files.into_iter().zip(reports).collect();
    let report = add_totals(join_reports(files, call.interrupts.pending()));
    Ok(report.with("seconds", (watch.elapsed().as_secs_f64() * 1000.0).round() / 1000.0))
}

/// Reports the work on each file that needed no model.
pub fn report_all(call: &Call<'_>, reports: Vec<(PathBuf, Report)>) -> Report {
    for (file, report) in &reports {
        print_error(call, file, report);
    }
    join_reports(reports, None)
}

fn print_error(call: &Call<'_>, file: &Path, report: &Report) {
    if let Some(error) = &report.error {
        out::print_line(&format!("{}: {}: {error}", call.tool, quote_name(file)));
    }
}

fn refuse_single_file_flags(call: &Call<'_>) -> Result<(), Problem> {
    if call.args.check.is_some() {
        return Err(Problem::usage(
            "--check works with one --file: the command would see the other files half done, and one file's failure would be \
             blamed on another; give one --file, or run the command afterwards",
        ));
    }
    if call.args.read.iter().any(|path| is_stream(path)) {
        return Err(Problem::usage(
            "--read of a stream works with one --file: it can be read once; save it first",
        ));
    }
    if call.settings.config.approve != Approve::None {
        return Err(Problem::usage(
            "--approve works with one file: several are changed side by side, and you are asked about one action at a time; \
             name one, or use --approve none",
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
        let stamp = FileStamp::of_path(&path);
        let is_same = |known: &Path| {
            let known_stamp = FileStamp::of_path(known);
            known == path
                || stamp.as_ref().zip(known_stamp.as_ref()).is_some_and(|(a, b)| a.same_file(b))
        };
        if let Some((first, _)) = distinct.iter().find(|(_, known)| is_same(known)) {
            let (file, first) = (quote_name(file), quote_name(first));
            call.print_note(&format!("{file} is the same file as {first}; it is edited once"));
        } else {
            distinct.push((file.clone(), path));
        }
    }
    Ok(distinct.into_iter().map(|(file, _)| file).collect())
}

struct FileBatch<'a> {
    call: &'a Call<'a>,
    prompt: Option<Vec<u8>>,
    folder: PathBuf,
    is_shown: bool,
    /// Whether the children report what they do. Not with `--clear`, which they do without a run too.
    is_followed: bool,
}

/// The files that are worked on.
struct FileSet<'a, 'p> {
    work: &'a FileBatch<'a>,
    named: &'a [PathBuf],
    /// The last diff that was shown of each.
    shown_diffs: Vec<Option<String>>,
    reports: Vec<Option<Report>>,
    next: usize,
    progress: &'a mut Progress<'p>,
}

impl Batch for FileSet<'_, '_> {
    fn next_job(&mut self) -> Option<(usize, Job)> {
        let at = self.next;
        self.next += 1;
        Some((at, self.work.build_job(self.named.get(at)?, at)))
    }

    fn is_followed(&self) -> bool {
        self.work.is_followed
    }

    fn on_line(&mut self, at: usize, line: &str) {
        if let Some((_, RunEvent::Finish(finish))) = RunEvent::from_line(line) {
            self.shown_diffs[at] = finish.diff.or(self.shown_diffs[at].take());
        }
        let name = &quote_name(&self.named[at]);
        self.progress.show_event(ProgressEvent::Child { name, line });
    }

    fn on_end(&mut self, at: usize, ended: Result<Finished, String>) {
        let (work, file) = (self.work, &self.named[at]);
        let finished = match ended {
            Ok(finished) => finished,
            Err(error) => {
                let report = Report::failed(Exit::Failed, error);
                print_error(work.call, file, &report);
                self.reports[at] = Some(report);
                return;
            }
        };
        self.progress.spinner.print_above(|| {
            let report = work.report_end(file, &finished);
            let shown_diff = &self.shown_diffs[at];
            let diff =
                find_diff(&report.json).filter(|diff| *shown_diff != Some(diff.text.clone()));
            if let Some(diff) = diff.filter(|_| work.is_shown) {
                work.print_change(file, &report, &diff);
            }
            self.reports[at] = Some(report);
        });
    }
}

impl FileBatch<'_> {
    /// Edits all files, a limited number at the same time. After a signal no more are started.
    fn run_all(&self, files: &[PathBuf], progress: &mut Progress<'_>) -> Vec<Report> {
        let (call, interrupts) = (self.call, &self.call.interrupts);
        progress.spinner.start("files");
        let (reports, shown_diffs) = (vec![None; files.len()], vec![None; files.len()]);
        let mut batch =
            FileSet { work: self, named: files, shown_diffs, reports, next: 0, progress };
        run_batch(&mut batch, call.settings.config.jobs, interrupts);
        batch.progress.spinner.stop();
        let reports = batch.reports.into_iter().zip(files).map(|(report, file)| {
            report.unwrap_or_else(|| {
                let signal = interrupts.pending().unwrap_or(Signal::Int);
                let message = format!("not started: interrupted by {}", signal.name());
                let report = Report::failed(Exit::Signal(signal), message);
                print_error(call, file, &report);
                report
            })
        });
        reports.collect()
    }

    fn build_job(&self, file: &Path, at: usize) -> Job {
        let (call, env) = (self.call, &self.call.env);
        // --verbose and --quiet exclude each other.
        let quiet = !self.is_followed && !call.args.verbose;
        let args = RunArgs { quiet, clear: call.args.clear, ..part_args(call) };
        let words = nagent_words(call, &args, "file-edit", file);
        let lineage = format!("{}.{}", env.get(env::LINEAGE).unwrap_or("0"), at + 1);
        let env = env.for_children(&[(env::LINEAGE, lineage)]);
        child_job(words, self.prompt.clone(), self.folder.clone(), env, self.is_followed)
    }

    /// Takes the answer of a child that ended, and prints what it printed to stderr.
    fn report_end(&self, file: &Path, finished: &Finished) -> Report {
        let report = report_child(ChildAnswer::parse_output(finished));
        // The report has the error; every other line must not be missed.
        let own_error = report.error.as_ref().map(|error| format!("nagent: {error}"));
        let printed = String::from_utf8_lossy(&finished.stderr);
        for line in printed.lines().filter(|line| Some(*line) != own_error.as_deref()) {
            out::print_line(&format!("{}: {line}", quote_name(file)));
        }
        if self.is_shown {
            let seconds = finished.took.as_secs_f64();
            let end = match report.exit.code() {
                0 => "done".to_owned(),
                code => format!("exit {code}"),
            };
            out::print_line(&format!("{}: {end}, {seconds:.1} s", quote_name(file)));
        }
        print_error(self.call, file, &report);
        report
    }

    /// Prints the changes of a run to its file, if they were not shown before, for example those of a command.
    fn print_change(&self, file: &Path, report: &Report, diff: &DiffText) {
        let path = report.json.get("source_path").and_then(Value::as_str);
        let before = report.json.get("before_sha256").and_then(Value::as_str);
        let outputs = self.call.root().outputs_folder();
        let before = before.map(|hash| fs::output_path(&outputs, hash));
        change_report::print_diff(path.map_or(file, Path::new), before.as_deref(), diff);
    }
}

fn find_diff(json: &Map<String, Value>) -> Option<DiffText> {
    let text = json.get("diff")?.as_str()?.to_owned();
    let is_cut = json.get("diff_cut").and_then(Value::as_bool).unwrap_or(false);
    Some(DiffText { text, is_cut })
}

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
    Report { exit, json, error: problem.map(|problem| problem.to_string()), ..Report::done(text) }
}

/// Makes one report of all: the answers under the names of the files, and one object for each file.
fn join_reports(reports: Vec<(PathBuf, Report)>, signal: Option<Signal>) -> Report {
    let (mut text, mut objects, mut failed) = (String::new(), Vec::new(), Vec::new());
    let mut exit = Exit::Done;
    for (file, report) in reports {
        if !report.text.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n" };
            let end = if report.text.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("{gap}==> {} <==\n{}{end}", quote_name(&file), report.text));
        }
        if report.exit != Exit::Done {
            exit = if exit == Exit::Done { report.exit } else { exit };
            failed.push(quote_name(&file));
        }
        let mut object = Map::new();
        object.insert("file".to_owned(), file.display().to_string().into());
        object.insert("exit_code".to_owned(), report.exit.code().into());
        if let Some(error) = report.error {
            object.insert("error".to_owned(), error.into());
        }
        // A history has a `file` of its own; here it is the one that was named.
        for (key, value) in report.json {
            object.entry(key).or_insert(value);
        }
        objects.push(Value::Object(object));
    }
    let error = signal.map(|signal| format!("interrupted by {}", signal.name())).or_else(|| {
        let (count, all, which) = (failed.len(), objects.len(), failed.join(", "));
        (count > 0).then(|| format!("{count} of {all} files failed: {which}"))
    });
    let exit = signal.map_or(exit, Exit::Signal);
    Report { exit, error, ..Report::done(text) }.with("files", objects)
}

fn add_totals(mut report: Report) -> Report {
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
