//! The repository: its pages, its rules, its packaging.

mod deploy;
mod reference;
mod tidy;
mod tutorial;
