//! Tasks of a runtime.

use std::pin::Pin;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Spawns a task. All of them have one type, because each type adds 10 KB of Tokio's code to a program.
pub fn spawn(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    fn spawn_boxed(runtime: &Handle, work: Pin<Box<dyn Future<Output = ()> + Send>>) -> JoinHandle<()> {
        runtime.spawn(work)
    }
    spawn_boxed(runtime, Box::pin(work))
}
