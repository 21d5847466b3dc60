//! Pages of sets and their pairs, in order: rootstocks outside, scions inside (CONTRACT SO01, SO03).

use std::{collections::HashMap, sync::Arc};

use crate::{
    cursor::{Census, Rest},
    id::Id,
    stencil::Set,
};

/// What a [`Grid`] gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The next pair of pages.
    Pair {
        /// First tangle of the page of rootstocks.
        root: Id,
        /// First tangle of the page of scions.
        scion: Id,
    },
    /// It needs the next page of rootstocks: [`Grid::add_root`].
    NeedRoot,
    /// It needs the next page of scions: [`Grid::add_scion`].
    NeedScion,
    /// There are no more pairs.
    End,
}

/// All pairs of two sets' pages, over pages that come in one by one: the first pair is there before the last page is known.
/// It keeps the pages of scions, 12 bytes each, and one of rootstocks.
#[derive(Debug, Clone)]
pub struct Grid {
    root: Option<Id>,
    roots_end: bool,
    scions: Vec<Id>,
    scions_end: bool,
    /// Position of the next scion.
    at: usize,
    /// Where the first row begins.
    skip_to: Option<Id>,
}

impl Grid {
    /// From the first pair on.
    pub fn new() -> Self {
        Self { root: None, roots_end: false, scions: Vec::new(), scions_end: false, at: 0, skip_to: None }
    }

    /// From a row that begins with the scion page `scion` on. It needs that row's page of rootstocks first, and all pages of
    /// scions from the first on.
    pub fn resumed(scion: Id) -> Self {
        Self { skip_to: Some(scion), ..Self::new() }
    }

    /// The next pair, or what it takes to know it.
    pub fn step(&mut self) -> Step {
        loop {
            let Some(root) = self.root else {
                return if self.roots_end { Step::End } else { Step::NeedRoot };
            };
            match self.scions.get(self.at) {
                Some(scion) => {
                    self.at += 1;
                    if self.skip_to.is_some_and(|skip_to| *scion < skip_to) {
                        continue;
                    }
                    self.skip_to = None;
                    return Step::Pair { root, scion: *scion };
                }
                None if !self.scions_end => return Step::NeedScion,
                None if self.scions.is_empty() => return Step::End,
                None => {
                    // The first row may have begun behind its last scion: they are fewer than they were.
                    self.skip_to = None;
                    self.at = 0;
                    self.root = None;
                }
            }
        }
    }

    /// The next page of rootstocks; None: there are no more.
    pub fn add_root(&mut self, root: Option<Id>) {
        self.roots_end |= root.is_none();
        self.root = root;
    }

    /// The next page of scions; None: there are no more.
    pub fn add_scion(&mut self, scion: Option<Id>) {
        match scion {
            Some(scion) => self.scions.push(scion),
            None => self.scions_end = true,
        }
    }

    /// Has any page of scions come in?
    pub fn has_scions(&self) -> bool {
        !self.scions.is_empty()
    }

    /// All pages of scions, once they are known.
    pub fn scions(&self) -> Option<&[Id]> {
        self.scions_end.then_some(self.scions.as_slice())
    }
}

impl Default for Grid {
    fn default() -> Self {
        Self::new()
    }
}

/// What is left after a chunk, given the step that follows it.
pub fn rest_before(next: Step) -> Rest {
    match next {
        Step::Pair { root, scion } => Rest::From { root, scion },
        Step::End | Step::NeedRoot | Step::NeedScion => Rest::Nothing,
    }
}

/// Page starts of sets, kept for later stencils (a set is part of many) while the sets are what they were.
#[derive(Debug, Default)]
pub struct KeptPages {
    lists: HashMap<(Set, u32), Kept>,
    ids: usize,
}

/// Pages, and what their set was then.
type Kept = (Census, Arc<[Id]>);

impl KeptPages {
    /// Identifiers that are kept at the most, 12 bytes each.
    pub const IDS_MAX: usize = 1 << 20;

    /// The pages of `set` if it still is as `census` says.
    pub fn get(&self, set: Set, page_size: u32, census: Census) -> Option<Arc<[Id]>> {
        let (then, list) = self.lists.get(&(set, page_size))?;
        (*then == census).then(|| list.clone())
    }

    /// Keeps the pages of `set`, walked from the first to the last. A walk that does not fit its census saw the set change.
    pub fn keep(&mut self, set: Set, page_size: u32, census: Census, list: Arc<[Id]>) {
        if census.pages(page_size) != list.len() as u64 || list.len() > Self::IDS_MAX {
            return;
        }
        if self.ids + list.len() > Self::IDS_MAX {
            self.lists.clear();
            self.ids = 0;
        }
        self.ids += list.len();
        if let Some((_, former)) = self.lists.insert((set, page_size), (census, list)) {
            self.ids = self.ids.saturating_sub(former.len());
        }
    }
}

#[cfg(test)]
mod tests;
