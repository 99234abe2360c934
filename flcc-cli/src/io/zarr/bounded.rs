//! Codecs that unpack a chunk to no more bytes than it has: those of zarrs take what the packed bytes ask for, and 18
//! bytes of zstd may ask for more than any memory. They are put in the place of those for all arrays of the process.

use std::any::Any;
use std::borrow::Cow;
use std::io::Read;
use std::sync::{Arc, Once};

use zarrs::array::codec::api::{
    ArrayBytesRaw, BytesRepresentation, BytesToBytesCodecTraits, Codec, CodecError, CodecMetadataOptions, CodecOptions,
    CodecRuntimePluginV2, CodecRuntimePluginV3, CodecTraits, CodecTraitsV2, CodecTraitsV3, PartialDecoderCapability,
    PartialEncoderCapability, RecommendedConcurrency, register_codec_v2, register_codec_v3,
};
use zarrs::array::codec::{BloscCodec, GzipCodec, ZlibCodec, ZstdCodec};
use zarrs::metadata::Configuration;
use zarrs::plugin::{ExtensionAliases, ExtensionName, PluginCreateError, ZarrVersion, ZarrVersion2, ZarrVersion3};

/// Unpacks at most so many bytes with a codec.
type Unpack = fn(&dyn BytesToBytesCodecTraits, &[u8], usize, &CodecOptions) -> Result<Vec<u8>, CodecError>;

/// Puts these codecs in the place of those of zarrs, once.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        put::<ZstdCodec>(|_, packed, most, _| Ok(zstd::bulk::decompress(packed, most)?));
        put::<GzipCodec>(|_, packed, most, _| read(flate2::read::GzDecoder::new(packed), most));
        put::<ZlibCodec>(|_, packed, most, _| read(flate2::read::ZlibDecoder::new(packed), most));
        put::<BloscCodec>(|codec, packed, most, options| {
            // Its header tells how many bytes there are, and its decoder holds itself to that.
            match packed.get(4..8).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])) {
                Some(count) if count as usize <= most => {
                    let due = BytesRepresentation::FixedSize(most as u64);
                    codec.decode(Cow::Borrowed(packed), &due, options).map(Cow::into_owned)
                }
                Some(_) => Err(too_many(most)),
                None => Err(CodecError::from("no header of blosc")),
            }
        });
    });
}

/// Reads at most so many bytes.
fn read(from: impl Read, most: usize) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most { Err(too_many(most)) } else { Ok(bytes) }
}

fn too_many(most: usize) -> CodecError {
    CodecError::Other(format!("a chunk of more than the {most} bytes that belong to it"))
}

/// Registers a codec within bounds, for both versions of arrays.
fn put<T>(unpack: Unpack)
where
    T: ExtensionAliases<ZarrVersion3> + ExtensionAliases<ZarrVersion2> + CodecTraitsV3 + CodecTraitsV2,
{
    let bounded = move |codec: Codec| match codec {
        Codec::BytesToBytes(codec) => Codec::BytesToBytes(Arc::new(Bounded { codec, unpack })),
        other => other,
    };
    register_codec_v3(CodecRuntimePluginV3::new(
        |name| <T as ExtensionAliases<ZarrVersion3>>::matches_name(name),
        move |metadata| -> Result<Codec, PluginCreateError> { <T as CodecTraitsV3>::create(metadata).map(bounded) },
    ));
    register_codec_v2(CodecRuntimePluginV2::new(
        |name| <T as ExtensionAliases<ZarrVersion2>>::matches_name(name),
        move |metadata| -> Result<Codec, PluginCreateError> { <T as CodecTraitsV2>::create(metadata).map(bounded) },
    ));
}

/// A codec of zarrs that unpacks within bounds.
#[derive(Debug)]
struct Bounded {
    codec: Arc<dyn BytesToBytesCodecTraits>,
    unpack: Unpack,
}

impl ExtensionName for Bounded {
    fn name(&self, version: ZarrVersion) -> Option<Cow<'static, str>> {
        self.codec.name(version)
    }
}

impl CodecTraits for Bounded {
    fn as_any(&self) -> &dyn Any {
        self.codec.as_any()
    }

    fn configuration(&self, version: ZarrVersion, options: &CodecMetadataOptions) -> Option<Configuration> {
        self.codec.configuration(version, options)
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        // Parts are cut out of a whole chunk.
        PartialDecoderCapability { partial_read: false, partial_decode: false }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        self.codec.partial_encoder_capability()
    }
}

impl BytesToBytesCodecTraits for Bounded {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn BytesToBytesCodecTraits> {
        self
    }

    fn recommended_concurrency(&self, decoded: &BytesRepresentation) -> Result<RecommendedConcurrency, CodecError> {
        self.codec.recommended_concurrency(decoded)
    }

    fn encoded_representation(&self, decoded: &BytesRepresentation) -> BytesRepresentation {
        self.codec.encoded_representation(decoded)
    }

    fn encode<'a>(&self, decoded: ArrayBytesRaw<'a>, options: &CodecOptions) -> Result<ArrayBytesRaw<'a>, CodecError> {
        self.codec.encode(decoded, options)
    }

    fn decode<'a>(
        &self,
        encoded: ArrayBytesRaw<'a>,
        decoded: &BytesRepresentation,
        options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let most = match *decoded {
            BytesRepresentation::FixedSize(size) => size,
            // What another codec packed: zarrs estimates, and another writer may have packed worse.
            BytesRepresentation::BoundedSize(size) => size.saturating_mul(2).saturating_add(1024),
            BytesRepresentation::UnboundedSize => return Err(CodecError::from("samples of no fixed size")),
        };
        (self.unpack)(&*self.codec, &encoded, usize::try_from(most).unwrap_or(usize::MAX), options).map(Cow::Owned)
    }
}
