//! The table of credential shapes (a name and a pattern each), and the tests for likely secrets.
//!
//! A shape is in the table if other text hardly ever matches it. If a pattern has a group, the group is the secret.

use std::sync::LazyLock;

/// A further test for a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likely {
    /// None: the shape is sufficient.
    Always,
    /// A mixture of letters and digits, so that `sk-some-long-class-name` does not match.
    Mixed,
    /// Randomness like that of a generated secret, so that a name, a path or a placeholder does not match.
    Random,
}

/// A shape of credential.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Its name in a mask.
    pub name: &'static str,
    /// Over bytes: classes are ASCII.
    pub pattern: &'static str,
    /// The further test for a match.
    pub likely: Likely,
}

/// All shapes except private keys, which span several lines. If two match the same text, the first one counts.
pub static SHAPES: LazyLock<Vec<Shape>> =
    LazyLock::new(|| TABLE.lines().filter_map(read_shape).collect());

/// A line for each shape: its test, its name, and its pattern.
const TABLE: &str = r##"
always anthropic-key      \bsk-ant-[A-Za-z0-9_-]{16,}
always openrouter-key     \bsk-or-v1-[A-Za-z0-9]{32,}
mixed  api-key            \bsk-[A-Za-z0-9_-]{18,}
always google-key         \bAIza[A-Za-z0-9_-]{35}
always google-token       \bya29\.[A-Za-z0-9_-]{20,}
always google-secret      \bGOCSPX-[A-Za-z0-9_-]{20,}
always github-token       \bgh[opusr]_[A-Za-z0-9]{36,}
always github-token       \bgithub_pat_[A-Za-z0-9_]{22,}
always gitlab-token       \bgl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{20,}
always slack-token        \bxox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}
always slack-token        \bxapp-[0-9]-[A-Za-z0-9-]{10,}
always slack-webhook      \bhooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{20,})
always discord-webhook    \bdiscord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]{15,}/([A-Za-z0-9_-]{30,})
always mailgun-key        \bkey-[0-9a-f]{32}\b
always mailgun-key        \b[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b
mixed  docker-auth        "auth"\s*:\s*"((?:[A-Za-z0-9+/]{4}){3,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)"
always kubernetes-key     \bclient-key-data["'\\]*\s*:\s*["'\\]*([A-Za-z0-9+/=]{40,})
always aws-key-id         \b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b
always aws-secret         (?i)\bsecret_?access_?key["'\\]*\s*[:=]\s*["'\\]*([A-Za-z0-9/+]{40})
always aws-secret         (?i)aws_secret_access_key["'\\]*\s*[:=]\s*["'\\]*([A-Za-z0-9/+]{40})
random aws-session        (?i)session_?token["'\\]*\s*[:=]\s*["'\\]*([A-Za-z0-9/+=]{80,})
always azure-key          (?i)\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43,88}={0,2})
always jwt                \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*
always npm-token          \bnpm_[A-Za-z0-9]{36,}
always npm-token          (?i)\b_(?:auth|authToken|password)\s*=\s*([A-Za-z0-9+/=_.-]{16,})
mixed  pypi-token         \bpypi-[A-Za-z0-9_-]{32,}
mixed  cargo-token        \bcio[A-Za-z0-9]{32}\b
always rubygems-key       \brubygems_[a-f0-9]{48}
mixed  huggingface-token  \b(?:hf|api_org)_[A-Za-z0-9]{30,}
always digitalocean-token \bdo[opr]_v1_[a-f0-9]{64}
always stripe-key         \b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}
always stripe-key         \bwhsec_[A-Za-z0-9+/=]{24,}
mixed  sendgrid-key       \bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}
always twilio-key         \bSK[a-f0-9]{32}\b
always shopify-token      \bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}
always telegram-token     \b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}
mixed  vault-token        \bhv[sbr]\.[A-Za-z0-9_-]{24,}
always databricks-token   \bdapi[a-f0-9]{32}
always docker-token       \bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}
always atlassian-token    \bATATT3[A-Za-z0-9_=-]{40,}
always linear-key         \blin_(?:api|oauth)_[A-Za-z0-9]{32,}
mixed  provider-key       \b(?:gsk_|xai-|nvapi-|pplx-|r8_|tvly-|csk-|fw_)[A-Za-z0-9_-]{24,}
always age-key            \bAGE-SECRET-KEY-1[A-Z0-9]{40,}
always authorization      (?i)\b(?:proxy-)?authorization["'\\]*\s*[:=]\s*["'\\]*(?:bearer|basic|token|apikey|digest|negotiate)\s+([A-Za-z0-9._~+/=-]{8,})
mixed  authorization      (?i)\bbearer\s+([A-Za-z0-9._~+/=-]{20,})
mixed  api-key            (?i)\b(?:x-api-key|x-goog-api-key|api-key|apikey|private-token|x-auth-token|x-access-token)["'\\]*\s*:\s*["'\\]*([A-Za-z0-9._~+/=-]{12,})
mixed  cookie             (?i)\b(?:set-)?cookie:\s*[A-Za-z0-9_.-]*(?:session|sess|sid|auth|token)[A-Za-z0-9_.-]*=([A-Za-z0-9._~+/=%-]{16,})
always url-password       \b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@"'<>\[\]{}]*:([^\s/@"'<>\[\]{}$]{3,})@
always netrc-password     \b(?:machine\s+[^\s\[]+|default)\s+(?:(?:login|account)\s+[^\s\[]+\s+)*password\s+([^\s\["'$]{3,})
random password           (?i)\b[A-Z0-9_.-]*passw(?:or)?d["'\\]*\s*(?:[:=]|=>)\s*["'\\]*([^\s"'\\$`(){}<>\[\];,&|]{8,})
random secret             \b[A-Z0-9_]*(?:SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?|PASSPHRASE)[A-Z0-9_]*["']?\s*[:=]\s*["']?([^\s"'\\$`(){}<>\[\];,&|]{12,})
random secret             (?i)\b[a-z0-9_.-]*(?:secret|token|(?:api|access|private|secret)[_-]?key|passphrase)["'\\]*\s*(?:[:=]|=>|:=)\s*\\?["']([^\s"'\\$`(){}<>\[\];,&|]{16,})["'\\]
random secret             (?im)^[ \t]*[a-z0-9_.-]*(?:secret|token|(?:api|access|private|secret)[_-]?key|passphrase)[ \t]*[:=][ \t]*([^\s"'\\$`(){}<>\[\];,&|/]{16,})[ \t]*\r?$
"##;

fn read_shape(line: &'static str) -> Option<Shape> {
    let (likely, rest) = line.split_once(' ')?;
    let (name, pattern) = rest.trim_start().split_once(' ')?;
    let likely = match likely {
        "always" => Likely::Always,
        "mixed" => Likely::Mixed,
        _ => Likely::Random,
    };
    Some(Shape { name, pattern: pattern.trim_start(), likely })
}

/// Whether a text that matched is likely to be a secret.
pub fn is_likely(likely: Likely, secret: &[u8]) -> bool {
    let digits = secret.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = secret.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    match likely {
        Likely::Always => true,
        Likely::Mixed => digits >= 1 && letters >= 4 && counts(secret).count() >= 8,
        Likely::Random => {
            digits >= 1
                && letters >= 2
                && counts(secret).count() >= 7
                && entropy_bits(secret) >= 2.8
                && !reads_as_code(secret)
        }
    }
}

/// Names with dots, paths and times are not secrets: `self.tokens2.next`, `src/token2.rs`, `2026-01-01T00:00:00Z`.
fn reads_as_code(secret: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(secret) else { return false };
    let is_word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && part.len() < 24
    };
    let divided = |by: &[char]| text.contains(by) && text.split(by).all(is_word);
    let is_time =
        text.contains(':') && text.bytes().all(|byte| b"0123456789-:.TZ+".contains(&byte));
    divided(&['.']) || divided(&[':']) || text.starts_with('/') || text.starts_with("./") || is_time
}

/// Returns the counts of the byte values that occur.
fn counts(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    counts.into_iter().filter(|count| *count > 0)
}

fn entropy_bits(bytes: &[u8]) -> f64 {
    let share = |count: u32| f64::from(count) / bytes.len() as f64;
    counts(bytes).map(|count| -share(count) * share(count).log2()).sum()
}
