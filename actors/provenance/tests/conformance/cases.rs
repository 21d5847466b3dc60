//! Cases by what they are about. Each ends with every question put to store and model.

pub mod dates;
pub mod entities;
pub mod occurrences;
pub mod relations;
