//! The sandbox for a run's commands: built from settings, described to the model, and shown by `--status`.

use std::path::Path;

use super::call::Call;
use crate::ops::files::file_conversation::is_working_copy;
use crate::ops::setup::settings::Settings;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use history::git;
use sandbox::automatic_files::ChangedFiles;
use sandbox::enforce::{Sandbox, SandboxFolders, check_target, default_mode};
use sandbox::{SandboxMode, SandboxRequest};
use sys::names::name_some;

/// Maximum number of changed files that are named at the end of a run.
const MAX_NAMED: usize = 10;

/// Prepares the sandbox, if one is wanted; one that the user asked for is built, too, so that the run is refused where that
/// fails. `target`: the true path of the file that the conversation belongs to. The second value is a note for the user
/// about the default.
pub(crate) fn prepare(
    call: &Call<'_>,
    toplevel: Option<&Path>,
    target: Option<&Path>,
) -> Result<(Option<Sandbox>, Option<String>), Problem> {
    let (folder, settings) = (call.env.current_folder()?, &call.settings);
    let (root, config) = (call.root().path(), Some(&*settings.config_path));
    let places = SandboxFolders { folder: &folder, toplevel, root, env: &call.env, config };
    let (mode, why) = match settings.config.sandbox {
        Some(mode) => (mode, None),
        None => default_mode(places)?,
    };
    let request = sandbox_request(settings, mode);
    // A user may name any file; a model only one that its commands may write.
    let by_model = call.delegated && !target.is_some_and(|target| is_working_copy(call, target));
    if let Some(target) = target.filter(|_| by_model) {
        check_target(&request, places, target)
            .map_err(|error| Problem::usage(format!("{error:#}")))?;
    }
    let sandbox = Sandbox::prepare(&request, places).and_then(|sandbox| {
        let asked_for = sandbox.as_ref().filter(|_| settings.config.sandbox.is_some());
        asked_for.map(Sandbox::mechanism).transpose()?;
        Ok(sandbox)
    });
    let sandbox = sandbox.map_err(|error| Problem::usage(format!("{error:#}{}", origin(call))))?;
    let note = why.map(|why| {
        format!("{why}, so commands write only where --write DIR lets them, and in a scratch folder (sandbox read-only)")
    });
    Ok((sandbox, note))
}

/// The sandbox that settings ask for.
pub(crate) fn sandbox_request(settings: &Settings, mode: SandboxMode) -> SandboxRequest {
    let (no_network, write) = (settings.config.no_network, settings.write.clone());
    SandboxRequest { mode, no_network, write, ..SandboxRequest::default() }
}

/// Names the setting that asks for the sandbox, unless it is a flag: the user may have forgotten it.
fn origin(call: &Call<'_>) -> String {
    match call.settings.source_of("sandbox") {
        "flag" | "default" => String::new(),
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
        format!("they can write only in {folders} and caches, not git's config and hooks")
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
    let (sandbox, _) = prepare(call, toplevel.as_deref(), None)?;
    Ok(sandbox)
}
