//! Parses commands by bash's grammar and returns the words of each, wherever the command is.

use crate::format::harmless::{is_hidden, truncate};
use tree_sitter::{Node, Parser, Tree};

/// Characters that make a command more than a program and its words.
const SPECIAL: &[char] =
    &[';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '\n', '\r', '\\', '\0'];

/// Maximum length of the arguments of a call in a question, in characters; the command is shown below it.
const CALL: usize = 80;

/// Whether one of the patterns covers the commands. A pattern is compared word by word; `*` as its last word matches
/// the rest. Only a single plain command, a program and its words, can be covered.
pub fn is_allowed(patterns: &[String], commands: &str) -> bool {
    let Some(words) = plain_words(commands) else { return false };
    patterns.iter().any(|pattern| {
        let pattern: Vec<&str> = pattern.split_whitespace().collect();
        match pattern.split_last() {
            Some((&"*", start)) => {
                words.len() >= start.len() && words.iter().zip(start).all(|(a, b)| a == b)
            }
            Some(_) => words == pattern,
            None => false,
        }
    })
}

/// The program and the first word after it of a plain command that has more words, if both are harmless to show in a line;
/// of a call of an MCP server's tool the words up to the tool.
pub fn first_two(commands: &str) -> Option<String> {
    if let Some(call) = mcp_call(commands) {
        return Some(call[..4].join(" "));
    }
    let words = plain_words(commands).filter(|words| words.len() > 2)?;
    let is_name = |word: &&String| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte))
    };
    let two = words.iter().take(2).filter(is_name).map(String::as_str).collect::<Vec<_>>();
    (two.len() == 2).then(|| two.join(" "))
}

/// The words of a plain command that is one call of an MCP server's tool.
fn mcp_call(commands: &str) -> Option<Vec<String>> {
    let words = plain_words(commands).filter(|words| words.len() > 3 && words[1] == "call")?;
    let is_plain = |word: &String| {
        !word.starts_with('-')
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:/@".contains(&byte))
    };
    let is_mcp = words[0].rsplit('/').next() == Some("nagent-mcp");
    (is_mcp && words[..4].iter().all(is_plain)).then_some(words)
}

/// Says which tool of an MCP server a command calls, and with what, if it does nothing else.
pub fn describe_mcp_call(commands: &str) -> Option<String> {
    let words = mcp_call(commands)?;
    let rest = truncate(&words[4..].join(" "), CALL);
    Some(format!("{}: {} {rest}", words[2], words[3]).trim_end().to_owned())
}

/// The words of a single plain command.
fn plain_words(commands: &str) -> Option<Vec<String>> {
    let commands = commands.trim_matches([' ', '\t', '\n']);
    // The parser skips characters such as a byte order mark, which bash takes as part of a word.
    let is_odd = |c: char| c != ' ' && c != '\t' && (c.is_whitespace() || is_hidden(c));
    if commands.contains(SPECIAL) || commands.contains(is_odd) {
        return None;
    }
    let tree = parse(commands)?;
    let root = tree.root_node();
    let only = root.named_child(0).filter(|_| root.named_child_count() == 1)?;
    if root.has_error() || only.kind() != "command" {
        return None;
    }
    let mut cursor = only.walk();
    let is_plain = only.named_children(&mut cursor).all(|part| {
        matches!(
            part.kind(),
            "command_name" | "word" | "number" | "string" | "raw_string" | "concatenation"
        )
    });
    is_plain.then(|| words_of(only, commands))
}

/// Parses commands. Invalid bash also gives a tree, with error nodes in it.
pub(super) fn parse(commands: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    parser.parse(commands, None)
}

/// The words of a command node, unquoted, without the assignments before it and the redirections after it.
pub(super) fn words_of(command: Node<'_>, text: &str) -> Vec<String> {
    let mut cursor = command.walk();
    let parts = command.named_children(&mut cursor).filter(|part| {
        !matches!(
            part.kind(),
            "variable_assignment" | "file_redirect" | "herestring_redirect" | "heredoc_redirect"
        )
    });
    parts.map(|part| unquote(&text[part.byte_range()])).collect()
}

/// A word as the program gets it, except for shell expansions. A quoted `~` is a file of that name, not the home
/// folder.
fn unquote(word: &str) -> String {
    let is_file = word.starts_with(['"', '\'', '\\']) && word[1..].starts_with('~');
    let mut bare = if is_file { "./".to_owned() } else { String::new() };
    let mut quote = None;
    let mut chars = word.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            ('\\', None | Some('"')) => bare.extend(chars.next()),
            ('"' | '\'', None) => quote = Some(char),
            (char, Some(open)) if char == open => quote = None,
            (char, _) => bare.push(char),
        }
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_a_tool_is_told_by_its_words() {
        let call = "/opt/bin/nagent-mcp call github search_issues query='is:open x'";
        let said = "github: search_issues query=is:open x";
        assert_eq!(describe_mcp_call(call).as_deref(), Some(said));
        let words = first_two(call).unwrap();
        assert_eq!(words, "/opt/bin/nagent-mcp call github search_issues");
        assert!(is_allowed(&[format!("{words} *")], call));
        assert!(!is_allowed(&[format!("{words} *")], "nagent-mcp call github other"));
        for other in [
            "nagent-mcp call a",
            "nagent-mcp call a b; rm x",
            "nagent-mcp call a b | sh",
            "X=1 nagent-mcp call a b",
            "nagent-mcp list a b",
            "my-nagent-mcp call a b",
            "nagent-mcp call --output=x a b",
        ] {
            assert_eq!(describe_mcp_call(other), None, "{other}");
        }
    }

    #[test]
    fn patterns_cover_plain_commands_and_nothing_more() {
        let patterns: Vec<String> =
            ["git status", "ls *", "cargo test *"].map(str::to_owned).to_vec();
        let any = ["*".to_owned()];
        assert!(
            is_allowed(&any, "make x") && !is_allowed(&any, "make x; y") && !is_allowed(&any, "")
        );
        for commands in [
            "git status",
            " git  status\n",
            "ls",
            "ls -l \"a b\"",
            "cargo test -- x",
            "git 'status'",
        ] {
            assert!(is_allowed(&patterns, commands), "{commands}");
        }
        for commands in [
            "git status; rm x",
            "git status $(x)",
            "git status\nrm x",
            "git status && x",
            "git status > x",
            "git status | x",
            "git status `x`",
            "X=1 git status",
            "git status -s",
            "git",
            "lsof",
            "git\\ status",
            "(git status)",
            "git status &",
            "ls {a,b}",
            "",
            "\"git status\"",
            "cargo tests",
            "ls <(x)",
        ] {
            assert!(!is_allowed(&patterns, commands), "{commands}");
        }
    }
}
