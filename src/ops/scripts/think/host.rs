//! Connects the scripts of a thought to the machine: its bridges, and its stdout.

use std::rc::Rc;

use anyhow::Result;

use super::thought::Thought;
use crate::drive::script_host::{ScriptHost, ScriptResult};
use crate::ops::run::call::ScriptSetup;
use conversation::context::Section;
use conversation::format::file::Block;
use sandbox::script::bridges::{Bridges, Output};
use sandbox::script::js::wire::End;
use sandbox::script::js_worker::ScriptOutcome;
use sandbox::script::permission::Permissions;
use sandbox::script::thought::context::{ThoughtFacts, sections};
use sandbox::script::thoughts::read_memories;
use sys::env::{self, Env};
use sys::interrupt::Interrupts;
use sys::tty::Tty;

/// The parent's side for the scripts of a thought.
pub(super) fn bridges<'a>(
    thought: &'a Thought,
    env: &'a Env,
    interrupts: &'a Interrupts,
) -> Bridges<'a> {
    let mut permissions =
        Permissions::new(thought.places.clone(), thought.layers.clone(), interrupts);
    permissions.own_file =
        thought.stores_answers.then(|| thought.home.policy_path(Some(&thought.name)));
    permissions.name = Some(thought.name.clone());
    permissions.asker = Tty::open_with_locks(thought.home.folder.join("locks"));
    let (written, screen) = (Rc::clone(&thought.written), &thought.screen);
    permissions.on_question = Box::new(|| screen.spinner.stop());
    let on_output = Box::new(move |output: Output<'_>| match output {
        Output::Console(text) => screen.show_console(text),
        Output::Stdout(text) => {
            screen.spinner.stop();
            written.borrow_mut().write(text);
        }
    });
    let mut bridges = Bridges::new(permissions, env, thought.cwd.clone(), on_output);
    bridges.stdin = Some(thought.input.clone());
    bridges
}

struct ThoughtHost<'a> {
    thought: &'a Thought,
    bridges: Bridges<'a>,
}

/// The parts that a thought provides to the run of its model.
pub(super) struct ThoughtSetup<'a> {
    pub(super) thought: &'a Thought,
    /// The result of memory.js for the model, if it has run.
    pub(super) said: Option<String>,
}

impl ScriptSetup for ThoughtSetup<'_> {
    fn sections(&self) -> Vec<Section> {
        let thought = self.thought;
        let (memories, more_memories) = if thought.temporary.is_some() {
            Default::default()
        } else {
            read_memories(&thought.folder.join("memories"))
        };
        sections(&ThoughtFacts {
            cwd: thought.cwd.display().to_string(),
            folder: thought.folder.display().to_string(),
            memories,
            more_memories,
            host: env::describe_host(),
        })
    }

    fn results(&self) -> Vec<Block> {
        let block = |said| Block::new("nagent-script-result").with("status", "ok").body(said);
        self.said.clone().map(block).into_iter().collect()
    }

    fn make_host<'a>(
        &'a self,
        env: &'a Env,
        interrupts: &'a Interrupts,
    ) -> Box<dyn ScriptHost + 'a> {
        Box::new(ThoughtHost {
            thought: self.thought,
            bridges: bridges(self.thought, env, interrupts),
        })
    }
}

impl ScriptHost for ThoughtHost<'_> {
    fn run_script(&mut self, code: &str) -> Result<ScriptResult> {
        let ran = self.thought.run_code(code.to_owned(), "script", &mut self.bridges)?;
        self.thought.written.borrow_mut().close_line();
        let value = match ran.outcome {
            ScriptOutcome::End(End::Value(value)) => Ok(value.unwrap_or_default()),
            ScriptOutcome::End(End::Exit(code)) => Ok(format!("process.exit({code})")),
            ScriptOutcome::End(End::Threw { message, line }) => {
                let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
                Err(format!("{line}{message}"))
            }
            ScriptOutcome::End(End::Resumed(context)) => Err(format!(
                "agent.resume works only in memory.js; context: {}",
                context.unwrap_or_default()
            )),
            ScriptOutcome::Interrupted(signal) => Err(format!("interrupted by {}", signal.name())),
            ScriptOutcome::Failed(_, why) => Err(why),
        };
        let console = std::mem::take(&mut self.bridges.console);
        Ok(ScriptResult { value, console, seconds: ran.took.as_secs_f64() })
    }

    fn write_stdout(&mut self, text: &str) {
        let mut written = self.thought.written.borrow_mut();
        written.write(text);
        written.close_line();
    }
}
