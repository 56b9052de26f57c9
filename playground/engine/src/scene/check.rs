//! What a scene must not be.

use portcullis_core::TooMuchWork;

use super::{Kind, LaneSettings, Scene, StoreKind, Stream};
use crate::traffic::MAX_REQUESTS;

impl Scene {
    /// Checks what the form of a scene does not say.
    pub(crate) fn check(&self) -> Result<(), String> {
        within("duration", self.duration, 1, MAX_DURATION)?;
        within("start", self.start, 0, MAX_START)?;
        within("clients", count(&self.clients), 1, MAX_CLIENTS)?;
        within("lanes", count(&self.lanes), 1, MAX_LANES)?;
        within("streams", count(&self.streams), 0, MAX_STREAMS)?;
        for (index, client) in self.clients.iter().enumerate() {
            if self.clients[..index].iter().any(|other| other.name == client.name) {
                return Err(format!(
                    "client {index}: another client has the name `{}`, by which limits know it: choose another name",
                    client.name
                ));
            }
            within(&format!("client {}: cost", client.name), client.cost, 0, MAX_COST)?;
        }
        for (index, stream) in self.streams.iter().enumerate() {
            stream.check(self.clients.len()).map_err(|error| format!("stream {index}: {error}"))?;
        }
        let herds = self.streams.iter().filter(|stream| stream.kind == Kind::Herd);
        let members = herds.filter_map(|stream| stream.members).map(u64::from).sum();
        within("members of all herds together", members, 0, MAX_MEMBERS_TOGETHER)?;
        for (index, lane) in self.lanes.iter().enumerate() {
            lane.check(self).map_err(|error| format!("lane {index} ({}): {error}", lane.name))?;
        }
        Ok(())
    }

    pub(crate) fn lane(&self, index: usize) -> Result<&LaneSettings, String> {
        let lanes = self.lanes.len();
        self.lanes.get(index).ok_or_else(|| format!("lane: there is no lane {index}: the scene has {lanes}"))
    }
}

impl Stream {
    fn check(&self, clients: usize) -> Result<(), String> {
        if self.client >= clients {
            return Err(format!("`client` is {}, but there are {clients}, counted from 0", self.client));
        }
        let needs = match self.kind {
            Kind::Constant | Kind::Poisson => [("rate", self.rate.is_some()), ("rate", true)],
            Kind::Burst => [("at", !self.at.is_empty()), ("count", self.count.is_some())],
            Kind::Edge => {
                [("period", self.period.is_some_and(|period| period > 0)), ("count", self.count.is_some())]
            }
            Kind::Herd => [("at", !self.at.is_empty()), ("members", self.members.is_some())],
            Kind::Clicks => [("at", true); 2],
            Kind::Log => [("text", true); 2],
        };
        if let Some((field, _)) = needs.into_iter().find(|(_, is_there)| !is_there) {
            return Err(format!("this kind of stream needs `{field}`"));
        }
        if self.rate.is_some_and(|rate| rate.limit() == 0 || rate.is_unlimited()) {
            return Err("`rate` is a number of requests per period, such as \"5/s\"".to_owned());
        }
        let count = self.count.unwrap_or(0);
        let members = self.members.map_or(0, u64::from);
        within("from", self.from, 0, MAX_DURATION)?;
        within("to", self.to.unwrap_or(0), 0, MAX_DURATION)?;
        for at in &self.at {
            within("at", *at, 0, MAX_DURATION)?;
        }
        within("count", count, 0, MAX_REQUESTS as u64)?;
        within("over", self.over, 0, MAX_DURATION)?;
        within("period", self.period.unwrap_or(0), 0, MAX_PERIOD)?;
        within("members", members, 0, MAX_MEMBERS)?;
        // Those after the end are counted one by one, too.
        let (field, of_each) = match self.kind {
            Kind::Burst => ("at times count", count),
            Kind::Herd => ("at times members", members),
            _ => ("at", 1),
        };
        within(field, of_each.saturating_mul(self.at.len() as u64), 0, MAX_REQUESTS as u64)?;
        within("cost", self.cost.unwrap_or(0), 0, MAX_COST)?;
        within("uses", self.uses.map_or(0, |[_, to]| to), 0, MAX_COST)?;
        within("takes", self.takes[1], 0, MAX_DURATION)?;
        if self.takes[0] > self.takes[1] || self.uses.is_some_and(|[from, to]| from > to) {
            return Err("`takes` and `uses` are from the least to the most".to_owned());
        }
        Ok(())
    }
}

impl LaneSettings {
    fn check(&self, scene: &Scene) -> Result<(), String> {
        within("limits", count(&self.limits), 0, MAX_LIMITS)?;
        within("instances", u64::from(self.instances), 1, MAX_INSTANCES)?;
        within("spread", self.spread, 0, 3_600_000)?;
        TooMuchWork::check(self.limits.iter().map(|limit| &limit.policy))
            .map_err(|error| error.to_string())?;
        for (index, limit) in self.limits.iter().enumerate() {
            let policy = &limit.policy;
            let wrong = |error: &str| Err(format!("policy {}: {error}", policy.name()));
            if self.limits[..index].iter().any(|other| other.policy.name() == policy.name()) {
                return wrong("another limit of the lane has this name");
            }
            if policy.max_wait().is_some() && !policy.strategy().queues() {
                return wrong(
                    "here `wait` is for token buckets, GCRA and leaky buckets, which reserve a slot",
                );
            }
            if policy.max_lease().is_some() && (self.store == StoreKind::Share || self.limits.len() > 1) {
                return wrong("a lease needs a shared store and a lane without other limits");
            }
        }
        if let Some([from, to]) = self.outages.iter().find(|[from, to]| from >= to || *to > scene.duration) {
            return Err(format!("an outage from {from} to {to} is not within the scene"));
        }
        if self.service.is_some_and(|service| service.workers == 0) {
            return Err("`workers` is 0: a service has at least one".to_owned());
        }
        if let Some(shed) = &self.shed {
            if self.service.is_none() {
                return Err("`shed` needs a `service`, whose latency shows what it can do".to_owned());
            }
            let [least, most] = shed.limit.map(u64::from);
            within("shed.limit, the most,", most, 1, MAX_SHED_LIMIT)?;
            within("shed.limit, the least,", least, 1, most)?;
            within("shed.reserved_for_critical", u64::from(shed.reserved_for_critical), 0, 999)?;
            within("shed.reserved_from_background", u64::from(shed.reserved_from_background), 0, 999)?;
            within("shed.tolerated_latency", u64::from(shed.tolerated_latency), 1_100, 10_000)?;
        }
        Ok(())
    }
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} is {value}: it is from {least} to {most}"))
    }
}

fn count<T>(list: &[T]) -> u64 {
    list.len() as u64
}

/// Ten minutes.
const MAX_DURATION: u64 = 600_000;
/// The year 2100.
const MAX_START: u64 = 4_102_444_800_000;
const MAX_CLIENTS: u64 = 12;
const MAX_LANES: u64 = 8;
const MAX_STREAMS: u64 = 24;
const MAX_MEMBERS: u64 = 1_000;
/// Members are found in lists, one after another.
const MAX_MEMBERS_TOGETHER: u64 = 2_000;
/// A year.
const MAX_PERIOD: u64 = 31_536_000_000;
/// As in the layer.
const MAX_SHED_LIMIT: u64 = 1_000_000;
const MAX_LIMITS: u64 = 4;
const MAX_INSTANCES: u64 = 16;
const MAX_COST: u64 = 1_000_000;
