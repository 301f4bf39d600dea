//! Finds the tokens of code, line by line while it arrives, by the highlight queries of the grammars. Pure.
//!
//! tree-sitter keeps the tree of the lines before, so that each costs about the same; tree-sitter-highlight would parse all of
//! them again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use tree_sitter::{
    InputEdit, ParseOptions, ParseState, Parser, Point, Query, QueryCursor, StreamingIterator, Tree,
};

use super::grammar::is_deep_yaml;
use super::kinds;
use super::language::Language;

/// The queries that were compiled: that takes long.
static QUERIES: Mutex<BTreeMap<Language, Option<&'static Query>>> = Mutex::new(BTreeMap::new());

/// A text that grows, and its tree.
pub struct Highlighter {
    language: Language,
    query: &'static Query,
    parser: Parser,
    text: String,
    tree: Option<(Tree, usize)>,
    steps: usize,
}

impl Highlighter {
    /// A highlighter for a language, with an empty text. `None` if there is no grammar.
    pub fn new(language: Language) -> Option<Self> {
        let mut parser = Parser::new();
        parser.set_language(&kinds::grammar(language)?).ok()?;
        let query = find_query(language)?;
        Some(Self { language, query, parser, text: String::new(), tree: None, steps: 0 })
    }

    /// Appends a line, without its line feed, and returns the name that the query has for each of its bytes, or "".
    /// `None` if the text would have more bytes than this, or if the parser needs too much effort.
    pub fn push_line(&mut self, line: &str, most: usize) -> Option<Vec<&'static str>> {
        let from = self.text.len();
        self.text.extend([line, "\n"]);
        let source = self.text.clone() + find_open(self.language, &self.text);
        let is_yaml = self.language == Language::Yaml;
        if source.len() > most || is_yaml && is_deep_yaml(source.as_bytes()) {
            return None;
        }
        if let Some((tree, end)) = &mut self.tree {
            let start_position = Point::new(tree.root_node().end_position().row, 0);
            tree.edit(&InputEdit {
                start_byte: from,
                old_end_byte: *end,
                new_end_byte: source.len(),
                start_position,
                old_end_position: start_position,
                new_end_position: Point::new(start_position.row + 1, 0),
            });
        }
        // Real code needs two steps for a line; what is not code of its language hundreds, and more with each line.
        let most = 50 + source.len() / 4;
        let mut progress = |_: &ParseState| {
            self.steps += 1;
            if self.steps > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let mut read = |at: usize, _| source.as_bytes().get(at..).unwrap_or_default();
        let old = self.tree.as_ref().map(|(tree, _)| tree);
        let tree = self.parser.parse_with_options(&mut read, old, Some(options))?;
        let mut names = vec![""; line.len()];
        let mut cursor = QueryCursor::new();
        cursor.set_byte_range(from..source.len());
        let mut captures = cursor.captures(self.query, tree.root_node(), source.as_bytes());
        // Inner nodes come after outer ones, and the special patterns of a query after its general ones.
        while let Some((found, index)) = captures.next() {
            let capture = found.captures()[*index];
            let range = capture.node.byte_range();
            let part = range.start.max(from) - from..range.end.saturating_sub(from).min(line.len());
            let name = self.query.capture_names()[capture.index as usize];
            names.get_mut(part).into_iter().for_each(|bytes| bytes.fill(name));
        }
        drop(captures);
        self.tree = Some((tree, source.len()));
        Some(names)
    }
}

fn find_query(language: Language) -> Option<&'static Query> {
    let compile = || {
        let query = Query::new(&kinds::grammar(language)?, &query_text(language)?).ok()?;
        Some(&*Box::leak(Box::new(query)))
    };
    let mut queries = QUERIES.lock().unwrap_or_else(PoisonError::into_inner);
    *queries.entry(language).or_insert_with(compile)
}

/// The end of a comment or string that is open behind a text: it is parsed as if it ended there. It may be wrong, as after
/// `"src/*"`: that costs no more than an error behind the text.
fn find_open(language: Language, text: &str) -> &'static str {
    match language {
        Language::Python | Language::Toml if text.matches("\"\"\"").count() % 2 == 1 => "\"\"\"",
        Language::Python | Language::Toml | Language::Shell | Language::Yaml => "",
        _ if text.rfind("/*") > text.rfind("*/") => "*/",
        _ => "",
    }
}

/// The query of a language, which may continue that of another.
fn query_text(language: Language) -> Option<String> {
    let script = tree_sitter_javascript::HIGHLIGHT_QUERY;
    let parts: &[&str] = match language {
        Language::C => &[tree_sitter_c::HIGHLIGHT_QUERY],
        Language::Cpp => &[tree_sitter_c::HIGHLIGHT_QUERY, tree_sitter_cpp::HIGHLIGHT_QUERY],
        Language::Go => &[tree_sitter_go::HIGHLIGHTS_QUERY],
        Language::Html => &[tree_sitter_html::HIGHLIGHTS_QUERY],
        Language::Java => &[tree_sitter_java::HIGHLIGHTS_QUERY],
        Language::JavaScript => &[script, tree_sitter_javascript::JSX_HIGHLIGHT_QUERY],
        Language::Json => &[tree_sitter_json::HIGHLIGHTS_QUERY],
        Language::Python => &[tree_sitter_python::HIGHLIGHTS_QUERY],
        Language::Rust => &[tree_sitter_rust::HIGHLIGHTS_QUERY],
        Language::Shell => &[tree_sitter_bash::HIGHLIGHT_QUERY],
        Language::Toml => &[tree_sitter_toml_ng::HIGHLIGHTS_QUERY],
        Language::TypeScript | Language::Tsx => &[script, tree_sitter_typescript::HIGHLIGHTS_QUERY],
        Language::Xml => &[tree_sitter_xml::XML_HIGHLIGHT_QUERY],
        Language::Yaml => &[tree_sitter_yaml::HIGHLIGHTS_QUERY],
        Language::Text | Language::Markdown | Language::JsonLines | Language::Csv => return None,
    };
    Some(parts.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_each_language_are_found() {
        let check = |language: Language, text: &str, expect: &[(&str, &str)]| {
            let mut highlighter = Highlighter::new(language).expect("a query that fits");
            let mut found = Vec::new();
            for line in text.lines() {
                let names = highlighter.push_line(line, 1 << 10).unwrap();
                let mut end = 0;
                for part in names.chunk_by(|one, next| one == next) {
                    end += part.len();
                    let class = part[0].split('.').next().unwrap_or_default();
                    found.push((&line[end - part.len()..end], class));
                }
            }
            for one in expect {
                assert!(found.contains(one), "{language:?}: {one:?} in {found:?}");
            }
        };
        let (key, string, comment) = ("keyword", "string", "comment");
        check(
            Language::Rust,
            "/* a\nb */\nfn f() -> u8 { 1 }",
            &[
                ("/* a", comment),
                ("b */", comment),
                ("fn", key),
                ("f", "function"),
                ("u8", "type"),
                ("1", "constant"),
            ],
        );
        check(
            Language::Python,
            "def f(x):\n    return \"a\"  # b",
            &[
                ("def", key),
                ("f", "function"),
                ("return", key),
                ("\"a\"", string),
                ("# b", comment),
            ],
        );
        check(
            Language::Python,
            "def f():\n    \"\"\"a if b\n    if",
            &[("\"\"\"a if b", string), ("    if", string)],
        );
        check(Language::C, "int x = 1; // a", &[("int", "type"), ("// a", comment)]);
        check(Language::Cpp, "class A {};\nreturn;", &[("class", key), ("return", key)]);
        check(Language::Go, "func f() {\n\treturn\n}", &[("func", key), ("return", key)]);
        check(Language::Html, "<a href=\"b\">c</a>", &[("a", "tag"), ("href", "attribute")]);
        check(Language::Java, "class A { int b = 1; }", &[("class", key), ("A", "type")]);
        check(Language::JavaScript, "const a = \"b\";", &[("const", key), ("\"b\"", string)]);
        check(Language::TypeScript, "let a: string = 'b';", &[("let", key), ("'b'", string)]);
        check(Language::Tsx, "let a: string = 'b';", &[("let", key)]);
        check(Language::Json, "{\"a\": \"b\", \"c\": 1}", &[("\"b\"", string), ("1", "number")]);
        check(Language::Shell, "if a; then echo \"b\"; fi", &[("if", key), ("\"b\"", string)]);
        check(Language::Toml, "a = \"b\"", &[("\"b\"", string)]);
        check(Language::Xml, "<a b=\"c\"/>", &[("a", "tag"), ("b", "property")]);
        check(Language::Yaml, "a: \"b\" # c", &[("\"b\"", string), ("# c", comment)]);
    }

    /// A deep tree has made a scanner write past its memory, and broken code takes long.
    #[test]
    fn what_cannot_be_parsed_has_no_tokens() {
        let mut yaml = Highlighter::new(Language::Yaml).unwrap();
        assert_eq!(yaml.push_line(&"- ".repeat(300), 1 << 10), None);
        assert!(Highlighter::new(Language::Text).is_none());
        for language in [Language::Rust, Language::JavaScript, Language::Cpp, Language::Shell] {
            for line in ["((((((((", "{{{{{ <<<<", "\"'`\u{0}é", "if (a {"] {
                let mut broken = Highlighter::new(language).unwrap();
                let is_shown = |_: &usize| broken.push_line(line, 1 << 14).is_some();
                assert!((0..10_000).take_while(is_shown).count() < 2_000);
            }
            let mut short = Highlighter::new(language).unwrap();
            assert!(short.push_line("é if", 6).is_some());
            assert!(short.push_line("", 6).is_none());
        }
    }
}
