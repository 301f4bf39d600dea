//! `nagent-mcp list`, `help`, `call` and `keep`.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use serde_json::{Value, json};

use super::{Reached, find_servers, reach, socket_path};
use crate::ops::setup::flags::parse_seconds;
use crate::out::{self, Report};
use conversation::exit::{Exit, Signal};
use conversation::format::harmless::{escape_line, quote_name};
use conversation::format::numbers::format_count;
use conversation::limits::{MCP_CALL, MCP_MESSAGE};
use conversation::problem::Problem;
use history::git;
use mcp::arguments::{check_arguments, describe_tool, list_line, read_arguments};
use mcp::host::{Host, Request, ask};
use mcp::result::format_result;
use sys::atomic_file::AtomicFile;
use sys::courier::{Door, serve_doors};
use sys::env::Env;
use sys::fs;
use sys::input::InputFile;
use sys::interrupt::Interrupts;
use sys::root::Root;

/// Maximum number of tools that are named where the one asked for does not exist.
const NAMED: usize = 30;

/// What the verbs that reach servers work with.
pub(crate) struct World {
    root: Root,
    env: Env,
    interrupts: Interrupts,
}

/// A call.
#[derive(Debug, Clone, clap::Args)]
pub struct CallArgs {
    /// The server
    server: String,
    /// Its tool
    tool: String,
    /// Arguments, as nagent-mcp help shows them; a value @FILE is the text of a file, @- that of stdin
    #[arg(value_name = "NAME=VALUE")]
    words: Vec<String>,
    /// Give arguments as a JSON object; those by name override it
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// Give up after S seconds
    #[arg(long, value_name = "S", value_parser = parse_seconds, default_value_t = MCP_CALL as f64)]
    timeout: f64,
    /// Write pictures and other files to this folder [default: the temporary folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

impl World {
    pub(crate) fn new(root: Root, env: Env) -> Result<Self, Problem> {
        Ok(Self { root, env, interrupts: Interrupts::install()? })
    }

    fn reach(&self, server: Option<&str>) -> Result<Reached, Problem> {
        let (reached, notes) = reach(&self.root, &self.env, server)?;
        for note in notes {
            out::print_tool_line("nagent-mcp", &format!("note: {note}"));
        }
        Ok(reached)
    }

    fn ask(&self, reached: &mut Reached, request: &Request) -> Result<Value, Problem> {
        ask(&mut reached.connection, request, &self.interrupts, &mut |note| out::print_line(note))
    }

    fn list_tools(&self, reached: &mut Reached, server: &str) -> Result<Vec<Value>, Problem> {
        let tools = self.ask(reached, &Request::Tools { server: server.to_owned() })?;
        Ok(tools.as_array().cloned().unwrap_or_default())
    }

    /// Lists the tools of a server, or of all.
    pub(crate) fn list(&self, server: Option<String>) -> Result<Report, Problem> {
        let mut reached = self.reach(server.as_deref())?;
        let is_one = server.is_some();
        let names: Vec<String> = if let Some(server) = server {
            vec![server]
        } else {
            let all = self.ask(&mut reached, &Request::List)?;
            all.as_object().into_iter().flat_map(|all| all.keys().cloned()).collect()
        };
        let (mut text, mut list, mut failed) = (String::new(), Vec::new(), Vec::new());
        for name in names {
            let shown = quote_name(&name);
            match self.list_tools(&mut reached, &name) {
                Ok(tools) => {
                    let count = format_count(tools.len() as u64, "tool");
                    let lines = tools.iter().map(|tool| format!("  {}\n", list_line(tool)));
                    text.push_str(&format!("{shown}: {count}\n{}", lines.collect::<String>()));
                    list.push(json!({ "name": name, "tools": tools }));
                }
                Err(problem) if is_one || matches!(problem.exit, Exit::Signal(_)) => {
                    return Err(problem);
                }
                Err(problem) => {
                    text.push_str(&format!("{shown}: cannot be used\n"));
                    list.push(json!({ "name": name, "error": problem.to_string() }));
                    failed.push(problem.to_string());
                }
            }
        }
        if list.is_empty() {
            text.push_str("no server is configured; nagent-mcp add NAME -- COMMAND adds one");
        }
        let mut report = Report::done(text).with("servers", list);
        if !failed.is_empty() {
            (report.exit, report.error) = (Exit::Failed, Some(failed.join("\n")));
        }
        Ok(report)
    }

    fn find_tool(&self, reached: &mut Reached, server: &str, name: &str) -> Result<Value, Problem> {
        let tools = self.list_tools(reached, server)?;
        let names = tools.iter().filter_map(|tool| tool["name"].as_str());
        let names: Vec<String> = names.take(NAMED).map(quote_name).collect();
        tools.into_iter().find(|tool| tool["name"] == name).ok_or_else(|| {
            let (server, name) = (quote_name(server), quote_name(name));
            Problem::usage(format!("{server} has no tool {name}; it has: {}", names.join(", ")))
        })
    }

    /// Shows what a tool does and takes.
    pub(crate) fn help(&self, server: &str, tool: &str) -> Result<Report, Problem> {
        let mut reached = self.reach(Some(server))?;
        let tool = self.find_tool(&mut reached, server, tool)?;
        Ok(Report::done(describe_tool(server, &tool)).with("tool", tool))
    }

    /// Calls a tool.
    pub(crate) fn call(&self, call: CallArgs) -> Result<Report, Problem> {
        let mut reached = self.reach(Some(&call.server))?;
        let tool = self.find_tool(&mut reached, &call.server, &call.tool)?;
        let schema = &tool["inputSchema"];
        let help =
            format!("nagent-mcp help {} {}", quote_name(&call.server), quote_name(&call.tool));
        let mut read = |path: &str| self.read_file(path);
        let arguments = read_arguments(&call.words, call.arguments.as_deref(), schema, &mut read)
            .map_err(|why| Problem::usage(format!("{why} ({help})")))?;
        let note = check_arguments(&arguments, schema)
            .map_err(|mistakes| Problem::usage(format!("{} ({help})", mistakes.join("; "))))?;
        if let Some(note) = note {
            out::print_tool_line("nagent-mcp", &format!("note: {note}"));
        }
        let CallArgs { server, tool, timeout, .. } = call;
        let request = Request::Call { server: server.clone(), tool, arguments, timeout };
        let result = self.ask(&mut reached, &request)?;
        let temp = || self.env.get_os("TMPDIR").unwrap_or("/tmp".as_ref()).into();
        let folder = call.output.unwrap_or_else(temp);
        let mut store = |ending: &str, bytes: &[u8]| store_file(&folder, ending, bytes);
        let shown = format_result(&result, reached.is_of_run, &mut store)
            .map_err(|why| Problem::failed(format!("{}: {why}", quote_name(&server))))?;
        let report = if shown.is_error {
            Report::failed(Exit::Failed, format!("{}: {}", quote_name(&server), shown.text))
        } else {
            Report::done(shown.text.clone())
        };
        Ok(report
            .with("text", shown.text)
            .with("structured", result.get("structuredContent").cloned())
            .with("files", shown.files))
    }

    fn read_file(&self, path: &str) -> Result<String, String> {
        let input = InputFile::open(Path::new(path), &self.interrupts);
        let input = input.map_err(|problem| problem.to_string())?;
        let text = input.read_text(MCP_MESSAGE as u64).map_err(|error| format!("{error:#}"))?;
        text.ok_or_else(|| format!("{}: no such file", escape_line(path, 200)))
    }

    /// Keeps servers running until a signal comes.
    pub(crate) fn keep(&self, servers: &[String]) -> Result<Report, Problem> {
        let folder = self.env.current_folder()?;
        let toplevel = git::find_toplevel(&folder);
        let (known, _) = find_servers(&self.root, &self.env, &folder, toplevel.as_deref())?;
        let host = Host::start(&self.env, &folder, &known)?;
        self.root.prepare()?;
        fs::create_private_folder(&self.root.path().join("mcp"))?;
        let mut doors = Vec::new();
        for server in servers {
            let connection = host.connect()?;
            let mut reached = Reached { connection, _host: None, is_of_run: false };
            let count = self.list_tools(&mut reached, server)?.len() as u64;
            let path = socket_path(&self.root, server);
            let name = quote_name(server);
            let door = Door::open(&path).map_err(|error| {
                let path = quote_name(&path);
                Problem::failed(format!(
                    "{name} cannot be kept: {path}: {error}; is it kept already?"
                ))
            })?;
            doors.push(door);
            let count = format_count(count, "tool");
            out::print_line(&format!("{name} ({count}) is kept running until Ctrl-C"));
        }
        serve_doors(&doors, host.courier(), &self.interrupts)?;
        match self.interrupts.pending() {
            Some(signal) if signal != Signal::Int => Err(Problem::interrupted(signal)),
            _ => Ok(Report::done("")),
        }
    }
}

/// Writes bytes to a file, by its hash.
fn store_file(folder: &Path, ending: &str, bytes: &[u8]) -> Result<String, String> {
    let path = folder.join(format!("nagent-mcp-{}.{ending}", &fs::sha256(bytes)[..12]));
    AtomicFile::new(&path).without_sync().write(bytes).map_err(|error| format!("{error:#}"))?;
    Ok(path.display().to_string())
}
