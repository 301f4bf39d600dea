//! The modules, functions and types that the documents name are in the code, so that a rename cannot leave a document behind.

use std::collections::BTreeMap;

use memchr::memmem;

use super::*;

/// Documents for those who change the code.
const PAGES: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Words in backquotes that are not names in the code, though they look like some.
const OTHER_WORDS: [&str; 7] = ["nagent", "anyhow", "fdatasync", "mod", "curl", "Result", "big"];

/// The files of a folder, by the names of their modules below `root`, such as `sys::lock`.
fn modules_in(folder: &str, root: &str) -> BTreeMap<String, String> {
    let mut modules = BTreeMap::new();
    let mut folders = vec![top().join(folder)];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let below = path.strip_prefix(top().join(folder)).unwrap().with_extension("");
                let name = below.to_str().unwrap().trim_end_matches("/mod").replace('/', "::");
                let name = if name == "lib" { root.to_owned() } else { format!("{root}::{name}") };
                modules.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    modules
}

/// The modules of the application, of its crates and of `tests/it`, with their sources.
pub(super) fn all_modules() -> BTreeMap<String, String> {
    let mut modules = modules_in("src", "src");
    modules.extend(modules_in("tests/it", "it"));
    for entry in std::fs::read_dir(top().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        modules.extend(modules_in(&format!("crates/{name}/src"), &name));
    }
    modules
}

/// Whether tests are found by this name: a module of `tests/it`, or the beginning of a test's name with or without modules.
pub(super) fn is_test(modules: &BTreeMap<String, String>, name: &str) -> bool {
    let (module, start) = name.rsplit_once("::").unwrap_or(("", name));
    let test = Regex::new(&format!(r"#\[test\]\s+(?:#\[[^\]]*\]\s+)*fn {start}\w*\(")).unwrap();
    // Tests of a module may be in its own file.
    let file = module.trim_end_matches("tests").trim_end_matches("::");
    let is_file = |key: &String| format!("::{key}").contains(&format!("::{file}"));
    modules.contains_key(&format!("it::{name}"))
        || modules.iter().any(|(key, source)| is_file(key) && test.is_match(source))
}

/// Whether a source has a word: all sources are searched for each name, which takes `str::contains` a second.
fn has(source: &str, word: &str) -> bool {
    memmem::find(source.as_bytes(), word.as_bytes()).is_some()
}

/// Whether one of the sources declares an item of this name.
fn declares(sources: &[&str], name: &str) -> bool {
    let kinds = "fn|struct|enum|trait|const|static|type|mod";
    let item = Regex::new(&format!(r"\b(?:{kinds})\s+{name}\b")).unwrap();
    sources.iter().any(|source| has(source, name) && item.is_match(source))
}

/// Whether one of the sources has a member of a type: a function, a field or a variant.
fn has_member(sources: &[&str], owner: &str, member: &str) -> bool {
    let is_owner = Regex::new(&format!(r"\b(?:impl|struct|enum|trait|for)\b[^{{;]*\b{owner}\b"));
    let is_member = Regex::new(&format!(
        r"(?m)\bfn\s+{member}\b|^\s+(?:pub(?:\([a-z]+\))?\s+)?{member}\s*(?:[:,({{=]|$)"
    ));
    let (is_owner, is_member) = (is_owner.unwrap(), is_member.unwrap());
    let mut sources = sources.iter().filter(|it| has(it, owner) && has(it, member));
    sources.any(|source| is_owner.is_match(source) && is_member.is_match(source))
}

/// Whether a path such as `turn::Turn::step` leads to something. It may leave out modules at its beginning.
fn exists(modules: &BTreeMap<String, String>, path: &str) -> bool {
    let words: Vec<&str> = path.split("::").collect();
    let ends_with = |name: &str, end: &str| name == end || name.ends_with(&format!("::{end}"));
    let is_module = |end: &str| modules.keys().any(|name| ends_with(name, end));
    let depth = (0..=words.len()).rev().find(|n| *n == 0 || is_module(&words[..*n].join("::")));
    let (module, rest) = words.split_at(depth.unwrap());
    // What is below the module counts, too: it may hand it on.
    let module = module.join("::");
    let parent = format!("::{module}::");
    let is_inside =
        |name: &str| module.is_empty() || ends_with(name, &module) || name.contains(&parent);
    let inside = modules.iter().filter(|(name, _)| is_inside(name));
    let sources: Vec<&str> = inside.map(|(_, source)| source.as_str()).collect();
    match rest {
        [] => true,
        [item] => declares(&sources, item),
        [owner, member] => declares(&sources, owner) && has_member(&sources, owner, member),
        _ => false,
    }
}

#[test]
fn names_of_the_code_exist() {
    let modules = all_modules();
    let name = Regex::new(r"^[A-Za-z_]\w*(?:::\w+)*$").unwrap();
    let is_shouted = |word: &str| !word.contains("::") && word == word.to_uppercase();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for page in PAGES {
        for word in quoted(&text(page)).iter().map(|word| word.trim_end_matches("()")) {
            if !name.is_match(word) || OTHER_WORDS.contains(&word) || is_shouted(word) {
                continue;
            }
            checked += 1;
            if !exists(&modules, word) {
                wrong.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "renamed or gone: {wrong:#?}");
    assert!(checked > 200, "only {checked} names were found");
    assert!(!exists(&modules, "Turn::leap") && !exists(&modules, "sys::lock::unpick"));
    assert!(!is_test(&modules, "forged::no_such") && !is_test(&modules, "nothing_like_it"));
    assert!(!exists(&modules, "sys::lok") && !exists(&modules, "Turm"));
}

#[test]
fn the_drawing_of_the_loop_has_its_effects_and_events() {
    let modules = all_modules();
    let page = text("ARCHITECTURE.md");
    let section = page.split("## The loop").nth(1).unwrap();
    let drawing = section.split("```").nth(1).unwrap();
    let names: BTreeSet<&str> =
        Regex::new(r"\b[A-Z]\w+").unwrap().find_iter(drawing).map(|name| name.as_str()).collect();
    let is_known = |name: &str| {
        ["Effect", "Event"].iter().any(|of| exists(&modules, &format!("turn::event::{of}::{name}")))
    };
    let wrong: Vec<_> = names.iter().filter(|name| !is_known(name)).collect();
    assert!(wrong.is_empty() && names.len() > 12, "{wrong:?} of {names:?}");
}

/// Files move; a module is found wherever it is.
#[test]
fn prose_names_modules_rather_than_files() {
    let file = Regex::new(r"\b(?:src|tests/it)/[a-z_/]+\.(?:rs|txt)\b").unwrap();
    let comment = Regex::new(r"(?s)<!--.*?-->").unwrap();
    let mut wrong = Vec::new();
    for page in written() {
        let text = text(&page);
        let prose = comment.replace_all(&text, "");
        wrong.extend(file.find_iter(&prose).map(|found| format!("{page}: {}", found.as_str())));
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
