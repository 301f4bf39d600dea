//! `nagent-conversations`: lists, shows and removes conversations, and sums up their costs. Needs no
//! model, no network and no config.

pub mod changes;
pub mod changes_diff;
pub mod conversation_name;
pub mod edit_conversation;
pub mod list;
pub mod lists;
pub mod manage;
pub mod prune;
pub mod reading;
pub mod rewind;
pub mod undo;
pub mod usage;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use conversation::format::file::{self, Parsed, Trouble};
use conversation::format::nearest::nearest;
use conversation::limits;
use conversation::problem::Problem;
use history::file_index;
use sys::conversation_file::find_bad_byte;
use sys::env::Env;
use sys::fs;
use sys::names::name_some;
use sys::root::{self, Root};
use view::overview::{ConversationKind, Overview};

/// Number of conversations that are read at a time, the newest first.
pub(crate) const READ_AT_ONCE: usize = 32;

/// The conversations below a root.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) root: Root,
    pub(crate) env: Env,
    /// Notes for the user: an index that cannot be read.
    pub notes: Vec<String>,
    /// The files that have conversations, by the name of the conversation.
    files: BTreeMap<String, PathBuf>,
}

/// A conversation and its text.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) kind: ConversationKind,
    /// The file that it belongs to.
    pub(crate) file: Option<PathBuf>,
    /// Empty where it cannot be read.
    pub(crate) text: String,
    pub(crate) parsed: Parsed,
    pub(crate) overview: Overview,
    /// The size of its file in bytes.
    pub(crate) bytes: u64,
    /// When it was last modified, since 1970.
    pub(crate) modified: Duration,
    /// The reason why it cannot be read.
    pub(crate) trouble: Option<String>,
}

impl Conversation {
    /// The conversation whose model started this one. `None` where a person has given a prompt in it.
    pub(crate) fn started_by(&self) -> Option<&str> {
        let mut pieces = self.parsed.pieces.iter();
        let is_own = pieces.any(|it| it.name() == Some("user-prompt") && it.get("from").is_none());
        let is_child = self.kind == ConversationKind::Child && !is_own;
        self.overview.parent.as_deref().filter(|_| is_child)
    }
}

impl Catalog {
    /// Reads the index of files; one that is damaged is a note.
    pub fn read_indexes(root: Root, env: Env) -> Self {
        let mut catalog = Self { root, env, notes: Vec::new(), files: BTreeMap::new() };
        match file_index::load_index(&catalog.root) {
            Ok(loaded) => {
                catalog.notes.extend(loaded.notes);
                let entries = loaded.index.by_file_id.into_values();
                catalog.files.extend(entries.map(|entry| (entry.conversation, entry.path)));
            }
            Err(error) => catalog.notes.push(format!("{error:#}")),
        }
        catalog
    }

    /// The names of all conversations, sorted.
    pub fn names(&self) -> Result<Vec<String>, Problem> {
        let mut names = fs::list_names(&self.root.conversations())?;
        names.retain(|name| root::check_name(name).is_ok());
        Ok(names)
    }

    /// The names of all conversations, the one that was used last first.
    pub(crate) fn newest_names(&self) -> Result<Vec<String>, Problem> {
        let mut names = self.names()?;
        names.sort_by_cached_key(|name| Reverse(fs::modified(&self.root.conversation(name))));
        Ok(names)
    }

    /// The conversation that a prefix of its name means; without one this shell's own.
    pub fn resolve_name(&self, prefix: Option<&str>) -> Result<String, Problem> {
        let names = self.names()?;
        if let Some(prefix) = prefix {
            return find_by_prefix(names, prefix);
        }
        let own = self.root.shell_conversation(self.env.shell_conversation(None));
        if names.contains(&own) {
            return Ok(own);
        }
        Err(Problem::failed(format!(
            "this shell has no conversation yet ({own}); name another one: nagent-conversations list shows all"
        )))
    }

    /// Reads a conversation. `None` where it is not a file.
    pub(crate) fn read_conversation(&self, name: &str) -> Option<Conversation> {
        self.read_at(self.root.conversation(name), name)
    }

    pub(crate) fn read_at(&self, path: PathBuf, name: &str) -> Option<Conversation> {
        let file = self.files.get(name).cloned();
        let kind = match ConversationKind::from_name(name) {
            _ if file.is_some() => ConversationKind::File,
            kind => kind,
        };
        let (bytes, size, modified, unread) = match fs::read_dated(&path, limits::CONVERSATION) {
            Ok(read) => {
                let (bytes, modified) = read?;
                let size = bytes.len() as u64;
                (bytes, size, modified, None)
            }
            Err(_) if path.is_dir() => return None,
            Err(error) => {
                let size = fs::file_size(&path).unwrap_or(0);
                (Vec::new(), size, fs::modified(&path), Some(format!("{error:#}")))
            }
        };
        // The next run moves aside the torn end that a crash has left.
        let is_after_crash = fs::exists(&path.with_added_extension("run"));
        let bad_byte = if is_after_crash { None } else { find_bad_byte(&bytes) };
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let parsed = file::parse(&text);
        let overview = Overview::read(&text, &parsed.pieces);
        let kind = match &overview.parent {
            // Also PARENT.NAME, where the parent is a shell's own.
            Some(_) if matches!(kind, ConversationKind::Named | ConversationKind::Shell) => {
                ConversationKind::Child
            }
            _ => kind,
        };
        let is_open = matches!(parsed.trouble, Some(Trouble::Torn { .. }));
        let bad_byte = bad_byte.filter(|bad| !(is_open && bad.is_cut));
        let bad_line = bad_byte.map(|bad| format!("line {}: it has {}", bad.line, bad.what));
        let trouble = unread.or(bad_line).or_else(|| match &parsed.trouble {
            Some(damage @ Trouble::Damaged { .. }) => Some(damage.to_string()),
            _ => None,
        });
        let name = name.to_owned();
        Some(Conversation {
            name,
            path,
            kind,
            file,
            text,
            parsed,
            overview,
            bytes: size,
            modified,
            trouble,
        })
    }

    /// Reads all conversations on all processors, and hands each to `keep`, which returns the part that is wanted.
    /// Their texts are not kept.
    pub(crate) fn read_all<T: Send>(
        &self,
        keep: &(dyn Fn(Conversation) -> Option<T> + Sync),
    ) -> Result<Vec<T>, Problem> {
        let names = self.names()?;
        Ok(read_each(&names, &|name| self.read_conversation(name), keep))
    }

    /// Reads all conversations in the trash, and hands each to `keep`.
    pub(crate) fn read_trash<T: Send>(
        &self,
        keep: &(dyn Fn(Conversation) -> Option<T> + Sync),
    ) -> Result<Vec<T>, Problem> {
        let trash = self.root.trash_folder();
        let mut names = fs::list_names(&trash)?;
        names.retain(|name| root::check_name(name).is_ok());
        Ok(read_each(&names, &|name| self.read_at(trash.join(name), name), keep))
    }
}

/// Reads conversations, a share of them on each processor.
pub(crate) fn read_each<T: Send>(
    names: &[String],
    read: &(dyn Fn(&str) -> Option<Conversation> + Sync),
    keep: &(dyn Fn(Conversation) -> Option<T> + Sync),
) -> Vec<T> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(8);
    let share = names.len().div_ceil(workers).max(1);
    thread::scope(|scope| {
        let work = |names: &'_ [String]| {
            let found = names.iter().filter_map(|name| keep(read(name)?));
            found.collect::<Vec<T>>()
        };
        let handles: Vec<_> =
            names.chunks(share).map(|names| scope.spawn(move || work(names))).collect();
        let join = |handle: thread::ScopedJoinHandle<'_, Vec<T>>| {
            handle.join().unwrap_or_else(|cause| resume_unwind(cause))
        };
        handles.into_iter().flat_map(join).collect()
    })
}

/// The only name that begins with this prefix, or the name that is equal to it.
fn find_by_prefix(names: Vec<String>, prefix: &str) -> Result<String, Problem> {
    root::check_name(prefix).map_err(Problem::usage)?;
    if names.iter().any(|name| name == prefix) {
        return Ok(prefix.to_owned());
    }
    let mut found: Vec<&String> = names.iter().filter(|name| name.starts_with(prefix)).collect();
    // The names of its archives and children begin with that of a conversation.
    let is_archive = |name: &str| ConversationKind::from_name(name) == ConversationKind::Archive;
    if !found.iter().all(|name| is_archive(name)) {
        found.retain(|name| !is_archive(name));
    }
    if let Some(shortest) = found.iter().copied().min_by_key(|name| name.len()) {
        let of = format!("{shortest}.");
        found.retain(|name| *name == shortest || !name.starts_with(&of));
    }
    match found.as_slice() {
        [only] => Ok((*only).clone()),
        [] => {
            let near = nearest(prefix, names.iter().map(String::as_str)).map_or_else(
                || "nagent-conversations list shows all".to_owned(),
                |near| format!("did you mean {near}?"),
            );
            Err(Problem::failed(format!("no conversation begins with \"{prefix}\"; {near}")))
        }
        several => {
            let count = several.len();
            let names = name_some(several, 5, ", ");
            Err(Problem::failed(format!(
                "{count} conversations begin with \"{prefix}\": {names}; give more letters"
            )))
        }
    }
}

/// The conversation for `--continue`: the one that the prefix means, else the one that was last used in the working folder.
pub fn find_continued(root: &Root, env: &Env, prefix: Option<&str>) -> Result<String, Problem> {
    let catalog = Catalog::read_indexes(root.clone(), env.clone());
    if let Some(prefix) = prefix {
        return catalog.resolve_name(Some(prefix)).map_err(|problem| Problem {
            message: format!(
                "--continue: {}; a prompt of one word follows --: nagent --continue -- {prefix}",
                problem.message
            ),
            ..problem
        });
    }
    let here = env.current_folder()?;
    let keep = |one: Conversation| {
        let is_here = one.overview.folder.as_deref().map(Path::new) == Some(&here);
        (is_here && one.kind.is_of_a_person()).then_some((one.modified, one.name))
    };
    // The newest first, a few at a time: mostly it is one of these.
    let newest = catalog.newest_names()?;
    let newest = newest.chunks(READ_AT_ONCE).find_map(|names| {
        read_each(names, &|name| catalog.read_conversation(name), &keep).into_iter().max()
    });
    newest.map(|(_, name)| name).ok_or_else(|| {
        Problem::failed(format!(
            "--continue: no conversation had a prompt in {}; nagent-conversations list shows all, and --continue NAME takes one of them",
            here.display()
        ))
    })
}
