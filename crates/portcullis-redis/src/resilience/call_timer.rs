//! One timer for the deadlines of all calls on a link.
//!
//! A timer that is due before all others wakes the thread that waits for sockets, and almost every call is answered before its own. Here a
//! task sleeps until the first deadline, then until that of the first call without a reply, and ends if there is none.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::deadline::{final_polls, wait_until};
use super::watch::watch;
use crate::lock::lock;

/// The deadlines of the calls on a link.
#[derive(Debug)]
pub(crate) struct CallTimer {
    runtime: Handle,
    state: Mutex<TimerState>,
}

#[derive(Debug, Default)]
struct TimerState {
    /// The calls that wait, each with an id, in the order of their deadlines.
    waiting: BTreeMap<(Instant, u64), Waker>,
    next_id: u64,
    /// When the task wakes; `None` without a task.
    watch: Option<Instant>,
    /// Whether the runtime of the task has ended, which is the end of every call.
    has_ended: bool,
}

impl CallTimer {
    /// Makes a timer whose task runs on this runtime.
    pub(crate) fn new(runtime: Handle) -> Arc<Self> {
        Arc::new(Self { runtime, state: Mutex::default() })
    }

    /// Like [`wait_until`]. A caller on another runtime has a timer of its own, because nothing may drive that of this one.
    pub(crate) async fn wait_until<T>(
        self: &Arc<Self>,
        end: Instant,
        reply: impl Future<Output = T>,
    ) -> Option<T> {
        if !self.is_driven_here() {
            return wait_until(end, reply).await;
        }
        let mut reply = pin!(reply);
        let mut wait = Wait { timer: self, end, id: None };
        let answered = poll_fn(|context| match reply.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if wait.is_over(context.waker()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        let answered = answered.await;
        drop(wait);
        match answered {
            Some(result) => Some(result),
            None => final_polls(reply).await,
        }
    }

    /// Whether the runtime of the timer is the one that runs the caller. Otherwise nothing may drive it.
    pub(crate) fn is_driven_here(&self) -> bool {
        Handle::try_current().is_ok_and(|current| current.id() == self.runtime.id())
    }

    /// Starts a task that wakes at the first deadline, `at`.
    fn watch(self: &Arc<Self>, at: Instant) {
        watch(&self.runtime, self, at, Self::expire, Self::end);
    }

    /// Wakes the calls whose deadlines have passed, and returns when the task that has slept until `watch` wakes next.
    fn expire(self: &Arc<Self>, watch: Instant) -> Option<Instant> {
        let (now, mut expired) = (Instant::now(), Vec::new());
        let mut state = lock(&self.state);
        while let Some(first) = state.waiting.first_entry().filter(|first| first.key().0 <= now) {
            expired.push(first.remove());
        }
        let mut next = None;
        // Otherwise another task wakes earlier, and then for the others.
        if state.watch == Some(watch) {
            next = state.waiting.first_key_value().map(|((end, _), _)| *end);
            state.watch = next;
        }
        drop(state);
        expired.into_iter().for_each(Waker::wake);
        next
    }

    /// Ends all calls that wait, because the runtime has ended.
    fn end(&self) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_values().for_each(Waker::wake);
    }
}

/// A call that waits.
struct Wait<'a> {
    timer: &'a Arc<CallTimer>,
    end: Instant,
    /// `None` before the first poll.
    id: Option<u64>,
}

impl Wait<'_> {
    /// Whether the deadline has passed. Otherwise the waker is called when it does.
    fn is_over(&mut self, waker: &Waker) -> bool {
        // The first time the task of the timer looks, soon.
        if self.id.is_some() && self.end <= Instant::now() {
            return true;
        }
        let mut state = lock(&self.timer.state);
        if state.has_ended {
            return true;
        }
        let id = *self.id.get_or_insert(state.next_id);
        state.next_id = state.next_id.max(id + 1);
        state.waiting.entry((self.end, id)).or_insert_with(|| waker.clone()).clone_from(waker);
        let is_unwatched = state.watch.is_none_or(|watch| self.end < watch);
        if is_unwatched {
            state.watch = Some(self.end);
        }
        drop(state);
        if is_unwatched {
            self.timer.watch(self.end);
        }
        false
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            lock(&self.timer.state).waiting.remove(&(self.end, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    impl CallTimer {
        /// The calls that wait, and whether a task watches over them.
        fn waiting(&self) -> (usize, bool) {
            let state = lock(&self.state);
            (state.waiting.len(), state.watch.is_some())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_call_ends_with_its_reply_or_at_its_deadline() {
        let timer = CallTimer::new(Handle::current());
        let start = Instant::now();
        assert_eq!(timer.wait_until(start + SECOND, ready(1)).await, Some(1));
        assert_eq!(timer.waiting(), (0, false), "a reply that is there needs no timer");
        let mut calls = JoinSet::new();
        for (number, replies, ends) in [(0, 9, 4), (1, 3, 4), (2, 9, 2), (3, 1, 2), (4, 9, 6), (5, 9, 1)] {
            let timer = Arc::clone(&timer);
            calls.spawn(async move {
                let reply = async {
                    sleep(SECOND * replies).await;
                    number
                };
                let answer = timer.wait_until(start + SECOND * ends, reply).await;
                assert_eq!(answer, (replies < ends).then_some(number));
                assert_eq!(start.elapsed().as_secs(), u64::from(replies.min(ends)));
            });
        }
        calls.join_all().await;
        sleep(SECOND).await;
        assert_eq!(timer.waiting(), (0, false));
    }

    #[test]
    fn call_ends_in_time_on_an_idle_runtime() {
        let [idle, other] = [(); 2].map(|()| Builder::new_current_thread().enable_time().build().unwrap());
        let timer = CallTimer::new(idle.handle().clone());
        other.block_on(async {
            let end = Instant::now() + Duration::from_millis(20);
            assert_eq!(timer.wait_until(end, pending::<()>()).await, None);
            assert!(!timer.is_driven_here());
            assert!(Instant::now() >= end);
        });
        assert_eq!(timer.waiting(), (0, false));
    }

    #[tokio::test(start_paused = true)]
    async fn leaving_call_leaves_nothing_behind() {
        let timer = CallTimer::new(Handle::current());
        let end = Instant::now() + SECOND;
        {
            let mut call = pin!(timer.wait_until(end, pending::<()>()));
            assert!(poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await.is_pending());
            assert_eq!(timer.waiting(), (1, true));
        }
        assert_eq!(timer.waiting(), (0, true));
        sleep(SECOND * 2).await;
        assert_eq!(timer.waiting(), (0, false));
    }

    #[test]
    fn calls_end_with_the_runtime_of_the_timer() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // Its handle drives a call beyond its end.
        let handle = runtime.handle().clone();
        let timer = CallTimer::new(handle.clone());
        let wait = |timer: Arc<CallTimer>| async move {
            timer.wait_until(Instant::now() + SECOND * 3_600, pending::<()>()).await
        };
        let (first, driver) = (wait(Arc::clone(&timer)), handle.clone());
        let call = std::thread::spawn(move || driver.block_on(first));
        while timer.waiting() != (1, true) {
            std::thread::yield_now();
        }
        runtime.shutdown_background();
        assert_eq!(call.join().unwrap(), None);
        // Nothing waits for a runtime that is gone.
        assert_eq!(handle.block_on(wait(timer)), None);
    }
}
