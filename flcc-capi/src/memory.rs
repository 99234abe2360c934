//! Memory for images and results: pinned where there is a GPU, so that copies go on while it computes.

use std::alloc::{self, Layout};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::needed;
use crate::status::flcc_status::FLCC_ERROR_NO_MEMORY;
use crate::status::{Failure, guard};

/// What an address of ours begins at: the widest vector, and a line of every cache.
const ALIGN: usize = 64;

/// Memory that was given out.
enum Block {
    Plain(Layout),
    #[cfg(feature = "cuda")]
    Pinned(flcc_runtime::rooms::cuda::driver::buffer::Pinned<u8>),
}

/// What was given out, by its address.
static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());

/// Pinned memory, where there is a GPU and the system pins as much.
#[cfg(feature = "cuda")]
fn pinned(bytes: usize) -> Option<(*mut u8, Block)> {
    use flcc_runtime::rooms::cuda::driver::{buffer::Pinned, launch};
    let device = launch::probe().devices.first()?;
    let mut memory = Pinned::new(&launch::Gpu::open(device.index).ok()?, bytes).ok()?;
    Some((memory.as_mut_ptr(), Block::Pinned(memory)))
}

#[cfg(not(feature = "cuda"))]
fn pinned(_bytes: usize) -> Option<(*mut u8, Block)> {
    None
}

fn plain(bytes: usize) -> Option<(*mut u8, Block)> {
    let layout = Layout::from_size_align(bytes, ALIGN).ok()?;
    // SAFETY: the layout has at least one byte, as the caller sees to.
    let address = unsafe { alloc::alloc_zeroed(layout) };
    (!address.is_null()).then_some((address, Block::Plain(layout)))
}

/// Memory for `bytes` bytes, all zero, aligned to 64 bytes: for the arrays of `conv_exec`, `lcorr_exec` and
/// `flcc_execute`. Null where there is none.
///
/// Where there is a GPU it is pinned, which makes copies from and to it faster: a GPU then reads and writes it while
/// kernels run. That memory is scarce. Where the system pins no more, it is memory like any other.
#[unsafe(no_mangle)]
pub extern "C" fn flcc_malloc(bytes: usize) -> *mut c_void {
    let made = guard(|| {
        // Of none, too, there is an address to be given back.
        let asked = bytes.max(1);
        let lacking = || Failure::new(FLCC_ERROR_NO_MEMORY, "bytes", "as many as there is memory for", bytes);
        // The system promises more than it has, and pages of zeros are written at once.
        needed::has_memory(asked as f64).map_err(|_| lacking())?;
        let (address, block) = pinned(asked).or_else(|| plain(asked)).ok_or_else(lacking)?;
        BLOCKS.lock().unwrap_or_else(PoisonError::into_inner).insert(address as usize, block);
        Ok(address.cast::<c_void>())
    });
    made.unwrap_or(ptr::null_mut())
}

/// Gives memory of `flcc_malloc` back. Null is nothing to give back; any other address is left alone, and
/// `flcc_last_error` says so.
#[unsafe(no_mangle)]
pub extern "C" fn flcc_free(array: *mut c_void) {
    let _ = guard(|| {
        let known = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner).remove(&(array as usize));
        match known {
            // SAFETY: it was allocated with this layout, and whoever takes it out of the table is alone in that.
            Some(Block::Plain(layout)) => unsafe { alloc::dealloc(array.cast(), layout) },
            #[cfg(feature = "cuda")]
            Some(Block::Pinned(memory)) => drop(memory),
            None if array.is_null() => {}
            None => {
                let expected = "memory of flcc_malloc that was not given back";
                return Err(Failure::invalid("array", expected, "another address"));
            }
        }
        Ok(())
    });
}
