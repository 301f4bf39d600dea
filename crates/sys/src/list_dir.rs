//! Lists folders and finds files by pattern, for a model. [`super::grep`] uses the same walk.
//!
//! Files that `.gitignore` (and `.ignore`) excludes are left out, as in ripgrep; entries with a leading dot are shown,
//! `.git` is not. Inside a repository the rules of that repository apply, up to its top. Outside of one, the
//! `.gitignore` files of the searched folder and below it apply, but not those above it: a `*` in the home folder's, as
//! keepers of dot files have it, would hide everything. The library opens these files whatever they are, so those that
//! could block it, or fill the memory, are looked for before.
//!
//! Symbolic links are shown but not followed. Paths are sorted. The result says what was left out.

use super::file_error::FileError;
use super::lock::lock_mutex;
use super::names::name_some;
use conversation::format::harmless::quote_name;
use conversation::limits;
use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, Walk, WalkBuilder};
use std::fmt::Write as _;
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const FOLDER_LIMIT: usize = 200_000;
/// The files of rules in a folder.
const RULES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];
/// The kernel's folders, which are not searched.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The scope of a search.
#[derive(Clone, Copy)]
pub struct SearchScope<'a> {
    /// The folder or file to search, by its path without links.
    pub root: &'a Path,
    /// Paths, without links, that are left out.
    pub hidden: &'a [PathBuf],
    /// Called now and then: whether to stop.
    pub stop: &'a dyn Fn() -> bool,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// A line each: entries, paths, or lines of files below their path. Ends with a line feed unless empty.
    pub body: String,
    /// Lines in `body`.
    pub shown: u64,
    /// Further matches in the lines that are shown.
    pub more_in_lines: u64,
    /// Number of matching lines; more than `shown` where a limit was reached.
    pub total: u64,
    /// Notes on what was left out and why, one sentence each.
    pub notes: Vec<String>,
    /// The run was asked to stop, and the counts cover the part before that.
    pub stopped: bool,
}

impl SearchResult {
    /// The body followed by the notes, each in parentheses on its own line.
    pub fn to_text(&self) -> String {
        let mut text = self.body.clone();
        for note in &self.notes {
            _ = writeln!(text, "({note})");
        }
        if self.stopped {
            text.push_str("(interrupted: the rest was not searched)\n");
        }
        text
    }

    /// Notes how many lines are not shown, where a limit was reached.
    pub(super) fn note_rest(&mut self, what: &str) {
        if self.total > self.shown {
            self.notes.push(format!("{} more {what}", self.total - self.shown));
        }
    }

    pub(super) fn push_line(&mut self, line: &str) {
        self.body.push_str(line);
        self.body.push('\n');
        self.shown += 1;
    }
}

/// The entries of one folder: `name/`, `link@ -> target`, `fifo|`, `socket=`, and files with a tab and the size in bytes.
pub fn list_dir(search: SearchScope<'_>, asked: &Path) -> Result<SearchResult, FileError> {
    let root = check_folder(search.root, asked)?;
    let failed = |source: io::Error| FileError::from_io("look at", asked, source);
    let mut found = SearchResult::default();
    let (mut all, mut is_empty) = (0, true);
    let real = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let hidden = hidden_below(root, &real, search.hidden);
    for entry in fs::read_dir(root).map_err(failed)?.take(FOLDER_LIMIT) {
        let entry = entry.map_err(failed)?;
        let is_own = entry.file_name() != ".git";
        is_empty &= !is_own;
        all += u64::from(is_own && !hidden.contains(&entry.path()));
    }
    if all >= FOLDER_LIMIT as u64 {
        let note = format!("there are {FOLDER_LIMIT} entries or more; the rest was not read");
        found.notes.push(note);
    }
    let (walk, left_out) = build_walk(root, search.hidden, Some(1));
    let entries = walk.filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.depth() == 1).take(FOLDER_LIMIT) {
        if (search.stop)() {
            found.stopped = true;
            break;
        }
        found.total += 1;
        if found.total <= limits::LISTED_ENTRIES as u64 {
            let name = quote_name(entry.file_name());
            let line = match fs::symlink_metadata(entry.path()) {
                Ok(meta) => entry_line(&name, &meta, entry.path()),
                // It was removed meanwhile, or the folder may be listed but not entered.
                Err(error) => format!("{name}\t{error}"),
            };
            found.push_line(&line);
        }
    }
    found.note_rest("entries omitted; narrow it down with <nagent-glob>");
    let ignored = all.saturating_sub(found.total);
    if ignored > 0 && !found.stopped {
        let note = "more ignored by .gitignore; `ls` in <nagent-shell> shows all";
        found.notes.push(format!("{ignored} {note}"));
    }
    found.notes.extend(describe_left_out(&left_out));
    if is_empty && !found.stopped {
        found.notes.push("the folder is empty".to_owned());
    }
    Ok(found)
}

fn entry_line(name: &str, meta: &Metadata, path: &Path) -> String {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => format!("{name}/"),
        () if kind.is_symlink() => match fs::read_link(path) {
            Ok(target) => format!("{name}@ -> {}", quote_name(target)),
            Err(error) => format!("{name}@\t{error}"),
        },
        () if kind.is_file() => format!("{name}\t{}", meta.len()),
        () if kind.is_fifo() => format!("{name}|"),
        () if kind.is_socket() => format!("{name}="),
        () => format!("{name}\tdevice"),
    }
}

/// Files and folders (with a `/`) below `asked` that match a glob of `.gitignore`'s kind; at most 1,000 are shown.
pub fn find_by_glob(
    search: SearchScope<'_>,
    pattern: &str,
    asked: &Path,
) -> Result<SearchResult, FileError> {
    let root = check_folder(search.root, asked)?;
    let matcher = Matcher::new(root, pattern)?;
    let mut found = SearchResult::default();
    let mut entries = 0;
    let mut unreadable = Skipped::default();
    let (stopped, left_out) = search.visit_entries(&mut |entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return unreadable.add_name(|| error.to_string()),
        };
        entries += 1;
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        if matcher.matches(entry.path(), is_dir) {
            found.total += 1;
            if found.total <= limits::LISTED_ENTRIES as u64 {
                let slash = if is_dir { "/" } else { "" };
                found.push_line(&format!(
                    "{}{slash}",
                    quote_name(entry_path(asked, root, entry.path()))
                ));
            }
        }
    });
    found.stopped = stopped;
    found.note_rest("paths not shown; use a narrower pattern or path");
    if found.total == 0 {
        found.notes.push(format!(
            "no match among {entries} files and folders; a pattern with a / is relative to {}, one without matches at any \
             depth, and ignored files (.gitignore) are skipped",
            quote_name(asked)
        ));
    }
    unreadable.add_note(&mut found, "could not be read");
    found.notes.extend(describe_left_out(&left_out));
    Ok(found)
}

impl SearchScope<'_> {
    /// Walks through everything below the folder. Returns whether it was stopped, and the ignore files that were
    /// skipped.
    pub(super) fn visit_entries(
        self,
        visit: &mut dyn FnMut(Result<DirEntry, ignore::Error>),
    ) -> (bool, LeftOut) {
        let is_root = |entry: &DirEntry| entry.depth() == 0;
        let (walk, left_out) = build_walk(self.root, self.hidden, None);
        for entry in walk {
            if (self.stop)() {
                return (true, left_out);
            }
            if !entry.as_ref().is_ok_and(is_root) {
                visit(entry);
            }
        }
        (false, left_out)
    }
}

#[derive(Default)]
pub(super) struct Skipped {
    count: u64,
    names: Vec<String>,
}

impl Skipped {
    pub(super) fn add_name(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.names.len() < 3 {
            self.names.push(name());
        }
    }

    pub(super) fn add_note(&self, found: &mut SearchResult, what: &str) {
        if self.count > 0 {
            let dots = if self.count > self.names.len() as u64 { ", …" } else { "" };
            let (count, names) = (self.count, self.names.join(", "));
            found.notes.push(format!("{count} {what}: {names}{dots}"));
        }
    }
}

/// A glob in the syntax of `.gitignore`. If it were given to the walk itself, it would bring back ignored files.
pub(super) struct Matcher(Override);

impl Matcher {
    pub(super) fn new(root: &Path, glob: &str) -> Result<Self, FileError> {
        let wrong = |why: &str| {
            let advice = "as in .gitignore, `*.rs` is in any folder, `src/*.rs` is in src, `src/**/*.rs` is in or below it, \
                          and a plain [ or { is written with a backslash before it";
            FileError::new(format!("{glob} is not a valid glob: {why}"), advice)
        };
        let plain = glob.strip_prefix("./").unwrap_or(glob);
        // A pattern that repeats the path of the searched folder.
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
                "put the folder to search into `path`; the pattern cannot lead out of it",
            ));
        }
        let mut builder = OverrideBuilder::new(root);
        builder.add(&plain).map_err(|error| wrong(&last_line(&error.to_string())))?;
        builder.build().map(Self).map_err(|error| wrong(&last_line(&error.to_string())))
    }

    pub(super) fn matches(&self, path: &Path, is_dir: bool) -> bool {
        let matched = self.0.matched(path, is_dir);
        if self.0.num_whitelists() > 0 { matched.is_whitelist() } else { !matched.is_ignore() }
    }
}

/// The last line of an error's text, which has the reason; those before it repeat the pattern.
pub(super) fn last_line(text: &str) -> String {
    let last = text.trim().lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

fn check_folder<'a>(root: &'a Path, asked: &Path) -> Result<&'a Path, FileError> {
    if check_type(asked, root)?.is_dir() {
        return Ok(root);
    }
    let path = quote_name(asked);
    let advice = format!("read a file with <nagent-read path=\"{path}\"/>");
    Err(FileError::new(format!("{path} is not a folder"), advice))
}

/// Returns the type of what is at `root`, following a symbolic link; refuses kernel files.
pub(super) fn check_type(asked: &Path, root: &Path) -> Result<FileType, FileError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            FileError::missing_at(asked, root)
        }
        _ => FileError::from_io("look at", asked, error),
    };
    let kind = fs::metadata(root).map_err(failed)?.file_type();
    let real = fs::canonicalize(root).map_err(failed)?;
    // Temporary files may be in /dev/shm.
    let is_in = |top: &&str| real.starts_with(top) && !real.starts_with("/dev/shm");
    if let Some(filesystem) = KERNEL.into_iter().find(is_in) {
        return Err(FileError::of_kernel(asked, filesystem));
    }
    Ok(kind)
}

/// The files of rules that were not read, with or without their folders.
pub(super) type LeftOut = Arc<Mutex<Vec<PathBuf>>>;

/// Describes the files of rules that were not read; `None` if there are none.
pub(super) fn describe_left_out(left_out: &LeftOut) -> Option<String> {
    let names: Vec<String> = lock_mutex(left_out).iter().map(quote_name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "ignore rules not read, and folders below that have them left out, since they are not in a regular file of at most 1 MiB: {}",
            name_some(&names, 3, ", ")
        )
    })
}

/// Finds a file of rules that cannot be read in bounded time and memory.
fn find_endless_rules(folder: &Path) -> Option<PathBuf> {
    let is_endless = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|there| {
            !there.is_file() && !there.is_dir() || there.len() > limits::IGNORE_FILE
        })
    };
    RULES.iter().map(|name| folder.join(name)).find(is_endless)
}

/// A walk through a folder, without the paths in `hidden`, and without the kernel's folders if it starts at `/`. The
/// second value has the files of rules that were not read.
fn build_walk(root: &Path, hidden: &[PathBuf], depth: Option<usize>) -> (Walk, LeftOut) {
    let real = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let hidden = hidden_below(root, &real, hidden);
    let repository = real.ancestors().find(|above| above.join(".git").exists());
    let above = real.ancestors().take(if repository.is_some() { usize::MAX } else { 1 });
    let endless: Vec<PathBuf> = above.filter_map(find_endless_rules).collect();
    let has_rules = endless.is_empty();
    let left_out: LeftOut = Arc::new(Mutex::new(endless));
    let endless = Arc::clone(&left_out);
    let mut builder = WalkBuilder::new(root);
    builder
        .standard_filters(false)
        .parents(has_rules && repository.is_some())
        .ignore(has_rules)
        .git_ignore(has_rules)
        .git_exclude(has_rules)
        .git_global(has_rules)
        // Only in a repository do the rules end at its top.
        .require_git(repository.is_some())
        .current_dir(repository.unwrap_or(&real))
        .max_depth(depth)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(move |entry| {
            if entry.file_name() == ".git" || hidden.iter().any(|path| path == entry.path()) {
                return false;
            }
            let is_entered = has_rules && entry.depth() > 0;
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let found =
                if is_entered && is_folder { find_endless_rules(entry.path()) } else { None };
            let is_fine = found.is_none();
            lock_mutex(&endless).extend(found);
            is_fine
        });
    (builder.build(), left_out)
}

/// The paths in `hidden` below a folder, and the kernel's folders if it is `/`.
fn hidden_below(root: &Path, real: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let below = hidden.iter().filter_map(|path| path.strip_prefix(real).ok());
    let kernel: &[&str] = if root == Path::new("/") { &KERNEL } else { &[] };
    below.map(|path| root.join(path)).chain(kernel.iter().map(PathBuf::from)).collect()
}

/// The path of an entry, written as the folder was.
pub(super) fn entry_path(asked: &Path, root: &Path, path: &Path) -> PathBuf {
    let below = path.strip_prefix(root).unwrap_or(path);
    if asked == Path::new(".") { below.to_owned() } else { asked.join(below) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    pub(in super::super) const GO_ON: &dyn Fn() -> bool = &|| false;

    pub(crate) fn search<'a>(dir: &'a TempDir, stop: &'a dyn Fn() -> bool) -> SearchScope<'a> {
        SearchScope { root: dir.path(), hidden: &[], stop }
    }

    pub(in super::super) fn tree(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    fn listed(dir: &TempDir, path: &str) -> SearchResult {
        list_dir(
            SearchScope { root: &dir.path().join(path), ..search(dir, GO_ON) },
            Path::new(path),
        )
        .unwrap()
    }

    pub(in super::super) fn globbed(dir: &TempDir, pattern: &str, path: &str) -> String {
        let root = &dir.path().join(path);
        let search = SearchScope { root, ..search(dir, GO_ON) };
        find_by_glob(search, pattern, Path::new(path)).unwrap().body.replace('\n', " ")
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
        assert_eq!(listed(&tree(&[]), ".").to_text(), "(the folder is empty)\n");
    }

    #[test]
    fn a_list_leaves_out_what_is_ignored_and_says_so() {
        let dir =
            tree(&[(".gitignore", "*.o\n/target/\n"), ("a.o", ""), ("b.c", ""), ("target/x", "")]);
        let found = listed(&dir, ".");
        assert_eq!(
            found.to_text(),
            ".gitignore\t13\nb.c\t0\n(2 more ignored by .gitignore; `ls` in <nagent-shell> shows all)\n"
        );
        assert_eq!(listed(&dir, "target").body, "x\t0\n");
        let hidden = [fs::canonicalize(dir.path()).unwrap().join("b.c")];
        let scope = SearchScope { root: dir.path(), hidden: &hidden, stop: &|| false };
        let text = list_dir(scope, Path::new(".")).unwrap().to_text();
        assert!(text.starts_with(".gitignore\t13\n(2 more ignored"), "{text}");
    }

    #[test]
    fn a_long_list_says_how_many_more() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..1_005 {
            fs::write(dir.path().join(format!("{n:04}")), "").unwrap();
        }
        let found = listed(&dir, ".");
        assert_eq!((found.shown, found.total), (1_000, 1_005));
        assert!(found.to_text().contains("(5 more entries omitted"));
    }

    #[test]
    fn what_cannot_be_listed_is_an_error_that_teaches() {
        let dir = tree(&[("source/a", "")]);
        let check = |path: &str, expect: &str| {
            let scope = SearchScope { root: &dir.path().join(path), ..search(&dir, GO_ON) };
            let error = list_dir(scope, Path::new(path)).unwrap_err().for_model();
            assert!(error.contains(expect), "{error}");
        };
        check("sourc", "near: ");
        check("source/a", "read a file with <nagent-read");
        check("/proc/self", "is in /proc");
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
            assert_eq!(globbed(&dir, pattern, path), expect, "{pattern}");
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
            let error =
                find_by_glob(search(&dir, GO_ON), pattern, Path::new(".")).unwrap_err().for_model();
            assert!(error.contains(expect), "{error}");
        };
        wrong("{a,b", "is not a valid glob");
        wrong("../*.rs", "put the folder to search into `path`");
        wrong(" ", "it is empty");
        let nothing = find_by_glob(search(&dir, GO_ON), "*.zig", Path::new(".")).unwrap();
        assert!(
            nothing.to_text().contains("no match among 8 files and folders"),
            "{}",
            nothing.to_text()
        );
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
}
