//! Reports the changes that a run or an undo made to a file: as a diff on a terminal, as keys in `--json`.

use std::path::Path;

use serde_json::Value;

use crate::ops::run::call::Call;
use crate::out::{self, Report};
use conversation::format::harmless::quote_name;
use conversation::memory::changes::NO_FILE;
use edits::diff::file_diff::{DiffText, diff_contents, diff_name};
use history::git;
use sys::root::Root;
use sys::{fs, terminal};
use view::render::diff_rows;

/// The content of a file at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileVersion {
    /// Its SHA-256; `None`: there was no file.
    pub(crate) sha256: Option<String>,
    /// Its bytes; `None` also where they are no longer stored.
    pub(crate) bytes: Option<Vec<u8>>,
}

impl FileVersion {
    /// The version with these bytes; `None`: there is no file.
    pub(crate) fn from_bytes(bytes: Option<Vec<u8>>) -> Self {
        Self { sha256: bytes.as_deref().map(fs::sha256), bytes }
    }

    /// Its hash as blocks and `--json` show it.
    pub(crate) fn hash_or_none(&self) -> &str {
        self.sha256.as_deref().unwrap_or(NO_FILE)
    }

    /// The version of this hash, with its bytes if they are still in `outputs/`.
    pub(crate) fn read_stored(root: &Root, sha256: Option<&str>) -> Self {
        let bytes = sha256.and_then(|hash| fs::read_stored(&root.outputs_folder(), hash).ok());
        Self { sha256: sha256.map(str::to_owned), bytes }
    }
}

/// A file before and after a change.
#[derive(Debug)]
pub(crate) struct VersionPair<'a> {
    pub(crate) path: &'a Path,
    pub(crate) before: &'a FileVersion,
    pub(crate) after: &'a FileVersion,
}

impl VersionPair<'_> {
    /// The diff; `None` if both are the same.
    pub(crate) fn text_diff(&self) -> Option<DiffText> {
        let (before, after) = (self.before, self.after);
        if before.sha256 == after.sha256 {
            return None;
        }
        let is_stored = |content: &FileVersion| content.sha256.is_some() == content.bytes.is_some();
        if is_stored(before) && is_stored(after) {
            return diff_contents(&self.label(), before.bytes.as_deref(), after.bytes.as_deref());
        }
        let text = format!(
            "{} differs, and one of the two contents is not stored\n",
            quote_name(self.path)
        );
        Some(DiffText { text, is_cut: false })
    }

    /// The name in the diff: below the toplevel of the working folder, or below that folder; complete elsewhere.
    fn label(&self) -> Vec<u8> {
        let here = fs::real_path(Path::new("."));
        let base = here.and_then(|here| git::find_toplevel(&here).or(Some(here)));
        match base.filter(|base| self.path.starts_with(base)) {
            Some(base) => diff_name(self.path, Some(&base)),
            None => self.path.as_os_str().as_encoded_bytes().to_owned(),
        }
    }

    /// Prints the diff to stderr.
    pub(crate) fn print(&self, root: &Root, diff: &DiffText, all: bool) {
        let previous = self.before.sha256.as_ref();
        let previous = previous.map(|hash| fs::output_path(&root.outputs_folder(), hash));
        print_diff(self.path, previous.filter(|path| fs::exists(path)).as_deref(), diff, all);
    }
}

/// Adds the changes of a run to its file to the report, and prints the diff on a terminal, unless that was done when the change
/// was made: `printed` is the last diff that was shown.
pub(crate) fn with_changes(
    call: &Call<'_>,
    path: &Path,
    mut report: Report,
    printed: Option<&str>,
) -> Report {
    if !report.json.contains_key("changed") {
        // The run did not get that far.
        report = report
            .with("before_sha256", Value::Null)
            .with("after_sha256", Value::Null)
            .with("changed", false);
    }
    let version = |key: &str| {
        let hash = report.json.get(key).and_then(Value::as_str);
        FileVersion::read_stored(call.root(), hash.filter(|hash| *hash != NO_FILE))
    };
    let (before, after) = (version("before_sha256"), version("after_sha256"));
    let change = VersionPair { path, before: &before, after: &after };
    let diff = change.text_diff();
    let is_printed = call.shows_progress && (terminal::stderr_is_terminal() || call.args.progress);
    if let Some(diff) = diff.as_ref().filter(|diff| is_printed && printed != Some(&diff.text)) {
        change.print(call.root(), diff, call.args.verbose);
    }
    let is_cut = diff.as_ref().is_some_and(|diff| diff.is_cut);
    report
        .with("source_path", path.display().to_string())
        .with("cleared", call.args.clear)
        .with("diff", diff.map(|diff| diff.text))
        .with("diff_cut", is_cut)
}

/// Writes a diff to stderr, in colour on a terminal, and says how to see all of a long one.
pub(crate) fn print_diff(path: &Path, previous: Option<&Path>, diff: &DiffText, all: bool) {
    let previous = previous.map(quote_name);
    let path = quote_name(path);
    out::print_rows(&diff_rows(&diff.text, diff.is_cut, previous.as_deref(), &path, all));
}
