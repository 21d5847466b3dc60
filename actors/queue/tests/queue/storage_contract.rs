//! The storage's contract, case by case: the queue operations, upgrades, foreign files and foreign writers.

mod files;
mod foreign;
mod operations;
mod operators;
