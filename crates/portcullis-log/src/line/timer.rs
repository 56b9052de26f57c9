//! The timer that writes a line when its interval is over.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use tokio::runtime::Handle;

use super::CountedLine;

/// Starts the timer of a line, unless it runs or there is no runtime. If its runtime ends before it, the next event starts another.
pub(super) fn start(line: &Arc<CountedLine>) {
    if line.has_timer.load(SeqCst) || line.has_timer.swap(true, SeqCst) {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return line.has_timer.store(false, SeqCst) };
    // Boxed, because each type of a task adds 10 KB of Tokio's code to a program.
    let run: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(run(Timer(Arc::clone(line))));
    runtime.spawn(run);
}

async fn run(timer: Timer) {
    let line = Arc::clone(&timer.0);
    // Again if an event has written a line meanwhile, and others were counted after it.
    while line.is_unsaid.load(SeqCst) && !line.left().is_zero() {
        tokio::time::sleep(line.left()).await;
    }
    line.write_unsaid();
    drop(timer);
    // Counted while the timer ended.
    if line.is_unsaid.load(SeqCst) {
        start(&line);
    }
}

/// Says that a line has a timer, also while its runtime ends.
struct Timer(Arc<CountedLine>);

impl Drop for Timer {
    fn drop(&mut self) {
        // Where a runtime has no timers, one task panics, and not one for each event.
        if !std::thread::panicking() {
            self.0.has_timer.store(false, SeqCst);
        }
    }
}
