//! Figures for people. Data for programs never goes through here.

/// A number with a separator between thousands.
pub(super) fn grouped(number: u64) -> String {
    separate(&number.to_string())
}

/// A number of things: `1 row`, `2,000 rows`.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A large number without its fraction, with a separator between thousands.
pub(super) fn rounded(number: f64) -> String {
    separate(&format!("{number:.0}"))
}

fn separate(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{counted, grouped, rounded};

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1_000, 12_345].map(grouped), ["0", "999", "1,000", "12,345"]);
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        let rows = [0, 1, 2_000].map(|number| counted(number, "row", "rows"));
        assert_eq!(rows, ["0 rows", "1 row", "2,000 rows"]);
        assert_eq!([0.4, 3_521.6].map(rounded), ["0", "3,522"]);
    }
}
