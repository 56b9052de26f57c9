//! A store of one's own: limits in a SQLite file, shared by all processes of one machine.
//!
//! It is complete: it passes the scenarios and the random timelines that every store passes. `docs/contribute/store.md` explains
//! each part.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use portcullis_core::algorithm::State;
use portcullis_core::store::protocol::{self, LoadedState};
use portcullis_core::store::{Checks, Outcome, Renewal, Renewed, Store, StoreFuture};
use portcullis_core::{
    Clock, Decision, Key, Policy, Receipt, Settlement, StoreError, StoreErrorKind, Timestamp,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Transaction, TransactionBehavior, params};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Keeps states in a SQLite database.
#[derive(Debug)]
pub struct SqliteStore<C> {
    inner: Arc<Inner<C>>,
}

#[derive(Debug)]
struct Inner<C> {
    database: Mutex<Connection>,
    clock: C,
    permits: Arc<Semaphore>,
}

impl<C: Clock> SqliteStore<C> {
    /// Opens a database file and creates the table if there is none. All processes that share the file must share a clock: the
    /// machine's.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or is not a database.
    pub fn open(file: impl AsRef<Path>, clock: C) -> rusqlite::Result<Self> {
        let database = Connection::open(file)?;
        database.busy_timeout(DEADLINE)?;
        database.pragma_update(None, "journal_mode", "WAL")?;
        database.pragma_update(None, "synchronous", "OFF")?;
        database.execute_batch(TABLE)?;
        let permits = Arc::new(Semaphore::new(MAX_WAITING));
        Ok(Self { inner: Arc::new(Inner { database: Mutex::new(database), clock, permits }) })
    }

    /// Removes up to 1 000 expired states, and returns how many. Call it about once a second: an expired state decides like none,
    /// so this frees space and changes no decision.
    pub fn sweep(&self) -> StoreFuture<usize> {
        self.transaction(|sql, now| sql.prepare_cached(SWEEP)?.execute([integer(now.as_micros())]))
    }

    /// Runs `decide` in a transaction on a thread that may block. It is dropped without effect if too many calls wait already.
    fn transaction<T: Send + 'static>(
        &self,
        decide: impl FnOnce(&Transaction<'_>, Timestamp) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let Ok(permit) = Arc::clone(&self.inner.permits).try_acquire_owned() else {
            return StoreFuture::ready(Err(StoreError::new(
                StoreErrorKind::Overloaded,
                "too many calls wait for sqlite",
            )));
        };
        let inner = Arc::clone(&self.inner);
        let answer = spawn_blocking(move || {
            let _permit = permit;
            let mut database = inner.database.lock().unwrap_or_else(PoisonError::into_inner);
            // Immediate: a transaction that only takes the lock when it writes could find that another one has written meanwhile.
            let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let answer = decide(&transaction, inner.clock.now())?;
            transaction.commit()?;
            Ok(answer)
        });
        StoreFuture::boxed(async move {
            match answer.await {
                Ok(answer) => answer.map_err(|error: rusqlite::Error| store_error(&error)),
                Err(_) => Err(StoreError::new(StoreErrorKind::Failed, "the thread of sqlite has ended")),
            }
        })
    }
}

impl<C: Clock> Store for SqliteStore<C> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.transaction(move |sql, now| {
            let ids: Vec<Id> = checks.iter().map(|check| Id::new(&check.policy, check.key)).collect();
            let mut states = ids.iter().map(|id| id.load(sql)).collect::<rusqlite::Result<Vec<_>>>()?;
            let outcome = protocol::check(checks, now, &mut states[..]);
            ids.iter().zip(&states).try_for_each(|(id, state)| id.save(sql, state))?;
            Ok(outcome)
        })
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.transaction(move |sql, now| {
            let id = Id::new(receipt.policy(), receipt.key());
            let mut state = [id.load(sql)?];
            let decision = protocol::refund(&receipt, now, &mut state[..]);
            id.save(sql, &state[0])?;
            Ok(decision)
        })
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.transaction(move |sql, now| {
            let id = Id::new(receipt.policy(), receipt.key());
            let mut state = [id.load(sql)?];
            let settlement = protocol::settle(receipt, cost, now, &mut state[..]);
            id.save(sql, &state[0])?;
            Ok(settlement)
        })
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        self.transaction(move |sql, now| {
            let renew = |renewal: &Renewal| {
                let id = Id::new(renewal.policy(), renewal.key());
                let mut state = [id.load(sql)?];
                let renewed = protocol::renew(renewal, now, &mut state[..]);
                id.save(sql, &state[0])?;
                Ok(renewed)
            };
            renewals.iter().map(renew).collect()
        })
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        let id = Id::new(policy, key);
        self.transaction(move |sql, _| id.remove(sql))
    }
}

/// What identifies a state: another name, another algorithm or a window of another length is another state, another limit is not.
struct Id {
    policy: Policy,
    key: [u8; 16],
}

impl Id {
    fn new(policy: &Policy, key: Key) -> Self {
        Self { policy: policy.clone(), key: key.fingerprint().to_be_bytes() }
    }

    fn load(&self, sql: &Transaction<'_>) -> rusqlite::Result<LoadedState> {
        let mut statement = sql.prepare_cached(LOAD)?;
        let bytes = statement
            .query_row(params![self.name(), self.strategy(), self.key], |row| row.get::<_, Vec<u8>>(0));
        // Bytes that are no state, which only another program can have written, count as none.
        Ok(LoadedState::new(bytes.optional()?.and_then(|bytes| State::decode(&bytes).ok())))
    }

    fn save(&self, sql: &Transaction<'_>, state: &LoadedState) -> rusqlite::Result<()> {
        match state.state() {
            _ if !state.has_changed() => Ok(()),
            None => self.remove(sql),
            Some(state) => {
                let expires_at = integer(self.policy.strategy().expires_at(state));
                let row = params![self.name(), self.strategy(), self.key, state.encode(), expires_at];
                sql.prepare_cached(SAVE)?.execute(row).map(|_| ())
            }
        }
    }

    fn remove(&self, sql: &Transaction<'_>) -> rusqlite::Result<()> {
        sql.prepare_cached(REMOVE)?.execute(params![self.name(), self.strategy(), self.key]).map(|_| ())
    }

    fn name(&self) -> &str {
        self.policy.name().as_str()
    }

    /// The algorithm, with what the state cannot follow.
    fn strategy(&self) -> String {
        let strategy = self.policy.strategy();
        format!("{}.{}", strategy.tag(), strategy.structure())
    }
}

/// Every failure of a transaction rolls it back, so nothing was charged.
fn store_error(error: &rusqlite::Error) -> StoreError {
    let kind = match error.sqlite_error_code() {
        // Another process has held the lock for the whole deadline.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::Overloaded,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreErrorKind::Forbidden,
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::new(kind, error.to_string())
}

/// SQLite has no unsigned integers. An instant beyond theirs is in the year 294 247.
fn integer(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// The longest wait for the lock of another process.
const DEADLINE: std::time::Duration = std::time::Duration::from_millis(100);
/// The most calls that wait for the database in this process.
const MAX_WAITING: usize = 1_024;

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS states (
        policy TEXT NOT NULL, strategy TEXT NOT NULL, key BLOB NOT NULL,
        state BLOB NOT NULL, expires_at INTEGER NOT NULL,
        PRIMARY KEY (policy, strategy, key)
    );
    CREATE INDEX IF NOT EXISTS states_by_expiry ON states (expires_at)";
const LOAD: &str = "SELECT state FROM states WHERE policy = ?1 AND strategy = ?2 AND key = ?3";
const SAVE: &str = "INSERT OR REPLACE INTO states VALUES (?1, ?2, ?3, ?4, ?5)";
const REMOVE: &str = "DELETE FROM states WHERE policy = ?1 AND strategy = ?2 AND key = ?3";
const SWEEP: &str =
    "DELETE FROM states WHERE rowid IN (SELECT rowid FROM states WHERE expires_at <= ?1 LIMIT 1000)";
