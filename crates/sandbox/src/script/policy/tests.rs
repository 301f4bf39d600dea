//! The seed's file, every pair of layers, damage, free places.

use super::places::ScriptPlaces;
use super::*;

/// The file of the seed, word for word.
const SEED: &str = r#"{
  "version": 1,
  "paths": {
    "default": "prompt",
    "entries": [
      {"path": "/Users/brad/projects", "mode": "rwd", "approval": "allow", "source": "prompt"},
      {"path": "/etc", "mode": "r", "approval": "allow", "source": "config"}
    ],
    "protected": []
  },
  "env": {
    "default": "prompt",
    "entries": [
      {"name": "HOME", "approval": "allow", "source": "config"},
      {"name": "AWS_*", "approval": "deny", "source": "config"}
    ]
  },
  "net": {
    "hosts": {
      "default": "prompt",
      "entries": [
        {"host": "*.github.com", "approval": "allow", "source": "prompt"}
      ]
    },
    "listen": {
      "default": "deny",
      "entries": []
    }
  }
}"#;

fn seed() -> Layers {
    Layers { own: Policy::parse(SEED).unwrap(), global: Policy::default() }
}

fn policy(paths: &[(&str, &str, &str)]) -> Policy {
    let mut policy = Policy::default();
    for (subject, mode, approval) in paths {
        let approval = Approval::parse(approval).unwrap();
        policy.add_entry((Subject::Path((*subject).into()), mode), approval, "cli", "");
    }
    policy
}

#[test]
fn the_seeds_file_means_what_the_seed_says() {
    let layers = seed();
    let path = |mode, path: &str| layers.decide(AccessRequest::Path(mode, Path::new(path)), false);
    assert_eq!(path(Mode::Delete, "/Users/brad/projects/x"), Approval::Allow);
    assert_eq!(path(Mode::Read, "/Users/brad/projectsX"), Approval::Prompt);
    assert_eq!(path(Mode::Read, "/etc/passwd"), Approval::Allow);
    assert_eq!(path(Mode::Write, "/etc/passwd"), Approval::Prompt);
    for (name, verdict) in [
        ("HOME", Approval::Allow),
        ("HOMEX", Approval::Prompt),
        ("AWS_KEY", Approval::Deny),
        ("AWSX", Approval::Prompt),
    ] {
        assert_eq!(layers.decide(AccessRequest::Variable(name, false), false), verdict, "{name}");
    }
    for (host, verdict) in [
        ("api.github.com", Approval::Allow),
        ("a.b.github.com", Approval::Allow),
        ("github.com", Approval::Prompt),
        ("evilgithub.com", Approval::Prompt),
        ("api.github.com.evil.example", Approval::Prompt),
    ] {
        assert_eq!(layers.decide(AccessRequest::Host(host, 443), false), verdict, "{host}");
    }
}

#[test]
fn a_file_round_trips() {
    let mut policy = Policy::parse(SEED).unwrap();
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(value(&policy.format()), value(SEED));
    let add = |policy: &mut Policy| {
        let entry = (Subject::Host("a.example".into()), "");
        policy.add_entry(entry, Approval::Deny, "cli", "2026-11-23T00:00:00Z");
    };
    add(&mut policy);
    add(&mut policy);
    assert!(policy.format().contains("a.example"));
    assert_eq!(policy.remove(&Subject::Host("a.example".into())), 1);
    assert_eq!(policy.remove(&Subject::Host("a.example".into())), 0);
    assert_eq!(value(&policy.format()), value(SEED));
    // Go writes an empty list as null.
    let null = r#"{"version":1,"paths":{"default":"prompt","entries":null,"protected":null}}"#;
    let mut policy = Policy::parse(null).unwrap();
    add(&mut policy);
    assert!(policy.format().contains("a.example"));
}

#[test]
fn an_answer_opens_no_private_address_by_a_name_of_the_internet() {
    let mut layers = Layers::default();
    let policy = &mut layers.own;
    for host in ["a.example", "localhost:80", "[::1]", "10.0.0.1", "db.localhost"] {
        policy.add_entry((Subject::Host(host.into()), ""), Approval::Allow, "prompt", "");
    }
    policy.add_entry((Subject::Host("nas.example".into()), ""), Approval::Allow, "cli", "");
    for (host, expect) in [
        ("localhost", true),
        ("db.localhost", true),
        ("[::1]", true),
        ("10.0.0.1", true),
        ("nas.example", true),
        ("a.example", false),
    ] {
        assert_eq!(layers.names_host(host, 80), expect, "{host}");
    }
    assert!(!layers.names_host("localhost", 81));
    // As who asks for it by nagent-thought has said what it is for.
    layers.own.add_entry((Subject::Host("a.example".into()), ""), Approval::Allow, "cli", "");
    assert!(layers.names_host("a.example", 443));
}

#[test]
fn damage_is_named() {
    for (text, part) in [
        ("{", "line 1"),
        (r#"{"mine": 1}"#, "unknown field `mine`"),
        (r#"{"version": 2}"#, "version"),
        (r#"{"net": 1}"#, "line 1"),
        (r#"{"env": {"default": "maybe"}}"#, "unknown variant `maybe`"),
        (r#"{"env": {"entries": [{"approval": "allow"}]}}"#, "no variant"),
        (r#"{"paths": {"entries": [{"path": "/", "mode": "x", "approval": "allow"}]}}"#, "rwd"),
        (r#"{"paths": {"protected": {}}}"#, "invalid type: map"),
    ] {
        let error = Policy::parse(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn every_pair_of_layers() {
    let path = Path::new("/a/b/c");
    let check = |own: &[(&str, &str, &str)], global: &[(&str, &str, &str)], free, expect| {
        let layers = Layers { own: policy(own), global: policy(global) };
        assert_eq!(
            layers.decide(AccessRequest::Path(Mode::Read, path), free),
            expect,
            "{own:?} {global:?}"
        );
    };
    let (allow, deny, ask) = (Approval::Allow, Approval::Deny, Approval::Prompt);
    check(&[], &[], false, ask);
    check(&[], &[], true, allow);
    check(&[("/a", "r", "deny")], &[], true, deny);
    check(&[], &[("/a", "r", "deny")], true, deny);
    // The thought's entry decides before the global one.
    check(&[("/a", "r", "allow")], &[("/a", "r", "deny")], false, allow);
    check(&[("/a", "r", "deny")], &[("/a", "r", "allow")], false, deny);
    check(&[], &[("/a", "r", "allow")], false, allow);
    check(&[("/a", "r", "prompt")], &[("/a", "r", "allow")], true, ask);
    check(&[("/b", "r", "deny")], &[("/a", "r", "prompt")], true, ask);
    // The longest of those that have the mode.
    check(&[("/a", "r", "deny"), ("/a/b", "r", "allow")], &[], false, allow);
    check(&[("/a", "r", "allow"), ("/a/b", "r", "deny")], &[], false, deny);
    check(&[("/a", "r", "allow"), ("/a/b/c", "w", "deny")], &[], false, allow);
    check(&[("/a/b", "rd", "allow"), ("/a/b", "rw", "deny")], &[], false, deny);
    let mut global = Policy::default();
    global.paths.protected = policy(&[("/a", "r", "deny")]).paths.entries;
    let layers = Layers { own: policy(&[("/a/b/c", "r", "allow")]), global };
    assert_eq!(layers.decide(AccessRequest::Path(Mode::Read, path), true), deny);
    assert_eq!(layers.decide(AccessRequest::Path(Mode::Write, path), true), allow);
}

#[test]
fn a_wildcard_never_covers_a_credential() {
    let mut layers = Layers::default();
    for (subject, expect) in [
        ("*", Approval::Prompt),
        ("OPENAI_*", Approval::Prompt),
        ("OPENAI_API_KEY", Approval::Allow),
    ] {
        layers.own.add_entry((Subject::Env(subject.into()), ""), Approval::Allow, "cli", "");
        assert_eq!(
            layers.decide(AccessRequest::Variable("OPENAI_API_KEY", true), false),
            expect,
            "{subject}"
        );
    }
    assert_eq!(layers.decide(AccessRequest::Variable("LANG", false), false), Approval::Allow);
}

#[test]
fn free_places_and_taboos() {
    let places = ScriptPlaces {
        cwd: "/home/me/project".into(),
        user_home: Some("/home/me".into()),
        home: "/home/me/.thinkingscript".into(),
        thought: Some("/home/me/.thinkingscript/thoughts/t".into()),
        root: Some("/home/me/.nagent".into()),
        policies: Vec::new(),
        hidden: vec!["/home/me/project/.ssh".into()],
    };
    let free = |mode, path: &str| places.is_always_allowed(mode, Path::new(path));
    let thought = "/home/me/.thinkingscript/thoughts/t";
    assert!(free(Mode::Read, "/home/me/project/a"));
    assert!(!free(Mode::Read, "/home/me/projectX/a") && !free(Mode::Write, "/home/me/project/a"));
    assert!(!free(Mode::Read, "/home/me/project/.ssh/id"));
    for (below, read, write, delete) in [
        ("/workspace", true, true, false),
        ("/workspace/a/b", true, true, true),
        ("/memories/a.md", true, true, true),
        ("/memory.js", true, true, true),
        ("/memory.js/x", true, false, false),
        ("/policy.json", true, false, false),
        ("/other", true, false, false),
    ] {
        let path = format!("{thought}{below}");
        let got = [Mode::Read, Mode::Write, Mode::Delete].map(|mode| free(mode, &path));
        assert_eq!(got, [read, write, delete], "{below}");
    }
    let taboo = |mode, path: &str| places.find_forbidden(mode, Path::new(path)).is_some();
    let others = ["/policy.json", "/origin", "", "-2/policy.json", "-2"];
    for path in others.map(|end| format!("{thought}{end}")) {
        assert!(taboo(Mode::Write, &path) && taboo(Mode::Delete, &path), "{path}");
        assert!(!taboo(Mode::Read, &path), "{path}");
    }
    for path in ["/home/me/.thinkingscript/agents/anthropic.json", "/home/me/.nagent/config.json"] {
        assert!(taboo(Mode::Read, path), "{path}");
    }
    assert!(
        taboo(Mode::Delete, "/home/me")
            && taboo(Mode::Delete, "/")
            && !taboo(Mode::Write, "/home/me/x")
    );
    assert!(taboo(Mode::Write, "/home/me/.thinkingscript/config.json"));
    let above = ScriptPlaces { cwd: "/home".into(), ..places.clone() };
    assert!(!above.is_always_allowed(Mode::Read, Path::new("/home/x")));
}
