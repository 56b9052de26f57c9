//! `usage`: where a response states what it has used.

use portcullis_tower::Limit;

use super::Reader;
use crate::fields::Fields;

impl Reader<'_> {
    #[cfg(feature = "usage")]
    pub(super) fn usage(fields: &Fields<'_>, limit: Limit) -> Limit {
        use portcullis_usage::UsageReader;

        use crate::fields::quoted;
        use crate::tables::USAGES;
        use crate::tree::Value;

        static OF_PROVIDERS: [(&str, &UsageReader); USAGES.len()] = [
            (USAGES[0], &UsageReader::OPENAI),
            (USAGES[1], &UsageReader::ANTHROPIC),
            (USAGES[2], &UsageReader::GEMINI),
        ];
        let reader = match fields.node("usage").map(|node| &node.value) {
            Some(Value::Map(_)) => {
                let parse = |table: Fields<'_>| table.parse_with("pointer", UsageReader::pointer);
                fields.table("usage").and_then(parse)
            }
            Some(Value::String(text)) if text.starts_with('/') => {
                let help = format!("write a pointer as {{ pointer = {} }}", quoted(text));
                fields.error("usage", format!("{} is no provider", quoted(text))).help(help);
                None
            }
            _ => fields.choice("usage", &OF_PROVIDERS).cloned(),
        };
        match reader {
            Some(reader) => limit.read_usage(reader),
            None => limit,
        }
    }

    #[cfg(not(feature = "usage"))]
    pub(super) fn usage(fields: &Fields<'_>, limit: Limit) -> Limit {
        if fields.has("usage") {
            fields
                .error("usage", "this program is built without readers of usage: enable the feature `usage`");
        }
        limit
    }
}
