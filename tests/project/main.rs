//! The repository: its pages, its rules, its packaging.

mod contracts;
mod deploy;
mod promises;
mod reference;
mod tidy;
mod tutorial;
