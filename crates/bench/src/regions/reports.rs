//! Regions that report what they have counted, and learn the sum of all.

use super::decider::{Decider, Traffic};
use super::{SECOND, Setup, Span};

/// Each region counts on its own. As soon as it has counted a fifth of the limit since its last report, and otherwise each five seconds,
/// it reports that to the home store, and the answer is the sum of all regions.
pub(super) struct Reports {
    span: Span,
    limit: u64,
    /// The sum of what has arrived at the home store.
    sum: u64,
    regions: Vec<Region>,
    traffic: Traffic,
}

#[derive(Clone, Debug, Default)]
struct Region {
    round_trip: u64,
    /// What was counted since the last report.
    unreported: u64,
    /// What is on its way to the home store, and back with the sum.
    report: Option<Report>,
    /// The last known sum.
    known: u64,
    /// When the last report began.
    last: u64,
    has_reported: bool,
}

/// A report on its way.
#[derive(Clone, Copy, Debug)]
struct Report {
    units: u64,
    /// When it arrives at the home store or, with the sum, in the region.
    at: u64,
    sum: Option<u64>,
}

impl Reports {
    pub(super) fn new(setup: &Setup, span: &Span) -> Self {
        let region = |region| Region { round_trip: setup.round_trip(region), ..Region::default() };
        let regions = (0..setup.regions).map(region).collect();
        Self { span: *span, limit: setup.limit, sum: 0, regions, traffic: Traffic::default() }
    }

    /// Lets reports and answers arrive up to an instant, in their order.
    fn advance(&mut self, now: u64) {
        loop {
            let arrivals = self.regions.iter().enumerate();
            let arrivals = arrivals.filter_map(|(index, region)| Some((region.report?.at, index)));
            let Some((at, index)) = arrivals.min().filter(|(at, _)| *at <= now) else { return };
            let is_cut = self.span.is_cut(index, at);
            let region = &mut self.regions[index];
            let Some(report) = region.report.take() else { return };
            match report.sum {
                // What is lost in a cut is reported again.
                _ if is_cut => region.unreported += if report.sum.is_none() { report.units } else { 0 },
                None => {
                    self.sum += report.units;
                    let at = at + region.round_trip / 2;
                    region.report = Some(Report { at, sum: Some(self.sum), ..report });
                }
                Some(sum) => region.known = sum,
            }
        }
    }

    fn report(&mut self, at: u64, index: usize) {
        let region = &mut self.regions[index];
        let is_due = region.unreported >= self.limit.div_ceil(5) || at - region.last >= 5 * SECOND;
        if !is_due || region.unreported == 0 || region.report.is_some() || self.span.is_cut(index, at) {
            return;
        }
        let units = std::mem::take(&mut region.unreported);
        region.last = at;
        region.report = Some(Report { units, at: at + region.round_trip / 2, sum: None });
        self.traffic.calls += u64::from(index != 0);
        self.traffic.buyers += u64::from(!region.has_reported);
        region.has_reported = true;
    }
}

impl Decider for Reports {
    fn decide(&mut self, at: u64, index: usize) -> bool {
        self.advance(at);
        let region = &mut self.regions[index];
        let under_way = region.report.map_or(0, |report| report.units);
        let is_admitted = region.known + under_way + region.unreported < self.limit;
        region.unreported += u64::from(is_admitted);
        self.report(at, index);
        is_admitted
    }

    fn end_window(&mut self, _: u64) -> Traffic {
        self.sum = 0;
        for region in &mut self.regions {
            (region.unreported, region.known, region.report, region.has_reported) = (0, 0, None, false);
        }
        std::mem::take(&mut self.traffic)
    }
}
