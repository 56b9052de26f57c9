//! Which client a command is about.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use clap::{ArgGroup, Args};
use http::{HeaderName, HeaderValue, Method, Uri, header};
use portcullis_tower::Fingerprint;
use serde_json::{Map, Value, json};

use crate::request::{parse_header, parse_peer, parse_request};

/// A client: by its fingerprint, or by a request that it could make.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("key").required(true)))]
pub(super) struct Identity {
    /// The fingerprint of the client's key, as `top`, `recent` and `limited` show it.
    #[arg(long, value_name = "HEX", group = "key")]
    fingerprint: Option<Fingerprint>,

    /// A request of the client, from which the layer of the service finds the key, as in `'GET /search'`.
    #[arg(long, value_name = "METHOD PATH", value_parser = parse_request, group = "key")]
    request: Option<(Method, Uri)>,

    /// A header of the request, as in `'x-api-key: k'`. May be given several times. Other users of the machine can see it.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = parse_header, conflicts_with = "fingerprint")]
    headers: Vec<(HeaderName, HeaderValue)>,

    /// The address at the other end of the request's connection.
    #[arg(long, value_name = "ADDR", value_parser = parse_peer, conflicts_with = "fingerprint")]
    peer: Option<IpAddr>,

    /// The route of the layer, as `layers` shows it, if several layers with the policy find different keys.
    #[arg(long, value_name = "ROUTE", conflicts_with = "fingerprint")]
    route: Option<String>,
}

impl Identity {
    pub(super) fn body(&self) -> anyhow::Result<Value> {
        let Some((method, uri)) = &self.request else {
            return Ok(json!({ "fingerprint": self.fingerprint.map(|fingerprint| fingerprint.to_string()) }));
        };
        let mut headers = Map::new();
        for (name, value) in &self.headers {
            let value = value.to_str().with_context(|| format!("{name} is not ASCII"))?;
            let former = headers.insert(name.as_str().to_owned(), value.into());
            ensure!(former.is_none(), "{name} is given twice: the API takes each header once");
        }
        if let Some(authority) = uri.authority() {
            headers.entry(header::HOST.as_str()).or_insert_with(|| authority.as_str().into());
        }
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let mut request = json!({ "method": method.as_str(), "path": path, "headers": headers });
        if let Some(peer) = self.peer {
            request["peer"] = peer.to_string().into();
        }
        if let Some(route) = &self.route {
            request["route"] = route.as_str().into();
        }
        Ok(json!({ "request": request }))
    }
}
