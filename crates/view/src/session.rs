//! The display of a run in a session: the answer while it arrives, and a line for each action, as its look has it.
//! Anything that a look does not define is shown as nagent shows it.

use serde_json::{Map, Value};

use super::event::RunEvent;
use super::figures::{RunFigures, figures_line};
use super::look::{Look, expand, finish_values, start_values};
use super::render::EventRows;
use super::style::{DIM, PLAIN, Span};

/// A piece of the display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// A piece of an answer.
    Answer(String),
    /// The text of a look before an answer, for terminals only.
    Mark(Vec<Span>),
    /// A line that is not part of an answer.
    Line(Vec<Span>),
}

/// Turns the events of one run into what is shown.
#[derive(Debug)]
pub struct SessionView<'a> {
    look: &'a Look,
    /// The text before an answer.
    mark: Vec<Span>,
    columns: usize,
    shows_all: bool,
    /// Whether there is an empty line before the next answer.
    pub needs_gap: bool,
    /// Number of results since the last answer that were shown as nagent shows them.
    results: u64,
    /// The answer of the last reply, as far as it was shown.
    streamed: String,
    /// Whether the last line of an answer has not ended.
    is_open: bool,
    rows: EventRows,
}

impl<'a> SessionView<'a> {
    /// A view of this many columns. `shows_all`: outputs and diffs are complete.
    pub fn new(look: &'a Look, mark: Vec<Span>, columns: usize, shows_all: bool) -> Self {
        let (streamed, rows) = (String::new(), EventRows::default());
        let (needs_gap, results, is_open) = (false, 0, false);
        Self { look, mark, columns, shows_all, needs_gap, results, streamed, is_open, rows }
    }

    /// Returns what to show of an event of the run, or of a child.
    pub fn show_event(&mut self, children: &[String], event: &RunEvent) -> Vec<Shown> {
        let look = self.look;
        let own = match event {
            RunEvent::Ask { .. } if children.is_empty() => {
                self.streamed.clear();
                None
            }
            RunEvent::Text { text } => return self.answer(text),
            RunEvent::Say { text } if children.is_empty() => return self.whole_answer(text),
            RunEvent::Start(start) => {
                let text = look.start.get(start.tag.trim_start_matches("nagent-"));
                text.or(look.start.get("*")).map(|text| expand(text, &start_values(start)))
            }
            RunEvent::Finish(finish) => {
                let failed = look.failed.as_ref().filter(|_| finish.status != "ok");
                let text = failed.or(look.finish.as_ref());
                self.results += u64::from(text.is_none());
                text.map(|text| expand(text, &finish_values(finish)))
            }
            _ => None,
        };
        let Some(mut spans) = own else {
            let rows = self.rows.add_event(children, event, self.columns, self.shows_all);
            return rows.into_iter().flat_map(|row| self.make_line(vec![row])).collect();
        };
        if spans.iter().all(|span| span.text.trim().is_empty()) {
            return Vec::new();
        }
        spans.insert(0, Span::new("  ".repeat(children.len()), PLAIN));
        self.make_line(spans)
    }

    /// Returns what to show of the last document of a run: the rest of its answer, and its figures.
    pub fn show_document(&mut self, document: &Map<String, Value>) -> Vec<Shown> {
        let texts = document.get("responses").and_then(Value::as_array).into_iter().flatten();
        let texts = texts.filter_map(Value::as_str).map(|text| text.trim_end_matches('\n'));
        let mut shown = self.whole_answer(&texts.collect::<Vec<_>>().join("\n"));
        if let Some(figures) = RunFigures::of_document(document).filter(|_| self.look.figures) {
            shown.extend(self.make_line(vec![Span::new(figures_line(&figures), DIM)]));
        }
        shown
    }

    fn make_line(&mut self, spans: Vec<Span>) -> Vec<Shown> {
        self.close().into_iter().chain([Shown::Line(spans)]).collect()
    }

    /// Ends an open line of an answer.
    fn close(&mut self) -> Option<Shown> {
        std::mem::take(&mut self.is_open).then(|| Shown::Answer("\n".to_owned()))
    }

    fn answer(&mut self, text: &str) -> Vec<Shown> {
        let mut shown = Vec::new();
        if text.is_empty() {
            return shown;
        }
        if self.streamed.is_empty() {
            shown.extend(self.close());
            let gap = std::mem::take(&mut self.needs_gap);
            shown.extend(gap.then(|| Shown::Answer("\n".to_owned())));
            shown.extend((std::mem::take(&mut self.results) > 0).then(|| Shown::Line(Vec::new())));
            shown.extend((!self.mark.is_empty()).then(|| Shown::Mark(self.mark.clone())));
        }
        self.streamed.push_str(text);
        self.is_open = !text.ends_with('\n');
        shown.push(Shown::Answer(text.to_owned()));
        shown
    }

    /// Shows a text whose beginning may have been shown while it arrived.
    fn whole_answer(&mut self, text: &str) -> Vec<Shown> {
        let text = text.trim_end_matches('\n');
        let rest = text.strip_prefix(self.streamed.trim_end_matches('\n'));
        if rest.is_none() {
            self.streamed.clear();
        }
        let mut shown = self.answer(rest.unwrap_or(text));
        shown.extend(self.close());
        shown
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(shown: Vec<Shown>) -> Vec<String> {
        let text = |spans: &[Span]| spans.iter().map(|span| span.text.as_str()).collect::<String>();
        let tell = |one: &Shown| match one {
            Shown::Answer(text) => format!("a:{text}"),
            Shown::Mark(spans) => format!("m:{}", text(spans)),
            Shown::Line(spans) => format!("l:{}", text(spans)),
        };
        shown.iter().map(tell).collect()
    }

    #[test]
    fn an_answer_is_shown_once() {
        let look = Look::default();
        let check = |pieces: &[&str], answers: &[&str], expect: &[&str]| {
            let mut view = SessionView::new(&look, vec![Span::new("> ", PLAIN)], 80, false);
            let mut all = view.show_event(&[], &RunEvent::Ask { turn: 1 });
            for piece in pieces {
                all.extend(view.show_event(&[], &RunEvent::Text { text: (*piece).to_owned() }));
            }
            let document = json!({"responses": answers});
            all.extend(view.show_document(document.as_object().unwrap()));
            assert_eq!(texts(all), expect);
        };
        check(&["on", "e"], &["one"], &["m:> ", "a:on", "a:e", "a:\n"]);
        check(&["one\n"], &["one\n"], &["m:> ", "a:one\n"]);
        check(&["one"], &["one", "two"], &["m:> ", "a:one", "a:\ntwo", "a:\n"]);
        check(&[], &["one"], &["m:> ", "a:one", "a:\n"]);
        check(&["half"], &["other"], &["m:> ", "a:half", "a:\n", "m:> ", "a:other", "a:\n"]);
        check(&["half"], &[], &["m:> ", "a:half", "a:\n"]);
    }
}
