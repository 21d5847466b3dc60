//! Configuration of the real binary: its sources, mistakes, shipped profiles, and the command lines of the
//! originals.

mod command_line;
mod dropin;
mod dropin_options;
mod init;
mod print_config;
mod rejected;
mod secrets;
mod shell;
mod shipped;
mod sources;
mod version;
