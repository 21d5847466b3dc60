//! The edges under attack.

pub(crate) mod admin;
pub(crate) mod broker;
pub(crate) mod catalog;
pub(crate) mod exports;
pub(crate) mod ingester;
pub(crate) mod producer;
pub(crate) mod provenance;
pub(crate) mod queue;
