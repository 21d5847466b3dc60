//! The calibration K: a client that carries out the program's statements and nothing else, one batch after
//! the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use orchestrator_edge::postgres::{Address, Session, SessionSettings};

use super::search_path;

/// Settings of a session, as the program's.
pub(super) const SETTINGS: SessionSettings = SessionSettings {
    sql: &[SessionSettings::PLANS_BY_INDEX, SessionSettings::DURABLE],
    connect_timeout: Duration::from_secs(10),
    answer_timeout: Duration::from_secs(600),
    row_max: 1 << 20,
    answer_max: 64 << 20,
};

/// A client that is one of the instances.
pub(super) struct Bare {
    session: Session,
    incarnation: i64,
    next_handout: i64,
    /// Jobs of the last batch, and their hand-outs.
    jobs: Vec<String>,
    handouts: Vec<i64>,
}

impl Bare {
    pub(super) async fn connect(dsn: &str, schema: &str) -> Result<Self> {
        let mut session = Session::open(&Address::parse(dsn, "bare")?, &SETTINGS).await?;
        session.batch("connecting", &search_path(schema)).await?;
        let take = "SELECT take_instance('bare', 'here', 'none', interval '1 day')";
        let rows = session.query("connecting", take, vec![]).await?;
        let incarnation: i64 = rows.first().context("an incarnation")?.try_get(0)?;
        Ok(Self {
            session,
            incarnation,
            next_handout: incarnation << 32,
            jobs: Vec::new(),
            handouts: Vec::new(),
        })
    }

    /// Ends the jobs of the last batch and takes `size` others, in one transaction.
    async fn batch(&mut self, size: usize) -> Result<()> {
        const ACTION: &str = "a batch";
        let enter = format!("BEGIN; SELECT enter('bare', {})", self.incarnation);
        self.session.batch(ACTION, &enter).await?;
        if !self.jobs.is_empty() {
            let delivered = "SELECT record_deliveries($1, $2)";
            let ids = std::mem::take(&mut self.handouts);
            self.session.query(ACTION, delivered, vec![Box::new(ids), Box::new(false)]).await?;
            let codes = vec![0_i64; self.jobs.len()];
            let end = "SELECT number, seconds, owner, claim
                       FROM end_jobs($1, $2, floor(extract(epoch FROM clock_timestamp()))::bigint)";
            self.session
                .query(ACTION, end, vec![Box::new(std::mem::take(&mut self.jobs)), Box::new(codes)])
                .await?;
        }
        let hand_out = "SELECT handout_id, attr_path, payload
                        FROM hand_out($1, $2, floor(extract(epoch FROM clock_timestamp()))::bigint, 43200, true, NULL, 0, 1 << 26)";
        let params: Vec<Box<dyn orchestrator_edge::postgres::types::ToSql + Sync>> =
            vec![Box::new(vec!["bare"; size]), Box::new(self.next_handout)];
        let rows = self.session.query(ACTION, hand_out, params).await?;
        let last = rows.last().context("the queue ran dry")?;
        self.next_handout = last.try_get::<_, i64>(0)? + 1;
        self.jobs = rows.iter().map(|row| row.try_get(1)).collect::<Result<_, _>>()?;
        self.handouts = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        self.session.batch(ACTION, "SELECT before_commit(); COMMIT").await?;
        Ok(())
    }

    /// Jobs a second in batches of `size`.
    pub(super) async fn jobs_per_s(&mut self, size: usize, span: Duration) -> Result<f64> {
        let begun = Instant::now();
        let mut jobs = 0;
        while begun.elapsed() < span {
            self.batch(size).await?;
            jobs += self.jobs.len();
        }
        Ok(jobs as f64 / begun.elapsed().as_secs_f64())
    }
}
