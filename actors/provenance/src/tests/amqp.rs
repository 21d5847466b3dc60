//! AMQP edge with a real broker: declarations, order, lost connections.

mod calling;
mod connection_loss;
mod consuming;
mod fixture;
mod fuzzing;
mod refusing_broker;
mod topologies;
