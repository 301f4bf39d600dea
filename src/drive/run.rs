//! The loop: performs one effect after another until the run is over.

use std::path::{Component, Path};
use std::time::Duration;

use anyhow::Result;

use super::commands::{ShellCommand, with_notes};
use super::compaction::{Compacted, Payer};
use super::file_changes::RunChange;
use super::freshness::LastSeen;
use super::progress_event::ProgressEvent;
use super::result_block::format_block;
use super::runner::Runner;
use super::truncate::without_styles;
use conversation::approve::Decision;
use conversation::compact::plan::Plan;
use conversation::exit::{Exit, Signal};
use conversation::format::file::Block;
use conversation::format::harmless;
use conversation::format::numbers::format_count;
use conversation::limits;
use conversation::memory::changes::short_hash;
use conversation::model::ApiError;
use conversation::problem::Problem;
use conversation::protocol::{Access, Action};
use conversation::reason::Reason;
use conversation::turn::event::{Acted, Effect, Event, RunOutcome};
use conversation::turn::run_limits::Limits;
use conversation::turn::{Turn, unfinished};
use models::schema::describe_errors;
use sys::conversation_file::ConversationFile;
use sys::fs;

/// Above this many tokens, the server is asked for the window if it is unknown.
const LARGE: u64 = 6_000;

/// Maximum length of the last line of a failed check in the error at the end, in columns.
const CAUSE: usize = 200;

/// Performs effects until the run is over.
///
/// # Errors
/// The conversation could not be written: nothing can be recorded any more, so nothing more is done.
pub fn run(runner: &mut Runner<'_>, turn: &mut Turn, first: Effect) -> Result<RunOutcome> {
    let mut effect = first;
    loop {
        runner.note_effect(&effect, turn.totals());
        let event = match (effect, runner.context.interrupts.pending()) {
            // These effects only store: they are done even after a signal.
            (Effect::Done(outcome), _) => return Ok(outcome),
            (Effect::Append(blocks), _) => runner.append(blocks)?,
            (Effect::SaveReply { text, note }, _) => {
                (runner.on_progress)(ProgressEvent::BadReply(&note));
                let folder = runner.context.root.invalid_replies_folder(runner.conversation.name());
                let path = fs::store_numbered(&folder, text.as_bytes())?;
                Event::ReplySaved(path.display().to_string())
            }
            (Effect::Act(actions), Some(signal)) => Event::Interrupted {
                signal,
                results: actions
                    .iter()
                    .map(|action| unfinished::result_of_unrun(action, "not-run"))
                    .collect(),
            },
            (Effect::NextChild, Some(signal)) => {
                runner.children.stop_group(signal, &runner.context)?
            }
            (Effect::Receive, Some(_)) => Event::Received(Vec::new()),
            (_, Some(signal)) => interrupt_event(signal),
            (Effect::Ask, None) => {
                let messages = runner.receive(false)?;
                if messages.is_empty() {
                    (runner.on_progress)(ProgressEvent::Asking(turn.totals().turns + 1));
                    runner.children.begin_reply();
                    let Runner { asker, conversation, context, on_progress, .. } = &mut *runner;
                    asker.request_reply(conversation, context, *on_progress)
                } else {
                    Event::Received(messages)
                }
            }
            (Effect::Receive, None) => Event::Received(runner.receive(false)?),
            (Effect::Compact { was_refused }, None) => runner.compact(was_refused),
            (Effect::Wait { time, error }, None) => runner.wait_to_retry(time, &error),
            (Effect::Say(text), None) => {
                (runner.on_progress)(ProgressEvent::Response(&text));
                runner.note_last_line(&text);
                Event::Said
            }
            (Effect::Decide(action), None) => runner.decide(&action),
            (Effect::Act(actions), None) => runner.run_actions(actions, turn.remaining_limits())?,
            (Effect::NextChild, None) => runner.next_child()?,
            (Effect::AfterWrite, None) => runner.run_after_write()?,
            (Effect::Check(answer), None) => runner.check_answer(&answer, turn.next_check())?,
        };
        let reply = match &event {
            Event::Replied { reply, cost, .. } | Event::CutOff { reply, cost, .. } => {
                Some((reply.usage, *cost))
            }
            _ => None,
        };
        runner.note_event(&event);
        effect = turn.step(event);
        if let Some((usage, cost)) = reply {
            let (turn, verdict) = (turn.totals().turns, turn.last_verdict());
            (runner.on_progress)(ProgressEvent::Replied { turn, usage: &usage, cost, verdict });
        }
    }
}

impl Runner<'_> {
    /// Records the run's changes to its conversation's file, at its end. `None` if there are none.
    ///
    /// # Errors
    /// The conversation could not be written.
    pub fn finish(&mut self) -> Result<Option<RunChange>> {
        self.commands.kept.clear();
        self.command_changes.finish(&self.context, &self.files)?;
        let (blocks, change) = self.files.finish();
        self.append(blocks)?;
        Ok(change)
    }

    fn append(&mut self, mut blocks: Vec<Block>) -> Result<Event> {
        // Once more for each time that another program changed the file.
        while !blocks.is_empty() {
            let mut texts = Vec::with_capacity(blocks.len());
            for block in std::mem::take(&mut blocks) {
                let block = with_short_previous(self.context.redactor.redact_block(block));
                texts.push(format_block(&self.with_true_bytes(block)?));
            }
            let old = self.conversation.name().to_owned();
            if let Some(name) = self.conversation.append(&texts.join("\n"))? {
                let note = format!(
                    "another program changed conversation {old} while this run was using it; the run continues in {name}"
                );
                self.note(&note);
                self.children.setup.name.clone_from(&name);
                self.files.log.facts.conversation.clone_from(&name);
                self.conversation.append_to_left(&format_block(&fork_block(&name)));
                blocks.push(Block::new("system").body(note));
            }
        }
        self.inbox.remove_taken(&self.context.root);
        let seconds = self.watch.elapsed().as_secs_f64();
        if self.compactor.tokens(&self.conversation) > LARGE {
            self.asker.learn_window(self.context.interrupts);
            self.fit_results();
        }
        let is_full = self.compactor.is_due(&self.conversation, self.asker.window);
        Ok(Event::Appended { seconds, is_full })
    }

    /// The block with the path of its exact text, if that has bytes that [`format_block`] replaces.
    fn with_true_bytes(&self, block: Block) -> Result<Block> {
        match &block.body {
            Some(body) if body.contains('\0') && block.get("output").is_none() => {
                let path = fs::store_output(&self.context.root.outputs_folder(), body.as_bytes())?;
                Ok(block.with("output", path.display()))
            }
            _ => Ok(block),
        }
    }

    /// Compacts the conversation. A failure is noted, and the run goes on with the conversation as it is.
    fn compact(&mut self, was_refused: bool) -> Event {
        (self.on_progress)(ProgressEvent::Compacting);
        let outputs = self.context.root.outputs_folder();
        // The server refused it, so it is over the window, whatever the settings say.
        let now = self.compactor.tokens(&self.conversation);
        let known = self.asker.window.unwrap_or(u64::MAX);
        let window = if was_refused { known.min(now) } else { known };
        let (model, price) = (self.asker.model_id.clone(), self.asker.price);
        let payer = Payer { model: &model, price: price.as_ref() };
        let Self { asker, context, .. } = self;
        let mut go_on = |conversation: &ConversationFile, plan: &Plan| {
            if was_refused {
                return Default::default();
            }
            asker.write_checkpoint(conversation, plan, &outputs, context.interrupts)
        };
        let (result, usage) =
            self.compactor.compact(&mut self.conversation, &outputs, window, &payer, &mut go_on);
        let cost = payer.cost(&usage);
        let name = self.conversation.name();
        let is_shorter = matches!(result, Ok(Some(_)));
        match result {
            Ok(Some(done)) => {
                // What the last reply was shown is found by its place, and the text has changed.
                self.files.last_seen = LastSeen::default();
                self.note(&describe_compaction(&done));
            }
            Ok(None) => {}
            Err(Problem { exit: Exit::Signal(signal), .. }) => return interrupt_event(signal),
            Err(problem) => {
                let why = self.context.redactor.redact_text(problem.to_string()).0;
                self.note(&format!("conversation {name} was not compacted (unchanged): {why}"));
            }
        }
        Event::Compacted { is_shorter, usage, cost }
    }

    fn wait_to_retry(&mut self, time: Duration, error: &ApiError) -> Event {
        (self.on_progress)(ProgressEvent::Waiting(time, error));
        match self.context.interrupts.wait_for_signal(Some(time)) {
            Some(signal) => interrupt_event(signal),
            None => Event::Waited,
        }
    }

    fn decide(&mut self, action: &Action) -> Event {
        let (folder, has_sandbox) = (&self.context.folder, self.context.sandbox.is_some());
        let decided = self.approval.decide_without_asking(action, folder, has_sandbox);
        let is_unread = || self.files.is_unread(action, &self.conversation);
        let decided = decided.or_else(|| is_unread().then_some(Decision::Allow));
        let decision = decided.unwrap_or_else(|| {
            // A question that nobody is asked is not shown: its number would be taken for that of the parent's.
            if self.approval.approver.has_person() {
                (self.on_progress)(ProgressEvent::Deciding(action, folder, has_sandbox));
            }
            self.approval.ask_and_store(action, &self.context)
        });
        if let Some(signal) = self.context.interrupts.pending() {
            return interrupt_event(signal);
        }
        match &decision {
            Decision::Refuse(why) => (self.on_progress)(ProgressEvent::Refused(action, why)),
            Decision::Replace(other) => self.replaced = Some(other.clone()),
            _ => {}
        }
        Event::Decided(decision)
    }

    fn run_actions(&mut self, actions: Vec<Action>, left: Limits) -> Result<Event> {
        for action in &actions {
            (self.on_progress)(ProgressEvent::ActionStarted(action));
        }
        if let [action] = actions.as_slice()
            && !matches!(action, Action::Conversation { .. })
        {
            let is_command = action.access() == Access::Run;
            if is_command {
                let is_outside = matches!(action, Action::Shell { outside: Some(_), .. });
                if !is_outside {
                    self.require_sandbox()?;
                }
                self.before_command(is_outside);
            }
            let (block, signal) = self.run_action(action)?;
            if is_command {
                // One that goes on may write until the run ends.
                if !matches!(action, Action::Shell { keep: Some(_), .. }) {
                    self.command_changes.after_command();
                }
                self.files.record_rewritten()?;
            }
            let ended = self.commands.report_ended();
            let block = if ended.is_empty() { block } else { with_notes(block, ended) };
            (self.on_progress)(ProgressEvent::ActionEnded(Some(action), &block));
            self.advise_write_flag(action, &block);
            let replaced = self.describe_replaced(action);
            let block = if replaced.is_some() { with_notes(block, replaced) } else { block };
            return Ok(match signal {
                Some(signal) => Event::Interrupted { signal, results: vec![block] },
                None => Event::Acted(Acted::without_model(block)),
            });
        }
        let pieces = self.conversation.pieces();
        self.children.start_group(actions, left, pieces, &self.context)?;
        self.next_child()
    }

    fn before_command(&mut self, is_outside: bool) {
        self.files.before_command();
        let (changes, files) = (&mut self.command_changes, &self.files);
        let known = (&files.log, files.boundary.named());
        if let Some(note) = changes.before_command(&self.context, known, is_outside) {
            self.note(&note);
        }
    }

    /// Reports that the user edited the action before it ran, since the reply has the original.
    fn describe_replaced(&mut self, action: &Action) -> Option<String> {
        self.replaced.take().filter(|replaced| replaced == action)?;
        Some(match action {
            Action::Shell { commands, .. } => {
                let ran = harmless::truncate(commands.trim(), limits::EDIT_SHOWN);
                format!("the user edited the command before it ran; this ran instead: {ran}")
            }
            _ => "the user edited this action before it ran".to_owned(),
        })
    }

    fn next_child(&mut self) -> Result<Event> {
        let action = self.children.slots.front().map(|slot| slot.action.clone());
        let event = self.children.next_result(&self.context, self.on_progress)?;
        if let Event::Acted(acted) = &event {
            let block = self.children.unshown_result(acted.block.clone());
            (self.on_progress)(ProgressEvent::ActionEnded(action.as_ref(), &block));
            if let Some(action) = &action {
                self.advise_write_flag(action, &acted.block);
            }
        }
        Ok(event)
    }

    /// Advises the user about `-w` when a file of the project needs a conversation of its own.
    fn advise_write_flag(&mut self, action: &Action, block: &Block) {
        let needs_flag = |path: &str| {
            let path = self.context.resolve(path);
            path.starts_with(&self.context.folder)
                && !path.components().any(|it| it == Component::ParentDir)
                && !self.files.boundary.roots().iter().any(|root| path.starts_with(root))
        };
        let is_case = match action {
            Action::Conversation { file: Some(file), .. } => needs_flag(file),
            Action::Change(_) => {
                block.get("reason") == Some(Reason::Boundary.name())
                    && block.get("path").is_some_and(needs_flag)
            }
            _ => false,
        };
        let is_users = self.files.boundary.target().is_none() && self.children.parent().is_none();
        if is_case && is_users {
            let note = "-w lets this conversation write files here; without it each file gets its own conversation";
            (self.on_progress)(ProgressEvent::Advice(note));
        }
    }

    /// Runs a command of the user's; `name` is the attribute of its block. The signal that ended it, if one did.
    fn run_users_command(
        &mut self,
        name: &'static str,
        command: &str,
        attempt: Option<u32>,
    ) -> Result<(Block, Option<Signal>)> {
        self.require_sandbox()?;
        self.before_command(false);
        (self.on_progress)(ProgressEvent::CommandStarted { name, command, attempt });
        let block = Block::new("system").with(name, command);
        let parents = self.children.parents_of_commands();
        let sandbox = self.context.sandbox.clone();
        let sandbox = sandbox.as_deref();
        let command = ShellCommand { commands: command, timeout: None, parents, sandbox };
        let (block, signal) = self
            .run_observed(|all, context, on_output| all.run(block, &command, context, on_output));
        self.command_changes.after_command();
        let block = self.context.redactor.redact_block(block);
        if signal.is_none() {
            (self.on_progress)(ProgressEvent::ActionEnded(None, &block));
        }
        Ok((block, signal))
    }

    /// Ends the run, by an error, if commands are to run in a sandbox that cannot be built here.
    fn require_sandbox(&self) -> Result<()> {
        let Some(sandbox) = &self.context.sandbox else { return Ok(()) };
        let ready = sandbox.mechanism().map(|_| ());
        ready.map_err(|why| Problem::usage(format!("commands cannot run: {why:#}")).into())
    }

    /// Runs the command after writes. Its changes to files that the run has written count as the run's.
    fn run_after_write(&mut self) -> Result<Event> {
        let Some(command) = self.commands.after_write.clone() else {
            return Ok(Event::AfterWriteEnded(Block::new("system")));
        };
        let (block, signal) = self.run_users_command("after_write", &command, None)?;
        let changed = self.files.record_rewritten()?;
        if let Some(signal) = signal {
            return Ok(Event::Interrupted { signal, results: vec![block] });
        }
        let names: Vec<String> = changed.iter().map(|path| path.display().to_string()).collect();
        let note = format!("[changed: {}]", names.join(", "));
        let lines = block.body.iter().cloned().chain((!names.is_empty()).then_some(note));
        let text = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
        Ok(Event::AfterWriteEnded(block.body(text)))
    }

    /// Checks an answer against the schema, then runs `--check`.
    fn check_answer(&mut self, answer: &[String], attempt: u32) -> Result<Event> {
        let answer = answer.join("\n");
        let errors = self.schema.as_ref().and_then(|schema| schema.check(&answer).err());
        let event = match errors {
            None => self.run_check(attempt)?,
            Some(errors) => {
                let note = format!("the answer does not fit the schema: {}", errors.join("; "));
                (self.on_progress)(ProgressEvent::BadReply(&note));
                let body = format!("your answer is not accepted yet. {}", describe_errors(&errors));
                let block = Block::new("system").with("check", "schema").body(body);
                let block = self.context.redactor.redact_block(block);
                Event::Checked { passed: false, block, errors }
            }
        };
        // The last one is in the error of the run.
        if matches!(event, Event::Checked { passed: false, .. }) && attempt < limits::FAILED_CHECKS
        {
            (self.on_progress)(ProgressEvent::BadReply(&format!("rejected answer: {answer}")));
        }
        Ok(event)
    }

    fn run_check(&mut self, attempt: u32) -> Result<Event> {
        let Some(command) = self.commands.check.clone() else {
            return Ok(Event::Checked {
                passed: true,
                block: Block::new("system"),
                errors: Vec::new(),
            });
        };
        let (block, signal) = self.run_users_command("check", &command, Some(attempt))?;
        if let Some(signal) = signal {
            return Ok(Event::Interrupted { signal, results: vec![block] });
        }
        if block.get("status") == Some("ok") {
            let block = Block { body: None, ..block };
            return Ok(Event::Checked { passed: true, block, errors: Vec::new() });
        }
        let mut lines = block.body.iter().flat_map(|body| body.lines());
        let last = lines.rfind(|line| !line.trim().is_empty());
        let errors = last.map(|line| harmless::truncate(line.trim(), CAUSE)).into_iter().collect();
        let block = self.describe_failed_check(block)?;
        Ok(Event::Checked { passed: false, block, errors })
    }

    /// The block of a failed check with what the model needs of its output; all of a long one is in a file.
    fn describe_failed_check(&mut self, mut block: Block) -> Result<Block> {
        let body = block.body.take().unwrap_or_default();
        let keep = self.context.redactor.keep.min(limits::CHECK_SHOWN);
        if block.get("output").is_none() && body.len() > keep {
            let path = fs::store_output(&self.context.root.outputs_folder(), body.as_bytes())?;
            block = block.with("output", path.display());
        }
        let path = block.get("output").map(Path::new);
        let whole = path.and_then(|path| fs::read_bytes(path, limits::STORED_BYTES).ok().flatten());
        let whole = whole.map(|bytes| without_styles(String::from_utf8_lossy(&bytes).into_owned()));
        let place = path.map_or_else(String::new, |path| format!(": read {}", path.display()));
        let whole = whole.as_deref().unwrap_or(&body);
        let text = self.commands.last_check.describe(&body, whole, keep, &place);
        Ok(block.body(format!(
            "your answer is not accepted yet: the check failed. Its output:\n{text}"
        )))
    }
}

/// Describes a compaction in one line.
pub fn describe_compaction(done: &Compacted) -> String {
    let Compacted { plan, tokens, archive } = done;
    let what = match plan.condensed.turns {
        Some((first, last)) => format!("turns {first} to {last} became a checkpoint"),
        None => {
            format!("{} moved to files", format_count(plan.condensed.pointers, "long result"))
        }
    };
    let before = plan.before;
    format!(
        "compacted: {what}, {before} tokens became {tokens} (estimated); the full text is in {archive}"
    )
}

/// The block that leads from a conversation that was changed during a run to the one in which the run went on.
pub fn fork_block(name: &str) -> Block {
    Block::new("system").with("fork", name).body(format!(
        "this conversation was changed while a run was using it; the run continued in conversation {name}, which has everything \
         it did"
    ))
}

/// The block with the first digits of the hash of the previous content, in place of the path of the file that has it.
fn with_short_previous(mut block: Block) -> Block {
    for (_, value) in block.attributes.iter_mut().filter(|(name, _)| name == "previous") {
        *value = short_hash(&fs::stored_hash(Path::new(&*value))).into();
    }
    block
}

fn interrupt_event(signal: Signal) -> Event {
    Event::Interrupted { signal, results: Vec::new() }
}
