//! An image that owns its samples.

use crate::dtype::{DType, Pixel, Pixels};
use crate::each_type;
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

    /// What a view shows, `factor` times smaller along each axis: means of blocks of so many samples a side, of the
    /// same type, with integers rounded to the nearest. The last block of an axis may have fewer samples; an axis of
    /// one sample stays.
    ///
    /// ```
    /// use flcc_core::{image::Image, shape::Shape};
    ///
    /// let image = Image::new(vec![1u8, 2, 9, 3, 4, 9], Shape::new(&[2, 3])?)?;
    /// assert_eq!(Image::shrunk(&image.view(), 2)?, Image::new(vec![3u8, 9], Shape::new(&[1, 2])?)?);
    /// # Ok::<(), flcc_core::error::SpecError>(())
    /// ```
    ///
    /// # Errors
    /// A factor of 0.
    pub fn shrunk(view: &AnyView<'_>, factor: usize) -> Result<Image, SpecError> {
        if factor == 0 {
            return Err(SpecError::new("factor", "1 or more", factor));
        }
        let lengths = view.shape().padded();
        let block = lengths.map(|length| if length > 1 { factor } else { 1 });
        let sides = [0, 1, 2].map(|axis| lengths[axis].div_ceil(block[axis]));
        let channels = view.channels();
        let mut means = vec![0.0; sides.iter().product::<usize>() * channels];
        for channel in 0..channels {
            each_type!(AnyView, view, view => {
                let view = view.channel(channel);
                for (z, y) in (0..lengths[0]).flat_map(|z| (0..lengths[1]).map(move |y| (z, y))) {
                    let row = (z / block[0] * sides[1] + y / block[1]) * sides[2];
                    let to = &mut means[row * channels..(row + sides[2]) * channels];
                    // Without a division for each sample.
                    let (mut at, mut left) = (channel, block[2]);
                    view.row(z, y, 0, lengths[2]).for_each(|_, sample| {
                        to[at] += sample.to_f64();
                        left -= 1;
                        if left == 0 {
                            (at, left) = (at + channels, block[2]);
                        }
                    });
                }
            });
        }
        // How many samples of an axis a block has.
        let samples = |axis: usize, at: usize| block[axis].min(lengths[axis] - at * block[axis]);
        let blocks = (0..sides[0]).flat_map(|z| (0..sides[1]).map(move |y| (z, y)));
        let mut rest = &mut means[..];
        for (z, y) in blocks {
            let (row, others) = rest.split_at_mut(sides[2] * channels);
            let of_row = (samples(0, z) * samples(1, y)) as f64;
            for (x, means) in row.chunks_exact_mut(channels).enumerate() {
                means.iter_mut().for_each(|mean| *mean /= of_row * samples(2, x) as f64);
            }
            rest = others;
        }
        Image::of(Pixels::F64(means).cast(view.dtype()), view.shape().with_padded(sides)?, channels)
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
    fn a_smaller_image_has_the_means_of_blocks() {
        let shape = Shape::new(&[1, 5, 7]).unwrap();
        let image = Image::of(Pixels::F32((0..70).map(|at| (at * at % 97) as f32).collect()), shape, 2).unwrap();
        let small = Image::shrunk(&image.view(), 3).unwrap();
        assert_eq!((small.shape(), small.channels(), small.dtype()), (Shape::new(&[1, 2, 3]).unwrap(), 2, DType::F32));
        for (y, x, channel) in (0..2).flat_map(|y| (0..3).flat_map(move |x| [(y, x, 0), (y, x, 1)])) {
            let of = |at: usize, end: usize| 3 * at..(3 * at + 3).min(end);
            let block = of(y, 5).flat_map(|row| of(x, 7).map(move |column| (row * 7 + column) * 2 + channel));
            let values: Vec<f64> = block.map(|at| (at * at % 97) as f64).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            assert!((small.view().channel(channel).at([0, y, x]) - mean).abs() < 1e-5, "{y} {x} {channel}");
        }
        assert_eq!(Image::shrunk(&image.view(), 1).unwrap(), image);
        assert!(Image::shrunk(&image.view(), 0).is_err());
        assert_eq!(Image::shrunk(&image.view(), 9).unwrap().shape(), Shape::new(&[1, 1, 1]).unwrap());
        // Rounded to the nearest, and read through strides.
        let bytes = Image::new(vec![0u8, 1, 1, 0, 3, 0], Shape::new(&[3, 2]).unwrap()).unwrap();
        assert_eq!(Image::shrunk(&bytes.view(), 2).unwrap().into_pixels(), Pixels::U8(vec![1, 2]));
    }

    #[test]
    fn too_few_samples_and_parts_outside_are_refused() {
        let shape = Shape::new(&[2, 3]).unwrap();
        assert!(Image::new(vec![0f32; 5], shape).is_err());
        assert!(Image::of(Pixels::U8(vec![0; 6]), shape, 0).is_err());
        assert!(Image::new(vec![0f64; 6], shape).unwrap().part([0, 1, 1], shape).is_err());
    }
}
