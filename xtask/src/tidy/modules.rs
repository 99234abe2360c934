//! What a Rust file declares and names: its modules, its imports and the paths in its code. Tests are left out.

use std::collections::BTreeSet;

use super::tokens::{self, Kind, Token};

/// A module as its text has it.
#[derive(Debug, Default, PartialEq)]
pub struct Module {
    /// Modules in braces.
    pub inline: Vec<(String, Module)>,
    /// Modules in files of their own.
    pub files: Vec<Child>,
    /// Its `use` declarations, those in functions too, one for each name.
    pub imports: Vec<Import>,
    /// Paths of two names and more in its code.
    pub paths: Vec<Named>,
    /// The names of what it defines, as far as they stand in its text.
    pub items: BTreeSet<String>,
    /// Macros of it that stand in the crate's root for others (`#[macro_export]`).
    pub macros: Vec<String>,
}

/// `mod name;`
#[derive(Debug, PartialEq)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// What `#[path]` says.
    pub path: Option<String>,
    /// Where it is declared.
    pub line: usize,
}

/// A path and the line of its last name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Its names, `crate`, `self` and `super` among them.
    pub names: Vec<String>,
    /// The line.
    pub line: usize,
}

/// One name of a `use` declaration.
#[derive(Debug, PartialEq)]
pub struct Import {
    /// Where it comes from; of `a::*` it is `a`.
    pub of: Named,
    /// What it brings in.
    pub brings: Brings,
}

/// What an import brings in.
#[derive(Debug, PartialEq)]
pub enum Brings {
    /// A name.
    Name(String),
    /// All names there are.
    All,
    /// No name: `as _`.
    Nothing,
}

/// The module that `text`, a whole file, is.
pub fn parse(text: &str) -> Module {
    let mut parser = Parser { text: text.chars().collect(), tokens: tokens::of(text), at: 0 };
    let mut module = Module::default();
    while parser.at < parser.tokens.len() {
        parser.scope(&mut module, 0);
        parser.at += 1; // a bracket that closes nothing
    }
    module
}

/// Macros whose tokens are code of another crate: the one they are expanded in.
const QUOTING: [&str; 3] = ["quote", "quote_spanned", "parse_quote"];

/// Keywords before the name of an item.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// What an attribute says.
#[derive(Default)]
struct Attribute {
    inner: bool,
    /// What it stands before is compiled for tests alone.
    test: bool,
    path: Option<String>,
    exports: bool,
}

struct Parser {
    text: Vec<char>,
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn mark(&self, at: usize) -> Option<char> {
        match self.tokens.get(at)?.kind {
            Kind::Mark(mark) => Some(mark),
            _ => None,
        }
    }

    fn word(&self, at: usize) -> Option<&str> {
        match &self.tokens.get(at)?.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn is_colons(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == Kind::Colons)
    }

    /// Whether the mark stands right before a token.
    fn is_after(&self, at: usize, mark: char) -> bool {
        at > 0 && self.mark(at - 1) == Some(mark)
    }

    fn opens(&self, at: usize) -> bool {
        matches!(self.mark(at), Some('{' | '(' | '['))
    }

    fn closes(&self, at: usize) -> bool {
        matches!(self.mark(at), Some('}' | ')' | ']'))
    }

    /// Reads up to the bracket that closes this scope, or to the end. `level` counts the brackets around it within the
    /// module.
    fn scope(&mut self, module: &mut Module, level: usize) {
        let mut before = Attribute::default();
        while self.at < self.tokens.len() && !self.closes(self.at) {
            if let Some(attribute) = self.attribute(module) {
                if attribute.inner && attribute.test {
                    self.skip_while(|parser| !parser.closes(parser.at));
                } else if attribute.test {
                    self.skip_item();
                }
                before.path = attribute.path.or(before.path);
                before.exports |= attribute.exports;
            } else if self.opens(self.at) {
                let braces = self.mark(self.at) == Some('{');
                self.at += 1;
                self.scope(module, level + 1);
                self.at += 1;
                if braces {
                    before = Attribute::default();
                }
            } else if self.mark(self.at) == Some(';') {
                before = Attribute::default();
                self.at += 1;
            } else if let Some(word) = self.word(self.at).map(String::from) {
                self.statement(&word, module, level, &mut before);
            } else {
                self.at += 1;
            }
        }
    }

    /// Reads what a word begins.
    fn statement(&mut self, word: &str, module: &mut Module, level: usize, before: &mut Attribute) {
        let next = self.at + 1;
        // In a macro's text a module may be named by a variable.
        let name = next + usize::from(self.mark(next) == Some('$'));
        match word {
            "mod" if self.word(name).is_some() && self.mark(name + 1) == Some(';') => {
                let (path, line) = (before.path.take(), self.tokens[self.at].line);
                module.files.push(Child { name: self.word(name).unwrap_or_default().into(), path, line });
                self.at = name + 1;
            }
            "mod" if self.word(name).is_some() && self.mark(name + 1) == Some('{') => {
                let (called, mut inner) = (self.word(name).unwrap_or_default().to_string(), Module::default());
                self.at = name + 2;
                self.scope(&mut inner, 0);
                self.at += 1;
                module.inline.push((called, inner));
                *before = Attribute::default();
            }
            "use" if self.mark(next) != Some('<') => {
                self.at = next;
                self.import(Vec::new(), &mut module.imports);
            }
            "macro_rules" if self.mark(next) == Some('!') => {
                if let Some(name) = self.word(next + 1).map(String::from) {
                    if before.exports {
                        module.macros.push(name.clone());
                    }
                    module.items.insert(name);
                }
                self.at = next + 2;
            }
            _ if QUOTING.contains(&word) && self.mark(next) == Some('!') && self.opens(next + 1) => {
                self.at = next + 1;
                self.skip_group();
            }
            _ if self.is_colons(next) => self.path(module),
            _ => {
                if level == 0 && ITEMS.contains(&word) {
                    module.items.extend(self.word(next).map(String::from));
                }
                self.at = next;
            }
        }
    }

    /// Reads a path, and keeps it unless it goes on from something that is none.
    fn path(&mut self, module: &mut Module) {
        let begin = self.at;
        let mut names = vec![self.word(begin).unwrap_or_default().to_string()];
        let mut line = self.tokens[begin].line;
        self.at += 1;
        while self.is_colons(self.at) && self.word(self.at + 1).is_some() {
            line = self.tokens[self.at + 1].line;
            names.extend(self.word(self.at + 1).map(String::from));
            self.at += 2;
        }
        let goes_on = begin > 0 && self.is_colons(begin - 1);
        let of_value = self.is_after(begin, '.') && !self.is_after(begin - 1, '.');
        let of_variable = self.is_after(begin, '$') && names[0] != "crate";
        let visibility = begin > 2 && self.word(begin - 1) == Some("in") && self.word(begin - 3) == Some("pub");
        if names.len() > 1 && !(goes_on || of_value || of_variable || visibility) {
            module.paths.push(Named { names, line });
        }
    }

    /// Reads a tree of imports below `names`.
    fn import(&mut self, mut names: Vec<String>, imports: &mut Vec<Import>) {
        if self.is_colons(self.at) {
            self.at += 1;
        }
        while let Some(token) = self.tokens.get(self.at) {
            let line = token.line;
            match &token.kind {
                Kind::Word(word) => {
                    names.push(word.clone());
                    self.at += 1;
                    if self.is_colons(self.at) {
                        self.at += 1;
                        continue;
                    }
                    if names.len() > 1 && names.last().is_some_and(|last| last == "self") {
                        names.pop();
                    }
                    let mut brings = names.last().cloned();
                    if self.word(self.at) == Some("as") {
                        brings = self.word(self.at + 1).map(String::from).filter(|name| name != "_");
                        self.at += 2;
                    }
                    let brings = brings.map_or(Brings::Nothing, Brings::Name);
                    return imports.push(Import { of: Named { names, line }, brings });
                }
                Kind::Mark('*') => {
                    self.at += 1;
                    return imports.push(Import { of: Named { names, line }, brings: Brings::All });
                }
                Kind::Mark('{') => {
                    self.at += 1;
                    while self.at < self.tokens.len() && !self.closes(self.at) {
                        let begin = self.at;
                        self.import(names.clone(), imports);
                        self.at += usize::from(self.at == begin || self.mark(self.at) == Some(','));
                    }
                    self.at += 1;
                    return;
                }
                Kind::Mark('$') if self.word(self.at + 1) == Some("crate") => self.at += 1,
                Kind::Mark('$') if !names.is_empty() => {
                    // What a variable of a macro stands for lies somewhere below.
                    imports.push(Import { of: Named { names, line }, brings: Brings::Nothing });
                    return self.skip_while(|parser| {
                        !parser.closes(parser.at) && !matches!(parser.mark(parser.at), Some(',' | ';'))
                    });
                }
                _ => return,
            }
        }
    }

    /// Reads an attribute, if one stands here. Paths in it are code, but for those of a condition.
    fn attribute(&mut self, module: &mut Module) -> Option<Attribute> {
        if self.mark(self.at) != Some('#') {
            return None;
        }
        let inner = self.mark(self.at + 1) == Some('!');
        let open = self.at + 1 + usize::from(inner);
        if self.mark(open) != Some('[') {
            return None;
        }
        self.at = open;
        self.skip_group();
        let end = self.at;
        let name = self.word(open + 1).unwrap_or_default();
        let mut attribute = Attribute { inner, exports: name == "macro_export", ..Attribute::default() };
        match name {
            "test" => attribute.test = true,
            "cfg" => attribute.test = self.asks_for_tests(open + 3),
            "path" => attribute.path = self.literal(open, end),
            "doc" => {}
            _ => {
                self.at = open + 1;
                self.scope(module, 1);
                self.at = end;
            }
        }
        Some(attribute)
    }

    /// Whether the condition that begins at a token holds in tests alone: `test`, or `all` with it.
    fn asks_for_tests(&self, at: usize) -> bool {
        match self.word(at) {
            Some("test" | "doctest") => true,
            Some("all") => {
                let (mut level, end) = (0, self.after_group(at + 1));
                (at + 1..end).any(|at| {
                    level += isize::from(self.opens(at));
                    level -= isize::from(self.closes(at));
                    level == 1 && (self.is_after(at, '(') || self.is_after(at, ',')) && self.asks_for_tests(at)
                })
            }
            _ => false,
        }
    }

    /// The text between the first two quotes among some tokens, whose literals are blanked.
    fn literal(&self, from: usize, to: usize) -> Option<String> {
        let text: String = self.text[self.tokens[from].at..self.tokens[to - 1].at].iter().collect();
        text.split('"').nth(1).map(String::from)
    }

    /// Skips what an attribute stands before: an item, a field, an arm.
    fn skip_item(&mut self) {
        let mut unused = Module::default();
        while self.attribute(&mut unused).is_some() {}
        let mut at = self.at;
        if self.word(at) == Some("pub") {
            at = if self.opens(at + 1) { self.after_group(at + 1) } else { at + 1 };
        }
        let is_function = matches!(self.word(at + 1), Some("fn" | "unsafe" | "async" | "extern"));
        let to_semicolon = match self.word(at).unwrap_or_default() {
            "use" | "static" | "type" | "let" => true,
            "const" => !is_function,
            _ => false,
        };
        const BLOCKS: [&str; 9] = ["fn", "mod", "impl", "struct", "enum", "trait", "unsafe", "async", "extern"];
        let item = to_semicolon
            || is_function
            || self.word(at).is_some_and(|word| BLOCKS.contains(&word) || word == "macro_rules");
        while self.at < self.tokens.len() && !self.closes(self.at) {
            if self.opens(self.at) {
                let braces = self.mark(self.at) == Some('{');
                self.skip_group();
                if braces && !to_semicolon {
                    return;
                }
                continue;
            }
            self.at += 1;
            match self.mark(self.at - 1) {
                Some(';') => return,
                Some(',') if !item => return,
                _ => {}
            }
        }
    }

    fn skip_group(&mut self) {
        self.at = self.after_group(self.at);
    }

    /// The token behind the group that begins at one.
    fn after_group(&self, open: usize) -> usize {
        let (mut level, mut at) = (0, open);
        while at < self.tokens.len() {
            level += isize::from(self.opens(at));
            level -= isize::from(self.closes(at));
            at += 1;
            if level == 0 {
                break;
            }
        }
        at
    }

    fn skip_while(&mut self, goes_on: impl Fn(&Parser) -> bool) {
        while self.at < self.tokens.len() && goes_on(self) {
            if self.opens(self.at) { self.skip_group() } else { self.at += 1 }
        }
    }
}
