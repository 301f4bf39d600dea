//! `model/run` with recorded replies: the six tasks are done, and what they send is what `model/table.md` says.
//!
//! A word more in the first context is some bytes more in each request: the table shows what a change costs.
//! `UPDATE_DOCS=1` writes it again.

use std::path::Path;

use crate::sandbox::{NAGENT, Sandbox};

const HEAD: &str = "# Six tasks with recorded replies\n\n\
    `make test` compares this table with what `model/run FOLDER replay` prints, and `UPDATE_DOCS=1` writes it again (see CONTRIBUTING.md). \
    `make model` runs the same tasks with a model.\n\n";

#[test]
fn the_tasks_are_done_with_the_requests_of_the_table() {
    let sandbox = Sandbox::outside_temp();
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = project.join("model/run").display().to_string();
    let folder = Path::new(NAGENT).parent().unwrap().display().to_string();
    let run = sandbox
        .program("sh", &[&script, &folder, "replay"])
        .env("MODEL_DIR", sandbox.work().to_str().unwrap())
        .run()
        .assert_exit(0);
    let rows: Vec<&str> = run.stdout.lines().skip(2).collect();
    assert!(rows.len() == 6 && rows.iter().all(|row| row.contains(" | yes | ")), "{}", run.stdout);
    // A change of two files without -w: what a model needs for it is bounded.
    let figures: Vec<u64> = rows[1].split(" | ").filter_map(|cell| cell.parse().ok()).collect();
    assert!(figures[1] <= 9 && figures[2] <= 150_000, "{}", rows[1]);
    let table = format!("{HEAD}{}", run.stdout);
    let path = project.join("model/table.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(known, table, "UPDATE_DOCS=1 writes model/table.md again");
}
