//! Which client a command is about.

use std::io::{self, Read};
use std::net::IpAddr;

use anyhow::{Context as _, bail, ensure};
use clap::{ArgGroup, Args};
use http::{HeaderName, HeaderValue, Method, Uri, header};
use portcullis_tower::Fingerprint;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::request::{parse_header, parse_peer, parse_request};

/// A client: by its address, by a header, by the parts of its key, by a request that it could make, or by its fingerprint.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("key")))]
pub(super) struct Identity {
    /// The fingerprint of the client's key, as `top`, `recent` and `limited` show it.
    #[arg(long, value_name = "HEX", group = "key")]
    fingerprint: Option<Fingerprint>,

    /// A request of the client, from which the layer of the service finds the key, as in `'GET /search'`.
    #[arg(long, value_name = "METHOD PATH", value_parser = parse_request, group = "key")]
    request: Option<(Method, Uri)>,

    /// The client's address, where the key is `client_ip`, or the network that is charged for it.
    #[arg(long, value_name = "ADDRESS|CIDR", value_parser = parse_client, group = "key")]
    client: Option<String>,

    /// A part of the client's key, as in `ip=203.0.113.20`, `'header x-user=ada'` or `user=ada`; a number of a program as in `user:u64=42`,
    /// other bytes as in `user:hex=00ff`. May be given several times, in the order of the key.
    #[arg(long = "part", value_name = "TAG=VALUE", value_parser = parse_argument_part, group = "key")]
    parts: Vec<Part>,

    /// Reads the parts of the client's key from standard input, one `TAG=VALUE` on each line: for values that are secret, such as an API key.
    #[arg(long, group = "key")]
    part_from_stdin: bool,

    /// The client's header, where the key is one: `x-api-key`, with its value from standard input, or `x-user=ada`, which other users of the
    /// machine can see. With `--request`, a header of the request, several times if there are more.
    #[arg(short = 'H', long = "header", value_name = "NAME[=VALUE]", value_parser = parse_client_header, conflicts_with_all = NO_REQUEST)]
    headers: Vec<ClientHeader>,

    /// The address at the other end of the request's connection.
    #[arg(long, value_name = "ADDR", value_parser = parse_peer, conflicts_with_all = NO_REQUEST)]
    peer: Option<IpAddr>,

    /// The route of the layer, as `layers` shows it, if several layers with the policy find different keys.
    #[arg(long, value_name = "ROUTE", conflicts_with_all = NO_REQUEST)]
    route: Option<String>,
}

/// A client, in the body of a request.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IdentityBody {
    Fingerprint(String),
    Request(Value),
    Parts(Parts),
}

/// The parts of a key in their order, which counts.
pub(super) struct Parts(Vec<Part>);

/// The tag and the value of a part.
type Part = (String, Value);

impl Identity {
    pub(super) fn body(&self) -> anyhow::Result<IdentityBody> {
        if let Some(fingerprint) = self.fingerprint {
            return Ok(IdentityBody::Fingerprint(fingerprint.to_string()));
        }
        if let Some((method, uri)) = &self.request {
            return self.request(method, uri).map(IdentityBody::Request);
        }
        ensure!(
            self.peer.is_none() && self.route.is_none(),
            "--peer and --route describe a request: add --request 'GET /path'"
        );
        let parts = match (&self.client, self.headers.as_slice()) {
            (Some(address), _) => vec![("ip".to_owned(), address.as_str().into())],
            (None, [header]) => vec![(format!("header {}", header.name), header.value()?.into())],
            (None, [_, _, ..]) => {
                bail!("a key of several headers is given by its parts: --part 'header x-user=ada'")
            }
            (None, []) if self.part_from_stdin => parts_of(io::stdin())?,
            (None, []) => self.parts.clone(),
        };
        ensure!(
            !parts.is_empty(),
            "name the client: --client ADDRESS, --header NAME, --part, --request or --fingerprint"
        );
        Ok(IdentityBody::Parts(Parts(parts)))
    }

    fn request(&self, method: &Method, uri: &Uri) -> anyhow::Result<Value> {
        let mut headers = Map::new();
        for header in &self.headers {
            let (name, value) = (&header.name, header.value()?);
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
        Ok(request)
    }
}

/// A header, whose value is on standard input if it is not given.
#[derive(Clone, Debug)]
struct ClientHeader {
    name: HeaderName,
    value: Option<HeaderValue>,
}

impl ClientHeader {
    fn value(&self) -> anyhow::Result<String> {
        let name = &self.name;
        if let Some(value) = &self.value {
            return Ok(value.to_str().with_context(|| format!("{name} is not ASCII"))?.to_owned());
        }
        let text = text_of(io::stdin())?;
        let value = text.trim_end_matches(['\r', '\n']);
        ensure!(
            !value.is_empty(),
            "standard input has no value of {name}: give it there, or write {name}=VALUE if it is no secret"
        );
        ensure!(!value.contains('\n'), "standard input has more than one line: the value of {name} is one");
        Ok(value.to_owned())
    }
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(tag, value)| (tag, value)))
    }
}

/// The parts on the lines of an input. No error repeats one.
fn parts_of(input: impl Read) -> anyhow::Result<Vec<Part>> {
    let text = text_of(input)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    let parts = lines.map(|(index, line)| {
        parse_part(line).map_err(|error| anyhow::anyhow!("line {} of standard input: {error}", index + 1))
    });
    let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
    ensure!(!parts.is_empty(), "standard input has no part of a key: write TAG=VALUE, such as user=ada");
    Ok(parts)
}

fn text_of(input: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    input.take(MAX_INPUT + 1).read_to_string(&mut text).context("standard input")?;
    ensure!(text.len() as u64 <= MAX_INPUT, "standard input has more than {MAX_INPUT} bytes");
    Ok(text)
}

/// An address or a network. The server knows which networks the key has.
fn parse_client(text: &str) -> Result<String, &'static str> {
    let (address, length) = text.split_once('/').unwrap_or((text, "0"));
    let is_network = address.parse::<IpAddr>().is_ok() && length.parse::<u8>().is_ok();
    if is_network {
        Ok(text.to_owned())
    } else {
        Err("write an address, such as 203.0.113.20, or a network, such as 2001:db8::/64")
    }
}

/// `NAME`, `NAME=VALUE` or, as in requests, `NAME: VALUE`.
fn parse_client_header(text: &str) -> anyhow::Result<ClientHeader> {
    if text.contains(':') && text.find(':') < text.find('=').or(Some(text.len())) {
        let (name, value) = parse_header(text)?;
        return Ok(ClientHeader { name, value: Some(value) });
    }
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let name: HeaderName = name.parse().context("invalid header name: write NAME, or NAME=VALUE")?;
    let value = value.map(HeaderValue::try_from).transpose().context("invalid header value")?;
    ensure!(
        value.is_none() || !SECRETS.contains(&name),
        "the value is a credential, and other users of the machine see arguments: write --header {name}, and give the value on standard input"
    );
    Ok(ClientHeader { name, value })
}

fn parse_argument_part(text: &str) -> Result<Part, &'static str> {
    let part = parse_part(text)?;
    let (kind, name) = part.0.split_once(' ').unwrap_or((&part.0, ""));
    let is_credential = match (kind, name) {
        ("header", name) => name.is_empty() || SECRETS.iter().any(|secret| *secret == name),
        ("query", name) => name.is_empty(),
        (kind, _) => CREDENTIALS.contains(&kind),
    };
    if is_credential {
        return Err(
            "the value may be a credential, and other users of the machine see arguments: use --part-from-stdin",
        );
    }
    Ok(part)
}

fn parse_part(text: &str) -> Result<Part, &'static str> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or(FORM)?;
    // The tag may be the name of a type, such as `service::User`.
    let (tag, value) = match name.rsplit_once(':').filter(|(tag, _)| !tag.is_empty() && !tag.ends_with(':')) {
        Some((tag, "hex")) => (tag, json!({ "hex": value })),
        Some((tag, "u64")) => {
            let number: u64 = value.parse().map_err(|_| "a number for `:u64` is from 0 to 2^64 - 1")?;
            (tag, json!({ "u64": number }))
        }
        _ => (name, value.into()),
    };
    Ok((tag.to_owned(), value))
}

const FORM: &str = "write TAG=VALUE, such as user=ada, with the tag that the key of the layer has";

/// What describes a request goes with `--request` alone.
const NO_REQUEST: [&str; 4] = ["fingerprint", "client", "parts", "part_from_stdin"];

/// The tags whose values clients send: the module `portcullis::key` lists them.
const CREDENTIALS: [&str; 4] = ["header", "bearer", "cookie", "query"];

/// The headers that have credentials and nothing else.
const SECRETS: [HeaderName; 3] = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];

/// The bytes that a body of the API may have.
const MAX_INPUT: u64 = 16 * 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_has_the_type_that_its_tag_names() {
        for (text, tag, value) in [
            ("user=ada", "user", json!("ada")),
            ("user=a=b ", "user", json!("a=b ")),
            ("account:u64=42", "account", json!({ "u64": 42 })),
            ("account:hex=00ff", "account", json!({ "hex": "00ff" })),
            ("shop::User=ada", "shop::User", json!("ada")),
            ("shop::User:u64=7", "shop::User", json!({ "u64": 7 })),
            ("shop::u64=7", "shop::u64", json!("7")),
        ] {
            assert_eq!(parse_part(text).unwrap(), (tag.to_owned(), value), "{text}");
        }
        for text in ["", "ada", "=ada", "account:u64=-1", "account:u64=x"] {
            assert!(parse_part(text).is_err(), "{text}");
        }
    }

    #[test]
    fn header_has_its_value_or_waits_for_it() {
        for (text, value) in [
            ("X-User", None),
            ("x-user=a=b:c", Some("a=b:c")),
            ("x-user: a=b", Some("a=b")),
            ("x-user=", Some("")),
        ] {
            let header = parse_client_header(text).unwrap();
            let found = header.value.as_ref().map(|value| value.to_str().unwrap());
            assert_eq!((header.name.as_str(), found), ("x-user", value), "{text}");
        }
        for text in ["", "a b", "=ada", "x-user=\n", "authorization=Bearer t"] {
            assert!(parse_client_header(text).is_err(), "{text}");
        }
    }

    #[test]
    fn credential_is_no_argument() {
        for text in ["header authorization=t", "cookie sid=31d4"] {
            assert!(parse_argument_part(text).is_err(), "{text}");
        }
        for text in ["header x-user=ada", "query email=ada"] {
            assert!(parse_argument_part(text).is_ok(), "{text}");
        }
        for tag in CREDENTIALS {
            let text = format!("{tag}=k-17");
            assert!(parse_argument_part(&text).unwrap_err().contains("--part-from-stdin"));
            assert_eq!(parts_of(text.as_bytes()).unwrap().len(), 1);
        }
    }

    #[test]
    fn input_keeps_the_order_of_its_lines() {
        let parts = parts_of(&b"user=ada\r\n\nroute=/a=b\n"[..]).unwrap();
        assert_eq!(serde_json::to_string(&Parts(parts)).unwrap(), r#"{"user":"ada","route":"/a=b"}"#);
        for (input, expected) in [("", "no part"), ("\n", "no part"), ("user=ada\ns3cret", "line 2")] {
            let error = parts_of(input.as_bytes()).err().unwrap().to_string();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        }
        assert!(parts_of(io::repeat(b'a')).is_err());
    }
}
