//! Tests of reading commands: by hand, and with bytes that nobody would send, against `redis-protocol`.

use proptest::collection::vec;
use proptest::prelude::*;
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;

use super::*;

#[test]
fn commands_are_arrays_of_bulk_strings_one_behind_the_other() {
    let bytes = b"*2\r\n$4\r\nSPOP\r\n$5\r\nlinks\r\n*1\r\n$4\r\nping\r\n*1\r\n$0\r\n\r\n";
    let (mut frame, mut at, mut seen) = (Frame::default(), 0, Vec::new());
    while let Some(command) = frame.read(&bytes[at..]).unwrap() {
        at += command.bytes.len();
        seen.push(command.parts_from(0).map(<[u8]>::to_vec).collect::<Vec<_>>());
    }
    assert_eq!(at, bytes.len());
    assert_eq!(seen, [vec![&b"SPOP"[..], b"links"], vec![b"ping"], vec![b""]]);
}

#[test]
fn a_part_that_is_not_there_is_empty() {
    let (mut frame, bytes) = (Frame::default(), b"*1\r\n$4\r\nPING\r\n");
    let command = frame.read(bytes).unwrap().unwrap();
    assert_eq!((command.name(), command.len(), command.part(1)), (&b"PING"[..], 1, &b""[..]));
    assert_eq!(command.parts_from(1).count(), 0);
}

#[test]
fn copies_of_a_command_are_counted_as_far_as_they_are_whole() {
    let one = command_of(&[b"SPOP", b"links"]);
    let other = command_of(&[b"SPOP", b"linkz"]);
    for (rest, max, expected) in [
        (vec![], 9, 0),
        (one.clone(), 9, 1),
        (one.repeat(5), 9, 5),
        (one.repeat(5), 3, 3),
        ([one.repeat(2), other.clone(), one.clone()].concat(), 9, 2),
        ([one.clone(), one[..one.len() - 1].to_vec()].concat(), 9, 1),
        (other, 9, 0),
    ] {
        let bytes = [one.clone(), rest].concat();
        let mut frame = Frame::default();
        assert_eq!(frame.read(&bytes).unwrap().unwrap().copies(max), expected);
    }
}

#[test]
fn what_is_cut_off_anywhere_is_waited_for() {
    let bytes = command_of(&[b"HELLO", b"3", b"AUTH", b"default", b"km_x"]);
    for len in 0..bytes.len() {
        assert!(Frame::default().read(&bytes[..len]).unwrap().is_none(), "{len}");
    }
    assert!(Frame::default().read(&bytes).unwrap().is_some());
}

#[test]
fn what_is_no_command_is_refused_for_its_reason() {
    use Malformed::{Http, Inline, Line, Long, Part, Parts};
    for (bytes, expected) in [
        (&b"*0\r\n"[..], Parts),
        (b"*65\r\n", Parts),
        (b"*99999", Parts),
        (b"*-1\r\n", Line),
        (b"*\r\n", Line),
        (b"*1\n", Line),
        (b"*1\rx", Line),
        (b"*01\r\n", Line),
        (b"*1x\r\n", Line),
        (b"*1\r\n:5\r\n", Part),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", Part),
        (b"*1\r\n$4097\r\n", Part),
        (b"*1\r\n$99999999999999999999\r\n", Part),
        (b"*1\r\n$-1\r\n", Line),
        (b"*1\r\n$4\r\nPINGxx", Line),
        (b"*1\r\n$4\r\nPINGx", Line),
        (b"*1\r\n$4\r\nPING\rx", Line),
        (b"SPOP links\r\n", Inline),
        (b"PINGS\r\n", Inline),
        (b"PING x\r\n", Inline),
        (b"\n", Inline),
        (b"\r\r", Inline),
        (b"\x16\x03\x01", Inline),
        (b"+OK\r\n", Inline),
        (b"GET / HTTP/1.1\r\n", Http),
        (b"POST / HTTP/1.1\r\n", Http),
        (b"PUT", Http),
        (b"host: localhost\r\n", Http),
        (b"OPTIONS * HTTP/1.1\r\n", Http),
        (b"* HTTP/1.1\r\n", Line),
    ] {
        let refused = Frame::default().read(bytes).unwrap_err();
        assert_eq!(refused, expected, "{}", bytes.escape_ascii());
    }
    // Three parts that are each as long as they may be.
    let long = command_of(&[&[b'x'; PART_LEN_MAX], &[b'x'; PART_LEN_MAX], b"x"]);
    assert_eq!(Frame::default().read(&long).unwrap_err(), Long);
    let many = command_of(&[&b"x"[..]; PARTS_MAX]);
    assert_eq!(Frame::default().read(&many).unwrap().unwrap().len(), PARTS_MAX);
}

#[test]
fn a_ping_may_be_a_line() {
    for line in [&b"PING\r\n"[..], b"ping\n", b"PiNg\r\n*1\r\n"] {
        let mut frame = Frame::default();
        let command = frame.read(line).unwrap().unwrap();
        assert!(command.name().eq_ignore_ascii_case(b"PING") && command.len() == 1);
        assert!(command.bytes.ends_with(b"\n"));
    }
    for start in [&b"P"[..], b"PIN", b"ping", b"PING\r", b"\r"] {
        assert!(Frame::default().read(start).unwrap().is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever is a command for both is the same command; and what is none for the oracle is none here.
    #[test]
    fn what_is_read_is_what_the_oracle_reads(bytes in almost_commands()) {
        let mut frame = Frame::default();
        let read = frame.read(&bytes);
        if let Ok(Some(command)) = read && bytes[0] == b'*' {
            let (decoded, len) = decode(&bytes).unwrap().expect("it is complete");
            let parts: Vec<OwnedFrame> =
                command.parts_from(0).map(|part| OwnedFrame::BulkString(part.to_vec())).collect();
            prop_assert_eq!(decoded, OwnedFrame::Array(parts));
            prop_assert_eq!(command.bytes.len(), len);
        }
    }

    /// Any list of parts arrives as it was sent, wherever it is cut into pieces.
    #[test]
    fn any_parts_arrive_as_they_were_sent(
        parts in vec(vec(any::<u8>(), 0..100), 1..=PARTS_MAX),
        cut in any::<prop::sample::Index>(),
    ) {
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let bytes = command_of(&slices);
        prop_assume!(bytes.len() <= COMMAND_LEN_MAX);
        let mut frame = Frame::default();
        let cut = cut.index(bytes.len());
        prop_assert!(frame.read(&bytes[..cut]).unwrap().is_none());
        let command = frame.read(&bytes).unwrap().unwrap();
        prop_assert_eq!(command.parts_from(0).collect::<Vec<_>>(), slices);
    }

    /// What is not complete yet stays short, or is refused.
    #[test]
    fn nothing_is_waited_for_beyond_the_longest_command(bytes in vec(any::<u8>(), 0..9_000)) {
        let with_head = [&b"*3\r\n$4096\r\n"[..], &bytes].concat();
        if let Ok(None) = Frame::default().read(&with_head) {
            prop_assert!(with_head.len() < COMMAND_LEN_MAX + 64);
        }
    }
}

/// Bytes that look like commands, more or less.
fn almost_commands() -> impl Strategy<Value = Vec<u8>> {
    let number = || {
        prop_oneof![
            (0_u32..70).prop_map(|it| it.to_string()),
            any::<i32>().prop_map(|it| it.to_string()),
            "[0-9x\\-+ ]{0,4}"
        ]
    };
    let end = || {
        prop_oneof![9 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r"), 1 => Just("")]
            .prop_map(str::to_owned)
    };
    let part = (
        prop_oneof![9 => Just('$'), 1 => any::<char>()],
        number(),
        end(),
        vec(any::<u8>(), 0..20),
        end(),
    );
    let wrong = part.prop_map(|(kind, len, one_end, bytes, other_end)| {
        [format!("{kind}{len}{one_end}").into_bytes(), bytes, other_end.into_bytes()].concat()
    });
    let right = vec(any::<u8>(), 0..20).prop_map(|bytes| {
        [format!("${}\r\n", bytes.len()).into_bytes(), bytes, b"\r\n".to_vec()].concat()
    });
    let part = prop_oneof![4 => right, 1 => wrong];
    let head = (prop_oneof![20 => Just('*'), 1 => any::<char>()], number(), end());
    let any_head = head.prop_map(|(kind, count, end)| format!("{kind}{count}{end}").into_bytes());
    let parts = vec(part, 0..6);
    let with_right_head = parts
        .clone()
        .prop_map(|parts| [format!("*{}\r\n", parts.len()).into_bytes(), parts.concat()].concat());
    let with_any_head = (any_head, parts).prop_map(|(head, parts)| [head, parts.concat()].concat());
    prop_oneof![3 => with_right_head, 1 => with_any_head, 1 => vec(any::<u8>(), 1..200)]
        .prop_filter("there is something", |bytes| !bytes.is_empty())
}

fn command_of(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
