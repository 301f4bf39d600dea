//! `nagent-llm-text`: a text file in, a model's text out. No loop, no protocol, no context of ours.

use clap::Parser;

use crate::cli::Tool;
use crate::format::conversation::{self, Trouble};
use crate::llm::{Message, Role};
use crate::ops::flags::{InputArgs, ModelArgs};
use crate::ops::one_shot::{OneShot, print_line, report_request};
use crate::out::Report;
use crate::problem::Problem;
use crate::prompt;
use crate::sys::fs;
use crate::sys::input::InputFile;
use crate::sys::interrupt::Interrupts;

/// What a newcomer needs, below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-llm-text question.txt
  echo \"What is 2+2?\" | nagent-llm-text -

Exit codes: 0 done, 1 file trouble, 2 wrong usage or no credential, 3 provider
failed, 5 reply cut by the length limit";

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
    model: ModelArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-llm-text";
    const DESCRIPTION: &'static str = "Sends a text file to a language model and prints its text. Call it as \
        nagent-llm-text --file FILE, or FILE alone, or - for stdin; --json adds token counts, --provider and --model choose the model, \
        --as-conversation sends a conversation file with its roles. It needs the provider's credential in its \
        environment. Exit codes: 0 done, 1 file trouble, 2 wrong usage or no credential, 3 provider failed, 5 reply cut \
        by the length limit.";

    fn run(self) -> Result<Report, Problem> {
        send_text(&self)
    }
}

fn send_text(args: &Args) -> Result<Report, Problem> {
    let file = args.input.path();
    let input = InputFile::open(file, &Interrupts::install()?)?;
    let text = fs::read_text(input.path(), crate::limits::CONVERSATION)?
        .ok_or_else(|| Problem::failed(format!("file not found: {}", file.display())))?;
    if text.is_empty() {
        return Err(Problem::failed(format!(
            "{} is empty, there is nothing to send",
            file.display()
        )));
    }
    let mut one_shot = OneShot::new(Args::NAME, &args.model, !args.show_request)?;
    let parsed;
    let (system, messages) = if args.as_conversation {
        parsed = conversation::parse(&text);
        if let Some(Trouble::Damaged { line, message, .. }) = parsed.trouble {
            let file = file.display();
            return Err(Problem::failed(format!("{file} is damaged at line {line}: {message}")));
        }
        prompt::messages(&text, &parsed.pieces)
    } else {
        (None, vec![Message { role: Role::User, parts: vec![&text] }])
    };
    let OneShot { settings, source, model, interrupts, spinner } = &mut one_shot;
    let ask = settings.build_request(model, system, messages);
    if args.show_request {
        return report_request(source.show_request(&ask));
    }
    spinner.start("model");
    let mut tell = |line: &str| spinner.print_above(|| print_line(Args::NAME, line));
    let reply = source.ask_with_retries(&ask, settings.patience(), interrupts, &mut tell);
    spinner.stop();
    let reply = reply?;
    one_shot.report_reply(reply, file)
}
