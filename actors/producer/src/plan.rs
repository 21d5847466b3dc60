//! A dry run: what is left to be pushed, by what is in the database now. Nothing is written.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    cursor::{Census, Rest},
    stencil::{Selection, Set, State, Stencil},
    store::{Store, StoreError},
};

/// What is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The greatest TCN that is complete.
    pub completed_tcn: i64,
    /// The TCN to end with.
    pub max_tcn: i64,
    /// What there is to do, in the order of work.
    pub stencils: Vec<Planned>,
    /// Stencils that are never pushed: with rootstock 0, or beyond `max_tcn`.
    pub left_out: usize,
    /// What cannot be read; it would block.
    pub unreadable: Vec<String>,
    /// Jobs that are left, as far as the sets are filled.
    pub jobs: u64,
    /// Bytes of these jobs on the wire.
    pub bytes: u64,
}

/// A stencil that is not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Its `_id`.
    pub id: String,
    /// Its target.
    pub tcn: i64,
    /// Crossings of its rootstocks.
    pub rootstock_tcn: i64,
    /// Crossings of its scions.
    pub scion_tcn: i64,
    /// Its state, as a number.
    pub state: i64,
    /// Pages of rootstocks.
    pub root_pages: u64,
    /// Pages of scions.
    pub scion_pages: u64,
    /// Jobs that are left of it.
    pub jobs: u64,
}

impl Plan {
    /// How long the pushing alone takes at `jobs_per_sec`, seconds; None if that is 0.
    pub fn pushing_secs(&self, jobs_per_sec: u64) -> Option<u64> {
        (jobs_per_sec > 0).then(|| self.jobs.div_ceil(jobs_per_sec))
    }
}

/// Looks at all stencils and at the sets of those that are not complete, each once. `job_bytes` are those of one job.
///
/// # Errors
/// As [`Store`]'s.
pub async fn plan(store: &impl Store, page_size: u32, job_bytes: u64) -> Result<Plan, StoreError> {
    let ledger = store.ledger().await?;
    let mut made = Plan {
        completed_tcn: ledger.completed_tcn,
        max_tcn: ledger.max_tcn,
        stencils: Vec::new(),
        left_out: 0,
        unreadable: Vec::new(),
        jobs: 0,
        bytes: 0,
    };
    let mut known = BTreeMap::new();
    for stencil in store.list(Selection::All).await? {
        match stencil {
            Err(misread) => made.unreadable.push(misread.to_string()),
            Ok(stencil) if stencil.state == State::Complete => {}
            Ok(stencil) if stencil.rootstock_tcn == 0 || stencil.tcn > ledger.max_tcn => made.left_out += 1,
            Ok(stencil) => {
                let roots = census(store, &mut known, stencil.roots()).await?;
                let scions = census(store, &mut known, stencil.scions()).await?;
                made.stencils.push(planned(&stencil, page_size, roots, scions));
            }
        }
    }
    made.jobs = made.stencils.iter().map(|stencil| stencil.jobs).fold(0, u64::saturating_add);
    made.bytes = made.jobs.saturating_mul(job_bytes);
    Ok(made)
}

async fn census(
    store: &impl Store,
    known: &mut BTreeMap<Set, Census>,
    set: Set,
) -> Result<Census, StoreError> {
    if let Some(census) = known.get(&set) {
        return Ok(*census);
    }
    let census = store.census(set).await?;
    known.insert(set, census);
    Ok(census)
}

fn planned(stencil: &Stencil, page_size: u32, roots: Census, scions: Census) -> Planned {
    let begun = stencil.cursor.filter(|cursor| stencil.state == State::Started && cursor.rest != Rest::All);
    let page_size = begun.map_or(page_size, |cursor| cursor.page_size);
    let (root_pages, scion_pages) = (roots.pages(page_size), scions.pages(page_size));
    let done = begun.map_or(0, |cursor| cursor.pushed);
    Planned {
        id: stencil.id.to_string(),
        tcn: stencil.tcn,
        rootstock_tcn: stencil.rootstock_tcn,
        scion_tcn: stencil.scion_tcn,
        state: stencil.state.number(),
        root_pages,
        scion_pages,
        jobs: root_pages.saturating_mul(scion_pages).saturating_sub(done),
    }
}
