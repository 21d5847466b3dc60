//! The source protocols as pure rules (spec §9): which message starts a series, is an item, ends it, or is none.
