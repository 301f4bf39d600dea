//! The journal against a model in memory: appends, crashes, edits by others, replacements, locks, saves and loads in any
//! order.

use proptest::prelude::*;
use std::io::Write as _;

use super::super::*;
use super::{get, open, world};
use crate::atomic_file::AtomicFile;

/// What may happen.
#[derive(Debug, Clone)]
enum Step {
    /// A block of so many characters, with or without tags in it.
    Append(usize, bool),
    /// The run is killed after so many bytes of its next block.
    Crash(usize),
    Reopen,
    /// An editor adds a note in place.
    Edit,
    /// An editor saves by renaming.
    Replace,
    /// Another run tries.
    Lock,
    Save,
    Load,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..200, any::<bool>()).prop_map(|(length, tags)| Step::Append(length, tags)),
        2 => (0usize..400).prop_map(Step::Crash),
        2 => Just(Step::Reopen),
        1 => Just(Step::Edit),
        1 => Just(Step::Replace),
        1 => Just(Step::Lock),
        1 => Just(Step::Save),
        1 => Just(Step::Load),
    ]
}

fn block(number: usize, length: usize, tags: bool) -> String {
    let tags = if tags { "\n</system>\n<user-prompt>\n" } else { "" };
    let body = format!("block {number}{tags}{}", "ä\u{2028}\r".repeat(length / 4));
    let mut word = || format!("word{number}");
    file::Block::new("system").body(body).format(&[], &mut word)
}

/// The bodies of the blocks and notes in a file.
fn texts(root: &Root, name: &str) -> Vec<String> {
    let journal = ConversationFile::read_only(root, name).unwrap();
    let pieces = journal.pieces().iter();
    pieces.map(|piece| piece.body_text(journal.text()).trim().to_owned()).collect()
}

fn body(block: &str) -> String {
    let parsed = file::parse(block);
    parsed.pieces[0].body_text(block).trim().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_file_holds_what_was_appended(steps in prop::collection::vec(step(), 1..50)) {
        let (_folder, root) = world();
        let mut journal = open(&root, "c").unwrap();
        // What the run's own conversation holds, and what was saved.
        let (mut model, mut saved) = (Vec::<String>::new(), None::<(String, Vec<String>)>);
        for (number, step) in steps.into_iter().enumerate() {
            let name = journal.name().to_owned();
            match step {
                Step::Append(length, tags) => {
                    let text = block(number, length, tags);
                    prop_assert_eq!(journal.append(&text).unwrap(), None);
                    model.push(body(&text));
                }
                Step::Crash(bytes) => {
                    let note = std::fs::read(root.run_note(&name)).unwrap();
                    drop(journal);
                    std::fs::write(root.run_note(&name), note).unwrap();
                    let next = format!("\n{}", block(number, 300, true));
                    // Its closing tag never comes.
                    let bytes = bytes.min(next.len() - "</system word>\n".len() - 8);
                    if !model.is_empty() {
                        let mut file = OpenOptions::new().append(true).open(root.conversation(&name)).unwrap();
                        file.write_all(&next.as_bytes()[..bytes]).unwrap();
                    }
                    journal = open(&root, &name).unwrap();
                }
                Step::Reopen => {
                    drop(journal);
                    journal = open(&root, &name).unwrap();
                    prop_assert!(journal.torn_tail().is_none());
                }
                Step::Edit | Step::Replace if !model.is_empty() => {
                    let path = root.conversation(&name);
                    let text = block(number, 10, false);
                    if matches!(step, Step::Edit) {
                        // Something is added: the run goes on with it.
                        let edited = format!("{}\na note {number}\n", get(&root, &name));
                        std::fs::write(&path, &edited).unwrap();
                        prop_assert_eq!(journal.append(&text).unwrap(), None);
                        prop_assert!(get(&root, &name).starts_with(&edited));
                        model.push(format!("a note {number}"));
                    } else {
                        // The run goes on in a fork, with what it has seen; what the editor saved stays.
                        let edited = format!("a note {number}\n");
                        std::fs::write(path.with_extension("swp"), &edited).unwrap();
                        std::fs::rename(path.with_extension("swp"), &path).unwrap();
                        let forked = journal.append(&text).unwrap();
                        prop_assert_eq!(&forked, &Some(journal.name().to_owned()));
                        prop_assert_eq!(get(&root, &name), edited);
                    }
                    model.push(body(&text));
                }
                Step::Lock => {
                    let is_busy = matches!(open(&root, &name), Err(LockError::Busy(_)));
                    prop_assert!(is_busy);
                }
                Step::Save if !model.is_empty() => {
                    let other = format!("saved-{number}");
                    AtomicFile::new(&root.conversation(&other)).create(journal.text().as_bytes()).unwrap();
                    saved = Some((other, model.clone()));
                }
                Step::Load => {
                    if let Some((other, held)) = &saved {
                        drop(journal);
                        AtomicFile::new(&root.conversation(&name)).write(get(&root, other).as_bytes()).unwrap();
                        journal = open(&root, &name).unwrap();
                        model.clone_from(held);
                    }
                }
                Step::Edit | Step::Replace | Step::Save => {}
            }
            prop_assert_eq!(&texts(&root, journal.name()), &model);
            if let Some((other, held)) = &saved {
                prop_assert_eq!(&texts(&root, other), held);
            }
        }
    }
}
