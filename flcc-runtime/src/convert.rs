//! Views of other crates' arrays, without a copy: of ndarray with feature `ndarray`, of image buffers with feature
//! `image`.

use flcc_core::dtype::Pixel;
use flcc_core::error::SpecError;
use flcc_core::shape::Shape;
use flcc_core::view::View;
#[cfg(feature = "ndarray")]
use flcc_core::view::ViewMut;
#[cfg(feature = "ndarray")]
use ndarray::{ArrayRef, Dimension};

/// A view of an ndarray array or view of 1 to 3 axes, in any order of axes, whose elements lie in memory without gaps;
/// of a slice with gaps take [`View::strided`] of what it is a slice of.
///
/// # Errors
/// An array of more axes, or of none, or one with gaps.
#[cfg(feature = "ndarray")]
pub fn view_of<P: Pixel, D: Dimension>(array: &ArrayRef<P, D>) -> Result<View<'_, P>, SpecError> {
    let shape = Shape::new(array.shape())?;
    let data = array.as_slice_memory_order();
    match data {
        Some(data) => View::strided(data, first_offset(array.shape(), array.strides()), shape, array.strides()),
        None => Err(SpecError::new(
            "array",
            "elements without gaps in memory; take a view with View::strided, or to_owned()",
            format!("strides {:?}", array.strides()),
        )),
    }
}

/// A view to write of an ndarray array of 1 to 3 axes.
///
/// # Errors
/// As [`view_of`].
#[cfg(feature = "ndarray")]
pub fn view_mut_of<P: Pixel, D: Dimension>(array: &mut ArrayRef<P, D>) -> Result<ViewMut<'_, P>, SpecError> {
    let shape = Shape::new(array.shape())?;
    let strides = array.strides().to_vec();
    let offset = first_offset(array.shape(), &strides);
    match array.as_slice_memory_order_mut() {
        Some(data) => ViewMut::strided(data, offset, shape, &strides),
        None => Err(SpecError::new("array", "elements without gaps in memory", format!("strides {strides:?}"))),
    }
}

/// Where the first position lies among the elements in the order of memory: behind those of axes that run backwards.
#[cfg(feature = "ndarray")]
fn first_offset(shape: &[usize], strides: &[isize]) -> usize {
    shape
        .iter()
        .zip(strides)
        .map(|(&n, &stride)| if stride < 0 { n.saturating_sub(1) * stride.unsigned_abs() } else { 0 })
        .sum()
}

/// A view of an image buffer: colour as channels.
///
/// # Errors
/// A buffer that is not as long as its size says.
#[cfg(feature = "image")]
pub fn view_of_image<Px, P>(image: &image::ImageBuffer<Px, Vec<P>>) -> Result<View<'_, P>, SpecError>
where
    Px: image::Pixel<Subpixel = P>,
    P: Pixel,
{
    let shape = Shape::new(&[image.height() as usize, image.width() as usize])?;
    let channels = usize::from(Px::CHANNEL_COUNT);
    View::interleaved(&image.as_raw()[..shape.len() * channels], shape, channels)
}

#[cfg(all(test, feature = "image"))]
mod image_tests {
    use super::*;

    #[test]
    fn colours_are_channels() {
        let image = image::RgbImage::from_fn(5, 4, |x, y| image::Rgb([x as u8, y as u8, 7]));
        let view = view_of_image(&image).unwrap();
        assert_eq!((view.shape(), view.channels()), (Shape::new(&[4, 5]).unwrap(), 3));
        assert_eq!([0, 1, 2].map(|channel| view.channel(channel).at([0, 3, 2])), [2, 3, 7]);
        let grey =
            image::ImageBuffer::<image::Luma<u16>, _>::from_fn(5, 4, |x, y| image::Luma([(1000 * y + x) as u16]));
        assert_eq!(view_of_image(&grey).unwrap().at([0, 3, 2]), 3002);
    }
}

#[cfg(all(test, feature = "ndarray"))]
mod tests {
    use super::*;
    use ndarray::{Array2, Array3, s};

    #[test]
    fn arrays_of_any_order() {
        let array = Array2::from_shape_fn((4, 5), |(y, x)| (10 * y + x) as u8);
        assert_eq!(view_of(&array).unwrap().at([0, 2, 3]), 23);
        let transposed = array.t();
        assert_eq!(view_of(&transposed).unwrap().at([0, 3, 2]), 23);
        let flipped = array.slice(s![..;-1, ..]);
        assert_eq!(view_of(&flipped).unwrap().at([0, 0, 1]), 31);
        let mut out = Array3::<f32>::zeros((2, 3, 4));
        let mut view = view_mut_of(&mut out).unwrap();
        let (data, layout) = view.parts();
        data[layout.offset([1, 2, 3], 0)] = 7.0;
        assert_eq!(out[[1, 2, 3]], 7.0);
    }

    #[test]
    fn slices_without_gaps_alone() {
        let array = Array2::from_shape_fn((4, 5), |(y, x)| (10 * y + x) as u8);
        let rows = array.slice(s![1..3, ..]);
        assert_eq!(view_of(&rows).unwrap().at([0, 1, 4]), 24);
        let error = view_of(&array.slice(s![.., 1..4])).unwrap_err().to_string();
        assert!(
            error.starts_with("array: expected elements without gaps in memory; take")
                && error.ends_with("got strides [5, 1]"),
            "{error}"
        );
    }
}
