//! Decisions in Redis, on a server that is started for them.

mod clients;
mod cpu;
mod tasks;

use std::path::Path;

use anyhow::{Context as _, Result};
use portcullis_bench::server::Server;

use crate::scale::Scale;

/// The server's CPU time, and what one process gets from the server. With the path of a module, redis-cell as well.
pub(crate) fn measure(scale: &Scale, redis_cell: Option<&Path>) -> Result<Vec<String>> {
    let module =
        redis_cell.map(|path| path.to_str().context("the path of the module is not UTF-8")).transpose()?;
    let arguments: Vec<_> = module.map(|path| ["--loadmodule", path]).into_iter().flatten().collect();
    let mut server = Server::start(&arguments)?;
    let mut tables = vec![format!("Redis {}, on the same machine.\n", server.version()?)];
    tables.push(cpu::measure(scale, &mut server, module.is_some())?.to_string());
    server.clear()?;
    tables.extend(tasks::measure(scale, server, module.is_some())?.iter().map(ToString::to_string));
    Ok(tables)
}

/// GCRA as applications write it: the theoretical arrival time in seconds as a floating-point number, `GET` and `SET`.
const SCRIPT: &str = include_str!("redis_server/gcra.lua");
