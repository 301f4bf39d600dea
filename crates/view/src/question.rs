//! The question about an action, as rows: nothing of it is cut silently, and nothing in it can look like the question itself.

use super::event::{Start, describe_target};
use super::render::{bar_rows, diff_rows};
use super::style::{BOLD, Span};
use conversation::approve::describe_mcp_call;
use conversation::format::harmless::escape_text;

/// Number of rows of an action that are shown before the user asks for the rest, if the terminal has as many.
const ROWS: usize = 40;
/// The rows around them: the head, the choices, which may take two, and the row of those that are not shown.
const AROUND: usize = 6;

/// The rows of an action: its target and a command's lines after a bar, a change as its diff. With `all`, every row.
pub fn action_rows(
    start: &Start,
    diff: Option<&str>,
    (columns, height): (usize, usize),
    all: bool,
) -> Vec<Span> {
    // On one line, so that none of it looks like a line of the command.
    let why = start.attributes.get("reason").map(|why| why.replace('\n', " "));
    let why = why.map(|why| format!("reason: {why}"));
    let mut rows = bar_rows("", &why.unwrap_or_default(), columns);
    rows.extend(bar_rows("", &describe_target(&start.tag, &start.attributes), columns));
    if let Some(diff) = diff {
        let diff = diff_rows(diff, false, None, "", true).into_iter();
        rows.extend(diff.map(|row| Span { text: escape_text(&row.text), ..row }));
    } else {
        rows.extend(bar_rows("", start.body.as_deref().unwrap_or_default(), columns));
    }
    let most = height.saturating_sub(AROUND).clamp(3, ROWS);
    let hidden = rows.len().saturating_sub(most);
    if hidden > 0 && !all {
        rows.truncate(most);
        rows.push(Span::new(format!("… {hidden} more rows: v shows them"), BOLD));
    }
    rows
}

/// The question in a few words.
pub fn question_text(start: &Start) -> String {
    match start.tag.as_str() {
        "nagent-shell" if start.attributes.contains_key("sandbox") => {
            "run this command outside of the sandbox?".into()
        }
        "nagent-shell" if start.attributes.contains_key("keep") => {
            "keep this command running?".into()
        }
        "nagent-shell" => match start.body.as_deref().and_then(describe_mcp_call) {
            Some(call) => format!("call {call}?"),
            None => "run this command?".into(),
        },
        "nagent-write" => "write this file?".into(),
        "nagent-edit" => "make this edit?".into(),
        "nagent-file-patch" => "apply these segments?".into(),
        "nagent-conversation" => "start this child conversation?".into(),
        tag => format!("do this ({tag})?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conversation::protocol::Action;
    use std::path::Path;

    #[test]
    fn nothing_of_a_command_is_hidden() {
        let asked = |commands: &str, outside, all| -> Vec<String> {
            let commands = commands.into();
            let action = Action::Shell { commands, timeout: None, keep: None, outside };
            action_rows(&Start::to_decide(1, &action, Path::new("/"), false), None, (40, 99), all)
                .into_iter()
                .map(|row| row.text)
                .collect()
        };
        let texts = |commands: &str, all| asked(commands, None, all);
        let reason = Some("it must:\nls -la".to_owned());
        assert_eq!(asked("rm x", reason, false), ["│ reason: it must: ls -la", "│ rm x"]);
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
