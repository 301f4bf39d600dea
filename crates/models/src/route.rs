//! Decides whether a provider accepts a file: text is part of the prompt, anything else goes as base64 within the request.
//! A file that the provider does not accept is refused with advice.
//!
//! Sources of the rules in the APIs, as of November 2026; if only older pages or memory had a number, its line says so:
//! OpenAI's guides “file inputs” and “images and vision”; Anthropic's guides on vision, PDF and files; Google's “file
//! input methods” and document and image pages; ollama's API types. Limits of a request count its base64.

use super::api::{Endpoint, FileRules};
use super::attachment::FileFormat;

/// Room for the prompt and the keys of a request, in bytes.
const PROMPT_ROOM: u64 = 500_000;

impl FileRules {
    /// The size of the largest file that fits into a request of this size, in bytes.
    pub(super) const fn max_file_size(request: u64) -> u64 {
        (request - PROMPT_ROOM) / 4 * 3
    }
}

/// Refuses files that a command-line program or a recording does not accept: all but text.
pub fn check_file_without_server(format: FileFormat) -> Result<(), String> {
    if format.is_text() {
        return Ok(());
    }
    let instead = match format.family() {
        "image" => "",
        "pdf" => "save its text and send that, or ",
        _ => "save it as text and send that, or ",
    };
    let what = describe(format);
    Err(format!(
        "this provider accepts only text, not {what}; {instead}choose another with --provider"
    ))
}

impl Endpoint {
    /// Refuses a file of `bytes` bytes that this server does not accept, with advice.
    pub fn check_file(&self, format: FileFormat, bytes: u64) -> Result<(), String> {
        if format.is_text() {
            return Ok(());
        }
        let rules = self.api.file_rules(self.official);
        let (formats, limit, what) = if format.is_image() {
            (rules.images, rules.image_limit, "images")
        } else {
            (rules.documents, rules.document_limit, "such files")
        };
        if !formats.contains(&format) {
            let what = describe(format);
            let instead = suggest(format, rules.documents.contains(&FileFormat::Pdf));
            return Err(format!("{} does not accept {what}; {instead}", rules.server));
        }
        if bytes > limit {
            let megabytes = limit / 1_000_000;
            return Err(format!(
                "{} accepts {what} of up to {megabytes} MB within a request; make it smaller, or send it in parts",
                rules.server
            ));
        }
        Ok(())
    }
}

fn describe(format: FileFormat) -> String {
    match (format, format.usual_ending()) {
        (FileFormat::Pdf, _) => "PDF".to_owned(),
        (_, Some(ending)) if format.family() == "office" => format!("office files (.{ending})"),
        _ => format.media_type("").to_owned(),
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

    type Expected = Result<(), &'static str>;

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
        let got = endpoint(api, official).check_file(kind, megabytes * 1_000_000);
        match (&got, expect) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.contains(part), "{wire} {kind:?}: {error}"),
            _ => panic!("{wire} {kind:?} {megabytes}: {got:?}"),
        }
    }

    #[test]
    fn the_table() {
        use FileFormat::{Bmp, Code, Docx, Gif, Heic, Odp, Pdf, Png, Webp};
        let apis: [&'static dyn Api; 5] =
            [&Responses, &ChatCompletions, &Messages, &Gemini, &Ollama];
        for wire in apis {
            check(wire, false, Code, 50, Ok(()));
            check(wire, false, Png, 1, Ok(()));
            check(wire, false, Bmp, 1, Err("image/bmp; save it as PNG or JPEG"));
        }
        check(&Responses, true, Pdf, 37, Ok(()));
        check(&Responses, true, Pdf, 38, Err("such files of up to 37 MB"));
        check(&Responses, true, Docx, 1, Ok(()));
        check(&Responses, true, Odp, 1, Err("office files (.odp); save it as PDF or text"));
        check(&ChatCompletions, true, Pdf, 38, Err("such files of up to 37 MB"));
        check(&ChatCompletions, true, Png, 38, Err("make it smaller"));
        check(&ChatCompletions, false, Pdf, 50, Ok(()));
        check(&ChatCompletions, false, Docx, 1, Err("save it as PDF or text"));
        check(&Messages, true, Png, 6, Err("images of up to 5 MB"));
        check(&Messages, true, Pdf, 23, Ok(()));
        check(&Messages, true, Pdf, 24, Err("up to 23 MB"));
        check(
            &Messages,
            true,
            Docx,
            1,
            Err("Anthropic does not accept office files (.docx); save it as PDF or text"),
        );
        check(&Gemini, true, Gif, 1, Err("image/gif; save it as PNG"));
        check(&Gemini, true, Heic, 15, Err("images of up to 14 MB"));
        check(&Gemini, true, Heic, 14, Ok(()));
        check(&Gemini, true, Pdf, 37, Ok(()));
        check(&Gemini, true, Pdf, 38, Err("such files of up to 37 MB"));
        check(&Ollama, false, Webp, 50, Ok(()));
        check(
            &Ollama,
            false,
            Pdf,
            1,
            Err("Ollama does not accept PDF; save its text, or its pages as images"),
        );
        check(&Ollama, false, Docx, 1, Err("save it as text"));
        assert_eq!(check_file_without_server(Code), Ok(()));
        let refusal = |format| check_file_without_server(format).unwrap_err();
        assert!(refusal(Png).contains("accepts only text, not image/png; choose another"));
        assert!(refusal(Docx).contains("not office files (.docx); save it as text"));
    }
}
