//! What is computed: operation, types, shapes, extent, boundary, mask and accuracy. No pixels, no machine.
//!
//! A [`Spec`] is checked once, when it is built, and has one text form, used by the bench, the tests, wisdom, logs and
//! bug reports:
//!
//! ```text
//! OP:TYPE[/TEMPLATETYPE][>OUTTYPE]:[N@]IMAGE*[N@]TEMPLATE:MODE[,OPTION...]
//! zncc:f32:2000x2000*16x16:valid
//! conv:u8:100x100x100*5x5x5:full,reflect
//! zncc:u8/f32>f64:0@480x640*12@32x32:valid,mask01,acc=exact
//! ```
//!
//! OP is conv, corr, ncc, zncc, ssd, nssd or sad. Sizes stand slowest axis first. `N@` says how many images or
//! templates there are; `0@` is a stream of images. OPTION is a boundary (`zero` is the default), `mask01` or `maskw`,
//! `roi=ORIGIN:SHAPE` in coordinates of the full result, `acc=fast` or `acc=exact`, `rank=R` (a known separable rank),
//! `pairs` (each image has a template of its own), `channels=C`.

use std::fmt;
use std::str::FromStr;

use crate::boundary::Boundary;
use crate::dtype::DType;
use crate::error::{Kind, SpecError};
use crate::extent::{Mode, Region};
use crate::frame::Frame;
use crate::op::Op;
use crate::shape::{self, Shape};

/// How much is promised about the error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Accuracy {
    /// The conditional tolerance of the conventions, nothing recomputed.
    Fast,
    /// Every coefficient within 1e-5 (f32 output) of the exact value: doubtful panels are recomputed.
    #[default]
    Promised,
    /// Integers: every sum exact, the same answer bit for bit by every method. Floats: f64 throughout.
    Exact,
}

/// What kind of weights the template carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MaskKind {
    /// None: every weight is 1.
    #[default]
    None,
    /// Weights 0 and 1.
    Binary,
    /// Any finite weights `>= 0`.
    Weights,
}

/// A checked problem. Build one with [`Spec::new`] and the `with_` methods, or parse its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    op: Op,
    image_type: DType,
    template_type: DType,
    out_type: DType,
    /// Its window is the template.
    frame: Frame,
    images: usize,
    templates: usize,
    channels: usize,
    boundary: Boundary,
    mask: MaskKind,
    accuracy: Accuracy,
    rank: Option<usize>,
    pairs: bool,
}

impl Spec {
    /// One image, one template, boundary zero, no mask; the output is f32, or f64 when image or template is.
    ///
    /// # Errors
    /// `empty_input`, `dims_mismatch`, or `template_larger_than_image` for mode valid.
    pub fn new(
        op: Op,
        image_type: DType,
        image: Shape,
        template_type: DType,
        template: Shape,
        mode: Mode,
    ) -> Result<Spec, SpecError> {
        Ok(Spec {
            op: op.canonical(),
            image_type,
            template_type,
            out_type: default_out(image_type, template_type),
            frame: Frame::new(image, template, mode)?,
            images: 1,
            templates: 1,
            channels: 1,
            boundary: Boundary::Zero,
            mask: MaskKind::None,
            accuracy: Accuracy::Promised,
            rank: None,
            pairs: false,
        })
    }

    /// The type of the result: f32 or f64.
    ///
    /// # Errors
    /// An integer type.
    pub fn with_out_type(self, out_type: DType) -> Result<Spec, SpecError> {
        Ok(Spec { out_type: out_type.of_results()?, ..self })
    }

    /// What lies outside the image. Mode valid never looks there, so its boundary is always written `zero`.
    ///
    /// # Errors
    /// A constant that is not finite, or not representable at accuracy exact.
    pub fn with_boundary(self, boundary: Boundary) -> Result<Spec, SpecError> {
        Spec { boundary: boundary.outside(self.mode())?, ..self }.checked()
    }

    /// Several images in one call; 0 for a stream of them.
    ///
    /// # Errors
    /// None today; the result is checked like every other.
    pub fn with_images(self, images: usize) -> Result<Spec, SpecError> {
        Spec { images, ..self }.checked()
    }

    /// Several templates of the one shape in one call.
    ///
    /// # Errors
    /// No template.
    pub fn with_templates(self, templates: usize) -> Result<Spec, SpecError> {
        if templates == 0 {
            return Err(SpecError::of(Kind::EmptyInput, "templates", "at least 1", 0));
        }
        Spec { templates, ..self }.checked()
    }

    /// Channels of image and template: one more summed index, with a mean per channel for zncc.
    ///
    /// # Errors
    /// No channel, more than 4096, or more samples than memory has addresses for.
    pub fn with_channels(self, channels: usize) -> Result<Spec, SpecError> {
        if channels == 0 || channels > 4096 {
            return Err(SpecError::new("channels", "1 to 4096", channels));
        }
        let most = isize::MAX as usize / 8;
        if self.image().len().max(self.template().len()).checked_mul(channels).is_none_or(|samples| samples > most) {
            return Err(SpecError::new("channels", format!("at most {most} samples over all channels"), channels));
        }
        Spec { channels, ..self }.checked()
    }

    /// Weights on the template. Convolution takes none.
    ///
    /// # Errors
    /// A mask for conv, or weights that are not 0 and 1 at accuracy exact for integers.
    pub fn with_mask(self, mask: MaskKind) -> Result<Spec, SpecError> {
        Spec { mask, ..self }.checked()
    }

    /// How much is promised.
    ///
    /// # Errors
    /// `NotExact`: what has no exact integer form.
    pub fn with_accuracy(self, accuracy: Accuracy) -> Result<Spec, SpecError> {
        Spec { accuracy, ..self }.checked()
    }

    /// A known separable rank of the templates, for the planner's estimate; it never changes a result.
    ///
    /// # Errors
    /// Rank 0.
    pub fn with_rank(self, rank: Option<usize>) -> Result<Spec, SpecError> {
        if rank == Some(0) {
            return Err(SpecError::new("rank", "at least 1", 0));
        }
        Spec { rank, ..self }.checked()
    }

    /// Whether each image has a template of its own, which is bound when the image comes: small windows of two frames.
    /// A plan then counts the binding; it never changes a result.
    ///
    /// # Errors
    /// Several templates.
    pub fn with_pairs(self, pairs: bool) -> Result<Spec, SpecError> {
        Spec { pairs, ..self }.checked()
    }

    /// A part of the mode's result, in coordinates of the full result.
    ///
    /// # Errors
    /// An empty part, or one that does not lie in what the mode computes.
    pub fn with_roi(self, roi: Option<Region>) -> Result<Spec, SpecError> {
        Spec { frame: self.frame.with_roi(roi)?, ..self }.checked()
    }

    /// The checks that need several fields.
    fn checked(self) -> Result<Spec, SpecError> {
        if self.pairs && self.templates != 1 {
            let expected = "one template, since each image has its own";
            return Err(SpecError::of(Kind::DimsMismatch, "pairs", expected, self.templates));
        }
        if self.mask != MaskKind::None && self.op == Op::Convolve {
            return Err(SpecError::new("mask", "no mask for conv (corr takes one)", "a mask"));
        }
        if self.accuracy == Accuracy::Exact && self.is_integer() {
            if self.mask == MaskKind::Weights {
                return Err(SpecError::of(
                    Kind::NotExact,
                    "mask",
                    "weights 0 and 1 at accuracy exact for integers",
                    "other weights",
                ));
            }
            if let Boundary::Constant(value) = self.boundary {
                let max = self.work_type().row().max.map_or(0.0, f64::from);
                if value.fract() != 0.0 || value < 0.0 || value > max {
                    return Err(SpecError::of(
                        Kind::NotExact,
                        "cval",
                        format!("an integer from 0 to {max} at accuracy exact for integers"),
                        value,
                    ));
                }
            }
        }
        Ok(self)
    }

    /// The operation.
    pub fn op(&self) -> Op {
        self.op
    }

    /// The type of the images.
    pub fn image_type(&self) -> DType {
        self.image_type
    }

    /// The type of the templates.
    pub fn template_type(&self) -> DType {
        self.template_type
    }

    /// The smallest type that holds image and template exactly: what the problem is computed as.
    pub fn work_type(&self) -> DType {
        self.image_type.join(self.template_type)
    }

    /// Whether image and template both hold integers, so that every sum is an exact integer.
    pub fn is_integer(&self) -> bool {
        self.work_type().is_integer()
    }

    /// The type of the result.
    pub fn out_type(&self) -> DType {
        self.out_type
    }

    /// The shape of each image, without channels.
    pub fn image(&self) -> Shape {
        self.frame.image()
    }

    /// The shape of each template, without channels.
    pub fn template(&self) -> Shape {
        self.frame.window()
    }

    /// How many images a call has; 0 for a stream.
    pub fn images(&self) -> usize {
        self.images
    }

    /// How many templates a call has.
    pub fn templates(&self) -> usize {
        self.templates
    }

    /// How many channels image and template have.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The mode: full, same or valid.
    pub fn mode(&self) -> Mode {
        self.frame.mode()
    }

    /// The part asked for, where it is less than the mode's whole.
    pub fn roi(&self) -> Option<Region> {
        self.frame.roi()
    }

    /// What is computed, in coordinates of the full result.
    pub fn region(&self) -> Region {
        self.frame.region()
    }

    /// What the mode alone would compute.
    pub fn mode_region(&self) -> Region {
        self.frame.mode_region()
    }

    /// The shape of each result.
    pub fn out_shape(&self) -> Shape {
        self.region().shape
    }

    /// What slides over what, without what is made of it.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// What lies outside the image.
    pub fn boundary(&self) -> Boundary {
        self.boundary
    }

    /// The kind of mask.
    pub fn mask(&self) -> MaskKind {
        self.mask
    }

    /// What is promised.
    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    /// A separable rank known beforehand.
    pub fn rank(&self) -> Option<usize> {
        self.rank
    }

    /// Whether each image has a template of its own.
    pub fn pairs(&self) -> bool {
        self.pairs
    }

    /// The same problem on images of another shape.
    ///
    /// # Errors
    /// What [`Spec::new`] refuses, or a region that no longer fits.
    pub fn with_image_shape(&self, image: Shape) -> Result<Spec, SpecError> {
        Spec { frame: self.frame.with_image(image)?, ..self.clone() }.checked()
    }

    /// Multiply-adds of a direct computation of one image and template.
    pub fn direct_operations(&self) -> f64 {
        self.out_shape().len() as f64 * self.template().len() as f64 * self.channels as f64
    }
}

/// f32, or f64 when image or template is.
fn default_out(image: DType, template: DType) -> DType {
    if image.join(template) == DType::F64 { DType::F64 } else { DType::F32 }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.op, self.image_type)?;
        if self.template_type != self.image_type {
            write!(f, "/{}", self.template_type)?;
        }
        if self.out_type != default_out(self.image_type, self.template_type) {
            write!(f, ">{}", self.out_type)?;
        }
        f.write_str(":")?;
        if self.images != 1 {
            write!(f, "{}@", self.images)?;
        }
        write!(f, "{}*", self.image())?;
        if self.templates != 1 {
            write!(f, "{}@", self.templates)?;
        }
        write!(f, "{}:{}", self.template(), self.mode())?;
        if self.boundary != Boundary::Zero {
            write!(f, ",{}", self.boundary)?;
        }
        match self.mask {
            MaskKind::None => {}
            MaskKind::Binary => f.write_str(",mask01")?,
            MaskKind::Weights => f.write_str(",maskw")?,
        }
        if let Some(roi) = self.roi() {
            write!(f, ",roi={roi}")?;
        }
        match self.accuracy {
            Accuracy::Fast => f.write_str(",acc=fast")?,
            Accuracy::Promised => {}
            Accuracy::Exact => f.write_str(",acc=exact")?,
        }
        if let Some(rank) = self.rank {
            write!(f, ",rank={rank}")?;
        }
        if self.pairs {
            f.write_str(",pairs")?;
        }
        if self.channels != 1 {
            write!(f, ",channels={}", self.channels)?;
        }
        Ok(())
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        const FORM: &str = "OP:TYPE[/TEMPLATETYPE][>OUTTYPE]:[N@]IMAGE*[N@]TEMPLATE:MODE[,OPTION...]";
        let wrong = || SpecError::new("spec", FORM, text);
        let missing = |what: &str, rest: &str| SpecError::new("spec", format!("{what}, as in {text}{rest}"), "none");
        let mut parts = text.splitn(4, ':');
        let (op, types, sizes, rest) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(op), Some(types), Some(sizes), Some(rest)) => (op, types, sizes, rest),
            (Some(_), Some(_), Some(sizes), None) if !sizes.contains('*') => {
                // A template of that many axes, no larger than the image.
                let template = counted(sizes)?.1.lengths().iter().map(|length| (*length).min(16)).collect::<Vec<_>>();
                let rest = format!("*{}:valid", shape::join(&template, "x"));
                return Err(missing("the template's size behind a '*', and a mode (full, same or valid)", &rest));
            }
            (Some(_), Some(_), Some(_), None) => {
                return Err(missing("a mode (full, same or valid) as the fourth field", ":valid"));
            }
            (Some(_), Some(_), None, _) => {
                return Err(missing("sizes, IMAGE*TEMPLATE, as the third field", ":2000x2000*16x16:valid"));
            }
            (Some(op), None, ..) if op.parse::<Op>().is_ok() => {
                return Err(missing("a pixel type as the second field", ":f32:2000x2000*16x16:valid"));
            }
            _ => return Err(wrong()),
        };
        let op: Op = op.parse()?;
        let (types, out_type) = match types.split_once('>') {
            Some((types, out)) => (types, Some(out.parse::<DType>()?)),
            None => (types, None),
        };
        let (image_type, template_type) = match types.split_once('/') {
            Some((image, template)) => (image.parse()?, template.parse()?),
            None => (types.parse()?, types.parse()?),
        };
        let (image, template) = sizes.split_once('*').ok_or_else(|| {
            SpecError::new("spec", "the template's size behind a '*', as in 2000x2000*16x16, in the third field", sizes)
        })?;
        let (images, image) = counted(image)?;
        let (templates, template) = counted(template)?;
        let (mode, options) = rest.split_once(',').map_or((rest, None), |(mode, options)| (mode, Some(options)));
        if let Some((first, option)) = mode.split_once(':').filter(|(first, _)| first.parse::<Mode>().is_ok()) {
            let expected = format!("full, same or valid, and options behind commas, as in {first},{option}");
            return Err(SpecError::new("mode", expected, mode));
        }
        let mut spec = Spec::new(op, image_type, image, template_type, template, mode.parse()?)?
            .with_images(images)?
            .with_templates(templates)?;
        if let Some(out_type) = out_type {
            spec = spec.with_out_type(out_type)?;
        }
        let mut remaining = options;
        while let Some(text) = remaining {
            let (option, rest) = next_option(text);
            remaining = rest;
            spec = apply(spec, option)?;
        }
        Ok(spec)
    }
}

/// `[N@]SHAPE`.
fn counted(text: &str) -> Result<(usize, Shape), SpecError> {
    match text.split_once('@') {
        Some((count, shape)) => {
            let count = count.parse().map_err(|_| SpecError::new("spec", "a number before '@'", text))?;
            Ok((count, shape.parse()?))
        }
        None => Ok((1, text.parse()?)),
    }
}

/// The option that a list begins with, and the rest. A roi holds commas of its own, up to its colon.
fn next_option(text: &str) -> (&str, Option<&str>) {
    let from = if text.starts_with("roi=") { text.find(':').unwrap_or(0) } else { 0 };
    match text[from..].find(',') {
        Some(comma) => (&text[..from + comma], Some(&text[from + comma + 1..])),
        None => (text, None),
    }
}

fn apply(spec: Spec, option: &str) -> Result<Spec, SpecError> {
    let number = |text: &str| text.parse::<usize>().map_err(|_| SpecError::new("spec", "a number after '='", option));
    match option.split_once('=') {
        None => match option {
            "mask01" => spec.with_mask(MaskKind::Binary),
            "maskw" => spec.with_mask(MaskKind::Weights),
            "pairs" => spec.with_pairs(true),
            _ => spec.with_boundary(option.parse().map_err(|error: SpecError| {
                if error.argument == "boundary" {
                    SpecError::new(
                        "spec option",
                        "a boundary, constant(c), mask01, maskw, roi=ORIGIN:SHAPE, acc=fast|exact, \
                         rank=R, pairs or channels=C",
                        option,
                    )
                } else {
                    error
                }
            })?),
        },
        Some(("roi", value)) => spec.with_roi(Some(value.parse()?)),
        Some(("acc", value)) => spec.with_accuracy(value.parse()?),
        Some(("rank", value)) => spec.with_rank(Some(number(value)?)),
        Some(("channels", value)) => spec.with_channels(number(value)?),
        Some(_) => Err(SpecError::new("spec option", "roi=, acc=, rank= or channels=", option)),
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Accuracy::Fast => "fast",
            Accuracy::Promised => "promised",
            Accuracy::Exact => "exact",
        })
    }
}

impl FromStr for Accuracy {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Accuracy, SpecError> {
        match text {
            "fast" => Ok(Accuracy::Fast),
            "promised" => Ok(Accuracy::Promised),
            "exact" => Ok(Accuracy::Exact),
            _ => Err(SpecError::new("accuracy", "fast, promised or exact", text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        text.parse::<Spec>().unwrap().to_string()
    }

    #[test]
    fn one_canonical_form() {
        for text in [
            "zncc:f32:2000x2000*16x16:valid",
            "conv:u8:100x100x100*5x5x5:full,reflect",
            "zncc:u8/f32>f64:0@480x640*12@32x32:valid,mask01",
            "corr:f64:100*9:same,constant(2.5),roi=4:3,acc=fast,rank=2,pairs,channels=3",
            "ssd:u16>f64:3@40x50*7x8:full,maskw,roi=1,2:10x11",
        ] {
            assert_eq!(canonical(text), text);
        }
        assert_eq!(canonical("cc:f32/f32>f32:1@9*1@3:full,zeros,constant(0)"), "corr:f32:9*3:full");
        assert_eq!(canonical("lcc:f64>f64:9*3:valid,reflect,acc=promised"), "zncc:f64:9*3:valid");
        assert_eq!(canonical("lcc:f64:9*3:full,roi=0:11"), "zncc:f64:9*3:full");
    }

    #[test]
    fn mistakes_are_named() {
        let fails = |text: &str| text.parse::<Spec>().unwrap_err().to_string();
        assert_eq!(fails("zncc:f32:9*3:vaild"), "mode: expected full, same or valid, got vaild");
        assert_eq!(
            fails("zncc:f32:9*3"),
            "spec: expected a mode (full, same or valid) as the fourth field, as in zncc:f32:9*3:valid, got none"
        );
        assert!(
            fails("zncc:f32").starts_with("spec: expected sizes, IMAGE*TEMPLATE, as the third field, as in zncc:f32:")
        );
        assert!(fails("zncc").starts_with("spec: expected a pixel type as the second field, as in zncc:f32:"));
        assert_eq!(
            fails("zncc:u8:300x9"),
            "spec: expected the template's size behind a '*', and a mode (full, same or valid), as in \
             zncc:u8:300x9*16x9:valid, got none"
        );
        assert_eq!(
            fails("zncc:u8:9*3:valid:acc=fast"),
            "mode: expected full, same or valid, and options behind commas, as in valid,acc=fast, got valid:acc=fast"
        );
        assert!(fails("best").starts_with("spec: expected OP:TYPE"));
        // What a message recommends is taken.
        for text in ["zncc", "zncc:f32", "zncc:u8:300x9", "conv:f64:4@7x40x50", "ssd:u8:5", "corr:f32:9*3"] {
            let told = fails(text);
            let advice = told.split_once("as in ").and_then(|(_, rest)| rest.split_once(',')).unwrap().0;
            assert!(advice.parse::<Spec>().is_ok(), "{told}");
        }
        for sizes in ["200x200", "20x20:16x16"] {
            let told = fails(&format!("zncc:f32:{sizes}:valid"));
            assert!(told.starts_with("spec: expected the template's size behind a '*'"), "{told}");
        }
        assert!(fails("zncc:f32:9x9*3:valid").contains("template: expected 2 axes, as the image, got 1 axis"));
        assert!(fails("zncc:f32:9x9*3x10:valid").contains("at most 9x9"));
        assert!(fails("zncc:f32:9*3:valid,roi=0:3").contains("a part of 2:7"));
        assert!(fails("conv:f32:9*3:full,mask01").contains("no mask for conv"));
        assert!(fails("zncc:u8:9*3:valid,maskw,acc=exact").contains("0 and 1"));
        assert!(fails("zncc:u8:9*3:same,constant(0.5),acc=exact").contains("integer"));
        assert!(fails("zncc:u8:9*0@3:valid").contains("at least 1"));
        assert!(fails("zncc:u8:0x9*3x3:valid").contains("at least one sample"));
        assert!(fails("zncc:u8>u8:9*3:valid").contains("f32 or f64"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_spec_or_an_error(text in "[a-z0-9:*x@,=>/().-]{0,60}") {
            if let Ok(spec) = text.parse::<Spec>() {
                prop_assert_eq!(&spec.to_string().parse::<Spec>().unwrap(), &spec);
            }
        }

        #[test]
        fn near_specs_never_panic(cut in 0usize..60, byte in 32u8..127) {
            let mut text = b"zncc:u8/f32>f64:2@48x64*3@5x7:full,constant(2.5),maskw,roi=1,2:10x11,acc=fast".to_vec();
            let at = cut % text.len();
            text[at] = byte;
            let text = String::from_utf8(text).unwrap();
            if let Ok(spec) = text.parse::<Spec>() {
                prop_assert_eq!(&spec.to_string().parse::<Spec>().unwrap(), &spec);
            }
        }
    }
}
