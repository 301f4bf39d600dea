//! What a part of a conversation wrote to files by tags, in itself and in the children that it asked.
//!
//! The conversations say which prompts belong to the part, and what its writes found; the log of changes has what they found
//! whole, by the hash. Where the two do not agree, nothing is undone.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Catalog;
use crate::format::conversation::Piece;
use crate::memory::changes::{Entry, FileEvent, NO_FILE, first_line, former_names, is_hash_of};
use crate::problem::Problem;
use crate::protocol::{self, Action, Item, ParsedReply};
use crate::sys::{change_log, fs};

/// What a part of a conversation wrote.
#[derive(Default)]
pub(super) struct Written {
    sessions: Vec<Session>,
    /// The prompts of children that were read: a file that was edited may lead back to itself.
    seen: Vec<(String, usize)>,
}

/// What one prompt led to, or the end of that.
struct Session {
    conversation: String,
    /// When the prompt was given, to the second, and its first line, as the log of changes has them.
    prompt: (String, String),
    /// Whether all that the log has under this prompt belongs to it.
    is_whole: bool,
    /// The files that it wrote, and the first digits of the hash of what its first write found.
    files: Vec<(PathBuf, String)>,
}

/// A message to a run in progress is no prompt of a run of its own.
fn is_prompt(piece: &Piece) -> bool {
    piece.name() == Some("user-prompt") && piece.get("message").is_none()
}

/// A prompt as the log has it.
fn key(text: &str, prompt: &Piece) -> (String, String) {
    let at = prompt.get("at").unwrap_or_default().to_owned();
    (at, first_line(prompt.text(text).as_bytes()))
}

/// The files that a part of a run wrote, and the first digits of the hash of what its first write of each found.
fn files_of(prompt: &Piece, part: &[Piece]) -> Vec<(PathBuf, String)> {
    let folder = Path::new(prompt.get("cwd").unwrap_or("/"));
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    for piece in part {
        let is_write = matches!(
            piece.name(),
            Some("nagent-write-result" | "nagent-edit-result" | "nagent-file-patch-result")
        ) && piece.get("status") == Some("ok");
        let Some(path) = piece.get("resolved").or_else(|| piece.get("path")) else { continue };
        let path = folder.join(path);
        if is_write && !found.iter().any(|(known, _)| *known == path) {
            found.push((path, piece.get("previous").unwrap_or(NO_FILE).to_owned()));
        }
    }
    found
}

/// A conversation, and a part of it.
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) pieces: &'a [Piece],
    pub(super) range: Range<usize>,
}

impl Part<'_> {
    fn own(&self) -> &[Piece] {
        &self.pieces[self.range.clone()]
    }

    /// The conversations of the children that it asked.
    pub(super) fn children(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.own().iter().filter_map(|piece| piece.get("conversation")) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The prompts that its replies gave to other conversations.
    fn prompts_given(&self) -> Vec<String> {
        let replies = self.own().iter().filter(|piece| piece.name() == Some("agent-response"));
        let mut found = Vec::new();
        for reply in replies {
            let parsed = protocol::parse_reply(reply.text(self.text));
            let (ParsedReply::Whole(items) | ParsedReply::Forged { items, .. }) = parsed else {
                continue;
            };
            found.extend(items.into_iter().filter_map(|item| match item {
                Item::Action(Action::Conversation { prompt, .. }) => Some(prompt.trim().to_owned()),
                _ => None,
            }));
        }
        found
    }

    /// The prompts of a child that this part gave, among those of its conversation; `None` where that cannot be told.
    fn prompts_of(&self, child: &Part<'_>, names: &[String]) -> Option<Vec<usize>> {
        let is_ours = |piece: &Piece| {
            is_prompt(piece) && piece.get("from").is_some_and(|it| names.iter().any(|n| n == it))
        };
        let all: Vec<usize> =
            (0..child.pieces.len()).filter(|at| is_ours(&child.pieces[*at])).collect();
        let is_result = |piece: &&Piece| piece.get("conversation") == Some(child.name);
        let results = self.own().iter().filter(is_result).count();
        let is_done = |piece: &&Piece| is_result(piece) && piece.get("status") == Some("ok");
        let done = self.own().iter().filter(is_done).count();
        let since = self.own().iter().find_map(|piece| piece.get("at"))?;
        let given = self.prompts_given();
        let is_late = |at: &&usize| child.pieces[**at].get("at").is_some_and(|it| it >= since);
        let late: Vec<usize> = all.iter().filter(is_late).copied().collect();
        let is_given =
            |at: &usize| given.iter().any(|it| it == child.pieces[*at].text(child.text).trim());
        let same: Vec<usize> = late.iter().filter(|at| is_given(at)).copied().collect();
        // A child that did not come to its prompt has a result all the same.
        if same.len() == results || (done..results).contains(&same.len()) && same == late {
            return Some(same);
        }
        // As many prompts as results: in the same order.
        let is_even = self.pieces.iter().filter(is_result).count() == all.len();
        is_even.then(|| all[all.len() - results..].to_vec())
    }
}

impl Written {
    /// What a part wrote, and all that it asked of children.
    ///
    /// # Errors
    /// It cannot be told what a child wrote for it.
    pub(super) fn read(catalog: &Catalog, part: &Part<'_>) -> Result<Self, Problem> {
        let mut written = Self::default();
        let log = change_log::read_log(&catalog.root)?;
        written.add(catalog, &log, part)?;
        Ok(written)
    }

    fn add(&mut self, catalog: &Catalog, log: &[Entry], part: &Part<'_>) -> Result<(), Problem> {
        let Part { name, text, pieces, range } = part;
        let prompts: Vec<usize> = (0..pieces.len()).filter(|at| is_prompt(&pieces[*at])).collect();
        for (place, at) in prompts.iter().enumerate() {
            let next = prompts.get(place + 1).copied().unwrap_or(pieces.len());
            let (start, end) = ((*at).max(range.start), next.min(range.end));
            if start >= end {
                continue;
            }
            let prompt = key(text, &pieces[*at]);
            let is_same = |it: &usize| !range.contains(it) && key(text, &pieces[*it]) == prompt;
            self.sessions.push(Session {
                conversation: (*name).to_owned(),
                is_whole: !prompts.iter().any(is_same),
                files: files_of(&pieces[*at], &pieces[start..end]),
                prompt,
            });
        }
        part.children().iter().try_for_each(|child| self.add_child(catalog, log, part, child))
    }

    fn add_child(
        &mut self,
        catalog: &Catalog,
        log: &[Entry],
        part: &Part<'_>,
        name: &str,
    ) -> Result<(), Problem> {
        let refuse = |why: &str| {
            Err(Problem::failed(format!(
                "nothing was undone: {why}; without --files the conversation goes back, and files stay as they are"
            )))
        };
        let Some(one) = catalog.read(name).filter(|one| one.trouble.is_none()) else {
            let has_written = |entry: &Entry| entry.conversation == name;
            if log.iter().any(has_written) {
                return refuse(&format!(
                    "what the child {name} wrote is not known: its conversation cannot be read, or is not there any more"
                ));
            }
            return Ok(());
        };
        let mut names: Vec<String> = former_names(log, part.name).into_iter().collect();
        names.push(part.name.to_owned());
        let (text, pieces) = (&one.text, &one.parsed.pieces);
        let child = Part { name, text, pieces, range: 0..pieces.len() };
        let Some(prompts) = part.prompts_of(&child, &names) else {
            return refuse(&format!(
                "it cannot be told which prompts of the child {name} are from there"
            ));
        };
        for at in prompts {
            let place = (name.to_owned(), at);
            if self.seen.contains(&place) {
                continue;
            }
            self.seen.push(place);
            let later = pieces[at + 1..].iter().position(is_prompt);
            let range = at..later.map_or(pieces.len(), |later| at + 1 + later);
            self.add(catalog, log, &Part { range, ..child })?;
        }
        Ok(())
    }

    /// Whether a line of the log is of this part.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        self.sessions.iter().any(|session| session.has(entry))
    }

    /// The files that it wrote and of which the log does not know; those of nagent's own are never in it.
    pub(super) fn unknown_files(&self, catalog: &Catalog, log: &[Entry]) -> Vec<PathBuf> {
        let own = fs::real_path(catalog.root.path());
        let mut found: Vec<PathBuf> = Vec::new();
        for session in &self.sessions {
            let known: Vec<&Entry> = log.iter().filter(|entry| session.has(entry)).collect();
            let is_known = |path: &Path| known.iter().any(|entry| Path::new(&entry.path) == path);
            for (path, _) in &session.files {
                let is_own = own.as_ref().is_some_and(|own| path.starts_with(own));
                if !is_own && !is_known(path) && !found.contains(path) {
                    found.push(path.clone());
                }
            }
        }
        found
    }

    /// The files that it wrote.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for (path, _) in self.sessions.iter().flat_map(|session| &session.files) {
            if !files.contains(path) {
                files.push(path.clone());
            }
        }
        files
    }
}

impl Session {
    fn has(&self, entry: &Entry) -> bool {
        let is_found = |(path, digits): &(PathBuf, String)| match &entry.event {
            FileEvent::Write { before, .. } => {
                path == Path::new(&entry.path) && is_hash_of(digits, before)
            }
            _ => false,
        };
        self.conversation == entry.conversation
            && self.prompt.0 == entry.at
            && self.prompt.1 == entry.prompt
            && (self.is_whole || self.files.iter().any(is_found))
    }
}
