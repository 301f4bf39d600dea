//! Loads a look, and adds its settings to those of the config.

use serde_json::{Map, Value};

use crate::config;
use conversation::limits;
use conversation::problem::Problem;
use sys::fs;
use sys::root::{Root, check_name};
use view::look::{BUILT_IN, Look};

/// Loads a look by name: from a file in the root, else a built-in one.
pub(crate) fn load_look(root: &Root, name: &str) -> Result<Look, Problem> {
    let path = root.path().join("looks").join(format!("{name}.json"));
    let own = match check_name(name) {
        Ok(()) => fs::read_text(&path, limits::LOOK)
            .map_err(|error| Problem::usage(format!("--look {name}: {error:#}")))?,
        Err(_) => None,
    };
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let Some(text) = own.as_deref().or(built_in) else {
        return Err(Problem::usage(format!(
            "there is no look \"{}\"; there are {}, and those in looks/ of the root",
            name.escape_debug(),
            BUILT_IN.map(|(name, _)| name).join(", ")
        )));
    };
    let look = Look::parse(text).and_then(|look| {
        config::parse(&Value::Object(look.settings.clone()).to_string(), None).map(|_| look)
    });
    look.map_err(|error| Problem::usage(format!("look {}: {error}", path.display())))
}

/// Adds the settings of a look that neither the config nor a profile has, and returns their keys. Its provider and model are for
/// users who have chosen neither.
pub(crate) fn add_settings<'a>(look: &'a Look, values: &mut Map<String, Value>) -> Vec<&'a str> {
    let connection = ["provider", "model", "base_url", "server"];
    let has_connection = connection.iter().any(|key| values.contains_key(*key));
    let is_new =
        |key: &str| !(values.contains_key(key) || has_connection && connection.contains(&key));
    let new: Vec<_> = look.settings.iter().filter(|(key, _)| is_new(key)).collect();
    values.extend(new.iter().map(|(key, value)| ((*key).clone(), (*value).clone())));
    new.into_iter().map(|(key, _)| key.as_str()).collect()
}
