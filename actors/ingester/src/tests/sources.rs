//! Sources over real sockets and files: their items equal the original's.

mod pandabox;
mod registry;
mod replay;
mod sardana;
pub(crate) mod support;
mod zmq;
