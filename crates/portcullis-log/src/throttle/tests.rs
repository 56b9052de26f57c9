use std::sync::Mutex;

use super::*;

/// What the lines have counted.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<Counted>>>);

impl Written {
    fn count(&self, throttle: &LogThrottle, units: u64, unsaid: Option<&UnsaidLines>) {
        let lines = Arc::clone(&self.0);
        throttle.count(units, unsaid, || move |counted| lines.lock().unwrap().push(counted));
    }

    /// The events of each line since the last look.
    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.lock().unwrap()).iter().map(|counted| counted.events).collect()
    }
}

async fn advance(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unsaid_events_trail_when_the_interval_is_over() {
    let (throttle, written) = (LogThrottle::per_minute(), Written::default());
    for units in 1..=10 {
        written.count(&throttle, units, None);
    }
    assert_eq!(written.take(), [1]);
    advance(59).await;
    assert_eq!(written.take(), [0; 0]);
    advance(1).await;
    assert_eq!(*written.0.lock().unwrap(), [Counted { events: 9, units: 54 }]);
    written.take();
    // The line begins the next minute, and its timer has ended.
    written.count(&throttle, 1, None);
    assert_eq!(written.take(), [0; 0]);
    advance(60).await;
    assert_eq!(written.take(), [1]);
    advance(600).await;
    assert_eq!(written.take(), [0; 0]);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    written.count(&throttle, 1, None);
    assert_eq!(written.take(), [1]);
}

#[tokio::test(start_paused = true)]
async fn some_lines_are_written_at_once() {
    let (throttle, written) = (LogThrottle::at_most_per_minute(3), Written::default());
    for _ in 0..10 {
        written.count(&throttle, 0, None);
    }
    assert_eq!(written.take(), [1, 1, 1]);
    advance(60).await;
    assert_eq!(written.take(), [7]);
    // The line of the timer is one of the next three.
    for _ in 0..4 {
        written.count(&throttle, 0, None);
    }
    assert_eq!(written.take(), [1, 1]);
    advance(60).await;
    assert_eq!(written.take(), [2]);
}

#[tokio::test(start_paused = true)]
async fn one_timer_runs_for_a_line() {
    let (throttle, written) = (LogThrottle::per_minute(), Written::default());
    for _ in 0..100 {
        written.count(&throttle, 0, None);
    }
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 1);
}

#[test]
fn events_without_a_runtime_are_written_at_the_end() {
    let (throttle, written, unsaid) = (LogThrottle::hourly(), Written::default(), UnsaidLines::default());
    for _ in 0..3 {
        written.count(&throttle, 0, Some(&unsaid));
    }
    assert_eq!(written.take(), [1]);
    unsaid.write();
    assert_eq!(written.take(), [2]);
    unsaid.write();
    assert_eq!(written.take(), [0; 0]);
}

#[test]
fn next_event_starts_a_timer_if_a_runtime_has_ended() {
    let (throttle, written) = (LogThrottle::per_minute(), Written::default());
    let paused =
        || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    paused().block_on(async {
        for _ in 0..3 {
            written.count(&throttle, 0, None);
        }
    });
    assert_eq!(written.take(), [1]);
    paused().block_on(async {
        written.count(&throttle, 0, None);
        // The clocks of both runtimes began at different times.
        advance(61).await;
    });
    assert_eq!(written.take(), [3]);
}

#[test]
fn lines_that_are_gone_are_not_kept() {
    let (unsaid, written) = (UnsaidLines::default(), Written::default());
    for _ in 0..1_000 {
        let throttle = LogThrottle::hourly();
        for _ in 0..2 {
            written.count(&throttle, 0, Some(&unsaid));
        }
    }
    assert!(format!("{unsaid:?}").matches("Weak").count() <= 2 * 64);
    unsaid.write();
    assert!(written.take().iter().all(|events| *events == 1));
}
