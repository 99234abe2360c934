//! cuFFT: real transforms of a batch of tiles.

use cudarc::cufft::{result, sys};

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Address, Stream};
use crate::cuda::driver::libraries;
use crate::cuda::fault::Fault;

/// Transforms there and back of `batch` dense volumes of one shape, on one stream.
pub struct Transforms {
    there: Handle,
    back: Handle,
    _work: Buffer,
    double: bool,
    reals: usize,
    complexes: usize,
}

struct Handle(sys::cufftHandle);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was made by `create` and is destroyed once, after its stream was waited for.
        let _ = unsafe { result::destroy(self.0) };
    }
}

/// Complex numbers of half a spectrum.
pub fn spectrum(shape: [usize; 3]) -> usize {
    shape[0] * shape[1] * (shape[2] / 2 + 1)
}

/// Bytes that cuFFT will want to work in, about: it tells exactly only once a plan is made.
pub fn work_bytes(shape: [usize; 3], batch: usize, double: bool) -> usize {
    2 * spectrum(shape) * batch * if double { 16 } else { 8 }
}

impl Transforms {
    /// Plans the transforms and takes the memory that they work in.
    ///
    /// # Errors
    /// cuFFT's, or the device is out of memory.
    pub fn new(stream: &Stream, shape: [usize; 3], batch: usize, double: bool) -> Result<Transforms, Fault> {
        libraries::present()?;
        stream.bind()?;
        let (there_type, back_type) = if double {
            (sys::cufftType::CUFFT_D2Z, sys::cufftType::CUFFT_Z2D)
        } else {
            (sys::cufftType::CUFFT_R2C, sys::cufftType::CUFFT_C2R)
        };
        let (there, there_bytes) = plan(stream, shape, batch, there_type)?;
        let (back, back_bytes) = plan(stream, shape, batch, back_type)?;
        let work = Buffer::new(stream, there_bytes.max(back_bytes))?;
        for handle in [&there, &back] {
            // SAFETY: the handle is live, and the area is as large as either plan said and lives as long as they do.
            unsafe { result::set_work_area(handle.0, work.address(stream).at as *mut _) }?;
        }
        let reals = shape.iter().product::<usize>() * batch;
        Ok(Transforms { there, back, _work: work, double, reals, complexes: spectrum(shape) * batch })
    }

    /// Goes into another stream from now on, of the same device.
    ///
    /// # Errors
    /// cuFFT's.
    pub fn follow(&self, stream: &Stream) -> Result<(), Fault> {
        for handle in [&self.there, &self.back] {
            // SAFETY: the handle is live, and so is the stream while it is computed in.
            unsafe { result::set_stream(handle.0, stream.raw().cast()) }?;
        }
        Ok(())
    }

    fn check(&self, reals: Address, complexes: Address) -> Result<(), Fault> {
        let size = if self.double { 8 } else { 4 };
        if reals.bytes < self.reals * size || complexes.bytes < self.complexes * 2 * size {
            return Err(Fault::new("transform", "a buffer that is too short"));
        }
        Ok(())
    }

    /// From samples to spectra.
    ///
    /// # Errors
    /// A buffer that is too short, or cuFFT's.
    pub fn there(&self, from: Address, to: Address) -> Result<(), Fault> {
        self.check(from, to)?;
        // SAFETY: both addresses hold what the plan needs, by the check; the stream orders them with kernels.
        unsafe {
            if self.double {
                result::exec_d2z(self.there.0, from.at as *mut _, to.at as *mut _)
            } else {
                result::exec_r2c(self.there.0, from.at as *mut _, to.at as *mut _)
            }
        }?;
        Ok(())
    }

    /// From spectra, which are lost, to samples times the number of them.
    ///
    /// # Errors
    /// A buffer that is too short, or cuFFT's.
    pub fn back(&self, from: Address, to: Address) -> Result<(), Fault> {
        self.check(to, from)?;
        // SAFETY: as above.
        unsafe {
            if self.double {
                result::exec_z2d(self.back.0, from.at as *mut _, to.at as *mut _)
            } else {
                result::exec_c2r(self.back.0, from.at as *mut _, to.at as *mut _)
            }
        }?;
        Ok(())
    }
}

fn plan(stream: &Stream, shape: [usize; 3], batch: usize, kind: sys::cufftType) -> Result<(Handle, usize), Fault> {
    let axes = shape.iter().skip_while(|side| **side == 1).count().max(1);
    let mut sides: Vec<i32> = shape[3 - axes..].iter().map(|&side| side as i32).collect();
    let handle = Handle(result::create()?);
    let null = std::ptr::null_mut();
    // SAFETY: the handle is live; null layouts are dense ones; `sides` has as many entries as axes; the stream is live.
    let bytes = unsafe {
        result::set_auto_allocation(handle.0, false)?;
        let bytes = result::make_plan_many(
            handle.0,
            axes as i32,
            sides.as_mut_ptr(),
            null,
            1,
            0,
            null,
            1,
            0,
            kind,
            batch as i32,
        )?;
        result::set_stream(handle.0, stream.raw().cast())?;
        bytes
    };
    Ok((handle, bytes))
}
