//! Which conversation a call is about.

use super::call::Call;
use super::file_conversation;
use crate::problem::Problem;
use crate::sys::{env, root};

/// The name: that of the flag, the file's own, a new one for a call from a conversation, the environment's, else this shell's.
pub fn choose_name(call: &Call<'_>) -> Result<String, Problem> {
    let check = |name: &str, from: &str| {
        root::check_name(name)
            .map_err(|message| Problem::usage(format!("{message} (from {from})")))?;
        if call.parents.iter().any(|parent| parent == name) {
            return Err(Problem::usage(format!(
                "conversation {name} started this command and waits for it; leave the name out for a new one"
            )));
        }
        Ok(name.to_owned())
    };
    if let Some(name) = &call.which.conversation {
        return check(name, "--conversation");
    }
    if let Some(path) = &call.which.file_edit {
        let name = file_conversation::find_conversation(call, path)?;
        root::check_name(&name).map_err(Problem::usage)?;
        return Ok(name);
    }
    if let Some(name) = call.env.get("NAGENT_CONVERSATION") {
        return check(name, "NAGENT_CONVERSATION");
    }
    if !call.parents.is_empty() {
        return Ok(format!("delegated-{}", uuid::Uuid::new_v4().simple()));
    }
    let shell = match &call.which.pid {
        Some(pid) => root::name_part(pid),
        None => call.env.shell_identity(),
    };
    Ok(format!("latest-{}-{shell}", root::name_part(&env::host_name())))
}
