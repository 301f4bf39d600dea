//! The first context: `context.yaml` (the only target that reads files: those of a temporary folder, and what a list in it
//! names), and the sections that it becomes.

use super::input::Input;
use conversation::context::{Facts, MEMORY, changed_sections, format, parse, sections};
use conversation::format::harmless::is_hidden;
use std::path::PathBuf;
use std::sync::LazyLock;
use sys::context_files::load_context_files as load;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("nagent-fuzz-context-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("a")).expect("a temporary folder");
    std::fs::write(folder.join("a/context.yaml"), "- ../context.yaml\n- b.md\n").expect("a file");
    std::fs::write(folder.join("a/b.md"), "b\n").expect("a file");
    folder
});

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.byte().is_multiple_of(2) {
        std::fs::write(FOLDER.join("context.yaml"), input.rest).expect("a file");
        let (parts, warnings) = load(&FOLDER, None);
        assert!(parts.len() <= 256 && warnings.len() <= 21);
        return;
    }
    let text = input.text();
    let told = parse(&text);
    for section in &told {
        assert!(text.contains(&section.text));
    }
    let facts = Facts {
        files: vec![("context.md".to_owned(), text.to_string())],
        host: text.chars().filter(|c| !is_hidden(*c) && *c != '\n').take(80).collect(),
        ..Facts::default()
    };
    let now = sections(&facts);
    let again = parse(&format(&now));
    assert_eq!(again.len(), now.len());
    assert!(changed_sections(&now, &now).is_empty());
    if !told.is_empty() {
        // The section on a file's history has only news, so it is always said again.
        let again = changed_sections(&told, &told);
        let is_same = again.iter().all(|section| section.title == MEMORY);
        assert!(is_same || told.len() > 7);
    }
}
