//! Gives commands to the client, and ends with the connection.

use std::pin::pin;
use std::time::Duration;

use ::fred::error::{Error, ErrorKind};
use ::fred::interfaces::ClientLike as _;
use ::fred::types::Value as RawValue;
use tokio::sync::watch;
use tokio::time::sleep;

use super::reply_observer::ReplyFuture;
use crate::fred::command::{Command, untimed};
use crate::fred::live::Live;
use crate::fred::value::from_raw;

/// Gives a command to fred when it is first polled.
pub(super) fn reply_to(live: &Live, command: Command) -> ReplyFuture {
    let client = live.client.with_options(&untimed());
    let closed = live.closed.clone();
    // The future of the client takes kilobytes: it is made where it stays.
    Box::pin(async move {
        let reply = client.custom::<RawValue, RawValue>(command.custom(), command.into_words());
        while_connected(pin!(reply), closed).await.map(from_raw)
    })
}

/// Ends soon after the connection: fred neither sends nor fails a call that it is given at the moment the connection ends.
pub(super) async fn while_connected<T>(
    reply: impl Future<Output = Result<T, Error>>,
    mut closed: watch::Receiver<()>,
) -> Result<T, Error> {
    let ended = async {
        // No value is ever sent: this waits for the channel to close.
        let _ = closed.changed().await;
        sleep(CLOSE_GRACE).await;
    };
    tokio::select! {
        biased;
        result = reply => result,
        () = ended => Err(Error::new(ErrorKind::IO, "the connection was lost")),
    }
}

/// When a connection ends, fred reports the result of its calls, and whether they were sent, within this time.
const CLOSE_GRACE: Duration = Duration::from_millis(20);
