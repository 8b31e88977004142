//! The worker threads: started on demand, kept for a moment in case there is more to do, ended
//! when there is not.

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use std::time::Duration;

/// Stack of a worker: TLS and JSON need some, and it is only touched as far as it is used.
const STACK_BYTES: usize = 1024 * 1024;
/// How long an idle worker waits for more to do.
const IDLE: Duration = Duration::from_secs(5);

type Work = Box<dyn FnOnce() + Send>;

/// The crew. Work never waits: where nobody is idle, another worker starts.
#[derive(Debug)]
pub(super) struct Crew {
    /// A hand-over without a queue: it succeeds only if an idle worker is waiting.
    hand: Sender<Work>,
    idle: Receiver<Work>,
}

impl Crew {
    pub fn new() -> Crew {
        let (hand, idle) = bounded(0);
        Crew { hand, idle }
    }

    /// Runs some work on a worker; `false` if the system gave us no thread for it.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let work: Work = Box::new(work);
        let work = match self.hand.try_send(work) {
            Ok(()) => return true,
            Err(TrySendError::Full(work) | TrySendError::Disconnected(work)) => work,
        };
        let idle = self.idle.clone();
        let body = move || {
            work();
            while let Ok(next) = idle.recv_timeout(IDLE) {
                next();
            }
        };
        let builder = std::thread::Builder::new().name("worker".into()).stack_size(STACK_BYTES);
        builder.spawn(body).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn work_runs_at_once_and_threads_are_used_again() {
        let crew = Crew::new();
        let (sender, seen) = bounded(8);
        let names = |count: usize| {
            for _ in 0..count {
                let sender = sender.clone();
                assert!(crew.spawn(move || {
                    thread::sleep(Duration::from_millis(30));
                    let _ = sender.send(thread::current().id());
                }));
            }
            (0..count).filter_map(|_| seen.recv().ok()).collect::<Vec<_>>()
        };
        let first = names(2);
        assert_ne!(first[0], first[1], "both ran at once");
        thread::sleep(Duration::from_millis(30));
        assert!(first.contains(&names(1)[0]), "an idle worker was used again");
    }
}
