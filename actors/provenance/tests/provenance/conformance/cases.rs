//! Cases by what they are about. Each ends with every question put to store and model.

pub(crate) mod dates;
pub(crate) mod entities;
pub(crate) mod occurrences;
pub(crate) mod relations;
