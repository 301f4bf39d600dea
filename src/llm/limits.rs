//! Windows and longest replies of known models, in tokens, for providers that do not report them.
//!
//! A server's own figures come first (Anthropic, Google, Ollama and Mistral report them). Sources, November 2026: the
//! providers' model pages; for gpt-5.5, gpt-5.6, gpt-6.x and gemini-3.8 the pages of resellers, the lower figure where
//! they differ; the older ones from memory. A model that is not here is unknown, not small.

/// The limits of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelLimits {
    /// Input and output together, in tokens.
    pub window: u64,
    /// The longest reply, reasoning included; `None`: the server's choice.
    pub max_output: Option<u64>,
}

const K128: Option<u64> = Some(128_000);
const K64: Option<u64> = Some(64_000);

/// Ids without dates, the window, the longest reply.
const TABLE: &[(&str, u64, Option<u64>)] = &[
    (
        "gpt-6.2-sol gpt-6.2-astra gpt-6.1-sol gpt-6.1-terra gpt-6-astra gpt-6-sol gpt-6-luna \
         gpt-5.6-sol gpt-5.6-terra gpt-5.6-luna gpt-5.5",
        1_050_000,
        K128,
    ),
    ("gpt-5 gpt-5-mini gpt-5-nano", 400_000, K128),
    ("gpt-4.1 gpt-4.1-mini gpt-4.1-nano", 1_047_576, Some(32_768)),
    ("gpt-4o gpt-4o-mini", 128_000, Some(16_384)),
    ("o3 o4-mini", 200_000, Some(100_000)),
    (
        "claude-fable-5-1 claude-opus-5-5 claude-sonnet-5-5 claude-haiku-5-5 claude-fable-5 \
         claude-opus-5 claude-sonnet-5 claude-opus-4-8 claude-opus-4-7 claude-opus-4-6 \
         claude-sonnet-4-6",
        1_000_000,
        K128,
    ),
    ("claude-haiku-4-5 claude-opus-4-5 claude-sonnet-4-5", 200_000, K64),
    (
        "gemini-3.8-flash gemini-3.6-flash gemini-3.5-flash gemini-3.1-pro \
         gemini-3.1-flash-lite gemini-2.5-pro gemini-2.5-flash",
        1_048_576,
        Some(65_536),
    ),
    ("deepseek-v4-flash", 1_000_000, None),
    ("gpt-oss-120b", 131_072, None),
];

/// The limits of a model, by its id: as it is in the table, or with a date, `-latest` or `-preview` behind it, or with
/// its maker's name before it (`openai/gpt-5`, `models/gemini-2.5-pro`).
pub fn find_limits(model: &str) -> Option<ModelLimits> {
    let id = model.rsplit_once('/').map_or(model, |(_, id)| id);
    let is_one = |known: &str| id.strip_prefix(known).is_some_and(is_version);
    let row = TABLE.iter().find(|(ids, ..)| ids.split_whitespace().any(is_one));
    row.map(|&(_, window, max_output)| ModelLimits { window, max_output })
}

/// The ids in the table.
pub fn known_models() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|(ids, ..)| ids.split_whitespace())
}

/// Nothing, a date, or a word for "the newest".
fn is_version(rest: &str) -> bool {
    let Some(version) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    let is_date =
        version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_date || version == "latest" || version == "preview" || version.starts_with("preview-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let check = |id: &str, window: Option<u64>| {
            assert_eq!(find_limits(id).map(|limits| limits.window), window, "{id}");
        };
        check("gpt-5", Some(400_000));
        check("gpt-5-2025-08-07", Some(400_000));
        check("gpt-5.5-2026-04-23", Some(1_050_000));
        check("openai/gpt-5.5", Some(1_050_000));
        check("gpt-5-mini", Some(400_000));
        check("gpt-5.9", None);
        check("gpt-5-pro", None);
        check("gpt-4o-audio-preview", None);
        check("claude-haiku-4-5-20251001", Some(200_000));
        check("claude-sonnet-4-6", Some(1_000_000));
        check("claude-opus-5-5", Some(1_000_000));
        check("claude-opus-5-9", None);
        check("models/gemini-2.5-flash-preview-05-20", Some(1_048_576));
        check("gemini-2.5-flash-image", None);
        check("", None);
    }
}
