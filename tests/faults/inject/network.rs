//! Faults of the network between the workers and the server.

use std::time::Duration;

use anyhow::Result;

use crate::environment::{Environment, wait};
use crate::proxy::Mode;

pub(crate) fn late_replies(environment: &mut Environment) -> Result<()> {
    with_mode(environment, Mode::Delay(Duration::from_millis(30)), false)
}

pub(crate) fn replies_after_the_deadline(environment: &mut Environment) -> Result<()> {
    with_mode(environment, Mode::Delay(Duration::from_millis(400)), false)
}

pub(crate) fn replies_cut(environment: &mut Environment) -> Result<()> {
    with_mode(environment, Mode::CutReply, false)
}

pub(crate) fn requests_cut(environment: &mut Environment) -> Result<()> {
    with_mode(environment, Mode::CutRequest, false)
}

pub(crate) fn half_open(environment: &mut Environment) -> Result<()> {
    with_mode(environment, Mode::Discard, false)
}

pub(crate) fn slices(environment: &mut Environment) -> Result<()> {
    with_mode(environment, Mode::Fragment, false)
}

pub(crate) fn refused(environment: &mut Environment) -> Result<()> {
    with_mode(environment, Mode::Refuse, true)
}

fn with_mode(environment: &mut Environment, mode: Mode, cut: bool) -> Result<()> {
    environment.begin_fault();
    let proxy = &environment.pair()?.proxy;
    proxy.set_mode(mode);
    if cut {
        proxy.close_connections();
    }
    wait(2_000);
    proxy.set_mode(Mode::Forward);
    environment.end_fault();
    Ok(())
}
