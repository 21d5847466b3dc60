//! The supervision kernel: Erlang/OTP's semantics on actix.
//!
//! Eight nouns: [`ChildSpec`] (what to run and how to treat it), the supervisor (strategy and ordered children), the
//! runner (one child's life), [`Exit`] (why it ended), [`Mailbox`] (the only way to talk), [`Vitals`] (what is known of
//! a child without asking it), [`Link`] (an edge's connection) and [`Tree`] (snapshot, events, commands).
//! Two verbs: `tell` (bounded, may refuse) and `ask` (always with a time-out).
//!
//! The kernel knows no broker, no HTTP and none of our other crates. `README.md` beside this file is the contract: each
//! promise with the test that proves it.

mod arbiter;
mod block_on;
mod body;
mod build;
mod cell;
mod child;
mod command;
mod console;
mod durable;
mod dynamic;
mod error;
mod event;
mod exit;
mod guard;
mod histogram;
mod in_progress;
mod inbox;
mod incarnation_bound;
mod intake;
mod limits;
mod link;
mod mailbox;
mod mailbox_stats;
mod metric;
mod node;
mod outline;
mod refusal;
mod register_metrics;
mod reply;
mod request;
mod root;
mod runner;
mod snapshot;
mod spec;
mod start_cx;
mod state;
mod strategy;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod timing;
mod tree;
mod validate;
mod vitals;

pub use actix::Message;
pub use block_on::block_on;
pub use child::{Answer, Child, ChildCx, Handle};
pub use command::Command;
pub use console::{ConsoleError, ConsoleReply, ConsoleRequest};
pub use durable::{Durable, DurableGuard, DurableView};
pub use dynamic::{Children, ChildrenSlot, children};
pub use error::{ChildrenError, SpecError};
pub use event::{EVENT_LOG_CAPACITY, Event, EventKind, EventLog};
pub use exit::{Exit, Fault};
pub use histogram::Histogram;
pub use in_progress::WorkGuard;
pub use inbox::{Inbox, InboxSlot, Outbox, Received, inbox};
pub use incarnation_bound::IncarnationBound;
pub use limits::{Backoff, Limits, RestartWindow};
pub use link::{Link, LinkReporter};
pub use mailbox::{Mailbox, MailboxSlot, Recipient, mailbox};
pub use mailbox_stats::{MailboxStats, MessageStats};
pub use metric::{Metric, MetricKind};
pub use refusal::{AskError, Refused};
pub use reply::{Pending, Reply, reply};
pub use root::Root;
pub use snapshot::*;
pub use spec::{ChildSpec, Factory, OnRestart, Placement, Shutdown, Start, SupervisorSpec};
pub use start_cx::StartCx;
pub use state::State;
pub use strategy::{Restart, Strategy};
pub use text::{TEXT_MAX, escape_json, is_escaped, sanitize, sanitize_to};
pub use timing::Timing;
pub use tokio_util::sync::CancellationToken as StopToken;
pub use tree::{CONSOLE_TIMEOUT, CommandError, ConsoleCallError, Origin, StateChange, Tree};
pub use vitals::{Blocker, LABELS_MAX, LastExit, Note, OTHER_LABEL, Vitals};

/// The example of the contract is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Contract;
