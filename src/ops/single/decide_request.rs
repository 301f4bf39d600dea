//! Reads a request for decisions, from words or a file, and reports the decisions.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use serde_json::{Value, json};

use super::decide::{Decisions, check_answered, decide, read_request, read_text};
use super::one_shot::OneShot;
use crate::ops::setup::flags::ModelArgs;
use crate::out::Report;
use conversation::problem::Problem;
use models::decide::classify;
use models::decide::prompt::write_schema;
use models::decide::prompt::{write_items, write_questions};
use models::decide::request::{DecisionItem, Request};
use sys::output_file::write_output;
use sys::terminal;

/// The request for decisions, and how it is sent
#[derive(Debug, Clone, clap::Args)]
pub struct DecideArgs {
    /// The question, then its answers: two words or more
    #[arg(value_name = "QUESTION ANSWER ANSWER", conflicts_with_all = ["input", "classify"])]
    words: Vec<String>,
    /// Read the request from this file; - is stdin, which is the default
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    input: Option<PathBuf>,
    /// Sort inputs into categories: the request has "question", "categories" and "inputs"
    #[arg(long)]
    classify: bool,
    /// Also write the prompt to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    prompt_out: Option<PathBuf>,
    /// Check the request, print the prompt, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Ask at most N times about an item
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=20))]
    attempts: u64,
    /// Ignore cached answers, and replace them
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// Decides, and reports the document of the decisions, or the word.
pub fn answer_request(tool: &'static str, args: &DecideArgs) -> Result<Report, Problem> {
    let request = build_request(tool, args)?;
    if args.dry_run || args.prompt_out.is_some() {
        let items: Vec<&DecisionItem> = request.items.iter().collect();
        let prompt = format!("{}\n\n{}", write_questions(&request), write_items(&items, &[]));
        if let Some(path) = &args.prompt_out {
            write_output(path, prompt.as_bytes())?;
        }
        if args.dry_run {
            return Ok(Report::done(prompt.clone()).with("prompt", prompt));
        }
    }
    if request.items.is_empty() {
        let nobody = json!("none");
        return Ok(report(args, &request, &Decisions::default(), nobody.clone(), nobody));
    }
    let mut one_shot = OneShot::new(tool, &args.model, true, Some(write_schema(&request)), false)?;
    let decisions = decide(tool, &mut one_shot, &request, args.attempts, !args.again)?;
    let provider = one_shot.settings.provider_name(one_shot.settings.provider);
    let report =
        report(args, &request, &decisions, provider.into(), one_shot.model.as_str().into());
    Ok(match check_answered(&request, &decisions, args.attempts) {
        Some(problem) => Report {
            exit: problem.exit,
            error: Some(problem.to_string()),
            text: String::new(),
            ..report
        },
        None => report,
    })
}

fn build_request(tool: &str, args: &DecideArgs) -> Result<Request, Problem> {
    let wrong = |errors: Vec<String>| {
        Problem::usage(format!("the request is wrong: {}", errors.join("; ")))
    };
    if let Some((question, answers)) = args.words.split_first() {
        // Report errors in the words before stdin is read.
        if answers.len() < 2 {
            return Err(Problem::usage("give 2 or more answers after the question"));
        }
        let mut request = Request::about_text(question, answers).map_err(wrong)?;
        if !terminal::stdin_is_terminal() {
            let text = read_text(tool)?;
            request.context = Some(text).filter(|text| !text.trim().is_empty()).map(Value::from);
        }
        return Ok(request);
    }
    let path = args.input.as_deref().unwrap_or(Path::new("-"));
    if args.input.is_none() && terminal::stdin_is_terminal() {
        return Err(Problem::usage(
            "no question given: nagent-decide QUESTION ANSWER ANSWER, or --input FILE (--help shows all)",
        ));
    }
    let text = read_request(path)?;
    if text.trim().is_empty() {
        return Err(Problem::usage(
            "the request is empty: nagent-decide QUESTION ANSWER ANSWER, or a request in JSON (--help shows all)",
        ));
    }
    if args.classify { classify::parse(&text) } else { Request::parse(&text) }.map_err(wrong)
}

/// The document of the decisions, or the word.
fn report(
    args: &DecideArgs,
    request: &Request,
    decisions: &Decisions,
    provider: Value,
    model: Value,
) -> Report {
    let mut report = Report::done("").with("provider", provider).with("model", model);
    if args.classify {
        let (rows, buckets) = classify::write_rows(request, &decisions.answers);
        report = report.with("classified", rows).with("buckets", buckets);
    } else {
        let rows = request.items.iter().zip(&decisions.answers);
        let rows: Vec<Value> =
            rows.map(|(item, answers)| json!({"item": item.id, "answers": answers})).collect();
        report = report.with("decisions", rows);
    }
    let report = report
        .with("input_tokens", decisions.usage.input)
        .with("output_tokens", decisions.usage.output)
        .with("attempts", decisions.attempts)
        .with("corrections", decisions.corrections.clone());
    let text = if args.words.is_empty() {
        serde_json::to_string_pretty(&report.json).unwrap_or_default()
    } else {
        decisions
            .answers
            .first()
            .and_then(|answers| answers["answer"]["choice"].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    Report { text, ..report }
}
