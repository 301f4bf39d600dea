//! Decides how a file is sent to a provider: as text in the prompt, within the request, or through the provider's files
//! API. A file that the provider does not accept is refused with advice.
//!
//! Sources of the rules in the APIs, as of November 2026; if only older pages or memory had a number, its line says so:
//! OpenAI's guides “file inputs” and “images and vision”; Anthropic's guides on vision, PDF and files; Google's “file
//! input methods” and document and image pages; ollama's API types. Limits of a request count its base64.

use super::api::{Endpoint, FileRules};
use super::attachment::{FileFormat, safe_name};

/// Room for the prompt and the keys of a request, in bytes.
const PROMPT_ROOM: u64 = 500_000;

/// The route of a file to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRoute {
    /// As text in the prompt.
    Text,
    /// As base64 within the request.
    Inline,
    /// Uploaded first, referred to by its id in the request, removed afterwards.
    Upload,
}

impl FileRoute {
    /// `text`, `inline` or `files-api`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Inline => "inline",
            Self::Upload => "files-api",
        }
    }
}

impl FileRules {
    /// The size of the largest file that fits into a request of this size, in bytes.
    pub(super) const fn max_file_size(request: u64) -> u64 {
        (request - PROMPT_ROOM) / 4 * 3
    }
}

/// The route to a command-line program or a recording, which accept only text.
pub fn route_without_server(format: FileFormat) -> Result<FileRoute, String> {
    if format.is_text() {
        return Ok(FileRoute::Text);
    }
    let instead = if format.is_image() { "" } else { "save it as text and send that, or " };
    let what = describe(format);
    Err(format!(
        "this provider accepts only text, not {what}; {instead}choose another with --provider"
    ))
}

impl Endpoint {
    /// The route of a file of `bytes` bytes to this server, or the reason why there is none, with advice.
    pub fn route(&self, format: FileFormat, bytes: u64) -> Result<FileRoute, String> {
        if format.is_text() {
            return Ok(FileRoute::Text);
        }
        let rules = self.api.file_rules(self.official);
        let is_image = format.is_image();
        if !(if is_image { rules.images } else { rules.documents }).contains(&format) {
            let what = describe(format);
            let instead = suggest(format, rules.documents.contains(&FileFormat::Pdf));
            return Err(format!("{} does not accept {what}; {instead}", rules.server));
        }
        let limit = if is_image { rules.image_limit } else { rules.document_limit };
        if bytes <= limit {
            Ok(FileRoute::Inline)
        } else if is_image && !rules.uploads_images {
            let megabytes = limit / 1_000_000;
            Err(format!("{} accepts images of up to {megabytes} MB; make it smaller", rules.server))
        } else {
            Ok(FileRoute::Upload)
        }
    }
}

fn describe(format: FileFormat) -> String {
    match format {
        FileFormat::Pdf => "PDF".to_owned(),
        _ if format.family() == "office" => {
            let ending = safe_name("x", format);
            format!("office files ({})", ending.trim_start_matches('x'))
        }
        _ => format.media_type().to_owned(),
    }
}

fn suggest(format: FileFormat, accepts_pdf: bool) -> &'static str {
    match format.family() {
        "image" => "save it as PNG or JPEG and send that",
        "pdf" => "save its text, or its pages as images, and send those",
        _ if accepts_pdf => "save it as PDF or text and send that",
        _ => "save it as text and send that",
    }
}

#[cfg(test)]
mod tests {
    use super::super::anthropic::Messages;
    use super::super::api::Api;
    use super::super::google::Gemini;
    use super::super::ollama::Ollama;
    use super::super::openai_chat::ChatCompletions;
    use super::super::openai_responses::Responses;
    use super::*;

    type Expected = Result<FileRoute, &'static str>;

    fn endpoint(api: &'static dyn Api, official: bool) -> Endpoint {
        Endpoint::new(api, "https://h", None, official)
    }

    fn check(
        api: &'static dyn Api,
        official: bool,
        kind: FileFormat,
        megabytes: u64,
        expect: Expected,
    ) {
        let wire = api.chat_path("");
        let got = endpoint(api, official).route(kind, megabytes * 1_000_000);
        match (&got, expect) {
            (Ok(route), Ok(expect)) => assert_eq!(*route, expect, "{wire} {kind:?} {megabytes}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{wire} {kind:?}: {error}"),
            _ => panic!("{wire} {kind:?} {megabytes}: {got:?}"),
        }
    }

    #[test]
    fn the_table() {
        use FileFormat::{Bmp, Docx, Gif, Heic, Odp, Pdf, Png, Webp};
        use FileRoute::{Inline, Text, Upload};
        let apis: [&'static dyn Api; 5] =
            [&Responses, &ChatCompletions, &Messages, &Gemini, &Ollama];
        for wire in apis {
            check(wire, false, FileFormat::Text, 50, Ok(Text));
            check(wire, false, Png, 1, Ok(Inline));
            check(wire, false, Bmp, 1, Err("image/bmp; save it as PNG or JPEG"));
        }
        check(&Responses, true, Pdf, 37, Ok(Inline));
        check(&Responses, true, Pdf, 38, Ok(Upload));
        check(&Responses, true, Docx, 1, Ok(Inline));
        check(&Responses, true, Odp, 1, Err("office files (.odp); save it as PDF or text"));
        check(&ChatCompletions, true, Pdf, 38, Ok(Upload));
        check(&ChatCompletions, true, Png, 38, Err("make it smaller"));
        check(&ChatCompletions, false, Pdf, 50, Ok(Inline));
        check(&ChatCompletions, false, Docx, 1, Err("save it as PDF or text"));
        check(&Messages, true, Png, 6, Ok(Upload));
        check(&Messages, true, Pdf, 23, Ok(Inline));
        check(&Messages, true, Pdf, 24, Ok(Upload));
        check(
            &Messages,
            true,
            Docx,
            1,
            Err("Anthropic does not accept office files (.docx); save it as PDF or text"),
        );
        check(&Gemini, true, Gif, 1, Err("image/gif; save it as PNG"));
        check(&Gemini, true, Heic, 15, Ok(Upload));
        check(&Gemini, true, Heic, 14, Ok(Inline));
        check(&Gemini, true, Pdf, 37, Ok(Inline));
        check(&Gemini, true, Pdf, 38, Ok(Upload));
        check(&Ollama, false, Webp, 50, Ok(Inline));
        check(
            &Ollama,
            false,
            Pdf,
            1,
            Err("Ollama does not accept PDF; save its text, or its pages as images"),
        );
        check(&Ollama, false, Docx, 1, Err("save it as text"));
        assert_eq!(route_without_server(FileFormat::Text), Ok(Text));
        let refusal = |format| route_without_server(format).unwrap_err();
        assert!(refusal(Png).contains("accepts only text, not image/png; choose another"));
        assert!(refusal(Docx).contains("not office files (.docx); save it as text"));
    }
}
