//! `portcullis admin`: the admin API of a running service, on the command line.

mod change;
mod client;
mod identity;
mod place;
mod show;
mod text;
pub mod token;
mod watch;

use std::io::{self, Write as _};

use clap::{Args, Subcommand};

use client::Client;
use place::Place;

/// Shows what a running service limits, and changes it, through the service's admin API.
///
/// The token is the value of the environment variable `PORTCULLIS_ADMIN_TOKEN`, or the content of `--token-file`; never an argument,
/// because other users of the machine can see those.
///
/// Exits with 0 if the server has answered, with 1 if it refuses, and with 2 for invalid arguments, or if there is no usable answer.
#[derive(Debug, Args)]
pub struct Admin {
    /// Where the service has the router of its admin API, such as `http://127.0.0.1:9090` or `https://limits.example.com/admin`.
    #[arg(value_name = "URL")]
    place: Place,

    #[command(flatten)]
    token: token::TokenArguments,

    /// Sends the token over `http` to a host that is not this machine. Every machine on the way can read it.
    #[arg(long, global = true)]
    plain_http: bool,

    /// Prints the answer of the server as JSON.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the policies, with their strategies, modes and routes.
    Policies,
    /// Lists the layers, with their policies.
    Layers,
    /// Shows everything: policies, the store, and what `top`, `recent`, `limited` and `blocked` show.
    Snapshot,
    /// Lists the clients with the most requests.
    Top,
    /// Lists the last rejections.
    Recent,
    /// Lists the clients that are limited or blocked now.
    Limited,
    /// Lists the clients that are blocked everywhere.
    Blocked,
    Watch(watch::Watch),
    /// Shows what a client has left under a policy. It is not charged.
    Budget(change::Client),
    /// Gives a client its full budget back.
    Reset(change::Client),
    Grant(change::Grant),
    /// Ends the grant of a client.
    Revoke(change::Client),
    Block(change::Block),
    /// Ends the block of a client under a policy, or its block everywhere.
    Unblock(change::Scope),
    /// Shows the grant and the block of a client.
    Overrides(change::Client),
    Mode(change::Mode),
    Quota(change::SetQuota),
}

impl Admin {
    /// Asks the server, and prints what it answers. Returns whether it does what it was asked for.
    ///
    /// # Errors
    ///
    /// If there is no token, or no usable answer within 10 s.
    pub fn run(self) -> anyhow::Result<bool> {
        let client = Client::new(self.place, &self.token.read()?, self.plain_http)?;
        let get = |path| client.get(path);
        let (reply, list) = match &self.command {
            Command::Policies => (get("v1/policies")?, None),
            Command::Layers => (get("v1/layers")?, None),
            Command::Snapshot => (get(SNAPSHOT)?, None),
            Command::Top => (get(SNAPSHOT)?, Some("top")),
            Command::Recent => (get(SNAPSHOT)?, Some("recent")),
            Command::Limited => (get(SNAPSHOT)?, Some("limited_now")),
            Command::Blocked => (get(SNAPSHOT)?, Some("blocked_everywhere")),
            Command::Watch(watch) => return watch.run(&client, self.json),
            Command::Budget(of) => (client.post("v1/budget", &of.body()?)?, None),
            Command::Reset(of) => (client.post("v1/reset", &of.body()?)?, None),
            Command::Grant(grant) => (client.post("v1/grant", &grant.body()?)?, None),
            Command::Revoke(of) => (client.post("v1/revoke", &of.body()?)?, None),
            Command::Block(block) => (client.post("v1/block", &block.body()?)?, None),
            Command::Unblock(of) => (client.post("v1/unblock", &of.body()?)?, None),
            Command::Overrides(of) => (client.post("v1/overrides", &of.body()?)?, None),
            Command::Mode(mode) => (client.post("v1/mode", &mode.body())?, None),
            Command::Quota(quota) => (client.post("v1/quota", &quota.body())?, None),
        };
        let mut withheld = None;
        let answer = match (reply, list) {
            (Ok(mut answer), list) => {
                if !self.json {
                    withheld = show::take_withheld(&mut answer);
                }
                match list {
                    Some(list) => show::member(answer, list)?,
                    None => answer,
                }
            }
            (Err(refusal), _) => {
                eprintln!("portcullis: {refusal}");
                return Ok(false);
            }
        };
        let mut text = match &self.command {
            _ if self.json => format!("{answer}\n"),
            Command::Mode(mode) => show::answer(&mode.shown(answer)),
            _ => show::answer(&answer),
        };
        if let Some(why) = withheld {
            text = format!("{text}no fingerprints: {why}\n");
        }
        print(&text)?;
        Ok(true)
    }
}

/// Writes to standard output, whose reader may have gone.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The state of the service.
const SNAPSHOT: &str = "v1/snapshot";
