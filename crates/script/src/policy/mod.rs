//! The policy of a script in plain language, as a value: the text of `policy.json`, and the rules by which its entries
//! decide.
//!
//! The format is that of the public runtime, key by key; unknown keys are kept. Pure: `guarded` checks where a path
//! really leads.
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

use serde_json::{Value, json};

pub mod places;

/// The decision of an entry, the least strict first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Approval {
    /// Allow it.
    Allow,
    /// Ask, unless another entry decides.
    Prompt,
    /// Refuse it.
    Deny,
}

impl Approval {
    /// Its word in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Prompt => "prompt",
        }
    }

    /// Parses the word.
    ///
    /// # Errors
    /// It is another word.
    pub fn parse(word: &str) -> Result<Self, String> {
        [Self::Allow, Self::Deny, Self::Prompt]
            .into_iter()
            .find(|one| one.name() == word)
            .ok_or_else(|| {
                format!(
                    "\"{}\" is not an approval; write allow, deny or prompt",
                    word.escape_debug()
                )
            })
    }
}

/// The subject of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicySubject {
    /// A file or folder
    Path,
    /// A variable of the environment
    Env,
    /// A host of the network
    Host,
}

impl PolicySubject {
    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Env => "env",
            Self::Host => "host",
        }
    }

    /// The key of an entry with its subject.
    fn subject_key(self) -> &'static str {
        if self == Self::Env { "name" } else { self.name() }
    }

    /// The path of its section in the file.
    fn section(self) -> &'static str {
        match self {
            Self::Path => "/paths",
            Self::Env => "/env",
            Self::Host => "/net/hosts",
        }
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

impl Mode {
    /// Its letter in the file.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Write => "w",
            Self::Delete => "d",
        }
    }
}

/// The content of a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy(Value);

impl Default for Policy {
    fn default() -> Self {
        Self(json!({
            "version": 1,
            "paths": { "default": "prompt", "entries": [], "protected": [] },
            "env": { "default": "prompt", "entries": [] },
            "net": {
                "hosts": { "default": "prompt", "entries": [] },
                "listen": { "default": "deny", "entries": [] },
            },
        }))
    }
}

/// The only supported version of the file.
const VERSION: u64 = 1;

impl Policy {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The fault in the text, and its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let policy = Self(value);
        if !policy.0.is_object() {
            return Err("it is not an object".to_owned());
        }
        if policy.0.get("version").is_some_and(|version| version.as_u64() != Some(VERSION)) {
            return Err(format!("\"version\" is not {VERSION}"));
        }
        for kind in [PolicySubject::Path, PolicySubject::Env, PolicySubject::Host] {
            policy.check_section(kind)?;
        }
        Ok(policy)
    }

    /// Formats the file: indented by two blanks a level, with a line feed at the end.
    pub fn format(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n"
    }

    fn check_section(&self, kind: PolicySubject) -> Result<(), String> {
        let section = kind.section();
        let at = section.trim_start_matches('/').replace('/', ".");
        let folder = section.rsplit_once('/').map_or("", |(up, _)| up);
        for part in [folder, section] {
            let is_wrong = |value: &Value| !value.is_object() && !value.is_null();
            if self.0.pointer(part).is_some_and(is_wrong) {
                return Err(format!("\"{at}\" is not an object"));
            }
        }
        if let Some(default) = self.0.pointer(&format!("{section}/default")) {
            let word = default.as_str().ok_or_else(|| format!("\"{at}.default\" is not a word"))?;
            Approval::parse(word).map_err(|error| format!("\"{at}.default\": {error}"))?;
        }
        for list in ["entries", "protected"] {
            let value = self.0.pointer(&format!("{section}/{list}"));
            let Some(value) = value.filter(|value| !value.is_null()) else { continue };
            let entries =
                value.as_array().ok_or_else(|| format!("\"{at}.{list}\" is not a list"))?;
            for (number, entry) in entries.iter().enumerate() {
                check_entry(kind, entry)
                    .map_err(|error| format!("\"{at}.{list}\", entry {}: {error}", number + 1))?;
            }
        }
        Ok(())
    }

    /// Replaces the paths of entries by the results of `resolve`: the paths in requests of a script have no links.
    pub fn resolve_paths(&mut self, resolve: &dyn Fn(&Path) -> PathBuf) {
        for list in ["/paths/entries", "/paths/protected"] {
            let entries = self.0.pointer_mut(list).and_then(Value::as_array_mut);
            for path in entries.into_iter().flatten().filter_map(|entry| entry.get_mut("path")) {
                let resolved = path.as_str().map(|path| resolve(Path::new(path)));
                *path = resolved.map_or(Value::Null, |path| path.to_string_lossy().into());
            }
        }
    }

    fn entries(&self, kind: PolicySubject, list: &str) -> impl Iterator<Item = PolicyEntry<'_>> {
        let entries =
            self.0.pointer(&format!("{}/{list}", kind.section())).and_then(Value::as_array);
        entries.into_iter().flatten().map(move |entry| PolicyEntry { kind, entry })
    }

    /// The decision for everything of a kind that no entry names.
    fn default_approval(&self, kind: PolicySubject) -> Approval {
        let default = self.0.pointer(&format!("{}/default", kind.section()));
        let default = default.and_then(Value::as_str).and_then(|word| Approval::parse(word).ok());
        default.unwrap_or(Approval::Prompt)
    }

    /// The entry for a path: the longest that covers it and has the mode. Of two for one path the stricter applies.
    fn find_path(&self, list: &str, mode: Mode, path: &Path) -> Option<PolicyEntry<'_>> {
        let covering = self.entries(PolicySubject::Path, list).filter(|entry| {
            entry.text_field("mode").contains(mode.letter())
                && path.starts_with(entry.text_field("path"))
        });
        covering.max_by_key(|entry| {
            (Path::new(entry.text_field("path")).components().count(), entry.approval())
        })
    }

    /// Whether an entry allows this host by its whole name. An entry from an answer to a question counts only if the
    /// name itself shows that the host is a private one: any other name may lead elsewhere now.
    pub fn names_host(&self, host: &str, port: u16) -> bool {
        self.entries(PolicySubject::Host, "entries").any(|entry| {
            let is_exact = !entry.text_field("host").starts_with('*');
            let is_meant = entry.text_field("source") != "prompt" || is_plainly_private(host);
            let is_allowed = entry.approval() == Approval::Allow;
            is_exact && is_meant && is_allowed && entry.is_for_host(host, port)
        })
    }

    /// Adds an entry, in place of one for the same subject and mode. `mode` is some of `rwd` for a path. `source` is
    /// its origin (`default`, `prompt`, `config`, `cli`), `created` the time as RFC 3339.
    pub fn add_entry(
        &mut self,
        (kind, subject, mode): (PolicySubject, &str, &str),
        approval: Approval,
        source: &str,
        created: &str,
    ) {
        self.retain(kind, |entry| {
            entry.subject() != subject
                || kind == PolicySubject::Path && entry.text_field("mode") != mode
        });
        let mut entry = json!({
            kind.subject_key(): subject,
            "mode": mode,
            "approval": approval.name(),
            "source": source,
            "created": created,
        });
        if let Some(entry) = entry.as_object_mut().filter(|_| kind != PolicySubject::Path) {
            entry.shift_remove("mode");
        }
        if let Some(entries) = self.entries_mut(kind) {
            entries.push(entry);
        }
    }

    /// Removes the entries for a subject, and returns their number.
    pub fn remove(&mut self, kind: PolicySubject, subject: &str) -> usize {
        let before = self.entries(kind, "entries").count();
        self.retain(kind, |entry| entry.subject() != subject);
        before - self.entries(kind, "entries").count()
    }

    fn retain(&mut self, kind: PolicySubject, keep: impl Fn(&PolicyEntry<'_>) -> bool) {
        if let Some(entries) = self.entries_mut(kind) {
            entries.retain(|entry| keep(&PolicyEntry { kind, entry }));
        }
    }

    /// The list of a kind's entries, created if it is missing.
    fn entries_mut(&mut self, kind: PolicySubject) -> Option<&mut Vec<Value>> {
        let mut at = &mut self.0;
        for key in kind.section().split('/').skip(1) {
            if at.get(key).is_none_or(Value::is_null) {
                at.as_object_mut()?.insert(key.to_owned(), json!({ "default": "prompt" }));
            }
            at = at.get_mut(key)?;
        }
        if at.get("entries").is_none_or(Value::is_null) {
            at.as_object_mut()?.insert("entries".to_owned(), json!([]));
        }
        at.get_mut("entries")?.as_array_mut()
    }

    /// Counts the entries that allow and those that deny.
    pub fn count(&self, kind: PolicySubject) -> (usize, usize) {
        let count = |wanted| {
            self.entries(kind, "entries").filter(|entry| entry.approval() == wanted).count()
        };
        (count(Approval::Allow), count(Approval::Deny))
    }
}

#[derive(Clone, Copy)]
struct PolicyEntry<'a> {
    kind: PolicySubject,
    entry: &'a Value,
}

impl<'a> PolicyEntry<'a> {
    fn text_field(&self, key: &str) -> &'a str {
        self.entry.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn subject(&self) -> &'a str {
        self.text_field(self.kind.subject_key())
    }

    fn approval(&self) -> Approval {
        Approval::parse(self.text_field("approval")).unwrap_or(Approval::Deny)
    }

    /// Whether the entry names this variable, or has a `*` at its end and the variable begins with the rest.
    fn is_for_variable(&self, name: &str) -> bool {
        match self.text_field("name").strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == self.text_field("name"),
        }
    }

    /// Whether the entry names this host, with this port or without a port, or has `*.` before a name above the host.
    fn is_for_host(&self, host: &str, port: u16) -> bool {
        let named = self.text_field("host").to_ascii_lowercase();
        let named = match named.strip_suffix(&format!(":{port}")) {
            Some(bare) if !bare.ends_with(':') => bare,
            _ => named.as_str(),
        };
        match named.strip_prefix('*') {
            Some(end) => end.starts_with('.') && host.len() > end.len() && host.ends_with(end),
            None => host == named,
        }
    }
}

fn check_entry(kind: PolicySubject, entry: &Value) -> Result<(), String> {
    let text = |key: &str| {
        entry.get(key).and_then(Value::as_str).ok_or_else(|| format!("\"{key}\" is missing"))
    };
    if text(kind.subject_key())?.is_empty() {
        return Err(format!("\"{}\" is empty", kind.subject_key()));
    }
    Approval::parse(text("approval")?)?;
    if kind == PolicySubject::Path {
        check_path(text("path")?)?;
        check_mode(text("mode")?)?;
    }
    Ok(())
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
pub fn is_plainly_private(host: &str) -> bool {
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
    /// Decides about a path without links. `is_free`: the place needs no question.
    ///
    /// The global `protected` entries come first, then entries that deny, then free places, then entries that allow: a
    /// deny within a free place applies.
    pub fn decide_path(&self, mode: Mode, path: &Path, is_free: bool) -> Approval {
        if let Some(entry) = self.global.find_path("protected", mode, path) {
            return entry.approval();
        }
        let found = self
            .policies()
            .into_iter()
            .filter_map(|policy| policy.find_path("entries", mode, path));
        self.decide(PolicySubject::Path, is_free, found.map(|entry| entry.approval()).collect())
    }

    /// Whether an entry restricts a path in a folder: it would no longer apply if the folder were renamed.
    pub fn restricts_below(&self, folder: &Path) -> bool {
        let lists =
            [(&self.own, "entries"), (&self.global, "entries"), (&self.global, "protected")];
        let mut entries =
            lists.iter().flat_map(|(policy, list)| policy.entries(PolicySubject::Path, list));
        entries.any(|entry| {
            entry.approval() != Approval::Allow
                && Path::new(entry.text_field("path")).starts_with(folder)
        })
    }

    /// Decides about reading a variable. `is_secret`: only an entry with its whole name can allow it.
    pub fn decide_variable(&self, name: &str, is_secret: bool) -> Approval {
        let is_whole = |entry: &PolicyEntry<'_>| !is_secret || !entry.subject().contains('*');
        let found = self.find_all(PolicySubject::Env, |entry| {
            entry.is_for_variable(name) && (entry.approval() != Approval::Allow || is_whole(entry))
        });
        let found: Vec<_> = found.map(|entry| entry.approval()).collect();
        let is_default = found.is_empty();
        match self.decide(PolicySubject::Env, false, found) {
            Approval::Allow if is_secret && is_default => Approval::Prompt,
            approval => approval,
        }
    }

    /// Decides about a host, in lower case, and a port.
    pub fn decide_host(&self, host: &str, port: u16) -> Approval {
        let found = self.find_all(PolicySubject::Host, |entry| entry.is_for_host(host, port));
        self.decide(PolicySubject::Host, false, found.map(|entry| entry.approval()).collect())
    }

    fn policies(&self) -> [&Policy; 2] {
        [&self.own, &self.global]
    }

    fn find_all(
        &self,
        kind: PolicySubject,
        is_for: impl Fn(&PolicyEntry<'_>) -> bool,
    ) -> impl Iterator<Item = PolicyEntry<'_>> {
        let entries =
            self.policies().into_iter().flat_map(move |policy| policy.entries(kind, "entries"));
        entries.filter(move |entry| is_for(entry))
    }

    /// Decides by the entries that were found, or by the defaults if there are none.
    fn decide(&self, kind: PolicySubject, is_free: bool, mut found: Vec<Approval>) -> Approval {
        if found.is_empty() && !is_free {
            found = self.policies().map(|policy| policy.default_approval(kind)).to_vec();
        }
        if found.contains(&Approval::Deny) {
            return Approval::Deny;
        }
        let is_allowed = is_free || found.contains(&Approval::Allow);
        if is_allowed { Approval::Allow } else { Approval::Prompt }
    }
}

#[cfg(test)]
mod tests;
