//! What a file is, by its name and by its first bytes; what a type is called. It reads no file.

/// A type of file that is cut by rules of its own.
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

/// Every type with its name in an index and on the command line, and the endings of file names that mean it. The first
/// name is the type's own, the others are taken for it.
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

    /// The type that a word means: a type's name or an ending, with or without its dot, in any case.
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
