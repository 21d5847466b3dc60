//! Whatever talks to the outside.
