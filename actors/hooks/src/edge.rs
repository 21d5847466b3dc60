//! Input and output: the database of the outbox.

pub(crate) mod outbox;
