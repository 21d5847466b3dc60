//! The producer subsystem: turns stencils into jobs for a Faktory server.
//!
//! Pure rules: [`job`] (what a job is on the wire), [`batch`] (jobs that are pushed together). Everything that talks to the
//! outside is under [`edge`].

pub mod batch;
pub mod edge;
pub mod id;
pub mod job;
pub mod pair;
pub mod queue;
pub mod reading;
