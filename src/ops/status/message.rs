//! `nagent-message`: leaves a message for the run of a conversation, and says who will read it.

use super::runs::{Run, find_conversation, list_runs};
use crate::out::Report;
use conversation::problem::Problem;
use sys::env::{self, Env};
use sys::root::{self, Root};
use sys::run_note::Liveness;
use sys::{fs, messages};

/// Leaves a message. Without a name it is for this shell's conversation, or for the only run that is active.
pub fn send_message(
    root: &Root,
    env: &Env,
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
    let path = messages::path_of(root, &name, &id);
    let run = Run::read(root, &name).filter(Run::is_active);
    let (state, text) = match run {
        _ if !fs::exists(&path) => ("read", format!("{name} has read it\n")),
        Some(run) if run.life == Liveness::Elsewhere => (
            "running",
            format!(
                "{name} will read it if its run is still active (it is on another host or in another container)\n"
            ),
        ),
        Some(_) => ("running", format!("{name} reads it before its next request\n")),
        None => ("waiting", String::new()),
    };
    let last_line = (state == "waiting").then(|| {
        format!(
            "nagent-message: no run is active on {name}; the message will precede the next prompt: nagent -c {name} \"go on\""
        )
    });
    let report = Report { last_line, ..Report::done(text) };
    Ok(report
        .with("conversation", name.as_str())
        .with("conversation_path", root.conversation(&name).display().to_string())
        .with("message", id)
        .with("message_path", path.display().to_string())
        .with("state", state)
        .with("pending", messages::list_ids(root, &name)?.len()))
}

/// The conversation that this shell continues, where a run is at work on it or there is no other; else that of the only run.
fn choose_conversation(root: &Root, env: &Env) -> Result<String, Problem> {
    let own = root.shell_conversation(env.shell_conversation(None));
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
        several => {
            let names: Vec<&str> = several.iter().map(|run| run.name.as_str()).collect();
            Err(Problem::usage(format!(
                "{} runs are active: {}; choose one of them with --conversation NAME",
                names.len(),
                names.join(", ")
            )))
        }
    }
}
