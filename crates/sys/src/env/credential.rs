//! Decides which variables are credentials: by the words of their names, by their values, and by a password in a URL.
//!
//! A name is split into words at everything that is neither a letter nor a digit; a number at the end of a word is
//! dropped: `OPENAI_API_KEY_2` has `OPENAI`, `API` and `KEY`. At the end of a name a word says what the value is
//! (`DB_PASS`); before the end the name may be that of a setting (`PASS_MAX_DAYS`, `AUTH_MODE`), so a path, a plain
//! number, a plain address, yes and no are then let through.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

use conversation::redact;

/// Words for credentials; endings of words that are written together with others (`GITHUBTOKEN`, `PGPASSWORD`); other words
/// with the same endings (`ASKPASS` is a program); and words at the end of a name that describes a credential and does not hold
/// one. Split once: every variable is compared with them, several times in a run.
static WORDS: LazyLock<[Vec<&str>; 4]> = LazyLock::new(|| {
    [
        "KEY KEYS PAT PASS PW PWD AUTH AUTHORIZATION CRED CREDS JWT PASSCODE BEARER COOKIE DSN \
         MNEMONIC SAS WEBHOOK SK TOTP KEYCHAIN KEYSTORE",
        "TOKEN TOKENS SECRET SECRETS CREDENTIAL CREDENTIALS PASSWORD PASSWORDS PASSWD \
         PASSPHRASE PASS PWD AUTH APIKEY APIKEYS ACCESSKEY ACCOUNTKEY AUTHKEY DEPLOYKEY \
         ENCRYPTIONKEY LICENSEKEY MASTERKEY PRIVATEKEY PRIVKEY SECRETKEY SIGNINGKEY SSHKEY",
        "ASKPASS BYPASS COMPASS ENCOMPASS OAUTH OLDPWD OVERPASS SURPASS TRESPASS UNDERPASS XAUTH",
        "ALGORITHM METHOD MODE NAME PROVIDER SOCK TYPE",
    ]
    .map(|words| words.split_whitespace().collect())
});

/// The kind of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credential {
    /// Not a credential.
    No,
    /// A proxy address with a password. Commands get it.
    Proxy,
    /// A credential by a word before the end of its name.
    Likely,
    /// A credential by the end of its name, or by a password in its value.
    Sure,
}

/// The evidence that a name gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// None.
    None,
    /// The value is a credential if it can be one.
    Within,
    /// The value is a credential unless it is a yes or a no (`USE_AUTH`).
    Ends,
    /// The value is a credential unless it is a path (`HOST_PWD`).
    EndsUnlessPath,
    /// The value is a credential, whatever it is.
    Always,
}

impl Credential {
    /// Classifies a variable by its name and value.
    pub(super) fn classify(name: &OsStr, value: &OsStr) -> Self {
        let upper = name.to_string_lossy().to_ascii_uppercase();
        let value = value.as_bytes().trim_ascii();
        let is_credential = match classify_name(&upper) {
            Word::None => false,
            Word::Within if is_plain(value) || is_flag(value) => false,
            Word::Within if redact::url_password(value).is_none() => return Self::Likely,
            Word::Ends => !is_flag(value),
            Word::EndsUnlessPath => !value.starts_with(b"/"),
            Word::Within | Word::Always => true,
        };
        if is_credential {
            Self::Sure
        } else if redact::url_password(value).is_none() {
            Self::No
        } else if upper.ends_with("_PROXY") {
            Self::Proxy
        } else {
            Self::Sure
        }
    }

    /// Whether it is withheld from commands.
    pub(super) fn is_withheld(self) -> bool {
        matches!(self, Self::Likely | Self::Sure)
    }
}

/// The password in a variable's value, when that is an address.
pub(super) fn url_password(value: &OsStr) -> Option<&OsStr> {
    redact::url_password(value.as_bytes()).map(OsStr::from_bytes)
}

/// Returns the parts of a variable that are masked: its value, and the password of an address if it looks random.
pub(super) fn values_to_mask<'a>(
    name: &str,
    value: &'a str,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let what = Credential::classify(OsStr::new(name), OsStr::new(value));
    let is_word = value.len() < 16 && value.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_masked = match what {
        Credential::No => false,
        Credential::Likely => !is_word,
        Credential::Proxy | Credential::Sure => true,
    };
    let password = url_password(OsStr::new(value)).and_then(OsStr::to_str);
    let password = password.filter(|password| looks_random(password.as_bytes()));
    is_masked.then_some(value).into_iter().chain(password.filter(|_| is_masked))
}

/// Whether a password is a mixture of letters and digits, unlike a word that occurs in other texts as well.
fn looks_random(password: &[u8]) -> bool {
    let digits = password.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = password.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let different: HashSet<&u8> = password.iter().collect();
    digits >= 1 && letters >= 4 && different.len() >= 8
}

/// Classifies the words of a name in capitals.
fn classify_name(name: &str) -> Word {
    // `DESKTOP_SESSION` and the like are names; alone it is a cookie, and 1Password's is a key.
    if name == "SESSION" || name.starts_with("OP_SESSION_") {
        return Word::Always;
    }
    // git's names of its own settings; other variables have their values.
    if name == "PWD" || name == "OLDPWD" || name.starts_with("GIT_CONFIG_KEY_") {
        return Word::None;
    }
    let words: Vec<&str> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
        .collect();
    // A second one of a kind has a number.
    let kept = words.iter().rposition(|word| !word.is_empty()).map_or(0, |last| last + 1);
    let words = &words[..kept];
    let Some((last, before)) = words.split_last() else { return Word::None };
    // The address of a webhook is a credential: anybody who knows it can post.
    let is_webhook = matches!(*last, "URL" | "URI") && before.last() == Some(&"WEBHOOK");
    if is_webhook || *last == "ID" && before.last() == Some(&"KEY") {
        return Word::Always;
    }
    if WORDS[3].contains(last) {
        return Word::None;
    }
    if !is_credential_word(last) {
        let within = before.iter().any(|word| is_credential_word(word));
        return if within { Word::Within } else { Word::None };
    }
    match *last {
        // `MAX_TOKENS`.
        "KEYS" | "TOKENS" => Word::Within,
        "KEYCHAIN" | "KEYSTORE" => Word::EndsUnlessPath,
        last if last.ends_with("PWD") => Word::EndsUnlessPath,
        last if last.ends_with("PASS") || last.ends_with("AUTH") => Word::Ends,
        _ => Word::Always,
    }
}

fn is_credential_word(word: &str) -> bool {
    let [words, ends, others, _] = &*WORDS;
    words.contains(&word) || ends.iter().any(|end| word.ends_with(end)) && !others.contains(&word)
}

/// Whether a value is yes, no, or nothing.
fn is_flag(value: &[u8]) -> bool {
    let flags: [&[u8]; 9] = [b"", b"0", b"1", b"true", b"false", b"yes", b"no", b"on", b"off"];
    flags.iter().any(|flag| value.eq_ignore_ascii_case(flag))
}

/// Whether a value is a path, a number, or an address.
fn is_plain(value: &[u8]) -> bool {
    let is_blank = value.iter().any(u8::is_ascii_whitespace);
    let is_path =
        [b"/".as_slice(), b"~/", b"./", b"../"].iter().any(|start| value.starts_with(start));
    let is_address =
        [b"http://".as_slice(), b"https://"].iter().any(|start| value.starts_with(start))
            && redact::url_password(value).is_none();
    let is_number = value.len() <= 9 && value.iter().all(u8::is_ascii_digit);
    !is_blank && (is_path || is_address) || is_number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expect: bool, variables: &[(&str, &str)]) {
        for (name, value) in variables {
            for name in [(*name).to_owned(), name.to_ascii_lowercase()] {
                let got = Credential::classify(OsStr::new(&name), OsStr::new(value)).is_withheld();
                assert_eq!(got, expect, "{name}={value}");
            }
        }
    }

    /// Names alone: with a value that could be anything.
    fn check_names(expect: bool, names: &str) {
        for name in names.split_whitespace() {
            check(expect, &[(name, "x2Lk0QmR7tYv"), (name, "a word or two")]);
        }
    }

    #[test]
    fn names_that_say_it() {
        check_names(
            true,
            "OPENAI_API_KEY OPENAI_API_KEYS OPENAI_API_KEY_2 OPENAI_API_KEY2 OPENAI_API_KEY_BACKUP GITHUB_TOKEN TOKEN
             TOKEN_GITHUB GITHUBTOKEN GITHUB_TOKEN_RW NGROK_AUTHTOKEN npm_config__authToken MY_SECRET MY_SECRETS
             SECRET_KEY_BASE CLIENTSECRET AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN STRIPE_KEY
             DB_PASSWORD DB_PASSWORDS PGPASSWORD PASSWORD_OF_DB MYSQL_PWD MYSQLPWD DB_PASSWD KEY_PASSPHRASE SSHPASS
             BOT_PASS BOT_PASS_2 PASS DB_USERPASS LDAP_BIND_PW NPM_AUTH DOCKER_AUTH_CONFIG REDISCLI_AUTH BASIC_AUTH
             COMPOSER_AUTH HTTP_AUTHORIZATION GH_PAT PAT GITHUB_PAT_CI ANTHROPIC_AUTH_TOKEN TS_AUTHKEY
             SESSION STRIPE_SK TOTP_SEED TOTP
             GOOGLE_APPLICATION_CREDENTIALS AWS_CREDS SUPABASE_JWT STORAGE_ACCOUNTKEY MY-APP-TOKEN my.app.token",
        );
        // Whatever the value is.
        check(
            true,
            &[
                ("A_TOKEN", "1"),
                ("DB_PASSWORD", "1234"),
                ("DB_PASS", "1234"),
                ("REDISCLI_AUTH", "123456"),
                ("SSH_KEY", "/home/me/.ssh/id"),
                ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"),
                ("BOT_PASS", "/starts/like/a/path"),
                ("DOCKER_AUTH_CONFIG", "{\"auths\":{}}"),
                ("TOKEN_URL", "https://me:hunter2!x@host/"),
                ("OP_SESSION_my", "x2Lk0QmR7tYv"),
                ("KEYCHAIN", "x2Lk0QmR7tYv"),
                ("ANDROID_KEYSTORE", "MIIJqgIBAzCC"),
            ],
        );
    }

    #[test]
    fn names_that_do_not_say_it() {
        check_names(
            false,
            "PATH HOME PWD OLDPWD USER SHELL LANG TERM DISPLAY EDITOR TMPDIR HOSTNAME MAIL LS_COLORS INIT_CWD
             SSH_AUTH_SOCK XAUTHORITY XAUTH GPG_TTY GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS SSH_ASKPASS_REQUIRE
             TOKENIZERS_PARALLELISM KEYBOARD KEYBOARD_LAYOUT KEYMAP XKB_KEYMAP KEYTIMEOUT LESSKEY MONKEY MONKEYS HOTKEY
             COMPASS COMPASS_DIRECTION BYPASS CSRF_BYPASS PASSENGER_ENV PATTERN PATCH COMPAT KEEPALIVE KEYRING
             GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME AUTHOR AUTHORS GIT_CONFIG_KEY_0 GIT_CONFIG_COUNT
             NAGENT_ROOT NAGENT_WITHHELD NAGENT_PARENTS NIXPKGS_PATH SECRETARY TOKENIZER OAUTH_SCOPE SSLKEYLOGFILE
             AUTH_MODE AUTH_TYPE KEY_NAME TOKEN_TYPE DESKTOP_SESSION XDG_SESSION_ID SESSION_MANAGER RANDOM_SEED CARGO_HOME RUSTFLAGS NODE_OPTIONS PYTHONPATH VIRTUAL_ENV CI",
        );
        // By their values.
        check(
            false,
            &[
                ("MAX_TOKENS", "200000"),
                ("PASS_MAX_DAYS", "99999"),
                ("PASSWORD_LENGTH", "12"),
                ("USE_AUTH", "true"),
                ("SINGLE_PASS", "1"),
                ("AUTH_DISABLED", "yes"),
                ("HOST_PWD", "/home/me/project"),
                ("KEYSTORE", "/home/me/app.jks"),
                ("SSH_KEY_PATH", "/home/me/.ssh/id"),
                ("SSH_KEY_FILE", "~/.ssh/id"),
                ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token"),
                ("PASSWORD_STORE_DIR", "/home/me/.password-store"),
                ("NEXTAUTH_URL", "http://localhost:3000"),
            ],
        );
    }

    #[test]
    fn a_password_in_an_address_is_one_whatever_the_name() {
        check(
            true,
            &[
                ("DATABASE_URL", "postgres://me:hunter2@localhost:5432/app"),
                ("CACHE", "redis://:hunter2@localhost/0"),
                ("JDBC", "jdbc:postgresql://me:hunter2@db/app"),
                ("BROKERS", "amqp://a/,amqp://me:hunter2@b/"),
                ("PIP_INDEX_URL", "https://me:hunter2@index.example/simple"),
                ("GOPROXY", "https://me:hunter2@goproxy.example"),
                ("JDBC", "jdbc:postgresql://db/app?user=me&password=hunter2"),
                ("SQL", "jdbc:sqlserver://db;user=me;Password=hunter2;"),
                ("ADO", "Server=db;User Id=me;Password=hunter2"),
            ],
        );
        check(
            false,
            &[
                ("DATABASE_URL", "postgres://localhost:5432/app"),
                ("DATABASE_URL", "postgres://me@localhost:5432/app"),
                ("DATABASE_URL", "postgres://me:$DB@localhost/app"),
                ("FORM", "https://example.com/?password=$PW"),
                ("JAVA_OPTS", "-Dpassword=x -Da=b"),
                ("HOMEPAGE", "https://example.com:8080/a@b"),
                ("REMOTE", "git@github.com:owner/name.git"),
                // Proxies are let through.
                ("http_proxy", "http://me:hunter2@proxy.example:3128"),
                ("https_proxy", "http://me:hunter2@proxy.example:3128"),
                ("all_proxy", "socks5h://me:hunter2@proxy.example:1080"),
                ("npm_config_proxy", "http://me:hunter2@proxy.example:3128"),
                ("no_proxy", "localhost,.example"),
            ],
        );
    }

    #[test]
    fn what_is_no_text_is_judged_all_the_same() {
        let name = OsStr::from_bytes(b"\xff_TOKEN");
        let value = OsStr::from_bytes(b"xy://a:\xff\xfe\xfd@h");
        assert_eq!(Credential::classify(name, OsStr::new("x")), Credential::Sure);
        assert_eq!(Credential::classify(OsStr::new("A"), value), Credential::Sure);
        assert_eq!(Credential::classify(OsStr::new("_"), OsStr::new("")), Credential::No);
        assert_eq!(Credential::classify(OsStr::new(""), OsStr::new("")), Credential::No);
    }
}
