//! The repository: its pages, its rules, its packaging.

mod alerts;
mod changelog;
mod contracts;
mod deploy;
mod first_run;
mod lengths;
mod nix;
mod packages;
mod pages;
mod pictures;
mod promises;
mod quick_starts;
mod reference;
mod series;
mod tidy;
mod tutorial;
