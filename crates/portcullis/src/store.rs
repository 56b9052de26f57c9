//! Stores: where state is kept, and what a store of your own needs.
//!
//! [`Limiter::memory`](crate::Limiter::memory) and `Limiter::redis` are enough for most services. A [`MemoryStore`] with another
//! capacity, a [`Fallback`] with another size, or a store of your own go to [`Limiter::new`](crate::Limiter::new).

pub use portcullis_core::algorithm::State;
pub use portcullis_core::overrides::{Block, BlockedClients, ClientChange, Grant, Override, OverrideError};
pub use portcullis_core::store::{
    CallObserver, CallOutcome, Check, CheckResult, Checks, ChecksError, DocumentStore, ExchangedRecord,
    Figure, FigureKind, FigureUnit, NoStore, Outcome, Position, ReadyCheck, Receipt, RecordExchange, Refund,
    Renewal, Renewed, Run, ServerResult, Settlement, Standby, Store, StoreCall, StoreError, StoreErrorKind,
    StoreFuture, Structure, TooMuchWork, protocol,
};
pub use portcullis_core::{
    CalendarWindow, CallerQuotaError, CallerQuotasError, Clock, DebtError, FixedWindow, Gcra, InFlight,
    LeakyBucket, LeaseError, PolicyPartError, SlidingLog, SlidingWindow, Strategy, TokenBucket, WaitError,
    WindowTable, WindowTableError,
};
pub use portcullis_memory::{
    Fallback, FallbackBuilder, InstanceShare, MemoryDocuments, MemoryPolicyStats, MemoryStats, MemoryStore,
    MemoryStoreBuilder, SystemClock,
};
pub use portcullis_tower::{BlockReach, BlockedClient, GrantBuilder, OverridingError};
