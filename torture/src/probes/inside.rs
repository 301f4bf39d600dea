//! What a probe knows and uses inside: its world's paths, what the outside told it, a few calls. It decides nothing about
//! what getting through means.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `Ok`: it got through. `Err`: what stopped it.
pub(super) type Through = Result<(), String>;

/// What is written where nothing may be.
pub(super) const MARK: &str = "a probe was here\n";

/// What the outside told a probe, as `key=value` words.
pub(super) struct Inside {
    values: BTreeMap<String, String>,
}

impl Inside {
    pub(super) fn read(words: &[String]) -> Self {
        let pairs = words.iter().filter_map(|word| word.split_once('='));
        Self { values: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect() }
    }

    pub(super) fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    pub(super) fn number<T: std::str::FromStr + Default>(&self, key: &str) -> T {
        self.text(key).parse().unwrap_or_default()
    }

    /// Whether there is a sandbox. Without, a probe keeps to victims of its own.
    pub(super) fn is_sandboxed(&self) -> bool {
        self.text("sandboxed") == "1"
    }

    pub(super) fn token(&self) -> &str {
        self.text("token")
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        Path::new(self.text("base")).join(path)
    }

    pub(super) fn tree(&self, path: &str) -> PathBuf {
        self.at("tree").join(path)
    }

    pub(super) fn victim_file(&self) -> PathBuf {
        self.at("outside/victim.txt")
    }

    /// The process that stands for nagent and for every other process of this user.
    pub(super) fn victim(&self) -> i32 {
        self.number("victim")
    }

    /// Tries each: without the sandbox all have to work, in the sandbox none may.
    pub(super) fn each<T: std::fmt::Debug>(
        &self,
        items: impl IntoIterator<Item = T>,
        attempt: impl Fn(&T) -> Through,
    ) -> Through {
        let (mut through, mut stopped) = (Vec::new(), Vec::new());
        for item in items {
            match attempt(&item) {
                Ok(()) => through.push(format!("{item:?}")),
                Err(why) => stopped.push(format!("{item:?}: {why}")),
            }
        }
        if !through.is_empty() && (self.is_sandboxed() || stopped.is_empty()) {
            say(&format!("through: {}", through.join(", ")));
            return Ok(());
        }
        Err(stopped.join("; "))
    }
}

/// Tries each until one works.
pub(super) fn any<T: std::fmt::Debug>(
    items: impl IntoIterator<Item = T>,
    attempt: impl Fn(&T) -> Through,
) -> Through {
    let mut stopped = Vec::new();
    for item in items {
        match attempt(&item) {
            Ok(()) => {
                say(&format!("through: {item:?}"));
                return Ok(());
            }
            Err(why) => stopped.push(format!("{item:?}: {why}")),
        }
    }
    Err(stopped.join("; "))
}

/// Says something to the outside, at once.
pub(super) fn say(line: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The last call's error, with a name.
pub(super) fn failed(what: &str) -> String {
    format!("{what}: {}", io::Error::last_os_error())
}

/// The result of a call that gives -1 when it fails.
pub(super) fn done(result: impl Into<i64>, what: &str) -> Result<i64, String> {
    let result = result.into();
    if result < 0 { Err(failed(what)) } else { Ok(result) }
}

pub(super) fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}

pub(super) fn ok<T>(result: io::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Writes at the end of a file, which is made if need be.
pub(super) fn write_to(path: impl AsRef<Path>) -> Through {
    ok(OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(MARK.as_bytes())))
}

/// Makes a file that is not there.
pub(super) fn create(path: impl AsRef<Path>) -> Through {
    ok(OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(MARK.as_bytes())))
}

/// Reads a file to the outside's eyes; it has a secret in it.
pub(super) fn read_from(path: impl AsRef<Path>) -> Through {
    let bytes = ok(std::fs::read(path))?;
    shown(&bytes)
}

/// Shows bytes that are to have a secret in them.
pub(super) fn shown(bytes: &[u8]) -> Through {
    let text = String::from_utf8_lossy(bytes);
    match text.find("SECRET-") {
        Some(at) => {
            say(text[at..].split(['\0', '\n', '"']).next().unwrap_or_default());
            Ok(())
        }
        None => Err("there is no secret in it".to_owned()),
    }
}

/// Runs a program; `Ok` when it ended well.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let out = std::process::Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if out.status.success() {
        return Ok(text);
    }
    Err(format!("{program}: {} {}", out.status, String::from_utf8_lossy(&out.stderr).trim()))
}
