//! What commands get of the environment, and what is kept from them.

use super::*;

#[test]
fn what_commands_get() {
    let os = |text: &str| OsString::from(text);
    let env = Env {
        variables: vec![
            (os("A_TOKEN"), os("1")),
            (os("B_TOKEN"), os("2")),
            (os("P"), os("3")),
            (os("HEADER"), os("Bearer a-long-value-of-a-key")),
            (os("C_TOKEN"), os("a-long-value-of-a-key")),
            (os("NAGENT_CONVERSATION"), os("x")),
        ],
        folder: Ok(PathBuf::from("/")),
        executable: None,
    };
    let got = env.for_commands(&["B_TOKEN".to_owned()], &[("P", "4".to_owned())]);
    assert_eq!(
        got,
        [
            (os("B_TOKEN"), os("2")),
            (os(WITHHELD), os("A_TOKEN,HEADER,C_TOKEN")),
            (os("P"), os("4"))
        ]
    );
}

// Base64 begins with a slash once in 64: such a key was never masked.
#[test]
fn a_secret_that_begins_with_a_slash_is_masked_unless_it_names_a_file() {
    let env = environment(&[
        ("AWS_SECRET_ACCESS_KEY", "/x2Lk0QmR7tYv3Bn5CdW8eFgH1jKl4Mn6Pq9"),
        ("OTHER_SECRET", "~/x2Lk0QmR7tYv3Bn5CdW8"),
        ("SSH_KEY", "/proc/self/exe"),
        ("TOKEN_FILE", "/nowhere/in/the/world"),
    ]);
    let names: Vec<&str> = env.secrets(&[]).map(|(name, _)| name).collect();
    assert_eq!(names, ["AWS_SECRET_ACCESS_KEY", "OTHER_SECRET"]);
}

fn environment(variables: &[(&str, &str)]) -> Env {
    let os = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
    let variables = variables.iter().map(os).collect();
    Env { variables, folder: Ok(PathBuf::from("/")), executable: None }
}

/// What commands get of an environment, as `NAME=VALUE`.
fn commands_get(variables: &[(&str, &str)], pass: &[&str]) -> Vec<String> {
    let pass: Vec<String> = pass.iter().map(|name| (*name).to_owned()).collect();
    let got = environment(variables).for_commands(&pass, &[]);
    got.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
}

#[test]
fn an_address_with_a_password_is_kept_whatever_its_name_but_for_a_proxy() {
    let url = "postgres://me:a-long-password-of-mine@db.example/app";
    let proxy = "http://me:hunter2!x@proxy.example:3128";
    let variables = [
        ("DATABASE_URL", url),
        ("COPY", "a-long-password-of-mine"),
        ("https_proxy", proxy),
        ("ALL_PROXY", proxy),
    ];
    let proxies = [format!("https_proxy={proxy}"), format!("ALL_PROXY={proxy}")];
    let mut expect = proxies.to_vec();
    expect.push("NAGENT_WITHHELD=DATABASE_URL,COPY".to_owned());
    assert_eq!(commands_get(&variables, &[]), expect);
    let passed = commands_get(&variables, &["DATABASE_URL"]);
    assert!(passed.contains(&format!("DATABASE_URL={url}")), "{passed:?}");
}

#[test]
fn settings_for_git_are_kept_as_a_whole() {
    let plain = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "safe.directory"),
        ("GIT_CONFIG_VALUE_0", "*"),
    ];
    assert_eq!(commands_get(&plain, &[]).len(), 3);
    let url = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "url.https://me:hunter2!x@git.example/.insteadOf"),
        ("GIT_CONFIG_VALUE_0", "https://git.example/"),
    ];
    let got = commands_get(&url, &[]);
    assert!(!got.iter().any(|one| one.starts_with("GIT_CONFIG_COUNT")), "{got:?}");
    assert!(got.iter().any(|one| one.ends_with("=GIT_CONFIG_KEY_0,GIT_CONFIG_COUNT")));
}

#[test]
fn what_is_masked_is_a_secret_and_no_common_word() {
    let env = environment(&[
        ("DATABASE_URL", "postgres://postgres:postgres@db/app"),
        ("MQ_URL", "amqp://me:hunter2!x@mq/"),
        ("https_proxy", "http://me:x9k2m4p7q@proxy:3128"),
        ("http_proxy", "http://proxy.example:3128"),
        ("AUTH_STATUS", "disabled"),
        ("TOKEN_GITHUB", "x2Lk0QmR7tYv"),
        ("BOT_PASS", "correct horse"),
        ("MYSQL_PWD", "hunter2!x"),
        ("PWD", "/home/me/project"),
        ("HOST_PWD", "/home/me/project"),
        ("B_TOKEN", "let through by name"),
    ]);
    let pass = ["B_TOKEN".to_owned()];
    let got: Vec<_> = env.secrets(&pass).collect();
    assert_eq!(
        got,
        [
            ("DATABASE_URL", "postgres://postgres:postgres@db/app"),
            ("MQ_URL", "amqp://me:hunter2!x@mq/"),
            ("MQ_URL", "hunter2!x"),
            ("https_proxy", "http://me:x9k2m4p7q@proxy:3128"),
            ("https_proxy", "x9k2m4p7q"),
            ("TOKEN_GITHUB", "x2Lk0QmR7tYv"),
            ("BOT_PASS", "correct horse"),
            ("MYSQL_PWD", "hunter2!x"),
        ]
    );
}

#[test]
fn a_shell_is_the_leader_of_the_terminal_session_or_else_the_parent() {
    let check = |session: &str, terminal: &str, expect: &str| {
        let stat = format!("50 (a ) b) S 40 50 {session} {terminal} 50 4194304");
        assert_eq!(shell_process(&stat).as_deref(), Some(expect), "{stat}");
    };
    check("30", "34816", "30");
    check("30", "0", "40");
    // The leader is outside the container.
    check("0", "34816", "40");
    assert_eq!(shell_process("damaged"), None);
}

#[test]
fn this_process_has_a_start_time() {
    let me = std::process::id().to_string();
    assert!(start_time_if_alive(&me).unwrap().parse::<u64>().unwrap() > 0);
}
