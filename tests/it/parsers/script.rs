//! The file of a script in plain language.

use sandbox::script::thought::script::{Script, thought_name};

pub(crate) fn run(data: &[u8]) {
    match Script::parse(data) {
        Ok(script) => assert!(!script.prompt.trim().is_empty()),
        Err(why) => assert!(!why.is_empty()),
    }
    let name = thought_name(&String::from_utf8_lossy(data));
    assert!(!name.is_empty() && name != ".." && !name.contains('/'), "{name}");
}
