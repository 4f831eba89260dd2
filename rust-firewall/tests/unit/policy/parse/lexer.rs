// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the lexer: places of tokens, included files, $NAME, limits, messages.

use std::fs;
use std::path::PathBuf;

use crate::support::lines::{lines, unescape};
use rust_firewall::base::log::{Failure, LogExit};
use rust_firewall::policy::parse::directive;
use rust_firewall::policy::parse::lexer::Lexer;
use rust_firewall::policy::token::is_reserved;
use rust_firewall::policy::token::{Sign, TokenKind};
use rust_firewall::policy::TEXT_MAX;

fn kind_name(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::EndOfText => "end-of-text",
        TokenKind::LineEnd => "end-of-line",
        TokenKind::Semicolon => "semicolon",
        TokenKind::Word => "word",
        TokenKind::Wildcard => "wildcard",
        TokenKind::Number(_) => "number",
        TokenKind::Ipv4 => "ipv4",
        TokenKind::Ipv6 => "ipv6",
        TokenKind::String => "string",
        TokenKind::Sign(_) => "sign",
        TokenKind::Other => "other",
        TokenKind::Variable => "variable",
        TokenKind::Bad => "bad",
    }
}

/// Returns the tokens of a text, in the format of the vectors.
/// - braces: true if line ends between `{` and `}` are blanks, as in a set.
fn read_lines(text: &[u8], braces: bool) -> Vec<String> {
    let mut told = Vec::new();
    if let Err(failure) = read_into(text, braces, &mut told) {
        told.push(format!("error {}", failure.text));
    }
    told
}

fn read_into(text: &[u8], braces: bool, told: &mut Vec<String>) -> Result<(), Failure> {
    let mut lexer = Lexer::open_text("t", text)?;
    loop {
        while lexer.consume_word("define") {
            directive::define(&mut lexer)?;
        }
        let token = lexer.consume();
        match token.kind {
            TokenKind::Bad => return Err(lexer.unexpected(&token, "")),
            TokenKind::Sign(Sign::BraceOpen) if braces => lexer.braces(true),
            TokenKind::Sign(Sign::BraceClose) if braces => lexer.braces(false),
            _ => {}
        }
        let shown = match token.kind {
            TokenKind::LineEnd => String::new(),
            TokenKind::Number(number) => number.to_string(),
            _ => lexer.text(&token).to_owned(),
        };
        let (line, column) = (token.place.line, token.place.column);
        let line = format!("{line}:{column} {} {shown}", kind_name(token.kind));
        told.push(line.strip_suffix(' ').unwrap_or(&line).to_owned());
        if token.kind == TokenKind::EndOfText {
            return Ok(());
        }
    }
}

#[test]
fn tokens_are_those_of_the_vectors() {
    let lines = lines("tokens.txt");
    let mut count = 0;
    for block in lines
        .split(String::is_empty)
        .filter(|block| !block.is_empty())
    {
        let text = block[0].strip_prefix("text").expect("a text comes first");
        let text = unescape(text.strip_prefix(' ').unwrap_or(text));
        let braces = block.get(1).is_some_and(|line| line == "braces");
        let expected = block[1 + usize::from(braces)..].iter().map(|line| {
            if line.starts_with("error ") {
                line.clone()
            } else {
                String::from_utf8(unescape(line)).expect("UTF-8")
            }
        });
        let expected: Vec<String> = expected.collect();
        assert_eq!(read_lines(&text, braces), expected, "{}", block[0]);
        count += 1;
    }
    assert!(count >= 40, "only {count} vectors");
}

/// Reads a text to its end. Returns the number of tokens, and the failure's text or "".
fn read_all(lexer: Result<Lexer, Failure>) -> (u32, String) {
    let mut count = 0;
    let failure = lexer.and_then(|mut lexer| loop {
        let token = lexer.consume();
        if token.kind == TokenKind::Bad {
            break Err(lexer.unexpected(&token, ""));
        }
        let done = match lexer.text(&token) {
            "define" => directive::define(&mut lexer),
            "include" => directive::include(&mut lexer),
            _ => Ok(()),
        };
        if done.is_err() || token.kind == TokenKind::EndOfText {
            break done;
        }
        count += 1;
    });
    (
        count,
        failure
            .err()
            .map_or_else(String::new, |failure| failure.text),
    )
}

#[test]
fn two_tokens_can_be_looked_at() {
    let mut lexer = Lexer::open_text("t", b"a\n{\n1\n\n:\n2\n}\nb").expect("a text");
    let first = lexer.peek(0);
    assert!(lexer.is(&first, "a"));
    assert_eq!(lexer.peek(1).kind, TokenKind::LineEnd);
    assert!(lexer.consume_word("a"));
    assert!(!lexer.consume_sign(Sign::BraceOpen));
    assert_eq!(lexer.consume_end(), Ok(()));
    assert_eq!(lexer.peek(1).kind, TokenKind::LineEnd);
    assert!(lexer.consume_sign(Sign::BraceOpen));
    lexer.braces(true);
    assert_eq!(lexer.peek(1).kind, TokenKind::Sign(Sign::Colon));
    assert_eq!(lexer.peek(0).kind, TokenKind::Number(1));
    lexer.consume();
    lexer.consume();
    lexer.consume();
    let second = lexer.peek(1);
    assert!(lexer.is(&second, "b"));
    assert!(lexer.consume_sign(Sign::BraceClose));
    lexer.braces(false);
    assert_eq!(lexer.peek(0).kind, TokenKind::LineEnd);
    let second = lexer.peek(1);
    assert!(lexer.is(&second, "b"));
    assert_eq!(lexer.consume_end(), Ok(()));
    let failure = lexer.consume_end().expect_err("no end");
    assert_eq!(
        failure.text,
        "t:8:1: found \"b\", expected the end of the line or \";\""
    );
    assert!(lexer.consume_word("b"));
    assert_eq!(lexer.consume_end(), Ok(()));
    assert_eq!(lexer.consume().kind, TokenKind::EndOfText);
    assert_eq!(lexer.consume().kind, TokenKind::EndOfText);
}

#[test]
fn messages_have_their_forms() {
    let mut lexer = Lexer::open_text("t", "dnat \"a\\é\" x\n".as_bytes()).expect("a text");
    let token = lexer.consume();
    let failure = lexer.refuse(&token, "leave it to the kernel");
    assert_eq!(failure.code, LogExit::Usage);
    assert_eq!(
        failure.text,
        "t:1:1: \"dnat\" is not supported here: leave it to the kernel"
    );
    let token = lexer.consume();
    let failure = lexer.wrong(&token, format_args!("it is {}", 5));
    assert_eq!(failure.text, "t:1:6: \"a\\x5c\\xc3\\xa9\": it is 5");
    let token = lexer.consume();
    let failure = lexer.fail(token.place, "a loop of chains");
    assert_eq!(failure.text, "t:1:13: a loop of chains");
    let token = lexer.consume();
    let failure = lexer.unexpected(&token, "a verdict");
    assert_eq!(
        failure.text,
        "t:1:14: found end of line, expected a verdict"
    );
    let token = lexer.consume();
    let failure = lexer.unexpected(&token, "a verdict");
    assert_eq!(failure.text, "t:2:1: found end of text, expected a verdict");
}

/// Tests that a message that is too long is cut at the end of a character, at the same place as in the C twin.
#[test]
fn a_long_message_is_cut_between_characters() {
    let failure = Lexer::open_text(&"é".repeat(256), b"\xff").expect_err("no text");
    assert_eq!(failure.text.len(), 510);
}

/// A temporary folder of files, which is removed at the end.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn make(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("lexer-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        Folder { path }
    }

    fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn add(&self, name: &str, text: &str) -> String {
        fs::write(self.file(name), text).expect("a file");
        self.file(name)
    }

    /// Reads a file to its end. Returns the number of tokens, and the failure's text without the folder's name at its
    /// start, or "".
    fn read(&self, path: &str) -> (u32, String) {
        let (count, text) = read_all(Lexer::open_file(path));
        let folder = self.file("");
        (
            count,
            text.strip_prefix(&folder).unwrap_or(&text).to_owned(),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[test]
fn includes_are_read_where_they_stand() {
    let folder = Folder::make("read");
    // The included file has no line end at its end; the lexer must return one there.
    folder.add("b.nft", "define x = 1\nb");
    let path = folder.add("a.nft", "include \"b.nft\"; a $x");
    let mut lexer = Lexer::open_file(&path).expect("a file");
    assert!(lexer.consume_word("include"));
    assert_eq!(directive::include(&mut lexer), Ok(()));
    assert!(lexer.consume_word("define"));
    assert_eq!(directive::define(&mut lexer), Ok(()));
    assert_eq!(lexer.consume_end(), Ok(()));
    let token = lexer.consume();
    assert!(lexer.is(&token, "b"));
    assert_eq!((token.place.file, token.place.line), (1, 2));
    assert_eq!(lexer.consume().kind, TokenKind::LineEnd);
    let token = lexer.consume();
    assert!(lexer.is(&token, "a"));
    assert_eq!((token.place.file, token.place.column), (0, 18));
    assert_eq!(lexer.consume().kind, TokenKind::Number(1));
    assert_eq!(lexer.take_names(), [path, folder.file("b.nft")]);
    // An absolute path stays unchanged. A file may be included again after its end.
    let absolute = folder.add("b2.nft", "b\n");
    let path = folder.add(
        "c.nft",
        &format!("include \"{absolute}\"\ninclude \"b2.nft\"\n"),
    );
    assert_eq!(folder.read(&path), (6, String::new()));
}

#[test]
fn includes_that_fail() {
    let folder = Folder::make("fail");
    let check = |path: &str, expected: &str| assert_eq!(folder.read(path).1, expected);
    check(
        &folder.file("none.nft"),
        "none.nft: cannot read the policy: No such file or directory",
    );
    let path = folder.path.to_str().expect("UTF-8");
    check(
        path,
        &format!("{path}: cannot read the policy: Is a directory"),
    );
    check(
        &folder.add("a", "\ninclude \"none.nft\"\n"),
        "a:2:9: \"none.nft\": cannot read it: No such file or directory",
    );
    check(
        &folder.add("b", "include \"*.nft\"\n"),
        "b:1:9: \"*.nft\": no wildcards: include each file by its name",
    );
    check(
        &folder.add("c", "include none.nft\n"),
        "c:1:9: found \"none.nft\", expected the name of a file in quotes",
    );
    check(
        &folder.add("d", "include \"a\" b\n"),
        "d:1:13: found \"b\", expected the end of the line or \";\"",
    );
    check(
        &folder.add("e", "x\ninclude \"e\""),
        "e:2:9: \"e\": this file includes itself",
    );
    // The file includes itself through another file without a line end at its end, and through a link.
    folder.add("g", "include \"h\"");
    let path = folder.add("f", "include \"g\"");
    fs::hard_link(&path, folder.file("h")).expect("a link");
    check(&path, "g:1:9: \"h\": this file includes itself");
}

#[test]
fn files_in_one_another_are_limited() {
    let folder = Folder::make("depth");
    folder.add("17", "end\n");
    for index in 1..=16 {
        folder.add(&index.to_string(), &format!("include \"{}\"\n", index + 1));
    }
    assert_eq!(
        folder.read(&folder.file("1")).1,
        "16:1:9: \"17\": more than 16 files in one another"
    );
    assert_eq!(folder.read(&folder.file("2")).1, "");
}

fn read_text(text: &str) -> (u32, String) {
    read_all(Lexer::open_text("t", text.as_bytes()))
}

/// Returns `depth` definitions, each of which uses the definition before it, and a use of the last one.
fn defines(depth: u32) -> String {
    let mut text = "define d1 = 1\n".to_owned();
    for index in 2..=depth {
        text += &format!("define d{index} = $d{}\n", index - 1);
    }
    text + &format!("$d{depth}\n")
}

#[test]
fn limits_hold() {
    assert_eq!(read_text(&defines(64)).1, "");
    assert_eq!(
        read_text(&defines(65)).1,
        "t:2:13: \"$d1\": more than 64 $NAME in one another"
    );
    assert_eq!(
        read_text(&"#".repeat(TEXT_MAX + 1)).1,
        "t: the policy is larger than 32 MiB with its includes"
    );
}

#[test]
fn words_of_the_language_are_reserved() {
    for word in ["accept", "xt", "ip6", "ip"] {
        assert!(is_reserved(word), "{word}");
    }
    for word in ["ip60", "acceptx", "accep", "filter", ""] {
        assert!(!is_reserved(word), "{word}");
    }
}
