//! Retries for every tool that asks a model outside of the loop.

use std::time::Duration;

use super::files::NewFile;
use super::{ModelClient, RequestError};
use conversation::model::{Reply, Retry};
use models::error::check_window;
use models::{Arrival, ChatRequest};
use sys::interrupt::Interrupts;

/// Makes attempts until one succeeds, `retry` gives up, or a signal comes, which ends a wait at once.
///
/// Each attempt gets `report` for lines of its own. The final error says how often it was tried, and whether waiting
/// longer could help.
pub fn with_retries<T>(
    retry: &mut Retry,
    interrupts: &Interrupts,
    report: &mut dyn FnMut(&str),
    mut attempt: impl FnMut(&mut dyn FnMut(&str)) -> Result<T, RequestError>,
) -> Result<T, RequestError> {
    loop {
        let mut error = match attempt(report) {
            Err(RequestError::Api(error)) => error,
            other => return other,
        };
        let Some(time) = retry.next_wait(&error, random_fraction()) else {
            error.message = retry.final_message(&error);
            return Err(error.into());
        };
        report(&format!("{error}; trying again in {:.1} s", time.as_secs_f64()));
        if let Some(signal) = interrupts.wait_for_signal(Some(time)) {
            return Err(RequestError::Interrupted(signal));
        }
    }
}

/// A random number from 0 to 1, to spread retries.
pub fn random_fraction() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

impl ModelClient {
    /// Asks the model, about a file if there is one, with retries for `patience` in total. A prompt beyond the model's window is
    /// refused before that.
    pub fn ask_with_retries(
        &mut self,
        ask: &mut ChatRequest<'_>,
        file: Option<&NewFile<'_>>,
        patience: Duration,
        interrupts: &Interrupts,
        report: &mut dyn FnMut(&str),
    ) -> Result<Reply, RequestError> {
        if let Some(error) = check_window(ask.text_bytes(), ask.model, ask.window) {
            return Err(error.into());
        }
        let reply = with_retries(&mut Retry::new(patience), interrupts, report, |report| {
            // Lines of reasoning, where they are asked for.
            let mut thoughts = String::new();
            let mut on_arrival = |piece: Arrival<'_>| match piece {
                Arrival::Thought(text) => thoughts.push_str(text),
                Arrival::Text(_) => {}
            };
            let attached =
                file.map_or(Ok(()), |file| self.attach_file(ask, file, Some(interrupts)));
            let result =
                attached.and_then(|()| self.request_reply(ask, &mut on_arrival, interrupts));
            self.notes.drain(..).for_each(|note| report(&format!("note: {note}")));
            if ask.options.shows_reasoning {
                for line in thoughts.lines().filter(|line| !line.trim().is_empty()) {
                    report(&format!("· {line}"));
                }
            }
            result.map_err(|error| error.map_message(|error| self.explain(error, ask.model)))
        });
        for note in self.remove_uploads(interrupts) {
            report(&format!("note: {note}"));
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conversation::exit::Signal;
    use conversation::model::{ApiError, ErrorKind};

    /// The tries, their outcome, and the lines, where all but the `good`th try fail with `kind`.
    fn check(
        kind: ErrorKind,
        good: usize,
        interrupts: &Interrupts,
    ) -> (usize, String, Vec<String>) {
        let (mut tries, mut lines) = (0, Vec::new());
        let mut retry = Retry::new(Duration::from_millis(200));
        let result =
            with_retries(&mut retry, interrupts, &mut |line| lines.push(line.to_owned()), |_| {
                tries += 1;
                if tries == good { Ok(tries) } else { Err(ApiError::new(kind, "no").into()) }
            });
        let result = match result {
            Ok(tries) => format!("ok {tries}"),
            Err(RequestError::Api(error)) => error.message,
            Err(RequestError::Interrupted(signal)) => signal.name().to_owned(),
        };
        (tries, result, lines)
    }

    #[test]
    fn it_tries_again_while_that_may_help() {
        let none = Interrupts::without_handlers().unwrap();
        let (tries, result, lines) = check(ErrorKind::Busy, 2, &none);
        assert_eq!((tries, result.as_str()), (2, "ok 2"));
        assert!(lines[0].starts_with("no; trying again in 0."), "{lines:?}");
        let (tries, result, _) = check(ErrorKind::Busy, 99, &none);
        assert!(tries == 2 && result.starts_with("no; given up after 2 tries"), "{tries} {result}");
        assert_eq!(check(ErrorKind::Auth, 99, &none), (1, "no".to_owned(), Vec::new()));
        // Waiting longer would not help.
        let mut retry = Retry::new(Duration::from_secs(9));
        assert!(retry.next_wait(&ApiError::new(ErrorKind::Busy, "busy"), 0.5).is_some());
        assert_eq!(retry.final_message(&ApiError::new(ErrorKind::Auth, "no key")), "no key");
    }

    #[test]
    fn a_signal_ends_the_wait() {
        let interrupts = Interrupts::without_handlers().unwrap();
        interrupts.raise(Signal::Int);
        let (tries, result, _) = check(ErrorKind::Busy, 99, &interrupts);
        assert_eq!((tries, result.as_str()), (1, "SIGINT"));
    }
}
