//! The policy of a script in plain language, as a value: the text of `policy.json`, and the rules by which its entries
//! decide.
//!
//! The format is that of the public runtime, key by key; a file with another key is refused. Pure: `guarded` checks
//! where a path really leads.
//!
//! ```text
//! { "version": 1,
//!   "paths": { "default": A, "entries": [{"path", "mode": of r w d, "approval": A, "source", "created"}], "protected": [the same] },
//!   "env": { "default": A, "entries": [{"name", "approval", …}] },
//!   "net": { "hosts": { "default": A, "entries": [{"host", …}] }, "listen": { "default": "deny", "entries": [{"port", …}] } } }
//! A = "allow" | "deny" | "prompt"
//! ```

use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub mod places;

/// The decision of an entry. Where several decide, the last of these counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Ask.
    #[default]
    Prompt,
    /// Allow it.
    Allow,
    /// Refuse it.
    Deny,
}

impl Approval {
    /// Parses the word.
    ///
    /// # Errors
    /// It is another word.
    pub fn parse(word: &str) -> Result<Self, String> {
        serde_json::from_value(word.into()).map_err(|_| {
            let word = word.escape_debug();
            format!("\"{word}\" is not an approval; write allow, deny or prompt")
        })
    }
}

/// The subject of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A file or folder, and everything below it.
    Path(String),
    /// A variable of the environment, or a beginning of names and `*`.
    #[serde(rename = "name")]
    Env(String),
    /// A host of the network, or `*.` and a name above it; a port may follow.
    Host(String),
}

impl Subject {
    /// The word for its kind on the command line.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Path(_) => "path",
            Self::Env(_) => "env",
            Self::Host(_) => "host",
        }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        let (Self::Path(text) | Self::Env(text) | Self::Host(text)) = self;
        text
    }
}

/// A right on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Reading a file, listing a folder.
    Read,
    /// Writing a file, making a folder.
    Write,
    /// Removing.
    Delete,
}

/// An action that a script requests.
#[derive(Debug, Clone, Copy)]
pub enum AccessRequest<'a> {
    /// A right on a path without links.
    Path(Mode, &'a Path),
    /// Reading a variable, and whether it is a credential.
    Variable(&'a str, bool),
    /// Connecting to a host, by its name in lower case, and a port.
    Host(&'a str, u16),
}

impl AccessRequest<'_> {
    /// Its word in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Path(Mode::Read, _) => "read",
            Self::Path(Mode::Write, _) => "write",
            Self::Path(Mode::Delete, _) => "delete",
            Self::Variable(..) => "env",
            Self::Host(..) => "net",
        }
    }

    /// The mode of an entry for it, a letter; empty where it is not about a path.
    pub fn mode(self) -> &'static str {
        if matches!(self, Self::Path(..)) { &self.name()[..1] } else { "" }
    }

    /// The subject of an entry for it.
    pub fn subject(self) -> Subject {
        match self {
            Self::Path(_, path) => Subject::Path(path.to_string_lossy().into_owned()),
            Self::Variable(name, _) => Subject::Env(name.to_owned()),
            Self::Host(host, 80 | 443) => Subject::Host(host.to_owned()),
            Self::Host(host, port) => Subject::Host(format!("{host}:{port}")),
        }
    }
}

/// The content of a policy file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    version: u64,
    paths: Section,
    env: Section,
    net: Net,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Net {
    hosts: Section,
    /// Not used.
    listen: Value,
}

/// The entries of a kind. Go writes an empty list as null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Section {
    default: Approval,
    entries: Option<Vec<Entry>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protected: Option<Vec<Entry>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    subject: Subject,
    /// The rights on a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    approval: Approval,
    /// `source`, `created`, and what else is in it.
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl Default for Policy {
    fn default() -> Self {
        let paths = Section { protected: Some(Vec::new()), ..Section::default() };
        Self { version: 1, paths, env: Section::default(), net: Net::default() }
    }
}

impl Default for Net {
    fn default() -> Self {
        Self { hosts: Section::default(), listen: json!({ "default": "deny", "entries": [] }) }
    }
}

impl Default for Section {
    fn default() -> Self {
        Self { default: Approval::Prompt, entries: Some(Vec::new()), protected: None }
    }
}

impl Policy {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The fault in the text, and its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let policy: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if policy.version != 1 {
            return Err("\"version\" is not 1".to_owned());
        }
        for (kind, section) in policy.sections() {
            for entry in [&section.entries, &section.protected].into_iter().flatten().flatten() {
                entry.check(kind)?;
            }
        }
        Ok(policy)
    }

    /// Formats the file: indented by two blanks a level, with a line feed at the end.
    pub fn format(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Replaces the paths of entries by the results of `resolve`: the paths in requests of a script have no links.
    pub(crate) fn resolve_paths(&mut self, resolve: &dyn Fn(&Path) -> PathBuf) {
        let lists = [&mut self.paths.entries, &mut self.paths.protected];
        for entry in lists.into_iter().flatten().flatten() {
            let resolved = resolve(Path::new(entry.subject.text()));
            entry.subject = Subject::Path(resolved.to_string_lossy().into_owned());
        }
    }

    fn sections(&self) -> [(&'static str, &Section); 3] {
        [("path", &self.paths), ("env", &self.env), ("host", &self.net.hosts)]
    }

    fn entries_mut(&mut self, subject: &Subject) -> &mut Vec<Entry> {
        let section = match subject {
            Subject::Path(_) => &mut self.paths,
            Subject::Env(_) => &mut self.env,
            Subject::Host(_) => &mut self.net.hosts,
        };
        section.entries.get_or_insert_default()
    }

    /// Adds an entry, in place of one for the same subject and mode. `mode` is some of `rwd` for a path, else empty.
    /// `source` is its origin (`default`, `prompt`, `config`, `cli`), `created` the time as RFC 3339.
    pub fn add_entry(
        &mut self,
        (subject, mode): (Subject, &str),
        approval: Approval,
        source: &str,
        created: &str,
    ) {
        let mode = Some(mode.to_owned()).filter(|mode| !mode.is_empty());
        let other = [("source", source), ("created", created)];
        let other = other.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        let entries = self.entries_mut(&subject);
        entries.retain(|old| old.subject != subject || old.mode != mode);
        entries.push(Entry { subject, mode, approval, other });
    }

    /// Removes the entries for a subject, and returns their number.
    pub fn remove(&mut self, subject: &Subject) -> usize {
        self.entries_mut(subject).extract_if(.., |entry| entry.subject == *subject).count()
    }
}

impl Entry {
    fn check(&self, kind: &str) -> Result<(), String> {
        if self.subject.kind() != kind || self.subject.text().is_empty() {
            return Err(format!("an entry for a {kind} does not name one"));
        }
        if let Subject::Path(path) = &self.subject {
            check_path(path)?;
            check_mode(self.mode.as_deref().unwrap_or_default())?;
        }
        Ok(())
    }

    /// Whether the entry decides about a request. One with a wildcard never allows a credential.
    fn covers(&self, request: AccessRequest<'_>) -> bool {
        match (&self.subject, request) {
            (Subject::Path(place), AccessRequest::Path(_, path)) => {
                let has_mode = |mode: &String| mode.contains(request.mode());
                path.starts_with(place) && self.mode.as_ref().is_some_and(has_mode)
            }
            (Subject::Env(named), AccessRequest::Variable(name, is_secret)) => {
                match named.strip_suffix('*') {
                    Some(_) if is_secret && self.approval == Approval::Allow => false,
                    Some(prefix) => name.starts_with(prefix),
                    None => name == named,
                }
            }
            (Subject::Host(named), AccessRequest::Host(host, port)) => {
                let named = named.to_ascii_lowercase();
                let named = match named.strip_suffix(&format!(":{port}")) {
                    Some(bare) if !bare.ends_with(':') => bare,
                    _ => named.as_str(),
                };
                match named.strip_prefix('*') {
                    Some(end) => {
                        end.starts_with('.') && host.len() > end.len() && host.ends_with(end)
                    }
                    None => host == named,
                }
            }
            _ => false,
        }
    }
}

/// The decision of a list of entries, if any covers the request: of paths, the longest counts.
fn find_decision(entries: Option<&Vec<Entry>>, request: AccessRequest<'_>) -> Option<Approval> {
    let depth = |entry: &Entry| match &entry.subject {
        Subject::Path(path) => Path::new(path).components().count(),
        Subject::Env(_) | Subject::Host(_) => 0,
    };
    let covering = entries.into_iter().flatten().filter(|entry| entry.covers(request));
    covering.map(|entry| (depth(entry), entry.approval)).max().map(|(_, approval)| approval)
}

/// Checks the path of an entry.
///
/// # Errors
/// It is relative to the working folder, or contains `..`.
pub fn check_path(path: &str) -> Result<(), String> {
    let path = Path::new(path);
    if path.is_absolute() && path.components().all(|part| part != Component::ParentDir) {
        return Ok(());
    }
    Err(format!(
        "\"{}\" is not an absolute path without \"..\"",
        path.display().to_string().escape_debug()
    ))
}

/// Whether a host cannot be mistaken for one on the internet: it is an address, or this machine's own name.
pub(crate) fn is_plainly_private(host: &str) -> bool {
    let name = host.trim_matches(['[', ']']);
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

/// Checks a mode of a path: some of `rwd`.
///
/// # Errors
/// It is empty, or has other letters.
pub fn check_mode(mode: &str) -> Result<(), String> {
    if !mode.is_empty() && mode.chars().all(|letter| "rwd".contains(letter)) {
        return Ok(());
    }
    Err(format!(
        "\"{}\" is not a mode; write some of rwd (read, write, delete)",
        mode.escape_debug()
    ))
}

/// The policies for a run: the thought's own, and the global one.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The policy of the thought.
    pub own: Policy,
    /// The policy for all thoughts.
    pub global: Policy,
}

impl Layers {
    /// Decides about a request. `is_free`: the place needs no question.
    ///
    /// The first list with an entry for it decides: the global `protected` one, the thought's, the global one. So an
    /// entry within a free place applies. Then come free places, then the stricter default.
    pub fn decide(&self, request: AccessRequest<'_>, is_free: bool) -> Approval {
        let at = match request {
            AccessRequest::Path(..) => 0,
            AccessRequest::Variable(..) => 1,
            AccessRequest::Host(..) => 2,
        };
        let [own, global] = [&self.own, &self.global].map(|policy| policy.sections()[at].1);
        let lists = [&global.protected, &own.entries, &global.entries];
        let found = lists.into_iter().find_map(|list| find_decision(list.as_ref(), request));
        let is_secret = matches!(request, AccessRequest::Variable(_, true));
        found.unwrap_or(match own.default.max(global.default) {
            _ if is_free => Approval::Allow,
            Approval::Allow if is_secret => Approval::Prompt,
            default => default,
        })
    }

    /// Whether an entry restricts a path in a folder: it would no longer apply if the folder were renamed.
    pub(crate) fn restricts_below(&self, folder: &Path) -> bool {
        let [own, global] = [&self.own.paths, &self.global.paths];
        let lists = [&global.protected, &own.entries, &global.entries];
        lists.into_iter().flatten().flatten().any(|entry| {
            entry.approval != Approval::Allow && Path::new(entry.subject.text()).starts_with(folder)
        })
    }

    /// Whether an entry allows this host by its whole name. An entry from an answer to a question counts only if the
    /// name itself shows that the host is a private one: any other name may lead elsewhere now.
    pub(crate) fn names_host(&self, host: &str, port: u16) -> bool {
        let request = AccessRequest::Host(host, port);
        let lists = [&self.own.net.hosts.entries, &self.global.net.hosts.entries];
        lists.into_iter().flatten().flatten().any(|entry| {
            let is_exact = !entry.subject.text().starts_with('*');
            let is_answer = entry.other.get("source").is_some_and(|source| source == "prompt");
            let is_meant = is_exact && (!is_answer || is_plainly_private(host));
            is_meant && entry.approval == Approval::Allow && entry.covers(request)
        })
    }
}

#[cfg(test)]
mod tests;
