//! Walks a tree and collects possible cuts: between members and, in reserve, between parts.

use std::ops::Range;

use tree_sitter::Node;

use crate::kinds::{Role, role_of};
use crate::language::Language;
use crate::pack::level;

/// Maximum level by depth: deeper nodes have the same.
const DEEPEST: u32 = 250;

/// The level of a cut between a comment and the member it belongs to, if they do not fit together: above all others
/// between nodes.
const WITHIN: u32 = level::PART + 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) at: usize,
    pub(super) level: u32,
}

#[derive(Debug, Default)]
pub(super) struct CandidateCuts {
    /// Cuts that may always be used, in any order.
    pub(super) main: Vec<Cut>,
    /// Cuts that are used only if the others leave stretches that are too large.
    pub(super) spare: Vec<Cut>,
    pub(super) atoms: Vec<(usize, usize)>,
}

struct Child<'t> {
    start: usize,
    end: usize,
    role: Role,
    /// Whether it may be a member: it has a name and is not text.
    member: bool,
    /// The node, if it is too large.
    node: Option<Node<'t>>,
}

/// A piece of a file, as it was parsed.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) language: Language,
    pub(super) bytes: &'a [u8],
    /// The number of bytes before the piece's own in the parsed text.
    pub(super) shift: usize,
    pub(super) target: usize,
    /// The roles of the tree's kinds.
    pub(super) roles: &'a [Role],
}

pub(super) struct Walk<'a> {
    piece: Piece<'a>,
    /// The last line that was looked up.
    line: Range<usize>,
    found: CandidateCuts,
}

impl<'a> Walk<'a> {
    pub(super) fn new(piece: Piece<'a>) -> Self {
        Self { piece, line: 0..0, found: CandidateCuts::default() }
    }

    /// Walks the tree, entering only nodes larger than the target.
    pub(super) fn find_cuts(mut self, root: Node<'_>) -> CandidateCuts {
        // Recursion would need a stack as deep as the nesting of the text.
        let mut work = vec![(root, 0)];
        while let Some((node, depth)) = work.pop() {
            let children = self.children(node);
            if role_of(self.piece.roles, node).includes(Role::CONTAINER) {
                self.container(&children, depth, &mut work);
            } else {
                self.parts(&children, depth, false, &mut work);
            }
        }
        self.found
    }

    fn children<'t>(&self, node: Node<'t>) -> Vec<Child<'t>> {
        let mut children = Vec::with_capacity(node.child_count() as usize);
        let mut cursor = node.walk();
        let mut more = cursor.goto_first_child();
        while more {
            let node = cursor.node();
            // Some nodes include the line feed after them, or blanks.
            let end = self.trim_range(node.start_byte(), node.end_byte());
            let role = role_of(self.piece.roles, node);
            let large =
                end - node.start_byte() > self.piece.target || node.start_byte() < self.piece.shift;
            children.push(Child {
                start: node.start_byte(),
                end,
                role,
                member: node.is_named() && !role.includes(Role::SUFFIX),
                node: large.then_some(node),
            });
            more = cursor.goto_next_sibling();
        }
        children
    }

    fn trim_range(&self, start: usize, end: usize) -> usize {
        let Some(first) = start.checked_sub(self.piece.shift) else { return end };
        let last = end.saturating_sub(self.piece.shift).min(self.piece.bytes.len());
        let Some(text) = self.piece.bytes.get(first..last) else { return end };
        start + text.trim_ascii_end().len()
    }

    /// Adds the cuts between members, each together with its comments and other attachments.
    fn container<'t>(
        &mut self,
        children: &[Child<'t>],
        depth: u32,
        work: &mut Vec<(Node<'t>, u32)>,
    ) {
        let groups = self.groups(children);
        // A container with one member does not count as a level: the one object of a document, a document in a stream.
        let deeper = if groups.len() > 1 { (depth + 1).min(DEEPEST) } else { depth };
        let first = groups.first().map_or(children.len(), |group| group.0);
        for (number, (from, to)) in groups.iter().enumerate() {
            let at = children[*from].start;
            if number > 0 {
                self.boundary(at, level::STRUCTURE + depth, true);
            } else if first > 0 {
                self.boundary(at, level::PART + depth, false);
            }
            let group = &children[*from..*to];
            let end = group.last().map_or(at, |child| child.end);
            if end - at <= self.piece.target && at >= self.piece.shift {
                self.add_atom(at, end);
            } else {
                self.parts(group, deeper, true, work);
            }
        }
        // The token that closes the container has its own line.
        if let Some(closer) = children.last().filter(|child| !child.member) {
            self.boundary(closer.start, level::PART + depth, false);
        }
        self.parts(&children[..first], deeper, true, work);
    }

    /// Adds the cuts between the parts of a node: of one without members, its head, its body, its operands; of a member
    /// that is too large together with them, its comments and other attachments.
    fn parts<'t>(
        &mut self,
        children: &[Child<'t>],
        depth: u32,
        is_member: bool,
        work: &mut Vec<(Node<'t>, u32)>,
    ) {
        for (number, child) in children.iter().enumerate() {
            if let Some(before) = number.checked_sub(1).map(|before| &children[before]) {
                // A comment between a head and its body often belongs to the body's first member.
                let is_led = || self.line_feeds(before.end, child.start) <= 1;
                let belongs = is_member || before.role.includes(Role::COMMENT) && is_led();
                let level = if belongs { WITHIN } else { level::PART };
                self.boundary(child.start, level + depth, false);
            }
            match child.node {
                Some(node) => work.push((node, depth)),
                None => self.add_atom(child.start, child.end),
            }
        }
    }

    /// Groups the children that belong together: prefixes of a member, the member, and the rest of its line.
    fn groups(&self, children: &[Child<'_>]) -> Vec<(usize, usize)> {
        let mut groups: Vec<(usize, usize)> = Vec::new();
        // The first child of the group that still has no member.
        let mut waiting: Option<usize> = None;
        for (number, child) in children.iter().enumerate() {
            if !child.member {
                continue;
            }
            let before = number.checked_sub(1).map(|before| &children[before]);
            let gap = before.map_or(2, |before| self.line_feeds(before.end, child.start));
            let belongs = child.role.includes(Role::COMMENT) || child.role.includes(Role::PREFIX);
            // A comment after something on its line belongs to that.
            if belongs && gap == 0 && waiting.is_none() {
                continue;
            }
            match waiting {
                Some(from) if self.belongs_to_next(&children[from..number], child) => {
                    if !belongs {
                        groups.push((from, number));
                        waiting = None;
                    }
                }
                Some(from) => {
                    groups.push((from, number));
                    waiting = belongs.then_some(number);
                    if !belongs {
                        groups.push((number, number));
                    }
                }
                None if belongs => waiting = Some(number),
                None => groups.push((number, number)),
            }
        }
        groups.extend(waiting.map(|from| (from, from)));
        // A group ends where the next one begins; the last one at the end of the container, before its closing token.
        let closers =
            children.iter().rev().take_while(|child| !child.member).count().min(children.len());
        for number in 0..groups.len() {
            groups[number].1 = match groups.get(number + 1) {
                Some(next) => next.0,
                None => (children.len() - closers).max(groups[number].0 + 1),
            };
        }
        groups
    }

    /// Whether the waiting children belong to the child after them.
    fn belongs_to_next(&self, waiting: &[Child<'_>], child: &Child<'_>) -> bool {
        waiting.last().is_some_and(|last| {
            waiting.iter().any(|one| one.role.includes(Role::PREFIX))
                || self.line_feeds(last.end, child.start) <= 1
        })
    }

    fn line_feeds(&self, from: usize, to: usize) -> usize {
        let Some(from) = from.checked_sub(self.piece.shift) else { return 2 };
        let text =
            self.piece.bytes.get(from..to.saturating_sub(self.piece.shift)).unwrap_or_default();
        text.iter().filter(|byte| **byte == b'\n').take(2).count()
    }

    /// Records a node that fits, and so is not cut by lines. If it fits only without the blanks before it, these may be
    /// cut off.
    fn add_atom(&mut self, start: usize, end: usize) {
        let Some(start) = start.checked_sub(self.piece.shift) else { return };
        let end = end - self.piece.shift;
        self.found.atoms.push((start, end));
        let room = self.piece.target.saturating_sub(end - start);
        let before = &self.piece.bytes[start.saturating_sub(room.saturating_add(1))..start];
        if before.len() > room && before.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            self.found.spare.push(Cut { at: start, level: level::INLINE });
        }
    }

    /// Records a possible cut before the node that starts here: at the start of its line, if it is the first node
    /// there.
    fn boundary(&mut self, start: usize, level: u32, main: bool) {
        let Some(start) = start.checked_sub(self.piece.shift) else { return };
        if !self.line.contains(&start) {
            let bytes = self.piece.bytes;
            let end =
                memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |at| start + at + 1);
            self.line = self.line_start(start)..end;
        }
        let is_first = self.piece.bytes[self.line.start..start]
            .iter()
            .rev()
            .all(|byte| matches!(byte, b' ' | b'\t' | b'\x0c' | b'\r'));
        let (at, level, main) = if is_first {
            (self.with_comments(self.line.start), level, main)
        } else if self.line.len() > self.piece.target {
            (start, level, main)
        } else {
            (start, level::INLINE + level.min(level::PART), false)
        };
        if at > 0 && at < self.piece.bytes.len() {
            let list = if main { &mut self.found.main } else { &mut self.found.spare };
            list.push(Cut { at, level });
        }
    }

    fn line_start(&self, at: usize) -> usize {
        memchr::memrchr(b'\n', &self.piece.bytes[..at]).map_or(0, |lf| lf + 1)
    }

    /// Includes comments before a YAML key in its own column, which the grammar treats as part of the previous value.
    fn with_comments(&self, line: usize) -> usize {
        if self.piece.language != Language::Yaml {
            return line;
        }
        let blanks = |line: &[u8]| line.iter().take_while(|byte| **byte == b' ').count();
        let column = blanks(&self.piece.bytes[line..]);
        let mut start = line;
        while let Some(end) = start.checked_sub(1) {
            let above = self.line_start(end);
            let text = &self.piece.bytes[above..end];
            if blanks(text) != column || text.get(column) != Some(&b'#') {
                break;
            }
            start = above;
        }
        start
    }
}
