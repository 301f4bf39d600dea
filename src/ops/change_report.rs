//! Reports what a run or an undo did to a file: as a diff on a terminal, as keys in `--json`. It writes nothing but lines on
//! stderr.
//!
//! Shared by `nagent --file-edit` and `nagent-file-edit`.

use std::path::Path;

use serde_json::Value;

use super::call::Call;
use crate::diff::file_diff::{DiffText, diff_contents, name_in_tree};
use crate::memory::changes::NO_FILE;
use crate::out::{self, Report, Tint};
use crate::sys::names::shown;
use crate::sys::root::Root;
use crate::sys::{file_index, fs, git, terminal};

/// The most lines of a diff that are printed.
const LINES: usize = 200;

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
    pub(crate) fn stored(root: &Root, sha256: Option<&str>) -> Self {
        let bytes = sha256.and_then(|hash| fs::read_stored(&root.outputs(), hash).ok());
        Self { sha256: sha256.map(str::to_owned), bytes }
    }
}

/// A file before and after a change.
#[derive(Debug)]
pub(crate) struct FileChange<'a> {
    /// The file.
    pub(crate) path: &'a Path,
    /// Before.
    pub(crate) before: &'a FileVersion,
    /// After.
    pub(crate) after: &'a FileVersion,
}

impl FileChange<'_> {
    /// The diff; `None` where both are the same.
    pub(crate) fn text_diff(&self) -> Option<DiffText> {
        let (before, after) = (self.before, self.after);
        if before.sha256 == after.sha256 {
            return None;
        }
        let is_stored = |content: &FileVersion| content.sha256.is_some() == content.bytes.is_some();
        if is_stored(before) && is_stored(after) {
            return diff_contents(
                &name_in_tree(
                    self.path,
                    self.path.parent().and_then(git::find_toplevel).as_deref(),
                ),
                before.bytes.as_deref(),
                after.bytes.as_deref(),
            );
        }
        let text = format!(
            "{} differs, and one of the two contents is no longer stored\n",
            shown(self.path)
        );
        Some(DiffText { text, is_cut: false, removed: None, added: None })
    }

    /// Prints the diff to stderr.
    pub(crate) fn print(&self, root: &Root, diff: &DiffText) {
        let previous = self.before.sha256.as_ref();
        let previous = previous.map(|hash| root.outputs().join(format!("{hash}.txt")));
        print_diff(self.path, previous.filter(|path| fs::exists(path)).as_deref(), diff);
    }
}

/// Adds a diff's keys to a report.
pub(crate) fn with_diff(report: Report, diff: Option<&DiffText>) -> Report {
    report
        .with("diff", diff.map(|diff| diff.text.clone()))
        .with("diff_cut", diff.is_some_and(|diff| diff.is_cut))
}

/// Shows what a run did to its file, and adds it to the report.
pub(super) fn with_changes(call: &Call<'_>, path: &Path, report: Report) -> Report {
    let root = call.root();
    let is_changed = report.json.get("changed").and_then(Value::as_bool).unwrap_or(false);
    let diff = if is_changed {
        let content = |key: &str| {
            let hash = report.json.get(key).and_then(Value::as_str);
            FileVersion::stored(root, hash.filter(|hash| *hash != NO_FILE))
        };
        let (before, after) = (content("before_sha256"), content("after_sha256"));
        let changed = FileChange { path, before: &before, after: &after };
        let diff = changed.text_diff();
        if let Some(diff) = diff.as_ref().filter(|_| !call.quiet && terminal::stderr_is_terminal())
        {
            changed.print(root, diff);
        }
        diff
    } else {
        None
    };
    let report = with_diff(with_file(call, path, report), diff.as_ref());
    if report.json.contains_key("changed") {
        return report;
    }
    // The run did not come so far.
    report
        .with("before_sha256", Value::Null)
        .with("after_sha256", Value::Null)
        .with("changed", false)
}

/// Writes a diff to stderr, in colour where that is a terminal that takes it, and says how to see all of a long one.
pub(crate) fn print_diff(path: &Path, previous: Option<&Path>, diff: &DiffText) {
    let mut lines = diff.text.lines();
    for line in lines.by_ref().take(LINES) {
        let tint = match line.as_bytes() {
            [b'-', b'-', b'-', b' ', ..] | [b'+', b'+', b'+', b' ', ..] => Some(Tint::Name),
            [b'-', ..] => Some(Tint::Removed),
            [b'+', ..] => Some(Tint::Added),
            [b'@', ..] => Some(Tint::Place),
            _ => None,
        };
        out::tinted(line, tint);
    }
    let left = lines.count();
    if left > 0 || diff.is_cut {
        let all = match previous {
            Some(previous) => format!("diff -u {} {}", shown(previous), shown(path)),
            None => format!("{} is all new", shown(path)),
        };
        let more = if diff.is_cut { " and more" } else { "" };
        out::line(&format!("[{left}{more} lines omitted; to see all: {all}]"));
    }
}

/// Adds to a report which file and which conversation it is about.
pub(super) fn with_file(call: &Call<'_>, path: &Path, report: Report) -> Report {
    let root = call.root();
    let name = report
        .json
        .get("conversation_path")
        .and_then(|path| path.as_str()?.rsplit('/').next())
        .unwrap_or(&call.name)
        .to_owned();
    let file_id = file_id(root, &call.name);
    report
        .with("source_path", path.display().to_string())
        .with("file_id", file_id)
        .with("conversation_name", name)
        .with("file_index_path", root.file_index().display().to_string())
        .with("cleared", call.args.clear)
}

/// The id that the index has for the file of a conversation.
pub(crate) fn file_id(root: &Root, conversation: &str) -> Option<String> {
    let index = file_index::load_index(root).ok()?.index;
    let mut entries = index.by_file_id.into_values();
    entries.find(|entry| entry.conversation == conversation).map(|entry| entry.file_id)
}
