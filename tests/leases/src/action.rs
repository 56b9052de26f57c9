//! The events of the model.

/// An event. Processes and keys are indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Half a second passes.
    Tick,
    /// A request is charged by a call of its own, which is answered at once.
    Charge(usize, usize),
    /// A request is sent with this number of units for a lease.
    Ask(usize, usize, u64),
    /// The call arrives at the store.
    Arrive(usize, usize),
    /// The reply arrives at the process.
    Reply(usize, usize),
    /// The process receives no reply.
    Lose(usize, usize),
    /// A request is paid from the lease.
    Spend(usize, usize, Fate),
    /// The spent units of a receipt are put back.
    PutBack(usize),
    /// A lease ends: it has expired, or the process shuts down.
    End(usize, usize),
    /// A refund arrives at the store.
    Refund(usize),
    /// A refund does not arrive at the store.
    LoseRefund(usize),
    /// A process receives no reply to a refund, which arrives at the store later.
    GiveUpRefund(usize),
    /// A process crashes, and starts again.
    Crash(usize),
    /// A process resets a key.
    Reset(usize, usize),
    /// A process uses the other quota.
    ChangeQuota(usize),
}

/// What becomes of units that are spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The request is admitted.
    Admitted,
    /// The request is admitted, and may be refunded.
    Refundable,
    /// The request waits for another policy, which may deny it.
    Undecided,
}
