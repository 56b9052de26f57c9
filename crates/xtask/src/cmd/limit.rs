//! Ends commands that take too long, and names the tests that they were running.

use std::io;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Calls `wait`, which returns when the process `id` has ended. At the limit the process and its descendants are killed, and the
/// result is `None`.
pub(super) fn within<T>(
    limit: Duration,
    id: u32,
    wait: impl FnOnce() -> io::Result<T>,
) -> io::Result<Option<T>> {
    let (ended, has_ended) = channel::<()>();
    thread::scope(|scope| {
        let guard = scope.spawn(move || {
            let is_late = has_ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if is_late {
                kill_with_descendants(id);
            }
            is_late
        });
        let result = wait();
        drop(ended);
        let is_late = guard.join().expect("the guard does not panic");
        if is_late { Ok(None) } else { result.map(Some) }
    })
}

/// Kills a process and its descendants. They are found by their parents, because a process group of their own would not get the
/// Ctrl-C of a terminal.
fn kill_with_descendants(id: u32) {
    let mut processes = vec![id];
    if let Ok(list) = Command::new("ps").args(["-A", "-o", "pid=", "-o", "ppid="]).output() {
        let list = String::from_utf8_lossy(&list.stdout);
        let pairs: Vec<_> = list.lines().filter_map(process_and_parent).collect();
        let mut next = 0;
        while let Some(parent) = processes.get(next).copied() {
            let children = pairs.iter().filter(|(_, of)| *of == parent).map(|(process, _)| *process);
            processes.extend(children);
            next += 1;
        }
    }
    let processes = processes.iter().map(u32::to_string);
    // Processes that have ended meanwhile cannot be killed.
    let _ = Command::new("sh").args(["-c", r#"kill -KILL "$@" 2>/dev/null"#, "sh"]).args(processes).status();
}

fn process_and_parent(line: &str) -> Option<(u32, u32)> {
    let (process, parent) = line.trim().split_once(' ')?;
    Some((process.parse().ok()?, parent.trim().parse().ok()?))
}

/// The lines in which a test program reports that a test is slow, without those of tests that have ended since then.
#[derive(Debug, Default)]
pub(super) struct SlowTests(Vec<String>);

impl SlowTests {
    /// Reads a line of a test program.
    pub(super) fn read(&mut self, line: &str) {
        if line.contains(SLOW) {
            self.0.push(line.to_owned());
        } else if let Some((test, _)) = line.split_once(" ... ") {
            self.0.retain(|slow| slow.split_once(SLOW).is_none_or(|(slow, _)| slow != test));
        }
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.0
    }
}

const SLOW: &str = " has been running for over ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_tests_that_have_ended_are_left_out() {
        let mut slow = SlowTests::default();
        for line in [
            "test quick ... ok\n",
            "test one has been running for over 60 seconds\n",
            "test one::hangs has been running for over 60 seconds\n",
            "test one ... ok\n",
            "test other ... FAILED\n",
        ] {
            slow.read(line);
        }
        assert_eq!(slow.lines(), ["test one::hangs has been running for over 60 seconds\n"]);
    }

    #[test]
    fn processes_are_read_with_their_parents() {
        assert_eq!(process_and_parent("    7     1"), Some((7, 1)));
        assert_eq!(process_and_parent("4194304 17"), Some((4_194_304, 17)));
        assert_eq!(process_and_parent("PID PPID"), None);
    }
}
