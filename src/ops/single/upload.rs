//! Sends a file and a prompt to a model: an image, a PDF, an office file, code or text.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use super::one_shot::{OneShot, report_request};
use crate::client::upload;
use crate::drive;
use crate::ops::setup::flags::{InputArgs, ModelArgs};
use crate::out::{self, Report};
use conversation::format::harmless;
use conversation::limits::UPLOADED_FILE;
use conversation::model::{RequestMessage, Role};
use conversation::problem::Problem;
use models::attachment::{self, Attachment, Payload, RemoteFile};
use models::route::FileRoute;
use models::sniff;
use sys::input::InputFile;
use sys::interrupt::Interrupts;
use sys::read;

/// The file that is sent, and its prompt
#[derive(Debug, Clone, clap::Args)]
pub struct UploadArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Ask this about it
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// Print, byte for byte, what would be sent, and send nothing
    #[arg(long)]
    show_request: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// The placeholder in a shown request for the id that an upload would return.
const NO_ID: &str = "ID-OF-THE-UPLOADED-FILE";

/// Sends the file in the request, or through the provider's files API, and reports the reply.
pub fn send_file(tool: &'static str, args: &UploadArgs) -> Result<Report, Problem> {
    if args.prompt.trim().is_empty() {
        return Err(Problem::usage(
            "no prompt was given; say with --prompt what to do with the file",
        ));
    }
    let path = args.input.path();
    let input = InputFile::open(path, &Interrupts::install()?)?;
    let bytes = read_upload(input.path())?;
    let name = if input.is_copy() { OsStr::new("stdin") } else { path.as_os_str() };
    let full_name = Path::new(name).file_name().unwrap_or(name).to_string_lossy();
    let found = sniff::detect_format(&full_name, &bytes).map_err(Problem::failed)?;
    let (kind, name) = (found.format, attachment::safe_name(&full_name, found.format));
    let mut one_shot = OneShot::new(tool, &args.model, !args.show_request, None, false)?;
    if let Some(note) = &found.note {
        out::print_tool_line(tool, &format!("note: {note}"));
    }
    let OneShot { settings, source, model, interrupts, spinner, .. } = &mut one_shot;
    let route = source.route(kind, bytes.len() as u64).map_err(Problem::failed)?;
    let text = (route == FileRoute::Text).then(|| as_text(&full_name, &bytes));
    let parts = text.iter().map(String::as_str).chain([args.prompt.as_str()]).collect();
    let file = Attachment { name: &name, format: kind, payload: Payload::Bytes(&bytes) };
    let mut ask =
        settings.build_request(model, None, vec![RequestMessage { role: Role::User, parts }]);
    ask.file = (route == FileRoute::Inline).then_some(file);
    if args.show_request {
        let nobody = RemoteFile { id: NO_ID.to_owned(), uri: None };
        if route == FileRoute::Upload {
            let note = format!(
                "note: the file is uploaded first, through the provider's files API; its id then replaces {NO_ID}"
            );
            out::print_tool_line(tool, &note);
            ask.file = Some(Attachment { payload: Payload::Remote(&nobody), ..file });
        }
        return report_request(source.show_request(&ask));
    }
    let patience = settings.retry_patience();
    spinner.start("model");
    let mut tell = |text: &str| spinner.print_above(|| out::print_tool_line(tool, text));
    let reply = match route {
        FileRoute::Upload => {
            upload::ask_about(source, &ask, &file, patience, interrupts, &mut tell)
        }
        _ => source.ask_with_retries(&ask, patience, interrupts, &mut tell),
    };
    spinner.stop();
    Ok(one_shot
        .report_reply(reply?, path)?
        .with("mime", kind.media_type())
        .with("bytes", bytes.len())
        .with("kind", kind.family())
        .with("sent", route.name())
        .with("prompt", args.prompt.as_str()))
}

/// The whole of a regular file.
fn read_upload(path: &Path) -> Result<Vec<u8>, Problem> {
    let (file, metadata) = read::open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(UPLOADED_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Problem::failed(format!("cannot read {}: {error}", path.display())))?;
    if bytes.len() as u64 > UPLOADED_FILE {
        return Err(Problem::failed(format!(
            "{} has {} bytes; the maximum is {UPLOADED_FILE} (50 MiB): make it smaller, or split it with \
             nagent-file-split if it is text",
            path.display(),
            metadata.len().max(UPLOADED_FILE + 1)
        )));
    }
    Ok(bytes)
}

/// A text file as a part of the prompt, with its name around it, and a fence where the text could end it. The bytes were
/// found to be UTF-8.
fn as_text(name: &str, bytes: &[u8]) -> String {
    let name = harmless::quote_name(name).replace(['"', '<', '>'], "'");
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\n');
    let lower = text.to_lowercase();
    if !(lower.contains('<') && lower.contains("file")) {
        return format!("<file name=\"{name}\">\n{text}\n</file>");
    }
    let mut fence = drive::fence_word();
    while text.contains(&fence) {
        fence = drive::fence_word();
    }
    format!("<file name=\"{name}\" fence=\"{fence}\">\n{text}\n</file {fence}>")
}
