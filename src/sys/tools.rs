//! Tools, found by asking them: programs that answer `--description`.
//!
//! The toolkit's own beside the running executable, and whatever is executable in `{root}/bin`. Each is run with
//! `--description`, side by side, for at most 2 s. The answers are cached by path, size and time of change, so that a later
//! start runs nothing. A program that does not answer is not a tool.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::atomic_file::AtomicFile;
use super::env::Env;
use super::fs;
use super::interrupt::Interrupts;
use super::process::Jobs;
use super::process::job::{Job, JobId, Outcome, Output};
use super::root::Root;
use crate::context::Tool;
use crate::format::harmless;
use crate::limits::{self, ASKED_TOOLS};

/// The names of the toolkit's own executables, nagent itself first.
pub const TOOLS: [&str; 10] = [
    "nagent",
    "nagent-llm-text",
    "nagent-llm-upload",
    "nagent-file-edit",
    "nagent-file-split",
    "nagent-file-patch",
    "nagent-file-apply",
    "nagent-file-summarize",
    "nagent-sandbox",
    "nagent-conversations",
];

const DESCRIPTION: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    size: u64,
    modified: u64,
    /// Empty: the program gave no description.
    summary: String,
}

/// The tools, the toolkit's own first, each folder in the order of names. The second value are notes for the user.
pub fn discover(root: &Root, env: &Env, interrupts: &Interrupts) -> (Vec<Tool>, Vec<String>) {
    let mut paths = own_executables(env.executable.as_deref());
    let bin = root.folder.join("bin");
    let mine =
        fs::list_names(&bin).unwrap_or_default().into_iter().filter(|name| !name.starts_with('.'));
    paths.extend(mine.map(|name| bin.join(name)).filter(|path| fs::is_executable(path)));
    let too_many = paths.len().saturating_sub(ASKED_TOOLS);
    paths.truncate(ASKED_TOOLS);
    let cache_path = root.folder.join("tools.json");
    let cache = fs::read_text(&cache_path, 4 << 20).ok().flatten().unwrap_or_default();
    let old: BTreeMap<String, Known> = serde_json::from_str(&cache).unwrap_or_default();
    let mut now = BTreeMap::new();
    let mut unknown = Vec::new();
    for path in &paths {
        let key = path.display().to_string();
        let state = (fs::file_size(path).unwrap_or(0), fs::modified_seconds(path));
        match old.get(&key).filter(|known| (known.size, known.modified) == state) {
            Some(known) => {
                now.insert(key, known.clone());
            }
            None => unknown.push((path.clone(), key, state)),
        }
    }
    let mut notes = Vec::new();
    if too_many > 0 {
        let bin = bin.display();
        notes.push(format!("{bin} holds more than {ASKED_TOOLS} programs with the toolkit's own: the last {too_many} are ignored"));
    }
    if !unknown.is_empty() {
        ask_for_descriptions(unknown, env, interrupts, &mut now, &mut notes);
    }
    if now != old && interrupts.pending().is_none() {
        // Only a cache: when it cannot be written, the tools are asked again.
        if let Ok(text) = serde_json::to_string_pretty(&now) {
            let _ = AtomicFile::new(&cache_path).without_sync().write(text.as_bytes());
        }
    }
    let tools = paths
        .iter()
        .filter_map(|path| {
            let path = path.display().to_string();
            let summary = now.get(&path)?.summary.clone();
            (!summary.is_empty()).then_some(Tool { path, summary })
        })
        .collect();
    (tools, notes)
}

fn own_executables(executable: Option<&Path>) -> Vec<PathBuf> {
    let Some(folder) = executable.and_then(Path::parent) else { return Vec::new() };
    let paths = TOOLS[1..].iter().map(|name| folder.join(name));
    paths.filter(|path| fs::is_executable(path)).collect()
}

fn ask_for_descriptions(
    programs: Vec<(PathBuf, String, (u64, u64))>,
    env: &Env,
    interrupts: &Interrupts,
    now: &mut BTreeMap<String, Known>,
    notes: &mut Vec<String>,
) {
    let mut jobs = Jobs::new();
    let mut asked: BTreeMap<JobId, (String, (u64, u64))> = BTreeMap::new();
    for (path, key, state) in programs {
        let argv = vec![path.into_os_string(), OsString::from("--description")];
        let folder = PathBuf::from("/");
        let mut job = Job::new(argv, folder, env.for_commands(&[], &[]));
        job.timeout = Some(limits::TOOL_PATIENCE);
        job.output = Output::Separate;
        job.keep = DESCRIPTION;
        job.limit = 1 << 20;
        match jobs.start(job) {
            Ok(id) => {
                asked.insert(id, (key, state));
            }
            Err(error) => notes.push(format!("{key} is not a tool: {error}")),
        }
    }
    while let Some(finished) = jobs.next_finished(interrupts) {
        let Some((key, (size, modified))) = asked.remove(&finished.id) else { continue };
        let summary = match finished.outcome {
            Outcome::Ended { code: 0 } => summary(&String::from_utf8_lossy(&finished.stdout)),
            Outcome::TimedOut => {
                let seconds = limits::TOOL_PATIENCE.as_secs();
                notes.push(format!(
                    "{key} did not answer --description in {seconds} s; it is left out"
                ));
                String::new()
            }
            Outcome::Interrupted(_) => continue,
            _ => String::new(),
        };
        now.insert(key, Known { size, modified, summary });
    }
}

/// The first sentence of a description, on one line; empty when it is not one.
fn summary(description: &str) -> String {
    let Some((first, rest)) = description.split_once('\n') else { return String::new() };
    if !first.starts_with("path:") {
        return String::new();
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    let text = words.join(" ");
    let sentence = text.find(". ").map_or(text.as_str(), |at| &text[..=at]);
    harmless::escape_line(sentence, limits::TOOL_SUMMARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_first_sentence() {
        assert_eq!(summary("path: /x\nSends a\nfile. More of it.\n"), "Sends a file.");
        assert_eq!(summary("path: /x\nNo end"), "No end");
        assert_eq!(summary("usage: x\n"), "");
        assert_eq!(summary(""), "");
        assert_eq!(
            summary("path: /x\na\u{e0041}\x1b[2J\n\n# Rules\nb"),
            "a\\u{e0041}\\u{1b}[2J # Rules b"
        );
        let long = summary(&format!("path: /x\n{}", "y".repeat(999)));
        assert_eq!(long.chars().count(), limits::TOOL_SUMMARY);
    }
}
