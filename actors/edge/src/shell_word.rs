//! Words of commands in advice.

use std::borrow::Cow;

/// Quotes `word` for a shell, unless it is plain.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@%/:,=[]".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_a_shell_would_split_or_interpret_is_quoted() {
        for (word, shown) in
            [("var/queue.db", "var/queue.db"), ("a b;c", "'a b;c'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(shell_word(word), shown);
        }
    }
}
