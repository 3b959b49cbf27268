//! The store away for longer than a window: IDs go on as long as the window lasts, then callers are
//! refused, and all is well by itself once the store is back.

use keymill_proof::Deployment;
use keymill_proof::backend::{Kind, unless_missing};
use keymill_proof::proxy::{Fault, Proxy};

use super::super::{eventually, has_problem, is_problem, is_well};
use super::{Layout, gives, instance, make, refusal};

const LAYOUT: Layout = Layout { worker_bits: 1 };
const WINDOW_SECONDS: u64 = 3;

#[test]
fn ids_go_on_within_the_window_while_postgres_is_away() {
    check_killed(Kind::Postgres);
}

#[test]
fn ids_go_on_within_the_window_while_redis_is_away() {
    check_killed(Kind::Redis);
}

#[test]
fn ids_go_on_within_the_window_while_postgres_does_not_answer() {
    let Some(backend) = unless_missing(Kind::Postgres.start()) else { return };
    let (proxy, through) = Proxy::before(&backend.url());
    let set = |away| proxy.set(if away { Fault::Stall } else { Fault::None });
    check("PostgreSQL, stalled", &Deployment::on(through), set);
}

fn check_killed(kind: Kind) {
    let Some(mut backend) = unless_missing(kind.start()) else { return };
    let deployment = Deployment::on(backend.url());
    let set = |away| if away { backend.kill() } else { backend.start() };
    check(&format!("{kind:?}, killed"), &deployment, set);
}

fn check(name: &str, deployment: &Deployment, mut set_away: impl FnMut(bool)) {
    let servers = ["d0", "d1"].map(|data_dir| instance(deployment, data_dir).start());
    make(&servers[0], LAYOUT, WINDOW_SECONDS);
    let mut received = LAYOUT.received();
    // Twice: the second time with windows that were got after the first.
    for _ in 0..2 {
        for server in &servers {
            eventually("it has a window", || gives(&mut received, server, 10));
            eventually("all is well", || is_well(server));
        }
        set_away(true);
        let before = received.acknowledged;
        for server in &servers {
            assert!(gives(&mut received, server, 10), "its window is not over yet");
        }
        for server in &servers {
            let refusal = refusal(&mut received, server);
            is_problem(&refusal, 503, "no_keys_ready");
            assert!(refusal.header("retry-after").is_some(), "{}", refusal.text());
            eventually("it says so", || has_problem(server, "store_unavailable"));
        }
        let within = received.acknowledged - before;
        println!("{name}: {within} takes gave IDs while it was away");
        assert!(within >= 20, "{within} takes are no window");
        set_away(false);
    }
    for server in &servers {
        eventually("IDs come again", || gives(&mut received, server, 10));
        eventually("all is well again", || is_well(server));
    }
    received.check(name);
}
