//! The skills of a folder: those that a model is told about, those that a prompt names by `$name`, and the list of `nagent --skills`,
//! which says what is wrong with the others.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::call::Call;
use crate::out::Report;
use conversation::context;
use conversation::format::harmless::quote_name;
use conversation::limits::{self, SKILLS_TOLD};
use conversation::problem::Problem;
use history::git;
use sys::env::Env;
use sys::root::Root;
use sys::skills::{SKILL_FILE, Skill, SkillFolder, find_skills, hash_folder, named_in};
use sys::trust;

/// The folders of skills, the nearest first, and whether each is the user's own or as it was confirmed. What they hold is read
/// when it is asked for.
pub(crate) struct Skills {
    pub(super) found: Vec<(bool, SkillFolder)>,
    /// Those that have changed since the user confirmed them.
    pub(crate) changed: Vec<PathBuf>,
    is_cut: bool,
}

impl Skills {
    /// Finds the skills for a folder. A repository's skill that nobody has confirmed is not opened.
    pub(crate) fn find(root: &Root, env: &Env, folder: &Path, toplevel: Option<&Path>) -> Self {
        let home = env.home_folder();
        let top = toplevel.unwrap_or(folder);
        let (found, is_cut) = find_skills(root.path(), home.as_deref(), folder, top);
        // A damaged list is reported with the texts of the repository.
        let known = trust::load_trusted(root).unwrap_or_default();
        let mut changed = Vec::new();
        let mut is_trusted = |skill: &SkillFolder| {
            if skill.top.is_none() {
                return true;
            }
            let Ok(path) = skill.real_path() else { return false };
            let Some(entry) = known.iter().find(|entry| Path::new(&entry.path) == path) else {
                return false;
            };
            let is_it = hash_folder(&path).is_ok_and(|(hash, _)| hash == entry.sha256);
            changed.extend((!is_it).then(|| skill.path.clone()));
            is_it
        };
        let found = found.into_iter().map(|skill| (is_trusted(&skill), skill)).collect();
        Self { found, changed, is_cut }
    }

    /// Finds the skills for the working folder.
    pub(crate) fn find_here(root: &Root, env: &Env) -> Self {
        let folder = env.current_folder().unwrap_or_default();
        Self::find(root, env, &folder, git::find_toplevel(&folder).as_deref())
    }

    /// The skills of some names that may be used: of one name the nearest. Each is read when it is asked for.
    pub(crate) fn usable(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&SkillFolder, Skill)> {
        let mut seen = HashSet::new();
        let confirmed = self.found.iter().filter(|(is_trusted, _)| *is_trusted);
        confirmed.filter_map(move |(_, folder)| {
            let is_new = is_wanted(&folder.name) && !seen.contains(&folder.name);
            let skill = is_new.then(|| folder.read()).filter(|skill| skill.errors.is_empty())?;
            seen.insert(&folder.name);
            Some((folder, skill))
        })
    }

    /// The skills for the first context, and one more if there are more.
    pub(crate) fn told(&self) -> Vec<context::Skill> {
        let told = self.usable(|_| true).map(|(folder, skill)| context::Skill {
            place: folder.path.parent().unwrap_or(Path::new("")).display().to_string(),
            name: folder.name.clone(),
            description: skill.description,
        });
        told.take(SKILLS_TOLD + 1).collect()
    }
}

/// Lists all skills for the working folder, and what is wrong with them.
pub(crate) fn list_skills(call: &Call<'_>) -> Result<Report, Problem> {
    call.env.current_folder()?;
    let skills = Skills::find_here(call.root(), &call.env);
    let (mut used, mut text, mut list) = (HashSet::new(), String::new(), Vec::new());
    for (is_trusted, folder) in &skills.found {
        let SkillFolder { name, path, .. } = folder;
        let Skill { description, errors, warning } = folder.read();
        let (state, why) = match is_trusted {
            _ if !errors.is_empty() => ("wrong", ""),
            false => ("untrusted", ", or changed since you trusted it (nagent --trust)"),
            true if used.insert(name) => ("used", ""),
            true => ("shadowed", " by a nearer one"),
        };
        let _ = writeln!(text, "{}: {state}{why}\n  {}", quote_name(name), quote_name(path));
        let rows = Some(&description).filter(|text| !text.is_empty()).into_iter();
        for row in rows.chain(&errors).chain(&warning) {
            let _ = writeln!(text, "  {row}");
        }
        let path = path.display().to_string();
        list.push(json!({ "name": name, "path": path, "state": state, "description": description, "errors": errors, "warning": warning }));
    }
    if skills.is_cut {
        text.push_str(&format!("and more: only {} are looked at\n", limits::SKILLS));
    }
    if list.is_empty() {
        let own = quote_name(call.root().path().join("skills"));
        text = format!(
            "no skills: a skill is a folder with a {SKILL_FILE} in {own} or ~/.agents/skills\n"
        );
    }
    Ok(Report::wrapped(&text).with("skills", list))
}

/// The files of the skills that the user's prompt names.
pub(crate) fn named_by(call: &Call<'_>) -> Vec<PathBuf> {
    let names = named_in(&call.typed);
    if call.delegated || names.is_empty() {
        return Vec::new();
    }
    let skills = Skills::find_here(call.root(), &call.env);
    let wanted = skills.usable(|name| names.contains(&name));
    let files = wanted.map(|(folder, _)| folder.path.join(SKILL_FILE));
    files.filter(|path| !call.reads.contains(path)).collect()
}
