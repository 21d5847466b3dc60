//! Delivery of JSON documents to a program or a webhook, each until it is accepted: at least once.
//!
//! [`Receiver`] delivers a document once. [`Courier`] does it for a child: it reports the link, counts
//! failures, and waits between attempts. The caller keeps a document until it is accepted, and gives it the
//! same id in each attempt.

mod courier;
mod document;
mod not_delivered;
mod program;
mod receiver;
mod settings;
mod webhook;

pub use self::{
    courier::{Courier, Failed},
    document::Document,
    receiver::Receiver,
    settings::ReceiverSettings,
};
