//! `nagent-thought`: looks after scripts in plain language: installs them, shows and clears what they remember, edits what
//! they may do.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Parser, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::Tool;
use crate::ops::scripts::thoughts::{self, Desk, PolicyEdit};
use crate::ops::setup::completion;
use crate::out::Report;
use conversation::problem::Problem;
use sandbox::script::policy::Approval;

/// Look after scripts in plain language: install, show, reset them, and edit what they may do
///
/// A script is named by its file, where the name has a / or begins with a dot, or by the name that it was installed under. Its data are in ~/.thinkingscript, or where THINKINGSCRIPT_HOME says.
#[derive(Debug, Clone, Parser)]
pub struct Args {
    #[command(subcommand)]
    verb: ThoughtCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum ThoughtCommand {
    /// List the installed scripts
    #[command(visible_alias = "list")]
    Ls,
    /// Show details of a script
    Info(ScriptArg),
    /// Install a script under its name
    Install {
        /// The script
        #[arg(value_name = "FILE")]
        script: String,
    },
    /// Remove an installed script
    #[command(visible_alias = "remove")]
    Rm {
        /// The name it was installed under
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(completion::scripts))]
        script: String,
        /// Remove its data, too
        #[arg(long, short)]
        force: bool,
    },
    /// Remove its memory.js and workspace
    Reset {
        #[command(flatten)]
        of: ScriptArg,
        /// Remove all its data
        #[arg(long, short)]
        all: bool,
    },
    /// Print where the cache of a script is
    Cache(ScriptArg),
    /// Write a script that can be executed
    Build {
        /// The script
        #[arg(value_name = "IN")]
        input: PathBuf,
        /// The output file
        #[arg(long, short, value_name = "OUT")]
        output: PathBuf,
    },
    /// Manage permissions
    #[command(arg_required_else_help = false)]
    Policy {
        #[command(subcommand)]
        verb: PolicyVerb,
    },
}

#[derive(Debug, Clone, clap::Args)]
struct ScriptArg {
    /// The script: its file or installed name
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(completion::scripts))]
    script: String,
}

#[derive(Debug, Clone, Subcommand)]
enum PolicyVerb {
    /// Print the policy of a script; without one, the global policy
    #[command(visible_alias = "ls")]
    List {
        /// The script: its file or installed name
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        script: Option<String>,
    },
    /// Add an entry
    Add {
        #[command(flatten)]
        entry: PolicyEdit,
        /// For a path: some of rwd (read, write, delete) [default: rwd]
        #[arg(long)]
        mode: Option<String>,
        /// The decision: allow, deny, prompt
        #[arg(long, default_value = "allow", value_parser = Approval::parse)]
        approval: Approval,
    },
    /// Remove the entries for a path, variable or host
    #[command(visible_alias = "rm")]
    Remove {
        #[command(flatten)]
        entry: PolicyEdit,
    },
}

impl Tool for Args {
    const NAME: &'static str = "nagent-thought";
    const DESCRIPTION: &'static str = "Looks after scripts in plain language: nagent-thought ls, info, install, reset, policy. Call it as nagent-thought policy add host NAME HOST to allow a script a host.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-thought install weather.md
  nagent-thought policy add host weather api.example.com
  nagent-thought reset weather

Exit codes: 0 done, 1 failed, 2 wrong usage";

    fn run(self) -> Result<Report, Problem> {
        let desk = Desk::new()?;
        match self.verb {
            ThoughtCommand::Ls => thoughts::list_scripts(&desk),
            ThoughtCommand::Info(of) => thoughts::describe(&desk, &of.script),
            ThoughtCommand::Install { script } => thoughts::install(&desk, &script),
            ThoughtCommand::Rm { script, force } => thoughts::remove(&desk, &script, force),
            ThoughtCommand::Reset { of, all } => thoughts::reset(&desk, &of.script, all),
            ThoughtCommand::Cache(of) => thoughts::print_cache(&desk, &of.script),
            ThoughtCommand::Build { input, output } => thoughts::build(&desk, &input, &output),
            ThoughtCommand::Policy { verb } => match verb {
                PolicyVerb::List { script } => thoughts::list_policy(&desk, script.as_deref()),
                PolicyVerb::Add { entry, mode, approval } => {
                    thoughts::add_entry(&desk, &entry, mode.as_deref(), approval)
                }
                PolicyVerb::Remove { entry } => thoughts::remove_entry(&desk, &entry),
            },
        }
    }
}
