//! Runs scripts in plain language: `memory.js` first, without a model; then, if that does not do the task, the loop,
//! which leaves a better `memory.js`.

mod agent;
mod host;
mod request;
mod screen;
mod thought;
mod written;

use serde_json::Value;

use self::agent::AgentSettings;
use self::host::{ThoughtSetup, bridges};
use self::thought::{Thought, keeps_data, open_thought};
use crate::ops::conversations::conversation_name::with_name;
use crate::ops::run::call::Call;
use crate::ops::run::run_call;
use crate::ops::setup::flags::{ConversationArgs, RunArgs};
use crate::ops::setup::settings::Settings;
use crate::out::{self, Report};
use conversation::exit::Exit;
use conversation::limits;
use conversation::problem::Problem;
use sandbox::script::js::wire::End;
use sandbox::script::js_worker::ScriptOutcome;
use sandbox::script::thought::context::Resume;
use sandbox::script::thought::script::Script;
use sandbox::script::thoughts::{Home, Origin, is_digest_of};
use std::time::Duration;
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::lock::LockMode;
use sys::{fs, root, stdin};

pub use self::request::ThinkRequest;
pub use self::thought::read_place;

/// Runs a script.
///
/// # Errors
/// It cannot be read or run.
pub fn run_thought(tool: &'static str, request: &ThinkRequest) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    let env = Env::read();
    let home = Home::from_env(&env)?;
    let config = home.read_config()?;
    let is_kept = keeps_data(&env)?;
    let source = read_place(&request.script, &env)?;
    let script = Script::parse(&source.bytes)
        .map_err(|error| Problem::usage(format!("{}: {error}", request.script)))?;
    let input = stdin::read_text(&interrupts)?.map_err(Problem::interrupted)?;
    let thought = open_thought(tool, request, &env, home, (source, input), is_kept, &interrupts)?;
    let patience = Duration::try_from_secs_f64(request.lock_timeout).unwrap_or(Duration::MAX);
    let mut runs_memory = !request.fresh && is_kept;
    let mut resume = (Resume::Unused, thought.read_memory().ok().flatten());
    if runs_memory {
        let _lock =
            thought.home.lock_thought(&thought.name, LockMode::Shared, patience, &interrupts)?;
        match thought.run_memory(&env, &interrupts)? {
            None => return Ok(thought.report(Report::done(""), "memory", None)),
            Some(needed) => resume = needed,
        }
        runs_memory = matches!(resume.0, Resume::First);
    }
    let _lock =
        thought.home.lock_thought(&thought.name, LockMode::Exclusive, patience, &interrupts)?;
    // Another run may have written memory.js while this one waited for the lock.
    if runs_memory && fs::exists(&thought.memory_path()) {
        match thought.run_memory(&env, &interrupts)? {
            None => return Ok(thought.report(Report::done(""), "memory", None)),
            Some(needed) => resume = needed,
        }
    }
    let settings = AgentSettings::resolve(&thought.home, &config, &script, request, &env)?;
    let prompt = thought.prompt(&script, &resume.0);
    let said = resume.0.result_text(resume.1.as_deref(), &thought.written.borrow().excerpt());
    let before = thought.memory_hash();
    let report = thought.run_agent(tool, request, settings, env, interrupts, (prompt, said));
    let is_done = report.as_ref().is_ok_and(|report| report.exit == Exit::Done);
    if is_kept && !thought.note_origin(before.as_deref())? && is_done {
        thought.note_nothing_learnt(tool, request, &resume.0);
    }
    report.map(|report| thought.report(report, "agent", Some(&resume.0)))
}

impl Thought {
    /// Runs memory.js. `None` if it did the task, else the reason why the model is needed, and the code of memory.js.
    fn run_memory(
        &self,
        env: &Env,
        interrupts: &Interrupts,
    ) -> Result<Option<(Resume, Option<String>)>, Problem> {
        let needed = |resume: Resume, code| {
            self.screen.show_resume(&self.name, &resume);
            Ok(Some((resume, code)))
        };
        let code = match self.read_memory() {
            Ok(Some(code)) => code,
            Ok(None) => return needed(Resume::First, None),
            Err(error) => return needed(Resume::Failed(format!("{error:#}")), None),
        };
        if self.has_changed()? {
            return needed(Resume::Changed, Some(code));
        }
        self.screen.begin_memory(&self.name);
        let mut bridges = bridges(self, env, interrupts);
        let ran = self.run_code(code.clone(), "memory.js", &mut bridges)?;
        let resume = match ran.outcome {
            ScriptOutcome::End(End::Value(value)) => {
                self.written.borrow_mut().write(&value.unwrap_or_default());
                self.note_good_run()?;
                return Ok(None);
            }
            ScriptOutcome::End(End::Exit(0)) => {
                self.note_good_run()?;
                return Ok(None);
            }
            ScriptOutcome::End(End::Exit(code)) => Resume::Exited(code),
            ScriptOutcome::End(End::Threw { message, .. }) if bridges.permissions.said_no => {
                return Err(Problem::failed(format!(
                    "memory.js ended: {message}; no model was asked (--fresh asks one)"
                )));
            }
            ScriptOutcome::End(End::Threw { message, line }) => Resume::Threw { message, line },
            ScriptOutcome::End(End::Resumed(context)) => Resume::Asked(context),
            ScriptOutcome::Interrupted(signal) => return Err(Problem::interrupted(signal)),
            ScriptOutcome::Failed(_, why) => Resume::Failed(why),
        };
        self.written.borrow_mut().close_line();
        needed(resume, Some(code))
    }

    /// Says that the next run needs a model, too. A memory.js that asked for this one may have nothing to learn.
    fn note_nothing_learnt(&self, tool: &str, request: &ThinkRequest, why: &Resume) {
        let what = match why {
            Resume::Asked(_) | Resume::Unused if fs::exists(&self.memory_path()) => return,
            Resume::First | Resume::Unused => "left no memory.js",
            _ => "did not change memory.js",
        };
        let note = format!("note: the model {what}, so the next run asks it again");
        if !request.quiet {
            out::print_tool_line(tool, &note);
        }
    }

    /// Whether memory.js was made for another text of the script, and that matters.
    fn has_changed(&self) -> Result<bool, Problem> {
        let made_for = self.home.read_origin(&self.name)?.and_then(|origin| origin.sha256);
        Ok(made_for.is_some_and(|sha256| !is_digest_of(&sha256, &self.source.bytes)))
    }

    /// A memory.js without a recorded script was made for this one: it has just done its task.
    fn note_good_run(&self) -> Result<(), Problem> {
        let origin = self.home.read_origin(&self.name)?;
        if let Some(origin) = origin.filter(|origin| origin.sha256.is_none()) {
            let sha256 = Some(self.source.digest.clone());
            self.home.write_origin(&self.name, &Origin { sha256, ..origin })?;
        }
        Ok(())
    }

    /// Makes the prompt: the script, its input and arguments, and why the model is needed.
    fn prompt(&self, script: &Script, why: &Resume) -> String {
        let (mut text, input) = (script.prompt.clone(), self.input.as_str());
        if input.len() > limits::RESULT_WHOLE {
            let (bytes, head) = (input.len(), &input[..input.floor_char_boundary(2000)]);
            text.push_str(&format!(
                "\n\nStdin: {bytes} bytes; process.stdin.read() returns them. It begins:\n{head}"
            ));
        } else if !input.is_empty() {
            text.push_str(&format!("\n\nStdin:\n{input}"));
        }
        if !self.args.is_empty() {
            let quoted: Vec<String> =
                self.args.iter().map(|arg| Value::from(arg.as_str()).to_string()).collect();
            text.push_str(&format!("\n\nArguments: {}", quoted.join(" ")));
        }
        let has_printed = !self.written.borrow().all.is_empty();
        text.push_str(&format!("\n\n{}", why.prompt_text(has_printed)));
        text
    }

    fn run_agent(
        &self,
        tool: &'static str,
        request: &ThinkRequest,
        settings: AgentSettings,
        mut env: Env,
        interrupts: Interrupts,
        (prompt, said): (String, Option<String>),
    ) -> Result<Report, Problem> {
        let setup = ThoughtSetup { thought: self, said };
        let mut limits = request.limits.clone();
        limits.max_turns = limits.max_turns.or(settings.max_iterations);
        let args = RunArgs {
            prompt: vec![prompt],
            // Stdout is the script's: the answer is in the report.
            json: true,
            quiet: request.quiet,
            model: settings.model.clone(),
            limits,
            lock_timeout: Some(request.lock_timeout),
            ..RunArgs::default()
        };
        let id = uuid::Uuid::new_v4().simple();
        let name = format!("thought-{}-{id}", root::name_part(&self.name));
        let which = ConversationArgs { conversation: Some(name), ..ConversationArgs::default() };
        if let Some((variable, (key, source))) = &settings.key {
            env.set_from(variable, key, source);
        }
        let in_force = Settings::resolve_run(&args, &env)
            .map_err(|problem| settings.explain(problem, &self.home))?
            .for_script(settings.max_tokens);
        let mut call =
            with_name(Call::with_settings(tool, &args, &which, env, interrupts, in_force))?;
        call.scripts = Some(&setup);
        self.screen.begin_agent(&self.name);
        let mut report = run_call(&mut call, false, "")
            .map_err(|problem| settings.explain(problem, &self.home))?;
        let answer = std::mem::take(&mut report.text);
        if !request.quiet && !answer.trim().is_empty() {
            out::print_line(answer.trim_end());
        }
        Ok(report)
    }

    /// The report of a run, with the keys of a script.
    fn report(&self, report: Report, mode: &str, resume: Option<&Resume>) -> Report {
        let written = self.written.borrow();
        let resumed = match resume {
            Some(Resume::Asked(context)) => Some(context.clone().unwrap_or_default()),
            _ => None,
        };
        report
            .with("mode", mode)
            .with("thought", self.name.clone())
            .with("stdout", written.all.clone())
            .with("resumed", resumed)
            .with("denied", written.denied.iter().cloned().map(Value::from).collect::<Value>())
    }
}
