//! What is written about the executables is what they do.
//!
//! Some documents come from the code: they are compared here, and written anew under `UPDATE_DOCS=1`. Of the others,
//! what can be checked is: flags, links, make targets, tables. What runs leave behind is compared in `runs`, what they
//! print as JSON in `keys`; the pages' sessions are run in `sessions`.

mod keys;
mod names;
mod runs;
mod tables;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use clap::error::ErrorKind;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use code::language::NAMES;
use conversation::exit::Exit;
use conversation::protocol;
use history::git;
use models::server::SERVERS;
use nagent::cmd;
use nagent::ops::files::file_memory;
use regex::Regex;
use sys::tools::TOOLS;

use crate::sandbox::Sandbox;

/// The documents that people write: all but the generated ones.
fn written() -> Vec<String> {
    let named = |folder: &str| {
        let entries = std::fs::read_dir(top().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let pages =
            names.filter_map(|name| Some(format!("{folder}{}.md", name.strip_suffix(".md")?)));
        pages.collect::<Vec<_>>()
    };
    let mut pages = [named(""), named("docs/")].concat();
    pages.retain(|page| !["docs/cli.md", "docs/limits.md"].contains(&page.as_str()));
    assert!(pages.len() > 20, "{pages:?}");
    pages
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(top().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The cells of the table whose first column has this head.
fn table(name: &str, head: &str) -> Vec<Vec<String>> {
    let text = text(name);
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("| {head} |")));
    assert!(lines.next().is_some(), "{name} has no table {head}");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let cells =
        |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// What stands in backquotes, fenced blocks left out.
fn quoted(text: &str) -> Vec<String> {
    static FENCED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?ms)^```.*?^```$").unwrap());
    static QUOTES: LazyLock<Regex> = LazyLock::new(|| Regex::new("`([^`\n]+)`").unwrap());
    let prose = FENCED.replace_all(text, "");
    QUOTES.captures_iter(&prose).map(|found| found[1].to_owned()).collect()
}

/// The first column, without backquotes.
fn names(rows: &[Vec<String>]) -> Vec<String> {
    rows.iter().map(|row| quoted(&row[0]).into_iter().next().unwrap_or(row[0].clone())).collect()
}

// Documents that come from the code.

fn cli_page() -> String {
    let mut page = String::from(
        "# The command lines\n\nWhat `--help` prints. Generated: see CONTRIBUTING.md.\n",
    );
    for command in cmd::list_commands() {
        page.push_str(&format!(
            "\n## {}\n\n```text\n{}```\n",
            command.get_name(),
            help_of(command.clone())
        ));
        for (name, help) in verbs_of(command) {
            page.push_str(&format!("\n### {name}\n\n```text\n{help}```\n"));
        }
    }
    page
}

/// What `--help` prints, 80 columns wide.
fn help_of(command: clap::Command) -> String {
    let help = command.term_width(80).render_long_help().to_string();
    help.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The verbs of a tool that has some, with their help.
fn verbs_of(mut command: clap::Command) -> Vec<(String, String)> {
    command.build();
    let below = |verb: &clap::Command| {
        let verbs = verb.get_subcommands().filter(|verb| verb.get_name() != "help").cloned();
        verbs.collect::<Vec<_>>()
    };
    let mut verbs = Vec::new();
    for verb in command.get_subcommands() {
        verbs.push(verb.clone());
        verbs.extend(below(verb));
    }
    verbs.into_iter().map(|verb| (verb.get_bin_name().unwrap().to_owned(), help_of(verb))).collect()
}

/// The flags of a tool, those of its verbs too.
fn arguments(command: &clap::Command) -> Vec<&clap::Arg> {
    let below = command.get_subcommands().flat_map(arguments);
    command.get_arguments().chain(below).collect()
}

fn man_page(mut command: clap::Command) -> String {
    let plain = |cell: &str| cell.replace('`', "");
    let name = command.get_name().to_owned();
    let usage = command.render_usage().to_string();
    let below = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut below = below.split("\n\n");
    let (examples, more) = (below.next().unwrap_or_default(), below.next().unwrap_or_default());
    let verbs = verbs_of(command.clone());
    let command = command.after_help(None::<&str>).override_usage(usage.replace("Usage: ", ""));
    // The name section has the first line already.
    let about = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let rest = about.split_once("\n\n").map(|(_, rest)| rest.to_owned());
    let command = match rest {
        Some(rest) => command.long_about(rest),
        None => command,
    };
    let man = Man::new(command).manual("nagent");
    let mut out = Vec::new();
    man.render_title(&mut out).unwrap();
    man.render_name_section(&mut out).unwrap();
    man.render_synopsis_section(&mut out).unwrap();
    man.render_description_section(&mut out).unwrap();
    let mut roff = Roff::new();
    if !more.is_empty() {
        roff.control("PP", []).text([roman(more.replace('\n', " "))]);
    }
    roff.to_writer(&mut out).unwrap();
    man.render_options_section(&mut out).unwrap();
    let mut roff = Roff::new();
    for (name, help) in verbs {
        roff.control("SS", [name.as_str()]).control("nf", []);
        for line in help.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    for (title, name, head, before) in [
        ("EXIT STATUS", "README.md", "exit", ""),
        ("ENVIRONMENT", "docs/config.md", "variable", ""),
        ("FILES", "ARCHITECTURE.md", "file", "~/.nagent/"),
    ] {
        roff.control("SH", [title]);
        for row in table(name, head) {
            roff.control("TP", []);
            roff.text([bold(format!("{before}{}", plain(&row[0])))]);
            roff.text([roman(plain(&row[1]))]);
        }
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.lines().skip(1) {
            roff.text([roman(line.trim())]);
        }
        roff.control("fi", []);
    }
    let others: Vec<String> =
        TOOLS.iter().filter(|other| **other != name).map(|other| format!("{other}(1)")).collect();
    roff.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
    roff.to_writer(&mut out).unwrap();
    // Each section brings the same two lines about quotes; once is enough.
    let page = String::from_utf8(out).unwrap();
    let quotes = |line: &str| line.starts_with(".ie ") || line.starts_with(".el ");
    let lines = page.lines().enumerate().filter(|(at, line)| *at < 2 || !quotes(line));
    let page: String = lines.map(|(_, line)| format!("{}\n", line.trim_end())).collect();
    // The groups of flags are parts of one section, one of them is called like another section.
    let (head, rest) = page.split_once(".SH OPTIONS\n").unwrap();
    let (flags, tail) = rest.split_once(".SH \"EXIT STATUS\"\n").unwrap();
    let flags = flags.replace("\n.SH ", "\n.SS ");
    // No name is broken by a hyphen of its own.
    let head = head.replacen(".SH NAME", ".nh\n.ad l\n.SH NAME", 1);
    format!("{head}.SH OPTIONS\n{flags}.SH \"EXIT STATUS\"\n{tail}")
}

#[test]
fn man_pages_have_each_section_and_each_sentence_once() {
    for command in cmd::list_commands() {
        let name = command.get_name().to_owned();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let page = man_page(command).replace("\\-", "-").replace("\\*(Aq", "'");
        let sections: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        let different: BTreeSet<&str> = sections.iter().copied().collect();
        assert_eq!(sections.len(), different.len(), "{name}: {sections:?}");
        assert!(page.matches(about.as_str()).count() == 1, "{name}: {about}");
        assert!(page.contains("\n.nh\n"), "{name}");
    }
}

fn protocol_page() -> String {
    let old = text("docs/protocol.md");
    let (head, rest) = old.split_once("<!-- generated: protocol -->").unwrap();
    let (_, tail) = rest.split_once("<!-- end -->").unwrap();
    let protocol = protocol::protocol_text(protocol::TagSet::ALL);
    format!("{head}<!-- generated: protocol -->\n\n```text\n{protocol}```\n\n<!-- end -->{tail}")
}

fn js_page() -> String {
    let old = text("docs/js.md");
    let (head, rest) = old.split_once("<!-- generated: functions -->").unwrap();
    let (_, tail) = rest.split_once("<!-- end -->").unwrap();
    let table = sandbox::script::js::api::markdown();
    format!("{head}<!-- generated: functions -->\n\n{table}\n<!-- end -->{tail}")
}

fn limits_page() -> String {
    let mut page = "# Limits\n\n<!-- Generated from the module `limits`: UPDATE_DOCS=1 writes it again. -->\n\n\
        Every input has a maximum. Anything larger is refused with an error, or truncated with a note; files stay as they are.\n\
        The defaults of flags and settings are in [config](config.md).\n"
        .to_owned();
    for (section, limits) in conversation::limits::table() {
        page += &format!("\n## {section}\n\n| what | maximum | if exceeded |\n|---|---|---|\n");
        for limit in limits {
            page += &format!("| {} | {} | {} |\n", limit.bounds, limit.maximum, limit.beyond);
        }
    }
    page
}

#[test]
fn generated_documents_are_what_the_code_says() {
    let mut pages = vec![
        ("docs/cli.md".to_owned(), cli_page()),
        ("docs/protocol.md".to_owned(), protocol_page()),
        ("docs/limits.md".to_owned(), limits_page()),
        ("docs/js.md".to_owned(), js_page()),
    ];
    for command in cmd::list_commands() {
        pages.push((format!("man/{}.1", command.get_name()), man_page(command)));
    }
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut stale = Vec::new();
    for (name, page) in pages {
        if std::fs::read_to_string(top().join(&name)).is_ok_and(|old| old == page) {
            continue;
        }
        if update { std::fs::write(top().join(&name), page).unwrap() } else { stale.push(name) }
    }
    assert!(stale.is_empty(), "not what the code says: {stale:?}; UPDATE_DOCS=1 writes them again");
}

#[test]
fn help_is_worded_as_contributing_says() {
    let mut wrong = Vec::new();
    for command in cmd::list_commands() {
        for argument in arguments(&command) {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let first = help.chars().next().is_some_and(char::is_uppercase);
            if !first || help.ends_with('.') {
                wrong.push(format!("{} {}: {help}", command.get_name(), argument.get_id()));
            }
        }
        // clap would break a longer line of an example or a table in its middle.
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        wrong.extend(after.lines().filter(|line| line.chars().count() > 80).map(str::to_owned));
        let mut narrow = command.clone().term_width(80);
        let pages = [narrow.render_help().to_string(), narrow.render_long_help().to_string()];
        let lines = pages.iter().flat_map(|page| page.lines());
        wrong.extend(lines.filter(|line| line.chars().count() > 80).map(str::to_owned));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// What the written documents name.

#[test]
fn flags_that_are_named_exist() {
    // Of other programs.
    let parallel = ["sshlogin", "workdir", "env", "retries", "joblog"];
    let others = ["test", "help", "version", "format", "array", "requeue", "open-mode", "keep"];
    let mut known: BTreeSet<String> =
        others.iter().chain(&parallel).map(|flag| (*flag).to_owned()).collect();
    for command in cmd::list_commands() {
        known.extend(
            arguments(&command).into_iter().filter_map(|a| a.get_long()).map(str::to_owned),
        );
    }
    let flag = Regex::new(r#"(?m)(?:^|[\s`'"(|])--([a-z][a-z-]*)"#).unwrap();
    let mut wrong = Vec::new();
    for name in written() {
        for found in flag.captures_iter(&text(&name)) {
            if !known.contains(&found[1]) {
                wrong.push(format!("{name}: --{}", &found[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The words of a command, as a shell splits them; none where it is more than one plain command.
fn words_of(command: &str) -> Option<Vec<String>> {
    let command = command.split(" #").next().unwrap_or_default();
    // nagent-think and nagent-js prepare their words before clap gets them.
    let is_more = command.contains("$(") || command.contains(['`', '…', '{', '[']);
    if is_more || command.starts_with("nagent-think") || command.starts_with("nagent-js") {
        return None;
    }
    let plain = command.split(['|', '<', '>', ';', '&']).next().unwrap_or_default();
    let word = Regex::new(r#"(?:"[^"]*"|'[^']*'|[^\s"'])+"#).unwrap();
    let words = word.find_iter(plain).map(|word| word.as_str().replace(['"', '\''], ""));
    Some(words.collect())
}

#[test]
fn commands_that_are_shown_are_understood() {
    let inline = Regex::new("`(nagent[^`\n]* [^`\n]*)`").unwrap();
    let line = Regex::new(r"(?m)^(?:\$ )?(nagent[a-z-]* .*)$").unwrap();
    let fences = Regex::new(r"(?ms)^```(?:sh|console)$.*?^```$").unwrap();
    let commands = cmd::list_commands();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for page in written() {
        let text = text(&page);
        let blocks: String = fences.find_iter(&text).map(|block| block.as_str()).collect();
        let shown = inline.captures_iter(&text).chain(line.captures_iter(&blocks));
        for words in shown.filter_map(|found| words_of(&found[1])) {
            let Some(command) = commands.iter().find(|it| it.get_name() == words[0]) else {
                wrong.push(format!("{page}: {words:?}"));
                continue;
            };
            checked += 1;
            // Prose may leave out a value, or name it in capitals.
            if let Err(error) = command.clone().try_get_matches_from(&words)
                && error.kind() == ErrorKind::UnknownArgument
            {
                wrong.push(format!("{page}: {words:?}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 100, "only {checked} commands were found");
}

#[test]
fn links_and_make_targets_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)#]*)(?:#([a-z0-9-]+))?\)").unwrap();
    let make = Regex::new(r"(?m)^make ([a-z]+)|`make ([a-z]+)`").unwrap();
    let makefile = text("Makefile");
    let mut wrong = Vec::new();
    for name in written() {
        let text = text(&name);
        let folder = top().join(&name).parent().unwrap().to_owned();
        for found in link.captures_iter(&text).filter(|found| !found[1].contains("://")) {
            let target =
                if found[1].is_empty() { top().join(&name) } else { folder.join(&found[1]) };
            let Ok(page) = std::fs::read_to_string(&target) else {
                wrong.push(format!("{name}: {}", &found[1]));
                continue;
            };
            let heading = |line: &str| {
                let kept = |c: &char| c.is_alphanumeric() || *c == '-' || *c == ' ';
                let words: String =
                    line.trim_start_matches(['#', ' ']).chars().filter(kept).collect();
                words.to_lowercase().replace(' ', "-")
            };
            if let Some(anchor) = found.get(2)
                && !page.lines().any(|l| l.starts_with('#') && heading(l) == anchor.as_str())
            {
                wrong.push(format!("{name}: {}#{}", &found[1], anchor.as_str()));
            }
        }
        for found in make.captures_iter(&text) {
            let target = found.get(1).or(found.get(2)).unwrap().as_str();
            if !makefile.lines().any(|line| line.starts_with(&format!("{target}:"))) {
                wrong.push(format!("{name}: make {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Each promise of SECURITY.md names tests that there are, and each mutant breaks one promise.
#[test]
fn every_promise_names_its_tests() {
    let code = names::all_modules();
    let parts = text("torture/src/main.rs");
    let mutants = text("mutants/table");
    let mutants: BTreeSet<&str> =
        mutants.lines().filter_map(|line| line.strip_prefix("name: ")).collect();
    let mut broken = BTreeSet::new();
    for row in table("SECURITY.md", "promise") {
        let [promise, tests, torture, killed] = &row[..] else { panic!("{row:?}") };
        for test in quoted(tests) {
            assert!(names::is_test(&code, &test), "{promise}: there is no test {test}");
        }
        for part in quoted(torture) {
            assert!(parts.contains(&format!("\"{part}\",")), "{promise}: no torture part {part}");
        }
        assert!(!quoted(tests).is_empty() || !quoted(torture).is_empty(), "{promise}: no test");
        for name in quoted(killed) {
            assert!(mutants.contains(name.as_str()), "{promise}: no mutant {name}");
            assert!(broken.insert(name.clone()), "{name} breaks two promises");
        }
    }
    assert_eq!(broken.len(), mutants.len(), "a mutant that breaks no promise");
}

#[test]
fn every_module_is_in_the_code_map() {
    let map = text("ARCHITECTURE.md");
    let library = text("src/lib.rs");
    let modules = Regex::new(r"(?m)^pub mod (\w+);").unwrap();
    let modules = modules.captures_iter(&library).map(|module| module[1].to_owned());
    let crates = std::fs::read_dir(top().join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for name in modules.chain(crates) {
        assert!(map.contains(&format!("**`{name}`**")), "{name} in ARCHITECTURE");
    }
}
