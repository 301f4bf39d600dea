//! Edits as unified diffs: what must be applied, with what models get wrong in one, and what must be refused.

use edits::apply::{Applied, EditRefusal, apply};
use edits::written::parse_edits;

use super::draw::{self, EDITS, draw};
use super::slips::{Expect, SLIPS};
use super::trial::{Dice, Trial};
use super::{Report, Tally, check_quotes, fixtures, oracle, rounds};

/// The diff of a trial, put into its file.
fn run_diff(trial: &Trial, diff: &str) -> Result<Applied, Vec<EditRefusal>> {
    let blocks = parse_edits(diff).unwrap_or_else(|complaint| panic!("{complaint}\n{diff}"));
    apply(&trial.file(), &blocks, false)
}

/// How a diff is written down, or what is off in it.
type Form = fn(&mut Dice, &mut Trial) -> Option<String>;

const FORMS: [(&str, Form); 9] = [
    ("diff", |_, trial| Some(trial.diff(&trial.numbers(0, 0)))),
    ("diff, line numbers off", |dice, trial| {
        Some(trial.diff(&trial.numbers(1 + dice.below(50), 0)))
    }),
    ("diff, counts off", |dice, trial| Some(trial.diff(&trial.numbers(0, 1 + dice.below(9))))),
    ("diff, no numbers", |dice, trial| Some(trial.diff([" ", " ... ", ""][dice.below(3)]))),
    ("diff, blank lines without their blank", |_, trial| {
        let diff = trial.diff(&trial.numbers(0, 0));
        let bare = diff.replace("\n \n", "\n\n").replace("\n \n", "\n\n");
        (bare != diff).then_some(bare)
    }),
    ("diff, blanks at ends in the file", |dice, trial| {
        slip("blanks at ends, in the file", dice, trial)?;
        Some(trial.diff(&trial.numbers(0, 0)))
    }),
    ("diff, CR LF", |dice, trial| {
        slip("CR LF in one of the two", dice, trial)?;
        let diff = trial.diff(&trial.numbers(0, 0));
        Some(if trial.block_end == "\r\n" { diff.replace("@@\n", "@@\r\n") } else { diff })
    }),
    ("diff, no last line end", |dice, trial| {
        slip("no last line end", dice, trial)?;
        Some(trial.diff(&trial.numbers(0, 0)))
    }),
    ("diff, in a fence", |_, trial| {
        Some(format!("```diff\n{}```\n", trial.diff(&trial.numbers(0, 0))))
    }),
];

fn slip(name: &str, dice: &mut Dice, trial: &mut Trial) -> Option<Expect> {
    let (_, slip) = SLIPS.into_iter().find(|(slip, _)| *slip == name).unwrap();
    slip(dice, trial)
}

#[test]
fn diffs_apply_as_blocks_do() {
    let fixtures = fixtures::all();
    let mut report = Report::default();
    for (name, form) in FORMS {
        let mut class = Tally::default();
        for fixture in &fixtures {
            let mut dice = Dice::for_part(&format!("{name}/{}", fixture.name));
            for round in 0..rounds(fixture, 2 * EDITS.len()) {
                let mut trial = draw(&mut dice, fixture, EDITS[round % EDITS.len()]);
                let Some(diff) = form(&mut dice, &mut trial) else { continue };
                match run_diff(&trial, &diff) {
                    Ok(applied) if applied.text == trial.expected() => class.applied += 1,
                    Ok(applied) => {
                        class.damaged += 1;
                        let got = super::diff(&trial.expected(), &applied.text);
                        report
                            .told
                            .push(format!("damaged, {name}, {}:\n{diff}\n{got}", fixture.name));
                    }
                    Err(refusals) => {
                        class.refused += 1;
                        report.told.push(format!(
                            "refused, {name}, {}: {}\n{diff}",
                            fixture.name, refusals[0]
                        ));
                    }
                }
            }
        }
        report.rows.push((name.to_owned(), class));
    }
    let sum = report.sum();
    let holds = sum.damaged == 0 && sum.applied * 100 >= sum.cases() * 97 && sum.applied > 1000;
    report.finish("diffs that must be applied", holds);
}

#[test]
fn traps_hold_for_diffs() {
    let fixtures = fixtures::all();
    let mut report = Report::default();
    let mut classes = vec![Tally::default(); 3];
    let names = ["diff, stale context", "diff, found twice", "diff, already applied"];
    for fixture in &fixtures {
        let mut dice = Dice::for_part(&format!("diff traps/{}", fixture.name));
        for round in 0..rounds(fixture, 2 * EDITS.len()) {
            let trial = draw(&mut dice, fixture, EDITS[round % EDITS.len()]);
            let mut stale = trial.clone();
            let row = dice.below(stale.rows.len());
            let row = &mut stale.rows[row];
            let changed = row.search.as_deref().and_then(|line| draw::change_word(&mut dice, line));
            let mut cases: Vec<(usize, Trial, String)> = Vec::new();
            if let Some(changed) = changed {
                let kept = row.replace.is_some();
                row.search = Some(changed.clone());
                if kept {
                    row.replace = Some(changed);
                }
                if oracle::places(&stale.search(), &stale.file_lines()).is_none() {
                    let diff = stale.diff(&stale.numbers(0, 0));
                    cases.push((0, stale, diff));
                }
            }
            let mut twice = trial.clone();
            twice.after.push("~ apart ~".to_owned());
            twice.after.extend(trial.rows.iter().filter_map(|row| row.file.clone()));
            cases.push((
                1,
                twice.clone(),
                twice.diff([" ", &twice.numbers(7000, 0)][dice.below(2)]),
            ));
            let done = trial.once_more();
            if oracle::places(&done.search(), &done.file_lines())
                .is_none_or(|(_, at)| at.len() != 1)
            {
                let diff = done.diff(&done.numbers(0, 0));
                cases.push((2, done, diff));
            }
            for (class, trial, diff) in cases {
                let tally = &mut classes[class];
                match run_diff(&trial, &diff) {
                    Ok(applied) => {
                        tally.wrong += 1;
                        let got = super::diff(&trial.file(), &applied.text);
                        report.told.push(format!(
                            "wrong, {}, {}:\n{diff}\n{got}",
                            names[class], fixture.name
                        ));
                    }
                    Err(refusals) => {
                        tally.refused += 1;
                        check_quotes(&trial.file(), &refusals);
                    }
                }
            }
        }
    }
    report.rows = names.into_iter().map(str::to_owned).zip(classes).collect();
    let holds = report.sum().wrong == 0 && report.sum().refused > 250;
    report.finish("diffs that must be refused", holds);
}
