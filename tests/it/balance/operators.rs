//! The balance of a random run with requests that hold permits, while operators grant quotas, block keys and reset states. One of the
//! processes is killed with permits that it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use fastrand::Rng;
use tokio::sync::Mutex;

use super::*;

/// What the clients of all processes have seen of a user, and what operators have done.
#[derive(Default)]
struct User {
    /// The streams with a permit that clients hold; those that a client drops are not counted from before that.
    held: AtomicU64,
    /// The units that are charged under the policy with grants, at least.
    spent: AtomicU64,
    /// Held by the one operator that changes the user.
    changes: Mutex<Changes>,
    requests: Mutex<Vec<(Span, Seen)>>,
}

/// A call, by the numbers of its beginning and its end: what has a lower number has happened before.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    begin: u64,
    end: u64,
}

struct Changes {
    limits: Vec<(Span, u64)>,
    blocks: Vec<(Span, bool)>,
    last_reset: Span,
}

impl Default for Changes {
    fn default() -> Self {
        let (limits, blocks) = (vec![(Span::default(), LIMIT)], vec![(Span::default(), false)]);
        Self { limits, blocks, last_reset: Span::default() }
    }
}

/// What an admitted request has seen.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// The key was not blocked.
    Held,
    /// The limit of the decision, and the units that are charged in all, at least.
    Granted { limit: u64, spent: u64 },
    /// Units under the policy whose states are reset.
    Restarted(u64),
}

#[derive(Default)]
struct World {
    next: AtomicU64,
    users: [User; USERS.len()],
    /// The units of requests that are admitted, under the policy by which users are blocked and that with grants.
    guarded: AtomicU64,
    granted: AtomicU64,
    blocked: AtomicU64,
    denied: AtomicU64,
    /// Requests during each of whose calls an operator has changed the grant of the user. They have charged nothing.
    overtaken: AtomicU64,
}

impl World {
    fn mark(&self) -> u64 {
        self.next.fetch_add(1, SeqCst)
    }
}

/// A client of one process.
struct Client {
    world: Arc<World>,
    url: String,
    http: HttpClient,
    random: Rng,
    id: u64,
    open: Vec<(usize, Incoming)>,
}

impl Client {
    async fn run(mut self, requests: usize) -> Self {
        for _ in 0..requests {
            let user = self.random.usize(..USERS.len());
            match self.random.u64(..8) {
                0 => self.operate(user).await,
                1 => self.restart(user).await,
                2..5 => self.grant(user).await,
                _ => {
                    if self.open.len() >= MAX_OPEN || self.random.u64(..3) == 0 {
                        self.leave();
                    }
                    let ends = ["end", "fail", "task", "hang", "hang", "hang", "wait"];
                    let then = *self.random.choice(&ends).expect("there is one");
                    self.hold(user, then).await;
                }
            }
        }
        self
    }

    fn request(&mut self, path: &str, user: usize) -> Builder {
        self.id += 1;
        Request::get(format!("{}/operated/{path}", self.url))
            .header("x-user", USERS[user])
            .header("x-id", self.id)
    }

    /// The response if the request is admitted.
    async fn admitted(&self, request: Builder) -> Option<Response<Incoming>> {
        let response = self.http.start(request, ()).await;
        if matches!(response.status().as_u16(), 200 | 401) {
            return Some(response);
        }
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        if status == 503 && *body == *b"the server is overloaded\n" {
            self.world.overtaken.fetch_add(1, SeqCst);
            return None;
        }
        assert_eq!(status, 429, "{body:?}");
        let is_blocked = body.starts_with(b"this client is blocked");
        let counter = if is_blocked { &self.world.blocked } else { &self.world.denied };
        counter.fetch_add(1, SeqCst);
        None
    }

    async fn saw(&self, user: usize, begin: u64, seen: Seen) {
        let span = Span { begin, end: self.world.mark() };
        self.world.users[user].requests.lock().await.push((span, seen));
    }

    /// A request that holds a permit.
    async fn hold(&mut self, user: usize, then: &str) {
        let request = self.request("hold", user).header("x-then", then);
        let begin = self.world.mark();
        if then == "wait" {
            let url = format!("{}/operated", self.url);
            match answer_unless_it_hangs(&self.http, &url, self.id, request).await {
                None => {
                    self.saw(user, begin, Seen::Held).await;
                    self.world.guarded.fetch_add(1, SeqCst);
                }
                Some(status) => assert_eq!(status, 429),
            }
            return;
        }
        let Some(response) = self.admitted(request).await else { return };
        self.saw(user, begin, Seen::Held).await;
        self.world.guarded.fetch_add(charged(&response), SeqCst);
        if then == "hang" {
            let held = self.world.users[user].held.fetch_add(1, SeqCst) + 1;
            assert!(held <= MOST_HELD, "{held} streams of {}", USERS[user]);
            self.open.push((user, response.into_body()));
        } else {
            response.into_body().collect().await.unwrap();
        }
    }

    /// Drops a stream half-way.
    fn leave(&mut self) {
        if !self.open.is_empty() {
            let (user, body) = self.open.swap_remove(self.random.usize(..self.open.len()));
            self.world.users[user].held.fetch_sub(1, SeqCst);
            drop(body);
        }
    }

    /// A charge under the policy with grants, which the handler may correct.
    async fn grant(&mut self, user: usize) {
        let then = self
            .random
            .choice(["keep", "more", "settle", "refund", "refund", "refund"])
            .expect("there is one");
        let cost = 1 + self.random.u64(..5);
        // No more than a charge that was made, except by another one.
        let units = if then == "settle" { self.random.u64(..=cost) } else { self.random.u64(..5) };
        let request = self.request("grant", user).header("x-then", then);
        let request = request.header("x-cost", cost).header("x-units", units);
        let begin = self.world.mark();
        let Some(response) = self.admitted(request).await else { return };
        let limit = response.headers()["x-limit"].to_str().unwrap().parse().unwrap();
        let units = charged(&response);
        self.world.granted.fetch_add(units, SeqCst);
        let spent = self.world.users[user].spent.fetch_add(units, SeqCst) + units;
        self.saw(user, begin, Seen::Granted { limit, spent }).await;
    }

    /// A charge under the policy whose states are reset.
    async fn restart(&mut self, user: usize) {
        let cost = 1 + self.random.u64(..5);
        let request = self.request("restart", user).header("x-cost", cost).header("x-units", 0);
        let begin = self.world.mark();
        let units = charged(&self.admitted(request).await.expect("there are enough units"));
        self.saw(user, begin, Seen::Restarted(units)).await;
    }

    /// A change by an operator, unless another one changes the same user.
    async fn operate(&mut self, user: usize) {
        let world = Arc::clone(&self.world);
        let Ok(mut changes) = world.users[user].changes.try_lock() else { return };
        let change = self
            .random
            .choice(["grant", "grant", "revoke", "block", "unblock", "unblock", "reset", "uploads"])
            .expect("there is one");
        self.change(user, &mut changes, change).await;
    }

    async fn change(&mut self, user: usize, changes: &mut Changes, change: &str) {
        // No request costs more.
        let limit = 5 + self.random.u64(..3 * LIMIT);
        let request = Request::post(format!("{}/operated/operate", self.url)).header("x-user", USERS[user]);
        let begin = self.world.mark();
        let request = request.header("x-change", change).header("x-limit", limit);
        let response = self.http.send(request, ()).await;
        assert_eq!(response.status(), 200, "{:?}", response.body());
        let span = Span { begin, end: self.world.mark() };
        match change {
            "grant" => changes.limits.push((span, limit)),
            "revoke" => changes.limits.push((span, LIMIT)),
            "reset" => changes.last_reset = span,
            // The process has compared the uploads with their limit.
            "uploads" => {}
            _ => changes.blocks.push((span, change == "block")),
        }
    }
}

/// What may have been set at an instant of `span`.
fn possible<T: Copy>(changes: &[(Span, T)], span: Span) -> Vec<T> {
    let is_possible = |index: &usize| {
        let is_replaced = changes.get(index + 1).is_some_and(|(next, _)| next.end < span.begin);
        !is_replaced && changes[*index].0.begin <= span.end
    };
    (0..changes.len()).filter(is_possible).map(|index| changes[index].1).collect()
}

/// Compares what the requests of a user have seen with the changes of operators. Returns the fewest and the most units that are
/// left since the last reset.
async fn check(user: &User) -> (u64, u64) {
    let changes = user.changes.lock().await;
    let (mut fewest, mut most) = (0, 0);
    for (span, seen) in &*user.requests.lock().await {
        let limits = || possible(&changes.limits, *span);
        let is_right = match *seen {
            Seen::Held => possible(&changes.blocks, *span).contains(&false),
            Seen::Granted { limit, spent } => {
                limits().contains(&limit) && limits().into_iter().any(|limit| spent <= limit)
            }
            Seen::Restarted(units) => {
                fewest += if span.begin > changes.last_reset.end { units } else { 0 };
                most += if span.end > changes.last_reset.begin { units } else { 0 };
                true
            }
        };
        assert!(is_right, "{seen:?} in {span:?}");
    }
    (fewest, most)
}

/// Sends requests to a process from several clients.
async fn run(process: &Process, world: &Arc<World>, requests: usize, seed: u64) -> Vec<Client> {
    let mut running = JoinSet::new();
    for index in 0..CLIENTS {
        let client = Client {
            world: Arc::clone(world),
            url: process.url.clone(),
            http: if index % 2 == 0 { HttpClient::http_1() } else { HttpClient::http_2() },
            random: Rng::with_seed(seed ^ (index << 32)),
            id: index << 32,
            open: Vec::new(),
        };
        running.spawn(client.run(requests));
    }
    running.join_all().await
}

/// The server's time in microseconds, the number of permits that are held, and the latest instant at which one expires.
fn permits(redis: &RedisServer) -> (u64, u64, u64) {
    let reply = redis.cli(&["EVAL", PERMITS, "0", "*:held:*"]).unwrap();
    let mut numbers = reply.split_whitespace().map(|number| number.parse().unwrap());
    let mut next = || numbers.next().unwrap();
    (next(), next(), next())
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_has_what_operators_and_a_killed_process_leave() {
    let redis = RedisServer::start().unwrap();
    let seed = seed();
    println!("seed {seed} (PORTCULLIS_SEED={seed} repeats the requests)");
    let world = Arc::<World>::default();
    let requests = REQUESTS * usize::try_from((steps() / 10_000).clamp(1, 10)).unwrap();
    let (url, mut running) = (redis.url(), JoinSet::new());
    for index in 0..2_u64 {
        let (world, process) = (Arc::clone(&world), Process::shared_budget(&url, LIMIT).await);
        running.spawn(async move {
            let clients = run(&process, &world, requests, seed ^ (index << 48)).await;
            assert_eq!(process.stop().await, (0, 0), "releases that are left or lost");
            for (_, body) in clients.into_iter().flat_map(|client| client.open) {
                body.collect().await.expect("the process ends its streams");
            }
        });
    }

    // The third process is killed while the others run.
    let killed = Process::shared_budget(&url, LIMIT).await;
    let mut clients = run(&killed, &world, requests / 3, seed ^ (2 << 48)).await;
    let holder = &mut clients[0];
    within_a_minute("permits", async {
        while holder.open.len() < 3 {
            let user = holder.random.usize(..USERS.len());
            holder.change(user, &mut *world.users[user].changes.lock().await, "unblock").await;
            holder.hold(user, "hang").await;
        }
    })
    .await;
    killed.kill().await;
    let (killed_at, ..) = permits(&redis);
    let lost: Vec<usize> =
        clients.iter().flat_map(|client| client.open.iter().map(|(user, _)| *user)).collect();
    for user in &lost {
        world.users[*user].held.fetch_sub(1, SeqCst);
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }

    let (_, held, latest) = permits(&redis);
    println!("{held} of {} permits that are lost are held yet", lost.len());
    assert!(latest <= killed_at + LEASE_MICROS, "no process renews permits of another");
    within_a_minute("the end of the leases", async {
        while permits(&redis).1 > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;

    assert_eq!(units(&redis, "guarded"), world.guarded.load(SeqCst));
    assert_eq!(units(&redis, "granted"), world.granted.load(SeqCst));
    let (mut fewest, mut most) = (0, 0);
    for user in &world.users {
        let bounds = check(user).await;
        (fewest, most) = (fewest + bounds.0, most + bounds.1);
    }
    let restarted = units(&redis, "restarted");
    assert!(fewest <= restarted && restarted <= most, "{restarted} units, not {fewest} to {most}");
    let (blocked, denied) = (world.blocked.load(SeqCst), world.denied.load(SeqCst));
    assert!(blocked > 0 && denied > 0, "{blocked} requests blocked, {denied} denied");
    let overtaken = world.overtaken.load(SeqCst);
    assert!(overtaken <= MOST_OVERTAKEN, "{overtaken} requests overtaken");
}

/// Without a grant.
const LIMIT: u64 = 60;
const MOST_HELD: u64 = 3;
/// A few of thousands: three changes between the calls of one request are rare.
const MOST_OVERTAKEN: u64 = 5;
const LEASE_MICROS: u64 = 5_000_000;
/// The streams of a client, which are fewer than the permits in all.
const MAX_OPEN: usize = 1;
/// The state of permits is the epoch, the next number and the latest expiry, then the expiry and the number of each.
const PERMITS: &str = "
    local time = redis.call('TIME')
    local now, held, latest = time[1] * 1000000 + time[2], 0, 0
    for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
        local state = redis.call('GET', key) or ''
        for permit = 25, #state, 16 do
            local expiry = struct.unpack('>d', state, permit)
            if expiry > now then
                held, latest = held + 1, math.max(latest, expiry)
            end
        end
    end
    return string.format('%.0f %.0f %.0f', now, held, latest)";
