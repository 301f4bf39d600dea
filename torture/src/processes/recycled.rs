//! Numbers of processes that go round in milliseconds: who signals a number, and not the process that had it, hits a stranger.
//!
//! Needs root, unshare, perl, and Linux 6.14: there a namespace of processes has a largest number of its own.

use std::fs;
use std::time::Duration;

use super::is_running;
use crate::figures::Figures;
use crate::sandbox::{NAGENT, Sandbox};

/// The largest number in there. The kernel keeps the first 300 for its start.
const LARGEST: usize = 500;

/// Runs side by side, and how many commands each.
const RUNS: usize = 4;
const COMMANDS: usize = 6;

/// Starts strangers without end, a session each, that live for milliseconds. One that is signalled writes a line; of one
/// that vanishes by a signal its parent does. With CONTROL, it signals two itself.
const STRANGERS: &str = r#"
use POSIX;
my ($folder, $alive) = @ARGV;
my $note = sub { open my $file, '>>', "$folder/signalled"; print $file "@_\n" };
for my $name (qw(TERM INT HUP CONT QUIT USR1 USR2 ALRM)) { $SIG{$name} = sub { $note->("$$ $name") } }
my ($count, %alive) = (0);
until (-e "$folder/stop") {
    while (keys %alive < $alive) {
        my $pid = fork;
        last unless defined $pid;
        if (!$pid) { POSIX::setsid(); select undef, undef, undef, 0.002 + rand 0.02; POSIX::_exit(0) }
        $alive{$pid} = 1;
        $count++;
        kill TERM => $pid if $ENV{CONTROL} && $count == 10;
        kill KILL => $pid if $ENV{CONTROL} && $count == 20;
    }
    my $pid = waitpid -1, 0;
    delete $alive{$pid};
    $note->("$pid died of signal " . ($? & 127)) if $pid > 0 && $? & 127;
}
open my $file, '>', "$folder/started";
print $file $count;
"#;

/// Is pid 1 in there: strangers, and runs beside them. First a control that signals strangers.
const SCRIPT: &str = r#"
echo $4 > /proc/sys/kernel/pid_max || exit 9
mkdir control strangers
(sleep 0.5; : > control/stop) &
CONTROL=1 perl strangers.pl control 20
perl strangers.pl strangers 60 &
runs=
for n in $(seq $2); do "$1" --conversation c$n --max-turns $3 task >out.$n 2>&1 & runs="$runs $!"; done
wait $runs
: > strangers/stop
wait
"#;

pub(super) fn run(figures: &mut Figures) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(14)) {
        // It would be the number of the whole machine.
        return figures.miss(format!("recycled numbers take Linux 6.14, and this is {release}"));
    }
    let most = || fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    let before = most();
    let sandbox = Sandbox::new();
    let command = "<nagent-shell timeout=\"1\">trap '' TERM; (setsid sleep 30 &); (setsid sh -c '(sleep 30 &) & exit' &); \
        nohup sleep 30 >/dev/null & sleep 30</nagent-shell>";
    // Conversations side by side are no rewrites of one.
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(move |_| command.into());
    let script = sandbox.write("strangers.pl", STRANGERS);
    assert!(script.is_file());
    let numbers = [RUNS, COMMANDS, LARGEST].map(|number| number.to_string());
    let words =
        ["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", SCRIPT, "sh", NAGENT];
    let words: Vec<&str> = words.into_iter().chain(numbers.iter().map(String::as_str)).collect();
    let running = sandbox.program("unshare", &words).spawn();
    assert!(is_running(&running));
    let run = running.wait_up_to(Duration::from_mins(2));
    if run.code != 0 {
        figures.miss(format!("recycled numbers: {run:?}"));
    }
    if most() != before {
        figures.miss("recycled numbers: the machine's own largest number was changed".to_owned());
    }
    let lines = |path: &str| {
        let text = fs::read_to_string(sandbox.work().join(path)).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let ended = |path: &std::path::PathBuf| {
        let blocks = crate::blocks::blocks(&fs::read_to_string(path).unwrap());
        let results = blocks.iter().filter(|block| block.name == "nagent-shell-result");
        results.filter(|block| format!("{block:?}").contains("killed after 1 s")).count()
    };
    let ended: usize = sandbox.conversation_paths().iter().map(ended).sum();
    figures.exactly(
        "recycled numbers: commands ended by their time limit, with escapees",
        ended,
        RUNS * COMMANDS,
    );
    figures.exactly(
        "control: strangers that noticed a signal",
        lines("control/signalled").len(),
        2,
    );
    let started = lines("strangers/started").first().and_then(|count| count.parse().ok());
    let started: usize = started.unwrap_or(0);
    figures.at_least("strangers started", started, 10 * LARGEST);
    let signalled = lines("strangers/signalled");
    figures.exactly("signals that a stranger got", signalled.len(), 0);
    for line in signalled.iter().take(5) {
        figures.miss(format!("a stranger was signalled: {line}"));
    }
}
