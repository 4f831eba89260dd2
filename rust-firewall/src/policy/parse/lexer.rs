// SPDX-License-Identifier: GPL-2.0-or-later
//! Lexer: converts text to tokens, and handles files with their includes, $NAME, comments and places.
//! rules/policy/GRAMMAR.md, "Text", specifies all of these.
//!
//! Theory of operation: a stack of frames, each of which is a part of a text that is being read. `include` pushes a
//! file. $NAME pushes the text of its `define`, which is read again at every use, so that tokens have the place of the
//! definition and nothing is copied. Tokens refer to parts of the text. An error of the text itself (an unclosed
//! string, an unknown $NAME, a limit) becomes a token Bad, which is reported when the parser reaches it; so errors are
//! reported in the order of the text.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;

use crate::base::log::{failure_set, Failure, LogExit};
use crate::policy::parse::source::{self, reason, Source};
use crate::policy::token::{is_reserved, quote, scan, Sign, Token, TokenKind};
use crate::policy::{Place, DEFINE_DEPTH_MAX, TEXT_MAX, TOKENS_MAX};

/// Maximum number of tokens that are read ahead, apart from line ends that are blanks.
pub const AHEAD: usize = 2;
/// Number of bytes of blanks and comments in a define that count as one of TOKENS_MAX tokens.
const BLANKS: usize = 64;
/// Maximum length of a failure's text in bytes, as in the C twin; a longer text is cut.
const FAILURE_BYTES: usize = 511;

pub(super) const TOO_LARGE: &str = "the policy is larger than 32 MiB with its includes";
pub(super) const UNDEFINED: &str = "not defined before this";

/// Part of a text that is being read: a file, or the value of a define.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) file: usize,
    at: usize,
    pub(super) end: usize,
    line_start: usize,
    line: u32,
    /// True for the value of a define, in which the lexer skips line ends like blanks.
    pub(super) is_define: bool,
}

/// File of a policy, and its text; a file of host names has no text here.
#[derive(Debug)]
pub(super) struct File {
    text: String,
    /// Device and inode of the file; None for a text in memory, and for a file of host names.
    pub(super) identity: Option<(u64, u64)>,
}

/// A `define`: the text of its value, as a frame that is not read yet, and the place of its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Define {
    pub(super) value: Frame,
    pub(super) place: Place,
}

#[derive(Debug)]
pub struct Lexer {
    /// Names of the files, as messages show them.
    pub(super) names: Vec<String>,
    pub(super) files: Vec<File>,
    pub(super) bytes: usize,
    tokens: u64,
    pub(super) frames: Vec<Frame>,
    defines: HashMap<String, Define>,
    braces: u32,
    /// True if the last token was a line end, or no token was read.
    pub(super) line_ended: bool,
    /// Tokens that were read ahead.
    pub(super) ahead: VecDeque<Token>,
    /// Error of the Bad token, after which nothing is read.
    told: Option<Failure>,
}

impl Lexer {
    /// Checks that a file's bytes are text, and pushes them as a frame.
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

    /// Adds the name of a file of host names, whose text gives no tokens: messages can then name the file, and reloads
    /// may read it. Returns the file's index.
    /// - bytes: size of the file, which counts toward the maximum size of a policy (`bytes_left`).
    pub(super) fn add_list(&mut self, name: String, bytes: usize) -> u32 {
        self.names.push(name);
        self.bytes += bytes;
        self.files.push(File {
            text: String::new(),
            identity: None,
        });
        self.files.len() as u32 - 1
    }

    /// Returns the number of bytes that further files may have.
    pub(super) fn bytes_left(&self) -> usize {
        TEXT_MAX - self.bytes
    }

    /// Opens a policy file. The complete text is checked first: size, UTF-8, no NUL. Fails if the file can't be read or
    /// is too large, or with the place of an invalid byte.
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

    /// Opens a text in memory and checks it like a file. Messages show `name` as its file name.
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

    /// Removes the names of the files from the lexer and returns them, for `Policy::files`.
    pub fn take_names(&mut self) -> Vec<String> {
        std::mem::take(&mut self.names)
    }

    pub(super) fn top(&self) -> &Frame {
        &self.frames[self.frames.len() - 1]
    }

    /// Returns the nesting depth of `$NAME` values or of included files at the current token.
    /// - of_defines: true = values of `$NAME`; false = files, including the first.
    pub(super) fn count_frames(&self, of_defines: bool) -> usize {
        let frames = self.frames.iter();
        frames.filter(|frame| frame.is_define == of_defines).count()
    }

    /// Returns a token as Bad, and stores its error. No token is read after it.
    fn bad(&mut self, token: Token, cause: &str) -> Token {
        self.told = Some(self.wrong(&token, cause));
        Token {
            kind: TokenKind::Bad,
            ..token
        }
    }

    /// Scans one token of a file or `$NAME` value (a frame). At its end, returns an EndOfText.
    fn scan_frame(&mut self, frame: &mut Frame) -> Token {
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

    /// Scans one token of the file or `$NAME` value that is being read (the top frame). At its end, returns an
    /// EndOfText.
    pub(super) fn scan(&mut self) -> Token {
        let top = self.frames.len() - 1;
        let mut frame = self.frames[top];
        let token = self.scan_frame(&mut frame);
        self.frames[top] = frame;
        token
    }

    /// Returns the definition of a name. A Variable is searched without its `$`.
    pub(super) fn find_define(&self, name: &Token) -> Option<&Define> {
        let text = self.text(name);
        self.defines.get(match name.kind {
            TokenKind::Variable => &text[1..],
            _ => text,
        })
    }

    /// Stores a new definition of `define`.
    pub(super) fn keep_define(&mut self, name: String, define: Define) {
        self.defines.insert(name, define);
    }

    /// Pushes the text of a $NAME as a frame. Fails with a Bad token if the name is undefined or nested too deeply.
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

    /// Counts a token, and the blanks before a token of a define. Returns false if there are too many tokens.
    /// - before: start of these blanks.
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

    /// Returns the text that a define's token has within a string: of a word, number, address, wildcard or text in
    /// quotes. None for a reserved word, a text that is empty or contains `$`, and other tokens.
    fn value_text(&self, token: &Token) -> Option<String> {
        let text = self.text(token);
        let fits = match token.kind {
            TokenKind::Number(number) => return Some(number.to_string()),
            TokenKind::Word => !is_reserved(text),
            TokenKind::String => !text.is_empty() && !text.contains('$'),
            TokenKind::Ipv4 | TokenKind::Ipv6 | TokenKind::Wildcard => true,
            _ => false,
        };
        fits.then(|| text.to_owned())
    }

    /// Returns the value of a $NAME within a string. Fails unless it is a single token that `value_text` accepts.
    /// - token: string with the $NAME; a failure has its place.
    /// - name: name without the `$`.
    pub(super) fn value_within(&mut self, token: &Token, name: &str) -> Result<String, Failure> {
        let Some(define) = self.defines.get(name) else {
            return Err(self.wrong(token, format_args!("${name} is {UNDEFINED}")));
        };
        let mut frame = define.value;
        let before = frame.at;
        let value = self.scan_frame(&mut frame);
        let behind = frame.at;
        let end = self.scan_frame(&mut frame);
        if !self.count_token(&value, true, before) || !self.count_token(&end, true, behind) {
            return Err(self.wrong(
                token,
                format_args!("more than {TOKENS_MAX} tokens when $NAME is replaced"),
            ));
        }
        let text = self.value_text(&value);
        text.filter(|_| end.kind == TokenKind::EndOfText)
            .ok_or_else(|| {
                let cause = "has no text for a prefix: define it as a text in quotes";
                self.wrong(token, format_args!("${name} {cause}"))
            })
    }

    /// Reads the next token. Goes into the value of a $NAME (pushes a frame), and back out at the end of a value or
    /// included file.
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

    /// Returns the text of a token; for a string, the text between the quotes.
    pub fn text(&self, token: &Token) -> &str {
        let start = token.start as usize;
        &self.files[token.place.file as usize].text[start..start + token.length as usize]
    }

    /// Returns the next token (`ahead` is 0) or the token after it (1), without consuming it.
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

    /// Consumes and returns the next token.
    pub fn consume(&mut self) -> Token {
        let token = self.peek(0);
        self.ahead.pop_front();
        token
    }

    /// Consumes the next token if it is this sign. Returns true if so.
    pub fn consume_sign(&mut self, sign: Sign) -> bool {
        let found = self.peek(0).kind == TokenKind::Sign(sign);
        if found {
            self.consume();
        }
        found
    }

    /// Consumes the next token if it is this word. Returns true if so.
    pub fn consume_word(&mut self, word: &str) -> bool {
        let token = self.peek(0);
        let found = self.is(&token, word);
        if found {
            self.consume();
        }
        found
    }

    /// Returns true if the token is this word.
    pub fn is(&self, token: &Token, word: &str) -> bool {
        token.kind == TokenKind::Word && self.text(token) == word
    }

    /// Begins (true) or ends (false) a part of a set in which line ends are blanks: next to its braces and commas.
    /// Within the part, `peek` skips line ends.
    pub fn braces(&mut self, enter: bool) {
        if enter {
            self.braces += 1;
        } else {
            self.braces -= 1;
        }
    }

    /// Consumes a line end or `;`, or accepts the end of the text. Fails at another token.
    pub fn consume_end(&mut self) -> Result<(), Failure> {
        let token = self.peek(0);
        match token.kind {
            TokenKind::LineEnd | TokenKind::Semicolon => {
                self.consume();
                Ok(())
            }
            TokenKind::EndOfText => Ok(()),
            _ => Err(self.unexpected(&token, "the end of the line or \";\"")),
        }
    }

    /// Returns a failure at a place, with the text `FILE:LINE:COLUMN: TEXT`.
    pub fn fail(&self, place: Place, text: impl Display) -> Failure {
        fail(format!("{}: {text}", self.place_name(place)))
    }

    /// Returns a token as error texts show it: in quotes, or as "end of line" or "end of text".
    fn quote(&self, token: &Token) -> String {
        match token.kind {
            TokenKind::EndOfText => "end of text".to_owned(),
            TokenKind::LineEnd => "end of line".to_owned(),
            _ => quote(self.text(token)),
        }
    }

    /// Returns the stored error if the token is Bad.
    fn fail_bad(&self, token: &Token) -> Option<Failure> {
        let told = self.told.as_ref();
        told.filter(|_| token.kind == TokenKind::Bad).cloned()
    }

    /// Returns the failure `found "TOKEN", expected EXPECTED`; for a Bad token, the stored error.
    pub fn unexpected(&self, token: &Token, expected: &str) -> Failure {
        self.fail_bad(token).unwrap_or_else(|| {
            let found = self.quote(token);
            self.fail(
                token.place,
                format_args!("found {found}, expected {expected}"),
            )
        })
    }

    /// Returns the failure `"TOKEN" is not supported here: HINT`; for a Bad token, the stored error.
    pub fn refuse(&self, token: &Token, hint: &str) -> Failure {
        self.fail_bad(token).unwrap_or_else(|| {
            let found = self.quote(token);
            self.fail(
                token.place,
                format_args!("{found} is not supported here: {hint}"),
            )
        })
    }

    /// Returns the failure `"TOKEN": CAUSE`; for a Bad token, the stored error.
    pub fn wrong(&self, token: &Token, cause: impl Display) -> Failure {
        self.fail_bad(token).unwrap_or_else(|| {
            self.fail(token.place, format_args!("{}: {cause}", self.quote(token)))
        })
    }

    /// Returns a place as "FILE:LINE:COLUMN", for messages with a second place.
    pub fn place_name(&self, place: Place) -> String {
        let Place { file, line, column } = place;
        format!("{}:{line}:{column}", self.names[file as usize])
    }
}

/// Cuts a text to FAILURE_BYTES, at the end of a character.
fn cut_to_characters(text: &mut String) {
    while text.len() > FAILURE_BYTES {
        text.pop();
    }
}

/// Returns a failure with an error text about the policy, cut to FAILURE_BYTES. The exit code is `LogExit::Usage`.
fn fail(mut text: String) -> Failure {
    cut_to_characters(&mut text);
    failure_set(LogExit::Usage, text)
}

/// Skips blanks, comments, line ends after `\`, and in a define all line ends.
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
