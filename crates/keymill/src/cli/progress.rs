//! Progress bars: for keys that are written, and for bytes that are read. They appear only on a terminal.
//!
//! `pool fill` and the imports use them. What is not known yet, such as the time left before anything
//! is done, is left out.

use std::fmt;
use std::time::Duration;

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// How long to measure before a speed is shown.
const WATCH_MIN: Duration = Duration::from_millis(500);
/// A longer estimate than this is not shown.
const LEFT_MAX: Duration = Duration::from_secs(30 * 86_400);

/// A bar for keys. Its length is set once it is known.
pub(super) fn of_keys() -> ProgressBar {
    let template = "{bar:30} {human_pos} of {human_len} keys{speed}{left}";
    ProgressBar::new(0).with_style(style(template))
}

/// A bar for bytes that are read; a spinner if their number is unknown (0).
pub(super) fn of_bytes(size: u64) -> ProgressBar {
    let (bar, template) = if size > 0 {
        (ProgressBar::new(size), "{bar:30} {bytes} of {total_bytes}, {msg}{left}")
    } else {
        (ProgressBar::new_spinner(), "{spinner} {bytes}, {msg}, {elapsed}")
    };
    bar.with_style(style(template)).with_message("0 imported")
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is right");
    style.with_key("speed", write_speed).with_key("left", write_left)
}

fn write_speed(state: &ProgressState, out: &mut dyn fmt::Write) {
    if let Some(speed) = speed(state.pos(), state.elapsed()) {
        let _ = write!(out, ", {}/s", HumanCount(speed));
    }
}

fn write_left(state: &ProgressState, out: &mut dyn fmt::Write) {
    if let Some(left) = left(state.pos(), state.len().unwrap_or(0), state.elapsed()) {
        let _ = write!(out, ", {:#} left", HumanDuration(left));
    }
}

/// How many are done per second, once that is known.
fn speed(done: u64, elapsed: Duration) -> Option<u64> {
    if elapsed < WATCH_MIN {
        return None;
    }
    let speed = u128::from(done) * 1_000 / elapsed.as_millis();
    u64::try_from(speed).ok().filter(|speed| *speed > 0)
}

/// How long the rest will take, once that is known.
fn left(done: u64, len: u64, elapsed: Duration) -> Option<Duration> {
    let left = Duration::from_secs(len.saturating_sub(done) / speed(done, elapsed)?);
    (left <= LEFT_MAX).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_guessed_before_anything_is_known() {
        let second = Duration::from_secs(1);
        assert_eq!(speed(5_000, Duration::ZERO), None);
        assert_eq!(left(0, 1_000, second), None);
        assert_eq!(left(1, u64::MAX, second), None);
        assert_eq!(speed(5_000, 2 * second), Some(2_500));
        assert_eq!(left(5_000, 10_000, 2 * second), Some(2 * second));
        assert_eq!(left(10, 0, second), Some(Duration::ZERO));
    }
}
