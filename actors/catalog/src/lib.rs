//! The catalog subsystem: condition-action agents on an ERMrest catalog.
//!
//! It takes the place of agents that are built on the Python library deriva: the same requests, the same claims, the same
//! notices. [`child_spec`] gives its tree; `README.md` beside this crate is its contract in short.
//!
//! Pure rules: [`path`] and [`template`] (what is asked and written), [`rule`] (a rule, read once), [`state_change`] (look, plan,
//! write unless somebody was faster), [`polling`] (when to look), [`hand`] (what is claimed and not settled), [`answer`] and
//! [`ending`] (what handlers say). [`agent`] has one rule at work over a [`service`], taking turns in the [`lane`];
//! [`poller`] is the actor. Everything that talks to the outside is under [`edge`].

pub mod agent;
pub mod answer;
mod config;
pub mod edge;
pub mod ending;
pub mod hand;
mod handler_config;
pub mod handling;
pub mod lane;
pub mod messages;
pub mod path;
pub mod poller;
pub mod polling;
pub mod rule;
pub mod service;
pub mod state_change;
pub mod status;
pub mod template;
pub mod wall;

pub use config::{BackoffConfig, CatalogConfig, ClaimConfig, Guard, PlanConfig, RuleConfig};
pub use handler_config::{Actors, HandlerConfig, HandlerKind};
