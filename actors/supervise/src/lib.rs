//! Supervision trees with the semantics of Erlang/OTP, on actix.
//!
//! Children (actors, tasks and threads) run under supervisors, which restart them after a failure. Mailboxes and inboxes outlive the
//! children that read them. Operators can inspect and command the tree while it runs.
//!
//! ```
//! use std::time::Duration;
//!
//! use orchestrator_supervise::{
//!     Answer, Child, ChildCx, ChildSpec, Factory, Handle, Message, Root, Strategy, SupervisorSpec, mailbox,
//! };
//!
//! struct Counter(u64);
//!
//! struct Add(u64);
//!
//! impl Message for Add {
//!     type Result = u64;
//! }
//!
//! impl Child for Counter {}
//!
//! impl Handle<Add> for Counter {
//!     fn handle(&mut self, Add(number): Add, _cx: &mut ChildCx<'_, Self>) -> Answer<Self, u64> {
//!         self.0 = self.0.checked_add(number).expect("no overflow"); // a panic restarts the counter at 0
//!         Answer::now(self.0)
//!     }
//! }
//!
//! let (counter, slot) = mailbox::<Counter>(64);
//! let child = ChildSpec::worker("counter", Factory::actor(slot, |_| Ok(Counter(0))));
//! let spec = SupervisorSpec::new(Strategy::OneForOne).child(child);
//!
//! actix_rt::System::new().block_on(async {
//!     let mut root = Root::start("example", spec).await.expect("a valid specification");
//!     let timeout = Duration::from_secs(5);
//!     assert_eq!(counter.ask(Add(2), timeout).await, Ok(2));
//!     assert!(counter.ask(Add(u64::MAX), timeout).await.is_err(), "the message in progress is lost");
//!     assert_eq!(counter.ask(Add(3), timeout).await, Ok(3), "the next incarnation answers");
//!     root.stop().await;
//! });
//! ```
//!
//! # Concepts
//!
//! | Concept | Meaning | API |
//! |---|---|---|
//! | child | an actor, a task, a thread or a supervisor | [`ChildSpec`], [`Factory`] |
//! | supervisor | starts, restarts and stops its children | [`SupervisorSpec`], [`Strategy`], [`Restart`] |
//! | incarnation | one run of a child, from start to exit | [`StartCx`], [`ChildCx`], [`Exit`] |
//! | restart intensity | restarts that a supervisor allows within a period; after one more it gives up | [`Limits`] |
//! | mailbox | bounded queue of an actor; stays over restarts | [`Mailbox`], [`mailbox()`] |
//! | inbox | bounded channel of a task or thread; stays over restarts | [`Outbox`], [`Inbox`], [`inbox()`] |
//! | durable state | state that outlives incarnations | [`Durable`] |
//! | dynamic children | children added and removed at run time | [`Children`], [`children()`] |
//! | vitals | state and metrics of a child | [`Vitals`], [`metrics!`] |
//! | link | connection of a child to a peer outside the process | [`Link`], [`LinkReporter`] |
//! | tree | snapshots, events and commands | [`Root`], [`Tree`], [`Command`] |
//!
//! `tell` sends without waiting, `send` waits for room, and `ask` waits for an answer with a time-out.
//!
//! # Guarantees
//!
//! - A panic ends only the incarnation that panics. Only the message in progress is lost; waiting messages stay in order.
//! - Capacities are exact: a full mailbox refuses, and returns the message.
//! - A stop drains: children stop in reverse order, so each one handles the messages of sources that stopped before.
//! - No child has two incarnations at the same time, not even after a thread hangs.
//! - The tree answers while children are stuck.
//!
//! `README.md` lists all guarantees with their tests, and the differences from OTP.
//!
//! # Limits
//!
//! - Threads cannot be killed, only asked to stop. Actors and tasks are dropped at an await.
//! - Waiting messages and durable state are in memory only.
//! - A panic must unwind, so `panic = "abort"` does not work.

mod activity;
mod arbiter;
mod block_on;
mod blocker;
mod body;
mod branch;
mod build;
mod cell;
mod child;
mod command;
mod console;
mod console_call;
mod crash_log;
mod crash_report;
mod durable;
mod dynamic;
mod error;
mod event;
mod exit;
mod export;
mod frames;
mod guard;
mod histogram;
mod in_progress;
mod inbox;
mod incarnation_bound;
mod limits;
mod link;
mod mailbox;
mod mailbox_stats;
mod metric;
mod node;
mod outline;
mod pause_state;
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
mod wait_graph;
mod waits;
mod work_log;

pub use actix::Message;
pub use block_on::block_on;
pub use blocker::Blocker;
pub use branch::{is_in_branch, without_root};
pub use child::{Answer, Child, ChildCx, Handle};
pub use command::Command;
pub use console::{ConsoleError, ConsoleReply, ConsoleRequest};
pub use console_call::{CONSOLE_TIMEOUT, ConsoleCallError};
pub use crash_log::CrashLog;
pub use crash_report::{CrashReport, SampledMetric, Samples};
pub use durable::{Durable, DurableGuard, DurableView};
pub use dynamic::{Children, ChildrenSlot, children};
pub use error::{ChildrenError, SpecError};
pub use event::{EVENT_LOG_CAPACITY, Event, EventKind, EventLog};
pub use exit::{Exit, Fault};
pub use export::{ExportPages, Exports};
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
pub use tree::{CommandError, Origin, StateChange, Tree};
pub use vitals::{LABELS_MAX, LastExit, Note, OTHER_LABEL, Vitals};
pub use wait_graph::{DEADLOCK_AFTER_MS, WaitGraph};
pub use work_log::LastWork;

/// The example of the page is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
