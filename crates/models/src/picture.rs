//! Pictures: what one is, checked by decoding all of it, and a copy that an API takes.
//!
//! A picture that a server cannot decode would make every later request of its conversation fail, so it is decoded here
//! first, within limits: its size is read before any memory is used for its pixels. The same bytes become the same copy,
//! so that the messages of a request begin with those of the previous one. Photos lie on their side until their EXIF
//! orientation is applied, which not every server does; all of them show only the first frame of an animation.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{
    DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, ImageResult, Limits,
};

use super::api::FileRules;
use super::attachment::FileFormat;
use conversation::format::numbers::format_count;
use conversation::limits::{PICTURE_MEMORY, PICTURE_PIXELS};

/// The quality of a JPEG that is written, of 100.
const QUALITY: u8 = 90;
/// No copy gets smaller than this side.
const SMALLEST: u32 = 64;

/// A decoded picture, upright.
pub struct Picture {
    /// Its pixels.
    pixels: DynamicImage,
    is_turned: bool,
    format: FileFormat,
}

impl Picture {
    /// Decodes a picture.
    ///
    /// # Errors
    /// It is too large, or damaged.
    pub fn decode(format: FileFormat, bytes: &[u8]) -> Result<Self, String> {
        let describe =
            |error: ImageError| format!("it cannot be decoded ({error}); it may be damaged");
        let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
        let mut reader = reader.map_err(|error| describe(error.into()))?;
        let mut limits = Limits::default();
        limits.max_alloc = Some(PICTURE_MEMORY);
        reader.limits(limits);
        let mut decoder = reader.into_decoder().map_err(describe)?;
        let (width, height) = decoder.dimensions();
        if u64::from(width) * u64::from(height) > PICTURE_PIXELS {
            return Err(format!(
                "it has {width}x{height} pixels, and {} are shown at most; scale it down",
                format_count(PICTURE_PIXELS, "pixel")
            ));
        }
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let mut pixels = DynamicImage::from_decoder(decoder).map_err(describe)?;
        pixels.apply_orientation(orientation);
        let is_turned = orientation != Orientation::NoTransforms;
        Ok(Self { pixels, is_turned, format })
    }

    /// Its width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.pixels.width(), self.pixels.height())
    }

    /// A copy for an API that does not take the picture of so many bytes as it is; `None`: it does.
    pub fn fit(self, bytes: u64, rules: &FileRules) -> ImageResult<Option<(FileFormat, Vec<u8>)>> {
        let mut longest = self.pixels.width().max(self.pixels.height());
        // The others may be animated, and not every server reads them.
        let is_fit = matches!(self.format, FileFormat::Png | FileFormat::Jpeg)
            && bytes <= rules.image_limit
            && longest <= rules.side;
        if is_fit && !self.is_turned {
            return Ok(None);
        }
        let has_alpha = self.pixels.color().has_alpha();
        let is_photo = matches!(self.format, FileFormat::Jpeg | FileFormat::Webp) && !has_alpha;
        let mut pixels = DynamicImage::from(self.pixels.into_rgba8());
        let mut side = rules.side;
        loop {
            if longest > side {
                pixels = pixels.resize(side, side, FilterType::Triangle);
                longest = pixels.width().max(pixels.height());
            }
            let mut out = Cursor::new(Vec::new());
            let format = if is_photo {
                let encoder = JpegEncoder::new_with_quality(&mut out, QUALITY);
                pixels.to_rgb8().write_with_encoder(encoder)?;
                FileFormat::Jpeg
            } else {
                pixels.write_to(&mut out, ImageFormat::Png)?;
                FileFormat::Png
            };
            let out = out.into_inner();
            if out.len() as u64 <= rules.image_limit || longest <= SMALLEST {
                return Ok(Some((format, out)));
            }
            side = longest / 4 * 3;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let noise = |x: u32, y: u32| {
            let [a, b, c, _] = (x * 7_919 + y * x * 104_729 + y * y * 31).to_le_bytes();
            image::Rgb([a, b, c])
        };
        let pixels = image::RgbImage::from_fn(width, height, noise);
        pixels.write_to(&mut Cursor::new(&mut out), ImageFormat::Png).unwrap();
        out
    }

    #[test]
    fn a_copy_is_within_every_limit_and_always_the_same() {
        let rules = FileRules { image_limit: 20_000, side: 300, ..FileRules::ANY_PICTURE };
        let bytes = png(400, 100);
        let fit = |bytes: &[u8]| {
            let picture = Picture::decode(FileFormat::Png, bytes).unwrap();
            picture.fit(bytes.len() as u64, &rules).unwrap()
        };
        let (format, copy) = fit(&bytes).unwrap();
        assert!(format == FileFormat::Png && copy.len() <= 20_000, "{}", copy.len());
        let small = Picture::decode(format, &copy).unwrap();
        assert!(
            small.size().0 <= 300 && small.size().0 >= 3 * small.size().1,
            "{:?}",
            small.size()
        );
        assert_eq!(fit(&bytes), Some((format, copy.clone())));
        assert_eq!(fit(&copy), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn damaged_pictures_are_refused_and_never_panic(at in 0usize..2000, byte: u8, cut in 0usize..2000) {
            let mut bytes = png(20, 20);
            let (length, at) = (bytes.len(), at % bytes.len());
            bytes[at] = byte;
            bytes.truncate(length - cut % length);
            for format in [FileFormat::Png, FileFormat::Jpeg, FileFormat::Gif, FileFormat::Webp] {
                let _ = Picture::decode(format, &bytes);
            }
        }
    }
}
