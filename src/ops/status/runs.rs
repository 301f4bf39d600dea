//! `nagent-status`: lists the runs that are active below a root, by their notes; waits for one or stops one.
//!
//! Takes no lock: a run that starts at that instant would wait for it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::ops::conversations::Catalog;
use crate::out::{self, Report};
use conversation::exit::Exit;
use conversation::format::numbers::{format_duration, format_tokens};
use conversation::limits::STOP_PATIENCE;
use conversation::problem::Problem;
use sys::clock::{Stopwatch, seconds_since};
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::root::{self, Root};
use sys::run_note::{Liveness, RunEnd, RunNote};
use sys::{fs, lock, messages};

/// The time between two looks at a run that is waited for.
const PAUSE: Duration = Duration::from_millis(20);
/// The time between two looks of `--watch`.
const PACE: Duration = Duration::from_secs(1);

/// A run that has a note.
#[derive(Debug)]
pub struct Run {
    /// Its conversation.
    pub name: String,
    /// The content of its note.
    pub note: RunNote,
    /// Whether it is still running.
    pub life: Liveness,
}

impl Run {
    /// The run with a note on this conversation.
    pub fn read(root: &Root, name: &str) -> Option<Self> {
        let note = RunNote::read(root, name)?;
        Some(Self { name: name.to_owned(), life: note.process.check_liveness(), note })
    }

    /// Whether the run is active, or may be, where this cannot be known.
    pub fn is_active(&self) -> bool {
        self.life != Liveness::Dead
    }
}

/// The runs with a note, by name. Those that were killed are among them.
pub fn list_runs(root: &Root) -> Result<Vec<Run>, Problem> {
    let names = fs::list_names(&root.conversations())?;
    let names = names.iter().filter_map(|name| name.strip_suffix(".run"));
    let names = names.filter(|name| root::check_name(name).is_ok());
    let mut runs: Vec<Run> = names.filter_map(|name| Run::read(root, name)).collect();
    runs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(runs)
}

/// Reports the active runs and those that were killed, by name.
pub fn report_runs(root: &Root) -> Result<Report, Problem> {
    let runs = list_runs(root)?;
    let text: String = runs.iter().map(format_run).collect();
    let text = if text.is_empty() { "no run is active\n".to_owned() } else { text };
    let values: Vec<Value> = runs.iter().map(|run| describe(root, run)).collect();
    Ok(Report::wrapped(&text).with("runs", values))
}

/// Shows what [`report_runs`] reports again and again, in a pipe where it has changed, until a signal comes.
pub fn watch_runs(root: &Root) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    let mut shown = String::new();
    loop {
        let text = report_runs(root)?.text;
        if text != shown && !out::print_page(&text) {
            return Ok(Report::done(""));
        }
        shown = text;
        if let Some(signal) = interrupts.wait_for_signal(Some(PACE)) {
            return Ok(Report { exit: Exit::Signal(signal), ..Report::done("") });
        }
    }
}

/// Waits until the run of a conversation has ended, and ends with its exit code.
pub fn wait_for_run(root: &Root, env: &Env, name: &str) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    let name = find_conversation(root, env, name)?;
    let begun = Run::read(root, &name);
    while begun.as_ref().is_some_and(|begun| is_at_work(root, begun)) {
        if let Some(signal) = interrupts.wait_for_signal(Some(PAUSE)) {
            return Err(Problem::interrupted(signal));
        }
    }
    let is_its = |end: &RunEnd| begun.as_ref().is_none_or(|it| it.note.process == end.process);
    match (RunEnd::read(root, &name).filter(is_its), &begun) {
        (Some(end), _) => Ok(Report { exit: Exit::Command(end.exit_code), ..Report::done("") }
            .with("conversation", name)
            .with("ended", end.ended)),
        (None, Some(begun)) => Err(Problem::failed(format!(
            "the run of {name} (process {}) was killed (no exit code); nagent -c {name} \"go on\" continues it",
            begun.note.process.pid
        ))),
        (None, None) => Err(Problem::failed(format!(
            "no run of {name} is active; the last exit code is unknown"
        ))),
    }
}

/// Stops the run of a conversation as Ctrl-C does, and waits until it is gone.
pub fn stop_run(root: &Root, env: &Env, name: &str) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    let name = find_conversation(root, env, name)?;
    let report = |text: String, is_stopped: bool| {
        Ok(Report::done(text).with("conversation", name.as_str()).with("stopped", is_stopped))
    };
    let Some(run) = Run::read(root, &name).filter(Run::is_active) else {
        return report(format!("no run of {name} is active\n"), false);
    };
    let process = &run.note.process;
    if run.life == Liveness::Elsewhere {
        return Err(Problem::failed(format!(
            "the run of {name} is process {} on {}; stop it there, or in the container that it runs in",
            process.pid, process.host
        )));
    }
    let is_stopped = process.send_interrupt()?;
    let watch = Stopwatch::start();
    while process.check_liveness() == Liveness::Running {
        if watch.elapsed() > STOP_PATIENCE {
            return Err(Problem::failed(format!(
                "process {} did not end within {} s of SIGINT; kill -9 {0} is safe: the conversation is kept",
                process.pid,
                STOP_PATIENCE.as_secs()
            )));
        }
        if let Some(signal) = interrupts.wait_for_signal(Some(PAUSE)) {
            return Err(Problem::interrupted(signal));
        }
    }
    report(format!("stopped {name}\n"), is_stopped)
}

/// Whether the run that was there is still at work on its conversation. For a run on another host, the lock decides.
fn is_at_work(root: &Root, begun: &Run) -> bool {
    let now = RunNote::read(root, &begun.name);
    now.is_some_and(|now| now.process == begun.note.process)
        && match begun.note.process.check_liveness() {
            Liveness::Running => true,
            Liveness::Dead => false,
            Liveness::Elsewhere => lock::is_held(root, &begun.name),
        }
}

/// Finds the conversation of a name or its beginning: one with a run, or any other.
pub fn find_conversation(root: &Root, env: &Env, name: &str) -> Result<String, Problem> {
    root::check_name(name).map_err(Problem::usage)?;
    let is_exact = [root.run_note(name), root.conversation(name)];
    if is_exact.iter().any(|path| fs::exists(path)) {
        return Ok(name.to_owned());
    }
    Catalog::read_indexes(root.clone(), env.clone()).resolve_name(Some(name))
}

/// Formats a run for `nagent-status`.
fn format_run(run: &Run) -> String {
    let Run { name, note, life } = run;
    let activity = &note.activity;
    let process = &note.process;
    let place = match life {
        Liveness::Running => String::new(),
        Liveness::Elsewhere => format!("  process {} on {}", process.pid, process.host),
        Liveness::Dead => {
            return format!(
                "{name}  was killed (process {}, turn {}); nagent -c {name} \"go on\" continues it\n",
                process.pid, activity.turn
            );
        }
    };
    let of = activity.parent.as_ref().map(|parent| format!("  of {parent}")).unwrap_or_default();
    let cost = activity.cost.filter(|cost| *cost > 0.0);
    let cost = cost.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
    let mut text = format!(
        "{name}{of}{place}  turn {}, {}, {} tokens in, {} out{cost}\n",
        activity.turn,
        format_duration(seconds_since(&note.started)),
        format_tokens(activity.tokens_in),
        format_tokens(activity.tokens_out),
    );
    if !activity.action.is_empty() {
        let since = format_duration(seconds_since(&activity.since));
        let action = activity.action.trim_start_matches("nagent-");
        text.push_str(&format!("  {action}, {since}\n"));
    }
    if !activity.last_line.is_empty() {
        text.push_str(&format!("  | {}\n", activity.last_line));
    }
    text
}

/// Describes a run for `--json`.
fn describe(root: &Root, run: &Run) -> Value {
    let Run { name, note, life } = run;
    let activity = &note.activity;
    let waiting = messages::list_ids(root, name).map_or(0, |ids| ids.len());
    json!({
        "conversation": name,
        "conversation_path": root.conversation(name).display().to_string(),
        "parent": activity.parent,
        "state": match life {
            Liveness::Running => "running",
            Liveness::Dead => "killed",
            Liveness::Elsewhere => "elsewhere",
        },
        "host": note.process.host,
        "pid": note.process.pid,
        "started": note.started,
        "seconds": seconds_since(&note.started),
        "cwd": activity.cwd,
        "turn": activity.turn,
        "action": activity.action,
        "action_seconds": seconds_since(&activity.since),
        "tokens_in": activity.tokens_in,
        "tokens_out": activity.tokens_out,
        "cost": activity.cost,
        "last_line": activity.last_line,
        "messages": waiting,
    })
}
