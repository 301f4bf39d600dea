//! `nagent-conversations`: lists, shows, copies and removes conversations, and cleans up. Some of its verbs
//! are flags of `nagent`, which it calls.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

use crate::cli::Tool;
use crate::drive::nagent_child::flag_word;
use crate::ops::conversations::list::ListFilter;
use crate::ops::conversations::usage::{self, UsageBy};
use crate::ops::conversations::{Catalog, changes, list, prune, reading, rewind};
use crate::ops::setup::completion;
use crate::ops::setup::find_root::find_root;
use crate::ops::setup::flags::parse_count;
use crate::out::{self, Report};
use conversation::problem::Problem;
use sys::clock;
use sys::env::Env;
use sys::root::Root;

/// List, show, copy, shorten and remove conversations, and clean up after them
///
/// Only compact, summarize and edit ask a model. All else needs no network and no key, and works while runs are active.
#[derive(Debug, Clone, Parser)]
#[command(disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Use the conversations in this folder [env: NAGENT_ROOT] [default: ~/.nagent]
    #[arg(long, value_name = "DIR", global = true)]
    root: Option<PathBuf>,
}

/// The task.
#[derive(Debug, Clone, Subcommand)]
enum Verb {
    /// List conversations, on a terminal the newest last
    List(ListFilter),
    /// Show prompts, answers, actions and the ends of results
    Show {
        #[command(flatten)]
        of: Name,
        /// Show this turn only, with its results whole
        #[arg(long, value_name = "N", value_parser = parse_count)]
        turn: Option<u64>,
        /// Show the last N prompts, answers, actions and results only
        #[arg(long, value_name = "N", conflicts_with = "turn", value_parser = parse_count)]
        last: Option<u64>,
    },
    /// Print the path of the file
    Path(Name),
    /// Move conversations into the trash, with those that they started
    ///
    /// The trash is the folder trash beside conversations, in ~/.nagent; mv brings one back. What is older than 30 days is
    /// removed for good by prune.
    Remove {
        /// The conversations
        #[arg(required = true, value_name = "NAME", add = ArgValueCompleter::new(completion::conversations))]
        names: Vec<String>,
    },
    /// Save a copy of a conversation under this name
    Save {
        /// The name of the copy
        new: String,
        #[command(flatten)]
        of: Name,
    },
    /// Archive this shell's conversation and continue from a copy of a saved one
    Load {
        /// The saved conversation, by name or path
        #[arg(add = ArgValueCompleter::new(completion::conversations))]
        name: String,
        /// The conversation that is archived and continues from the copy, instead of this shell's
        #[arg(add = ArgValueCompleter::new(completion::conversations))]
        into: Option<String>,
    },
    /// Archive this shell's conversation and continue from a copy of any other
    Branch {
        /// The conversation
        #[arg(add = ArgValueCompleter::new(completion::conversations))]
        name: String,
        /// The conversation that is archived and continues from the copy, instead of this shell's
        #[arg(add = ArgValueCompleter::new(completion::conversations))]
        into: Option<String>,
    },
    /// Archive a conversation and start a new one under its name
    Clear(Name),
    /// Make a conversation shorter: a checkpoint takes the place of its older turns, which are archived
    Compact {
        #[command(flatten)]
        of: Name,
        #[command(flatten)]
        model: ModelChoice,
    },
    /// Print a summary of a conversation, and append nothing to it
    Summarize {
        #[command(flatten)]
        of: Name,
        #[command(flatten)]
        model: ModelChoice,
    },
    /// Let the model edit a copy of this shell's conversation, then continue from that copy
    Edit {
        /// The change, in words
        #[arg(required = true, value_name = "PROMPT")]
        prompt: Vec<String>,
        #[command(flatten)]
        model: ModelChoice,
    },
    /// List the files that have conversations of their own
    Files,
    /// Go back to before a turn (the full conversation is archived)
    Rewind {
        #[command(flatten)]
        of: Name,
        /// The turn, as nagent-conversations show numbers them
        #[arg(long, value_name = "N", value_parser = parse_count)]
        turn: u64,
        /// Undo the runs since then as nagent --undo does, all files or none
        #[arg(long)]
        files: bool,
    },
    /// Print a conversation as Markdown
    ///
    /// An answer stays what it is: its headings, HTML and pictures are shown as such.
    Export(Name),
    /// Sum up turns, tokens and cost
    Usage {
        /// Count turns since then: a day (2026-11-01) or a time span (7d, 12h)
        #[arg(long, value_name = "D", value_parser = parse_since)]
        since: Option<String>,
        /// Group by
        #[arg(long, value_enum, default_value_t)]
        by: UsageBy,
    },
    /// Remove old trash, --new conversations, children and unused stored files
    Prune {
        /// Remove only what is older than this: 30d, 12h, 2w; a number means days
        #[arg(long, value_name = "D", default_value = "30d", value_parser = parse_span)]
        older: Duration,
        /// Print what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// The conversation of a verb.
#[derive(Debug, Clone, clap::Args)]
struct Name {
    /// The conversation
    #[arg(add = ArgValueCompleter::new(completion::conversations))]
    name: Option<String>,
}

/// The model of a verb that asks one.
#[derive(Debug, Clone, clap::Args)]
struct ModelChoice {
    /// Use this provider
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::providers))]
    provider: Option<String>,
    /// Use this model
    #[arg(long, short, value_name = "ID", add = ArgValueCandidates::new(completion::models))]
    model: Option<String>,
    /// Use this config file instead of config.json in the root
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use this profile of the config
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

/// Runs `nagent` with its own flags: `words` on the conversation of this name, or on this shell's.
fn run_nagent(
    root: &Root,
    name: Option<String>,
    words: &[&str],
    model: Option<ModelChoice>,
) -> Result<Report, Problem> {
    let root = Some(root.path().as_os_str().to_owned());
    let mut pairs = vec![("root", root), ("conversation", name.map(OsString::from))];
    if let Some(model) = model {
        pairs.push(("provider", model.provider.map(OsString::from)));
        pairs.push(("model", model.model.map(OsString::from)));
        pairs.push(("config", model.config.map(PathBuf::into_os_string)));
        pairs.push(("profile", model.profile.map(OsString::from)));
    }
    let given = pairs.into_iter().filter_map(|(flag, value)| Some(flag_word(flag, value?)));
    let words = words.iter().map(OsString::from);
    let words = [OsString::from(super::nagent::Args::NAME)].into_iter().chain(given).chain(words);
    super::nagent::Args::try_parse_from(words)
        .map_err(|error| Problem::usage(error.to_string()))?
        .run_commands()
}

/// A span of time; a bare number means days.
fn parse_span(text: &str) -> Result<Duration, String> {
    let days = text.parse::<u32>().ok().map(|days| format!("{days}d"));
    humantime::parse_duration(days.as_deref().unwrap_or(text))
        .map_err(|_| "give a span of time such as 30d, 12h or 2w".to_owned())
}

/// A time in RFC 3339: of a day, a time, or a span before now.
fn parse_since(text: &str) -> Result<String, String> {
    if let Ok(span) = parse_span(text) {
        return Ok(clock::format_time(clock::since_epoch().saturating_sub(span)));
    }
    let midnight = format!("{text}T00:00:00Z");
    [text, &midnight]
        .into_iter()
        .find(|text| humantime::parse_rfc3339(text).is_ok())
        .map(str::to_owned)
        .ok_or_else(|| "give a day such as 2026-11-01, or a span of time such as 7d".to_owned())
}

impl Tool for Args {
    const NAME: &'static str = "nagent-conversations";
    const DESCRIPTION: &'static str = "Lists, shows and removes conversations. Call it as nagent-conversations VERB: list [-n N] [--search TEXT] [--here] [--saved] [--all], show [NAME] \
        [--turn N|--last N], path [NAME], remove NAME, rewind [NAME] --turn N [--files], export [NAME], usage [--since D] \
        [--by model|day|conversation], save NEW [NAME], load NAME [INTO], branch NAME [INTO], clear [NAME], compact [NAME], \
        summarize [NAME], edit PROMPT, files, prune [--older D] [--dry-run]; each with --json. NAME may be the beginning of a \
        name. Exit codes: 0 done, 1 failed, 2 wrong usage.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-conversations list --search timeout
  nagent-conversations show
  nagent-conversations export log > log.md
  nagent-conversations prune --dry-run

NAME is the name of a conversation or the beginning of one; without it, the
conversation of this shell is meant. Without a command, they are listed.

Exit codes: 0 done, 1 failed, 2 wrong usage";

    fn run(self) -> Result<Report, Problem> {
        let env = Env::read();
        let root = find_root(self.root.as_deref(), &env)?.0;
        let catalog = Catalog::read_indexes(root.clone(), env);
        out::print_notes(Self::NAME, &catalog.notes);
        let resolve =
            |name: Option<String>| name.map(|name| catalog.resolve_name(Some(&name))).transpose();
        let list = Verb::List(ListFilter::default());
        let run =
            |name: Option<String>, words: &[&str], model| run_nagent(&root, name, words, model);
        match self.verb.unwrap_or(list) {
            Verb::List(filter) => list::list_conversations(&catalog, &filter),
            Verb::Save { new, of } => run(resolve(of.name)?, &["--save-conversation", &new], None),
            Verb::Load { name, into } => run(into, &["--load-conversation", &name], None),
            Verb::Branch { name, into } => run(into, &["--branch-conversation", &name], None),
            Verb::Clear(of) => run(resolve(of.name)?, &["--clear"], None),
            Verb::Compact { of, model } => run(resolve(of.name)?, &["--compact"], Some(model)),
            Verb::Summarize { of, model } => run(resolve(of.name)?, &["--summarize"], Some(model)),
            Verb::Edit { prompt, model } => {
                let words = ["--edit-conversation", "--", &prompt.join(" ")];
                run(None, &words, Some(model))
            }
            Verb::Files => run(None, &["--list-file-edits"], None),
            Verb::Show { of, turn, last } => {
                let most = last.and_then(|last| usize::try_from(last).ok());
                reading::show_conversation(&catalog, of.name.as_deref(), turn, most)
            }
            Verb::Path(of) => {
                let path = root.conversation(&catalog.resolve_name(of.name.as_deref())?);
                Ok(Report::keyed("path", path.display().to_string()))
            }
            Verb::Remove { names } => changes::remove_conversations(&catalog, &names),
            Verb::Rewind { of, turn, files } => {
                rewind::rewind_conversation(&catalog, of.name.as_deref(), turn, files)
            }
            Verb::Export(of) => reading::export_conversation(&catalog, of.name.as_deref()),
            Verb::Usage { since, by } => usage::report_usage(&catalog, since.as_deref(), by),
            Verb::Prune { older, dry_run } => prune::prune(&catalog, older, dry_run),
        }
    }
}
