//! Content negotiation by the `Accept` header: JSON or text. No I/O.

/// JSON wins a tie.
pub(crate) fn prefers_text(header: &str) -> bool {
    weight(header, "text/plain", &["text/*"]) > weight(header, "application/json", &["application/*", "*/*"])
}

/// Weight of the type `exact`, else of the first of its `ranges` in the header, else 0.
fn weight(header: &str, exact: &str, ranges: &[&str]) -> f32 {
    let named = |name: &str| {
        header.split(',').find_map(|item| {
            let mut parts = item.split(';').map(str::trim);
            let found = parts.next()?.eq_ignore_ascii_case(name);
            let q = parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse().ok());
            found.then(|| q.unwrap_or(1.0))
        })
    };
    named(exact).or_else(|| ranges.iter().find_map(|range| named(range))).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::prefers_text;

    #[test]
    fn text_is_chosen_only_if_preferred() {
        for header in ["text/plain", "text/*", "Text/Plain;q=0.5", "application/json;q=0.2, text/plain;q=0.9"]
        {
            assert!(prefers_text(header), "{header}");
        }
        let json = [
            "",
            "*/*",
            "application/json",
            "text/html",
            "text/plain, application/json",
            "text/plain;q=0",
            "a;q=x,,;",
        ];
        for header in json {
            assert!(!prefers_text(header), "{header}");
        }
    }
}
