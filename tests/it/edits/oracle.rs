//! Where a search stands in a file, found by trying every line, in the plainest way that there is. It shares no code
//! with the engine, and knows of it only what is promised: which differences may be overlooked, from the strictest.

/// What may be overlooked, from the strictest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    Exact,
    Trailing,
    Indent,
    Quotes,
    QuotesAndIndent,
    BlankLines,
    BlankLinesAndIndent,
    All,
}

use std::borrow::Cow;

use memchr::memmem;

use Level::{
    All, BlankLines, BlankLinesAndIndent, Exact, Indent, Quotes, QuotesAndIndent, Trailing,
};

const LEVELS: [Level; 8] =
    [Exact, Trailing, Indent, Quotes, QuotesAndIndent, BlankLines, BlankLinesAndIndent, All];

/// The first level at which the search is anywhere, and the lines (from 0) where it begins there.
pub(crate) fn places(search: &[String], file: &[String]) -> Option<(Level, Vec<usize>)> {
    // Whatever the level, the first line (with text) is alike as it is typed and without blanks: only there is it worth a
    // closer look.
    let firsts = [search.first(), search.iter().find(|line| !line.trim().is_empty())];
    let firsts: Vec<String> = firsts
        .into_iter()
        .flatten()
        .map(|line| typed(line).trim_matches(BLANKS).to_owned())
        .collect();
    let is_candidate = |line: &str| {
        let line = typed(line);
        firsts.iter().any(|first| {
            memmem::find(line.as_bytes(), first.as_bytes()).is_some()
                && line.trim_matches(BLANKS) == first
        })
    };
    let candidates: Vec<usize> = (0..file.len()).filter(|at| is_candidate(&file[*at])).collect();
    LEVELS.into_iter().find_map(|level| {
        let found: Vec<usize> =
            candidates.iter().copied().filter(|at| stands(search, &file[*at..], level)).collect();
        (!found.is_empty()).then_some((level, found))
    })
}

fn stands(search: &[String], file: &[String], level: Level) -> bool {
    if level >= BlankLines {
        return stands_but_for_blank_lines(search, file, level);
    }
    search.len() <= file.len() && alike(search.iter().zip(file), level)
}

fn alike<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>, level: Level) -> bool {
    let mut indents = Vec::new();
    for (s, f) in pairs {
        let ends_off = |text: &str| text.trim_end_matches(BLANKS).to_owned();
        let equal = match level {
            Exact => s == f,
            Trailing | BlankLines => ends_off(s) == ends_off(f),
            Indent | BlankLinesAndIndent => s.trim_matches(BLANKS) == f.trim_matches(BLANKS),
            Quotes => ends_off(&typed(s)) == ends_off(&typed(f)),
            QuotesAndIndent | All => typed(s).trim_matches(BLANKS) == typed(f).trim_matches(BLANKS),
        };
        if !equal {
            return false;
        }
        if [Indent, QuotesAndIndent, BlankLinesAndIndent, All].contains(&level)
            && !s.trim().is_empty()
        {
            indents.push((indent(&typed(s)), indent(&typed(f))));
        }
    }
    one_shift(&indents)
}

/// Blanks of every kind, but no no-break ones.
const BLANKS: [char; 5] = [' ', '\t', '\r', '\x0b', '\x0c'];

fn indent(text: &str) -> String {
    text.chars().take_while(|c| [' ', '\t'].contains(c)).collect()
}

fn one_shift(pairs: &[(String, String)]) -> bool {
    let Some((s, f)) = pairs.first() else { return true };
    let deeper = |more: &str| pairs.iter().all(|(s, f)| *f == format!("{more}{s}"));
    let shallower = |more: &str| pairs.iter().all(|(s, f)| *s == format!("{more}{f}"));
    if f.strip_suffix(s.as_str()).is_some_and(deeper)
        || s.strip_suffix(f.as_str()).is_some_and(shallower)
    {
        return true;
    }
    let has_tab = pairs.iter().any(|(s, f)| s.contains('\t') || f.contains('\t'));
    has_tab
        && [2, 3, 4, 8].into_iter().any(|width: i64| {
            let columns =
                |text: &str| text.chars().map(|c| if c == '\t' { width } else { 1 }).sum::<i64>();
            let off = |(s, f): &(String, String)| columns(f) - columns(s);
            pairs.iter().all(|pair| off(pair) == off(&pairs[0]))
        })
}

/// As it is typed on a plain keyboard.
fn typed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let plain = |c: char| match c {
        '‘' | '’' | '‚' | '‛' | '′' | 'ʼ' => '\'',
        '“' | '”' | '„' | '‟' | '″' => '"',
        '‐' | '‑' | '‒' | '–' | '—' | '−' => '-',
        '\u{a0}' | '\u{202f}' | '\u{2009}' => ' ',
        c => c,
    };
    text.chars().map(plain).collect::<String>().into()
}

/// The lines with text follow each other as in the search, and one blank line at most is too many or too few between
/// two of them. The file begins with the first of them.
fn stands_but_for_blank_lines(search: &[String], file: &[String], level: Level) -> bool {
    let with_text = |lines: &[String]| -> Vec<usize> {
        (0..lines.len()).filter(|i| !lines[*i].trim().is_empty()).collect()
    };
    let s = with_text(search);
    if s.is_empty() || file.first().is_none_or(|line| line.trim().is_empty()) {
        return false;
    }
    let f: Vec<usize> = with_text(&file[..file.len().min(2 * search.len() + 10)]);
    if f.len() < s.len() {
        return false;
    }
    let odd: usize = (1..s.len()).map(|k| (s[k] - s[k - 1]).abs_diff(f[k] - f[k - 1])).sum();
    odd <= 1 && alike(s.iter().zip(&f).map(|(s, f)| (&search[*s], &file[*f])), level)
}
