//! A result with its shape.

use crate::dtype::{DType, Pixels};
use crate::error::SpecError;
use crate::extent::Region;
use crate::measure::Best;
use crate::shape::Shape;
use crate::spec::Spec;
use crate::view::{AnyView, AnyViewMut, AsImage, ViewMut};

/// The result for one image and one template: row-major, with the place that it has in the full result, with what is
/// best in it and with the template's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreMap {
    region: Region,
    data: Pixels,
    best: Best,
    template: Option<Shape>,
}

impl ScoreMap {
    /// Zeros, to be filled with the result of a spec.
    pub fn of(spec: &Spec) -> ScoreMap {
        ScoreMap::zeros(spec.region(), spec.out_type()).with_best(spec.op().best()).with_template(spec.template())
    }

    /// Zeros of a type, f32 or f64, for a region of the full result. The largest is best.
    pub fn zeros(region: Region, dtype: DType) -> ScoreMap {
        let len = region.shape.len();
        let data = if dtype == DType::F64 { Pixels::F64(vec![0.0; len]) } else { Pixels::F32(vec![0.0; len]) };
        ScoreMap { region, data, best: Best::Largest, template: None }
    }

    /// Values that are already there. The largest is best.
    ///
    /// # Errors
    /// Too few or too many values, or integers.
    pub fn new(region: Region, data: Pixels) -> Result<ScoreMap, SpecError> {
        if data.dtype().is_integer() {
            return Err(SpecError::new("scores", "f32 or f64", data.dtype()));
        }
        if data.len() != region.shape.len() {
            return Err(SpecError::new("scores", format!("{} values", region.shape.len()), data.len()));
        }
        Ok(ScoreMap { region, data, best: Best::Largest, template: None })
    }

    /// The same values, of which these are best.
    pub fn with_best(self, best: Best) -> ScoreMap {
        ScoreMap { best, ..self }
    }

    /// The same values, of a template of this shape.
    pub fn with_template(self, template: Shape) -> ScoreMap {
        ScoreMap { template: Some(template), ..self }
    }

    /// The template's shape: of a map that was computed, what the spec says; none of values that were there already.
    pub fn template(&self) -> Option<Shape> {
        self.template
    }

    /// Which values are best: of a map that was computed, what the measure says.
    pub fn best(&self) -> Best {
        self.best
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.region.shape
    }

    /// Where it lies in the full result.
    pub fn region(&self) -> Region {
        self.region
    }

    /// The values, row-major.
    pub fn data(&self) -> &Pixels {
        &self.data
    }

    /// The values, row-major.
    pub fn into_data(self) -> Pixels {
        self.data
    }

    /// A value by flat index.
    #[inline]
    pub fn get(&self, index: usize) -> f64 {
        match &self.data {
            Pixels::F32(data) => f64::from(data[index]),
            Pixels::F64(data) => data[index],
            _ => f64::NAN,
        }
    }

    /// A view to read.
    pub fn view(&self) -> AnyView<'_> {
        AnyView::dense(&self.data, self.region.shape, 1).expect("the map holds its shape")
    }

    /// A view to write.
    pub fn view_mut(&mut self) -> AnyViewMut<'_> {
        let shape = self.region.shape;
        match &mut self.data {
            Pixels::F32(data) => ViewMut::new(data, shape).expect("the map holds its shape").into(),
            Pixels::F64(data) => ViewMut::new(data, shape).expect("the map holds its shape").into(),
            _ => unreachable!("a map holds floats, checked when it was made"),
        }
    }
}

impl AsImage for ScoreMap {
    fn as_image(&self) -> AnyView<'_> {
        self.view()
    }
}
