//! The exit codes of every executable, and the signals that end one.

/// The outcome of a run. The number is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exit {
    /// 0: done.
    #[default]
    Done,
    /// 1: the tool failed, because of a file, a hash, git, I/O, or a lock that was not released.
    Failed,
    /// 2: wrong usage, wrong configuration, no credential.
    Usage,
    /// 3: the provider failed after retries, or refused.
    Provider,
    /// 4: the model's reply stayed malformed after retries.
    Malformed,
    /// 5: a limit was reached: turns, tokens, cost, seconds.
    Limit,
    /// 6: `--check` never passed.
    Unchecked,
    /// 129, 130, 143: a signal ended it.
    Signal(Signal),
    /// The exit code of the command that the tool ran.
    Command(u8),
}

impl Exit {
    /// Every exit in the order of their numbers, except for the exit code of a command.
    pub const ALL: [Self; 10] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Provider,
        Self::Malformed,
        Self::Limit,
        Self::Unchecked,
        Self::Signal(Signal::Hup),
        Self::Signal(Signal::Int),
        Self::Signal(Signal::Term),
    ];

    /// The exit with this number, if there is one.
    pub fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| u64::from(exit.code()) == code)
    }

    /// The number that the process exits with.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Provider => 3,
            Self::Malformed => 4,
            Self::Limit => 5,
            Self::Unchecked => 6,
            Self::Signal(signal) => 128 + signal.number(),
            Self::Command(code) => code,
        }
    }
}

/// A signal that ends the current work, with its number, which is the same on every Unix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The terminal was closed.
    Hup = 1,
    /// Ctrl-C.
    Int = 2,
    /// `kill`'s default.
    Term = 15,
}

impl Signal {
    /// The signal's number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The signal's usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hup => "SIGHUP",
            Self::Int => "SIGINT",
            Self::Term => "SIGTERM",
        }
    }
}
