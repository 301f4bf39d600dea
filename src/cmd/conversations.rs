//! `nagent-conversations`: lists, shows, renames, removes and checks conversations, and cleans up. Needs no model.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::Tool;
use crate::ops::conversations::list::ListFilter;
use crate::ops::conversations::usage::{self, UsageBy};
use crate::ops::conversations::{Catalog, changes, expand, list, prune, reading, rewind};
use crate::ops::setup::completion;
use crate::ops::setup::find_root::find_root;
use crate::ops::setup::flags::parse_count;
use crate::out::{self, Report};
use conversation::problem::Problem;
use sys::clock;
use sys::env::Env;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-conversations list --search timeout
  nagent-conversations show
  nagent-conversations export log > log.md
  nagent-conversations prune --dry-run

NAME is the name of a conversation or the beginning of one; without it, the
conversation of this shell is meant. Without a command, all are listed.

Exit codes: 0 done, 1 failed, 2 wrong usage";

/// List, show, rename, remove and check conversations, and clean up after them
///
/// Needs no model, no network and no key, and works while runs are active.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<ConversationsCommand>,
    /// Use the conversations in this folder [env: NAGENT_ROOT] [default: ~/.nagent]
    #[arg(long, value_name = "DIR", global = true)]
    root: Option<PathBuf>,
}

/// The task.
#[derive(Debug, Clone, Subcommand)]
enum ConversationsCommand {
    /// List conversations, the newest first
    List {
        /// List those that were given a name, as saved copies are
        #[arg(long)]
        saved: bool,
        /// List those whose last prompt was given in this folder
        #[arg(long)]
        here: bool,
        /// List those whose name, prompts, answers or results contain this text
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
    },
    /// Show prompts, answers, actions and the ends of results
    Show {
        /// The conversation
        #[arg(add = ArgValueCandidates::new(completion::conversations))]
        name: Option<String>,
        /// Show this turn only, with its results whole
        #[arg(long, value_name = "N", value_parser = parse_count)]
        turn: Option<u64>,
        /// Show the last N prompts, answers, actions and results only
        #[arg(long, value_name = "N", conflicts_with = "turn", value_parser = parse_count)]
        last: Option<u64>,
    },
    /// Print the path of the file
    Path {
        /// The conversation
        #[arg(add = ArgValueCandidates::new(completion::conversations))]
        name: Option<String>,
    },
    /// Give a conversation another name
    Rename {
        /// The conversation
        #[arg(add = ArgValueCandidates::new(completion::conversations))]
        name: String,
        /// Its new name
        new: String,
    },
    /// Move conversations into the trash, with those that they started
    ///
    /// The trash is the folder trash beside conversations, in ~/.nagent; mv brings one back. What is older than 30 days is
    /// removed for good by prune.
    Remove {
        /// The conversations
        #[arg(required = true, value_name = "NAME", add = ArgValueCandidates::new(completion::conversations))]
        names: Vec<String>,
    },
    /// Undo a compaction (nagent --compact, or one that a nearly full window caused)
    Expand {
        /// The conversation
        #[arg(add = ArgValueCandidates::new(completion::conversations))]
        name: Option<String>,
    },
    /// Go back to before a turn (the full conversation is archived)
    Rewind {
        /// The conversation
        #[arg(add = ArgValueCandidates::new(completion::conversations))]
        name: Option<String>,
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
    Export {
        /// The conversation
        #[arg(add = ArgValueCandidates::new(completion::conversations))]
        name: Option<String>,
    },
    /// Check the text of a conversation for damage and misspelled tags
    Lint {
        /// The conversation
        #[arg(add = ArgValueCandidates::new(completion::conversations))]
        name: Option<String>,
    },
    /// Sum up turns, tokens and cost
    Usage {
        /// Count turns since then: a day (2026-11-01) or a time span (7d, 12h)
        #[arg(long, value_name = "D", value_parser = parse_since)]
        since: Option<String>,
        /// Group by
        #[arg(long, value_enum, default_value_t)]
        by: UsageBy,
    },
    /// Remove old trash, --new conversations, orphaned children and unused stored files
    Prune {
        /// Remove only what is older than this: 30d, 12h, 2w; a number means days
        #[arg(long, value_name = "D", default_value = "30d", value_parser = parse_span)]
        older: Duration,
        /// Print what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
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
    const DESCRIPTION: &'static str = "Lists, shows, renames and removes conversations. Call it as nagent-conversations VERB: list [--search TEXT] [--here] [--saved], show [NAME] \
        [--turn N|--last N], path [NAME], rename NAME NEW, remove NAME, expand [NAME], rewind [NAME] --turn N [--files], export [NAME], lint [NAME], usage [--since D] \
        [--by model|day|conversation], prune [--older D] [--dry-run]; each with --json. NAME may be the beginning of a \
        name. Exit codes: 0 done, 1 failed, 2 wrong usage.";

    fn run(self) -> Result<Report, Problem> {
        let env = Env::read();
        let root = find_root(self.root.as_deref(), &env)?.0;
        let catalog = Catalog::read_indexes(root.clone(), env);
        for note in &catalog.notes {
            out::print_tool_line(Self::NAME, &format!("note: {note}"));
        }
        let list = ListFilter::default();
        match self.verb {
            None => list::list_conversations(&catalog, &list),
            Some(ConversationsCommand::List { saved, here, search }) => {
                list::list_conversations(&catalog, &ListFilter { saved, here, search })
            }
            Some(ConversationsCommand::Show { name, turn, last }) => {
                let most = last.and_then(|last| usize::try_from(last).ok());
                reading::show_conversation(&catalog, name.as_deref(), turn, most)
            }
            Some(ConversationsCommand::Path { name }) => {
                let path = root
                    .conversation(&catalog.resolve_name(name.as_deref())?)
                    .display()
                    .to_string();
                Ok(Report::done(path.clone()).with("path", path))
            }
            Some(ConversationsCommand::Rename { name, new }) => {
                changes::rename_conversation(&catalog, &name, &new)
            }
            Some(ConversationsCommand::Remove { names }) => {
                changes::remove_conversations(&catalog, &names)
            }
            Some(ConversationsCommand::Expand { name }) => {
                expand::expand_conversation(&catalog, name.as_deref())
            }
            Some(ConversationsCommand::Rewind { name, turn, files }) => {
                rewind::rewind_conversation(&catalog, name.as_deref(), turn, files)
            }
            Some(ConversationsCommand::Export { name }) => {
                reading::export_conversation(&catalog, name.as_deref())
            }
            Some(ConversationsCommand::Lint { name }) => {
                reading::lint_conversation(&catalog, name.as_deref())
            }
            Some(ConversationsCommand::Usage { since, by }) => {
                usage::report_usage(&catalog, since.as_deref(), by)
            }
            Some(ConversationsCommand::Prune { older, dry_run }) => {
                prune::prune(&catalog, older, dry_run)
            }
        }
    }
}
