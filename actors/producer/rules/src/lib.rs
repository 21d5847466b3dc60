//! Rules of the producer: which jobs a stencil has, when a TCN is complete, who has the lease, and the wire
//! format of jobs. No I/O and no clock.
//!
//! Comments cite the rules of the producer's `CONTRACT.md` by number.
//!
//! | modules | content |
//! |---|---|
//! | `advance` | state machines that decide when a TCN is complete and what happens to stencils |
//! | `pages`, `pair` | jobs of a stencil and their order |
//! | `cursor`, `lease`, `watermark`, `queue_state` | progress, lease, flow control, `INFO` |
//! | `job`, `batch` | wire format of jobs |

pub mod advance;
pub mod batch;
pub mod completion_rate;
pub mod cursor;
pub mod id;
pub mod job;
pub mod lease;
pub mod pages;
pub mod pair;
pub mod queue_state;
pub mod stencil;
pub mod watermark;
