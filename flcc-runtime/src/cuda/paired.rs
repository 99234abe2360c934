//! Images with a template of their own each, as the schedule hands them to units.

use flcc_core::dtype::Pixel;
use flcc_core::view::{AnyView, AnyViewMut};

use crate::cuda::driver::staging::Target;

/// The template of an image, and where the result goes.
pub(crate) struct Paired<'a, 'o> {
    pub template: &'a AnyView<'a>,
    pub out: &'a mut AnyViewMut<'o>,
    /// The kernel of pairs does not serve it, by what it met.
    pub again: bool,
}

/// The samples of a template of such an image, which are floats.
pub(crate) fn taps(template: &AnyView<'_>) -> Vec<f32> {
    match template {
        AnyView::F32(view) => view.to_vec(),
        other => other.to_f64().into_iter().map(f32::from_f64).collect(),
    }
}

impl<'o> Target<'o> for Paired<'_, 'o> {
    fn target(&mut self) -> &mut AnyViewMut<'o> {
        self.out
    }
}
