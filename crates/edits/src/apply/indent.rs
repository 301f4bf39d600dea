//! The difference between the indentation of a search and of the file, and the resulting indentation of new lines.

use super::lines::{Line, indent, is_blank};

/// The difference between the indentation of a search and of the file, the same for every line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shift {
    None,
    /// The file's lines have this in front of the search's indentation.
    Deeper(String),
    /// The search's lines have this in front of the file's indentation.
    Shallower(String),
    /// Tabs instead of spaces, each `width` columns wide; the file is `delta` columns deeper.
    Columns {
        width: usize,
        delta: isize,
    },
}

/// Returns the single shift that explains all pairs of indentations (search, file).
pub(super) fn common_shift(pairs: &[(&str, &str)]) -> Option<Shift> {
    if pairs.iter().all(|(s, f)| s == f) {
        return Some(Shift::None);
    }
    let (s, f) = *pairs.first()?;
    if let Some(more) = f.strip_suffix(s).filter(|more| !more.is_empty())
        && pairs.iter().all(|(s, f)| f.strip_prefix(more) == Some(s))
    {
        return Some(Shift::Deeper(more.to_owned()));
    }
    if let Some(more) = s.strip_suffix(f).filter(|more| !more.is_empty())
        && pairs.iter().all(|(s, f)| s.strip_prefix(more) == Some(f))
    {
        return Some(Shift::Shallower(more.to_owned()));
    }
    if !pairs.iter().any(|(s, f)| s.contains('\t') || f.contains('\t')) {
        return None;
    }
    let delta = |width| {
        let mut deltas = pairs
            .iter()
            .map(|(s, f)| columns(f, width).cast_signed() - columns(s, width).cast_signed());
        let first = deltas.next()?;
        deltas.all(|delta| delta == first).then_some(first)
    };
    let widths = [4, 2, 8, 3];
    let even = widths.into_iter().find(|width| delta(*width) == Some(0));
    let width = even.or_else(|| widths.into_iter().find(|width| delta(*width).is_some()))?;
    Some(Shift::Columns { width, delta: delta(width)? })
}

/// The width of an indentation in columns; a tab is always `width` of them.
fn columns(indent: &str, width: usize) -> usize {
    indent.bytes().map(|byte| if byte == b'\t' { width } else { 1 }).sum()
}

/// Gives new lines the file's indentation.
pub(super) struct Reindent<'a> {
    shift: &'a Shift,
    /// Indentations of the search with those of the file.
    known: Vec<(&'a str, &'a str)>,
    /// Whether the file indents with tabs.
    tabs: bool,
    /// The width of a tab in columns.
    width: usize,
}

impl<'a> Reindent<'a> {
    /// `pairs` are lines of the search and of the file. Returns `None` if the replacement may already have the file's
    /// indentation.
    pub(super) fn new(
        shift: &'a Shift,
        pairs: &[(&'a str, &'a str)],
        replace: &[Line],
        file: &[Line],
    ) -> Option<Self> {
        let mut known: Vec<(&str, &str)> = Vec::new();
        for (s, f) in
            pairs.iter().filter(|(s, _)| !is_blank(s)).map(|(s, f)| (indent(s), indent(f)))
        {
            if !known.iter().any(|(k, _)| *k == s) {
                known.push((s, f));
            }
        }
        if *shift == Shift::None {
            return Some(Self { shift, known, tabs: false, width: 4 });
        }
        let tabs = if known.iter().any(|(_, f)| f.contains('\t')) {
            true
        } else if known.iter().any(|(_, f)| f.contains(' ')) {
            false
        } else {
            let tabbed = file.iter().filter(|line| line.text.starts_with('\t')).count();
            tabbed > file.iter().filter(|line| line.text.starts_with("  ")).count()
        };
        let width = match shift {
            Shift::Columns { width, .. } => *width,
            // For spaces that become tabs, the model's step counts; for tabs that become spaces, the file's.
            _ if tabs => indent_step(replace),
            _ => indent_step(file),
        };
        let new = Self { shift, known, tabs, width };
        // A line that search and replacement share shows that both are indented wrongly in the same way.
        let shares =
            |line: &Line| !is_blank(line.text) && pairs.iter().any(|(s, _)| *s == line.text);
        (replace.iter().any(shares) || !new.may_be_meant_as_it_is(replace)).then_some(new)
    }

    /// Whether only the replacement begins at the file's indentation or beyond: then it may not need the shift of the
    /// search.
    fn may_be_meant_as_it_is(&self, replace: &[Line]) -> bool {
        let least =
            |indents: &mut dyn Iterator<Item = &str>| indents.map(|i| columns(i, self.width)).min();
        let search = least(&mut self.known.iter().map(|(s, _)| *s));
        let file = least(&mut self.known.iter().map(|(_, f)| *f));
        let replace = least(
            &mut replace.iter().filter(|line| !is_blank(line.text)).map(|line| indent(line.text)),
        );
        let (Some(search), Some(file), Some(replace)) = (search, file, replace) else {
            return false;
        };
        search != replace
            && if file > search { replace >= file } else { file < search && replace <= file }
    }

    /// The indentation in the file for an indentation of the replacement. `None`: it would start before the margin.
    pub(super) fn indent(&self, new: &str) -> Option<String> {
        if *self.shift == Shift::None {
            return Some(new.to_owned());
        }
        if let Some((_, f)) = self.known.iter().find(|(s, _)| *s == new) {
            return Some((*f).to_owned());
        }
        let base =
            self.known.iter().filter(|(s, _)| new.starts_with(s)).max_by_key(|(s, _)| s.len());
        if let Some((s, f)) = base {
            let rest = &new[s.len()..];
            // If the indentation begins with the file's own kind of blanks, the rest is meant literally too.
            let own = !s.is_empty() && !matches!(self.shift, Shift::Columns { .. });
            let indent =
                if own { format!("{f}{rest}") } else { format!("{f}{}", self.convert(rest)) };
            // A tab after spaces would swallow them.
            let swallows = !own && indent.contains(" \t");
            return Some(match self.shift {
                Shift::Columns { width, delta } if swallows => {
                    self.with_tabs(columns(new, *width).checked_add_signed(*delta)?)
                }
                _ => indent,
            });
        }
        match self.shift {
            Shift::None => Some(new.to_owned()),
            Shift::Deeper(more) => Some(format!("{more}{}", self.convert(new))),
            Shift::Shallower(more) => {
                new.strip_prefix(more.as_str()).map(|rest| self.convert(rest))
            }
            Shift::Columns { width, delta } => {
                let at = columns(new, *width).checked_add_signed(*delta)?;
                Some(if self.tabs { self.with_tabs(at) } else { " ".repeat(at) })
            }
        }
    }

    fn convert(&self, blanks: &str) -> String {
        if self.tabs && blanks.contains(' ') {
            self.with_tabs(columns(blanks, self.width))
        } else if !self.tabs {
            " ".repeat(columns(blanks, self.width))
        } else {
            blanks.to_owned()
        }
    }

    fn with_tabs(&self, columns: usize) -> String {
        format!("{}{}", "\t".repeat(columns / self.width), " ".repeat(columns % self.width))
    }
}

/// The step of an indentation in spaces: the largest of 8, 4, 3 and 2 that divides nearly all indentations.
fn indent_step(lines: &[Line]) -> usize {
    let indents = lines
        .iter()
        .filter(|line| !is_blank(line.text))
        .map(|line| indent(line.text))
        .filter(|i| i.starts_with(' '));
    let (mut all, mut kept) = (0_usize, [0_usize; 4]);
    let steps = [8, 4, 3, 2];
    for indent in indents {
        all += 1;
        for (count, step) in kept.iter_mut().zip(steps) {
            *count += usize::from(columns(indent, 1).is_multiple_of(step));
        }
    }
    let found =
        kept.iter().zip(steps).find(|(count, _)| **count * 10 >= all * 9).map(|(_, step)| step);
    if all == 0 { 4 } else { found.unwrap_or(4) }
}
