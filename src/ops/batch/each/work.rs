//! Runs the inputs of a `nagent-each`: which is next, how it is run, and when its result is printed.

use std::collections::{BTreeMap, HashMap};
use std::io;

use serde_json::Value;

use super::args::EachArgs;
use super::inputs::{EachInput, Input, expand, short_hash};
use super::record::Record;
use super::result_line::{ResultLine, result_of};
use crate::drive::nagent_child::{ChildAnswer, child_job};
use crate::ops::batch::child_flags::{nagent_words, part_args};
use crate::ops::batch::side_by_side::Batch;
use crate::ops::run::call::Call;
use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::flags::RunArgs;
use crate::out::{self, Report};
use conversation::exit::{Exit, Signal};
use conversation::format::numbers::format_count;
use conversation::problem::Problem;
use sys::process::job::{Finished, Job};
use sys::{env, terminal};

/// The inputs and their results.
pub(super) struct EachBatch<'a> {
    call: &'a Call<'a>,
    args: &'a EachArgs,
    prompt: &'a str,
    /// The inputs of this call, in their order.
    items: Vec<EachInput>,
    /// The places of each input in `items`, by its hash: the same input may come twice.
    places: HashMap<String, Vec<usize>>,
    record: Record,
    /// Identifies this call, for the names of conversations.
    run: String,
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
    /// The number of inputs that ended in this call, the cost before, and the limit that keeps the rest from starting.
    ended: u64,
    spent_before: f64,
    limit: Option<Problem>,
    /// The error that stops the work: the journal cannot be written.
    trouble: Option<Problem>,
    /// The error of a result that could not be printed.
    unwritten: Option<io::Error>,
    pub(super) spinner: Spinner,
}

impl<'a> EachBatch<'a> {
    pub(super) fn new(
        call: &'a Call<'a>,
        args: &'a EachArgs,
        prompt: &'a str,
        items: Vec<EachInput>,
        record: Record,
    ) -> Self {
        let spent_before = record.spent;
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, item) in items.iter().enumerate() {
            places.entry(item.id.clone()).or_default().push(at);
        }
        Self {
            call,
            args,
            prompt,
            items,
            places,
            record,
            run: uuid::Uuid::new_v4().simple().to_string(),
            next: 0,
            next_printed: 0,
            ready: BTreeMap::new(),
            printed: Vec::new(),
            failures: 0,
            first_failure: None,
            ended: 0,
            spent_before,
            limit: None,
            trouble: None,
            unwritten: None,
            spinner: Spinner::new(call.shows_progress),
        }
    }

    /// Prints the answers that the journal has from the first input on.
    pub(super) fn print_known(&mut self) {
        let known = self.items.iter().filter(|item| self.record.answer(item).is_some()).count();
        if known > 0 {
            let all = self.items.len();
            self.call.print_note(&format!(
                "{known} of {} already done",
                format_count(all as u64, "input")
            ));
        }
        for at in 0..self.items.len() {
            if let Some(answer) = self.record.answer(&self.items[at]) {
                self.ready.insert(at, answer.clone());
            }
        }
        self.print_ready(false);
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
            if self.call.args.json {
                self.printed.push(Value::Object(self.items[at].with_result(result)));
                continue;
            }
            let text = self.items[at].to_line(result);
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
        self.spinner.show_progress(done, Some(all), Some("inputs"));
        let filled = usize::try_from(10 * done / all.max(1)).unwrap_or(0);
        let mut note = format!(", [{}{}]", "#".repeat(filled), "-".repeat(10 - filled));
        let spent = self.record.spent - self.spent_before;
        if spent > 0.0 && self.ended > 0 {
            let left = spent / self.ended as f64 * (all - done) as f64;
            note.push_str(&format!(" ${:.4}, about ${left:.2} more", self.record.spent));
        }
        self.spinner.set_note(note);
        if self.call.args.progress && self.ended > 0 && !terminal::stderr_is_terminal() {
            let cost = self.record.spent;
            out::print_line(&format!(
                "{}: {done} of {}, ${cost:.4}",
                self.call.tool,
                format_count(all, "input")
            ));
        }
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
            // Named like those of --new, so that prune removes them.
            let id = short_hash(&[self.run.as_bytes(), item.id.as_bytes()]);
            nagent_words(call, &part, "conversation", format!("new-{id}"))
        };
        let lineage = call.env.get(env::LINEAGE).unwrap_or("0");
        let lineage = format!("{lineage}.{}", item.index + 1);
        let env = call.env.for_children(&[(env::LINEAGE, lineage)]);
        let folder = call.env.folder.clone().unwrap_or_default();
        Ok(child_job(words, Some(prompt.text), folder, env, false))
    }

    /// Records a result, and prints the results that are ready.
    fn take_result(&mut self, at: usize, result: ResultLine) -> Result<(), Problem> {
        let exit = result.get("exit_code").and_then(Value::as_u64).unwrap_or(1);
        self.ended += 1;
        if exit != 0 {
            let exit = Exit::from_code(exit).unwrap_or(Exit::Failed);
            self.failures += 1;
            if self.first_failure.is_none_or(|(first, _)| at < first) {
                self.first_failure = Some((at, exit));
            }
            if let Some(error) = result.get("error").and_then(Value::as_str) {
                let line =
                    format!("{}: input {}: {error}", self.call.tool, self.items[at].index + 1);
                self.spinner.print_above(|| out::print_line(&line));
            }
        }
        let item = &self.items[at];
        self.record.finish(&item.key, result.clone())?;
        for place in self.places.get(&item.id).into_iter().flatten() {
            self.ready.insert(*place, result.clone());
        }
        self.print_ready(false);
        self.show_progress();
        Ok(())
    }

    /// Reports the end: the remaining inputs and the exit code.
    pub(super) fn finish(mut self) -> Result<Report, Problem> {
        self.print_ready(true);
        let left = self.items.len() as u64 - self.count_done();
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
        let signal = self.call.interrupts.pending();
        let (exit, error) = match (signal, &self.limit, self.first_failure) {
            (Some(signal), ..) => {
                let error = format!(
                    "interrupted by {}: {} left; {again}",
                    signal.name(),
                    format_count(left, "input")
                );
                (Exit::Signal(signal), Some(error))
            }
            (None, Some(Problem { exit, message, .. }), _) => {
                let error = format!("{message}: {} left; {again}", format_count(left, "input"));
                (*exit, Some(error))
            }
            (None, None, Some((_, exit))) => {
                let (failures, all) = (self.failures, self.items.len());
                (
                    exit,
                    Some(format!(
                        "{failures} of {} failed; run the same command with --resume to ask again",
                        format_count(all as u64, "input")
                    )),
                )
            }
            (None, None, None) => (Exit::Done, None),
        };
        let report = Report { exit, error, ..Report::done("") };
        Ok(report
            .with("results", self.printed)
            .with("failed", self.failures)
            .with("left", left)
            .with("cost", self.record.spent))
    }

    fn count_done(&self) -> u64 {
        let is_done = |item: &&EachInput| self.record.results.contains_key(&item.key);
        self.items.iter().filter(is_done).count() as u64
    }
}

impl Batch for EachBatch<'_> {
    fn next_job(&mut self) -> Option<(usize, Job)> {
        while self.trouble.is_none() && self.next < self.items.len() {
            let at = self.next;
            let item = &self.items[at];
            if self.record.answer(item).is_some()
                || item
                    .same_as
                    .is_some_and(|first| self.items.iter().any(|other| other.index == first))
            {
                self.next += 1;
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

    fn on_end(&mut self, at: usize, ended: Result<Finished, String>) {
        let trouble = self.take_end(at, ended).err();
        // The first one counts.
        self.trouble = self.trouble.take().or(trouble);
    }
}

impl EachBatch<'_> {
    /// Records how an input's job ended.
    fn take_end(&mut self, at: usize, ended: Result<Finished, String>) -> Result<(), Problem> {
        let finished = match ended {
            Ok(finished) => finished,
            Err(error) => {
                return self.take_result(at, result_of(Exit::Failed, Some(error), "", ""));
            }
        };
        let answer = ChildAnswer::parse_output(&finished);
        let problem = answer.problem();
        let is_stopped = problem.as_ref().is_some_and(|it| matches!(it.exit, Exit::Signal(_)));
        if is_stopped && self.call.interrupts.pending().is_some() {
            // Without a result it is asked about again.
            return Ok(());
        }
        let texts: Vec<&str> = answer.responses().map(|text| text.trim_end_matches('\n')).collect();
        let exit = problem.as_ref().map_or(Exit::Done, |problem| problem.exit);
        let conversation = answer.conversation().unwrap_or_default().to_owned();
        let error = problem.map(|problem| problem.to_string());
        let mut result = result_of(exit, error, &texts.join("\n"), &conversation);
        let kept = [
            "data",
            "code",
            "changed",
            "diff",
            "turn_count",
            "tokens_in",
            "tokens_out",
            "cost",
            "seconds",
        ];
        result.extend(
            kept.into_iter()
                .filter_map(|key| Some((key.to_owned(), answer.json.get(key)?.clone()))),
        );
        self.take_result(at, result)
    }
}
