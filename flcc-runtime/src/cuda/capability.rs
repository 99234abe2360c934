//! What devices of a compute capability have, by the CUDA C++ programming guide.

/// Operations in f32 that a multiprocessor does in the time of one in f64, by the throughput of native arithmetic
/// instructions. What the guide's table lacks is as its kin: Xavier (7.2) as Volta, Orin (8.7), Thor (11.0) and
/// Spark (12.1) as chips that are not for data centres, and so is Blackwell Ultra (10.3), which has two units for f64 a
/// multiprocessor.
pub(crate) fn f32_per_f64(capability: (u32, u32)) -> u32 {
    match capability {
        (6..=10, 0) | (7, 2) => 2,
        (..8, _) => 32,
        _ => 64,
    }
}

/// Bytes of shared memory that a block may have.
pub(crate) fn most_shared(capability: (u32, u32)) -> usize {
    match capability {
        (8, 0 | 7) => 163 << 10,
        (8, _) | (12, _) => 99 << 10,
        (7, 0) => 96 << 10,
        (0..8, _) => 64 << 10,
        _ => 227 << 10,
    }
}

/// The first with products of matrices of bytes on tensor cores, 16x32 by 32x8.
pub(crate) const BYTES_ON_TENSOR_CORES: (u32, u32) = (8, 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_for_data_centres_are_fast_in_f64() {
        for capability in [(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)] {
            assert_eq!(f32_per_f64(capability), 2, "{capability:?}");
        }
        for capability in [(6, 1), (7, 5), (8, 6), (8, 7), (8, 9), (10, 3), (11, 0), (12, 0), (12, 1)] {
            assert!(f32_per_f64(capability) >= 32, "{capability:?}");
        }
    }
}
