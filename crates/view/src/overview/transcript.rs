//! A conversation as people read it: prompts, answers, actions and results, without the first context; as text or
//! Markdown.

use serde::Serialize;

use crate::event::describe_target;
use conversation::format::file::Piece;
use conversation::format::harmless;
use conversation::protocol::{Action, ParsedReply, ReplyItem, parse_reply};

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A prompt of the user's.
    Prompt,
    /// An answer of the model.
    Answer,
    /// An action of the model.
    Action,
    /// The result of an action.
    Result,
    /// A reply that could not be read.
    Reply,
    /// A message of nagent.
    System,
    /// A note that somebody wrote into the file.
    Note,
}

/// Something that happened in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TranscriptEntry {
    /// Its kind.
    pub kind: EntryKind,
    /// The line of its block in the file, from 1.
    pub line: usize,
    /// The turn that it belongs to; 0 before the first.
    pub turn: u64,
    /// One line: when and where a prompt was given, what an action is, how it ended.
    pub title: String,
    /// Its text; may be empty.
    pub text: String,
}

/// The entries of a conversation.
pub fn entries(text: &str, pieces: &[Piece]) -> Vec<TranscriptEntry> {
    let mut entries = Vec::new();
    let (mut line, mut at, mut turn) = (1, 0, 0);
    // Where the entries of the last reply begin.
    let mut reply = 0;
    for piece in pieces {
        line += text[at..piece.span.start].matches('\n').count();
        at = piece.span.start;
        let body = piece.body_text(text).trim_matches('\n').to_owned();
        let count = entries.len();
        let mut push = |kind, turn, title: String, text: String| {
            entries.push(TranscriptEntry { kind, line, turn, title, text });
        };
        match piece.name() {
            Some("initial_context" | "context-update") => {}
            // Replies that could not be read are counted too, and are not in the file.
            Some("nagent-turn-status") => {
                turn = piece.number("turn").unwrap_or(turn);
                entries.iter_mut().skip(reply).for_each(|entry| entry.turn = turn);
                reply = entries.len();
            }
            None => push(EntryKind::Note, turn, String::new(), body),
            Some("user-prompt") => {
                let title = [piece.get("at"), piece.get("cwd")];
                let title = title.into_iter().flatten().collect::<Vec<_>>().join("  ");
                push(EntryKind::Prompt, turn, title, body);
            }
            Some("agent-response") => {
                turn += 1;
                reply = count;
                for (kind, title, text) in read_reply(body) {
                    push(kind, turn, title, text);
                }
            }
            Some("system") => push(EntryKind::System, turn, String::new(), body),
            Some(name) => push(EntryKind::Result, turn, result_title(piece, name), body),
        }
    }
    entries
}

/// The tags of a reply, or its whole text if it cannot be parsed.
fn read_reply(body: String) -> Vec<(EntryKind, String, String)> {
    let items = match parse_reply(&body) {
        ParsedReply::Whole(items) | ParsedReply::Forged { items, .. } => items,
        ParsedReply::Malformed(_) => return vec![(EntryKind::Reply, String::new(), body)],
    };
    let read = |item| match item {
        ReplyItem::Response(text) => (EntryKind::Answer, String::new(), text),
        ReplyItem::Action(action) => {
            let (title, text) = describe_action(&action);
            (EntryKind::Action, title, text)
        }
    };
    items.into_iter().map(read).collect()
}

/// Describes an action on one line, and returns its text.
fn describe_action(action: &Action) -> (String, String) {
    let (attributes, text) = action.attributes_and_body();
    let what = match action {
        Action::Wrong { why, .. } => why.clone(),
        _ => describe_target(action.tag_name(), &attributes),
    };
    let title = format!("{} {what}", action.tag_name().trim_start_matches("nagent-"));
    (title.trim_end().to_owned(), text.trim_matches('\n').to_owned())
}

/// `shell-result: exit 0, 0.4 s, 20 bytes`
fn result_title(piece: &Piece, name: &str) -> String {
    let exit = piece.get("exit_code").map(|code| format!("exit {code}"));
    let end = exit.or(piece.get("status").map(str::to_owned));
    let mut parts: Vec<String> = end.into_iter().collect();
    for (attribute, unit) in
        [("seconds", " s"), ("media", ""), ("bytes", " bytes"), ("output", ""), ("sha256", "")]
    {
        parts.extend(piece.get(attribute).map(|value| format!("{value}{unit}")));
    }
    let name = name.trim_start_matches("nagent-");
    if parts.is_empty() { name.to_owned() } else { format!("{name}: {}", parts.join(", ")) }
}

/// Entries as text for a terminal. At most `most` lines of a result are shown, its last ones.
pub fn to_text(entries: &[TranscriptEntry], most: usize) -> String {
    let mut out = String::new();
    let mut turn = 0;
    for entry in entries {
        if entry.turn != turn && !matches!(entry.kind, EntryKind::Prompt | EntryKind::Note) {
            turn = entry.turn;
            out.push_str(&format!("\n[turn {turn}]\n"));
        }
        match entry.kind {
            EntryKind::Prompt => {
                out.push_str(&format!("\n── {}\n", entry.title));
                push_lines(&mut out, "> ", &entry.text);
            }
            EntryKind::Answer | EntryKind::Reply => push_lines(&mut out, "", &entry.text),
            EntryKind::Note => push_lines(&mut out, "note: ", &entry.text),
            EntryKind::System => push_lines(&mut out, "nagent: ", &entry.text),
            EntryKind::Action => {
                out.push_str(&format!("→ {}\n", entry.title));
                push_lines(&mut out, "│ ", &entry.text);
            }
            EntryKind::Result => {
                out.push_str(&format!("  {}\n", entry.title));
                let lines: Vec<&str> = entry.text.lines().collect();
                let hidden = lines.len().saturating_sub(most);
                if hidden > 0 {
                    out.push_str(&format!("    … {hidden} earlier lines\n"));
                }
                push_lines(&mut out, "    ", &lines[hidden..].join("\n"));
            }
        }
    }
    out.trim_start_matches('\n').to_owned()
}

fn push_lines(out: &mut String, lead: &str, text: &str) {
    for line in text.lines() {
        out.push_str(&format!("{lead}{line}\n"));
    }
}

/// Entries as a Markdown document.
pub fn to_markdown(name: &str, entries: &[TranscriptEntry]) -> String {
    let mut out = format!("# {name}\n");
    for entry in entries {
        let (heading, fenced) = match entry.kind {
            EntryKind::Prompt => (format!("## Prompt\n\n{}", entry.title), false),
            EntryKind::Answer => ("## Answer".to_owned(), false),
            EntryKind::Note => ("## Note".to_owned(), false),
            EntryKind::Action => (format!("**{}**", entry.title.replace('*', "\\*")), true),
            EntryKind::Result => (entry.title.clone(), true),
            EntryKind::Reply => ("Reply that could not be read".to_owned(), true),
            EntryKind::System => ("nagent".to_owned(), true),
        };
        out.push_str(&format!("\n{heading}\n"));
        if entry.text.is_empty() {
            continue;
        }
        let text = harmless::escape_text(&entry.text);
        if fenced {
            // Longer than any run of backticks in the text, so that nothing in it ends the block.
            let runs = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let fence = "`".repeat(runs.max(2) + 1);
            out.push_str(&format!("\n{fence}\n{text}\n{fence}\n"));
        } else {
            out.push_str(&format!("\n{text}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use conversation::format::file::parse;

    const TEXT: &str = "<initial_context fence=\"f\">\nrules\n</initial_context f>\n\n<user-prompt at=\"T\" cwd=\"/a\">\nlist <b>\n</user-prompt>\n\n\
        <agent-response>\n<nagent-shell>ls\nls -l</nagent-shell>\n</agent-response>\n\n<nagent-turn-status turn=\"1\" />\n\n\
        <nagent-shell-result status=\"ok\" exit_code=\"0\">\n1\n2\n```\n3\n</nagent-shell-result>\n\nmine\n\n\
        <agent-response>\n<nagent-response>two files</nagent-response>\n</agent-response>\n\n<agent-response>\nno tags\n</agent-response>\n";

    #[test]
    fn as_text() {
        let all = entries(TEXT, &parse(TEXT).pieces);
        let expect = "── T  /a\n> list <b>\n\n[turn 1]\n→ shell\n│ ls\n│ ls -l\n  shell-result: exit 0\n    … 2 earlier lines\n    ```\n    3\n\
            note: mine\n\n[turn 2]\ntwo files\n\n[turn 3]\nno tags\n";
        assert_eq!(to_text(&all, 2), expect);
        let lines: Vec<usize> = all.iter().map(|entry| entry.line).collect();
        assert_eq!(lines, [5, 9, 16, 23, 25, 29]);
    }

    #[test]
    fn as_markdown() {
        let all = entries(TEXT, &parse(TEXT).pieces);
        let page = to_markdown("a", &all);
        assert!(page.contains("\n````\n1\n2\n```\n3\n````\n"), "{page}");
        assert!(!page.contains("rules"));
    }
}
