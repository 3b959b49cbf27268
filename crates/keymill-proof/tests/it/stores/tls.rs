//! Encrypted connections: a server that its authority vouches for is used, any other is not; and
//! users with passwords.

use keymill_proof::Deployment;
use keymill_proof::backend::{
    Backend, Certificates, Etcd, MariaDb, Missing, Mysql, Postgres, Redis, unless_missing,
};

#[test]
fn postgres_proves_who_it_is() {
    check(|certificates| Ok(with_url(Postgres::encrypted(certificates)?)));
}

#[test]
fn mysql_proves_who_it_is() {
    check(|certificates| Ok(with_url(MariaDb::encrypted(certificates)?)));
}

#[test]
fn mysql9_proves_who_it_is() {
    check(|certificates| Ok(with_url(Mysql::encrypted(certificates)?)));
}

#[test]
fn redis_proves_who_it_is() {
    check(Redis::encrypted);
}

#[test]
fn etcd_proves_who_it_is() {
    check(|certificates| Ok(with_url(Etcd::encrypted(certificates)?)));
}

#[test]
fn postgres_takes_the_names_that_its_own_programs_use() {
    let made = Certificates::make().and_then(|it| Ok((Postgres::encrypted(&it)?, it)));
    let Some((server, certificates)) = unless_missing(made) else { return };
    let authority = certificates.authority();
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), authority.display());
    Deployment::on(url).run("d0", &["take"]);
    let preferred = Deployment::on(format!("{}?sslmode=prefer", server.url()));
    let complaint = preferred.run_in_vain("d0", &["take"]);
    assert!(complaint.contains("sslmode=prefer"), "{complaint}");
}

#[test]
fn etcd_wants_the_right_password() {
    let Some(etcd) = unless_missing(Etcd::start(1)) else { return };
    let member = &etcd.members[0];
    member.call("/v3/auth/user/add", r#"{"name":"root","password":"secret"}"#);
    member.call("/v3/auth/role/add", r#"{"name":"root"}"#);
    member.call("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    member.call("/v3/auth/enable", "{}");
    let with =
        |user: &str| Deployment::on(etcd.url().replace("etcd://", &format!("etcd://{user}")));
    with("root:secret@").run("d0", &["take"]);
    for wrong in ["root:wrong@", ""] {
        let complaint = with(wrong).run_in_vain("d0", &["take"]);
        let said = complaint.contains("authentication failed") || complaint.contains("user name");
        assert!(said, "{complaint}");
    }
}

/// With its own authority a server is used; with another it is refused.
fn check<S>(start: impl Fn(&Certificates) -> Result<(S, String), Missing>) {
    let made = || {
        let (right, wrong) = (Certificates::make()?, Certificates::make()?);
        Ok((start(&right)?, right, wrong))
    };
    let Some(((_server, url), right, wrong)) = unless_missing(made()) else { return };
    let with = |certificates: &Certificates| {
        Deployment::on(format!("{url}?tls_ca={}", certificates.authority().display()))
    };
    with(&right).run("d0", &["take", "-n", "3"]);
    let complaint = with(&wrong).run_in_vain("d0", &["take"]);
    println!("{complaint}");
    assert!(complaint.contains("certificate"), "{complaint}");
}

fn with_url<S: Backend>(server: S) -> (S, String) {
    let url = server.url();
    (server, url)
}
