//! The description of the service for gRPC reflection.
//!
//! `envoy-types` has the messages without their descriptors, so the files are described here: what the service needs of them, under their
//! names and numbers, without comments, without the options of validation, and without messages that other services use.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, FileDescriptorSet, MessageOptions, MethodDescriptorProto, OneofDescriptorProto,
    ServiceDescriptorProto,
};
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};
use tonic_reflection::server::{Builder, Error};

/// Makes the service for reflection (`grpc.reflection.v1`), with which tools such as grpcurl call the rate limit service and the health service
/// without their files.
///
/// The messages are complete but for comments and validation; of the files that they come from, only what they use is described.
///
/// # Errors
///
/// If the description of the services is not consistent, which a test excludes.
pub fn reflection() -> Result<ServerReflectionServer<impl ServerReflection>, Error> {
    let service = Builder::configure()
        .register_file_descriptor_set(files())
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    Ok(service.max_decoding_message_size(MAX_QUESTION_BYTES))
}

/// The bytes of a question, which is a name. Streams of them last as long as their clients want.
const MAX_QUESTION_BYTES: usize = 16 << 10;

/// The service, and what its messages consist of.
pub(crate) fn files() -> FileDescriptorSet {
    let (one, many) = (Label::Optional, Label::Repeated);
    let entry = message("Entry", [field("key", 1, Type::String), field("value", 2, Type::String)]);
    let limit_override = message(
        "RateLimitOverride",
        [field("requests_per_unit", 1, Type::Uint32), of_enum("unit", 2, ".envoy.type.v3.RateLimitUnit")],
    );
    let descriptor = message(
        "RateLimitDescriptor",
        [
            of("entries", 1, many, &format!("{COMMON}.RateLimitDescriptor.Entry")),
            of("limit", 2, one, &format!("{COMMON}.RateLimitDescriptor.RateLimitOverride")),
            of("hits_addend", 3, one, ".google.protobuf.UInt64Value"),
            field("is_negative_hits", 4, Type::Bool),
        ],
    );
    let descriptor = DescriptorProto { nested_type: vec![entry, limit_override], ..descriptor };
    let header = message(
        "HeaderValue",
        [field("key", 1, Type::String), field("value", 2, Type::String), field("raw_value", 3, Type::Bytes)],
    );
    let units = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR"];
    let file = |name: &str, package: &str, imports: &[&str]| FileDescriptorProto {
        name: Some(name.to_owned()),
        package: Some(package.to_owned()),
        dependency: imports.iter().map(|&import| import.to_owned()).collect(),
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    let file_with = |name: &str, package: &str, imports: &[&str], messages: Vec<DescriptorProto>| {
        FileDescriptorProto { message_type: messages, ..file(name, package, imports) }
    };
    let request = message(
        "RateLimitRequest",
        [
            field("domain", 1, Type::String),
            of("descriptors", 2, many, &format!("{COMMON}.RateLimitDescriptor")),
            field("hits_addend", 3, Type::Uint32),
        ],
    );
    let method = MethodDescriptorProto {
        name: Some("ShouldRateLimit".to_owned()),
        input_type: Some(format!("{SERVICE}.RateLimitRequest")),
        output_type: Some(format!("{SERVICE}.RateLimitResponse")),
        ..MethodDescriptorProto::default()
    };
    let service = ServiceDescriptorProto {
        name: Some("RateLimitService".to_owned()),
        method: vec![method],
        options: None,
    };
    let time = |name: &str| message(name, [field("seconds", 1, Type::Int64), field("nanos", 2, Type::Int32)]);
    let rls_imports = [HEADERS, DESCRIPTORS, DURATION, STRUCT, TIMESTAMP];
    FileDescriptorSet {
        file: vec![
            file_with(DURATION, "google.protobuf", &[], vec![time("Duration")]),
            file_with(TIMESTAMP, "google.protobuf", &[], vec![time("Timestamp")]),
            file_with(
                WRAPPERS,
                "google.protobuf",
                &[],
                vec![message("UInt64Value", [field("value", 1, Type::Uint64)])],
            ),
            FileDescriptorProto {
                enum_type: vec![enumeration("NullValue", &["NULL_VALUE"])],
                ..file_with(STRUCT, "google.protobuf", &[], values())
            },
            FileDescriptorProto {
                enum_type: vec![enumeration("RateLimitUnit", &units)],
                ..file(UNITS, "envoy.type.v3", &[])
            },
            file_with(HEADERS, "envoy.config.core.v3", &[], vec![header]),
            file_with(DESCRIPTORS, COMMON.trim_start_matches('.'), &[UNITS, WRAPPERS], vec![descriptor]),
            FileDescriptorProto {
                service: vec![service],
                ..file_with(RLS, SERVICE.trim_start_matches('.'), &rls_imports, vec![request, response()])
            },
        ],
    }
}

const COMMON: &str = ".envoy.extensions.common.ratelimit.v3";
const SERVICE: &str = ".envoy.service.ratelimit.v3";
const RLS: &str = "envoy/service/ratelimit/v3/rls.proto";
const DESCRIPTORS: &str = "envoy/extensions/common/ratelimit/v3/ratelimit.proto";
const HEADERS: &str = "envoy/config/core/v3/base.proto";
const UNITS: &str = "envoy/type/v3/ratelimit_unit.proto";
const DURATION: &str = "google/protobuf/duration.proto";
const STRUCT: &str = "google/protobuf/struct.proto";
const TIMESTAMP: &str = "google/protobuf/timestamp.proto";
const WRAPPERS: &str = "google/protobuf/wrappers.proto";

fn response() -> DescriptorProto {
    let (one, many) = (Label::Optional, Label::Repeated);
    let response = |name: &str| format!("{SERVICE}.RateLimitResponse{name}");
    let unit = enumeration("Unit", &["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"]);
    let rate_limit = message(
        "RateLimit",
        [
            field("name", 3, Type::String),
            field("requests_per_unit", 1, Type::Uint32),
            of_enum("unit", 2, &response(".RateLimit.Unit")),
        ],
    );
    let rate_limit = DescriptorProto { enum_type: vec![unit], ..rate_limit };
    let mut valid_until = of("valid_until", 2, one, ".google.protobuf.Timestamp");
    valid_until.oneof_index = Some(0);
    let quota =
        message("Quota", [field("requests", 1, Type::Uint32), valid_until, field("id", 3, Type::String)]);
    let quota = DescriptorProto { oneof_decl: vec![oneof("expiration_specifier")], ..quota };
    let status = message(
        "DescriptorStatus",
        [
            of_enum("code", 1, &response(".Code")),
            of("current_limit", 2, one, &response(".RateLimit")),
            field("limit_remaining", 3, Type::Uint32),
            of("duration_until_reset", 4, one, ".google.protobuf.Duration"),
            of("quota", 5, one, &response(".Quota")),
        ],
    );
    let header = ".envoy.config.core.v3.HeaderValue";
    let fields = [
        of_enum("overall_code", 1, &response(".Code")),
        of("statuses", 2, many, &response(".DescriptorStatus")),
        of("response_headers_to_add", 3, many, header),
        of("request_headers_to_add", 4, many, header),
        field("raw_body", 5, Type::Bytes),
        of("dynamic_metadata", 6, one, ".google.protobuf.Struct"),
        of("quota", 7, one, &response(".Quota")),
    ];
    DescriptorProto {
        nested_type: vec![rate_limit, quota, status],
        enum_type: vec![enumeration("Code", &["UNKNOWN", "OK", "OVER_LIMIT"])],
        ..message("RateLimitResponse", fields)
    }
}

/// The messages of `google/protobuf/struct.proto`.
fn values() -> Vec<DescriptorProto> {
    let one = Label::Optional;
    let entry = message(
        "FieldsEntry",
        [field("key", 1, Type::String), of("value", 2, one, ".google.protobuf.Value")],
    );
    let entry = DescriptorProto {
        options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
        ..entry
    };
    let fields = of("fields", 1, Label::Repeated, ".google.protobuf.Struct.FieldsEntry");
    let of_struct = DescriptorProto { nested_type: vec![entry], ..message("Struct", [fields]) };
    let kinds = [
        of_enum("null_value", 1, ".google.protobuf.NullValue"),
        field("number_value", 2, Type::Double),
        field("string_value", 3, Type::String),
        field("bool_value", 4, Type::Bool),
        of("struct_value", 5, one, ".google.protobuf.Struct"),
        of("list_value", 6, one, ".google.protobuf.ListValue"),
    ];
    let kinds = kinds.map(|field| FieldDescriptorProto { oneof_index: Some(0), ..field });
    let value = DescriptorProto { oneof_decl: vec![oneof("kind")], ..message("Value", kinds) };
    let list = message("ListValue", [of("values", 1, Label::Repeated, ".google.protobuf.Value")]);
    vec![of_struct, value, list]
}

fn message<const N: usize>(name: &str, fields: [FieldDescriptorProto; N]) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field: fields.into(), ..DescriptorProto::default() }
}

fn field(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        ..FieldDescriptorProto::default()
    }
}

fn of(name: &str, number: i32, label: Label, message: &str) -> FieldDescriptorProto {
    let field = field(name, number, Type::Message);
    FieldDescriptorProto { label: Some(label.into()), type_name: Some(message.to_owned()), ..field }
}

fn of_enum(name: &str, number: i32, of: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(of.to_owned()), ..field(name, number, Type::Enum) }
}

fn oneof(name: &str) -> OneofDescriptorProto {
    OneofDescriptorProto { name: Some(name.to_owned()), options: None }
}

/// An enumeration whose numbers are the positions of its names.
fn enumeration(name: &str, values: &[&str]) -> EnumDescriptorProto {
    let value = |(number, name): (i32, &&str)| EnumValueDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(number),
        options: None,
    };
    EnumDescriptorProto {
        name: Some(name.to_owned()),
        value: (0..).zip(values).map(value).collect(),
        ..EnumDescriptorProto::default()
    }
}
