//! Commands about one client or one policy.

use std::ops::Not;
use std::time::Duration;

use clap::Args;
use portcullis_core::{PolicyName, Quota};
use portcullis_tower::ParseModeError;
use serde::Serialize;
use serde_json::{Value, json};

use super::identity::{Identity, IdentityBody};

/// A client under a policy.
#[derive(Debug, Args)]
pub(super) struct Client {
    /// The name of the policy.
    #[arg(long, value_name = "NAME", value_parser = parse_policy)]
    policy: PolicyName,

    #[command(flatten)]
    identity: Identity,
}

/// Gives a client another quota under a policy for a time.
#[derive(Debug, Args)]
pub(super) struct Grant {
    #[command(flatten)]
    client: Client,

    /// The quota, as in rules files: `'100/min burst 20'`.
    #[arg(long, value_name = "QUOTA", value_parser = parse_quota)]
    quota: String,

    /// For how long, as in `90s`, `2h` or `7d`.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    time: Duration,
}

/// A client under a policy, or under all.
#[derive(Debug, Args)]
pub(super) struct Scope {
    /// The name of the policy.
    #[arg(long, value_name = "NAME", value_parser = parse_policy, required_unless_present = "everywhere")]
    policy: Option<PolicyName>,

    /// Under all policies whose key is that of the client, or begins with it: a user by user, and by user and route, and not by address.
    #[arg(long, conflicts_with = "policy")]
    everywhere: bool,

    #[command(flatten)]
    identity: Identity,
}

/// Denies all requests of a client for a time, under a policy or everywhere.
#[derive(Debug, Args)]
pub(super) struct Block {
    #[command(flatten)]
    scope: Scope,

    /// For how long, as in `90s`, `2h` or `7d`.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    time: Duration,
}

/// Switches the mode of a policy in the instance that answers.
#[derive(Debug, Args)]
pub(super) struct Mode {
    /// The name of the policy.
    #[arg(value_name = "POLICY", value_parser = parse_policy)]
    policy: PolicyName,

    /// `off`, `shadow`, `enforce`, or for a share of the clients: `10%` enforces for them, with the others in shadow, and `shadow 10%` is in shadow for
    /// them, and off for the others.
    #[arg(value_name = "MODE", value_parser = parse_mode)]
    mode: String,
}

/// A client under a policy, and what is done to it, in the body of a request.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(skip_serializing_if = "Not::not")]
    everywhere: bool,
    identity: IdentityBody,
    #[serde(flatten)]
    more: Value,
}

/// Sets the quota of a policy, and nothing else of it, in the instance that answers, until it restarts or its rules change.
#[derive(Debug, Args)]
pub(super) struct SetQuota {
    /// The name of the policy.
    #[arg(value_name = "POLICY", value_parser = parse_policy)]
    policy: PolicyName,

    /// The quota, as in rules files: `'100/min burst 20'`. A burst that is left out stays.
    #[arg(value_name = "QUOTA", value_parser = parse_quota)]
    quota: String,
}

impl SetQuota {
    pub(super) fn body(&self) -> Value {
        json!({ "policy": self.policy.as_str(), "quota": self.quota })
    }
}

impl Client {
    pub(super) fn body(&self) -> anyhow::Result<Body<'_>> {
        self.body_with(json!({}))
    }

    fn body_with(&self, more: Value) -> anyhow::Result<Body<'_>> {
        let policy = Some(self.policy.as_str());
        Ok(Body { policy, everywhere: false, identity: self.identity.body()?, more })
    }
}

impl Scope {
    pub(super) fn body(&self) -> anyhow::Result<Body<'_>> {
        self.body_with(json!({}))
    }

    fn body_with(&self, more: Value) -> anyhow::Result<Body<'_>> {
        let policy = self.policy.as_ref().map(PolicyName::as_str);
        Ok(Body { policy, everywhere: self.everywhere, identity: self.identity.body()?, more })
    }
}

impl Grant {
    pub(super) fn body(&self) -> anyhow::Result<Body<'_>> {
        self.client.body_with(json!({ "quota": self.quota, "duration_seconds": self.time.as_secs() }))
    }
}

impl Block {
    pub(super) fn body(&self) -> anyhow::Result<Body<'_>> {
        self.scope.body_with(json!({ "duration_seconds": self.time.as_secs() }))
    }
}

impl Mode {
    pub(super) fn body(&self) -> Value {
        json!({ "policy": self.policy.as_str(), "mode": self.mode })
    }

    /// The answer for people: with the mode, and without the fingerprint, which the change of a mode does not have.
    pub(super) fn shown(&self, mut answer: Value) -> Value {
        if let Some(members) = answer.as_object_mut() {
            members.remove("fingerprint");
            members.insert("mode".to_owned(), self.mode.as_str().into());
        }
        answer
    }
}

fn parse_policy(text: &str) -> Result<PolicyName, String> {
    PolicyName::new(text).map_err(|error| error.to_string())
}

fn parse_quota(text: &str) -> Result<String, String> {
    match text.parse::<Quota>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.as_secs() > 0 && time.subsec_nanos() == 0 => Ok(time),
        Ok(_) => Err("write whole seconds, at least one".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_mode(text: &str) -> Result<String, ParseModeError> {
    text.parse::<portcullis_tower::Mode>().map(|_| text.to_owned())
}
