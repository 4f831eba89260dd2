// SPDX-License-Identifier: GPL-2.0-or-later
//! State of the parser: the lexer, the policy so far, names, and properties that the current rule has tested.

use std::collections::HashMap;

use crate::base::log::Failure;
use crate::policy::parse::directive;
use crate::policy::parse::lexer::Lexer;
use crate::policy::token::{is_reserved, Sign, Token, TokenKind};
use crate::policy::{
    field_facts, Family, Field, FieldFacts, Layer3, Place, Policy, ELEMENTS_MAX, FIELDS,
};

/// Values of NFPROTO_* (linux/netfilter.h).
pub const NFPROTO_IPV4: u16 = 2;
pub const NFPROTO_IPV6: u16 = 10;
/// Numbers of protocols (RFC 5237).
pub const PROTOCOL_ICMP: u16 = 1;
pub const PROTOCOL_TCP: u16 = 6;
pub const PROTOCOL_UDP: u16 = 17;
/// Values for a protocol without a number. TESTED_ANY: the matches so far imply no protocol. TESTED_SEVERAL: they allow
/// several protocols, so that no field of a single protocol may be used.
pub const TESTED_ANY: u16 = 0;
pub const TESTED_SEVERAL: u16 = 256;

/// Maximum number of statements of a rule: nf_tables has room for 128 expressions of 4095 bytes together.
pub const STATEMENTS_MAX: usize = 32;
/// Maximum number of fields of a rule: nf_tables has room for 128 expressions of 4095 bytes together. A new mark counts
/// as a field.
pub const FIELDS_MAX: u32 = 24;

/// Names declared in a table, with the indexes of their chains and sets.
#[derive(Debug, Default)]
pub struct Scope {
    pub chains: HashMap<String, u32>,
    pub sets: HashMap<String, u32>,
}

/// Properties of packets that the statements of the current rule so far imply.
#[derive(Clone, Copy, Debug)]
pub struct Tested {
    pub family: Family,
    /// Protocol of layer 3 that the table and the matches so far imply: NFPROTO_*, TESTED_ANY for none, or
    /// TESTED_SEVERAL.
    pub layer3: u16,
    /// Protocol of layer 4 that the matches so far imply: its number, TESTED_ANY for none, or TESTED_SEVERAL.
    pub protocol: u16,
    /// Number of fields that the rule has read so far.
    pub fields: u32,
    /// True for the fields after `typeof`: no field excludes another field there.
    pub is_typeof: bool,
}

#[derive(Debug)]
pub struct Parser {
    pub lexer: Lexer,
    pub policy: Policy,
    pub tables: HashMap<(&'static str, String), u32>,
    /// Declared names, one scope per table.
    pub scopes: Vec<Scope>,
    pub rules: usize,
    pub elements: usize,
    pub base_chains: u32,
    /// Place of each @NAME in all rules. Until a match's @NAME is resolved, `set` of its `Right::Named` is an index
    /// into this list.
    pub set_places: Vec<Place>,
    pub tested: Tested,
}

impl Parser {
    pub fn new(lexer: Lexer) -> Self {
        Parser {
            lexer,
            policy: Policy::default(),
            tables: HashMap::new(),
            scopes: Vec::new(),
            rules: 0,
            elements: 0,
            base_chains: 0,
            set_places: Vec::new(),
            tested: tested(Family::Inet),
        }
    }

    /// Parses a name: a word that is not reserved.
    pub fn name(&mut self, expected: &str) -> Result<Token, Failure> {
        let token = self.lexer.consume();
        if token.kind != TokenKind::Word {
            return Err(self.lexer.unexpected(&token, expected));
        }
        if is_reserved(self.lexer.text(&token)) {
            return Err(self
                .lexer
                .wrong(&token, "a word of the language is no name"));
        }
        Ok(token)
    }

    /// Parses a string, or a word that is not reserved.
    pub fn string(&mut self) -> Result<String, Failure> {
        let token = self.lexer.consume();
        let is_word = token.kind == TokenKind::Word && !is_reserved(self.lexer.text(&token));
        if token.kind != TokenKind::String && !is_word {
            return Err(self.lexer.unexpected(&token, "a text in quotes"));
        }
        Ok(self.lexer.text(&token).to_owned())
    }

    /// Consumes the next token. Fails if it is not this sign.
    pub fn sign(&mut self, sign: Sign, expected: &str) -> Result<Token, Failure> {
        let token = self.lexer.consume();
        if token.kind != TokenKind::Sign(sign) {
            return Err(self.lexer.unexpected(&token, expected));
        }
        Ok(token)
    }

    /// Consumes the next token. Fails if it is not this word.
    pub fn word(&mut self, word: &str, expected: &str) -> Result<(), Failure> {
        let token = self.lexer.consume();
        if !self.lexer.is(&token, word) {
            return Err(self.lexer.unexpected(&token, expected));
        }
        Ok(())
    }

    /// Parses a number.
    pub fn number(&mut self) -> Result<(Token, u64), Failure> {
        let token = self.lexer.consume();
        match token.kind {
            TokenKind::Number(number) => Ok((token, number)),
            _ => Err(self.lexer.unexpected(&token, "a number")),
        }
    }

    /// Counts an element of a set. Fails, at the element's first token, if all sets together have more than
    /// ELEMENTS_MAX elements.
    pub fn count_element(&mut self, token: &Token) -> Result<(), Failure> {
        if self.elements >= ELEMENTS_MAX {
            let cause = format!("more than {ELEMENTS_MAX} elements in all sets");
            return Err(self.lexer.wrong(token, cause));
        }
        self.elements += 1;
        Ok(())
    }

    /// Chooses between two fields with the same text, such as `icmp type` of IPv4 packets and `icmp type` of packets of
    /// any family. Returns the field of any family if the table and the statements so far imply another family than the
    /// given field's, or several families, or no family but the field's protocol. Otherwise, or if no other field has
    /// this text, returns the given field. nft adds a test of a field's family only if neither a family nor the field's
    /// protocol is known.
    pub fn family_field(&self, field: Field) -> Field {
        let facts = field_facts(field);
        let has_protocol = facts.protocol != 0
            && self.tested.layer3 == TESTED_ANY
            && self.tested.protocol == u16::from(facts.protocol);
        if !has_protocol && !excludes(self.tested.layer3, layer3_of(facts)) {
            return field;
        }
        let mut same = FIELDS.iter().filter(|other| other.text == facts.text);
        let found = same.find(|other| other.kind == facts.kind && other.layer3 == Layer3::Any);
        found.map_or(field, |other| other.field)
    }

    /// Counts a field of the rule, and records the protocols that the field implies. Fails at the token if the rule has
    /// too many fields, or if its table or its earlier matches exclude the field. After `typeof`, only counts the
    /// field.
    pub fn test_field(&mut self, token: &Token, field: Field) -> Result<(), Failure> {
        let facts = field_facts(field);
        if self.tested.fields == FIELDS_MAX {
            let cause = format!("more than {FIELDS_MAX} fields in a rule");
            return Err(self.lexer.wrong(token, cause));
        }
        self.tested.fields += 1;
        if self.tested.is_typeof {
            return Ok(());
        }
        let layer3 = layer3_of(facts);
        let protocol = u16::from(facts.protocol);
        if excludes(self.tested.layer3, layer3) {
            let text = facts.text;
            let version = match layer3 {
                NFPROTO_IPV4 => "IPv4",
                _ => "IPv6",
            };
            return Err(self.lexer.wrong(
                token,
                format_args!("{text} needs {version}, which the table or a match before excludes"),
            ));
        }
        if excludes(self.tested.protocol, protocol) {
            let name = protocol_name(protocol);
            let text = facts.text;
            return Err(self.lexer.wrong(
                token,
                format_args!("{text} needs the protocol {name}, which a match before excludes"),
            ));
        }
        if field == Field::MetaNfproto && self.tested.family != Family::Inet {
            return Err(self
                .lexer
                .wrong(token, "meta nfproto is for a table inet only"));
        }
        learn(&mut self.tested.layer3, layer3);
        learn(&mut self.tested.protocol, protocol);
        Ok(())
    }

    /// Parses the part after `define` or `include`. Returns false if the word is neither.
    pub fn definition(&mut self, word: &Token) -> Result<bool, Failure> {
        if self.lexer.is(word, "define") {
            directive::define(&mut self.lexer)?;
            self.lexer.consume_end()?;
        } else if self.lexer.is(word, "include") {
            directive::include(&mut self.lexer)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Returns the name of a protocol, for the error that a field needs this protocol.
fn protocol_name(protocol: u16) -> &'static str {
    match protocol {
        PROTOCOL_ICMP => "icmp",
        PROTOCOL_TCP => "tcp",
        PROTOCOL_UDP => "udp",
        _ => "icmpv6",
    }
}

/// Returns the protocol of layer 3 that a field needs: NFPROTO_*, or TESTED_ANY if it needs none.
fn layer3_of(facts: &FieldFacts) -> u16 {
    match facts.layer3 {
        Layer3::Any => TESTED_ANY,
        Layer3::NeedsIpv4 => NFPROTO_IPV4,
        Layer3::NeedsIpv6 => NFPROTO_IPV6,
    }
}

/// Returns the properties of packets before a rule's first statement: those that the table's family implies.
pub fn tested(family: Family) -> Tested {
    Tested {
        family,
        layer3: match family {
            Family::Ip => NFPROTO_IPV4,
            Family::Ip6 => NFPROTO_IPV6,
            Family::Inet => TESTED_ANY,
        },
        protocol: TESTED_ANY,
        fields: 0,
        is_typeof: false,
    }
}

/// Returns true if the known protocol excludes the needed protocol: the two differ, and neither is TESTED_ANY.
pub fn excludes(known: u16, needed: u16) -> bool {
    known != TESTED_ANY && needed != TESTED_ANY && known != needed
}

/// Records the protocol that a match implies. Records TESTED_SEVERAL if another protocol is known.
/// - known: in/out: protocol that is known so far.
/// - told: protocol that the match implies; TESTED_ANY = none.
pub fn learn(known: &mut u16, told: u16) {
    if told != TESTED_ANY {
        *known = if excludes(*known, told) {
            TESTED_SEVERAL
        } else {
            told
        };
    }
}
