//! Right edits of a fixture: a place, and what is done there. Each block is drawn with so many lines around that it
//! stands in the file once.

use super::fixtures::Fixture;
use super::oracle::{self, Level};
use super::trial::{Dice, Row, Trial};

/// What is done at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edit {
    ChangeLine,
    Insert,
    Delete,
    Rewrite,
    Wrap,
    Rename,
    Append,
    FirstLines,
}

pub(crate) const EDITS: [Edit; 8] = [
    Edit::ChangeLine,
    Edit::Insert,
    Edit::Delete,
    Edit::Rewrite,
    Edit::Wrap,
    Edit::Rename,
    Edit::Append,
    Edit::FirstLines,
];

/// The blanks that a line starts with.
pub(crate) fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// One edit of the fixture, whose search stands in it exactly once.
pub(crate) fn draw(dice: &mut Dice, fixture: &Fixture, edit: Edit) -> Trial {
    loop {
        if let Some(trial) = attempt(dice, fixture, edit) {
            return trial;
        }
    }
}

fn attempt(dice: &mut Dice, fixture: &Fixture, edit: Edit) -> Option<Trial> {
    let lines = &fixture.lines;
    let many = match edit {
        Edit::ChangeLine | Edit::Insert | Edit::FirstLines => 1,
        Edit::Delete => 1 + dice.below(3),
        Edit::Append => 2,
        Edit::Rewrite | Edit::Wrap | Edit::Rename => 2 + dice.below(7),
    };
    let at = match edit {
        Edit::Append => lines.len() - many,
        Edit::FirstLines => 0,
        _ => dice.below(lines.len() - many),
    };
    let inner = rows(dice, fixture, edit, &lines[at..at + many])?;
    let (mut from, mut to) = (at, at + many);
    let first = [0, 1, 2, 3][dice.below(4)];
    let last = [0, 1, 2, 3][dice.below(4)];
    (from, to) = (from.saturating_sub(first), (to + last).min(lines.len()));
    // A block begins and ends with text: that is how models cut.
    while from > 0 && lines[from].trim().is_empty() {
        from -= 1;
    }
    while to < lines.len() && lines[to - 1].trim().is_empty() {
        to += 1;
    }
    while !stands_once(&lines[from..to], lines) {
        if to - from > 40 || (from == 0 && to == lines.len()) {
            return None;
        }
        from = from.saturating_sub(1);
        to = (to + 1).min(lines.len());
    }
    let keep = |line: &String| Row::keep(line);
    let rows: Vec<Row> = lines[from..at]
        .iter()
        .map(keep)
        .chain(inner)
        .chain(lines[at + many..to].iter().map(keep))
        .collect();
    let trial = Trial {
        before: lines[..from].to_vec(),
        after: lines[to..].to_vec(),
        rows,
        file_end: fixture.end,
        block_end: fixture.end,
        file_mark: fixture.mark,
        // A block that begins a file may well bring its mark; slips say when.
        block_mark: false,
        last_end: fixture.last_end,
        step: fixture.step,
        loose: None,
    };
    let is_edit = trial.file() != trial.expected();
    is_edit.then_some(trial)
}

fn stands_once(search: &[String], lines: &[String]) -> bool {
    let text = search.iter().any(|line| !line.trim().is_empty());
    text && matches!(oracle::places(search, lines), Some((Level::Exact, places)) if places.len() == 1)
}

fn rows(dice: &mut Dice, fixture: &Fixture, edit: Edit, old: &[String]) -> Option<Vec<Row>> {
    let keep = |line: &String| Row::keep(line);
    let drop = |line: &String| Row::drop(line);
    Some(match edit {
        Edit::ChangeLine => {
            vec![Row::drop(&old[0]), Row::add(&change_word(dice, &old[0])?)]
        }
        Edit::Insert => {
            let before: Vec<Row> = old.iter().map(keep).collect();
            let new = (0..=dice.below(3)).map(|_| Row::add(&new_line(dice, fixture, &old[0])));
            let new: Vec<Row> = new.collect();
            if old[0].trim().is_empty() {
                return None;
            }
            [before, new].concat()
        }
        Edit::Delete => old.iter().map(drop).collect(),
        Edit::Rewrite => {
            let new = (0..=dice.below(6)).map(|_| {
                let like = dice.pick(old).clone();
                Row::add(&new_line(dice, fixture, &like))
            });
            let new: Vec<Row> = new.collect();
            old.iter().map(drop).chain(new).collect()
        }
        Edit::Wrap => {
            let base = old.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(line));
            let base = base.min_by_key(|indent| indent.len())?;
            let deeper = old.iter().map(|line| {
                if line.trim().is_empty() {
                    Row::keep(line)
                } else {
                    Row::add(&format!("{}{line}", fixture.step))
                }
            });
            let mut rows = Vec::new();
            // What was there goes, line by line or as a whole, as diffs show it.
            for (line, deeper) in old.iter().zip(deeper) {
                if !line.trim().is_empty() {
                    rows.push(Row::drop(line));
                }
                rows.push(deeper);
            }
            rows.insert(0, Row::add(&format!("{base}when (ready_{}) {{", dice.below(100))));
            rows.push(Row::add(&format!("{base}}}")));
            rows
        }
        Edit::Rename => {
            let word = word_of(dice, &old.join("\n"))?;
            let new = format!("{word}_renamed");
            let rows = old.iter().flat_map(|line| {
                let changed = replace_word(line, &word, &new);
                if changed == *line {
                    vec![Row::keep(line)]
                } else {
                    vec![Row::drop(line), Row::add(&changed)]
                }
            });
            rows.collect()
        }
        Edit::Append => {
            let new = (0..=dice.below(4)).map(|_| {
                let like = dice.pick(old).clone();
                Row::add(&new_line(dice, fixture, &like))
            });
            let new: Vec<Row> = new.collect();
            old.iter().map(keep).chain(new).collect()
        }
        Edit::FirstLines => {
            let new = Row::add(&new_line(dice, fixture, ""));
            if dice.below(2) == 0 {
                vec![new, Row::keep(&old[0])]
            } else {
                vec![Row::drop(&old[0]), new]
            }
        }
    })
}

/// A line that the file does not have, indented like another one.
fn new_line(dice: &mut Dice, fixture: &Fixture, like: &str) -> String {
    let number = dice.below(1000);
    match dice.below(4) {
        0 => change_word(dice, like.trim_end()).unwrap_or_else(|| format!("fresh {number}")),
        1 => format!("{}{}deeper(fresh, {number});", indent(like), fixture.step),
        _ => format!("{}fresh(line, {number});", indent(like)),
    }
}

fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    for piece in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
        if !piece.is_empty() {
            found.push((at, piece));
        }
        at += piece.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    found
}

fn word_of(dice: &mut Dice, text: &str) -> Option<String> {
    let words: Vec<_> = words(text).into_iter().filter(|(_, word)| word.len() > 2).collect();
    (!words.is_empty()).then(|| dice.pick(&words).1.to_owned())
}

/// The line with one of its words changed.
pub(crate) fn change_word(dice: &mut Dice, line: &str) -> Option<String> {
    let words = words(line);
    if words.is_empty() {
        return None;
    }
    let (at, word) = *dice.pick(&words);
    let new = if word.bytes().all(|byte| byte.is_ascii_digit()) {
        (word.parse::<u64>().unwrap_or(7) + 1 + dice.below(9) as u64).to_string()
    } else {
        format!("changed{}", dice.below(100))
    };
    Some(format!("{}{new}{}", &line[..at], &line[at + word.len()..]))
}

fn replace_word(line: &str, word: &str, new: &str) -> String {
    let mut text = String::new();
    let mut from = 0;
    for (at, found) in words(line) {
        if found == word {
            text.push_str(&line[from..at]);
            text.push_str(new);
            from = at + found.len();
        }
    }
    text.push_str(&line[from..]);
    text
}
