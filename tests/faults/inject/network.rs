//! Faults of the network between the workers and the server.

use std::time::Duration;

use anyhow::Result;
use portcullis_servers::Fault;

use crate::environment::{Environment, wait};

pub(crate) fn late_replies(environment: &mut Environment) -> Result<()> {
    with_fault(environment, Fault::Delay(Duration::from_millis(30)), false)
}

pub(crate) fn replies_after_the_deadline(environment: &mut Environment) -> Result<()> {
    with_fault(environment, Fault::Delay(Duration::from_millis(400)), false)
}

pub(crate) fn replies_cut(environment: &mut Environment) -> Result<()> {
    with_fault(environment, Fault::CutReply, false)
}

pub(crate) fn requests_cut(environment: &mut Environment) -> Result<()> {
    with_fault(environment, Fault::CutRequest, false)
}

pub(crate) fn half_open(environment: &mut Environment) -> Result<()> {
    with_fault(environment, Fault::Discard, false)
}

pub(crate) fn slices(environment: &mut Environment) -> Result<()> {
    with_fault(environment, Fault::Fragment, false)
}

pub(crate) fn refused(environment: &mut Environment) -> Result<()> {
    with_fault(environment, Fault::Refuse, true)
}

fn with_fault(environment: &mut Environment, fault: Fault, cut: bool) -> Result<()> {
    environment.begin_fault();
    let proxy = &environment.pair()?.proxy;
    proxy.set_fault(fault);
    if cut {
        proxy.close_connections();
    }
    wait(2_000);
    proxy.set_fault(Fault::None);
    environment.end_fault();
    Ok(())
}
