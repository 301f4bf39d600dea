//! Finds out which conversation a call is about.

use crate::drive;
use crate::ops::conversations::find_continued;
use crate::ops::files::file_conversation;
use crate::ops::run::call::Call;
use conversation::problem::Problem;
use sys::{legacy, root};

/// The call with the name of its conversation.
pub fn with_name(mut call: Call<'_>) -> Result<Call<'_>, Problem> {
    call.name = choose_name(&call)?;
    Ok(call)
}

/// The name: that of the flag, the file's own, a new one for a call from a conversation, the environment's, else this shell's.
fn choose_name(call: &Call<'_>) -> Result<String, Problem> {
    let check = |name: &str, from: &str| {
        root::check_name(name)
            .map_err(|message| {
                Problem::usage(format!(
                    "{from}: {message}; nagent --continue goes on with the last conversation of this folder, \
                     nagent-conversations load PATH with a file"
                ))
            })?;
        if call.parents.iter().any(|parent| parent == name) {
            return Err(Problem::usage(format!(
                "conversation {name} is waiting for this command; leave the name out for a new one"
            )));
        }
        Ok(name.to_owned())
    };
    if let Some(name) = &call.which.conversation {
        return check(name, "--conversation");
    }
    if call.which.new {
        return Ok(new_name());
    }
    if let Some(words) = &call.which.continue_ {
        return check(&find_continued(call.root(), &call.env, words.as_deref())?, "--continue");
    }
    if let Some(path) = &call.which.file_edit {
        let name = file_conversation::find_conversation(call, path)?;
        root::check_name(&name).map_err(Problem::usage)?;
        return Ok(name);
    }
    let named = call.env.get("NAGENT_CONVERSATION").filter(|_| call.which.pid.is_none());
    if let Some(name) = named {
        return check(name, "NAGENT_CONVERSATION");
    }
    if !call.parents.is_empty() {
        return Ok(format!("delegated-{}", uuid::Uuid::new_v4().simple()));
    }
    let own = call.env.shell_conversation(call.which.pid);
    Ok(call.root().shell_conversation(own))
}

/// A name for the conversation of a run with `--new`.
pub fn new_name() -> String {
    format!("new-{}", drive::random_word())
}

/// Moves a conversation that an older tool left in the root itself.
pub fn move_old_conversation(call: &Call<'_>) -> Result<(), Problem> {
    if let Some(old) = legacy::move_old_conversation(call.root(), &call.name)? {
        let new = call.root().conversations();
        call.print_note(&format!("{} was moved to {}", old.display(), new.display()));
    }
    Ok(())
}
