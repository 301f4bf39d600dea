//! `nagent-mcp list`, `help`, `call` and `keep`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::find_servers;
use crate::mcp::arguments::{describe_tool, list_line};
use crate::mcp::host::{Host, Request, VARIABLE, ask};
use crate::mcp::result::format_result;
use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::flags::parse_seconds;
use crate::out::{self, Report};
use conversation::exit::{Exit, Signal};
use conversation::format::harmless::quote_name;
use conversation::format::numbers::format_count;
use conversation::limits::MCP_CALL;
use conversation::problem::Problem;
use history::git;
use sys::atomic_file::AtomicFile;
use sys::courier::Connection;
use sys::env::Env;
use sys::fs;
use sys::interrupt::Interrupts;
use sys::root::Root;

/// The surroundings of the verbs that reach servers.
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
    /// Arguments, as nagent-mcp help shows them
    #[arg(value_name = "NAME=VALUE")]
    words: Vec<String>,
    /// Give up after S seconds
    #[arg(long, value_name = "S", value_parser = parse_seconds, default_value_t = MCP_CALL.as_secs_f64())]
    timeout: f64,
}

impl World {
    pub(crate) fn new(root: Root, env: Env) -> Result<Self, Problem> {
        Ok(Self { root, env, interrupts: Interrupts::install()? })
    }

    fn start_host(&self) -> Result<Host, Problem> {
        let folder = self.env.current_folder()?;
        let toplevel = git::find_toplevel(&folder);
        let (servers, note) = find_servers(&self.root, &self.env, &folder, toplevel.as_deref())?;
        if let Some(note) = note {
            out::print_tool_line("nagent-mcp", &format!("note: {note}"));
        }
        Host::start(&self.env, &folder, &servers)
    }

    /// Asks the process of the run that this command is a part of, or the one that keeps this server, or one of its own.
    fn ask(&self, server: Option<&str>, request: &Request) -> Result<Value, Problem> {
        let spinner = Spinner::new(true);
        spinner.start("server");
        let on_note = &mut |note: &str| spinner.print_above(|| out::print_line(note));
        if self.env.get(VARIABLE).is_some() {
            let host = Host::inherited(&self.env).ok_or_else(|| {
                Problem::failed(format!(
                    "the descriptor of {VARIABLE} is closed here: call nagent-mcp from the shell, or from Python with close_fds=False"
                ))
            })?;
            return ask(host.courier().connect()?, request, &self.interrupts, on_note);
        }
        if let Some(kept) = server.and_then(|server| Connection::open(&self.socket_path(server))) {
            return ask(kept, request, &self.interrupts, on_note);
        }
        let host = self.start_host()?;
        ask(host.courier().connect()?, request, &self.interrupts, on_note)
    }

    /// The socket of a server that `nagent-mcp keep` keeps running.
    fn socket_path(&self, server: &str) -> PathBuf {
        let hash = fs::sha256(server.as_bytes());
        self.root.path().join("mcp").join(format!("{}.socket", &hash[..12]))
    }

    /// Lists the tools of a server, or of all.
    pub(crate) fn list(&self, server: Option<String>) -> Result<Report, Problem> {
        let list = self.ask(server.as_deref(), &Request::List(server.clone()))?;
        let (mut text, mut failed) = (String::new(), Vec::new());
        for server in list.as_array().into_iter().flatten() {
            let name = quote_name(server["name"].as_str().unwrap_or_default());
            if let Some(tools) = server["tools"].as_array() {
                let count = format_count(tools.len() as u64, "tool");
                let lines = tools.iter().map(|tool| format!("  {}\n", list_line(tool)));
                text.push_str(&format!("{name}: {count}\n{}", lines.collect::<String>()));
            } else {
                text.push_str(&format!("{name}: cannot be used\n"));
                failed.extend(server["error"].as_str());
            }
        }
        if text.is_empty() {
            text.push_str("no server is configured; nagent-mcp add NAME -- COMMAND adds one");
        }
        let mut report = Report::done(text);
        if !failed.is_empty() {
            (report.exit, report.error) = (Exit::Failed, Some(failed.join("\n")));
        }
        Ok(report.with("servers", list))
    }

    /// Shows what a tool does and takes.
    pub(crate) fn help(&self, server: String, tool: String) -> Result<Report, Problem> {
        let tool = self.ask(Some(&server), &Request::Tool(server.clone(), tool))?;
        Ok(Report::done(describe_tool(&server, &tool)).with("tool", tool))
    }

    /// Calls a tool.
    pub(crate) fn call(&self, call: CallArgs) -> Result<Report, Problem> {
        let CallArgs { server, tool, words, timeout } = call;
        let name = quote_name(&server);
        let request = Request::Call(server.clone(), tool, words, timeout);
        let result = self.ask(Some(&server), &request)?;
        let folder = Path::new(self.env.get_os("TMPDIR").unwrap_or("/tmp".as_ref()));
        let mut store = |ending: &str, bytes: &[u8]| store_file(folder, ending, bytes);
        let is_of_run = self.env.get(VARIABLE).is_some();
        let (text, files) = format_result(&result, is_of_run, &mut store)
            .map_err(|why| Problem::failed(format!("{name}: {why}")))?;
        let report = if result["isError"] == json!(true) {
            Report::failed(Exit::Failed, format!("{name}: {text}"))
        } else {
            Report::done(text.clone())
        };
        let structured = result.get("structuredContent").cloned();
        Ok(report.with("text", text).with("structured", structured).with("files", files))
    }

    /// Keeps servers running until a signal comes.
    pub(crate) fn keep(&self, servers: &[String]) -> Result<Report, Problem> {
        let host = self.start_host()?;
        self.root.prepare()?;
        fs::create_private_folder(&self.root.path().join("mcp"))?;
        for server in servers {
            let (name, socket) = (quote_name(server), self.socket_path(server));
            let request = Request::Keep(server.clone(), socket);
            ask(host.courier().connect()?, &request, &self.interrupts, &mut |_| {})?;
            out::print_line(&format!("{name} is kept running until Ctrl-C"));
        }
        let signal = self.interrupts.wait_for_signal(None);
        for server in servers {
            fs::remove_file(&self.socket_path(server))?;
        }
        match signal {
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
