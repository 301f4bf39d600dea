//! The protocol as grammars for constrained decoding, made from the table of tags.
//!
//! Sources of the notations: llama.cpp's `grammars/README.md` (GBNF) and llguidance's `docs/syntax.md`
//! (the Lark dialect, which OpenAI's custom tools take as well). What both accept is what the parser
//! accepts, narrower in four ways that cost a model nothing: attributes stand in the table's order, no
//! tag carries a `fence`, numbers have at most 19 digits, and there is no byte order mark. Two limits
//! are left to the parser: how many tags a reply may hold, and nothing else.
//!
//! Neither notation has look-around. "Text without `</name>`" is therefore spelled out: `<` occurs in
//! the closing tag only at its start, so a body is text without `<`, then any number of times `<`
//! with text after it that has no `<` and does not begin with `/name>`.
//!
//! In Lark every tag is one terminal, since many short terminals make its lexer slow.

use super::tags::{Body, TAGS, Tag, Value};

/// A piece of a grammar, in both notations alike.
enum Rule {
    /// These characters.
    Literal(String),
    /// One of these characters.
    OneOf(&'static str),
    /// One character that is none of these.
    NoneOf(String),
    /// Another rule, by its name.
    Named(&'static str),
    All(Vec<Rule>),
    Any(Vec<Rule>),
    /// `?`, `*`, `+` or a count.
    Times(Box<Rule>, &'static str),
}

use Rule::{All, Any, Literal, Named, NoneOf, OneOf, Times};

/// White space.
const SPACE: &str = " \t\r\n";

fn literal(text: impl Into<String>) -> Rule {
    Literal(text.into())
}

fn times(rule: Rule, times: &'static str) -> Rule {
    Times(Box::new(rule), times)
}

/// Rules that every tag uses.
fn shared() -> Vec<(&'static str, Rule)> {
    let quoted = |inner: fn(&'static str) -> Rule| {
        let around = |quote: &'static str| All(vec![literal(quote), inner(quote), literal(quote)]);
        Any(vec![around("\""), around("'")])
    };
    vec![
        ("space", times(OneOf(SPACE), "*")),
        ("gap", times(OneOf(SPACE), "+")),
        ("is", All(vec![Named("space"), literal("="), Named("space")])),
        ("text", quoted(|quote| times(NoneOf(quote.to_owned()), "*"))),
        ("filled", quoted(|quote| times(NoneOf(quote.to_owned()), "+"))),
        ("positive", quoted(|_| All(vec![OneOf("1-9"), times(OneOf("0-9"), "{0,18}")]))),
    ]
}

/// The rule of one tag.
fn rule(tag: &Tag) -> Rule {
    let name = tag.name;
    let forms = tag.forms().into_iter().map(|form| {
        All(form
            .into_iter()
            .map(|(attribute, must)| {
                let value = match attribute.value {
                    Value::Positive => "positive",
                    Value::Text if attribute.required => "filled",
                    Value::Text => "text",
                };
                let pair =
                    All(vec![Named("gap"), literal(attribute.name), Named("is"), Named(value)]);
                if must { pair } else { times(pair, "?") }
            })
            .collect())
    });
    let mut parts = vec![literal(format!("<{name}")), Any(forms.collect()), Named("space")];
    match tag.body {
        Body::None => parts.push(Any(vec![
            literal("/>"),
            All(vec![literal(">"), Named("space"), literal(format!("</{name}>"))]),
        ])),
        Body::Raw { may_be_empty, .. } => {
            parts.push(literal(">"));
            parts.push(body(name, may_be_empty));
            parts.push(literal(format!("</{name}>")));
        }
    }
    All(parts)
}

/// Text that does not hold `</name>`, and more than white space unless it may be empty.
fn body(name: &str, may_be_empty: bool) -> Rule {
    let plain = || times(NoneOf("<".into()), "*");
    let opened = || All(vec![literal("<"), other_than(&format!("/{name}>"))]);
    if may_be_empty {
        return All(vec![plain(), times(opened(), "*")]);
    }
    let visible = NoneOf(format!("<{SPACE}"));
    All(vec![
        Named("space"),
        Any(vec![All(vec![visible, plain(), times(opened(), "*")]), times(opened(), "+")]),
    ])
}

/// Text without `<` that does not begin with `start`, possibly none: it ends early, or another character
/// comes instead of one of `start`, after which anything may come.
fn other_than(start: &str) -> Rule {
    let step = |rest: Option<Rule>, char: char| {
        let other = All(vec![NoneOf(format!("{char}<")), times(NoneOf("<".into()), "*")]);
        let same = rest.map(|rest| All(vec![literal(char), rest]));
        Some(times(Any(std::iter::once(other).chain(same).collect()), "?"))
    };
    start.chars().rev().fold(None, step).unwrap_or(All(Vec::new()))
}

/// The grammar for llama.cpp: `--grammar-file`, or `grammar` in a request to its server.
pub fn gbnf() -> String {
    let names: Vec<_> = TAGS.iter().map(|tag| tag.name).collect();
    let mut text = String::from(
        "# A reply of nagent. Made from its table of tags: nagent --print-protocol gbnf\n",
    );
    text += "root ::= space (tag space)+\n";
    text += &format!("tag ::= {}\n", names.join(" | "));
    for (name, rule) in shared() {
        text += &format!("{name} ::= {}\n", Notation::Gbnf.print(&rule, false));
    }
    for tag in &TAGS {
        text += &format!("{} ::= {}\n", tag.name, Notation::Gbnf.print(&rule(tag), false));
    }
    text
}

/// The grammar for llguidance and for OpenAI's custom tools (`"syntax": "lark"`).
pub fn lark() -> String {
    let names: Vec<_> = TAGS.iter().map(|tag| terminal(tag.name)).collect();
    let mut text = String::from(
        "// A reply of nagent. Made from its table of tags: nagent --print-protocol lark\n",
    );
    text += "start: GAP? (tag GAP?)+\n";
    text += &format!("tag: {}\n", names.join(" | "));
    for (name, rule) in shared() {
        text += &format!("{}: {}\n", terminal(name), Notation::Lark.print(&rule, false));
    }
    for tag in &TAGS {
        text += &format!("{}: {}\n", terminal(tag.name), Notation::Lark.print(&rule(tag), false));
    }
    text
}

/// The name of a terminal in Lark.
fn terminal(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Gbnf,
    Lark,
}

impl Notation {
    /// The rule as text, in parentheses if it is `inner` to another and needs them.
    fn print(self, rule: &Rule, inner: bool) -> String {
        let (text, joined) = match rule {
            Literal(text) => (quote(text), false),
            OneOf(set) => (self.class(set, "", ""), false),
            NoneOf(set) => (self.class(set, "^", ""), false),
            Named(name) if self == Self::Lark => (terminal(name), false),
            Named(name) => ((*name).to_owned(), false),
            All(rules) => {
                let parts = rules.iter().map(|rule| self.print(rule, matches!(rule, Any(_))));
                let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
                let joined = parts.len() > 1;
                (parts.join(" "), joined)
            }
            Any(rules) => {
                let parts: Vec<_> = rules.iter().map(|rule| self.print(rule, false)).collect();
                // A choice of one thing is that thing.
                let joined = parts.len() > 1 || parts.iter().any(|part| part.contains(' '));
                (parts.join(" | "), joined)
            }
            Times(rule, count) => (self.repeat(rule, count), false),
        };
        if inner && joined { format!("({text})") } else { text }
    }

    fn repeat(self, rule: &Rule, count: &str) -> String {
        match (self, rule) {
            // Inside one regular expression, which is what such a terminal becomes.
            (Self::Lark, OneOf(set)) => self.class(set, "", count),
            (Self::Lark, NoneOf(set)) => self.class(set, "^", count),
            _ => self.print(rule, true) + count,
        }
    }

    fn class(self, set: &str, not: &str, count: &str) -> String {
        let mut text = String::new();
        for char in set.chars() {
            match char {
                '\n' => text += "\\n",
                '\r' => text += "\\r",
                '\t' => text += "\\t",
                '/' if self == Self::Lark => text += "\\/",
                _ => text.push(char),
            }
        }
        match self {
            Self::Gbnf => format!("[{not}{text}]{count}"),
            Self::Lark => format!("/[{not}{text}]{count}/"),
        }
    }
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\\\""))
}
