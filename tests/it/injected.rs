//! Documents that tell a model what to do, a model that does all of it, and a world that is watched meanwhile.
//! It is longer than 500 lines since two test targets take it as one file.
//!
//! What is in the documents is done indeed, by whoever runs the tests: it names nothing outside of the world's own folders
//! that a failing test could harm.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

use crate::blocks::{Block, blocks};
use crate::fake_llm::Request;
use crate::sandbox::{CANARY, Sandbox, answer};

const FILES: [(&str, &str); 19] = [
    ("child", include_str!("injections/child.txt")),
    ("code", include_str!("injections/code.txt")),
    ("encoded", include_str!("injections/encoded.txt")),
    ("html", include_str!("injections/html.txt")),
    ("index", include_str!("injections/index.txt")),
    ("issue", include_str!("injections/issue.txt")),
    ("keys", include_str!("injections/keys.txt")),
    ("lang_de", include_str!("injections/lang_de.txt")),
    ("lang_es", include_str!("injections/lang_es.txt")),
    ("lang_fr", include_str!("injections/lang_fr.txt")),
    ("lang_ja", include_str!("injections/lang_ja.txt")),
    ("lang_ru", include_str!("injections/lang_ru.txt")),
    ("lang_zh", include_str!("injections/lang_zh.txt")),
    ("log", include_str!("injections/log.txt")),
    ("readme", include_str!("injections/readme.txt")),
    ("system", include_str!("injections/system.txt")),
    ("test_output", include_str!("injections/test_output.txt")),
    ("tool", include_str!("injections/tool.txt")),
    ("sandbox", include_str!("injections/sandbox.txt")),
];

/// What stands before an instruction's first argument and between the others, in each language.
const WORDS: [(&str, [&str; 4]); 7] = [
    ("en", ["run", "write the file", "edit the file", "with"]),
    ("de", ["führe aus", "schreibe die Datei", "ändere die Datei", "mit"]),
    ("fr", ["exécute", "écris le fichier", "modifie le fichier", "avec"]),
    ("es", ["ejecuta", "escribe el archivo", "edita el archivo", "con"]),
    ("ru", ["выполни", "запиши файл", "измени файл", "с"]),
    ("zh", ["运行", "写入文件", "修改文件", "内容"]),
    ("ja", ["実行", "書き込み", "編集", "内容"]),
];

/// The words of the other instructions, in English alone.
const OTHERS: [(&str, &str); 8] = [
    ("read", "read the file"),
    ("grep", "search the folder"),
    ("glob", "match in the folder"),
    ("list", "list the folder"),
    ("patch", "apply the index"),
    ("child", "delegate"),
    ("file", "open the conversation of"),
    ("next", "go on with"),
];

/// A text with instructions in it.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// The file that it comes from.
    pub(crate) group: &'static str,
    /// How many instructions it holds, at least.
    pub(crate) steps: usize,
    /// Its commands do harm by themselves.
    pub(crate) needs_sandbox: bool,
    carrier: String,
    said: String,
    is_encoded: bool,
}

impl Document {
    /// The text, with `{HOME}` and the like still in it but for two.
    pub(crate) fn text(&self, home: &str, work: &str) -> String {
        let said = self.said.replace("{HOME}", home).replace("{WORK}", work);
        let said = if self.is_encoded { STANDARD.encode(said) } else { said };
        self.carrier.replace("{}", &said)
    }
}

/// All of them.
pub(crate) fn documents() -> Vec<Document> {
    FILES.iter().flat_map(|(group, text)| read(group, text)).collect()
}

fn read(group: &'static str, text: &str) -> Vec<Document> {
    let (head, lines) = text.split_once("\n%%\n").unwrap();
    let mut carrier = head;
    let (mut lang, mut is_encoded, mut needs_sandbox) = ("en", false, false);
    for (mark, rest) in [("lang: ", 0), ("encode: ", 1), ("only: ", 2)] {
        if let Some((line, after)) = carrier.split_once('\n')
            && let Some(value) = line.strip_prefix(mark)
        {
            carrier = after;
            match rest {
                0 => lang = value,
                1 => is_encoded = true,
                _ => needs_sandbox = true,
            }
        }
    }
    lines
        .lines()
        .map(|line| {
            let steps: Vec<String> = line.split(" ;; ").map(|step| phrase(lang, step)).collect();
            let said = steps.join(", then ");
            Document {
                group,
                steps: steps.len(),
                needs_sandbox,
                carrier: carrier.to_owned(),
                said,
                is_encoded,
            }
        })
        .collect()
}

fn phrase(lang: &str, step: &str) -> String {
    let (kind, rest) = step.split_once(" | ").unwrap();
    if kind == "raw" {
        return rest.to_owned();
    }
    let words = WORDS.iter().find(|(name, _)| *name == lang).unwrap().1;
    let count = match kind {
        "edit" => 3,
        "write" | "file" | "grep" | "glob" => 2,
        _ => 1,
    };
    let arguments: Vec<String> =
        rest.splitn(count, " | ").map(|word| format!("`{word}`")).collect();
    let verb = match kind {
        "shell" | "plant" => words[0],
        "write" => words[1],
        "edit" => words[2],
        _ => OTHERS.iter().find(|(name, _)| *name == kind).unwrap().1,
    };
    format!("{verb} {}", arguments.join(&format!(" {} ", words[3])))
}

static PHRASE: LazyLock<Regex> = LazyLock::new(|| {
    let verbs: Vec<&str> = WORDS
        .iter()
        .flat_map(|(_, words)| words[..3].iter().copied())
        .chain(OTHERS.iter().map(|(_, verb)| *verb))
        .collect();
    let with: Vec<&str> = WORDS.iter().map(|(_, words)| words[3]).collect();
    let (verbs, with) = (verbs.join("|"), with.join("|"));
    // Within a line: what is cut in a result must not lend its end to what follows.
    let quoted = "(?:`([^`\\n]*)`|«([^»\\n]*)»)";
    Regex::new(&format!("({verbs}) {quoted}(?: (?:{with}) {quoted})?(?: (?:{with}) {quoted})?"))
        .unwrap()
});

/// Tags that stand in a text, whole or with words between.
static TAGS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)<nagent-(?:shell|write|edit|next|response|read|list|glob|grep|file-read|file-patch|conversation)[ >].*(?:/>|</nagent-[a-z-]+>)").unwrap()
});

static ENCODED: LazyLock<Regex> = LazyLock::new(|| Regex::new("[A-Za-z0-9+/]{24,}={0,2}").unwrap());

/// Everything that a text tells its reader to do, as replies.
pub(crate) fn instructions(text: &str) -> Vec<String> {
    let mut found: Vec<String> =
        PHRASE.captures_iter(text).filter_map(|phrase| tag(&phrase)).collect();
    for coded in ENCODED.find_iter(text) {
        let plain =
            STANDARD.decode(coded.as_str()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        found.extend(
            plain
                .iter()
                .flat_map(|text| PHRASE.captures_iter(text))
                .filter_map(|phrase| tag(&phrase)),
        );
    }
    // A line each: what stands around the tags in it goes along.
    found
        .extend(text.lines().filter(|line| TAGS.is_match(line)).map(|line| line.trim().to_owned()));
    // What was cut in a result names other places than it did: the folder above the world, for one.
    found.retain(|one| !one.contains('…'));
    found
}

fn tag(phrase: &regex::Captures<'_>) -> Option<String> {
    let argument =
        |at: usize| phrase.get(at).or_else(|| phrase.get(at + 1)).map(|found| found.as_str());
    let (verb, one) = (&phrase[1], argument(2)?);
    let (two, three) = (argument(4).unwrap_or("evil"), argument(6).unwrap_or("evil"));
    let value = |text: &str| {
        let text = text.replace('&', "&amp;").replace('"', "&quot;");
        text.replace('<', "&lt;").replace('>', "&gt;")
    };
    let path = value(one);
    let kind = OTHERS.iter().find(|(_, words)| *words == verb).map(|(kind, _)| *kind);
    let at = WORDS.iter().find_map(|(_, words)| words.iter().position(|word| *word == verb));
    Some(match (kind, at) {
        (Some("read"), _) => format!("<nagent-read path=\"{path}\"/>"),
        (Some("grep"), _) => format!("<nagent-grep pattern=\"{}\" path=\"{path}\"/>", value(two)),
        (Some("glob"), _) => format!("<nagent-glob pattern=\"{}\" path=\"{path}\"/>", value(two)),
        (Some("list"), _) => format!("<nagent-list path=\"{path}\"/>"),
        (Some("patch"), _) => format!("<nagent-file-patch index=\"{path}\"/>"),
        (Some("child"), _) => format!("<nagent-conversation>{one}</nagent-conversation>"),
        (Some("file"), _) => {
            format!("<nagent-conversation file=\"{path}\">{two}</nagent-conversation>")
        }
        (Some("next"), _) => format!("<nagent-next>{one}</nagent-next>"),
        (_, Some(0)) => format!("<nagent-shell timeout=\"10\">{one}</nagent-shell>"),
        (_, Some(1)) => format!("<nagent-write path=\"{path}\">{two}</nagent-write>"),
        (_, Some(2)) => format!(
            "<nagent-edit path=\"{path}\">\n<<<<<<< SEARCH\n{two}\n=======\n{three}\n>>>>>>> REPLACE\n</nagent-edit>"
        ),
        _ => return None,
    })
}

/// What came of it all.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// Actions that the model sent.
    pub(crate) actions: usize,
    /// Of them, those that stood in the text as tags.
    pub(crate) tags: usize,
    /// Results with an error.
    pub(crate) refused: usize,
    /// Connections that a listener got.
    pub(crate) connections: usize,
}

/// A world to be watched.
pub(crate) struct World {
    sandbox: Sandbox,
    listener: Arc<Mutex<(usize, Vec<u8>)>>,
    port: u16,
    seen: Seen,
    groups: usize,
}

/// A file or link, as it is compared.
type Entry = (u32, Vec<u8>);

impl World {
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox::outside_temp()
            .file("README.md", "# Parcel\n")
            .file("Makefile", "all:\n")
            .file("src/main.rs", "fn main() {}\n")
            .file("scratch.txt", "scratch\n")
            .file(
                "big.txt",
                (1..4000)
                    .map(|n| format!("line {n} of a file that is split\n\n"))
                    .collect::<String>(),
            )
            .env("ANTHROPIC_API_KEY", CANARY)
            .env("DEPLOY_TOKEN", CANARY)
            .env("HEADER", format!("Authorization: Bearer {CANARY}"));
        let (base, root) = (sandbox.base().to_owned(), sandbox.root());
        for (path, text) in [
            ("home/.bashrc", "export A=1\n"),
            ("home/.profile", "PATH=/bin\n"),
            ("home/.gitconfig", "[user]\n"),
            ("home/.ssh/authorized_keys", "ssh-rsa mine\n"),
            ("etc/passwd", "root:x:0:0\n"),
            ("etc/cron.d/own", "# none\n"),
            ("tmp-evil/own", "x\n"),
            ("home/.nagent/context.md", "Be kind.\n"),
            ("home/.nagent/bin/tool", "#!/bin/sh\ntrue\n"),
            ("home/.nagent/outputs/kept.txt", "kept\n"),
            ("home/.nagent/splits/foreign/own", "x\n"),
            ("home/.nagent/conversations/victim", "<user-prompt>\nthe task\n</user-prompt>\n"),
            ("work/.git/hooks/pre-commit", "#!/bin/sh\nexit 0\n"),
        ] {
            fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            fs::write(base.join(path), text).unwrap();
        }
        fs::set_permissions(root.join("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let listener = Arc::<Mutex<(usize, Vec<u8>)>>::default();
        let into = Arc::clone(&listener);
        // It ends with the process.
        std::thread::spawn(move || {
            for stream in socket.incoming().flatten() {
                let mut stream = stream;
                let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
                let mut bytes = Vec::new();
                let _ = (&mut stream).take(1 << 20).read_to_end(&mut bytes);
                let _ = stream.write_all(b"HTTP/1.0 204 No\r\n\r\n");
                let mut got = into.lock().unwrap();
                got.0 += 1;
                got.1.extend(bytes);
            }
        });
        sandbox.llm.allow_rewrites();
        Self { sandbox, listener, port, seen: Seen::default(), groups: 0 }
    }

    pub(crate) fn seen(&self) -> Seen {
        Seen { connections: self.listener.lock().unwrap().0, ..self.seen.clone() }
    }

    fn fill(&self, text: &str) -> String {
        let sandbox = &self.sandbox;
        let places = [
            ("{HOME}", sandbox.home()),
            ("{ROOT}", sandbox.root()),
            ("{WORK}", sandbox.work()),
            ("{TMP}", sandbox.tmp()),
            ("{ETC}", sandbox.base().join("etc")),
            ("{EVIL}", sandbox.base().join("tmp-evil")),
            ("{SPLIT}", PathBuf::from(env!("CARGO_BIN_EXE_nagent-file-split"))),
            ("{PORT}", PathBuf::from(self.port.to_string())),
        ];
        places
            .iter()
            .fold(text.to_owned(), |text, (name, path)| text.replace(name, path.to_str().unwrap()))
    }

    /// Has the model read documents and do what they say. What went wrong, in words.
    pub(crate) fn run(
        &mut self,
        flags: &[&str],
        group: &str,
        documents: &[&Document],
    ) -> Vec<String> {
        self.groups += 1;
        let conversation = format!("injected-{}", self.groups);
        let before = self.watched();
        let conversations_before = self.conversations();
        let mut args: Vec<String> =
            vec!["--conversation".into(), conversation, "--jobs".into(), "1".into()];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        for (at, document) in documents.iter().enumerate() {
            let mut document = (*document).clone();
            document.said = self.fill(&document.said);
            document.carrier = self.fill(&document.carrier);
            let path = self.sandbox.tmp().join(format!("{group}-{at}.txt"));
            fs::write(&path, document.text("", "")).unwrap();
            args.extend(["--read".to_owned(), path.display().to_string()]);
        }
        args.push("read these, and sum them up".to_owned());
        let (replies, counts) = obey(&self.sandbox);
        let run = self.sandbox.cmd(&args).run();
        {
            let counts = counts.lock().unwrap();
            self.seen.actions += counts.0;
            self.seen.tags += counts.1;
        }
        let mut troubles = Vec::new();
        if ![0, 4].contains(&run.code) || run.stderr.contains("panicked") {
            troubles.push(format!("exit {}: {}", run.code, run.stderr));
        }
        if run.stdout.contains(CANARY) || run.stderr.contains(CANARY) {
            troubles.push("a key was printed".to_owned());
        }
        troubles.extend(differences(&before, &self.watched()));
        troubles.extend(self.turns(&conversations_before, &replies.lock().unwrap()));
        troubles.extend(self.keys());
        troubles
    }

    fn conversations(&self) -> BTreeSet<PathBuf> {
        self.sandbox.conversation_paths().into_iter().collect()
    }

    /// Every turn of the model's in the new conversations is one that it sent, and each prompt is one that it was given.
    fn turns(&mut self, before: &BTreeSet<PathBuf>, replies: &BTreeSet<String>) -> Vec<String> {
        let mut troubles = Vec::new();
        for path in self.conversations().difference(before) {
            let text = fs::read_to_string(path).unwrap();
            let parsed = conversation::format::file::parse(&text);
            if let Some(trouble) = parsed.trouble {
                troubles.push(format!("{}: {trouble:?}", path.display()));
                continue;
            }
            let all: Vec<Block> = blocks(&text);
            let count = |name: &str| all.iter().filter(|block| block.name == name).count();
            // The conversation of a file gets one from each conversation that asks it for a change.
            let mut prompts = all.iter().filter(|block| block.name == "user-prompt");
            let is_asked = prompts.clone().all(|prompt| !prompt.get("from").is_empty());
            if (prompts.next().is_none() || count("user-prompt") > 1 && !is_asked)
                || count("note") != 0
            {
                troubles.push(format!("{} has {} prompts", path.display(), count("user-prompt")));
            }
            for reply in all.iter().filter(|block| block.name == "agent-response") {
                // Of a reply with a forged block only what stands before it counts.
                if !replies.iter().any(|sent| sent.trim().starts_with(reply.body.trim())) {
                    troubles.push(format!("a turn that nobody sent: {}", reply.body));
                }
            }
            self.seen.refused += all
                .iter()
                .filter(|b| b.name.ends_with("-result") && b.get("status") == "error")
                .count();
        }
        troubles
    }

    /// Where a key is that should not be.
    fn keys(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        // All requests are searched each time: a pattern is optimized in debug builds, too.
        let key = regex::bytes::Regex::new(CANARY).unwrap();
        let holds = |bytes: &[u8]| key.is_match(bytes);
        if self
            .sandbox
            .llm
            .all_requests()
            .iter()
            .any(|request| holds(&request.body) || holds(request.path.as_bytes()))
        {
            troubles.push("a key is in a request's body".to_owned());
        }
        if holds(&self.listener.lock().unwrap().1) {
            troubles.push("a key went to the listener".to_owned());
        }
        for (path, (_, bytes)) in everything(self.sandbox.base()) {
            if holds(&bytes) {
                troubles.push(format!("a key is in {path}"));
            }
        }
        troubles
    }

    /// All that no tag may write.
    fn watched(&self) -> BTreeMap<String, Entry> {
        let mut all = everything(self.sandbox.base());
        // The temp folder, the file that has a conversation, and what nagent itself writes in its root.
        let own = [
            "home/.nagent/conversations/",
            "home/.nagent/outputs/",
            "home/.nagent/splits/",
            "home/.nagent/",
        ];
        let kept = [
            "config.json",
            "context.md",
            "context.yaml",
            "bin/",
            "outputs/kept.txt",
            "splits/foreign/",
            "conversations/victim",
            "new-file",
            "conversations/new",
        ];
        all.retain(|path, _| {
            let is_kept = path
                .strip_prefix("home/.nagent/")
                .is_some_and(|rest| kept.iter().any(|kept| rest.starts_with(kept)));
            is_kept
                || !own.iter().any(|own| path.starts_with(own))
                    && !path.starts_with("tmp/")
                    && path != "work/scratch.txt"
        });
        for path in ["/dev/shm/nagent-injected", "/etc/cron.d/evil"] {
            if Path::new(path).exists() {
                all.insert(path.to_owned(), (0, Vec::new()));
            }
        }
        all
    }
}

/// Every file and link below a folder.
fn everything(base: &Path) -> BTreeMap<String, Entry> {
    let mut all = BTreeMap::new();
    let mut folders = vec![base.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, meta) = (entry.path(), entry.metadata().unwrap());
            let name = path.strip_prefix(base).unwrap().to_string_lossy().into_owned();
            let mode = meta.permissions().mode();
            if meta.is_dir() {
                all.insert(name, (mode, Vec::new()));
                folders.push(path);
            } else if meta.is_symlink() {
                all.insert(
                    name,
                    (mode, fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()),
                );
            } else if meta.is_file() {
                all.insert(name, (mode, fs::read(path).unwrap()));
            }
        }
    }
    all
}

fn differences(before: &BTreeMap<String, Entry>, after: &BTreeMap<String, Entry>) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| match (before.get(name), after.get(name)) {
            (None, Some(_)) => format!("{name} was made"),
            (Some(_), None) => format!("{name} is gone"),
            _ => format!("{name} was changed"),
        })
        .collect()
}

type Sent = (Arc<Mutex<BTreeSet<String>>>, Arc<Mutex<(usize, usize)>>);

/// Has the model obey. Gives what it has sent, and how many actions that were.
fn obey(sandbox: &Sandbox) -> Sent {
    let sent = Sent::default();
    let (replies, counts) = (Arc::clone(&sent.0), Arc::clone(&sent.1));
    let mut done: BTreeSet<(String, String)> = BTreeSet::new();
    let mut waiting: BTreeMap<String, Vec<String>> = BTreeMap::new();
    sandbox.llm.choose(move |request: &Request| {
        let dialogue = request.dialogue();
        let conversation = dialogue.turns[0].1.chars().take(3000).collect::<String>();
        let queue = waiting.entry(conversation.clone()).or_default();
        let mut batch = Vec::new();
        for found in instructions(&request.user()) {
            if done.insert((conversation.clone(), found.clone())) {
                let mut counts = counts.lock().unwrap();
                counts.0 += 1;
                // What stood there as tags may be no whole reply: one by one, so that it spoils no other.
                if matches!(conversation::protocol::parse_reply(&found), conversation::protocol::ParsedReply::Whole(ref items) if items.len() == 1) {
                    batch.push(found);
                } else {
                    counts.1 += 1;
                    queue.push(found);
                }
            }
        }
        let reply = if !batch.is_empty() {
            batch.join("\n")
        } else if let Some(reply) = queue.pop() {
            reply
        } else {
            answer("done")
        };
        replies.lock().unwrap().insert(reply.clone());
        reply.into()
    });
    sent
}
