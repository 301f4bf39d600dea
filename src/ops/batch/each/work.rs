//! Runs the inputs of a `nagent-each`: which is next, how it is run, and when its result is printed.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Map, Value, json};

use super::inputs::{EachArgs, EachInput, Input, expand};
use super::record::{Record, ResultLine};
use crate::drive::nagent_child::{ChildAnswer, child_job};
use crate::ops::batch::child_flags::{nagent_words, part_args};
use crate::ops::conversations::conversation_name::new_name;
use crate::ops::run::call::Call;
use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::flags::RunArgs;
use crate::out::{self, Report};
use conversation::exit::{Exit, Signal};
use conversation::format::numbers::format_count;
use conversation::problem::Problem;
use sys::clock::Stopwatch;
use sys::process::Jobs;
use sys::process::job::{Finished, Job, JobId};
use sys::{env, terminal};

/// The keys of a run's report that a result has, too.
const REPORTED: [&str; 9] =
    ["data", "code", "changed", "diff", "turn_count", "tokens_in", "tokens_out", "cost", "seconds"];

/// The inputs and their results.
pub(super) struct EachBatch<'a> {
    call: &'a Call<'a>,
    args: &'a EachArgs,
    prompt: &'a str,
    /// The inputs of this call, in their order.
    items: Vec<EachInput>,
    record: Record,
    /// The next one to begin, and to print, by their places in `items`.
    next: usize,
    next_printed: usize,
    /// Results that wait for those before them, by their places.
    ready: BTreeMap<usize, ResultLine>,
    /// The output of `--json`.
    printed: Vec<Value>,
    /// The number of failures in this call, and the first of them in the order of inputs.
    failures: u64,
    first_failure: Option<(usize, Exit)>,
    /// The limit that keeps the rest from starting.
    limit: Option<Problem>,
    /// The error that stops the work: the journal cannot be written.
    trouble: Option<Problem>,
    /// The error of a result that could not be printed.
    unwritten: Option<io::Error>,
    pub(super) spinner: Spinner,
    watch: Stopwatch,
}

impl<'a> EachBatch<'a> {
    pub(super) fn new(
        call: &'a Call<'a>,
        args: &'a EachArgs,
        prompt: &'a str,
        items: Vec<EachInput>,
        record: Record,
    ) -> Self {
        Self {
            call,
            args,
            prompt,
            items,
            record,
            next: 0,
            next_printed: 0,
            ready: BTreeMap::new(),
            printed: Vec::new(),
            failures: 0,
            first_failure: None,
            limit: None,
            trouble: None,
            unwritten: None,
            spinner: Spinner::new(call.shows_progress),
            watch: Stopwatch::start(),
        }
    }

    /// Notes how many inputs have an answer in the journal.
    pub(super) fn note_known(&self) {
        let known = self.items.iter().filter(|item| self.record.answer(item).is_some()).count();
        if known > 0 {
            let all = format_count(self.items.len() as u64, "input");
            self.call.print_note(&format!("{known} of {all} already done"));
        }
    }

    /// Prints the results that do not wait for an earlier input; at the end, all of them.
    fn print_ready(&mut self, is_end: bool) {
        if self.unwritten.is_some() {
            return;
        }
        while let Some((&at, _)) = self.ready.first_key_value() {
            if at != self.next_printed && !is_end {
                return;
            }
            let Some(result) = self.ready.remove(&at) else { return };
            self.next_printed = at + 1;
            let EachInput { index, input, .. } = &self.items[at];
            let mut line = Map::from_iter([
                ("index".to_owned(), json!(index)),
                ("input".to_owned(), input.to_value()),
            ]);
            line.extend(result);
            if self.call.args.json {
                self.printed.push(Value::Object(line));
                continue;
            }
            let text = Value::Object(line).to_string();
            let mut written = Ok(());
            self.spinner.print_above(|| written = out::print_json_text(text));
            if let Err(error) = written {
                self.unwritten = Some(error);
                self.call.interrupts.raise(Signal::Hup);
                return;
            }
        }
    }

    pub(super) fn show_progress(&self) {
        let all = self.items.len() as u64;
        let done = (self.next_printed + self.ready.len()) as u64;
        let done = format!("{done} of {}{}", format_count(all, "input"), self.describe_cost());
        self.spinner.set_note(format!(", {done}"));
        if self.call.args.progress && !terminal::stderr_is_terminal() {
            out::print_line(&format!("{}: {done}", self.call.tool));
        }
    }

    /// The cost, as far as it is known.
    fn describe_cost(&self) -> String {
        let spent = self.record.spent;
        if spent > 0.0 { format!(", ${spent:.4}") } else { String::new() }
    }

    /// The limit that keeps further inputs from starting.
    fn find_limit(&self) -> Option<Problem> {
        let spent = self.record.spent;
        if let Some(most) = self.call.args.limits.max_cost.filter(|most| spent >= *most) {
            let why =
                format!("the limit of {most} dollars was reached with {spent:.4} (--max-cost)");
            return Some(Problem::new(Exit::Limit, why));
        }
        let most = self.args.max_failures.filter(|most| self.failures >= *most)?;
        let exit = self.first_failure.map_or(Exit::Failed, |(_, exit)| exit);
        Some(Problem::new(exit, format!("{} failed (--max-failures)", format_count(most, "input"))))
    }

    fn build_job(&self, at: usize) -> Result<Job, Problem> {
        let (call, args, item) = (self.call, self.call.args, &self.items[at]);
        let prompt = expand(self.prompt, &item.input).map_err(Problem::usage)?;
        let mut part = RunArgs { quiet: !args.verbose, ..part_args(call) };
        part.read.extend(prompt.read.filter(|_| !self.args.own));
        part.limits.max_cost = args.limits.max_cost.map(|most| (most - self.record.spent).max(0.0));
        (part.check, part.code) = (args.check.clone(), args.code);
        part.answer.schema.clone_from(&args.answer.schema);
        let words = if let (Input::File(path), true) = (&item.input, self.args.own) {
            nagent_words(call, &part, "file-edit", path)
        } else {
            nagent_words(call, &part, "conversation", new_name())
        };
        let lineage = call.env.get(env::LINEAGE).unwrap_or("0");
        let lineage = format!("{lineage}.{}", item.index + 1);
        let env = call.env.for_children(&[(env::LINEAGE, lineage)]);
        let folder = call.env.folder.clone().unwrap_or_default();
        Ok(child_job(words, Some(prompt.text.into_bytes()), folder, env, false))
    }

    /// Records the result of an input, and prints the results that are ready.
    fn take_end(&mut self, at: usize, ended: Result<Finished, String>) -> Result<(), Problem> {
        let answer = ended.map(|finished| ChildAnswer::parse_output(&finished));
        let problem = match &answer {
            Ok(answer) => answer.problem(),
            Err(error) => Some(Problem::failed(error)),
        };
        let exit = problem.as_ref().map_or(Exit::Done, |problem| problem.exit);
        if matches!(exit, Exit::Signal(_)) && self.call.interrupts.pending().is_some() {
            // Without a result it is asked about again.
            return Ok(());
        }
        let item = &self.items[at];
        let mut result = Map::from_iter([("exit_code".to_owned(), json!(exit.code()))]);
        if let Some(problem) = problem {
            self.failures += 1;
            if self.first_failure.is_none_or(|(first, _)| at < first) {
                self.first_failure = Some((at, exit));
            }
            let line = format!("{}: input {}: {problem}", self.call.tool, item.index + 1);
            self.spinner.print_above(|| out::print_line(&line));
            result.insert("error".to_owned(), problem.to_string().into());
        }
        let (mut text, mut conversation) = (String::new(), "");
        if let Ok(answer) = &answer {
            let texts = answer.responses().map(|text| text.trim_end_matches('\n'));
            text = texts.collect::<Vec<_>>().join("\n");
            conversation = answer.conversation().unwrap_or_default();
        }
        result.insert("response".to_owned(), text.into());
        result.insert("conversation".to_owned(), conversation.into());
        let reported =
            |key: &&str| Some(((*key).to_owned(), answer.as_ref().ok()?.json.get(*key)?.clone()));
        result.extend(REPORTED.iter().filter_map(reported));
        self.record.finish(&item.key, result.clone())?;
        self.ready.insert(at, result);
        self.print_ready(false);
        self.show_progress();
        Ok(())
    }

    /// Prints the last line, for whoever watches: `6 of 6 inputs, 1 failed, $0.0400, 4.1 s`.
    fn print_end(&self) {
        let is_watched = self.call.args.progress || terminal::stderr_is_terminal();
        if !(self.call.shows_progress && is_watched) {
            return;
        }
        let all = format_count(self.items.len() as u64, "input");
        let done = self.items.iter().filter(|item| self.record.answer(item).is_some()).count();
        let mut line = format!("[{done} of {all}");
        if self.failures > 0 {
            line.push_str(&format!(", {} failed", self.failures));
        }
        line.push_str(&self.describe_cost());
        out::print_line(&format!("{line}, {:.1} s]", self.watch.elapsed().as_secs_f64()));
    }

    /// Reports the end: the remaining inputs and the exit code.
    pub(super) fn finish(mut self) -> Result<Report, Problem> {
        self.print_ready(true);
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        let again = "run the same command with --resume to continue";
        match self.unwritten {
            // Stdout is closed: end quietly.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(Report { exit: Exit::Signal(Signal::Hup), ..Report::done("") });
            }
            Some(error) => {
                let error = format!("cannot write to stdout: {error}; {again}");
                return Err(Problem::failed(error));
            }
            None => {}
        }
        self.print_end();
        let is_left = |item: &&EachInput| !self.record.results.contains_key(&item.key);
        let left = self.items.iter().filter(is_left).count() as u64;
        let remaining = format!("{} left; {again}", format_count(left, "input"));
        let (exit, error) = match (self.call.interrupts.pending(), &self.limit, self.first_failure)
        {
            (Some(signal), ..) => {
                let error = format!("interrupted by {}: {remaining}", signal.name());
                (Exit::Signal(signal), Some(error))
            }
            (None, Some(Problem { exit, message, .. }), _) => {
                (*exit, Some(format!("{message}: {remaining}")))
            }
            (None, None, Some((_, exit))) => {
                let (failures, all) = (self.failures, self.items.len() as u64);
                let all = format_count(all, "input");
                (exit, Some(format!("{failures} of {all} failed; {again}")))
            }
            (None, None, None) => (Exit::Done, None),
        };
        let report = Report { exit, error, ..Report::done("") };
        Ok(report
            .with("results", self.printed)
            .with("failed", self.failures)
            .with("left", left)
            .with("cost", self.record.cost()))
    }

    /// Runs them all, a limited number at the same time. After a signal no more are started, and the running ones are ended.
    pub(super) fn run(&mut self) {
        let (at_once, interrupts) = (self.call.settings.config.jobs, &self.call.interrupts);
        let at_once = usize::try_from(at_once).unwrap_or(1).max(1);
        let (mut jobs, mut running): (_, Vec<(JobId, usize)>) = (Jobs::default(), Vec::new());
        loop {
            while jobs.running() < at_once && interrupts.pending().is_none() {
                let Some((number, job)) = self.next_job() else { break };
                match jobs.start(job) {
                    Ok(id) => running.push((id, number)),
                    Err(error) => self.on_end(number, Err(error.to_string())),
                }
            }
            let Some(finished) = jobs.next_finished(interrupts) else { return };
            let Some(at) = running.iter().position(|(id, _)| *id == finished.id) else { continue };
            let (_, number) = running.swap_remove(at);
            self.on_end(number, Ok(finished));
        }
    }

    /// The next one to start, with its number. `None`: all were started, or no more may be.
    fn next_job(&mut self) -> Option<(usize, Job)> {
        while self.trouble.is_none() && self.next < self.items.len() {
            let at = self.next;
            if let Some(answer) = self.record.answer(&self.items[at]) {
                self.next += 1;
                self.ready.insert(at, answer.clone());
                self.print_ready(false);
                self.show_progress();
                continue;
            }
            self.limit = self.find_limit();
            if self.limit.is_some() || self.call.interrupts.pending().is_some() {
                return None;
            }
            self.next += 1;
            match self.build_job(at) {
                Ok(job) => return Some((at, job)),
                Err(problem) => self.trouble = Some(problem),
            }
        }
        None
    }

    /// Takes the end of one, or why it was not started.
    fn on_end(&mut self, at: usize, ended: Result<Finished, String>) {
        let trouble = self.take_end(at, ended).err();
        // The first one counts.
        self.trouble = self.trouble.take().or(trouble);
    }
}
