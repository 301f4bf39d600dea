//! Asks for decisions, for `nagent-decide`: one call for each batch of items, and another about those without a valid
//! answer. Answers are cached by the hash of what they depend on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use serde_json::{Value, json};

use super::one_shot::OneShot;
use crate::ops::setup::flags::ModelArgs;
use crate::out::{self, Report};
use conversation::exit::Exit;
use conversation::format::harmless::escape_line;
use conversation::limits;
use conversation::model::{RequestMessage, Role, Usage, estimate};
use conversation::problem::Problem;
use models::catalog;
use models::decide::{Item, Request, write_items};
use segments::summary_cache::{Summary, read_summary, write_summary};
use sys::input::InputFile;
use sys::interrupt::Interrupts;
use sys::names::name_some;
use sys::{fs, stdin, terminal};

/// Estimated tokens of an answer, with its reason.
const ANSWER_TOKENS: u64 = 60;

/// Time after which a note says that the tool waits for a text on stdin.
const NOTE_AFTER: Duration = Duration::from_secs(2);

/// Let a model answer from closed sets: the answer is one of the words you give, or the exit code says that it is not
///
/// With a question and words it prints the word, about the text on stdin. With a request (JSON) it decides about many items
/// in one call, checks every answer, and asks again only about invalid ones. Answers are cached by a hash of the question, so
/// that it is not paid for twice.
#[derive(Debug, Clone, clap::Parser)]
pub struct DecideArgs {
    /// The question, then its answers: two words or more
    #[arg(value_name = "QUESTION ANSWER ANSWER", conflicts_with = "input")]
    words: Vec<String>,
    /// Read the request from this file; - is stdin, which is the default
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    input: Option<PathBuf>,
    /// Ask at most N times about an item
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=20))]
    attempts: u64,
    /// Ignore cached answers, and replace them
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// A request that is being answered.
struct Decisions<'a> {
    tool: &'static str,
    one_shot: OneShot,
    request: &'a Request,
    /// The answers of each item, in order; null where none was accepted.
    answers: Vec<Value>,
    usage: Usage,
    /// The number of calls.
    calls: u64,
    /// The errors in replies.
    corrections: Vec<String>,
}

/// Decides, and reports the document of the decisions, or the word.
pub fn answer_request(tool: &'static str, args: &DecideArgs) -> Result<Report, Problem> {
    let request = read_request(tool, args)?;
    let one_shot = OneShot::new(tool, &args.model, true, Some(request.schema.clone()), false)?;
    let root = &one_shot.settings.root;
    fs::create_private_folder(root.path())?;
    fs::create_private_folder(&root.summaries_folder())?;
    let answers = vec![Value::Null; request.items.len()];
    let (usage, calls, corrections) = (Usage::default(), 0, Vec::new());
    let mut decisions =
        Decisions { tool, one_shot, request: &request, answers, usage, calls, corrections };
    if !args.again {
        decisions.read_cache();
    }
    let open = decisions.open_items(0..request.items.len());
    let mut rest = open.as_slice();
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(decisions.count_fitting(rest));
        rest = later;
        decisions.decide_batch(batch, args.attempts)?;
    }
    Ok(decisions.report(!args.words.is_empty(), args.attempts))
}

impl Decisions<'_> {
    fn read_cache(&mut self) {
        let folder = self.one_shot.settings.root.summaries_folder();
        for at in 0..self.answers.len() {
            let cached = read_summary(&folder, &self.cache_key(at));
            let cached = cached.and_then(|cached| serde_json::from_str(&cached.text).ok());
            self.answers[at] = cached.unwrap_or_default();
        }
    }

    /// Those of some items that have no answer.
    fn open_items(&self, items: impl Iterator<Item = usize>) -> Vec<usize> {
        items.filter(|at| self.answers[*at].is_null()).collect()
    }

    /// Counts the next items whose texts and answers fit into a quarter of the window and into the longest reply; at
    /// least one.
    fn count_fitting(&self, open: &[usize]) -> usize {
        let OneShot { settings, model, .. } = &self.one_shot;
        let window = settings.window(model).unwrap_or(limits::UNKNOWN_WINDOW);
        let known = catalog::find_model(model).and_then(|model| model.max_output);
        let output = settings.config.max_output_tokens.or(known).unwrap_or(limits::UNKNOWN_OUTPUT);
        let mut room = output.min(window / 4);
        let fits = |at: &&usize| {
            let text = estimate(&self.request.items[**at].context.to_string());
            let left = room.checked_sub(text + ANSWER_TOKENS * self.request.questions as u64);
            room = left.unwrap_or(room);
            left.is_some()
        };
        open.iter().take(limits::DECISIONS_PER_CALL).take_while(fits).count().max(1)
    }

    /// Asks about some items, and again about those without a valid answer, with all that is wrong.
    fn decide_batch(&mut self, batch: &[usize], attempts: u64) -> Result<(), Problem> {
        let (request, mut open, mut errors) = (self.request, batch.to_vec(), Vec::new());
        for _ in 0..attempts {
            let items: Vec<&Item> = open.iter().map(|at| &request.items[*at]).collect();
            let asked = write_items(&items, &errors);
            let parts = vec![request.prompt.as_str(), &asked];
            let messages = [RequestMessage { role: Role::User, parts }];
            let reply = self.one_shot.request_reply(&messages);
            let reply = reply.map_err(|problem| problem.after(&self.usage))?;
            self.calls += 1;
            self.usage.add(&reply.usage);
            let answers;
            (answers, errors) = request.check_reply(&items, &reply.text);
            if let (true, Some(first)) = (answers.is_empty(), errors.first_mut()) {
                let reply = escape_line(&reply.text, 80);
                first.push_str(&format!("; the reply: {reply}"));
            }
            for (index, answer) in answers {
                self.cache_answer(open[index], &answer);
                self.answers[open[index]] = answer;
            }
            open = self.open_items(open.into_iter());
            errors.truncate(limits::DECIDE_ERRORS);
            // The same line three times says no more than once.
            if !errors.is_empty() && !self.corrections.ends_with(&errors) {
                let (left, errors) = (open.len(), errors.join("; "));
                out::print_tool_line(
                    self.tool,
                    &format!("{left} of {} not decided: {errors}", batch.len()),
                );
            }
            self.corrections.extend(errors.iter().cloned());
            if open.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// The hash of all that an item's answers depend on.
    fn cache_key(&self, at: usize) -> String {
        let OneShot { settings, model, .. } = &self.one_shot;
        let asked = json!([
            "decide 2",
            settings.provider_name(),
            settings.config.base_url,
            model,
            settings.options.reasoning,
            settings.options.temperature,
            settings.options.seed,
            self.request.prompt,
            self.request.items[at].context,
        ]);
        fs::sha256(asked.to_string().as_bytes())
    }

    fn cache_answer(&self, at: usize, answer: &Value) {
        let OneShot { settings, model, .. } = &self.one_shot;
        let by = Some((settings.provider_name().to_owned(), model.clone()));
        let summary = Summary { text: answer.to_string(), by };
        // An answer that cannot be cached is requested again the next time.
        let _ = write_summary(&settings.root.summaries_folder(), &self.cache_key(at), &summary);
    }

    /// The document of the decisions, or the word.
    fn report(self, is_word: bool, attempts: u64) -> Report {
        let open = self.open_items(0..self.answers.len());
        let open: Vec<&str> = open.iter().map(|at| self.request.items[*at].id.as_str()).collect();
        let rows = self.request.items.iter().zip(&self.answers);
        let rows: Vec<Value> =
            rows.map(|(item, answers)| json!({"item": item.id, "answers": answers})).collect();
        let settings = &self.one_shot.settings;
        let report = Report::done("")
            .with("provider", settings.provider_name())
            .with("model", self.one_shot.model.as_str())
            .with("decisions", rows)
            .with("input_tokens", self.usage.input)
            .with("output_tokens", self.usage.output)
            .with("attempts", self.calls)
            .with("corrections", self.corrections.clone());
        if !open.is_empty() {
            let error = format!(
                "no valid answer for {} of {} after {attempts} tries ({}): {}",
                open.len(),
                self.answers.len(),
                name_some(&open, 10, ", "),
                self.corrections.last().map_or("", String::as_str)
            );
            return Report { exit: Exit::Malformed, error: Some(error), ..report };
        }
        let text = if is_word {
            let word = self.answers[0]["answer"]["choice"].as_str();
            word.unwrap_or_default().to_owned()
        } else {
            serde_json::to_string_pretty(&report.json).unwrap_or_default()
        };
        Report { text, ..report }
    }
}

/// Reads the request: from the words, about the text on stdin, or from a file.
fn read_request(tool: &str, args: &DecideArgs) -> Result<Request, Problem> {
    let wrong = |errors: Vec<String>| {
        Problem::usage(format!("the request is wrong: {}", errors.join("; ")))
    };
    let (is_terminal, stdin) = (terminal::stdin_is_terminal(), Path::new("-"));
    let Some((question, options)) = args.words.split_first() else {
        if args.input.is_none() && is_terminal {
            return Err(Problem::usage(
                "no question given: nagent-decide QUESTION ANSWER ANSWER, or --input FILE (--help shows all)",
            ));
        }
        let text = read_text(args.input.as_deref().unwrap_or(stdin))?;
        return Request::parse(&text).map_err(wrong);
    };
    // Report errors in the words before stdin is read.
    if options.len() < 2 {
        return Err(Problem::usage("give 2 or more answers after the question"));
    }
    let mut text = String::new();
    if !is_terminal {
        let waited = stdin::wait_for_input(NOTE_AFTER, &Interrupts::install()?)?;
        if !waited.map_err(Problem::interrupted)? {
            out::print_tool_line(tool, "waiting for text on stdin; use < /dev/null for none");
        }
        text = read_text(stdin)?;
    }
    let question = json!({"question": question, "type": "choice", "options": options});
    let request = json!({"context": text, "questions": {"answer": question}, "rationale": false, "confidence": false});
    Request::parse(&request.to_string()).map_err(wrong)
}

fn read_text(path: &Path) -> Result<String, Problem> {
    let input = InputFile::open(path, &Interrupts::install()?)?;
    let text = input.read_text(limits::CONVERSATION)?;
    text.ok_or_else(|| Problem::failed(format!("no such file: {}", path.display())))
}
