//! Pixel types: one row a type, with its names, its size and how far integers of it reach.
//!
//! Values go through `f64`, which holds every value of every type exactly.

use std::fmt;
use std::str::FromStr;

use crate::error::SpecError;

/// A pixel type. Ordered by what holds what: each holds all values of the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// 8-bit unsigned, 0 to 255.
    U8,
    /// 16-bit unsigned, 0 to 65535.
    U16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

/// What the rest of the program asks about a type.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The type.
    pub dtype: DType,
    /// Its name in specs, kernel names and messages.
    pub name: &'static str,
    /// Its name in generated C.
    pub c_name: &'static str,
    /// Bytes of one pixel.
    pub size: usize,
    /// The largest value of an integer type; `None` for floats.
    pub max: Option<u32>,
    /// Half the distance from 1 to the next number, for floats.
    pub unit_roundoff: Option<f64>,
}

/// The table of pixel types, in the order of [`DType`].
pub const TYPES: [Row; 4] = [
    Row { dtype: DType::U8, name: "u8", c_name: "unsigned char", size: 1, max: Some(255), unit_roundoff: None },
    Row { dtype: DType::U16, name: "u16", c_name: "unsigned short", size: 2, max: Some(65535), unit_roundoff: None },
    Row {
        dtype: DType::F32,
        name: "f32",
        c_name: "float",
        size: 4,
        max: None,
        unit_roundoff: Some(f32::EPSILON as f64 / 2.0),
    },
    Row {
        dtype: DType::F64,
        name: "f64",
        c_name: "double",
        size: 8,
        max: None,
        unit_roundoff: Some(f64::EPSILON / 2.0),
    },
];

impl DType {
    /// This type's row of [`TYPES`].
    pub fn row(self) -> &'static Row {
        &TYPES[self as usize]
    }

    /// Its name: `u8`, `u16`, `f32` or `f64`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether it holds integers.
    pub fn is_integer(self) -> bool {
        self.row().max.is_some()
    }

    /// The type as one of results.
    ///
    /// # Errors
    /// An integer type.
    pub fn of_results(self) -> Result<DType, SpecError> {
        if self.is_integer() { Err(SpecError::new("output type", "f32 or f64", self)) } else { Ok(self) }
    }

    /// The smallest type that holds every value of both: `u8 < u16 < f32 < f64`.
    pub fn join(self, other: DType) -> DType {
        self.max(other)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<DType, SpecError> {
        TYPES
            .iter()
            .find(|row| row.name == text)
            .map(|row| row.dtype)
            .ok_or_else(|| SpecError::new("pixel type", "u8, u16, f32 or f64", text))
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A type that an image or a template may have.
pub trait Pixel: sealed::Sealed + Copy + Default + Send + Sync + PartialEq + PartialOrd + fmt::Debug + 'static {
    /// Its row in the table.
    const DTYPE: DType;
    /// Its value, exactly.
    fn to_f64(self) -> f64;
    /// The nearest value of this type: integers round half away from zero and saturate, NaN becomes 0 there.
    fn from_f64(value: f64) -> Self;
    /// Its value as `f32`, rounded once (exact but for `f64`).
    fn to_f32(self) -> f32;
    /// Wraps borrowed samples, so that types can be told apart at run time.
    fn slice(data: &[Self]) -> Slice<'_>;
    /// Wraps owned samples.
    fn pixels(data: Vec<Self>) -> Pixels;
}

macro_rules! pixel {
    ($type:ty, $variant:ident, $value:ident => $from:expr) => {
        impl Pixel for $type {
            const DTYPE: DType = DType::$variant;
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_f64($value: f64) -> Self {
                $from
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
            fn slice(data: &[Self]) -> Slice<'_> {
                Slice::$variant(data)
            }
            fn pixels(data: Vec<Self>) -> Pixels {
                Pixels::$variant(data)
            }
        }
    };
}

pixel!(u8, U8, value => value.round() as u8);
pixel!(u16, U16, value => value.round() as u16);
pixel!(f32, F32, value => value as f32);
pixel!(f64, F64, value => value);

/// Borrowed samples of any type, without a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slice<'a> {
    /// 8-bit samples.
    U8(&'a [u8]),
    /// 16-bit samples.
    U16(&'a [u16]),
    /// Single-precision samples.
    F32(&'a [f32]),
    /// Double-precision samples.
    F64(&'a [f64]),
}

/// Owned samples of any type, without a shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Pixels {
    /// 8-bit samples.
    U8(Vec<u8>),
    /// 16-bit samples.
    U16(Vec<u16>),
    /// Single-precision samples.
    F32(Vec<f32>),
    /// Double-precision samples.
    F64(Vec<f64>),
}

/// Runs an expression with `$data` bound to the typed contents of a [`Pixels`], an [`AnyView`](crate::view::AnyView) or
/// any enum with the same four variants.
#[macro_export]
macro_rules! each_type {
    ($kind:ident, $value:expr, $data:ident => $body:expr) => {
        match $value {
            $crate::$kind::U8($data) => $body,
            $crate::$kind::U16($data) => $body,
            $crate::$kind::F32($data) => $body,
            $crate::$kind::F64($data) => $body,
        }
    };
}

impl Pixels {
    /// The type of the samples.
    pub fn dtype(&self) -> DType {
        match self {
            Pixels::U8(_) => DType::U8,
            Pixels::U16(_) => DType::U16,
            Pixels::F32(_) => DType::F32,
            Pixels::F64(_) => DType::F64,
        }
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        each_type!(Pixels, self, data => data.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every sample as `f64`, exactly.
    pub fn to_f64(&self) -> Vec<f64> {
        each_type!(Pixels, self, data => data.iter().map(|&value| value.to_f64()).collect())
    }

    /// The same samples as another type; exact when `dtype` holds this type's values.
    pub fn cast(&self, dtype: DType) -> Pixels {
        fn all<P: Pixel>(data: &Pixels) -> Pixels {
            P::pixels(each_type!(Pixels, data, data => data.iter().map(|&value| P::from_f64(value.to_f64())).collect()))
        }
        match dtype {
            DType::U8 => all::<u8>(self),
            DType::U16 => all::<u16>(self),
            DType::F32 => all::<f32>(self),
            DType::F64 => all::<f64>(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (i, row) in TYPES.iter().enumerate() {
            assert_eq!(row.dtype as usize, i);
            assert_eq!(row.name.parse::<DType>().unwrap(), row.dtype);
        }
    }

    #[test]
    fn a_join_holds_both() {
        assert_eq!(DType::U8.join(DType::U16), DType::U16);
        assert_eq!(DType::F64.join(DType::U8), DType::F64);
    }

    #[test]
    fn a_wider_cast_is_exact() {
        let bytes = Pixels::U8(vec![0, 7, 255]);
        assert_eq!(bytes.cast(DType::F32), Pixels::F32(vec![0.0, 7.0, 255.0]));
        assert_eq!(bytes.cast(DType::F64).cast(DType::U8), bytes);
    }
}
