//! Sends a text to a model in one request, for `nagent-llm-text`.

use super::one_shot::{OneShot, report_request};
use crate::ops::files::refuse_hidden_link;
use crate::ops::run::answer::write_output;
use crate::ops::setup::flags::{AnswerArgs, InputArgs, ModelArgs};
use crate::out::Report;
use conversation::exit::Exit;
use conversation::limits;
use conversation::model::{RequestMessage, Role};
use conversation::problem::Problem;
use models::schema::{Schema, describe_form};
use sys::env::Env;
use sys::fs;
use sys::input::InputFile;
use sys::interrupt::Interrupts;
use sys::names::shell_word;

/// Send a text file to a language model, and print its text
///
/// The whole file is one user message.
#[derive(Debug, Clone, clap::Parser)]
pub struct TextArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Print, byte for byte, what would be sent, and send nothing
    #[arg(long)]
    show_request: bool,
    #[command(flatten)]
    answer: AnswerArgs,
    /// Show on stderr what the model thinks, where the provider sends it
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// Sends the file as one user message, and reports the reply.
pub fn send_text(tool: &'static str, args: &TextArgs) -> Result<Report, Problem> {
    let file = args.input.path();
    let interrupts = Interrupts::install()?;
    let has_blank = file.to_string_lossy().contains(char::is_whitespace);
    if has_blank && !fs::exists(file) {
        let words = shell_word(file);
        return Err(Problem::usage(format!(
            "there is no file {words}; for a prompt: echo {words} | nagent-llm-text -"
        )));
    }
    refuse_hidden_link(file, &Env::read())?;
    let input = InputFile::open(file, &interrupts)?;
    let text = input
        .read_text(limits::CONVERSATION)?
        .ok_or_else(|| Problem::failed(format!("no such file: {}", file.display())))?;
    if text.is_empty() {
        return Err(Problem::failed(format!(
            "{} is empty, there is nothing to send",
            file.display()
        )));
    }
    let schema = args.answer.read_schema(&interrupts)?;
    let output = args.answer.open_output()?;
    let form = schema.as_ref().map(|schema| schema.value.clone());
    let mut one_shot = OneShot::new(tool, &args.model, !args.show_request, form, args.verbose)?;
    let form = schema.as_ref().map(|schema| describe_form(&schema.value));
    let mut messages = vec![RequestMessage { role: Role::User, parts: vec![&text] }];
    if let (Some(form), Some(last)) = (&form, messages.last_mut()) {
        last.parts.push(form);
    }
    if args.show_request {
        let OneShot { settings, source, model, .. } = &one_shot;
        let ask = settings.build_request(model, None, messages);
        return report_request(source.show_request(&ask));
    }
    let reply = one_shot.ask_until_valid(messages, schema.as_ref())?;
    let report = check_answer(one_shot.report_reply(reply, file), schema.as_ref());
    write_output(report, output.as_ref())
}

/// The report with the JSON of a complete answer, or with the errors that the schema finds in it.
fn check_answer(report: Report, schema: Option<&Schema>) -> Report {
    let Some(schema) = schema.filter(|_| report.exit == Exit::Done) else { return report };
    match schema.check(&report.text) {
        Ok((text, value)) => Report { text, ..report }.with("data", value),
        Err(errors) => {
            let error = errors.join("; ");
            let error = format!("the reply is still not valid against the schema: {error}");
            Report { exit: Exit::Malformed, error: Some(error), text: String::new(), ..report }
        }
    }
}
