//! The definitions of a file: functions, classes, types, with where they begin and end. Pure.
//!
//! It says what a file defines, not where it may be cut ([`super::grammar`]), though a good cut leaves each of them whole.

use std::ops::{ControlFlow, Range};

use tree_sitter::{ParseOptions, ParseState, Parser};

use super::kinds::{self, Role};
use super::language::Language;

/// Something that a file defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The grammar's word for what it is, `function_item` for example.
    pub kind: String,
    /// Its name, where the grammar tells it.
    pub name: Option<String>,
    /// Its bytes, without the comments before it.
    pub bytes: Range<usize>,
    /// How many definitions it lies in.
    pub depth: usize,
}

/// An outline, and whether the file parsed without an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// In the order of the file; one that lies in another comes behind it.
    pub definitions: Vec<Definition>,
    /// Nothing in the file was strange to the grammar.
    pub is_clean: bool,
}

/// The outline of a file; empty for a language without definitions. `None` when `stop` said so.
pub fn outline(language: Language, text: &[u8], stop: &mut dyn FnMut() -> bool) -> Option<Outline> {
    let Some(grammar) = kinds::grammar(language) else { return Some(Outline::default()) };
    if !kinds::has_definitions(language) {
        return Some(Outline::default());
    }
    let mut parser = Parser::new();
    parser.set_language(&grammar).ok()?;
    let mut asked =
        |_: &ParseState| if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let options = ParseOptions::new().progress_callback(&mut asked);
    let mut read = |at: usize, _| &text[at.min(text.len())..];
    let tree = parser.parse_with_options(&mut read, None, Some(options))?;
    let roles = kinds::roles(language, &grammar);
    let mut outline = Outline { definitions: Vec::new(), is_clean: !tree.root_node().has_error() };
    let mut cursor = tree.walk();
    let mut ends: Vec<usize> = Vec::new();
    'walk: loop {
        let node = cursor.node();
        let role = roles.get(usize::from(node.kind_id())).copied().unwrap_or_default();
        if role.includes(Role::DEFINITION) && node.is_named() {
            ends.retain(|end| *end > node.start_byte());
            let name = node
                .child_by_field_name("name")
                .and_then(|name| text.get(name.byte_range()))
                .map(|name| String::from_utf8_lossy(name).into_owned());
            outline.definitions.push(Definition {
                kind: node.kind().to_owned(),
                name,
                bytes: node.byte_range(),
                depth: ends.len(),
            });
            ends.push(node.end_byte());
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                break 'walk;
            }
        }
    }
    Some(outline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_in_definitions() {
        let check = |language, text: &str, expect: &[&str]| {
            let outline = outline(language, text.as_bytes(), &mut || false).unwrap();
            let found: Vec<String> = outline
                .definitions
                .iter()
                .map(|one| {
                    let name = one.name.as_deref().unwrap_or("?");
                    format!("{} {name} {}", one.depth, &text[one.bytes.clone()].len())
                })
                .collect();
            assert_eq!(found, expect);
            assert!(outline.is_clean || expect.is_empty());
        };
        check(
            Language::Python,
            "class A:\n  def b(self):\n    def c(): 1\n  def d(): 2\ndef e(): 3\n",
            &["0 A 51", "1 b 27", "2 c 10", "1 d 10", "0 e 10"],
        );
        check(Language::Rust, "impl A { fn b() {} }\nmod c;", &["0 ? 20", "1 b 9", "0 c 6"]);
        check(Language::Json, "{}", &[]);
        check(Language::Text, "def a(): 1", &[]);
    }

    #[test]
    fn one_that_is_stopped() {
        let text = "fn a() {}\n".repeat(10_000);
        assert_eq!(outline(Language::Rust, text.as_bytes(), &mut || true), None);
    }
}
