//! The sandbox for a run's commands: built from settings, described to the model, and shown by `--status`.

use std::path::Path;

use super::call::Call;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use history::git;
use sandbox::SandboxRequest;
use sandbox::automatic_files::ChangedFiles;
use sandbox::enforce::{Sandbox, SandboxFolders, check_target};
use sys::names::name_some;

/// Maximum number of changed files that are named at the end of a run.
const MAX_NAMED: usize = 10;

/// Builds the sandbox, if one is wanted. `target`: the true path of the file that the conversation belongs to.
pub(crate) fn build(
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
    match call.settings.source_of("sandbox") {
        "flag" => String::new(),
        "default" => " (no_network needs the sandbox)".to_owned(),
        from => format!(" (the sandbox is set by {from})"),
    }
}

pub(crate) fn describe(sandbox: &Sandbox) -> String {
    let request = &sandbox.request;
    let folders = sandbox.policy().name_writable();
    let write = if folders.is_empty() {
        "they can write only in $TMPDIR, which is removed when the command ends".to_owned()
    } else {
        let folders = folders.join(", ");
        format!("they can write only in {folders}, and there not in the config and hooks of git")
    };
    let network = if request.no_network { "; they have no network" } else { "" };
    format!("{}: {write}{network}", request.mode.name())
}

/// Names the files that changed while commands ran and that tools run without being asked. `None` if there are none.
pub(crate) fn describe_changed(changed: &ChangedFiles) -> Option<String> {
    let names: Vec<String> = changed.paths.iter().map(quote_name).collect();
    let more = "not all of the tree could be searched for files that tools run without asking";
    match (names.is_empty(), changed.is_cut) {
        (true, false) => None,
        (true, true) => Some(more.to_owned()),
        (false, is_cut) => Some(format!(
            "changed or new, and run by tools without asking: {}; check them before you work there{}",
            name_some(&names, MAX_NAMED, ", "),
            if is_cut { format!("; {more}") } else { String::new() }
        )),
    }
}

pub(crate) fn inspect(call: &Call<'_>) -> Result<Option<Sandbox>, Problem> {
    let toplevel = git::find_toplevel(&call.env.current_folder()?);
    build(call, toplevel.as_deref(), None)
}
