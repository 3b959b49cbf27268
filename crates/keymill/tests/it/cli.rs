//! The command line, as a person or a script meets it.

use std::path::Path;
use std::process::{Command, Output};

pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keymill"));
        command.args(args).current_dir(self.path()).env_clear();
        command.env("XDG_DATA_HOME", self.path()).env("HOME", self.path());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns what it wrote to standard output.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail with this code and say this.
    #[track_caller]
    pub(crate) fn fails(&self, args: &[&str], code: i32, says: &str) {
        failed(&self.run(args), code, says);
    }
}

#[track_caller]
fn failed(output: &Output, code: i32, says: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(says), "`{said}` does not say `{says}`");
    assert!(!said.contains("panicked"), "{said}");
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn take_works_with_no_server_and_no_set_up() {
    let place = Place::new();
    let key = place.ok(&["take"]);
    assert_eq!(key.trim_end().len(), 7);
    assert!(place.path().join("keymill/keymill.db").exists());
    let mut keys: Vec<String> =
        place.ok(&["take", "-n", "5000"]).lines().map(str::to_owned).collect();
    keys.push(key.trim_end().to_owned());
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 5_001);
}

#[test]
fn take_leases_exactly_what_it_prints() {
    let place = Place::new();
    place.ok(&[
        "space",
        "create",
        "t",
        "--kind",
        "sequential",
        "--alphabet",
        "decimal",
        "--length",
        "0",
    ]);
    assert_eq!(place.ok(&["take", "t", "-n", "3"]), "0\n1\n2\n");
    assert_eq!(place.ok(&["take", "t"]), "3\n");
    let shown = place.ok(&["space", "show", "t", "--json"]);
    assert!(shown.contains("\"leased\": 4"), "{shown}");
}

#[test]
fn a_space_that_ends_says_so_and_exits_with_4() {
    let place = Place::new();
    place.ok(&[
        "space",
        "create",
        "t",
        "--kind",
        "sequential",
        "--alphabet",
        "decimal",
        "--length",
        "1",
    ]);
    let output = place.run(&["take", "t", "-n", "12"]);
    failed(&output, 4, "ended after 10 of 12 keys");
    assert_eq!(output.stdout, b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    place.fails(&["take", "t"], 4, "used up");
}

#[test]
fn explain_names_the_lease_and_its_holder() {
    let place = Place::new();
    let key = place.ok(&["take"]).trim_end().to_owned();
    let told = place.ok(&["explain", "default", &key]);
    assert!(told.contains("issued") && told.contains("ordinal    0"), "{told}");
    let json = place.ok(&["explain", "default", &key, "--json"]);
    assert!(json.contains("\"state\": \"issued\""), "{json}");
    let output = place.run(&["explain", "default", "-bad-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("invalid"));
}

#[test]
fn spaces_are_made_listed_shown_advanced_and_sealed() {
    let place = Place::new();
    let orders =
        ["--alphabet", "base32", "--length", "8", "--prefix", "ord_", "--group", "4", "--check"];
    place.ok(&[&["space", "create", "orders"][..], &orders].concat());
    place.ok(&[&["space", "create", "orders"][..], &orders].concat());
    place.fails(&["space", "create", "orders"], 1, "length is `8` in the store, `7` here");
    assert!(place.ok(&["space", "list"]).contains("orders"));
    assert!(
        place
            .ok(&["space", "show", "orders"])
            .contains("base32×8, prefix ord_, groups of 4, check character")
    );
    place.ok(&["take", "orders"]);
    place.ok(&["space", "advance", "orders", "--to", "1000"]);
    let key = place.ok(&["take", "orders"]);
    let told = place.ok(&["explain", "orders", key.trim_end()]);
    assert!(told.contains("ordinal    1000"), "{told}");
    place.fails(&["space", "advance", "orders", "--to", "9999999999999"], 1, "only 1099511627776");
    place.fails(&["space", "seal", "orders"], 1, "--yes");
    place.ok(&["space", "seal", "orders", "--yes"]);
    place.fails(&["take", "orders"], 4, "sealed");
    place.fails(&["space", "show", "nope"], 1, "no keyspace `nope`");
    place.fails(&["take", "nope"], 1, "keymill space create nope");
}

#[test]
fn the_secret_can_be_moved_out_and_a_wrong_one_is_refused() {
    let place = Place::new();
    place.ok(&["take"]);
    place.ok(&["secret", "export", "secret.txt", "--forget"]);
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(place.path().join("secret.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    place.fails(&["secret", "export", "again.txt"], 1, "keeps no secret");
    let with =
        |name: &str, value: &str| place.command(&["take"]).env(name, value).output().unwrap();
    assert!(with("KEYMILL_SECRET_FILE", "secret.txt").status.success());
    failed(&with("KEYMILL_SECRET", &"x".repeat(32)), 1, "not the one that the keyspace `default`");
    failed(&with("KEYMILL_SECRET", "short"), 1, "at least 32 characters");
    // Without any, a new one would be made up, and that would not be the right one.
    place.fails(&["take"], 1, "keeps no secret");
}

#[test]
fn settings_come_from_flags_variables_and_the_file() {
    let place = Place::new();
    std::fs::write(place.path().join("keymill.toml"), "default_space = \"links\"\n").unwrap();
    assert!(place.ok(&["config", "show"]).contains("default_space = \"links\""));
    let defaults = place.ok(&["config", "show", "--default"]);
    assert!(defaults.contains("# Where to listen."));
    place.ok(&["config", "check"]);
    std::fs::write(place.path().join("bad.toml"), "lisen = \"x\"\n").unwrap();
    place.fails(&["config", "check", "--config", "bad.toml"], 1, "did you mean `listen`?");
    place.fails(&["serve", "--config", "bad.toml"], 1, "bad.toml");
    std::fs::write(place.path().join("bad.toml"), "[spaces.a]\nalphabet = \"aa\"\n").unwrap();
    place.fails(&["config", "check", "--config", "bad.toml"], 1, "[spaces.a]");
    place.fails(&["take", "--config", "missing.toml"], 1, "missing.toml");
    place.fails(&["serve", "--listen", "nowhere"], 1, "127.0.0.1:8080");
    place.fails(&["take", "-n", "0"], 2, "1 or more");
    place.fails(&["take", "-n", "-1"], 2, "1 or more");
    place.fails(&["take", "-n", "abc"], 2, "1 or more");
    for (text, says) in [
        ("[log]\nlevel = \"loud\"", "log.level is `loud`"),
        ("[spaces.a]\nlength = 1", "[spaces.a]"),
        ("store = \"oracle://x\"", "`oracle`"),
        ("[limits]\nwait_seconds = 0", "limits.wait_seconds"),
    ] {
        std::fs::write(place.path().join("bad.toml"), text).unwrap();
        place.fails(&["config", "check", "--config", "bad.toml"], 1, says);
    }
    place.fails(&["frobnicate"], 2, "frobnicate");
}

#[test]
fn a_store_is_checked_setting_by_setting() {
    let place = Place::new();
    let told = place.ok(&["store", "check"]);
    for setting in ["journal_mode", "synchronous", "filesystem"] {
        assert!(told.contains(setting), "{told}");
    }
    assert!(place.ok(&["store", "check", "--json"]).contains("\"verdict\": \"safe\""));
}

#[test]
fn databases_that_cannot_be_used_are_named() {
    let place = Place::new();
    let take = |url: &str, says: &str| place.fails(&["take", "--store", url], 1, says);
    std::fs::write(
        place.path().join("text.db"),
        "this is not a database, but long enough for one".repeat(99),
    )
    .unwrap();
    take("sqlite:text.db", "is not a SQLite database");
    take("sqlite:", "needs a path");
    take("sqlite:no/such/folder/k.db", "no/such/folder");
    take("oracle://x", "`oracle`");
    let other = rusqlite::Connection::open(place.path().join("other.db")).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    take("sqlite:other.db", "another program's database");
    let mode: String = other.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete", "it was not touched");
    std::fs::write(place.path().join("file"), "").unwrap();
    place.fails(&["take", "--data-dir", "file/below"], 1, "cannot make the data directory");
}

#[test]
fn a_corrupt_database_is_told_from_an_empty_one() {
    let place = Place::new();
    place.ok(&["take", "--store", "sqlite:k.db"]);
    let path = place.path().join("k.db");
    // Fold the log into the file, then spoil the pages behind the header.
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "journal_mode", "delete").unwrap();
    drop(db);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4_096..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    place.fails(&["take", "--store", "sqlite:k.db"], 1, "corrupt");
}

#[test]
fn a_data_directory_belongs_to_one_store() {
    let place = Place::new();
    place.ok(&["take"]);
    place.fails(&["take", "--store", "sqlite:second.db"], 1, "--data-dir");
    place.ok(&["take", "--store", "sqlite:second.db", "--data-dir", "second"]);
    // The database is lost, and a new one would repeat what the old one handed out.
    for file in ["keymill.db", "keymill.db-wal", "keymill.db-shm", "keymill.db-floors.json"] {
        let _ = std::fs::remove_file(place.path().join("keymill").join(file));
    }
    place.fails(&["take"], 1, "knows the store");
}

#[test]
fn a_port_in_use_is_named() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    place.fails(&["serve", "--listen", &address], 1, &format!("cannot listen on {address}"));
}

#[test]
fn require_existing_creates_nothing() {
    let place = Place::new();
    place.fails(&["serve", "--listen", "127.0.0.1:0", "--require-existing"], 1, "does not exist");
    assert!(!place.path().join("keymill/keymill.db").exists());
}

#[test]
fn what_holds_the_secret_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.ok(&["take"]);
    let mode = |path: &str| {
        let path = place.path().join(path);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("keymill"), mode("keymill/keymill.db")), (0o700, 0o600));
}

#[test]
fn take_ends_when_nobody_reads_any_more() {
    let place = Place::new();
    let mut child = place
        .command(&["take", "-n", "1000000000"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    let shown = place.ok(&["space", "show", "default", "--json"]);
    assert!(shown.contains("\"leased\": 100000,"), "one lease and no more: {shown}");
}

#[test]
fn a_command_that_has_ended_leaves_one_whole_file() {
    let place = Place::new();
    place.ok(&["take"]);
    place.ok(&["space", "list"]);
    assert!(!place.path().join("keymill/keymill.db-wal").exists(), "the log was not folded in");
}

#[test]
fn a_command_that_has_ended_is_no_living_instance() {
    let place = Place::new();
    place.ok(&["take"]);
    let db = rusqlite::Connection::open(place.path().join("keymill/keymill.db")).unwrap();
    let living = "SELECT count(*) FROM instances WHERE stopped_at IS NULL";
    assert_eq!(db.query_row(living, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn completions_are_written_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.ok(&["completions", shell]).contains("keymill"));
    }
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{help}");
    for command in ["take", "serve", "explain", "completions"] {
        assert!(place.ok(&[command, "--help"]).contains("Example"), "{command}");
    }
}

#[test]
fn keys_in_use_are_imported_line_by_line_and_never_handed_out() {
    let place = Place::new();
    let space = ["space", "create", "old", "--kind", "sequential", "--alphabet", "decimal"];
    place.ok(&[&space[..], &["--length", "2"]].concat());
    let lines = b"03\n5\n\n07\r\n\xff\nx1\n03\n123\n09";
    std::fs::write(place.path().join("used.txt"), lines).unwrap();
    let output = place.run(&["space", "import-used", "old", "used.txt"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for line in [
        "line 2:",
        "line 3: it is empty",
        "line 5: it is not UTF-8",
        "line 6:",
        "line 7: it repeats line 1",
    ] {
        assert!(said.contains(line), "{line} is not in {said}");
    }
    assert!(said.contains("4 keys imported, 0 were there already, 5 refused"), "{said}");
    let keys = place.ok(&["take", "old", "-n", "97"]);
    let keys: Vec<&str> = keys.lines().collect();
    assert_eq!(keys.len(), 97);
    assert!(["03", "07", "09"].iter().all(|used| !keys.contains(used)), "{keys:?}");
    place.fails(&["take", "old"], 4, "used up");
    assert!(place.ok(&["explain", "old", "07"]).contains("imported"));
}

#[test]
fn an_alias_is_added_and_removed() {
    let place = Place::new();
    place.ok(&["take"]);
    assert_eq!(place.ok(&["alias", "add", "default", "sale", "--owner", "me"]), "sale\n");
    place.ok(&["alias", "add", "default", "sale", "--owner", "me"]);
    place.fails(&["alias", "add", "default", "sale"], 6, "taken");
    place.fails(&["alias", "add", "default", "api"], 1, "reserved");
    assert!(place.ok(&["explain", "default", "sale"]).contains("alias of me"));
    place.ok(&["alias", "remove", "default", "sale", "--owner", "me"]);
    place.fails(&["alias", "remove", "default", "sale", "--owner", "me"], 1, "no alias");
}

#[test]
fn a_keyspace_grows_and_takes_move_on_at_the_seam() {
    let place = Place::new();
    let create =
        ["space", "create", "t", "--kind", "sequential", "--alphabet", "decimal", "--length", "1"];
    place.ok(&create);
    assert_eq!(place.ok(&["take", "t", "-n", "4"]), "0\n1\n2\n3\n");
    // Both will be keys: one of the generation that is there, one of the next.
    place.ok(&["alias", "add", "t", "6"]);
    place.ok(&["alias", "add", "t", "01"]);
    let output = place.run(&["space", "grow", "t", "--length", "2"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let expected = "110 keys instead of 10; from ordinal 10 on their length is 2";
    assert!(said.contains(expected), "{said}");
    assert_eq!(place.ok(&["take", "t", "-n", "7"]), "4\n5\n7\n8\n9\n00\n02\n");
    // Old keys and new ones explain themselves.
    for (key, ordinal, number) in [("3", 3, 3), ("02", 12, 2)] {
        let told = place.ok(&["explain", "t", key]);
        assert!(told.contains("issued"), "{told}");
        assert!(told.contains(&format!("ordinal    {ordinal}\n")), "{told}");
        assert!(told.contains(&format!("number     {number}\n")), "{told}");
    }
    assert!(place.ok(&["explain", "t", "01"]).contains("alias"));
    let shown = place.ok(&["space", "show", "t"]);
    assert!(shown.contains("decimal×1, then ×2") && shown.contains("110"), "{shown}");
    let shown = place.ok(&["space", "show", "t", "--json"]);
    assert!(shown.contains("\"grown\": [\n    2\n  ]"), "{shown}");
    // The definition that it was made with is still its own.
    place.ok(&create);
    let keys = place.run(&["take", "t", "-n", "200"]);
    failed(&keys, 4, "ended after 97 of 200 keys");
    assert!(keys.stdout.starts_with(b"03\n04\n") && keys.stdout.ends_with(b"98\n99\n"));
    place.fails(&["take", "t"], 4, "used up");
}

#[test]
fn growth_that_cannot_be_is_refused_with_the_reason() {
    let place = Place::new();
    place.ok(&["space", "create", "links"]);
    place.ok(&["space", "create", "long", "--length", "12"]);
    let integers = ["--kind", "sequential", "--alphabet", "decimal", "--length", "0"];
    place.ok(&[&["space", "create", "tickets"][..], &integers].concat());
    let refused = |name: &str, length: &str, code: i32, says: &str| {
        place.fails(&["space", "grow", name, "--length", length], code, says);
    };
    refused("links", "7", 1, "must be above 7, not 7");
    refused("links", "3", 1, "must be above 7, not 3");
    refused("links", "0", 1, "must be above 7, not 0");
    refused("links", "21", 1, "at most 20");
    refused("links", "300", 2, "300");
    refused("long", "13", 1, "as many keys as can be counted");
    refused("tickets", "5", 1, "no length to grow");
    refused("nope", "8", 1, "no keyspace `nope`");
    place.fails(&["space", "grow", "links"], 2, "--length");
    place.ok(&["space", "grow", "links", "--length", "8"]);
    refused("links", "8", 1, "must be above 8, not 8");
    assert!(place.ok(&["space", "grow", "--help"]).contains("Example"));
    place.ok(&["space", "seal", "links", "--yes"]);
    refused("links", "9", 4, "sealed");
}

#[test]
fn a_growth_that_a_restore_lost_is_made_again_by_the_advance() {
    let place = Place::new();
    place.ok(&[
        "space",
        "create",
        "t",
        "--kind",
        "sequential",
        "--alphabet",
        "decimal",
        "--length",
        "1",
    ]);
    let mut keys: Vec<String> =
        place.ok(&["take", "t", "-n", "4"]).lines().map(str::to_owned).collect();
    let database = place.path().join("keymill/keymill.db");
    std::fs::copy(&database, place.path().join("backup")).unwrap();
    place.ok(&["space", "grow", "t", "--length", "3"]);
    keys.extend(place.ok(&["take", "t", "-n", "300"]).lines().map(str::to_owned));
    std::fs::rename(place.path().join("backup"), &database).unwrap();
    place.fails(&["take", "t"], 5, "space advance t");
    // In its place would come another one, and the same keys again behind it.
    place.fails(&["space", "grow", "t", "--length", "2"], 5, "went back");
    place.ok(&["space", "advance", "t"]);
    assert!(place.ok(&["space", "show", "t"]).contains("then ×3"));
    let rest = place.ok(&["take", "t", "-n", "700"]);
    keys.extend(rest.lines().map(str::to_owned));
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count, "a key came twice");
}

#[test]
fn an_alias_that_another_region_will_have_is_refused() {
    let place = Place::new();
    let secret = "one secret of both regions, long enough for it";
    let run = |args: &[&str]| place.command(args).env("KEYMILL_SECRET", secret).output().unwrap();
    let create = ["space", "create", "odd", "--kind", "sequential", "--alphabet", "decimal"];
    let rest = ["--length", "2", "--step", "2", "--offset", "1"];
    assert!(run(&[&create[..], &rest].concat()).status.success());
    failed(&run(&["alias", "add", "odd", "42"]), 1, "another region");
    assert!(run(&["alias", "add", "odd", "43"]).status.success());
    // Once it grows.
    failed(&run(&["alias", "add", "odd", "442"]), 1, "another region");
    assert!(run(&["alias", "add", "odd", "443"]).status.success());
    assert!(run(&["space", "grow", "odd", "--length", "3"]).status.success());
    let keys = run(&["take", "odd", "-n", "600"]);
    let keys = String::from_utf8(keys.stdout).unwrap();
    assert_eq!(keys.lines().count(), 548, "all of both lengths but for two");
    assert!(!keys.lines().any(|key| key == "43" || key == "443"));
}

#[test]
fn the_keys_between_two_times_are_those_of_their_leases() {
    let place = Place::new();
    place.ok(&[
        "space",
        "create",
        "t",
        "--kind",
        "sequential",
        "--alphabet",
        "decimal",
        "--length",
        "4",
    ]);
    place.ok(&["take", "t", "-n", "5"]);
    let bounds = ["space", "bounds", "t", "--from", "2020-01-01T00:00:00Z", "--to"];
    place.fails(&[&bounds[..], &["2021-01-01T00:00:00Z"]].concat(), 1, "no key");
    let now = [&bounds[..], &["2900-01-01T00:00:00Z"]].concat();
    assert_eq!(place.ok(&now), "first  0000\nlast   0004\n");
    place.ok(&["take", "t", "-n", "7"]);
    assert!(place.ok(&[&now[..], &["--json"]].concat()).contains("\"last\": \"0011\""));
    place.ok(&["take"]);
    let other = ["space", "bounds", "default", "--from", "2020-01-01T00:00:00Z", "--to"];
    place.fails(&[&other[..], &["2900-01-01T00:00:00Z"]].concat(), 1, "no order of time");
}
