//! Requests with a file, and the files APIs' replies, against `tests/fixtures/files/`. The fixtures were written from
//! the providers' documents, never recorded: they hold this program to what was read, not to what was seen.

use proptest::prelude::*;
use serde_json::Value;

use super::super::ChatRequest;
use super::super::api::Endpoint;
use super::super::attachment::{Attachment, FileFormat, Payload, RemoteFile};
use super::super::files::{Files, UploadState};
use super::{APIS, AnyApi, Chat, Gemini, KEY, Messages, Ollama, Responses, endpoint};
use conversation::model::{ErrorKind, HttpRequest, RequestMessage, Role};

fn file(name: &str, format: FileFormat, bytes: &[u8]) -> Attachment {
    let payload = Payload::Bytes(bytes.to_vec().into());
    Attachment { place: (0, 0), name: name.to_owned(), format, tokens: 7, payload }
}

fn png() -> Attachment {
    file("a.png", FileFormat::Png, b"\x89PNG\r\n\x1a\n")
}

fn upload(files: &Files<'_>, boundary: &str) -> HttpRequest {
    files.upload_request("a.pdf", FileFormat::Pdf, b"%PDF-1.7\nx", boundary)
}

fn pdf() -> Attachment {
    file("a.pdf", FileFormat::Pdf, b"%PDF-1.7\nx")
}

fn ask(prompt: &str) -> ChatRequest<'_> {
    let parts = vec!["<file/>", prompt];
    let messages = vec![RequestMessage { role: Role::User, parts }];
    ChatRequest {
        model: "m",
        system: None,
        messages,
        files: Vec::new(),
        cache_key: None,
        max_output: None,
        window: None,
        options: Box::leak(Box::default()),
    }
}

fn read(name: &str) -> Vec<u8> {
    super::replies::read(&format!("../files/{name}"))
}

/// The lines of a `.http` file: the first, then the headers.
fn head(name: &str) -> (String, Vec<(String, String)>) {
    let text = String::from_utf8(read(name)).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    let first = lines.next().unwrap();
    let header = |line: String| {
        line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap()
    };
    (first, lines.map(header).collect())
}

/// A request's first line and headers are those of a `.http` file, and the key is in one header at most.
fn check_head(request: &HttpRequest, name: &str, with_key: bool) {
    let (first, headers) = head(name);
    assert_eq!(
        format!("{} {}", request.method, request.url.strip_prefix("https://host").unwrap()),
        first
    );
    let (keys, others): (Vec<_>, Vec<_>) =
        request.headers.iter().partition(|(_, value)| value.contains(KEY));
    let others: Vec<_> =
        others.into_iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    assert_eq!(others, headers, "{name}");
    assert_eq!(keys.len(), usize::from(with_key), "{name}");
    assert!(!request.url.contains(KEY));
}

fn check(api: AnyApi, official: bool, file: &Attachment, name: &str) {
    let request = endpoint(api, official)
        .chat_request(&ChatRequest { files: vec![file.clone()], ..ask("What is it?") });
    let got: Value = serde_json::from_slice(&request.body).unwrap();
    let expect: Value = serde_json::from_slice(&read(name)).unwrap();
    // As text: the order counts, since the file comes behind the text that names it and the messages come last.
    assert_eq!(got.to_string(), expect.to_string(), "{name}");
}

fn remote(id: &str) -> RemoteFile {
    let uri = format!("https://generativelanguage.googleapis.com/v1beta/files/{id}");
    RemoteFile { id: id.to_owned(), uri: Some(uri) }
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
        check(wire, official, &png(), &format!("{folder}/inline-image.request.json"));
        check(wire, official, &pdf(), &format!("{folder}/inline-pdf.request.json"));
    }
    check(&Ollama, false, &png(), "ollama/inline-image.request.json");
    check(
        &Responses,
        true,
        &file("a.docx", FileFormat::Docx, b"PK\x03\x04 word"),
        "openai-responses/inline-docx.request.json",
    );
    let uploaded: [(AnyApi, &str, &str, bool); 4] = [
        (&Responses, "openai-responses", "file-abc123", false),
        (&Chat, "openai-chat", "file-abc123", false),
        (&Messages, "anthropic", "file_011CNha8iCJcU1wXNR6q4V8w", true),
        (&Gemini, "gemini", "abc-123", false),
    ];
    for (wire, folder, id, images) in uploaded {
        let remote = remote(id);
        let there = |file| Attachment { payload: Payload::Remote(remote.clone()), ..file };
        check(wire, true, &there(pdf()), &format!("{folder}/use-pdf.request.json"));
        if images {
            check(wire, true, &there(png()), &format!("{folder}/use-image.request.json"));
        }
    }
    let remote = remote("x");
    let there = Attachment { payload: Payload::Remote(remote), ..pdf() };
    let request =
        endpoint(&Messages, true).chat_request(&ChatRequest { files: vec![there], ..ask("?") });
    check_head(&request, "anthropic/use-pdf.request.http", true);
    let request =
        endpoint(&Messages, true).chat_request(&ChatRequest { files: vec![pdf()], ..ask("?") });
    assert!(request.headers.iter().all(|(name, _)| *name != "anthropic-beta"));
}

#[test]
fn forms_go_up_and_files_are_removed() {
    let forms: [(AnyApi, &str, &str); 3] = [
        (&Responses, "openai-responses", "file-abc123"),
        (&Messages, "anthropic", "file_011CNha8iCJcU1wXNR6q4V8w"),
        (&Gemini, "gemini", "abc-123"),
    ];
    for (wire, folder, id) in forms {
        let endpoint = endpoint(wire, true);
        let files = endpoint.files().unwrap();
        let request = upload(&files, "BOUNDARY");
        check_head(&request, &format!("{folder}/upload.request.http"), true);
        let expect = read(&format!("{folder}/upload.request.txt"));
        assert_eq!(String::from_utf8(request.body), String::from_utf8(expect));
        let (file, state) = files.read_file(&read(&format!("{folder}/upload.reply.json"))).unwrap();
        let is_google = folder == "gemini";
        let expect = if is_google { UploadState::Processing } else { UploadState::Ready };
        assert_eq!((file.id.as_str(), state), (id, expect));
        check_head(&files.removal_request(&file), &format!("{folder}/delete.request.http"), true);
        let refused =
            endpoint.failure(400, &[], &read(&format!("{folder}/upload-refused.reply.json")));
        assert_eq!((refused.kind, refused.status), (ErrorKind::Other, Some(400)), "{refused}");
    }
}

#[test]
fn google_processes_the_file() {
    let endpoint = endpoint(&Gemini, true);
    let files = endpoint.files().unwrap();
    let (file, _) = files.read_file(&read("gemini/upload.reply.json")).unwrap();
    assert_eq!(file, remote("abc-123"));
    check_head(&files.state_request(&file), "gemini/state.request.http", true);
    let state = |name: &str| files.read_file(&read(name)).unwrap().1;
    assert_eq!(state("gemini/active.reply.json"), UploadState::Ready);
    assert_eq!(
        state("gemini/failed.reply.json"),
        UploadState::Failed("The PDF is encrypted.".to_owned())
    );
    let refused = endpoint.failure(400, &[], &read("gemini/upload-refused.reply.json"));
    assert!(refused.message.contains("Unsupported MIME type"), "{refused}");
    let base = |base_url: &str| Endpoint { base_url: base_url.to_owned(), ..endpoint.clone() };
    let url = |base_url: &str| upload(&base(base_url).files().unwrap(), "").url;
    assert_eq!(url("https://h/v1beta/"), "https://h/upload/v1beta/files");
    assert_eq!(url("https://h/gemini?x=1"), "https://h/gemini/upload/v1beta/files?x=1");
}

#[test]
fn replies_that_name_no_file() {
    let check = |api: AnyApi, body: &str, part: &str| {
        let endpoint = endpoint(api, true);
        let error = endpoint.files().unwrap().read_file(body.as_bytes()).unwrap_err();
        assert!(error.message.contains(part), "{body}: {error}");
        assert!(!error.message.contains("7f3a9b2c"), "{error}");
    };
    check(&Responses, "<html>", "web page");
    check(&Responses, "nope", "not JSON");
    check(&Messages, r#"{"error":{"message":"no sk-canary-7f3a9b2c4d5e6f70"}}"#, "no [key]");
    check(&Responses, "{}", "gave no reason");
    check(&Responses, r#"{"id":"../responses"}"#, "cannot be part of an address");
    check(&Gemini, r#"{"file":{"name":"files/a?b"}}"#, "cannot be part of an address");
    check(&Gemini, r#"{"file":{"name":"files/.."}}"#, "cannot be part of an address");
    check(&Messages, r#"{"id":7}"#, "gave no reason");
    let long = format!(r#"{{"id":"{}"}}"#, "a".repeat(257));
    check(&Messages, &long, "cannot be part of an address");
}

proptest! {
    #[test]
    fn bodies_are_json_whatever_the_file_holds(bytes in prop::collection::vec(any::<u8>(), 0..200), prompt in "\\PC{1,20}") {
        for wire in APIS {
            let files = vec![file("a.png", FileFormat::Png, &bytes)];
            let request = endpoint(wire, false).chat_request(&ChatRequest { files, ..ask(&prompt) });
            prop_assert!(serde_json::from_slice::<Value>(&request.body).is_ok());
        }
    }
}
