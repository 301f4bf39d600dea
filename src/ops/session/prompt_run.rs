//! One prompt: a run of `nagent --lines`, whose events are shown while they come, and whose questions a person answers.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::start::{NAME, Session};
use super::tools::error_of;
use crate::ops::run::question::ask_about_action;
use crate::ops::screen::spinner::{Spinner, Tries};
use crate::out::{self, Answer};
use conversation::exit::{Exit, Signal};
use conversation::problem::Problem;
use sys::foreground::Conversing;
use sys::terminal;
use sys::tty::{Keys, Tty};
use view::event::{RunEvent, Start};
use view::figures::RunFigures;
use view::look::expand;
use view::session::{SessionView, Shown};

/// The exit status of a run, and its last line, which may be missing.
type ChildEnd = (ExitStatus, Map<String, Value>);

impl Session {
    /// Runs a prompt, and shows the run.
    pub(super) fn run_prompt(&mut self, prompt: &str) -> Result<(), Problem> {
        let mut words = self.tool_words("nagent", &["--lines"])?;
        words.extend(self.check.iter().map(|check| format!("--check={check}").into()));
        let line = json!({ "prompt": prompt, "read": std::mem::take(&mut self.reads) });
        let end = self.follow(&words, &line)?;
        self.count += 1;
        self.figures += RunFigures::of_document(&end.1).unwrap_or_default();
        self.report_end(end)
    }

    /// Starts a run, and shows it to its end.
    fn follow(&self, words: &[OsString], prompt: &Value) -> Result<ChildEnd, Problem> {
        let columns = if terminal::stderr_is_terminal() { terminal::width() } else { usize::MAX };
        let mark = expand(&self.look.say, &self.names());
        let mut view = SessionView::new(&self.look, mark, columns, self.args.verbose);
        view.needs_gap = self.count > 0 && !self.is_interactive;
        let spinner = Spinner::new(self.shows_lines());
        // Keys are read where they can be shown.
        let read_keys = || if spinner.is_shown() { Keys::start() } else { None };
        let mut keys = read_keys();
        let mut child = self.foreground.converse(words, &self.env)?;
        child.send(&prompt.to_string());
        let mut answer = Answer::new(self.settings.config.markdown);
        let mut document = Map::new();
        // The number of the action that the user was asked about.
        let mut asked = 0;
        let (mut is_answering, mut tries) = (false, Tries::default());
        while let Some(line) = self.next_line(&mut child, &mut keys, &spinner, is_answering) {
            let Some((children, mut event)) = RunEvent::from_line(&line) else {
                is_answering = false;
                spinner.stop();
                document = serde_json::from_str(&line).unwrap_or_default();
                continue;
            };
            is_answering = matches!(event, RunEvent::Text { .. });
            match event {
                RunEvent::Begin(_) => continue,
                RunEvent::Text { .. } if !self.is_streaming => continue,
                RunEvent::Heard { .. } => tries = Tries::default(),
                RunEvent::Wait { ref error, .. } if children.is_empty() => {
                    let is_new = tries.add(error);
                    if !is_new && spinner.is_shown() {
                        spinner.start(&tries.name());
                        continue;
                    }
                }
                _ if children.is_empty() && !self.args.verbose => event.shorten(asked),
                _ => {}
            }
            let shown = view.show_event(&children, &event);
            let is_note = matches!(event, RunEvent::Note { .. } | RunEvent::Wait { .. });
            if !shown.is_empty() && !is_note
                || matches!(event, RunEvent::Decide(_) | RunEvent::Finish(_))
            {
                spinner.stop();
            }
            if !shown.is_empty() {
                spinner.print_above(|| self.print_shown(&mut answer, shown, is_note));
            }
            if self.is_over.get() {
                break;
            }
            match &event {
                RunEvent::Decide(start) if children.is_empty() => {
                    drop(keys.take());
                    asked = self.answer_question(start, &mut child);
                    keys = read_keys();
                }
                RunEvent::Ask { .. } | RunEvent::Wait { .. } => spinner.start(&tries.name()),
                RunEvent::Compact => spinner.start("compacting the conversation"),
                RunEvent::Output { shown, lines_before, .. } => {
                    spinner.show_output(&children, shown, *lines_before);
                }
                RunEvent::Start(start) if start.tag == "nagent-shell" => spinner.start_command(),
                RunEvent::Start(start) => {
                    spinner.start(start.tag.trim_start_matches("nagent-"));
                }
                RunEvent::Check { .. } | RunEvent::AfterWrite { .. } => spinner.start_command(),
                _ => {}
            }
        }
        drop(keys);
        drop(spinner);
        let ended = child.wait()?;
        self.print_shown(&mut answer, view.show_document(&document), false);
        answer.end();
        Ok((ended, document))
    }

    /// The next line of a run, while keys are taken. A line that was entered is a note, which no answer is broken for.
    fn next_line(
        &self,
        child: &mut Conversing<'_>,
        keys: &mut Option<Keys>,
        spinner: &Spinner,
        is_answering: bool,
    ) -> Option<String> {
        while let Some(keys) = keys.as_mut().filter(|_| child.output.buffer().is_empty()) {
            let mut ahead = self.ahead.borrow_mut();
            let note = if is_answering { None } else { ahead.notes.pop_front() };
            if let Some(text) = note {
                return Some(RunEvent::Note { text }.to_line(&[]).to_string());
            }
            let (typed, is_ready) = keys.wait(child.output.get_ref().as_fd(), Duration::MAX);
            ahead.take_keys(&typed, &self.settings.root, &self.name);
            spinner.show_typed(&ahead.line);
            if is_ready {
                break;
            }
        }
        child.next_line()
    }

    /// Reports what went wrong, if anything did.
    fn report_end(&mut self, (ended, mut document): ChildEnd) -> Result<(), Problem> {
        let mut error = error_of(&document).to_owned();
        // A second Ctrl-C ends it at once.
        let is_interrupted = ended.code() == Some(Exit::Signal(Signal::Int).code().into());
        let is_lost = document.is_empty() && !is_interrupted;
        if is_lost {
            error = format!("nagent exited unexpectedly ({ended})");
        }
        if self.args.json {
            document.remove("event");
            self.documents.push(Value::Object(document));
        }
        if self.is_over.get() {
            return Ok(());
        }
        if !self.is_interactive {
            return if is_lost {
                Err(Problem::failed(error))
            } else {
                self.check_exit(ended, error)
            };
        }
        if is_interrupted {
            out::print_line("(interrupted)");
            // The history has them.
            let ahead = self.ahead.get_mut();
            for text in std::mem::take(&mut ahead.waiting) {
                out::print_line(&format!("not done: {text}"));
                ahead.sent.push(text);
            }
        } else if !error.is_empty() {
            out::print_line(&format!("{NAME}: {error}"));
        }
        if !self.args.quiet && !self.look.prompt.starts_with('\n') {
            out::print_line("");
        }
        Ok(())
    }

    /// Whether lines other than answers are shown.
    pub(super) fn shows_lines(&self) -> bool {
        self.is_interactive && !self.args.quiet
    }

    /// Prints the part of an event that a session shows. If stdout is closed, the session is over.
    fn print_shown(&self, answer: &mut Answer, shown: Vec<Shown>, is_note: bool) {
        for one in shown {
            if matches!(one, Shown::Line(_)) {
                answer.end();
            }
            match one {
                Shown::Answer(_) if self.args.json => {}
                Shown::Answer(text) => {
                    self.is_over.set(self.is_over.get() || !answer.print(&text));
                }
                Shown::Mark(spans) if self.shows_lines() => answer.print_mark(&spans),
                Shown::Line(spans) if self.shows_lines() => out::print_spans(&spans),
                Shown::Line(spans) if is_note => {
                    out::print_line(&format!("{NAME}: {}", out::style_spans(&spans, false)));
                }
                Shown::Mark(_) | Shown::Line(_) => {}
            }
        }
    }

    /// Asks the person on the terminal, and passes the answer on. Without a terminal every answer is no. Returns the
    /// number of the action; 0 if it was edited or nobody was asked.
    fn answer_question(&self, start: &Start, child: &mut Conversing<'_>) -> u64 {
        let Some(mut tty) = Tty::open() else {
            child.close();
            return 0;
        };
        let (interrupts, asker) = (&self.foreground.interrupts, child.output.get_ref().as_fd());
        let reply = ask_about_action(&mut tty, start, interrupts, Some(asker));
        child.send(&json!(reply).to_string());
        if reply.text.is_some() { 0 } else { start.n }
    }
}
