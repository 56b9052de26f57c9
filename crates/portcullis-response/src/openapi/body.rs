//! The bodies of rejections.

use portcullis_core::PolicyName;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, Object, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{ContentBuilder, ResponseBuilder};

use super::{Enforced, Example};
use crate::bodies::problem;

/// Adds the types of which `Accept` chooses one. Problem details come first, because tools show the first.
pub(super) fn with_content(
    response: ResponseBuilder,
    problem: &Object,
    example: Option<&Example>,
) -> ResponseBuilder {
    let json = || {
        let example = example.map(|example| example.json.clone());
        ContentBuilder::new().schema(Some(problem.clone())).example(example).build()
    };
    let text = ContentBuilder::new()
        .schema(Some(Object::with_type(Type::String)))
        .example(example.map(|example| example.text.clone().into()))
        .build();
    response
        .content("application/problem+json", json())
        .content("application/json", json())
        .content("text/plain", text)
}

/// The members of the problem details of a response 429.
pub(super) fn quota_exceeded(enforced: &Enforced<'_>) -> Object {
    let mut name = ObjectBuilder::new().schema_type(Type::String);
    // The names of hidden policies are not published before they reject a request.
    if enforced.hidden.is_empty() {
        name = name.enum_values(Some(enforced.shown.iter().map(|policy| PolicyName::as_str(policy.name()))));
    }
    let policies = ArrayBuilder::new().items(name).min_items(Some(1));
    let wait = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(1))
        .description(Some("The seconds after which a retry can succeed, equal to `Retry-After`."));
    let mut problem = members(problem::QUOTA_EXCEEDED, 429)
        .property("violated-policies", policies.description(Some("The policies that deny the request.")))
        .required("violated-policies")
        .property("retry-after", wait);
    if enforced.iter().any(portcullis_core::Policy::reads_overrides) {
        let blocked = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true]));
        let blocked = blocked.description(Some("Present if the client is blocked for a time."));
        problem = problem.property("blocked", blocked);
    }
    problem.build()
}

/// The members of the problem details of a response 503.
pub(super) fn reduced_capacity() -> Object {
    members(problem::REDUCED_CAPACITY, 503).build()
}

/// The members that all problem details have.
fn members((r#type, title): (&'static str, &'static str), status: u16) -> ObjectBuilder {
    let constant =
        |value: &'static str| ObjectBuilder::new().schema_type(Type::String).enum_values(Some([value]));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("type", constant(r#type).format(Some(SchemaFormat::Custom("uri".to_owned()))))
        .required("type")
        .property("title", constant(title))
        .required("title")
        .property("status", ObjectBuilder::new().schema_type(Type::Integer).enum_values(Some([status])))
        .required("status")
        .property("detail", ObjectBuilder::new().schema_type(Type::String).description(Some(DETAIL)))
        .required("detail")
}

const DETAIL: &str = "One sentence for people.";
