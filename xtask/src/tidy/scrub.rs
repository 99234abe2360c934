//! Text with its comments and literals blanked, so that a rule can look for words of code line by line.

/// Rust's `text` with every character of a comment, a string or a character replaced by a blank; line ends stay.
pub fn code(text: &str) -> String {
    blanked(text, |_| true)
}

/// Rust's or C's `text` with every character of a comment replaced by a blank.
pub fn without_comments(text: &str) -> String {
    blanked(text, |first| first == '/')
}

/// Text whose comments and literals are blanked where `goes` says so of their first characters.
fn blanked(text: &str, goes: impl Fn(char) -> bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end > at {
            let gone = goes(chars[at]);
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' || !gone { *c } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// Whether `word` stands in `line` as a whole word.
pub fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !part_of_word(line[..at].chars().next_back()) && !part_of_word(line[at + word.len()..].chars().next())
    })
}

/// Where the comment or literal that begins at `at` ends; `at` if none begins there.
fn literal_end(chars: &[char], at: usize) -> usize {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or('\n');
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if next(1) == '/' => find(chars, at, |i| chars[i] == '\n'),
        '/' if next(1) == '*' => block_comment_end(chars, at),
        '"' => string_end(chars, at),
        '\'' if next(1) == '\\' => find(chars, at + 3, |i| chars[i] == '\'') + 1,
        '\'' if next(2) == '\'' => at + 3,
        'r' if !in_word || (at > 0 && matches!(chars[at - 1], 'b' | 'c')) => raw_string_end(chars, at),
        _ => at,
    }
    .min(chars.len())
}

fn find(chars: &[char], from: usize, stop: impl Fn(usize) -> bool) -> usize {
    (from..chars.len()).find(|i| stop(*i)).unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

fn raw_string_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return at;
    }
    let closes =
        |i: usize| chars[i] == '"' && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
    find(chars, at + 2 + hashes, closes) + 1 + hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let squeezed: Vec<String> =
            code(text).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(squeezed.join("\n"), expected);
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        check("a // unsafe\nb", "a\nb");
        check("a /* x /* y */ z */ b", "a b");
        check("f(\"un\\\"safe\", b)", "f( , b)");
        check("f(r#\"a \" b\"#, c)", "f( , c)");
        check("f(br\"x\\\", c)", "f(b , c)");
        check("x = '\"'; y = '\\''; z", "x = ; y = ; z");
    }

    #[test]
    fn comments_alone_may_be_blanked() {
        assert_eq!(without_comments("a = \"// b\"; // c\n'/' /* d */;"), "a = \"// b\";     \n'/'        ;");
    }

    #[test]
    fn lifetimes_and_names_stay() {
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check("r#type + var\"s\"", "r#type + var");
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = "\"a\nb\"\n/* c\nd */\n// e\nf";
        assert_eq!(code(text).lines().count(), text.lines().count());
        assert_eq!(code(text).lines().last(), Some("f"));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
        assert!(!has_word("crayons", "rayon"));
    }
}
