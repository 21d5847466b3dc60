//! Queries for selections and sets (CONTRACT SD04, SO06).

use mongodb::bson::{Document, doc};

use super::layout::{CONFIG, number};
use orchestrator_producer_rules::stencil::{Selection, Set};

/// Documents without a state, or with a TCN that is no number, match as well, so that they are reported as
/// invalid.
pub(super) fn stencils(selection: Selection) -> Document {
    let others = doc! { "_id": { "$ne": CONFIG } };
    let grows = doc! { "rootstock_tcn": { "$ne": 0 } };
    let parts = match selection {
        Selection::Recovery { tcn } => {
            vec![doc! { "$or": [{ "state": 0 }, { "state": 1 }] }, doc! { "TCN": number(tcn) }]
        }
        Selection::Open { tcn } => vec![
            doc! { "state": { "$ne": 3 } },
            doc! { "state": { "$ne": 2 } },
            doc! { "TCN": { "$lte": number(tcn) } },
            grows,
            others,
        ],
        Selection::Unfinished { tcn } => {
            vec![
                doc! { "state": { "$ne": 3 } },
                doc! { "TCN": { "$not": { "$gt": number(tcn) } } },
                grows,
                others,
            ]
        }
        Selection::Complete { tcn } => vec![doc! { "state": 3 }, doc! { "TCN": number(tcn) }, grows],
        Selection::LeftOut { tcn } => {
            vec![
                doc! { "state": { "$ne": 3 } },
                doc! { "TCN": { "$lte": number(tcn) } },
                doc! { "rootstock_tcn": 0 },
                others,
            ]
        }
        Selection::All => vec![others],
    };
    doc! { "$and": parts }
}

pub(super) fn tangles(set: Set) -> Document {
    match set {
        Set::Rootstock { tcn } => doc! { "TCN": number(tcn) },
        Set::Scion { tcn } => doc! { "TCN": number(tcn), "is_good": true },
    }
}
