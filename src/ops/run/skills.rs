//! The skills of a folder: those that a model is told about, those that a prompt names by `$name`, and the list of `nagent --skills`,
//! which says what is wrong with the others.

use std::collections::{HashMap, HashSet};
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

/// Whether the user has confirmed a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It is the user's own, or as it was confirmed.
    Full,
    /// It has changed since.
    Changed,
    None,
}

/// The folders of skills, the nearest first. What they hold is read when it is asked for.
pub(crate) struct Skills {
    found: Vec<(SkillFolder, Trust)>,
    is_cut: bool,
}

impl Skills {
    /// Finds the skills for a folder. A repository's skill that nobody has confirmed is not opened.
    pub(crate) fn find(root: &Root, env: &Env, folder: &Path, toplevel: Option<&Path>) -> Self {
        let home = env.home_folder();
        let top = toplevel.unwrap_or(folder);
        let (found, is_cut) = find_skills(root.path(), home.as_deref(), folder, top);
        let is_any_foreign = found.iter().any(|skill| skill.top.is_some());
        // A damaged list is reported with the texts of the repository.
        let known = is_any_foreign.then(|| trust::load_trusted(root).unwrap_or_default());
        let known = known.unwrap_or_default();
        let trust_of = |skill: &SkillFolder| {
            let path = match (&skill.top, skill.real_path()) {
                (None, _) => return Trust::Full,
                (_, Err(_)) => return Trust::None,
                (_, Ok(path)) => path,
            };
            let name = path.display().to_string();
            let Some(entry) = known.iter().find(|entry| entry.path == name) else {
                return Trust::None;
            };
            let is_it = hash_folder(&path).is_ok_and(|(hash, _)| hash == entry.sha256);
            if is_it { Trust::Full } else { Trust::Changed }
        };
        let found = found.into_iter().map(|skill| (trust_of(&skill), skill));
        Self { found: found.map(|(trust, skill)| (skill, trust)).collect(), is_cut }
    }

    /// Finds the skills for the working folder.
    pub(crate) fn find_here(root: &Root, env: &Env) -> Self {
        let folder = env.current_folder().unwrap_or_default();
        Self::find(root, env, &folder, git::find_toplevel(&folder).as_deref())
    }

    /// The skills that may be used: of one name the nearest. Read one after another, so that the first ones cost no more
    /// than themselves.
    fn usable(&self) -> impl Iterator<Item = (&SkillFolder, Skill)> {
        let mut seen = HashSet::new();
        let confirmed = self.found.iter().filter(|(_, trust)| *trust == Trust::Full);
        confirmed.filter_map(move |(folder, _)| {
            let is_new = !seen.contains(folder.name.as_str());
            let skill = is_new.then(|| folder.read()).filter(|skill| skill.errors.is_empty())?;
            seen.insert(folder.name.as_str());
            Some((folder, skill))
        })
    }

    /// The skills for the first context, and one more if there are more.
    pub(crate) fn told(&self) -> Vec<context::Skill> {
        let told = self.usable().take(SKILLS_TOLD + 1).map(|(folder, skill)| context::Skill {
            place: folder.path.parent().unwrap_or(Path::new("")).display().to_string(),
            name: folder.name.clone(),
            description: skill.description,
        });
        told.collect()
    }

    /// The files of the skills that a text names by `$name`.
    pub(crate) fn named_in(&self, text: &str) -> Vec<PathBuf> {
        let named = named_in(text).into_iter();
        let of_name = |name: &str| {
            let mut found = self.found.iter().filter(|(folder, _)| folder.name == name);
            let is_usable = |(folder, trust): &&(SkillFolder, Trust)| {
                *trust == Trust::Full && folder.read().errors.is_empty()
            };
            Some(found.find(is_usable)?.0.path.join(SKILL_FILE))
        };
        named.filter_map(of_name).collect()
    }

    /// The names that begin with these letters.
    pub(crate) fn names(&self, begun: &str) -> Vec<String> {
        let usable = self.usable().map(|(folder, _)| folder.name.clone());
        usable.filter(|name| name.starts_with(begun)).collect()
    }

    /// The skills of the repository that are not used, and whether each was trusted before.
    pub(crate) fn untrusted(&self) -> impl Iterator<Item = (&Path, bool)> {
        let others = self.found.iter().filter(|(_, trust)| *trust != Trust::Full);
        others.map(|(folder, trust)| (folder.path.as_path(), *trust == Trust::Changed))
    }
}

/// Lists all skills for the working folder, and what is wrong with them.
pub(crate) fn list_skills(call: &Call<'_>) -> Result<Report, Problem> {
    call.env.current_folder()?;
    let skills = Skills::find_here(call.root(), &call.env);
    let mut nearest: HashMap<&str, &Path> = HashMap::new();
    let (mut text, mut list) = (String::new(), Vec::new());
    for (folder, trust) in &skills.found {
        let SkillFolder { name, path, .. } = folder;
        let Skill { description, allowed_tools, errors, warnings } = folder.read();
        let shadow = nearest.get(name.as_str()).map(|path| path.display().to_string());
        let (state, shown) = match (trust, &shadow) {
            _ if !errors.is_empty() => ("wrong", "wrong".to_owned()),
            (Trust::Changed, _) => {
                ("changed", "changed since you trusted it (nagent --trust)".into())
            }
            (Trust::None, _) => ("untrusted", "not trusted (nagent --trust)".into()),
            (Trust::Full, Some(by)) => ("shadowed", format!("shadowed by {}", quote_name(by))),
            (Trust::Full, None) => ("used", "used".into()),
        };
        if state == "used" {
            nearest.insert(name, path);
        }
        text.push_str(&format!("{}: {shown}\n  {}\n", quote_name(name), quote_name(path)));
        let errors_and_warnings = errors.iter().map(|why| format!("wrong: {why}"));
        let warned = warnings.iter().map(|why| format!("warning: {why}"));
        let tools = Some(&allowed_tools).filter(|tools| !tools.is_empty());
        let tools =
            tools.map(|tools| format!("allowed-tools, which nagent does not go by: {tools}"));
        let rows = Some(description.clone()).filter(|it| !it.is_empty()).into_iter();
        for row in rows.chain(tools).chain(errors_and_warnings).chain(warned) {
            text.push_str(&format!("  {row}\n"));
        }
        list.push(json!({
            "name": name,
            "path": path.display().to_string(),
            "state": state,
            "shadowed_by": shadow.filter(|_| state == "shadowed"),
            "description": description,
            "allowed_tools": allowed_tools,
            "errors": errors,
            "warnings": warnings,
        }));
    }
    if skills.is_cut {
        text.push_str(&format!("and more: only {} are looked at\n", limits::SKILLS));
    }
    if list.is_empty() {
        let own = call.root().path().join("skills");
        text = format!(
            "no skills: a skill is a folder with a {SKILL_FILE} in {} or ~/.agents/skills\n",
            quote_name(own)
        );
    }
    Ok(Report::done(text).with("skills", list))
}

/// The files of the skills that the user's prompt names.
pub(crate) fn named_by(call: &Call<'_>) -> Vec<PathBuf> {
    if call.delegated || named_in(&call.typed).is_empty() {
        return Vec::new();
    }
    let named = Skills::find_here(call.root(), &call.env).named_in(&call.typed);
    named.into_iter().filter(|path| !call.reads.contains(path)).collect()
}
