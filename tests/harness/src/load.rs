//! Load with a memory: fetchers that write files, workers that take and finish jobs, and a ledger of what both saw,
//! so that "no job lost, none doubled" can be judged from outside. All choices come from one seed; times do not.

mod crew;
mod dice;
mod disk;
mod fetchers;
mod judge;
mod ledger;

pub use crew::{Crew, Done, Handout, Seen};
pub use dice::{Dice, seeds};
pub use disk::Disk;
pub use fetchers::{Fetchers, Line, Lines};
pub use ledger::{Disruption, Ledger};
