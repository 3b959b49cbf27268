//! No secret, token or password in any log at any level, error, metric, setting shown, command line or row.
//!
//! They are planted, used rightly and wrongly, and then looked for in all that keymill has written.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use keymill_proof::backend::{Backend, Postgres, unless_missing};
use keymill_proof::{Client, Deployment, Server, ServerSpec, binary};

use super::super::eventually;
use super::super::http2::Http2;
use super::{call, create, token_of};

const SECRET: &str = "PLANTED-secret-0123456789-abcdefghijklmnop";
const OTHER_SECRET: &str = "PLANTED-other-secret-0123456789-abcdefghi";
const SHORT_SECRET: &str = "PLANTED-short";
const PASSWORD: &str = "PLANTED-password-0123456789";

#[test]
fn nothing_that_was_planted_is_found_with_sqlite() {
    let deployment = Deployment::sqlite();
    let mut found = Found::new(deployment.folder());
    let mut server = found.serve(deployment.store());
    found.use_rightly_and_wrongly(&server);
    found.run_commands(deployment.store());
    assert!(server.stop().success());
    found.look_at_files(deployment.folder());
    found.check();
}

#[test]
fn nothing_that_was_planted_is_found_with_postgres() {
    let Some(mut postgres) = unless_missing(Postgres::start()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut found = Found::new(folder.path());
    // It trusts everybody; the password is sent nowhere, and must be shown nowhere.
    let (before, after) = (format!("keymill:{PASSWORD}@"), "keymill@");
    let store = postgres.url().replace(after, &before);
    assert!(store.contains(PASSWORD), "{store}");
    let server = found.serve(&store);
    found.use_rightly_and_wrongly(&server);
    found.run_commands(&store);
    // What a driver says of a store that is gone is in the log, and some of it in answers.
    postgres.kill();
    eventually("the failure shows", || {
        let ready = call(&server, &found.admin, "GET", "/readyz", "");
        ready.text().contains("store_unavailable")
    });
    for path in ["/v1/spaces/unmet", "/v1/tokens", "/v1/leases", "/metrics"] {
        let answer = call(&server, &found.admin, "GET", path, "");
        found.keep(path, answer.text());
    }
    found.run_commands(&store);
    drop(server);
    found.look_at_files(folder.path());
    found.check();
}

/// What was planted, and all that was written.
struct Found<'a> {
    folder: &'a Path,
    admin: String,
    planted: Vec<String>,
    written: Vec<(String, String)>,
}

impl Found<'_> {
    fn new(folder: &Path) -> Found<'_> {
        // A token that the settings have is made by a store that is thrown away.
        let made = Command::new(binary("keymill"))
            .args(["token", "create", "x", "--allow", "admin:*", "--data-dir"])
            .arg(tempfile::tempdir().unwrap().path())
            .output()
            .unwrap();
        let admin = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        assert!(admin.starts_with("km_"), "{admin}");
        let planted = [SECRET, OTHER_SECRET, SHORT_SECRET, PASSWORD, &admin, &mistyped(&admin)];
        let planted = planted.map(str::to_owned).to_vec();
        Found { folder, admin, planted, written: Vec::new() }
    }

    /// Starts a server whose secrets are all in its environment, and which logs whatever it can.
    fn serve(&mut self, store: &str) -> Server {
        let spec = ServerSpec {
            binary: binary("keymill"),
            args: ["serve", "--listen", "127.0.0.1:0", "--new-store", "--data-dir"]
                .map(str::to_owned)
                .into_iter()
                .chain([self.folder.join("d0").display().to_string()])
                .collect(),
            env: Vec::new(),
            log: self.folder.join("d0.log"),
        };
        let spec = spec
            .env("KEYMILL_LOG_LEVEL", "trace")
            .env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2")
            .env("KEYMILL_STORE", store)
            .env("KEYMILL_SECRET", SECRET)
            .env("KEYMILL_ADMIN_TOKEN", &self.admin);
        let server = spec.start();
        let line = fs::read(format!("/proc/{}/cmdline", server.pid())).unwrap();
        self.keep("the command line", &String::from_utf8_lossy(&line));
        server
    }

    /// Over HTTP: what is answered with a token is not kept, all else is.
    fn use_rightly_and_wrongly(&mut self, server: &Server) {
        let admin = self.admin.clone();
        let shop = create(server, &admin, "shop", "take:*");
        let rotated = call(server, &admin, "POST", "/v1/tokens/shop/rotate", "{}");
        let new = token_of(&rotated);
        for token in [&shop, &new] {
            self.planted.push(token.clone());
            self.planted.push(mistyped(token));
        }
        for (path, settings) in [("default", "{}"), ("noted", r#"{"audit":"key"}"#)] {
            let put = call(server, &admin, "PUT", &format!("/v1/spaces/{path}"), settings);
            self.keep("a keyspace", put.text());
        }
        for token in [&admin, &shop, &new] {
            eventually("there are keys", || {
                call(server, token, "GET", "/get-key", "").status == 200
            });
            let wrong = mistyped(token);
            for (method, path) in [
                ("GET", "/get-key"),
                ("POST", "/v1/spaces/noted/keys"),
                ("POST", "/v1/spaces/default/keys?count=2"),
                ("GET", "/v1/spaces"),
                ("GET", "/v1/tokens"),
                ("GET", "/v1/tokens/shop"),
                ("GET", "/v1/acts"),
                ("GET", "/v1/spaces/noted/used"),
                ("GET", "/v1/instances"),
                ("GET", "/metrics"),
                ("GET", "/readyz"),
                ("GET", "/nowhere"),
                ("DELETE", "/v1/tokens/nope"),
            ] {
                let mut client = Client::new(server.address());
                for (name, value) in [
                    ("Authorization", format!("Bearer {token}")),
                    ("Authorization", format!("Bearer {wrong}")),
                    ("Authorization", format!("Bearer {}", &token[..40])),
                    ("Authorization", format!("Basic {token}")),
                    ("Authorization", token.clone()),
                    ("X-Api-Key", token.clone()),
                    ("Cookie", format!("token={token}")),
                ] {
                    let answer = client.request(method, path, &[(name, &value)], b"").unwrap();
                    self.keep(&format!("{method} {path} {name}"), answer.text());
                }
                let with = if path.contains('?') { '&' } else { '?' };
                let answer = call(server, token, method, &format!("{path}{with}token={token}"), "");
                self.keep(&format!("{method} {path} in the query"), answer.text());
            }
            for value in [format!("Bearer {token}"), format!("Bearer {wrong}")] {
                let answer = over_http2(server.address(), "authorization", &value);
                self.keep("HTTP/2", &answer);
            }
        }
        self.sign_in(server, &admin);
        self.sign_in(server, &new);
        let revoked = call(server, &admin, "DELETE", "/v1/tokens/shop", "");
        assert_eq!(revoked.status, 204, "{}", revoked.text());
        let refused = call(server, &new, "GET", "/get-key", "");
        assert_eq!(refused.status, 401, "{}", refused.text());
        self.keep("a revoked one", refused.text());
    }

    /// As a page does; its session is a secret, too.
    fn sign_in(&mut self, server: &Server, token: &str) {
        let mut client = Client::new(server.address());
        let headers = [("Content-Type", "application/json"), ("Sec-Fetch-Site", "same-origin")];
        for wrong in [mistyped(token), token[..40].to_owned()] {
            let body = format!(r#"{{"token":"{wrong}"}}"#);
            let answer = client.request("POST", "/v1/session", &headers, body.as_bytes()).unwrap();
            assert_eq!(answer.status, 401, "{}", answer.text());
            self.keep("a wrong sign-in", answer.text());
        }
        let body = format!(r#"{{"token":"{token}"}}"#);
        let answer = client.request("POST", "/v1/session", &headers, body.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.keep("a sign-in", answer.text());
        let set = answer.header("set-cookie").expect("it sets a cookie").to_owned();
        let cookie = set.split(';').next().unwrap().to_owned();
        let (_, session) = cookie.split_once('=').unwrap();
        assert!(session.len() > 100, "{set}");
        self.planted.push(session.to_owned());
        // Whoever has the end of it has its signature.
        self.planted.push(session[session.len() - 64..].to_owned());
        for (method, path) in
            [("GET", "/get-key"), ("GET", "/v1/session"), ("GET", "/v1/acts"), ("GET", "/nowhere")]
        {
            for site in ["same-origin", "cross-site", "none"] {
                let headers = [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", site)];
                let answer = client.request(method, path, &headers, b"").unwrap();
                self.keep(&format!("{method} {path} by session"), answer.text());
            }
        }
        self.keep("HTTP/2", &over_http2(server.address(), "cookie", &cookie));
    }

    /// At the command line, with the right settings and with wrong ones.
    fn run_commands(&mut self, store: &str) {
        let right = [
            ("KEYMILL_STORE", store.to_owned()),
            ("KEYMILL_SECRET", SECRET.to_owned()),
            ("KEYMILL_ADMIN_TOKEN", self.admin.clone()),
        ];
        let commands: [&[&str]; 9] = [
            &["token", "list"],
            &["token", "list", "--json"],
            &["token", "show", "shop"],
            &["config", "show"],
            &["config", "check"],
            &["space", "list"],
            &["store", "check"],
            &["explain", "default", "0000000"],
            &["take"],
        ];
        for command in commands {
            self.run(command, &right);
        }
        let unreachable =
            |scheme: &str, user: &str| format!("{scheme}://{user}:{PASSWORD}@127.0.0.1:1/keymill");
        for (name, value) in [
            ("KEYMILL_SECRET", OTHER_SECRET.to_owned()),
            ("KEYMILL_SECRET", SHORT_SECRET.to_owned()),
            ("KEYMILL_ADMIN_TOKEN", mistyped(&self.admin)),
            ("KEYMILL_STORE", unreachable("postgres", "keymill")),
            ("KEYMILL_STORE", unreachable("mysql", "keymill")),
            ("KEYMILL_STORE", unreachable("redis", "")),
            ("KEYMILL_STORE", unreachable("etcd", "keymill")),
            ("KEYMILL_STORE", unreachable("postgress", "keymill")),
            ("KEYMILL_STORE", format!("postgres://keymill:{PASSWORD}@host:port/keymill")),
            ("KEYMILL_STORE", format!("postgres://keymill:{PASSWORD}@/?nonsense=1")),
            ("KEYMILL_STORE", format!("postgres://host/keymill?password={PASSWORD}&nonsense=1")),
            ("KEYMILL_STORE", format!("keymill:{PASSWORD}@host")),
        ] {
            let mut wrong = right.clone();
            for (known, old) in &mut wrong {
                if *known == name {
                    old.clone_from(&value);
                }
            }
            let commands: [&[&str]; 2] = [&["config", "show"], &["take"]];
            for command in commands {
                self.run(command, &wrong);
            }
        }
        for settings in [
            format!("store = postgres://keymill:{PASSWORD}@host/keymill\n"),
            format!("store = [\"postgres://keymill:{PASSWORD}@host/keymill\"]\n"),
            format!("stroe = \"postgres://keymill:{PASSWORD}@host/keymill\"\n"),
            format!("secret = \"{SECRET}\"\n"),
            format!("[tokens.shop]\nsha256 = {}\nallow = [\"take:x\"]\n", self.admin),
            format!("[tokens.shop]\nsha256 = \"{}\"\nallow = [\"take:x\"]\n", self.admin),
            format!("[tokens.shop]\ntoken = \"{}\"\nallow = [\"take:x\"]\n", self.admin),
            format!("admin_token = \"{}\"\n", self.admin),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("keymill.toml"), settings).unwrap();
            for command in [["config", "check"], ["space", "list"]] {
                self.run_in(folder.path(), &command, &[]);
            }
        }
    }

    fn run(&mut self, args: &[&str], variables: &[(&str, String)]) {
        self.run_in(self.folder, args, variables);
    }

    /// Runs a command, whatever becomes of it.
    fn run_in(&mut self, folder: &Path, args: &[&str], variables: &[(&str, String)]) {
        let output = Command::new(binary("keymill"))
            .args(args)
            .arg("--data-dir")
            .arg(folder.join("d1"))
            .current_dir(folder)
            .env("KEYMILL_LOG_LEVEL", "trace")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        for said in [output.stdout, output.stderr] {
            self.keep(&args.join(" "), &String::from_utf8_lossy(&said));
        }
    }

    /// The log, the data directories, and the database where it is a file.
    fn look_at_files(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                self.look_at_files(&entry.path());
            } else {
                let text = fs::read(entry.path()).unwrap();
                let name = entry.path().display().to_string();
                self.written.push((name, String::from_utf8_lossy(&text).into_owned()));
            }
        }
    }

    fn keep(&mut self, from: &str, text: &str) {
        self.written.push((from.to_owned(), text.to_owned()));
    }

    /// Looks for everything in everything.
    fn check(&self) {
        let log = self.written.iter().find(|(from, _)| from.ends_with("d0.log"));
        let log = &log.expect("the server has written a log").1;
        assert!(log.contains("TRACE") && log.contains("path=\"/get-key\""), "{log}");
        assert!(self.planted.len() >= 10 && self.written.len() > 100, "{:?}", self.planted);
        for planted in &self.planted {
            for spelling in spellings(planted) {
                for (from, text) in &self.written {
                    assert!(!text.contains(&spelling), "{spelling} is in {from}:\n{text}");
                }
            }
        }
    }
}

/// A token with a typing mistake.
fn mistyped(token: &str) -> String {
    let (start, last) = token.split_at(token.len() - 1);
    format!("{start}{}", if last == "0" { "1" } else { "0" })
}

/// A text as it is, in hexadecimal, and as a list of bytes, as `Debug` writes one.
fn spellings(text: &str) -> [String; 3] {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let list: Vec<String> = text.bytes().map(|byte| byte.to_string()).collect();
    [text.to_owned(), hex, list.join(", ")]
}

/// `GET /get-key` over HTTP/2, whose library writes a log of its own; what was answered.
fn over_http2(address: SocketAddr, header: &str, value: &str) -> String {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/get-key"),
        (":authority", "localhost"),
        (header, value),
    ] {
        // A literal that nobody has to remember.
        block.push(0);
        for text in [name, value] {
            // From 127 on, what is beyond that follows.
            let len = u8::try_from(text.len()).ok().filter(|len| *len < 255).unwrap();
            block.push(len.min(127));
            block.extend(len.checked_sub(127));
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut connection = Http2::connect(address);
    connection.request(1, &block);
    let mut answer = Vec::new();
    loop {
        let (kind, _, payload) = connection.read_frame().expect("there is an answer");
        answer.extend_from_slice(&payload);
        // The body of the answer.
        if kind == 0 {
            return String::from_utf8_lossy(&answer).into_owned();
        }
    }
}
