//! Edits that can be trusted: a corpus of generated edits, each with the text that must come out, and of traps. Its figures are
//! held here and printed by `make edits`.

mod diffs; // the same as unified diffs
mod draw; // right edits of a file
mod fixtures; // the files
mod oracle; // where a search stands, by brute force
mod slips; // what models do to a right edit
mod traps; // what must never be applied
mod trial; // an edit, line by line

use std::fmt::Write as _;
use std::io::Write as _;

use conversation::format::edit::EditBlock;
use edits::apply::{Applied, Cause, EditRefusal, apply};
use proptest::prelude::*;

use draw::{EDITS, draw};
use fixtures::Fixture;
use slips::{Expect, SLIPS};
use trial::{Dice, Trial};

/// What came of the cases of a class.
#[derive(Default, Clone)]
struct Tally {
    applied: usize,
    damaged: usize,
    refused: usize,
    /// Traps that were applied.
    wrong: usize,
    /// Cases that the disturbance made ambiguous: they must be refused, and are counted with the traps.
    ambiguous: usize,
    /// Refused, where nothing tells for certain what is meant.
    unclear: usize,
    /// Refusals with another cause than the true one, or that do not quote what parts.
    unsaid: usize,
    /// Applied ones whose slip names another place to the letter.
    elsewhere: usize,
}

impl Tally {
    fn cases(&self) -> usize {
        self.applied + self.damaged + self.refused + self.wrong + self.ambiguous + self.unclear
    }

    fn add(&mut self, other: &Self) {
        self.applied += other.applied;
        self.damaged += other.damaged;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.ambiguous += other.ambiguous;
        self.unclear += other.unclear;
        self.unsaid += other.unsaid;
        self.elsewhere += other.elsewhere;
    }
}

/// The figures of a part of the corpus, class by class, and what is not as it should be.
#[derive(Default)]
struct Report {
    rows: Vec<(String, Tally)>,
    told: Vec<String>,
}

impl Report {
    fn sum(&self) -> Tally {
        let mut sum = Tally::default();
        self.rows.iter().for_each(|(_, tally)| sum.add(tally));
        sum
    }

    fn table(&self, title: &str) -> String {
        let mut text = format!(
            "\n| {title} | cases | applied | damaged | refused | wrong | must be refused: is | may be: is | not well said |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        );
        let all = [("all".to_owned(), self.sum())];
        for (name, t) in self.rows.iter().chain(&all) {
            let _ = writeln!(
                text,
                "| {name} | {} | {} | {} | {} | {} | {} | {} | {} |",
                t.cases(),
                t.applied,
                t.damaged,
                t.refused,
                t.wrong,
                t.ambiguous,
                t.unclear,
                t.unsaid
            );
        }
        text
    }

    /// Shows the table to whoever asked for it, and all that is wrong when something is.
    fn finish(&self, title: &str, holds: bool) {
        let table = self.table(title);
        if std::env::var_os("NAGENT_EDITS_REPORT").is_some() {
            let all = if std::env::var_os("NAGENT_EDITS_ALL").is_some() {
                self.told.join("\n")
            } else {
                String::new()
            };
            std::io::stdout().write_all(format!("{table}{all}\n").as_bytes()).unwrap();
        }
        assert!(holds, "{table}\n{}", self.told.join("\n"));
    }
}

fn run(file: &str, blocks: &[EditBlock]) -> Result<Applied, Vec<EditRefusal>> {
    apply(file, blocks, false)
}

fn rounds(fixture: &Fixture, many: usize) -> usize {
    if fixture.large { many.div_ceil(32) } else { many.div_ceil(2) }
}

/// What is quoted stands in the file, where it is said to stand.
fn check_quotes(file: &str, refusals: &[EditRefusal]) {
    let body = file.strip_prefix('\u{feff}').unwrap_or(file);
    let lines: Vec<&str> =
        body.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    for refusal in refusals {
        assert!(refusal.near.len() <= 12, "{refusal}");
        for quote in &refusal.near {
            let there = lines[quote.line - 1];
            // In a long line it is what is around the place.
            if there.len() > 1024 {
                assert!(there.contains(quote.text.trim_matches('…')), "{refusal}");
                continue;
            }
            let there: String = there.chars().take(200).collect();
            assert_eq!(quote.text.trim_end_matches('…'), there.trim_end_matches('…'), "{refusal}");
        }
    }
}

/// Judges a case that must be applied, unless the brute search says that it means two places.
fn judge(class: &mut Tally, told: &mut Vec<String>, name: &str, trial: &Trial, expect: Expect) {
    let (file, mut expected) = (trial.file(), trial.expected());
    let (block, search, lines) = (trial.block(), trial.search(), trial.file_lines());
    let (level, places) = oracle::places(&search, &lines).unwrap_or_else(|| {
        panic!("{name}: the brute search finds nothing:\n{}", search.join("\n"));
    });
    let is_ambiguous = places.len() > 1;
    let is_there = (trial.before.len()..trial.before.len() + trial.rows.len()).contains(&places[0]);
    if !is_ambiguous && !is_there {
        // What the block says by its slip is another place: who has the block alone means that one.
        assert!(level <= oracle::Level::Trailing, "{name}: led elsewhere:\n{}", search.join("\n"));
        expected = trial.at(places[0]).file();
        class.elsewhere += 1;
    }
    let shown = || format!("{}\n=======\n{}", block.search, block.replace);
    match run(&file, std::slice::from_ref(&block)) {
        Ok(applied) if is_ambiguous => {
            class.wrong += 1;
            told.push(format!(
                "wrong, {name}: ambiguous and applied as {:?}\n{}",
                applied.changes,
                shown()
            ));
        }
        Ok(applied)
            if applied.text == expected || trial.also_expected().contains(&applied.text) =>
        {
            class.applied += 1;
        }
        Ok(applied) => {
            class.damaged += 1;
            told.push(format!(
                "damaged, {name}, {:?}:\n{}\n{}",
                applied.changes,
                shown(),
                diff(&expected, &applied.text)
            ));
        }
        Err(refusals) => {
            check_quotes(&file, &refusals);
            if is_ambiguous {
                class.ambiguous += 1;
            } else if expect == Expect::ApplyOrRefuse {
                class.unclear += 1;
            } else {
                class.refused += 1;
                told.push(format!("refused, {name}: {}\n{}", refusals[0], shown()));
            }
        }
    }
}

fn diff(expected: &str, got: &str) -> String {
    similar::TextDiff::from_lines(expected, got).unified_diff().context_radius(2).to_string()
}

/// A first or last line that is cut is completed, or the block is refused; never does anything else come out.
#[test]
fn lines_that_are_cut_are_completed_rightly_or_refused() {
    let (mut applied, mut refused) = (0, 0);
    for fixture in &fixtures::all() {
        let mut dice = Dice::for_part(&format!("cut/{}", fixture.name));
        for round in 0..rounds(fixture, 8 * EDITS.len()) {
            let mut trial = draw(&mut dice, fixture, EDITS[round % EDITS.len()]);
            if slips::cut_line(&mut dice, &mut trial, round % 2 == 0).is_none()
                || oracle::places(&trial.search(), &trial.file_lines()).is_some()
            {
                continue;
            }
            match run(&trial.file(), &[trial.block()]) {
                Ok(done) => {
                    assert_eq!(done.text, trial.expected(), "{:?}", trial.block());
                    applied += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(applied > 100 && applied > refused, "{applied} applied, {refused} refused");
}

#[test]
fn what_must_apply_applies_with_the_right_bytes() {
    let fixtures = fixtures::all();
    let mut report = Report::default();
    for (name, slip) in SLIPS {
        let mut class = Tally::default();
        for fixture in &fixtures {
            let mut dice = Dice::for_part(&format!("{name}/{}", fixture.name));
            for round in 0..rounds(fixture, 2 * EDITS.len()) {
                let mut trial = draw(&mut dice, fixture, EDITS[round % EDITS.len()]);
                let Some(expect) = slip(&mut dice, &mut trial) else { continue };
                judge(
                    &mut class,
                    &mut report.told,
                    &format!("{name}, {}", fixture.name),
                    &trial,
                    expect,
                );
            }
        }
        report.rows.push((name.to_owned(), class));
    }
    let mut class = Tally::default();
    for fixture in &fixtures {
        let mut dice = Dice::for_part(&format!("pairs/{}", fixture.name));
        for round in 0..rounds(fixture, 4 * EDITS.len()) {
            let mut trial = draw(&mut dice, fixture, EDITS[round % EDITS.len()]);
            let ((one, first), (two, second)) = slips::pair(&mut dice);
            let (Some(a), Some(b)) = (first(&mut dice, &mut trial), second(&mut dice, &mut trial))
            else {
                continue;
            };
            let expect = if a == Expect::Apply { b } else { a };
            let name = format!("{one} + {two}, {}", fixture.name);
            judge(&mut class, &mut report.told, &name, &trial, expect);
        }
    }
    report.rows.push(("two of these at once".to_owned(), class));
    let sum = report.sum();
    let must = sum.applied + sum.refused + sum.damaged;
    let holds = sum.damaged == 0 && sum.wrong == 0 && sum.applied * 100 >= must * 97 && must > 750;
    report.finish("must be applied", holds);
}

#[test]
fn traps_are_refused_with_their_cause() {
    let fixtures = fixtures::all();
    let mut report = Report::default();
    for (name, lay) in traps::TRAPS {
        let mut class = Tally::default();
        for fixture in &fixtures {
            let mut dice = Dice::for_part(&format!("{name}/{}", fixture.name));
            for round in 0..rounds(fixture, 2 * EDITS.len()) {
                let trial = draw(&mut dice, fixture, EDITS[round % EDITS.len()]);
                let Some(trap) = lay(&mut dice, trial) else { continue };
                let there = trap.search.as_ref();
                let there = there.and_then(|(search, lines)| oracle::places(search, lines));
                let is_there = there.map_or(0, |(_, places)| places.len());
                let is_done = trap.causes.contains(&Cause::AlreadyApplied);
                if is_there == 1 && !is_done {
                    // What it says is true of another place by chance: no trap.
                    continue;
                }
                let name = format!("{name}, {}", fixture.name);
                match run(&trap.file, &trap.blocks) {
                    Ok(applied) => {
                        class.wrong += 1;
                        report.told.push(format!(
                            "wrong, {name}, {:?}:\n{}",
                            applied.changes,
                            diff(&trap.file, &applied.text)
                        ));
                    }
                    Err(refusals) => {
                        class.refused += 1;
                        check_quotes(&trap.file, &refusals);
                        let refusal = refusals.last().unwrap();
                        let cause = trap.causes.contains(&refusal.cause)
                            || is_there > 1 && refusal.cause == Cause::Twice;
                        let says = trap.says.as_ref().is_none_or(|says| {
                            let says: String = says.trim().chars().take(100).collect();
                            refusal.message.contains(says.trim_end())
                        });
                        let quotes = trap
                            .quotes
                            .is_none_or(|line| refusal.near.iter().any(|quote| quote.line == line));
                        if !cause || !says || !quotes {
                            class.unsaid += 1;
                            report.told.push(format!(
                                "not well said, {name} (wanted {:?}, {:?}, line {:?}), is {:?}: {refusal}\n{}\n=======\n{}",
                                trap.causes, trap.says, trap.quotes, refusal.cause, trap.blocks.last().unwrap().search, trap.blocks.last().unwrap().replace
                            ));
                        }
                    }
                }
            }
        }
        report.rows.push((name.to_owned(), class));
    }
    let sum = report.sum();
    // Where a stale block is as good an edit of another place, or what is left of it is like nothing, a refusal may name that.
    let holds = sum.wrong == 0 && sum.refused > 750 && sum.unsaid * 100 <= sum.refused * 2;
    report.finish("must be refused", holds);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// One line of a stretch is replaced by a block that slipped in all ways at once: every other byte of the file stays.
    #[test]
    fn every_other_byte_stays(
        lines in proptest::collection::vec("[ \t]{0,4}[a-z“’]{1,6}[ \t]{0,2}", 3..30),
        ends in proptest::collection::vec(any::<bool>(), 30),
        (from, many, at) in (0..30usize, 1..8usize, 0..8usize),
        blanks in "[ \t]{0,3}",
        shift in "[ ]{0,4}",
        (crlf, plain) in any::<(bool, bool)>(),
    ) {
        // Lines differ, so that each stretch stands once.
        let whole: Vec<String> = lines.iter().enumerate().map(|(i, line)| {
            let (body, tail) = line.split_at(line.trim_end().len());
            format!("{body}{i}{tail}{}", if ends[i] { "\r\n" } else { "\n" })
        }).collect();
        let from = from % whole.len();
        let to = (from + many).min(whole.len());
        let at = from + at % (to - from);
        let said = |line: &String| {
            let line = line.trim_end();
            let line = if plain { line.replace('“', "\"").replace('’', "'") } else { line.to_owned() };
            format!("{shift}{line}{blanks}{}", if crlf { "\r\n" } else { "\n" })
        };
        let search: String = whole[from..to].iter().map(said).collect();
        let new = format!("{shift}NEW{blanks}{}", if crlf { "\r\n" } else { "\n" });
        let replace: String = (from..to).map(|i| if i == at { new.clone() } else { said(&whole[i]) }).collect();
        let file = whole.concat();
        if let Ok(applied) = apply(&file, &[EditBlock { search, replace, line: 1 }], false) {
            let (before, after) = (whole[..at].concat(), whole[at + 1..].concat());
            prop_assert!(applied.text.starts_with(&before) && applied.text.ends_with(&after), "{}", applied.text);
            let middle = &applied.text[before.len()..applied.text.len() - after.len()];
            prop_assert_eq!(middle.trim(), "NEW");
            let end = if ends[at] { "\r\n" } else { "\n" };
            prop_assert!(middle.ends_with(end) && middle.matches('\n').count() == 1);
        }
    }
}
