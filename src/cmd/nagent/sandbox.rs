//! The sandbox around a run's commands: from settings to sandbox, in words for the model, and for `--status`.

use std::path::{Path, PathBuf};

use super::Call;
use crate::problem::Problem;
use crate::sandbox::SandboxMode;
use crate::sys::git;
use crate::sys::sandbox::{Places, Sandbox, check_target};

impl Call<'_> {
    /// Returns the folders that flags and config permit to be written in, as they are named there.
    pub(super) fn write_folders(&self) -> Vec<PathBuf> {
        let config = self.settings.config.write.iter().map(PathBuf::from);
        self.args.write.iter().cloned().chain(config).collect()
    }

    /// Builds the sandbox for commands, if one is asked for. `target`: the file whose conversation it is, without links.
    pub(super) fn build_sandbox(
        &self,
        folder: &Path,
        toplevel: Option<&Path>,
        write: Vec<PathBuf>,
        target: Option<&Path>,
    ) -> Result<Option<Sandbox>, Problem> {
        let home = self.env.home();
        let places = Places {
            folder,
            toplevel,
            home: home.as_deref(),
            root: self.settings.root.value.path(),
            tmpdir: self.env.get_os("TMPDIR"),
            executable: self.env.executable.as_deref(),
            per_file: self.args.file_edit.is_some(),
            config: Some(&self.settings.config_path.value),
        };
        let request = self.args.sandbox.request(&self.settings, write);
        // A user who runs the tool has named the file; a model may only name what its commands may write.
        if let Some(target) = target.filter(|_| self.delegated) {
            check_target(&request, places, target)
                .map_err(|error| Problem::usage(error.to_string()))?;
        }
        Sandbox::build(&request, places)
            .map_err(|error| Problem::failed(format!("{error}{}", self.sandbox_source())))
    }

    /// Says which setting asks for the sandbox, if it is not a flag: the user may not think of it.
    fn sandbox_source(&self) -> String {
        let mode = self.args.sandbox.mode(&self.settings);
        let network = self.args.sandbox.no_network(&self.settings);
        let from = if mode.value == SandboxMode::Off { network.from } else { mode.from };
        if from == "flag" { String::new() } else { format!(" (the sandbox is set by {from})") }
    }
}

/// Describes the sandbox to the model.
pub(super) fn describe(sandbox: &Sandbox) -> String {
    let request = sandbox.request();
    let folders: Vec<String> = sandbox.writable().map(|path| path.display().to_string()).collect();
    let write = match (request.mode, folders.is_empty()) {
        (SandboxMode::Off, _) => "they can write wherever the user can".to_owned(),
        (_, true) => {
            "they can write only in $TMPDIR, which is removed when the command ends".to_owned()
        }
        (_, false) => format!(
            "they can write only in {}, and there not in .git or in what shells, editors and tools run by themselves",
            folders.join(", ")
        ),
    };
    let network = if request.no_network { "; they have no network" } else { "" };
    format!("{}: {write}{network}", request.mode.name())
}

/// The sandbox as `--status` reports it.
pub(super) struct SandboxStatus {
    /// One line, and one for each gap or error.
    pub(super) text: String,
    pub(super) mode: SandboxMode,
    pub(super) kind: Option<&'static str>,
    pub(super) writable: Vec<String>,
    pub(super) gaps: Vec<String>,
    pub(super) error: Option<String>,
}

/// Builds the sandbox that a run with these settings would have, and describes it.
pub(super) fn sandbox_status(call: &Call<'_>) -> SandboxStatus {
    let mode = call.args.sandbox.mode(&call.settings).value;
    let no_network = call.args.sandbox.no_network(&call.settings).value;
    let folder = call.env.folder.clone().unwrap_or_else(|_| "/".into());
    let toplevel = git::find_toplevel(&folder);
    let built = call.build_sandbox(&folder, toplevel.as_deref(), call.write_folders(), None);
    let (sandbox, error) = match built {
        Ok(sandbox) => (sandbox, None),
        Err(problem) => (None, Some(problem.message)),
    };
    let mut text = format!("sandbox:{}", mode.name());
    if no_network {
        text.push_str(" network:off");
    }
    if let Some(sandbox) = &sandbox {
        text.push_str(&format!(" by:{}", sandbox.kind()));
    }
    if let Some(error) = &error {
        text.push_str(&format!("\nsandbox cannot be built: {error}"));
    }
    let gaps = sandbox.as_ref().map(Sandbox::gaps).unwrap_or_default();
    for gap in &gaps {
        text.push_str(&format!("\nsandbox gap: {gap}"));
    }
    text.push('\n');
    let writable = sandbox.iter().flat_map(Sandbox::writable);
    let writable = writable.map(|path| path.display().to_string()).collect();
    SandboxStatus { text, mode, kind: sandbox.as_ref().map(Sandbox::kind), writable, gaps, error }
}
