//! Text that is shown: nothing that steers a terminal, reorders a line or cannot be seen is left in it.

use super::input::Input;
use conversation::format::harmless::{
    escape_line, escape_text, is_hidden, quote_name, truncate, without_markers,
};
use conversation::model::{ApiError, ErrorKind};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use sys::names::expand_home;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let most = usize::from(input.byte());
    let text = input.text();
    let hidden = |text: &str| text.chars().any(|c| is_hidden(c) && c != '\n' && c != '\t');
    assert!(!hidden(&escape_text(&text)));
    assert_eq!(escape_text(&escape_text(&text)), escape_text(&text));
    let line = escape_line(&text, most);
    assert!(!line.chars().any(is_hidden) && line.chars().count() <= most.max(1), "{line:?}");
    assert!(truncate(&text, most).chars().count() <= most.max(1));
    let path = Path::new(OsStr::from_bytes(input.rest));
    assert!(!quote_name(path).chars().any(is_hidden));
    expand_home(path, Some(Path::new("/home/u")));
    let broken = without_markers(&text).to_lowercase();
    for marker in ["{file-history}", "{/file-history}", "{file-summary}", "{file-knowledge}"] {
        assert!(!broken.contains(marker), "{broken}");
    }
    let error = ApiError::new(ErrorKind::Other, &text);
    assert!(!error.message.contains(char::is_control));
    assert!(error.message.chars().count() <= 2_000);
}
