//! The interface between the binary and a subsystem.
//!
//! A subsystem is a crate with a type that implements [`Subsystem`]. The binary has one list of such types (`src/subsystems.rs`)
//! and reaches everything through it: the section of the configuration, its checks, the branch of the tree, the commands below
//! `orchestrator NAME`, and the command lines of the programs that it replaces.
//!
//! | Module | |
//! |---|---|
//! | [`mod@subsystem`] | the trait that a crate implements |
//! | [`any_subsystem`], [`section`] | a subsystem without its type, as the list has it, and its section |
//! | [`command`] | what a command has at hand, and how it fails |
//! | [`wire`] | the JSON of the admin endpoint that commands and endpoint share |
//! | [`output`], [`columns`] | text and tables for a terminal |
//! | [`redaction`] | hides secrets in texts |
//! | [`yaml`], [`percent`] | configuration files and addresses of the programs that are replaced |

pub mod any_subsystem;
pub mod columns;
pub mod command;
pub mod output;
pub mod percent;
pub mod redaction;
pub mod section;
pub mod subsystem;
pub mod wire;
#[cfg(feature = "yaml")]
pub mod yaml;

pub use crate::{
    any_subsystem::AnySubsystem,
    command::{CommandError, ConfigArguments, Context, Instance, NoCommand},
    output::Form,
    section::{Section, Work},
    subsystem::{Branch, Subsystem},
};
