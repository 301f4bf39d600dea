//! The grammars against the parser's tables, by a small recogniser that reads the printed text.
//!
//! It knows as much of GBNF and of Lark as these grammars use, and panics on the rest: names, strings,
//! classes of characters, groups, alternatives, `? * + {m,n}`. It keeps sets of positions, so that no
//! order of alternatives can hide a match.

use std::collections::{BTreeSet, HashMap};

use super::super::tags::TagSet;
use super::super::{write_gbnf, write_lark};
use super::{BAD, format, is_sound, parser_only, plain};

enum Node {
    Literal(Vec<char>),
    Class { not: bool, ranges: Vec<(char, char)> },
    Rule(String),
    All(Vec<Node>),
    Any(Vec<Node>),
    Times(Box<Node>, usize, usize),
}

/// The rules of a grammar as printed.
struct Grammar {
    rules: HashMap<String, Node>,
    root: &'static str,
}

impl Grammar {
    fn new(text: &str, sign: &str, root: &'static str) -> Self {
        let lines = text.lines().skip(1);
        let rules = lines.map(|line| {
            let (name, rule) = line.split_once(sign).unwrap();
            let mut reader = Reader { chars: rule.trim().chars().collect(), at: 0 };
            let node = reader.any();
            assert_eq!(reader.at, reader.chars.len(), "{line}");
            (name.trim().to_owned(), node)
        });
        let grammar = Self { rules: rules.collect(), root };
        assert_eq!(grammar.rules.len(), text.lines().count() - 1, "one rule of each name");
        grammar
    }

    fn accepts(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.ends(&self.rules[self.root], &text, &BTreeSet::from([0])).contains(&text.len())
    }

    /// Where the node can end when it begins at any of `starts`.
    fn ends(&self, node: &Node, text: &[char], starts: &BTreeSet<usize>) -> BTreeSet<usize> {
        match node {
            Node::Literal(literal) => {
                let fits = starts.iter().filter(|at| text[**at..].starts_with(literal));
                fits.map(|at| at + literal.len()).collect()
            }
            Node::Class { not, ranges } => {
                let holds = |char: char| ranges.iter().any(|(a, z)| (*a..=*z).contains(&char));
                let fits = starts
                    .iter()
                    .filter(|at| text.get(**at).is_some_and(|char| holds(*char) != *not));
                fits.map(|at| at + 1).collect()
            }
            Node::Rule(name) => self.ends(&self.rules[name], text, starts),
            Node::All(nodes) => {
                nodes.iter().fold(starts.clone(), |starts, node| self.ends(node, text, &starts))
            }
            Node::Any(nodes) => {
                nodes.iter().flat_map(|node| self.ends(node, text, starts)).collect()
            }
            Node::Times(node, least, most) => {
                let mut found = if *least == 0 { starts.clone() } else { BTreeSet::new() };
                let mut starts = starts.clone();
                for count in 1..=*most {
                    starts = self.ends(node, text, &starts);
                    if count > *least {
                        starts = starts.difference(&found).copied().collect();
                    }
                    if starts.is_empty() {
                        break;
                    }
                    if count >= *least {
                        found.extend(&starts);
                    }
                }
                found
            }
        }
    }
}

/// Reads one rule.
struct Reader {
    chars: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, char: char) -> bool {
        let eaten = self.peek() == Some(char);
        self.at += usize::from(eaten);
        eaten
    }

    fn take(&mut self) -> char {
        self.at += 1;
        self.chars[self.at - 1]
    }

    fn any(&mut self) -> Node {
        let mut nodes = vec![self.all()];
        while self.eat('|') {
            nodes.push(self.all());
        }
        Node::Any(nodes)
    }

    fn all(&mut self) -> Node {
        let mut nodes = Vec::new();
        loop {
            while self.eat(' ') {}
            match self.peek() {
                None | Some('|' | ')') => break,
                Some(_) => nodes.push(self.one()),
            }
        }
        assert!(!nodes.is_empty(), "an alternative without anything");
        Node::All(nodes)
    }

    fn one(&mut self) -> Node {
        let node = match self.take() {
            '(' => {
                let node = self.any();
                assert!(self.eat(')'));
                node
            }
            '"' => {
                let mut literal = Vec::new();
                while !self.eat('"') {
                    literal.push(self.character());
                }
                assert!(!literal.is_empty());
                Node::Literal(literal)
            }
            '[' => self.class(),
            '/' => {
                assert!(self.eat('['));
                let class = self.class();
                let class = self.times(class);
                assert!(self.eat('/'));
                return self.times(class);
            }
            char if char.is_ascii_alphabetic() => {
                let mut name = String::from(char);
                while self
                    .peek()
                    .is_some_and(|char| char.is_ascii_alphanumeric() || "-_".contains(char))
                {
                    name.push(self.take());
                }
                Node::Rule(name)
            }
            char => panic!("{char:?} at {} of {}", self.at, self.chars.iter().collect::<String>()),
        };
        self.times(node)
    }

    fn class(&mut self) -> Node {
        let not = self.eat('^');
        let mut ranges = Vec::new();
        while !self.eat(']') {
            let first = self.character();
            let range = self.peek() == Some('-') && self.chars.get(self.at + 1) != Some(&']');
            let last = if range {
                self.at += 1;
                self.character()
            } else {
                first
            };
            ranges.push((first, last));
        }
        assert!(!ranges.is_empty());
        Node::Class { not, ranges }
    }

    fn character(&mut self) -> char {
        match self.take() {
            '\\' => match self.take() {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                char @ ('"' | '/' | '\\') => char,
                char => panic!("an escape of {char:?}"),
            },
            char => char,
        }
    }

    fn times(&mut self, node: Node) -> Node {
        let (least, most) = match self.peek() {
            Some('?') => (0, 1),
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('{') => {
                let counts: String =
                    self.chars[self.at + 1..].iter().take_while(|char| **char != '}').collect();
                self.at += counts.len() + 1;
                let (least, most) = counts.split_once(',').unwrap();
                (least.parse().unwrap(), most.parse().unwrap())
            }
            _ => return node,
        };
        self.at += 1;
        Node::Times(Box::new(node), least, most)
    }
}

fn both() -> [Grammar; 2] {
    [
        Grammar::new(&write_gbnf(TagSet::ALL), "::=", "root"),
        Grammar::new(&write_lark(TagSet::ALL), ":", "start"),
    ]
}

#[test]
fn grammars_accept_what_the_parser_accepts() {
    for grammar in both() {
        for (reply, items) in plain() {
            assert!(grammar.accepts(reply), "{}: {reply:?}", grammar.root);
            let formatted = format(&items);
            assert_eq!(grammar.accepts(&formatted), !formatted.contains(" fence="), "{formatted}");
        }
        for tag in TagSet::ALL.iter() {
            for shape in tag.usage_lines() {
                let reply = shape
                    .replace(['[', ']'], "")
                    .replace("\"N\"", "\"1\"")
                    .replace("\"S\"", "\"1\"");
                assert!(grammar.accepts(&reply), "{}: {reply:?}", grammar.root);
            }
        }
    }
}

#[test]
fn grammars_refuse_what_the_parser_refuses() {
    for grammar in both() {
        for (reply, ..) in BAD {
            assert!(!grammar.accepts(reply), "{}: {reply:?}", grammar.root);
        }
        for (reply, _) in parser_only() {
            assert!(!grammar.accepts(reply), "{}: {reply:?}", grammar.root);
        }
        assert!(!grammar.accepts("<nagent-shell>ls</nagent-shell><system>x</system>"));
    }
}

/// Short bodies made of pieces of the closing tag, all of them: grammars and parser agree on each.
#[test]
fn grammars_end_a_body_where_the_parser_does() {
    let pieces = ["<", "/", "nagent-next", ">", "<nagent-next>", "</nagent-next>", "\n", "x"];
    let grammars = both();
    let mut bodies = vec![String::new()];
    for _ in 0..3 {
        let longer = bodies.iter().flat_map(|body| pieces.map(|piece| format!("{body}{piece}")));
        bodies = longer.chain(bodies.iter().cloned()).collect();
        bodies.sort();
        bodies.dedup();
    }
    assert!(bodies.len() > 500);
    // Both say the same, from one list of tags: of the longest bodies each gets half.
    for (at, body) in bodies.iter().enumerate() {
        let reply = format!("<nagent-next>{body}</nagent-next>");
        let sound = is_sound(&reply);
        for grammar in if body.len() < 8 { &grammars[..] } else { &grammars[at % 2..=at % 2] } {
            assert_eq!(grammar.accepts(&reply), sound, "{}: {reply:?}", grammar.root);
        }
    }
}

#[test]
fn names_are_what_the_notations_allow() {
    let [gbnf, lark] = both();
    for name in gbnf.rules.keys() {
        assert!(name.chars().all(|char| char.is_ascii_lowercase() || char == '-'), "{name}");
    }
    for name in lark.rules.keys() {
        let terminal = name.chars().all(|char| char.is_ascii_uppercase() || char == '_');
        assert!(terminal || ["start", "tag"].contains(&name.as_str()), "{name}");
    }
}
