//! Rust text as words and marks, without its comments, literals and lifetimes.

use super::scrub;

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name, a keyword or a number; a raw name without its `r#`.
    Word(String),
    /// `::`
    Colons,
    /// Any other character.
    Mark(char),
}

/// One token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its line, from 1.
    pub line: usize,
    /// How many characters stand before it.
    pub at: usize,
}

/// The tokens of `text`.
pub fn of(text: &str) -> Vec<Token> {
    let chars: Vec<char> = scrub::code(text).chars().collect();
    let is_word = |at: usize| chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_');
    let (mut tokens, mut line, mut at) = (Vec::new(), 1, 0);
    while at < chars.len() {
        let begin = at;
        let kind = if chars[at] == 'r' && chars.get(at + 1) == Some(&'#') && is_word(at + 2) {
            at = end_of_word(at + 2, is_word);
            Kind::Word(chars[begin + 2..at].iter().collect())
        } else if is_word(at) {
            at = end_of_word(at, is_word);
            Kind::Word(chars[begin..at].iter().collect())
        } else if chars[at..].starts_with(&[':', ':']) {
            at += 2;
            Kind::Colons
        } else if chars[at] == '\'' {
            at = end_of_word(at + 1, is_word); // literals are blank by now
            continue;
        } else {
            at += 1;
            if chars[begin].is_whitespace() {
                line += usize::from(chars[begin] == '\n');
                continue;
            }
            Kind::Mark(chars[begin])
        };
        tokens.push(Token { kind, line, at: begin });
    }
    tokens
}

fn end_of_word(from: usize, is_word: impl Fn(usize) -> bool) -> usize {
    (from..).find(|at| !is_word(*at)).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_marks() {
        let text = "&'static a::r#mod; // b\n\"c::d\" r#\"e\"# 'f' /* g */ $h\n";
        let kinds: Vec<String> = of(text)
            .iter()
            .map(|token| match &token.kind {
                Kind::Word(word) => format!("{word} {}", token.line),
                Kind::Colons => "::".into(),
                Kind::Mark(mark) => mark.to_string(),
            })
            .collect();
        assert_eq!(kinds, ["&", "a 1", "::", "mod 1", ";", "$", "h 2"]);
        assert_eq!(of("é x")[1].at, 2);
    }
}
