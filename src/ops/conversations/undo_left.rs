//! The files that commands of a run changed and that an undo does not take back, so that it can name them.
//!
//! Without a snapshot only the times of files say what changed while commands ran: files that they removed are not known.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::drive::command_changes::find_changed;
use crate::ops::run::call::Call;
use conversation::format::harmless::quote_name;
use conversation::limits::SNAPSHOT_TIME;
use conversation::memory::changes::{
    CommandsOfRun, FileEvent, RunFileChange, list_changes, list_commands,
};
use conversation::problem::Problem;
use sys::change_log::read_log;
use sys::clock::{self, Stopwatch};
use sys::file_stamp::{TICK, changed_at};
use sys::fs;
use sys::list_dir::walk_unignored;
use sys::names::name_some;
use sys::root::Root;

/// Maximum number of files in a message.
const NAMED: usize = 20;

/// The files of one run that are not taken back, and why.
pub(crate) struct LeftFiles {
    files: Vec<PathBuf>,
    why: String,
}

impl LeftFiles {
    /// The sentence for people.
    pub(crate) fn describe(&self) -> String {
        let Self { files, why } = self;
        let names: Vec<String> = files.iter().map(quote_name).collect();
        match names.as_slice() {
            [] => format!("files that its commands may have removed are not known: {why}"),
            names => format!("not taken back: {} ({why})", name_some(names, NAMED, ", ")),
        }
    }

    /// Whether a file is named, and not only the limits of what is known.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// The object of `--json`.
    pub(crate) fn to_json(&self) -> Value {
        let files: Vec<String> = self.files.iter().map(|path| path.display().to_string()).collect();
        json!({ "files": files, "why": self.why })
    }
}

/// The runs of which it is not known what their commands changed, with the reasons.
pub(crate) fn list_unknown(root: &Root) -> Result<Vec<(String, String)>, Problem> {
    let all = list_commands(&read_log(root)?);
    Ok(all.into_iter().filter(|it| !it.why.is_empty()).map(|it| (it.begun.run, it.why)).collect())
}

/// Finds the files that commands of these runs changed, and of later runs without other changes, and that are not taken
/// back. With no runs: those of the last run.
pub(crate) fn find_left(
    call: &Call<'_>,
    undone: &[RunFileChange],
) -> Result<Vec<LeftFiles>, Problem> {
    if call.which.file_edit.is_some() {
        return Ok(Vec::new());
    }
    let entries = read_log(call.root())?;
    let mut commands = list_commands(&entries);
    let oldest = undone.iter().map(|change| change.at.as_str()).min();
    let writers: HashSet<&str> = entries
        .iter()
        .filter(|entry| matches!(entry.event, FileEvent::Write { .. }))
        .map(|entry| entry.run.as_str())
        .collect();
    let last = commands.iter().rev().find(|it| it.begun.of.contains(&call.name));
    let last = last.map(|it| it.begun.run.clone());
    commands.retain(|it| {
        let run = it.begun.run.as_str();
        let is_later = it.begun.of.contains(&call.name)
            && !writers.contains(run)
            && oldest.map_or(last.as_deref() == Some(run), |oldest| it.begun.at.as_str() >= oldest);
        is_later || undone.iter().any(|change| change.run == run)
    });
    let all = list_changes(&entries);
    let mut left = Vec::new();
    for of in commands {
        let is_known = |path: &Path| {
            all.iter().any(|it| it.run == of.begun.run && Path::new(&it.path) == path)
        };
        let is_chosen = undone.iter().any(|change| change.run == of.begun.run);
        let mut found = find_files(call, &of);
        found.files.retain(|path| !is_known(path));
        found.files.sort();
        // Of a folder that is not a working tree, what was removed is not known either.
        if found.has_files() || is_chosen && !of.why.is_empty() {
            left.push(found);
        }
    }
    Ok(left)
}

fn find_files(call: &Call<'_>, of: &CommandsOfRun) -> LeftFiles {
    let top = Path::new(&of.begun.path);
    let (from, to) = (of.time.0, of.time.1);
    if of.why.is_empty() {
        let Some(_) = to else {
            let changed = find_changed(top, &of.tree, call.root(), &call.interrupts);
            let why = "the run was killed before it could record what its commands changed";
            return match changed {
                Ok(files) => LeftFiles { files, why: why.to_owned() },
                Err(error) => LeftFiles {
                    files: find_by_time(call, top, [from, u64::MAX]),
                    why: format!("{why}; {}", error.why),
                },
            };
        };
        let why = "something else changed it, too, or it is not a plain file".to_owned();
        return LeftFiles { files: of.left.iter().map(PathBuf::from).collect(), why };
    }
    let files = find_by_time(call, top, [from, to.unwrap_or(u64::MAX)]);
    LeftFiles { files, why: format!("known only by their times: {}", of.why) }
}

/// The files that were last changed in this time, as far as they are found in two seconds.
fn find_by_time(call: &Call<'_>, folder: &Path, [from, to]: [u64; 2]) -> Vec<PathBuf> {
    let (from, to) =
        (Duration::from_nanos(from), Duration::from_nanos(to).min(clock::since_epoch()));
    let (watch, mut files) = (Stopwatch::start(), Vec::new());
    let hidden: Vec<PathBuf> = fs::real_path(call.root().path()).into_iter().collect();
    _ = walk_unignored(folder, &hidden, &mut |path, _| {
        let is_in = |at: Duration| at + TICK > from && at <= to;
        if changed_at(path).is_some_and(is_in) && !fs::is_folder(path) {
            files.push(path.to_owned());
        }
        if watch.elapsed() > SNAPSHOT_TIME { Err(()) } else { Ok(()) }
    });
    files
}
