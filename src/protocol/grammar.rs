//! The protocol as grammars for constrained decoding, made from the table of tags.
//!
//! Sources of the notations: llama.cpp's `grammars/README.md` (GBNF) and llguidance's `docs/syntax.md`
//! (the Lark dialect, which OpenAI's custom tools take as well). What both accept is what the parser
//! accepts, narrower in four ways that cost a model nothing: attributes are in the table's order, no
//! tag carries a `fence`, numbers have at most 19 digits, and there is no byte order mark. Left to the
//! parser alone is how many tags a reply may hold.
//!
//! Neither notation has look-around. "Text without `</name>`" is therefore spelled out: `<` occurs in
//! the closing tag only at its start, so a body is text without `<`, then any number of times `<`
//! with text after it that has no `<` and does not begin with `/name>`.
//!
//! In Lark every tag is one terminal, since many short terminals make its lexer slow.

use super::tags::{Attribute, Body, TAGS, Tag, Value};

/// A piece of a grammar, in both notations alike.
enum Rule {
    /// These characters.
    Literal(String),
    /// One of these characters.
    OneOf(&'static str),
    /// One character that is none of these.
    NoneOf(String),
    /// Another rule, by its name.
    Named(String),
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

fn named(name: impl Into<String>) -> Rule {
    Named(name.into())
}

fn times(rule: Rule, times: &'static str) -> Rule {
    Times(Box::new(rule), times)
}

/// Rules that every tag uses.
fn shared() -> Vec<(String, Rule)> {
    let quoted = |inner: fn(&'static str) -> Rule| {
        let around = |quote: &'static str| All(vec![literal(quote), inner(quote), literal(quote)]);
        Any(vec![around("\""), around("'")])
    };
    let rules = [
        ("space", times(OneOf(SPACE), "*")),
        ("gap", times(OneOf(SPACE), "+")),
        ("is", All(vec![named("space"), literal("="), named("space")])),
        ("text", quoted(|quote| times(NoneOf(quote.to_owned()), "*"))),
        ("filled", quoted(|quote| times(NoneOf(quote.to_owned()), "+"))),
        ("positive", quoted(|_| All(vec![OneOf("1-9"), times(OneOf("0-9"), "{0,18}")]))),
    ];
    rules.map(|(name, rule)| (name.to_owned(), rule)).into()
}

/// The rules of one tag: its own, and what its body is made of.
fn rules(tag: &Tag) -> Vec<(String, Rule)> {
    let name = tag.name;
    let closer = || literal(format!("</{name}>"));
    let forms =
        tag.forms().into_iter().map(|form| All(form.into_iter().map(attribute_rule).collect()));
    let mut parts = vec![literal(format!("<{name}")), Any(forms.collect()), named("space")];
    let Body::Raw { may_be_empty, .. } = tag.body else {
        let pair = All(vec![literal(">"), named("space"), closer()]);
        parts.push(Any(vec![literal("/>"), pair]));
        return vec![(name.to_owned(), All(parts))];
    };
    let opened = format!("{name}-opened");
    parts.extend([literal(">"), body_rule(&opened, may_be_empty), closer()]);
    let rest = other_than(&format!("/{name}>"));
    vec![(opened, All(vec![literal("<"), rest])), (name.to_owned(), All(parts))]
}

/// One attribute with its value, `?` unless it must be there.
fn attribute_rule((attribute, must): (&Attribute, bool)) -> Rule {
    let value = match attribute.value {
        Value::Positive => "positive",
        Value::Text if attribute.required => "filled",
        Value::Text => "text",
    };
    let pair = All(vec![named("gap"), literal(attribute.name), named("is"), named(value)]);
    if must { pair } else { times(pair, "?") }
}

/// Text without the closing tag, where `opened` is a `<` with what follows up to the next;
/// more than white space unless it may be empty.
fn body_rule(opened: &str, may_be_empty: bool) -> Rule {
    let plain = || times(NoneOf("<".into()), "*");
    if may_be_empty {
        return All(vec![plain(), times(named(opened), "*")]);
    }
    let visible = NoneOf(format!("<{SPACE}"));
    let after = All(vec![visible, plain(), times(named(opened), "*")]);
    All(vec![named("space"), Any(vec![after, times(named(opened), "+")])])
}

/// Text without `<` that does not begin with `start`: some of `start` and no more, or then a character
/// other than its next, after which anything may come. Flat, since some decoders limit how deep groups nest.
fn other_than(start: &str) -> Rule {
    let alternatives = start.char_indices().map(|(at, char)| {
        let other = All(vec![NoneOf(format!("{char}<")), times(NoneOf("<".into()), "*")]);
        All(vec![literal(&start[..at]), times(other, "?")])
    });
    Any(alternatives.collect())
}

/// The grammar for llama.cpp: `--grammar-file`, or `grammar` in a request to its server.
pub fn gbnf() -> String {
    Notation::Gbnf.grammar("#", "gbnf", "root ::= space (tag space)+", "tag ::= ")
}

/// The grammar for llguidance and for OpenAI's custom tools (`"syntax": "lark"`).
pub fn lark() -> String {
    Notation::Lark.grammar("//", "lark", "start: GAP? (tag GAP?)+", "tag: ")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Gbnf,
    Lark,
}

impl Notation {
    /// The whole grammar. The first rules are the caller's, since Lark's terminals cannot make them up.
    fn grammar(self, comment: &str, name: &str, root: &str, tag: &str) -> String {
        let tags = TAGS.iter().map(|tag| self.rule_name(tag.name)).collect::<Vec<_>>().join(" | ");
        let mut lines = vec![
            format!(
                "{comment} A reply of nagent, as its table of tags has it: nagent --print-protocol {name}"
            ),
            root.to_owned(),
            format!("{tag}{tags}"),
        ];
        let rules = shared().into_iter().chain(TAGS.iter().flat_map(rules));
        let sign = if self == Self::Gbnf { " ::=" } else { ":" };
        lines.extend(rules.map(|(name, rule)| {
            format!("{}{sign} {}", self.rule_name(&name), self.print(&rule, false))
        }));
        lines.join("\n") + "\n"
    }

    /// The name of a rule; in Lark that of a terminal.
    fn rule_name(self, name: &str) -> String {
        match self {
            Self::Gbnf => name.to_owned(),
            Self::Lark => name.replace('-', "_").to_uppercase(),
        }
    }

    /// The rule as text, in parentheses if it is `inner` to another and needs them.
    fn print(self, rule: &Rule, inner: bool) -> String {
        let (text, joined) = match rule {
            Literal(text) if text.is_empty() => (String::new(), false),
            Literal(text) => (quote(text), false),
            OneOf(set) => (self.class(set, "", ""), false),
            NoneOf(set) => (self.class(set, "^", ""), false),
            Named(name) => (self.rule_name(name), false),
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
