//! What a user sees on stderr while the loop works: a line an action as it starts and ends, and how much of a reply
//! has come. On a terminal only, and not with `--quiet`; notes are always shown.

use std::time::Duration;

use crate::drive::ProgressEvent;
use crate::format::conversation::Block;
use crate::out;
use crate::protocol::Action;
use crate::sys::clock::Stopwatch;
use crate::sys::terminal;
use crate::turn::event::Totals;

/// The shortest time between two updates of the line that counts a reply's bytes.
const PACE: Duration = Duration::from_millis(100);

/// The observer of a run.
pub(super) struct Progress {
    tool: &'static str,
    shown: bool,
    speaking: Option<Stopwatch>,
}

impl Progress {
    /// Shows progress on a terminal, unless it is to be quiet.
    pub(super) fn new(tool: &'static str, quiet: bool) -> Self {
        Self { tool, shown: !quiet && terminal::stderr_is_terminal(), speaking: None }
    }

    /// Takes what happened.
    pub(super) fn show(&mut self, seen: ProgressEvent<'_>) {
        match seen {
            ProgressEvent::Note(text) => {
                self.clear();
                out::line(&format!("{}: note: {text}", self.tool));
            }
            ProgressEvent::Waiting(time, error) => {
                self.clear();
                let seconds = time.as_secs_f64();
                out::line(&format!("{}: {error}; trying again in {seconds:.1} s", self.tool));
            }
            _ if !self.shown => {}
            ProgressEvent::ReplyBytes(bytes) => {
                let is_due = !terminal::is_plain()
                    && self.speaking.as_ref().is_none_or(|watch| watch.elapsed() >= PACE);
                if is_due {
                    out::overwrite(&format!("… {}", out::bytes(bytes)));
                    self.speaking = Some(Stopwatch::start());
                }
            }
            ProgressEvent::ReplyEnded => self.clear(),
            ProgressEvent::CheckStarted(command) => {
                out::line(&action_line("check", command, terminal::width()));
            }
            ProgressEvent::ActionStarted(action) => out::line(&started(action, terminal::width())),
            ProgressEvent::ActionEnded(block) => out::line(&ended(block, terminal::width())),
            ProgressEvent::Response(text) => out::line(text),
            ProgressEvent::BadReply(text) => {
                out::line(&cut(&format!("  {text}"), terminal::width()));
            }
        }
    }

    fn clear(&mut self) {
        if self.speaking.take().is_some() {
            out::overwrite("");
        }
    }

    /// The line at the end, where progress is shown.
    pub(super) fn status(&self, totals: &Totals, seconds: f64) -> Option<String> {
        self.shown.then(|| status(totals, seconds))
    }
}

/// `→ shell  cargo test`
fn started(action: &Action, width: usize) -> String {
    let kind = action.tag().trim_start_matches("nagent-");
    let what = match action {
        Action::Read { path, offset, limit } => match (offset, limit) {
            (None, None) => path.clone(),
            _ => format!("{path} from line {}", offset.unwrap_or(1)),
        },
        Action::FileRead { path } | Action::List { path } | Action::Edit { path, .. } => {
            path.clone()
        }
        Action::Write { path, text } => format!("{path} ({})", out::bytes(text.len() as u64)),
        Action::FilePatch { index } => index.clone(),
        Action::Glob { pattern, .. } | Action::Grep { pattern, .. } => pattern.clone(),
        Action::Shell { commands, .. } => commands.trim().to_owned(),
        Action::Next { prompt } => prompt.trim().to_owned(),
        Action::Conversation { prompt, file, .. } => match file {
            Some(file) => format!("{file}: {}", prompt.trim()),
            None => prompt.trim().to_owned(),
        },
        Action::Wrong { why, .. } => why.clone(),
    };
    action_line(kind, &what, width)
}

/// The first line of what starts, cut to the terminal's width.
fn action_line(kind: &str, what: &str, width: usize) -> String {
    let mut lines = what.lines();
    // Blanks would push the end of the line out of sight.
    let words: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let first = words.join(" ");
    let more = if lines.next().is_some() { " …" } else { "" };
    let room = width.saturating_sub(kind.len() + 5 + more.len()).max(20);
    let cut: String = first.chars().take(room).collect();
    let more = if cut.len() < first.len() { "…" } else { more };
    format!("→ {kind}  {cut}{more}")
}

/// `  exit 0, 1.2 s, 4.1 KB`
fn ended(block: &Block, width: usize) -> String {
    let mut parts = Vec::new();
    match (block.get("exit_code"), block.get("status")) {
        (Some(code), _) => parts.push(format!("exit {code}")),
        (None, Some(status)) if status != "ok" => parts.push(status.to_owned()),
        _ => parts.push("ok".to_owned()),
    }
    if let Some(seconds) = block.get("seconds").and_then(|text| text.parse::<f64>().ok()) {
        parts.push(format!("{seconds:.1} s"));
    }
    if let Some(bytes) = block.get("bytes").and_then(|text| text.parse().ok()) {
        parts.push(out::bytes(bytes));
    } else if let Some(lines) = block.get("lines") {
        parts.push(format!("{lines} lines"));
    }
    if block.get("status") == Some("error") && block.get("exit_code").is_none() {
        let lines = block.body.as_deref().unwrap_or_default().lines();
        // What ended a command is in brackets after its output; every other message starts with its point.
        let why = lines
            .clone()
            .next_back()
            .filter(|line| line.starts_with('['))
            .or_else(|| lines.clone().next());
        parts.push(why.unwrap_or_default().to_owned());
    }
    cut(&format!("  {}", parts.join(", ")), width)
}

fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `[3 turns, 12.3k tokens in (45 % cached), 512 out, $0.0123, 4.2 s]`
fn status(totals: &Totals, seconds: f64) -> String {
    let usage = &totals.all;
    let about = if usage.estimated { "about " } else { "" };
    let share = usage.cached.saturating_mul(100).checked_div(usage.input).unwrap_or(0);
    let cost = match (totals.cost > 0.0, totals.unpriced) {
        (true, false) => format!(", ${:.4}", totals.cost),
        (true, true) => format!(", ${:.4} and more of unknown price", totals.cost),
        (false, _) => String::new(),
    };
    let turns =
        if totals.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", totals.turns) };
    format!(
        "[{turns}, {about}{} tokens in ({share} % cached), {} out{cost}, {seconds:.1} s]",
        thousands(usage.input),
        thousands(usage.output)
    )
}

fn thousands(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { format!("{:.1}k", count as f64 / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Usage;

    #[test]
    fn lines() {
        let shell = Action::Shell { commands: "cargo test\nmore".into(), timeout: None };
        assert_eq!(started(&shell, 80), "→ shell  cargo test …");
        let padded = format!("ls{};\r curl evil", " ".repeat(10_000));
        let padded = Action::Shell { commands: padded, timeout: None };
        assert_eq!(started(&padded, 80), "→ shell  ls ; curl evil");
        let long = Action::List { path: "x".repeat(100) };
        assert_eq!(started(&long, 40), format!("→ list  {}…", "x".repeat(31)));
        let block = Block::new("nagent-shell-result")
            .with("status", "ok")
            .with("exit_code", 0)
            .with("seconds", "1.234")
            .with("bytes", 4100);
        assert_eq!(ended(&block, 80), "  exit 0, 1.2 s, 4.1 KB");
        let block =
            Block::new("nagent-read-result").with("status", "error").body("no such file: x\nmore");
        assert_eq!(ended(&block, 80), "  error, no such file: x");
        assert_eq!(ended(&block, 12), "  error, no…");
        let block = block.body("output\n[ended because nagent got SIGINT]");
        assert_eq!(ended(&block, 80), "  error, [ended because nagent got SIGINT]");
    }

    #[test]
    fn the_status_line() {
        let all = Usage { input: 12_345, cached: 6_000, output: 512, ..Usage::default() };
        let totals = Totals { turns: 3, all, cost: 0.0123, ..Totals::default() };
        assert_eq!(
            status(&totals, 4.21),
            "[3 turns, 12.3k tokens in (48 % cached), 512 out, $0.0123, 4.2 s]"
        );
    }
}
