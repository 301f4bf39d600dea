//! Detects the type of a file by its name, then by `#!`, then by its first bytes. It reads no file.

use super::character::Unit;

/// A file type with its own rules for cutting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it; NAMES has their spellings")]
pub enum Language {
    Text,
    Markdown,
    Python,
    Rust,
    JavaScript,
    TypeScript,
    Tsx,
    Json,
    JsonLines,
    Yaml,
    Xml,
    Html,
    Go,
    Java,
    C,
    Cpp,
    Shell,
    Toml,
    Csv,
}

/// Every type with its names in an index and on the command line (its own name first), and the file name extensions
/// that mean it.
pub const NAMES: [(Language, &[&str], &[&str]); 19] = [
    (Language::Text, &["txt", "text"], &["txt", "text", "log"]),
    (Language::Markdown, &["md", "markdown"], &["md", "markdown", "mdown", "mkd", "mdx"]),
    (Language::Python, &["py", "python"], &["py", "pyw", "pyi"]),
    (Language::Rust, &["rs", "rust"], &["rs"]),
    (Language::JavaScript, &["js", "javascript"], &["js", "mjs", "cjs", "jsx"]),
    (Language::TypeScript, &["ts", "typescript"], &["ts", "mts", "cts"]),
    (Language::Tsx, &["tsx"], &["tsx"]),
    (Language::Json, &["json"], &["json", "jsonc", "json5", "ipynb", "geojson", "webmanifest"]),
    (Language::JsonLines, &["jsonl"], &["jsonl", "ndjson"]),
    (Language::Yaml, &["yaml"], &["yaml", "yml"]),
    (Language::Xml, &["xml"], &["xml", "svg", "rss", "atom", "xsd", "xsl", "xslt", "plist"]),
    (Language::Html, &["html"], &["html", "htm", "xhtml"]),
    (Language::Go, &["go"], &["go"]),
    (Language::Java, &["java"], &["java"]),
    (Language::C, &["c"], &["c", "h"]),
    (
        Language::Cpp,
        &["cpp", "c++"],
        &["cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "ipp", "inl"],
    ),
    (Language::Shell, &["sh", "shell"], &["sh", "bash", "bats"]),
    (Language::Toml, &["toml"], &["toml"]),
    (Language::Csv, &["csv"], &["csv", "tsv"]),
];

impl Language {
    /// The name in an index and on the command line.
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(language, ..)| *language == self)
            .map_or("txt", |(_, names, _)| names[0])
    }

    /// The type for a word: a type's name or an extension, with or without its dot, in any case.
    pub fn from_name(word: &str) -> Option<Self> {
        let word = word.trim_start_matches('.').to_ascii_lowercase();
        NAMES
            .iter()
            .find(|(_, names, endings)| {
                names.contains(&word.as_str()) || endings.contains(&word.as_str())
            })
            .map(|(language, ..)| *language)
    }
}

/// The detected type of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// Its type; [`Language::Text`] for data that is not text.
    pub language: Language,
    /// The unit of its characters.
    pub unit: Unit,
    /// False for data that is not text, and for UTF-16 and UTF-32, which are cut by size alone.
    pub is_text: bool,
    /// A note for the user about the detection.
    pub note: Option<&'static str>,
}

/// Detects the type of a file from its name and its first bytes; pass at least some thousand bytes if the file has
/// them.
pub fn detect(file_name: &str, head: &[u8]) -> Detected {
    let (unit, is_text, note) = encoding(head);
    let language = if is_text { by_name(file_name, head) } else { Language::Text };
    Detected { language, unit, is_text, note }
}

fn encoding(head: &[u8]) -> (Unit, bool, Option<&'static str>) {
    const UTF_16: Option<&str> = Some(
        "UTF-16, which is split by size, between characters; convert it with iconv -f UTF-16 -t UTF-8 to split it by its structure",
    );
    const BINARY: Option<&str> = Some("binary, which is split by size");
    const LEGACY: Option<&str> =
        Some("not UTF-8; its bytes stay as they are, and only ASCII characters are recognized");
    // Two zero bytes after the mark mean UTF-32.
    let is_wide = head.starts_with(b"\xff\xfe\0\0");
    if !is_wide && (head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff")) {
        return (Unit::Two { little: head[0] == 0xff }, false, UTF_16);
    }
    // The positions of NUL bytes reveal UTF-16 that is mostly ASCII.
    let probe = &head[..head.len().min(4096) / 4 * 4];
    let mut nul = [0usize; 4];
    for quad in probe.chunks_exact(4) {
        for (count, byte) in nul.iter_mut().zip(quad) {
            *count += usize::from(*byte == 0);
        }
    }
    let most = probe.len() / 4 * 2 / 5;
    let [a, b, c, d] = nul.map(|count| count > most && most > 0);
    let none = nul.map(|count| count == 0);
    match () {
        () if b && d && none[0] && none[2] => (Unit::Two { little: true }, false, UTF_16),
        () if a && c && none[1] && none[3] => (Unit::Two { little: false }, false, UTF_16),
        () if head.contains(&0) => (Unit::Four, false, BINARY),
        () => {
            let invalid: usize = head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
            let is_control =
                |byte: &&u8| **byte < 0x20 && !matches!(byte, b'\t'..=b'\r' | 0x1b | 8);
            let controls = head.iter().filter(is_control).count();
            // The head may end within a character.
            match () {
                () if controls > head.len() / 10 => (Unit::Four, false, BINARY),
                () if invalid > head.len() / 3 && controls > 0 => (Unit::Four, false, BINARY),
                () if invalid > 3 => (Unit::Byte, true, LEGACY),
                () => (Unit::Byte, true, None),
            }
        }
    }
}

const SHELL_NAMES: &str = ".bashrc .bash_profile .bash_aliases .bash_login .bash_logout .profile .zshrc .zshenv \
                           .zprofile .kshrc .envrc pkgbuild";

fn by_name(file_name: &str, head: &[u8]) -> Language {
    let name = file_name.to_ascii_lowercase();
    match name.as_str() {
        "cargo.lock" | "poetry.lock" | "pipfile" => return Language::Toml,
        "makefile" | "dockerfile" => return Language::Text,
        name if SHELL_NAMES.split(' ').any(|known| known == name) => return Language::Shell,
        _ => {}
    }
    let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
    let by_ending = ending.and_then(|(_, ending)| {
        NAMES.iter().find(|(.., endings)| endings.contains(&ending)).map(|(language, ..)| *language)
    });
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    match by_ending {
        Some(Language::Json) if is_json_lines(text) => Language::JsonLines,
        Some(Language::C) if ending.is_some_and(|(_, e)| e == "h") && is_cpp(text) => Language::Cpp,
        // Translations of Qt and tile sets of Tiled also have these extensions.
        Some(Language::TypeScript | Language::Tsx) if is_xml(text) => Language::Xml,
        Some(language) => language,
        None => by_content(text),
    }
}

fn by_content(text: &[u8]) -> Language {
    if let Some(rest) = text.strip_prefix(b"#!") {
        return interpreter(rest);
    }
    let start = text.trim_ascii_start();
    let begins = |word: &str| {
        start.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()))
    };
    match start.first() {
        Some(b'<') if is_xml(text) => Language::Xml,
        Some(b'<') if begins("<!doctype html") || begins("<html") => Language::Html,
        Some(b'{' | b'[') if is_json_lines(text) => Language::JsonLines,
        Some(b'{' | b'[') if is_json(start) => Language::Json,
        Some(b'-') if is_yaml(start) => Language::Yaml,
        _ => Language::Text,
    }
}

fn interpreter(text: &[u8]) -> Language {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let mut words =
        words.skip_while(|word| *word == "env" || word.starts_with('-') || word.contains('='));
    let program = words.next().unwrap_or_default();
    match program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "sh" | "bash" | "dash" | "ash" | "ksh" | "zsh" | "bats" => Language::Shell,
        "python" | "pypy" | "uv" => Language::Python,
        "node" | "nodejs" | "bun" => Language::JavaScript,
        "deno" | "ts-node" | "tsx" => Language::TypeScript,
        _ => Language::Text,
    }
}

fn is_xml(text: &[u8]) -> bool {
    let start = text.trim_ascii_start();
    start.starts_with(b"<?xml") || start.starts_with(b"<!DOCTYPE TS>")
}

/// Whether a text that begins with a brace or a bracket continues as JSON does.
fn is_json(start: &[u8]) -> bool {
    let next = start[1..].trim_ascii_start().first();
    match (start[0], next) {
        (b'{', Some(next)) => matches!(next, b'"' | b'}'),
        (b'[', Some(next)) => {
            matches!(next, b'"' | b'{' | b'[' | b']' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
        }
        _ => false,
    }
}

/// Whether the first two lines that are not blank are an object or a list each.
fn is_json_lines(text: &[u8]) -> bool {
    let mut lines =
        text.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let is_value = |line: &[u8]| {
        matches!(line.trim_ascii().first(), Some(b'{' | b'['))
            && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
    };
    lines.next().is_some_and(is_value)
        && lines.next().is_some_and(|line| {
            // The head may end within the line.
            is_value(line) || !line.ends_with(b"\n") && matches!(line.first(), Some(b'{' | b'['))
        })
}

/// Whether a document mark is followed by a key or an item.
fn is_yaml(start: &[u8]) -> bool {
    let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let is_content = |line: &&[u8]| !line.is_empty() && !line.starts_with(b"#");
    lines.next() == Some(b"---")
        && lines.find(is_content).is_some_and(|line| {
            line.starts_with(b"- ")
                || line.ends_with(b":")
                || line.windows(2).any(|pair| pair == b": ")
        })
}

/// Whether a header file has a line that only C++ has.
fn is_cpp(text: &[u8]) -> bool {
    const WORDS: &str = "class |namespace |template|using |public:|private:|protected:|inline namespace |constexpr ";
    const HEADERS: &str =
        "<string> <vector> <memory> <iostream> <map> <utility> <type_traits> <functional>";
    let text = String::from_utf8_lossy(text);
    text.lines().map(str::trim_start).any(|line| {
        WORDS.split('|').any(|word| line.starts_with(word))
            || line.starts_with("#include")
                && HEADERS.split(' ').any(|header| line.contains(header))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_endings() {
        for (language, names, endings) in NAMES {
            assert_eq!(language.name(), names[0]);
            for word in names.iter().chain(endings) {
                assert_eq!(Language::from_name(&word.to_uppercase()), Some(language), "{word}");
            }
        }
        assert_eq!(Language::from_name(".py"), Some(Language::Python));
        assert_eq!(Language::from_name("cobol"), None);
    }

    #[test]
    fn what_a_file_is() {
        let check = |name: &str, head: &str, expect: Language| {
            let got = detect(name, head.as_bytes());
            assert_eq!((got.language, got.note), (expect, None), "{name} {head}");
        };
        check("a.PY", "", Language::Python);
        check("a.tar.rs", "{}", Language::Rust);
        check("Makefile", "#!/bin/sh", Language::Text);
        check(".bashrc", "", Language::Shell);
        check(".py", "", Language::Text);
        check("x", "#!/usr/bin/env -S python3.11 -u\n", Language::Python);
        check("x", "#! /bin/bash\n", Language::Shell);
        check("x", "#!/usr/bin/env node\n", Language::JavaScript);
        check("x", "#!/usr/bin/perl\n", Language::Text);
        check("x.conf", "\u{feff}<?xml version='1.0'?>", Language::Xml);
        check("x", "\n<!DOCTYPE html>", Language::Html);
        check("x", "{\n \"a\": 1}", Language::Json);
        check("x", "[section]\na = 1", Language::Text);
        check("x", "{% if a %}", Language::Text);
        check("x", "---\n# c\na: b\n", Language::Yaml);
        check("x", "---\nwords\n", Language::Text);
        check("a.json", "{\"a\": 1}\n{\"a\": 2}\n", Language::JsonLines);
        check("a.json", "{\"a\": 1}\n{\"a\":", Language::JsonLines);
        check("a.json", "{\"a\": 1}\n", Language::Json);
        check("a.json", "[\n{\"a\": 1},\n{}]\n", Language::Json);
        check("a.h", "#ifndef A\nint f(void);\n", Language::C);
        check("a.h", "#include <vector>\n", Language::Cpp);
        check("a.h", "  namespace a {\n", Language::Cpp);
        check("a.ts", "<?xml version=\"1.0\"?><!DOCTYPE TS>", Language::Xml);
        check("a.ts", "<T>x", Language::TypeScript);
    }

    #[test]
    fn what_is_no_text() {
        let check = |head: &[u8], unit: Unit, note: &str| {
            let got = detect("a.py", head);
            assert_eq!(
                (got.language, got.unit, got.is_text),
                (Language::Text, unit, false),
                "{head:?}"
            );
            assert!(got.note.unwrap().starts_with(note), "{got:?}");
        };
        let wide = |bytes: &[u8], width: usize, little: bool| -> Vec<u8> {
            let fill = vec![0; width - 1];
            let one = |byte: &u8| {
                if little { [&[*byte][..], &fill].concat() } else { [&fill[..], &[*byte]].concat() }
            };
            bytes.iter().flat_map(one).collect()
        };
        let text = b"import this and that\n";
        check(&wide(text, 2, true), Unit::Two { little: true }, "UTF-16");
        check(&wide(text, 2, false), Unit::Two { little: false }, "UTF-16");
        check(&wide(text, 4, true), Unit::Four, "binary");
        check(&wide(text, 4, false), Unit::Four, "binary");
        check(b"\xff\xfe\x3d\xd8", Unit::Two { little: true }, "UTF-16");
        check(b"\xff\xfe\0\0a\0\0\0", Unit::Four, "binary");
        check(b"\x7fELF\x02\x01\x01\0\0\0", Unit::Four, "binary");
        check(b"\x01\x02\xff\xfe\xf0\xf1", Unit::Four, "binary");
        let latin = detect("a.py", b"# d\xe9j\xe0 vu \xe9\xe8\n");
        assert!(latin.is_text && latin.language == Language::Python && latin.note.is_some());
    }
}
