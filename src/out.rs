//! Output for the user: one report, as text or as JSON, and lines on stderr.
//!
//! All text that goes to a terminal passes [`harmless::escape_text`] here; text that goes to a pipe or a file is unchanged. A
//! closed pipe is not an error.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Map, Value};

use conversation::exit::Exit;
use conversation::format::{columns, harmless};
use conversation::model::Usage;
use conversation::problem::Problem;
use sys::interrupt::ResumeWatch;
use sys::{pager, terminal};
use view::markdown::{Markdown, Pieces};
pub use view::style::style_spans;
use view::style::{PLAIN, Rows, Span};

/// The report of a command at its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The exit code.
    pub exit: Exit,
    /// For stdout without `--json`. A line feed is added when it lacks one.
    pub text: String,
    /// For stdout with `--json`; `exit_code` and `error` are added.
    pub json: Map<String, Value>,
    /// The error, if there was one.
    pub error: Option<String>,
    /// Whether `text` goes out as it is, without a line feed of ours.
    pub exact: bool,
    /// Whether a terminal shows `text` as Markdown.
    pub is_markdown: bool,
    /// Whether a terminal shows `text` in the user's pager.
    pub paged: Option<PagedFrom>,
    /// A line for stderr, after all else.
    pub last_line: Option<String>,
}

impl Report {
    /// A report whose text goes out byte for byte.
    pub fn exactly(text: impl Into<String>) -> Self {
        Self { exact: true, ..Self::done(text) }
    }

    /// A report of success.
    pub fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A report of success whose text is also the value of a key.
    pub fn keyed(key: &str, text: String) -> Self {
        Self::done(text.clone()).with(key, text)
    }

    /// A report of success whose text is wrapped at words on a terminal.
    pub fn wrapped(text: &str) -> Self {
        if !terminal::stdout_is_terminal() {
            return Self::done(text);
        }
        let room = terminal::width();
        let wrap = |line: &str| {
            let mut wrapped = String::new();
            for row in columns::wrap_line(line.trim_end(), room) {
                let word = if wrapped.is_empty() { row } else { row.trim_start() };
                // A word that is wider than the window, as a path may be, is left to the terminal.
                if word.len() < row.len() || wrapped.ends_with(' ') {
                    wrapped.truncate(wrapped.trim_end().len());
                    wrapped.push('\n');
                }
                wrapped.push_str(word);
            }
            wrapped + "\n"
        };
        Self::done(text.lines().map(wrap).collect::<String>())
    }

    /// A report of failure: nothing on stdout but the JSON document that says so.
    pub fn failed(exit: Exit, error: impl Into<String>) -> Self {
        Self { exit, error: Some(error.into()), ..Self::done("") }
    }

    /// Adds a key.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.json.insert(key.to_owned(), value.into());
        self
    }

    /// Adds the tokens that the model was paid for.
    #[must_use]
    pub fn with_usage(self, usage: &Usage) -> Self {
        self.with("input_tokens", usage.input)
            .with("output_tokens", usage.output)
            .with("reasoning_tokens", usage.reasoning)
            .with("cache_read_tokens", usage.cached)
            .with("cache_write_tokens", usage.cache_written)
            .with("estimated", usage.estimated)
    }

    /// The document that `--json` prints.
    fn into_document(self) -> Map<String, Value> {
        let mut document = Map::from_iter([("exit_code".to_owned(), self.exit.code().into())]);
        document.extend(self.error.map(|error| ("error".to_owned(), error.into())));
        document.extend(self.json);
        document
    }

    /// Does the next thing, unless this one failed, and appends its report. Finished work is reported even when later
    /// work failed.
    #[must_use]
    pub fn then_try<E: Into<Self>>(self, next: impl FnOnce() -> Result<Self, E>) -> Self {
        if self.error.is_some() {
            return self;
        }
        self.then(next().unwrap_or_else(Into::into))
    }

    /// Appends another report's text and keys; the last exit code and error count.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        // An answer may have no line end of its own.
        let is_open = !self.exact && !self.text.is_empty() && !self.text.ends_with('\n');
        if is_open && !other.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&other.text);
        self.json.extend(other.json);
        self.exit = other.exit;
        self.exact |= other.exact;
        self.is_markdown |= other.is_markdown;
        self.last_line = other.last_line.or(self.last_line);
        self.error = other.error.or(self.error);
        self
    }
}

impl From<Problem> for Report {
    fn from(problem: Problem) -> Self {
        let report = Self::failed(problem.exit, problem.to_string());
        match problem.usage {
            Some(usage) => report.with_usage(&usage),
            None => report,
        }
    }
}

/// The part of a text that a pager shows first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagedFrom {
    /// Its beginning.
    Start,
    /// Its end.
    End,
}

/// The form of a report on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As text.
    Text,
    /// As one JSON document.
    Json,
    /// As the last of several JSON documents, one a line.
    Lines,
}

/// Writes a report to stdout, its error to stderr. Returns the exit code: an answer that could not be written is a failure.
pub fn print_report(tool: &str, form: Form, report: Report) -> Exit {
    if form == Form::Lines {
        let exit = report.exit;
        let mut document = Map::from_iter([("event".to_owned(), "end".into())]);
        document.extend(report.into_document());
        let went_out = print_json(&Value::Object(document));
        return if went_out || exit != Exit::Done { exit } else { Exit::Failed };
    }
    if let Some(error) = &report.error {
        print_tool_line(tool, error);
    }
    let (exit, last_line) = (report.exit, report.last_line.clone());
    let path = report.json.get("conversation_path").and_then(Value::as_str).map(Path::new);
    let name = path.filter(|_| report.json.contains_key("responses")).and_then(Path::file_name);
    let hint = name.map(|it| format!("; {}", answer_again(&it.display()))).unwrap_or_default();
    let went_out = if form == Form::Json {
        let mut text = serde_json::to_string_pretty(&report.into_document()).unwrap_or_default();
        if terminal::stdout_is_terminal() {
            text = escape_json(&text);
        }
        print_text(tool, &(text + "\n"), &hint)
    } else if !report.text.is_empty() {
        let is_exact = report.exact && !terminal::stdout_is_terminal();
        let end = if is_exact || report.text.ends_with('\n') { "" } else { "\n" };
        let text = format!("{}{end}", report.text);
        report.paged.is_some_and(|from| is_paged_here(&text, from) && show_paged(tool, &text, from))
            || report.is_markdown && print_markdown(&text)
            || print_text(tool, &text, &hint)
    } else {
        true
    };
    if let Some(last) = &last_line {
        print_line(last);
    }
    if went_out || exit != Exit::Done { exit } else { Exit::Failed }
}

/// Shows a complete answer as Markdown. Returns whether it was shown.
pub fn print_markdown(text: &str) -> bool {
    let mut view = Markdown::default();
    stdout_has_colours()
        && write_shown(&(view.push(text, terminal::window()) + &view.end())).is_ok()
}

/// Whether a pager shows the text. One that begins at the end does not know by itself that all of it fits.
fn is_paged_here(text: &str, from: PagedFrom) -> bool {
    let fits = || from == PagedFrom::End && text.lines().count() < terminal::height();
    terminal::stdout_is_terminal() && !fits()
}

/// Shows a text in the user's pager. Returns whether it was shown.
fn show_paged(tool: &str, text: &str, from: PagedFrom) -> bool {
    let shown = pager::show_in_pager(&harmless::escape_text(text), from == PagedFrom::End);
    if let Err(Some(why)) = &shown {
        print_tool_line(tool, why);
    }
    shown.is_ok()
}

/// A JSON document with hidden characters as JSON writes them, so that it is still one when a terminal shows it.
fn escape_json(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        if c == '\n' || !harmless::is_hidden(c) {
            out.push(c);
        } else {
            // Outside of strings there are no hidden characters.
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// The way to an answer that could not be written.
pub fn answer_again(conversation: &dyn Display) -> String {
    format!("nagent-conversations show {conversation} --last 1 prints the answer")
}

/// Writes text to stdout; false if that failed. A closed pipe ends quietly; any other failure is reported on stderr.
fn print_text(tool: &str, text: &str, hint: &str) -> bool {
    let shown = make_safe(text, terminal::stdout_is_terminal());
    match write_shown(&shown) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            print_tool_line(tool, &format!("cannot write to stdout: {error}{hint}"));
            false
        }
        _ => true,
    }
}

/// Writes a line to stderr, wrapped at words on a terminal. It is for people, so it is fit for a terminal wherever it goes.
/// A failure could not be reported anywhere, so it is ignored.
pub fn print_line(text: &str) {
    print_spans(&[Span::new(text, PLAIN)]);
}

/// Writes a line of a tool to stderr.
pub fn print_tool_line(tool: &str, text: &str) {
    print_line(&format!("{tool}: {text}"));
}

/// Writes notes of a tool to stderr, each on a line.
pub fn print_notes(tool: &str, notes: &[String]) {
    for note in notes {
        print_tool_line(tool, &format!("note: {note}"));
    }
}

/// Writes rows to stderr. They are wrapped already, or shown exactly.
pub fn print_rows(rows: &[Span]) {
    for row in rows {
        print_row(std::slice::from_ref(row));
    }
}

/// Writes a line in pieces to stderr, wrapped at words where that is a terminal, and each in its style where it takes colours.
pub fn print_spans(spans: &[Span]) {
    if !terminal::stderr_is_terminal() {
        return print_row(spans);
    }
    let mut rows = Rows::new(terminal::width(), 0, "");
    for span in spans {
        rows.push(&harmless::escape_text(&span.text), &span.codes);
    }
    print_row(&rows.finish());
}

fn print_row(spans: &[Span]) {
    let has_colours = terminal::stderr_is_terminal() && terminal::has_colours();
    // In one write: others may write to the terminal, too.
    print_codes(&(style_spans(spans, has_colours) + "\n"));
}

fn stdout_has_colours() -> bool {
    terminal::stdout_is_terminal() && terminal::has_colours()
}

/// An answer on its way to stdout: as Markdown, or as it is.
pub struct Answer {
    view: Option<Markdown>,
    pieces: Pieces,
    resumed: ResumeWatch,
}

impl Answer {
    /// An answer to stdout. Where Markdown is not wanted, or stdout is not a terminal with colours, it goes out as it is.
    pub fn new(is_markdown: bool) -> Self {
        let view = (is_markdown && stdout_has_colours()).then(Markdown::default);
        Self { view, pieces: Pieces::default(), resumed: ResumeWatch::start() }
    }

    /// Writes the mark before an answer, if stdout is a terminal.
    pub fn print_mark(&mut self, spans: &[Span]) {
        if terminal::stdout_is_terminal() {
            self.end();
            if let Some(view) = &mut self.view {
                let plain = style_spans(spans, false);
                view.begin(columns::width(plain.rsplit('\n').next().unwrap_or_default()));
            }
            let _ = write_shown(&style_spans(spans, terminal::has_colours()));
        }
    }

    /// Writes a piece at once. A failure is reported with the rest of the answer. `false`: nobody reads it any more.
    pub fn print(&mut self, text: &str) -> bool {
        if self.resumed.take() {
            self.view.iter_mut().for_each(Markdown::keep_drawn);
        }
        match &mut self.view {
            Some(view) => write_shown(&view.push(text, terminal::window())).is_ok(),
            None if terminal::stdout_is_terminal() => {
                write_shown(&self.pieces.escape(text)).is_ok()
            }
            None => print_part(text),
        }
    }

    /// Ends it, where it is Markdown; then it is on a line of its own. Returns whether it is.
    pub fn end(&mut self) -> bool {
        let end = |view: &mut Markdown| view.push("", terminal::window()) + &view.end();
        self.view.as_mut().map(|view| write_shown(&end(view))).is_some()
    }
}

fn write_shown(shown: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(shown.as_bytes()).and_then(|()| out.flush())
}

/// Writes a piece of the answer to stdout at once. A failure is reported with the rest of the answer.
/// `false`: nobody reads it any more.
pub fn print_part(text: &str) -> bool {
    write_shown(&make_safe(text, terminal::stdout_is_terminal())).is_ok()
}

/// Writes a text to stdout at once, on a terminal in place of what is on the screen, as far as it fits. `false`: nobody reads
/// it any more.
pub fn print_page(text: &str) -> bool {
    if !terminal::stdout_is_terminal() {
        return print_part(text);
    }
    let rows = make_safe(text, true);
    let rows = rows.lines().take(terminal::height().saturating_sub(1));
    let rows: String = rows.map(|row| format!("{row}\x1b[K\n")).collect();
    write_shown(&format!("\x1b[H{rows}\x1b[J")).is_ok()
}

/// Writes a JSON document as a line to stdout at once. `false`: nobody reads it any more.
pub fn print_json(document: &Value) -> bool {
    print_json_text(document.to_string()).is_ok()
}

/// Writes the text of a JSON document as a line to stdout at once.
///
/// # Errors
/// It was not written; a broken pipe: nobody reads it any more.
pub fn print_json_text(mut text: String) -> io::Result<()> {
    if terminal::stdout_is_terminal() {
        text = escape_json(&text);
    }
    text.push('\n');
    write_shown(&text)
}

/// Writes text that is fit for a terminal, with codes of ours, to stderr: the line stays open.
pub fn print_codes(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// The text for a stream: a terminal gets nothing that could steer it or deceive its reader, anything else gets every byte.
fn make_safe(text: &str, is_terminal: bool) -> Cow<'_, str> {
    // Long answers have nothing to escape, mostly.
    let is_odd = |c: char| !matches!(c, '\n' | '\t') && harmless::is_hidden(c);
    if is_terminal && text.contains(is_odd) {
        return Cow::Owned(harmless::escape_text(text));
    }
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown() {
        let check = |text: &str, expect: &str| {
            assert_eq!(make_safe(text, true), expect);
            assert_eq!(make_safe(text, false), text, "a pipe gets it as it is");
        };
        check(
            "a\x1b[31mb\r\nc\rd\te\u{9b}f\u{202e}g",
            "a\\u{1b}[31mb\nc\\u{d}d\te\\u{9b}f\\u{202e}g",
        );
        check("\x1b]52;c;eA==\x07", "\\u{1b}]52;c;eA==\\u{7}");
        check("\x1bP0;0|x\x1b\\ \x1b_G\x1b\\", "\\u{1b}P0;0|x\\u{1b}\\ \\u{1b}_G\\u{1b}\\");
        check("rm -rf x\x08\x08ls\x7f", "rm -rf x\\u{8}\\u{8}ls\\u{7f}");
        check(
            "\u{e0069}\u{e0067} \u{ad}\u{3164}\u{fe01}",
            "\\u{e0069}\\u{e0067} \\u{ad}\\u{3164}\\u{fe01}",
        );
        check("größe 世界 ❤\u{fe0f} \u{a0}x\r\r\n", "größe 世界 ❤\u{fe0f} \u{a0}x\\u{d}\n");
    }

    /// A list made independently of the other, to compare the two: the general categories Cc, Cf, Zl and Zp of Unicode
    /// 16, and the property Default_Ignorable_Code_Point, without the two common variation selectors.
    fn may_stand(c: char) -> bool {
        let c = u32::from(c);
        let forbidden = [
            (0, 8),
            (11, 31),
            (0x7f, 0x9f),
            (0xad, 0xad),
            (0x34f, 0x34f),
            (0x61c, 0x61c),
            (0x115f, 0x1160),
            (0x17b4, 0x17b5),
            (0x180b, 0x180f),
            (0x200b, 0x200f),
            (0x2028, 0x202e),
            (0x2060, 0x206f),
            (0x2800, 0x2800),
            (0x3164, 0x3164),
            (0xfe00, 0xfe0d),
            (0xfeff, 0xfeff),
            (0xffa0, 0xffa0),
            (0xfff9, 0xfffb),
            (0x1bca0, 0x1bca3),
            (0x1d173, 0x1d17a),
            (0xe0000, 0xe0fff),
        ];
        !forbidden.iter().any(|(first, last)| (*first..=*last).contains(&c))
    }

    #[test]
    fn every_character_there_is() {
        let (plain, hidden): (Vec<char>, Vec<char>) =
            ('\0'..=char::MAX).partition(|c| may_stand(*c));
        let plain = String::from_iter(plain);
        assert!(make_safe(&plain, true) == plain, "harmless text is unchanged");
        for c in hidden {
            let shown = make_safe(c.encode_utf8(&mut [0; 4]), true).into_owned();
            assert!(!shown.is_empty() && shown.chars().all(may_stand), "{:x}", u32::from(c));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn nothing_harmful_reaches_a_terminal_and_a_pipe_gets_every_byte(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..32, 0x80_u8..0xa0, Just(0xc2), Just(0xe2)], 0..60),
        ) {
            let text = String::from_utf8_lossy(&bytes);
            let is_joiner = |c| matches!(c, '\u{200c}' | '\u{200d}');
            prop_assert!(make_safe(&text, true).chars().all(|c| may_stand(c) || is_joiner(c)));
            prop_assert!(make_safe(&text, false) == text);
        }
    }
}
