//! The home of scripts in plain language, `~/.thinkingscript`: their folders, settings, locks, and origins of
//! memory.js. Its layout is that of the public runtime, whose homes can be used directly.

use std::fs::File;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::script::policy::{Approval, Policy, Subject};
use crate::script::thought::script::{thought_name, without_shebang};
use conversation::limits;
use conversation::problem::Problem;
use sys::atomic_file::AtomicFile;
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::lock::{LockError, LockMode, LockWait, lock_briefly, lock_file};
use sys::{clock, fs};

/// The home of all thoughts.
#[derive(Debug, Clone)]
pub struct Home {
    /// Its folder.
    pub folder: PathBuf,
}

/// The content of `config.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HomeConfig {
    /// The name of an agent.
    pub agent: Option<String>,
    /// Maximum number of tokens of a reply.
    pub max_tokens: Option<NonZero<u64>>,
    /// Maximum number of requests of a run.
    pub max_iterations: Option<NonZero<u64>>,
}

/// The content of a file in `agents/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Agent {
    /// The provider.
    pub provider: Option<String>,
    /// The credential.
    pub api_key: Option<String>,
    /// The address.
    pub api_base: Option<String>,
    /// The model.
    pub model: Option<String>,
}

/// The script of a thought, and the text of it for which memory.js was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The script's path without links.
    pub place: String,
    /// The SHA-256 of the text that memory.js was made for; `None` if memory.js is older than this record.
    pub sha256: Option<String>,
}

/// The digest of a script: the SHA-256 of its text without a first line for the kernel, so that an installed script is
/// the same as its source.
pub fn digest(script: &[u8]) -> String {
    fs::sha256(without_shebang(script))
}

/// Whether a record is of this script. Older records, and those of the public runtime, have the SHA-256 of all of it.
pub fn is_digest_of(record: &str, script: &[u8]) -> bool {
    record == digest(script) || record == fs::sha256(script)
}

/// Maximum size of a settings file in bytes.
const SETTINGS: u64 = 1 << 20;

impl Home {
    /// The home: `THINKINGSCRIPT_HOME`, else `~/.thinkingscript`.
    ///
    /// # Errors
    /// No home folder is known, or it cannot be used.
    pub fn from_env(env: &Env) -> Result<Self, Problem> {
        let unknown = "cannot determine the home folder; set HOME or THINKINGSCRIPT_HOME";
        let folder = if let Some(named) = env.get_os("THINKINGSCRIPT_HOME") {
            env.absolute_path(Path::new(named))?
        } else {
            env.home_folder().ok_or_else(|| Problem::failed(unknown))?.join(".thinkingscript")
        };
        fs::check_folder_owner(&folder).map_err(refuse_home)?;
        Ok(Self { folder })
    }

    /// Makes the folders, for their owner alone.
    ///
    /// # Errors
    /// They cannot be made, or belong to another user.
    pub fn prepare(&self) -> Result<(), Problem> {
        let own = ["agents", "bin", "cache", "thoughts", "locks"];
        own.iter().try_for_each(|name| own_folder(&self.folder.join(name))).map_err(refuse_home)
    }

    /// The folder of a thought.
    pub fn thought_folder(&self, name: &str) -> PathBuf {
        self.folder.join("thoughts").join(name)
    }

    /// An installed script.
    pub fn script_path(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// The policy file of a thought, or the one for all.
    pub fn policy_path(&self, thought: Option<&str>) -> PathBuf {
        thought
            .map_or_else(|| self.folder.clone(), |name| self.thought_folder(name))
            .join("policy.json")
    }

    /// The names of all thoughts that have a folder.
    pub fn list_thoughts(&self) -> Result<Vec<String>> {
        fs::list_names(&self.folder.join("thoughts"))
    }

    /// The settings.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn read_config(&self) -> Result<HomeConfig, Problem> {
        Ok(read_settings(&self.folder.join("config.json"))?.unwrap_or_default())
    }

    /// Reads the settings of an agent. `None` if it has no file.
    ///
    /// # Errors
    /// The file is damaged, or the name is not valid for a file.
    pub fn read_agent(&self, name: &str) -> Result<Option<Agent>, Problem> {
        read_settings(&self.agent_path(name)?)
    }

    /// The file of an agent.
    ///
    /// # Errors
    /// The name is not valid for a file.
    pub fn agent_path(&self, name: &str) -> Result<PathBuf, Problem> {
        if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
            return Err(Problem::usage(format!(
                "\"{}\" is not the name of an agent",
                name.escape_debug()
            )));
        }
        Ok(self.folder.join("agents").join(format!("{name}.json")))
    }

    /// The name of the thought of a script, and a note if another script has its plain name. The same text elsewhere is the
    /// same script; another text is not, though the file of the first may be gone: it would get its permissions.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn choose_thought(&self, place: &str, script: &[u8]) -> Result<(String, Option<String>)> {
        let name = thought_name(place);
        let Some(origin) = self.read_origin(&name)? else { return Ok((name, None)) };
        // If the text that memory.js was made for is not recorded, use the last text that was run from there.
        let known = origin.sha256.or_else(|| self.read_fingerprint(&origin.place));
        if origin.place == place || known.is_some_and(|known| is_digest_of(&known, script)) {
            return Ok((name, None));
        }
        let own = format!("{name}-{}", &fs::sha256(place.as_bytes())[..8]);
        let note = format!("note: {name} is the data of {}; this script uses {own}", origin.place);
        Ok((own, Some(note)))
    }

    /// Chooses the thought of a script ([`Self::choose_thought`]) and makes its folders; with `is_kept` it belongs to
    /// the script from then on. Under a lock: two scripts of one name may run for the first time at once.
    ///
    /// # Errors
    /// A file cannot be read or written, or another process keeps the lock.
    pub fn take_thought(
        &self,
        place: &str,
        script: &[u8],
        is_kept: bool,
        interrupts: &Interrupts,
    ) -> Result<(String, Option<String>), Problem> {
        let lock = self.folder.join("locks/names.lock");
        let _lock = lock_briefly(&lock, interrupts)?;
        let (name, note) = self.choose_thought(place, script)?;
        self.prepare_thought(&name, &clock::now())?;
        let old = self.read_origin(&name)?;
        if is_kept && old.as_ref().is_none_or(|old| !fs::exists(Path::new(&old.place))) {
            let sha256 =
                old.and_then(|old| old.sha256.or_else(|| self.read_fingerprint(&old.place)));
            self.write_origin(&name, &Origin { place: place.to_owned(), sha256 })?;
        }
        Ok((name, note))
    }

    /// Reads the script of a thought, if it is recorded.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn read_origin(&self, name: &str) -> Result<Option<Origin>> {
        let path = self.thought_folder(name).join("origin");
        let text = fs::read_text(&path, SETTINGS)?;
        // A damaged record counts as missing.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Records the script of a thought.
    pub fn write_origin(&self, name: &str, origin: &Origin) -> Result<()> {
        let text = serde_json::to_string(origin)?;
        AtomicFile::new(&self.thought_folder(name).join("origin"))
            .write(format!("{text}\n").as_bytes())
    }

    /// The cache folder of a script.
    pub fn cache_folder(&self, place: &str) -> PathBuf {
        self.folder.join("cache").join(&fs::sha256(place.as_bytes())[..32])
    }

    /// The SHA-256 of the script that was last run from a place.
    pub(crate) fn read_fingerprint(&self, place: &str) -> Option<String> {
        let text =
            fs::read_text(&self.cache_folder(place).join("fingerprint"), SETTINGS).ok()??;
        Some(text.trim().to_owned())
    }

    /// Records the SHA-256 of a script.
    pub fn write_fingerprint(&self, place: &str, sha256: &str) -> Result<()> {
        if self.read_fingerprint(place).as_deref() == Some(sha256) {
            return Ok(());
        }
        fs::create_private_folder(&self.cache_folder(place))?;
        AtomicFile::new(&self.cache_folder(place).join("fingerprint"))
            .without_sync()
            .write(sha256.as_bytes())
    }

    /// Makes the folders of a thought, and its policy if there is none.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn prepare_thought(&self, name: &str, created: &str) -> Result<()> {
        let folder = self.thought_folder(name);
        for below in ["", "workspace", "memories"] {
            own_folder(&folder.join(below))?;
        }
        let path = self.policy_path(Some(name));
        if fs::exists(&path) {
            return Ok(());
        }
        let mut policy = Policy::default();
        for (below, approval) in [
            ("workspace", Approval::Allow),
            ("memories", Approval::Allow),
            ("policy.json", Approval::Deny),
        ] {
            let subject = Subject::Path(folder.join(below).display().to_string());
            policy.add_entry((subject, "rwd"), approval, "default", created);
        }
        AtomicFile::new(&path).write(policy.format().as_bytes())
    }

    /// Locks a thought until the file is dropped: shared while memory.js runs, exclusive while it may be changed.
    ///
    /// # Errors
    /// Another run keeps the lock for longer than `patience`.
    pub fn lock_thought(
        &self,
        name: &str,
        mode: LockMode,
        patience: Duration,
        interrupts: &Interrupts,
    ) -> Result<File, LockError> {
        let path = self.folder.join("locks").join(format!("thought-{name}.lock"));
        let busy = || {
            LockError::Busy(format!(
                "thought {name} is in use by another run; waited {} s (--lock-timeout S waits longer)",
                patience.as_secs_f64()
            ))
        };
        let wait = LockWait { mode, ..LockWait::new(patience, interrupts) };
        lock_file(&path, wait)?.ok_or_else(busy)
    }

    /// Moves those of `paths` that exist into a new trash folder of the home, under the same relative paths.
    ///
    /// # Errors
    /// One cannot be moved.
    pub fn discard(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join("trash").join(uuid::Uuid::new_v4().simple().to_string());
        let mut moved = Vec::new();
        for path in paths.iter().filter(|path| fs::exists(path)) {
            let target = folder.join(path.strip_prefix(&self.folder).unwrap_or(path));
            fs::create_private_folder(target.parent().unwrap_or(&folder))?;
            fs::rename_file(path, &target)?;
            moved.push(target);
        }
        Ok(moved)
    }
}

fn refuse_home(error: anyhow::Error) -> Problem {
    Problem::failed(format!("{error:#}; to use another folder, set THINKINGSCRIPT_HOME"))
}

/// Makes a folder for its owner alone; otherwise another user's folder could set the policy.
fn own_folder(folder: &Path) -> Result<()> {
    fs::check_folder_owner(folder)?;
    fs::create_private_folder(folder)?;
    fs::keep_private(folder);
    Ok(())
}

/// The memories of a thought, the newest first: name and text of those that fit, and the names of the others.
pub fn read_memories(folder: &Path) -> (Vec<(String, String)>, Vec<String>) {
    let names = fs::list_names(folder).unwrap_or_default();
    let mut dated: Vec<(Duration, String)> =
        names.into_iter().map(|name| (fs::modified(&folder.join(&name)), name)).collect();
    dated.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let (mut shown, mut others, mut left) = (Vec::new(), Vec::new(), limits::MEMORIES);
    for (_, name) in dated {
        match fs::read_text(&folder.join(&name), left as u64) {
            Ok(Some(text)) => {
                left -= text.len();
                shown.push((name, text));
            }
            _ => others.push(name),
        }
    }
    (shown, others)
}

fn read_settings<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Problem> {
    let text =
        fs::read_text(path, SETTINGS).map_err(|error| Problem::usage(format!("{error:#}")))?;
    let wrong = |error| Problem::usage(format!("{} is damaged: {error}", path.display()));
    text.map(|text| serde_json::from_str(&text).map_err(wrong)).transpose()
}
