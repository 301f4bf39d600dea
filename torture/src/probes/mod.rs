//! Escape probes: each tries one way out of the sandbox for real, without them (it must get through: a dead probe shows
//! nothing), then within them, made of `bwrap` and of Landlock alone, as root and as nobody; it must not.
//!
//! A probe is a function in this executable, which is started as `torture --probe NAME key=value…`. Its exit says what it
//! believes; besides, the outside looks at what has become of victims, listeners, secrets, terminals and files ([`world`]).
//! Either is enough for "through". Needs root, user namespaces, `bwrap`. Nothing of the machine is harmed without the sandbox:
//! victims are the world's own, mounts are made in namespaces of their own, global values are written back as they were.
#![expect(
    unsafe_code,
    reason = "a way out is tried by the system call itself, which no safe wrapper offers"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    clippy::cast_ptr_alignment,
    clippy::ptr_as_ptr,
    clippy::unnecessary_cast,
    reason = "numbers are what the kernel's interface makes of them"
)]

mod files;
mod inside;
mod kernel;
mod mounts;
mod names;
mod network;
mod own;
mod processes;
mod runs;
mod terminal;
mod through_nagent;
mod uring;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::inside::{Inside, Through, say};
use self::names::Flavor;
use self::runs::{Outcome, Variant};
use self::world::Ground;
use crate::figures::Figures;

/// What a probe's exit says.
const THROUGH: u8 = 0;
const STOPPED: u8 = 77;

/// Runs at one time.
const HANDS: usize = 8;

/// A way out.
#[derive(Clone, Copy)]
struct Probe {
    name: &'static str,
    about: &'static str,
    run: fn(&Inside) -> Through,
    flavor: Flavor,
    with: With,
    modes: Modes,
    /// Words of the gap that the sandbox itself may name for it.
    gap: Option<&'static str>,
    /// Its exit says nothing: the outside sees.
    is_effect: bool,
    /// Why its control shows less than others.
    weaker: Option<&'static str>,
    is_here: bool,
}

/// In which modes it is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Modes {
    Workspace,
    Both,
    ReadOnly,
}

/// What is done for it outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum With {
    Nothing,
    /// Descriptor 7 is an open file, for writing.
    OpenFile,
    /// It is an open folder.
    OpenFolder,
    /// It is nagent's config.
    OpenSecret,
    /// It is a connected socket.
    OpenSocket,
    /// It has a terminal.
    Terminal,
    /// Somebody tries to connect.
    Knock,
    /// Waited for, after its end.
    Linger,
    /// It is killed.
    Kill,
}

const fn probe(name: &'static str, about: &'static str, run: fn(&Inside) -> Through) -> Probe {
    Probe {
        name,
        about,
        run,
        flavor: Flavor::Full,
        with: With::Nothing,
        modes: Modes::Workspace,
        gap: None,
        is_effect: false,
        weaker: None,
        is_here: true,
    }
}

impl Probe {
    /// It is about files: tried in mode read-only, too.
    const fn files(mut self) -> Self {
        self.modes = Modes::Both;
        self
    }

    const fn only_read_only(mut self) -> Self {
        self.modes = Modes::ReadOnly;
        self
    }

    const fn flavor(mut self, flavor: Flavor) -> Self {
        self.flavor = flavor;
        self
    }

    const fn with(mut self, with: With) -> Self {
        self.with = with;
        self
    }

    /// Where the sandbox names a gap with these words, it may get through, and is listed.
    const fn gap(mut self, words: &'static str) -> Self {
        self.gap = Some(words);
        self
    }

    const fn effect(mut self) -> Self {
        self.is_effect = true;
        self
    }

    const fn weaker(mut self, why: &'static str) -> Self {
        self.weaker = Some(why);
        self
    }

    const fn only_where(mut self, is_here: bool) -> Self {
        self.is_here = is_here;
        self
    }
}

fn all() -> impl Iterator<Item = &'static Probe> {
    [
        files::PROBES,
        names::PROBES,
        own::PROBES,
        processes::PROBES,
        mounts::PROBES,
        kernel::PROBES,
        network::PROBES,
        terminal::PROBES,
    ]
    .into_iter()
    .flatten()
    .filter(|probe| probe.is_here)
}

/// `--probe NAME key=value…`: tries it, and says how that went.
pub(crate) fn inside(words: &[String]) -> ExitCode {
    let Some((name, words)) = words.split_first() else { return ExitCode::from(2) };
    let inside = Inside::read(words);
    if name == world::VICTIM {
        world::be_victim(&inside);
        return ExitCode::SUCCESS;
    }
    let Some(probe) = all().find(|probe| probe.name == name) else { return ExitCode::from(2) };
    say("ran");
    match (probe.run)(&inside) {
        Ok(()) => ExitCode::from(THROUGH),
        Err(why) => {
            say(&format!("stopped: {why}"));
            ExitCode::from(STOPPED)
        }
    }
}

/// The part. `NAGENT_PROBES` names those to try, by parts of their names.
pub(crate) fn run(figures: &mut Figures) {
    if !rustix::process::geteuid().is_root() {
        return figures.miss("it needs root, to run as root and as nobody".to_owned());
    }
    let ground = match Ground::make() {
        Ok(ground) => ground,
        Err(why) => return figures.miss(format!("there is no ground for it: {why}")),
    };
    let only = std::env::var("NAGENT_PROBES").unwrap_or_default();
    let is_wanted =
        |probe: &&Probe| only.is_empty() || only.split(',').any(|part| probe.name.contains(part));
    let probes: Vec<&Probe> = all().filter(is_wanted).collect();
    let names: BTreeSet<&str> = all().map(|probe| probe.name).collect();
    if names.len() != all().count() {
        figures.miss("two probes have one name".to_owned());
    }
    let gaps: BTreeMap<Variant, String> =
        Variant::within().map(|variant| (variant, runs::gaps(variant))).collect();

    let jobs: Vec<(&Probe, Variant)> = probes
        .iter()
        .flat_map(|probe| Variant::of(probe.modes).map(move |variant| (*probe, variant)))
        .collect();
    let outcomes: Mutex<Vec<(&Probe, Variant, Outcome)>> = Mutex::default();
    let next = AtomicUsize::new(0);
    let is_said = std::env::var_os("NAGENT_PROBES_SAY").is_some();
    std::thread::scope(|scope| {
        // Most of a run is waiting for the kernel to make and take down namespaces.
        for _ in 0..HANDS {
            scope.spawn(|| {
                while let Some((probe, variant)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = runs::run(&ground, probe, *variant);
                    if is_said {
                        println!("  {variant}: {}: {outcome:?}", probe.name);
                    }
                    outcomes.lock().unwrap().push((*probe, *variant, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap();
    outcomes.sort_by_key(|(probe, variant, _)| (*variant, probe.name));
    tell(figures, &probes, &outcomes, &gaps, only.is_empty());
    if only.is_empty() || "nagent".contains(&only) {
        through_nagent::run(figures);
    }
}

fn tell(
    figures: &mut Figures,
    probes: &[&Probe],
    outcomes: &[(&Probe, Variant, Outcome)],
    gaps: &BTreeMap<Variant, String>,
    is_all: bool,
) {
    let of = |wanted: Variant| outcomes.iter().filter(move |(_, variant, _)| *variant == wanted);
    for (probe, variant, outcome) in outcomes {
        if let Some(why) = &outcome.broken {
            figures.miss(format!("{variant}: {} could not run: {why}", probe.name));
        }
    }
    if is_all {
        figures.at_least("probes", probes.len(), 60);
    }
    let live = of(Variant::CONTROL).filter(|(probe, _, outcome)| {
        if outcome.through.is_none() {
            figures.miss(format!(
                "{} is dead: without the sandbox it did not get through ({})",
                probe.name, outcome.said
            ));
        }
        outcome.through.is_some()
    });
    let live = live.count();
    figures.exactly("controls that got through, as root", live, probes.len());
    let plain =
        of(Variant::CONTROL_NOBODY).filter(|(.., outcome)| outcome.through.is_some()).count();
    figures.row("of those, as nobody", plain, "for information", true);
    for probe in probes {
        if let Some(why) = probe.weaker {
            println!("  note {}: a weaker control: {why}", probe.name);
        }
    }
    let mut open: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for variant in Variant::within() {
        let tried = of(variant).count();
        let through = of(variant).filter(|(probe, _, outcome)| {
            let Some(how) = &outcome.through else { return false };
            let is_named = probe.gap.is_some_and(|words| gaps[&variant].contains(words));
            if is_named {
                open.entry(variant.kind()).or_default().insert(probe.name);
            } else {
                figures.miss(format!(
                    "{variant}: {} ({}) got through: {how}",
                    probe.name, probe.about
                ));
            }
            !is_named
        });
        let through = through.count();
        figures.exactly(&format!("{tried} probes, {variant}: through"), through, 0);
    }
    for (kind, names) in open {
        let list: Vec<&str> = names.into_iter().collect();
        figures.row(
            &format!("gaps named by {kind}: {}", list.join(", ")),
            list.len(),
            "named by --status",
            true,
        );
    }
}
