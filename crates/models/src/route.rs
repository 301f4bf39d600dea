//! Decides how a file is sent to a provider: as text in the prompt, within the request, or through the provider's files
//! API. A file that the provider does not accept is refused with advice.
//!
//! Sources of the rules in the APIs, as of November 2026; if only older pages or memory had a number, its line says so:
//! OpenAI's guides “file inputs” and “images and vision”; Anthropic's guides on vision, PDF and files; Google's “file
//! input methods”, document, image and media resolution pages; ollama's API types. Limits of a request count its base64.

use super::api::{Endpoint, FileRules};
use super::attachment::FileFormat;
use super::catalog::find_model;

/// Room for the prompt and the keys of a request, in bytes.
const PROMPT_ROOM: u64 = 500_000;

/// The route of a file to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRoute {
    /// As text in the prompt.
    Text,
    /// As base64 within the request.
    Inline,
    /// Uploaded first, referred to by its id in the request, removed at the end.
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
    /// The rules of what accepts only text.
    pub const TEXT_ONLY: Self = Self {
        server: "this provider",
        pictures: false,
        documents: &[],
        image_limit: u64::MAX,
        side: u32::MAX,
        document_limit: u64::MAX,
        pages: u64::MAX,
        request: (u64::MAX, u64::MAX),
        files_api: None,
        image_tokens: |_, width, height| (width * height / 750).clamp(1, 1_600),
        page_tokens: 1_500,
    };

    /// The rules of a program that is told the path of a file.
    pub const ANY_PICTURE: Self = Self {
        server: "this program",
        pictures: true,
        documents: &[FileFormat::Pdf],
        ..Self::TEXT_ONLY
    };

    /// The size of the largest file that fits into a request of this size, in bytes.
    pub(super) const fn max_file_size(request: u64) -> u64 {
        (request - PROMPT_ROOM) / 4 * 3
    }

    /// The route of a file of `bytes` bytes, or the reason why there is none, with advice.
    pub fn route(&self, format: FileFormat, bytes: u64) -> Result<FileRoute, String> {
        if format.is_text() {
            return Ok(FileRoute::Text);
        }
        let is_image = format.is_image();
        // A picture becomes a copy that fits.
        if is_image && self.pictures {
            return Ok(FileRoute::Inline);
        }
        if is_image || !self.documents.contains(&format) {
            let (server, format) = (self.server, format.media_type());
            let also = if self.pictures { " or PNG pictures of it" } else { "" };
            return Err(format!(
                "{server} does not accept {format}; send its text{also}, or choose another model or provider"
            ));
        }
        Ok(if bytes <= self.document_limit { FileRoute::Inline } else { FileRoute::Upload })
    }
}

impl Endpoint {
    /// The files that a model accepts at this server.
    pub fn file_rules(&self, model: &str) -> FileRules {
        let rules = self.api.file_rules(self, model);
        match find_model(model).and_then(|model| model.sees) {
            Some(false) => {
                FileRules { server: "this model", pictures: false, documents: &[], ..rules }
            }
            _ => rules,
        }
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
    use super::super::server::KnownServer;
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
        let got = endpoint(api, official).file_rules("m").route(kind, megabytes * 1_000_000);
        match (&got, expect) {
            (Ok(route), Ok(expect)) => assert_eq!(*route, expect, "{wire} {kind:?} {megabytes}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{wire} {kind:?}: {error}"),
            _ => panic!("{wire} {kind:?} {megabytes}: {got:?}"),
        }
    }

    #[test]
    fn the_table() {
        use FileFormat::{Docx, Gif, Odt, Pdf, Png, Webp};
        use FileRoute::{Inline, Text, Upload};
        let apis: [&'static dyn Api; 5] =
            [&Responses, &ChatCompletions, &Messages, &Gemini, &Ollama];
        for wire in apis {
            check(wire, false, FileFormat::Text, 50, Ok(Text));
            for format in [Png, Gif, Webp] {
                check(wire, false, format, 50, Ok(Inline));
            }
        }
        check(&Responses, true, Pdf, 37, Ok(Inline));
        check(&Responses, true, Pdf, 38, Ok(Upload));
        check(&Responses, true, Docx, 1, Ok(Inline));
        check(&Responses, true, Odt, 1, Ok(Inline));
        check(&ChatCompletions, true, Pdf, 38, Ok(Upload));
        check(&ChatCompletions, false, Pdf, 50, Ok(Inline));
        check(
            &ChatCompletions,
            false,
            Docx,
            1,
            Err("send its text or PNG pictures of it, or choose another"),
        );
        check(&Messages, true, Pdf, 23, Ok(Inline));
        check(&Messages, true, Pdf, 24, Ok(Upload));
        check(&Messages, true, Docx, 1, Err("Anthropic does not accept application/vnd.openxml"));
        check(&Gemini, true, Pdf, 37, Ok(Inline));
        check(&Gemini, true, Pdf, 38, Ok(Upload));
        check(
            &Ollama,
            false,
            Pdf,
            1,
            Err("Ollama does not accept application/pdf; send its text or PNG"),
        );
        let refusal = FileRules::TEXT_ONLY.route(Png, 1).unwrap_err();
        assert!(refusal.contains("this provider does not accept image/png; send its text, or"));
    }

    #[test]
    fn rules_are_those_of_the_model_and_of_the_server() {
        let mut server = endpoint(&ChatCompletions, false);
        assert!(!server.file_rules("m").documents.is_empty());
        server.server = KnownServer::find_server_at_host("api.groq.com");
        assert!(server.file_rules("m").documents.is_empty());
        let blind = server.file_rules("openai/gpt-oss-120b").route(FileFormat::Png, 1);
        assert!(blind.unwrap_err().starts_with("this model does not accept image/png"));
        let pages = |model| endpoint(&Messages, true).file_rules(model).pages;
        assert_eq!((pages("claude-haiku-4-5"), pages("claude-sonnet-4-6")), (100, 600));
    }

    #[test]
    fn tokens_are_counted_by_each_providers_rule() {
        let check = |api: &'static dyn Api, model: &str, (width, height), expect| {
            let rules = endpoint(api, true).file_rules(model);
            assert_eq!(
                (rules.image_tokens)(model, width, height),
                expect,
                "{model} {width}x{height}"
            );
        };
        // The examples of the providers' pages.
        check(&Responses, "gpt-4o", (1024, 1024), 765);
        check(&Responses, "gpt-4o", (2048, 4096), 1105);
        check(&Responses, "gpt-5.1", (1024, 1024), 630);
        check(&Responses, "gpt-4.1-mini", (1024, 1024), 1659);
        check(&Responses, "gpt-5.5", (1024, 1024), 1024);
        check(&Messages, "claude-sonnet-4-6", (200, 200), 53);
        check(&Messages, "claude-sonnet-4-6", (1092, 1092), 1589);
        check(&Messages, "claude-sonnet-4-6", (4000, 4000), 1600);
        check(&Gemini, "gemini-2.5-flash", (384, 384), 258);
        check(&Gemini, "gemini-2.5-flash", (960, 540), 516);
        check(&Gemini, "gemini-3.8-flash", (100, 100), 1120);
    }
}
