//! What is packaged: `cargo install` gets every executable and nothing that only developers need; `make install` and
//! `make dist` know every tool.

use std::path::Path;
use std::process::Command;

use sys::tools::TOOLS;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a command prints in the project.
fn output(program: &str, args: &[&str]) -> String {
    let run = Command::new(program).args(args).current_dir(top()).output().unwrap();
    assert!(run.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// The executables themselves, which `cargo install` puts side by side, are what all tests run.
#[test]
fn cargo_installs_every_tool_and_packages_no_tests() {
    let list =
        output(env!("CARGO"), &["package", "--list", "-p", "nagent", "--offline", "--allow-dirty"]);
    let files: Vec<&str> = list.lines().collect();
    for tool in TOOLS {
        let is_there = |path: String| files.contains(&path.as_str());
        let places = [format!("src/bin/{tool}.rs"), format!("src/bin/{tool}/main.rs")];
        assert!(places.into_iter().any(is_there), "{tool} in {list}");
    }
    for needed in
        ["src/stub.rs", "src/lib.rs", "Cargo.lock", "LICENSE", "README.md", "CHANGELOG.md"]
    {
        assert!(files.contains(&needed), "{needed} in {list}");
    }
    let is_ours = |file: &&&str| {
        ["tests/", "mutants/", "bench/", "torture/", "fuzz/"]
            .iter()
            .any(|folder| file.starts_with(folder))
    };
    assert_eq!(files.iter().find(is_ours), None);
    // What the sources include is packaged with them.
    for file in files.iter().filter(|file| file.starts_with("src/")) {
        let text = std::fs::read_to_string(top().join(file)).unwrap();
        for part in text.split("include_str!(\"").skip(1) {
            let path = part.split('"').next().unwrap();
            assert!(
                top().join(file).parent().unwrap().join(path).starts_with(top().join("src")),
                "{file}: {path}"
            );
        }
    }
}

#[test]
fn make_installs_links_pages_and_completions_for_every_tool() {
    let plan = output("make", &["--dry-run", "install", "DESTDIR=/x", "PREFIX=/usr"]);
    for folder in [
        "/x/usr/bin",
        "/x/usr/share/man/man1",
        "/x/usr/share/bash-completion/completions",
        "/x/usr/share/zsh/site-functions",
        "/x/usr/share/fish/vendor_completions.d",
    ] {
        assert!(plan.contains(folder), "{folder} in {plan}");
    }
    let undo = output("make", &["--dry-run", "uninstall", "DESTDIR=/x", "PREFIX=/usr"]);
    for tool in TOOLS {
        assert!(top().join(format!("man/{tool}.1")).is_file(), "{tool}");
        assert!(
            plan.contains(&format!(" {tool} "))
                || plan.contains(&format!(" {tool};"))
                || plan.contains(&format!("release/{tool} ")),
            "{tool} in {plan}"
        );
        for file in [
            format!("bin/{tool}"),
            format!("man1/{tool}.1"),
            format!("completions/{tool}"),
            format!("_{tool}"),
            format!("{tool}.fish"),
        ] {
            assert!(undo.contains(&format!("{file}\"")), "{file} in {undo}");
        }
    }
    let dist = output("make", &["--dry-run", "dist"]);
    assert!(dist.contains("dist/build"), "{dist}");
    for file in ["LICENSE", "CHANGELOG.md", "docs/*.md"] {
        assert!(plan.contains(file), "{file} in {plan}");
    }
}
