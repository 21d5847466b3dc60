//! First tangles of a set's pages, from a cached list or from the database (CONTRACT SO01, SO02).

use orchestrator_producer_rules::{id::Id, stencil::Set};
use std::sync::Arc;

use crate::store::{Store, StoreError};

/// Iterator over the first tangles of a set's pages.
#[derive(Debug)]
pub(crate) struct PageWalk {
    set: Set,
    page_size: u32,
    list: Option<Arc<[Id]>>,
    /// Pages returned so far.
    returned: usize,
    last: Option<Id>,
    /// First page, if it is not the set's first one.
    first: Option<Id>,
}

impl PageWalk {
    /// Starts at the first page. A cached `list` replaces the database.
    pub(crate) fn new(set: Set, page_size: u32, list: Option<Arc<[Id]>>) -> Self {
        Self { set, page_size, list, returned: 0, last: None, first: None }
    }

    /// Starts at the page that begins with `first`.
    pub(crate) fn resumed(set: Set, page_size: u32, first: Id) -> Self {
        Self { first: Some(first), ..Self::new(set, page_size, None) }
    }

    /// Returns the next page, or `None` after the last one. May be repeated after an error.
    ///
    /// # Errors
    /// As [`Store::page`].
    pub(crate) async fn next(&mut self, store: &impl Store) -> Result<Option<Id>, StoreError> {
        let page = match (&self.list, self.last, self.first) {
            (Some(list), ..) => list.get(self.returned).copied(),
            (None, None, Some(first)) => Some(first),
            (None, None, None) => store.page(self.set, None, 0).await?,
            // Seeks from the last page's first tangle: the result is the same if that tangle was deleted
            // meanwhile.
            (None, Some(last), _) => store.page(self.set, Some(last), self.page_size).await?,
        };
        if page.is_some() {
            self.returned += 1;
            self.last = page;
        }
        Ok(page)
    }

    /// Returns true if the pages come from the database, from the first one on.
    pub(crate) fn is_cacheable(&self) -> bool {
        self.list.is_none() && self.first.is_none()
    }

    pub(crate) fn has_started(&self) -> bool {
        self.returned > 0
    }

    pub(crate) fn set(&self) -> Set {
        self.set
    }

    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }
}
