//! Between the processes and the server.

use std::time::Duration;

use anyhow::Result;

use crate::field::{Field, wait};
use crate::proxy::Mood;

pub(crate) fn late_replies(field: &mut Field) -> Result<()> {
    in_a_mood(field, Mood::Late(Duration::from_millis(30)), false)
}

pub(crate) fn replies_after_the_deadline(field: &mut Field) -> Result<()> {
    in_a_mood(field, Mood::Late(Duration::from_millis(400)), false)
}

pub(crate) fn replies_cut(field: &mut Field) -> Result<()> {
    in_a_mood(field, Mood::CutReply, false)
}

pub(crate) fn requests_cut(field: &mut Field) -> Result<()> {
    in_a_mood(field, Mood::CutRequest, false)
}

pub(crate) fn half_open(field: &mut Field) -> Result<()> {
    in_a_mood(field, Mood::Swallow, false)
}

pub(crate) fn slices(field: &mut Field) -> Result<()> {
    in_a_mood(field, Mood::Slices, false)
}

pub(crate) fn refused(field: &mut Field) -> Result<()> {
    in_a_mood(field, Mood::Refuse, true)
}

fn in_a_mood(field: &mut Field, mood: Mood, cut: bool) -> Result<()> {
    field.harm();
    let proxy = &field.pair()?.proxy;
    proxy.turn(mood);
    if cut {
        proxy.cut();
    }
    wait(2_000);
    proxy.turn(Mood::Through);
    field.repair();
    Ok(())
}
