//! The imports between the files of a crate: layers point one way, and no file needs itself by way of others.
//!
//! A cycle means that neither file can be understood, tested or moved without the other, and the compiler accepts it.
//! So this test reads the sources: `use` declarations, and paths written out in the code. What a parent says of its
//! children is no import: `mod x;`, and `pub use x::Y;`, behind which the arrow goes to where `Y` is defined.
//! Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

/// A path in the crate, as its names: `["format", "edit", "parse"]`.
type Names = Vec<String>;

/// What one file of src says, by way of its module.
struct Module {
    file: String,
    /// Paths that it imports or spells out, from the top of the crate.
    paths: BTreeSet<Names>,
    /// Names that it hands on from elsewhere.
    reexports: BTreeMap<String, Names>,
}

/// Comments, strings and characters, which hold no code.
static NO_CODE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r##"(?s)//[^\n]*|/\*.*?\*/|\bb?r#".*?"#|\bb?r"[^"]*"|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])'"##,
    )
});
static TEST_MODULE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;"));
static CHILD: LazyLock<Regex> = LazyLock::new(|| regex(r"\bmod\s+(?:r#)?(\w+)\s*;"));
static USE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?s)(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);"));
static PATH: LazyLock<Regex> = LazyLock::new(|| regex(r"(?:\b\w+::)+\w+"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

/// The source without comments, strings and what is compiled for tests alone, and the names of the test modules.
fn without_tests(source: &str) -> (String, Vec<String>) {
    let mut code = NO_CODE.replace_all(source, "\"\"").into_owned();
    let mut tests = Vec::new();
    while let Some(at) = code.find("#[cfg(test)]") {
        let item = &code[at + "#[cfg(test)]".len()..];
        if let Some(name) = TEST_MODULE.captures(item.trim_start()) {
            tests.push(name[1].to_owned());
        }
        let mut depth = 0;
        let end = item.char_indices().find(|(_, char)| {
            depth += i32::from(*char == '{') - i32::from(*char == '}');
            depth == 0 && (*char == ';' || *char == '}')
        });
        let end = end.map_or(item.len(), |(end, char)| end + char.len_utf8());
        code.replace_range(at..at + "#[cfg(test)]".len() + end, "");
    }
    (code, tests)
}

/// All paths of a `use`: `a::{b, c::{self, d as e}}` gives `a::b`, `a::c`, `a::c::d`, each with the name it gets.
fn expand_use(tree: &str) -> Vec<(String, String)> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = path.trim().trim_end_matches("::self");
        let name = if name.is_empty() { path.rsplit("::").next().unwrap_or(path) } else { name };
        return vec![(path.to_owned(), name.trim().to_owned())];
    };
    let prefix = &tree[..open];
    let inner = tree[open + 1..].trim_end().trim_end_matches('}');
    let mut depth = 0;
    let branches = inner.split(|char| {
        depth += i32::from(char == '{') - i32::from(char == '}');
        char == ',' && depth == 0
    });
    let branches = branches.filter(|branch| !branch.trim().is_empty());
    branches.flat_map(|branch| expand_use(&format!("{prefix}{}", branch.trim()))).collect()
}

/// A path as it is written in the file of `module`, from the top of the crate; `None` for one that leads out of it.
fn absolute(module: &[String], children: &BTreeSet<String>, path: &str) -> Option<Names> {
    let mut names = path.split("::").map(|name| name.trim().trim_start_matches("r#").to_owned());
    let first = names.next()?;
    let mut whole = match first.as_str() {
        "crate" | "nagent" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        _ if children.contains(&first) => [module, &[first]].concat(),
        _ => return None,
    };
    for name in names {
        if name == "super" { drop(whole.pop()) } else { whole.push(name) }
    }
    Some(whole)
}

fn read_module(module: &[String], file: &str, source: &str) -> (Module, BTreeSet<String>) {
    let (code, tests) = without_tests(source);
    let children = CHILD.captures_iter(&code).map(|child| child[1].to_owned()).collect();
    let mut paths = BTreeSet::new();
    let mut reexports = BTreeMap::new();
    for found in USE.captures_iter(&code) {
        for (path, name) in expand_use(&found[2]) {
            let Some(path) = absolute(module, &children, &path) else { continue };
            if found.get(1).is_some() {
                reexports.insert(name, path);
            } else {
                paths.insert(path);
            }
        }
    }
    let rest = USE.replace_all(&code, "");
    for path in PATH.find_iter(&rest) {
        let begins = !rest[..path.start()].ends_with("::");
        paths.extend(absolute(module, &children, path.as_str()).filter(|_| begins));
    }
    let tests = tests.into_iter().collect();
    (Module { file: file.to_owned(), paths, reexports }, tests)
}

/// The modules of a crate from its files, by path from src, those of tests left out.
fn read_modules(files: &[(String, String)]) -> BTreeMap<Names, Module> {
    let mut modules = BTreeMap::new();
    let mut tests: Vec<Names> = Vec::new();
    for (file, source) in files {
        let names = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let mut names: Names = names.split('/').map(str::to_owned).collect();
        if names == ["lib"] {
            names.clear();
        }
        let (module, own) = read_module(&names, file, source);
        tests.extend(own.into_iter().map(|test| [names.as_slice(), &[test]].concat()));
        modules.insert(names, module);
    }
    modules.retain(|names, _| !tests.iter().any(|test| names.starts_with(test)));
    modules
}

/// The module where the item of a path is defined, re-exports followed.
fn resolve(modules: &BTreeMap<Names, Module>, path: &[String]) -> Names {
    let mut module: Names = Vec::new();
    for (at, name) in path.iter().enumerate() {
        let child = [module.as_slice(), std::slice::from_ref(name)].concat();
        if modules.contains_key(&child) {
            module = child;
            continue;
        }
        let Some(target) = modules.get(&module).and_then(|module| module.reexports.get(name))
        else {
            break;
        };
        return resolve(modules, &[target, &path[at + 1..]].concat());
    }
    module
}

/// Which file imports from which.
fn arrows(modules: &BTreeMap<Names, Module>) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for module in modules.values() {
        let others = arrows.entry(&module.file).or_default();
        let targets = module.paths.iter().map(|path| &modules[&resolve(modules, path)].file);
        others.extend(targets.filter(|file| **file != module.file).map(String::as_str));
    }
    arrows
}

/// The groups of files of which each needs all others.
fn cycles<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<Vec<&'a str>> {
    let reached = |from: &'a str| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            open.extend(arrows[file].iter().filter(|other| reached.insert(**other)));
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|file| (*file, reached(file))).collect();
    let group = |file: &str| -> Vec<&str> {
        let both = |other: &&&str| reached[**other].contains(file);
        reached[file].iter().filter(both).copied().collect()
    };
    arrows.keys().map(|file| group(file)).filter(|group| group.len() > 1).collect()
}

/// The module at the top of src that a file belongs to.
fn top_module(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
}

/// Which module at the top imports from which.
fn arrows_between_modules<'a>(
    arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut between: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, others) in arrows {
        let module = top_module(file);
        let others = others.iter().map(|other| top_module(other)).filter(|other| *other != module);
        between.entry(module).or_default().extend(others);
    }
    between
}

/// The files of each crate, by the crate's folder of sources, with their paths from there.
fn crates() -> Vec<(String, Vec<(String, String)>)> {
    let mut crates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for file in super::tidy::sources() {
        let (folder, path) = file.split_at(file.find("src/").unwrap() + "src/".len());
        crates
            .entry(folder.to_owned())
            .or_default()
            .push((path.to_owned(), super::tidy::text(&file)));
    }
    crates.into_iter().collect()
}

#[track_caller]
fn assert_no_cycle(arrows: &BTreeMap<&str, BTreeSet<&str>>) {
    let describe = |group: &Vec<&str>| {
        let within = |name: &&str| {
            let others = arrows[*name].iter().filter(|other| group.contains(other));
            format!("  {name} -> {}", others.copied().collect::<Vec<_>>().join(", "))
        };
        group.iter().map(within).collect::<Vec<_>>().join("\n")
    };
    let found: Vec<String> = cycles(arrows).iter().map(describe).collect();
    assert!(found.is_empty(), "cycles of imports:\n{}", found.join("\n\n"));
}

#[test]
fn no_file_needs_itself_by_way_of_others() {
    for (_, files) in crates() {
        assert_no_cycle(&arrows(&read_modules(&files)));
    }
}

#[test]
fn no_module_needs_itself_by_way_of_others() {
    for (folder, files) in crates() {
        let modules = read_modules(&files);
        let between = arrows_between_modules(&arrows(&modules));
        if folder == "crates/conversation/src/" {
            assert!(between["turn"].contains("protocol"), "the imports are read");
        }
        assert_no_cycle(&between);
    }
}

/// The layers of the application. Cargo knows those between crates.
#[test]
fn layers_point_one_way() {
    let may = |layer: &str, other: &str| match layer {
        _ if layer == other => true,
        "view" | "overview" | "config" => ["view", "overview"].contains(&other),
        "out" | "cli" => !["bin", "cmd", "ops", "drive", "client"].contains(&other),
        "client" => !["bin", "cmd", "ops", "cli", "out", "drive"].contains(&other),
        "drive" => !["bin", "cmd", "ops", "cli", "out"].contains(&other),
        "ops" => !["bin", "cmd", "cli"].contains(&other),
        "cmd" => other != "bin",
        _ => true,
    };
    let crates = crates();
    let (_, files) = crates.iter().find(|(folder, _)| folder == "src/").unwrap();
    let modules = read_modules(files);
    let mut found = Vec::new();
    for (file, others) in arrows(&modules) {
        let wrong = others.into_iter().filter(|other| !may(top_module(file), top_module(other)));
        found.extend(wrong.map(|other| format!("{file} names {other}")));
    }
    assert!(found.is_empty(), "imports that run up the layers:\n{}", found.join("\n"));
}

/// The cycles of a crate made of these files.
fn cycles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files: Vec<(String, String)> =
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let modules = read_modules(&files);
    let owned = |group: Vec<&str>| group.into_iter().map(str::to_owned).collect();
    cycles(&arrows(&modules)).into_iter().map(owned).collect()
}

#[test]
fn imports_of_every_form_are_found() {
    let check = |parent: &str, child: &str, is_cycle: bool| {
        let lib = ("lib.rs", "mod a;");
        let found = cycles_of(&[
            lib,
            ("a/mod.rs", parent),
            ("a/b.rs", child),
            ("a/tests.rs", "use super::*;"),
        ]);
        assert_eq!(!found.is_empty(), is_cycle, "{parent}\n{child}\n{found:?}");
    };
    let parent = "mod b;\nfn f() { b::g() }";
    check(parent, "use super::f;", true);
    check(parent, "use crate::a;", true);
    check(parent, "use crate::{c, a::{self, f as g}};", true);
    check(parent, "fn g() { super::f() }", true);
    check(parent, "fn g() { crate::a::f() }", true);
    check(parent, "fn g<T: super::F>() {}", true);
    check("mod b;\nuse b::g;", "use super::f;", true);
    check("mod b;\nuse self::b::{g};", "use super::*;", true);
    check(parent, "use crate::c;\nuse std::a;", false);
    check(parent, "// super::f()\nconst A: &str = \"super::f\";", false);
    check(parent, "#[cfg(test)]\nmod tests { use super::super::f; }\n", false);
    check("mod b;\npub use b::G;\nuse std::fmt;", "use super::f;", false);
    check("mod b;\npub use b::G;\n#[cfg(test)]\nmod tests;\n", "use super::f;", false);
    // By way of a re-export the arrow goes to where the item is.
    let files = [("lib.rs", "mod a;"), ("a/mod.rs", "mod b; mod c; pub use b::B;")];
    let back = [("a/b.rs", "use super::c::C;"), ("a/c.rs", "use super::B;")];
    assert_eq!(cycles_of(&[files, back].concat()), [["a/b.rs", "a/c.rs"]]);
}
