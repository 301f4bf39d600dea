//! What models do to a right edit, and what must still come out. A slip changes the block or the file, each with all that
//! follows for the file that must come out.

use super::trial::{Dice, Row, Trial};

/// Whether an edit that slipped so must be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    Apply,
    /// The block does not say where a line goes: to refuse is as good as the one right text.
    ApplyOrRefuse,
}

/// Disturbs an edit; none where there is nothing to disturb.
pub(crate) type Slip = fn(&mut Dice, &mut Trial) -> Option<Expect>;

pub(crate) const SLIPS: [(&str, Slip); 24] = [
    ("exact", |_, _| Some(Expect::Apply)),
    ("blanks at ends, in the search", blanks_in_search),
    ("blanks at ends, in the block", blanks_in_block),
    ("blanks at ends, in the file", blanks_in_file),
    ("outdented block", outdent),
    ("indented block", |_, trial| {
        let step = trial.step.to_owned();
        said(trial, |line| format!("{step}{line}"))
    }),
    ("indented block, by one blank", |_, trial| said(trial, |line| format!(" {line}"))),
    ("tabs in the file", tabs_in_file),
    ("tabs in the block", tabs_in_block),
    ("spaces in the block", spaces_in_block),
    ("CR LF in one of the two", |_, trial| {
        trial.block_end = other_end(trial.block_end);
        Some(Expect::Apply)
    }),
    ("CR LF the other way round", |_, trial| {
        (trial.file_end, trial.block_end) = (other_end(trial.file_end), trial.file_end);
        Some(Expect::Apply)
    }),
    ("byte order mark in the file", |_, trial| {
        (!trial.file_mark).then(|| trial.file_mark = true)?;
        Some(Expect::Apply)
    }),
    ("byte order mark in the block", |_, trial| {
        trial.block_mark = true;
        Some(Expect::Apply)
    }),
    ("no last line end", |_, trial| {
        trial.last_end.then(|| trial.last_end = false)?;
        Some(Expect::Apply)
    }),
    ("plain quotes and dashes for typographic ones", plain_quotes),
    ("typographic quotes for plain ones", curled_quotes),
    ("a dash for a hyphen", |_, trial| said(trial, |line| line.replace(" - ", " – "))),
    ("no-break blanks", no_break),
    ("a blank line too few, in the block", |dice, trial| blank_too_few(dice, trial, true)),
    ("a blank line too few, in the search", |dice, trial| blank_too_few(dice, trial, false)),
    ("a blank line too many, in the block", |dice, trial| blank_too_many(dice, trial, true)),
    ("a blank line too many, in the search", |dice, trial| blank_too_many(dice, trial, false)),
    ("a blank line too many, at an end", |dice, trial| {
        let row =
            Row { search: Some(String::new()), replace: Some(String::new()), ..Row::default() };
        let at = if dice.below(2) == 0 { 0 } else { trial.rows.len() };
        let beside = if at == 0 { trial.before.last() } else { trial.after.first() };
        let edge = if at == 0 { trial.rows.first() } else { trial.rows.last() };
        // Beside a blank line of the file it is no slip; beside what is new it is what is asked for.
        if beside.is_some_and(|line| line.trim().is_empty()) || !edge.is_some_and(Row::is_keep) {
            return None;
        }
        trial.rows.insert(at, row);
        Some(Expect::Apply)
    }),
];

/// A line at an end of the block that both sides share is there in part. Whether it can be only that line depends on the file.
pub(crate) fn cut_line(dice: &mut Dice, trial: &mut Trial, is_last: bool) -> Option<()> {
    let row = if is_last { trial.rows.last_mut() } else { trial.rows.first_mut() }?;
    let line = row.search.clone().filter(|_| row.is_keep())?;
    let cuts: Vec<usize> = line.char_indices().map(|(at, _)| at).skip(1).collect();
    let cut = (!cuts.is_empty()).then(|| *dice.pick(&cuts))?;
    let part = if is_last { &line[..cut] } else { &line[cut..] };
    (!part.trim().is_empty() && part.trim() != line.trim()).then_some(())?;
    (row.search, row.replace) = (Some(part.to_owned()), Some(part.to_owned()));
    Some(())
}

fn other_end(end: &str) -> &'static str {
    if end == "\n" { "\r\n" } else { "\n" }
}

/// Pairs of slips whose numbers in [`SLIPS`] differ in kind.
pub(crate) fn pair(dice: &mut Dice) -> ((&'static str, Slip), (&'static str, Slip)) {
    // One of blanks, one of line ends, and so on: within a kind they would undo each other.
    let kinds: [&[usize]; 6] = [
        &[1, 2, 3],
        &[4, 5, 6, 7, 8, 9],
        &[10, 11],
        &[12, 13, 14],
        &[15, 16, 17, 18],
        &[19, 20, 21, 22, 23],
    ];
    let first = dice.below(kinds.len());
    let second = (first + 1 + dice.below(kinds.len() - 1)) % kinds.len();
    let of = |dice: &mut Dice, kind: usize| SLIPS[*dice.pick(kinds[kind])];
    // A blank line is left out before the rest is disturbed.
    let (first, second) = (first.max(second), first.min(second));
    (of(dice, first), of(dice, second))
}

/// Changes every line of search and replacement that holds text.
fn said(trial: &mut Trial, with: impl Fn(&str) -> String) -> Option<Expect> {
    let before = trial.search();
    for row in &mut trial.rows {
        for line in [&mut row.search, &mut row.replace].into_iter().flatten() {
            if !line.trim().is_empty() {
                *line = with(line);
            }
        }
    }
    (trial.search() != before).then_some(Expect::Apply)
}

fn blanks_in_search(dice: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    let blanks = *dice.pick(&[" ", "  ", "\t", "    "]);
    let rows: Vec<usize> =
        (0..trial.rows.len()).filter(|i| trial.rows[*i].search.is_some()).collect();
    for _ in 0..=dice.below(rows.len()) {
        let at = *dice.pick(&rows);
        trial.rows[at].search.as_mut()?.push_str(blanks);
    }
    Some(Expect::Apply)
}

fn blanks_in_block(dice: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    let blanks = *dice.pick(&[" ", "  ", "\t"]);
    said(trial, |line| format!("{line}{blanks}"))
}

fn blanks_in_file(dice: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    let blanks = *dice.pick(&[" ", "  ", "\t", " \t "]);
    // A line that the edit has twice, as one that goes or comes, may be either: which of them the blanks belong to is
    // nowhere said.
    let changed: Vec<String> = trial
        .rows
        .iter()
        .filter(|row| !row.is_keep())
        .flat_map(|row| [row.search.clone(), row.replace.clone()])
        .flatten()
        .collect();
    let is_one = |row: &Row| {
        row.file.as_ref().is_some_and(|file| {
            changed.iter().filter(|line| *line == file).count() <= usize::from(!row.is_keep())
        })
    };
    let rows: Vec<usize> = (0..trial.rows.len()).filter(|i| is_one(&trial.rows[*i])).collect();
    if rows.is_empty() {
        return None;
    }
    for _ in 0..=dice.below(rows.len()) {
        let row = &mut trial.rows[*dice.pick(&rows)];
        row.file.as_mut()?.push_str(blanks);
        if let Some(new) = &mut row.new {
            new.push_str(blanks);
        }
    }
    Some(Expect::Apply)
}

fn outdent(dice: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    let lines = || trial.rows.iter().flat_map(|row| [&row.search, &row.replace]).flatten();
    let text = || lines().filter(|line| !line.trim().is_empty());
    let first = text().next()?;
    let mut common = super::draw::indent(first).to_owned();
    while !text().all(|line| line.starts_with(&common)) {
        common.pop();
    }
    if dice.below(3) == 0 && common.starts_with(trial.step) {
        trial.step.clone_into(&mut common);
    }
    (!common.is_empty()).then_some(())?;
    said(trial, |line| line[common.len()..].to_owned())
}

/// Leading blanks as tabs; what is left of a step stays.
fn tabbed(line: &str, width: usize) -> String {
    let body = line.trim_start_matches(' ');
    let spaces = line.len() - body.len();
    format!("{}{}{body}", "\t".repeat(spaces / width), " ".repeat(spaces % width))
}

fn tabs_in_file(_: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    let width = trial.step.len();
    if trial.step == "\t" {
        return None;
    }
    for line in trial.before.iter_mut().chain(&mut trial.after) {
        *line = tabbed(line, width);
    }
    for row in &mut trial.rows {
        for line in [&mut row.file, &mut row.new].into_iter().flatten() {
            *line = tabbed(line, width);
        }
    }
    let is_other = |row: &Row| row.file.is_some() && row.search.is_some() && row.file != row.search;
    trial.rows.iter().any(is_other).then_some(Expect::Apply)
}

fn tabs_in_block(_: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    let width = trial.step.len();
    if trial.step == "\t" {
        return None;
    }
    said(trial, |line| tabbed(line, width))
}

fn spaces_in_block(dice: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    let width = *dice.pick(&[2, 4, 8]);
    if trial.step != "\t" {
        return None;
    }
    said(trial, |line| {
        let body = line.trim_start_matches('\t');
        format!("{}{body}", " ".repeat(width * (line.len() - body.len())))
    })
}

fn plain(c: char) -> char {
    match c {
        '‘' | '’' => '\'',
        '“' | '”' | '„' => '"',
        '–' | '—' => '-',
        c => c,
    }
}

/// Lines that come in place of no line, or of several, say nothing about quotes: what is new is written as it is said,
/// and a quote in it would be either.
fn no_quotes_in_new_lines(trial: &mut Trial) {
    let is_quote = |c: char| "'\"-".contains(plain(c)) || plain(c) != c;
    for at in 0..trial.rows.len() {
        let goes = |row: Option<&Row>| {
            row.is_some_and(|row| row.search.is_some() && row.replace.is_none())
        };
        let comes = |row: Option<&Row>| {
            row.is_some_and(|row| row.search.is_none() && row.replace.is_some())
        };
        let row = |at: usize| trial.rows.get(at);
        let before = |many: usize| at.checked_sub(many).and_then(row);
        if comes(row(at))
            && (!goes(before(1)) || goes(before(2)) && !comes(before(2)) || comes(row(at + 1)))
        {
            let row = &mut trial.rows[at];
            let text: String =
                row.new.iter().flat_map(|text| text.chars()).filter(|c| !is_quote(*c)).collect();
            (row.new, row.replace) = (Some(text.clone()), Some(text));
        }
    }
}

fn plain_quotes(_: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    no_quotes_in_new_lines(trial);
    said(trial, |line| line.chars().map(plain).collect())
}

/// As word processors do it: by what stands before.
fn curl(line: &str) -> String {
    let mut text = String::new();
    for c in line.chars() {
        let opens = text.chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '.');
        text.push(match c {
            '"' if opens => '“',
            '"' => '”',
            '\'' if opens => '‘',
            '\'' => '’',
            c => c,
        });
    }
    text
}

fn curled_quotes(_: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    // Where the file has both kinds, a typographic quote may be meant.
    let mixed = trial.search().iter().any(|line| line.chars().any(|c| plain(c) != c));
    if mixed {
        return None;
    }
    no_quotes_in_new_lines(trial);
    said(trial, curl)
}

fn no_break(dice: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    let leading = dice.below(3) == 0;
    said(trial, |line| {
        let body = if leading { line } else { line.trim_start_matches([' ', '\t']) };
        format!("{}{}", &line[..line.len() - body.len()], body.replace(' ', "\u{a0}"))
    })
}

/// How the lines beside a place between two rows are changed: lines that go and that come, above it and below it.
fn beside(rows: &[Row], at: usize, below: usize) -> [usize; 4] {
    let mut counts = [0; 4];
    let above = rows[..at].iter().rev().take_while(|row| !row.is_keep());
    let below = rows[below..].iter().take_while(|row| !row.is_keep());
    for (side, row) in above.map(|row| (0, row)).chain(below.map(|row| (2, row))) {
        counts[side] += usize::from(row.file.is_some());
        counts[side + 1] += usize::from(row.new.is_some());
    }
    counts
}

fn blank_too_few(dice: &mut Dice, trial: &mut Trial, in_both: bool) -> Option<Expect> {
    let inner = 1..trial.rows.len().saturating_sub(1);
    let is_blank = |row: &Row| row.is_keep() && row.file.as_deref() == Some("");
    // Of two blank lines of which one goes, either may be the one that is left out.
    let goes = |row: &Row| !row.is_keep() && row.file.as_deref() == Some("");
    let in_file = |row: &&Row| row.file.is_some();
    let is_one = |i: &usize| {
        let above = trial.rows[..*i].iter().rev().find(in_file);
        let below = trial.rows[i + 1..].iter().find(in_file);
        is_blank(&trial.rows[*i]) && ![above, below].into_iter().flatten().any(goes)
    };
    let blanks: Vec<usize> = inner.filter(is_one).collect();
    if blanks.is_empty() {
        return None;
    }
    let at = *dice.pick(&blanks);
    trial.rows[at].search = None;
    if !in_both {
        return Some(Expect::Apply);
    }
    trial.rows[at].replace = None;
    // Where lines come beside it, nothing tells on which side of it.
    let beside = beside(&trial.rows, at, at + 1);
    let is_certain = match beside {
        [0, 0, 0, 0] => true,
        [gone, come, 0, 0] | [0, 0, gone, come] => gone == come,
        _ => false,
    };
    if !is_certain {
        trial.loose = Some(at);
    }
    Some(match beside {
        [_, 0, _, 0] => Expect::Apply,
        _ if is_certain => Expect::Apply,
        _ => Expect::ApplyOrRefuse,
    })
}

fn blank_too_many(dice: &mut Dice, trial: &mut Trial, in_both: bool) -> Option<Expect> {
    let is_text = |line: &Option<String>| line.as_ref().is_none_or(|line| !line.trim().is_empty());
    let is_place = |i: &usize| {
        let pair = [&trial.rows[*i - 1], &trial.rows[*i]];
        // Between two lines of the search that hold text.
        pair.iter().all(|row| row.search.is_some() && is_text(&row.search))
    };
    let places: Vec<usize> = (1..trial.rows.len()).filter(is_place).collect();
    if places.is_empty() {
        return None;
    }
    let at = *dice.pick(&places);
    let mut row = Row { search: Some(String::new()), ..Row::default() };
    if in_both {
        row.replace = Some(String::new());
        if beside(&trial.rows, at, at) != [0; 4] {
            trial.loose = Some(at);
        }
    }
    trial.rows.insert(at, row);
    Some(Expect::Apply)
}
