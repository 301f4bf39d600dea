//! Loads a look and merges its settings into the config's.

use serde_json::{Map, Value};

use crate::config;
use crate::view::look::{BUILT_IN, Look};
use conversation::approve::Approve;
use conversation::limits;
use conversation::problem::Problem;
use sandbox::SandboxMode;
use sys::fs;
use sys::root::{Root, check_name};

/// Loads a look by name: from a file in the root, else a built-in one.
pub(crate) fn load_look(root: &Root, name: &str) -> Result<Look, Problem> {
    let folder = root.path().join("looks");
    let path = folder.join(format!("{name}.json"));
    let own = match check_name(name) {
        Ok(()) => fs::read_text(&path, limits::LOOK)
            .map_err(|error| Problem::usage(format!("--look {name}: {error:#}")))?,
        Err(_) => None,
    };
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let Some(text) = own.as_deref().or(built_in) else {
        let own = fs::list_names(&folder).unwrap_or_default();
        let own = own.iter().filter_map(|name| name.strip_suffix(".json"));
        let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).chain(own).collect();
        return Err(Problem::usage(format!(
            "there is no look \"{}\"; there are {}",
            name.escape_debug(),
            known.join(", ")
        )));
    };
    let look = Look::parse(text).and_then(|look| {
        config::parse(&Value::Object(look.settings.clone()).to_string(), None).map(|_| look)
    });
    look.map_err(|error| {
        let path = if own.is_some() { path.display().to_string() } else { name.to_owned() };
        Problem::usage(format!("look {path}: {error}"))
    })
}

/// Merges the settings of a look into those of the config; those of a profile win. What the config forbids stays forbidden.
/// `is_provider_chosen`: by a flag or a variable. `took` collects the keys that the look sets.
pub(crate) fn add_settings(
    look: &Look,
    values: &mut Map<String, Value>,
    profile_keys: &[String],
    is_provider_chosen: bool,
    took: &mut dyn FnMut(&str),
) {
    let has_profile = |key: &str| profile_keys.iter().any(|own| own == key);
    let keeps_provider = is_provider_chosen || has_profile("provider");
    for (key, value) in &look.settings {
        let is_about_provider = key == "provider" || key == "model";
        if has_profile(key) || is_about_provider && keeps_provider {
            continue;
        }
        if key == "provider" && values.get(key) != Some(value) {
            // These belong to another provider.
            for other in ["model", "base_url"] {
                values.retain(|name, _| name != other || has_profile(other));
            }
        }
        let value = match values.get(key) {
            Some(own) => combine(key, own, value),
            None => value.clone(),
        };
        if values.get(key) != Some(&value) {
            took(key);
            values.insert(key.clone(), value);
        }
    }
}

/// Chooses between the value of the config and that of a look: the stricter one, where there is one.
fn combine(key: &str, own: &Value, of_look: &Value) -> Value {
    let rank = |value: &Value| {
        let name = value.as_str().unwrap_or_default();
        match key {
            "approve" => Approve::parse(name).map_or(0, |approve| approve as u8),
            _ => SandboxMode::parse(name).map_or(0, |mode| mode as u8),
        }
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_own_stricter = match key {
        "approve" | "sandbox" => rank(own) > rank(of_look),
        "no_network" | "redact" => own == &Value::Bool(true),
        "max_turns" | "max_seconds" | "max_tokens" | "max_cost" => own.as_f64() < of_look.as_f64(),
        "tags" => {
            let tags = list(of_look).into_iter().filter(|tag| list(own).contains(tag));
            return tags.collect();
        }
        "write" => return list(own).into_iter().chain(list(of_look)).collect(),
        _ => false,
    };
    if is_own_stricter { own.clone() } else { of_look.clone() }
}
