//! The requests of a scene, from its streams and its seed. Without fractions, so that every machine makes the same.

mod log;
mod random;

use crate::scene::{Kind, Scene, Stream};
pub(crate) use random::Random;

/// A request that is sent. Times are microseconds since the start.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) at: u64,
    pub(crate) client: usize,
    /// The program of the client that sends it, 0 for the only one.
    pub(crate) member: u32,
    pub(crate) cost: u64,
    /// How long it runs.
    pub(crate) takes: u64,
    /// What it turns out to cost.
    pub(crate) uses: Option<u64>,
    /// Counted from 1.
    pub(crate) attempt: u32,
    /// How often its member sends at most.
    pub(crate) attempts: u32,
}

/// What the streams send.
pub(crate) struct Traffic {
    pub(crate) requests: Vec<Request>,
    /// Lines of logs that are none, of unknown clients, or after the end.
    pub(crate) left_out: u64,
}

/// The requests of all streams, in the order of time.
pub(crate) fn requests(scene: &Scene) -> Result<Traffic, String> {
    let mut traffic = Traffic { requests: Vec::new(), left_out: 0 };
    for (index, stream) in scene.streams.iter().enumerate() {
        // A stream that is added or removed changes no other.
        let random = Random::new(scene.seed ^ (index as u64 + 1).wrapping_mul(GOLDEN));
        Sender { scene, stream, random, traffic: &mut traffic }.send()?;
    }
    traffic.requests.sort_by_key(|request| request.at);
    Ok(traffic)
}

struct Sender<'a> {
    scene: &'a Scene,
    stream: &'a Stream,
    random: Random,
    traffic: &'a mut Traffic,
}

impl Sender<'_> {
    fn send(&mut self) -> Result<(), String> {
        let stream = self.stream;
        let from = stream.from * MILLI;
        let to = stream.to.unwrap_or(self.scene.duration).min(self.scene.duration) * MILLI;
        let count = stream.count.unwrap_or(0);
        match stream.kind {
            Kind::Constant | Kind::Poisson => {
                let Some(rate) = stream.rate else { return Ok(()) };
                let period = u64::try_from(rate.period().as_micros()).unwrap_or(u64::MAX);
                let mut number = 0_u64;
                let mut at = from;
                loop {
                    at = if stream.kind == Kind::Poisson {
                        at.saturating_add(self.random.exponential(period / rate.limit().max(1)))
                    } else {
                        // No rounding adds up.
                        let passed = u128::from(number) * u128::from(period) / u128::from(rate.limit());
                        from.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
                    };
                    if at >= to {
                        return Ok(());
                    }
                    number += 1;
                    self.push(at)?;
                }
            }
            Kind::Burst => {
                for start in &stream.at {
                    for number in 0..count {
                        self.push(start * MILLI + stream.over * MILLI * number / count)?;
                    }
                }
            }
            Kind::Edge => {
                let period = stream.period.unwrap_or(1) * MILLI;
                let margin = (stream.over * MILLI).max(1);
                // Windows begin at multiples of the period since the epoch.
                let phase = self.scene.start * MILLI % period;
                let first = period - phase;
                let passed = from.saturating_sub(first + margin).div_ceil(period);
                let (mut edge, mut made) = (first + passed * period, 0);
                while edge < to {
                    // Those outside of the stream are made one by one, too.
                    made += 2 * count;
                    if made > 2 * MAX_REQUESTS as u64 {
                        return Err(too_many());
                    }
                    for number in 1..=count {
                        let before = margin * number / count;
                        if let Some(at) = edge.checked_sub(before.max(1)) {
                            self.push(at)?;
                        }
                        self.push(edge + margin * (number - 1) / count)?;
                    }
                    edge += period;
                }
            }
            Kind::Herd => {
                for at in &stream.at {
                    for member in 1..=stream.members.unwrap_or(0) {
                        let request = self.request(at * MILLI, stream.client);
                        let attempts = stream.attempts.unwrap_or(ATTEMPTS);
                        self.add(Request { member, attempts, ..request })?;
                    }
                }
            }
            Kind::Clicks => {
                for at in &stream.at {
                    self.push(at * MILLI)?;
                }
            }
            Kind::Log => {
                let found = log::requests(&stream.text, self.scene.clients.len());
                self.traffic.left_out += found.left_out;
                for (at, client) in found.requests {
                    let request = self.request(from.saturating_add(at), client);
                    self.add(request)?;
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, at: u64) -> Result<(), String> {
        let request = self.request(at, self.stream.client);
        self.add(request)
    }

    fn request(&mut self, at: u64, client: usize) -> Request {
        let stream = self.stream;
        let [least, most] = stream.takes.map(|takes| takes * MILLI);
        Request {
            at,
            client,
            member: 0,
            cost: stream.cost.unwrap_or(self.scene.clients[client].cost),
            takes: self.random.between(least, most),
            uses: stream.uses.map(|[least, most]| self.random.between(least, most)),
            attempt: 1,
            attempts: 1,
        }
    }

    /// Sends a request, if it is within the stream.
    fn add(&mut self, request: Request) -> Result<(), String> {
        let Stream { from, to, .. } = self.stream;
        if request.at < from * MILLI || to.is_some_and(|to| request.at >= to * MILLI) {
            return Ok(());
        }
        if request.at >= self.scene.duration * MILLI {
            self.traffic.left_out += 1;
        } else if self.traffic.requests.len() >= MAX_REQUESTS {
            return Err(too_many());
        } else {
            self.traffic.requests.push(request);
        }
        Ok(())
    }
}

fn too_many() -> String {
    format!("streams: more than {MAX_REQUESTS} requests: make the scene shorter or the rates lower")
}

/// The most requests of a scene, and of a lane with its retries.
pub(crate) const MAX_REQUESTS: usize = 20_000;
/// How often a member of a herd sends at most, unless the stream says so.
const ATTEMPTS: u32 = 10;
/// Microseconds.
const MILLI: u64 = 1_000;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
