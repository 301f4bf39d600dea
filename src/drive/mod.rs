//! The only loop that touches the world: takes an [`Effect`], has it done, hands back the [`Event`].
//!
//! All rules are in [`crate::turn`]; all system calls are in [`crate::sys`]. This is the switchboard between them.
//! It prints nothing: what a user might like to see goes to an observer ([`Seen`]).

pub mod act;
pub mod child;
pub mod inline;
mod large;
pub mod shell;
pub mod shown;
pub mod target;
pub mod veil;
mod write;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use self::child::Children;
use self::veil::Veil;
use crate::client::retry::random_fraction;
use crate::client::{ModelClient, RequestError};
use crate::exit::Signal;
use crate::format::conversation::Block;
use crate::llm::error::check_window;
use crate::llm::price::{self, Price};
use crate::llm::{ApiError, Ask};
use crate::prompt;
use crate::protocol::{Action, tags};
use crate::sys::boundary::Boundary;
use crate::sys::clock::{self, Stopwatch};
use crate::sys::env::Env;
use crate::sys::fs;
use crate::sys::interrupt::Interrupts;
use crate::sys::journal::{Appended, Journal};
use crate::sys::root::Root;
use crate::sys::sandbox::Walls;
use crate::turn::Turn;
use crate::turn::event::{Acted, Effect, Event, Limits, Outcome};
use crate::turn::unfinished;

/// Something that a user at a terminal might like to see.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// The model has spoken so many bytes of its reply.
    Speaking(u64),
    /// The model's reply is whole, or failed.
    Heard,
    /// An action starts.
    Started(&'a Action),
    /// `--check` starts.
    Checking(&'a str),
    /// An action or `--check` ended, with this result.
    Ended(&'a Block),
    /// A response beside actions.
    Said(&'a str),
    /// A wait before the next try.
    Waiting(Duration, &'a ApiError),
    /// Anything that must not go unsaid.
    Note(&'a str),
}

/// How commands are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRules {
    /// The shell's program.
    pub program: String,
    /// The time limit unless a tag says otherwise.
    pub timeout: Duration,
    /// Names of credentials that are handed to commands all the same.
    pub pass_env: Vec<String>,
}

/// What effects work on.
pub struct World<'a> {
    /// The conversation.
    pub journal: Journal,
    /// The model.
    pub model: ModelClient,
    /// Its id at the provider.
    pub model_id: String,
    /// Its price, when it is known.
    pub price: Option<Price>,
    /// Its window in tokens, when it is known.
    pub window: Option<u64>,
    /// The longest reply in tokens, when it is set.
    pub max_output: Option<u64>,
    /// Where writes may go.
    pub boundary: Boundary,
    /// The target's content when the run began, in a per-file conversation.
    pub before: Option<target::Content>,
    /// Which of the target's changes are the run's own.
    pub own: target::Own,
    /// What the last reply has written so far.
    pub written: shown::Written,
    /// How commands are run.
    pub shell: ShellRules,
    /// The walls around commands, if any.
    pub walls: Option<Walls>,
    /// What of results is masked.
    pub veil: Veil,
    /// The command that an answer must satisfy.
    pub check: Option<String>,
    /// Child conversations, and what they are started with.
    pub children: Children,
    /// The root folder.
    pub root: Root,
    /// The environment.
    pub env: &'a Env,
    /// The run's working folder.
    pub folder: PathBuf,
    /// Signals.
    pub interrupts: &'a Interrupts,
    /// Since the run began.
    pub watch: Stopwatch,
    /// Told what happens.
    pub observe: &'a mut dyn FnMut(Seen<'_>),
}

/// Performs effects until the run is over.
///
/// # Errors
/// The conversation could not be written: nothing can be recorded any more, so nothing more is done.
pub fn run(world: &mut World<'_>, turn: &mut Turn, first: Effect) -> Result<Outcome> {
    let mut effect = first;
    loop {
        let event = match (effect, world.interrupts.pending()) {
            // What is to be kept is kept, signal or not.
            (Effect::Done(outcome), _) => return Ok(outcome),
            (Effect::Append(blocks), _) => world.append(blocks)?,
            (Effect::Keep(text), _) => world.keep(&text)?,
            (Effect::Act(actions), Some(signal)) => Event::Interrupted {
                signal,
                results: actions
                    .iter()
                    .map(|action| unfinished::result_of_unrun(action, "not-run"))
                    .collect(),
            },
            (Effect::Next, Some(signal)) => world.stop_children(signal)?,
            (Effect::Ask | Effect::Wait { .. } | Effect::Say(_) | Effect::Check, Some(signal)) => {
                interrupted(signal)
            }
            (Effect::Ask, None) => {
                world.before_asking();
                let event = world.ask();
                world.after_asking()?;
                event
            }
            (Effect::Wait { time, error }, None) => world.wait(time, &error),
            (Effect::Say(text), None) => {
                (world.observe)(Seen::Said(&text));
                Event::Said
            }
            (Effect::Act(actions), None) => world.act(actions, turn.left())?,
            (Effect::Next, None) => world.next_child()?,
            (Effect::Check, None) => world.run_check(),
        };
        effect = turn.step(event);
    }
}

impl World<'_> {
    /// Appends blocks in one write.
    fn append(&mut self, blocks: Vec<Block>) -> Result<Event> {
        let mut blocks = blocks;
        // Once more for each time that another program changed the file.
        while !blocks.is_empty() {
            let own: Vec<&str> = tags::TAGS.iter().map(|tag| tag.name).collect();
            let mut texts = Vec::with_capacity(blocks.len());
            for block in std::mem::take(&mut blocks) {
                let block = self.veil.block(block);
                texts.push(format_block(&self.with_true_bytes(block)?, &own));
            }
            let old = self.journal.name().to_owned();
            if let Appended::InFork(name) = self.journal.append(&texts.join("\n"))? {
                let note = format!(
                    "conversation {old} was changed by another program while this run was at work on it; \
                     it was left as it is, and the run goes on in {name}"
                );
                (self.observe)(Seen::Note(&note));
                self.children.renamed(&name);
                blocks.push(Block::new("system").body(note));
            }
        }
        Ok(Event::Appended { seconds: self.watch.elapsed().as_secs_f64() })
    }

    /// The block with the path of its true text, where that holds what [`format_block`] replaces.
    fn with_true_bytes(&self, block: Block) -> Result<Block> {
        match &block.body {
            Some(body) if body.contains('\0') && block.get("output").is_none() => {
                let path = fs::keep(&self.root.outputs(), body.as_bytes())?;
                Ok(block.with("output", path.display()))
            }
            _ => Ok(block),
        }
    }

    /// Keeps a reply that did not parse.
    fn keep(&self, text: &str) -> Result<Event> {
        let folder = self.root.invalid(self.journal.name());
        let path = fs::keep_numbered(&folder, text.as_bytes())?;
        Ok(Event::Kept { path: path.display().to_string() })
    }

    fn wait(&mut self, time: Duration, error: &ApiError) -> Event {
        (self.observe)(Seen::Waiting(time, error));
        match clock::sleep_interruptible(time, self.interrupts) {
            Some(signal) => interrupted(signal),
            None => Event::Waited,
        }
    }

    fn ask(&mut self) -> Event {
        self.children.next_reply();
        self.model.note_results(self.journal.pieces());
        let (system, messages) = prompt::messages(self.journal.text(), self.journal.pieces());
        let ask = Ask {
            model: &self.model_id,
            system,
            messages,
            file: None,
            cache_key: Some(self.journal.name()),
            max_output: self.max_output,
            window: self.window,
        };
        if let Some(error) = check_window(ask.text_bytes(), &self.model_id, self.window) {
            return Event::Failed { error, jitter: 0.0 };
        }
        let observe = &mut self.observe;
        let mut bytes = 0;
        let result = self.model.ask(
            &ask,
            &mut |text| {
                bytes += text.len() as u64;
                observe(Seen::Speaking(bytes));
            },
            self.interrupts,
        );
        observe(Seen::Heard);
        for note in self.model.notes.drain(..) {
            observe(Seen::Note(&note));
        }
        match result {
            Ok(reply) => {
                let cost = self.price.as_ref().map(|price| price::cost(price, &reply.usage));
                Event::Replied { reply, cost, at: clock::now() }
            }
            Err(RequestError::Interrupted(signal)) => interrupted(signal),
            Err(RequestError::Api(mut error)) => {
                let message = self.model.explain(&error, &self.model_id);
                error.message = self.veil.text(message).0;
                Event::Failed { error, jitter: random_fraction() }
            }
        }
    }

    fn act(&mut self, actions: Vec<Action>, left: Limits) -> Result<Event> {
        for action in &actions {
            (self.observe)(Seen::Started(action));
        }
        if let [action] = actions.as_slice()
            && !matches!(action, Action::Conversation { .. })
        {
            let (block, signal) = self.run_action(action)?;
            (self.observe)(Seen::Ended(&block));
            return Ok(match signal {
                Some(signal) => Event::Interrupted { signal, results: vec![block] },
                None => Event::Acted(Acted::plain(block)),
            });
        }
        self.start_children(actions, left);
        self.next_child()
    }
}

fn interrupted(signal: Signal) -> Event {
    Event::Interrupted { signal, results: Vec::new() }
}

/// A block as text. The first context's fence comes from its own hash, so that the same context is the same text, and
/// hits the providers' caches, in every conversation. NUL shows as U+FFFD: in the file it would be taken for a file
/// system's zeros after a crash.
pub fn format_block(block: &Block, own: &[&str]) -> String {
    let mut hash = (block.name == "initial_context")
        .then(|| fs::hash(block.body.as_deref().unwrap_or_default().as_bytes())[..12].to_owned());
    let text = block.format(own, &mut || hash.take().unwrap_or_else(fence_word));
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// A random word for a fence.
pub fn fence_word() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..12].to_owned()
}
