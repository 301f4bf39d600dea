//! `nagent-file-apply`: search/replace blocks or a unified diff from stdin, put into one file; all of it or nothing.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::{Value, json};

use crate::apply::{self, Applied, Refusal};
use crate::cli::Tool;
use crate::diff::file_diff;
use crate::diff::parse::{self, FileDiff};
use crate::exit::Exit;
use crate::format::edit::{self, Block};
use crate::ops::settings::find_root;
use crate::out::Report;
use crate::problem::Problem;
use crate::sys::boundary::{Boundary, Places};
use crate::sys::env::Env;
use crate::sys::file_error::FileError;
use crate::sys::interrupt::Interrupts;
use crate::sys::names::{expand_home, shown};
use crate::sys::root::Root;
use crate::sys::{fs, replace, stdin, terminal};

/// What the input should look like, for complaints.
const SHAPES: &str = "give search/replace blocks (`<<<<<<< SEARCH`, the lines as they are in the file, `=======`, the new \
    lines, `>>>>>>> REPLACE`) or a unified diff (`--- a/FILE`, `+++ b/FILE`, `@@ -1,3 +1,4 @@`, lines with a blank, - or + before them)";

/// What a newcomer needs, below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-file-apply --file src/parse.rs < edits.txt
  git diff main -- a.c | nagent-file-apply --file b.c --dry-run

A block is <<<<<<< SEARCH, whole lines as they are in the file, =======, the new
lines, >>>>>>> REPLACE, each marker on a line of its own. The file's previous
content is saved.

Exit codes: 0 done, 1 refused or failed and nothing was changed, 2 wrong usage,
or stdin holds neither blocks nor a diff";

/// Apply search/replace blocks or a unified diff from stdin to a file, all or none
///
/// A block or hunk is applied where it is certain which lines it means: blanks at ends of lines, one common indentation,
/// tabs for spaces, line ends, typographic quotes and a blank line may differ, words may not. Lines that stay keep the
/// file's bytes. Hunks may have wrong counts and line numbers. A refusal quotes the nearest lines.
#[derive(Debug, Clone, Parser)]
#[command(name = "nagent-file-apply", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Args {
    /// The file to change; one block with an empty search, or a diff from /dev/null, creates it
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
    /// Print the unified diff of the change, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Save the previous content below this folder [env: NAGENT_ROOT] [default: ~/.nagent]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Print where this program is and what it is for
    #[arg(long, help_heading = "Information")]
    pub description: bool,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-file-apply";
    const DESCRIPTION: &'static str = "Applies search/replace blocks or a unified diff, given on stdin, to one file: \
        nagent-file-apply --file FILE < EDITS. All blocks apply or none does. A block is <<<<<<< SEARCH, whole lines as they \
        are in the file, =======, the new lines, >>>>>>> REPLACE; its search must occur in the file exactly once. A diff's line \
        numbers and counts may be off; its context must be right. --dry-run prints what would change and writes nothing. \
        A refusal says why and quotes the nearest lines with their numbers: copy those and try again. Exit codes: 0 done, \
        1 refused and nothing was changed, 2 wrong usage or input that is neither.";

    fn wants_json(&self) -> bool {
        self.json
    }

    fn run(self) -> Result<Report, Problem> {
        apply_input(&self)
    }
}

/// What came in.
enum Edits {
    Blocks(Vec<Block>),
    Hunks(FileDiff),
}

fn refused(message: impl Into<String>) -> Problem {
    Problem::failed(message.into())
}

fn denied(denied: FileError) -> Problem {
    refused(denied.problem())
}

/// Reads blocks or a diff from stdin.
fn read_edits() -> Result<Edits, Problem> {
    if terminal::stdin_is_terminal() {
        return Err(Problem::usage(format!("nothing on stdin, which is a terminal: {SHAPES}")));
    }
    let input = stdin::read_to_end(&Interrupts::install()?)?;
    let input = input.map_err(|signal| Problem::new(Exit::Signal(signal), "interrupted"))?;
    parse_edits(&Bytes::decode(&input)?.text)
}

fn apply_input(args: &Args) -> Result<Report, Problem> {
    let edits = read_edits()?;
    let env = Env::read();
    let home = env.home();
    let folder = env
        .folder
        .clone()
        .map_err(|error| refused(format!("cannot determine the current directory: {error}")))?;
    let target = folder.join(expand_home(&args.file, home.as_deref()));
    let root = find_root(args.root.as_deref(), &env)?.value.folder;
    let outputs = Root { folder: root.clone() }.outputs();
    let places =
        Places { cwd: &folder, toplevel: None, home: home.as_deref(), root: &root, tmpdir: None };
    let boundary = Boundary::for_file(places, &target).map_err(denied)?;
    let creates = match &edits {
        Edits::Blocks(blocks) => blocks.len() == 1 && blocks[0].search.trim().is_empty(),
        Edits::Hunks(file) => file.hunks.len() == 1 && file.hunks[0].old.is_empty(),
    };
    // A link to nowhere is no file.
    let is_there = fs::real_path(&target).is_some();
    if !is_there && !creates {
        return Err(refused(format!(
            "{} does not exist; one block with an empty search creates it, or a diff from /dev/null",
            shown(&args.file)
        )));
    }
    if let Edits::Hunks(FileDiff { deletes: true, .. }) = &edits {
        return Err(refused(
            "the diff deletes the file, which this tool does not do: remove it yourself",
        ));
    }
    if let Edits::Hunks(FileDiff { creates: true, .. }) = &edits
        && is_there
        && fs::file_size(&target).is_some_and(|size| size > 0)
    {
        return Err(refused(format!(
            "the diff creates {}, which already exists",
            shown(&args.file)
        )));
    }
    // Opening makes missing folders, which a dry run does not.
    let opened = if !is_there && args.dry_run {
        None
    } else {
        Some(boundary.open_for_write(&target).map_err(denied)?)
    };
    let old = match &opened {
        Some(opened) if opened.exists() => replace::read_target(opened).map_err(denied)?,
        _ => Vec::new(),
    };
    let text = Bytes::decode(&old)?;
    let applied = match &edits {
        Edits::Blocks(blocks) => apply::apply(&text.text, blocks),
        Edits::Hunks(file) => apply::apply_hunks(&text.text, &file.hunks),
    };
    let path = opened.as_ref().map_or(target.as_path(), |opened| opened.path()).to_owned();
    match applied {
        Err(refusals) => Ok(report_refusals(args, &path, &refusals)),
        Ok(applied) => {
            let new = Bytes { text: applied.text.clone() }.bytes();
            let name = diff_name(&args.file);
            let changes = file_diff::unified_diff(name.as_bytes(), &old, &new).unwrap_or_default();
            let mut previous = None;
            if !args.dry_run
                && let Some(opened) = opened
            {
                let mut keep = |file: &mut File| fs::store_file(&outputs, file);
                previous = replace::replace_file(opened, &new, &mut keep).map_err(denied)?.previous;
            }
            Ok(report_applied(args, &path, &applied, &changes, previous.as_deref()))
        }
    }
}

/// The name in a diff: as it was given, from the folder that `patch -p1` is run in.
fn diff_name(file: &Path) -> String {
    let text = file.to_string_lossy();
    text.trim_start_matches("./").trim_start_matches('/').to_owned()
}

/// Parses blocks or a diff: each has marks that the other lacks.
fn parse_edits(text: &str) -> Result<Edits, Problem> {
    let is_marker = |line: &str| {
        let run = line.bytes().take_while(|byte| *byte == b'<').count();
        run >= 7 && line[run..].trim() == "SEARCH"
    };
    if text.trim().is_empty() {
        return Err(Problem::usage(format!("nothing on stdin: {SHAPES}")));
    }
    if !text.lines().any(is_marker) && parse::is_diff(text) {
        let files = parse::parse_diff(text).map_err(|complaint| {
            Problem::usage(format!("line {} of the diff: {}", complaint.line, complaint.message))
        })?;
        return one_file(files).map(Edits::Hunks);
    }
    if !text
        .lines()
        .any(|line| line.trim_start().starts_with("<<<<<<<") || line.starts_with(">>>>>>>"))
    {
        return Err(Problem::usage(format!("stdin holds neither blocks nor a diff: {SHAPES}")));
    }
    edit::parse(text).map(Edits::Blocks).map_err(|complaint| {
        Problem::usage(format!("line {} of the blocks: {}", complaint.line, complaint.message))
    })
}

/// The one file that a diff changes.
fn one_file(mut files: Vec<FileDiff>) -> Result<FileDiff, Problem> {
    files.retain(|file| !file.hunks.is_empty());
    if files.len() > 1 {
        let names: Vec<_> =
            files.iter().filter_map(|file| file.new.as_deref().or(file.old.as_deref())).collect();
        return Err(refused(format!(
            "a diff of {} files ({}), and one --file: give the diff of that file alone",
            files.len(),
            names.join(", ")
        )));
    }
    files.pop().ok_or_else(|| Problem::usage(format!("no hunk in the diff: {SHAPES}")))
}

/// A text whose bytes need not be UTF-8: each byte that belongs to no character is one character of a range that is
/// nobody's.
struct Bytes {
    text: String,
}

/// The character that stands for byte 0.
const FOREIGN: u32 = 0x0010_ff00;

impl Bytes {
    fn decode(bytes: &[u8]) -> Result<Self, Problem> {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            if chunk.valid().chars().any(|c| u32::from(c) >= FOREIGN) {
                return Err(refused(
                    "the text holds characters from U+10FF00 on, which belong to nobody: change it with a command instead",
                ));
            }
            text.push_str(chunk.valid());
            text.extend(
                chunk
                    .invalid()
                    .iter()
                    .filter_map(|byte| char::from_u32(FOREIGN + u32::from(*byte))),
            );
        }
        Ok(Self { text })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.text.len());
        let mut buffer = [0; 4];
        for c in self.text.chars() {
            match u32::from(c).checked_sub(FOREIGN).and_then(|byte| u8::try_from(byte).ok()) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
            }
        }
        bytes
    }
}

/// A text of ours that may quote such bytes.
fn readable(text: &str) -> String {
    text.chars().map(|c| if u32::from(c) >= FOREIGN { '\u{fffd}' } else { c }).collect()
}

fn report_refusals(args: &Args, path: &Path, refusals: &[Refusal]) -> Report {
    let mut text = "nothing was changed".to_owned();
    for refusal in refusals {
        text.push('\n');
        text.push_str(&readable(&refusal.to_string()));
    }
    let near = |refusal: &Refusal| -> Vec<Value> {
        let near = refusal.near.iter();
        near.map(|quote| json!({"line": quote.line, "text": readable(&quote.text)})).collect()
    };
    let list: Vec<Value> = refusals
        .iter()
        .map(|refusal| {
            json!({
                "block": refusal.block, "line": refusal.line, "cause": refusal.cause.as_str(),
                "message": readable(&refusal.message), "near": near(refusal),
            })
        })
        .collect();
    Report::failed(Exit::Failed, text)
        .with("file", path.display().to_string())
        .with("changed", false)
        .with("applied", false)
        .with("dry_run", args.dry_run)
        .with("blocks", Vec::<Value>::new())
        .with("refusals", list)
        .with("diff", Value::Null)
        .with("previous_path", Value::Null)
}

fn report_applied(
    args: &Args,
    path: &Path,
    applied: &Applied,
    diff: &[u8],
    previous: Option<&Path>,
) -> Report {
    let diff = String::from_utf8_lossy(diff).into_owned();
    let blocks = applied.changes.iter();
    let list: Vec<Value> = blocks
        .clone()
        .map(|change| {
            json!({
                "first_line": change.first_line, "removed": change.removed, "added": change.added,
                "how": change.how.as_str(),
            })
        })
        .collect();
    let text = if args.dry_run {
        diff.clone()
    } else {
        let lines = blocks.map(|change| {
            let (line, removed, added) = (change.first_line, change.removed, change.added);
            format!(
                "line {line}: -{removed} +{added} ({})\n",
                change.how.as_str().replace('_', " ")
            )
        });
        lines.collect()
    };
    Report::exactly(text)
        .with("file", path.display().to_string())
        .with("changed", !diff.is_empty())
        .with("applied", !args.dry_run)
        .with("dry_run", args.dry_run)
        .with("blocks", list)
        .with("refusals", Vec::<Value>::new())
        .with("diff", diff)
        .with("previous_path", previous.map(|path| path.display().to_string()))
}
