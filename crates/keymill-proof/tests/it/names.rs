//! Aliases that equal future keys, put through one instance while others hand keys out, to the end
//! of a small space: a key is an alias or handed out, never both.

use keymill_proof::backend::Kind;
use keymill_proof::{Caller, Client, Deployment, Fleet, Load};

use super::put;

const KEYS: usize = 10_000;

#[test]
fn an_alias_is_never_handed_out_on_sqlite() {
    check(&Deployment::sqlite());
}

#[test]
fn an_alias_is_never_handed_out_on_postgres() {
    if let Some(deployment) = Deployment::on_server(Kind::Postgres) {
        check(&deployment);
    }
}

fn check(deployment: &Deployment) {
    let fleet = Fleet::start(["d0", "d1", "d2"].map(|name| deployment.server(name)));
    put(
        &fleet.hold(0),
        "tickets",
        r#"{"kind":"sequential","alphabet":"decimal","length":4,"lease_size_min":5,"lease_size_max":20}"#,
    );
    // Another may have the last lease for the moment, which is 503.
    let caller = |server| {
        let caller = Caller::http("tickets").of(server).takes(7);
        caller.until(|taken| taken.is_refused("409"))
    };
    let (mut aliases, mut refused) = (Vec::new(), 0);
    let received = Load::of([1, 2].map(caller)).run(&fleet, |run| {
        let mut client = Client::new(fleet.hold(0).address());
        for turn in (0..KEYS).take_while(|_| run.is_at_work()) {
            // All over the space, more and more of them granted already.
            let alias = format!("{:04}", turn * 7919 % KEYS);
            let path = format!("/v1/spaces/tickets/aliases/{alias}");
            let answer = client.request("PUT", &path, &[], b"").unwrap();
            match answer.status {
                201 => aliases.push(alias),
                409 => refused += 1,
                503 => {}
                _ => panic!("{}", answer.text()),
            }
        }
        run.wait_for_callers();
    });
    received.check_unique("keys");
    received.check_answered(&["409", "503"]);
    let both: Vec<&String> = aliases.iter().filter(|alias| received.contains(alias)).collect();
    assert!(both.is_empty(), "aliases that were handed out: {both:?}");
    println!("{} aliases, {refused} refused", aliases.len());
    assert!(!aliases.is_empty() && refused > 0, "there was no race");
}
