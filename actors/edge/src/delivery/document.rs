//! Document of one delivery.

/// Document of one delivery.
#[derive(Debug, Clone)]
pub struct Document {
    /// Identifier, the same in each attempt. A webhook gets it as `Idempotency-Key`.
    pub id: String,
    /// JSON object on one line.
    pub json: String,
    /// Environment variables of a program, beside those that it inherits.
    pub variables: Vec<(&'static str, String)>,
}

#[cfg(test)]
pub(super) fn document() -> Document {
    let variables = vec![("ORCHESTRATOR_TCN", "5".to_owned())];
    Document { id: "0123abcd".to_owned(), json: r#"{"tcn":5}"#.to_owned(), variables }
}
