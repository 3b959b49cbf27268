//! The ten rounds of FF1, run over many numbers side by side.
//!
//! `ff1` prepares [`Rounds`] once for a key and hands a [`Pass`] to the cipher for every batch.
//! Nothing here knows keys or picks a backend: the cipher calls the pass with the AES instructions
//! that this machine has.
//!
//! # Invariants
//!
//! - A half is below its modulus before and after every round.
//! - All numbers of a batch are permuted alike, whether or not they fill a backend's width.

use aes::Block;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, ParBlocks,
    ParBlocksSizeUser, consts::U16,
};
use zeroize::Zeroize;

use crate::modulus::Modulus;

/// A number as the values of the first and the second half of its digits; the second is the
/// longer one where the length is odd.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Halves {
    pub(crate) high: u64,
    pub(crate) low: u64,
}

/// The most numbers worth a batch: the widest backend takes 64 blocks at once.
pub(crate) const BATCH_MAX: usize = 64;

/// The longest tweak.
pub(crate) const TWEAK_MAX: usize = 16;

/// What the ten rounds need to know besides the cipher.
pub(crate) struct Rounds {
    /// The CBC-MAC state in front of the last block, which holds the round and a half, with all
    /// that is constant in that block.
    state: u128,
    /// Where the round number stands in the last block: before the half.
    round_shift: u32,
    /// radix to the digits of each half.
    pub(crate) high: Modulus,
    pub(crate) low: Modulus,
    /// How many numbers it is best to give a pass, at most `BATCH_MAX`.
    pub(crate) batch: usize,
}

impl Rounds {
    pub(crate) fn new<C: BlockCipherEncrypt<BlockSize = U16>>(
        cipher: &C,
        radix: u8,
        length: u8,
        tweak: &[u8],
    ) -> Rounds {
        let (high_digits, low_digits) = (length / 2, length.div_ceil(2));
        let power = |digits: u8| u64::from(radix).pow(u32::from(digits));
        let half_bits = (power(low_digits) - 1).ilog2() + 1;
        let half_bytes = half_bits.div_ceil(8);

        let mut p = [0; 16];
        p[..3].copy_from_slice(&[1, 2, 1]);
        p[5] = radix;
        p[6..8].copy_from_slice(&[10, high_digits]);
        p[11] = length;
        p[15] = u8::try_from(tweak.len()).expect("a tweak is short");
        let encrypt = |block: u128| {
            let mut block = block.to_be_bytes().into();
            cipher.encrypt_block(&mut block);
            u128::from_be_bytes(block.into())
        };
        let mut state = encrypt(u128::from_be_bytes(p));
        let mut start = [0; TWEAK_MAX];
        start[..tweak.len()].copy_from_slice(tweak);
        state ^= u128::from_be_bytes(start);
        // A tweak that leaves no room for the round and the half fills a block of its own.
        if tweak.len() + half_bytes as usize + 1 > 16 {
            state = encrypt(state);
        }

        let mut width = 1;
        cipher.encrypt_with_backend(WidthOf(&mut width));
        Rounds {
            state,
            round_shift: 8 * half_bytes,
            high: Modulus::new(power(high_digits)),
            low: Modulus::new(power(low_digits)),
            batch: (BATCH_MAX / width * width).max(1),
        }
    }

    /// Whether a round adds 12 bytes of cipher text and not 8: when a half takes over 4 bytes.
    pub(crate) fn is_wide(&self) -> bool {
        self.round_shift > 32
    }

    /// The block to encrypt in a round, but for the half, which is to be added by XOR.
    #[inline(always)]
    fn block(&self, round: u8) -> u128 {
        self.state ^ u128::from(round) << self.round_shift
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        // It was made with the key; the cipher wipes its round keys itself.
        self.state.zeroize();
    }
}

/// All rounds over some numbers: encrypting if `FORWARD`, and adding 12 bytes of what AES gives
/// if `WIDE`, 8 otherwise.
pub(crate) struct Pass<'a, const FORWARD: bool, const WIDE: bool> {
    pub(crate) rounds: &'a Rounds,
    pub(crate) halves: &'a mut [Halves],
}

impl<const FORWARD: bool, const WIDE: bool> BlockSizeUser for Pass<'_, FORWARD, WIDE> {
    type BlockSize = U16;
}

impl<const FORWARD: bool, const WIDE: bool> BlockCipherEncClosure for Pass<'_, FORWARD, WIDE> {
    // Inlined, it is compiled for the instructions of the backend.
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let mut blocks = ParBlocks::<B>::default();
        for i in 0..10 {
            let round = if FORWARD { i } else { 9 - i };
            // The chunks of a round do not wait for each other, so the machine overlaps them.
            let mut chunks = self.halves.chunks_exact_mut(blocks.len());
            for chunk in &mut chunks {
                fill(self.rounds, round, chunk, &mut blocks);
                backend.encrypt_par_blocks((&mut blocks).into());
                mix::<FORWARD, WIDE>(self.rounds, round, chunk, &blocks);
            }
            let rest = chunks.into_remainder();
            fill(self.rounds, round, rest, &mut blocks);
            for block in &mut blocks[..rest.len()] {
                backend.encrypt_block(block.into());
            }
            mix::<FORWARD, WIDE>(self.rounds, round, rest, &blocks);
        }
    }
}

/// Writes the block of every number. An even round takes the low half to change the high one, an
/// odd round the other way about; the standard says the same by swapping the halves.
#[inline(always)]
fn fill(rounds: &Rounds, round: u8, halves: &[Halves], blocks: &mut [Block]) {
    let constant = rounds.block(round);
    let even = round.is_multiple_of(2);
    for (block, &Halves { high, low }) in blocks.iter_mut().zip(halves) {
        let half = if even { low } else { high };
        *block = (constant ^ u128::from(half)).to_be_bytes().into();
    }
}

/// Adds to the other half what AES made of the block, or takes it away again.
#[inline(always)]
fn mix<const FORWARD: bool, const WIDE: bool>(
    rounds: &Rounds,
    round: u8,
    halves: &mut [Halves],
    blocks: &[Block],
) {
    let even = round.is_multiple_of(2);
    let modulus = if even { rounds.high } else { rounds.low };
    for (Halves { high, low }, block) in halves.iter_mut().zip(blocks) {
        let half = if even { high } else { low };
        let given = modulus.reduce::<WIDE>(u128::from_be_bytes(block.0));
        // Of the two candidates the wrong one has wrapped round to something huge.
        *half = if FORWARD {
            let sum = *half + given;
            sum.min(sum.wrapping_sub(modulus.value()))
        } else {
            let difference = half.wrapping_sub(given);
            difference.min(difference.wrapping_add(modulus.value()))
        };
    }
}

/// Asks a backend how many blocks it encrypts at once.
struct WidthOf<'a>(&'a mut usize);

impl BlockSizeUser for WidthOf<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for WidthOf<'_> {
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, _: &B) {
        *self.0 = <B as ParBlocksSizeUser>::ParBlocksSize::USIZE;
    }
}
