//! Finds tools: programs that answer `--description`.
//!
//! Candidates are all executables `nagent-*` in the folder of the running one, and all executables in `{root}/bin`. The
//! toolkit's own are known: [`TOLD`] has what a model is told of them. Each other one is run with `--description`, in
//! parallel, for a limited time. The answers are cached by path, size and time of change, so that a later start runs
//! nothing; a program that was too slow is run again. A program without a description is not a tool, and the user gets a
//! note with the reason.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::atomic_file::AtomicFile;
use super::env::Env;
use super::fs;
use super::interrupt::Interrupts;
use super::process::Jobs;
use super::process::job::{Job, JobId, JobOutcome, Output};
use super::root::Root;
use conversation::context::Tool;
use conversation::format::harmless;
use conversation::limits::{self, ASKED_TOOLS};

/// The names of the toolkit's own executables, nagent itself first.
pub const TOOLS: &[&str] = &[
    "nagent",
    "nagent-llm-text",
    "nagent-llm-upload",
    "nagent-decide",
    "nagent-file-edit",
    "nagent-file-split",
    "nagent-file-patch",
    "nagent-file-summarize",
    "nagent-repl",
    "nagent-sandbox",
    "nagent-conversations",
    "nagent-each",
    "nagent-message",
    "nagent-status",
    "nagent-js",
    "nagent-mcp",
    "nagent-think",
    "nagent-thought",
];

/// Those that work in a command of a model's, in the sandbox, and need no model of their own; and what they do.
const TOLD: [(&str, &str); 3] = [
    ("nagent-file-split", "--file F --output DIR: cut a large file into segments to read and edit"),
    ("nagent-file-patch", "DIR: put the edited segments back"),
    ("nagent-js", "-e CODE: run JavaScript; prints the last value"),
];

const DESCRIPTION: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    size: u64,
    modified: u64,
    /// Its description; empty if it gave none.
    summary: String,
    /// The reason why it is not a tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    rejected: String,
}

/// The result of the search.
#[derive(Debug, Default)]
pub struct Discovered {
    /// The tools, those of the running executable's folder first, each folder sorted by name.
    pub tools: Vec<Tool>,
    /// Programs that are not tools, and the reasons.
    pub rejected: Vec<(String, String)>,
    /// Notes for the user about programs that this search rejected.
    pub notes: Vec<String>,
}

/// Finds the tools.
pub fn discover(root: &Root, env: &Env, interrupts: &Interrupts) -> Discovered {
    let mut found = Discovered::default();
    let bin = root.folder.join("bin");
    let beside = env.executable.as_deref().and_then(Path::parent);
    let paths = beside.map(|folder| list_programs(folder, "nagent-")).unwrap_or_default();
    let is_own = |path: &PathBuf| TOOLS.iter().any(|own| path.file_name() == Some(own.as_ref()));
    let (own, mut paths): (Vec<_>, Vec<_>) = paths.into_iter().partition(is_own);
    paths.extend(list_programs(&bin, ""));
    let too_many = paths.len().saturating_sub(ASKED_TOOLS);
    paths.truncate(ASKED_TOOLS);
    if too_many > 0 {
        let bin = bin.display();
        found.notes.push(format!("{bin} and the toolkit have more than {ASKED_TOOLS} programs together: the last {too_many} are ignored"));
    }
    let cache_path = root.folder.join("tools.json");
    let cache = fs::read_text(&cache_path, 4 << 20).ok().flatten().unwrap_or_default();
    let old: BTreeMap<String, Known> = serde_json::from_str(&cache).unwrap_or_default();
    let mut now = BTreeMap::new();
    let mut unknown = Vec::new();
    for path in &paths {
        let key = path.display().to_string();
        let state = (fs::file_size(path).unwrap_or(0), fs::modified(path).as_secs());
        match old.get(&key).filter(|known| (known.size, known.modified) == state) {
            Some(known) => {
                now.insert(key, known.clone());
            }
            None => unknown.push((path.clone(), key, state)),
        }
    }
    let slow = ask_for_descriptions(unknown, env, interrupts, &mut now);
    for (path, known) in now.iter().filter(|(_, known)| !known.rejected.is_empty()) {
        if old.get(path) != Some(known) {
            found.notes.push(format!("{path} is not a tool: {}", known.rejected));
        }
        found.rejected.push((path.clone(), known.rejected.clone()));
    }
    for (path, why) in slow {
        found.notes.push(format!("{path} {why}"));
        found.rejected.push((path, why));
    }
    if now != old && interrupts.pending().is_none() {
        // Only a cache: when it cannot be written, the tools are asked again.
        if let Ok(text) = serde_json::to_string_pretty(&now) {
            let _ = AtomicFile::new(&cache_path).without_sync().write(text.as_bytes());
        }
    }
    found.tools = TOLD
        .iter()
        .filter_map(|(name, what)| {
            let path = own.iter().find(|path| path.ends_with(name))?.display().to_string();
            Some(Tool { path, summary: (*what).to_owned(), is_own: true })
        })
        .collect();
    found.tools.extend(paths.iter().filter_map(|path| {
        let path = path.display().to_string();
        let summary = now.get(&path)?.summary.clone();
        (!summary.is_empty()).then_some(Tool { path, summary, is_own: false })
    }));
    found
}

/// The executables in a folder whose names begin with `start`, sorted by name, without nagent itself.
fn list_programs(folder: &Path, start: &str) -> Vec<PathBuf> {
    let names = fs::list_names(folder).unwrap_or_default().into_iter();
    let names = names.filter(|name| name.starts_with(start) && !name.starts_with('.'));
    names.map(|name| folder.join(name)).filter(|path| fs::is_executable(path)).collect()
}

/// Runs programs in parallel for their descriptions. Returns those that gave no answer, and the reasons; they are run
/// again the next time.
fn ask_for_descriptions(
    programs: Vec<(PathBuf, String, (u64, u64))>,
    env: &Env,
    interrupts: &Interrupts,
    now: &mut BTreeMap<String, Known>,
) -> Vec<(String, String)> {
    let mut silent = Vec::new();
    let mut jobs = Jobs::default();
    let mut asked: BTreeMap<JobId, (String, (u64, u64))> = BTreeMap::new();
    if programs.is_empty() {
        return silent;
    }
    let variables = env.for_commands(&[], &[]);
    for (path, key, state) in programs {
        let argv = vec![path.into_os_string(), OsString::from("--description")];
        let mut job = Job::new(argv, PathBuf::from("/"), variables.clone());
        job.timeout = Some(limits::TOOL_PATIENCE);
        job.output = Output::Separate;
        job.keep = DESCRIPTION;
        job.limit = 1 << 20;
        match jobs.start(job) {
            Ok(id) => {
                asked.insert(id, (key, state));
            }
            Err(error) => silent.push((key, format!("cannot be started: {error}"))),
        }
    }
    while let Some(finished) = jobs.next_finished(interrupts) {
        let Some((key, (size, modified))) = asked.remove(&finished.id) else { continue };
        let described = match finished.outcome {
            JobOutcome::Ended { code: 0 } => {
                let text = String::from_utf8_lossy(&finished.stdout);
                describe(&text).ok_or_else(|| {
                    "--description must print a line \"path: ...\" and a description".to_owned()
                })
            }
            JobOutcome::TimedOut => {
                let seconds = limits::TOOL_PATIENCE.as_secs();
                let why = format!("did not answer --description in {seconds} s, so it was skipped");
                silent.push((key, why));
                continue;
            }
            JobOutcome::Interrupted(_) => continue,
            JobOutcome::Ended { code } => Err(format!("--description exited with {code}")),
            _ => Err("--description was ended, or printed too much".to_owned()),
        };
        let (summary, rejected) =
            described.map_or_else(|why| (String::new(), why), |text| (text, String::new()));
        now.insert(key, Known { size, modified, summary, rejected });
    }
    silent
}

/// A description on one line. `None` if it is not a description.
fn describe(description: &str) -> Option<String> {
    let (_, rest) = description.split_once('\n').filter(|(first, _)| first.starts_with("path:"))?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    Some(harmless::escape_line(&words.join(" "), limits::TOOL_DESCRIPTION))
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_one_line() {
        let shown = |text: &str| describe(text).unwrap_or_default();
        assert_eq!(shown("path: /x\nSends a\nfile. More of it.\n"), "Sends a file. More of it.");
        assert_eq!(shown("path: /x\nNo end"), "No end");
        assert_eq!(describe("usage: x\n"), None);
        assert_eq!(describe("path: /x\n\n"), None);
        assert_eq!(describe(""), None);
        assert_eq!(
            shown("path: /x\na\u{e0041}\x1b[2J\n\n# Rules\nb"),
            "a\\u{e0041}\\u{1b}[2J # Rules b"
        );
        let long = format!("path: /x\n{}", "y".repeat(999));
        assert_eq!(shown(&long).chars().count(), limits::TOOL_DESCRIPTION);
    }
}
