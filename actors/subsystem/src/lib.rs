//! The interface between the binary and a subsystem.
//!
//! A subsystem is a crate with a type that implements [`Subsystem`]. The binary has one list of such types
//! (`src/subsystems.rs`) and reaches everything through it: the section of the configuration, its checks, the
//! branch of the tree, the commands below `orchestrator NAME`, and the command lines of the programs that the
//! subsystem replaces.
//!
//! | Module | |
//! |---|---|
//! | [`mod@subsystem`] | the trait that a crate implements |
//! | [`mod@entry`] | schema, commands and drop-in command lines of a subsystem |
//! | [`console`], [`export`] | verbs and exports of a child in the tree |
//! | [`mod@verb`], [`mod@verbs`], [`route`], [`text`] | declarations of verbs, text of their answers |
//! | [`item`] | explanations of one job, row or mapping |
//! | [`until`] | end of a pause |
//! | [`command`] | context and errors of a command |
//! | [`wire`] | JSON types and URLs of the admin endpoint |
//! | [`original`] | replaced programs |
//! | [`backup_set`] | files that outlive the process, for backups |
//! | [`output`], [`columns`] | text and tables for a terminal |
//! | [`secret`], [`redaction`] | configured texts with secrets; removal of secrets from other texts |
//! | [`period`] | durations in the configuration |
//! | [`yaml`], [`percent`] | configuration files and addresses of the replaced programs |

pub mod actor_command;
pub mod backup_set;
pub mod columns;
pub mod command;
pub mod console;
mod detail;
pub mod entry;
pub mod export;
pub mod item;
pub mod original;
pub mod output;
pub mod percent;
pub mod period;
pub mod redaction;
pub mod route;
pub mod secret;
pub mod subsystem;
pub mod text;
pub mod until;
pub mod verb;
pub mod verbs;
pub mod wire;
#[cfg(feature = "yaml")]
pub mod yaml;

pub use orchestrator_exchange::{Exchange, HookEvent};

pub use crate::{
    actor_command::ActorCommand,
    backup_set::{BackupFile, BackupKind, BackupSet},
    command::{CommandError, ConfigArguments, Context, Instance, NoCommand},
    console::{
        CONSOLE_TIMEOUT, Console, ConsoleCallError, ConsoleError, ConsoleReply, ConsoleVerb, Effect,
        VerbSchemas,
    },
    detail::DETAIL,
    export::{ExportPages, Exports},
    item::{Explain, Explained, Item, NextChance, Progress, WhyItem},
    original::{Original, OriginalContext, OriginalFile},
    output::OutputFormat,
    period::Period,
    secret::{Address, CommandLine, HeaderLine, Secret, WebhookUrl},
    subsystem::{Branch, ProgressSource, Subsystem},
    until::{Until, parse_duration, time_zone, until_text},
    verb::{Answered, Verb},
    verbs::{VerbCommand, Verbs},
};
