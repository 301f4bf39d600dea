//! The same sandbox by `nagent --sandbox workspace --no-network` itself: around the shell, `--check`, a child's shell. What is
//! tried gets through without them.

use std::net::TcpListener;

use super::world::secret;
use crate::figures::Figures;
use crate::sandbox::{Sandbox, answer, shell};

/// How commands come to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Shell,
    Check,
    Child,
}

pub(super) fn run(figures: &mut Figures) {
    let (mut through, mut live, mut tried) = (0, 0, 0);
    for way in [Way::Shell, Way::Check, Way::Child] {
        let (without, _) = attempt(figures, way, &["--sandbox", "off"]);
        live += usize::from(without.len() == 4);
        if without.len() != 4 {
            figures.miss(format!(
                "by nagent, {way:?}: without the sandbox only this got through: {without:?}"
            ));
        }
        let (within, said) = attempt(figures, way, &["--sandbox", "workspace", "--no-network"]);
        tried += 4;
        through += within.len();
        for what in within {
            figures.miss(format!("by nagent, {way:?}: {what}"));
        }
        for words in ["sandbox=\"workspace\"", "network=\"off\""] {
            if !said.contains(words) {
                figures
                    .miss(format!("by nagent, {way:?}: the result does not say {words}: {said}"));
            }
        }
    }
    figures.exactly(
        "ways through nagent (shell, --check, a child): controls that got through",
        live,
        3,
    );
    figures.exactly(&format!("{tried} attempts by nagent in the sandbox: through"), through, 0);
}

/// What got through, and all that stands in conversations.
fn attempt(figures: &mut Figures, way: Way, flags: &[&str]) -> (Vec<&'static str>, String) {
    let sandbox = Sandbox::outside_temp();
    let hidden = format!("{}root", secret());
    std::fs::write(sandbox.root().join("private.txt"), &hidden).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let commands = format!(
        "echo x > {outside}/outside.txt; echo x > .git/hooks/post-commit; cat {root}/private.txt; exec 3<>/dev/tcp/127.0.0.1/{port}; echo fine > inside.txt; test -e tried || {{ touch tried; exit 3; }}",
        outside = sandbox.base().display(),
        root = sandbox.root().display(),
        port = listener.local_addr().unwrap().port(),
    );
    // `exec` ends a shell that cannot open what it is told to.
    let commands =
        commands.replace("exec 3<>", "( exec 3<>").replace("; echo fine", " ); echo fine");
    let mut arguments: Vec<&str> = flags.to_vec();
    if way == Way::Check {
        arguments.extend(["--check", &commands]);
    }
    arguments.push("task");
    let script = shell(&commands);
    sandbox.llm.choose(move |request| {
        let user = request.user();
        match way {
            Way::Check => answer("done").into(),
            Way::Child
                if !user.contains("look into it") && !user.contains("conversation-result") =>
            {
                "<nagent-conversation>look into it</nagent-conversation>".into()
            }
            _ if user.contains("shell-result") || user.contains("conversation-result") => {
                answer("done").into()
            }
            _ => script.clone().into(),
        }
    });
    let run = sandbox.cmd(&arguments).run();
    if run.code != 0 {
        figures.miss(format!("by nagent, {way:?}, {flags:?}: exit {} {}", run.code, run.stderr));
    }
    let said: String = sandbox
        .conversation_paths()
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    if !sandbox.work().join("inside.txt").exists() {
        figures.miss(format!("by nagent, {way:?}, {flags:?}: the commands did not run: {said}"));
    }
    let all = [
        ("a file outside was made", sandbox.base().join("outside.txt").exists()),
        ("a hook was made", sandbox.work().join(".git/hooks/post-commit").exists()),
        ("the root was read", said.contains(&hidden)),
        ("a connection came", listener.accept().is_ok()),
    ];
    (all.into_iter().filter_map(|(what, is_so)| is_so.then_some(what)).collect(), said)
}
