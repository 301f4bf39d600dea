//! A file that says how a session looks: what is read reads back, and no value that is shown leaves its line.

use std::collections::BTreeMap;

use super::input::Input;
use conversation::format::harmless::is_hidden;
use view::look::{Look, expand};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let value = String::from_utf8_lossy(input.field()).into_owned();
    let text = input.text();
    let look = match Look::parse(&text) {
        Ok(look) => look,
        Err(why) => return assert!(!why.is_empty()),
    };
    let written = serde_json::to_string(&look).unwrap();
    assert_eq!(Look::parse(&written).as_ref(), Ok(&look));
    let values = BTreeMap::from([("model", value.clone()), ("line", value)]);
    let lines = look.start.values().chain(&look.finish).chain(&look.failed);
    let texts = [&look.banner, &look.prompt, &look.say, &look.cleared, &look.bye];
    for text in texts.into_iter().chain(lines) {
        let spans = expand(text, &values);
        let shown: String = spans.iter().map(|span| span.text.as_str()).collect();
        assert!(shown.matches('\n').count() <= text.matches('\n').count(), "{shown:?}");
    }
    for span in expand("{line}{model:9}", &values) {
        assert!(span.codes.is_empty() && !span.text.chars().any(is_hidden), "{span:?}");
    }
}
