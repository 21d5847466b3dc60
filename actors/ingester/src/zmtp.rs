//! ZMTP 3.x with the NULL mechanism, as pure rules: greeting, READY, frames (RFC 23, RFC 37).
