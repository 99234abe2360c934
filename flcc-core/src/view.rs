//! Strided views of images and results: the only place where strides are checked.
//!
//! A view is a slice of samples with a shape, a stride for each axis and, for interleaved or planar colour, a stride
//! between channels. Holding one proves that every position of it lies in the slice.

use crate::dtype::{DType, Pixel, Pixels, Slice};
use crate::each_type;
use crate::error::{Kind, SpecError, counted};
use crate::shape::Shape;

/// Where the samples lie: element offsets of position `(z, y, x)` of channel `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    shape: Shape,
    offset: usize,
    strides: [isize; 3],
    channels: usize,
    channel_stride: isize,
}

impl Layout {
    /// Row-major without gaps; the channels of a pixel lie side by side.
    pub fn dense(shape: Shape, channels: usize) -> Layout {
        let [_, h, w] = shape.padded();
        let channels = channels.max(1);
        let step = channels as isize;
        let strides = [(h * w) as isize * step, w as isize * step, step];
        Layout { shape, offset: 0, strides, channels, channel_stride: 1 }
    }

    /// Any layout; `strides` belong to the axes of `shape`, in elements, and may be negative.
    ///
    /// # Errors
    /// A number of strides that is not the number of axes, or a position outside `len` elements.
    pub fn new(
        shape: Shape,
        offset: usize,
        strides: &[isize],
        channels: usize,
        channel_stride: isize,
        len: usize,
    ) -> Result<Layout, SpecError> {
        if strides.len() != shape.axes() {
            return Err(SpecError::new(
                "strides",
                format!("{} strides, one for each axis", shape.axes()),
                strides.len(),
            ));
        }
        if channels == 0 {
            return Err(SpecError::of(Kind::EmptyInput, "channels", "at least 1", 0));
        }
        let mut padded = [0; 3];
        padded[3 - strides.len()..].copy_from_slice(strides);
        let layout = Layout { shape, offset, strides: padded, channels, channel_stride };
        if !shape.is_empty() {
            let (low, high) = layout
                .reach()
                .ok_or_else(|| SpecError::new("strides", "offsets that fit in memory", format!("{strides:?}")))?;
            if low < 0 || high >= len as i128 {
                return Err(SpecError::new(
                    "strides",
                    format!("every position within {len} elements"),
                    format!("offsets {low} to {high}"),
                ));
            }
        }
        Ok(layout)
    }

    /// The lowest and highest element offset of any position.
    fn reach(&self) -> Option<(i128, i128)> {
        let steps = self.shape.padded().into_iter().zip(self.strides).chain([(self.channels, self.channel_stride)]);
        let (mut low, mut high) = (self.offset as i128, self.offset as i128);
        for (n, stride) in steps {
            let span = (n as i128 - 1).checked_mul(stride as i128)?;
            (low, high) = (low + span.min(0), high + span.max(0));
        }
        Some((low, high))
    }

    /// Whether two positions share an element. Strict: axes whose strides do not nest count as sharing.
    fn overlaps(&self) -> bool {
        let mut steps: Vec<(usize, u128)> = self
            .shape
            .padded()
            .into_iter()
            .zip(self.strides)
            .chain([(self.channels, self.channel_stride)])
            .filter(|(n, _)| *n > 1)
            .map(|(n, stride)| (n, stride.unsigned_abs() as u128))
            .collect();
        steps.sort_by_key(|&(_, stride)| stride);
        let mut reach = 0u128;
        for (n, stride) in steps {
            if stride <= reach {
                return true;
            }
            reach += (n as u128 - 1) * stride;
        }
        false
    }

    /// The shape, without channels.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many channels a position has.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The strides of the axes, ones that do not exist in front, and of the channels, in elements.
    pub fn strides(&self) -> ([isize; 3], isize) {
        (self.strides, self.channel_stride)
    }

    /// The stride between samples of a row.
    pub fn row_step(&self) -> isize {
        self.strides[2]
    }

    /// The element offset of a position, which must lie in the shape.
    #[inline]
    pub fn offset(&self, position: [usize; 3], channel: usize) -> usize {
        let [z, y, x] = position;
        let moved = z as isize * self.strides[0]
            + y as isize * self.strides[1]
            + x as isize * self.strides[2]
            + channel as isize * self.channel_stride;
        (self.offset as isize + moved) as usize
    }

    /// Where the samples begin, if they lie row-major without gaps, the channels of a pixel side by side.
    pub fn dense_at(&self) -> Option<usize> {
        let dense = Layout::dense(self.shape, self.channels);
        // The stride of an axis of one sample moves nothing.
        let lengths = self.shape.padded().into_iter().chain([self.channels]);
        let strides = |layout: &Layout| layout.strides.into_iter().chain([layout.channel_stride]);
        let same = lengths.zip(strides(self).zip(strides(&dense))).all(|(n, (own, wanted))| n <= 1 || own == wanted);
        same.then_some(self.offset)
    }

    /// One channel of it.
    fn channel(&self, channel: usize) -> Layout {
        assert!(channel < self.channels, "channel {channel} of {}", self.channels);
        Layout { offset: self.offset([0; 3], channel), channels: 1, channel_stride: 0, ..*self }
    }

    /// A part of it. `origin` has a number for each axis, or three with zeros in front.
    fn part(&self, origin: &[usize], shape: Shape) -> Result<Layout, SpecError> {
        let (whole, inner, axes) = (self.shape.padded(), shape.padded(), self.shape.axes());
        if origin.len() != axes && origin.len() != 3 {
            let got = format!("{origin:?}");
            return Err(SpecError::new("part", format!("an origin of {axes} or 3 numbers for {}", self.shape), got));
        }
        let mut padded = [0; 3];
        padded[3 - origin.len()..].copy_from_slice(origin);
        let origin = padded;
        if shape.axes() != self.shape.axes()
            || (0..3).any(|axis| origin[axis].checked_add(inner[axis]).is_none_or(|end| end > whole[axis]))
        {
            return Err(SpecError::new("part", format!("a part of {}", self.shape), format!("{shape} at {origin:?}")));
        }
        let offset = if shape.is_empty() { self.offset } else { self.offset(origin, 0) };
        Ok(Layout { shape, offset, ..*self })
    }
}

/// Samples to read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, P> {
    data: &'a [P],
    layout: Layout,
}

impl<'a, P: Copy> View<'a, P> {
    /// Row-major samples without gaps.
    ///
    /// # Errors
    /// A slice that is not exactly as long as the shape.
    pub fn new(data: &'a [P], shape: Shape) -> Result<View<'a, P>, SpecError> {
        View::interleaved(data, shape, 1)
    }

    /// Row-major samples, the channels of each pixel side by side.
    ///
    /// # Errors
    /// A slice that is not exactly as long as shape times channels.
    pub fn interleaved(data: &'a [P], shape: Shape, channels: usize) -> Result<View<'a, P>, SpecError> {
        if shape.len().checked_mul(channels) != Some(data.len()) {
            return Err(SpecError::new(
                "samples",
                format!("{} for {shape} with {}", shape.len().saturating_mul(channels), counted(channels, "channel")),
                data.len(),
            ));
        }
        let strides = Layout::dense(shape, channels).strides;
        let layout = Layout::new(shape, 0, &strides[3 - shape.axes()..], channels, 1, data.len())?;
        Ok(View { data, layout })
    }

    /// Samples at any strides (in elements, negative ones too), the first at `offset`.
    ///
    /// # Errors
    /// As [`Layout::new`].
    pub fn strided(data: &'a [P], offset: usize, shape: Shape, strides: &[isize]) -> Result<View<'a, P>, SpecError> {
        View::strided_channels(data, offset, shape, strides, 1, 0)
    }

    /// As [`View::strided`], with several channels a pixel.
    ///
    /// # Errors
    /// As [`Layout::new`].
    pub fn strided_channels(
        data: &'a [P],
        offset: usize,
        shape: Shape,
        strides: &[isize],
        channels: usize,
        channel_stride: isize,
    ) -> Result<View<'a, P>, SpecError> {
        Ok(View { data, layout: Layout::new(shape, offset, strides, channels, channel_stride, data.len())? })
    }

    /// Where the samples lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The shape, without channels.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// How many channels there are.
    pub fn channels(&self) -> usize {
        self.layout.channels
    }

    /// One channel.
    pub fn channel(&self, channel: usize) -> View<'a, P> {
        View { data: self.data, layout: self.layout.channel(channel) }
    }

    /// A part, without a copy. Its origin has a number for each axis, slowest first, as [`Peak::position`] has:
    /// `[y, x]` in an image, `[x]` on a line; three numbers with zeros in front serve as well.
    ///
    /// # Errors
    /// A part that does not lie inside.
    ///
    /// [`Peak::position`]: crate::peaks::Peak::position
    pub fn part(&self, origin: impl AsRef<[usize]>, shape: Shape) -> Result<View<'a, P>, SpecError> {
        Ok(View { data: self.data, layout: self.layout.part(origin.as_ref(), shape)? })
    }

    /// The sample at a position of the first channel.
    #[inline]
    pub fn at(&self, position: [usize; 3]) -> P {
        self.data[self.layout.offset(position, 0)]
    }

    /// `count` samples of the first channel along a row from `(z, y, x)`: a slice where they lie side by side.
    #[inline]
    pub fn row(&self, z: usize, y: usize, x: usize, count: usize) -> Row<'a, P> {
        if count == 0 {
            return Row::Slice(&[]);
        }
        let first = self.layout.offset([z, y, x], 0);
        match self.layout.strides[2] {
            1 => Row::Slice(&self.data[first..first + count]),
            step => Row::Strided { data: self.data, first, step, count },
        }
    }

    /// The elements from a position of the first channel to the last that the view was made of, as they lie in memory.
    pub fn from_position(&self, position: [usize; 3]) -> &'a [P] {
        &self.data[self.layout.offset(position, 0)..]
    }

    /// Every sample, row-major, channels fastest, where they lie so in memory.
    pub fn as_dense(&self) -> Option<&'a [P]> {
        let begin = self.layout.dense_at()?;
        Some(&self.data[begin..begin + self.shape().len() * self.channels()])
    }

    /// Every sample, row-major, channels fastest.
    pub fn to_vec(&self) -> Vec<P> {
        let shape = self.shape();
        let mut all = Vec::with_capacity(shape.len() * self.channels());
        for index in 0..shape.len() {
            let position = shape.position(index);
            all.extend((0..self.channels()).map(|channel| self.data[self.layout.offset(position, channel)]));
        }
        all
    }
}

/// Samples along a row.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a, P> {
    /// They lie side by side.
    Slice(&'a [P]),
    /// They lie `step` elements apart.
    Strided {
        /// The elements of the view.
        data: &'a [P],
        /// Offset of the first sample.
        first: usize,
        /// Elements from one to the next.
        step: isize,
        /// How many there are.
        count: usize,
    },
}

impl<P: Copy> Row<'_, P> {
    /// Calls `f` with the index and value of each sample.
    #[inline(always)]
    pub fn for_each(&self, mut f: impl FnMut(usize, P)) {
        match *self {
            Row::Slice(samples) => samples.iter().enumerate().for_each(|(i, &value)| f(i, value)),
            Row::Strided { data, first, step, count } => {
                (0..count).for_each(|i| f(i, data[(first as isize + i as isize * step) as usize]))
            }
        }
    }

    /// Writes `map` of each sample to `out`, which is as long.
    #[inline(always)]
    pub fn map_into<Q>(&self, out: &mut [Q], map: impl Fn(P) -> Q) {
        match *self {
            Row::Slice(samples) => out.iter_mut().zip(samples).for_each(|(out, &value)| *out = map(value)),
            Row::Strided { data, first, step, count } => {
                out[..count]
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, out)| *out = map(data[(first as isize + i as isize * step) as usize]));
            }
        }
    }
}

/// A view whose pixel type is known at run time.
#[derive(Clone, Copy, Debug)]
pub enum AnyView<'a> {
    /// 8-bit samples.
    U8(View<'a, u8>),
    /// 16-bit samples.
    U16(View<'a, u16>),
    /// Single-precision samples.
    F32(View<'a, f32>),
    /// Double-precision samples.
    F64(View<'a, f64>),
}

impl<'a> AnyView<'a> {
    /// Row-major samples without gaps, the channels of each pixel side by side.
    ///
    /// # Errors
    /// Too few or too many samples.
    pub fn dense(pixels: &'a Pixels, shape: Shape, channels: usize) -> Result<AnyView<'a>, SpecError> {
        each_type!(Pixels, pixels, data => View::interleaved(data, shape, channels).map(AnyView::from))
    }

    /// The pixel type.
    pub fn dtype(&self) -> DType {
        match self {
            AnyView::U8(_) => DType::U8,
            AnyView::U16(_) => DType::U16,
            AnyView::F32(_) => DType::F32,
            AnyView::F64(_) => DType::F64,
        }
    }

    /// The shape, without channels.
    pub fn shape(&self) -> Shape {
        each_type!(AnyView, self, view => view.shape())
    }

    /// How many channels there are.
    pub fn channels(&self) -> usize {
        each_type!(AnyView, self, view => view.channels())
    }

    /// One channel.
    pub fn channel(&self, channel: usize) -> AnyView<'a> {
        each_type!(AnyView, self, view => view.channel(channel).into())
    }

    /// A part, without a copy, as [`View::part`].
    ///
    /// # Errors
    /// A part that does not lie inside.
    pub fn part(&self, origin: impl AsRef<[usize]>, shape: Shape) -> Result<AnyView<'a>, SpecError> {
        let origin = origin.as_ref();
        Ok(each_type!(AnyView, self, view => view.part(origin, shape)?.into()))
    }

    /// The sample at a position of the first channel, exactly.
    #[inline]
    pub fn at(&self, position: [usize; 3]) -> f64 {
        each_type!(AnyView, self, view => view.at(position).to_f64())
    }

    /// A copy of every sample, row-major, channels fastest.
    pub fn to_pixels(&self) -> Pixels {
        each_type!(AnyView, self, view => Pixel::pixels(view.to_vec()))
    }

    /// Every sample as `f64`, row-major, channels fastest.
    pub fn to_f64(&self) -> Vec<f64> {
        each_type!(AnyView, self, view => view.to_vec().into_iter().map(Pixel::to_f64).collect())
    }
}

impl<'a, P: Pixel> From<View<'a, P>> for AnyView<'a> {
    fn from(view: View<'a, P>) -> AnyView<'a> {
        let layout = view.layout;
        match P::slice(view.data) {
            Slice::U8(data) => AnyView::U8(View { data, layout }),
            Slice::U16(data) => AnyView::U16(View { data, layout }),
            Slice::F32(data) => AnyView::F32(View { data, layout }),
            Slice::F64(data) => AnyView::F64(View { data, layout }),
        }
    }
}

/// Samples to write. No two positions share an element.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    data: &'a mut [T],
    layout: Layout,
}

impl<'a, T> ViewMut<'a, T> {
    /// Row-major samples without gaps.
    ///
    /// # Errors
    /// A slice that is not exactly as long as the shape.
    pub fn new(data: &'a mut [T], shape: Shape) -> Result<ViewMut<'a, T>, SpecError> {
        if shape.len() != data.len() {
            return Err(SpecError::new("output", format!("{} samples for {shape}", shape.len()), data.len()));
        }
        Ok(ViewMut { data, layout: Layout::dense(shape, 1) })
    }

    /// Samples at any strides, the first at `offset`.
    ///
    /// # Errors
    /// As [`Layout::new`], or positions that share an element.
    pub fn strided(
        data: &'a mut [T],
        offset: usize,
        shape: Shape,
        strides: &[isize],
    ) -> Result<ViewMut<'a, T>, SpecError> {
        let layout = Layout::new(shape, offset, strides, 1, 0, data.len())?;
        if layout.overlaps() {
            return Err(SpecError::new(
                "output strides",
                "positions that share no element",
                format!("{strides:?} for {shape}"),
            ));
        }
        Ok(ViewMut { data, layout })
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Where the samples lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Every position, row-major, where they lie so in memory.
    pub fn as_dense_mut(&mut self) -> Option<&mut [T]> {
        let begin = self.layout.dense_at()?;
        let len = self.layout.shape.len();
        Some(&mut self.data[begin..begin + len])
    }

    /// All elements, those between the positions too, and the layout of the positions in them.
    pub fn parts(&mut self) -> (&mut [T], &Layout) {
        (self.data, &self.layout)
    }
}

/// A view to write whose type is known at run time: results are `f32` or `f64`.
#[derive(Debug)]
pub enum AnyViewMut<'a> {
    /// Single-precision results.
    F32(ViewMut<'a, f32>),
    /// Double-precision results.
    F64(ViewMut<'a, f64>),
}

impl AnyViewMut<'_> {
    /// The type of the samples.
    pub fn dtype(&self) -> DType {
        match self {
            AnyViewMut::F32(_) => DType::F32,
            AnyViewMut::F64(_) => DType::F64,
        }
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        match self {
            AnyViewMut::F32(view) => view.shape(),
            AnyViewMut::F64(view) => view.shape(),
        }
    }
}

impl<'a> From<ViewMut<'a, f32>> for AnyViewMut<'a> {
    fn from(view: ViewMut<'a, f32>) -> AnyViewMut<'a> {
        AnyViewMut::F32(view)
    }
}

impl<'a> From<ViewMut<'a, f64>> for AnyViewMut<'a> {
    fn from(view: ViewMut<'a, f64>) -> AnyViewMut<'a> {
        AnyViewMut::F64(view)
    }
}

/// What can be looked at as an image: views of any pixel type, images that own their samples, score maps (of f32 or
/// f64), and references to these. A type of one's own that owns samples implements it in one line, by a [`View`] of
/// them.
///
/// ```
/// use flcc_core::shape::Shape;
/// use flcc_core::view::{AnyView, AsImage, View};
///
/// struct Frame([u8; 6]);
///
/// impl AsImage for Frame {
///     fn as_image(&self) -> AnyView<'_> {
///         View::new(&self.0, Shape::new(&[2, 3]).unwrap()).unwrap().into()
///     }
/// }
/// assert_eq!(Frame([1, 2, 3, 4, 5, 6]).as_image().at([0, 1, 0]), 4.0);
/// ```
pub trait AsImage {
    /// The view.
    fn as_image(&self) -> AnyView<'_>;
}

impl AsImage for AnyView<'_> {
    fn as_image(&self) -> AnyView<'_> {
        *self
    }
}

impl<P: Pixel> AsImage for View<'_, P> {
    fn as_image(&self) -> AnyView<'_> {
        (*self).into()
    }
}

impl<T: AsImage> AsImage for &T {
    fn as_image(&self) -> AnyView<'_> {
        (*self).as_image()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(lengths: &[usize]) -> Shape {
        Shape::new(lengths).unwrap()
    }

    #[test]
    fn strides_of_any_sign_read_what_they_say() {
        let data: Vec<u8> = (0..24).collect();
        let flipped = View::strided(&data, 23, shape(&[4, 6]), &[-6, -1]).unwrap();
        assert_eq!(flipped.to_vec(), (0..24).rev().collect::<Vec<u8>>());
        let transposed = View::strided(&data, 0, shape(&[6, 4]), &[1, 6]).unwrap();
        assert_eq!(transposed.at([0, 2, 3]), 20);
        let broadcast = View::strided(&data, 5, shape(&[3, 3]), &[0, 0]).unwrap();
        assert_eq!(broadcast.to_vec(), [5; 9]);
        let mut row = [0; 2];
        transposed.row(0, 2, 1, 2).map_into(&mut row, |value| value);
        assert_eq!(row, [8, 14]);
    }

    #[test]
    fn colours_come_apart() {
        let data: Vec<u8> = (0..12).collect();
        let image = View::interleaved(&data, shape(&[2, 2]), 3).unwrap();
        assert_eq!(image.channel(1).to_vec(), [1, 4, 7, 10]);
        assert_eq!(image.part([0, 1, 0], shape(&[1, 2])).unwrap().channel(2).to_vec(), [8, 11]);
        assert_eq!(image.part(vec![1, 0], shape(&[1, 2])).unwrap().channel(2).to_vec(), [8, 11]);
        let refused = image.part([1], shape(&[1, 2])).unwrap_err().to_string();
        assert_eq!(refused, "part: expected an origin of 2 or 3 numbers for 2x2, got [1]");
        assert!(image.part([0, 0, 0, 0], shape(&[1, 2])).is_err() && image.part([1, 1], shape(&[1, 2])).is_err());
    }

    #[test]
    fn positions_outside_are_refused() {
        let data = [0u8; 24];
        assert!(View::new(&data, shape(&[5, 5])).is_err());
        assert!(View::strided(&data, 0, shape(&[4, 6]), &[7, 1]).is_err());
        assert!(View::strided(&data, 0, shape(&[4, 6]), &[-6, 1]).is_err());
        assert!(View::strided(&data, 0, shape(&[4, 6]), &[isize::MAX, 1]).is_err());
        assert!(View::strided(&data, 0, shape(&[4, 6]), &[6]).is_err());
        assert!(View::strided(&data, 30, shape(&[1]), &[1]).is_err());
    }

    #[test]
    fn an_output_shares_no_element() {
        let mut data = [0f32; 24];
        assert!(ViewMut::strided(&mut data, 0, shape(&[4, 6]), &[6, 1]).is_ok());
        assert!(ViewMut::strided(&mut data, 0, shape(&[6, 4]), &[1, 6]).is_ok());
        assert!(ViewMut::strided(&mut data, 0, shape(&[4, 6]), &[5, 1]).is_err());
        assert!(ViewMut::strided(&mut data, 0, shape(&[4, 6]), &[0, 1]).is_err());
        assert!(ViewMut::strided(&mut data, 23, shape(&[2, 12]), &[-12, -1]).is_ok());
    }
}
