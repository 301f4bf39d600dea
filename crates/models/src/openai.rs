//! The common parts of OpenAI's two APIs.

use std::borrow::Cow;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::ChatRequest;
use super::api::{Endpoint, FileRules, FilesApi, UploadForm};
use super::json::read_count;
use conversation::format::hex::encode_hex;
use conversation::limits;
use conversation::model::Usage;

/// The files that OpenAI accepts; GIF only without animation. The unit of its limit is from memory, the number of
/// pictures from an older page.
pub(super) const FILE_RULES: FileRules = FileRules {
    server: "OpenAI",
    image_limit: FileRules::max_file_size(limits::OPENAI_REQUEST),
    document_limit: FileRules::max_file_size(limits::OPENAI_REQUEST),
    request: (FileRules::max_file_size(limits::OPENAI_REQUEST), limits::OPENAI_PICTURES),
    // OpenAI removes an upload after an hour, its minimum, so uploads that a crash leaves do not stay.
    files_api: Some(FilesApi {
        path: "/files",
        form: UploadForm::Fields(&[
            ("purpose", "user_data"),
            ("expires_after[anchor]", "created_at"),
            ("expires_after[seconds]", "3600"),
        ]),
        headers: &[],
    }),
    image_tokens: count_image_tokens,
    ..FileRules::ANY_PICTURE
};

/// The tokens of an image: newer and small models count patches of 32 pixels, up to a number to which the server scales
/// the image down; others tiles of 512 pixels of an image that is scaled to a shorter side of 768.
fn count_image_tokens(model: &str, width: u64, height: u64) -> u64 {
    let id = model.rsplit('/').next().unwrap_or(model);
    let patches = width.div_ceil(32) * height.div_ceil(32);
    let (base, tile) = match id {
        _ if id.starts_with("gpt-4o-mini") => (2_833, 5_667),
        _ if id.contains("-nano") => return (patches.min(1_536) * 246).div_ceil(100),
        _ if id.starts_with("o4-mini") => return (patches.min(1_536) * 172).div_ceil(100),
        _ if id.contains("-mini") => return (patches.min(1_536) * 162).div_ceil(100),
        _ if gpt_version(id).is_some_and(|version| version >= (5, 4)) => return patches.min(2_500),
        _ if id.starts_with("gpt-5") => (70, 140),
        _ if id.starts_with('o') => (75, 150),
        _ => (85, 170),
    };
    // Scales an image whose longest or shortest side is longer than this many pixels.
    let fit = |(width, height): (u64, u64), side: u64, most: u64| {
        if side > most { (width * most / side, height * most / side) } else { (width, height) }
    };
    let size = fit((width, height), width.max(height), 2048);
    let (width, height) = fit(size, size.0.min(size.1), 768);
    base + tile * width.div_ceil(512) * height.div_ceil(512)
}

/// The version in the id of a model of OpenAI's: 5.3 of `gpt-5.3-codex`.
pub(super) fn gpt_version(id: &str) -> Option<(u32, u32)> {
    let version = id.strip_prefix("gpt-")?.split('-').next()?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    major.parse().ok().zip(minor.parse().ok())
}

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
