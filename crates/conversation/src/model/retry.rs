//! Decides whether to retry a request, and how long to wait before it. It reads no clock and does not wait.
//!
//! The waits double from half a second to eight, each shortened at random by up to a quarter, and none is shorter than
//! the server requested. All waits together stay within the patience; a rest below 50 ms is not waited for. If the
//! server requests more than the rest, there is no retry: a shorter wait would only fail again.

use std::time::Duration;

use super::{ApiError, ErrorKind};

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(8);
/// Maximum number of retries of a broken or cut-off reply: a fifth rarely helps, and each may cost a whole reply.
const BREAKS: u32 = 4;

fn is_worth_a_retry(error: &ApiError) -> bool {
    let again = error.should_retry.unwrap_or_else(|| error.kind.is_retryable());
    again && error.kind != ErrorKind::NoCredit
}

/// The retries of one request.
#[derive(Debug, Clone)]
pub struct Retry {
    left: Duration,
    tries: u32,
    breaks: u32,
}

impl Retry {
    /// Retries that wait for `patience` in total.
    pub fn new(patience: Duration) -> Self {
        Self { left: patience, tries: 0, breaks: 0 }
    }

    /// The final error message: the error, and whether a longer wait could help.
    pub fn final_message(&self, error: &ApiError) -> String {
        let message = &error.message;
        match error.retry_after {
            Some(asked) if error.kind.is_retryable() && asked > self.left => format!(
                "{message}; the server asks to wait {:.0} s, more than the rest of --patience",
                asked.as_secs_f64().ceil()
            ),
            _ if self.tries > 0 && is_worth_a_retry(error) => {
                format!(
                    "{message}; given up after {} tries (--patience S waits longer)",
                    self.tries + 1
                )
            }
            _ => message.clone(),
        }
    }

    /// The wait before the next try; `None`: give up. `jitter` is from 0 to 1. Exhausted credit is never retried.
    pub fn next_wait(&mut self, error: &ApiError, jitter: f64) -> Option<Duration> {
        if !is_worth_a_retry(error) || self.left < Duration::from_millis(50) {
            return None;
        }
        if matches!(error.kind, ErrorKind::Cut | ErrorKind::Broken) {
            if self.breaks == BREAKS {
                return None;
            }
            self.breaks += 1;
        }
        let step = FIRST.saturating_mul(1 << self.tries.min(16)).min(LONGEST);
        self.tries += 1;
        let jitter = if jitter.is_nan() { 0.0 } else { jitter.clamp(0.0, 1.0) };
        let wait = step
            .mul_f64(1.0 - 0.25 * jitter)
            .min(self.left)
            .max(error.retry_after.unwrap_or_default());
        self.left = self.left.checked_sub(wait)?;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use proptest::prelude::*;

    fn error(kind: ErrorKind) -> ApiError {
        ApiError::new(kind, "m")
    }

    fn waits(retry: &mut Retry, error: &ApiError, jitter: f64) -> Vec<u128> {
        std::iter::from_fn(|| retry.next_wait(error, jitter))
            .map(|wait| wait.as_millis())
            .take(1000)
            .collect()
    }

    #[test]
    fn waits_double_and_end_with_the_patience() {
        let mut retry = Retry::new(limits::PROVIDER_PATIENCE);
        assert_eq!(
            waits(&mut retry, &error(ErrorKind::Busy), 0.0),
            [500, 1000, 2000, 4000, 8000, 8000, 6500]
        );
        let mut retry = Retry::new(Duration::from_secs(3));
        assert_eq!(waits(&mut retry, &error(ErrorKind::Busy), 1.0), [375, 750, 1500, 375]);
        let mut retry = Retry::new(Duration::from_millis(549));
        assert_eq!(waits(&mut retry, &error(ErrorKind::Busy), 0.0), [500]);
        assert_eq!(Retry::new(Duration::ZERO).next_wait(&error(ErrorKind::Busy), 0.5), None);
    }

    #[test]
    fn the_server_is_obeyed() {
        let asks = |seconds| ApiError {
            retry_after: Some(Duration::from_secs(seconds)),
            ..error(ErrorKind::Busy)
        };
        assert_eq!(
            waits(&mut Retry::new(limits::PROVIDER_PATIENCE), &asks(12), 1.0),
            [12_000, 12_000]
        );
        assert_eq!(Retry::new(limits::PROVIDER_PATIENCE).next_wait(&asks(31), 0.0), None);
        let no = ApiError { should_retry: Some(false), ..error(ErrorKind::Busy) };
        assert_eq!(Retry::new(limits::PROVIDER_PATIENCE).next_wait(&no, 0.0), None);
        let yes = ApiError { should_retry: Some(true), ..error(ErrorKind::Other) };
        assert!(Retry::new(limits::PROVIDER_PATIENCE).next_wait(&yes, 0.0).is_some());
        let credit = ApiError { should_retry: Some(true), ..error(ErrorKind::NoCredit) };
        assert_eq!(Retry::new(limits::PROVIDER_PATIENCE).next_wait(&credit, 0.0), None);
    }

    #[test]
    fn what_does_not_mend_is_not_tried_again() {
        use ErrorKind::{Auth, NoCredit, NoModel, Other, Refused, TooLong};
        for kind in [Auth, NoCredit, NoModel, Other, Refused, TooLong] {
            assert_eq!(
                Retry::new(limits::PROVIDER_PATIENCE).next_wait(&error(kind), 0.0),
                None,
                "{kind:?}"
            );
        }
        for kind in [ErrorKind::Cut, ErrorKind::Broken] {
            assert_eq!(
                waits(&mut Retry::new(limits::PROVIDER_PATIENCE), &error(kind), 0.0).len(),
                4,
                "{kind:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_patience_holds(patience in 0u64..100, steps in prop::collection::vec((0u8..9, any::<f64>(), prop::option::of(0u64..40)), 0..40)) {
            use ErrorKind::{Auth, Broken, Busy, Cut, NoCredit, NoModel, Other, Refused, TooLong};
            let kinds = [Busy, Broken, Cut, Auth, NoCredit, TooLong, Refused, NoModel, Other];
            let mut retry = Retry::new(Duration::from_secs(patience));
            let mut total = Duration::ZERO;
            for (kind, jitter, after) in steps {
                let error = ApiError { retry_after: after.map(Duration::from_secs), ..error(kinds[usize::from(kind)]) };
                if let Some(wait) = retry.next_wait(&error, jitter) {
                    prop_assert!(wait >= error.retry_after.unwrap_or_default());
                    total += wait;
                }
            }
            prop_assert!(total <= Duration::from_secs(patience));
        }
    }
}
