//! The text that every conversation starts with: `context.yaml`, else `context.md`, in nagent's root.
//!
//! `context.yaml` is a list of paths, or a mapping with that list under `paths`. An entry whose name is
//! `context.yaml` is such a list itself. Paths are relative to the file that names them. A file that cannot be used is a
//! warning, never an error: the run goes on without it.

use super::fs::read_within;
use super::names::expand_home;
use super::read::open_regular;
use conversation::format::harmless::quote_name;
use conversation::limits::{self, CONTEXT_FILE, CONTEXT_FILES, CONTEXT_FILES_TOTAL, CONTEXT_LIST};
use serde_yaml::Value;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    /// The path as resolved from the file that names it.
    pub path: PathBuf,
    /// The file's text; bytes that are not UTF-8 are U+FFFD, with a warning.
    pub text: String,
}

/// Loads the context files of a root in order, each file once, within [`conversation::limits`]. `home` replaces `~`.
pub fn load_context_files(root: &Path, home: Option<&Path>) -> (Vec<ContextFile>, Vec<String>) {
    let mut loader = Loader { home, ..Loader::default() };
    let mut paths = ["context.yaml", "context.md"].into_iter().map(|name| root.join(name));
    // A dangling link counts as a missing file: the user wants one there.
    if let Some(path) = paths.find(|path| fs::symlink_metadata(path).is_ok()) {
        loader.load_entry(&path);
    }
    (loader.parts, loader.warnings)
}

/// Loads the files of `--context`.
///
/// # Errors
/// One is missing, too large, or not UTF-8 text.
pub fn load_named_files(paths: &[PathBuf]) -> Result<Vec<ContextFile>, String> {
    let load = |path: &PathBuf| {
        let mut loader = Loader::default();
        let text = match loader.read_file(path) {
            Ok(_) if !loader.warnings.is_empty() => Err("it is not UTF-8 text".to_owned()),
            read => read,
        };
        let text = text.map_err(|why| {
            let path = quote_name(path);
            format!("--context {path}: {}", without_path(&why, &path))
        });
        Ok(ContextFile { path: path.clone(), text: text? })
    };
    paths.iter().map(load).collect()
}

/// The reason without the path, which the message contains already.
fn without_path(why: &str, path: &str) -> String {
    let why = why.trim_end_matches(&format!(": {path}"));
    why.strip_prefix(path).map_or_else(|| why.to_owned(), |rest| format!("it{rest}"))
}

#[derive(Default)]
struct Loader<'a> {
    home: Option<&'a Path>,
    parts: Vec<ContextFile>,
    warnings: Vec<String>,
    seen: HashSet<PathBuf>,
    bytes: u64,
}

impl Loader<'_> {
    fn add_warning(&mut self, path: &Path, why: impl AsRef<str>) {
        let path = quote_name(path);
        let why = without_path(why.as_ref(), &path);
        self.warnings.push(format!("context file {path}: {why}; skipped"));
    }

    fn load_entry(&mut self, path: &Path) {
        let is_list = path.file_name().is_some_and(|name| name == "context.yaml");
        // If it cannot be resolved, the attempt to read it gives the warning.
        let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.seen.contains(&resolved) {
            return;
        }
        if self.seen.len() >= limits::CONTEXT_FILES {
            return self.add_warning(path, format!("there are more than {CONTEXT_FILES} files"));
        }
        let text = match self.read_file(path) {
            Ok(text) => text,
            Err(why) => return self.add_warning(path, why),
        };
        self.seen.insert(resolved);
        if is_list {
            self.load_list(path, &text);
        } else {
            self.parts.push(ContextFile { path: path.to_owned(), text });
        }
    }

    fn read_file(&mut self, path: &Path) -> Result<String, String> {
        let (file, meta) = open_regular(path).map_err(|error| error.to_string())?;
        let bytes =
            read_within(file, meta.len(), CONTEXT_FILE).map_err(|error| format!("{error:#}"))?;
        let count = bytes.len() as u64;
        if self.bytes + count > limits::CONTEXT_FILES_TOTAL {
            let why = "with it there would be more than";
            return Err(format!("{why} {CONTEXT_FILES_TOTAL} bytes in all"));
        }
        if bytes.contains(&0) {
            return Err("it is binary".to_owned());
        }
        self.bytes += count;
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| {
            let why = "some bytes are not UTF-8; they are shown as U+FFFD";
            self.warnings.push(format!("context file {}: {why}", quote_name(path)));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }))
    }

    fn load_list(&mut self, list: &Path, text: &str) {
        if text.len() > CONTEXT_LIST {
            let why = format!("a list of context files has at most {CONTEXT_LIST} bytes");
            return self.add_warning(list, why);
        }
        let mut value = match serde_yaml::from_str(text) {
            // The error's own text names the line.
            Err(error) => return self.add_warning(list, format!("bad YAML: {error}")),
            Ok(value) => value,
        };
        let mut otherwise = "it is neither a list of paths nor a mapping with `paths`";
        if let Value::Mapping(mut map) = value {
            value = map.remove("paths").unwrap_or_default();
            otherwise = if value.is_null() { "it has no `paths`" } else { "`paths` is not a list" };
        }
        let Value::Sequence(entries) = value else { return self.add_warning(list, otherwise) };
        for (index, entry) in entries.iter().enumerate() {
            match entry.as_str().filter(|entry| !entry.trim().is_empty()) {
                Some(entry) => {
                    let entry = expand_home(Path::new(entry), self.home);
                    self.load_entry(&list.parent().unwrap_or(Path::new(".")).join(entry));
                }
                None => self.add_warning(list, format!("entry {} is not a path", index + 1)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn tree(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    /// The texts joined with commas, and the warnings.
    fn loaded(dir: &TempDir) -> (String, Vec<String>) {
        let (parts, warnings) = load_context_files(dir.path(), Some(&dir.path().join("home")));
        (parts.into_iter().map(|part| part.text).collect::<Vec<_>>().join(","), warnings)
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], texts: &str, warnings: &[&str]) {
        let (got, warned) = loaded(&tree(files));
        assert_eq!(got, texts);
        assert_eq!(warned.len(), warnings.len(), "{warned:?}");
        for (warned, expect) in warned.iter().zip(warnings) {
            assert!(warned.contains(expect), "{warned}");
        }
    }

    #[test]
    fn yaml_comes_before_md_and_nothing_is_fine() {
        check(&[], "", &[]);
        check(&[("context.md", "m")], "m", &[]);
        check(&[("context.md", "m"), ("context.yaml", "[a.md]"), ("a.md", "a")], "a", &[]);
        check(&[("context.yaml", "paths:\n  - a.md\n"), ("a.md", "a")], "a", &[]);
    }

    #[test]
    fn nested_lists_expand_relative_to_themselves_and_each_file_comes_once() {
        let files = [
            ("context.yaml", "- sub/context.yaml\n- a.md\n- ./sub/../a.md\n- ~/h.md\n"),
            ("sub/context.yaml", "[b.md, ../a.md]"),
            ("sub/b.md", "b"),
            ("a.md", "a"),
            ("home/h.md", "h"),
        ];
        check(&files, "b,a,h", &[]);
    }

    #[test]
    fn a_list_comes_once_and_a_missing_file_is_a_warning() {
        let files = [
            ("context.yaml", "[s/context.yaml, no.md]"),
            ("s/context.yaml", "[../context.yaml, b.md]"),
            ("s/b.md", "b"),
        ];
        check(&files, "b", &["no such file"]);
    }

    #[test]
    fn bad_yaml_says_where() {
        check(
            &[("context.yaml", "- a.md\n- [b\n")],
            "",
            &["bad YAML: did not find expected ',' or ']' at line 3"],
        );
        check(
            &[("context.yaml", "- 1\n- a.md\n- {x: y}\n"), ("a.md", "a")],
            "a",
            &["entry 1 is", "entry 3 is"],
        );
        check(&[("context.yaml", "paht: [a.md]")], "", &["no `paths`"]);
        check(&[("context.yaml", "")], "", &["neither a list"]);
        check(&[("context.yaml", "paths: a.md")], "", &["`paths` is not a list"]);
    }

    #[test]
    fn what_is_no_small_text_file_is_left_out_with_a_warning() {
        let dir = tree(&[
            ("context.yaml", "[fifo, folder, binary, large, latin, link]"),
            ("binary", "a\0"),
            ("folder/x", ""),
        ]);
        let at = |name: &str| dir.path().join(name);
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        fs::File::create(at("large")).unwrap().set_len(limits::CONTEXT_FILE + 1).unwrap();
        fs::write(at("latin"), b"caf\xe9").unwrap();
        symlink("/proc/self/environ", at("link")).unwrap();
        let (texts, warnings) = loaded(&dir);
        assert_eq!(texts, "caf\u{fffd}");
        let expect = [
            "is a FIFO",
            "is a folder",
            "it is binary",
            "it has 1048577 bytes",
            "not UTF-8",
            "procfs",
        ];
        assert_eq!(warnings.len(), expect.len(), "{warnings:?}");
        for (warning, expect) in warnings.iter().zip(expect) {
            assert!(warning.contains(expect), "{warning}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_not_taken_for_no_file() {
        let dir = tree(&[("context.md", "m")]);
        symlink("nowhere", dir.path().join("context.yaml")).unwrap();
        let (texts, warnings) = loaded(&dir);
        assert_eq!((texts.as_str(), warnings.len()), ("", 1));
    }

    #[test]
    fn number_and_size_are_bounded() {
        let names: Vec<String> = (0..300).map(|n| format!("{n}.md")).collect();
        let dir = tree(&[("context.yaml", &format!("[{}]", names.join(", ")))]);
        for name in &names {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let (parts, warnings) = load_context_files(dir.path(), None);
        assert_eq!((parts.len(), warnings.len()), (255, 45));
        assert!(warnings[0].contains("more than 256 files"), "{}", warnings[0]);

        let megabyte = "x".repeat(1 << 20);
        let files: Vec<(&str, &str)> =
            ["a", "b", "c", "d", "e"].iter().map(|name| (*name, megabyte.as_str())).collect();
        let dir = tree(&files);
        fs::write(dir.path().join("context.yaml"), "[a, b, c, d, e]").unwrap();
        let (parts, warnings) = load_context_files(dir.path(), None);
        assert_eq!((parts.len(), warnings.len()), (3, 2), "the list itself counts");
    }

    #[test]
    fn aliases_that_multiply_are_refused() {
        let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
        for (last, next) in "abcdefghijkl".chars().zip("bcdefghijklm".chars()) {
            let list = vec![format!("*{last}"); 10].join(", ");
            text.extend([
                next.to_string(),
                ": &".to_owned(),
                next.to_string(),
                format!(" [{list}]\n"),
            ]);
        }
        text.push_str("paths: *m\n");
        check(&[("context.yaml", &text)], "", &["bad YAML"]);
    }
}
