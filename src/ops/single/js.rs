//! Runs JavaScript in a process without rights, and answers its calls as far as a policy allows it.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use serde_json::Value;

use crate::ops::setup::find_root::find_root;
use crate::ops::setup::flags::{parse_bytes, parse_seconds};
use crate::out::{self, Report};
use conversation::exit::Exit;
use conversation::format::harmless::escape_text;
use conversation::limits;
use conversation::problem::Problem;
use sandbox::script::bridges::{Bridges, Output};
use sandbox::script::js::wire::{End, Start};
use sandbox::script::js_worker::{Failure, Ran, ScriptOutcome, run_script};
use sandbox::script::permission::{Permissions, find_places, read_policy};
use sandbox::script::policy::{Layers, Policy};
use sandbox::script::thoughts::Home;
use sys::env::Env;
use sys::fs;
use sys::input::InputFile;
use sys::interrupt::Interrupts;
use sys::tty::Tty;

/// Run JavaScript that can touch nothing but what a policy or you allow
///
/// The script runs in a process without any rights: no files, no network, no environment, no other processes. What it wants to
/// do it asks for with functions (fs.readFile, net.fetch, env.get, ...: share/doc/nagent/docs/js.md lists them, below the
/// prefix of the installation). Reading the current folder is allowed; everything else is asked at the terminal, or refused where there is none. The value of the last statement goes to
/// stdout, the console to stderr.
#[derive(Debug, Clone, clap::Parser)]
#[command(
    override_usage = "nagent-js [OPTIONS] FILE [ARG]...\n       nagent-js [OPTIONS] -e CODE [ARG]..."
)]
pub struct ScriptArgs {
    /// Run this file; - is stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Run this code
    #[arg(short = 'e', long, value_name = "CODE", conflicts_with = "file")]
    eval: Option<String>,
    /// Decide by this policy, and store answers in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Permissions")]
    policy: Option<PathBuf>,
    /// Also apply this policy, after the first
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Permissions")]
    global: Option<PathBuf>,
    /// End the script after S seconds; questions do not count [default: 30 without a terminal, none with one]
    #[arg(long, value_name = "S", value_parser = parse_seconds, help_heading = "Limits")]
    timeout: Option<f64>,
    /// Let the script use this much memory: bytes, or 256M, 1G
    #[arg(long, value_name = "BYTES", default_value_t = limits::JS_MEMORY,
        value_parser = |text: &str| parse_bytes(text, 1 << 20, 1 << 40), help_heading = "Limits")]
    memory: u64,
    /// Print one JSON document instead of the value
    #[arg(long)]
    json: bool,
    /// The script (- is stdin) where no flag gives it, then what it finds in process.args
    #[arg(last = true, value_name = "FILE ARG", value_hint = ValueHint::FilePath)]
    words: Vec<String>,
}

/// Runs the script, and reports its value or why there is none.
pub fn run_with_policy(request: &ScriptArgs) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    let env = Env::read();
    let start = request.read_script(&env, &interrupts)?;
    let mut bridges = request.build_bridges(&env, &interrupts)?;
    let is_interactive = bridges.permissions.asker.is_some();
    let limit = request.timeout.map(Duration::from_secs_f64);
    let limit = limit.or((!is_interactive).then_some(limits::JS_TIME));
    let ran = run_script(&start, limit, &mut bridges)?;
    Ok(report(&ran, &bridges))
}

impl ScriptArgs {
    fn read_script(&self, env: &Env, interrupts: &Interrupts) -> Result<Start, Problem> {
        let mut args = self.words.clone();
        let cwd = env.current_folder()?;
        let mut file = self.file.clone();
        if self.eval.is_none() && file.is_none() {
            if args.is_empty() {
                return Err(Problem::usage(
                    "no script given: nagent-js FILE, - for stdin, or -e CODE (--help shows all)",
                ));
            }
            file = Some(args.remove(0).into());
        }
        let (code, file, base) = match &file {
            None => (self.eval.clone().unwrap_or_default(), "<eval>".to_owned(), cwd.clone()),
            Some(path) => {
                let input = InputFile::open(path, interrupts)?;
                let text = fs::read_text(input.path(), limits::JS_SOURCE)?
                    .ok_or_else(|| Problem::failed(format!("{}: no such file", path.display())))?;
                let real = fs::real_path(path).filter(|_| !input.is_copy());
                let base =
                    real.as_deref().and_then(|path| path.parent()).unwrap_or(&cwd).to_owned();
                (text, path.display().to_string(), base)
            }
        };
        Ok(Start {
            code: without_shebang(&code),
            file,
            base: base.display().to_string(),
            args,
            cwd: cwd.display().to_string(),
            memory: self.memory,
        })
    }

    fn build_bridges<'a>(
        &self,
        env: &'a Env,
        interrupts: &'a Interrupts,
    ) -> Result<Bridges<'a>, Problem> {
        let cwd = env.current_folder()?;
        let home = Home::from_env(env)?.folder;
        let root = find_root(None, env)?.0.folder;
        let mut places = find_places(&cwd, &home, &root, None, env);
        let files = [&self.policy, &self.global].into_iter().flatten().map(|path| cwd.join(path));
        places.policies = files.map(|path| fs::real_path(&path).unwrap_or(path)).collect();
        let read_layer = |path: &Option<PathBuf>| match path {
            Some(path) => {
                read_policy(&cwd.join(path)).map_err(|error| Problem::usage(format!("{error:#}")))
            }
            None => Ok(Policy::default()),
        };
        let layers = Layers { own: read_layer(&self.policy)?, global: read_layer(&self.global)? };
        let mut permissions = Permissions::new(places, layers, interrupts);
        permissions.own_file = self.policy.as_ref().map(|path| cwd.join(path));
        permissions.asker = Tty::open_with_locks(home.join("locks"));
        let is_quiet = self.json;
        let on_output = Box::new(move |output: Output<'_>| match output {
            Output::Console(text) => out::print_line(text),
            Output::Stdout(text) if !is_quiet => {
                out::print_part(text);
            }
            Output::Stdout(_) => {}
        });
        Ok(Bridges::new(permissions, env, cwd, on_output))
    }
}

/// The code without a first line that is for the kernel; its line stays, so that lines keep their numbers.
fn without_shebang(code: &str) -> String {
    if code.starts_with("#!") { format!("//{code}") } else { code.to_owned() }
}

fn report(ran: &Ran, bridges: &Bridges<'_>) -> Report {
    let mut report = Report::exactly("");
    let (mut value, mut line, mut resumed, mut exit) = (None, None, None, None);
    let mut fail = |code, why: String| (report.exit, report.error) = (code, Some(why));
    match &ran.outcome {
        ScriptOutcome::End(End::Value(text)) => value.clone_from(text),
        ScriptOutcome::End(End::Threw { message, line: at }) => {
            line = *at;
            let at = at.map(|line| format!("line {line}: ")).unwrap_or_default();
            fail(Exit::Failed, format!("{at}{}", escape_text(message)));
        }
        ScriptOutcome::End(End::Resumed(context)) => {
            resumed = Some(context.clone().unwrap_or_default());
        }
        ScriptOutcome::End(End::Exit(number)) => exit = Some(*number),
        ScriptOutcome::Interrupted(signal) => {
            fail(Exit::Signal(*signal), format!("interrupted by {}", signal.name()));
        }
        ScriptOutcome::Failed(failure, why) => match failure {
            Failure::OutOfMemory => fail(Exit::Command(125), format!("{why} (--memory)")),
            Failure::TimedOut => fail(Exit::Command(124), format!("{why} (--timeout)")),
            Failure::Broken => fail(Exit::Failed, why.clone()),
            Failure::Unsafe => fail(
                Exit::Command(126),
                format!("the sandbox for the script cannot be built, so nothing ran: {why}"),
            ),
        },
    }
    if let Some(number) = exit {
        // An exit status has eight bits; a failure must not become 0.
        let code = u8::try_from(number & 0xff).unwrap_or(1);
        report.exit = Exit::Command(if number == 0 { 0 } else { code.max(1) });
    } else if resumed.is_some() {
        report.exit = Exit::Command(10);
    }
    report.text = value.clone().unwrap_or_default();
    let denied = bridges.permissions.denied.iter().cloned().map(Value::from);
    report
        .with("value", value)
        .with("line", line)
        .with("resumed", resumed)
        .with("exit", exit)
        .with("console", bridges.console.clone())
        .with("seconds", (ran.took.as_secs_f64() * 1000.0).round() / 1000.0)
        .with("landlock", ran.landlock)
        .with("denied", denied.collect::<Value>())
}
