//! What makes time pass for tests: busy processors, and stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cmd::Cmd;

/// Threads that compute until this is dropped.
#[derive(Debug)]
pub(super) struct BusyLoops(Arc<AtomicBool>);

impl BusyLoops {
    pub(super) fn start(number: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..number {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(is_over)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Stops a process at random moments, without its children, until this is dropped.
#[derive(Debug)]
pub(super) struct Stops {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stops {
    pub(super) fn start(process: u32, seed: u64) -> Self {
        let (end, has_ended) = channel::<()>();
        let thread = thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let pause = |random: &mut fastrand::Rng| Duration::from_millis(random.u64(0..MAX_PAUSE));
            while has_ended.recv_timeout(pause(&mut random)) == Err(RecvTimeoutError::Timeout) {
                stop(process);
            }
        });
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Stops {
    fn drop(&mut self) {
        drop(self.end.take());
        // A panic of the thread stops nothing any more.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A shell does it, which continues the process even if this program is interrupted meanwhile.
fn stop(process: u32) {
    let script = r#"trap '' INT TERM HUP; kill -STOP "$1" && sleep 0.2; kill -CONT "$1""#;
    // The process may have ended.
    let _ = Cmd::new("sh").args("-c").word(script).word("sh").word(&process.to_string()).output(".".as_ref());
}

/// Milliseconds between two stops, at most.
const MAX_PAUSE: u64 = 3_000;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn stopped_process_continues() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        stop(child.id());
        let state = fs::read_to_string(format!("/proc/{}/stat", child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        // Where there is no such file, a signal has ended the process all the same.
        assert!(!state.unwrap_or_default().contains(" T "));
    }
}
