// SPDX-License-Identifier: GPL-2.0-or-later
//! events.toml: the event lines.

use std::path::Path;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::tables::{check_unique, parse};

const TYPES: [&str; 6] = ["string", "number", "boolean", OBJECT, MEMBERS, "figures"];
const OBJECT: &str = "object";
/// Type of an entry that stands for the members of another object.
const MEMBERS: &str = "members";

/// Event lines, as the templates see them.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    #[serde(rename(deserialize = "object"))]
    pub objects: Vec<Object>,
    pub own: Vec<Own>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    pub name: String,
    pub about: String,
    #[serde(rename(deserialize = "member"))]
    pub members: Vec<Member>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    pub name: String,
    /// Type of the value. In events.toml it ends with "?" if the member may be null; `complete` removes the "?".
    pub r#type: String,
    /// True if the member may be null.
    #[serde(skip_deserializing)]
    pub null: bool,
    /// Name of an object: for type "object", the object that is the value; for type "members", the object whose members
    /// the entry stands for. "" for other types. If events.toml has no `of`, `complete` stores the member's name.
    #[serde(default)]
    pub of: String,
    #[serde(default)]
    pub always: bool,
    #[serde(default)]
    pub about: String,
}

/// An event of the firewall itself.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    pub name: String,
    pub about: String,
    #[serde(default)]
    pub figures: Vec<String>,
}

/// Checks a member of an object, and completes the implicit parts of its entry.
/// - name: name of the object, for messages.
/// - objects: names of all objects.
fn complete(name: &str, member: &mut Member, objects: &[String]) -> anyhow::Result<()> {
    if let Some(kind) = member.r#type.strip_suffix('?') {
        member.r#type = kind.to_owned();
        member.null = true;
    }
    let kind = &member.r#type;
    ensure!(
        TYPES.contains(&kind.as_str()),
        "spec/events.toml: {name}: there is no type {kind}"
    );
    if kind != OBJECT && kind != MEMBERS {
        return Ok(());
    }
    if member.of.is_empty() {
        member.of.clone_from(&member.name);
    }
    ensure!(
        objects.contains(&member.of),
        "spec/events.toml: {name}: there is no object {}",
        member.of
    );
    Ok(())
}

/// Parses and checks events.toml.
pub fn read(folder: &Path) -> anyhow::Result<Events> {
    let mut events: Events = parse(folder, "events.toml")?;
    check_unique(
        "events.toml",
        events.objects.iter().map(|object| &object.name),
    )?;
    check_unique("events.toml", events.own.iter().map(|own| &own.name))?;
    let objects: Vec<String> = events.objects.iter().map(|o| o.name.clone()).collect();
    for object in &mut events.objects {
        let name = &object.name;
        check_unique(
            "events.toml",
            object.members.iter().map(|member| &member.name),
        )?;
        for member in &mut object.members {
            complete(name, member, &objects)?;
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt;
    use std::fs;

    use serde::de::{MapAccess, Visitor};
    use serde::Deserializer;

    use super::*;

    /// A JSON value: the members of an object in their order, or the type of another value.
    #[derive(Debug)]
    enum Json {
        Object(Vec<(String, Json)>),
        Null,
        Other(&'static str),
    }

    struct JsonVisitor;

    impl<'de> Visitor<'de> for JsonVisitor {
        type Value = Json;

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("what a line of events has")
        }

        fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
            Ok(Json::Other("boolean"))
        }

        fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
            Ok(Json::Other("number"))
        }

        fn visit_str<E>(self, _: &str) -> Result<Json, E> {
            Ok(Json::Other("string"))
        }

        fn visit_unit<E>(self) -> Result<Json, E> {
            Ok(Json::Null)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(Json::Object(members))
        }
    }

    impl<'de> Deserialize<'de> for Json {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
            deserializer.deserialize_any(JsonVisitor)
        }
    }

    fn events() -> Events {
        read(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("events.toml is sound")
    }

    impl Events {
        /// Returns the members of an object in their order, including those of embedded objects.
        fn members(&self, name: &str) -> Vec<Member> {
            let object = self.objects.iter().find(|object| object.name == name);
            let object = object.unwrap_or_else(|| panic!("no object {name} is described"));
            let members = object
                .members
                .iter()
                .map(|member| match member.r#type.as_str() {
                    MEMBERS => self.members(&member.name),
                    _ => vec![member.clone()],
                });
            members.flatten().collect()
        }

        /// Returns the object that describes a member of an object: the object itself, or an embedded one.
        fn owner(&self, name: &str, key: &str) -> String {
            let object = self.objects.iter().find(|object| object.name == name);
            let members = object.into_iter().flat_map(|object| &object.members);
            let mut others = members.filter(|member| member.r#type == MEMBERS);
            let other = others.find(|other| {
                self.members(&other.name)
                    .iter()
                    .any(|member| member.name == key)
            });
            other.map_or(name, |other| &other.name).to_owned()
        }

        /// Compares an object with its description. Adds its members to the set of observed ones.
        fn check(
            &self,
            name: &str,
            found: &[(String, Json)],
            seen: &mut BTreeSet<(String, String)>,
        ) -> Result<(), String> {
            let mut expected = self.members(name).into_iter();
            for (key, value) in found {
                let member = loop {
                    let next = expected.next();
                    let next =
                        next.ok_or(format!("{name}: {key} is not described, or not there"))?;
                    if next.name == *key {
                        break next;
                    }
                    if next.always {
                        return Err(format!("{name}: {} is left out", next.name));
                    }
                };
                match value {
                    Json::Object(members) if member.r#type == OBJECT => {
                        self.check(&member.of, members, seen)?
                    }
                    Json::Other(other) if *other == member.r#type => {}
                    Json::Null if member.null => {}
                    _ => return Err(format!("{name}: {key} is no {}: {value:?}", member.r#type)),
                }
                seen.insert((self.owner(name, key), key.clone()));
            }
            match expected.find(|member| member.always) {
                Some(member) => Err(format!("{name}: {} is left out", member.name)),
                None => Ok(()),
            }
        }

        fn check_line(
            &self,
            line: &str,
            seen: &mut BTreeSet<(String, String)>,
        ) -> Result<(), String> {
            match serde_json::from_str(line).map_err(|error| error.to_string())? {
                Json::Object(members) => self.check("line", &members, seen),
                other => Err(format!("no object: {other:?}")),
            }
        }
    }

    /// Returns the lines that the unit tests of both twins expect.
    fn lines() -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/vectors/events.txt");
        let text = fs::read_to_string(path).expect("the vectors are there");
        let expected = text.lines().filter_map(|line| {
            let line = line
                .strip_prefix("expect ")
                .or_else(|| line.strip_prefix("full "))?;
            Some(line.to_owned())
        });
        expected.collect()
    }

    #[test]
    fn the_lines_of_both_twins_are_as_described() {
        let (events, mut seen) = (events(), BTreeSet::new());
        for line in lines() {
            events
                .check_line(&line, &mut seen)
                .unwrap_or_else(|error| panic!("{error}: {line}"));
        }
        // The vectors have no lines of the firewall itself.
        let of_packets = |object: &&Object| !object.name.starts_with("own");
        for object in events.objects.iter().filter(of_packets) {
            let members = object
                .members
                .iter()
                .filter(|member| member.r#type != MEMBERS);
            let missing = members.map(|member| (object.name.clone(), member.name.clone()));
            let missing: Vec<_> = missing.filter(|member| !seen.contains(member)).collect();
            assert!(missing.is_empty(), "no line has {missing:?}");
        }
    }

    #[test]
    fn a_line_that_is_otherwise_is_noticed() {
        let events = events();
        let line = &lines()[0];
        let check = |line: &str| events.check_line(line, &mut BTreeSet::new());
        assert_eq!(check(line), Ok(()));
        for (from, to) in [
            ("\"timestamp\"", "\"time\""),
            ("\"queue\":7", "\"queue\":\"7\""),
            ("\"queue\":7,", ""),
            ("\"event_type\"", "\"twinwall\":{},\"event_type\""),
        ] {
            assert!(line.contains(from), "{line}");
            assert!(check(&line.replacen(from, to, 1)).is_err(), "{from}");
        }
    }
}
