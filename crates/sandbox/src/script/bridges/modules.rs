//! Finds the file of a `require`, as in CommonJS: by its path, with an extension, as a folder's `index.js`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Bridges;
use crate::script::guarded::OpenedPath;
use crate::script::policy::{AccessRequest, Mode};
use conversation::limits;
use sys::names::normalize;

impl Bridges<'_> {
    /// The source of a module, its path and its folder.
    pub(super) fn find_module(&mut self, base: &str, name: &str) -> Result<Value, String> {
        if !["./", "../", "/"].iter().any(|start| name.starts_with(start))
            && name != "."
            && name != ".."
        {
            return Err(format!(
                "module not found: {name}; only paths work (./x, ../x, /x). net.fetch gets npm's from https://esm.sh/{name}?cjs&bundle, to be saved in the workspace"
            ));
        }
        let base = Path::new(base);
        let mut found = self.find_below(base, name)?;
        // The public runtime begins in the working folder.
        if found.is_none() && self.permissions.places.thought.as_deref() == Some(base) {
            found = self.find_below(&self.cwd.clone(), name)?;
        }
        found.ok_or_else(|| format!("module not found: {}", normalize(&base.join(name)).display()))
    }

    /// [`Self::find_module`] in one folder.
    fn find_below(&mut self, base: &Path, name: &str) -> Result<Option<Value>, String> {
        // The key of the cache of modules.
        let path = normalize(&base.join(name));
        // Only a script that may read a file may learn whether it exists.
        if self.permissions.asker.is_none() {
            self.permissions.permit(AccessRequest::Path(Mode::Read, &path))?;
        }
        let candidates = [
            path.clone(),
            path.with_added_extension("js"),
            path.with_added_extension("json"),
            path.join("index.js"),
        ];
        for candidate in candidates {
            if let Some((source, path)) = self.read_source(&candidate)? {
                let folder = path.parent().unwrap_or(Path::new("/"));
                return Ok(Some(
                    json!({ "source": source, "path": path.to_string_lossy(), "folder": folder.to_string_lossy() }),
                ));
            }
        }
        Ok(None)
    }

    /// The text of a file and its true path. `None` if the file does not exist.
    fn read_source(&mut self, path: &Path) -> Result<Option<(String, PathBuf)>, String> {
        if OpenedPath::find(path)?.is_none_or(|found| found.is_folder()) {
            return Ok(None);
        }
        let (bytes, path) = self.read_bytes(path, limits::JS_SOURCE)?;
        let text = String::from_utf8(bytes);
        text.map(|text| Some((text, path.clone())))
            .map_err(|_| format!("{} is not UTF-8 text", path.display()))
    }
}
