//! Requests with a file, against `tests/fixtures/files/`. The fixtures were written from
//! the providers' documents, never recorded: they hold this program to what was read, not to what was seen.

use proptest::prelude::*;
use serde_json::Value;

use super::super::ChatRequest;
use super::super::attachment::{Attachment, FileFormat};
use super::super::options::ChatOptions;
use super::{APIS, AnyApi, Chat, Gemini, Messages, Ollama, Responses, endpoint};
use conversation::model::{RequestMessage, Role};

const PNG: Attachment<'_> =
    Attachment { name: "a.png", format: FileFormat::Png, bytes: b"\x89PNG\r\n\x1a\n" };
const PDF: Attachment<'_> =
    Attachment { name: "a.pdf", format: FileFormat::Pdf, bytes: b"%PDF-1.7\nx" };
const DOCX: Attachment<'_> =
    Attachment { name: "a.docx", format: FileFormat::Docx, bytes: b"PK\x03\x04 word" };

fn ask(prompt: &str) -> ChatRequest<'_> {
    let messages = vec![RequestMessage { role: Role::User, parts: vec![prompt] }];
    ChatRequest {
        model: "m",
        system: None,
        messages,
        file: None,
        cache_key: None,
        max_output: None,
        window: None,
        options: &ChatOptions::NONE,
    }
}

fn read(name: &str) -> Vec<u8> {
    super::replies::read(&format!("../files/{name}"))
}

fn check(api: AnyApi, official: bool, file: &Attachment<'_>, name: &str) {
    let request = endpoint(api, official)
        .chat_request(&ChatRequest { file: Some(*file), ..ask("What is it?") });
    let got: Value = serde_json::from_slice(&request.body).unwrap();
    let expect: Value = serde_json::from_slice(&read(name)).unwrap();
    // As text: the order counts, since the file comes before the prompt and the messages come last.
    assert_eq!(got.to_string(), expect.to_string(), "{name}");
}

#[test]
fn requests_with_a_file() {
    let inline: [(AnyApi, bool, &str); 5] = [
        (&Responses, true, "openai-responses"),
        (&Chat, true, "openai-chat"),
        (&Chat, false, "compat"),
        (&Messages, true, "anthropic"),
        (&Gemini, true, "gemini"),
    ];
    for (wire, official, folder) in inline {
        check(wire, official, &PNG, &format!("{folder}/inline-image.request.json"));
        check(wire, official, &PDF, &format!("{folder}/inline-pdf.request.json"));
    }
    check(&Ollama, false, &PNG, "ollama/inline-image.request.json");
    check(&Responses, true, &DOCX, "openai-responses/inline-docx.request.json");
}

proptest! {
    #[test]
    fn bodies_are_json_whatever_the_file_holds(bytes in prop::collection::vec(any::<u8>(), 0..200), prompt in "\\PC{1,20}") {
        for wire in APIS {
            let file = Attachment { bytes: &bytes, ..PNG };
            let request = endpoint(wire, false).chat_request(&ChatRequest { file: Some(file), ..ask(&prompt) });
            prop_assert!(serde_json::from_slice::<Value>(&request.body).is_ok());
        }
    }
}
