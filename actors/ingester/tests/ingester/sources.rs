//! Each source over real sockets and files: the items are those that the original makes of the same messages.

mod pandabox;
mod registry;
mod replay;
mod sardana;
mod support;
mod zmq;
