//! Tables of the written documents have what the code has: tools, exit codes, settings, prices, types.

use super::*;

#[test]
fn the_tables_of_the_readme_are_complete() {
    assert_eq!(names(&table("README.md", "tool")), TOOLS);

    let codes = Exit::ALL.map(|exit| exit.code().to_string());
    let rows = names(&table("README.md", "exit"));
    assert_eq!(rows.join(", ").split(", ").collect::<Vec<_>>(), codes);

    let list = Sandbox::new().run(&["--list-providers", "--json"]).assert_exit(0).json();
    let rows = table("README.md", "provider");
    let providers = list["providers"].as_array().unwrap();
    assert_eq!(rows.len(), providers.len());
    for (row, provider) in rows.iter().zip(providers) {
        let mut expect = vec![provider["provider"].as_str().unwrap()];
        expect.extend(provider["aliases"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()));
        assert_eq!(quoted(&row[0]), expect);
        match provider["default_model"].as_str() {
            Some(model) => assert_eq!(quoted(&row[1]), [model]),
            None => assert!(!row[1].starts_with('`'), "{row:?}"),
        }
        for credential in provider["credentials"].as_array().unwrap() {
            assert!(quoted(&row[2]).iter().any(|name| credential == name), "{row:?}");
        }
    }
}

#[test]
fn every_key_of_the_config_is_told_with_its_default() {
    let rows = table("docs/config.md", "key");
    let run = Sandbox::new().config_text("{\"zzzzzzzz\": 1}").run(&["--status"]).assert_exit(2);
    let keys = run.stderr.split("known keys: ").nth(1).unwrap().trim();
    assert_eq!(names(&rows).join(", "), keys);

    // Two keys count only beside others; where they do is tested in `commands`.
    let defaults = Sandbox::new().config_text("{}").run(&["--status", "--json"]).json();
    for row in rows {
        let (key, example) = (&quoted(&row[0])[0], &quoted(&row[1])[0]);
        let value: serde_json::Value = serde_json::from_str(example).unwrap();
        let mut config = serde_json::json!({ key.as_str(): value.clone() });
        if key == "profile" {
            config["profiles"] = serde_json::json!({ value.as_str().unwrap(): {} });
        }
        let sandbox = Sandbox::new().config(config);
        let status = sandbox.run(&["--status", "--json"]).assert_exit(0).no_stderr().json();
        let Some(default) = defaults["settings"].get(key) else { continue };
        if default["from"] != "default" || ["provider", "model", "base_url"].contains(&key.as_str())
        {
            continue;
        }
        let told = &row[2];
        let default = match &default["value"] {
            serde_json::Value::String(text) => text.replace("bash, else sh", "`bash`, else `sh`"),
            serde_json::Value::Null => String::new(),
            // Seconds are told as 30.0.
            other => other.to_string().trim_end_matches(".0").to_owned(),
        };
        assert!(told.contains(&default), "{key}: {told} is not {default}");
        let now = &status["settings"][key]["value"];
        assert!(now == &value || now.as_f64() == value.as_f64(), "{key}: {now} is not {value}");
    }
}

#[test]
fn the_servers_are_those_of_the_page() {
    let name = |text: &str| if text.is_empty() { "none".to_owned() } else { format!("`{text}`") };
    let code: Vec<Vec<String>> = SERVERS
        .iter()
        .map(|server| {
            [server.name, server.base_url, server.address_variable, server.key_variable]
                .map(name)
                .into()
        })
        .collect();
    assert_eq!(table("docs/config.md", "server"), code);
}

#[test]
fn the_example_of_a_config_is_one() {
    let example = top().join("config.example.json").display().to_string();
    let run = Sandbox::new().run(&["--config", &example, "--status"]).assert_exit(0).no_stderr();
    let config: serde_json::Value = serde_json::from_str(&text("config.example.json")).unwrap();
    let expect =
        format!("provider:{} model:{}", config["provider"], config["model"]).replace('"', "");
    assert!(run.stdout.contains(&expect), "{}", run.stdout);
}

#[test]
fn every_type_is_in_the_page_about_large_files() {
    let told: BTreeSet<String> =
        table("docs/large-files.md", "type").iter().flat_map(|row| quoted(&row[0])).collect();
    let known = NAMES.map(|(_, names, _)| names[0].to_owned());
    assert_eq!(told, BTreeSet::from(known));
}

#[test]
fn the_figures_of_memory_on_files_are_those_of_the_code() {
    let page = text("docs/file-memory.md");
    let kib = |bytes: u64| format!("{} KiB", bytes / 1024);
    let told = [
        format!("the latest {} commits", conversation::limits::HISTORY_STEPS),
        format!("of more than {} files do not count", git::LARGEST_COMMIT),
        format!("latest {} commits that count", git::MAX_COUNTED),
        format!("blank, up to {} of text", kib(file_memory::MAX_SHORT)),
        format!("over {} of text", kib(file_memory::MIN_LONG)),
        format!("Diffs are cut at {}", kib(conversation::limits::COMMIT_DIFF as u64)),
        format!("change together {} at most", git::MAX_LISTED),
    ];
    for told in told {
        assert!(page.contains(&told), "docs/file-memory.md does not say: {told}");
    }
}
