//! `nagent-message`: leaves a message for the run of a conversation, and says who will read it.

use std::time::Duration;

use super::runs::{self, Run, find_conversation, list_runs};
use crate::out::Report;
use conversation::limits::STOP_PATIENCE;
use conversation::problem::Problem;
use sys::clock::Stopwatch;
use sys::env::{self, Env};
use sys::interrupt::Interrupts;
use sys::root::{self, Root};
use sys::run_note::{Liveness, RunNote};
use sys::{fs, messages};

/// The time between two looks at a run that ends.
const PAUSE: Duration = Duration::from_millis(5);

/// The reader of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageReader {
    /// The run, before its next request.
    Run,
    /// The run, if it is still at work: it is on another host or in another container.
    Elsewhere,
    /// The run has already read it.
    Read,
    /// The next run on the conversation.
    Next,
}

/// Leaves a message. Without a name it is for this shell's conversation, or for the only run that is active.
pub fn send_message(
    root: &Root,
    env: &Env,
    interrupts: &Interrupts,
    name: Option<&str>,
    text: &[u8],
) -> Result<Report, Problem> {
    if env.get(env::PARENTS).is_some() {
        return Err(Problem::usage(
            "commands of a conversation cannot send messages, since they count as the user's words; use nagent \"TASK\"",
        ));
    }
    let name = match name {
        Some(name) => find_conversation(root, env, name)?,
        None => choose_conversation(root, env)?,
    };
    let id = messages::send(root, &name, text).map_err(|error| root::explain_refusal(&error))?;
    let reader = find_reader(root, interrupts, &name, &id)?;
    let path = messages::path_of(root, &name, &id).display().to_string();
    let (text, last_line) = match reader {
        MessageReader::Run => (format!("{name} reads it before its next request\n"), None),
        MessageReader::Elsewhere => (
            format!(
                "{name} will read it if its run is still active (it is on another host or in another container)\n"
            ),
            None,
        ),
        MessageReader::Read => (format!("{name} has read it\n"), None),
        MessageReader::Next => {
            let note = format!(
                "nagent-message: no run is active on {name}; the message will precede the next prompt: nagent -c {name} \"go on\""
            );
            (String::new(), Some(note))
        }
    };
    let state = match reader {
        MessageReader::Run | MessageReader::Elsewhere => "running",
        MessageReader::Read => "read",
        MessageReader::Next => "waiting",
    };
    let report = Report { last_line, ..Report::done(text) };
    Ok(report
        .with("conversation", name.as_str())
        .with("conversation_path", root.conversation(&name).display().to_string())
        .with("message", id)
        .with("message_path", path)
        .with("state", state)
        .with("pending", messages::list_ids(root, &name)?.len()))
}

/// Finds out who reads a message that was just left. A run that is ending may have checked before or after that.
fn find_reader(
    root: &Root,
    interrupts: &Interrupts,
    name: &str,
    id: &str,
) -> Result<MessageReader, Problem> {
    let watch = Stopwatch::start();
    loop {
        let note = RunNote::read(root, name);
        if !fs::exists(&messages::path_of(root, name, id)) {
            return Ok(MessageReader::Read);
        }
        let Some(note) = note else { return Ok(MessageReader::Next) };
        let is_ending = note.activity.is_ending;
        let run = Run { name: name.to_owned(), life: note.process.check_liveness(), note };
        if !run.is_active() {
            return Ok(MessageReader::Next);
        }
        if !is_ending || watch.elapsed() > STOP_PATIENCE {
            let is_elsewhere = run.life == Liveness::Elsewhere;
            return Ok(if is_elsewhere { MessageReader::Elsewhere } else { MessageReader::Run });
        }
        if let Some(signal) = interrupts.wait_for_signal(Some(PAUSE)) {
            return Err(Problem::interrupted(signal));
        }
    }
}

/// The conversation that this shell continues, where a run is at work on it or there is no other; else that of the only run.
fn choose_conversation(root: &Root, env: &Env) -> Result<String, Problem> {
    let own = env.shell_conversation(None);
    root::check_name(&own).map_err(Problem::usage)?;
    let all = list_runs(root)?;
    let active: Vec<&Run> = all.iter().filter(|run| run.is_active()).collect();
    let users: Vec<&Run> =
        active.iter().copied().filter(|run| run.note.activity.parent.is_none()).collect();
    match users.as_slice() {
        _ if active.iter().any(|run| run.name == own) => Ok(own),
        [only] => Ok(only.name.clone()),
        [] if fs::exists(&root.conversation(&own)) => Ok(own),
        [] => Err(Problem::failed(
            "no run is active, and this shell has no conversation yet; --conversation NAME names one (nagent-conversations list \
             shows all)",
        )),
        several => Err(Problem::usage(format!(
            "{}; choose one of them with --conversation NAME",
            runs::describe_names(several)
        ))),
    }
}
