//! The producer subsystem: turns stencils in MongoDB into jobs in Faktory, each once.
//!
//! It takes the place of the Python producer of a tanglenomicon: the same documents, the same jobs, in the same order.
//!
//! Pure rules: [`advance`] (when a TCN is complete, what becomes of stencils), [`pages`] and [`pair`] (which jobs, in which
//! order), [`cursor`] (how far a stencil came), [`job`] and [`batch`] (what a job is on the wire), [`reading`] (what the
//! queue's server says), [`watermark`], [`lease`]. [`perform`] does what they say over a [`store`] and a [`queue`], at a
//! [`pace`]; [`producer`] is the actor. Everything that talks to the outside is under [`edge`].

pub mod advance;
pub mod batch;
mod config;
pub mod cursor;
pub mod edge;
pub mod id;
pub mod job;
pub mod lease;
pub mod pace;
pub mod pages;
pub mod pair;
pub mod perform;
pub mod plan;
pub mod producer;
pub mod queue;
pub mod reading;
pub mod status;
pub mod stencil;
pub mod store;
pub mod walk;
pub mod watermark;

pub use config::{Compat, MongoConfig, ProducerConfig};
