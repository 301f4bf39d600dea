//! A request that is sent again while that may help: the retries of every tool that asks a model outside the loop.
//!
//! When and how often is [`Retry`]'s to say; here is the waiting, and the line that tells of it. The loop has its own
//! retries, as effects (see [`crate::turn`]). It prints nothing: lines go to the caller, without the tool's name.

use std::time::Duration;

use super::ask::{AskError, Source};
use super::{fits_nowhere, jitter, name_cause};
use crate::llm::retry::Retry;
use crate::llm::{Ask, Reply};
use crate::sys::clock;
use crate::sys::interrupt::Interrupts;

/// Makes attempts until one succeeds, `retry` says no, or a signal comes.
///
/// Each attempt gets `tell`, for lines of its own. The error that is given back has the last word of `retry` as its
/// message: how often it was tried, and what more waiting could do. A signal ends a wait at once.
pub fn patiently<T>(
    retry: &mut Retry,
    interrupts: &Interrupts,
    tell: &mut dyn FnMut(&str),
    mut attempt: impl FnMut(&mut dyn FnMut(&str)) -> Result<T, AskError>,
) -> Result<T, AskError> {
    loop {
        let mut error = match attempt(tell) {
            Err(AskError::Api(error)) => error,
            other => return other,
        };
        let Some(time) = retry.next(&error, jitter()) else {
            error.message = retry.last_word(&error);
            return Err(error.into());
        };
        tell(&format!("{error}; trying again in {:.1} s", time.as_secs_f64()));
        if let Some(signal) = clock::sleep_interruptible(time, interrupts) {
            return Err(AskError::Interrupted(signal));
        }
    }
}

/// Asks a model, patiently. Waits `patience` in all; what cannot fit the model's window is refused unsent.
///
/// The error names the variable that a refused credential came from, and a model that is not there.
pub fn ask(
    source: &mut Source,
    ask: &Ask<'_>,
    patience: Duration,
    interrupts: &Interrupts,
    tell: &mut dyn FnMut(&str),
) -> Result<Reply, AskError> {
    if let Some(error) = fits_nowhere(ask.text_bytes(), ask.model, ask.window) {
        return Err(error.into());
    }
    patiently(&mut Retry::new(patience), interrupts, tell, |tell| {
        let result = source.model.ask(ask, &mut |_| (), interrupts);
        source.tell_notes(tell);
        result.map_err(|error| source.with_cause(error, ask.model))
    })
}

impl Source {
    /// Hands on the notes that arose while asking, each once.
    pub fn tell_notes(&mut self, tell: &mut dyn FnMut(&str)) {
        for note in self.model.notes.drain(..) {
            tell(&format!("note: {note}"));
        }
    }

    /// The error with the variable that a refused credential came from, or the name of a model that is not there.
    pub fn with_cause(&self, error: AskError, model: &str) -> AskError {
        match error {
            AskError::Api(mut error) => {
                error.message = name_cause(&error, self.credential.as_deref(), model);
                AskError::Api(error)
            }
            AskError::Interrupted(_) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Signal;
    use crate::llm::{ApiError, ErrorKind};

    /// The tries, what came of them, and the lines, where all but the `good`th try fail with `kind`.
    fn check(
        kind: ErrorKind,
        good: usize,
        interrupts: &Interrupts,
    ) -> (usize, String, Vec<String>) {
        let (mut tries, mut lines) = (0, Vec::new());
        let mut retry = Retry::new(Duration::from_millis(200));
        let result =
            patiently(&mut retry, interrupts, &mut |line| lines.push(line.to_owned()), |_| {
                tries += 1;
                if tries == good { Ok(tries) } else { Err(ApiError::new(kind, "no").into()) }
            });
        let result = match result {
            Ok(tries) => format!("ok {tries}"),
            Err(AskError::Api(error)) => error.message,
            Err(AskError::Interrupted(signal)) => signal.name().to_owned(),
        };
        (tries, result, lines)
    }

    #[test]
    fn it_tries_again_while_that_may_help() {
        let none = Interrupts::none();
        let (tries, result, lines) = check(ErrorKind::Busy, 2, &none);
        assert_eq!((tries, result.as_str()), (2, "ok 2"));
        assert!(lines[0].starts_with("no; trying again in 0."), "{lines:?}");
        let (tries, result, _) = check(ErrorKind::Busy, 99, &none);
        assert!(tries == 2 && result.starts_with("no; given up after 2 tries"), "{tries} {result}");
        assert_eq!(check(ErrorKind::Auth, 99, &none), (1, "no".to_owned(), Vec::new()));
    }

    #[test]
    fn a_signal_ends_the_wait() {
        let interrupts = Interrupts::none();
        interrupts.raise(Signal::Int);
        let (tries, result, _) = check(ErrorKind::Busy, 99, &interrupts);
        assert_eq!((tries, result.as_str()), (1, "SIGINT"));
    }
}
