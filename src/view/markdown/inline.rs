//! The inline part of Markdown: emphasis, code, links and escapes of one line, as pieces with styles.

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::view::style::{BOLD, CYAN, DIM, ITALIC, STRUCK, Span, Style, UNDERLINED};
use conversation::format::harmless::escape_text;

/// Makes it a paragraph, whatever it begins with.
const BEFORE: &str = "x ";

/// The pieces of a line in a style.
pub(super) fn spans(text: &str, style: Style) -> Vec<Span> {
    Inline::parse(text, style).spans
}

/// The last blank at which a line can be cut, so that its parts mean what they mean together.
pub(super) fn last_cut(text: &str) -> Option<usize> {
    Inline::parse(text, &[]).cut
}

#[derive(Default)]
struct Inline {
    spans: Vec<Span>,
    /// The styles that are on, each with its length.
    codes: Vec<u8>,
    depths: Vec<usize>,
    /// The links that are open: where their text begins, and what is shown after it.
    links: Vec<(usize, String)>,
    cut: Option<usize>,
    /// Whether something was opened that is not closed on this line.
    is_open: bool,
}

impl Inline {
    fn parse(text: &str, style: Style) -> Self {
        let mut inline = Self { codes: style.to_vec(), ..Self::default() };
        let source = format!("{BEFORE}{text}");
        let (mut at, options) = (0, Options::ENABLE_STRIKETHROUGH);
        for (event, range) in Parser::new_ext(&source, options).into_offset_iter() {
            let end = match event {
                Event::Start(_) => range.start,
                _ => range.end,
            };
            match event {
                Event::Start(tag) => inline.start(tag),
                Event::End(tag) => inline.end(tag),
                Event::Code(code) => inline.push(&code, CYAN),
                Event::Text(shown) => {
                    let gap = source.get(at..range.start).unwrap_or_default();
                    // A backslash of a formula or a path is no escape of Markdown's.
                    let is_kept = gap.ends_with('\\')
                        && shown.starts_with(['(', ')', '[', ']', '{', '}', '\\']);
                    if is_kept {
                        inline.push("\\", &[]);
                    }
                    inline.find_cut(&source, range.clone());
                    let shown = if range.start == 0 {
                        shown.get(BEFORE.len()..).unwrap_or_default()
                    } else {
                        &shown
                    };
                    inline.push(shown, &[]);
                }
                Event::InlineHtml(shown) | Event::Html(shown) => inline.push(&shown, &[]),
                Event::SoftBreak | Event::HardBreak => inline.push(" ", &[]),
                _ => {}
            }
            at = end.max(at);
        }
        // A paragraph has no blanks at its end.
        let blanks = text.len() - text.trim_end_matches(' ').len();
        inline.push(&" ".repeat(blanks), &[]);
        inline
    }

    /// Adds a piece. An entity may be any character.
    fn push(&mut self, text: &str, style: Style) {
        let text = escape_text(&text.replace(['\n', '\t'], " "));
        let codes = [&self.codes, style].concat();
        match self.spans.last_mut() {
            Some(last) if last.codes == codes => last.text.push_str(&text),
            _ if text.is_empty() => {}
            _ => self.spans.push(Span { text, codes }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        self.depths.push(self.codes.len());
        match tag {
            Tag::Strong => self.codes.extend(BOLD),
            Tag::Emphasis => self.codes.extend(ITALIC),
            Tag::Strikethrough => self.codes.extend(STRUCK),
            Tag::Link { link_type, dest_url, title, .. } => {
                self.codes.extend(UNDERLINED);
                let is_short = matches!(link_type, LinkType::Autolink | LinkType::Email);
                let address = if is_short { CowStr::from("") } else { dest_url };
                self.links.push((self.spans.len(), describe_link(&address, &title)));
            }
            Tag::Image { dest_url, title, .. } => {
                self.links.push((self.spans.len(), describe_link(&dest_url, &title)));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        self.codes.truncate(self.depths.pop().unwrap_or_default());
        if let TagEnd::Link | TagEnd::Image = tag
            && let Some((from, address)) = self.links.pop()
        {
            let text: String =
                self.spans.iter().skip(from).map(|span| span.text.as_str()).collect();
            if !address.is_empty() && text != address {
                self.push(&format!(" ({address})"), DIM);
            }
        }
    }

    /// Looks for a place to cut in text that is outside of everything.
    fn find_cut(&mut self, source: &str, range: std::ops::Range<usize>) {
        if self.depths.len() > 1 || self.is_open {
            return;
        }
        let text = &source[range.clone()];
        let opens = text.char_indices().find(|(at, _)| {
            let (before, after) = source.split_at(range.start + at);
            is_opening(before.chars().next_back(), after)
        });
        self.is_open = opens.is_some();
        let most = opens.map_or(text.len(), |(at, _)| at);
        if let Some(at) = text[..most].rfind(' ').map(|at| range.start + at)
            && at > BEFORE.len()
        {
            self.cut = Some(at - BEFORE.len());
        }
    }
}

/// Whether a text begins with what may open something that is closed further on.
fn is_opening(before: Option<char>, text: &str) -> bool {
    let mut chars = text.chars();
    let (first, next) = (chars.next(), chars.next());
    let is_word = next.is_some_and(|c| !c.is_whitespace());
    match first {
        Some('`' | '*' | '<') => is_word || next.is_none(),
        Some('~') => next == Some('~'),
        Some('_') => !before.is_some_and(char::is_alphanumeric) && is_word,
        Some('[') => text.find(']').is_none_or(|at| text[at + 1..].starts_with('(')),
        _ => false,
    }
}

fn describe_link(address: &str, title: &str) -> String {
    if title.is_empty() { address.to_owned() } else { format!("{address} \"{title}\"") }
}
