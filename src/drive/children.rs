//! Runs child conversations: each is a nagent of its own, several side by side; only the answer comes back.
//!
//! A child uses the remaining limits of its parent.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::child_names::choose_conversation;
use super::commands::with_sandbox;
use super::inbox::describe_waiting;
use super::nagent_child::{ChildAnswer, ChildLines, child_job, flag_word};
use super::progress_event::ProgressEvent;
use super::run_context::RunContext;
use conversation::exit::Signal;
use conversation::format::file::{Block, Piece};
use conversation::format::harmless;
use conversation::limits::{self, CHILD_DEPTH, CHILDREN_PER_REPLY, CHILDREN_PER_RUN};
use conversation::protocol::Action;
use conversation::turn::event::{Acted, Event};
use conversation::turn::run_limits::{Limits, Spent};
use sys::env::{LINEAGE, PARENTS, RUN};
use sys::names::resolve_links;
use sys::process::Jobs;
use sys::process::job::{Finished, Job, JobId};
use sys::{fs, root};

/// The program, flags and place that child conversations are started with.
#[derive(Debug, Default)]
pub struct ChildSetup {
    /// This program.
    pub executable: PathBuf,
    /// Flags that every child gets: root, provider, model, config.
    pub flags: Vec<OsString>,
    /// Whether they report what they do.
    pub report: bool,
    /// How many run at once, at least one.
    pub at_once: usize,
    /// Conversations that this run was started from, the oldest first.
    pub parents: Vec<String>,
    /// This conversation.
    pub name: String,
    /// This run's place in a recording.
    pub lineage: String,
}

/// Child conversations.
#[derive(Debug, Default)]
pub struct Children {
    pub(super) setup: ChildSetup,
    started: u64,
    /// Number of conversations that the last reply has asked for so far.
    in_reply: u64,
    /// The files of the conversations that it has asked for.
    files_in_reply: Vec<PathBuf>,
    jobs: Jobs,
    /// The lines before the diff in the result that was handed out last.
    answer_lines: Option<usize>,
    /// The group that is running, in the order of its tags.
    pub(super) slots: VecDeque<Slot>,
    left: Option<Limits>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) action: Action,
    name: String,
    lineage: String,
    /// The file whose conversation it is, by its true path.
    file: Option<PathBuf>,
    job: Option<JobId>,
    lines: ChildLines,
    result: Option<Acted>,
    /// Number of lines of the result before the diff, which a child that reports has shown.
    answer_lines: Option<usize>,
}

/// The result of a child that was not started. It names no conversation, since there may not be one.
fn refused_result(why: String) -> Acted {
    Acted::without_model(Block::new(RESULT).with("status", "error").body(why))
}

impl Children {
    /// Children of which none has been started yet.
    pub fn new(setup: ChildSetup) -> Self {
        Self { setup, ..Self::default() }
    }

    /// The value of `NAGENT_PARENTS` for processes that this conversation starts: the names that lead to them.
    pub(super) fn parents_of_commands(&self) -> String {
        let names = self.setup.parents.iter().chain(std::iter::once(&self.setup.name));
        names.map(String::as_str).collect::<Vec<_>>().join("/")
    }

    /// The conversation that started this one.
    pub(super) fn parent(&self) -> Option<&str> {
        self.setup.parents.last().map(String::as_str)
    }

    pub(super) fn begin_reply(&mut self) {
        self.in_reply = 0;
        self.files_in_reply.clear();
    }

    /// The reason why no more children may be started: the limits of the run are used up.
    fn refuse_spent(&self) -> Option<String> {
        let left = self.left.as_ref()?;
        let nothing = Spent { turns: 0, seconds: 0.0, tokens: 0, cost: 0.0 };
        left.find_reached(nothing).map(|_| {
            "the limits of this run are used up: no further conversation can be started".to_owned()
        })
    }

    fn refuse(&self, slot: &Slot) -> Option<String> {
        let Slot { name, file, .. } = slot;
        let is_taken = |file: &PathBuf| {
            // Another name of the same file may be a hard link.
            let id = fs::file_id(file);
            let mut taken = self.files_in_reply.iter();
            taken.any(|other| other == file || id.is_some() && fs::file_id(other) == id)
        };
        Some(if self.in_reply > limits::CHILDREN_PER_REPLY {
            format!(
                "too many conversations: at most {CHILDREN_PER_REPLY} per reply. Wait for the first results, or do small parts \
                 yourself"
            )
        } else if self.started > limits::CHILDREN_PER_RUN {
            format!(
                "this run has started {CHILDREN_PER_RUN} conversations, the maximum; do the rest yourself"
            )
        } else if self.setup.parents.len() >= limits::CHILD_DEPTH {
            format!(
                "conversations cannot be nested deeper than {CHILD_DEPTH}; do this part yourself"
            )
        } else if *name == self.setup.name || self.setup.parents.contains(name) {
            format!("{name} is this conversation or one of its parents; use another name")
        } else if file.as_ref().is_some_and(is_taken)
            || self.slots.iter().any(|other| other.name == *name)
        {
            let why = "an earlier conversation in this reply has the same name or file; combine the two prompts, \
                       or wait for the first result";
            why.to_owned()
        } else {
            return self.refuse_spent();
        })
    }

    pub(super) fn start_group(
        &mut self,
        actions: Vec<Action>,
        left: Limits,
        pieces: &[Piece],
        context: &RunContext<'_>,
    ) -> Result<()> {
        self.left = Some(left);
        for action in actions {
            let (name, file) = match &action {
                Action::Conversation { name, file, .. } => (name.clone(), file.as_deref()),
                _ => (None, None),
            };
            let bad_name = name.as_deref().and_then(|name| root::check_name(name).err());
            let name = match name {
                Some(name) if bad_name.is_none() => {
                    choose_conversation(&context.root, &self.setup.name, &name, pieces)?
                }
                _ => format!("child-{}", uuid::Uuid::new_v4().simple()),
            };
            // It may have to be created.
            let file = file.map(|file| resolve_links(&context.resolve(file)));
            self.started += 1;
            self.in_reply += 1;
            let lineage = format!("{}.{}", self.setup.lineage, self.started);
            let (job, lines, result, answer_lines) = Default::default();
            let mut slot = Slot { action, name, lineage, file, job, lines, result, answer_lines };
            slot.result = bad_name.or_else(|| self.refuse(&slot)).map(refused_result);
            self.files_in_reply.extend(slot.file.clone());
            self.slots.push_back(slot);
        }
        Ok(())
    }

    /// Waits for the first result of the group that has not been handed out.
    pub(super) fn next_result(
        &mut self,
        context: &RunContext<'_>,
        on_progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Result<Event> {
        let interrupts = context.interrupts;
        loop {
            if let Some(signal) = interrupts.pending() {
                return self.stop_group(signal, context);
            }
            self.start_waiting(context);
            let first = self.slots.front_mut();
            let first =
                first.context("bug in nagent: it waits for a conversation that is not there")?;
            if let Some(acted) = first.result.take() {
                self.answer_lines = first.answer_lines;
                self.slots.pop_front();
                return Ok(Event::Acted(acted));
            }
            let mut on_line = |name: &str, line: &str| {
                on_progress(ProgressEvent::Child { name, line });
            };
            if let Some(finished) = self.next_finished(context, &mut on_line) {
                let id = finished.id;
                self.record_end(finished, context)?;
                // A child that reports its events has already reported this.
                let ended =
                    self.slots.iter().find(|slot| slot.job == Some(id) && !self.setup.report);
                let name = ended.and_then(|slot| slot.result.as_ref()?.block.get("conversation"));
                if let Some(note) = name.and_then(|name| describe_waiting(&context.root, name)) {
                    on_progress(ProgressEvent::Note(&note));
                }
            }
        }
    }

    /// The result that was handed out last, without what its child has shown already.
    pub(super) fn unshown_result(&self, mut block: Block) -> Block {
        if let (Some(count), Some(body)) = (self.answer_lines, &mut block.body) {
            *body = body.lines().take(count).collect::<Vec<_>>().join("\n");
        }
        block
    }

    /// Ends the group because of a signal, with results for all that have none yet.
    pub(super) fn stop_group(&mut self, signal: Signal, context: &RunContext<'_>) -> Result<Event> {
        while let Some(finished) = self.next_finished(context, &mut |_, _| ()) {
            self.record_end(finished, context)?;
        }
        let slots = std::mem::take(&mut self.slots);
        let results = slots.into_iter().map(|slot| match slot.result {
            Some(acted) => acted.block,
            None => result_block(&slot.name, "not-run")
                .body("nagent was interrupted before this conversation was started"),
        });
        Ok(Event::Interrupted { signal, results: results.collect() })
    }

    /// Waits for the next child to end; `on_line` gets the name and each line of those that print some meanwhile.
    fn next_finished(
        &mut self,
        context: &RunContext<'_>,
        on_line: &mut dyn FnMut(&str, &str),
    ) -> Option<Finished> {
        let Self { jobs, slots, .. } = self;
        jobs.next_streaming(context.interrupts, &mut |id, bytes| {
            let Some(slot) = slots.iter_mut().find(|slot| slot.job == Some(id)) else { return };
            let Slot { action, name, lines, .. } = slot;
            // People know a file by its path, and a child by the name that it was given.
            let name = match action {
                Action::Conversation { file: Some(name), .. }
                | Action::Conversation { name: Some(name), .. } => name,
                _ => name,
            };
            lines.push(bytes, &mut |line| on_line(name, line));
        })
    }

    fn start_waiting(&mut self, context: &RunContext<'_>) {
        while self.jobs.running() < self.setup.at_once {
            let is_waiting = |slot: &Slot| slot.job.is_none() && slot.result.is_none();
            let Some(at) = self.slots.iter().position(is_waiting) else { return };
            let from = match &self.slots[at].action {
                Action::Conversation { from: Some(from), .. } => root::check_name(from),
                _ => Ok(()),
            };
            let started = if let Some(why) = self.refuse_spent().or(from.err()) {
                Err(why)
            } else {
                let job = self.build_job(&self.slots[at], context);
                self.jobs.start(job).map_err(|error| error.to_string())
            };
            let slot = &mut self.slots[at];
            match started {
                Ok(id) => slot.job = Some(id),
                Err(why) => slot.result = Some(refused_result(why)),
            }
        }
    }

    fn build_job(&self, slot: &Slot, context: &RunContext<'_>) -> Job {
        let Action::Conversation { prompt, from, file, .. } = &slot.action else {
            // Only conversations are put into slots.
            return Job::new(Vec::new(), context.folder.clone(), Vec::new());
        };
        let mut argv = vec![self.setup.executable.clone().into_os_string()];
        argv.extend(self.setup.flags.iter().cloned());
        let mut flag = |name: &str, value: &str| argv.push(flag_word(name, value));
        match file {
            Some(file) => flag("file-edit", file),
            None => flag("conversation", &slot.name),
        }
        if let Some(from) = from {
            flag("load-conversation", from);
        }
        flag("invocation", "delegated");
        flag("parent-conversation", &self.setup.name);
        let left = self.left.map(Limits::by_name).into_iter().flatten();
        for (name, rest) in left.filter(|(_, rest)| !rest.is_null()) {
            flag(&name.replace('_', "-"), &rest.to_string());
        }
        let set = [
            (PARENTS, self.parents_of_commands()),
            (LINEAGE, slot.lineage.clone()),
            (RUN, context.run.clone()),
        ];
        let env = context.env.for_children(&set);
        let prompt = Some(prompt.clone().into_bytes());
        let mut job = child_job(argv, prompt, context.folder.clone(), env, self.setup.report);
        context.servers.pass_to(&mut job, context.env);
        job
    }

    fn record_end(&mut self, mut finished: Finished, context: &RunContext<'_>) -> Result<()> {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.job == Some(finished.id)) else {
            return Ok(());
        };
        if self.setup.report {
            finished.stdout = std::mem::take(&mut slot.lines.answer);
        }
        let answer = ChildAnswer::parse_output(&finished);
        let name = answer.conversation().unwrap_or(&slot.name).to_owned();
        let failed = answer.code != 0 || answer.ended_by.is_some();
        let usage = answer.usage();
        let (given, file) = match &slot.action {
            Action::Conversation { name, file, .. } => (name.as_ref(), file.as_ref()),
            _ => (None, None),
        };
        let mut block = result_block(&name, if failed { "error" } else { "ok" })
            .with_some("name", given)
            .with("exit_code", answer.code)
            .with("tokens_in", usage.input)
            .with("tokens_out", usage.output)
            .with("seconds", format!("{:.3}", finished.took.as_secs_f64()))
            .with_some("file", file);
        if let Some(sandbox) = &context.sandbox {
            block = with_sandbox(block, sandbox);
        }
        let mut parts: Vec<String> = answer.responses().map(str::to_owned).collect();
        let error = answer.error.as_ref();
        parts.extend(error.map(|error| format!("[the conversation failed: {error}]")));
        parts.extend(answer.ended_by.as_ref().map(|problem| format!("[{problem}]")));
        let own = parts.join("\n").lines().count();
        let diff = answer.json.get("diff").and_then(Value::as_str);
        parts.extend(diff.map(cut_diff));
        let is_unchanged = file.is_some() && diff.is_none_or(str::is_empty) && !failed;
        parts.extend(is_unchanged.then(|| "(the file is unchanged)".to_owned()));
        let outputs = context.root.outputs_folder();
        let block = context.redactor.with_text(block, parts.join("\n"), &outputs)?;
        // In a long result the lines are others.
        let is_whole = self.setup.report && diff.is_some() && block.get("output").is_none();
        slot.answer_lines = is_whole.then_some(own);
        let (turns, cost) = (answer.turns(), answer.cost());
        slot.result = Some(Acted { block, usage, cost, turns });
        // The others in its group that have not started have the rest of the limits.
        let (tokens, cost) = (usage.input.saturating_add(usage.output), cost.unwrap_or(0.0));
        let spent = Spent { turns, seconds: 0.0, tokens, cost };
        self.left = self.left.map(|left| left.subtract(spent));
        Ok(())
    }
}

/// Cuts the diff of a child at the end of a line.
fn cut_diff(diff: &str) -> String {
    let diff = diff.trim_end_matches('\n');
    let cut = harmless::cut_at_line(diff, limits::CHILD_DIFF);
    cut.map_or_else(
        || diff.to_owned(),
        |cut| format!("{cut}\n[… the rest of the diff is not shown]"),
    )
}

const RESULT: &str = "nagent-conversation-result";

fn result_block(name: &str, status: &str) -> Block {
    Block::new(RESULT).with("conversation", name).with("status", status)
}
