//! The contract of the storage by cases: operations, upgrades, files and writers of other programs.

mod files;
mod foreign;
mod limits;
mod offers;
mod operations;
mod operators;
mod selections;
