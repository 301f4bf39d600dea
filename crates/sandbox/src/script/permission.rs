//! Decides about the requests of a script: by the policy, then by asking the user. Permanent answers are stored in the
//! thought's own policy.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::script::policy::places::ScriptPlaces;
use crate::script::policy::{AccessRequest, Approval, Layers, Policy, Subject, is_plainly_private};
use conversation::approve::Answer;
use conversation::exit::Signal;
use conversation::format::columns::wrap_line;
use conversation::format::harmless::{escape_text, quote_name};
use conversation::limits;
use sys::atomic_file::AtomicFile;
use sys::clock::{self, Stopwatch};
use sys::durable::parent_folder;
use sys::env::Env;
use sys::fs;
use sys::interrupt::Interrupts;
use sys::lock::lock_folder;
use sys::names;
use sys::tty::Tty;

/// Decides about the requests of a script.
pub struct Permissions<'a> {
    /// Folders that are always allowed, or forbidden.
    pub places: ScriptPlaces,
    /// The policies.
    pub layers: Layers,
    /// The file in which answers are stored, if any.
    pub own_file: Option<PathBuf>,
    /// The thought's name, for advice and questions.
    pub name: Option<String>,
    /// The terminal, if there is one.
    pub asker: Option<Tty>,
    /// Makes room on the terminal before each question.
    pub on_question: Box<dyn Fn() + 'a>,
    /// Signals.
    pub interrupts: &'a Interrupts,
    /// Permissions that the user granted once, until the end of the run.
    once: Vec<(Subject, &'static str)>,
    /// The refused requests, each once.
    pub denied: Vec<String>,
    /// Whether the user said no without a reason: nothing else is to be tried.
    pub said_no: bool,
    /// Time spent on questions, which does not count against the time limit.
    pub asked: Duration,
}

/// The places of a run with these folders; `root` is nagent's.
pub fn find_places(
    cwd: &Path,
    home: &Path,
    root: &Path,
    thought: Option<&Path>,
    env: &Env,
) -> ScriptPlaces {
    let real = |path: &Path| fs::real_path(path).unwrap_or_else(|| path.to_owned());
    let hidden = crate::enforce::hidden_paths(root, env.home_folder().as_deref(), env, &[]);
    ScriptPlaces {
        cwd: real(cwd),
        user_home: env.home_folder().as_deref().map(real),
        home: real(home),
        thought: thought.map(real),
        root: Some(real(root)),
        policies: Vec::new(),
        hidden: hidden.into_iter().map(|hidden| hidden.path).collect(),
    }
}

impl<'a> Permissions<'a> {
    /// Permissions by these policies, without a terminal for questions and without a file for answers.
    pub fn new(places: ScriptPlaces, mut layers: Layers, interrupts: &'a Interrupts) -> Self {
        for policy in [&mut layers.own, &mut layers.global] {
            policy.resolve_paths(&names::resolve_links);
        }
        Self {
            places,
            layers,
            own_file: None,
            name: None,
            asker: None,
            on_question: Box::new(|| ()),
            interrupts,
            once: Vec::new(),
            denied: Vec::new(),
            said_no: false,
            asked: Duration::ZERO,
        }
    }

    /// Whether an entry has the exact name of the host: then it may be a private one.
    pub(super) fn names_host(&self, host: &str, port: u16) -> bool {
        self.layers.names_host(host, port)
            || is_plainly_private(host) && self.is_granted_once(AccessRequest::Host(host, port))
    }

    /// The reason why no entry can allow a request.
    fn find_forbidden(&self, request: AccessRequest<'_>) -> Option<&'static str> {
        let AccessRequest::Path(mode, path) = request else { return None };
        self.places.find_forbidden(mode, path)
    }

    /// The decision on a request without a question.
    pub(super) fn decide(&self, request: AccessRequest<'_>) -> Approval {
        if self.find_forbidden(request).is_some() {
            return Approval::Deny;
        }
        let is_free = match request {
            AccessRequest::Path(mode, path) => self.places.is_always_allowed(mode, path),
            _ => false,
        };
        match self.layers.decide(request, is_free) {
            Approval::Prompt if self.is_granted_once(request) => Approval::Allow,
            decision => decision,
        }
    }

    fn is_granted_once(&self, request: AccessRequest<'_>) -> bool {
        self.once.iter().any(|(allowed, mode)| match (allowed, request) {
            (Subject::Path(place), AccessRequest::Path(_, path)) => {
                *mode == request.mode() && path.starts_with(place)
            }
            _ => *allowed == request.subject(),
        })
    }

    /// Grants a request, or returns the reason of the refusal.
    pub(super) fn permit(&mut self, request: AccessRequest<'_>) -> Result<(), String> {
        let (name, subject) = (request.name(), request.subject());
        match self.decide(request) {
            Approval::Allow => return Ok(()),
            Approval::Deny => {
                let why = self.find_forbidden(request).unwrap_or("the policy says no");
                return Err(self.refuse(name, subject.text(), why));
            }
            Approval::Prompt => {}
        }
        let Some(asker) = &mut self.asker else {
            let why = self.explain_unasked(&subject, request.mode());
            return Err(self.refuse(name, subject.text(), &why));
        };
        (self.on_question)();
        let watch = Stopwatch::start();
        // An answer about a folder applies to everything below it.
        let is_folder = matches!(request, AccessRequest::Path(_, path) if path.is_dir());
        let end = if is_folder { " and all in it" } else { "" };
        let detail = format!("{}{end}", subject.text());
        let who = self.name.as_deref().unwrap_or("nagent-js");
        let answer = ask_permission(asker, who, (name, &detail), self.interrupts);
        self.asked += watch.elapsed();
        match answer {
            Some(Answer::Yes) => {
                self.once.push((subject, request.mode()));
                Ok(())
            }
            Some(Answer::Always) => {
                self.store(request, Approval::Allow);
                Ok(())
            }
            Some(Answer::No(reason)) if reason.is_empty() => {
                self.store(request, Approval::Deny);
                self.said_no = true;
                Err(self.refuse(name, subject.text(), "the user said no"))
            }
            // A refusal with a reason is for this time only: the script may do it differently.
            Some(Answer::No(reason)) => {
                Err(self.refuse(name, subject.text(), &format!("the user said no: {reason}")))
            }
            Some(Answer::Word(_)) | None => {
                self.interrupts.raise(Signal::Int);
                Err("interrupted".to_owned())
            }
        }
    }

    /// Refuses a file that is one of the keys by another name (a hard link).
    pub(super) fn refuse_key(
        &mut self,
        path: &Path,
        stat: &rustix::fs::Stat,
    ) -> Result<(), String> {
        if stat.st_nlink < 2 {
            return Ok(());
        }
        let is_in = |folder: &PathBuf| {
            fs::list_names(folder).unwrap_or_default().iter().any(|name| {
                let key = rustix::fs::stat(folder.join(name));
                key.is_ok_and(|key| (key.st_dev, key.st_ino) == (stat.st_dev, stat.st_ino))
            })
        };
        let agents = self.places.home.join("agents");
        if [Some(agents), self.places.root.clone()].iter().flatten().any(is_in) {
            let why = "it is a hard link to a file in agents/ or in nagent's own folder, which contain keys";
            return Err(self.refuse("read", &path.to_string_lossy(), why));
        }
        Ok(())
    }

    pub(super) fn refuse(&mut self, name: &str, subject: &str, why: &str) -> String {
        let denied = format!("{name} {}", quote_name(subject));
        let message = format!("{denied} is not allowed: {why}");
        if !self.denied.contains(&denied) {
            self.denied.push(denied);
        }
        message
    }

    /// Explains why the user was not asked, and how to allow a request.
    fn explain_unasked(&self, subject: &Subject, mode: &str) -> String {
        let Some(name) = &self.name else {
            return "nobody is there to ask; a policy (--policy FILE) can allow it".to_owned();
        };
        let mode = if mode.is_empty() { String::new() } else { format!(" --mode {mode}") };
        format!(
            "nobody is there to ask; to allow it: nagent-thought policy add {} {} {}{mode}",
            subject.kind(),
            quote_name(name),
            quote_name(subject.text())
        )
    }

    /// Stores an answer, in the file and for this run.
    fn store(&mut self, request: AccessRequest<'_>, approval: Approval) {
        let created = clock::now();
        let add = |policy: &mut Policy| {
            let entry = (request.subject(), request.mode());
            policy.add_entry(entry, approval, "prompt", &created);
            Ok(())
        };
        let _ = add(&mut self.layers.own);
        let Some(path) = &self.own_file else { return };
        let stored = edit_policy(path, self.interrupts, add);
        if let (Err(error), Some(asker)) = (stored, &mut self.asker) {
            asker.write(&format!(
                "the answer counts for this run only: {}\n",
                escape_text(&format!("{error:#}"))
            ));
        }
    }
}

/// Asks on the terminal whether `who` may do something, until the answer is valid. `None` after a signal, or if the
/// terminal is gone.
fn ask_permission(
    tty: &mut Tty,
    who: &str,
    (name, detail): (&str, &str),
    interrupts: &Interrupts,
) -> Option<Answer> {
    let (columns, _) = tty.read_dimensions();
    let detail = escape_text(detail).replace('\n', "\\n");
    let line = format!("◆ {}  {detail}", name.to_uppercase());
    let rows = wrap_line(&line, columns.saturating_sub(3).max(20));
    let head = tty.format_head(&format!("{} asks", escape_text(who).replace('\n', " ")));
    let question = format!("\n{head}  {}\n", rows.join("\n  "));
    loop {
        let choices = "  y once, a always, n never [n]: ";
        let Some(line) = tty.read_answer(&question, choices, "y", interrupts, None) else {
            tty.write("\n");
            return None;
        };
        match Answer::parse(&line) {
            Answer::Word(_) => tty.write("  answer y, a or n\n"),
            answer => return Some(answer),
        }
    }
}

/// Reads a policy's file; a missing file is a policy without entries.
///
/// # Errors
/// It is damaged, or cannot be read.
pub fn read_policy(path: &Path) -> Result<Policy> {
    let Some(text) = fs::read_text(path, limits::POLICY)? else { return Ok(Policy::default()) };
    let owner = std::fs::metadata(path).map_or(0, |metadata| metadata.uid());
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        anyhow::bail!(
            "{} belongs to the user with id {owner}, so it is not used here",
            quote_name(path)
        );
    }
    Policy::parse(&text).map_err(|error| {
        anyhow::anyhow!(
            "{} is damaged: {error}; fix it, or move it away to be asked again",
            quote_name(path)
        )
    })
}

/// Changes a policy's file, one process at a time.
///
/// # Errors
/// It is damaged, or cannot be read or written; or `edit` fails.
pub fn edit_policy(
    path: &Path,
    interrupts: &Interrupts,
    edit: impl FnOnce(&mut Policy) -> Result<()>,
) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let folder = parent_folder(path);
    let open = File::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
    let _lock = lock_folder(open, folder, Some((PATIENCE, interrupts)))?;
    let mut policy = read_policy(path)?;
    edit(&mut policy)?;
    AtomicFile::new(path).write(policy.format().as_bytes())
}
