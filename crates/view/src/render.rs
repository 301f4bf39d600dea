//! Events as rows for a terminal, complete and harmless: every line of a command, the end of its output, diffs.

use serde_json::Value;

use super::event::{Begin, Finish, LAST_LINES, RunEvent, Start, describe_target, shows_output};
use super::figures::cached_share;
use super::overview::ConversationKind;
use super::style::{BOLD, CYAN, DIM, GREEN, PLAIN, RED, SCRIPT, Span};
use conversation::format::columns::{show_odd_blanks, truncate, visible_lines, width, wrap_line};
use conversation::format::harmless::escape_line;
use conversation::format::numbers::{format_bytes, format_count, format_tokens};
use conversation::format::terminal_text::TerminalText;
use conversation::reason::Reason;

/// Maximum number of lines of a diff that are shown.
const DIFF_LINES: usize = 200;
/// Number of lines of a new file that are shown.
const NEW_LINES: usize = 10;
/// Maximum number of rows for one line of output.
const OUTPUT_ROWS: usize = 5;
/// Minimum width for a command next to its kind.
const NARROW: usize = 24;
/// Minimum width for a text, even on a very narrow terminal.
const ROOM: usize = 8;

/// The rows of an event on a terminal with this many columns. With `all`, diffs and outputs are complete.
pub fn render(event: &RunEvent, columns: usize, all: bool) -> Vec<Span> {
    match event {
        RunEvent::Begin(begin) => begin_rows(begin, columns),
        RunEvent::Start(start) => start_rows(start, columns),
        RunEvent::AfterWrite { command, .. } => bar_rows("→ after write ", command, columns),
        RunEvent::Check { command, attempt, attempts, .. } => {
            bar_rows(&format!("→ check (try {attempt} of {attempts}) "), command, columns)
        }
        RunEvent::Finish(finish) => finish_rows(finish, columns, all),
        RunEvent::Say { text } => text_rows(text, "", columns),
        RunEvent::Note { text } => text_rows(&format!("note: {text}"), "", columns),
        RunEvent::Wait { seconds, error } => {
            text_rows(&format!("{error}; trying again in {seconds:.1} s"), "", columns)
        }
        RunEvent::Heard { turn, tokens_in, tokens_out, tokens_cached, .. } if all => {
            let share = cached_share(*tokens_cached, *tokens_in);
            let (read, written) = (format_tokens(*tokens_in), format_tokens(*tokens_out));
            let text = format!("[turn {turn}: {read} tokens in{share}, {written} out]");
            vec![Span::new(text, DIM)]
        }
        RunEvent::Ask { .. }
        | RunEvent::Compact
        | RunEvent::Decide(_)
        | RunEvent::Output { .. }
        | RunEvent::Text { .. }
        | RunEvent::Heard { .. } => Vec::new(),
    }
}

/// The rows of events one after another, those of a child below its name and indented.
#[derive(Debug, Default)]
pub struct EventRows {
    /// The child that the last rows are of: the names that lead to it.
    child: Vec<String>,
}

impl EventRows {
    /// The rows of an event of the run itself or of a child, see [`render`].
    pub fn add_event(
        &mut self,
        children: &[String],
        event: &RunEvent,
        columns: usize,
        all: bool,
    ) -> Vec<Span> {
        let indent = "  ".repeat(children.len());
        let mut rows = render(event, columns.saturating_sub(indent.len()), all);
        if !rows.is_empty() && self.child != children {
            self.child = children.to_vec();
            if let Some(name) = children.last() {
                rows.insert(0, Span::new(format!("[{name}]"), BOLD));
            }
        }
        for row in &mut rows {
            row.text.insert_str(0, &indent);
        }
        rows
    }
}

/// The lines of a text, wrapped and indented.
fn text_rows(text: &str, indent: &str, columns: usize) -> Vec<Span> {
    let room = columns.saturating_sub(indent.len()).max(ROOM);
    let lines = visible_lines(text);
    // A row of prose begins with a word.
    let rows = lines.iter().flat_map(|line| {
        let rows = wrap_line(line, room).into_iter().enumerate();
        rows.map(|(at, row)| if at == 0 { row } else { row.trim_start() })
    });
    rows.map(|row| Span::new(format!("{indent}{row}"), PLAIN)).collect()
}

/// Every line of a text after a bar, wrapped after a dotted one, next to its head or below it. Without a head the bars are at the margin.
pub fn bar_rows(head: &str, text: &str, columns: usize) -> Vec<Span> {
    let mut rows = Vec::new();
    let (mut first, mut indent) = (head.to_owned(), " ".repeat(width(head)));
    if !head.is_empty() && columns < NARROW + width(head) {
        rows.push(Span::new(head.trim_end(), PLAIN));
        (first, indent) = (String::new(), String::new());
    }
    let room = columns.saturating_sub(indent.len() + 2).max(ROOM);
    for line in visible_lines(&show_odd_blanks(text.trim_matches('\n'))) {
        for (at, part) in wrap_line(&line, room).into_iter().enumerate() {
            let before = std::mem::replace(&mut first, indent.clone());
            // A row that goes on with a line cannot be taken for another line.
            let bar = if at == 0 { '│' } else { '┊' };
            rows.push(Span::new(format!("{before}{bar} {part}"), PLAIN));
        }
    }
    rows
}

/// The name of a conversation for a person: the numbers in that of a shell say nothing.
pub fn shown_name(name: &str) -> &str {
    if ConversationKind::from_name(name) == ConversationKind::Shell {
        "the conversation"
    } else {
        name
    }
}

fn begin_rows(begin: &Begin, columns: usize) -> Vec<Span> {
    if begin.prompts == 0 {
        let name = &begin.conversation;
        let is_named = ConversationKind::from_name(name) == ConversationKind::Named;
        let text = is_named.then(|| format!("new conversation {name}"));
        return text.map(|text| text_rows(&text, "", columns)).unwrap_or_default();
    }
    let window = begin.window.map(|window| format!(" of {}", format_tokens(window)));
    let name = shown_name(&begin.conversation);
    let text = format!(
        "continues {name}: {}, about {}{} tokens",
        format_count(begin.prompts, "prompt"),
        format_tokens(begin.tokens),
        window.unwrap_or_default()
    );
    text_rows(&text, "", columns)
}

/// `→ read  src/main.rs from line 10`
fn start_rows(start: &Start, columns: usize) -> Vec<Span> {
    let kind = start.tag.trim_start_matches("nagent-");
    let body = start.body.as_deref().unwrap_or_default();
    match kind {
        "shell" if start.attributes.get("sandbox").is_some_and(|mode| mode == "off") => {
            return bar_rows("→ shell, outside of the sandbox ", body, columns);
        }
        "shell" => return bar_rows("→ shell ", body, columns),
        "script" => {
            let head = Span::new("  ▸ script", SCRIPT);
            let code = text_rows(body.trim_matches(['\r', '\n']), "    ", columns);
            let code = code.into_iter().map(|row| Span::new(row.text, DIM));
            return std::iter::once(head).chain(code).collect();
        }
        "stdout" => return Vec::new(),
        _ => {}
    }
    let mut what = describe_target(&start.tag, &start.attributes);
    if kind == "write" {
        what.push_str(&format!(" ({})", format_bytes(start.bytes)));
    }
    if matches!(kind, "conversation" | "next") {
        let head = if what.is_empty() { kind.to_owned() } else { format!("{kind} {what}") };
        let head = escape_line(&head, columns.max(ROOM));
        return bar_rows(&format!("→ {head} "), body, columns);
    }
    let line = visible_lines(&what).join(" ");
    text_rows(&format!("→ {kind}  {line}"), "", columns)
}

/// The end of the output, the diff, and `  exit 0, 1.2 s, 4.1 KB`
fn finish_rows(finish: &Finish, columns: usize, all: bool) -> Vec<Span> {
    let mut rows = Vec::new();
    let number = |name: &str| finish.figures.get(name).and_then(Value::as_u64);
    let is_refused = finish.status != "ok" && number("exit_code").is_none();
    let has_output = match finish.tag.as_str() {
        // What did not run has no output but the reason.
        "nagent-shell" | "nagent-conversation" => {
            !is_refused || finish.figures.contains_key("seconds")
        }
        tag => shows_output(tag),
    };
    if has_output || all {
        rows.extend(output_rows(finish, columns, all));
    }
    if let Some(diff) = finish.diff.as_ref().filter(|_| !finish.is_known) {
        let path = finish.path.as_deref().unwrap_or_default();
        rows.extend(diff_rows(diff, finish.diff_cut, finish.previous.as_deref(), path, all));
    }
    let seconds = finish.figures.get("seconds").and_then(Value::as_f64);
    let is_command = has_output && finish.tag != "nagent-conversation";
    let says_nothing = match number("exit_code") {
        Some(code) => is_command && code == 0 && seconds.unwrap_or(0.0) <= 1.0,
        None => finish.status == "ok" && finish.tag == "nagent-read",
    };
    if says_nothing && !all {
        return rows;
    }
    if let Some(counts) =
        finish.diff.as_ref().filter(|_| !finish.diff_cut).map(|it| count_changes(it))
        && finish.status == "ok"
        && !counts.is_empty()
    {
        rows.push(Span::new(format!("  {counts}"), PLAIN));
        return rows;
    }
    let mut parts = Vec::new();
    match number("exit_code") {
        Some(code) => parts.push(format!("exit {code}")),
        None if finish.status == "ok" => parts.push("ok".to_owned()),
        None => parts.push(finish.status.clone()),
    }
    if let Some(seconds) = seconds {
        parts.push(format!("{seconds:.1} s"));
    }
    match (number("from_line"), number("to_line"), number("bytes"), number("lines")) {
        (Some(from), Some(to), ..) => parts.push(format!("lines {from} to {to}")),
        (_, _, Some(size), _) => parts.push(format_bytes(size)),
        (_, _, None, Some(count)) => parts.push(format_count(count, "line")),
        _ => {}
    }
    if finish.reason.as_deref() == Some(Reason::Sandbox.name()) {
        parts.push("the sandbox may have stopped it".to_owned());
    }
    if is_refused && !has_output && !all {
        parts.push(refusal(finish));
    }
    // Several children run at once.
    let child = finish.path.as_ref().filter(|_| finish.tag == "nagent-conversation");
    let child = child.map(|name| format!("{name}: ")).unwrap_or_default();
    rows.extend(text_rows(&format!("{child}{}", parts.join(", ")), "  ", columns));
    rows
}

/// The number of lines that a diff removes and adds: `-1 +3`.
fn count_changes(diff: &str) -> String {
    let lines = diff.lines().skip_while(|line| !line.starts_with('@'));
    let count = |sign: char| lines.clone().filter(|line| line.starts_with(sign)).count();
    let counts = [('-', count('-')), ('+', count('+'))];
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    counts.map(|(sign, count)| format!("{sign}{count}")).collect::<Vec<_>>().join(" ")
}

/// The reason why an action failed, for a person: the model's advice is in the lines below the first.
pub(super) fn refusal(finish: &Finish) -> String {
    let why = &finish.first_line;
    match finish.reason.as_deref().and_then(Reason::from_name) {
        Some(Reason::Boundary) => {
            let path = finish.path.as_deref().unwrap_or("this file");
            // No flag allows a repository's own data.
            if path.split('/').any(|name| name.eq_ignore_ascii_case(".git")) {
                return why.clone();
            }
            format!("{path} may not be written here; --write DIR allows a folder")
        }
        Some(Reason::Stopped) => format!("{why}; --dangerous allows it"),
        Some(Reason::Unread) => {
            "nothing was written: the model had not read this file before".to_owned()
        }
        _ => why.clone(),
    }
}

/// `  … 4 earlier lines`
pub fn earlier_row(lines: u64) -> Option<Span> {
    let text = || format!("  … {}", format_count(lines, "earlier line"));
    (lines > 0).then(|| Span::new(text(), DIM))
}

fn output_rows(finish: &Finish, columns: usize, all: bool) -> Vec<Span> {
    let mut rows = Vec::new();
    rows.extend(earlier_row(finish.lines_before));
    let room = columns.saturating_sub(2).max(ROOM);
    let last = if all { 0 } else { finish.shown.len().saturating_sub(LAST_LINES) };
    for line in &finish.shown[last..] {
        // Only as much as can be shown: escaping one endless line would take long.
        let most = room.saturating_mul(OUTPUT_ROWS);
        let shown = if all || most == usize::MAX {
            line.clone()
        } else {
            truncate(&line[..line.floor_char_boundary(most.saturating_mul(8))], most)
        };
        let line = TerminalText::show_line(&shown);
        let parts = wrap_line(&line, room);
        let most = if all { usize::MAX } else { OUTPUT_ROWS };
        let has_more = parts.len() > most;
        rows.extend(parts.iter().take(most).map(|part| Span::new(format!("  {part}"), DIM)));
        if let Some(last) = rows.last_mut().filter(|_| has_more) {
            // Wrapped at words it takes more rows than its characters fill.
            last.text = truncate(&format!("{}…", last.text.trim_end()), columns.max(ROOM + 2));
        }
    }
    rows
}

/// The rows of a unified diff; of a long one the first, and how to see all of it.
pub fn diff_rows(
    diff: &str,
    is_cut: bool,
    previous: Option<&str>,
    path: &str,
    all: bool,
) -> Vec<Span> {
    let mut lines = diff.lines();
    let mut rows = Vec::new();
    let mut is_head = true;
    // Of a new file or one that is gone the first lines, below the three of the head.
    let mut head = diff.lines().take(2);
    let is_new = head.any(|line| matches!(line, "--- /dev/null" | "+++ /dev/null"));
    let most = if is_new { NEW_LINES + 3 } else { DIFF_LINES };
    for line in lines.by_ref().take(if all { usize::MAX } else { most }) {
        // A removed line may begin with `-- `, and so with three.
        is_head &= !line.starts_with('@');
        let style = match line.as_bytes() {
            [b'-' | b'+', ..] if is_head => BOLD,
            [b'-', ..] => RED,
            [b'+', ..] => GREEN,
            [b'@', ..] => CYAN,
            _ => PLAIN,
        };
        rows.push(Span::new(line, style));
    }
    let left = lines.count();
    let more = if is_cut { " and more" } else { "" };
    let text = match previous {
        _ if is_new && !all => {
            format!("… {}{more} (-v shows all)", format_count(left as u64, "more line"))
        }
        Some(previous) => {
            format!("[{left}{more} lines omitted; to see all: diff -u {previous} {path}]")
        }
        None => format!("[{left}{more} lines omitted; to see all: {path} is all new]"),
    };
    rows.extend((left > 0 || is_cut).then(|| Span::new(text, PLAIN)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use conversation::format::file::Block;
    use conversation::protocol::Action;
    use conversation::reason::Failure;

    #[track_caller]
    fn check(event: &RunEvent, columns: usize, expect: &[&str]) {
        let rows: Vec<String> =
            render(event, columns, false).into_iter().map(|row| row.text).collect();
        assert_eq!(rows, expect);
    }

    fn start(action: &Action) -> RunEvent {
        RunEvent::Start(Start::new(1, action))
    }

    fn shell(commands: &str) -> RunEvent {
        start(&Action::Shell {
            commands: commands.into(),
            timeout: None,
            keep: None,
            outside: None,
        })
    }

    fn finish(action: &str, block: Block) -> RunEvent {
        RunEvent::Finish(Box::new(RunEvent::finish(1, action, &block, false)))
    }

    #[test]
    fn commands_are_shown_whole() {
        check(&shell("cargo test\nmore"), 80, &["→ shell │ cargo test", "        │ more"]);
        check(&shell("a\r\nb\r\n"), 80, &["→ shell │ a\\u{d}", "        │ b\\u{d}"]);
        let long = format!("echo {} end", "x".repeat(40));
        let rows = ["→ shell │ echo xxxxxxxxxxxxxxxxxxxxxxxxx", "        ┊ xxxxxxxxxxxxxxx end"];
        check(&shell(&long), 40, &rows);
        check(&shell("echo 123456789"), 12, &["→ shell", "│ echo ", "┊ 123456789"]);
        check(&shell("ab"), 1, &["→ shell", "│ ab"]);
        let child = |file: &str| {
            let (prompt, file) = ("do\nit".to_owned(), Some(file.to_owned()));
            start(&Action::Conversation { prompt, name: None, from: None, file })
        };
        check(&child("a.txt"), 80, &["→ conversation a.txt │ do", "                     │ it"]);
        check(&child("a.txt"), 40, &["→ conversation a.txt", "│ do", "│ it"]);
        let read = Action::Read { path: "x".into(), offset: Some(3), limit: None, numbers: false };
        check(&start(&read), 80, &["→ read  x from line 3"]);
        let read = Action::Read { path: "a\nb".into(), offset: None, limit: None, numbers: false };
        check(&start(&read), 80, &["→ read  $'a\\nb'"]);
        let (pattern, path) = ("a b".to_owned(), Some("src".to_owned()));
        let grep = Action::Grep { pattern, path, glob: None, context: None, ignore_case: false };
        check(&start(&grep), 80, &["→ grep  a b in src"]);
    }

    #[test]
    fn a_removed_comment_is_no_head_of_a_file() {
        let diff = "--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n";
        let rows = diff_rows(diff, false, None, "x.sql", true);
        let styles: Vec<&[u8]> = rows.iter().map(|row| &row.codes[..]).collect();
        let (removed, added) = (RED, GREEN);
        assert_eq!(styles, [BOLD, BOLD, CYAN, removed, added]);
    }

    #[test]
    fn results_end_in_their_figures() {
        let block = Block::new("nagent-shell-result")
            .with("status", "ok")
            .with("exit_code", 0)
            .with("seconds", "1.234")
            .with("bytes", 4100)
            .with("lines", 14)
            .body((1..15).map(|n| format!("{n}\n")).collect::<String>());
        let rows = [
            "  … 4 earlier lines",
            "  5",
            "  6",
            "  7",
            "  8",
            "  9",
            "  10",
            "  11",
            "  12",
            "  13",
            "  14",
            "  exit 0, 1.2 s, 4.1 KB",
        ];
        check(&finish("nagent-shell", block), 80, &rows);
        let block =
            Block::new("nagent-read-result").with("status", "error").body("no such file: x\nmore");
        check(&finish("nagent-read", block), 80, &["  error, no such file: x"]);
        let refused =
            |reason, why: &str| Failure::new(reason, why).of_unrun().add_to(Block::new("x"));
        let block = refused(Reason::Stopped, "it removes all\nnagent refuses such commands");
        let rows = ["  error, not run: it removes all; --dangerous allows it"];
        check(&finish("nagent-shell", block), 80, &rows);
        let block = refused(Reason::Declined, "the user said no: never");
        let rows = ["  error, not run: the user said no: never"];
        check(&finish("nagent-shell", block), 80, &rows);
        let block = Block::new("x").with("status", "ok").with("bytes", 90).with("lines", 2);
        let block = block.with("first_line", 3).with("last_line", 4).body("a\nb");
        check(&finish("nagent-read", block.clone()), 80, &[]);
        check(&finish("nagent-file-read", block), 80, &["  ok, lines 3 to 4"]);
        let block = Block::new("x").with("status", "ok").with("lines", 1).body("a");
        check(&finish("nagent-list", block), 80, &["  ok, 1 line"]);
        let endless =
            Block::new("x").with("status", "ok").with("exit_code", 0).body("y".repeat(1 << 20));
        assert_eq!(render(&finish("nagent-shell", endless), 20, false).len(), OUTPUT_ROWS);
        let words = Block::new("x").with("status", "ok").body("seven letters ".repeat(20));
        let rows = render(&finish("nagent-shell", words), 20, false);
        assert!(rows[OUTPUT_ROWS - 1].text.ends_with('…'), "{rows:?}");
    }
}
