//! Plan of a dry run: the jobs left to push, from what the database has now.

use std::collections::BTreeMap;

use orchestrator_producer_rules::{
    cursor::{Remaining, SetSummary},
    stencil::{Selection, Set, State, Stencil},
};
use serde::Serialize;

use crate::store::{Store, StoreError};

/// Jobs left to push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Greatest complete TCN.
    pub completed_tcn: i64,
    /// Last TCN.
    pub max_tcn: i64,
    /// Stencils to push, in order.
    pub stencils: Vec<PlannedStencil>,
    /// Number of stencils that are never pushed: with rootstock 0, or beyond `max_tcn`.
    pub left_out: usize,
    /// Invalid documents, which would block.
    pub unreadable: Vec<String>,
    /// Jobs left, with the present sets.
    pub jobs: u64,
    /// Size of these jobs on the wire, in bytes.
    pub bytes: u64,
}

/// Stencil that is not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedStencil {
    pub id: String,
    pub tcn: i64,
    /// Crossings of the rootstocks.
    pub rootstock_tcn: i64,
    /// Crossings of the scions.
    pub scion_tcn: i64,
    /// Number of its state.
    pub state: i64,
    /// Pages of rootstocks.
    pub root_pages: u64,
    /// Pages of scions.
    pub scion_pages: u64,
    /// Jobs left.
    pub jobs: u64,
}

impl Plan {
    /// Time to push all jobs, in seconds; `None` at a rate of 0.
    pub fn pushing_secs(&self, jobs_per_sec: u64) -> Option<u64> {
        (jobs_per_sec > 0).then(|| self.jobs.div_ceil(jobs_per_sec))
    }
}

/// Plans over all stencils. `job_bytes` is the size of one job.
///
/// # Errors
/// As those of [`Store`].
pub(crate) async fn plan(store: &impl Store, page_size: u32, job_bytes: u64) -> Result<Plan, StoreError> {
    let config = store.config_document().await?;
    let mut plan = Plan {
        completed_tcn: config.completed_tcn,
        max_tcn: config.max_tcn,
        stencils: Vec::new(),
        left_out: 0,
        unreadable: Vec::new(),
        jobs: 0,
        bytes: 0,
    };
    let mut known = BTreeMap::new();
    for stencil in store.list(Selection::All).await? {
        match stencil {
            Err(document) => plan.unreadable.push(document.to_string()),
            Ok(stencil) if stencil.state == State::Complete => {}
            Ok(stencil) if stencil.rootstock_tcn == 0 || stencil.tcn > config.max_tcn => plan.left_out += 1,
            Ok(stencil) => {
                let roots = cached_summary(store, &mut known, stencil.roots()).await?;
                let scions = cached_summary(store, &mut known, stencil.scions()).await?;
                plan.stencils.push(planned(&stencil, page_size, roots, scions));
            }
        }
    }
    plan.jobs = plan.stencils.iter().map(|stencil| stencil.jobs).fold(0, u64::saturating_add);
    plan.bytes = plan.jobs.saturating_mul(job_bytes);
    Ok(plan)
}

async fn cached_summary(
    store: &impl Store,
    known: &mut BTreeMap<Set, SetSummary>,
    set: Set,
) -> Result<SetSummary, StoreError> {
    if let Some(summary) = known.get(&set) {
        return Ok(*summary);
    }
    let summary = store.set_summary(set).await?;
    known.insert(set, summary);
    Ok(summary)
}

fn planned(stencil: &Stencil, page_size: u32, roots: SetSummary, scions: SetSummary) -> PlannedStencil {
    let started =
        stencil.cursor.filter(|cursor| stencil.state == State::Started && cursor.remaining != Remaining::All);
    let page_size = started.map_or(page_size, |cursor| cursor.page_size);
    let (root_pages, scion_pages) = (roots.pages(page_size), scions.pages(page_size));
    let pushed = started.map_or(0, |cursor| cursor.pushed);
    PlannedStencil {
        id: stencil.id.to_string(),
        tcn: stencil.tcn,
        rootstock_tcn: stencil.rootstock_tcn,
        scion_tcn: stencil.scion_tcn,
        state: stencil.state.number(),
        root_pages,
        scion_pages,
        jobs: root_pages.saturating_mul(scion_pages).saturating_sub(pushed),
    }
}
