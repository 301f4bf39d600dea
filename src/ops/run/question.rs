//! The question about an action, on the terminal. A run asks it, and so does a session that follows a run.

use std::os::fd::BorrowedFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ops::screen::change_report::{FileVersion, VersionPair};
use crate::out;
use conversation::approve::{Answer, describe_mcp_call};
use conversation::format::harmless::{escape_line, quote_name};
use conversation::format::numbers::format_bytes;
use conversation::limits;
use edits::apply;
use edits::written::{parse_edits, remove_numbers};
use sys::interrupt::Interrupts;
use sys::names::resolve_links;
use sys::tty::{self, Tty};
use sys::{fs, terminal};
use view::event::Start;
use view::question::{action_rows, question_text};

/// The answer to the question about an action: a line on the input of `--lines`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionReply {
    /// The number of the action.
    pub decide: u64,
    /// Whether it is done.
    pub allow: bool,
    /// The reason why it is not.
    pub reason: Option<String>,
    /// Whether it is done without a question from now on.
    pub always: Option<bool>,
    /// Whether that is so for all plain commands that begin with its first two words.
    pub first_two: Option<bool>,
    /// Its replacement: another body of the tag.
    pub text: Option<String>,
    /// Whether the run ends, as by Ctrl-C.
    pub stop: Option<bool>,
}

/// Asks about an action on the terminal until there is an answer, or until `asker`, the run that asks, hangs up.
pub(crate) fn ask_about_action(
    tty: &mut Tty,
    action: &Start,
    interrupts: &Interrupts,
    asker: Option<BorrowedFd<'_>>,
) -> DecisionReply {
    let reply = DecisionReply { decide: action.n, ..DecisionReply::default() };
    let mut shows_all = false;
    let is_call = action.body.as_deref().and_then(describe_mcp_call).is_some();
    loop {
        let question = question(tty, action, shows_all);
        let edits = if action.body.is_some() { ", e edit" } else { "" };
        let always = match &action.first_two {
            Some(words) if is_call => format!("a always {words} ... in this folder"),
            Some(words) => format!("a always in this folder, w always {words} ..."),
            None => "a always in this folder".to_owned(),
        };
        let choices = format!("y yes, n no{edits}; with Enter: {always}, or why not [n]: ");
        // A sentence that begins with a or w, slowly typed, must not become a permanent approval.
        let Some(line) = tty.read_answer(&question, &choices, "yenv", interrupts, asker) else {
            tty.write("\n");
            return DecisionReply { stop: Some(interrupts.pending().is_some()), ..reply };
        };
        match Answer::parse(&line) {
            Answer::Yes => return DecisionReply { allow: true, ..reply },
            Answer::Always => {
                // Of an MCP server's tool: whatever its arguments are.
                let first_two = (is_call && action.first_two.is_some()).then_some(true);
                return DecisionReply { allow: true, always: Some(true), first_two, ..reply };
            }
            Answer::No(why) => return DecisionReply { reason: Some(why), ..reply },
            Answer::Word(word) if word == "w" && action.first_two.is_some() => {
                let (always, first_two) = (Some(true), Some(true));
                return DecisionReply { allow: true, always, first_two, ..reply };
            }
            Answer::Word(word) if word == "v" => shows_all = true,
            Answer::Word(word) if word == "e" => match edit_body(action) {
                Ok(text) => return DecisionReply { allow: true, text: Some(text), ..reply },
                Err(why) => tty.write(&format!("{}\n", escape_line(&why, 400))),
            },
            Answer::Word(_) => tty.write("answer with one of these letters, or say why not\n"),
        }
    }
}

/// The action after a head that no other text can look like.
fn question(tty: &Tty, action: &Start, shows_all: bool) -> String {
    let (columns, has_colours) = tty.read_dimensions();
    let folder = action.folder.as_deref().unwrap_or_default();
    let question = question_text(action);
    let question = question.trim_end_matches('?');
    let place = describe_place(action, Path::new(folder));
    let head = format!("nagent asks: {question} {place}?");
    let mut text = tty.format_head(&head);
    let (change, size) = (preview(action, Path::new(folder)), (columns, terminal::height()));
    for row in action_rows(action, change.as_deref(), size, shows_all) {
        text.push_str(&(out::style_spans(&[row], has_colours) + "\n"));
    }
    text
}

/// Says where an action is done: in the working folder, or to a file elsewhere, with its whole path; of a write also how large
/// it is, and whether the file is new; of an edit how large the file is.
fn describe_place(action: &Start, folder: &Path) -> String {
    let here = quote_name(folder);
    let Some(path) = action.attributes.get("path") else { return format!("in {here}") };
    let path = resolve_links(&folder.join(path));
    let old = fs::file_size(&path).map(format_bytes);
    let size = match (action.tag.as_str(), &action.body, old) {
        ("nagent-write", Some(body), old) => {
            let old = old.map_or_else(|| "new".to_owned(), |old| format!("replaces {old}"));
            format!("({}, {old}) ", format_bytes(body.len() as u64))
        }
        ("nagent-edit", _, Some(old)) => format!("(a file of {old}) "),
        _ => String::new(),
    };
    if path.starts_with(resolve_links(folder)) {
        return format!("{size}in {here}");
    }
    format!("{size}outside of {here}: {}", quote_name(path))
}

/// Lets the user edit the body of an action: the saved text is what runs.
fn edit_body(action: &Start) -> Result<String, String> {
    let body = action.body.as_deref().ok_or("this cannot be edited")?;
    let path = action.attributes.get("path").map_or("command.sh", String::as_str);
    let saved = tty::edit_text(body, path).map_err(|error| format!("{error:#}"))?;
    // Editors end a file with a line feed.
    let saved = if body.ends_with('\n') { saved } else { saved.trim_end_matches('\n').to_owned() };
    if saved == body {
        return Err("the text is as it was; answer y to do it".to_owned());
    }
    if saved.trim().is_empty() && action.tag != "nagent-write" {
        return Err("the edited text is empty; answer n to refuse".to_owned());
    }
    Ok(saved)
}

/// The change that a write or an edit would make. `None` where that cannot be determined: then it is shown as sent.
fn preview(action: &Start, folder: &Path) -> Option<String> {
    let (path, body) = (folder.join(action.attributes.get("path")?), action.body.as_deref()?);
    let before = fs::read_bytes(&path, limits::KEPT_CONTENT).ok()?;
    let after = match action.tag.as_str() {
        "nagent-write" => body.to_owned(),
        "nagent-edit" => {
            let text = String::from_utf8(before.clone().unwrap_or_default()).ok()?;
            let is_all = action.attributes.contains_key("all");
            let mut blocks = parse_edits(body).ok()?;
            for block in &mut blocks {
                remove_numbers(block, &text);
            }
            apply::apply(&text, &blocks, is_all).ok()?.text
        }
        _ => return None,
    };
    let (before, after) =
        (FileVersion::from_bytes(before), FileVersion::from_bytes(Some(after.into_bytes())));
    let diff = VersionPair { path: &path, before: &before, after: &after }.text_diff()?;
    (!diff.is_cut).then_some(diff.text)
}
