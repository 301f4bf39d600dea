//! The sandbox for a run's commands: built from settings, described to the model, and shown by `--status`.

use std::path::Path;

use super::call::Call;
use crate::problem::Problem;
use crate::sandbox::{SandboxMode, SandboxRequest};
use crate::sys::git;
use crate::sys::sandbox::{Sandbox, SandboxFolders, check_target};

/// Builds the sandbox, if one is wanted. `target`: the true path of the file that the conversation belongs to.
pub(super) fn build(
    call: &Call<'_>,
    toplevel: Option<&Path>,
    target: Option<&Path>,
) -> Result<Option<Sandbox>, Problem> {
    let (folder, settings) = (call.env.current_folder()?, &call.settings);
    let places = SandboxFolders {
        folder: &folder,
        toplevel,
        root: call.root().path(),
        env: &call.env,
        per_file: call.which.file_edit.is_some(),
        config: Some(&settings.config_path),
    };
    let request = SandboxRequest {
        mode: settings.config.sandbox,
        no_network: settings.config.no_network,
        write: settings.write.clone(),
        only_landlock: false,
    };
    // A user may name any file; a model only one that its commands may write.
    if let Some(target) = target.filter(|_| call.delegated) {
        check_target(&request, places, target)
            .map_err(|error| Problem::usage(format!("{error:#}")))?;
    }
    Sandbox::build(&request, places)
        .map_err(|error| Problem::failed(format!("{error:#}{}", origin(call))))
}

/// Names the setting that asks for the sandbox, unless it is a flag: the user may have forgotten it.
fn origin(call: &Call<'_>) -> String {
    let is_off = call.settings.config.sandbox == SandboxMode::Off;
    let from = call.settings.source_of(if is_off { "no_network" } else { "sandbox" });
    if from == "flag" { String::new() } else { format!(" (the sandbox is set by {from})") }
}

pub(super) fn describe(sandbox: &Sandbox) -> String {
    let request = &sandbox.request;
    let folders = sandbox.writable();
    let write = match (request.mode, folders.is_empty()) {
        (SandboxMode::Off, _) => "they can write wherever the user can".to_owned(),
        (_, true) => {
            "they can write only in $TMPDIR, which is removed when the command ends".to_owned()
        }
        (_, false) => format!(
            "they can write only in {}, and there not in the config and hooks of git or in what shells, editors and tools run by themselves",
            folders.join(", ")
        ),
    };
    let network = if request.no_network { "; they have no network" } else { "" };
    let link = sandbox.describe_hard_link().map_or_else(String::new, |link| format!("; {link}"));
    format!("{}: {write}{network}{link}", request.mode.name())
}

pub(super) fn inspect(call: &Call<'_>) -> Result<Option<Sandbox>, Problem> {
    let toplevel = git::find_toplevel(&call.env.current_folder()?);
    build(call, toplevel.as_deref(), None)
}
