//! Writes the page of the API from its description.
//!
//! With `UPDATE_REFERENCE` in the environment the test writes the page instead of comparing it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use crate::support::Limited;

#[tokio::test]
async fn reference_page_has_the_description() {
    let document = Limited::new().get("/v1/openapi.json").await.json();
    portcullis_pages::compare("admin.md", &page(&document));
}

fn page(document: &Value) -> String {
    let mut routes = String::new();
    let mut problems = BTreeMap::new();
    for method in ["get", "post"] {
        for (path, methods) in sorted(&document["paths"]) {
            let Some(route) = methods.get(method) else { continue };
            let about = text(&route["description"]).or(text(&route["summary"])).unwrap_or_default();
            let body = &route["requestBody"]["content"]["application/json"]["schema"];
            let body = if body.is_null() { String::new() } else { kind(body) };
            let (mut answer, mut media) = (String::new(), String::new());
            for (status, response) in sorted(&route["responses"]) {
                let Some((found, content)) = sorted(&response["content"]).into_iter().next() else {
                    continue;
                };
                if status == "200" {
                    (answer, media) = (kind(&content["schema"]), found);
                } else {
                    problems.insert(status, response["description"].as_str().unwrap().to_owned());
                }
            }
            if media != "application/json" {
                write!(answer, " as `{media}`").unwrap();
            }
            writeln!(routes, "| `{} {path}` | {body} | {answer} | {about} |", method.to_uppercase()).unwrap();
        }
    }
    let mut errors = String::new();
    for (status, when) in problems {
        writeln!(errors, "| {status} | {when} |").unwrap();
    }
    let mut forms = String::new();
    for (name, schema) in sorted(&document["components"]["schemas"]) {
        form(&mut forms, document, &name, &schema);
    }
    PAGE.replace("ROUTES\n", &routes).replace("ERRORS\n", &errors).replace("FORMS\n", &forms)
}

fn form(page: &mut String, document: &Value, name: &str, schema: &Value) {
    write!(page, "\n### `{name}`\n").unwrap();
    if let Some(about) = text(&schema["description"]) {
        write!(page, "\n{about}\n").unwrap();
    }
    let (mut fields, mut required) = (BTreeMap::new(), BTreeSet::new());
    collect(document, schema, &mut fields, &mut required);
    if fields.is_empty() {
        let kinds: Vec<_> = list(&schema["oneOf"]).iter().map(kind).collect();
        write!(page, "\nIt is one of: {}.\n", kinds.join("; ")).unwrap();
        return;
    }
    page.push_str("\n| field | type | meaning |\n|---|---|---|\n");
    for (field, schema) in fields {
        let about = text(&schema["description"]).or_else(|| about_all(&schema)).unwrap_or_default();
        let optional = if required.contains(&field) { "" } else { ", optional" };
        writeln!(page, "| `{field}` | {}{optional} | {about} |", kind(&schema)).unwrap();
    }
}

/// The fields of a form, with those of the forms that are part of it.
fn collect(
    document: &Value,
    schema: &Value,
    fields: &mut BTreeMap<String, Value>,
    required: &mut BTreeSet<String>,
) {
    if let Some(pointer) = schema["$ref"].as_str() {
        collect(document, document.pointer(&pointer[1..]).unwrap(), fields, required);
    }
    for part in list(&schema["allOf"]) {
        collect(document, part, fields, required);
    }
    fields.extend(sorted(&schema["properties"]));
    required.extend(list(&schema["required"]).iter().filter_map(Value::as_str).map(ToOwned::to_owned));
}

/// What a value may be.
fn kind(schema: &Value) -> String {
    if let Some(pointer) = schema["$ref"].as_str() {
        let name = pointer.rsplit('/').next().unwrap();
        return format!("[`{name}`](#{})", name.to_lowercase());
    }
    for all in ["oneOf", "anyOf", "allOf"] {
        let kinds: Vec<_> = list(&schema[all]).iter().map(kind).collect();
        if !kinds.is_empty() {
            return kinds.join(" or ");
        }
    }
    let kinds: Vec<_> = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        several => list(several).iter().filter_map(Value::as_str).collect(),
    };
    let one = |name: &&str| match *name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" => match (&schema["additionalProperties"], sorted(&schema["properties"])) {
            (values @ Value::Object(_), _) => format!("object with values: {}", kind(values)),
            (_, fields) if !fields.is_empty() => {
                let fields: Vec<_> =
                    fields.iter().map(|(name, field)| format!("`{name}`: {}", kind(field))).collect();
                format!("object with {}", fields.join(", "))
            }
            _ => "object".to_owned(),
        },
        "integer" if schema["minimum"].as_u64().is_some_and(|least| least > 0) => {
            format!("integer, at least {}", schema["minimum"])
        }
        name => name.to_owned(),
    };
    kinds.iter().map(one).collect::<Vec<_>>().join(" or ")
}

/// The meaning of a field that refers to a form and may be `null`.
fn about_all(schema: &Value) -> Option<String> {
    ["oneOf", "anyOf", "allOf"]
        .iter()
        .flat_map(|all| list(&schema[all]))
        .find_map(|one| text(&one["description"]))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The fields of an object. Their order in a `Value` depends on how `serde_json` is built.
fn sorted(value: &Value) -> BTreeMap<String, Value> {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A text for a cell of a table.
fn text(value: &Value) -> Option<String> {
    Some(value.as_str()?.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"))
}

const PAGE: &str = "\
# Admin API

<!-- generated by: UPDATE_REFERENCE=1 cargo test -p portcullis-admin reference_page -->

Look up here every route of the admin API, with its body, its answers and its errors.
[Look and intervene](../how-to/operate/admin.md) shows how to mount and call it. The same description is at `GET /v1/openapi.json`.

Every request needs a credential that a function of the service accepts, such as a bearer token. The answer to a refused request reveals
nothing, not even whether a route exists. Bodies are JSON, up to 16 KiB. Every answer has `Cache-Control: no-store`.

Budgets, resets, grants and blocks apply in all processes that share the store. Modes, quotas of policies, counters and lists are those of the
process that answers.

Every change is a log event with the target `portcullis::audit` and the fields `actor`, `action`, `policy`, `fingerprint`, `detail` and
`outcome`: `done`, `failed`, or `unknown` if the store has not answered or the caller did not wait.

## Routes

| route | body | answer | what it does |
|---|---|---|---|
ROUTES

`GET /` is [the live page](../how-to/operate/live-page.md), which needs no token itself.

## Errors

An error is `application/problem+json` of the form [`Problem`](#problem).

| status | when |
|---|---|
ERRORS

## Names of parts

`identity` names a client. It has one of three fields: `fingerprint`, as a list shows it; `request`, in which the layer finds the key; or `parts`,
the parts of the key by these names. `portcullis admin` takes the same parts by `--part`.

| key in rules | parts | |
|---|---|---|
| `\"client_ip\"`, `\"peer\"` | `ip=203.0.113.20` | charged by its network, as the `ipv6_prefix` of the rules states it; `ip=2001:db8:1:2::/64` names the network itself |
| `{ header = \"x-user\" }` | `header x-user=ada` | without spaces around the value |
| `{ header = \"x-consumer\", trusted = true }` | `header x-consumer=acme` | |
| `{ query = \"email\" }` | `query email=ada@example.com` | decoded |
| `{ cookie = \"sid\" }` | `cookie sid=31d4` | |
| `\"bearer\"` | `bearer=abc.def` | without the word `Bearer` |
| `\"path\"` | `path=/Channels/7/` | in any spelling of the path |
| `{ path = \"/channels/{channel}\" }` | `path /channels/{channel}=/channels/7` | a path that the pattern matches |
| `\"host\"` | `host=API.example.com` | in any case, without its port |
| `\"route\"` | `route=/channels/{channel}` | |
| `\"method\"` | `method=GET` | |
| `\"grpc_service\"` | `grpc_service=helloworld.Greeter` | |
| `\"grpc_method\"` | `grpc_method=helloworld.Greeter/SayHello` | |
| `\"global\"` | `global=` | |
| `{ all = [\"client_ip\", { query = \"email\" }] }` | `ip=203.0.113.20` `query email=ada@example.com` | all, in the order of the key |
| `[{ header = \"x-absent\" }, \"client_ip\"]` | `ip=203.0.113.20` | what this client has |

Keys in code have the same names. An `Extension` or a look-up has the parts that the service writes, such as `user=ada` for
`key.part(\"user\", b\"ada\")`. A value that is no text is `{ \"u64\": 42 }` or `{ \"hex\": \"00ff\" }`.

## Bodies and answers

Times are milliseconds since the Unix epoch.
FORMS
";
