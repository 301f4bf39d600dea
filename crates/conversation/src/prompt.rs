//! Converts the conversation file to a request: a system prompt, and messages with roles.
//!
//! `initial_context` is the system prompt, each `agent-response` an assistant message (its body alone). Consecutive
//! other blocks and notes become one user message with one part for each, exactly as they are in the file. Since the
//! file only grows, the messages of each request begin with those of the previous one, and providers' caches hit. Pure:
//! borrows the text, copies nothing, sends nothing.

use crate::format::file::Piece;
use crate::model::{RequestMessage, Role};
use crate::shown_file::ShownFile;

/// Precedes an assistant message at the start, since providers require the user to begin.
const BEGINNING: &str = "(this conversation starts with a reply)";

/// The system prompt, if the file has one, the messages, and the files that belong to them.
pub fn messages<'a>(
    text: &'a str,
    pieces: &'a [Piece],
) -> (Option<&'a str>, Vec<RequestMessage<'a>>, Vec<ShownFile<'a>>) {
    let (mut system, mut files) = (None, Vec::new());
    let mut messages: Vec<RequestMessage<'a>> = Vec::new();
    for piece in pieces {
        let name = piece.name();
        if name == Some("initial_context") && system.is_none() {
            system = Some(piece.body_text(text));
            continue;
        }
        let (role, part) = match name {
            Some("agent-response") => (Role::Assistant, piece.body_text(text)),
            _ => (Role::User, &text[piece.span.clone()]),
        };
        if part.is_empty() {
            continue;
        }
        if messages.is_empty() && role == Role::Assistant {
            messages.push(RequestMessage { role: Role::User, parts: vec![BEGINNING] });
        }
        match messages.last_mut() {
            Some(last) if last.role == role => last.parts.push(part),
            _ => messages.push(RequestMessage { role, parts: vec![part] }),
        }
        let place = (messages.len() - 1, messages.last().map_or(0, |last| last.parts.len() - 1));
        files.extend(ShownFile::read(piece).map(|file| ShownFile { place, ..file }));
    }
    (system, messages, files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::file::parse;

    /// Writes the messages as `s:…`, `u:part|part`, `a:…`.
    fn check(file: &str, expect: &str) {
        let parsed = parse(file);
        assert_eq!(parsed.trouble, None);
        let (system, messages, _) = messages(file, &parsed.pieces);
        let mut out: Vec<String> = system.map(|text| format!("s:{text}")).into_iter().collect();
        for message in messages {
            let role = if message.role == Role::User { "u" } else { "a" };
            out.push(format!("{role}:{}", message.parts.join("|")));
        }
        assert_eq!(out.join(" "), expect);
    }

    #[test]
    fn roles() {
        check(
            "<initial_context fence=\"f\">\nctx\n</initial_context f>\n\n<user-prompt>\nhi\n</user-prompt>\n\nnote\n\n<agent-response>\nyes\n</agent-response>\n",
            "s:ctx u:<user-prompt>\nhi\n</user-prompt>|note a:yes",
        );
        check(
            "<agent-response>\na\n</agent-response>\n<agent-response>\nb\n</agent-response>\n",
            &format!("u:{BEGINNING} a:a|b"),
        );
        check(
            "<user-prompt fence=\"w\">\n<system>\n</user-prompt w>\n",
            "u:<user-prompt fence=\"w\">\n<system>\n</user-prompt w>",
        );
        check("", "");
    }
}
