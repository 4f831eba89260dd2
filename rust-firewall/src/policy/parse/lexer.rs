// SPDX-License-Identifier: GPL-2.0-or-later
//! Text to tokens: files with their includes, $NAME, comments, places. rules/policy/GRAMMAR.md,
//! "Text", says what each is.
//!
//! Theory of operation: a stack of frames, each a piece of text being read. `include` puts a file on
//! it; $NAME puts the text that its `define` stood for on it, which is read again at every use, so
//! that tokens keep the place of the definition and nothing is copied. Tokens point into the text.
//! What is wrong with the text itself (an unclosed string, an unknown $NAME, a limit) becomes a
//! token Bad, told when the parser comes to it; so errors are told in the order of the text.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;

use crate::base::log::{failure_set, Failure, LogExit};
use crate::policy::parse::source::{self, reason, Source};
use crate::policy::token::{quote, scan, Sign, Token, TokenKind};
use crate::policy::{Place, DEFINE_DEPTH_MAX, TEXT_MAX, TOKENS_MAX};

/// Tokens that can be looked at in advance.
pub const AHEAD: usize = 2;
/// Bytes of blanks and comments in a define that count as a token.
const BLANKS: usize = 64;
/// Bytes of a failure's text; longer ones are cut.
const FAILURE_BYTES: usize = 511;

pub(super) const TOO_LARGE: &str = "the policy is larger than 32 MiB with its includes";
pub(super) const UNDEFINED: &str = "not defined before this";

/// A piece of text being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) file: usize,
    at: usize,
    pub(super) end: usize,
    line_start: usize,
    line: u32,
    /// Line ends in it are blanks.
    pub(super) is_define: bool,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct File {
    text: String,
    /// Device and inode, if it is a file.
    pub(super) identity: Option<(u64, u64)>,
}

/// A `define`: its value, as a text still to be read, and the place of its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Define {
    pub(super) value: Frame,
    pub(super) place: Place,
}

#[derive(Debug)]
pub struct Lexer {
    /// Names of files, as in messages; one a file.
    pub(super) names: Vec<String>,
    pub(super) files: Vec<File>,
    pub(super) bytes: usize,
    tokens: u64,
    pub(super) frames: Vec<Frame>,
    defines: HashMap<String, Define>,
    braces: u32,
    /// The token read last was a line end.
    pub(super) line_ended: bool,
    /// Read and not yet taken.
    pub(super) ahead: VecDeque<Token>,
    /// By the Bad token: nothing more is read.
    told: Option<Failure>,
}

impl Lexer {
    /// Makes a file's text the next to be read, after a check that it is text.
    pub(super) fn push_file(&mut self, name: String, source: Source) -> Result<(), Failure> {
        let Source { bytes, identity } = source;
        let file = self.files.len();
        self.names.push(name);
        let text = source::check(bytes)
            .map_err(|(bytes, at, cause)| self.fail(source::place(file, &bytes, at), cause))?;
        self.bytes += text.len();
        self.frames.push(Frame {
            file,
            at: 0,
            end: text.len(),
            line_start: 0,
            line: 1,
            is_define: false,
        });
        self.files.push(File { text, identity });
        Ok(())
    }

    fn open_empty() -> Self {
        Lexer {
            names: Vec::new(),
            files: Vec::new(),
            bytes: 0,
            tokens: 0,
            frames: Vec::new(),
            defines: HashMap::new(),
            braces: 0,
            line_ended: true,
            ahead: VecDeque::with_capacity(2 * AHEAD),
            told: None,
        }
    }

    /// Adds a file whose text is not the policy's, for messages and reloads. Gives its number.
    pub(super) fn add_list(&mut self, name: String, bytes: usize) -> u32 {
        self.names.push(name);
        self.bytes += bytes;
        self.files.push(File {
            text: String::new(),
            identity: None,
        });
        self.files.len() as u32 - 1
    }

    /// Bytes that further files may have.
    pub(super) fn bytes_left(&self) -> usize {
        TEXT_MAX - self.bytes
    }

    /// Opens a policy file. The text is checked as a whole: size, UTF-8, no NUL. Fails if it can't
    /// be read, or with the place of what is wrong.
    pub fn open_file(path: &str) -> Result<Self, Failure> {
        let mut lexer = Self::open_empty();
        let source = source::read(path, TEXT_MAX).map_err(|error| {
            fail(format!(
                "{path}: cannot read the policy: {}",
                reason(&error)
            ))
        })?;
        if source.bytes.len() > TEXT_MAX {
            return Err(fail(format!("{path}: {TOO_LARGE}")));
        }
        lexer.push_file(path.to_owned(), source)?;
        Ok(lexer)
    }

    /// Opens a text from memory that `name` stands for in messages; likewise.
    pub fn open_text(name: &str, text: &[u8]) -> Result<Self, Failure> {
        let mut lexer = Self::open_empty();
        if text.len() > TEXT_MAX {
            return Err(fail(format!("{name}: {TOO_LARGE}")));
        }
        let source = Source {
            bytes: text.to_owned(),
            identity: None,
        };
        lexer.push_file(name.to_owned(), source)?;
        Ok(lexer)
    }

    /// Hands the names of the files over, as `Policy::files`.
    pub fn take_names(&mut self) -> Vec<String> {
        std::mem::take(&mut self.names)
    }

    pub(super) fn top(&self) -> &Frame {
        &self.frames[self.frames.len() - 1]
    }

    /// How many frames are of defines, or of files.
    pub(super) fn count_frames(&self, of_defines: bool) -> usize {
        let frames = self.frames.iter();
        frames.filter(|frame| frame.is_define == of_defines).count()
    }

    /// Makes a token a Bad one. Nothing is read after it.
    fn bad(&mut self, token: Token, cause: &str) -> Token {
        self.told = Some(self.wrong(&token, cause));
        Token {
            kind: TokenKind::Bad,
            ..token
        }
    }

    /// Scans one token of the frame on top; its end is an EndOfText.
    pub(super) fn scan(&mut self) -> Token {
        let top = self.frames.len() - 1;
        let frame = &mut self.frames[top];
        let text = &self.files[frame.file].text[..frame.end];
        skip_blanks(text, frame);
        let place = Place {
            file: frame.file as u32,
            line: frame.line,
            column: (frame.at - frame.line_start + 1) as u32,
        };
        let text = text.as_bytes();
        let found = scan(&text[frame.at..]);
        let mut token = Token {
            kind: found.kind,
            place,
            start: frame.at as u32,
            length: found.length as u32,
        };
        frame.at += found.length;
        if found.kind == TokenKind::LineEnd {
            frame.line += 1;
            frame.line_start = frame.at;
        }
        if found.length > 0 && text[token.start as usize] == b'"' {
            let closed = found.length > 1 && text[frame.at - 1] == b'"';
            token.start += 1;
            token.length -= if closed { 2 } else { 1 };
        }
        match found.cause {
            Some(cause) => self.bad(token, cause),
            None => token,
        }
    }

    /// Definition of a name. A Variable counts without its `$`.
    pub(super) fn find_define(&self, name: &Token) -> Option<&Define> {
        let text = self.text(name);
        self.defines.get(match name.kind {
            TokenKind::Variable => &text[1..],
            _ => text,
        })
    }

    /// Makes a define known.
    pub(super) fn keep_define(&mut self, name: String, define: Define) {
        self.defines.insert(name, define);
    }

    /// Makes the text that a $NAME stands for the next to be read; gives a Bad token if it can't.
    fn push_define(&mut self, variable: &Token) -> Result<(), Token> {
        let Some(define) = self.find_define(variable) else {
            return Err(self.bad(*variable, UNDEFINED));
        };
        let value = define.value;
        if self.count_frames(true) >= DEFINE_DEPTH_MAX {
            let cause = format!("more than {DEFINE_DEPTH_MAX} $NAME in one another");
            return Err(self.bad(*variable, &cause));
        }
        self.frames.push(value);
        Ok(())
    }

    /// Counts a token. Returns whether the limit is kept.
    fn count_token(&mut self, token: &Token, in_define: bool, before: usize) -> bool {
        let start = token.start as usize - usize::from(token.kind == TokenKind::String);
        let blanks = if in_define {
            (start - before) / BLANKS
        } else {
            0
        };
        self.tokens += 1 + blanks as u64;
        self.tokens <= TOKENS_MAX
    }

    /// Reads a token, with frames taken off and put on the stack as it needs.
    fn read_token(&mut self) -> Token {
        while self.told.is_none() {
            let Frame { at, is_define, .. } = *self.top();
            let token = self.scan();
            match token.kind {
                TokenKind::Bad => return token,
                TokenKind::EndOfText if is_define => {
                    self.frames.pop();
                }
                TokenKind::EndOfText if self.frames.len() == 1 => return token,
                TokenKind::EndOfText if self.line_ended => {
                    self.frames.pop();
                }
                TokenKind::EndOfText => {
                    self.line_ended = true;
                    return Token {
                        kind: TokenKind::LineEnd,
                        ..token
                    };
                }
                TokenKind::LineEnd if self.line_ended => {}
                TokenKind::Variable => {
                    if let Err(bad) = self.push_define(&token) {
                        return bad;
                    }
                }
                _ => {
                    if !self.count_token(&token, is_define, at) {
                        let cause = format!("more than {TOKENS_MAX} tokens when $NAME is replaced");
                        return self.bad(token, &cause);
                    }
                    self.line_ended = token.kind == TokenKind::LineEnd;
                    return token;
                }
            }
        }
        Token {
            kind: TokenKind::Bad,
            place: Place::default(),
            start: 0,
            length: 0,
        }
    }

    /// The text of a token; of a string what stands between the quotes.
    pub fn text(&self, token: &Token) -> &str {
        let start = token.start as usize;
        &self.files[token.place.file as usize].text[start..start + token.length as usize]
    }

    /// The token after `ahead` others (0 or 1), without taking it.
    pub fn peek(&mut self, ahead: usize) -> Token {
        let mut wanted = ahead;
        let mut index = 0;
        loop {
            if index == self.ahead.len() {
                let token = self.read_token();
                self.ahead.push_back(token);
            }
            let token = self.ahead[index];
            let blank = self.braces > 0 && token.kind == TokenKind::LineEnd;
            if blank && index == 0 {
                self.ahead.pop_front();
            } else if blank {
                index += 1;
            } else if wanted == 0 {
                return token;
            } else {
                wanted -= 1;
                index += 1;
            }
        }
    }

    /// Consumes a token.
    pub fn take(&mut self) -> Token {
        let token = self.peek(0);
        self.ahead.pop_front();
        token
    }

    /// Consumes the next token if it is this sign. Returns whether it was.
    pub fn take_sign(&mut self, sign: Sign) -> bool {
        let found = self.peek(0).kind == TokenKind::Sign(sign);
        if found {
            self.take();
        }
        found
    }

    /// Consumes the next token if it is this word. Returns whether it was.
    pub fn take_word(&mut self, word: &str) -> bool {
        let token = self.peek(0);
        let found = self.is(&token, word);
        if found {
            self.take();
        }
        found
    }

    /// Whether the token is this word.
    pub fn is(&self, token: &Token, word: &str) -> bool {
        token.kind == TokenKind::Word && self.text(token) == word
    }

    /// Enters (true) or leaves (false) the braces of a set, in which line ends are blanks. To be
    /// called when the brace is the token taken last.
    pub fn braces(&mut self, enter: bool) {
        if enter {
            self.braces += 1;
        } else {
            self.braces -= 1;
        }
    }

    /// Consumes a line end or `;`, or recognises the end of the text.
    pub fn take_end(&mut self) -> Result<(), Failure> {
        let token = self.peek(0);
        match token.kind {
            TokenKind::LineEnd | TokenKind::Semicolon => {
                self.take();
                Ok(())
            }
            TokenKind::EndOfText => Ok(()),
            _ => Err(self.unexpected(&token, "the end of the line or \";\"")),
        }
    }

    /// Fails at a place: "FILE:LINE:COLUMN: TEXT".
    pub fn fail(&self, place: Place, text: impl Display) -> Failure {
        fail(format!("{}: {text}", self.place_name(place)))
    }

    /// How an error shows a token.
    fn quote(&self, token: &Token) -> String {
        match token.kind {
            TokenKind::EndOfText => "end of text".to_owned(),
            TokenKind::LineEnd => "end of line".to_owned(),
            _ => quote(self.text(token)),
        }
    }

    /// Fails with what was told if the token is a Bad one.
    fn fail_bad(&self, token: &Token) -> Option<Failure> {
        let told = self.told.as_ref();
        told.filter(|_| token.kind == TokenKind::Bad).cloned()
    }

    /// Fails with: found "TOKEN", expected WHAT; of a Bad token with what is wrong with it.
    pub fn unexpected(&self, token: &Token, expected: &str) -> Failure {
        self.fail_bad(token).unwrap_or_else(|| {
            let found = self.quote(token);
            self.fail(
                token.place,
                format_args!("found {found}, expected {expected}"),
            )
        })
    }

    /// Fails with: "TOKEN" is not supported here: HINT.
    pub fn refuse(&self, token: &Token, hint: &str) -> Failure {
        self.fail_bad(token).unwrap_or_else(|| {
            let found = self.quote(token);
            self.fail(
                token.place,
                format_args!("{found} is not supported here: {hint}"),
            )
        })
    }

    /// Fails with: "TOKEN": CAUSE.
    pub fn wrong(&self, token: &Token, cause: impl Display) -> Failure {
        self.fail_bad(token).unwrap_or_else(|| {
            self.fail(token.place, format_args!("{}: {cause}", self.quote(token)))
        })
    }

    /// "FILE:LINE:COLUMN" of a place, for messages that name a second one.
    pub fn place_name(&self, place: Place) -> String {
        let Place { file, line, column } = place;
        format!("{}:{line}:{column}", self.names[file as usize])
    }
}

/// Cuts a text to what the C twin has room for.
fn cut_to_characters(text: &mut String) {
    while text.len() > FAILURE_BYTES {
        text.pop();
    }
}

/// Fails because of a policy's text.
fn fail(mut text: String) -> Failure {
    cut_to_characters(&mut text);
    failure_set(LogExit::Usage, text)
}

/// Goes over blanks, comments, joined lines, and in a define over line ends.
fn skip_blanks(text: &str, frame: &mut Frame) {
    loop {
        let rest = &text.as_bytes()[frame.at..];
        let joined = match rest {
            [b'\n', ..] if frame.is_define => 1,
            [b'\\', b'\n', ..] => 2,
            [b'\\', b'\r', b'\n', ..] => 3,
            _ => 0,
        };
        match rest {
            [b' ' | b'\t' | b'\r', ..] => frame.at += 1,
            [b'#', ..] => {
                let comment = &text[frame.at..];
                frame.at += comment.find('\n').unwrap_or(comment.len());
            }
            _ if joined > 0 => {
                frame.at += joined;
                frame.line += 1;
                frame.line_start = frame.at;
            }
            _ => return,
        }
    }
}
