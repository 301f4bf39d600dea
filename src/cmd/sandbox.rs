//! `nagent-sandbox`: a command within the walls that nagent puts around its own commands.
//!
//! The same executable is the inner stage, which stands inside the walls and becomes the command.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use crate::cli::Tool;
use crate::exit::Exit;
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::sandbox::plan::Plan;
use crate::sandbox::{Mode, Wanted};
use crate::sys::env::Env;
use crate::sys::interrupt::Interrupts;
use crate::sys::names::expand_home;
use crate::sys::process;
use crate::sys::process::job::{Job, Outcome, Output, StartError, Stdin};
use crate::sys::sandbox::inner::{self, Failed};
use crate::sys::sandbox::{Places, UNSAID, Walls};
use crate::sys::{fs, git};

/// Run a command that can write in the working tree and in temp folders, and nowhere else
///
/// Inside, .git, shell start-up files, and settings of editors and tools that run things are read-only, also when they do not
/// exist yet; keys and nagent's own folder cannot be read; there are no capabilities, no Unix sockets, and with
/// --no-network no network. Where the walls cannot be built, nothing runs. What the command prints, and its exit code,
/// pass through.
#[derive(Debug, Clone, Parser)]
#[command(name = "nagent-sandbox", version, max_term_width = 100)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub struct Args {
    /// Let the command write in the working tree and in temp folders (workspace), in a scratch folder, its $TMPDIR
    /// (read-only), or everywhere (off)
    #[arg(long, value_name = "MODE", default_value = "workspace", value_parser = Mode::parse)]
    sandbox: Mode,

    /// Keep the command off every network
    #[arg(long)]
    no_network: bool,

    /// Let the command write in this folder, too (can be repeated)
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,

    /// Hide this folder as nagent's own, instead of NAGENT_ROOT or ~/.nagent
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Let the command see this variable though its name or value is a credential's (can be repeated)
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,

    /// Use Landlock and seccomp alone, even where bwrap is there
    #[arg(long)]
    only_landlock: bool,

    /// Say what the walls are made of here, and what they leave open
    #[arg(long)]
    status: bool,

    /// With --status: as one JSON document
    #[arg(long)]
    json: bool,

    /// Take the inner stage's plan
    #[arg(long, value_name = "PLAN", hide = true)]
    within: Option<String>,

    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-sandbox";
    const DESCRIPTION: &'static str = "Runs a command that can write in the working tree and in temp folders and nowhere else. Call it as `nagent-sandbox --no-network -- COMMAND ARG…` for code that you do not trust; --sandbox read-only lets it write in $TMPDIR only, --write DIR in a folder more. Its output and exit code are the command's; 1 with a message on stderr: the walls cannot be built, and nothing ran.";

    fn json(&self) -> bool {
        self.json
    }

    fn run(self) -> Result<Report, Problem> {
        match &self.within {
            Some(plan) => within(plan, &self.command),
            None => around(&self),
        }
    }
}

/// The inner stage. It returns only when the command was not started, or none was to be.
fn within(plan: &str, command: &[OsString]) -> Result<Report, Problem> {
    let plan: Plan = serde_json::from_str(plan)
        .map_err(|error| Problem::usage(format!("--within is the inner stage's own: {error}")))?;
    match inner::enter(&plan, command) {
        Ok(built) => Ok(Report::exactly(serde_json::to_string(&built).unwrap_or_default())),
        Err(Failed::Walls(why)) => Err(Problem::failed(why)),
        Err(Failed::Command { found, why }) => {
            Err(Problem::new(Exit::Command(if found { 126 } else { 127 }), why))
        }
    }
}

/// The outer stage: builds the walls, runs the command in them, and removes what was made for it.
fn around(args: &Args) -> Result<Report, Problem> {
    if args.command.is_empty() && !args.status {
        return Err(Problem::usage(
            "there is no command to run: nagent-sandbox [OPTIONS] -- COMMAND [ARG…]",
        ));
    }
    if args.json && !args.status {
        return Err(Problem::usage(
            "--json goes with --status: what a command prints passes through untouched",
        ));
    }
    let wanted =
        Wanted { mode: args.sandbox, no_network: args.no_network, write: args.write.clone() };
    if !wanted.any() && !args.status {
        return Err(Problem::usage(
            "--sandbox off without --no-network has no walls; run the command without this",
        ));
    }
    let env = Env::read();
    let folder = env
        .folder
        .clone()
        .map_err(|error| Problem::usage(format!("cannot tell the working folder: {error}")))?;
    let home = env.home();
    let root = args.root.clone().or_else(|| env.get_os("NAGENT_ROOT").map(PathBuf::from));
    let root =
        root.or_else(|| home.as_ref().map(|home| home.join(".nagent"))).ok_or_else(|| {
            Problem::usage("there is no home folder: set HOME or NAGENT_ROOT, or give --root DIR")
        })?;
    let root = folder.join(expand_home(&root, home.as_deref()));
    let toplevel = git::toplevel(&fs::real_path(&folder).unwrap_or_else(|| folder.clone()));
    let config = env.get_os("NAGENT_CONFIG").map(PathBuf::from);
    let places = Places {
        folder: &folder,
        toplevel: toplevel.as_deref(),
        home: home.as_deref(),
        root: &root,
        tmpdir: env.get_os("TMPDIR"),
        executable: env.executable.as_deref(),
        per_file: false,
        config: config.as_deref(),
    };
    let built = Walls::build_of(&wanted, places, !args.only_landlock);
    let walls = built.map_err(|missing| Problem::failed(missing.0))?;
    if args.status {
        return Ok(status(walls.as_ref()));
    }
    let Some(walls) = walls else { return Err(Problem::usage("there are no walls to build")) };
    run(args, &env, &walls, &folder)
}

fn run(args: &Args, env: &Env, walls: &Walls, folder: &std::path::Path) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()
        .map_err(|error| Problem::failed(format!("cannot catch signals: {error}")))?;
    let walled =
        walls.wrap(args.command.clone(), folder).map_err(|missing| Problem::failed(missing.0))?;
    let mut variables = env.for_commands(&args.pass_env, &[]);
    variables.retain(|(name, _)| !walled.env.iter().any(|(set, _)| set == name));
    variables.extend(walled.env);
    let job = Job {
        stdin: Stdin::Inherited,
        output: Output::Inherited,
        ..Job::new(walled.argv, folder.to_owned(), variables)
    };
    let finished = process::run(job, &interrupts)
        .map_err(|error: StartError| Problem::failed(error.to_string()))?;
    let ended = walled.hold.end();
    for note in &ended.notes {
        out::line(&format!("nagent-sandbox: {note}"));
    }
    let code = |code: i32| Exit::Command(u8::try_from(code & 0xff).unwrap_or(1));
    let exit = match finished.outcome {
        Outcome::Ended { code: number } => code(number),
        Outcome::Killed { signal } => code(128_i32.saturating_add(signal)),
        Outcome::Interrupted(signal) => Exit::Signal(signal),
        Outcome::TimedOut | Outcome::TooMuch | Outcome::Stopped => Exit::Failed,
    };
    if let Some(why) = ended.refused
        && !matches!(exit, Exit::Signal(_))
    {
        if why == UNSAID {
            return Err(Problem::failed(format!(
                "{UNSAID}, and the command did not run; nagent-sandbox --status tells what the walls are made of here"
            )));
        }
        // The inner stage's words stand on stderr already.
        return Ok(Report { exit: Exit::Failed, ..Report::done("") });
    }
    Ok(Report { exit, ..Report::done("") })
}

fn status(walls: Option<&Walls>) -> Report {
    let Some(walls) = walls else {
        return Report::done("off: no walls").with("sandbox", "off").with("no_network", false);
    };
    let materials = walls.materials();
    let wanted = walls.wanted();
    let bwrap = walls.bwrap_version();
    let mut lines = vec![format!("sandbox: {}", wanted.mode.name())];
    lines.push(format!("network: {}", if wanted.no_network { "off" } else { "on" }));
    lines.push(match (&bwrap, &materials.no_bwrap) {
        (Some(version), _) => format!("bwrap: {version}"),
        (None, why) => format!("bwrap: none ({})", why.as_deref().unwrap_or("unknown")),
    });
    lines.push(match materials.landlock {
        0 => "landlock: none".to_owned(),
        version => format!("landlock: version {version}"),
    });
    lines.push("seccomp: on".to_owned());
    lines.extend(walls.writable().iter().map(|folder| format!("writable: {}", folder.display())));
    let gaps = walls.gaps();
    lines.extend(gaps.iter().map(|gap| format!("gap: {gap}")));
    let writable: Vec<String> =
        walls.writable().iter().map(|folder| folder.display().to_string()).collect();
    Report::done(lines.join("\n"))
        .with("sandbox", wanted.mode.name())
        .with("no_network", wanted.no_network)
        .with("kind", walls.kind())
        .with("bwrap", bwrap)
        .with("landlock", materials.landlock)
        .with("seccomp", true)
        .with("writable", writable)
        .with("gaps", gaps)
}
