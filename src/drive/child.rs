//! Child conversations: each a nagent of its own, several side by side, only the answer comes back.
//!
//! The prompt travels on stdin, the answer as JSON on stdout. A child draws on what is left of its parent's limits.
//! What a child may do is the child's own matter; here is only starting, waiting, and the result block.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::shell::with_walls;
use super::{Seen, World, inline, veil};
use crate::exit::Signal;
use crate::format::conversation::Block;
use crate::llm::Usage;
use crate::protocol::Action;
use crate::sys::env::{LINEAGE, PARENTS};
use crate::sys::process::Jobs;
use crate::sys::process::job::{Finished, Job, JobId, Outcome, Output, Stdin};
use crate::sys::{fs, names, root};
use crate::turn::event::{Acted, Event, Limits};

/// How deep children go, the first conversation not counted.
pub const DEPTH: usize = 4;

/// The most children that one reply may start.
pub const PER_REPLY: u64 = 64;

/// The most children that one run may start; what those start is theirs.
pub const PER_RUN: u64 = 200;

/// The time between telling a child to end and ending it: it has processes of its own to end.
pub const GRACE: Duration = Duration::from_millis(600);

/// What is kept in memory of a child's stdout, head and tail each; a longer one goes to a file first.
pub const KEEP: usize = 1 << 20;

/// The longest stdout of a child that is read back: its answer, and what stands around it in JSON.
pub const ANSWER: u64 = 256 << 20;

/// Child conversations and what they are started with.
#[derive(Debug)]
pub struct Children {
    executable: PathBuf,
    /// Flags that every child gets: root, provider, model, config.
    flags: Vec<OsString>,
    /// Children at once.
    at_once: usize,
    /// Conversations that this run was started from, the oldest first.
    parents: Vec<String>,
    /// This run's conversation.
    name: String,
    /// This run's place in a recording.
    lineage: String,
    started: u64,
    /// How many the last reply has asked for so far.
    in_reply: u64,
    jobs: Jobs,
    /// The group at hand, in the order of its tags.
    slots: VecDeque<Slot>,
    left: Option<Limits>,
}

/// A child of the group at hand.
#[derive(Debug)]
struct Slot {
    action: Action,
    name: String,
    lineage: String,
    /// The file whose conversation it is, by its true path.
    file: Option<PathBuf>,
    job: Option<JobId>,
    result: Option<Acted>,
}

/// What of a child's JSON counts here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    exit_code: i32,
    error: Option<String>,
    conversation_path: Option<String>,
    responses: Vec<String>,
    recursive_turn_count: u64,
    recursive_input_tokens: u64,
    recursive_output_tokens: u64,
    recursive_cache_read_tokens: u64,
    recursive_cache_write_tokens: u64,
    cost: Option<f64>,
    estimated: bool,
}

impl Children {
    /// Nothing started yet.
    pub fn new(
        executable: PathBuf,
        flags: Vec<OsString>,
        at_once: usize,
        parents: Vec<String>,
        name: String,
        lineage: String,
    ) -> Self {
        Self {
            executable,
            flags,
            at_once: at_once.max(1),
            parents,
            name,
            lineage,
            started: 0,
            in_reply: 0,
            jobs: Jobs::new(),
            slots: VecDeque::new(),
            left: None,
        }
    }

    /// Conversations that this run was started from, the oldest first.
    pub fn parents(&self) -> &[String] {
        &self.parents
    }

    /// The run goes on under another name.
    pub fn renamed(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// The model is asked for its next reply.
    pub(super) fn next_reply(&mut self) {
        self.in_reply = 0;
    }

    /// Why no child may be started any more: the limits of the run are used up.
    fn spent(&self) -> Option<String> {
        let left = self.left.as_ref()?;
        let spent = left.turns == 0
            || left.tokens == Some(0)
            || [left.seconds, left.cost].into_iter().flatten().any(|left| left <= 0.0);
        spent.then(|| "the limits of this run leave nothing for another conversation".to_owned())
    }

    /// What a child has used is not left for those beside it that have not started.
    fn draw(&mut self, answer: &Answer) {
        let Some(left) = &mut self.left else { return };
        let tokens = answer.recursive_input_tokens.saturating_add(answer.recursive_output_tokens);
        left.turns = left.turns.saturating_sub(answer.recursive_turn_count);
        left.tokens = left.tokens.map(|left| left.saturating_sub(tokens));
        left.cost = left.cost.map(|left| (left - answer.cost.unwrap_or(0.0)).max(0.0));
    }

    /// Why a child of this name may not be started now.
    fn objection(&self, slot: &Slot) -> Option<String> {
        if self.in_reply > PER_REPLY {
            return Some(format!(
                "a reply may start {PER_REPLY} conversations at most, and this one asks for more; wait for the results of the \
                 first ones, and do small parts yourself"
            ));
        }
        if self.started > PER_RUN {
            return Some(format!(
                "a run may start {PER_RUN} conversations at most, and it has; do the rest yourself"
            ));
        }
        if self.parents.len() >= DEPTH {
            return Some(format!("conversations go {DEPTH} deep at most; do this part yourself"));
        }
        if let Some(spent) = self.spent() {
            return Some(spent);
        }
        if let Err(message) = root::check_name(&slot.name) {
            return Some(message);
        }
        if slot.name == self.name || self.parents.contains(&slot.name) {
            return Some(format!(
                "{} is this conversation or one that it was started from; use another name",
                slot.name
            ));
        }
        let same_file = |other: &Slot| slot.file.is_some() && slot.file == other.file;
        if self.slots.iter().any(|other| other.name == slot.name || same_file(other)) {
            return Some(
                "a conversation beside this one in the same reply has this name or file; \
                 put both tasks into one prompt, or send the second one after the first one's result"
                    .to_owned(),
            );
        }
        None
    }
}

impl World<'_> {
    /// Begins a group of conversations that stand side by side.
    pub(super) fn start_children(&mut self, actions: Vec<Action>, left: Limits) {
        let home = self.env.home();
        let children = &mut self.children;
        children.left = Some(left);
        for action in actions {
            let name = match &action {
                Action::Conversation { name: Some(name), .. } => name.clone(),
                _ => format!("child-{}", uuid::Uuid::new_v4().simple()),
            };
            children.started += 1;
            children.in_reply += 1;
            let lineage = format!("{}.{}", children.lineage, children.started);
            let file = match &action {
                Action::Conversation { file: Some(file), .. } => {
                    let path = self.folder.join(names::expand_home(file.as_ref(), home.as_deref()));
                    Some(fs::real_path(&path).unwrap_or(path))
                }
                _ => None,
            };
            let mut slot = Slot { action, name, lineage, file, job: None, result: None };
            if let Some(objection) = children.objection(&slot) {
                let block = result(&slot.name, "error").body(objection);
                slot.result = Some(Acted::plain(block));
            }
            children.slots.push_back(slot);
        }
    }

    /// Waits for the first result of the group that has not been handed out.
    pub(super) fn next_child(&mut self) -> Result<Event> {
        loop {
            if let Some(signal) = self.interrupts.pending() {
                return self.stop_children(signal);
            }
            self.fill();
            let first = self.children.slots.front_mut();
            let first = first
                .context("a fault in nagent: it waits for a conversation that is not there")?;
            if let Some(acted) = first.result.take() {
                self.children.slots.pop_front();
                (self.observe)(Seen::Ended(&acted.block));
                return Ok(Event::Acted(acted));
            }
            if let Some(finished) = self.children.jobs.next_finished(self.interrupts) {
                self.settle(finished)?;
            }
        }
    }

    /// Ends the group because of a signal: results for all that have none yet.
    pub(super) fn stop_children(&mut self, signal: Signal) -> Result<Event> {
        while let Some(finished) = self.children.jobs.next_finished(self.interrupts) {
            self.settle(finished)?;
        }
        let slots = std::mem::take(&mut self.children.slots);
        let results = slots.into_iter().map(|slot| match slot.result {
            Some(acted) => acted.block,
            None => result(&slot.name, "not-run")
                .body("nagent was interrupted before this conversation was started"),
        });
        Ok(Event::Interrupted { signal, results: results.collect() })
    }

    /// Starts children until as many run as may.
    fn fill(&mut self) {
        while self.children.jobs.running() < self.children.at_once {
            let Some(at) = self
                .children
                .slots
                .iter()
                .position(|slot| slot.job.is_none() && slot.result.is_none())
            else {
                return;
            };
            if let Some(spent) = self.children.spent() {
                let slot = &mut self.children.slots[at];
                slot.result = Some(Acted::plain(result(&slot.name, "error").body(spent)));
                continue;
            }
            let job = self.child_job(&self.children.slots[at]);
            let slot = &mut self.children.slots[at];
            match self.children.jobs.start(job) {
                Ok(id) => slot.job = Some(id),
                Err(error) => {
                    slot.result =
                        Some(Acted::plain(result(&slot.name, "error").body(error.to_string())));
                }
            }
        }
    }

    fn child_job(&self, slot: &Slot) -> Job {
        let children = &self.children;
        let Action::Conversation { prompt, from, file, .. } = &slot.action else {
            // Only conversations are put into slots.
            return Job::new(Vec::new(), self.folder.clone(), Vec::new());
        };
        let mut argv = vec![children.executable.clone().into_os_string()];
        argv.extend(children.flags.iter().cloned());
        // In one word: the model's values may begin with a dash.
        let mut flag =
            |name: &str, value: &str| argv.push(OsString::from(format!("{name}={value}")));
        match file {
            Some(file) => flag("--file-edit", file),
            None => flag("--conversation", &slot.name),
        }
        if let Some(from) = from {
            flag("--load-conversation", from);
        }
        flag("--invocation", "delegated");
        flag("--parent-conversation", &children.name);
        if let Some(left) = children.left {
            flag("--max-turns", &left.turns.to_string());
            for (name, value) in [
                ("--max-seconds", left.seconds.map(|value| value.to_string())),
                ("--max-tokens", left.tokens.map(|value| value.to_string())),
                ("--max-cost", left.cost.map(|value| value.to_string())),
            ] {
                if let Some(value) = value {
                    flag(name, &value);
                }
            }
        }
        argv.extend(["--json", "-"].map(OsString::from));
        let mut parents = children.parents.clone();
        parents.push(children.name.clone());
        let set = [(PARENTS, parents.join("/")), (LINEAGE, slot.lineage.clone())];
        let mut job = Job::new(argv, self.folder.clone(), self.env.for_children(&set));
        job.stdin = Stdin::Bytes(prompt.clone().into_bytes());
        job.output = Output::Separate;
        job.grace = GRACE;
        job.keep = KEEP;
        job.spool = Some(self.root.outputs());
        job.unlinked = true;
        job
    }

    /// Makes the result of a child that ended.
    fn settle(&mut self, finished: Finished) -> Result<()> {
        let outputs = self.root.outputs();
        let text = finished.stdout.whole_text(ANSWER);
        let answer: Option<Answer> = text.and_then(|text| serde_json::from_str(&text).ok());
        let ended_by = match finished.outcome {
            Outcome::Interrupted(signal) => {
                Some(format!("ended because nagent got {}", signal.name()))
            }
            Outcome::Killed { signal } => Some(format!("ended by signal {signal}")),
            Outcome::TooMuch => Some("ended because it wrote too much".to_owned()),
            _ => None,
        };
        let answer = answer.unwrap_or_else(|| {
            let said = finished.stderr.head_text();
            Answer {
                exit_code: match finished.outcome {
                    Outcome::Ended { code } if code != 0 => code,
                    _ => 1,
                },
                error: Some(format!(
                    "the child gave no answer that can be read. It said: {}",
                    said.trim()
                )),
                ..Answer::default()
            }
        });
        self.children.draw(&answer);
        let Some(slot) = self.children.slots.iter_mut().find(|slot| slot.job == Some(finished.id))
        else {
            return Ok(());
        };
        let name = answer
            .conversation_path
            .as_deref()
            .and_then(|path| path.rsplit('/').next())
            .unwrap_or(&slot.name)
            .to_owned();
        let failed = answer.exit_code != 0 || ended_by.is_some();
        let mut block = result(&name, if failed { "error" } else { "ok" })
            .with("exit_code", answer.exit_code)
            .with("tokens_in", answer.recursive_input_tokens)
            .with("tokens_out", answer.recursive_output_tokens)
            .with("seconds", format!("{:.3}", finished.took.as_secs_f64()));
        if let Action::Conversation { file: Some(file), .. } = &slot.action {
            block = block.with("file", file);
        }
        if let Some(walls) = &self.walls {
            block = with_walls(block, walls);
        }
        let mut parts = answer.responses;
        parts.extend(answer.error.map(|error| format!("[the conversation failed: {error}]")));
        parts.extend(ended_by.map(|why| format!("[{why}]")));
        let (text, count) = self.veil.text(parts.join("\n"));
        let block = inline::text(veil::counted(block, count), text, &outputs)?;
        slot.result = Some(Acted {
            block,
            usage: Usage {
                input: answer.recursive_input_tokens,
                cached: answer.recursive_cache_read_tokens,
                cache_written: answer.recursive_cache_write_tokens,
                output: answer.recursive_output_tokens,
                estimated: answer.estimated,
            },
            cost: answer.cost.unwrap_or(0.0),
            turns: answer.recursive_turn_count,
        });
        Ok(())
    }
}

fn result(name: &str, status: &str) -> Block {
    Block::new("nagent-conversation-result").with("conversation", name).with("status", status)
}
