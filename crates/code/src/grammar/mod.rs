//! Finds the possible cuts of a piece of a file with tree-sitter. Pure: bytes in, positions out.
//!
//! Only nodes larger than the target are entered, so the walk takes little time compared with the parse. A node with
//! members (a module, a class, a block, an array: `kinds`) may be cut between them; a member's comments, attributes and
//! decorators stay with it. Other large nodes may be cut between their parts, and nodes without parts, or text that
//! could not be parsed, between lines. No cut is within a node that fits, nor within a line that fits.
//!
//! A file larger than a piece is parsed piece by piece, each from a shallow cut of the previous one; [`ParseContext`]
//! carries the brackets or tags that were open there, so that the rest is parsed correctly.

mod settle;
mod walk;

use std::cell::OnceCell;
use std::ops::{ControlFlow, Range};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::kinds::{self, Role};
use super::language::Language;
use super::pack::CutBoundary;
use settle::Settle;
use walk::{Piece, Walk};

/// A block collection deeper than this many columns is not passed to the YAML grammar: its scanner keeps a stack of
/// indentations in 1,024 bytes and writes past the end (tree-sitter-yaml 0.7.2, found with 3,000 levels).
const YAML_COLUMNS: usize = 200;

/// The state that is passed from one piece of a file to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParseContext {
    /// Text that opens the brackets or tags that are open at the start of the next piece.
    opened: Vec<u8>,
}

/// The possible cuts of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Relative to the piece, in ascending order.
    pub boundaries: Vec<CutBoundary>,
    /// The start of the next piece, relative to this one; this one's length if it was the last.
    pub end: usize,
}

/// Maximum size that is parsed at once, in bytes. A tree takes some fifty times its text, and of small numbers in JSON
/// 160 times; the scanner of YAML counts lines in 16 bits, and gives up after the 32,767th (tree-sitter-yaml 0.7.2).
pub(crate) fn max_piece_size(language: Language) -> u64 {
    match language {
        Language::Yaml => 256 << 10,
        Language::Json => 2 << 20,
        _ => 4 << 20,
    }
}

/// Finds the possible cuts of a piece; `last`: the file ends with it. `None` if `stop` returned true or the parser
/// fails.
pub fn boundaries(
    language: Language,
    piece: &[u8],
    target: u64,
    last: bool,
    context: &mut ParseContext,
    stop: &mut dyn FnMut() -> bool,
) -> Option<Window> {
    if language == Language::Yaml && is_deep_yaml(piece) {
        return None;
    }
    let shift = context.opened.len();
    let (tree, roles) = parse(language, &context.opened, piece, stop)?;
    let target = usize::try_from(target).unwrap_or(usize::MAX);
    let root = tree.root_node();
    let piece = Piece { language, bytes: piece, shift, target, roles: &roles };
    let settle =
        Settle { piece, is_data: !kinds::has_definitions(language), root, whole: OnceCell::new() };
    let cuts = settle.choose_cuts(Walk::new(piece).find_cuts(root));
    let mut boundaries: Vec<CutBoundary> =
        cuts.into_iter().map(|cut| CutBoundary { at: cut.at as u64, level: cut.level }).collect();
    if last {
        return Some(Window { boundaries, end: piece.bytes.len() });
    }
    let end = next_start(&boundaries, piece.bytes);
    boundaries.retain(|boundary| boundary.at <= end as u64);
    context.opened = opening_text(root, end + shift, &context.opened, piece);
    Some(Window { boundaries, end })
}

/// The ranges of a text's functions, classes and types, each outer one before its inner ones. `None` if `stop` returned
/// true.
pub fn find_definitions(
    language: Language,
    text: &[u8],
    stop: &mut dyn FnMut() -> bool,
) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    if kinds::has_definitions(language) {
        let (tree, roles) = parse(language, &[], text, stop)?;
        kinds::visit_nodes(tree.root_node(), |node| {
            if node.is_named() && kinds::role_of(&roles, node).includes(Role::DEFINITION) {
                found.push(node.byte_range());
            }
            true
        });
    }
    Some(found)
}

/// Parses `opened` and `piece` as one text; returns the tree and the roles of its kinds.
fn parse(
    language: Language,
    opened: &[u8],
    piece: &[u8],
    stop: &mut dyn FnMut() -> bool,
) -> Option<(Tree, Vec<Role>)> {
    let grammar = kinds::grammar(language)?;
    let mut parser = Parser::new();
    parser.set_language(&grammar).ok()?;
    let mut progress = |_: &ParseState| {
        if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let mut read = |at: usize, _| match at.checked_sub(opened.len()) {
        None => &opened[at..],
        Some(at) => &piece[at.min(piece.len())..],
    };
    let tree = parser.parse_with_options(&mut read, None, Some(options))?;
    Some((tree, kinds::roles(language, &grammar)))
}

/// Whether block collections may nest deeper than the grammar's scanner can take.
pub(crate) fn is_deep_yaml(piece: &[u8]) -> bool {
    let marks = |byte: &u8| b" -?:\t".contains(byte);
    let mut column = 0;
    let mut leading = true;
    for byte in piece {
        if *byte == b'\n' {
            (column, leading) = (0, true);
        } else if leading && marks(byte) {
            column += 1;
            if column > YAML_COLUMNS {
                return true;
            }
        } else {
            leading = false;
        }
    }
    false
}

/// The start of the next piece: the shallowest cut of the second half, but not near the end, where a node may be
/// incomplete.
fn next_start(boundaries: &[CutBoundary], piece: &[u8]) -> usize {
    let whole = piece.len() - piece.len() / 8;
    let from = |least: usize| {
        boundaries
            .iter()
            .filter(|boundary| (least as u64..=whole as u64).contains(&boundary.at))
            .min_by_key(|boundary| (boundary.level, u64::MAX - boundary.at))
            .and_then(|boundary| usize::try_from(boundary.at).ok())
    };
    from(piece.len() / 2)
        .or_else(|| from(1))
        .or_else(|| piece.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1))
        .unwrap_or(piece.len())
}

/// The text that opens the brackets or tags that are open at a place. Its offset includes the text that opened the
/// piece.
fn opening_text(root: Node<'_>, at: usize, before: &[u8], piece: Piece<'_>) -> Vec<u8> {
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut node = root;
    'down: loop {
        let mut cursor = node.walk();
        let mut more = cursor.goto_first_child();
        while more {
            let child = cursor.node();
            if child.start_byte() >= at {
                break 'down;
            }
            if child.end_byte() > at {
                node = child;
                continue 'down;
            }
            let role = kinds::role_of(piece.roles, child);
            if role.includes(Role::OPENER) {
                open.push((child.start_byte(), child.end_byte()));
            } else if role.includes(Role::CLOSER) {
                open.pop();
            }
            more = cursor.goto_next_sibling();
        }
        break;
    }
    let byte = |at: usize| match at.checked_sub(before.len()) {
        None => before.get(at).copied().unwrap_or(b' '),
        Some(at) => piece.bytes.get(at).copied().unwrap_or(b' '),
    };
    let mut text = Vec::new();
    for (number, (start, end)) in open.iter().enumerate() {
        if piece.language == Language::Json {
            text.push(byte(*start));
            // An open bracket within an object is the value of a member.
            if byte(*start) == b'{' && number + 1 < open.len() {
                text.extend(b"\"\":");
            }
        } else {
            let name = (*start..*end)
                .map(byte)
                .take_while(|byte| !byte.is_ascii_whitespace() && *byte != b'>');
            text.extend(name);
            text.push(b'>');
        }
    }
    text
}

#[cfg(test)]
mod tests;
