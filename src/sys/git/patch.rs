//! What one commit did to one file, as a unified diff, and what it says of itself. Both are read anew from the
//! repository, by ids that [`super::history()`] gave; libgit2 makes the lines, no program and no filter is started.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::{DiffOptions, ObjectType, Oid, Patch};

use super::super::names::shown;
use super::objects::{Entry, Objects, open};
use crate::history::object;
use crate::history::{Change, Touch};

/// The largest content that is compared, in bytes.
const COMPARED: usize = 8 << 20;

/// What a commit did to the file: a unified diff against its first parent, with the old path where it was renamed. At
/// most `limit` bytes of it, and then a line that says that it was cut. Binary content is said to be binary. Bytes that
/// are no UTF-8 are U+FFFD; names are shown as a shell takes them.
///
/// # Errors
/// The repository or an object of it cannot be read.
pub fn patch(toplevel: &Path, touch: &Touch, limit: usize) -> Result<String, String> {
    let repository = open(toplevel)?;
    let objects = Objects::new(&repository)?;
    let commit = objects.commit(id(&touch.id)?)?;
    let old_path = match &touch.change {
        Change::Renamed { from } => from,
        _ => &touch.path,
    };
    let new = objects.entry(commit.tree, &touch.path)?;
    let old = match commit.parents.first() {
        None => None,
        Some(parent) => objects.entry(objects.commit(*parent)?.tree, old_path)?,
    };
    let text = header(old, old_path, new, &touch.path) + &body(&objects, old, new)?;
    Ok(cut(text, limit))
}

/// The whole message of a commit, at most `limit` bytes of it and then a line that says that it was cut.
///
/// # Errors
/// The repository or the commit cannot be read.
pub fn message(toplevel: &Path, commit: &str, limit: usize) -> Result<String, String> {
    let repository = open(toplevel)?;
    let objects = Objects::new(&repository)?;
    let object = objects.read(id(commit)?, ObjectType::Commit)?;
    let raw = object::commit(object.data()).unwrap_or_default();
    let text = object::decoded(raw.message, raw.encoding);
    Ok(cut(format!("{}\n", text.trim_matches('\n')), limit))
}

fn id(text: &str) -> Result<Oid, String> {
    Oid::from_str(text).map_err(|error| format!("no id of a commit: {}", error.message()))
}

/// The lines above the first hunk.
fn header(old: Option<Entry>, old_path: &[u8], new: Option<Entry>, path: &[u8]) -> String {
    let name =
        |prefix: &str, path: &[u8]| shown(OsStr::from_bytes(&[prefix.as_bytes(), path].concat()));
    let (a, b) = (name("a/", old_path), name("b/", path));
    let mut text = format!("diff --git {a} {b}\n");
    match (old, new) {
        (None, Some(new)) => text += &format!("new file mode {:06o}\n", new.mode),
        (Some(old), None) => text += &format!("deleted file mode {:06o}\n", old.mode),
        (Some(old), Some(new)) if old.mode != new.mode => {
            text += &format!("old mode {:06o}\nnew mode {:06o}\n", old.mode, new.mode);
        }
        _ => {}
    }
    if old_path != path {
        text += &format!("rename from {}\nrename to {}\n", name("", old_path), name("", path));
    }
    if old.map(|entry| entry.id) != new.map(|entry| entry.id) {
        let side = |entry: Option<Entry>, name: String| entry.map_or("/dev/null".into(), |_| name);
        text += &format!("--- {}\n+++ {}\n", side(old, a), side(new, b));
    }
    text
}

/// The hunks, or one line that says why there are none.
fn body(objects: &Objects, old: Option<Entry>, new: Option<Entry>) -> Result<String, String> {
    if old.map(|entry| entry.id) == new.map(|entry| entry.id) {
        return Ok(String::new());
    }
    let mut contents = Vec::new();
    for entry in [old, new] {
        contents.push(match entry {
            None => Vec::new(),
            Some(entry) if entry.is_submodule() => format!("submodule {}\n", entry.id).into_bytes(),
            Some(entry) => {
                let size = objects.size(entry.id)?;
                if size > COMPARED {
                    return Ok(format!(
                        "Contents are too large to compare: {size} bytes, over {COMPARED}\n"
                    ));
                }
                objects.read(entry.id, ObjectType::Blob)?.data().to_vec()
            }
        });
    }
    let mut options = DiffOptions::new();
    let lines = Patch::from_buffers(&contents[0], None, &contents[1], None, Some(&mut options))
        .and_then(|mut patch| Ok(patch.to_buf()?.to_vec()))
        .map_err(|error| format!("the contents cannot be compared: {}", error.message()))?;
    let lines = String::from_utf8_lossy(&lines).into_owned();
    // libgit2's own header stands above: it knows no names here.
    match lines.find("\n@@ ").map(|at| at + 1) {
        Some(at) => Ok(lines[at..].to_owned()),
        None if lines.contains("Binary files") => Ok("Binary contents differ\n".to_owned()),
        None => Ok(String::new()),
    }
}

/// At most `limit` bytes of whole lines, and a line that says what is missing.
fn cut(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let mut end = text.floor_char_boundary(limit);
    end = text[..end].rfind('\n').map_or(end, |at| at + 1);
    let kept = &text[..end];
    let newline = if kept.is_empty() || kept.ends_with('\n') { "" } else { "\n" };
    format!("{kept}{newline}[cut: {} of {} bytes are shown]\n", end, text.len())
}
