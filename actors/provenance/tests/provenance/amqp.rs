//! The AMQP edge on a real broker: what it declares, what it promises about order, what it does when the broker goes.

mod calling;
mod consuming;
mod fixture;
mod fuzzing;
mod losing;
