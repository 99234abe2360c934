//! An image that owns its samples.

use crate::dtype::{DType, Pixel, Pixels};
use crate::error::SpecError;
use crate::shape::Shape;
use crate::view::{AnyView, AsImage};

/// Samples of one type with a shape and channels, row-major, the channels of each pixel side by side.
///
/// ```
/// use flcc_core::image::Image;
/// use flcc_core::shape::Shape;
///
/// let image = Image::new(vec![1u8, 2, 3, 4, 5, 6], Shape::new(&[2, 3])?)?;
/// let right = image.part([0, 1], Shape::new(&[2, 2])?)?;
/// assert_eq!(right.view().to_f64(), [2.0, 3.0, 5.0, 6.0]);
/// # Ok::<(), flcc_core::error::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    pixels: Pixels,
    shape: Shape,
    channels: usize,
}

impl Image {
    /// An image of one channel.
    ///
    /// # Errors
    /// Too few or too many samples for the shape.
    pub fn new<P: Pixel>(samples: Vec<P>, shape: Shape) -> Result<Image, SpecError> {
        Image::of(P::pixels(samples), shape, 1)
    }

    /// An image of samples whose type is known at run time, with so many channels.
    ///
    /// # Errors
    /// No channels, or too few or too many samples.
    pub fn of(pixels: Pixels, shape: Shape, channels: usize) -> Result<Image, SpecError> {
        AnyView::dense(&pixels, shape, channels)?;
        Ok(Image { pixels, shape, channels })
    }

    /// A view of all of it.
    pub fn view(&self) -> AnyView<'_> {
        AnyView::dense(&self.pixels, self.shape, self.channels).expect("it was checked when it was made")
    }

    /// A copy of a part, whose origin is as that of [`View::part`](crate::view::View::part).
    ///
    /// # Errors
    /// A part that does not lie inside.
    pub fn part(&self, origin: impl AsRef<[usize]>, shape: Shape) -> Result<Image, SpecError> {
        Image::of(self.view().part(origin, shape)?.to_pixels(), shape, self.channels)
    }

    /// The pixel type.
    pub fn dtype(&self) -> DType {
        self.pixels.dtype()
    }

    /// The shape, without channels.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many channels there are.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The samples.
    pub fn pixels(&self) -> &Pixels {
        &self.pixels
    }

    /// The samples, without a copy.
    pub fn into_pixels(self) -> Pixels {
        self.pixels
    }
}

impl<'a> From<&'a Image> for AnyView<'a> {
    fn from(image: &'a Image) -> AnyView<'a> {
        image.view()
    }
}

impl AsImage for Image {
    fn as_image(&self) -> AnyView<'_> {
        self.view()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_what_its_view_says() {
        let shape = Shape::new(&[2, 2]).unwrap();
        let image = Image::of(Pixels::U16((0..8).collect()), shape, 2).unwrap();
        assert_eq!((image.dtype(), image.shape(), image.channels()), (DType::U16, shape, 2));
        assert_eq!(AnyView::from(&image).channel(1).to_f64(), [1.0, 3.0, 5.0, 7.0]);
        let part = image.part([0, 1, 0], Shape::new(&[1, 2]).unwrap()).unwrap();
        assert_eq!(part.into_pixels(), Pixels::U16(vec![4, 5, 6, 7]));
        assert_eq!(image.clone().into_pixels(), *image.pixels());
    }

    #[test]
    fn too_few_samples_and_parts_outside_are_refused() {
        let shape = Shape::new(&[2, 3]).unwrap();
        assert!(Image::new(vec![0f32; 5], shape).is_err());
        assert!(Image::of(Pixels::U8(vec![0; 6]), shape, 0).is_err());
        assert!(Image::new(vec![0f64; 6], shape).unwrap().part([0, 1, 1], shape).is_err());
    }
}
