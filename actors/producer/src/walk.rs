//! The pages of a set, one by one: from a kept list, or by seeks (CONTRACT SO01, SO02).

use std::sync::Arc;

use crate::{
    id::Id,
    stencil::Set,
    store::{Store, StoreError},
};

/// A walk over the first tangles of a set's pages.
#[derive(Debug)]
pub struct Walk {
    set: Set,
    page_size: u32,
    list: Option<Arc<[Id]>>,
    /// How many pages were given.
    given: usize,
    last: Option<Id>,
    /// Where the walk begins, if not with the first page.
    begin: Option<Id>,
}

impl Walk {
    /// From the first page on; `list` saves the seeks.
    pub fn new(set: Set, page_size: u32, list: Option<Arc<[Id]>>) -> Self {
        Self { set, page_size, list, given: 0, last: None, begin: None }
    }

    /// From the page that begins with `begin` on.
    pub fn resumed(set: Set, page_size: u32, begin: Id) -> Self {
        Self { begin: Some(begin), ..Self::new(set, page_size, None) }
    }

    /// The next page; None after the last one. What failed can be asked again.
    ///
    /// # Errors
    /// As [`Store::page`].
    pub async fn next(&mut self, store: &impl Store) -> Result<Option<Id>, StoreError> {
        let page = match (&self.list, self.last, self.begin) {
            (Some(list), ..) => list.get(self.given).copied(),
            (None, None, Some(begin)) => Some(begin),
            (None, None, None) => store.page(self.set, None, 0).await?,
            // From the last page's first on, and not from behind it: if that was deleted meanwhile, a page has moved.
            (None, Some(last), _) => store.page(self.set, Some(last), self.page_size).await?,
        };
        if page.is_some() {
            self.given += 1;
            self.last = page;
        }
        Ok(page)
    }

    /// Is what it gave worth keeping: seeks, from the first page on?
    pub fn is_whole(&self) -> bool {
        self.list.is_none() && self.begin.is_none()
    }

    /// Was any page given?
    pub fn has_begun(&self) -> bool {
        self.given > 0
    }

    /// The set.
    pub fn set(&self) -> Set {
        self.set
    }

    /// Tangles of a page.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }
}
