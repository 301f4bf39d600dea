//! The table of credential shapes: a name, a pattern, an example each. Nothing but the table, and what makes a match
//! likely to be a secret.
//!
//! Prefixes and lengths are those that the issuers document, or that they publish for scanners. A shape is here when text
//! that is no credential hardly ever has it. Where a pattern has a group, the group is the secret, else all of it is.

/// What a match must be besides matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likely {
    /// Nothing: the shape says enough.
    Always,
    /// Letters and digits in some variety, so that `sk-some-long-class-name` is none.
    Mixed,
    /// As random as a drawn secret, so that a name, a path or a placeholder is none.
    Random,
}

/// A shape of credential.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// What it is called in a mask.
    pub name: &'static str,
    /// Over bytes: classes are ASCII.
    pub pattern: &'static str,
    /// What else it takes.
    pub likely: Likely,
    /// A text that holds one. Put together from parts, so that scanners of repositories let it pass.
    pub example: &'static str,
}

const fn shape(
    name: &'static str,
    pattern: &'static str,
    likely: Likely,
    example: &'static str,
) -> Shape {
    Shape { name, pattern, likely, example }
}

use Likely::{Always, Mixed, Random};

/// All shapes but private keys, which go over several lines. Of two that match the same text the first counts.
pub const SHAPES: &[Shape] = &[
    shape(
        "anthropic-key",
        r"\bsk-ant-[A-Za-z0-9_-]{16,}",
        Always,
        concat!("sk-ant", "-api03-Zq8xW2rTn5vLk9Bd"),
    ),
    shape(
        "openrouter-key",
        r"\bsk-or-v1-[A-Za-z0-9]{32,}",
        Always,
        concat!("sk-or", "-v1-8d0c6f2ab94e7135d0c6f2ab94e71350"),
    ),
    shape(
        "api-key",
        r"\bsk-[A-Za-z0-9_-]{18,}",
        Mixed,
        concat!("sk", "-proj-9aZ3kLm0QxR7tYv2Bn5C"),
    ),
    shape(
        "google-key",
        r"\bAIza[A-Za-z0-9_-]{35}",
        Always,
        concat!("AIza", "SyB9x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn"),
    ),
    shape(
        "google-token",
        r"\bya29\.[A-Za-z0-9_-]{20,}",
        Always,
        concat!("ya29", ".a0AfB_byC9x2Lk0QmR7tYv3Bn5C"),
    ),
    shape(
        "google-secret",
        r"\bGOCSPX-[A-Za-z0-9_-]{20,}",
        Always,
        concat!("GOCSPX", "-x2Lk0QmR7tYv3Bn5CdW8eFgH1jK"),
    ),
    shape(
        "github-token",
        r"\bgh[opusr]_[A-Za-z0-9]{36,}",
        Always,
        concat!("ghp", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z"),
    ),
    shape(
        "github-token",
        r"\bgithub_pat_[A-Za-z0-9_]{22,}",
        Always,
        concat!("github", "_pat_11ABCDEFG0x2Lk0QmR7tYv_3Bn5C"),
    ),
    shape(
        "gitlab-token",
        r"\bgl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{20,}",
        Always,
        concat!("glpat", "-x2Lk0QmR7tYv3Bn5CdW8"),
    ),
    shape(
        "slack-token",
        r"\bxox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}",
        Always,
        concat!("xoxb", "-2048-4096-x2Lk0QmR7tYv"),
    ),
    shape(
        "slack-token",
        r"\bxapp-[0-9]-[A-Za-z0-9-]{10,}",
        Always,
        concat!("xapp", "-1-A02-4096-x2lk0qmr7tyv"),
    ),
    shape(
        "slack-webhook",
        r"\bhooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{20,})",
        Always,
        concat!("https://hooks.slack", ".com/services/T0A/B0C/x2Lk0QmR7tYv3Bn5"),
    ),
    shape(
        "aws-key-id",
        r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",
        Always,
        concat!("AKIA", "X2LK7QMR7TYV3BN5"),
    ),
    shape(
        "aws-secret",
        r#"(?i)\bsecret_?access_?key["'\\]*\s*[:=]\s*["'\\]*([A-Za-z0-9/+]{40})"#,
        Always,
        concat!("\"SecretAccess", "Key\": \"x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9/+aZb\""),
    ),
    shape(
        "aws-secret",
        r#"(?i)aws_secret_access_key["'\\]*\s*[:=]\s*["'\\]*([A-Za-z0-9/+]{40})"#,
        Always,
        concat!("aws_secret", "_access_key = x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9/+aZb"),
    ),
    shape(
        "aws-session",
        r#"(?i)session_?token["'\\]*\s*[:=]\s*["'\\]*([A-Za-z0-9/+=]{80,})"#,
        Random,
        concat!(
            "aws_session",
            "_token=IQoJb3JpZ2luX2VjEJx2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9IQoJb3JpZ2luX2VjEJx2Lk0QmR7tYv3B"
        ),
    ),
    shape(
        "azure-key",
        r"(?i)\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43,88}={0,2})",
        Always,
        concat!("Account", "Key=x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9x2Lk0QmR="),
    ),
    shape(
        "jwt",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*",
        Always,
        concat!("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0In0", ".x2Lk0QmR7tYv3Bn5CdW8"),
    ),
    shape(
        "npm-token",
        r"\bnpm_[A-Za-z0-9]{36,}",
        Always,
        concat!("npm", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z"),
    ),
    shape(
        "npm-token",
        r"(?i)\b_(?:auth|authToken|password)\s*=\s*([A-Za-z0-9+/=_.-]{16,})",
        Always,
        concat!("//registry.npmjs.example/:_auth", "Token=x2Lk0QmR7tYv3Bn5CdW8"),
    ),
    shape(
        "pypi-token",
        r"\bpypi-[A-Za-z0-9_-]{32,}",
        Mixed,
        concat!("pypi", "-AgEIcHlwaS5vcmcCJx2Lk0QmR7tYv3Bn5CdW8"),
    ),
    shape(
        "cargo-token",
        r"\bcio[A-Za-z0-9]{32}\b",
        Mixed,
        concat!("cio", "x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6"),
    ),
    shape(
        "rubygems-key",
        r"\brubygems_[a-f0-9]{48}",
        Always,
        concat!("rubygems", "_8d0c6f2ab94e7135d0c6f2ab94e71350d0c6f2ab94e71350"),
    ),
    shape(
        "huggingface-token",
        r"\b(?:hf|api_org)_[A-Za-z0-9]{30,}",
        Mixed,
        concat!("hf", "_x2LkQmRtYvBnCdWeFgHjKlMnPqZaBcDe1"),
    ),
    shape(
        "digitalocean-token",
        r"\bdo[opr]_v1_[a-f0-9]{64}",
        Always,
        concat!("dop_v1", "_8d0c6f2ab94e7135d0c6f2ab94e713508d0c6f2ab94e7135d0c6f2ab94e71350"),
    ),
    shape(
        "stripe-key",
        r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
        Always,
        concat!("sk_live", "_x2Lk0QmR7tYv3Bn5CdW8"),
    ),
    shape(
        "stripe-key",
        r"\bwhsec_[A-Za-z0-9+/=]{24,}",
        Always,
        concat!("whsec", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl"),
    ),
    shape(
        "sendgrid-key",
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        Mixed,
        concat!("SG", ".x2Lk0QmR7tYv3Bn5CdW8eg.FgH1jKl4Mn6Pq9x2Lk0QmR7tYv3B"),
    ),
    shape(
        "twilio-key",
        r"\bSK[a-f0-9]{32}\b",
        Always,
        concat!("SK", "8d0c6f2ab94e7135d0c6f2ab94e71350"),
    ),
    shape(
        "shopify-token",
        r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
        Always,
        concat!("shpat", "_8d0c6f2ab94e7135d0c6f2ab94e71350"),
    ),
    shape(
        "telegram-token",
        r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",
        Always,
        concat!("2048409600:AA", "Hx2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6"),
    ),
    shape(
        "vault-token",
        r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}",
        Mixed,
        concat!("hvs", ".CAESIx2Lk0QmR7tYv3Bn5CdW8eFg"),
    ),
    shape(
        "databricks-token",
        r"\bdapi[a-f0-9]{32}",
        Always,
        concat!("dapi", "8d0c6f2ab94e7135d0c6f2ab94e71350"),
    ),
    shape(
        "docker-token",
        r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
        Always,
        concat!("dckr_pat", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jK"),
    ),
    shape(
        "atlassian-token",
        r"\bATATT3[A-Za-z0-9_=-]{40,}",
        Always,
        concat!("ATATT3", "xFfGF0x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9z=AB12"),
    ),
    shape(
        "linear-key",
        r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}",
        Always,
        concat!("lin_api", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6"),
    ),
    shape(
        "provider-key",
        r"\b(?:gsk_|xai-|nvapi-|pplx-|r8_|tvly-|csk-|fw_)[A-Za-z0-9_-]{24,}",
        Mixed,
        concat!("gsk", "_x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl"),
    ),
    shape(
        "age-key",
        r"\bAGE-SECRET-KEY-1[A-Z0-9]{40,}",
        Always,
        concat!("AGE-SECRET", "-KEY-1X2LK0QMR7TYV3BN5CDW8EFGH1JKL4MN6PQ9X2LK0QMR7TYV3BN5CDW8E"),
    ),
    shape(
        "authorization",
        r#"(?i)\b(?:proxy-)?authorization["'\\]*\s*[:=]\s*["'\\]*(?:bearer|basic|token|apikey|digest|negotiate)\s+([A-Za-z0-9._~+/=-]{8,})"#,
        Always,
        concat!("Authorization: Bea", "rer x2Lk0QmR7tYv3Bn5"),
    ),
    shape(
        "authorization",
        r#"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{20,})"#,
        Mixed,
        concat!("-H 'Bea", "rer x2Lk0QmR7tYv3Bn5CdW8eF'"),
    ),
    shape(
        "api-key",
        r#"(?i)\b(?:x-api-key|x-goog-api-key|api-key|apikey|private-token|x-auth-token|x-access-token)["'\\]*\s*:\s*["'\\]*([A-Za-z0-9._~+/=-]{12,})"#,
        Mixed,
        concat!("x-api", "-key: x2Lk0QmR7tYv3Bn5"),
    ),
    shape(
        "cookie",
        r#"(?i)\b(?:set-)?cookie:\s*[A-Za-z0-9_.-]*(?:session|sess|sid|auth|token)[A-Za-z0-9_.-]*=([A-Za-z0-9._~+/=%-]{16,})"#,
        Mixed,
        concat!("Set-Coo", "kie: sessionid=x2Lk0QmR7tYv3Bn5CdW8"),
    ),
    shape(
        "url-password",
        r#"\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@"'<>\[\]{}]*:([^\s/@"'<>\[\]{}$]{3,})@"#,
        Always,
        concat!("postgres://user", ":hunter2!x@db.example/app"),
    ),
    shape(
        "netrc-password",
        r#"\b(?:machine\s+[^\s\[]+|default)\s+(?:(?:login|account)\s+[^\s\[]+\s+)*password\s+([^\s\["'$]{3,})"#,
        Always,
        concat!("machine git.example login me pass", "word hunter2!x"),
    ),
    shape(
        "password",
        r#"(?i)\b[A-Z0-9_.-]*passw(?:or)?d["'\\]*\s*(?:[:=]|=>)\s*["'\\]*([^\s"'\\$`(){}<>\[\];,&|]{8,})"#,
        Random,
        concat!("DB_PASS", "WORD=tR7!vB3#qL9x"),
    ),
    shape(
        "secret",
        r#"\b[A-Z0-9_]*(?:SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?|PASSPHRASE)[A-Z0-9_]*["']?\s*[:=]\s*["']?([^\s"'\\$`(){}<>\[\];,&|]{12,})"#,
        Random,
        concat!("DEPLOY_TO", "KEN=x2Lk0QmR7tYv3Bn5"),
    ),
    shape(
        "secret",
        r#"(?i)\b[a-z0-9_.-]*(?:secret|token|api[_-]?key|access[_-]?key|private[_-]?key|passphrase)["'\\]*\s*(?:[:=]|=>|:=)\s*\\?["']([^\s"'\\$`(){}<>\[\];,&|]{16,})["'\\]"#,
        Random,
        concat!("\"clientSec", "ret\": \"x2Lk0QmR7tYv3Bn5\""),
    ),
    shape(
        "secret",
        r#"(?im)^[ \t]*[a-z0-9_.-]*(?:secret|token|api[_-]?key|access[_-]?key|private[_-]?key|passphrase)[ \t]*[:=][ \t]*([^\s"'\\$`(){}<>\[\];,&|/]{16,})[ \t]*\r?$"#,
        Random,
        concat!("auth_to", "ken: x2Lk0QmR7tYv3Bn5CdW8"),
    ),
];

/// Whether a text that matched is likely to be a secret.
pub fn is_likely(likely: Likely, secret: &[u8]) -> bool {
    let digits = secret.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = secret.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    match likely {
        Likely::Always => true,
        Likely::Mixed => digits >= 1 && letters >= 4 && distinct(secret) >= 8,
        Likely::Random => {
            let others = secret.len() - digits - letters;
            digits + others >= 1
                && digits >= 1
                && letters >= 2
                && distinct(secret) >= 7
                && bits(secret) >= 2.8
                && !reads_as_code(secret)
        }
    }
}

/// Names with points, paths and times are no secrets: `self.tokens2.next`, `src/token2.rs`, `2026-01-01T00:00:00Z`.
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

fn distinct(bytes: &[u8]) -> usize {
    let mut seen = [false; 256];
    for byte in bytes {
        seen[usize::from(*byte)] = true;
    }
    seen.iter().filter(|seen| **seen).count()
}

/// The bits of information in a byte, by how often each occurs.
fn bits(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let all = bytes.len() as f64;
    let share = |count: u32| f64::from(count) / all;
    counts
        .into_iter()
        .filter(|count| *count > 0)
        .map(|count| -share(count) * share(count).log2())
        .sum()
}
