//! `[layer]`: the options of the layer.

use http::HeaderName;
use portcullis_tower::internal::HeaderRenames;
use portcullis_tower::matching::RequestMatcher;
use portcullis_tower::{GrpcCode, RateLimitHeaders};

use super::super::options::LayerOptions;
use super::Reader;
use crate::fields::{Fields, decode, did_you_mean, entries, join, quoted};
use crate::tables::{FORMATS, HEADERS, LAYER};
use crate::tree::Node;

impl Reader<'_> {
    pub(super) fn layer_options(&self, node: &Node) -> LayerOptions {
        let Some(fields) = Fields::of(node, "layer", &LAYER, self.findings) else {
            return LayerOptions::default();
        };
        let [except, only] = ["except", "only"].map(|field| {
            let list = self.request_list(&fields, field);
            if list.iter().any(RequestMatcher::is_chosen_by_client) {
                fields
                    .error(
                        field,
                        "a client writes the header or parameter, and would be limited by no policy",
                    )
                    .help("write a header that a named proxy overwrites: { present = true, trusted = true }");
            }
            list
        });
        LayerOptions {
            headers: self.headers(&fields),
            header_names: self.header_names(&fields),
            spread_retries: fields.duration("spread_retries"),
            limit_preflights: fields.read("limit_preflights").unwrap_or_default(),
            lookup_deadline: fields.duration("lookup_deadline"),
            ready_deadline: fields.duration("ready_deadline"),
            discard_bodies: fields.read("discard_bodies"),
            decision_in_response: fields.read("decision_in_response").unwrap_or_default(),
            with_charge: fields.read("with_charge").unwrap_or_default(),
            except,
            deny: self.request_list(&fields, "deny"),
            only,
            reject_with: self.reject_with(&fields),
            reject_as: fields.choice("reject_as", &FORMATS),
            grpc_status: Self::grpc_code(&fields),
            show_generation: fields.parse::<HeaderName>("show_generation"),
        }
    }

    fn grpc_code(fields: &Fields<'_>) -> Option<GrpcCode> {
        let number = fields.read("grpc_status")?;
        let code = GrpcCode::from_number(number);
        if code.is_none() {
            let message = format!("{number} is no status of a failed call of gRPC");
            fields.error("grpc_status", message).help("write 1 to 16, such as 14 for UNAVAILABLE");
        }
        code
    }

    /// The names that can be: the others are errors.
    fn header_names(&self, fields: &Fields<'_>) -> Vec<(HeaderName, HeaderName)> {
        let (mut names, mut renames) = (Vec::new(), HeaderRenames::default());
        let Some(node) = fields.node("header_names") else { return names };
        let path = fields.path("header_names");
        for entry in entries(node, &path, self.findings).unwrap_or_default() {
            let path = join(&path, &entry.name);
            let Some(text) = decode::<String>(&entry.node, &path, self.findings) else { continue };
            let [from, to] = [&entry.name, &text].map(|text| {
                let invalid = |_| format!("{} is no name of a header", quoted(text));
                text.parse::<HeaderName>().map_err(invalid)
            });
            let own = from.and_then(|from| {
                let to = to?;
                renames.add(from.clone(), to.clone()).map_err(|error| error.to_string())?;
                Ok((from, to))
            });
            match own {
                Ok(pair) => names.push(pair),
                Err(message) => drop(self.findings.error(path, entry.node.span, message)),
            }
        }
        names
    }

    fn headers(&self, fields: &Fields<'_>) -> Option<RateLimitHeaders> {
        let mut headers = RateLimitHeaders::NONE;
        for (text, one) in fields.texts("headers")? {
            if let Some((_, more)) = HEADERS.iter().find(|(name, _)| *name == text) {
                headers |= *more;
                continue;
            }
            let names = HEADERS.map(|(name, _)| name);
            let forms = || format!("use one of {names:?}, or a list of them");
            self.findings
                .error(fields.path("headers"), one.span, format!("unknown headers {}", quoted(text)))
                .help(did_you_mean(text, names).unwrap_or_else(forms));
        }
        Some(headers)
    }
}
