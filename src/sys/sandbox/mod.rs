//! Walls around commands: namespaces through `bwrap` where the system has it, Landlock and seccomp inside them; those two
//! alone where it has not.
//!
//! Walls are built before anything runs, or the run is refused. Nothing here decides which walls are wanted
//! ([`crate::sandbox`]), and nothing reads a policy from the working tree.
//!
//! - `ground`: which folders are writable and hidden, looked up once a run
//! - `program`: the `bwrap` of the system
//! - `stand_ins`: what is to be made because it does not exist
//! - `survey`: where protected names stand in a writable folder, looked up for each command
//! - `named`: what a repository's config names, that git reads or runs by itself
//! - `hold`: what is made for a command and removed behind it
//! - `target`: whether a model may name a file as a target
//! - [`inner`]: what a process does to itself before it becomes the command

mod ground;
mod hold;
pub mod inner;
mod named;
mod program;
mod stand_ins;
mod survey;
mod target;

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use self::ground::{Ground, Kind, Writable};
pub use self::hold::{Ended, Hold, UNSAID};
use self::inner::Built;
use self::program::{find_bwrap, version_of};
use self::stand_ins::{awaited, keep_what_has_come, kept_of_git, missing};
use self::survey::{KEPT, Survey, is_git_folder, survey};
pub use self::target::permit_target;
use super::interrupt::Interrupts;
use super::process;
use super::process::job::{Job, Outcome, Output};
use crate::sandbox::bwrap::{self, How, Layout, Mount};
use crate::sandbox::materials::{self, Facts, Materials};
use crate::sandbox::plan::{Grant, Plan};
use crate::sandbox::protected::Ghost;
use crate::sandbox::{Mode, Wanted, advice};

/// The executable that stands inside the walls, beside the running one.
pub const INNER: &str = "nagent-sandbox";

/// The longest that a look at whether walls stand takes.
const PROBE_TIME: Duration = Duration::from_secs(20);

/// What walls are made from.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The run's folder.
    pub folder: &'a Path,
    /// The git toplevel of `folder`, if any.
    pub toplevel: Option<&'a Path>,
    /// The home folder, if any.
    pub home: Option<&'a Path>,
    /// nagent's own root folder, which nothing inside can read.
    pub root: &'a Path,
    /// The value of `TMPDIR`, if set.
    pub tmpdir: Option<&'a OsStr>,
    /// The running executable; [`INNER`] is looked for beside it.
    pub executable: Option<&'a Path>,
    /// Whether it is a per-file conversation: then `workspace` writes in temp folders only.
    pub per_file: bool,
    /// The config file in force, which may say that there are no walls: read-only, wherever it lies.
    pub config: Option<&'a Path>,
}

/// Why walls cannot be built, and what is missing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

/// Walls that can be built on this machine.
#[derive(Debug, Clone)]
pub struct Walls {
    wanted: Wanted,
    writable: Vec<PathBuf>,
    ground: Ground,
    bwrap: Option<PathBuf>,
    how: How,
    materials: Materials,
    /// What the surveys of this run have found in each folder.
    known: Arc<Mutex<HashMap<PathBuf, BTreeSet<PathBuf>>>>,
}

/// A command within walls.
#[derive(Debug)]
pub struct Walled {
    /// The program and its arguments that run the command within the walls.
    pub argv: Vec<OsString>,
    /// Variables to set for it beside its own.
    pub env: Vec<(OsString, OsString)>,
    /// Removes what had to be made for it; to be dropped when the command has ended.
    pub hold: Hold,
}

impl Walls {
    /// The walls that are wanted, `None` when none are.
    ///
    /// # Errors
    /// They cannot be built here: the message says what is missing and what to do.
    pub fn build(wanted: &Wanted, places: Places<'_>) -> Result<Option<Self>, Missing> {
        Self::build_of(wanted, places, true)
    }

    /// The same; without `with_bwrap`, of Landlock and seccomp alone even where `bwrap` is there.
    ///
    /// # Errors
    /// As [`Walls::build`].
    pub fn build_of(
        wanted: &Wanted,
        places: Places<'_>,
        with_bwrap: bool,
    ) -> Result<Option<Self>, Missing> {
        if !wanted.any() {
            return Ok(None);
        }
        let ground = Ground::look(wanted, places)?;
        hold::sweep(&ground.walls);
        hold::make_empty(&ground.walls)?;
        let how = How { users: false, bounding: false, no_network: wanted.no_network };
        let writable = ground.writable.iter().map(|writable| writable.path.clone()).collect();
        let materials = Materials { no_bwrap: None, landlock: 0 };
        let mut walls = Self {
            wanted: wanted.clone(),
            writable,
            ground,
            bwrap: None,
            how,
            materials,
            known: Arc::default(),
        };
        walls.find_materials(with_bwrap)?;
        Ok(Some(walls))
    }

    /// Tries what there is: `bwrap`, with a namespace of users where it needs one, or else Landlock alone.
    fn find_materials(&mut self, with_bwrap: bool) -> Result<(), Missing> {
        let with = if with_bwrap { self.try_bwrap() } else { Err("it was not wanted".to_owned()) };
        let facts = match with {
            // What stands is not looked beyond.
            Ok(landlock) => Facts { bwrap: Ok(landlock), alone: Err(String::new()) },
            Err(why) => {
                self.bwrap = None;
                let alone = self.probe().map(|built| built.landlock);
                Facts { bwrap: Err(why), alone }
            }
        };
        self.materials = materials::choose(&facts).map_err(Missing)?;
        Ok(())
    }

    fn try_bwrap(&mut self) -> Result<u32, String> {
        let path = find_bwrap()?;
        let is_root = rustix::process::geteuid().is_root();
        let ways: &[bool] = if is_root { &[false, true] } else { &[true] };
        let mut why = String::new();
        self.bwrap = Some(path.clone());
        for &users in ways {
            self.how = How { users, bounding: !users, no_network: self.wanted.no_network };
            match self.probe() {
                Ok(built) => return Ok(built.landlock),
                Err(failed) => why = failed,
            }
        }
        Err(format!("{} does not work here ({why})", path.display()))
    }

    /// Builds the walls around nothing, and says what they are made of, or why they do not stand.
    fn probe(&self) -> Result<Built, String> {
        let layout = self.layout(Path::new("/"), &[], &[]);
        let plan = Plan { probe: true, ..self.plan(&[], None) };
        let argv = self.argv(&layout, &plan, vec!["true".into()]).map_err(|missing| missing.0)?;
        let mut job = Job::new(argv, PathBuf::from("/"), Vec::new());
        job.output = Output::Separate;
        job.timeout = Some(PROBE_TIME);
        let quiet = Interrupts::deaf().map_err(|error| error.to_string())?;
        let finished = process::run(job, &quiet).map_err(|error| error.to_string())?;
        if finished.outcome == (Outcome::Ended { code: 0 })
            && let Ok(built) = serde_json::from_slice(&finished.stdout.head)
        {
            return Ok(built);
        }
        let said = String::from_utf8_lossy(&finished.stderr.head);
        let said = said.lines().next().unwrap_or_default().trim();
        let said = said.strip_prefix("nagent-sandbox: ").unwrap_or(said);
        Err(if said.is_empty() { format!("{:?}", finished.outcome) } else { said.to_owned() })
    }

    /// The command, within the walls.
    ///
    /// # Errors
    /// A folder that the walls need is gone, or what they need cannot be made.
    pub fn wrap(&self, argv: Vec<OsString>, cwd: &Path) -> Result<Walled, Missing> {
        let cwd = std::fs::canonicalize(cwd).map_err(|error| {
            Missing(format!("cannot find the folder {}: {error}", cwd.display()))
        })?;
        for writable in &self.ground.writable {
            if !std::fs::canonicalize(&writable.path).is_ok_and(|path| path == writable.path) {
                return Err(Missing(format!(
                    "the folder {}, which commands may write in, is gone or is a link now; start again",
                    writable.path.display()
                )));
            }
        }
        let mut hold = Hold::begin(&self.ground.walls)?;
        let guarded = || self.ground.writable.iter().filter(|writable| writable.kind != Kind::Temp);
        for writable in guarded() {
            hold.share(&writable.path)?;
        }
        let is_writable = |path: &Path| self.ground.is_writable(path);
        let mut surveys: Vec<(&Writable, Survey)> = guarded()
            .map(|writable| match writable.kind {
                Kind::Git => (writable, Survey::default()),
                _ => (writable, self.survey(&writable.path, &is_writable)),
            })
            .collect();
        keep_what_has_come(&self.ground, &mut surveys);
        let awaited = awaited(&self.ground, &surveys);
        let ghosts: Vec<(PathBuf, Vec<(PathBuf, Ghost)>)> = if self.is_bwrap() {
            surveys.iter().map(|(writable, _)| missing(writable, &awaited)).collect()
        } else {
            Vec::new()
        };
        let scratch = self.scratch();
        let ghosts = hold.make(&ghosts, scratch.as_deref())?;
        let mut layout = self.layout(&cwd, &surveys, &ghosts);
        layout.mounts.extend(scratch.iter().map(|scratch| (scratch.clone(), Mount::Write)));
        layout.mounts.push((hold.report(), Mount::ShowWritable));
        layout.instead.extend(self.ignored(&hold, &ghosts));
        let mut plan = self.plan(&surveys, Some(hold.report()));
        if let (Some(scratch), Some(write)) = (&scratch, &mut plan.write) {
            write.push(Grant::whole(scratch));
        }
        let argv = self.argv(&layout, &plan, argv)?;
        // A repository's own folder is the user's matter, with all that lies in it.
        let trees = surveys.into_iter().filter(|(writable, _)| writable.kind != Kind::Git);
        hold.remember(
            trees.map(|(writable, survey)| (writable.path.clone(), survey)).collect(),
            awaited.into_iter().map(|named| named.path).collect(),
        );
        let env = scratch.map(|scratch| ("TMPDIR".into(), scratch.into()));
        Ok(Walled { argv, env: env.into_iter().collect(), hold })
    }

    /// A folder's survey, with what earlier ones of this run found: a command may have made the tree too large to look
    /// through since.
    fn survey(&self, top: &Path, is_writable: &dyn Fn(&Path) -> bool) -> Survey {
        let mut found = survey(top, is_writable);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(top.to_owned()).or_default();
        if found.is_cut {
            let there = known
                .iter()
                .filter(|path| std::fs::canonicalize(path).is_ok_and(|there| there == **path));
            there.take(KEPT).for_each(|path| found.keep(path.clone()));
        }
        known.extend(found.kept.iter().cloned());
        found
    }

    /// A scratch folder's name, where there is no temp folder in which something new can be made.
    fn scratch(&self) -> Option<PathBuf> {
        let is_needed = match self.wanted.mode {
            Mode::Off => false,
            Mode::ReadOnly => true,
            Mode::Workspace => {
                let is_split = |writable: &Writable| {
                    writable.kind == Kind::Temp && !self.except(writable, &[]).is_empty()
                };
                !self.ground.is_tmpdir_writable
                    || !self.is_bwrap() && self.ground.writable.iter().any(is_split)
            }
        };
        let temp = self.ground.temp.first().filter(|_| is_needed)?;
        Some(temp.join(format!("nagent-scratch-{}", Uuid::new_v4().simple())))
    }

    /// What of a writable folder is kept where there are no mounts to keep it.
    fn except(&self, writable: &Writable, surveys: &[(&Writable, Survey)]) -> Vec<PathBuf> {
        let mut except: Vec<&PathBuf> =
            self.ground.hidden.iter().chain(&self.ground.kept).collect();
        // What the user named is given whole: Landlock cannot take back.
        if matches!(writable.kind, Kind::Temp | Kind::Tree) && !writable.is_named {
            let trees = self
                .ground
                .writable
                .iter()
                .filter(|other| other.kind == Kind::Tree && writable.kind == Kind::Temp);
            except.extend(trees.map(|tree| &tree.path));
            except.extend(
                surveys
                    .iter()
                    .filter(|(of, _)| of.kind == Kind::Tree)
                    .flat_map(|(_, survey)| &survey.kept),
            );
        }
        let below = except.into_iter().filter(|path| path.starts_with(&writable.path));
        below.cloned().collect()
    }

    fn plan(&self, surveys: &[(&Writable, Survey)], report: Option<PathBuf>) -> Plan {
        let alone = !self.is_bwrap();
        let grants = self.ground.writable.iter().map(|writable| {
            let links =
                surveys.iter().flat_map(|(_, survey)| &survey.links).map(|link| link.path.clone());
            let except = if alone {
                self.except(writable, surveys)
            } else if writable.is_named {
                Vec::new()
            } else {
                // Nothing can be mounted on a link: where one has a protected name, its folder is given entry by entry.
                links.filter(|link| link.starts_with(&writable.path)).collect()
            };
            Grant {
                path: writable.path.clone(),
                except,
                closed: alone && writable.kind == Kind::Tree,
            }
        });
        Plan {
            alone,
            write: (self.wanted.mode != Mode::Off).then(|| grants.collect()),
            hidden: self.ground.hidden.clone(),
            no_network: self.wanted.no_network,
            own_network: !alone && self.wanted.no_network,
            report,
            probe: false,
        }
    }

    fn layout(
        &self,
        cwd: &Path,
        surveys: &[(&Writable, Survey)],
        ghosts: &[(PathBuf, Ghost)],
    ) -> Layout {
        let ground = &self.ground;
        let mut mounts: Vec<(PathBuf, Mount)> = Vec::new();
        mounts.extend(ground.hidden.iter().map(|path| {
            (path.clone(), if path.is_dir() { Mount::HideFolder } else { Mount::HideFile })
        }));
        mounts.extend(ground.writable.iter().map(|writable| (writable.path.clone(), Mount::Write)));
        let read = |path: &PathBuf| (path.clone(), Mount::Read);
        mounts.extend(ghosts.iter().map(|(path, _)| read(path)));
        mounts.extend(surveys.iter().flat_map(|(_, survey)| &survey.kept).map(read));
        // A bare repository may be a working tree's top, and be named like any folder.
        let repositories = ground.writable.iter().filter(|writable| {
            writable.kind == Kind::Git
                || writable.kind != Kind::Temp && is_git_folder(&writable.path)
        });
        mounts.extend(
            repositories.flat_map(|writable| kept_of_git(&writable.path)).map(|path| read(&path)),
        );
        mounts.extend(ground.kept.iter().map(read));
        mounts.extend(ground.starters.iter().map(read));
        // A folder above a mount can be moved away, and another one put in its place; one that is a mount itself cannot.
        let pinned = ground
            .hidden
            .iter()
            .chain(&ground.kept)
            .chain(ground.writable.iter().map(|writable| &writable.path))
            .chain(ghosts.iter().map(|(path, _)| path));
        let pins: Vec<PathBuf> = pinned.flat_map(|path| self.between(path)).collect();
        mounts.extend(pins.into_iter().map(|path| (path, Mount::Write)));
        if ground.hidden.iter().any(|hidden| ground.inner.starts_with(hidden)) {
            mounts.push((ground.inner.clone(), Mount::Show));
        }
        Layout {
            open: self.wanted.mode == Mode::Off,
            mounts,
            instead: Vec::new(),
            empty: ground.walls.join("empty"),
            cwd: cwd.to_owned(),
        }
    }

    /// The folders between a path and the writable folder that it lies in.
    fn between(&self, path: &Path) -> Vec<PathBuf> {
        let above = path.ancestors().skip(1);
        let is_inside = |folder: &&Path| {
            self.ground
                .writable
                .iter()
                .any(|writable| **folder != writable.path && folder.starts_with(&writable.path))
        };
        above.take_while(is_inside).map(Path::to_owned).collect()
    }

    /// git's list of names to ignore, with those stand-ins in it that git would otherwise show.
    fn ignored(&self, hold: &Hold, ghosts: &[(PathBuf, Ghost)]) -> Option<(PathBuf, PathBuf)> {
        let top = self.ground.repository.as_deref()?;
        let files =
            ghosts.iter().filter(|(path, kind)| *kind == Ghost::File && path.starts_with(top));
        let names: Vec<&str> =
            files.filter_map(|(path, _)| path.strip_prefix(top).ok()?.to_str()).collect();
        let common = survey::git_folders(&top.join(".git")).pop()?;
        let list = common.join("info/exclude");
        if names.is_empty() || !list.is_file() {
            return None;
        }
        Some((hold.ignore(&list, &names)?, list))
    }

    fn argv(
        &self,
        layout: &Layout,
        plan: &Plan,
        command: Vec<OsString>,
    ) -> Result<Vec<OsString>, Missing> {
        let text = serde_json::to_string(plan).map_err(|error| {
            Missing(format!("the plan of the walls cannot be passed on: {error}"))
        })?;
        let mut argv = Vec::new();
        if let Some(bwrap) = &self.bwrap {
            argv.push(bwrap.into());
            argv.extend(bwrap::arguments(layout, self.how));
        }
        argv.push(self.ground.inner.clone().into());
        argv.extend(["--within".into(), text.into(), "--".into()]);
        argv.extend(command);
        Ok(argv)
    }

    fn is_bwrap(&self) -> bool {
        self.bwrap.is_some()
    }

    /// What was asked for.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// `bwrap` or `landlock`: what the walls are made of.
    pub fn kind(&self) -> &'static str {
        if self.is_bwrap() { "bwrap" } else { "landlock" }
    }

    /// What the walls are made of.
    pub fn materials(&self) -> &Materials {
        &self.materials
    }

    /// The version of the `bwrap` among them.
    pub fn bwrap_version(&self) -> Option<String> {
        self.bwrap.as_deref().map(version_of)
    }

    /// Folders, by their true paths, that commands may write in. Empty with mode off: then everywhere.
    pub fn writable(&self) -> &[PathBuf] {
        &self.writable
    }

    /// What these walls leave open, a sentence each.
    pub fn gaps(&self) -> Vec<String> {
        let gives_git = self.ground.writable.iter().any(|writable| writable.kind == Kind::Git);
        materials::gaps(&self.wanted, &self.materials, gives_git)
    }

    /// What a failed command's output says of the walls: which setting would allow what was denied. `None` when nothing in
    /// it looks like a denial.
    /// `links`: those with protected names, beside which nothing new could be made.
    pub fn advice(&self, output: &str, links: &[PathBuf]) -> Option<String> {
        let said = advice::advice(&self.wanted, !self.is_bwrap(), output)?;
        let is_closed = self.is_bwrap() && output.contains("Permission denied");
        Some(match links.first().filter(|_| is_closed) {
            None => said,
            Some(link) => format!(
                "{said}; nothing new can be made beside the link {}, whose name tools go by: --write with that folder gives the whole of it",
                link.display()
            ),
        })
    }
}
