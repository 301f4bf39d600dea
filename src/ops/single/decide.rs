//! Asks for decisions: one call for each batch, and another about items without a valid answer. Answers are cached by
//! the hash of the question.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::one_shot::OneShot;
use conversation::exit::Exit;
use models::decide::prompt::{write_items, write_questions};
use models::decide::reply::check_reply;
use models::decide::request::{DecisionItem, Request};

use crate::out;
use conversation::limits;
use conversation::model::{RequestMessage, Role, StopReason, Usage, estimate};
use conversation::problem::Problem;
use models::catalog;
use segments::summary_cache::{Summary, read_summary, write_summary};
use sys::interrupt::Interrupts;
use sys::names::name_some;
use sys::{fs, stdin};

/// Estimated tokens per answer: without a reason, and with one.
const ANSWER_TOKENS: u64 = 24;
const REASON_TOKENS: u64 = 60;

/// Time after which a note says that the tool waits for a text on stdin.
const NOTE_AFTER: Duration = Duration::from_secs(2);

/// The decisions.
#[derive(Debug, Default)]
pub struct Decisions {
    /// The answers of each item, in order; null where none was accepted.
    pub answers: Vec<Value>,
    /// The tokens of all calls.
    pub usage: Usage,
    /// The number of calls.
    pub attempts: u64,
    /// The errors in replies.
    pub corrections: Vec<String>,
}

/// Decides about all items. `keeps`: uses cached answers, and caches new ones.
pub fn decide(
    tool: &'static str,
    one_shot: &mut OneShot,
    request: &Request,
    attempts: u64,
    keeps: bool,
) -> Result<Decisions, Problem> {
    let folder = one_shot.settings.root.summaries_folder();
    refuse_oversized(one_shot, request)?;
    let count = request.items.len();
    let mut decisions = Decisions { answers: vec![Value::Null; count], ..Decisions::default() };
    fs::create_private_folder(one_shot.settings.root.path())?;
    fs::create_private_folder(&folder)?;
    let questions = write_questions(request);
    let hash = fs::sha256(questions.as_bytes());
    if keeps {
        for (answer, item) in decisions.answers.iter_mut().zip(&request.items) {
            let kept = read_summary(&folder, &cache_key(one_shot, &hash, item));
            let kept = kept.and_then(|kept| serde_json::from_str(&kept.text).ok());
            *answer = kept.unwrap_or_default();
        }
    }
    let open: Vec<usize> = (0..count).filter(|at| decisions.answers[*at].is_null()).collect();
    let mut rest = open.as_slice();
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(count_fitting(one_shot, request, &questions, rest));
        rest = later;
        decide_batch(tool, one_shot, request, &questions, batch, attempts, &mut decisions)?;
        if keeps {
            for at in batch.iter().filter(|at| !decisions.answers[**at].is_null()) {
                // A fallback model may have answered.
                let key = cache_key(one_shot, &hash, &request.items[*at]);
                keep_answer(one_shot, &folder, &key, &decisions.answers[*at]);
            }
        }
    }
    Ok(decisions)
}

/// Refuses items that are longer than the model's window, before anything is paid for.
fn refuse_oversized(one_shot: &OneShot, request: &Request) -> Result<(), Problem> {
    let Some(window) = one_shot.settings.window(&one_shot.model) else { return Ok(()) };
    let is_long = |item: &&DecisionItem| estimate(&item.context.to_string()) > window;
    let long: Vec<&str> =
        request.items.iter().filter(is_long).filter_map(|item| item.id.as_deref()).collect();
    if long.is_empty() {
        return Ok(());
    }
    let shown = name_some(&long, 10, ", ");
    Err(Problem::usage(format!(
        "{} of {} items are longer than the window of {} ({window} tokens): {shown}; shorten them",
        long.len(),
        request.items.len(),
        one_shot.model
    )))
}

/// Counts the next items that fit into a call, by the window and the room for the reply; at least one.
fn count_fitting(one_shot: &OneShot, request: &Request, questions: &str, open: &[usize]) -> usize {
    let config = &one_shot.settings.config;
    let known = catalog::find_model(&one_shot.model);
    let window = one_shot.settings.window(&one_shot.model).unwrap_or(limits::UNKNOWN_WINDOW);
    let most = config.max_output_tokens.or(known.and_then(|model| model.max_output));
    let most = most.unwrap_or(limits::UNKNOWN_OUTPUT).min(window / 4);
    let each = if request.rationale { REASON_TOKENS } else { ANSWER_TOKENS }
        * request.questions.len() as u64;
    let items = usize::try_from(most / (each + ANSWER_TOKENS)).unwrap_or(usize::MAX).max(1);
    let mut room = (window / 2).saturating_sub(estimate(questions) + most + 1_000);
    let fits = |at: &&usize| {
        let needed = estimate(&request.items[**at].context.to_string()) + ANSWER_TOKENS;
        let left = room.checked_sub(needed);
        room = left.unwrap_or(room);
        left.is_some()
    };
    open.iter().take(items.min(limits::DECISIONS_PER_CALL)).take_while(fits).count().max(1)
}

fn decide_batch(
    tool: &'static str,
    one_shot: &mut OneShot,
    request: &Request,
    questions: &str,
    batch: &[usize],
    attempts: u64,
    decisions: &mut Decisions,
) -> Result<(), Problem> {
    let mut open = batch.to_vec();
    let mut corrections: Vec<String> = Vec::new();
    for attempt in 1..=attempts {
        let items: Vec<&DecisionItem> = open.iter().map(|at| &request.items[*at]).collect();
        let asked = write_items(&items, &corrections);
        let messages = vec![RequestMessage { role: Role::User, parts: vec![questions, &asked] }];
        let reply = one_shot.request_reply(None, &messages)?;
        decisions.attempts += 1;
        decisions.usage.add(&reply.usage);
        let mut checked = check_reply(request, &items, &reply.text);
        if reply.stop == StopReason::Length {
            checked.errors.insert(0, "the reply was cut off by the length limit".to_owned());
        }
        for (index, answers) in checked.answers {
            decisions.answers[open[index]] = answers;
        }
        open.retain(|at| decisions.answers[*at].is_null());
        checked.errors.truncate(limits::DECIDE_ERRORS);
        if open.is_empty() {
            // Answers to questions that were not asked do not count, and the other answers may be mistaken, too.
            for error in &checked.errors {
                out::print_tool_line(
                    tool,
                    &format!("note: a part of the reply was ignored: {error}"),
                );
            }
            decisions.corrections.extend(checked.errors);
            return Ok(());
        }
        if attempt < attempts {
            out::print_tool_line(
                tool,
                &format!(
                    "asking again about {} of {}: {}",
                    open.len(),
                    batch.len(),
                    checked.errors.join("; ")
                ),
            );
        }
        decisions.corrections.extend(checked.errors.iter().cloned());
        corrections = checked.errors;
    }
    Ok(())
}

/// The hash of all that an answer depends on; `questions`: that of the questions.
fn cache_key(one_shot: &OneShot, questions: &str, item: &DecisionItem) -> String {
    let settings = &one_shot.settings;
    let asked = json!([
        "decide 1",
        settings.provider_name(settings.provider),
        settings.config.base_url,
        one_shot.model,
        settings.options.reasoning,
        settings.options.temperature,
        settings.options.seed,
        questions,
        item.context,
    ]);
    fs::sha256(asked.to_string().as_bytes())
}

fn keep_answer(one_shot: &OneShot, folder: &Path, key: &str, answer: &Value) {
    let provider = one_shot.settings.provider_name(one_shot.settings.provider);
    let by = Some((provider.to_owned(), one_shot.model.clone()));
    // An answer that cannot be cached is requested again the next time.
    let _ = write_summary(folder, key, &Summary { text: answer.to_string(), by });
}

/// The problem of items without an answer.
pub fn check_answered(request: &Request, decisions: &Decisions, attempts: u64) -> Option<Problem> {
    let open: Vec<&str> = request
        .items
        .iter()
        .zip(&decisions.answers)
        .filter(|(_, answer)| answer.is_null())
        .map(|(item, _)| item.id.as_deref().unwrap_or("the only item"))
        .collect();
    let shown = name_some(&open, 10, ", ");
    let last = decisions.corrections.last().cloned().unwrap_or_default();
    (!open.is_empty()).then(|| {
        Problem::new(
            Exit::Malformed,
            format!(
                "no valid answer for {} of {} after {attempts} tries ({shown}): {last}",
                open.len(),
                request.items.len()
            ),
        )
    })
}

/// Reads the text that a question is about from stdin, and says so where nothing comes for a while.
pub fn read_text(tool: &str) -> Result<String, Problem> {
    let interrupts = Interrupts::install()?;
    let waited = stdin::wait_for_input(NOTE_AFTER, &interrupts)?;
    if !waited.map_err(Problem::interrupted)? {
        out::print_tool_line(tool, "waiting for text on stdin; use < /dev/null for none");
    }
    read_request(Path::new("-"))
}

/// Reads a request from a file or from stdin.
pub fn read_request(path: &Path) -> Result<String, Problem> {
    let input = sys::input::InputFile::open(path, &Interrupts::install()?)?;
    let text = input.read_text(limits::CONVERSATION)?;
    text.ok_or_else(|| Problem::failed(format!("no such file: {}", path.display())))
}
