//! Rules of the catalog: which requests a rule makes, what a claim writes, and what each outcome does. No I/O
//! and no clock.
//!
//! Comments cite the rules of the catalog's `CONTRACT.md` by number.
//!
//! | modules | content |
//! |---|---|
//! | `definition`, `rule` | the configured part of a rule, and the rule compiled from it |
//! | `template`, `text_template` | values and texts that a rule writes |
//! | `cell`, `rows`, `path` | values, rows and paths of ERMrest's API |
//! | `outcome_kind`, `answer` | what handlers' exit codes, statuses and answers mean |

pub mod answer;
pub mod cell;
pub mod definition;
pub mod outcome_kind;
pub mod path;
pub mod rows;
pub mod rule;
pub mod template;
pub mod text_template;
