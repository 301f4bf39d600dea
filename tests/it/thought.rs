//! `nagent-thought`: every verb, every way to name a script, the lines of the seed about policies.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::process_under_test::Run;
use crate::sandbox::Sandbox;
use crate::think::{home, think};

pub(crate) const THOUGHT: &str = env!("CARGO_BIN_EXE_nagent-thought");

pub(crate) fn thought(sandbox: &Sandbox, words: &[&str]) -> Run {
    sandbox.program(THOUGHT, words).without_terminal().run()
}

/// A world with a script that has run, and has a memory.js, a memory and a file of its own.
fn world() -> Sandbox {
    let sandbox = Sandbox::new().file("weather.md", "---\nmodel: m\n---\nTell the weather.\n");
    let folder = home(&sandbox).join("thoughts/weather");
    for below in ["workspace", "memories"] {
        fs::create_dir_all(folder.join(below)).unwrap();
    }
    fs::write(folder.join("memory.js"), "'sunny ' + process.args + '\\n'").unwrap();
    fs::write(folder.join("memories/a.md"), "likes Celsius").unwrap();
    fs::write(folder.join("workspace/m.js"), "1").unwrap();
    think(&sandbox, &["weather.md"]).assert_exit(0).stdout_is("sunny \n");
    sandbox
}

#[test]
fn the_policy_lines_of_the_seed() {
    let sandbox = world();
    for line in [
        "policy list weather",
        "policy add path weather /Users/brad/data --mode rwd",
        "policy add env weather HOME",
        "policy add host weather *.github.com",
    ] {
        thought(&sandbox, &line.split(' ').collect::<Vec<_>>()).assert_exit(0);
    }
    let list = || thought(&sandbox, &["policy", "list", "weather"]).assert_exit(0).json();
    let policy = list();
    let entry = policy["paths"]["entries"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&entry["path"], &entry["mode"], &entry["source"]),
        (&json!("/Users/brad/data"), &json!("rwd"), &json!("cli"))
    );
    assert_eq!(policy["env"]["entries"][0]["name"], "HOME");
    assert_eq!(policy["net"]["hosts"]["entries"][0]["host"], "*.github.com");
    for line in [
        "policy remove path weather /Users/brad/data",
        "policy remove env weather HOME",
        "policy remove host weather *.github.com",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        thought(&sandbox, &words).assert_exit(0);
        thought(&sandbox, &words).assert_exit(2).stderr_has(&["there is no entry"]);
    }
    let policy = list();
    assert_eq!(
        (&policy["env"]["entries"], &policy["net"]["hosts"]["entries"]),
        (&json!([]), &json!([]))
    );
    let global = thought(&sandbox, &["policy", "list"]).assert_exit(0).json();
    assert_eq!(
        (&global["version"], &global["net"]["listen"]["default"]),
        (&json!(1), &json!("deny"))
    );
    thought(&sandbox, &["policy", "add", "env", "--global", "LANG", "--approval", "deny"])
        .assert_exit(0);
    let global = thought(&sandbox, &["policy", "list"]).json();
    assert_eq!(global["env"]["entries"][0]["approval"], "deny");
    for (words, part) in [
        (&["add", "path", "weather", "/x", "--mode", "rx"][..], "not a mode"),
        (&["add", "env", "weather", "A B"], "name of a variable"),
        (&["add", "host", "weather", "a/b"], "is not a host"),
        (&["add", "host", "weather", "x.com:99999"], "is not a host"),
        (&["add", "host", "weather", "x", "--approval", "yes"], "allow, deny or prompt"),
        (&["add", "host", "weather", "https://Api.example.com/v1"], "is not a host"),
        (&["add", "host", "weather", "a..b"], "is not a host"),
        (&["add", "host", "weather", "*.*.b"], "is not a host"),
        (&["add", "host", "weather", "x.com", "--mode", "r"], "--mode is for paths"),
        (&["add", "host", "example.com"], "--global"),
        (&["add", "port", "weather", "1"], "path, env, host"),
        (&["ad", "host", "weather", "x.com"], "'add'"),
        (&["add", "host", "wether", "a.example"], "did you mean weather?"),
        (&["list", "wether"], "did you mean weather?"),
        (&["remove", "host", "wether", "a.example"], "did you mean weather?"),
    ] {
        thought(&sandbox, &[&["policy"], words].concat())
            .assert_exit(2)
            .no_stdout()
            .stderr_has(&[part]);
    }
    let names = fs::read_dir(home(&sandbox).join("thoughts")).unwrap().count();
    assert_eq!(names, 1, "no mistake makes a thought");
    // As net.fetch calls them.
    for (host, entry) in [
        ("Bücher.example.", "xn--bcher-kva.example"),
        ("x.com:80", "x.com:80"),
        ("[::1]:8080", "[::1]:8080"),
        ("*.Example.com", "*.example.com"),
    ] {
        thought(&sandbox, &["policy", "add", "host", "weather", host]).assert_exit(0);
        assert_eq!(list()["net"]["hosts"]["entries"][0]["host"], entry);
        thought(&sandbox, &["policy", "remove", "host", "weather", host]).assert_exit(0);
    }
    // A script that has not run yet can have a policy.
    sandbox.write("new.md", "Do it.");
    thought(&sandbox, &["policy", "add", "env", "./new.md", "LANG"]).assert_exit(0);
    // Whoever edits at the same time loses nothing.
    let at_once: Vec<_> = (0..6)
        .map(|n| format!("V{n}"))
        .map(|name| sandbox.program(THOUGHT, &["policy", "add", "env", "weather", &name]).spawn())
        .collect();
    for running in at_once {
        running.wait().assert_exit(0);
    }
    assert_eq!(list()["env"]["entries"].as_array().unwrap().len(), 6);
    fs::write(home(&sandbox).join("thoughts/weather/policy.json"), "{\n  \"version\": 1,\n}")
        .unwrap();
    thought(&sandbox, &["policy", "add", "env", "weather", "HOME"])
        .assert_exit(1)
        .stderr_has(&["is damaged", "line 3"]);
}

#[test]
fn an_installed_script_keeps_what_it_has_learned() {
    let sandbox = world();
    thought(&sandbox, &["ls"]).assert_exit(0).no_stdout().stderr_has(&["no script is installed"]);
    let run = thought(&sandbox, &["install", "weather.md"]).assert_exit(0);
    let path = home(&sandbox).join("bin/weather");
    assert_eq!(run.stdout.trim_end(), path.display().to_string());
    assert!(fs::read_to_string(&path).unwrap().starts_with("#!/usr/bin/env nagent-think\n---\n"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    thought(&sandbox, &["ls"]).assert_exit(0).stdout_is("weather\n");
    think(&sandbox, &[&path.display().to_string(), "--json", "x y"])
        .assert_exit(0)
        .stdout_is("sunny --json,x y\n")
        .no_stderr();
    let folder = home(&sandbox).join("thoughts/weather").display().to_string();
    let info = thought(&sandbox, &["info", "weather"]).assert_exit(0).stdout;
    for part in ["Name: weather", "memory.js: 30 bytes", "Workspace: 1 entries", "Memories: 1"] {
        assert!(info.contains(part), "{part}: {info}");
    }
    sandbox.write("other/weather.md", "Tell another weather.");
    let again = thought(&sandbox, &["install", "other/weather.md"]).assert_exit(0);
    let kept =
        again.stderr.lines().find_map(|line| line.strip_prefix("the previous weather is now in "));
    assert!(fs::read_to_string(kept.unwrap()).unwrap().contains("Tell the weather."));
    thought(&sandbox, &["install", "weather.md"]).assert_exit(0);
    thought(&sandbox, &["rm", "weather"])
        .assert_exit(0)
        .stderr_has(&["its data stay in", "--force"]);
    assert!(!path.exists() && fs::exists(&folder).unwrap());
    thought(&sandbox, &["rm", "weather"])
        .assert_exit(1)
        .stderr_has(&["is not an installed script"]);
    let trash = || fs::read_dir(home(&sandbox).join("trash")).unwrap().count();
    assert_eq!(trash(), 3);
    thought(&sandbox, &["install", "weather.md"]).assert_exit(0);
    // A file of that name is another thing.
    sandbox.write("weather", "Other.");
    let moved = thought(&sandbox, &["rm", "weather", "--force"]).assert_exit(0).stdout;
    assert!(moved.contains("/bin/weather\n") && moved.contains("/thoughts/weather\n"), "{moved}");
    assert_eq!((trash(), path.exists(), fs::exists(&folder).unwrap()), (4, false, false));
    sandbox.write(".hidden.md", "Do it.");
    let hidden = thought(&sandbox, &["install", ".hidden.md"]).assert_exit(2).no_stdout();
    hidden.stderr_has(&[".hidden.md", "rename it"]);
}

#[test]
fn a_home_that_cannot_be_used() {
    let sandbox = Sandbox::new().file("weather.md", "Do it.").file("file", "");
    let someone = sandbox.base().join("someone");
    fs::create_dir(&someone).unwrap();
    let mut homes = vec![sandbox.work().join("file"), sandbox.work().join("file/below")];
    if std::os::unix::fs::chown(&someone, Some(65534), None).is_ok() {
        homes.push(someone);
    }
    for home in homes {
        for (program, words) in [
            (THOUGHT, &["ls"][..]),
            (crate::think::THINK, &["weather.md"]),
            (crate::js::JS, &["-e", "1"]),
        ] {
            let home = home.display().to_string();
            let run = sandbox.program(program, words).env("THINKINGSCRIPT_HOME", &home).run();
            run.assert_exit(1).no_stdout().stderr_has(&[&home, "set THINKINGSCRIPT_HOME"]);
        }
    }
    // A folder in it that another user owns would decide, too.
    let folder = sandbox.home().join(".thinkingscript/thoughts/weather");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("memory.js"), "'planted'").unwrap();
    if std::os::unix::fs::chown(&folder, Some(65534), None).is_ok() {
        think(&sandbox, &["weather.md"]).assert_exit(1).no_stdout().stderr_has(&["belongs to"]);
    }
}

#[test]
fn names_of_scripts() {
    let sandbox = world().file("tool", "Do it.");
    thought(&sandbox, &["install", "tool"]).assert_exit(0);
    // A bare name is what was installed, also where there is a file of that name.
    let script = |name: &str| {
        thought(&sandbox, &["info", "--json", name]).assert_exit(0).json()["script"].clone()
    };
    assert_eq!(script("tool"), json!(home(&sandbox).join("bin/tool")));
    assert_eq!(script("./tool"), json!(sandbox.work().canonicalize().unwrap().join("tool")));
    thought(&sandbox, &["info", "./none"]).assert_exit(1).stderr_has(&["no such script"]);
    thought(&sandbox, &["info", "wether"]).assert_exit(1).stderr_has(&["did you mean weather?"]);
    thought(&sandbox, &["cache", "weather"])
        .assert_exit(1)
        .stderr_has(&["only the data of this script remain; install it"]);
    thought(&sandbox, &["nonsense"]).assert_exit(2).no_stdout();
    for words in [["reset", ""], ["rm", ""]] {
        thought(&sandbox, &words).assert_exit(2).stderr_has(&["SCRIPT"]);
    }
    thought(&sandbox, &["policy"]).assert_exit(2).stderr_has(&["policy' requires a subcommand"]);
}

#[test]
fn reset_build_and_cache() {
    let sandbox = world();
    let folder = home(&sandbox).join("thoughts/weather");
    let there = || {
        ["memory.js", "workspace", "memories", "policy.json"].map(|name| folder.join(name).exists())
    };
    let run = thought(&sandbox, &["reset", "weather.md"]).assert_exit(0);
    assert_eq!(there(), [false, false, true, true]);
    let folder_of = |line: &str| line.split("/trash/").nth(1).map(|rest| rest[..32].to_owned());
    let folders: Vec<_> = run.stdout.lines().map(folder_of).collect();
    assert!(folders.len() == 2 && folders[0] == folders[1], "{}", run.stdout);
    let moved = run.stdout.lines().next().unwrap().trim_start_matches("moved to ").to_owned();
    assert!(fs::read_to_string(moved).unwrap().contains("sunny"));
    let run = thought(&sandbox, &["reset", "weather.md", "--all"]).assert_exit(0);
    assert_eq!(there(), [false; 4]);
    assert!(!folder.exists());
    let moved = run.stdout.trim_end().trim_start_matches("moved to ");
    for name in ["memories/a.md", "origin", "policy.json"] {
        assert!(fs::exists(format!("{moved}/{name}")).unwrap(), "{name}: {moved}");
    }
    thought(&sandbox, &["build", "weather.md", "-o", "out"]).assert_exit(0).stdout_is("out\n");
    assert!(sandbox.read("out").starts_with("#!/usr/bin/env nagent-think\n---"));
    thought(&sandbox, &["build", "weather.md"]).assert_exit(2);
    let cache = thought(&sandbox, &["cache", "weather.md"]).assert_exit(0).stdout;
    assert!(fs::exists(format!("{}/fingerprint", cache.trim_end())).unwrap(), "{cache}");
    thought(&sandbox, &["cache"]).assert_exit(2);
}
