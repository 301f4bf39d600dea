//! Edit blocks and what they do to a text: a block that is refused changes nothing, one that applies changes what it says.

use super::input::Input;
use conversation::format::edit::parse;
use edits::apply::{How, apply};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let file = String::from_utf8_lossy(input.field()).into_owned();
    let Ok(blocks) = parse(&input.text()) else { return };
    match apply(&file, &blocks, false) {
        Ok(applied) => {
            assert_eq!(applied.changes.len(), blocks.len());
            assert_ne!(applied.text, file);
            let lines = |text: &str| text.split_inclusive('\n').count();
            let removed: usize = applied.changes.iter().map(|change| change.removed).sum();
            let added: usize = applied.changes.iter().map(|change| change.added).sum();
            assert_eq!(lines(&file) + added, lines(&applied.text) + removed, "{applied:?}");
            if let ([block], [change]) = (blocks.as_slice(), applied.changes.as_slice())
                && change.how == How::Exact
                && ![&file, &block.replace].iter().any(|text| text.contains(['\r', '\u{feff}']))
                && file.ends_with('\n')
            {
                assert_eq!(applied.text, file.replacen(&block.search, &block.replace, 1));
            }
        }
        Err(refusals) => {
            assert!(!refusals.is_empty() && refusals.len() <= blocks.len());
            for refusal in refusals {
                assert!((1..=blocks.len()).contains(&refusal.block) && refusal.near.len() <= 12);
                assert!(!refusal.to_string().is_empty());
            }
        }
    }
}
