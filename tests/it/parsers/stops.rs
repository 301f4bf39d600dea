//! Commands beside the stop list and the patterns that need no question: every text has an answer, and a pattern covers one
//! plain command and nothing more.

use super::input::Input;
use conversation::approve::{find_stop, is_allowed};

pub(crate) fn run(data: &[u8]) {
    let text = Input::new(data).text();
    assert!(find_stop(&text).is_none_or(|why| !why.is_empty()));
    let patterns = ["git status".to_owned(), "ls *".to_owned()];
    if is_allowed(&patterns, &text) {
        let special = [';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '\n'];
        assert!(!text.trim().contains(special), "{text}");
        assert_eq!(find_stop(&text), None);
    }
}
