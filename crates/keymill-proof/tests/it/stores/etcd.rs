//! etcd with three members: it bears the loss of one, and says when it has lost two.

use keymill_proof::Server;
use keymill_proof::backend::{Backend, Etcd, skip};

use super::super::{Received, eventually, get, is_problem, put, take};
use super::{has_problem, is_ready, watchful};

#[test]
fn three_members_bear_the_loss_of_one_and_say_when_it_is_two() {
    let mut etcd = match Etcd::start(3) {
        Ok(etcd) => etcd,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let start = |number| Server::start(&watchful(&etcd.url(), folder.path(), number));
    let servers = ["d0", "d1", "d2"].map(start);
    put(&servers[0], "small", r#"{"lease_size_min": 50, "lease_size_max": 50}"#);
    put(&servers[0], "large", r#"{"lease_size_min": 100000}"#);
    let mut received = Received::default();
    for server in &servers {
        received.add(&take(server, "large", 1));
    }
    // Leases all the time.
    let work = |received: &mut Received| {
        for turn in 0..60 {
            let server = &servers[turn % 3];
            eventually("keys come", || {
                let answer = take(server, "small", 25);
                answer.status == 200 && received.add(&answer) == 25
            });
        }
    };
    work(&mut received);

    let follower = (etcd.leader() + 1) % 3;
    etcd.members[follower].kill();
    work(&mut received);
    etcd.members[follower].start();
    etcd.members[follower].await_healthy();

    let leader = etcd.leader();
    etcd.members[leader].kill();
    work(&mut received);
    etcd.members[leader].start();
    etcd.members[leader].await_healthy();
    work(&mut received);

    let leader = etcd.leader();
    etcd.members[leader].kill();
    etcd.members[(leader + 1) % 3].kill();
    for server in &servers {
        eventually("it says that there is no majority", || {
            has_problem(server, "store_unavailable")
        });
        is_problem(&received.drain(server.address(), "small", 5), 503, "dry");
        for _ in 0..20 {
            received.add(&take(server, "large", 500));
        }
    }
    let granted = get(&servers[0], "/v1/spaces/small");
    assert_eq!(granted.status, 503, "{}", granted.text());
    etcd.members[leader].start();
    etcd.members[(leader + 1) % 3].start();
    etcd.members.iter().for_each(keymill_proof::backend::Member::await_healthy);
    work(&mut received);
    for server in &servers {
        eventually("all is well again", || is_ready(server));
    }
    println!("{} keys, none twice", received.keys.len());
}
