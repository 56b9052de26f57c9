//! Runs the same requests through all choices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::choices;
use super::decider::Decider;
use super::demand::{self, Requests};
use super::{Choice, Figures, Report, Setup, Span};

impl Setup {
    /// Simulates these spans, with the same requests for each choice.
    ///
    /// ```
    /// use portcullis_bench::regions::{Choice, Setup, Span};
    ///
    /// let setup = Setup { regions: 3, keys: 100, rate: 50.0, window: 60, limit: 60, exact: 20 };
    /// let span = Span { minute: 0, windows: 2, cut: None };
    /// let report = setup.simulate(&[Choice::Central], &[span]);
    /// assert_eq!((report.seconds, report.figures[0].admitted), (60, report.admitted));
    /// ```
    ///
    /// All figures are sums and maxima of integers, so that the number of threads does not change them.
    pub fn simulate(&self, choices: &[Choice], spans: &[Span]) -> Report {
        let seconds = spans.iter().map(|span| u64::from(span.windows.saturating_sub(1)) * self.window).sum();
        let report =
            || Report { seconds, requests: 0, admitted: 0, figures: vec![Figures::default(); choices.len()] };
        let activity: Vec<Vec<f64>> = spans.iter().map(|span| demand::activity(self, span.minute)).collect();
        let next = AtomicU64::new(1);
        let work = || {
            let mut report = report();
            loop {
                let rank = next.fetch_add(1, Ordering::Relaxed);
                if rank > self.exact {
                    return report;
                }
                for (span, activity) in spans.iter().zip(&activity) {
                    let requests = Requests::new(self, rank, span, activity);
                    Run::new(self, choices, span).all(requests, &mut report);
                }
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let reports = crate::in_parallel(&vec![(); threads], |()| work());
        reports.into_iter().fold(report(), merged)
    }
}

fn merged(mut report: Report, other: Report) -> Report {
    report.requests += other.requests;
    report.admitted += other.admitted;
    for (ours, theirs) in report.figures.iter_mut().zip(other.figures) {
        ours.admitted += theirs.admitted;
        ours.beyond += theirs.beyond;
        ours.worst = ours.worst.max(theirs.worst);
        ours.wrongly_denied += theirs.wrongly_denied;
        ours.unused += theirs.unused;
        ours.calls += theirs.calls;
        ours.bought += theirs.bought;
        ours.buyers += theirs.buyers;
    }
    report
}

/// One key in one span.
struct Run {
    limit: u64,
    /// Microseconds of a window.
    length: u64,
    window: u64,
    /// The requests in the current window.
    requests: u64,
    admitted: u64,
    deciders: Vec<(Box<dyn Decider>, Counts)>,
}

/// What a choice did in the current window.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    admitted: u64,
    wrongly_denied: u64,
}

impl Run {
    fn new(setup: &Setup, choices: &[Choice], span: &Span) -> Self {
        let decider = |choice: &Choice| (choices::decider(*choice, setup, span), Counts::default());
        let deciders = choices.iter().map(decider).collect();
        Self {
            limit: setup.limit,
            length: setup.window_micros(),
            window: 0,
            requests: 0,
            admitted: 0,
            deciders,
        }
    }

    fn all(mut self, requests: Requests, report: &mut Report) {
        for (at, region) in requests {
            if at / self.length != self.window {
                self.end_window(report);
                self.window = at / self.length;
            }
            self.requests += 1;
            let is_admitted = self.admitted < self.limit;
            self.admitted += u64::from(is_admitted);
            for (decider, counts) in &mut self.deciders {
                if decider.decide(at, region) {
                    counts.admitted += 1;
                } else {
                    counts.wrongly_denied += u64::from(is_admitted);
                }
            }
        }
        self.end_window(report);
    }

    fn end_window(&mut self, report: &mut Report) {
        let is_counted = self.window > 0;
        for ((decider, counts), figures) in self.deciders.iter_mut().zip(&mut report.figures) {
            let counts = std::mem::take(counts);
            let traffic = decider.end_window((self.window + 1) * self.length);
            if !is_counted {
                continue;
            }
            let beyond = counts.admitted.saturating_sub(self.limit);
            figures.admitted += counts.admitted;
            figures.beyond += beyond;
            figures.worst = figures.worst.max(beyond);
            figures.wrongly_denied += counts.wrongly_denied;
            figures.unused += self.admitted.saturating_sub(counts.admitted);
            figures.calls += traffic.calls;
            figures.bought += u64::from(traffic.buyers > 0);
            figures.buyers += traffic.buyers;
        }
        if is_counted {
            report.requests += self.requests;
            report.admitted += self.admitted;
        }
        (self.requests, self.admitted) = (0, 0);
    }
}
