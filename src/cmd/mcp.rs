//! `nagent-mcp`: the tools of MCP servers, as commands.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::cli::Tool;
use crate::ops::mcp::verbs::{CallArgs, World};
use crate::ops::mcp::{NewServer, add_server, set_server};
use crate::ops::setup::find_root::find_root;
use crate::out::Report;
use conversation::problem::Problem;
use sys::env::Env;

/// List and call the tools of MCP servers
///
/// Servers are in ~/.nagent/mcp.json, in the form that Claude Code, Cursor and VS Code share, and in a repository's .mcp.json
/// once you trust it (nagent --trust). They run outside of the sandbox of commands, with your rights. By hand each call starts
/// and ends its server, unless keep runs; a run of nagent starts one at the first call and keeps it. More is in
/// share/doc/nagent/docs/mcp.md, below the prefix of the installation.
#[derive(Debug, Clone, Parser)]
#[command(disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// Use the mcp.json in this folder [env: NAGENT_ROOT] [default: ~/.nagent]
    #[arg(long, value_name = "DIR", global = true)]
    root: Option<PathBuf>,
}

/// The task.
#[derive(Debug, Clone, Subcommand)]
enum Verb {
    /// List servers and their tools, a line each
    List {
        /// This server only
        server: Option<String>,
    },
    /// Show what a tool does, and its arguments
    Help {
        /// The server
        server: String,
        /// Its tool
        tool: String,
    },
    /// Call a tool and print its result: text, and the names of files with pictures and the like
    Call(CallArgs),
    /// Add a server to mcp.json, or replace it
    Add(NewServer),
    /// Remove a server from mcp.json
    Remove {
        /// Its name
        server: String,
    },
    /// Keep servers running for calls by hand, until Ctrl-C
    Keep {
        /// The servers
        #[arg(required = true, value_name = "SERVER")]
        servers: Vec<String>,
    },
}

impl Tool for Args {
    const NAME: &'static str = "nagent-mcp";
    const DESCRIPTION: &'static str = "Lists and calls the tools of MCP servers. Call it as nagent-mcp list [SERVER], \
        nagent-mcp help SERVER TOOL, nagent-mcp call SERVER TOOL NAME=VALUE... [--timeout S], \
        each with --json. Text goes to stdout, pictures to files. Exit codes: 0 done, 1 failed, 2 wrong usage.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  nagent-mcp list files
  nagent-mcp help files read_text_file
  nagent-mcp call files read_text_file path=notes.txt

Exit codes: 0 done, 1 failed, or the server says that the call failed, 2 wrong
usage or configuration, 130 interrupted";

    fn run(self) -> Result<Report, Problem> {
        let env = Env::read();
        let root = find_root(self.root.as_deref(), &env)?.0;
        match self.verb {
            Verb::Add(new) => add_server(&root, &env, &new),
            Verb::Remove { server } => set_server(&root, &env, &server, None),
            Verb::List { server } => World::new(root, env)?.list(server),
            Verb::Help { server, tool } => World::new(root, env)?.help(server, tool),
            Verb::Call(call) => World::new(root, env)?.call(call),
            Verb::Keep { servers } => World::new(root, env)?.keep(&servers),
        }
    }
}
