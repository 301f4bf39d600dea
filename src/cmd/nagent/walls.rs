//! The walls around a run's commands: from settings to walls, in words for the model, and how they stand for `--status`.
//!
//! It decides which folders they are built from, not how.

use std::path::{Path, PathBuf};

use super::Call;
use crate::problem::Problem;
use crate::sandbox::Mode;
use crate::sys::git;
use crate::sys::sandbox::{self, Places, Walls};

impl Call<'_> {
    /// The folders that the user's flags and config let be written in, as they are named there.
    pub(super) fn write_folders(&self) -> Vec<PathBuf> {
        let config = self.settings.config.write.iter().map(PathBuf::from);
        self.args.write.iter().cloned().chain(config).collect()
    }

    /// The walls around commands, if any are wanted. `target`: the file whose conversation it is, by its true path.
    pub(super) fn walls(
        &self,
        folder: &Path,
        toplevel: Option<&Path>,
        write: Vec<PathBuf>,
        target: Option<&Path>,
    ) -> Result<Option<Walls>, Problem> {
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
        let wanted = self.args.walls.wanted(&self.settings, write);
        // Who calls by hand has named the file; a model is bound to what its commands may write.
        if let Some(target) = target.filter(|_| self.delegated) {
            sandbox::permit_target(&wanted, places, target)
                .map_err(|missing| Problem::usage(missing.to_string()))?;
        }
        Walls::build(&wanted, places)
            .map_err(|missing| Problem::failed(format!("{missing}{}", self.asked_by())))
    }

    /// Which setting asks for walls, where it is no flag: the user may not think of it.
    fn asked_by(&self) -> String {
        let mode = self.args.walls.mode(&self.settings);
        let network = self.args.walls.no_network(&self.settings);
        let from = if mode.value == Mode::Off { network.from } else { mode.from };
        if from == "flag" { String::new() } else { format!(" (walls are asked for by {from})") }
    }
}

/// What the walls mean to the model.
pub(super) fn describe(walls: &Walls) -> String {
    let wanted = walls.wanted();
    let folders: Vec<String> =
        walls.writable().iter().map(|path| path.display().to_string()).collect();
    let write = match (wanted.mode, folders.is_empty()) {
        (Mode::Off, _) => "they write where the user may".to_owned(),
        (_, true) => "they write nothing but in $TMPDIR, which goes with the command".to_owned(),
        (_, false) => format!(
            "they write in {} only, there neither in .git nor what shells, editors and tools run by themselves",
            folders.join(", ")
        ),
    };
    let network = if wanted.no_network { "; there is no network" } else { "" };
    format!("sandbox {}: {write}{network}", wanted.mode.name())
}

/// How the walls around commands stand.
pub(super) struct Standing {
    /// A line, and one for each gap or what is missing.
    pub(super) text: String,
    pub(super) mode: Mode,
    pub(super) kind: Option<&'static str>,
    pub(super) writable: Vec<String>,
    pub(super) gaps: Vec<String>,
    pub(super) error: Option<String>,
}

/// What would stand around commands of a run with these settings here.
pub(super) fn standing(call: &Call<'_>) -> Standing {
    let mode = call.args.walls.mode(&call.settings).value;
    let no_network = call.args.walls.no_network(&call.settings).value;
    let folder = call.env.folder.clone().unwrap_or_else(|_| "/".into());
    let toplevel = git::toplevel(&folder);
    let (walls, error) = match call.walls(&folder, toplevel.as_deref(), call.write_folders(), None)
    {
        Ok(walls) => (walls, None),
        Err(problem) => (None, Some(problem.message)),
    };
    let mut text = format!("sandbox:{}", mode.name());
    if no_network {
        text.push_str(" network:off");
    }
    if let Some(walls) = &walls {
        text.push_str(&format!(" by:{}", walls.kind()));
    }
    if let Some(error) = &error {
        text.push_str(&format!("\nsandbox cannot be built: {error}"));
    }
    let gaps = walls.as_ref().map(Walls::gaps).unwrap_or_default();
    for gap in &gaps {
        text.push_str(&format!("\nsandbox gap: {gap}"));
    }
    text.push('\n');
    let writable = walls.as_ref().map(Walls::writable).unwrap_or_default();
    let writable = writable.iter().map(|path| path.display().to_string()).collect();
    Standing { text, mode, kind: walls.as_ref().map(Walls::kind), writable, gaps, error }
}
