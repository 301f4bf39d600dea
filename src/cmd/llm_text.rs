//! `nagent-llm-text`: a text file in, a model's text out. No loop, no protocol, no context of ours.

use clap::Parser;

use crate::cli::Tool;
use crate::exit::Exit;
use crate::format::conversation::{self, Trouble};
use crate::llm::schema::describe_form;
use crate::llm::{RequestMessage, Role};
use crate::ops::flags::{AnswerArgs, InputArgs, ModelArgs};
use crate::ops::one_shot::{OneShot, report_request};
use crate::out::Report;
use crate::problem::Problem;
use crate::prompt;
use crate::sys::env::Env;
use crate::sys::input::InputFile;
use crate::sys::interrupt::Interrupts;

/// What a newcomer needs, below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-llm-text question.txt
  echo \"What is 2+2?\" | nagent-llm-text -

Exit codes: 0 done, 1 file error, 2 wrong usage or no credential, 3 provider
failed, 4 reply not valid against --schema, 5 reply cut by the length limit";

/// Send a text file to a language model, and print its text
///
/// The whole file is one user message. With --as-conversation a conversation file is sent with its roles.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Send a conversation file with its roles, its first context as the system prompt
    #[arg(long)]
    as_conversation: bool,
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

impl Tool for Args {
    const NAME: &'static str = "nagent-llm-text";
    const DESCRIPTION: &'static str = "Sends a text file to a language model and prints its text. Call it as \
        nagent-llm-text --file FILE, or FILE alone, or - for stdin; --json adds token counts, --provider and --model choose the model, \
        --as-conversation sends a conversation file with its roles. It needs the provider's credential in its \
        environment. Exit codes: 0 done, 1 file error, 2 wrong usage or no credential, 3 provider failed, 5 reply cut \
        by the length limit.";

    fn run(self) -> Result<Report, Problem> {
        send_text(&self)
    }
}

fn send_text(args: &Args) -> Result<Report, Problem> {
    let file = args.input.path();
    let interrupts = Interrupts::install()?;
    let input = InputFile::open(file, &interrupts)?;
    let text = input
        .read_text(crate::limits::CONVERSATION)?
        .ok_or_else(|| Problem::failed(format!("file not found: {}", file.display())))?;
    if text.is_empty() {
        return Err(Problem::failed(format!(
            "{} is empty, there is nothing to send",
            file.display()
        )));
    }
    let schema = args.answer.read_schema(&interrupts)?;
    let mut one_shot = OneShot::new(Args::NAME, &args.model, !args.show_request)?;
    one_shot.settings.options.shows_reasoning = args.verbose;
    one_shot.settings.options.schema = schema.as_ref().map(|schema| schema.value.clone());
    let form = schema.as_ref().map(|schema| describe_form(&schema.value));
    let parsed;
    let (system, mut messages) = if args.as_conversation {
        parsed = conversation::parse(&text);
        if let Some(Trouble::Damaged { line, message, .. }) = parsed.trouble {
            let file = file.display();
            return Err(Problem::failed(format!("{file} is damaged at line {line}: {message}")));
        }
        prompt::messages(&text, &parsed.pieces)
    } else {
        (None, vec![RequestMessage { role: Role::User, parts: vec![&text] }])
    };
    if let (Some(form), Some(last)) = (&form, messages.last_mut()) {
        last.parts.push(form);
    }
    if args.show_request {
        let OneShot { settings, source, model, .. } = &one_shot;
        let ask = settings.build_request(model, system, messages);
        return report_request(source.show_request(&ask));
    }
    let reply = one_shot.ask_until_valid(system, messages, schema.as_ref())?;
    let mut report = one_shot.report_reply(reply, file)?;
    if let Some(schema) = schema.filter(|_| report.exit == Exit::Done) {
        match schema.check(&report.text) {
            Ok((text, value)) => report = Report { text, ..report }.with("data", value),
            Err(errors) => {
                let error = format!(
                    "the reply is still not valid against the schema: {}",
                    errors.join("; ")
                );
                report = Report {
                    exit: Exit::Malformed,
                    error: Some(error),
                    text: String::new(),
                    ..report
                };
            }
        }
    }
    let folder = Env::read().current_folder()?;
    args.answer.write_output(report, &folder)
}
