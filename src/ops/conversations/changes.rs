//! Removes conversations into the trash.

use serde_json::json;

use super::Catalog;
use crate::out::Report;
use conversation::format::numbers::format_count;
use conversation::problem::Problem;
use sys::{lock, removal};
use view::overview::ConversationKind;

/// Moves conversations into the trash, and those that their models started with them. All names are looked up before anything is moved.
pub fn remove_conversations(catalog: &Catalog, names: &[String]) -> Result<Report, Problem> {
    let mut found = Vec::new();
    for given in names {
        let name = catalog.resolve_name(Some(given))?;
        // One that was removed before: the beginning of a name does not mean its archive.
        if name != *given && ConversationKind::from_name(&name) == ConversationKind::Archive {
            return Err(Problem::failed(format!("there is no {given}; its archive is {name}")));
        }
        if !found.contains(&name) {
            found.push(name);
        }
    }
    let children = catalog.read_all(&|one| Some((one.started_by()?.to_owned(), one.name)))?;
    let (mut text, mut removed) = (String::new(), Vec::new());
    for name in found {
        // With those that it started, and those that they started.
        let mut names = vec![name];
        let mut at = 0;
        while let Some(parent) = names.get(at) {
            let started =
                children.iter().filter(|(of, child)| of == parent && !names.contains(child));
            let started: Vec<String> = started.map(|(_, child)| child.clone()).collect();
            names.extend(started);
            at += 1;
        }
        let mut paths = Vec::new();
        for name in &names {
            match move_to_trash(catalog, name) {
                Ok(path) => {
                    removed.push(json!({ "name": name, "trash_path": path }));
                    paths.push(path);
                }
                // It was removed already, as a child of another one.
                Err(_) if removed.iter().any(|one| one["name"] == name.as_str()) => {}
                Err(problem) => {
                    return Ok(Report { text, ..Report::from(problem) }.with("removed", removed));
                }
            }
        }
        let with = match names.len() - 1 {
            0 => String::new(),
            count => {
                format!(", with {} that it started", format_count(count as u64, "conversation"))
            }
        };
        if let (Some(path), Some(name)) = (paths.first(), names.first()) {
            text.push_str(&format!("{name} removed{with}; it is {path} until it is pruned\n"));
        }
    }
    Ok(Report::wrapped(&text).with("removed", removed))
}

/// Moves a conversation that nobody uses into the trash, and returns where it is there.
fn move_to_trash(catalog: &Catalog, name: &str) -> Result<String, Problem> {
    let _lock = lock::try_lock_conversation(&catalog.root, name)?;
    let moved = removal::move_to_trash(&catalog.root, name).map_err(|error| {
        Problem::failed(format!(
            "{error:#}; if the disk is full, nagent-conversations prune makes room, and rm removes it permanently"
        ))
    })?;
    Ok(moved.display().to_string())
}
