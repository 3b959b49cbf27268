//! The check character: one more digit, so that a mistyped key is noticed without a lookup.
//!
//! `shape` appends it and verifies it. It works on digits and knows no alphabet.
//!
//! A text d₀…d_L, its last digit the check, is valid when d₀·T(d₁)·T²(d₂)⋯ is the identity of a
//! group of the alphabet's size. One wrong digit changes the product, since T is a permutation;
//! a swap of neighbours changes it, since x·T(y) ≠ y·T(x) for all x ≠ y. Luhn mod N and the
//! hybrid systems of ISO 7064 miss some swaps. Which group has such a T depends on the size
//! n = 2^k·q, q odd:
//!
//! | k | group | T |
//! | --- | --- | --- |
//! | 0 | Z_n | x ↦ −x |
//! | 1 | the dihedral group of order n | rⁱ ↦ r⁻ⁱ, rⁱs ↦ rⁱ⁺¹s |
//! | ≥ 2 | GF(2^k) × Z_q | (x, y) ↦ (αx, −y), α primitive |
//!
//! The group of order 2 has no such T, so an alphabet of two symbols cannot be checked.

use std::fmt;

/// Computes and verifies the check digit for alphabets of one size.
#[derive(Clone)]
pub struct CheckGroup {
    size: u8,
    /// `product[x][y]` is x·y.
    product: Box<[Row; 64]>,
    /// `powers[i][x]` is Tⁱ(x), for one period of T: at most 63 powers.
    powers: Vec<Row>,
    /// `closing[i][x]` is the digit that, at position i, completes a product x to the identity.
    closing: Vec<Row>,
}

impl CheckGroup {
    /// The group for an alphabet of `size` symbols; there is one for 3 to 64.
    pub fn new(size: u8) -> Option<CheckGroup> {
        if !(3..=64).contains(&size) {
            return None;
        }
        let group = Group::of_order(size);
        let mut product = Box::new([[0; 64]; 64]);
        let mut inverse = [0; 64];
        for x in 0..size {
            for y in 0..size {
                let xy = group.product(x, y);
                product[usize::from(x)][usize::from(y)] = xy;
                if xy == IDENTITY {
                    inverse[usize::from(x)] = y;
                }
            }
        }
        let powers = powers_of_t(group, size);
        let closing = powers.iter().map(|power| closing_digits(power, &inverse, size)).collect();
        Some(CheckGroup { size, product, powers, closing })
    }

    /// The digit to write after `digits`, each of which is below the size.
    #[inline]
    pub fn check_digit(&self, digits: &[u8]) -> u8 {
        let (product, position) = self.fold(digits);
        self.closing[position][usize::from(product & 63)]
    }

    /// Whether the last digit is the check digit of those before it.
    #[inline]
    pub fn is_valid(&self, digits_with_check: &[u8]) -> bool {
        digits_with_check.iter().all(|&digit| digit < self.size)
            && self.fold(digits_with_check).0 == IDENTITY
    }

    /// The product of all digits, and the position after them within the period of T.
    #[inline]
    fn fold(&self, digits: &[u8]) -> (u8, usize) {
        let mut product = IDENTITY;
        let mut position = 0;
        for &digit in digits {
            let turned = self.powers[position][usize::from(digit & 63)];
            product = self.product[usize::from(product & 63)][usize::from(turned & 63)];
            position += 1;
            if position == self.powers.len() {
                position = 0;
            }
        }
        (product, position)
    }
}

impl fmt::Debug for CheckGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckGroup").field("size", &self.size).finish_non_exhaustive()
    }
}

/// A table from digit to digit, long enough for every size.
type Row = [u8; 64];

/// Every group here numbers its elements so that 0 is the identity.
const IDENTITY: u8 = 0;

#[derive(Clone, Copy)]
enum Group {
    /// Z_n.
    Cyclic { order: u8 },
    /// Rotations rⁱ are i, reflections rⁱs are `rotations` + i; `rotations` is odd.
    Dihedral { rotations: u8 },
    /// (x, y) is x + `field`·y, with x in GF(2^k) modulo `polynomial` and y in Z_`odd`.
    Field { field: u8, polynomial: u8, odd: u8 },
}

impl Group {
    fn of_order(order: u8) -> Group {
        let twos = order.trailing_zeros();
        match twos {
            0 => Group::Cyclic { order },
            1 => Group::Dihedral { rotations: order / 2 },
            _ => {
                let field = 1 << twos;
                let polynomial = PRIMITIVE[twos as usize];
                Group::Field { field, polynomial, odd: order / field }
            }
        }
    }

    fn product(self, x: u8, y: u8) -> u8 {
        match self {
            Group::Cyclic { order } => (x + y) % order,
            Group::Dihedral { rotations } => {
                let (i, j) = (x % rotations, y % rotations);
                let reflected = (x >= rotations) != (y >= rotations);
                // A reflection turns what follows it round: s·rʲ = r⁻ʲ·s.
                let turned = if x >= rotations { rotations - j } else { j };
                (i + turned) % rotations + if reflected { rotations } else { 0 }
            }
            Group::Field { field, odd, .. } => {
                let low = (x % field) ^ (y % field);
                low + field * ((x / field + y / field) % odd)
            }
        }
    }

    /// T, the permutation that makes swaps of neighbours visible.
    fn t(self, x: u8) -> u8 {
        match self {
            Group::Cyclic { order } => (order - x) % order,
            Group::Dihedral { rotations } if x < rotations => (rotations - x) % rotations,
            Group::Dihedral { rotations } => rotations + (x - rotations + 1) % rotations,
            Group::Field { field, polynomial, odd } => {
                let doubled = (x % field) << 1;
                let low = if doubled >= field { doubled ^ polynomial } else { doubled };
                low + field * ((odd - x / field) % odd)
            }
        }
    }
}

/// By k, a primitive polynomial of GF(2^k), bit i being the coefficient of αⁱ.
const PRIMITIVE: [u8; 7] = [0, 0, 0b111, 0b1011, 0b1_0011, 0b10_0101, 0b100_0011];

/// T⁰, T¹, … up to the power before the one that is T⁰ again.
fn powers_of_t(group: Group, size: u8) -> Vec<Row> {
    let mut first = [0; 64];
    for x in 0..size {
        first[usize::from(x)] = x;
    }
    let next = |row: &Row| {
        let mut next = *row;
        for x in &mut next[..usize::from(size)] {
            *x = group.t(*x);
        }
        (next != first).then_some(next)
    };
    std::iter::successors(Some(first), next).collect()
}

/// For every product, the digit whose power `power` is the product's inverse.
fn closing_digits(power: &Row, inverse: &Row, size: u8) -> Row {
    let mut closing = [0; 64];
    for digit in 0..size {
        let turned = power[usize::from(digit)];
        let product = inverse[usize::from(turned)];
        closing[usize::from(product)] = digit;
    }
    closing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_differ_do_not_commute_for_any_size() {
        for size in sizes() {
            let group = Group::of_order(size);
            for x in 0..size {
                for y in (0..size).filter(|&y| y != x) {
                    let (xy, yx) = (group.product(x, group.t(y)), group.product(y, group.t(x)));
                    assert_ne!(xy, yx, "{x} and {y} of {size}");
                }
            }
        }
    }

    #[test]
    fn the_product_is_that_of_a_group_for_every_size() {
        for size in sizes() {
            let group = Group::of_order(size);
            for x in 0..size {
                assert_eq!(group.product(x, IDENTITY), x);
                assert_eq!(group.product(IDENTITY, x), x);
                assert!((0..size).any(|y| group.product(x, y) == IDENTITY), "{x} of {size}");
                for y in 0..size {
                    let xy = group.product(x, y);
                    assert!(xy < size);
                    for z in 0..size {
                        let yz = group.product(y, z);
                        assert_eq!(group.product(xy, z), group.product(x, yz), "order {size}");
                    }
                }
            }
        }
    }

    #[test]
    fn t_is_a_permutation_whose_powers_come_round() {
        for size in sizes() {
            let check = CheckGroup::new(size).unwrap();
            assert!(check.powers.len() <= 63, "{} powers for {size}", check.powers.len());
            for power in &check.powers {
                let mut image = power[..usize::from(size)].to_vec();
                image.sort_unstable();
                assert!(image.into_iter().eq(0..size), "a power of T for {size}");
            }
        }
    }

    #[test]
    fn sizes_without_a_group_are_refused() {
        assert!([0, 1, 2, 65, 255].into_iter().all(|size| CheckGroup::new(size).is_none()));
    }

    #[test]
    fn a_check_digit_of_any_length_is_valid_and_the_only_valid_one() {
        for size in sizes() {
            let check = CheckGroup::new(size).unwrap();
            // Longer than any period of T.
            let lengths = if cfg!(miri) { 0..3 } else { 0..140 };
            for length in lengths {
                let mut digits: Vec<u8> =
                    (0..length).map(|i: u8| i.wrapping_mul(7) % size).collect();
                let digit = check.check_digit(&digits);
                digits.push(0);
                for last in 0..size {
                    *digits.last_mut().unwrap() = last;
                    assert_eq!(check.is_valid(&digits), last == digit, "{digits:?} of {size}");
                }
            }
        }
    }

    #[test]
    fn a_digit_that_is_none_is_not_valid() {
        let check = CheckGroup::new(10).unwrap();
        assert!(!check.is_valid(&[10, 0]));
        assert!(!check.is_valid(&[255, 255]));
    }

    /// Every size; for Miri, which is slow, a few of each family.
    fn sizes() -> Vec<u8> {
        if cfg!(miri) { vec![3, 6, 10, 12, 16] } else { (3..=64).collect() }
    }
}
