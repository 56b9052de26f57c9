//! Compares the algorithms, calendar windows excepted, on the same traffic: their memory, their cost for a Redis server, and their errors.
//!
//! `cargo xtask compare` prints the tables of "Algorithms beside each other" in `docs/reference/measurements.md`; with `--write` it
//! writes them to the page, and the chart to `docs/images`.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "counts and shares far below 2^52"
)]
#![allow(clippy::cast_sign_loss, reason = "time and bytes do not run backwards")]

mod attack;
mod chart;
mod contenders;
mod edge;
mod errors;
mod memory_bytes;
mod other_bytes;
mod page;
mod redis_bytes;
mod redis_cpu;
mod table;
mod traffic;
mod work;

use anyhow::Result;
use clap::Parser;
use portcullis_bench::server::Server;

use crate::table::Table;

/// Compares the algorithms, calendar windows excepted, on the same traffic.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask compare", bin_name = "cargo xtask compare")]
struct Options {
    /// Rewrites the tables of docs/reference/measurements.md and the chart docs/images/trade-offs.svg
    #[arg(long)]
    write: bool,
    /// Only the bytes per key, which are not written
    #[arg(long, conflicts_with = "write")]
    bytes: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mut tables = Vec::new();
    let mut show = |table: Table| {
        println!("{}\n\n{table}", table.title);
        tables.push(table);
    };
    if options.bytes {
        byte_tables(&mut Server::start(&[])?)?.1.into_iter().for_each(show);
        return Ok(());
    }
    let shares = errors::measure();
    show(errors::table(&shares));
    show(errors::totals(&shares));
    show(errors::sliding_windows());
    let bursts = edge::measure();
    show(edge::table(&bursts));
    let mut server = Server::start(&[])?;
    println!("redis-server {}, {} cores\n", server.version()?, std::thread::available_parallelism()?);
    let (bytes, tables_of_bytes) = byte_tables(&mut server)?;
    tables_of_bytes.into_iter().for_each(&mut show);
    let cpu = redis_cpu::measure(&mut server)?;
    show(redis_cpu::table(&cpu));
    show(work::measure(&mut server)?);
    show(attack::measure(&mut server)?);
    if options.write {
        let chart = chart::draw(&shares, &bursts, &bytes, &cpu)?;
        page::write(&tables, &chart)?;
    }
    Ok(())
}

/// The bytes per key of each limiter in Redis, and the tables of all bytes.
fn byte_tables(server: &mut Server) -> Result<(redis_bytes::BytesOfLimiters, [Table; 2])> {
    let bytes = redis_bytes::measure(server)?;
    let tables = [redis_bytes::table(&memory_bytes::measure(), &bytes), other_bytes::measure(server)?];
    Ok((bytes, tables))
}
