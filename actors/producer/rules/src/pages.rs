//! Pairs of two sets' pages: for each page of rootstocks each page of scions (CONTRACT SO01, SO03).

use std::{collections::HashMap, sync::Arc};

use crate::{
    cursor::{Remaining, SetSummary},
    id::Id,
    stencil::Set,
};

/// Result of [`PairGrid::step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridStep {
    /// Next pair of pages.
    Pair {
        /// First tangle of the page of rootstocks.
        root: Id,
        /// First tangle of the page of scions.
        scion: Id,
    },
    /// The next page of rootstocks is needed: [`PairGrid::add_root`].
    NeedRoot,
    /// The next page of scions is needed: [`PairGrid::add_scion`].
    NeedScion,
    /// End of the pairs.
    End,
}

/// Iterator over all pairs of two sets' pages, which are added one by one. It keeps all pages of scions, 12
/// bytes each, and one of rootstocks.
#[derive(Debug, Clone)]
pub struct PairGrid {
    root: Option<Id>,
    roots_end: bool,
    scions: Vec<Id>,
    scions_end: bool,
    /// Position of the next scion.
    next_scion: usize,
    /// First scion of the first row.
    skip_to: Option<Id>,
}

impl PairGrid {
    /// Starts at the first pair.
    pub fn new() -> Self {
        Self {
            root: None,
            roots_end: false,
            scions: Vec::new(),
            scions_end: false,
            next_scion: 0,
            skip_to: None,
        }
    }

    /// Starts in the middle of a row, at the page of scions `scion`. The row's page of rootstocks is needed
    /// first, and all pages of scions from the first one on.
    pub fn resumed(scion: Id) -> Self {
        Self { skip_to: Some(scion), ..Self::new() }
    }

    /// Next pair, or the page that is needed for it.
    pub fn step(&mut self) -> GridStep {
        loop {
            let Some(root) = self.root else {
                return if self.roots_end { GridStep::End } else { GridStep::NeedRoot };
            };
            match self.scions.get(self.next_scion) {
                Some(scion) => {
                    self.next_scion += 1;
                    if self.skip_to.is_some_and(|skip_to| *scion < skip_to) {
                        continue;
                    }
                    self.skip_to = None;
                    return GridStep::Pair { root, scion: *scion };
                }
                None if !self.scions_end => return GridStep::NeedScion,
                None if self.scions.is_empty() => return GridStep::End,
                None => {
                    // The first row can start behind the last scion if scions were deleted.
                    self.skip_to = None;
                    self.next_scion = 0;
                    self.root = None;
                }
            }
        }
    }

    /// Adds the next page of rootstocks; `None` at the end.
    pub fn add_root(&mut self, root: Option<Id>) {
        self.roots_end |= root.is_none();
        self.root = root;
    }

    /// Adds the next page of scions; `None` at the end.
    pub fn add_scion(&mut self, scion: Option<Id>) {
        match scion {
            Some(scion) => self.scions.push(scion),
            None => self.scions_end = true,
        }
    }

    /// None until the end of the scions is known.
    pub fn scions(&self) -> Option<&[Id]> {
        self.scions_end.then_some(self.scions.as_slice())
    }
}

impl Default for PairGrid {
    fn default() -> Self {
        Self::new()
    }
}

/// `next` is the step after a chunk.
pub fn remaining_before(next: GridStep) -> Remaining {
    match next {
        GridStep::Pair { root, scion } => Remaining::From { root, scion },
        GridStep::End | GridStep::NeedRoot | GridStep::NeedScion => Remaining::Nothing,
    }
}

/// Cache of sets' pages. A set is part of many stencils, and its pages are valid while its summary is the
/// same.
#[derive(Debug, Default)]
pub struct PageCache {
    lists: HashMap<(Set, u32), CachedPages>,
    ids: usize,
}

/// Summary of the set and its pages.
type CachedPages = (SetSummary, Arc<[Id]>);

impl PageCache {
    /// Upper bound of the cached identifiers, 12 bytes each.
    pub const IDS_MAX: usize = 1 << 20;

    /// None if the summary of the set has changed.
    pub fn get(&self, set: Set, page_size: u32, summary: SetSummary) -> Option<Arc<[Id]>> {
        let (then, list) = self.lists.get(&(set, page_size))?;
        (*then == summary).then(|| list.clone())
    }

    /// Caches all pages of `set`. A list that does not fit the summary, because the set has changed, is
    /// ignored.
    pub fn insert(&mut self, set: Set, page_size: u32, summary: SetSummary, list: Arc<[Id]>) {
        if summary.pages(page_size) != list.len() as u64 || list.len() > Self::IDS_MAX {
            return;
        }
        if self.ids + list.len() > Self::IDS_MAX {
            self.lists.clear();
            self.ids = 0;
        }
        self.ids += list.len();
        if let Some((_, former)) = self.lists.insert((set, page_size), (summary, list)) {
            self.ids = self.ids.saturating_sub(former.len());
        }
    }
}

#[cfg(test)]
mod tests;
