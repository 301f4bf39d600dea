//! Which provider takes which file, and how it gets there: as text in the prompt, within the request, or through the
//! provider's files API. What none of its doors takes is refused with what to do instead.
//!
//! Sources, as read in November 2026; where only older pages or memory had a number, its line says so:
//! OpenAI's guides “file inputs” and “images and vision”; Anthropic's guides on vision, PDF and files; Google's
//! “file input methods” and document and image pages; ollama's API types. Limits of a request count its base64.

use super::attachment::Kind;
use super::wire::{Endpoint, Wire};

/// OpenAI: the files of one request, 50 MB (file inputs guide; the unit from memory).
const OPENAI_REQUEST: u64 = 50_000_000;
/// Anthropic: a request, 32 MB (API overview).
const ANTHROPIC_REQUEST: u64 = 32_000_000;
/// Anthropic: an image, 5 MB (an older vision page). Above it the files API is tried, and has the last word.
const ANTHROPIC_IMAGE: u64 = 5 * 1024 * 1024;
/// Google: a request with inline data other than PDF, 20 MB; newer pages say 100, and the smaller is safe.
const GOOGLE_REQUEST: u64 = 20_000_000;
/// Google: a PDF inline, 50 MB (file input methods).
const GOOGLE_PDF: u64 = 50_000_000;
/// Room for the prompt and the keys of a request.
const REST: u64 = 500_000;

/// How a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// As text in the prompt.
    Text,
    /// Base64 within the request.
    Inline,
    /// Uploaded first, named by its id in the request, removed afterwards.
    Files,
}

impl Route {
    /// `text`, `inline` or `files-api`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Inline => "inline",
            Self::Files => "files-api",
        }
    }
}

/// Only text goes to what is no server: a command-line program, a recording.
pub fn without_server(kind: Kind) -> Result<Route, String> {
    if kind.is_text() {
        return Ok(Route::Text);
    }
    Err(format!(
        "this provider takes text only, and the file is {}; {}, or choose another with --provider",
        what(kind),
        instead(kind, &[])
    ))
}

impl Endpoint {
    /// How a file of `bytes` bytes gets to this server, or why it does not and what to do instead.
    pub fn route(&self, kind: Kind, bytes: u64) -> Result<Route, String> {
        if kind.is_text() {
            return Ok(Route::Text);
        }
        let images = self.images();
        let is_image = kind.family() == "image";
        let takes = match self.wire {
            // The table “accepted file types”: ods and odp are not in it.
            Wire::Responses => !matches!(kind, Kind::Ods | Kind::Odp),
            // “Chat Completions accepts only PDF files as file content parts.”
            Wire::Chat | Wire::Messages | Wire::Gemini => kind == Kind::Pdf,
            Wire::Ollama => false,
        };
        if !(if is_image { images.contains(&kind) } else { takes }) {
            return Err(format!(
                "{} takes no {}; {}",
                self.shown(),
                what(kind),
                instead(kind, if self.wire == Wire::Ollama { &[] } else { images })
            ));
        }
        let encoded = bytes.div_ceil(3).saturating_mul(4).saturating_add(REST);
        let fits = match self.wire {
            Wire::Responses => encoded <= OPENAI_REQUEST,
            // Compatible servers have no files API that could be relied on, and limits of their own.
            Wire::Chat => !self.official || encoded <= OPENAI_REQUEST,
            Wire::Messages => {
                encoded <= ANTHROPIC_REQUEST && !(is_image && bytes > ANTHROPIC_IMAGE)
            }
            Wire::Gemini => encoded <= if is_image { GOOGLE_REQUEST } else { GOOGLE_PDF },
            Wire::Ollama => true,
        };
        // Chat Completions names uploaded files as PDF only (the same table); images there are inline or not at all.
        if !fits && self.wire == Wire::Chat && is_image {
            return Err(format!(
                "{} takes images of up to 37 MB here; make it smaller",
                self.shown()
            ));
        }
        Ok(if fits { Route::Inline } else { Route::Files })
    }

    /// The formats of images that it takes.
    fn images(&self) -> &'static [Kind] {
        match self.wire {
            // Still GIF only.
            Wire::Responses | Wire::Chat | Wire::Messages => {
                &[Kind::Png, Kind::Jpeg, Kind::Webp, Kind::Gif]
            }
            Wire::Gemini => &[Kind::Png, Kind::Jpeg, Kind::Webp, Kind::Heic, Kind::Heif],
            // From memory of its source: what it decodes on the way to the model.
            Wire::Ollama => &[Kind::Png, Kind::Jpeg, Kind::Webp],
        }
    }

    /// Who it is, for messages.
    pub(super) fn shown(&self) -> &'static str {
        match self.wire {
            Wire::Responses => "OpenAI",
            Wire::Chat if self.official => "OpenAI's Chat Completions",
            Wire::Chat => "a Chat Completions server",
            Wire::Messages => "Anthropic",
            Wire::Gemini => "Google",
            Wire::Ollama => "Ollama",
        }
    }
}

fn what(kind: Kind) -> String {
    match kind {
        Kind::Pdf => "PDF".to_owned(),
        _ if kind.family() == "office" => {
            let ending = super::attachment::safe_name("x", kind);
            format!("office files ({})", ending.trim_start_matches('x'))
        }
        _ => kind.mime("").to_owned(),
    }
}

/// What to do instead; `images` is what the server takes beside text, with PDF.
fn instead(kind: Kind, images: &[Kind]) -> &'static str {
    match kind.family() {
        "image" => "save it as PNG or JPEG and send that",
        "pdf" => "save its text, or its pages as images, and send those",
        _ if images.is_empty() => "save it as text and send that",
        _ => "save it as PDF or text and send that",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(wire: Wire, official: bool) -> Endpoint {
        Endpoint { wire, base_url: "https://h".to_owned(), key: None, official }
    }

    fn check(wire: Wire, official: bool, kind: Kind, megabytes: u64, expect: Result<Route, &str>) {
        let got = endpoint(wire, official).route(kind, megabytes * 1_000_000);
        match (&got, expect) {
            (Ok(route), Ok(expect)) => assert_eq!(*route, expect, "{wire:?} {kind:?} {megabytes}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{wire:?} {kind:?}: {error}"),
            _ => panic!("{wire:?} {kind:?} {megabytes}: {got:?}"),
        }
    }

    #[test]
    fn the_table() {
        use Kind::{Bmp, Code, Docx, Gif, Heic, Odp, Pdf, Png, Webp};
        use Route::{Files, Inline, Text};
        use Wire::{Chat, Gemini, Messages, Ollama, Responses};
        for wire in [Responses, Chat, Messages, Gemini, Ollama] {
            check(wire, false, Code, 50, Ok(Text));
            check(wire, false, Png, 1, Ok(Inline));
            check(wire, false, Bmp, 1, Err("image/bmp; save it as PNG or JPEG"));
        }
        check(Responses, true, Pdf, 37, Ok(Inline));
        check(Responses, true, Pdf, 38, Ok(Files));
        check(Responses, true, Docx, 1, Ok(Inline));
        check(Responses, true, Odp, 1, Err("office files (.odp); save it as PDF or text"));
        check(Chat, true, Pdf, 38, Ok(Files));
        check(Chat, true, Png, 38, Err("make it smaller"));
        check(Chat, false, Pdf, 50, Ok(Inline));
        check(Chat, false, Docx, 1, Err("save it as PDF or text"));
        check(Messages, true, Png, 6, Ok(Files));
        check(Messages, true, Pdf, 23, Ok(Inline));
        check(Messages, true, Pdf, 24, Ok(Files));
        check(
            Messages,
            true,
            Docx,
            1,
            Err("Anthropic takes no office files (.docx); save it as PDF or text"),
        );
        check(Gemini, true, Gif, 1, Err("image/gif; save it as PNG"));
        check(Gemini, true, Heic, 15, Ok(Files));
        check(Gemini, true, Heic, 14, Ok(Inline));
        check(Gemini, true, Pdf, 37, Ok(Inline));
        check(Gemini, true, Pdf, 38, Ok(Files));
        check(Ollama, false, Webp, 50, Ok(Inline));
        check(
            Ollama,
            false,
            Pdf,
            1,
            Err("Ollama takes no PDF; save its text, or its pages as images"),
        );
        check(Ollama, false, Docx, 1, Err("save it as text"));
        assert_eq!(without_server(Code), Ok(Text));
        assert!(without_server(Png).unwrap_err().contains("takes text only"));
    }
}
