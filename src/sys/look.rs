//! Looks around for a model: one folder's entries, files by pattern, lines by regular expression.
//!
//! What `.gitignore` (and `.ignore`) leaves out is left out here, as in ripgrep; entries with a leading dot
//! are shown, `.git` is not. Inside a repository the rules of that repository count, up to its top. Outside
//! of one, the `.gitignore` files of the searched folder and below it count: those above it do not, since
//! a `*` in the home folder's, as keepers of dot files have it, would hide everything.
//!
//! Symbolic links are shown but not followed. The order is that of the paths, so that the same tree gives
//! the same text. Everything is bounded, and what was left out is said. It does not know the tags.

use super::names::{hint, shown};
use super::read::{ReadError, open_regular};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, WalkBuilder};
use regex::bytes::{Regex, RegexBuilder};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Entries of a folder, or paths of a pattern, that are shown.
const ENTRIES: usize = 1_000;
/// Entries of one folder that are looked at.
const FOLDER_LIMIT: usize = 200_000;
/// Lines that `grep` shows.
const MATCHES: u64 = 500;
/// Bytes of lines that `grep` shows.
const MATCH_BYTES: usize = 256 * 1024;
/// Characters of a line that are shown.
const LINE_CHARS: usize = 300;
/// Larger files are not searched.
const FILE_LIMIT: u64 = 64 << 20;
/// Memory of a compiled regular expression.
const REGEX_LIMIT: usize = 8 << 20;
/// Lines between two questions whether to stop.
const STOP_EVERY: usize = 4_096;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// A line each: entries, paths, or `path:line: text`. Ends with a line feed unless empty.
    pub body: String,
    /// Lines in `body`.
    pub shown: u64,
    /// Lines that there are; more than `shown` where a limit was met.
    pub total: u64,
    /// Files that hold a match; 0 for a list or a glob.
    pub files: u64,
    /// Files that were searched; 0 for a list or a glob.
    pub searched: u64,
    /// What was left out and why, a sentence each.
    pub notes: Vec<String>,
    /// The run was asked to stop, and the counts are those up to then.
    pub stopped: bool,
}

impl Found {
    /// The body followed by the notes, each in parentheses on its own line.
    pub fn text(&self) -> String {
        let mut text = self.body.clone();
        for note in &self.notes {
            _ = writeln!(text, "({note})");
        }
        text
    }

    fn line(&mut self, line: &str) {
        self.body.push_str(line);
        self.body.push('\n');
        self.shown += 1;
    }
}

/// Why nothing was looked at, with what to do instead.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is no such folder or file.
    #[error("no such file or folder: {path}{hint}")]
    Missing {
        /// The path that was asked for.
        path: String,
        /// What is near, or nothing.
        hint: String,
    },
    /// A file where a folder was meant.
    #[error("{path} is no folder; read a file with <nagent-read path=\"{path}\"/>")]
    NotFolder {
        /// The path that was asked for.
        path: String,
    },
    /// The kernel's own folders.
    #[error(
        "{path} is not searched: its files are questions to the kernel; use a command in <nagent-shell>"
    )]
    Virtual {
        /// The path that was asked for.
        path: String,
    },
    /// A regular expression that is none.
    #[error(
        "the pattern is no regular expression: {0}; a plain ( [ {{ . * + ? | ^ $ \\ is written with a backslash before it, \
        and there are no look-arounds and no backreferences"
    )]
    Regex(String),
    /// A regular expression that needs too much memory.
    #[error(
        "the pattern is too large a regular expression (over {REGEX_LIMIT} bytes compiled); make its counted repetitions smaller"
    )]
    RegexSize,
    /// A glob that is none.
    #[error(
        "{glob} is no glob: {why}; as in .gitignore, `*.rs` is in any folder, `src/*.rs` is in src, `src/**/*.rs` is in or below it, \
        and a plain [ or {{ is written with a backslash before it"
    )]
    Glob {
        /// The glob that was given.
        glob: String,
        /// What is wrong with it.
        why: String,
    },
    /// A single file was to be searched, and cannot be.
    #[error(transparent)]
    File(#[from] ReadError),
    /// The system refused.
    #[error("cannot look at {path}: {source}")]
    Io {
        /// The path that was asked for.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The entries of one folder: `name/`, `link@ -> target`, `fifo|`, `socket=`, and for files, after a tab,
/// the size in bytes. At most 1,000 are shown.
///
/// `asked` is relative to `cwd`.
pub fn list(cwd: &Path, asked: &Path, stop: &dyn Fn() -> bool) -> Result<Found, LookError> {
    let root = cwd.join(asked);
    if !examine(asked, &root)?.is_dir() {
        return Err(LookError::NotFolder { path: shown(asked) });
    }
    let failed = |source| LookError::Io { path: shown(asked), source };
    let mut found = Found::default();
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(&root).map_err(failed)? {
        if names.len() >= FOLDER_LIMIT {
            found.notes.push(format!(
                "there are more than {FOLDER_LIMIT} entries; the rest was not looked at"
            ));
            break;
        }
        if names.len() % STOP_EVERY == 0 && stop() {
            found.stopped = true;
            break;
        }
        let name = entry.map_err(failed)?.file_name();
        if name != ".git" {
            names.insert(name);
        }
    }
    let all = names.len();
    let mut kept = BTreeSet::new();
    for entry in walk(&root, false)
        .max_depth(Some(1))
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.depth() == 1)
    {
        if kept.len() % STOP_EVERY == 0 && stop() {
            found.stopped = true;
            break;
        }
        kept.insert(entry.file_name().to_owned());
    }
    names.retain(|name| kept.contains(name));
    found.total = names.len() as u64;
    for name in names.iter().take(ENTRIES) {
        let path = root.join(name);
        let line = match fs::symlink_metadata(&path) {
            Ok(meta) => entry_line(&shown(name), &meta, &path),
            // It went away, or the folder may be listed but not entered.
            Err(error) => format!("{}\t{error}", shown(name)),
        };
        found.line(&line);
    }
    if found.total > found.shown {
        found.notes.push(format!(
            "{} more entries not shown; narrow it down with <nagent-glob>",
            found.total - found.shown
        ));
    }
    let ignored = all - names.len();
    if ignored > 0 && !found.stopped {
        found.notes.push(format!(
            "{ignored} more ignored by .gitignore; `ls` in <nagent-shell> shows all"
        ));
    }
    if all == 0 && !found.stopped {
        found.notes.push("the folder is empty".to_owned());
    }
    Ok(interrupted(found))
}

fn entry_line(name: &str, meta: &Metadata, path: &Path) -> String {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => format!("{name}/"),
        () if kind.is_symlink() => match fs::read_link(path) {
            Ok(target) => format!("{name}@ -> {}", shown(target)),
            Err(error) => format!("{name}@\t{error}"),
        },
        () if kind.is_file() => format!("{name}\t{}", meta.len()),
        () if kind.is_fifo() => format!("{name}|"),
        () if kind.is_socket() => format!("{name}="),
        () => format!("{name}\tdevice"),
    }
}

/// Files and folders (with a trailing `/`) below `asked` that match a glob of `.gitignore`'s kind, as paths
/// that start with `asked`. At most 1,000 are shown.
pub fn glob(
    cwd: &Path,
    pattern: &str,
    asked: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Found, LookError> {
    let root = cwd.join(asked);
    if !examine(asked, &root)?.is_dir() {
        return Err(LookError::NotFolder { path: shown(asked) });
    }
    let matcher = Matcher::new(&root, pattern)?;
    let mut found = Found::default();
    let mut entries = 0;
    let mut unreadable = Skipped::default();
    for entry in walk(&root, false).build() {
        if stop() {
            found.stopped = true;
            break;
        }
        let entry = match entry {
            Ok(entry) if entry.depth() > 0 => entry,
            Ok(_) => continue,
            Err(error) => {
                unreadable.add(|| error.to_string());
                continue;
            }
        };
        entries += 1;
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        if matcher.path(entry.path(), is_dir) {
            found.total += 1;
            if found.total <= ENTRIES as u64 {
                let slash = if is_dir { "/" } else { "" };
                found.line(&format!("{}{slash}", shown(as_asked(asked, &root, entry.path()))));
            }
        }
    }
    if found.total > found.shown {
        found.notes.push(format!(
            "{} more paths not shown; use a narrower pattern or path",
            found.total - found.shown
        ));
    }
    if found.total == 0 {
        found.notes.push(format!(
            "nothing matches among {entries} files and folders; a pattern with a / inside is matched from {}, one without at any \
             depth, and what .gitignore names is left out",
            shown(asked)
        ));
    }
    unreadable.note(&mut found, "could not be looked at");
    Ok(interrupted(found))
}

/// Lines that match a regular expression, as `path:line: text`, in the files below `asked` or in that file.
///
/// `only` is a glob that the paths must match. Binary files and files over 64 MiB are left out. A line is shown
/// with 300 characters around its match. At most 500 lines and 256 KiB are shown, all are counted.
pub fn grep(
    cwd: &Path,
    pattern: &str,
    asked: &Path,
    only: Option<&str>,
    stop: &dyn Fn() -> bool,
) -> Result<Found, LookError> {
    let root = cwd.join(asked);
    let kind = examine(asked, &root)?;
    let regex = RegexBuilder::new(pattern)
        .size_limit(REGEX_LIMIT)
        .dfa_size_limit(REGEX_LIMIT)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => LookError::RegexSize,
            error => LookError::Regex(reason(&error.to_string())),
        })?;
    let mut search = Search {
        regex,
        found: Found::default(),
        buffer: Vec::new(),
        stop,
        binary: 0,
        large: Skipped::default(),
        unreadable: Skipped::default(),
    };
    if kind.is_dir() {
        let matcher = only.map(|only| Matcher::new(&root, only)).transpose()?;
        for entry in walk(&root, root == Path::new("/")).build() {
            if stop() {
                search.found.stopped = true;
                break;
            }
            match entry {
                Err(error) => search.unreadable.add(|| error.to_string()),
                Ok(entry) => {
                    if entry.file_type().is_some_and(|kind| kind.is_file())
                        && matcher.as_ref().is_none_or(|matcher| matcher.path(entry.path(), false))
                    {
                        search.file(entry.path(), &as_asked(asked, &root, entry.path()));
                    }
                }
            }
        }
    } else {
        open_regular(&root)?;
        search.file(&root, asked);
    }
    let Search { mut found, binary, large, unreadable, .. } = search;
    if found.total > found.shown {
        found.notes.push(format!(
            "{} more matching lines not shown, in {} files in all; use a narrower pattern, path or glob",
            found.total - found.shown,
            found.files
        ));
    }
    if found.total == 0 {
        found.notes.push(format!(
            "no line matches in {} files searched; what .gitignore names is left out",
            found.searched
        ));
    }
    if binary > 0 {
        found.notes.push(format!("{binary} binary files not searched"));
    }
    large.note(&mut found, "not searched, being over 64 MiB; use `grep` in <nagent-shell>");
    unreadable.note(&mut found, "could not be read");
    Ok(interrupted(found))
}

struct Search<'a> {
    regex: Regex,
    found: Found,
    buffer: Vec<u8>,
    stop: &'a dyn Fn() -> bool,
    binary: u64,
    large: Skipped,
    unreadable: Skipped,
}

impl Search<'_> {
    fn file(&mut self, path: &Path, name: &Path) {
        match load(path, &mut self.buffer) {
            Err(error) => return self.unreadable.add(|| error),
            Ok(false) => return self.large.add(|| shown(name)),
            Ok(true) => {}
        }
        if self.buffer.contains(&0) {
            self.binary += 1;
            return;
        }
        self.found.searched += 1;
        let before = self.found.total;
        // Line by line, since an expression for the whole buffer could match across lines.
        for (index, line) in self.buffer.split(|byte| *byte == b'\n').enumerate() {
            if index % STOP_EVERY == STOP_EVERY - 1 && (self.stop)() {
                self.found.stopped = true;
                break;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(found) = self.regex.find(line) else { continue };
            let is_after_last = line.is_empty()
                && index > 0
                && std::ptr::eq(line.as_ptr(), self.buffer.as_ptr_range().end);
            if is_after_last || self.buffer.is_empty() {
                continue;
            }
            self.found.total += 1;
            if self.found.shown < MATCHES && self.found.body.len() < MATCH_BYTES {
                let text = excerpt(line, found.start(), found.end());
                self.found.line(&format!("{}:{}: {text}", shown(name), index + 1));
            }
        }
        self.found.files += u64::from(self.found.total > before);
    }
}

/// Reads a file into the buffer; false when it is too large.
fn load(path: &Path, buffer: &mut Vec<u8>) -> Result<bool, String> {
    buffer.clear();
    let (file, meta) = open_regular(path).map_err(|error| error.to_string())?;
    if meta.len() > FILE_LIMIT {
        return Ok(false);
    }
    let count = file
        .take(FILE_LIMIT + 1)
        .read_to_end(buffer)
        .map_err(|error| format!("{}: {error}", shown(path)))?;
    Ok(count as u64 <= FILE_LIMIT)
}

/// The line, or 300 characters of it around the match, with `…` where something is left out.
fn excerpt(line: &[u8], start: usize, end: usize) -> String {
    // A character has at most four bytes, so that this part of the line is enough.
    let from = start.saturating_sub(LINE_CHARS * 4);
    let to = line.len().min(end.min(start + LINE_CHARS * 4) + LINE_CHARS * 4);
    let head = String::from_utf8_lossy(&line[char_start(line, from)..start]);
    let tail = String::from_utf8_lossy(&line[start..char_start(line, to)]);
    let (before, after) = (head.chars().count(), tail.chars().count());
    let whole = from == 0 && to == line.len();
    if whole && before + after <= LINE_CHARS {
        return format!("{head}{tail}");
    }
    // A third stands before the match, more where the line ends soon after it.
    let lead = before.min((LINE_CHARS / 3).max(LINE_CHARS.saturating_sub(after)));
    let trail = after.min(LINE_CHARS - lead);
    let mut text = String::new();
    if from > 0 || lead < before {
        text.push('…');
    }
    text.extend(head.chars().skip(before - lead));
    text.extend(tail.chars().take(trail));
    if to < line.len() || trail < after {
        text.push('…');
    }
    text
}

/// The first byte at or after `at` that does not continue a character.
fn char_start(line: &[u8], at: usize) -> usize {
    (at..line.len()).take(4).find(|index| line[*index] & 0xc0 != 0x80).unwrap_or(at)
}

/// Things that were left out, the first of them by name.
#[derive(Default)]
struct Skipped {
    count: u64,
    names: Vec<String>,
}

impl Skipped {
    fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.names.len() < 3 {
            self.names.push(name());
        }
    }

    fn note(&self, found: &mut Found, what: &str) {
        if self.count > 0 {
            let dots = if self.count > self.names.len() as u64 { ", …" } else { "" };
            let (count, names) = (self.count, self.names.join(", "));
            found.notes.push(format!("{count} {what}: {names}{dots}"));
        }
    }
}

/// A glob as `.gitignore` writes them, matched against what was found rather than given to the walk, where
/// it would bring back ignored files.
struct Matcher(Override);

impl Matcher {
    fn new(root: &Path, glob: &str) -> Result<Self, LookError> {
        let wrong = |why: &str| LookError::Glob { glob: glob.to_owned(), why: why.to_owned() };
        let plain = glob.strip_prefix("./").unwrap_or(glob);
        // A pattern that spells out the folder it is looked for in.
        let below = Path::new(plain)
            .strip_prefix(root)
            .ok()
            .and_then(Path::to_str)
            .filter(|_| plain.starts_with('/'));
        let plain = below.map_or_else(|| plain.to_owned(), |below| format!("/{below}"));
        if plain.trim().is_empty() {
            return Err(wrong("it is empty"));
        }
        if plain.starts_with('~')
            || Path::new(&plain).components().any(|part| part == std::path::Component::ParentDir)
        {
            return Err(wrong(
                "the folder to look in goes into `path`, and the pattern stays below it",
            ));
        }
        let mut builder = OverrideBuilder::new(root);
        builder.add(&plain).map_err(|error| wrong(&reason(&error.to_string())))?;
        builder.build().map(Self).map_err(|error| wrong(&reason(&error.to_string())))
    }

    fn path(&self, path: &Path, is_dir: bool) -> bool {
        let matched = self.0.matched(path, is_dir);
        if self.0.num_whitelists() > 0 { matched.is_whitelist() } else { !matched.is_ignore() }
    }
}

/// The last line of an error's text, which says what is wrong; those before it repeat the pattern.
fn reason(text: &str) -> String {
    let last = text.trim().lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// What is at `root`, a symbolic link followed.
fn examine(asked: &Path, root: &Path) -> Result<FileType, LookError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            LookError::Missing { path: shown(asked), hint: hint(root) }
        }
        _ => LookError::Io { path: shown(asked), source: error },
    };
    let kind = fs::metadata(root).map_err(failed)?.file_type();
    let real = fs::canonicalize(root).map_err(failed)?;
    if ["/proc", "/sys", "/dev"].iter().any(|top| real.starts_with(top)) {
        return Err(LookError::Virtual { path: shown(asked) });
    }
    Ok(kind)
}

fn walk(root: &Path, is_top: bool) -> WalkBuilder {
    let in_repository = fs::canonicalize(root)
        .is_ok_and(|real| real.ancestors().any(|folder| folder.join(".git").exists()));
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .parents(in_repository)
        .require_git(in_repository)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(move |entry| entry.file_name() != ".git" && !(is_top && is_kernels(entry)));
    builder
}

/// The kernel's folders, for a walk that starts at `/`.
fn is_kernels(entry: &DirEntry) -> bool {
    entry.depth() == 1 && ["proc", "sys", "dev"].iter().any(|name| entry.file_name() == *name)
}

/// The path of an entry, written as the folder was.
fn as_asked(asked: &Path, root: &Path, path: &Path) -> PathBuf {
    let below = path.strip_prefix(root).unwrap_or(path);
    if asked == Path::new(".") { below.to_owned() } else { asked.join(below) }
}

fn interrupted(mut found: Found) -> Found {
    if found.stopped {
        found.notes.push("interrupted: the rest was not looked at".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const GO_ON: &dyn Fn() -> bool = &|| false;

    fn tree(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    fn listed(dir: &TempDir, path: &str) -> Found {
        list(dir.path(), Path::new(path), GO_ON).unwrap()
    }

    fn globbed(dir: &TempDir, pattern: &str, path: &str) -> String {
        glob(dir.path(), pattern, Path::new(path), GO_ON).unwrap().body.replace('\n', " ")
    }

    fn grepped(dir: &TempDir, pattern: &str, path: &str, only: Option<&str>) -> Found {
        grep(dir.path(), pattern, Path::new(path), only, GO_ON).unwrap()
    }

    #[test]
    fn a_list_shows_kinds_sizes_and_hidden_entries_but_not_git() {
        let dir = tree(&[
            ("b.txt", "12345"),
            ("a/x", ""),
            (".hidden", ""),
            (".git/config", ""),
            ("odd\nname", "1"),
        ]);
        symlink("b.txt", dir.path().join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let found = listed(&dir, ".");
        assert_eq!(
            found.body,
            ".hidden\t0\na/\nb.txt\t5\nlink@ -> b.txt\n$'odd\\nname'\t1\npipe|\n"
        );
        assert_eq!((found.shown, found.total, found.notes.len()), (6, 6, 0));
        assert_eq!(listed(&tree(&[]), ".").text(), "(the folder is empty)\n");
    }

    #[test]
    fn a_list_leaves_out_what_is_ignored_and_says_so() {
        let dir =
            tree(&[(".gitignore", "*.o\n/target/\n"), ("a.o", ""), ("b.c", ""), ("target/x", "")]);
        let found = listed(&dir, ".");
        assert_eq!(
            found.text(),
            ".gitignore\t13\nb.c\t0\n(2 more ignored by .gitignore; `ls` in <nagent-shell> shows all)\n"
        );
        assert_eq!(listed(&dir, "target").body, "x\t0\n");
    }

    #[test]
    fn a_long_list_says_how_many_more() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..1_005 {
            fs::write(dir.path().join(format!("{n:04}")), "").unwrap();
        }
        let found = listed(&dir, ".");
        assert_eq!((found.shown, found.total), (1_000, 1_005));
        assert!(found.text().contains("(5 more entries not shown"));
    }

    #[test]
    fn what_cannot_be_listed_is_an_error_that_teaches() {
        let dir = tree(&[("source/a", "")]);
        let check = |path: &str, expect: &str| {
            let error = list(dir.path(), Path::new(path), GO_ON).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check("sourc", "near: ");
        check("source/a", "read a file with <nagent-read");
        check("/proc/self", "is not searched");
    }

    #[test]
    fn a_glob_is_gitignores_kind_and_paths_start_as_asked() {
        let dir = tree(&[
            ("src/a.rs", ""),
            ("src/deep/b.rs", ""),
            ("c.rs", ""),
            ("d.txt", ""),
            (".git/e.rs", ""),
            (".x/f.rs", ""),
        ]);
        let check = |pattern: &str, path: &str, expect: &str| {
            assert_eq!(globbed(&dir, pattern, path), expect, "{pattern}")
        };
        check("*.rs", ".", ".x/f.rs c.rs src/a.rs src/deep/b.rs ");
        check("src/*.rs", ".", "src/a.rs ");
        check("./src/**/*.rs", ".", "src/a.rs src/deep/b.rs ");
        check("*.rs", "src", "src/a.rs src/deep/b.rs ");
        check("**/*.rs", "./src/deep", "./src/deep/b.rs ");
        check("*.{txt,md}", ".", "d.txt ");
        check("deep", ".", "src/deep/ ");
        check("/*.rs", ".", "c.rs ");
        check("!*.rs", "src", "src/deep/ ");
        let absolute = format!("{}/src/*.rs", dir.path().display());
        check(&absolute, ".", "src/a.rs ");
        let wrong = |pattern: &str, expect: &str| {
            let error = glob(dir.path(), pattern, Path::new("."), GO_ON).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        wrong("{a,b", "is no glob");
        wrong("../*.rs", "goes into `path`");
        wrong(" ", "it is empty");
        let nothing = glob(dir.path(), "*.zig", Path::new("."), GO_ON).unwrap();
        assert!(
            nothing.text().contains("nothing matches among 8 files and folders"),
            "{}",
            nothing.text()
        );
    }

    #[test]
    fn ignored_files_stay_out_even_where_the_glob_names_them() {
        let dir = tree(&[
            (".gitignore", "*.log\nbuild/\n"),
            ("a.log", "word"),
            ("build/b.txt", "word"),
            ("c.txt", "word"),
        ]);
        assert_eq!(globbed(&dir, "*.log", "."), "");
        assert_eq!(globbed(&dir, "*.txt", "."), "c.txt ");
        assert_eq!(grepped(&dir, "word", ".", None).body, "c.txt:1: word\n");
        assert_eq!(grepped(&dir, "word", "a.log", None).body, "a.log:1: word\n");
    }

    #[test]
    fn rules_above_the_repository_do_not_count_and_its_own_do() {
        let dir = tree(&[
            (".gitignore", "*\n"),
            ("repo/.git/HEAD", ""),
            ("repo/.gitignore", "no\n"),
            ("repo/sub/yes", "w"),
            ("repo/sub/no", "w"),
        ]);
        assert_eq!(globbed(&dir, "*", "repo/sub"), "repo/sub/yes ");
        let dir = tree(&[(".gitignore", "*\n"), ("plain/yes", "w")]);
        assert_eq!(globbed(&dir, "*", "plain"), "plain/yes ");
    }

    #[test]
    fn grep_shows_path_line_and_text_in_the_order_of_paths() {
        let dir = tree(&[
            ("b.txt", "one\r\ntwo\n"),
            ("a/z.txt", "x\n\none more"),
            ("a.txt", "none\n"),
            ("n.rs", "one"),
        ]);
        let found = grepped(&dir, "^one", ".", Some("*.txt"));
        assert_eq!(found.body, "a/z.txt:3: one more\nb.txt:1: one\n");
        assert_eq!((found.total, found.files, found.searched), (2, 2, 3));
        assert_eq!(grepped(&dir, "two$", ".", None).body, "b.txt:2: two\n");
        assert_eq!(grepped(&dir, "(?i)ONE$", "n.rs", None).body, "n.rs:1: one\n");
        assert_eq!(grepped(&dir, "^$", ".", None).body, "a/z.txt:2: \n");
        assert_eq!(
            grepped(&dir, r"o\s*t", ".", None).text(),
            "(no line matches in 4 files searched; what .gitignore names is left out)\n"
        );
    }

    #[test]
    fn grep_leaves_out_binary_and_huge_files_and_links_and_says_so() {
        let dir = tree(&[("bin", "word\0"), ("text", "word")]);
        fs::File::create(dir.path().join("huge")).unwrap().set_len(FILE_LIMIT + 1).unwrap();
        symlink("text", dir.path().join("link")).unwrap();
        let found = grepped(&dir, "word", ".", None);
        assert_eq!(found.body, "text:1: word\n");
        assert_eq!(found.notes.len(), 2);
        assert!(found.text().contains("1 binary files not searched"));
        assert!(found.text().contains("over 64 MiB; use `grep` in <nagent-shell>: huge"));
    }

    #[test]
    fn a_long_line_is_cut_around_the_match() {
        let check = |line: &str, chars: usize, starts: &str, ends: &str| {
            let at = line.find("WORD").unwrap();
            let text = excerpt(line.as_bytes(), at, at + 4);
            assert!(
                text.contains("WORD") && text.starts_with(starts) && text.ends_with(ends),
                "{text}"
            );
            assert_eq!(text.chars().count(), chars);
        };
        let long = "ä".repeat(5_000);
        check("a WORD b", 8, "a ", " b");
        check(&format!("WORD{long}"), 301, "WORD", "…");
        check(&format!("{long}WORD"), 301, "…", "WORD");
        check(&format!("{long}WORD{long}"), 302, "…", "…");
        check(&format!("{}WORD", "ä".repeat(296)), 300, "ä", "WORD");
        assert_eq!(excerpt(&[b'x'; 100_000], 0, 100_000).chars().count(), 301);
        assert_eq!(excerpt(b"\xff\xfeWORD\xe4", 2, 6), "\u{fffd}\u{fffd}WORD\u{fffd}");
    }

    #[test]
    fn grep_counts_what_it_does_not_show() {
        let dir = tree(&[("a", &"word\n".repeat(700)), ("b", "word")]);
        let found = grepped(&dir, "word", ".", None);
        assert_eq!((found.shown, found.total, found.files), (500, 701, 2));
        assert!(found.text().contains("(201 more matching lines not shown, in 2 files in all"));
    }

    #[test]
    fn a_bad_pattern_is_explained() {
        let dir = tree(&[]);
        let check = |pattern: &str, expect: &str| {
            let error =
                grep(dir.path(), pattern, Path::new("."), None, GO_ON).unwrap_err().to_string();
            assert!(error.contains(expect) && !error.contains('\n'), "{error}");
        };
        check("fn main(", "unclosed group; a plain (");
        check("(?=x)", "look-around");
        check(r"(\w{1000}){1000}", "too large");
    }

    #[test]
    fn odd_names_are_shown_escaped() {
        let dir = tree(&[]);
        fs::write(dir.path().join(OsStr::from_bytes(b"\xff\x1b[2J")), "word").unwrap();
        assert_eq!(grepped(&dir, "word", ".", None).body, "$'\\377\\033[2J':1: word\n");
        assert_eq!(globbed(&dir, "*", "."), "$'\\377\\033[2J' ");
    }

    #[test]
    fn a_stop_ends_it_with_what_there_is() {
        let dir = tree(&[("a", "word"), ("b", "word"), ("c", "word")]);
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > 2
        };
        let found = grep(dir.path(), "word", Path::new("."), None, &stop).unwrap();
        assert!(
            found.stopped && found.text().contains("a:1: word\n(interrupted"),
            "{}",
            found.text()
        );
        assert!(list(dir.path(), Path::new("."), &|| true).unwrap().stopped);
        assert!(glob(dir.path(), "*", Path::new("."), &|| true).unwrap().stopped);
    }
}
