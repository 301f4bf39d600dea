//! The text of the responses in a reply that is still arriving.
//!
//! Pieces of the reply go in, cut anywhere; the text of its `nagent-response` bodies comes out as soon as it certainly
//! belongs to one, as long as everything before it is well-formed. The output equals that of [`super::parse_reply`] for
//! the whole reply, which a property test checks; words outside of tags, and the responses after them, are left out,
//! since they count only if there is also an action. Time and memory grow with the pieces, not with the reply.

use super::parse::{SPACE, parse_opening};
use super::scan::BLANK;
use super::tags::{Body, TagKind, TagSet};
use crate::limits::REPLY_TAGS;

/// Line breaks, which are removed at both ends of a response.
const BREAKS: [char; 2] = ['\r', '\n'];

/// The next output of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streamed<'a> {
    /// More text of a response.
    Text(&'a str),
    /// The response is complete.
    End,
}

/// A reader of one reply.
#[derive(Debug, Default)]
pub struct ResponseStream {
    /// The tags that the reply may have.
    known: TagSet,
    /// Unprocessed input: part of a tag, or a possible start of a closing tag.
    rest: String,
    /// The length of the part of `rest` that was searched for the end of an opening tag, and the open quotation mark
    /// there.
    searched: usize,
    quote: Option<char>,
    tags: usize,
    state: StreamState,
}

#[derive(Debug, Default)]
enum StreamState {
    /// Between two tags, or within an opening tag.
    #[default]
    Between,
    /// Before the closing tag of a tag that has no body.
    Closing(String),
    Body(OpenBody),
    /// The reply is malformed from here on: nothing more is shown.
    Stopped,
}

#[derive(Debug)]
struct OpenBody {
    closer: String,
    is_response: bool,
    may_be_empty: bool,
    /// Whether anything but white space has arrived.
    has_text: bool,
    /// White space that is shown only if text follows.
    held: String,
}

impl ResponseStream {
    /// A reader of a reply that may have these tags.
    pub fn new(known: TagSet) -> Self {
        Self { known, ..Self::default() }
    }

    /// Processes the next piece of the reply and passes on its output.
    pub fn push(&mut self, piece: &str, show: &mut dyn FnMut(Streamed<'_>)) {
        self.rest.push_str(piece);
        let mut rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        while let Some(left) = rest.get(at..)
            && let Some(used) = self.read(left, show)
        {
            at += used;
        }
        if !matches!(self.state, StreamState::Stopped) {
            rest.drain(..at);
            self.rest = rest;
        }
    }

    /// Reads the next part; returns its length, or `None` if more of the reply is needed or the rest is not needed.
    fn read(&mut self, rest: &str, show: &mut dyn FnMut(Streamed<'_>)) -> Option<usize> {
        match &mut self.state {
            StreamState::Stopped => None,
            StreamState::Between => self.read_opening(rest),
            StreamState::Closing(closer) => {
                let skipped = rest.len() - rest.trim_start_matches(SPACE).len();
                if skipped > 0 {
                    return Some(skipped);
                }
                if rest.starts_with(closer.as_str()) {
                    let used = closer.len();
                    self.state = StreamState::Between;
                    return Some(used);
                }
                if !closer.starts_with(rest) {
                    self.state = StreamState::Stopped;
                }
                None
            }
            StreamState::Body(body) => {
                if rest.is_empty() {
                    return None;
                }
                let Some(end) = rest.find(&body.closer) else {
                    let certain = rest.len() - longest_start(&body.closer, rest);
                    body.stream_body(rest.get(..certain).unwrap_or_default(), show);
                    return (certain > 0).then_some(certain);
                };
                body.stream_body(rest.get(..end).unwrap_or_default(), show);
                let used = end + body.closer.len();
                let is_whole = body.may_be_empty || body.has_text;
                if is_whole && body.is_response {
                    show(Streamed::End);
                }
                self.state = if is_whole { StreamState::Between } else { StreamState::Stopped };
                Some(used)
            }
        }
    }

    /// Reads white space and an opening tag.
    fn read_opening(&mut self, rest: &str) -> Option<usize> {
        if self.searched == 0 {
            let text = rest.trim_start_matches(SPACE);
            let skipped = rest.len() - text.len();
            if skipped > 0 {
                return Some(skipped);
            }
            if text.is_empty() {
                return None;
            }
            if !text.starts_with('<') || self.tags == REPLY_TAGS {
                self.state = StreamState::Stopped;
                return None;
            }
        }
        let end = rest.get(self.searched..)?.char_indices().find(|(_, c)| {
            match self.quote {
                Some(quote) if quote == *c => self.quote = None,
                Some(_) => {}
                None if matches!(c, '"' | '\'') => self.quote = Some(*c),
                None => return *c == '>',
            }
            false
        });
        let Some((end, _)) = end else {
            self.searched = rest.len();
            return None;
        };
        let used = self.searched + end + 1;
        self.searched = 0;
        self.tags += 1;
        self.state = rest
            .get(..used)
            .and_then(|text| open_body(text, self.known))
            .unwrap_or(StreamState::Stopped);
        Some(used)
    }
}

/// The state after an opening tag; `None`: the reply is malformed.
fn open_body(text: &str, tags: TagSet) -> Option<StreamState> {
    let opening = parse_opening(text, tags)?;
    match opening.tag.body {
        Body::None if opening.closed => Some(StreamState::Between),
        Body::None => Some(StreamState::Closing(opening.closer)),
        Body::Raw { .. } if opening.closed => None,
        Body::Raw { may_be_empty, .. } => Some(StreamState::Body(OpenBody {
            closer: opening.closer,
            is_response: opening.tag.kind == TagKind::Response,
            may_be_empty,
            has_text: false,
            held: String::new(),
        })),
    }
}

/// The length of the longest end of a text that is a beginning of `closer`.
fn longest_start(closer: &str, text: &str) -> usize {
    let longest = closer.len().saturating_sub(1).min(text.len());
    let ends = (1..=longest).rev().filter_map(|length| text.get(text.len() - length..));
    ends.into_iter().find(|end| closer.starts_with(end)).map_or(0, str::len)
}

impl OpenBody {
    /// Processes more of the body.
    fn stream_body(&mut self, text: &str, show: &mut dyn FnMut(Streamed<'_>)) {
        if !self.is_response {
            self.has_text |= !text.trim_matches(BLANK).is_empty();
            return;
        }
        let is_blank =
            if self.has_text { text.trim_matches(BREAKS) } else { text.trim_matches(BLANK) };
        if is_blank.is_empty() {
            self.held.push_str(text);
            return;
        }
        let mut whole = std::mem::take(&mut self.held);
        whole.push_str(text);
        let from =
            if self.has_text { 0 } else { whole.len() - whole.trim_start_matches(BREAKS).len() };
        let to = whole.trim_end_matches(BREAKS).len();
        self.has_text = true;
        show(Streamed::Text(whole.get(from..to).unwrap_or_default()));
        whole.get(to..).unwrap_or_default().clone_into(&mut self.held);
    }
}
