//! What devices of a compute capability have, by the CUDA C++ programming guide.

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
