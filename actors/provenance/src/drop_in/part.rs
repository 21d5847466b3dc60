//! Parts of a database's address in the original's files.

use std::fmt;

use serde::Deserialize;

use crate::error::ProvenanceError;

pub(super) type Result<T> = std::result::Result<T, ProvenanceError>;

pub(super) fn refused(text: impl Into<String>) -> ProvenanceError {
    ProvenanceError::Config(text.into())
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Part {
    Truth(bool),
    Number(u32),
    Text(String),
    Texts(Vec<String>),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(truth) => truth.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Texts(texts) => f.write_str(&texts.join(",")),
        }
    }
}
