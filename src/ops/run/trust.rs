//! The texts of a repository that may count as the user's words: `AGENTS.md` and `.nagent/context.md`, from its top down to a
//! folder. `nagent --trust` shows them and records their hashes; until then, and when they have changed, they are only named.
//! The repository's skills are confirmed with them, each by the hash of its folder.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::call::Call;
use crate::out::Report;
use conversation::format::harmless::{escape_text, quote_name};
use conversation::format::numbers::{format_bytes, format_count};
use conversation::limits::CONTEXT_FILE;
use conversation::problem::Problem;
use history::git;
use sys::fs;
use sys::root::Root;
use sys::skills::{SKILL_FILE, SkillFolder, find_skills, hash_folder};
use sys::trust::{self, Trusted};

/// The files with a project's instructions for contributors; only the first one in a folder counts.
const INSTRUCTIONS: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// The file for nagent alone.
const OWN: &str = ".nagent/context.md";
/// The file with a project's MCP servers, at the top of the repository.
pub(crate) const SERVERS: &str = ".mcp.json";
/// Maximum number of files of a repository that are read or named.
const MOST: usize = 8;

/// An instruction file of a repository, and the hash that was trusted.
#[derive(Debug, Clone)]
pub(crate) struct RepositoryText {
    /// The file, by its true path.
    pub(crate) path: PathBuf,
    /// Its text, if the user has confirmed it.
    pub(crate) text: Option<String>,
    /// Whether the user had confirmed another text of it.
    pub(crate) has_changed: bool,
}

/// The files from the top of a repository down to a folder, the most specific last. Those of nagent's own root do not count.
fn find_files(root: &Root, folder: &Path, toplevel: Option<&Path>) -> Vec<PathBuf> {
    let top = toplevel.unwrap_or(folder);
    let mut folders: Vec<&Path> =
        folder.ancestors().take_while(|above| above.starts_with(top)).collect();
    folders.reverse();
    let is_there = |path: &PathBuf| fs::file_size(path).is_some();
    let own_root = fs::real_path(&root.folder);
    let in_folder = |folder: &Path| -> Vec<PathBuf> {
        let instructions = INSTRUCTIONS.iter().map(|name| folder.join(name)).find(is_there);
        let own = Some(folder.join(OWN)).filter(is_there);
        instructions.into_iter().chain(own).filter_map(|path| fs::real_path(&path)).collect()
    };
    let servers = fs::real_path(&top.join(SERVERS)).filter(|path| path.ends_with(SERVERS));
    let mut files: Vec<PathBuf> = folders.into_iter().flat_map(in_folder).chain(servers).collect();
    files.retain(|path| !own_root.as_ref().is_some_and(|root| path.starts_with(root)));
    files.dedup();
    // The most specific are the ones that count.
    files.split_off(files.len().saturating_sub(MOST))
}

/// The texts of a repository for a folder, the most specific last, and the file with its MCP servers. A note says why nothing is
/// trusted.
pub(crate) fn repository_files(
    root: &Root,
    folder: &Path,
    toplevel: Option<&Path>,
) -> (Vec<RepositoryText>, Option<String>) {
    let (known, note) = match trust::load_trusted(root) {
        Ok(known) => (known, None),
        Err(error) => (Vec::new(), Some(format!("no text of a repository is trusted: {error:#}"))),
    };
    let texts = find_files(root, folder, toplevel).into_iter().map(|path| {
        let name = path.display().to_string();
        let entry: Option<&Trusted> = known.iter().find(|entry| entry.path == name);
        // A file that nobody has confirmed is not even opened.
        let bytes = entry.and_then(|_| fs::read_bytes(&path, CONTEXT_FILE).ok().flatten());
        let text = entry.zip(bytes).and_then(|(entry, bytes)| {
            let is_it = fs::sha256(&bytes) == entry.sha256;
            is_it.then(|| String::from_utf8_lossy(&bytes).into_owned())
        });
        RepositoryText { path, has_changed: entry.is_some() && text.is_none(), text }
    });
    (texts.collect(), note)
}

/// Shows the texts of the repository of the working folder and trusts them as they are; with `revokes`, trusts none of them.
pub fn trust_repository(call: &Call<'_>, revokes: bool) -> Result<Report, Problem> {
    if call.delegated {
        return Err(Problem::usage(
            "--trust is for the user: a command of a conversation cannot trust a text for the user",
        ));
    }
    let folder = call.env.current_folder()?;
    let folder = fs::real_path(&folder).unwrap_or(folder);
    let toplevel = git::find_toplevel(&folder).unwrap_or_else(|| folder.clone());
    if revokes {
        let known = trust::load_trusted(call.root())?;
        let known = known.into_iter().map(|entry| PathBuf::from(entry.path));
        let hashes = known.filter(|path| path.starts_with(&toplevel)).map(|path| (path, None));
        let (count, list) = record(call, &hashes.collect::<Vec<_>>())?;
        let text = format!("{count} of this repository: no longer trusted\n");
        return Ok(Report::wrapped(&text).with("trusted", list));
    }
    let files = find_files(call.root(), &folder, Some(&toplevel));
    let home = call.env.home_folder();
    let (mut skills, _) = find_skills(call.root().path(), home.as_deref(), &folder, &toplevel);
    skills.retain(|skill| skill.top.is_some());
    if files.is_empty() && skills.is_empty() {
        return Err(Problem::failed(format!(
            "nothing to trust: no {}, {OWN}, {SERVERS} or skill in {} or its parents in the repository",
            INSTRUCTIONS.join(", "),
            quote_name(&folder)
        )));
    }
    let (mut text, mut hashes) = (String::new(), Vec::new());
    for path in files {
        let body = read_text(&path, &toplevel)?;
        let shown = escape_text(body.trim_end());
        text.push_str(&format!("==> {} <==\n{shown}\n\n", quote_name(&path)));
        hashes.push((path, Some(fs::sha256(body.as_bytes()))));
    }
    for skill in &skills {
        match show_skill(skill) {
            Ok((path, shown, hash)) => {
                text.push_str(&shown);
                hashes.push((path, Some(hash)));
            }
            Err(why) => text
                .push_str(&format!("==> {} <==\nnot trusted: {why}\n\n", quote_name(&skill.path))),
        }
    }
    let (count, list) = record(call, &hashes)?;
    if hashes.iter().any(|(path, _)| path.ends_with(SERVERS)) {
        text.push_str(
            "The servers of .mcp.json run with your rights, outside of the sandbox of commands.\n\n",
        );
    }
    text.push_str(&format!(
        "{count} trusted: conversations here start with them as your words until they change; nagent --untrust revokes it\n"
    ));
    Ok(Report::wrapped(&text).with("trusted", list))
}

/// Records hashes, and returns how many files and skills they are of, and their list.
fn record(
    call: &Call<'_>,
    hashes: &[(PathBuf, Option<String>)],
) -> Result<(String, Vec<Value>), Problem> {
    call.root().prepare()?;
    let records: Vec<_> =
        hashes.iter().map(|(path, hash)| (path.as_path(), hash.as_deref())).collect();
    trust::record_trusted(call.root(), &records, &call.interrupts)?;
    let (skills, files): (Vec<_>, Vec<_>) = hashes.iter().partition(|(path, _)| path.is_dir());
    let counts = [(files.len(), "file"), (skills.len(), "skill")];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, what)| format_count(count as u64, what)).collect();
    let count = if counts.is_empty() { "nothing".to_owned() } else { counts.join(" and ") };
    let entry = |(path, hash): &(PathBuf, Option<String>)| json!({ "path": path.display().to_string(), "sha256": hash });
    Ok((count, hashes.iter().map(entry).collect()))
}

/// A text of a repository that is to be shown and trusted.
fn read_text(path: &Path, toplevel: &Path) -> Result<String, Problem> {
    let failed =
        |why: &str| Problem::failed(format!("{} {why}; nothing was trusted", quote_name(path)));
    if !path.starts_with(toplevel) {
        return Err(failed("is outside of the repository, which has a link to it"));
    }
    let bytes = fs::read_bytes(path, CONTEXT_FILE)?.ok_or_else(|| failed("is gone"))?;
    String::from_utf8(bytes).map_err(|_| failed("is not UTF-8 text"))
}

/// A skill's true path, its text and the names of its other files, and its hash.
fn show_skill(skill: &SkillFolder) -> Result<(PathBuf, String, String), String> {
    let folder = skill.real_path()?;
    let (hash, mut files) = hash_folder(&folder)?;
    let path = fs::real_path(&folder.join(SKILL_FILE)).unwrap_or_default();
    let body = path.strip_prefix(&folder).ok().and_then(|name| files.remove(name));
    let body = body.ok_or_else(|| format!("it has no {SKILL_FILE}"))?;
    let body = String::from_utf8(body).map_err(|_| format!("{SKILL_FILE} is not UTF-8 text"))?;
    let mut text = format!("==> {} <==\n{}\n", quote_name(path), escape_text(body.trim_end()));
    for (name, bytes) in files {
        let bytes = format_bytes(bytes.len() as u64);
        text.push_str(&format!("with it: {} ({bytes})\n", quote_name(name)));
    }
    Ok((folder, text + "\n", hash))
}
