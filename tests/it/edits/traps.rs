//! Blocks that must never be applied: each says something of the file that is not so, or does not say which place it means.

use conversation::format::edit::EditBlock;
use edits::apply::Cause;

use super::draw::change_word;
use super::trial::{Dice, Trial};

/// A block that must be refused.
pub(crate) struct Trap {
    pub(crate) file: String,
    pub(crate) blocks: Vec<EditBlock>,
    /// The causes that may be named.
    pub(crate) causes: &'static [Cause],
    /// A word that the refusal must say, and a line of the file (from 1) that it must quote.
    pub(crate) says: Option<String>,
    pub(crate) quotes: Option<usize>,
    /// The search, where it must not stand in the file; several lines are looked up as they are.
    pub(crate) search: Option<(Vec<String>, Vec<String>)>,
}

/// Makes a trap of an edit; none where it cannot be one.
pub(crate) type Lay = fn(&mut Dice, Trial) -> Option<Trap>;

const MISSING: &[Cause] = &[Cause::Missing];

pub(crate) const TRAPS: [(&str, Lay); 20] = [
    ("found twice", |dice, trial| twice(dice, trial, str::to_owned)),
    ("found twice, but for indentation", |dice, mut trial| {
        let deeper = |line: &str| {
            if line.trim().is_empty() { line.to_owned() } else { format!("      {line}") }
        };
        for row in &mut trial.rows {
            row.search = row.search.as_deref().map(|line| {
                if line.trim().is_empty() { line.to_owned() } else { format!("   {line}") }
            });
        }
        twice(dice, trial, deeper)
    }),
    ("found twice, but for blanks at ends", |dice, mut trial| {
        for row in &mut trial.rows {
            row.search = row.search.as_deref().map(|line| format!("{line} "));
        }
        twice(dice, trial, |line| format!("{line}  "))
    }),
    ("one stale value", |dice, mut trial| {
        let (at, line) = row_with_text(dice, &trial)?;
        let stale = change_word(dice, &line)?;
        let quotes = trial.line_of(at);
        trial.rows[at].search = Some(stale.clone());
        if let Some(replace) = &mut trial.rows[at].replace {
            replace.clone_from(&stale);
        }
        Some(Trap { says: Some(stale), quotes: Some(quotes), ..missing(&trial) })
    }),
    ("one stale value, in a block that slipped", |dice, mut trial| {
        let (at, line) = row_with_text(dice, &trial)?;
        trial.rows[at].search = Some(change_word(dice, &line)?);
        for row in &mut trial.rows {
            row.search = row.search.take().map(|line| format!("  {line} "));
            row.replace = row.replace.take().map(|line| format!("  {line} "));
        }
        Some(missing(&trial))
    }),
    ("one character", |dice, mut trial| {
        let (at, line) = row_with_text(dice, &trial)?;
        let body = line.trim_start();
        let places: Vec<usize> =
            body.char_indices().map(|(at, _)| line.len() - body.len() + at).collect();
        let mut stale = line.clone();
        stale.insert(*dice.pick(&places), '7');
        trial.rows[at].search = Some(stale);
        Some(missing(&trial))
    }),
    ("one invented line", |dice, mut trial| {
        let rows: Vec<usize> =
            (0..trial.rows.len()).filter(|i| trial.rows[*i].search.is_some()).collect();
        let at = *dice.pick(&rows);
        let like = trial.rows[at].search.clone()?;
        let invented =
            format!("{}invented(line, {});", super::draw::indent(&like), dice.below(100));
        let row = super::trial::Row {
            search: Some(invented.clone()),
            replace: Some(invented.clone()),
            ..Default::default()
        };
        trial.rows.insert(at + dice.below(2), row);
        Some(Trap { says: Some(invented), ..missing(&trial) })
    }),
    ("a line left out", |dice, mut trial| {
        let rows: Vec<usize> =
            (0..trial.rows.len()).filter(|i| trial.rows[*i].search.is_some()).collect();
        let inner: Vec<usize> = rows.get(1..rows.len().checked_sub(1)?)?.to_vec();
        let is_text =
            |i: &usize| trial.rows[*i].search.as_ref().is_some_and(|line| !line.trim().is_empty());
        let inner: Vec<usize> = inner.into_iter().filter(is_text).collect();
        if inner.is_empty() {
            return None;
        }
        let at = *dice.pick(&inner);
        let (quotes, says) = (trial.line_of(at), trial.rows[at].search.take());
        trial.rows[at].replace = None;
        Some(Trap { says, quotes: Some(quotes), ..missing(&trial) })
    }),
    ("first and last line alike", |dice, mut trial| {
        let rows: Vec<usize> =
            (0..trial.rows.len()).filter(|i| trial.rows[*i].search.is_some()).collect();
        if rows.len() < 3 {
            return None;
        }
        for at in &rows[1..rows.len() - 1] {
            trial.rows[*at].search = Some(format!("    quite_another({});", dice.below(100)));
        }
        Some(missing(&trial))
    }),
    ("last line unlike", |_, mut trial| {
        let row = trial.rows.iter_mut().rfind(|row| row.search.is_some())?;
        row.search = Some("unlike_anything()".to_owned());
        Some(missing(&trial))
    }),
    ("two lines the other way round", |dice, mut trial| {
        let rows: Vec<usize> =
            (0..trial.rows.len()).filter(|i| trial.rows[*i].search.is_some()).collect();
        let at = dice.below(rows.len().checked_sub(1)?);
        let (a, b) = (*rows.get(at)?, *rows.get(at + 1)?);
        let (first, second) = (trial.rows[a].search.clone()?, trial.rows[b].search.clone()?);
        if first.trim() == second.trim() || first.trim().is_empty() || second.trim().is_empty() {
            return None;
        }
        (trial.rows[a].search, trial.rows[b].search) = (Some(second), Some(first));
        Some(missing(&trial))
    }),
    ("a part of a line", |dice, trial| {
        let lines = trial.file_lines();
        let line = dice.pick(&lines);
        let words: Vec<&str> = line.split_whitespace().collect();
        let first = words.first()?;
        let part = if words.len() > 2 {
            words[1..words.len() - 1].join(" ")
        } else {
            first[first.len() - first.chars().next_back()?.len_utf8()..].to_owned()
        };
        let stands = lines.iter().any(|line| line.trim() == part);
        (!stands && line.contains(&part)).then_some(())?;
        let block =
            EditBlock { search: format!("{part}\n"), replace: "something else\n".into(), line: 1 };
        Some(Trap {
            causes: &[Cause::PartOfLine],
            quotes: Some(lines.iter().position(|line| line.contains(&part))? + 1),
            ..plain(&trial, vec![block])
        })
    }),
    ("one stale value, within a long line", |dice, mut trial| {
        let (at, line) = row_with_text(dice, &trial)?;
        let stale = change_word(dice, &line)?;
        trial.rows[at].file = Some(format!("{line}{}", " word".repeat(300)));
        let block = EditBlock { search: format!("{stale}\n"), replace: "NEW\n".into(), line: 1 };
        let is_there = trial.file().contains(&stale);
        let causes = &[Cause::Missing, Cause::PartOfLine, Cause::Indentation];
        (!is_there).then(|| Trap { causes, ..plain(&trial, vec![block]) })
    }),
    ("a part of a long line, twice", |dice, mut trial| {
        let (at, line) = row_with_text(dice, &trial)?;
        trial.rows[at].file = Some(format!("{line}{}{line}", " word".repeat(300)));
        let block = EditBlock { search: format!("{line}\n"), replace: "NEW\n".into(), line: 1 };
        let is_whole = trial.file().lines().any(|other| other.trim() == line.trim());
        let causes = &[Cause::Missing, Cause::PartOfLine, Cause::Indentation];
        (!is_whole).then(|| Trap { causes, ..plain(&trial, vec![block]) })
    }),
    ("already applied", |_, trial| already(&trial)),
    ("already applied, in a block that slipped", |dice, mut trial| {
        let (_, slip) = *dice.pick(&super::slips::SLIPS[1..15]);
        slip(dice, &mut trial)?;
        already(&trial)
    }),
    ("an empty search", |dice, trial| {
        let search = ["", "\n", "   \n\n", "\t\n"][dice.below(4)].to_owned();
        let block = EditBlock { search, replace: "something new\n".into(), line: 1 };
        Some(Trap { causes: &[Cause::Empty], ..plain(&trial, vec![block]) })
    }),
    ("search and replacement the same", |_, trial| {
        let search = trial.block().search;
        let block = EditBlock { replace: search.clone(), search, line: 1 };
        Some(Trap { causes: &[Cause::NoChange], ..plain(&trial, vec![block]) })
    }),
    ("the same block twice", |_, trial| {
        let block = trial.block();
        Some(Trap { causes: &[Cause::Overlap], ..plain(&trial, vec![block.clone(), block]) })
    }),
    ("one of two blocks is stale", |dice, mut trial| {
        let good = trial.block();
        let (at, line) = row_with_text(dice, &trial)?;
        trial.rows[at].search = Some(change_word(dice, &line)?);
        let bad = trial.block();
        Some(Trap { blocks: vec![good, bad], ..missing(&trial) })
    }),
];

fn plain(trial: &Trial, blocks: Vec<EditBlock>) -> Trap {
    Trap { file: trial.file(), blocks, causes: &[], says: None, quotes: None, search: None }
}

fn missing(trial: &Trial) -> Trap {
    let search = Some((trial.search(), trial.file_lines()));
    Trap { causes: MISSING, search, ..plain(trial, vec![trial.block()]) }
}

fn row_with_text(dice: &mut Dice, trial: &Trial) -> Option<(usize, String)> {
    let is_text = |i: &usize| {
        trial.rows[*i].search.as_ref().is_some_and(|line| line.chars().any(char::is_alphanumeric))
    };
    let rows: Vec<usize> = (0..trial.rows.len()).filter(is_text).collect();
    let at = *rows.get(dice.below(rows.len()))?;
    Some((at, trial.rows[at].search.clone()?))
}

/// The lines of the edit stand in the file a second time.
#[expect(clippy::unnecessary_wraps, reason = "as all traps are")]
fn twice(dice: &mut Dice, mut trial: Trial, as_: impl Fn(&str) -> String) -> Option<Trap> {
    let copy: Vec<String> =
        trial.rows.iter().filter_map(|row| row.file.as_deref()).map(as_).collect();
    // Joined to the lines themselves it might make a longer run of one line.
    let apart = "~ apart ~".to_owned();
    if dice.below(2) == 0 {
        trial.after.push(apart);
        trial.after.extend(copy);
    } else {
        trial.before.splice(0..0, copy.into_iter().chain([apart]));
    }
    Some(Trap { causes: &[Cause::Twice], ..plain(&trial, vec![trial.block()]) })
}

/// The file as it is after the edit. That the same was done before can be told where the replacement holds a line of its own,
/// or the lines around those that went.
#[expect(clippy::unnecessary_wraps, reason = "as all traps are")]
fn already(trial: &Trial) -> Option<Trap> {
    let done = trial.once_more();
    let (search, replace) = (done.search(), done.replace());
    let is_text = |line: &&String| !line.trim().is_empty();
    let has_new = replace
        .iter()
        .filter(is_text)
        .any(|line| !search.iter().any(|old| old.trim() == line.trim()));
    let ends = |lines: &[String]| {
        let text = || lines.iter().filter(is_text).map(|line| line.trim().to_owned());
        (text().next(), text().next_back())
    };
    let around = replace.iter().filter(is_text).count() > 1 && ends(&search) == ends(&replace);
    let causes: &[Cause] = if has_new || around {
        &[Cause::AlreadyApplied]
    } else {
        &[Cause::AlreadyApplied, Cause::Missing]
    };
    // Where the search still stands as it did, elsewhere, it is an edit of that place.
    Some(Trap {
        causes,
        search: Some((done.search(), done.file_lines())),
        ..plain(&done, vec![done.block()])
    })
}
