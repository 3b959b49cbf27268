//! Encrypted connections: a server that its authority vouches for is used, any other is not; and
//! users with passwords.

use keymill_proof::backend::{
    Backend, Certificates, Etcd, MariaDb, Missing, Mysql, Postgres, Redis, skip,
};

use super::{fails, keymill, succeeds};

#[test]
fn postgres_proves_who_it_is() {
    check(|certificates| {
        let server = Postgres::encrypted(certificates)?;
        let url = server.url();
        Ok((server, url))
    });
}

#[test]
fn mysql_proves_who_it_is() {
    check(|certificates| {
        let server = MariaDb::encrypted(certificates)?;
        let url = server.url();
        Ok((server, url))
    });
}

#[test]
fn mysql9_proves_who_it_is() {
    check(|certificates| {
        let server = Mysql::encrypted(certificates)?;
        let url = server.url();
        Ok((server, url))
    });
}

#[test]
fn redis_proves_who_it_is() {
    check(Redis::encrypted);
}

#[test]
fn etcd_proves_who_it_is() {
    check(|certificates| {
        let server = Etcd::encrypted(certificates)?;
        let url = server.url();
        Ok((server, url))
    });
}

#[test]
fn postgres_takes_the_names_that_its_own_programs_use() {
    let made = Certificates::make().and_then(|it| Ok((Postgres::encrypted(&it)?, it)));
    let (server, certificates) = match made {
        Ok(made) => made,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let authority = certificates.authority();
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), authority.display());
    succeeds(&keymill(&url, folder.path(), &["take"]));
    let url = format!("{}?sslmode=prefer", server.url());
    let complaint = fails(&keymill(&url, folder.path(), &["take"]));
    assert!(complaint.contains("sslmode=prefer"), "{complaint}");
}

#[test]
fn etcd_wants_the_right_password() {
    let etcd = match Etcd::start(1) {
        Ok(etcd) => etcd,
        Err(missing) => return skip(&missing),
    };
    let member = &etcd.members[0];
    member.call("/v3/auth/user/add", r#"{"name":"root","password":"secret"}"#);
    member.call("/v3/auth/role/add", r#"{"name":"root"}"#);
    member.call("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    member.call("/v3/auth/enable", "{}");
    let folder = tempfile::tempdir().unwrap();
    let with = |user: &str| etcd.url().replace("etcd://", &format!("etcd://{user}"));
    succeeds(&keymill(&with("root:secret@"), folder.path(), &["take"]));
    for wrong in ["root:wrong@", ""] {
        let complaint = fails(&keymill(&with(wrong), folder.path(), &["take"]));
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
    let ((_server, url), right, wrong) = match made() {
        Ok(made) => made,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let with = |certificates: &Certificates| {
        format!("{url}?tls_ca={}", certificates.authority().display())
    };
    succeeds(&keymill(&with(&right), folder.path(), &["take", "-n", "3"]));
    let complaint = fails(&keymill(&with(&wrong), folder.path(), &["take"]));
    println!("{complaint}");
    assert!(complaint.contains("certificate"), "{complaint}");
}
