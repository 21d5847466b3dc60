//! Each source over real sockets and files: the items are those that the original makes of the same messages.

#[path = "protocols/captures.rs"]
mod captures;
#[path = "sources/pandabox.rs"]
mod pandabox;
#[path = "sources/registry.rs"]
mod registry;
#[path = "sources/replay.rs"]
mod replay;
#[path = "sources/sardana.rs"]
mod sardana;
#[path = "sources/support.rs"]
mod support;
#[path = "sources/zmq.rs"]
mod zmq;
