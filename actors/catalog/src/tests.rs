//! Integration tests of the catalog's edges, handlers and poller.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod credentials;
mod handlers_command;
mod handlers_queue;
mod handlers_webhook;
mod http;
mod notices;
mod planner;
mod poller;
mod rule_limits;
mod session;
