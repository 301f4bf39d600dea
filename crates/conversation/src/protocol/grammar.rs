//! The protocol as grammars for constrained decoding, generated from the table of tags.
//!
//! Sources of the notations: llama.cpp's `grammars/README.md` (GBNF) and llguidance's `docs/syntax.md` (the Lark
//! dialect, which OpenAI's custom tools also accept). The grammars accept the language of the parser with four
//! restrictions that cost a model nothing: attributes are in the table's order, no tag has a `fence`, numbers have at
//! most 19 digits, and there is no byte order mark. Only the parser limits the number of tags in a reply.
//!
//! Neither notation has look-around, so "text without `</name>`" is spelled out: `<` occurs in the closing tag only at
//! its start, so a body is text without `<`, then any number of times a `<` followed by text that has no `<` and does
//! not begin with `/name>`.
//!
//! Lark's rules are generated from those in GBNF. In Lark every tag is one terminal: many short ones make its lexer
//! slow.

use regex::{Captures, Regex};

use super::tags::{Body, Tag, TagAttribute, TagSet, ValueType};

const SHARED: &str = r#"space ::= [ \t\r\n]*
gap ::= [ \t\r\n]+
is ::= space "=" space
text ::= "\"" [^"]* "\"" | "'" [^']* "'"
filled ::= "\"" [^"]+ "\"" | "'" [^']+ "'"
flag ::= "\"true\"" | "\"false\"" | "'true'" | "'false'"
positive ::= "\"" [1-9] [0-9]{0,18} "\"" | "'" [1-9] [0-9]{0,18} "'"
"#;

/// The grammar for llama.cpp: `--grammar-file`, or `grammar` in a request to its server.
pub fn write_gbnf(tags: TagSet) -> String {
    let head = "# A reply of nagent, as its table of tags has it";
    format!("{head}\nroot ::= space (tag space)+\n{}", rules(tags))
}

/// The grammar for llguidance and for OpenAI's custom tools (`"syntax": "lark"`).
pub fn write_lark(tags: TagSet) -> String {
    let head = "// A reply of nagent, as its table of tags has it";
    // Matches a string, characters with their repetition, or the name of a rule.
    let token = r#""(?:\\.|[^"\\])*"|\[[^\]]*\](?:[*+]|\{[0-9,]+\})?|[a-z][a-z-]*"#;
    let token = Regex::new(token).expect("a constant pattern");
    let rules = rules(tags).replace(" ::= ", ": ");
    let rules = token.replace_all(&rules, |found: &Captures<'_>| match &found[0] {
        "tag" => "tag".to_owned(),
        string if string.starts_with('"') => string.to_owned(),
        class if class.starts_with('[') => format!("/{}/", class.replace('/', "\\/")),
        name => name.replace('-', "_").to_uppercase(),
    });
    format!("{head}\nstart: GAP? (tag GAP?)+\n{rules}")
}

/// All rules but the first, which differs: in Lark, terminals cannot form it.
fn rules(tags: TagSet) -> String {
    let names: Vec<&str> = tags.iter().map(|tag| tag.name).collect();
    let rules: String = tags.iter().map(tag_rules).collect();
    format!("tag ::= {}\n{SHARED}{rules}", names.join(" | "))
}

/// The rules of one tag, and of the parts of its body.
fn tag_rules(tag: &Tag) -> String {
    let name = tag.name;
    let form = |form: Vec<_>| form.into_iter().map(attribute_rule).collect::<Vec<_>>().join(" ");
    let forms = tag.forms().into_iter().map(form).collect::<Vec<_>>().join(" | ");
    let forms = if forms.is_empty() { forms } else { format!("({forms}) ") };
    let opening = format!("{name} ::= \"<{name}\" {forms}space");
    let closing = format!("\"</{name}>\"");
    let Body::Raw { may_be_empty, .. } = tag.body else {
        return format!("{opening} (\"/>\" | \">\" space {closing})\n");
    };
    // A `<` with the text up to the next one, but not the closing tag.
    let opened = format!("{name}-opened");
    let rest = text_not_starting_with(&format!("/{name}>"));
    let body = if may_be_empty {
        format!("[^<]* {opened}*")
    } else {
        format!("space ([^< \\t\\r\\n] [^<]* {opened}* | {opened}+)")
    };
    format!("{opened} ::= \"<\" ({rest})\n{opening} \">\" {body} {closing}\n")
}

fn attribute_rule((attribute, must): (&TagAttribute, bool)) -> String {
    let value = match attribute.value {
        ValueType::Positive => "positive",
        ValueType::Flag => "flag",
        ValueType::Name => "filled",
        ValueType::Text if attribute.required => "filled",
        ValueType::Text => "text",
    };
    let pair = format!("gap \"{}\" is {value}", attribute.name);
    if must { pair } else { format!("({pair})?") }
}

/// Text without `<` that does not begin with `start`: either a part of `start` alone, or a part of it, another
/// character than its next, and anything after that. The groups are not nested, since some decoders limit the depth.
fn text_not_starting_with(start: &str) -> String {
    let alternatives = start.char_indices().map(|(at, char)| {
        let same = if at == 0 { String::new() } else { format!("\"{}\" ", &start[..at]) };
        format!("{same}([^{char}<] [^<]*)?")
    });
    alternatives.collect::<Vec<_>>().join(" | ")
}
