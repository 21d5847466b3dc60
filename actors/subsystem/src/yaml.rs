//! YAML configuration files of the replaced programs.

use serde::de::DeserializeOwned;
use serde_saphyr::Error;

/// Parses `text` as YAML.
///
/// # Errors
/// The text is not YAML or does not fit `T`. The error has the reason and the position, but no lines of the
/// file: they may hold a password.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        let at = error.location().map(|at| format!("line {} column {}: ", at.line(), at.column()));
        format!("{}{}", at.unwrap_or_default(), reason(error.without_snippet()))
    })
}

/// Speaks of the file; the parser's own texts name types and options of programs.
fn reason(error: &Error) -> String {
    match error {
        Error::DuplicateMappingKey { .. } => "this key is written twice: remove one".to_owned(),
        Error::MultipleDocuments { .. } => "a second document begins here: leave one".to_owned(),
        Error::SerdeUnknownField { expected, .. } => {
            format!("this key is unknown; known are {}", expected.join(", "))
        }
        Error::SerdeMissingField { field, .. } => format!("{field} is missing here"),
        Error::InvalidScalar { ty, .. } if ty.starts_with(['u', 'i']) => {
            "write a whole number here".to_owned()
        }
        Error::InvalidScalar { .. }
        | Error::SerdeInvalidType { .. }
        | Error::SerdeInvalidValue { .. }
        | Error::Unexpected { .. }
        | Error::Message { .. }
        | Error::NullIntoString { .. }
        | Error::TaggedScalarCannotDeserializeIntoString { .. } => {
            "this value is of another kind than the program reads here".to_owned()
        }
        Error::AliasError { error, .. } => reason(error),
        Error::UnknownAnchor { .. } | Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "this alias (*name) stands for no value: write the value".to_owned()
        }
        Error::Budget { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayLimitExceeded { .. } => {
            "the file is too large or too deep, with its aliases".to_owned()
        }
        _ => "it is not valid YAML: check indentation, quotes and brackets".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only their types matter")]
    struct File {
        name: String,
        count: Option<u32>,
        part: Option<Part>,
        parts: Option<BTreeMap<String, Part>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only their types matter")]
    enum Part {
        Number(u32),
        Text(String),
    }

    #[test]
    fn a_reason_is_told_in_terms_of_the_file() {
        let kind = "this value is of another kind than the program reads here";
        let invalid = "it is not valid YAML: check indentation, quotes and brackets";
        let alias = "this alias (*name) stands for no value: write the value";
        for (text, wanted) in [
            ("name: a\nname: b", "line 2 column 1: this key is written twice: remove one".to_owned()),
            ("name: a\n---\nname: b", "line 3 column 1: a second document begins here: leave one".to_owned()),
            (
                "name: a\nnmae: b",
                "line 2 column 1: this key is unknown; known are name, count, part, parts".to_owned(),
            ),
            ("count: 1", "line 1 column 1: name is missing here".to_owned()),
            ("name: a\ncount: s3cr3t", "line 2 column 8: write a whole number here".to_owned()),
            ("name: a\ncount: -1", "line 2 column 8: write a whole number here".to_owned()),
            ("name: a\ncount: 99999999999", "line 2 column 8: write a whole number here".to_owned()),
            ("name: [s3cr3t]", format!("line 1 column 7: {kind}")),
            ("name: {s3cr3t: 1}", format!("line 1 column 7: {kind}")),
            ("name: a\npart: [s3cr3t]", format!("line 2 column 7: {kind}")),
            ("name: a\nparts: {x: {s3cr3t: 1}}", format!("line 2 column 12: {kind}")),
            ("- s3cr3t", format!("line 1 column 1: {kind}")),
            ("s3cr3t", format!("line 1 column 1: {kind}")),
            ("name: *s3cr3t", format!("line 1 column 7: {alias}")),
            ("name: a\nparts: &a {x: *a}", format!("line 2 column 15: {alias}")),
            ("name: \"s3cr3t", format!("line 1 column 7: {invalid}")),
            ("name: \"\\q\"", format!("line 1 column 7: {invalid}")),
            ("name: s3cr3t\n x: y", format!("line 2 column 3: {invalid}")),
            ("name: s3cr3t: y", format!("line 1 column 13: {invalid}")),
            ("name: @s3cr3t", format!("line 1 column 7: {invalid}")),
        ] {
            assert_eq!(read::<File>(text).expect_err(text), wanted, "{text}");
        }
    }

    #[test]
    fn aliases_that_grow_without_bound_are_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let below = vec![format!("*a{}", level - 1); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        let error = read::<serde_json::Value>(&text).expect_err("a bound");
        assert!(error.ends_with("the file is too large or too deep, with its aliases"), "{error}");
    }
}
