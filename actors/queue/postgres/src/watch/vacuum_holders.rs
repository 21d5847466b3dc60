//! Transactions, replication slots and prepared transactions because of which vacuum cannot remove rows.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use orchestrator_edge::postgres::Row;
use orchestrator_queue_rules::storage::StorageError;

use super::finding::{Finding, OF_QUEUE, SESSION_COLUMNS, session_of};
use crate::{server_session::Session, session::get};

const ACTION: &str = "looking for what holds vacuum back";
/// Time after which a holder is reported. The server's autovacuum looks at a database once in a minute
/// (`autovacuum_naptime`), so what is shorter delays one round at most.
const HELD: Duration = Duration::from_secs(60);
/// Maximum number of holders that are looked at, those with the oldest transactions.
const HOLDERS_MAX: i64 = 100;

/// Oldest transaction that each holder of the last look needs, and the time of the first look at it.
#[derive(Default)]
pub(super) struct VacuumHolders(HashMap<String, (String, Instant)>);

/// Holder of a look.
struct Holder {
    held: Duration,
    text: String,
    help: String,
    /// Number of transactions since then.
    transactions: i32,
}

impl VacuumHolders {
    /// Finds the holder with the oldest transaction. One that moves on, such as a long transaction of short
    /// statements, holds nothing back.
    pub(super) async fn look(
        &mut self,
        session: &mut Session,
        now: Instant,
    ) -> Result<Option<Finding>, StorageError> {
        let sql = format!(
            include_str!("../sql/watch/vacuum_holders.sql"),
            of_queue = OF_QUEUE,
            session_columns = SESSION_COLUMNS
        );
        let rows = session.query(ACTION, sql, vec![Box::new(HOLDERS_MAX)]).await?;
        let known = std::mem::take(&mut self.0);
        let mut holders = Vec::new();
        for row in &rows {
            let key = format!("{} {}", get::<String>(row, "kind")?, get::<String>(row, "name")?);
            let oldest: String = get(row, "oldest")?;
            let since = known.get(&key).filter(|(known, _)| *known == oldest).map(|(_, since)| *since);
            if let Some(since) = since {
                let told = get::<Option<f64>>(row, "held")?.map(Duration::try_from_secs_f64);
                let held = told.and_then(Result::ok).unwrap_or_default().max(now.duration_since(since));
                if held >= HELD {
                    holders.push(holder(row, held)?);
                }
            }
            self.0.insert(key, (oldest, since.unwrap_or(now)));
        }
        let Some(first) = holders.first() else { return Ok(None) };
        let others = holders[1..].iter().map(|other| format!("{}: {} s", other.text, other.held.as_secs()));
        let rows = format!(
            "rows deleted in the last {} transactions stay in the tables, so hand-outs become slower",
            first.transactions
        );
        Ok(Some(Finding {
            kind: "vacuum_held_back",
            fault_of: None,
            text: format!("vacuum has been held back for {} s by {}", first.held.as_secs(), first.text),
            // The last of four facts may be what the role may not see.
            evidence: std::iter::once(rows).chain(others.take(2)).collect(),
            help: first.help.clone(),
        }))
    }
}

fn holder(row: &Row, held: Duration) -> Result<Holder, StorageError> {
    let name: String = get(row, "name")?;
    let (text, help) = match get::<String>(row, "kind")?.as_str() {
        "session" => {
            (session_of(row)?, format!("end its transaction, or SELECT pg_terminate_backend({name})"))
        }
        "prepared" => {
            let role: Option<String> = get(row, "role")?;
            let text = format!("the prepared transaction '{name}' of the role {}", role.unwrap_or_default());
            (text, format!("ROLLBACK PREPARED '{name}', or COMMIT PREPARED, in its database"))
        }
        _ => {
            let state: Option<String> = get(row, "state")?;
            let text = format!("the {} replication slot {name}", state.unwrap_or_default());
            (
                text,
                format!(
                    "end the long query on its standby; if the standby is gone, SELECT pg_drop_replication_slot('{name}')"
                ),
            )
        }
    };
    Ok(Holder { held, text, help, transactions: get(row, "transactions")? })
}
