//! Runs a command in the sandbox, for `nagent-sandbox`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::ops::run::sandbox::describe_changed;
use crate::ops::setup::find_root::find_root;
use crate::out::{self, Report};
use conversation::exit::Exit;
use conversation::problem::Problem;
use history::git;
use sandbox::enforce::{Sandbox, SandboxFolders};
use sandbox::{SandboxMode, SandboxRequest};
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::process::job::{Finished, Job, JobOutcome, Output, StartError, Stdin};
use sys::stdin::pipe_stdin;
use sys::{fs, process};

/// Run a command that can write in the working tree and in temp folders, and nowhere else
///
/// The config and hooks of git are read-only. The command cannot read keys and nagent's own folder, reaches no Unix socket of
/// other programs, and has no capabilities and with --no-network no network. At its end stderr names files that changed and
/// that tools run without asking, as settings of shells and editors. Where the sandbox cannot be built, nothing runs. The
/// command's output and exit code pass through.
#[derive(Debug, Clone, clap::Parser)]
pub struct CommandArgs {
    /// Where the command can write: workspace (the working tree and temp folders), or read-only (a scratch folder, its
    /// $TMPDIR)
    #[arg(long, value_name = "MODE", default_value = "workspace", value_parser = SandboxMode::parse)]
    sandbox: SandboxMode,

    /// Give the command no network
    #[arg(long)]
    no_network: bool,

    /// Also let the command write in this folder (can be repeated)
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,

    /// Hide this folder as nagent's own [env: NAGENT_ROOT] [default: ~/.nagent]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Pass this variable to the command although it looks like a credential (can be repeated)
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,

    /// Use only Landlock and seccomp, even where bwrap works
    #[arg(long)]
    only_landlock: bool,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Builds the sandbox and runs the command in it.
pub fn run_sandboxed(args: &CommandArgs) -> Result<Report, Problem> {
    if args.command.is_empty() {
        return Err(Problem::usage("no command given: nagent-sandbox [OPTIONS] COMMAND [ARG…]"));
    }
    let request = SandboxRequest {
        mode: args.sandbox,
        no_network: args.no_network,
        write: args.write.clone(),
        only_landlock: args.only_landlock,
    };
    let env = Env::read();
    let folder = env.current_folder()?;
    let root = find_root(args.root.as_deref(), &env)?.0.folder;
    let toplevel = git::find_toplevel(&fs::real_path(&folder).unwrap_or_else(|| folder.clone()));
    let config = env.get_os("NAGENT_CONFIG").map(PathBuf::from);
    let (toplevel, config) = (toplevel.as_deref(), config.as_deref());
    let places = SandboxFolders { folder: &folder, toplevel, root: &root, env: &env, config };
    let Some(sandbox) = Sandbox::prepare(&request, places)? else {
        return Err(Problem::usage("--sandbox off restricts nothing; run the command directly"));
    };
    run_command(args, &env, &sandbox, &folder)
}

fn run_command(
    args: &CommandArgs,
    env: &Env,
    sandbox: &Sandbox,
    folder: &Path,
) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    pipe_stdin().map_err(|error| Problem::failed(error.to_string()))?;
    let program = args.command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
    let found = env.find_program(&program);
    if !fs::is_executable(&found) {
        let (code, why) = if found.exists() {
            (126, "it is not executable (chmod +x makes it so)")
        } else {
            (127, "it is not found")
        };
        let message = format!("cannot start {program}: {why}");
        return Err(Problem::new(Exit::Command(code), message));
    }
    let variables = env.for_commands(&args.pass_env, &[]);
    let job = || Job {
        stdin: Stdin::Inherited,
        output: Output::Inherited,
        ..Job::new(args.command.clone(), folder.to_owned(), variables.clone())
    };
    let run = |job| process::run(job, &interrupts);
    let outcome = |ran: &Result<Finished, StartError>| Some(ran.as_ref().ok()?.outcome);
    let (mut run, has_run, finished) = sandbox.run(job, run, outcome)?;
    let finished = finished.map_err(|error| Problem::failed(error.to_string()))?;
    for note in run.tidy().into_iter().chain(describe_changed(&sandbox.find_changed())) {
        out::print_line(&format!("nagent-sandbox: {note}"));
    }
    let code = |code: i32| Exit::Command(u8::try_from(code & 0xff).unwrap_or(1));
    let exit = match finished.outcome {
        JobOutcome::Ended { code: number } => code(number),
        JobOutcome::Killed { signal } => code(128_i32.saturating_add(signal)),
        JobOutcome::Interrupted(signal) => Exit::Signal(signal),
        JobOutcome::TimedOut | JobOutcome::TooMuch | JobOutcome::Stopped => Exit::Failed,
    };
    if has_run {
        return Ok(Report { exit, ..Report::done("") });
    }
    Err(Problem::failed(
        "the command did not run, and the output says why; nagent --status -v prints what the sandbox is built with here",
    ))
}
