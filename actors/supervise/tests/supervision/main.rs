//! Supervision semantics on real trees.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod arbiters;
mod crashes;
mod dynamic;
mod giving_up;
mod hangs;
mod inboxes;
mod mailbox;
mod panics;
mod pausing;
mod probe;
mod random_tree;
mod requests;
mod sends;
mod steering;
mod stopping;
mod storms;
mod strategies;
mod vitals;
mod waits;
