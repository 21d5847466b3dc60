//! Patterns of attribute paths and fetchers.

/// Pattern in which `*` stands for any characters, also none, and `?` for one. Every other character stands
/// for itself.
///
/// It is an automaton with a state for each place between two characters. A set of states is a row of bits.
/// So a match takes a step for each character of the text and each 64 characters of the pattern, whatever
/// they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// Number of words in a set of states.
    words: usize,
    /// Characters that stand for themselves, sorted.
    characters: Vec<char>,
    /// For each of `characters`, and last for any other one: the states that it moves to the next place.
    moves: Vec<u64>,
    /// States at a star, which stay at any character.
    stays: Vec<u64>,
    /// State at the end of the pattern.
    end: usize,
}

impl Glob {
    /// Compiles a pattern.
    pub fn new(pattern: &str) -> Self {
        let mut characters: Vec<_> = pattern.chars().filter(|one| !matches!(one, '*' | '?')).collect();
        let end = pattern.chars().filter(|one| *one != '*').count();
        characters.sort_unstable();
        characters.dedup();
        let words = end / 64 + 1;
        let (mut moves, mut stays) = (vec![0; words * (characters.len() + 1)], vec![0; words]);
        let mut at = 0;
        for one in pattern.chars() {
            let (word, bit) = (at / 64, 1 << (at % 64));
            match one {
                '*' => stays[word] |= bit,
                '?' => moves.iter_mut().skip(word).step_by(words).for_each(|states| *states |= bit),
                _ => moves[row(&characters, one) * words + word] |= bit,
            }
            at += usize::from(one != '*');
        }
        Self { words, characters, moves, stays, end }
    }

    /// Matches the whole `text`.
    pub fn matches(&self, text: &str) -> bool {
        let mut states = vec![0_u64; self.words];
        states[0] = 1;
        for one in text.chars() {
            let moves = &self.moves[row(&self.characters, one) * self.words..];
            let (mut carry, mut rest) = (0, 0);
            for ((states, moves), stays) in states.iter_mut().zip(moves).zip(&self.stays) {
                let moved = *states & moves;
                *states = (moved << 1) | carry | (*states & stays);
                carry = moved >> 63;
                rest |= *states;
            }
            if rest == 0 {
                return false;
            }
        }
        (states[self.end / 64] >> (self.end % 64)) & 1 == 1
    }
}

fn row(characters: &[char], one: char) -> usize {
    characters.binary_search(&one).unwrap_or(characters.len())
}

/// See [`Glob`].
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    Glob::new(pattern).matches(text)
}

#[cfg(test)]
mod tests {
    use super::{Glob, matches};
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

    #[test]
    fn a_character_takes_a_step_for_each_64_characters_of_the_pattern() {
        let glob = Glob::new(&"*a?".repeat(333));
        assert_eq!((glob.words, glob.stays.len(), glob.moves.len()), (11, 11, 2 * 11));
        assert!(glob.matches(&"a".repeat(60_000)) && !glob.matches(&"b".repeat(60_000)));
        assert!(Glob::new("").matches("") && Glob::new("***").words == 1);
        for length in [63, 64, 65, 127, 128, 129] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            assert!(matches(&text, &text) && matches(&format!("{text}*"), &text), "{length}");
            assert!(!matches(&format!("{text}?"), &text) && !matches(&text, &format!("{text}z")), "{length}");
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
