//! Counts over time, in a bounded number of buckets.

/// The requests and rejections of one length of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The number of the bucket: its start divided by its length.
    pub index: u64,
    /// The requests.
    pub requests: u64,
    /// The requests that were rejected.
    pub rejected: u64,
    /// The rejections by rule, in the order of the rules; those at the end may be left out if they are zero.
    pub by_rule: Vec<u64>,
}

/// Counts over time. The buckets grow with the time that the log spans, so that there are at most 1 000.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// In the order of time. A bucket without requests is left out.
    buckets: Vec<Bucket>,
    step: usize,
}

impl Series {
    /// The length of a bucket, in seconds.
    pub fn seconds(&self) -> u64 {
        STEPS[..=self.step].iter().product()
    }

    /// The buckets in the order of time. Those without requests are left out.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    pub(super) fn request(&mut self, micros: u64) {
        self.bucket(micros).requests += 1;
        if self.buckets.len() > MAX_BUCKETS && self.step + 1 < STEPS.len() {
            self.merge();
        }
    }

    pub(super) fn rejected(&mut self, micros: u64) {
        self.bucket(micros).rejected += 1;
    }

    pub(super) fn rejected_by(&mut self, micros: u64, rule: usize) {
        let by_rule = &mut self.bucket(micros).by_rule;
        if by_rule.len() <= rule {
            by_rule.resize(rule + 1, 0);
        }
        by_rule[rule] += 1;
    }

    fn bucket(&mut self, micros: u64) -> &mut Bucket {
        let index = micros / 1_000_000 / self.seconds();
        // Nearly always the last one.
        let place = match self.buckets.last() {
            Some(last) if last.index == index => self.buckets.len() - 1,
            _ => match self.buckets.binary_search_by_key(&index, |bucket| bucket.index) {
                Ok(place) => place,
                Err(place) => {
                    self.buckets.insert(place, Bucket { index, ..Bucket::default() });
                    place
                }
            },
        };
        &mut self.buckets[place]
    }

    fn merge(&mut self) {
        self.step += 1;
        let factor = STEPS[self.step];
        let mut merged: Vec<Bucket> = Vec::with_capacity(self.buckets.len());
        for bucket in self.buckets.drain(..) {
            let index = bucket.index / factor;
            match merged.last_mut() {
                Some(last) if last.index == index => last.add(&bucket),
                _ => merged.push(Bucket { index, ..bucket }),
            }
        }
        self.buckets = merged;
    }
}

impl Bucket {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.rejected += other.rejected;
        if self.by_rule.len() < other.by_rule.len() {
            self.by_rule.resize(other.by_rule.len(), 0);
        }
        for (count, more) in self.by_rule.iter_mut().zip(&other.by_rule) {
            *count += more;
        }
    }
}

/// The highest number of events in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    second: u64,
    count: u64,
    /// The events in the second with the most of them.
    pub highest: u64,
    /// The start of that second, in seconds since the Unix epoch.
    pub at: u64,
}

impl Peak {
    pub(super) fn add(&mut self, micros: u64) {
        let second = micros / 1_000_000;
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        self.count += 1;
        if self.count > self.highest {
            (self.highest, self.at) = (self.count, second);
        }
    }
}

/// By what the length of a bucket grows: 1 s, 5 s, 15 s, 1 min, 5 min, 15 min, 1 h, 6 h, 1 d, 7 d and so on.
const STEPS: [u64; 18] = [1, 5, 3, 4, 5, 3, 4, 6, 4, 7, 10, 10, 10, 10, 10, 10, 10, 10];
const MAX_BUCKETS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_stay_bounded_and_lose_no_count() {
        let mut series = Series::default();
        for second in 0..20_000_u64 {
            let micros = (1_000_000 + second * 7) * 1_000_000;
            series.request(micros);
            if second % 4 == 0 {
                series.rejected(micros);
                series.rejected_by(micros, 2);
            }
        }
        assert!(series.buckets().len() <= MAX_BUCKETS);
        assert_eq!(series.seconds(), 300);
        let sum = |count: fn(&Bucket) -> u64| series.buckets().iter().map(count).sum::<u64>();
        assert_eq!(sum(|bucket| bucket.requests), 20_000);
        assert_eq!(sum(|bucket| bucket.rejected), 5_000);
        assert_eq!(sum(|bucket| bucket.by_rule.get(2).copied().unwrap_or(0)), 5_000);
    }

    #[test]
    fn a_peak_is_the_busiest_second() {
        let mut peak = Peak::default();
        for micros in [1_000_000, 2_000_000, 2_999_999, 3_000_000] {
            peak.add(micros);
        }
        assert_eq!((peak.highest, peak.at), (2, 2));
    }
}
