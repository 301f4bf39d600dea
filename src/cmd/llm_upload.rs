//! `nagent-llm-upload`: a file and a prompt in, a model's text out. An image, a PDF, an office file, code or text.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::cli::Tool;
use crate::client::upload;
use crate::cmd::model_args::ModelArgs;
use crate::cmd::settings::Settings;
use crate::exit::Exit;
use crate::llm::attachment::{self, Attachment, Payload, RemoteFile};
use crate::llm::route::FileRoute;
use crate::llm::{ChatRequest, Message, Role, StopReason, sniff};
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::sys::env::Env;
use crate::sys::interrupt::Interrupts;
use crate::sys::{fs, read};

/// Send an image, a PDF, an office, code or text file with a prompt to a model, and print its text
///
/// What a file is, its content says, and its name where the content does not. It is sent within the request where the
/// provider takes it so, else through the provider's files API, and removed there afterwards. Archives, programs, audio,
/// video, unknown files and files over 50 MB are refused before anything is sent.
///
/// Code and text go as text, to every provider: any file that is UTF-8. Beside text, openai takes png, jpeg, webp, gif,
/// pdf, docx, xlsx, pptx, odt, doc, xls and ppt; anthropic, and servers compatible with openai, take png, jpeg, webp, gif
/// and pdf; google takes png, jpeg, webp, heic, heif and pdf; ollama takes png, jpeg and webp.
#[derive(Debug, Clone, Parser)]
#[command(name = "nagent-llm-upload", version, max_term_width = 100)]
pub struct Args {
    /// Send this file
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
    /// Ask this about it
    #[arg(long, value_name = "TEXT")]
    pub prompt: String,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Print, byte for byte, what would be sent, and send nothing
    #[arg(long)]
    pub show_request: bool,
    #[expect(missing_docs, reason = "clap would take it for help")]
    #[command(flatten)]
    pub model: ModelArgs,
    /// Print where this program is and what it is for
    #[arg(long, help_heading = "Information")]
    pub description: bool,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-llm-upload";
    const DESCRIPTION: &'static str = "Sends an image, a PDF, an office, code or text file of up to 50 MB with a \
        prompt to a language model and prints its text. Call it as nagent-llm-upload --file FILE --prompt TEXT; --json \
        adds token counts and what the file is, --provider and --model choose the model. It needs the provider's \
        credential in its environment. Exit codes: 0 done, 1 file trouble or a file that the provider does not take, 2 \
        wrong usage or no credential, 3 provider failed, 5 reply cut by the length limit.";

    fn json(&self) -> bool {
        self.json
    }

    fn run(self) -> Result<Report, Problem> {
        run(&self)
    }
}

/// Stands in a shown request for the id that an upload would give.
const NO_ID: &str = "ID-OF-THE-UPLOADED-FILE";

fn run(args: &Args) -> Result<Report, Problem> {
    let interrupts = Interrupts::install()?;
    let env = Env::read();
    let folder = env.folder.clone().unwrap_or_else(|_| PathBuf::from("/"));
    if args.prompt.trim().is_empty() {
        return Err(Problem::usage("the prompt is empty; --prompt says what to do with the file"));
    }
    let bytes = bytes_of(&args.file)?;
    let full_name = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy();
    let found = sniff::detect_format(&full_name, &bytes).map_err(failed)?;
    let (kind, name) = (found.format, attachment::safe_name(&full_name, found.format));
    let settings = Settings::resolve(&args.model, &env)?;
    let notes = settings.notes.iter().chain(&found.note);
    notes.for_each(|note| line(&format!("note: {note}")));
    let mut source = settings.source(&env, &folder, !args.show_request)?;
    let provider = settings.provider()?;
    let model_id = source.model_id.clone().unwrap_or_default();
    let route = source.route(kind, bytes.len() as u64).map_err(failed)?;
    let text = (route == FileRoute::Text).then(|| as_text(&full_name, &bytes));
    let file = Attachment { name: &name, format: kind, payload: Payload::Bytes(&bytes) };
    let ask = ChatRequest {
        model: &model_id,
        system: None,
        messages: vec![Message {
            role: Role::User,
            parts: text.iter().map(String::as_str).chain([args.prompt.as_str()]).collect(),
        }],
        file: (route == FileRoute::Inline).then_some(file),
        cache_key: None,
        max_output: settings.config.max_output_tokens,
        window: settings.window(&model_id),
    };
    if args.show_request {
        let nobody = RemoteFile { id: NO_ID.to_owned(), uri: None };
        let mut ask = ask;
        if route == FileRoute::Upload {
            line(&format!(
                "note: the file is uploaded first, through the provider's files API; its id then replaces {NO_ID}"
            ));
            ask.file = Some(Attachment { payload: Payload::Remote(&nobody), ..file });
        }
        let body = String::from_utf8(source.show_request(&ask))
            .map_err(|error| Problem::usage(error.to_string()))?;
        return Ok(Report::exactly(body.clone()).with("request", body));
    }
    let patience = settings.patience.value;
    let mut tell = |text: &str| line(text);
    let reply = match route {
        FileRoute::Upload => {
            upload::ask_about(&mut source, &ask, &file, patience, &interrupts, &mut tell)?
        }
        _ => source.ask_with_retries(&ask, patience, &interrupts, &mut tell)?,
    };
    let truncated = reply.stop == StopReason::Length;
    let mut report = Report::done(reply.text.clone());
    if truncated {
        report.exit = Exit::Limit;
        report.error = Some("the reply was cut off by the length limit".to_owned());
    }
    Ok(report
        .with(
            "file",
            fs::real_path(&args.file).unwrap_or_else(|| args.file.clone()).display().to_string(),
        )
        .with("mime", kind.media_type(&full_name))
        .with("bytes", bytes.len())
        .with("kind", kind.family())
        .with("sent", route.name())
        .with("prompt", args.prompt.as_str())
        .with("provider", provider.name())
        .with("model", model_id)
        .with("model_served", reply.model)
        .with("response", reply.text)
        .with("input_tokens", reply.usage.input)
        .with("output_tokens", reply.usage.output)
        .with("cache_read_tokens", reply.usage.cached)
        .with("cache_write_tokens", reply.usage.cache_written)
        .with("estimated", reply.usage.estimated)
        .with("stop_reason", if truncated { "length" } else { "end" })
        .with("truncated", truncated))
}

fn failed(message: String) -> Problem {
    Problem::failed(message)
}

fn line(text: &str) {
    out::line(&format!("nagent-llm-upload: {text}"));
}

/// The whole of a regular file, one byte over the limit at most.
fn bytes_of(path: &Path) -> Result<Vec<u8>, Problem> {
    let shown = path.display();
    let too_large = |size: u64| {
        failed(format!(
            "{shown} has {}, and files of up to 50 MB ({} bytes) are sent; make it smaller, or split it with \
             nagent-file-split where it is text",
            out::bytes(size),
            attachment::LIMIT
        ))
    };
    let (file, meta) =
        read::open_regular(path).map_err(|error| failed(error.problem().to_owned()))?;
    if meta.len() > attachment::LIMIT {
        return Err(too_large(meta.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    // The size was true a moment ago; a file that grows is noticed here.
    file.take(attachment::LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(format!("cannot read {shown}: {error}")))?;
    if bytes.len() as u64 > attachment::LIMIT {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(bytes)
}

/// A text file as a part of the prompt, with its name around it. The bytes were found to be UTF-8.
fn as_text(name: &str, bytes: &[u8]) -> String {
    let name = name.replace('"', "'");
    format!(
        "<file name=\"{name}\">\n{}\n</file>",
        String::from_utf8_lossy(bytes).trim_end_matches('\n')
    )
}
