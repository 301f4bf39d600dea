//! Replies in the five APIs: however the body is cut, the same text, counts and errors come out of it, and what was
//! handed on as it came is the text.

use super::input::{APIS, Input, pieces};
use conversation::model::{ApiError, Reply};
use models::api::Endpoint;

const KEY: &str = "canary-key-81c2a9d04e";

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let api = input.one_of(&APIS);
    let seed = input.byte();
    let endpoint = Endpoint::new(api, "http://127.0.0.1:1", Some(KEY.to_owned()), seed & 64 == 0);
    let status = if seed & 128 == 0 { 200 } else { 429 };
    let whole = decoded(&endpoint, status, std::iter::once(input.rest));
    assert_eq!(whole, decoded(&endpoint, status, pieces(input.rest, seed)));
    if let Err(error) = &whole {
        assert!(error.message.chars().count() <= 2_000);
        assert!(!error.message.contains(KEY), "{}", error.message);
        assert!(!error.message.contains(char::is_control), "{:?}", error.message);
    }
    if let Ok(page) = endpoint.read_models(input.rest) {
        for model in page.models {
            assert!(!model.id.is_empty());
        }
    }
    if let Ok((remote, _)) = endpoint.files().and_then(|files| files.read_file(input.rest)) {
        assert!(!remote.id.is_empty() && !remote.id.contains(['/', '?', '#', ' ']));
    }
}

fn decoded<'a>(
    endpoint: &Endpoint,
    status: u16,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> Result<Reply, ApiError> {
    let mut decoder = endpoint.decoder(status, &[]);
    let mut heard = String::new();
    for chunk in chunks {
        if decoder.is_done() {
            break;
        }
        decoder.push_bytes(chunk, &mut |piece| heard.push_str(piece))?;
    }
    let reply = decoder.finish()?;
    assert!(reply.text.starts_with(&heard), "{heard:?} is not of {:?}", reply.text);
    Ok(reply)
}
