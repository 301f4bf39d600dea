//! The environment of a call of `nagent-thought`, and the script that it is about.

use std::path::Path;

use crate::ops::scripts::think::read_place;
use conversation::format::nearest::nearest;
use conversation::problem::Problem;
use sandbox::script::thoughts::Home;
use sys::env::Env;
use sys::fs;
use sys::interrupt::Interrupts;

/// The environment of a call.
pub struct Desk {
    pub(super) env: Env,
    pub(super) home: Home,
    pub(super) interrupts: Interrupts,
}

/// A script that was named.
pub(super) struct NamedScript {
    /// The name of its thought.
    pub(super) name: String,
    /// The file; `None`: there are only data of that name.
    pub(super) place: Option<String>,
}

impl Desk {
    /// Finds and prepares the home.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn new() -> Result<Self, Problem> {
        let env = Env::read();
        let home = Home::from_env(&env)?;
        home.prepare()?;
        Ok(Self { env, home, interrupts: Interrupts::install()? })
    }

    /// Finds a script by its file or the name it was installed under. A bare name is the installed script, if there is one.
    pub(super) fn find_script(&self, script: &str) -> Result<NamedScript, Problem> {
        let path = self.env.absolute_path(Path::new(script))?;
        if script.contains('/') || script.starts_with('.') {
            let real = fs::real_path(&path)
                .ok_or_else(|| Problem::failed(format!("{script}: no such script")))?;
            return self.target(real.display().to_string());
        }
        let installed = self.home.script_path(script);
        if fs::exists(&installed) {
            return self.target(installed.display().to_string());
        }
        if fs::file_size(&path).is_some() {
            return self.target(fs::real_path(&path).unwrap_or(path).display().to_string());
        }
        if fs::exists(&self.home.thought_folder(script)) {
            return Ok(NamedScript { name: script.to_owned(), place: None });
        }
        let names = self.home.list_thoughts()?;
        let near = nearest(script, names.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        Err(Problem::failed(format!(
            "{script}: no such script (neither installed nor a file here){near}"
        )))
    }

    /// The script at a place.
    pub(super) fn target(&self, place: String) -> Result<NamedScript, Problem> {
        let (name, _) = self.home.choose_thought(&place, &read_place(&place, &self.env)?.bytes)?;
        Ok(NamedScript { name, place: Some(place) })
    }
}
