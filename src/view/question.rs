//! The question about an action, as rows: nothing of it is cut silently, and nothing in it can look like the question itself.

use super::columns::{show_odd_blanks, visible_lines, wrap};
use super::event::Start;
use super::render::{Row, Style, diff_rows};
use crate::format::attributes;
use crate::format::harmless::{escape_name, escape_text};
use crate::protocol::{Action, Item, ParsedReply, parse_reply};

/// How many rows of an action are shown before the user asks for the rest.
const ROWS: usize = 40;
/// The least room for a line, on however narrow a terminal.
const ROOM: usize = 8;

/// The rows of an action: a command's lines behind a bar, a change as its diff. With `all`, every one.
pub fn action_rows(action: &Action, diff: Option<&str>, columns: usize, all: bool) -> Vec<Row> {
    let room = columns.saturating_sub(2).max(ROOM);
    let mut rows = match (action, diff) {
        (_, Some(diff)) => diff_rows(diff, false, None, "", true)
            .into_iter()
            .map(|row| Row { text: escape_text(&row.text), ..row })
            .collect(),
        (Action::Shell { commands, .. }, None) => barred(commands, room),
        (Action::Write { path, text }, None) => {
            [barred(&escape_name(path.as_bytes()), room), barred(text, room)].concat()
        }
        (Action::Edit { path, blocks, .. }, None) => {
            [barred(&escape_name(path.as_bytes()), room), barred(blocks, room)].concat()
        }
        (Action::FilePatch { index }, None) => barred(index, room),
        (Action::Conversation { prompt, file, .. }, None) => [
            barred(&escape_name(file.as_deref().unwrap_or_default().as_bytes()), room),
            barred(prompt, room),
        ]
        .concat(),
        (other, None) => barred(&format!("{other:?}"), room),
    };
    let hidden = rows.len().saturating_sub(ROWS);
    if hidden > 0 && !all {
        rows.truncate(ROWS);
        rows.push(Row::new(format!("… {hidden} more rows: v shows them"), Style::Bold));
    }
    rows
}

fn barred(text: &str, room: usize) -> Vec<Row> {
    let lines = visible_lines(&show_odd_blanks(text.trim_matches('\n')));
    let rows = lines.iter().flat_map(|line| wrap(line, room));
    rows.map(|row| Row::new(format!("│ {row}"), Style::Plain)).collect()
}

/// The action that an event of `--lines` asks about. `None`: it is not one that can be read.
pub fn read_action(start: &Start) -> Option<Action> {
    let body = start.body.as_deref().unwrap_or_default();
    let mut word = "end".to_owned();
    while body.contains(&word) {
        word.push('x');
    }
    let mut tag = format!("<{}", start.tag);
    for (name, value) in &start.attributes {
        tag.push_str(&format!(" {name}=\"{}\"", attributes::encode(value)));
    }
    tag.push_str(&match start.body {
        Some(_) => format!(" fence=\"{word}\">\n{body}</{} {word}>", start.tag),
        None => "/>".to_owned(),
    });
    match parse_reply(&tag) {
        ParsedReply::Whole(items) => items.into_iter().find_map(|item| match item {
            Item::Action(action) => Some(action),
            Item::Response(_) => None,
        }),
        _ => None,
    }
}

/// What the question is, in a few words.
pub fn question_text(action: &Action) -> String {
    match action {
        Action::Shell { keep: Some(_), .. } => "keep this command running?".to_owned(),
        Action::Shell { .. } => "run this command?".to_owned(),
        Action::Write { .. } => "write this file?".to_owned(),
        Action::Edit { .. } => "make this edit?".to_owned(),
        Action::FilePatch { .. } => "apply these segments?".to_owned(),
        Action::Conversation { .. } => "start this child conversation?".to_owned(),
        other => format!("do this ({})?", other.tag()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::event::RunEvent;

    #[test]
    fn the_action_of_an_event_is_the_action() {
        let check = |action: &Action| {
            let RunEvent::Decide(start) = RunEvent::decide(1, action) else { panic!() };
            assert_eq!(read_action(&start).as_ref(), Some(action));
        };
        let text = "\n a </nagent-write> </nagent-write end> \"&quot;\n\n".to_owned();
        check(&Action::Write { path: "a \"b\" & <c>'".into(), text });
        check(&Action::Write { path: "a".into(), text: String::new() });
        check(&Action::Edit { path: "a".into(), blocks: "x\n".into(), all: true });
        let keep = Some("n".to_owned());
        check(&Action::Shell { commands: "ls\n\nend".into(), timeout: None, keep });
        check(&Action::Shell { commands: "ls".into(), timeout: Some(3), keep: None });
        check(&Action::FilePatch { index: "i.json".into() });
        let (name, from) = (Some("n".to_owned()), Some("f".to_owned()));
        check(&Action::Conversation { prompt: "p".into(), name, from, file: None });
    }

    #[test]
    fn nothing_of_a_command_is_hidden() {
        let texts = |commands: &str, all| -> Vec<String> {
            let action = Action::Shell { commands: commands.into(), timeout: None, keep: None };
            action_rows(&action, None, 40, all).into_iter().map(|row| row.text).collect()
        };
        assert_eq!(
            texts("ls\u{200b}\necho \x1b[7mnagent", false),
            ["│ ls\\u{200b}", "│ echo \\u{1b}[7mnagent"]
        );
        let padded = texts(&format!("ls{};rm x", " ".repeat(300)), false);
        assert_eq!(padded.len(), 1, "{padded:?}");
        assert!(padded[0].contains("rm x") && padded[0].contains("298"), "{padded:?}");
        let long = "x\n".repeat(60);
        assert_eq!(texts(&long, false).len(), ROWS + 1);
        assert_eq!(texts(&long, true).len(), 60);
    }
}
