//! Where items come from.

use crate::source::Registry;

/// All protocols.
pub fn standard() -> Registry {
    Registry::default()
}
