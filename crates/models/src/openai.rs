//! The common parts of OpenAI's two APIs.

use std::borrow::Cow;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::ChatRequest;
use super::api::{Endpoint, FilesApi, UploadForm};
use super::attachment::FileFormat;
use super::json::read_count;
use conversation::format::hex::encode_hex;
use conversation::model::Usage;

/// OpenAI's limit for all files of one request: 50 MB (file inputs guide; the unit from memory).
pub(super) const REQUEST_LIMIT: u64 = 50_000_000;

/// OpenAI's image formats; GIF only without animation.
pub(super) const IMAGES: &[FileFormat] =
    &[FileFormat::Png, FileFormat::Jpeg, FileFormat::Webp, FileFormat::Gif];

/// OpenAI removes an upload after an hour, its minimum, so uploads that a crash leaves do not stay.
pub(super) const FILES_API: FilesApi = FilesApi {
    path: "/files",
    form: UploadForm::Fields(&[
        ("purpose", "user_data"),
        ("expires_after[anchor]", "created_at"),
        ("expires_after[seconds]", "3600"),
    ]),
    headers: &[],
    lifetime: "it is removed automatically after an hour",
};

/// Maximum length of a cache key. OpenAI refuses longer ones, which its documentation does not mention.
const MAX_CACHE_KEY: usize = 64;

/// The key for the prompt cache. Only OpenAI itself knows the field; gateways to other models refuse it.
pub(super) fn cache_key<'a>(ask: &ChatRequest<'a>, server: &Endpoint) -> Option<Cow<'a, str>> {
    let key = ask.cache_key.filter(|_| server.official)?;
    if key.len() <= MAX_CACHE_KEY {
        return Some(key.into());
    }
    Some(encode_hex(&Sha256::digest(key.as_bytes())).into())
}

/// Reads token counts. `input` and `output` are the names of the two; the cached tokens are included in the input.
pub(super) fn read_usage(counts: &Value, input: &str, output: &str) -> Option<Usage> {
    let details = &counts[format!("{input}_details")];
    let reasoning = &counts[format!("{output}_details")]["reasoning_tokens"];
    let count = |value: &Value| read_count(value).unwrap_or(0);
    let (input, output) = (count(&counts[input]), count(&counts[output]));
    // This is DeepSeek's name for the field.
    let cached = read_count(&details["cached_tokens"])
        .unwrap_or_else(|| count(&counts["prompt_cache_hit_tokens"]));
    let cache_written = count(&details["cache_write_tokens"]);
    // Some servers send an empty object, or zeroes until the last chunk.
    (input > 0 || output > 0).then_some(Usage {
        input,
        cached,
        cache_written,
        output,
        reasoning: count(reasoning),
        estimated: false,
    })
}
