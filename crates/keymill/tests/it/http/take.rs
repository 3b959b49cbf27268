//! Taking keys over HTTP.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Instance;

fn is_key(text: &str) -> bool {
    text.len() == 7 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[tokio::test]
async fn get_key_answers_one_key_as_plain_text() {
    let instance = Instance::start().await;
    let answer = instance.call("GET", "/get-key").await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain"));
    assert!(answer.head.contains("cache-control: no-store"));
    assert!(is_key(&answer.body), "{}", answer.body);
    let another = instance.call("GET", "/get-key?space=default").await;
    assert!(is_key(&another.body) && another.body != answer.body);
}

#[tokio::test]
async fn keys_come_as_json_or_one_per_line() {
    let instance = Instance::start().await;
    let answer = instance.call("POST", "/v1/spaces/default/keys?count=3").await;
    assert_eq!(answer.status, 200);
    let body = answer.json();
    assert_eq!(body["space"], "default");
    let keys = body["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| is_key(key.as_str().unwrap())));
    let one = instance.call("POST", "/v1/spaces/default/keys").await.json();
    assert_eq!(one["keys"].as_array().unwrap().len(), 1);
    let plain = "accept: text/plain\r\n";
    let answer = instance.send("POST", "/v1/spaces/default/keys?count=5000", plain, "").await;
    let mut lines: Vec<&str> = answer.body.lines().collect();
    assert!(answer.body.ends_with('\n') && lines.iter().all(|line| is_key(line)));
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 5_000);
}

#[tokio::test]
async fn bad_takes_are_told_what_is_wrong() {
    let instance = Instance::start().await;
    for count in ["0", "-1", "100001", "abc", "", "1.5", "99999999999999999999"] {
        let path = format!("/v1/spaces/default/keys?count={count}");
        let answer = instance.call("POST", &path).await;
        answer.is_problem(400, "bad_count", "from 1 to 100000");
    }
    let post = async |path: &str| instance.call("POST", path).await;
    post("/v1/spaces/default/keys?cuont=3").await.is_problem(400, "unknown_parameter", "`count`");
    post("/v1/spaces/default/keys?count=1&count=2").await.is_problem(
        400,
        "repeated_parameter",
        "`count`",
    );
    post("/v1/spaces/nope/keys").await.is_problem(404, "unknown_space", "`nope`");
    post("/v1/spaces/%zz/keys").await.is_problem(400, "bad_encoding", "percent-encoding");
    post("/v1/spaces/%ff/keys").await.is_problem(400, "bad_encoding", "percent-encoding");
    let get = async |path: &str| instance.call("GET", path).await;
    get("/get-key?space=nope").await.is_problem(404, "unknown_space", "`nope`");
    get("/get-key?space=%2").await.is_problem(400, "bad_encoding", "percent-encoding");
    get("/v1/nothing").await.is_problem(404, "not_found", "/v1/nothing");
    get("/v1/spaces/default/keys").await.is_problem(405, "method_not_allowed", "GET");
    let wrong = post("/get-key").await;
    wrong.is_problem(405, "method_not_allowed", "POST");
    assert!(wrong.head.contains("allow: get"), "{}", wrong.head);
    let body = "x".repeat(5_000);
    let answer = instance.send("POST", "/v1/spaces/default/keys", "", &body).await;
    answer.is_problem(413, "body_too_large", "4096");
    let answer =
        instance.send("PUT", "/v1/spaces/big", "content-type: application/json\r\n", &body).await;
    answer.is_problem(413, "body_too_large", "4096");
}

#[tokio::test]
async fn a_take_says_the_same_whether_it_is_answered_at_once_or_not() {
    let instance = Instance::start().await;
    // The keyspace is opened by the first take, which waits.
    assert_eq!(instance.call("GET", "/get-key").await.status, 200);
    // A parameter that changes nothing is enough for the general way.
    let ways = [
        ("GET", "/get-key", "/get-key?space=default"),
        ("POST", "/v1/spaces/default/keys", "/v1/spaces/default/keys?count=1"),
    ];
    for (method, at_once, general) in ways {
        for accept in ["", "accept: text/plain\r\n", "accept: application/json\r\n"] {
            let shown = async |path: &str| {
                let answer = instance.send(method, path, accept, "").await;
                assert_eq!(answer.status, 200, "{path}");
                let names = answer.head.lines().filter(|line| {
                    !line.starts_with("date:") && !line.starts_with("x-request-id:")
                });
                let head: Vec<String> = names.map(str::to_owned).collect();
                let mut words = answer.body.split(|it: char| !it.is_ascii_alphanumeric());
                let key = words.rfind(|word| is_key(word)).expect("a key").to_owned();
                (head, answer.body.replace(&key, "<key>"))
            };
            assert_eq!(shown(at_once).await, shown(general).await, "{method} {at_once} {accept}");
        }
    }
}

#[tokio::test]
async fn an_answer_has_no_header_of_its_request() {
    let instance = Instance::start().await;
    let expected = [
        "cache-control",
        "content-length",
        "content-type",
        "date",
        "x-content-type-options",
        "x-request-id",
    ];
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    // Few, as from a program, and many, as from a browser behind some proxies.
    for count in [0, 1, 10, 40, 3, 0] {
        let mut request = "GET /get-key HTTP/1.1\r\nhost: localhost\r\n".to_owned();
        for number in 0..count {
            request += &format!("x-own-{number}: {number}\r\ncookie: a={number}\r\n");
        }
        stream.write_all((request + "\r\n").as_bytes()).await.unwrap();
        let mut answer = [0; 1024];
        let len = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
        let (head, key) = answer.split_once("\r\n\r\n").expect("a whole answer");
        let mut names: Vec<&str> =
            head.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0)).collect();
        names.sort_unstable();
        assert_eq!(
            (names.as_slice(), is_key(key)),
            (expected.as_slice(), true),
            "{count}: {answer}"
        );
    }
}
