// SPDX-License-Identifier: GPL-2.0-or-later
//! Question to all hosts of a channel: what would this policy drop? `fwctl fleet diff` signs it, because it makes hosts
//! work.

use serde::{Deserialize, Serialize};

use crate::failure::{untrusted, Result};
use crate::pointer::{is_digest, is_name};

/// Value of `kind` in a question (a signed request to a channel's hosts to try a policy).
pub const QUESTION: &str = "twinwall-question";
/// Maximum number of seconds of traffic on which a policy is tried.
pub const TRY_SECONDS_MAX: u32 = 600;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Kind of the message, always QUESTION.
    pub kind: String,
    pub channel: String,
    /// Number of the question: milliseconds since 1970. A host accepts only a larger number than before.
    pub number: u64,
    /// SHA-256 of the bundle with the policy to try, in hexadecimal.
    pub digest: String,
    /// Seconds of traffic on which the policy is tried.
    pub seconds: u32,
    /// End of the time in which hosts may accept the question, in seconds since 1970.
    pub expires: u64,
}

impl Question {
    /// Parses the text of a question. Does not verify its signatures.
    pub fn parse(text: &str) -> Result<Question> {
        let broken = |why: String| untrusted(format_args!("the question: {why}: ask again"));
        let read: Question =
            serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
        let is_sound = read.kind == QUESTION
            && is_name(&read.channel)
            && is_digest(&read.digest)
            && (1..=TRY_SECONDS_MAX).contains(&read.seconds);
        match is_sound {
            true => Ok(read),
            false => Err(broken(
                "it is something else, or asks for too much".to_owned(),
            )),
        }
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            kind: QUESTION.to_owned(),
            channel: "web".to_owned(),
            number: 1,
            digest: "0".repeat(64),
            seconds: 60,
            expires: 200,
        }
    }

    #[test]
    fn a_question_is_read_as_it_was_written() {
        assert_eq!(Question::parse(&question().text()).unwrap(), question());
    }

    #[test]
    fn other_messages_and_long_trials_are_refused() {
        let spoil: [fn(&mut Question); 4] = [
            |one| one.kind = "twinwall-pointer".to_owned(),
            |one| one.seconds = 601,
            |one| one.seconds = 0,
            |one| one.digest = "../x".to_owned(),
        ];
        for spoil in spoil {
            let mut one = question();
            spoil(&mut one);
            assert!(Question::parse(&one.text()).is_err(), "{one:?}");
        }
    }
}
