//! The observer of a run: streams the answer to a terminal on stdout, shows on stderr what the run does, or prints every
//! event as a line of JSON. Notes are always shown, except with `-q`. What is shown of an event is decided in [`view`].

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::change_report::{FileVersion, VersionPair};
use super::spinner::{LIVE_LINES, Spinner, Tries};
use crate::drive::{OutputNow, ProgressEvent};
use crate::ops::run::call::Call;
use crate::ops::setup::flags::Invocation;
use crate::out;
use conversation::exit::Signal;
use conversation::format::file::Block;
use conversation::format::numbers::format_bytes;
use conversation::format::terminal_text::TerminalText;
use conversation::limits::{self, FAILED_CHECKS};
use conversation::memory::changes::short_hash;
use conversation::protocol::stream::Streamed;
use conversation::protocol::{Access, Action};
use conversation::reason::Failure;
use conversation::turn::event::Totals;
use history::git;
use sys::atomic_file::AtomicFile;
use sys::clock::Stopwatch;
use sys::interrupt::Interrupts;
use sys::{fs, terminal};
use view::event::{AFTER_WRITE, LAST_LINES, RunEvent, Start};
use view::figures::{RunFigures, figures_line};
use view::render::{EventRows, earlier_row, render};
use view::style::{DIM, Span};

/// Where events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgressOutput {
    /// Not even notes are shown.
    Silent,
    /// Only notes are shown.
    Nowhere,
    /// To stderr, as rows.
    Rows,
    /// To stdout, as JSON.
    Lines,
}

/// The output of the running command, as far as it was printed by `--progress` or `--lines`.
#[derive(Debug)]
struct LiveOutput {
    /// Number of times that something of it was printed.
    times: u32,
    last: Stopwatch,
    /// Number of its lines that are printed, or were left out, and the last one.
    lines: u64,
    last_line: String,
    has_gaps: bool,
}

impl LiveOutput {
    /// So many times output is printed as it comes; after that, once a second.
    const OFTEN: u32 = 100;

    fn new() -> Self {
        let (times, lines, last_line, has_gaps) = Default::default();
        Self { times, last: Stopwatch::start(), lines, last_line, has_gaps }
    }

    /// Whether it is time to print some.
    fn is_due(&mut self) -> bool {
        let is_due = self.times < Self::OFTEN || self.last.elapsed().as_secs() >= 1;
        if is_due {
            (self.times, self.last) = (self.times + 1, Stopwatch::start());
        }
        is_due
    }
}

/// The observer of a run.
pub(crate) struct Progress<'a> {
    tool: &'static str,
    interrupts: &'a Interrupts,
    output: ProgressOutput,
    /// Whether the answer goes to stdout while it arrives.
    pub(crate) is_streaming: bool,
    shows_all: bool,
    pub(crate) spinner: Spinner,
    /// The number of actions that have started, and the numbers of those that are running.
    started: u64,
    running: VecDeque<u64>,
    /// The number of the action that the user is asked about.
    pub(crate) asked: Rc<Cell<u64>>,
    /// The number of the action that starts next, where it has one already.
    numbered: Option<u64>,
    /// The responses of the last reply, as far as they were streamed.
    streamed: String,
    /// Reasoning whose line is not complete yet.
    thoughts: String,
    /// Whether the text on stdout is in the middle of a line.
    is_open: bool,
    answer: out::Answer,
    rows: EventRows,
    live: LiveOutput,
    /// Where the answer is on the same terminal: whether actions are shown since the last one.
    gap: Option<bool>,
    /// The notes of children that were shown: several children note the same of the same folder.
    noted: Vec<String>,
    /// The file that marks that advice was shown in this project. `None`: no advice is shown.
    advised: Option<PathBuf>,
    tries: Tries,
    /// The last diff that was shown.
    pub(crate) shown_diff: Option<String>,
}

impl<'a> Progress<'a> {
    /// Shows what the flags of a call ask for.
    pub(crate) fn new(call: &'a Call<'_>) -> Self {
        let args = call.args;
        let is_terminal = terminal::stderr_is_terminal();
        let output = match () {
            () if args.lines => ProgressOutput::Lines,
            () if call.is_silent() => ProgressOutput::Silent,
            () if call.shows_progress && (is_terminal || args.progress) => ProgressOutput::Rows,
            () => ProgressOutput::Nowhere,
        };
        // With -q, runs may share a terminal, as under xargs: each writes its answer in one piece.
        let is_text =
            !args.json && !args.code && call.shows_progress && terminal::stdout_is_terminal();
        // A parent does not show what its child answers.
        let is_lines = output == ProgressOutput::Lines && call.which.invocation == Invocation::User;
        Self {
            tool: call.tool,
            interrupts: &call.interrupts,
            output,
            is_streaming: args.check.is_none()
                && args.answer.schema.is_none()
                && !args.answer.has_output_file()
                && (is_text || is_lines),
            shows_all: args.verbose,
            spinner: Spinner::new(output == ProgressOutput::Rows),
            started: 0,
            running: VecDeque::new(),
            asked: Rc::default(),
            numbered: None,
            streamed: String::new(),
            thoughts: String::new(),
            is_open: false,
            answer: out::Answer::new(call.settings.config.markdown),
            rows: EventRows::default(),
            live: LiveOutput::new(),
            gap: (output == ProgressOutput::Rows && is_terminal && is_text).then_some(false),
            noted: Vec::new(),
            advised: if call.shows_progress || args.lines { advised_mark(call) } else { None },
            tries: Tries::default(),
            shown_diff: None,
        }
    }

    /// Whether events are shown, those of children too.
    pub(crate) fn shows_events(&self) -> bool {
        matches!(self.output, ProgressOutput::Rows | ProgressOutput::Lines)
    }

    /// Updates the display for an event.
    pub(crate) fn show_event(&mut self, seen: ProgressEvent<'_>) {
        match seen {
            ProgressEvent::Advice(text)
                if !self.advised.as_deref().is_some_and(|mark| mark_advised(mark, text)) => {}
            ProgressEvent::Note(text) | ProgressEvent::Advice(text) => {
                self.noted.push(text.to_owned());
                self.emit_always(&RunEvent::Note { text: text.to_owned() });
            }
            ProgressEvent::Waiting(time, error) => {
                self.show_wait(time.as_secs_f64(), error.to_string());
            }
            ProgressEvent::Asking(turn) => {
                self.streamed.clear();
                self.spinner.start(&self.tries.name());
                self.emit_event(|| RunEvent::Ask { turn });
            }
            ProgressEvent::Compacting => {
                self.spinner.start("compacting the conversation");
                self.emit_event(|| RunEvent::Compact);
            }
            ProgressEvent::Output(output) => self.show_output(output),
            ProgressEvent::ReplyBytes(bytes) => {
                self.spinner.set_note(format!(", {}", format_bytes(bytes)));
            }
            ProgressEvent::Streamed(streamed) => {
                self.show_thoughts("\n");
                self.stream(streamed);
            }
            ProgressEvent::Thought(text) => self.show_thoughts(text),
            ProgressEvent::ReplyEnded => {
                self.show_thoughts("\n");
                self.spinner.stop();
                self.end_line();
            }
            ProgressEvent::Replied { turn, usage, cost, verdict } => {
                self.tries = Tries::default();
                self.emit_event(|| RunEvent::Heard {
                    turn,
                    tokens_in: usage.input,
                    tokens_out: usage.output,
                    tokens_cached: usage.cached,
                    cost,
                    verdict,
                });
            }
            ProgressEvent::Deciding(action, folder, has_sandbox) => {
                let n = self.count_start();
                self.numbered = Some(n);
                self.asked.set(n);
                self.emit_event(|| {
                    RunEvent::Decide(Start::to_decide(n, action, folder, has_sandbox))
                });
            }
            ProgressEvent::Refused(action, why) => self.show_refusal(action, why),
            ProgressEvent::ActionStarted(action) => {
                let n = self.count_start();
                self.emit_event(|| RunEvent::Start(Start::new(n, action)));
                // Scripts write to the terminal and ask there themselves.
                match action {
                    Action::Script { .. } | Action::Stdout { .. } => {}
                    Action::Shell { .. } => self.start_command(),
                    _ => self.spinner.start(action.tag_kind().table_row().short_name()),
                }
            }
            ProgressEvent::CommandStarted { name, command, attempt } => {
                self.show_command(name, command, attempt.unwrap_or_default());
            }
            ProgressEvent::ActionEnded(action, block) => self.show_end(action, block),
            ProgressEvent::Child { name, line } => self.show_child(name, line),
            ProgressEvent::Response(text) => self.show_response(text),
            ProgressEvent::BadReply(text) => {
                self.emit_event(|| RunEvent::Note { text: text.to_owned() });
            }
        }
    }

    /// A wait before the next try.
    fn show_wait(&mut self, seconds: f64, error: String) {
        if self.tries.add(&error) || !self.spinner.is_shown() {
            self.emit_always(&RunEvent::Wait { seconds, error });
        }
        self.spinner.start(&self.tries.name());
    }

    /// A command of the user's that starts.
    fn show_command(&mut self, name: &'static str, command: &str, attempt: u32) {
        let n = self.count_start();
        let command = command.to_owned();
        self.emit_event(|| match name {
            AFTER_WRITE => RunEvent::AfterWrite { n, command },
            _ => RunEvent::Check { n, command, attempt, attempts: FAILED_CHECKS },
        });
        self.start_command();
    }

    fn start_command(&mut self) {
        self.live = LiveOutput::new();
        self.spinner.start_command();
    }

    /// The output of the running command: renewed in place on a terminal, else its lines one after another.
    fn show_output(&mut self, output: &OutputNow) {
        let (shown, lines_before) = output.last_lines(LIVE_LINES);
        match self.output {
            ProgressOutput::Rows if self.spinner.is_shown() => {
                self.spinner.show_output(&[], &shown, lines_before);
            }
            ProgressOutput::Rows if self.live.is_due() => self.print_output_lines(output),
            ProgressOutput::Lines if self.live.is_due() => {
                let n = self.running.front().copied().unwrap_or(self.started);
                self.emit_event(|| RunEvent::Output { n, shown, lines_before });
            }
            _ => {}
        }
    }

    /// Prints the complete lines that are new, the last ten of them.
    fn print_output_lines(&mut self, output: &OutputNow) {
        let all = output.before + output.lines.len() as u64;
        let new = usize::try_from(all - self.live.lines.min(all)).unwrap_or(usize::MAX);
        let lines = &output.lines[output.lines.len().saturating_sub(new.min(LAST_LINES))..];
        let skipped = new.saturating_sub(lines.len()) as u64;
        self.live.has_gaps |= skipped > 0;
        self.live.lines = all;
        if let Some(last) = lines.last() {
            last.clone_into(&mut self.live.last_line);
        }
        print_lines(skipped, lines);
    }

    /// The result of an action, or of a command of the user's.
    fn show_end(&mut self, action: Option<&Action>, block: &Block) {
        let n = self.running.pop_front().unwrap_or(self.started);
        if self.running.is_empty() {
            self.spinner.stop();
        }
        if self.shows_events() {
            let event = self.finish(n, action, block);
            self.emit_event(|| event);
        }
    }

    /// Shows a response in a reply that also has actions, except for the part that was streamed to the terminal.
    fn show_response(&mut self, text: &str) {
        let rest = self.unstreamed(text).trim_start_matches('\n');
        if !rest.is_empty() {
            self.emit_event(|| RunEvent::Say { text: rest.to_owned() });
        }
    }

    /// Shows the complete lines of reasoning, with `-v`, on a terminal or not. A line feed ends an open line.
    fn show_thoughts(&mut self, piece: &str) {
        if !self.shows_all || self.output == ProgressOutput::Lines {
            return;
        }
        self.thoughts.push_str(piece);
        let Some(end) = self.thoughts.rfind('\n') else { return };
        let lines: String = self.thoughts.drain(..=end).collect();
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            self.spinner.print_above(|| out::print_spans(&[Span::new(format!("· {line}"), DIM)]));
        }
    }

    fn show_refusal(&mut self, action: &Action, why: &Failure) {
        let n = self.count_start();
        self.running.pop_back();
        self.emit_event(|| RunEvent::Start(Start::new(n, action)));
        let block = why.clone().of_unrun().add_to(Block::new(action.result_block()));
        let event = self.finish(n, Some(action), &block);
        self.emit_event(|| event);
    }

    /// Shows an answer that was not streamed, because it could still be rejected.
    pub(crate) fn show_accepted(&mut self, call: &Call<'_>, answer: &str) {
        let is_users = call.which.invocation == Invocation::User;
        if is_users && !self.is_streaming && self.output == ProgressOutput::Lines {
            self.emit_event(|| RunEvent::Text { text: answer.to_owned() });
        }
    }

    /// The part of the answer that was not streamed: words around its tags are shown at its end.
    pub(crate) fn unstreamed<'t>(&self, answer: &'t str) -> &'t str {
        let is_streamed = self.is_streaming && self.output != ProgressOutput::Lines;
        let streamed = if is_streamed { self.streamed.as_str() } else { "" };
        match answer.strip_prefix(streamed) {
            Some(rest) if rest.is_empty() || rest.starts_with('\n') => {
                rest.trim_start_matches('\n')
            }
            _ => answer,
        }
    }

    fn stream(&mut self, streamed: Streamed<'_>) {
        let text = match streamed {
            Streamed::Text(text) => text,
            Streamed::End => "\n",
        };
        if self.output == ProgressOutput::Lines {
            // Between two responses, not after the last one.
            let gap = if self.streamed.ends_with('\n') { "\n" } else { "" };
            if streamed != Streamed::End {
                self.emit_event(|| RunEvent::Text { text: format!("{gap}{text}") });
            }
            return text.clone_into(&mut self.streamed);
        }
        if !self.is_open {
            self.spinner.stop();
            self.print_gap();
        }
        self.answer.print(text);
        self.is_open = streamed != Streamed::End;
        if !self.is_open {
            self.answer.end();
            // More of the reply may follow: a long write, say.
            self.spinner.start("model");
        }
        self.streamed.push_str(text);
    }

    /// Prints an empty line between actions and the answer, where both are on a terminal.
    pub(crate) fn print_gap(&mut self) {
        if self.gap.as_mut().is_some_and(std::mem::take) {
            out::print_line("");
        }
    }

    /// Ends the line of text that a reply left open.
    fn end_line(&mut self) {
        self.end_open_line();
        if self.streamed.ends_with('\n') {
            self.streamed.pop();
        }
    }

    /// Ends an open line before something else is printed.
    fn end_open_line(&mut self) {
        if std::mem::take(&mut self.is_open) && !self.answer.end() {
            out::print_part("\n");
        }
    }

    fn count_start(&mut self) -> u64 {
        if let Some(n) = self.numbered.take() {
            return n;
        }
        self.started += 1;
        self.running.push_back(self.started);
        self.started
    }

    /// Shows an event, which is made only if events are shown.
    pub(crate) fn emit_event(&mut self, event: impl FnOnce() -> RunEvent) {
        if self.shows_events() {
            let mut event = event();
            if self.output == ProgressOutput::Rows && !self.shows_all {
                event.shorten(self.asked.get());
            }
            self.write_event(&[], &event);
        }
    }

    /// Shows an event that must not be missed, even where others are not shown.
    fn emit_always(&mut self, event: &RunEvent) {
        if self.output == ProgressOutput::Lines {
            return self.write_event(&[], event);
        }
        if self.output == ProgressOutput::Silent {
            return;
        }
        self.end_open_line();
        self.gap = self.gap.map(|_| true);
        for row in render(event, usize::MAX, false) {
            let line = format!("{}: {}", self.tool, row.text);
            self.spinner.print_above(|| out::print_line(&line));
        }
    }

    fn write_event(&mut self, children: &[String], event: &RunEvent) {
        if self.output == ProgressOutput::Lines {
            if !out::print_json(&event.to_line(children)) {
                // Stdout is closed: end as on a hangup.
                self.interrupts.raise(Signal::Hup);
            }
            return;
        }
        let columns = if terminal::stderr_is_terminal() { terminal::width() } else { usize::MAX };
        let mut rows = self.rows.add_event(children, event, columns, self.shows_all);
        if matches!(event, RunEvent::Start(_) | RunEvent::Finish(_)) {
            self.gap = self.gap.map(|_| true);
        }
        if self.shows_all
            && let RunEvent::Finish(finish) = event
            && let Some(path) = &finish.output
        {
            self.spinner.print_above(|| print_output(Path::new(path), children.len()));
            rows.retain(|row| row.codes != DIM);
        }
        if !rows.is_empty() {
            self.end_open_line();
            self.spinner.print_above(|| out::print_rows(&rows));
        }
    }

    fn show_child(&mut self, name: &str, line: &str) {
        let Some((mut children, event)) = RunEvent::from_line(line) else { return };
        children.insert(0, name.to_owned());
        if let (RunEvent::Note { text }, ProgressOutput::Rows) = (&event, self.output) {
            if self.noted.contains(text) {
                return;
            }
            self.noted.push(text.clone());
        }
        match &event {
            RunEvent::Output { shown, lines_before, .. } => {
                self.spinner.show_output(&children, shown, *lines_before);
            }
            RunEvent::Finish(_) => self.spinner.end_output(&children),
            _ => {}
        }
        // A child's prompt and answer are shown where it was started and where it ends.
        if self.output == ProgressOutput::Lines || !matches!(event, RunEvent::Begin(_)) {
            self.write_event(&children, &event);
        }
    }

    fn finish(&mut self, n: u64, action: Option<&Action>, block: &Block) -> RunEvent {
        let command = if block.get(AFTER_WRITE).is_some() { AFTER_WRITE } else { "check" };
        let tag = action.map_or(command, Action::tag_name);
        let mut finish = RunEvent::finish(n, tag, block, self.shows_all);
        let printed = std::mem::replace(&mut self.live, LiveOutput::new());
        if self.output == ProgressOutput::Rows && !(self.shows_all && printed.has_gaps) {
            // Lines that were printed as they came are not printed again.
            let rest =
                (finish.lines_before + finish.shown.len() as u64).saturating_sub(printed.lines);
            let kept = finish.shown.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
            finish.shown.drain(..finish.shown.len() - kept);
            finish.lines_before = rest - kept as u64;
            finish.output = finish.output.filter(|_| printed.lines == 0 || printed.has_gaps);
            let has_run = finish.figures.contains_key("seconds") && tag != "nagent-conversation";
            let is_whole = self.shows_all && finish.output.is_some();
            if has_run && !self.spinner.is_shown() && !is_whole {
                // The lines of a result that was cut are others.
                let is_last = |line: &String| *line == printed.last_line;
                let at = finish.shown.iter().rposition(is_last);
                if let (Some(at), true) = (at, block.get("output").is_some()) {
                    finish.shown.drain(..=at);
                    finish.lines_before = 0;
                }
                print_lines(std::mem::take(&mut finish.lines_before), &finish.shown);
                finish.shown.clear();
            }
        }
        if let Some(Action::Conversation { file, name, .. }) = action {
            // The name above the rows of the child.
            let conversation = || block.get("conversation").map(str::to_owned);
            finish.path = file.clone().or_else(|| name.clone()).or_else(conversation);
        }
        let writes = action.is_some_and(|action| action.access() == Access::Write);
        if let (true, "ok", Some(path)) = (writes, finish.status.as_str(), &finish.path) {
            let path = Path::new(path);
            let read = |path: &Path| fs::read_bytes(path, limits::KEPT_CONTENT).ok().flatten();
            let previous = finish.previous.as_deref().map(Path::new);
            let before = FileVersion::from_bytes(previous.and_then(read));
            // A patch that changed nothing names no previous content.
            let is_change = previous.is_some() || block.get("created").is_some();
            let after = FileVersion::from_bytes(if is_change { read(path) } else { None });
            let diff = VersionPair { path, before: &before, after: &after }.text_diff();
            if let Some(diff) = diff {
                self.shown_diff = Some(diff.text.clone());
                (finish.diff, finish.diff_cut) = (Some(diff.text), diff.is_cut);
            }
        }
        RunEvent::Finish(Box::new(finish))
    }

    /// The last line, where progress is shown. It mentions a cost that is not known if the provider `is_billed`.
    pub(crate) fn status(&self, totals: &Totals, seconds: f64, is_billed: bool) -> Option<String> {
        let is_counted = totals.all_turns > 0 || totals.all.input > 0;
        let figures = || RunFigures {
            turns: totals.turns,
            tokens_in: totals.all.input,
            cached: totals.all.cached,
            tokens_out: totals.all.output,
            cost: totals.cost,
            unpriced: u64::from(totals.unpriced && (is_billed || totals.cost > 0.0)),
            is_estimated: totals.all.estimated,
            seconds,
        };
        (self.output == ProgressOutput::Rows && is_counted).then(|| figures_line(&figures()))
    }
}

/// Prints lines of output where they cannot be renewed in place.
fn print_lines(skipped: u64, lines: &[String]) {
    let lines = lines.iter().map(|line| Span::new(format!("  | {line}"), DIM));
    let rows: Vec<Span> = earlier_row(skipped).into_iter().chain(lines).collect();
    out::print_rows(&rows);
}

/// Prints a whole output that was too long for its result.
fn print_output(path: &Path, depth: usize) {
    let indent = "  ".repeat(depth + 1);
    let _ = fs::for_each_line(path, &mut |line| {
        let line = TerminalText::show_line(&String::from_utf8_lossy(line));
        let text = format!("{indent}{line}");
        out::print_rows(&[Span::new(text, DIM)]);
    });
}

/// The file that marks that advice was shown in the project of the working folder.
fn advised_mark(call: &Call<'_>) -> Option<PathBuf> {
    let folder = call.env.current_folder().ok()?;
    let project = git::find_toplevel(&folder).unwrap_or(folder);
    let name = fs::sha256(project.as_os_str().as_encoded_bytes());
    Some(call.root().advised_folder().join(short_hash(&name)))
}

/// Marks that this advice was shown; false if it was shown before, or cannot be marked.
fn mark_advised(mark: &Path, text: &str) -> bool {
    let folder = mark.parent().unwrap_or(mark);
    let name = fs::sha256(format!("{} {text}", mark.display()).as_bytes());
    let mark = mark.with_file_name(short_hash(&name));
    fs::create_private_folder(folder).is_ok() && AtomicFile::new(&mark).create(b"").is_ok()
}
