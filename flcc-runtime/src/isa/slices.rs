//! Slices cut to the length that a vector or a block needs.

/// The first `N` values. `Tile::check` made sure of them for a whole run.
#[inline(always)]
pub(crate) fn head<T, const N: usize>(values: &[T]) -> &[T; N] {
    match values.first_chunk() {
        Some(head) => head,
        None => short(values.len(), N),
    }
}

/// The first `N` values, to be written.
#[inline(always)]
pub(crate) fn head_mut<T, const N: usize>(values: &mut [T]) -> &mut [T; N] {
    let len = values.len();
    match values.first_chunk_mut() {
        Some(head) => head,
        None => short(len, N),
    }
}

#[cold]
#[inline(never)]
fn short(len: usize, need: usize) -> ! {
    panic!("a kernel needs {need} values where {len} are left")
}

/// Whether `count` vectors, from `at` and each `step` values after the one before, end within `len` values.
#[inline(always)]
pub(crate) fn within(len: usize, at: usize, step: usize, count: usize, lanes: usize) -> bool {
    let Some(reach) = step.checked_mul(count.saturating_sub(1)) else { return false };
    let Some(last) = reach.checked_add(at) else { return false };
    count == 0 || (len >= lanes && last <= len - lanes)
}
