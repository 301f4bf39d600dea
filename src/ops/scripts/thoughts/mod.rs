//! Manages scripts in plain language. Asks no model.

mod desk;
mod policy;

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::think::read_place;
use crate::out::{self, Report};
use conversation::limits;
use conversation::problem::Problem;
use sandbox::script::thought::script::{Script, thought_name, without_shebang};
use sandbox::script::thoughts::Origin;
use sys::atomic_file::AtomicFile;
use sys::fs;

pub use self::desk::Desk;
pub use self::policy::{PolicyEdit, add_entry, list_policy, remove_entry};

/// Lists the installed scripts, and thoughts that are not installed.
pub fn list_scripts(desk: &Desk) -> Result<Report, Problem> {
    let names = fs::list_names(&desk.home.folder.join("bin"))?;
    let mut text = String::new();
    let mut rows = Vec::new();
    for name in &names {
        let has_data = fs::exists(&desk.home.thought_folder(&thought_name(name)));
        text.push_str(&format!("{name}{}\n", if has_data { "" } else { " (no data)" }));
        rows.push(serde_json::json!({ "name": name, "has_data": has_data }));
    }
    if names.is_empty() {
        out::print_line("no script is installed; nagent-thought install FILE installs one");
    }
    let others = desk.home.list_thoughts()?;
    Ok(Report::done(text).with("scripts", rows).with("thoughts", others))
}

/// Shows the details of a script.
pub fn describe(desk: &Desk, script: &str) -> Result<Report, Problem> {
    let target = desk.find_script(script)?;
    let folder = desk.home.thought_folder(&target.name);
    let count = |below: &str| fs::list_names(&folder.join(below)).map(|names| names.len());
    let origin = desk.home.read_origin(&target.name)?;
    let place = target.place.or_else(|| origin.map(|origin| origin.place));
    let bytes = place.as_ref().and_then(|place| fs::file_size(Path::new(place)));
    let memory = fs::file_size(&folder.join("memory.js"));
    let (workspace, memories) = (count("workspace")?, count("memories")?);
    let size = |bytes: Option<u64>| {
        bytes.map_or_else(|| "none".to_owned(), |bytes| format!("{bytes} bytes"))
    };
    let text = format!(
        "Name: {}\nScript: {} ({})\nData: {}\nmemory.js: {}\nWorkspace: {workspace} entries, {} bytes\n\
         Memories: {memories}\n",
        target.name,
        place.as_deref().unwrap_or("unknown"),
        size(bytes),
        folder.display(),
        size(memory),
        fs::bytes_below(&folder.join("workspace"))
    );
    Ok(Report::done(text)
        .with("name", target.name)
        .with("script", place)
        .with("folder", folder.display().to_string())
        .with("memory_bytes", memory)
        .with("memories", memories))
}

/// Copies a script to the home's bin folder, and marks it executable.
pub fn install(desk: &Desk, script: &str) -> Result<Report, Problem> {
    let source = read_place(script, &desk.env)?;
    Script::parse(&source.bytes).map_err(|error| Problem::usage(format!("{script}: {error}")))?;
    let name = thought_name(script);
    if name.starts_with('.') {
        return Err(Problem::usage(format!(
            "{script}: cannot install as {name}: names that start with a dot mean files; rename it"
        )));
    }
    let path = desk.home.script_path(&name);
    let bytes = with_shebang(desk, &source.bytes);
    // The installed script keeps the memory of its former place.
    let old = desk.home.read_origin(&name)?.filter(|origin| origin.place == source.place);
    if fs::read_bytes(&path, limits::THOUGHT_SCRIPT)?.is_some_and(|before| before != bytes) {
        for kept in desk.home.discard(std::slice::from_ref(&path))? {
            out::print_line(&format!("the previous {name} is now in {}", kept.display()));
        }
    }
    write_executable(&path, &bytes)?;
    if let Some(old) = old {
        let place = fs::real_path(&path).unwrap_or_else(|| path.clone()).display().to_string();
        desk.home.write_fingerprint(&place, &source.digest)?;
        desk.home.write_origin(&name, &Origin { place, ..old })?;
    }
    let bin = desk.home.folder.join("bin");
    let is_in_path = desk
        .env
        .get_os("PATH")
        .is_some_and(|path| std::env::split_paths(path).any(|folder| folder == bin));
    if !is_in_path {
        out::print_line(&format!(
            "add {} to your PATH, or run nagent-think {}",
            bin.display(),
            path.display()
        ));
    }
    Ok(Report::keyed("installed", path.display().to_string()))
}

/// Removes an installed script.
pub fn remove(desk: &Desk, script: &str, force: bool) -> Result<Report, Problem> {
    let path = desk.home.script_path(script);
    if script.contains('/') || !fs::exists(&path) {
        return Err(Problem::failed(format!("{script} is not an installed script")));
    }
    let data = desk.home.thought_folder(&desk.target(path.display().to_string())?.name);
    if force {
        return move_to_trash(desk, &[path, data]);
    }
    if fs::exists(&data) {
        out::print_line(&format!("its data stay in {}; --force removes them, too", data.display()));
    }
    move_to_trash(desk, &[path])
}

fn move_to_trash(desk: &Desk, paths: &[PathBuf]) -> Result<Report, Problem> {
    let moved = desk.home.discard(paths)?;
    let moved: Vec<String> = moved.iter().map(|path| path.display().to_string()).collect();
    let text: String = moved.iter().map(|path| format!("moved to {path}\n")).collect();
    Ok(Report::done(text).with("moved", moved))
}

/// Removes memory.js and the workspace of a script, or all its data.
pub fn reset(desk: &Desk, script: &str, all: bool) -> Result<Report, Problem> {
    let name = desk.find_script(script)?.name;
    let folder = desk.home.thought_folder(&name);
    if !fs::exists(&folder) {
        return Err(Problem::failed(format!(
            "{name} has no data yet; {} is made by its first run",
            folder.display()
        )));
    }
    if all {
        return move_to_trash(desk, &[folder]);
    }
    move_to_trash(desk, &[folder.join("memory.js"), folder.join("workspace")])
}

/// Prints where the cache of a script is.
pub fn print_cache(desk: &Desk, script: &str) -> Result<Report, Problem> {
    // Data alone are not enough.
    let place = desk.find_script(script)?.place.ok_or_else(|| {
        Problem::failed(format!("{script}: only the data of this script remain; install it first"))
    })?;
    let folder = desk.home.cache_folder(&place);
    Ok(Report::keyed("cache", folder.display().to_string()))
}

/// Writes a script that can be executed.
pub fn build(desk: &Desk, input: &Path, output: &Path) -> Result<Report, Problem> {
    let script = input.display().to_string();
    let source = read_place(&script, &desk.env)?;
    Script::parse(&source.bytes).map_err(|error| Problem::usage(format!("{script}: {error}")))?;
    let path = desk.env.absolute_path(output)?;
    write_executable(&path, &with_shebang(desk, &source.bytes))?;
    Ok(Report::keyed("output", output.display().to_string()))
}

/// The script with a first line by which the kernel runs it: its own where that names think, not another interpreter.
fn with_shebang(desk: &Desk, bytes: &[u8]) -> Vec<u8> {
    let text = without_shebang(bytes);
    let first = String::from_utf8_lossy(&bytes[..bytes.len() - text.len()]);
    let mut names = first.split(|c: char| c.is_whitespace() || "/!".contains(c));
    if names.any(|name| name == "think" || name == "nagent-think") {
        return bytes.to_vec();
    }
    let is_there = fs::is_executable(&desk.env.find_program("think"));
    let name = if is_there { "think" } else { "nagent-think" };
    [format!("#!/usr/bin/env {name}\n").as_bytes(), text].concat()
}

fn write_executable(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    AtomicFile::new(path).write(bytes)?;
    Ok(fs::make_executable(path)
        .with_context(|| format!("cannot make {} executable", path.display()))?)
}
