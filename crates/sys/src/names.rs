//! File names: expands `~`, resolves links, and suggests the names that are near a missing one.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use conversation::format::harmless::quote_name;

/// Maximum number of names in a folder that are compared with a missing one.
const SIBLINGS: usize = 5_000;

/// Quotes a word for a POSIX shell if it needs that.
pub fn shell_word(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The path with a leading `~` or `~/` replaced by the home folder, when there is one.
pub fn expand_home(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Text for an error about a path that does not exist: the part that is missing, and existing names that are similar.
pub fn suggest_paths(path: &Path) -> String {
    let mut missing = path;
    let folder = loop {
        match missing.parent() {
            Some(up) if up.as_os_str().is_empty() => break Path::new("."),
            Some(up) if fs::symlink_metadata(up).is_ok() => break up,
            Some(up) => missing = up,
            None => return String::new(),
        }
    };
    let mut text = String::new();
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
        text.push_str("; it is a symbolic link to a missing file");
    } else if folder.is_file() {
        _ = write!(text, "; {} is a file, not a folder", quote_name(folder));
    } else if missing != path {
        _ = write!(text, "; there is no {}", quote_name(missing));
    }
    let near = similar_names(folder, missing.file_name().unwrap_or_default());
    if !near.is_empty() {
        let paths: Vec<String> =
            near.iter().map(|name| quote_name(missing.with_file_name(name))).collect();
        _ = write!(text, "; near: {}", paths.join(", "));
    }
    text
}

/// Up to three names in `folder` that are similar to `name`, the nearest first, ignoring case.
fn similar_names(folder: &Path, name: &OsStr) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<(String, String)> = entries
        .take(SIBLINGS)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .map(|name| (name.to_lowercase(), name))
        .collect();
    names.sort();
    let mut keys: Vec<&str> = names.iter().map(|(key, _)| key.as_str()).collect();
    keys.dedup();
    let wanted = name.to_string_lossy().to_lowercase();
    let near = similar::get_close_matches(wanted.as_str(), &keys, 3, 0.6);
    let found = near.iter().flat_map(|key| names.iter().filter(move |(other, _)| other == key));
    found.take(3).map(|(_, name)| name.clone()).collect()
}

/// Resolves all links of the part of a path that exists; the rest is kept.
pub fn resolve_links(path: &Path) -> PathBuf {
    let mut missing: Vec<Component<'_>> = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(mut settled) = fs::canonicalize(existing) {
            settled.extend(missing.iter().rev());
            return settled;
        }
        match (existing.parent(), existing.components().next_back()) {
            (Some(up), Some(last)) => {
                missing.push(last);
                existing = up;
            }
            _ => return path.to_owned(),
        }
    }
}

/// The path without `.` and `..`, by its text alone.
pub fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

/// Follows symbolic links; their target need not exist.
pub(crate) fn follow_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many as the kernel follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// Refuses a path in the working tree that links lead out of it, or into git's own folder: the user names a file of the
/// tree, and a command may have made the link, in this run or an earlier one.
///
/// # Errors
/// The text for the user.
pub fn refuse_link_out(path: &Path) -> Result<(), String> {
    let Ok(folder) = std::env::current_dir() else { return Ok(()) };
    let tree = folder.ancestors().find(|it| it.join(".git").exists()).unwrap_or(&folder);
    let given = folder.join(path);
    let plain = normalize(&given);
    let real = resolve_links(&follow_links(&given));
    let is_git = |path: &Path| path.components().any(|part| part.as_os_str() == ".git");
    let is_out = !real.starts_with(tree) || is_git(&real) && !is_git(&plain);
    if plain.starts_with(tree) && is_out {
        let (path, real) = (path.display(), real.display());
        return Err(format!(
            "{path} is reached by a link that leads out of the working tree, to {real}; name that if you mean it"
        ));
    }
    Ok(())
}

/// The first names of a list, and the number of the others: `a, b and 3 more`.
pub fn name_some<T: AsRef<str>>(names: &[T], most: usize, separator: &str) -> String {
    let first: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    let more = names.len().saturating_sub(most);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(separator))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_shell_reads_the_shown_name_back() {
        let name: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        let script = format!("printf %s {}", quote_name(OsStr::from_bytes(&name)));
        let output =
            std::process::Command::new("bash").args(["-c", &script]).output().expect("bash starts");
        assert_eq!(output.stdout, name);
    }

    #[test]
    fn home_is_expanded_only_as_a_first_component() {
        let check = |path: &str, expect: &str| {
            assert_eq!(expand_home(Path::new(path), Some(Path::new("/h"))), Path::new(expect));
        };
        check("~", "/h");
        check("~/a", "/h/a");
        check("~user/a", "~user/a");
        check("a/~/b", "a/~/b");
    }

    #[test]
    fn a_hint_names_what_is_near_and_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir(at("source")).unwrap();
        fs::write(at("source/config.yaml"), "").unwrap();
        fs::write(at("source/README.md"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        let check = |path: &str, expect: &str| {
            let hint = suggest_paths(&at(path)).replace(&format!("{}/", dir.path().display()), "");
            assert_eq!(hint, expect, "{path}");
        };
        check("source/config.yml", "; near: source/config.yaml");
        check("source/readme.md", "; near: source/README.md");
        check("sorce/config.yaml", "; there is no sorce; near: source");
        check("source/README.md/x", "; source/README.md is a file, not a folder");
        check("dangling", "; it is a symbolic link to a missing file; near: dangling");
        check("zzz", "");
    }
}
