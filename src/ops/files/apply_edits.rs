//! Applies search/replace blocks or a unified diff from stdin to one file; all of it or nothing.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::file_conversation::file_boundary;
use super::spare_outputs;
use crate::ops::setup::find_root::find_root;
use crate::ops::setup::flags::InputArgs;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::format::edit::{self, EditBlock};
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use edits::apply::{self, ADVICE_ON_ALL, Applied, EditRefusal};
use edits::diff::file_diff;
use edits::diff::parse::{self, FileDiff};
use sys::env::Env;
use sys::input::is_stream;
use sys::interrupt::Interrupts;
use sys::{fs, replace, stdin, terminal};

/// The expected form of the input, for error messages.
const SHAPES: &str = "give search/replace blocks (`<<<<<<< SEARCH`, the lines as they are in the file, `=======`, the new \
    lines, `>>>>>>> REPLACE`) or a unified diff (`--- a/FILE`, `+++ b/FILE`, `@@ -1,3 +1,4 @@`, lines with a blank, - or + before them)";

/// The file that the edits are applied to, and how
#[derive(Debug, Clone, clap::Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Print the unified diff of the change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Save the previous content below this folder [env: NAGENT_ROOT] [default: ~/.nagent]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// The edits on stdin.
enum InputEdits {
    Blocks(Vec<EditBlock>),
    Hunks(FileDiff),
}

/// Reads blocks or a diff from stdin.
fn read_edits() -> Result<InputEdits, Problem> {
    if terminal::stdin_is_terminal() {
        return Err(Problem::usage(format!("nothing on stdin, which is a terminal: {SHAPES}")));
    }
    let input = stdin::read_to_end(&Interrupts::install()?)?;
    let input = input.map_err(|signal| Problem::new(Exit::Signal(signal), "interrupted"))?;
    parse_edits(&decode_bytes(&input)?)
}

/// Applies the edits on stdin, or reports why they are refused.
pub fn apply_input(args: &ApplyArgs) -> Result<Report, Problem> {
    if is_stream(args.input.path()) {
        return Err(Problem::usage(format!(
            "{} is a stream, not a file: nagent-file-apply FILE < EDITS",
            quote_name(args.input.path())
        )));
    }
    let edits = read_edits()?;
    let env = Env::read();
    let target = env.absolute_path(args.input.path())?;
    let root = find_root(args.root.as_deref(), &env)?.0;
    let boundary = file_boundary(&env, &root, &target)?;
    // A dangling link does not count as a file.
    let is_there = fs::real_path(&target).is_some();
    check_target(args, &edits, &target, is_there)?;
    let opened = boundary.open_for_write(&target)?;
    let path = opened.path().to_owned();
    let old = if opened.exists() { replace::read_target(&opened)? } else { Vec::new() };
    let text = decode_bytes(&old)?;
    let applied = match &edits {
        InputEdits::Blocks(blocks) => apply::apply(&text, blocks),
        InputEdits::Hunks(file) => apply::apply_hunks(&text, &file.hunks),
    };
    let report = |report: Report| {
        report.with("file", path.display().to_string()).with("dry_run", args.dry_run)
    };
    let applied = match applied {
        Err(refusals) => return Ok(report(report_refusals(&refusals))),
        Ok(applied) => applied,
    };
    let new = encode_text(&applied.text);
    // The name as it was given, from the folder that `patch -p1` is run in.
    let name = args.input.path().to_string_lossy();
    let name = name.trim_start_matches("./").trim_start_matches('/');
    let diff = file_diff::unified_diff(name.as_bytes(), &old, &new).unwrap_or_default();
    let report = report(report_applied(args, &applied, &diff));
    if args.dry_run {
        return Ok(report.with("previous_path", Value::Null));
    }
    let (outputs, spare) = (root.outputs_folder(), spare_outputs(&env));
    let mut keep = |file: &mut File| fs::store_file_or(&outputs, spare.as_deref(), file, &|| false);
    let previous = replace::replace_file(opened, &new, &mut keep)?.previous;
    Ok(report.with("previous_path", previous.map(|path| path.display().to_string())))
}

/// Refuses edits that do not fit a file that exists or not.
fn check_target(
    args: &ApplyArgs,
    edits: &InputEdits,
    target: &Path,
    is_there: bool,
) -> Result<(), Problem> {
    let file = quote_name(args.input.path());
    let creates = match edits {
        InputEdits::Blocks(blocks) => blocks.len() == 1 && blocks[0].search.trim().is_empty(),
        InputEdits::Hunks(file) => file.hunks.len() == 1 && file.hunks[0].old.is_empty(),
    };
    if !is_there && !creates {
        return Err(Problem::failed(format!(
            "{file} does not exist; to create it, give one block with an empty SEARCH, or a diff from /dev/null"
        )));
    }
    match edits {
        InputEdits::Hunks(FileDiff { deletes: true, .. }) => Err(Problem::failed(
            "the diff deletes the file, which this tool does not do: remove it yourself",
        )),
        InputEdits::Hunks(FileDiff { creates: true, .. })
            if is_there && fs::file_size(target).is_some_and(|size| size > 0) =>
        {
            Err(Problem::failed(format!("the diff creates {file}, which already exists")))
        }
        _ => Ok(()),
    }
}

/// Parses blocks or a diff: each has marks that the other lacks.
fn parse_edits(text: &str) -> Result<InputEdits, Problem> {
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
        return take_single_file(files).map(InputEdits::Hunks);
    }
    if !text
        .lines()
        .any(|line| line.trim_start().starts_with("<<<<<<<") || line.starts_with(">>>>>>>"))
    {
        return Err(Problem::usage(format!("stdin holds neither blocks nor a diff: {SHAPES}")));
    }
    edit::parse(text).map(InputEdits::Blocks).map_err(|complaint| {
        Problem::usage(format!("line {} of the blocks: {}", complaint.line, complaint.message))
    })
}

/// The one file that a diff changes.
fn take_single_file(mut files: Vec<FileDiff>) -> Result<FileDiff, Problem> {
    files.retain(|file| !file.hunks.is_empty());
    if files.len() > 1 {
        let names: Vec<_> =
            files.iter().filter_map(|file| file.new.as_deref().or(file.old.as_deref())).collect();
        return Err(Problem::failed(format!(
            "a diff of {} files ({}), and one --file: give the diff of that file alone",
            files.len(),
            names.join(", ")
        )));
    }
    files.pop().ok_or_else(|| Problem::usage(format!("no hunk in the diff: {SHAPES}")))
}

/// The character that stands for byte 0. Text need not be UTF-8: each byte that belongs to no character is one of the 256
/// private characters from here on.
const FIRST_BYTE: u32 = 0x0010_ff00;

fn decode_bytes(bytes: &[u8]) -> Result<String, Problem> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        if chunk.valid().chars().any(|c| u32::from(c) >= FIRST_BYTE) {
            return Err(Problem::failed(
                "the file has private-use characters (U+10FF00 and above), which this tool cannot edit",
            ));
        }
        text.push_str(chunk.valid());
        let bytes = chunk.invalid().iter();
        text.extend(bytes.filter_map(|byte| char::from_u32(FIRST_BYTE + u32::from(*byte))));
    }
    Ok(text)
}

fn encode_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u32::from(c).checked_sub(FIRST_BYTE).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// A message that may quote such bytes, without the advice that only a model can follow.
fn readable(text: &str) -> String {
    let text = text.replace(ADVICE_ON_ALL, "");
    text.chars().map(|c| if u32::from(c) >= FIRST_BYTE { '\u{fffd}' } else { c }).collect()
}

fn report_refusals(refusals: &[EditRefusal]) -> Report {
    let texts = refusals.iter().map(|refusal| format!("\n{}", readable(&refusal.to_string())));
    let text = format!("no edits applied; the file is unchanged{}", texts.collect::<String>());
    let list = refusals.iter().map(|refusal| {
        let near = refusal.near.iter();
        let near = near.map(|quote| json!({"line": quote.line, "text": readable(&quote.text)}));
        json!({
            "block": refusal.block, "line": refusal.line, "cause": refusal.cause,
            "message": readable(&refusal.message), "near": near.collect::<Vec<_>>(),
        })
    });
    Report::failed(Exit::Failed, text)
        .with("changed", false)
        .with("applied", false)
        .with("blocks", Vec::<Value>::new())
        .with("refusals", list.collect::<Vec<_>>())
        .with("diff", Value::Null)
        .with("previous_path", Value::Null)
}

fn report_applied(args: &ApplyArgs, applied: &Applied, diff: &[u8]) -> Report {
    let diff = String::from_utf8_lossy(diff).into_owned();
    let mut lines = String::new();
    let list = applied.changes.iter().map(|change| {
        let (line, removed, added) = (change.first_line, change.removed, change.added);
        let how = change.how.as_str();
        lines.push_str(&format!("line {line}: -{removed} +{added} ({})\n", how.replace('_', " ")));
        json!({"first_line": line, "removed": removed, "added": added, "how": how})
    });
    let list: Vec<Value> = list.collect();
    Report::exactly(if args.dry_run { diff.clone() } else { lines })
        .with("changed", !diff.is_empty())
        .with("applied", !args.dry_run)
        .with("blocks", list)
        .with("refusals", Vec::<Value>::new())
        .with("diff", diff)
}
