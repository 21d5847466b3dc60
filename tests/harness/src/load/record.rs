//! What is known from outside after a load: what the files hold, what workers saw, when the process was disturbed.

use std::time::Instant;

use super::{Lines, Seen};

/// A kill or an injected panic: from just before it until it had surely happened.
#[derive(Debug, Clone, Copy)]
pub struct Disruption {
    /// Not earlier than this,
    pub from: Instant,
    /// and not later.
    pub to: Instant,
}

/// The evidence of one load; [`LoadRecord::judge`] says what is wrong with it.
#[derive(Debug)]
pub struct LoadRecord {
    /// Lines of the files at the end.
    pub present: Lines,
    /// Lines that any file ever held.
    pub ever: Lines,
    /// What workers saw.
    pub seen: Seen,
    /// In order of time.
    pub disruptions: Vec<Disruption>,
}
