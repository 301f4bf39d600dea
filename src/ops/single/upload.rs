//! Sends a file and a prompt to a model: an image, a PDF, an office file, code or text.

use std::ffi::OsStr;
use std::path::Path;

use super::one_shot::{OneShot, report_request};
use crate::client::files::NewFile;
use crate::drive;
use crate::ops::files::refuse_hidden_link;
use crate::ops::setup::flags::{InputArgs, ModelArgs};
use crate::out::{self, Report};
use conversation::format::file::Block;
use conversation::limits::SHOWN_FILE;
use conversation::model::{RequestMessage, Role};
use conversation::problem::Problem;
use models::picture::Picture;
use models::route::FileRoute;
use models::sniff;
use sys::env::Env;
use sys::fs;
use sys::input::InputFile;
use sys::interrupt::Interrupts;

/// Send an image, a PDF, an office, code or text file with a prompt to a model, and print its text
///
/// The file is sent inline if the provider allows it, else through the provider's files API, and removed there afterwards.
/// Archives, programs, audio, video, unknown files and files over 50 MiB are refused before anything is sent.
///
/// Code and text go as text, to every provider: any file that is UTF-8. png, jpeg, webp and gif go to every provider that
/// takes pictures, scaled down or converted where it needs that; pdf to openai, anthropic, google and some servers compatible
/// with openai; docx, xlsx, pptx, odt, doc, xls and ppt only to openai.
#[derive(Debug, Clone, clap::Parser)]
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

/// Sends the file in the request, or through the provider's files API, and reports the reply.
pub fn send_file(tool: &'static str, args: &UploadArgs) -> Result<Report, Problem> {
    if args.prompt.trim().is_empty() {
        return Err(Problem::usage(
            "no prompt was given; say with --prompt what to do with the file",
        ));
    }
    let path = args.input.path();
    refuse_hidden_link(path, &Env::read())?;
    let input = InputFile::open(path, &Interrupts::install()?)?;
    let name = if input.is_copy() { OsStr::new("stdin") } else { path.as_os_str() };
    let name = Path::new(name).file_name().unwrap_or(name).to_string_lossy();
    let full = fs::real_path(input.path()).unwrap_or_else(|| input.path().to_owned());
    let bytes = fs::read_resolved(&full, SHOWN_FILE)
        .map_err(|error| Problem::failed(format!("{name}: {error:#}")))?;
    let format = sniff::detect_format(&name, &bytes).map_err(Problem::failed)?;
    let mut one_shot = OneShot::new(tool, &args.model, !args.show_request, None, false)?;
    let OneShot { settings, source, model, interrupts, spinner, .. } = &mut one_shot;
    let route = source.file_rules(model).route(format, bytes.len() as u64);
    let route = route.map_err(Problem::failed)?;
    if format.is_image() {
        Picture::decode(format, &bytes).map_err(|why| Problem::failed(format!("{name}: {why}")))?;
    }
    let mut block = Block::new("context").with("file", &name);
    if route == FileRoute::Text {
        block = block.body(String::from_utf8_lossy(&bytes).trim_end_matches('\n'));
    }
    let text = block.format(&[], &mut drive::random_word);
    let parts = vec![text.trim_end(), args.prompt.as_str()];
    let mut ask =
        settings.build_request(model, None, vec![RequestMessage { role: Role::User, parts }]);
    let file = NewFile { name: &name, format, path: &full, bytes: &bytes };
    let file = Some(&file).filter(|_| route != FileRoute::Text);
    if args.show_request {
        if let Some(file) = file {
            let attached = source.attach_file(&mut ask, file, None);
            attached.map_err(|why| Problem::failed(why.to_string()))?;
        }
        out::print_notes(tool, &source.notes);
        return report_request(source.show_request(&ask));
    }
    let patience = settings.retry_patience();
    spinner.start("model");
    let mut tell = |text: &str| spinner.print_above(|| out::print_tool_line(tool, text));
    let reply = source.ask_with_retries(&mut ask, file, patience, interrupts, &mut tell);
    spinner.stop();
    Ok(one_shot
        .report_reply(reply?, path)
        .with("mime", format.media_type())
        .with("bytes", bytes.len())
        .with("kind", format.family())
        .with("sent", route.name())
        .with("prompt", args.prompt.as_str()))
}
