//! Snowflake layouts: every ID gives its fields back, and IDs are in the order of time.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::BTreeSet;

use keymill_core::{Fields, Layout};
use proptest::prelude::*;

#[test]
fn an_id_of_twitter_gives_its_time_and_worker() {
    // 2022-06-28T16:07:40.105Z, by machine 26 of datacenter 11.
    let fields = Fields { tick: 367_597_485_448, worker: 378, sequence: 0 };
    check_known("twitter", 1_541_815_603_606_036_480, fields, (TWITTER_EPOCH, 1_656_432_460_105));
    assert_eq!(fields.worker, (11 << 5) | 26);
}

#[test]
fn the_worked_example_of_instagram_gives_its_time_and_shard() {
    // 2011-09-09T22:28:04.721Z, shard 31341 mod 2000, the 5001st of its table.
    let fields = Fields { tick: 1_387_263_000, worker: 1341, sequence: 5001 % 1024 };
    check_known("instagram", 11_637_205_501_278_089, fields, (INSTAGRAM_EPOCH, 1_315_607_284_721));
}

#[test]
fn a_media_id_of_instagram_gives_its_time() {
    // Published 2020-08-26T13:43:27Z.
    let fields = Fields { tick: 284_229_385_592, worker: 2675, sequence: 578 };
    let ms = 1_598_449_407_313;
    check_known("instagram", 2_384_288_897_814_875_714, fields, (INSTAGRAM_EPOCH, ms));
}

#[test]
fn an_id_of_sonyflake_gives_its_time_and_machine() {
    // 2025-03-14T15:09:26.530Z, by the machine of x.x.192.168.
    let fields = Fields { tick: 33_243_536_653, worker: 49_320, sequence: 200 };
    check_known("sonyflake", 557_733_995_044_454_568, fields, (SONYFLAKE_EPOCH, 1_741_964_966_530));
}

#[test]
fn names_are_layouts_that_are_shown_in_numbers() {
    check_named("twitter", Layout::TWITTER, "41/10/12", 63);
    check_named("sonyflake", Layout::SONYFLAKE, "39/s8/w16@10ms", 63);
    check_named("instagram", Layout::INSTAGRAM, "40/13/10", 63);
    check_named("javascript", Layout::JAVASCRIPT, "41/5/7", 53);
    assert_eq!(Layout::default(), Layout::TWITTER);
}

#[test]
fn only_53_bits_and_fewer_are_safe_in_json() {
    for (text, expected) in
        [("twitter", false), ("javascript", true), ("41/6/7", false), ("40/5/7", true)]
    {
        assert_eq!(parse(text).is_safe_in_json(), expected, "{text}");
    }
    assert_eq!(Layout::JAVASCRIPT.bounds(0..u64::MAX), Some((0, (1 << 53) - 1)));
}

#[test]
fn what_can_be_left_out_is_not_shown() {
    check_shown("41/w10/s12", "41/10/12");
    check_shown("41/10/12@1ms", "41/10/12");
    check_shown("39/16/8@10ms", "39/16/8@10ms");
    check_shown("32/10/20@1000ms", "32/10/20@1s");
    check_shown("32/s20/w10@1s", "32/s20/w10@1s");
    check_shown("32/10/20@60s", "32/10/20@60s");
    check_shown("32/10/20@59999ms", "32/10/20@59999ms");
    check_shown("63/0/0", "63/0/0");
    check_shown("1/s31/w16", "1/s31/w16");
}

#[test]
fn what_is_no_layout_is_refused_with_what_would_be() {
    for text in [
        "",
        "facebook",
        "Twitter",
        "twitter@10ms",
        " 41/10/12",
        "41/10/12 ",
        "41",
        "41/10",
        "41/10/12/0",
        "41//12",
        "/10/12",
        "41/10/",
        "+41/10/12",
        "41/+10/12",
        "41/w+10/s12",
        "-1/10/12",
        "041/10/12",
        "41/010/12",
        "41/10/120",
        "4a/10/12",
        "41/1a/12",
        "41/w/s12",
        "41/ww10/s12",
        "41/W10/S12",
        "41/x10/s12",
        "t41/w10/s12",
        "41/w10/12",
        "41/10/s12",
        "41/s10/12",
        "41/é10/12",
        "\u{664}\u{661}/10/12",
        "41-10-12",
        "41/10/12@",
        "41/10/12@10",
        "41/10/12@ms",
        "41/10/12@s",
        "41/10/12@+1s",
        "41/10/12@0.5s",
        "41/10/12@1m",
        "41/10/12@1us",
        "41/10/12@10ms@10ms",
        "41/10/12@10ms ",
    ] {
        check_refused(text, &format!("`{text}` is not a layout"));
    }
    check_refused("facebook", "such as `41/10/12`");
    check_refused("facebook", "such as `39/s8/w16@10ms`");
    check_refused("facebook", "one of twitter, sonyflake, instagram, javascript");
}

#[test]
fn bits_and_ticks_that_cannot_be_are_refused_with_the_reason() {
    check_refused("41/s10/s12", "`41/s10/s12` has the same letter twice");
    check_refused("41/w10/w12", "such as `41/w10/s12`");
    check_refused("0/10/12", "time needs at least 1 bit");
    check_refused("30/17/12", "a worker has at most 16 bits, not 17");
    check_refused("30/s12/w99", "a worker has at most 16 bits, not 99");
    check_refused("30/0/32", "a sequence has at most 31 bits, not 32");
    check_refused("42/10/12", "at most 63 bits");
    check_refused("42/10/12", "42/10/12 has 64: remove 1");
    check_refused("99/s31/w16@10ms", "99/s31/w16@10ms has 146: remove 83");
    check_refused("41/10/12@0ms", "the tick in `41/10/12@0ms` must be");
    check_refused("41/10/12@0s", "must be from 1ms to 60s");
    check_refused("41/10/12@60001ms", "must be from 1ms to 60s");
    check_refused("41/10/12@61s", "must be from 1ms to 60s");
    check_refused("41/10/12@4294968s", "must be from 1ms to 60s");
    check_refused("41/10/12@99999999999999999999ms", "must be from 1ms to 60s");
}

#[test]
fn the_ids_of_a_small_layout_are_all_the_numbers_there_are() {
    for text in ["3/2/1", "3/s1/w2", "2/0/4", "2/s4/w0", "5/1/0", "6/0/0", "6/s0/w0"] {
        let layout = parse(text);
        let mut ids = BTreeSet::new();
        for tick in 0..layout.ticks() {
            for worker in 0..u32::try_from(layout.workers()).unwrap() {
                for sequence in 0..u32::try_from(layout.sequences()).unwrap() {
                    ids.insert(layout.id(Fields { tick, worker, sequence }));
                }
            }
        }
        assert!(ids.into_iter().eq(0..64), "{text}");
        assert_eq!(layout.fields(64), None, "{text}");
        assert_eq!(layout.bounds(0..layout.ticks()), Some((0, 63)), "{text}");
    }
}

#[test]
fn an_empty_range_has_no_ids() {
    let layout = Layout::TWITTER;
    assert!(layout.run(0, 0, 5..5).is_empty());
    assert!(layout.run(0, 0, 4096..4096).is_empty());
    assert!(Layout::SONYFLAKE.run(0, 0, 5..5).is_empty());
    assert_eq!(layout.bounds(5..5), None);
    assert_eq!(layout.bounds(layout.ticks()..5), None);
    assert_eq!(layout.bounds(layout.ticks()..u64::MAX), None);
}

#[test]
#[should_panic(expected = "do not fit 41/10/12")]
fn a_tick_beyond_the_last_has_no_id() {
    Layout::TWITTER.id(Fields { tick: 1 << 41, worker: 0, sequence: 0 });
}

#[test]
#[should_panic(expected = "do not fit 41/10/12")]
fn a_worker_beyond_the_last_has_no_id() {
    Layout::TWITTER.id(Fields { tick: 0, worker: 1024, sequence: 0 });
}

#[test]
#[should_panic(expected = "do not fit 41/10/12")]
fn a_sequence_beyond_the_last_has_no_id() {
    Layout::TWITTER.id(Fields { tick: 0, worker: 0, sequence: 4096 });
}

#[test]
#[should_panic(expected = "sequences 4095..4097 of 4096")]
fn a_run_does_not_reach_the_ids_of_the_next_worker() {
    Layout::TWITTER.run(0, 0, 4095..4097);
}

#[test]
#[should_panic(expected = "sequences 255..257 of 256")]
fn a_run_in_steps_does_not_reach_the_next_tick() {
    Layout::SONYFLAKE.run(0, 0, 255..257);
}

#[test]
#[should_panic(expected = "42/10/12 has more than 63 bits")]
fn a_layout_that_nobody_checked_loses_no_time() {
    let layout = Layout { time_bits: 42, ..Layout::TWITTER };
    layout.id(Fields { tick: 0, worker: 0, sequence: 0 });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 5000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_layout_is_read_back_from_its_text(layout in layout()) {
        prop_assert_eq!(Layout::parse(&layout.to_string()), Ok(layout));
    }

    #[test]
    fn every_id_gives_its_fields_back((layout, fields) in layout_and_fields()) {
        let id = layout.id(fields);
        prop_assert!(id < 1 << 63 && id >> layout.bits() == 0);
        prop_assert_eq!(layout.fields(id), Some(fields));
    }

    #[test]
    fn a_number_has_fields_unless_it_has_more_bits(layout in layout(), number in any::<u64>()) {
        match layout.fields(number) {
            Some(fields) => prop_assert_eq!(layout.id(fields), number),
            None => prop_assert!(number >> layout.bits() > 0),
        }
        let number = number >> (64 - layout.bits());
        prop_assert_eq!(layout.fields(number).map(|fields| layout.id(fields)), Some(number));
    }

    #[test]
    fn ids_of_one_worker_are_in_the_order_of_tick_and_sequence(
        (layout, one, other) in layout_and_two_fields(),
    ) {
        let other = Fields { worker: one.worker, ..other };
        let expected = (one.tick, one.sequence).cmp(&(other.tick, other.sequence));
        prop_assert_eq!(layout.id(one).cmp(&layout.id(other)), expected);
    }

    #[test]
    fn ids_of_a_later_tick_are_higher_whatever_the_worker(
        (layout, one, other) in layout_and_two_fields(),
    ) {
        if one.tick == other.tick {
            prop_assert_eq!(layout.id(one) == layout.id(other), one == other);
        } else {
            prop_assert_eq!(layout.id(one).cmp(&layout.id(other)), one.tick.cmp(&other.tick));
        }
    }

    #[test]
    fn a_run_is_the_ids_of_its_sequences(
        (layout, fields) in layout_and_fields(),
        count in 1_u32..100,
    ) {
        let Fields { tick, worker, sequence } = fields;
        let start = u64::from(sequence);
        let end = (start + u64::from(count)).min(layout.sequences());
        let mut expected: Vec<u64> = (sequence..)
            .zip(start..end)
            .map(|(sequence, _)| layout.id(Fields { tick, worker, sequence }))
            .collect();
        if layout.worker_last && layout.worker_bits > 0 {
            expected.truncate(1);
        }
        let run: Vec<u64> = layout.run(worker, tick, start..end).collect();
        prop_assert_eq!(run, expected);
    }

    #[test]
    fn bounds_hold_the_ids_of_their_ticks_and_no_others(
        (layout, one, other) in layout_and_two_fields(),
        count in prop_oneof![1_u64..10, 1..u64::MAX / 2],
    ) {
        let ticks = one.tick..one.tick + count;
        let (low, high) = layout.bounds(ticks.clone()).unwrap();
        for fields in [one, other] {
            let expected = ticks.contains(&fields.tick);
            prop_assert_eq!((low..=high).contains(&layout.id(fields)), expected);
        }
        let worker = u32::try_from(layout.workers() - 1).unwrap();
        let sequence = u32::try_from(layout.sequences() - 1).unwrap();
        let first_of = |tick| layout.id(Fields { tick, worker: 0, sequence: 0 });
        let last_of = |tick| layout.id(Fields { tick, worker, sequence });
        let end = ticks.end.min(layout.ticks());
        prop_assert_eq!((low, high), (first_of(ticks.start), last_of(end - 1)));
        if ticks.start > 0 {
            prop_assert_eq!(last_of(ticks.start - 1), low - 1);
        }
        if end < layout.ticks() {
            prop_assert_eq!(first_of(end), high + 1);
        }
    }
}

const TWITTER_EPOCH: u64 = 1_288_834_974_657;
const INSTAGRAM_EPOCH: u64 = 1_314_220_021_721;
/// 2014-09-01T00:00:00Z.
const SONYFLAKE_EPOCH: u64 = 1_409_529_600_000;

/// Any sound layout.
fn layout() -> impl Strategy<Value = Layout> {
    let bits = (0_u32..=16, 0_u32..=31).prop_flat_map(|(worker_bits, sequence_bits)| {
        (1..=63 - worker_bits - sequence_bits, Just(worker_bits), Just(sequence_bits))
    });
    let unit_ms = prop_oneof![Just(1_u32), 1_u32..=60_000, (1_u32..=60).prop_map(|s| s * 1000)];
    (bits, unit_ms, any::<bool>()).prop_map(|(bits, unit_ms, worker_last)| {
        let (time_bits, worker_bits, sequence_bits) = bits;
        Layout { time_bits, worker_bits, sequence_bits, unit_ms, worker_last }
    })
}

fn layout_and_fields() -> impl Strategy<Value = (Layout, Fields)> {
    layout().prop_flat_map(|layout| (Just(layout), fields(layout)))
}

/// Fields of one layout, often of the same tick or of neighbours.
fn layout_and_two_fields() -> impl Strategy<Value = (Layout, Fields, Fields)> {
    let distance = prop::option::of(0_u64..3);
    let both = layout().prop_flat_map(|layout| (Just(layout), fields(layout), fields(layout)));
    (both, distance).prop_map(|((layout, one, other), distance)| {
        let near = distance.map(|distance| (one.tick + distance).min(layout.ticks() - 1));
        (layout, one, Fields { tick: near.unwrap_or(other.tick), ..other })
    })
}

fn fields(layout: Layout) -> impl Strategy<Value = Fields> {
    let small = |count| below(count).prop_map(|value| u32::try_from(value).unwrap());
    (below(layout.ticks()), small(layout.workers()), small(layout.sequences()))
        .prop_map(|(tick, worker, sequence)| Fields { tick, worker, sequence })
}

/// A number below `count`; the first and the last one come up often.
fn below(count: u64) -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..count, 1 => Just(0), 1 => Just(count - 1)]
}

/// An ID that others made, the fields it has, and its time: the epoch, and when it was made.
#[track_caller]
fn check_known(name: &str, id: u64, fields: Fields, (epoch_ms, expected_ms): (u64, u64)) {
    let layout = parse(name);
    assert_eq!(layout.fields(id), Some(fields));
    assert_eq!(layout.id(fields), id);
    assert_eq!(epoch_ms + fields.tick * u64::from(layout.unit_ms), expected_ms);
}

#[track_caller]
fn check_named(name: &str, expected: Layout, shown: &str, bits: u32) {
    assert_eq!(parse(name), expected);
    assert_eq!(expected.bits(), bits, "{name}");
    check_shown(name, shown);
}

#[track_caller]
fn check_shown(text: &str, expected: &str) {
    let layout = parse(text);
    assert_eq!(layout.to_string(), expected);
    assert_eq!(parse(expected), layout);
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let error = Layout::parse(text).unwrap_err().to_string();
    assert!(error.contains(expected), "{text}: {error}");
}

#[track_caller]
fn parse(text: &str) -> Layout {
    Layout::parse(text).unwrap()
}
