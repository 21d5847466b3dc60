//! Patterns of attribute paths and fetchers.

/// Returns true if `text` matches `pattern`, in which `*` stands for any characters, also none, and
/// `?` for one. Every other character stands for itself. Takes at most the product of both lengths.
#[must_use]
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut next) = (0, 0);
    // Position behind the last star, and the position in the text up to which it reaches.
    let mut star: Option<(usize, usize)> = None;
    while next < text.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                star = Some((at, next));
            }
            Some(&wanted) if wanted == '?' || wanted == text[next] => {
                at += 1;
                next += 1;
            }
            _ => {
                let Some((behind, reach)) = star else { return false };
                star = Some((behind, reach + 1));
                (at, next) = (behind, reach + 1);
            }
        }
    }
    pattern[at..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;
    use proptest::prelude::*;

    /// Matches by trying every length of a star.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|taken| naive(rest, &text[taken..])),
            Some((one, rest)) => {
                text.first().is_some_and(|first| *one == '?' || one == first) && naive(rest, &text[1..])
            }
        }
    }

    #[test]
    fn stars_and_question_marks_are_the_only_wildcards() {
        for (pattern, text) in [
            ("python3*", "python3Packages.requests"),
            ("*.requests", "python3Packages.requests"),
            ("a?c", "aéc"),
            ("*", ""),
            ("[a]", "[a]"),
            ("a.*b*c", "a.xbybzc"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("python3*", "xpython3"), ("a", "ab"), ("?", ""), ("[a]", "a"), ("", "a"), ("A", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_trying_everything(pattern in "[ab*?é]{0,8}", text in "[abé]{0,8}") {
            let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
            prop_assert_eq!(matches(&pattern, &text), naive(&p, &t));
        }
    }
}
