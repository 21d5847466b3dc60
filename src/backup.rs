//! `orchestrator backup` and `restore`: a copy of all that the program keeps over a restart, while it runs or
//! not, and the way back.
//!
//! A backup is a directory with `manifest.json`, see [`manifest::Manifest`], and a file for each role, such
//! as `queue/database`. It is written under another name and renamed once it is whole. A restore prepares all
//! files beside their targets and then renames them; the [`journal`] undoes renames that a kill interrupted.

mod copying;
mod durable;
mod handing_over;
mod journal;
mod manifest;
mod reading;
mod restoring;

pub(crate) use self::{copying::back_up, journal::recover, restoring::restore};
