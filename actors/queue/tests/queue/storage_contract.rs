//! The storage's contract, case by case: the queue operations, upgrades, foreign files and foreign writers.

mod bench;
mod deletion;
mod files;
mod foreign;
mod handouts;
mod operations;
mod operators;
