//! Finds the tokens of code line by line, while it arrives, by the highlight queries of the grammars. Pure.
//!
//! tree-sitter keeps the tree of the lines before, so that each costs about the same; a library that highlights whole
//! texts, such as tree-sitter-highlight, would parse all of them again for each line.

use std::ops::{ControlFlow, Range};

use tree_sitter::{
    InputEdit, ParseOptions, ParseState, Parser, Point, Query, QueryCursor, StreamingIterator, Tree,
};

use super::grammar::is_deep_yaml;
use super::kinds;
use super::language::Language;

/// Effort for a line, in steps of a hundred operations of the parser, and for several that need more. Real code needs two;
/// what is not code of its language needs hundreds, and more with each line.
const LINE_STEPS: usize = 6;
const MAX_STEPS: usize = 50;

/// A class of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Token {
    Comment,
    Constant,
    Function,
    Keyword,
    Name,
    String,
    Type,
}

/// The beginnings of the names that queries have for tokens.
const NAMES: [(&str, Token); 13] = [
    ("attribute", Token::Name),
    ("boolean", Token::Constant),
    ("comment", Token::Comment),
    ("constant", Token::Constant),
    ("constructor", Token::Type),
    ("function", Token::Function),
    ("keyword", Token::Keyword),
    ("label", Token::Name),
    ("number", Token::Constant),
    ("property", Token::Name),
    ("string", Token::String),
    ("tag", Token::Keyword),
    ("type", Token::Type),
];

/// Finds the tokens of a text that grows.
pub struct Highlighter {
    language: Language,
    parser: Parser,
    query: Query,
    /// The tokens of the query's captures, by their number.
    tokens: Vec<Option<Token>>,
    text: String,
    /// The end of a comment or string of several lines that is open: it is parsed as if it ended here.
    closer: &'static str,
    tree: Option<Tree>,
    /// The steps that are left.
    steps: usize,
}

impl Highlighter {
    /// A highlighter for a language, with an empty text. `None` if there is no grammar.
    pub fn new(language: Language) -> Option<Self> {
        let grammar = kinds::grammar(language)?;
        let mut parser = Parser::new();
        parser.set_language(&grammar).ok()?;
        let query = Query::new(&grammar, &query_text(language)?).ok()?;
        let token_of = |name: &&str| {
            NAMES.iter().find(|(known, _)| name.starts_with(known)).map(|(_, token)| *token)
        };
        let tokens = query.capture_names().iter().map(token_of).collect();
        Some(Self {
            language,
            parser,
            query,
            tokens,
            text: String::new(),
            closer: "",
            tree: None,
            steps: MAX_STEPS,
        })
    }

    /// Forgets the text.
    pub fn clear(&mut self) {
        self.text.clear();
        (self.closer, self.tree, self.steps) = ("", None, MAX_STEPS);
    }

    /// The length of the text, in bytes.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Appends a line, without its line feed, and returns its tokens in order. `None` if the text cannot be parsed.
    pub fn push_line(&mut self, line: &str) -> Option<Vec<(Range<usize>, Token)>> {
        let before = self.text.len();
        let from = before - self.closer.len();
        self.text.truncate(from);
        self.closer = find_open(self.language, line, self.closer);
        self.text.extend([line, "\n", self.closer]);
        if self.language == Language::Yaml && is_deep_yaml(self.text.as_bytes()) {
            return None;
        }
        if let Some(tree) = &mut self.tree {
            // Positions in other rows than these do not matter: they are for grammars that look at columns.
            let row = tree.root_node().end_position().row;
            tree.edit(&InputEdit {
                start_byte: from,
                old_end_byte: before,
                new_end_byte: self.text.len(),
                start_position: Point::new(row, 0),
                old_end_position: Point::new(row, before - from),
                new_end_position: Point::new(row + 1, self.closer.len()),
            });
        }
        let mut steps = (self.steps + LINE_STEPS).min(MAX_STEPS);
        let mut progress = |_: &ParseState| {
            steps = steps.saturating_sub(1);
            if steps == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let mut read = |at: usize, _| self.text.as_bytes().get(at..).unwrap_or_default();
        self.tree = self.parser.parse_with_options(&mut read, self.tree.as_ref(), Some(options));
        self.steps = steps;
        if self.tree.is_none() {
            self.parser.reset();
        }
        let root = self.tree.as_ref()?.root_node();
        let mut painted = vec![None; line.len()];
        let mut cursor = QueryCursor::new();
        cursor.set_byte_range(from..self.text.len());
        let mut captures = cursor.captures(&self.query, root, self.text.as_bytes());
        // Inner nodes come after outer ones, and the special patterns of a query after its general ones.
        while let Some((found, index)) = captures.next() {
            let capture = found.captures()[*index];
            let range = capture.node.byte_range();
            let part = range.start.max(from) - from..range.end.saturating_sub(from).min(line.len());
            let token = self.tokens[capture.index as usize];
            painted.get_mut(part).into_iter().for_each(|bytes| bytes.fill(token));
        }
        Some(runs(&painted))
    }
}

/// The end of a comment or string that is open behind a line, where `open` is the one before it. It may be wrong, as after
/// `"src/*"`: that costs no more than an error behind the line.
fn find_open(language: Language, line: &str, open: &'static str) -> &'static str {
    let pairs: &[(&str, &'static str)] = match language {
        Language::Python => &[("\"\"\"", "\"\"\""), ("'''", "'''")],
        Language::JavaScript | Language::TypeScript | Language::Tsx => &[("/*", "*/"), ("`", "`")],
        Language::C | Language::Cpp | Language::Go | Language::Java | Language::Rust => {
            &[("/*", "*/")]
        }
        Language::Html | Language::Xml => &[("<!--", "-->")],
        _ => &[],
    };
    let (mut open, mut rest) = (open, line);
    loop {
        let found = if open.is_empty() {
            let found = pairs.iter().filter_map(|(from, to)| Some((rest.find(from)?, *from, *to)));
            found.min().map(|(at, from, to)| (at + from.len(), to))
        } else {
            rest.find(open).map(|at| (at + open.len(), ""))
        };
        let Some((at, next)) = found else { return open };
        (open, rest) = (next, &rest[at..]);
    }
}

/// The ranges of bytes with the same token.
fn runs(painted: &[Option<Token>]) -> Vec<(Range<usize>, Token)> {
    let mut runs: Vec<(Range<usize>, Token)> = Vec::new();
    for (at, token) in painted.iter().enumerate() {
        let Some(token) = *token else { continue };
        match runs.last_mut() {
            Some((range, last)) if range.end == at && *last == token => range.end += 1,
            _ => runs.push((at..at + 1, token)),
        }
    }
    runs
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
        let check = |language: Language, text: &str, expect: &[(&str, Token)]| {
            let mut highlighter =
                Highlighter::new(language).expect("a query that fits its grammar");
            let mut found = Vec::new();
            for line in text.lines() {
                let tokens = highlighter.push_line(line).unwrap();
                found.extend(tokens.into_iter().map(|(range, token)| (&line[range], token)));
            }
            for one in expect {
                assert!(found.contains(one), "{language:?}: {one:?} in {found:?}");
            }
        };
        let (key, string, comment) = (Token::Keyword, Token::String, Token::Comment);
        check(
            Language::Rust,
            "/* a\nb */\nfn f() -> u8 { 1 }",
            &[
                ("/* a", comment),
                ("b */", comment),
                ("fn", key),
                ("f", Token::Function),
                ("u8", Token::Type),
                ("1", Token::Constant),
            ],
        );
        check(
            Language::Python,
            "def f(x):\n    return \"a\"  # b",
            &[
                ("def", key),
                ("f", Token::Function),
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
        check(Language::C, "int x = 1; // a", &[("int", Token::Type), ("// a", comment)]);
        check(Language::Cpp, "class A {};\nreturn;", &[("class", key), ("return", key)]);
        check(Language::Go, "func f() {\n\treturn\n}", &[("func", key), ("return", key)]);
        check(Language::Html, "<a href=\"b\">c</a>", &[("a", key), ("href", Token::Name)]);
        check(Language::Java, "class A { int b = 1; }", &[("class", key), ("A", Token::Type)]);
        check(Language::JavaScript, "const a = \"b\";", &[("const", key), ("\"b\"", string)]);
        check(Language::TypeScript, "let a: string = 'b';", &[("let", key), ("'b'", string)]);
        check(Language::Tsx, "let a: string = 'b';", &[("let", key)]);
        check(
            Language::Json,
            "{\"a\": \"b\", \"c\": 1}",
            &[("\"b\"", string), ("1", Token::Constant)],
        );
        check(Language::Shell, "if a; then echo \"b\"; fi", &[("if", key), ("\"b\"", string)]);
        check(Language::Toml, "a = \"b\"", &[("\"b\"", string)]);
        check(Language::Xml, "<a b=\"c\"/>", &[("a", key), ("b", Token::Name)]);
        check(Language::Yaml, "a: \"b\" # c", &[("\"b\"", string), ("# c", comment)]);
    }

    /// A deep tree has made a scanner write past its memory, and broken code takes long.
    #[test]
    fn what_cannot_be_parsed_has_no_tokens() {
        let mut yaml = Highlighter::new(Language::Yaml).unwrap();
        assert_eq!(yaml.push_line(&"- ".repeat(300)), None);
        for language in [Language::Rust, Language::JavaScript, Language::Cpp, Language::Shell] {
            let mut highlighter = Highlighter::new(language).unwrap();
            for line in ["((((((((", "{{{{{ <<<<", "\"'`\u{0}é", "if (a {"] {
                for _ in 0..50 {
                    let _ = highlighter.push_line(line);
                }
            }
            highlighter.clear();
            assert!(highlighter.push_line("if").is_some());
        }
    }
}
