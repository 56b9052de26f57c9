//! What rules need of the place where they decide.

mod needs;

use http::{HeaderName, header};

use crate::diagnostic::Diagnostic;
use crate::source::Span;

pub(crate) use needs::needs;

/// A place where rules decide about requests. Not each of them can do all that a rule may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Door {
    /// A layer in a program: it can do all of it.
    Code,
    /// A reverse proxy, which sees requests and their responses. It has no router, and no program that adds to requests.
    Proxy,
    /// A check that a proxy asks for. It sees the head of a request, and never its response or its end.
    Check,
    /// Envoy's rate limit service. It sees descriptors, and never a response or the end of a request.
    Serve,
}

/// A field of a file that not every door can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    kind: Kind,
    /// The path of the field, such as `policy.search.key`.
    field: String,
    span: Span,
}

/// What a field needs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// The route that a router has matched, in a key.
    RouteKey,
    /// The route that a router has matched, in a list.
    RouteList,
    /// What the program adds to a request.
    Extension,
    /// A tier that the program adds to a request.
    Tier,
    /// The response.
    Response,
    /// The instant at which a request ends.
    End,
    /// A handler that counts what a response uses, or a call that commits it, unless that is read from the response.
    Usage { is_read: bool },
    /// The body of the response.
    ResponseBody,
    /// Calls that report usage.
    Report,
    /// A response to which any header can be added.
    ShownHeader,
    /// The response to a call of gRPC.
    GrpcResponse,
    /// The connection of a named proxy, whose header is believed.
    NamedProxy,
    /// A header of the request, whose value decides.
    Header(HeaderName),
    /// A header of the request, which asks for one in the response.
    AskingHeader(HeaderName),
}

impl Need {
    /// The header whose value decides, with the field that names it.
    pub(crate) fn read_header(&self) -> Option<(&str, &HeaderName)> {
        match &self.kind {
            Kind::Header(name) => Some((&self.field, name)),
            _ => None,
        }
    }
}

impl Door {
    /// Whether rules at this door never see a header of the request, because it describes one connection, or the body that a check does not have: the
    /// proxy and the check endpoint remove it. A
    /// [loader](crate::Loader::for_door) for the door, and [`Rules::usable_by`](crate::Rules::usable_by), refuse a field that names one.
    pub fn hides(self, name: &HeaderName) -> bool {
        match self {
            Self::Code | Self::Serve => false,
            Self::Proxy => OF_CONNECTION.contains(name) || OF_PROXY.contains(name),
            Self::Check => OF_CONNECTION.contains(name) || OF_MESSAGE.contains(name),
        }
    }

    /// What the door cannot do, each with its place.
    pub(crate) fn refused(self, needs: &[Need]) -> impl Iterator<Item = Diagnostic> {
        needs.iter().filter(move |need| !self.offers(&need.kind)).map(move |need| need.refused(self))
    }

    fn offers(self, kind: &Kind) -> bool {
        match (self, kind) {
            (Self::Code, _)
            | (Self::Serve, Kind::Report | Kind::Usage { .. })
            | (
                Self::Proxy,
                Kind::Response
                | Kind::ResponseBody
                | Kind::End
                | Kind::GrpcResponse
                | Kind::Usage { is_read: true },
            )
            | (Self::Proxy | Self::Check, Kind::ShownHeader | Kind::NamedProxy) => true,
            (_, Kind::Header(name) | Kind::AskingHeader(name)) => !self.hides(name),
            _ => false,
        }
    }

    fn shows(self) -> &'static str {
        match self {
            Self::Code => "a program has all of it",
            Self::Proxy => "a reverse proxy has only requests and their responses",
            Self::Check => "a proxy that asks for a check shows only the head of the request",
            Self::Serve => "Envoy shows only descriptors of the request",
        }
    }
}

impl Need {
    fn refused(&self, door: Door) -> Diagnostic {
        let (needs, help) = match &self.kind {
            Kind::RouteKey => (ROUTE, "write a policy for each route, with its path in `match`"),
            Kind::RouteList => (ROUTE, "use `path` or `prefix` in its place"),
            Kind::Extension => (
                "what a program adds to the request",
                "use what the request itself has: an address, a header, a cookie or a parameter",
            ),
            Kind::Tier => (
                "the tier that a program adds to the request",
                "name the header in which the tier is: tier = { header = \"x-plan\" }",
            ),
            Kind::Response => ("the response to each request", RESPONSES),
            Kind::End => ("the end of each request", RESPONSES),
            Kind::Usage { .. } if door == Door::Proxy => (
                COUNTS,
                "name where responses state what they have used, such as usage = \"openai\", or remove the field, and give the \
                 policy a `cost`",
            ),
            Kind::Usage { .. } => (
                COUNTS,
                "remove the field, and give the policy a `cost`; with the flag --no-check `portcullis serve` takes it for reservations",
            ),
            Kind::ResponseBody => ("the body of each response", RESPONSES),
            Kind::Report => (
                "calls that report usage",
                "remove the field, or give `portcullis serve` the flag --no-check, so that it answers calls of Envoy's rate limit service alone",
            ),
            Kind::GrpcResponse => (
                "the response to a call of gRPC",
                "remove the field, and set the status at the proxy, which makes that response",
            ),
            Kind::NamedProxy => (
                "the connection of a named proxy",
                "remove the field, and let a policy with key = \"client_ip\" be beside this one",
            ),
            Kind::ShownHeader => ("a header of its own in each response", "remove the field"),
            Kind::Header(name) | Kind::AskingHeader(name) => return self.hidden(name),
        };
        let name = self.field.rsplit('.').next().unwrap_or_default();
        self.error(format!("`{name}` needs {needs}, and {}", door.shows()), help)
    }

    fn hidden(&self, name: &HeaderName) -> Diagnostic {
        let message = format!("header {name} is never seen here: it describes one connection or one body");
        self.error(message, "name another header")
    }

    fn error(&self, message: String, help: &str) -> Diagnostic {
        Diagnostic::error(self.field.clone(), self.span, message).help(help)
    }
}

const COUNTS: &str = "a handler that counts what its response uses";
const ROUTE: &str = "the route that the router of a program has matched";
const RESPONSES: &str =
    "remove the field, or put `portcullis proxy` in front of the service, which sees responses";

/// Fields of one connection, which neither proxies nor checks show to rules.
const OF_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Further ones, which a proxy removes. `Trailer` is not among them: it announces trailers, which are forwarded, and without it hyper does not send
/// them over HTTP/1.1.
const OF_PROXY: [HeaderName; 3] =
    [header::PROXY_AUTHENTICATE, header::PROXY_AUTHORIZATION, HeaderName::from_static("http2-settings")];

/// What describes the body, which a check does not have.
const OF_MESSAGE: [HeaderName; 2] = [header::CONTENT_LENGTH, header::TRAILER];
