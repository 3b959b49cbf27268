//! The greeting of a server.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::Place;

#[test]
fn the_greeting_describes_keyspaces_of_every_kind() {
    let place = Place::new();
    place.ok(&["space", "create", "events", "--kind", "uuid"]);
    place.ok(&["space", "create", "ids", "--kind", "snowflake"]);
    place.ok(&["space", "create", "tickets", "--kind", "sequential", "--length", "0"]);
    place.ok(&["space", "create", "urls", "--kind", "digest"]);
    let mut serve = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut server = serve.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let lines = lines.map_while(Result::ok);
    // The last line of the greeting is an example of a call.
    let greeting: Vec<String> = lines.take_while(|line| !line.contains("curl ")).collect();
    server.kill().unwrap();
    server.wait().unwrap();
    let greeting: String = greeting.iter().map(|line| format!("{line}\n")).collect();
    for line in [
        "  keyspace   default: shuffled base62×7, 0 of 3,521,614,606,208 keys leased\n",
        "  keyspace   events: uuid version 7\n",
        "  keyspace   ids: snowflake decimal integers, layout 41/10/12\n",
        "  keyspace   tickets: sequential decimal integers, 0 of 9,223,372,036,854,775,807 keys leased\n",
        "  keyspace   urls: digest base62×7\n",
    ] {
        assert!(greeting.contains(line), "`{line}` is not in\n{greeting}");
    }
}
