//! Commands through a server: they say what they say on the store itself, and touch no store of their own.

use std::io::Write;
use std::process::{Output, Stdio};

use super::serve::Server;
use super::{Place, failed, stderr};

/// Commands that change something, each once on a store and once through a server, with keyspaces of their own. Their
/// keys do not depend on the name of the keyspace.
const CHANGES: &[&str] = &[
    "space create SPACE --kind sequential --alphabet decimal --length 6",
    "space create SPACE --kind sequential --alphabet decimal --length 6",
    "space create SPACE --kind sequential --alphabet decimal --length 6 --horizon-seconds 60",
    "space create SPACE --length 7",
    "space create SPACE --length 7 --audit key",
    "space create other-SPACE --alphabet bse62",
    "space create UPPER",
    "space show SPACE",
    "space show SPACE --json",
    "space show nowhere",
    "space set SPACE --audit key",
    "space set SPACE --audit key --json",
    "space set SPACE --low-water 5",
    "space set SPACE --horizon-seconds 0",
    "space set SPACE --lease-size-max 10",
    "space set nowhere --audit key",
    "space grow SPACE --length 7",
    "space grow SPACE --length 7",
    "alias add SPACE 000005 --owner me",
    "alias add SPACE 000005 --owner me",
    "alias add SPACE 000005 --owner you",
    "alias add SPACE no/alias --owner me",
    "alias add SPACE summer --owner me",
    "alias list SPACE",
    "alias list SPACE --json",
    "alias show SPACE summer",
    "alias show SPACE summer --json",
    "alias show SPACE winter",
    "alias remove SPACE summer --owner you",
    "alias remove SPACE summer --owner me",
    "alias remove SPACE summer --owner me",
    "space import-used SPACE keys.txt",
    "space import-used SPACE keys.txt",
    "space import-used SPACE missing.txt",
    "space import-used nowhere empty.txt",
    "explain SPACE 000005",
    "explain SPACE 000010 --json",
    "explain SPACE 400000",
    "explain SPACE no-key",
    "explain 000005 SPACE",
    "explain nowhere 000005",
    "space bounds SPACE --from 1999-01-01T00:00:00Z --to 2000-01-01T00:00:00Z",
    "space bounds SPACE --from 1999-01-01T00:00:00Z --to 2000-01-01T00:00:00Z --json",
    "pool export SPACE",
    "pool fill SPACE --count 5",
    "pool import SPACE keys.txt",
    "audit export SPACE",
    "audit export SPACE --format csv",
    "digest SPACE https://a.example",
    "space advance SPACE",
    "space advance SPACE --to 99999999",
    "space advance SPACE --to 500",
    "space advance SPACE --beyond-keys in-use.txt",
    "space advance SPACE --beyond-keys in-use.txt --yes",
    "space advance SPACE --beyond-keys missing.txt --yes",
    "space advance nowhere --to 5",
    "take SPACE -n 3 --caller shop",
    "take SPACE -n 2 --caller shop --json",
    "take SPACE -n 0",
    "take nowhere",
    "take 5",
    "space seal SPACE",
    "space seal SPACE --yes",
    "space grow SPACE --length 8",
    "space seal nowhere --yes",
    "space create codes-SPACE --kind pooled --alphabet decimal --length 8 --quiet --json",
    "pool fill codes-SPACE --count 100",
    "pool fill codes-SPACE --up-to 150",
    "pool fill codes-SPACE --up-to 100",
    "pool import codes-SPACE keys.txt",
    "space set codes-SPACE --low-water 5",
    "token create SPACE --allow take:links --expires 90d --rate 50/s --json",
    "token create SPACE --allow take:links",
    "token create SPACE! --allow take:links",
    "token create none-SPACE --allow dance:links",
    "token rotate SPACE --overlap 1h --json",
    "token show nobody",
    "token revoke SPACE",
    "token revoke SPACE",
];

/// Commands that only read, or that have the same result each time.
const READS: &[&str] = &[
    "space list",
    "space list --json",
    "space show links",
    "space show links --json",
    "space show ids",
    "space show codes --json",
    "space bounds ids --from 2026-11-16T00:00:00Z --to 2026-11-17T00:00:00Z",
    "space bounds ids --from 2026-11-16T00:00:00Z --to 2026-11-17T00:00:00Z --json",
    "space bounds links --from 2026-11-16T00:00:00Z --to 2026-11-17T00:00:00Z",
    "explain noted 000000",
    "explain noted 000001 --json",
    "explain links summer",
    "alias list links",
    "alias list links --json",
    "alias show links summer --json",
    "audit export noted",
    "audit export noted --format csv",
    "audit export noted --caller nobody",
    "audit export noted --from 2000-01-01T00:00:00Z --to 9999-12-31T23:59:59Z",
    "audit export links",
    "pool export codes",
    "pool export links",
    "digest urls https://a.example",
    "digest urls https://a.example --json",
    "digest urls https://a.example --scope one",
    "digest urls nothing",
    "digest https://a.example urls",
    "digest links https://a.example",
    "space export ended --for 00000000000000aa",
    "space export ended --for 00000000000000bb",
    "space export links --for 00000000000000aa",
    "space import keys.txt",
    "store check",
    "store check --json",
    "store identity",
    "token list",
    "token list --json",
    "token show admin",
    "token show admin --json",
];

#[test]
fn changes_are_told_alike_on_a_store_and_through_a_server() {
    let served = Served::start();
    for (here, there) in served.both(CHANGES, ["aaaa", "bbbb"]) {
        assert_eq!(here, there);
    }
    assert!(!served.client.path().join("keymill").exists(), "a store was made beside the server's");
}

#[test]
fn what_is_read_is_printed_alike_on_a_store_and_through_a_server() {
    let served = Served::start();
    for (here, there) in served.both(READS, ["", ""]) {
        assert_eq!(here, there);
    }
    // Line by line, also behind one that is refused.
    let lines = "https://a.example\n\nhttps://b.example\nnot a URL\nhttps://c.example\n";
    for args in [&["digest", "urls", "-"][..], &["digest", "urls", "-", "--json"]] {
        served.here(args, lines);
        let here = Told::new(args, &served.here(args, lines), "");
        assert_eq!(here, Told::new(args, &served.there(args, lines), ""));
        assert!(here.error.contains("line 4"), "{here:?}");
    }
    let many: String = (0..3_000).map(|number| format!("https://{number}.example\n")).collect();
    let args = ["digest", "urls", "-"];
    let there = served.there(&args, &many);
    assert!(there.status.success(), "{}", stderr(&there));
    assert_eq!(served.here(&args, &many).stdout, there.stdout);
}

#[test]
fn many_keys_come_in_as_many_requests_as_the_server_wants() {
    let place = Place::new();
    place.ok(&["space", "create", "t", "--kind", "sequential", "--length", "0"]);
    let limits = [("KEYMILL_LIMITS_COUNT_MAX", "70")];
    let server = Server::start_with(place, &["--listen", "127.0.0.1:0"], &limits);
    let client = Place::new();
    let url = format!("http://{}", server.address);
    let taken = client.ok(&["--server", &url, "take", "t", "-n", "1000"]);
    let mut numbers: Vec<u32> = taken.lines().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 1_000);
    let json = client.ok(&["take", "t", "-n", "100", "--json", "--server", &url]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["space"], json["keys"].as_array().unwrap().len()), (&"t".into(), 100));
    // Without a name, it is the default keyspace.
    assert_eq!(client.ok(&["take", "--server", &url]).trim().len(), 7);
}

#[test]
fn a_keyspace_moves_from_one_server_to_another() {
    let (from, to) = (Served::start(), Served::start());
    let identity = to.ok_there(&["store", "identity"]);
    from.ok_there(&["space", "create", "moved", "--kind", "sequential", "--length", "0"]);
    from.ok_there(&["alias", "add", "moved", "3", "--owner", "me"]);
    let export = ["space", "export", "moved", "--for", identity.trim()];
    failed(&from.there(&export, ""), 1, "--seal");
    let file = from.ok_there(&[&export[..], &["--seal"]].concat());
    std::fs::write(to.client.path().join("moved"), &file).unwrap();
    std::fs::write(to.client.path().join("cut"), &file[..file.len() / 2]).unwrap();
    failed(&to.there(&["space", "import", "cut"], ""), 1, "");
    failed(&to.there(&["space", "show", "moved"], ""), 1, "there is no keyspace `moved`");
    let imported = to.there(&["space", "import", "moved"], "");
    assert!(imported.status.success(), "{}", stderr(&imported));
    assert!(stderr(&imported).contains("imported `moved` with 1 row"), "{}", stderr(&imported));
    failed(&to.there(&["space", "import", "moved"], ""), 1, "already imported");
    assert_eq!(to.ok_there(&["take", "moved", "-n", "4"]), "0\n1\n2\n4\n");
}

/// A server on a store that has something of everything, and somebody elsewhere with a token.
pub(super) struct Served {
    pub(super) server: Server,
    pub(super) client: Place,
    pub(super) url: String,
    pub(super) token: String,
}

impl Served {
    pub(super) fn start() -> Served {
        let place = Place::new();
        for args in [
            "space create links --lease-size-min 10",
            "alias add links summer --owner marketing",
            "alias add links winter --owner marketing",
            "space create urls --kind digest --normalize url",
            "space create codes --kind pooled",
            "pool fill codes --count 1500",
            "space create ids --kind snowflake",
            "space create noted --kind sequential --length 6 --audit key",
            "take noted -n 3 --caller shop",
            "space create ended --kind sequential --length 6",
            "alias add ended summer --owner marketing",
            "space seal ended --yes",
        ] {
            place.ok(&args.split(' ').collect::<Vec<_>>());
        }
        let token = place.ok(&["token", "create", "admin", "--allow", "admin:*"]);
        let server = Server::start_in(place, &["--listen", "127.0.0.1:0"]);
        let (client, url) = (Place::new(), format!("http://{}", server.address));
        let token = token.trim().to_owned();
        let served = Served { server, client, url, token };
        for place in [&served.server.place, &served.client] {
            for (file, text) in [
                ("keys.txt", "000010\nno key!\n\n000010\n000012\n"),
                ("empty.txt", ""),
                ("in-use.txt", "000700\n000005\nno key!\n000650\n"),
            ] {
                std::fs::write(place.path().join(file), text).unwrap();
            }
        }
        served
    }

    /// What each command says, on the store and through the server, with a name of its own each time.
    fn both<'a>(
        &'a self,
        commands: &'a [&str],
        [here, there]: [&'a str; 2],
    ) -> impl Iterator<Item = (Told, Told)> + 'a {
        commands.iter().map(move |command| {
            let args = |name: &str| command.replace("SPACE", name);
            let split = |args: &str| args.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let run = |name: &str, is_here: bool| {
                let args = split(&args(name));
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let output = if is_here { self.here(&args, "") } else { self.there(&args, "") };
                Told::new(&[command], &output, name)
            };
            (run(here, true), run(there, false))
        })
    }

    fn here(&self, args: &[&str], input: &str) -> Output {
        with_input(self.server.place.command(args), input)
    }

    fn there(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.client.command(args);
        command.env("KEYMILL_SERVER", &self.url).env("KEYMILL_TOKEN", &self.token);
        with_input(command, input)
    }

    #[track_caller]
    pub(super) fn ok_here(&self, args: &[&str]) -> String {
        self.server.place.ok(args)
    }

    #[track_caller]
    fn ok_there(&self, args: &[&str]) -> String {
        let output = self.there(args, "");
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn with_input(mut command: std::process::Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = std::thread::spawn(move || {
        // A command that reads nothing has ended.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    output
}

/// What a command says, without what must differ: times, names, texts of tokens and their hashes, who did it, and
/// what one instance holds in memory.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    command: String,
    code: Option<i32>,
    output: String,
    error: String,
}

impl Told {
    fn new(command: &[&str], output: &Output, name: &str) -> Told {
        let tidy = |text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            let kept = text.lines().filter(|line| !VARYING.iter().any(|it| line.contains(it)));
            let text: Vec<String> = kept.map(without_times).collect();
            let text = text.join("\n");
            if name.is_empty() { text } else { text.replace(name, "SPACE") }
        };
        Told {
            command: command.join(" "),
            code: output.status.code(),
            output: tidy(&output.stdout),
            error: tidy(&output.stderr),
        }
    }
}

const VARYING: [&str; 6] = [
    "\"at_hand\"",
    "\"rate\": 0",
    "\"exhausted_at\"",
    "\"token\"",
    "\"created_by\"",
    "fingerprint",
];

/// A line with `TIME` for each time in it.
fn without_times(line: &str) -> String {
    let is_part = |it: char| it.is_ascii_alphanumeric() || "-:.+".contains(it);
    let (mut text, mut word) = (String::new(), String::new());
    for character in line.chars().chain(['\n']) {
        if is_part(character) {
            word.push(character);
            continue;
        }
        let is_time = word.parse::<jiff::Timestamp>().is_ok();
        text.push_str(if is_time { "TIME" } else { &word });
        word.clear();
        text.push(character);
    }
    text
}
