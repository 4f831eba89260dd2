// SPDX-License-Identifier: GPL-2.0-or-later
//! A client of etcd's JSON gateway (etcd 3.4 and later: /v3/…): keys, compare-and-set, leases, a watch, roles. The
//! crate `etcd-client` would bring tokio, tonic and protoc to each host.

use std::path::Path;
use std::time::Duration;

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::{json, Value};

use crate::failure::{at, refused, request, unreachable, Failure, Kind, Result};
use crate::http::{Connection, Tls, Url};

/// Time limit of each step of a request: connecting, a read, a write.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of an answer of etcd in bytes, except the answer to `list`.
const ANSWER_MAX: usize = 4 << 20;
/// Maximum size in bytes of the answer to `list`, such as the hosts' reports of a large fleet, which the operator
/// reads.
const LIST_MAX: usize = 256 << 20;

/// Name and password of a user of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl Login {
    /// Parses USER:PASSWORD.
    /// - source: name of the text in messages.
    pub fn parse(source: &str, text: &str) -> Result<Login> {
        let parts = text.trim().split_once(':');
        let (user, password) = parts.ok_or_else(|| {
            request(format_args!(
                "{source}: this is no login: write USER:PASSWORD"
            ))
        })?;
        let (user, password) = (user.to_owned(), password.to_owned());
        Ok(Login { user, password })
    }

    /// Reads USER:PASSWORD from a file.
    pub fn read(path: &Path) -> Result<Login> {
        let text = std::fs::read_to_string(path).map_err(at(path))?;
        Login::parse(&path.to_string_lossy(), &text)
    }
}

/// Servers of etcd, and the settings of connections to them.
#[derive(Clone)]
pub struct Place {
    pub endpoints: Vec<Url>,
    pub tls: Tls,
    pub login: Option<Login>,
}

/// Key of etcd with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: Vec<u8>,
    /// Revision in which the key was last written.
    pub modified: u64,
}

/// Entries read from etcd, and the revision of its data in which they were read.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub entries: Vec<Entry>,
    pub revision: u64,
}

pub struct Etcd {
    place: Place,
    /// Index in `endpoints` of the server in use.
    current: usize,
    connection: Option<Connection>,
    token: Option<String>,
    /// Number of attempts at unreachable servers, all servers together, since a server has carried out or refused a
    /// request.
    failures: usize,
    /// Time limit of each step of a request: connecting, a read, a write.
    patience: Duration,
    /// Maximum size of an answer in bytes.
    most: usize,
}

/// Encodes bytes for the gateway, in base64.
fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn decode(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    BASE64_STANDARD.decode(text).unwrap_or_default()
}

/// Parses a number of the gateway, which sends numbers of 64 bits as strings. Returns 0 if it is no number.
fn number(value: &Value) -> u64 {
    let text = value.as_str().and_then(|text| text.parse().ok());
    text.or(value.as_u64()).unwrap_or(0)
}

/// Returns the first key after all keys that begin with a prefix.
pub fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

fn put_request(key: &str, value: &[u8], lease: Option<&str>) -> Value {
    let mut request = json!({"key": encode(key), "value": encode(value)});
    if let Some(lease) = lease {
        request["lease"] = json!(lease);
    }
    request
}

impl Etcd {
    pub fn new(place: Place) -> Etcd {
        Etcd {
            place,
            current: 0,
            connection: None,
            token: None,
            failures: 0,
            patience: PATIENCE,
            most: ANSWER_MAX,
        }
    }

    /// Returns the address of the server in use.
    fn endpoint(&self) -> Result<&Url> {
        let found = self.place.endpoints.get(self.current);
        found.ok_or_else(|| request("no endpoint of etcd: name one with --etcd"))
    }

    fn open(&self) -> Result<Connection> {
        Connection::open(self.endpoint()?, &self.place.tls, self.patience)
    }

    /// Closes the connection to the server in use, and selects the next server. All servers know the token, since etcd
    /// replicates it, and a login at each failure would keep a slow etcd slow. But if no server answers, the token is
    /// dropped: an etcd that was restored from an old backup waits for the token's revision, and does not refuse it.
    fn leave(&mut self) {
        self.connection = None;
        self.failures += 1;
        if self.failures > self.place.endpoints.len() {
            self.token = None;
        }
        self.current = (self.current + 1) % self.place.endpoints.len().max(1);
    }

    fn headers(&self) -> String {
        match &self.token {
            Some(token) => {
                format!("Content-Type: application/json\r\nAuthorization: {token}\r\n")
            }
            None => "Content-Type: application/json\r\n".to_owned(),
        }
    }

    /// Sends one request to the server in use, on the existing or a new connection. Returns the status and the body.
    fn send(&mut self, path: &str, body: &Value) -> Result<(u16, Vec<u8>)> {
        let (headers, body) = (self.headers(), body.to_string());
        let kept = self.connection.take();
        if let Some(mut connection) = kept {
            // The server may have closed the connection meanwhile. All our requests may be repeated (see `put_if`).
            if let Ok(answer) = connection.ask("POST", path, &headers, body.as_bytes(), self.most) {
                self.connection = Some(connection);
                return Ok((answer.status, answer.body));
            }
        }
        let mut connection = self.open()?;
        let answer = connection.ask("POST", path, &headers, body.as_bytes(), self.most)?;
        self.connection = Some(connection);
        Ok((answer.status, answer.body))
    }

    fn log_in(&mut self) -> Result<()> {
        let Some(login) = self.place.login.clone() else {
            return Ok(());
        };
        let body = json!({"name": login.user, "password": login.password});
        let (status, body) = self.send("/v3/auth/authenticate", &body)?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        match answer["token"].as_str().filter(|_| status == 200) {
            Some(token) if token.chars().all(|c| c.is_ascii_graphic()) => {
                self.token = Some(token.to_owned());
                Ok(())
            }
            // A server without users needs no token.
            _ if message(&answer).contains("authentication is not enabled") => Ok(()),
            _ => Err(answered(&answer)),
        }
    }

    fn call_here(&mut self, path: &str, body: &Value) -> Result<Value> {
        for _ in 0..2 {
            if self.token.is_none() {
                self.log_in()?;
            }
            let (status, bytes) = self.send(path, body)?;
            // The only answer of a stream is in "result".
            let answer: Value = serde_json::from_slice(&bytes).map_err(|error| {
                unreachable(format_args!(
                    "etcd's answer: {error}: check that the address is etcd's"
                ))
            })?;
            if status == 200 && answer["error"].is_null() {
                return Ok(match answer.get("result") {
                    Some(result) => result.clone(),
                    None => answer,
                });
            }
            if !message(&answer).contains("invalid auth token") {
                return Err(answered(&answer));
            }
            self.token = None;
        }
        Err(refused("etcd refuses its own token: check its clock"))
    }

    /// Sends a request, and returns the answer. Asks the next server if a server is unreachable, but not if it refuses.
    pub fn call(&mut self, path: &str, body: &Value) -> Result<Value> {
        let mut last = None;
        for _ in 0..self.place.endpoints.len().max(1) {
            match self.call_here(path, body) {
                Err(failure) if failure.kind == Kind::Unreachable => last = Some(failure),
                done => {
                    self.failures = 0;
                    return done;
                }
            }
            self.leave();
        }
        Err(last.unwrap_or_else(|| unreachable("no server answers: is etcd there?")))
    }

    fn range(&mut self, request: Value) -> Result<Found> {
        let answer = self.call("/v3/kv/range", &request)?;
        Ok(Found {
            entries: entries(&answer),
            revision: number(&answer["header"]["revision"]),
        })
    }

    /// Reads keys as a majority of the servers has them, all in the same revision and by one request. A key that does
    /// not exist has no entry.
    pub fn get_all(&mut self, keys: &[String]) -> Result<Found> {
        let one = |key: &String| json!({"request_range": {"key": encode(key)}});
        let request = json!({"success": keys.iter().map(one).collect::<Vec<Value>>()});
        let answer = self.call("/v3/kv/txn", &request)?;
        let all = answer["responses"].as_array();
        let all = all.map(Vec::as_slice).unwrap_or(&[]);
        let each = all.iter().map(|one| entries(&one["response_range"]));
        Ok(Found {
            entries: each.flatten().collect(),
            revision: number(&answer["header"]["revision"]),
        })
    }

    /// Reads a key as a majority of the servers has it. A key that does not exist has no entry.
    pub fn get(&mut self, key: &str) -> Result<Found> {
        self.range(json!({"key": encode(key)}))
    }

    /// Reads all keys that begin with a prefix.
    pub fn list(&mut self, prefix: &str) -> Result<Found> {
        self.most = LIST_MAX;
        let end = encode(prefix_end(prefix));
        let found = self.range(json!({"key": encode(prefix), "range_end": end}));
        self.most = ANSWER_MAX;
        found
    }

    /// Reads a key on a new connection. Fails if no server answers, or if a server refuses (`Kind::Refused`).
    /// - limit: divided among the servers; then the time limit of each step, from 100 ms to PATIENCE.
    pub fn reach(&mut self, key: &str, limit: Duration) -> Result<()> {
        self.connection = None;
        let servers = self.place.endpoints.len().max(1) as u32;
        self.patience = (limit / servers).clamp(Duration::from_millis(100), PATIENCE);
        let found = self.get(key);
        self.patience = PATIENCE;
        let kept = self.connection.as_ref();
        if kept.is_some_and(|kept| kept.set_limit(PATIENCE).is_err()) {
            self.connection = None;
        }
        found.map(|_| ())
    }

    /// Writes a key.
    /// - lease: lease at whose end etcd removes the key; None: the key remains.
    pub fn put(&mut self, key: &str, value: &[u8], lease: Option<&str>) -> Result<()> {
        self.call("/v3/kv/put", &put_request(key, value, lease))
            .map(|_| ())
    }

    pub fn remove(&mut self, key: &str) -> Result<()> {
        self.call("/v3/kv/deleterange", &json!({"key": encode(key)}))
            .map(|_| ())
    }

    /// Writes keys if the first of them was last written in revision `modified`; 0 = the key does not exist. Returns
    /// true if the keys were written, or if the first key has its new value already: a request without an answer is
    /// repeated, and may then find its own write.
    pub fn put_if(&mut self, modified: u64, writes: &[(&str, &[u8])]) -> Result<bool> {
        let Some((first, value)) = writes.first() else {
            return Ok(true);
        };
        let put =
            |(key, value): &(&str, &[u8])| json!({"request_put": put_request(key, value, None)});
        let request = json!({
            "compare": [{"key": encode(first), "target": "MOD", "result": "EQUAL", "mod_revision": modified.to_string()}],
            "success": writes.iter().map(put).collect::<Vec<Value>>(),
            "failure": [{"request_range": {"key": encode(first)}}],
        });
        let answer = self.call("/v3/kv/txn", &request)?;
        let present = entries(&answer["responses"][0]["response_range"]);
        Ok(answer["succeeded"] == true || present.iter().any(|entry| entry.value == *value))
    }

    /// Creates a lease, which ends after `seconds` unless it is renewed. Returns its number.
    pub fn lease(&mut self, seconds: u64) -> Result<String> {
        let answer = self.call("/v3/lease/grant", &json!({"TTL": seconds}))?;
        let lease = answer["ID"].as_str().map(str::to_owned);
        lease.ok_or_else(|| unreachable("etcd gives no lease: check that the address is etcd's"))
    }

    /// Renews a lease. Returns false if the lease no longer exists.
    pub fn renew(&mut self, lease: &str) -> Result<bool> {
        let answer = self.call("/v3/lease/keepalive", &json!({"ID": lease}))?;
        Ok(number(&answer["TTL"]) > 0)
    }

    /// Watches keys on a separate connection.
    /// - key: the first key.
    /// - end: the first key after the watched keys.
    /// - revision: the first revision whose changes are reported.
    pub fn watch(&mut self, key: &str, end: &str, revision: u64) -> Result<Watch> {
        if self.token.is_none() {
            self.log_in()?;
        }
        let mut connection = self.open()?;
        let request = json!({"create_request": {"key": encode(key), "range_end": encode(end), "start_revision": revision.to_string()}});
        let headers = self.headers();
        let body = request.to_string();
        match connection.begin("POST", "/v3/watch", &headers, body.as_bytes())? {
            200 => Ok(Watch {
                connection,
                text: Vec::new(),
            }),
            status => Err(unreachable(format_args!(
                "the watch: status {status}: check that the address is etcd's"
            ))),
        }
    }
}

fn entry(object: &Value) -> Entry {
    Entry {
        key: String::from_utf8_lossy(&decode(&object["key"])).into_owned(),
        value: decode(&object["value"]),
        modified: number(&object["mod_revision"]),
    }
}

/// Returns the entries in an answer to a range request.
fn entries(answer: &Value) -> Vec<Entry> {
    let all = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or(&[]);
    all.iter().map(entry).collect()
}

fn message(answer: &Value) -> String {
    let error = &answer["error"];
    let text = error.as_str().or(error["message"].as_str());
    text.or(answer["message"].as_str())
        .unwrap_or_default()
        .to_owned()
}

/// Returns the failure that an answer reports: `Kind::Unreachable` if a repeated request may succeed, otherwise
/// `Kind::Refused`.
fn answered(answer: &Value) -> Failure {
    let message = message(answer);
    let may_pass = [
        "timed out",
        "no leader",
        "leader changed",
        "unavailable",
        "context",
    ];
    match may_pass.iter().any(|words| message.contains(words)) || message.is_empty() {
        true => unreachable(format_args!(
            "etcd: {message}: have its servers a majority?"
        )),
        false => refused(format_args!("etcd: {message}: see docs/FLEET.md, roles")),
    }
}

/// Watch of keys in etcd. Its events are not trusted: they show that a key may have changed; the client then reads the
/// key.
pub struct Watch {
    connection: Connection,
    /// Received bytes of an unfinished line.
    text: Vec<u8>,
}

impl Watch {
    /// Waits for changes. Returns an entry for each change: a removed key has an empty value. Returns no entry if no
    /// change was received completely. Fails if the watch has ended, for example by a compaction.
    /// - limit: time limit of each read.
    pub fn wait(&mut self, limit: Duration) -> Result<Vec<Entry>> {
        let Some(piece) = self.connection.wait(limit)? else {
            return Ok(Vec::new());
        };
        self.text.extend_from_slice(&piece);
        let Some(end) = self.text.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Vec::new());
        };
        let whole: Vec<u8> = self.text.drain(..=end).collect();
        let mut changes = Vec::new();
        for line in whole
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let line: Value = serde_json::from_slice(line).unwrap_or_default();
            let result = &line["result"];
            if result.is_null() || result["canceled"] == true {
                return Err(unreachable("the watch has ended: it begins anew"));
            }
            let events = result["events"].as_array().map(Vec::as_slice);
            changes.extend(events.unwrap_or(&[]).iter().map(|one| entry(&one["kv"])));
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(120);

    /// Starts a server that sends the next answer on each connection. Returns its address.
    fn server(answers: Vec<String>) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for answer in answers {
                let (mut socket, _) = listener.accept().unwrap();
                let _ = socket.read(&mut [0; 4096]);
                let _ = socket.write_all(answer.as_bytes());
            }
        });
        Url::parse(&format!("http://127.0.0.1:{port}")).unwrap()
    }

    fn answer(status: &str, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")
    }

    fn client(endpoints: Vec<Url>) -> Etcd {
        Etcd::new(Place {
            endpoints,
            tls: Tls::without(),
            login: None,
        })
    }

    /// Returns a watch of a server that sends these lines.
    fn watch(lines: &[&str]) -> Watch {
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let url = server(vec![answer("200 OK", &body)]);
        client(vec![url]).watch("a", "b", 1).unwrap()
    }

    #[test]
    fn a_watch_tells_changes_and_ends_at_a_compaction() {
        let created = r#"{"result":{"header":{},"created":true}}"#;
        let event = r#"{"result":{"header":{},"events":[{"kv":{"key":"YQ==","value":"Yg==","mod_revision":"6"}}]}}"#;
        let compacted = r#"{"result":{"canceled":true,"compact_revision":"5"}}"#;
        assert_eq!(watch(&[created]).wait(LIMIT).unwrap(), []);
        let changes = watch(&[created, event]).wait(LIMIT).unwrap();
        assert_eq!((changes.len(), changes[0].key.as_str()), (1, "a"));
        assert_eq!((&changes[0].value[..], changes[0].modified), (&b"b"[..], 6));
        assert!(watch(&[created, event, compacted]).wait(LIMIT).is_err());
        assert!(watch(&[r#"{"error":{"message":"x"}}"#])
            .wait(LIMIT)
            .is_err());
    }

    #[test]
    fn another_server_is_asked_when_one_is_away_or_has_no_leader() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let away = Url::parse(&format!("http://{}", free.local_addr().unwrap())).unwrap();
        drop(free);
        let lost = server(vec![answer(
            "503 No",
            r#"{"error":"etcdserver: no leader"}"#,
        )]);
        let found = r#"{"header":{"revision":"7"},"kvs":[{"key":"YQ==","value":"Yg==","mod_revision":"6"}]}"#;
        let well = server(vec![answer("200 OK", found)]);
        let found = client(vec![away.clone(), lost, well]).get("a").unwrap();
        assert_eq!(found.revision, 7);
        assert_eq!(found.entries[0].value, b"b");
        let said = client(vec![away]).get("a").unwrap_err();
        assert_eq!(said.kind, Kind::Unreachable);
    }

    #[test]
    fn a_repeated_write_is_not_taken_for_anothers() {
        let empty = || answer("200 OK", r#"{"header":{"revision":"7"}}"#);
        let present = |value: &str| {
            let kvs =
                format!(r#"{{"kvs":[{{"key":"YQ==","value":"{value}","mod_revision":"8"}}]}}"#);
            answer(
                "200 OK",
                &format!(r#"{{"responses":[{{"response_range":{kvs}}}]}}"#),
            )
        };
        for (value, is_written) in [("Yg==", true), ("Yw==", false)] {
            // The server closes the first connection after its answer, so `put_if` has none at first.
            let mut etcd = client(vec![server(vec![empty(), present(value)])]);
            etcd.get("a").unwrap();
            assert_eq!(etcd.put_if(6, &[("a", b"b")]).unwrap(), is_written);
        }
        let written = server(vec![answer(
            "200 OK",
            r#"{"succeeded":true,"responses":[{}]}"#,
        )]);
        assert!(client(vec![written]).put_if(6, &[("a", b"b")]).unwrap());
    }

    #[test]
    fn a_token_is_valid_at_the_next_server() {
        let token = answer("200 OK", r#"{"token":"t.1"}"#);
        // The first server answers the login, and no more.
        let first = server(vec![token]);
        let (sender, seen) = std::sync::mpsc::channel();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut asked = [0; 4096];
            let length = socket.read(&mut asked).unwrap();
            sender
                .send(String::from_utf8_lossy(&asked[..length]).into_owned())
                .unwrap();
            socket.write_all(answer("200 OK", "{}").as_bytes()).unwrap();
        });
        let mut etcd = client(vec![
            first,
            Url::parse(&format!("http://127.0.0.1:{port}")).unwrap(),
        ]);
        etcd.place.login = Some(Login {
            user: "a".to_owned(),
            password: "b".to_owned(),
        });
        etcd.get("a").unwrap();
        let asked = seen.recv_timeout(LIMIT).unwrap();
        assert!(asked.contains("/v3/kv/range"), "{asked}");
        assert!(asked.contains("Authorization: t.1"), "{asked}");
    }

    #[test]
    fn a_refusal_is_not_taken_to_another_server() {
        let refuses = server(vec![answer(
            "403 No",
            r#"{"error":"etcdserver: permission denied"}"#,
        )]);
        let other = server(vec![answer("200 OK", "{}")]);
        let said = client(vec![refuses, other])
            .put("a", b"", None)
            .unwrap_err();
        assert_eq!(said.kind, Kind::Refused);
    }
}
