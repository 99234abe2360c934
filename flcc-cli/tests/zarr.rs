//! Zarr arrays in and out, beside `.npy` files of the same samples.

mod common;

use common::{Folder, draw};

#[cfg(not(feature = "zarr"))]
#[test]
fn without_the_feature_its_name_is_told() {
    let folder = Folder::new();
    let samples: Vec<u8> = draw(100, 256, 1).into_iter().map(|value| value as u8).collect();
    folder.npy("t.npy", "|u1", &[3, 3], &samples[..9]);
    folder.npy("i.npy", "|u1", &[10, 10], &samples);
    folder.write("x.zarr/zarr.json", "{\"zarr_format\":3,\"node_type\":\"array\"}");
    let feature = "flcc with the feature zarr (cargo install --path flcc-cli --features zarr)";
    let read = format!("expected for a zarr array {feature}, got flcc without it");
    for args in
        ["match x.zarr t.npy", "match x.zarr t.npy --memory-limit 1K", "match x.zarr t.npy --tile 1/2 -o p.json"]
    {
        assert_eq!(folder.wrong(args, 1), format!("IMAGE \"x.zarr\": {read}"));
    }
    assert_eq!(folder.wrong("match i.npy x.zarr", 1), format!("TEMPLATE \"x.zarr\": {read}"));
    for args in [
        "conv i.npy t.npy -o o.zarr",
        "corr i.npy t.npy --tile 1/1 -o o.zarr",
        "local sum --window 2x2 i.npy -o o.zarr",
    ] {
        assert_eq!(folder.wrong(args, 2), format!("-o: expected for a zarr array {feature}, got o.zarr"));
    }
    folder.said("corr i.npy t.npy --tile 1/1 -o p.npy");
    let line = folder.wrong("merge p.json -o o.zarr", 2);
    assert_eq!(line, format!("-o: expected for a zarr array {feature}, got o.zarr"));
    assert!(!folder.at("o.zarr").exists());
}

#[cfg(feature = "zarr")]
mod arrays {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use zarrs::array::{Array, ArrayBytes, ArraySubset};
    use zarrs::filesystem::FilesystemStore;

    use super::*;

    /// The order of bytes of this machine, as codes of types say it.
    const NATIVE: &str = if cfg!(target_endian = "big") { ">" } else { "<" };

    impl Folder {
        /// What a command that ends well prints; it tells nothing.
        fn fine(&self, args: &str) -> String {
            let (status, out, err) = self.said(args);
            assert_eq!((status, err.as_str()), (0, ""), "flcc {args}");
            out
        }

        fn array(&self, name: &str) -> Array<FilesystemStore> {
            let store = FilesystemStore::new(self.at(name)).unwrap();
            Array::open(Arc::new(store), "/").unwrap_or_else(|error| panic!("{name}: {error}"))
        }

        /// Makes an array of what says what it is, and of bytes of samples in the order of this machine; none leaves
        /// its chunks out.
        fn zarr(&self, name: &str, meta: &Value, data: Option<&[u8]>) {
            let file = if meta["zarr_format"] == 2 { ".zarray" } else { "zarr.json" };
            self.write(&format!("{name}/{file}"), meta.to_string());
            if let Some(data) = data {
                let array = self.array(name);
                array.store_array_subset(&array.subset_all(), ArrayBytes::new_flen(data)).unwrap();
            }
        }

        /// Shape and bytes of the samples of an array.
        fn read(&self, name: &str) -> (Vec<u64>, Vec<u8>) {
            let array = self.array(name);
            let bytes: ArrayBytes<'static> = array.retrieve_array_subset(&array.subset_all()).unwrap();
            (array.shape().to_vec(), bytes.into_fixed().unwrap().into_owned())
        }

        /// Whether an array holds what a `.npy` file that the command wrote holds.
        fn same(&self, zarr: &str, npy: &str) -> bool {
            let (shape, data) = self.read(zarr);
            let bytes = self.contents(npy);
            let (head, rest) = bytes.split_at(10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]])));
            let lengths: Vec<String> = shape.iter().map(u64::to_string).collect();
            let due = format!("'shape': ({}{})", lengths.join(", "), if shape.len() == 1 { "," } else { "" });
            String::from_utf8_lossy(head).contains(&due) && rest == data
        }
    }

    /// What version 3 says of an array.
    fn third(dtype: &str, shape: &[usize], chunk: &[usize], codecs: &Value, fill: &Value) -> Value {
        json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": codecs,
        })
    }

    /// The same in version 2.
    fn second(dtype: &str, shape: &[usize], chunk: &[usize], order: &str, compressor: &Value) -> Value {
        json!({
            "zarr_format": 2,
            "shape": shape,
            "chunks": chunk,
            "dtype": dtype,
            "compressor": compressor,
            "fill_value": 0,
            "order": order,
            "filters": null,
        })
    }

    fn bytes_codec() -> Value {
        json!({"name": "bytes", "configuration": {"endian": "little"}})
    }

    fn zstd() -> Value {
        json!({"name": "zstd", "configuration": {"level": 0, "checksum": false}})
    }

    /// Kinds of arrays, by their names: what says what they are, of bytes of samples of 16 bits.
    fn kinds(shape: &[usize]) -> Vec<(&'static str, Value)> {
        let axes = shape.len();
        let chunk = if axes == 1 { vec![7000] } else { [7, 16, 20][3 - axes..].to_vec() };
        let shard: Vec<usize> = chunk.iter().map(|side| side * 2).collect();
        let turned: Vec<usize> = (0..axes).rev().collect();
        let of = |codecs: Value| third("uint16", shape, &chunk, &codecs, &json!(0));
        let blosc = json!({"name": "blosc", "configuration":
            {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}});
        let sharding = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": chunk,
            "codecs": [bytes_codec(), zstd()],
            "index_codecs": [bytes_codec(), {"name": "crc32c"}],
            "index_location": "end",
        }}]);
        let big = json!({"name": "bytes", "configuration": {"endian": "big"}});
        let transpose = json!({"name": "transpose", "configuration": {"order": turned}});
        let gzip = json!({"name": "gzip", "configuration": {"level": 1}});
        let cname = |cname: &str| json!({"id": "blosc", "cname": cname, "clevel": 5, "shuffle": 1, "blocksize": 0});
        vec![
            ("v3-zstd", of(json!([bytes_codec(), zstd()]))),
            ("v3-blosc", of(json!([bytes_codec(), blosc]))),
            ("v3-sharded", third("uint16", shape, &shard, &sharding, &json!(0))),
            ("v3-gzip-turned", of(json!([transpose, big, gzip, {"name": "crc32c"}]))),
            ("v2-blosc", second("<u2", shape, &chunk, "C", &cname("lz4"))),
            ("v2-blosc-zstd", second("<u2", shape, &chunk, "F", &cname("zstd"))),
            ("v2-zlib-big", second(">u2", shape, &chunk, "C", &json!({"id": "zlib", "level": 1}))),
            ("v2-plain", second("<u2", shape, &chunk, "C", &Value::Null)),
        ]
    }

    fn bytes_of(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| (*value as u16).to_ne_bytes()).collect()
    }

    /// Shape of an image, of the template, and a memory limit that is less than the image takes.
    const SHAPES: [(&[usize], &[usize], &str); 3] =
        [(&[60, 40, 44], &[5, 6, 7], "150K"), (&[900, 120], &[9, 8], "160K"), (&[300_000], &[60], "500K")];

    #[test]
    fn arrays_are_read_as_files_are() {
        for (number, (shape, template, limit)) in SHAPES.into_iter().enumerate() {
            let folder = Folder::new();
            let code = format!("{NATIVE}u2");
            let data = bytes_of(&draw(shape.iter().product(), 40_000, number as u64));
            folder.npy("i.npy", &code, shape, &data);
            let small = bytes_of(&draw(template.iter().product(), 40_000, 77));
            folder.npy("t.npy", &code, template, &small);
            folder.zarr("t.zarr", &second(&code, template, template, "C", &Value::Null), Some(&small));
            let place = shape.iter().map(|length| (length / 3).to_string()).collect::<Vec<_>>().join(",");
            let sides = template.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
            let search = format!("--template-at {place}:{sides} --top 5");
            let extent = "--mode full --boundary wrap";
            let found = folder.fine(&format!("match i.npy t.npy {search}"));
            folder.fine(&format!("corr i.npy t.npy {extent} -o whole.npy"));
            let parts = |name: &str| {
                let json: Vec<String> = (1..=2).map(|tile| format!("{name}-{tile}.json")).collect();
                json.join(" ")
            };
            for (name, meta) in kinds(shape) {
                folder.zarr(name, &meta, Some(&data));
                assert_eq!(
                    folder.fine(&format!("match {name} t.zarr {search}")).replace("t.zarr", "t.npy"),
                    found,
                    "{name}"
                );
                folder.fine(&format!("corr {name} t.zarr {extent} -o {name}.npy"));
                assert!(folder.contents(&format!("{name}.npy")) == folder.contents("whole.npy"), "{name} {shape:?}");
                // By regions, of which most begin and end within chunks.
                let run = |image: &str, out: &str| {
                    folder.fine(&format!("match {image} t.npy {extent} {search} --memory-limit {limit} -o {out}.npy"))
                };
                assert_eq!(run(name, "regions"), run("i.npy", "whole-regions"), "{name} {shape:?}");
                for of in 1..3 {
                    let [one, other] =
                        ["regions", "whole-regions"].map(|out| folder.contents(&format!("{out}-{of}.npy")));
                    assert!(one == other, "{name} {shape:?} {of}");
                }
                for tile in 1..=2 {
                    folder.fine(&format!("corr {name} t.npy {extent} --tile {tile}/2 -o c-{tile}.npy"));
                    folder.fine(&format!("match {name} t.npy {search} --tile {tile}/2 -o p-{tile}.json"));
                }
                folder.fine(&format!("merge {} -o merged.npy", parts("c")));
                assert!(folder.contents("merged.npy") == folder.contents("whole.npy"), "{name} {shape:?}");
                assert_eq!(folder.fine(&format!("merge {}", parts("p"))), found, "{name} {shape:?}");
            }
        }
    }

    #[test]
    fn results_are_written_as_arrays() {
        for (number, (shape, template, limit)) in SHAPES.into_iter().enumerate() {
            let folder = Folder::new();
            let code = format!("{NATIVE}u2");
            let data = bytes_of(&draw(shape.iter().product(), 40_000, number as u64));
            folder.npy("i.npy", &code, shape, &data);
            folder.npy("t.npy", &code, template, &bytes_of(&draw(template.iter().product(), 40_000, 77)));
            let extent = "--mode full --boundary mirror";
            for more in ["", "--precision f64", &format!("--memory-limit {limit}")] {
                for out in ["o.npy", "o.zarr"] {
                    folder.fine(&format!("corr i.npy t.npy {extent} {more} -o {out}"));
                }
                assert!(folder.same("o.zarr", "o.npy"), "{shape:?} {more}");
            }
            // Parts are of either format, and so is what is made of them.
            folder.fine(&format!("corr i.npy t.npy {extent} -o o.npy"));
            for (tile, end) in [(1, "npy"), (2, "zarr"), (3, "zarr")] {
                folder.fine(&format!("corr i.npy t.npy {extent} --tile {tile}/3 -o part-{tile}.{end}"));
            }
            assert!(folder.at("part-2.zarr/zarr.json").exists());
            let parts = "part-1.json part-2.json part-3.json";
            for out in ["m.npy", "m.zarr"] {
                folder.fine(&format!("merge {parts} -o {out}"));
            }
            assert!(
                folder.contents("m.npy") == folder.contents("o.npy") && folder.same("m.zarr", "o.npy"),
                "{shape:?}"
            );
            // Several results, and one of another command.
            folder.fine(&format!("match i.npy t.npy --template t.npy --memory-limit {limit} -o two.zarr"));
            assert_eq!(folder.read("two-1.zarr"), folder.read("two-2.zarr"));
            let window = template.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
            for out in ["l.npy", "l.zarr"] {
                folder.fine(&format!("local mean --window {window} i.npy -o {out}"));
            }
            assert!(folder.same("l.zarr", "l.npy"), "{shape:?}");
            // What is written can be read.
            for (image, out) in [("l.npy", "a.npy"), ("l.zarr", "b.npy")] {
                folder.fine(&format!("corr {image} t.npy -o {out}"));
            }
            assert!(folder.contents("a.npy") == folder.contents("b.npy"), "{shape:?}");
            let left = std::fs::read_dir(&folder.0)
                .unwrap()
                .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
            assert_eq!(left.count(), 0);
        }
    }

    #[test]
    fn every_type_becomes_what_it_becomes_of_a_file() {
        const TYPES: [(&str, &str, usize); 12] = [
            ("uint8", "u1", 1),
            ("uint16", "u2", 2),
            ("float32", "f4", 4),
            ("float64", "f8", 8),
            ("bool", "b1", 1),
            ("int8", "i1", 1),
            ("int16", "i2", 2),
            ("float16", "f2", 2),
            ("int32", "i4", 4),
            ("uint32", "u4", 4),
            ("int64", "i8", 8),
            ("uint64", "u8", 8),
        ];
        let folder = Folder::new();
        for (dtype, code, size) in TYPES {
            let low = dtype == "bool";
            // No exponent of 1s, no integer that f64 does not hold.
            let byte = |index: usize| match (index % size, size) {
                _ if low => (index * 37 % 61 % 2) as u8,
                (6.., _) => 0,
                (at, _) if at + 1 == size => (index * 37 % 50) as u8,
                _ => (index * 37 % 251) as u8,
            };
            let data: Vec<u8> = (0..20 * 30 * size).map(byte).collect();
            folder.npy("x.npy", &format!("{NATIVE}{code}"), &[20, 30], &data);
            let fill = if low { json!(false) } else { json!(0) };
            let codecs = json!([{"name": "bytes", "configuration": {"endian": "little"}}, zstd()]);
            folder.zarr("x.zarr", &third(dtype, &[20, 30], &[8, 9], &codecs, &fill), Some(&data));
            let of = |image: &str, out: &str| folder.said(&format!("local max --window 1x1 {image} -o {out}"));
            let (npy, zarr) = (of("x.npy", "a.npy"), of("x.zarr", "b.npy"));
            assert_eq!((npy.0, zarr.0), (0, 0), "{dtype}: {} {}", npy.2, zarr.2);
            assert_eq!(npy.2.replace("x.npy", "x.zarr"), zarr.2);
            assert!(folder.contents("a.npy") == folder.contents("b.npy"), "{dtype}");
            std::fs::remove_dir_all(folder.at("x.zarr")).unwrap();
        }
        // 2^53 + 1 is no f64.
        folder.zarr(
            "x.zarr",
            &third("int64", &[1], &[1], &json!([bytes_codec()]), &json!(0)),
            Some(&((1i64 << 53) + 1).to_ne_bytes()),
        );
        let line = folder.wrong("local max --window 1 x.zarr -o o.npy", 1);
        assert!(line.ends_with("expected integers of i8 that f64 holds, as all up to 2^53 are, got 9007199254740993"));
    }

    #[test]
    fn chunks_that_are_not_there_are_of_the_fill_value() {
        let folder = Folder::new();
        let mut values: Vec<f32> = vec![2.5; 40 * 30];
        for (name, fill) in [("x.zarr", json!(2.5)), ("nan.zarr", json!("NaN"))] {
            folder.zarr(name, &third("float32", &[40, 30], &[16, 8], &json!([bytes_codec(), zstd()]), &fill), None);
        }
        let array = folder.array("x.zarr");
        array.store_array_subset(&ArraySubset::new_with_ranges(&[20..30, 10..12]), vec![7f32; 20]).unwrap();
        (20..30).for_each(|y| values[y * 30 + 10..y * 30 + 12].fill(7.0));
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        folder.npy("x.npy", &format!("{NATIVE}f4"), &[40, 30], &data);
        assert!(!folder.at("x.zarr/c/0/0").exists() && folder.at("x.zarr/c/1/1").exists());
        for (image, out) in [("x.npy", "a.npy"), ("x.zarr", "b.npy")] {
            folder.fine(&format!("local sum --window 3x3 {image} -o {out}"));
        }
        assert!(folder.contents("a.npy") == folder.contents("b.npy"));
        folder.npy("t.npy", &format!("{NATIVE}f4"), &[5, 5], &data[20 * 30 * 4..][..100]);
        let (status, out, err) = folder.said("match nan.zarr t.npy");
        assert!(status == 0 && out.is_empty() && err.contains("NaN or infinite samples"), "{out} {err}");
        // A result that is zero where the array is needs no chunks.
        folder.npy("zero.npy", &format!("{NATIVE}f4"), &[40, 30], &[0; 4800]);
        folder.fine("local sum --window 3x3 zero.npy -o zero.zarr");
        assert!(!folder.at("zero.zarr/c").exists() && folder.read("zero.zarr").1 == [0; 4800]);
    }

    #[test]
    fn arrays_serve_wherever_files_do() {
        let folder = Folder::new();
        let data = bytes_of(&draw(60 * 50, 40_000, 1));
        let code = format!("{NATIVE}u2");
        folder.npy("frames/i.npy", &code, &[60, 50], &data);
        folder.zarr("frames/j.zarr", &second(&code, &[60, 50], &[16, 16], "C", &Value::Null), Some(&data));
        folder.write("frames/group.zarr/.zgroup", "{\"zarr_format\": 2}");
        let small = bytes_of(&draw(30, 40_000, 2));
        folder.npy("t/a.npy", &code, &[5, 6], &small);
        folder.zarr("t/b.zarr", &second(&code, &[5, 6], &[5, 6], "C", &Value::Null), Some(&small));
        let weights: Vec<u8> = draw(30, 2, 3).into_iter().map(|value| value as u8).collect();
        folder.npy("m.npy", "|u1", &[5, 6], &weights);
        folder.zarr("m.zarr", &second("|u1", &[5, 6], &[4, 4], "C", &Value::Null), Some(&weights));
        let run = |mask: &str| {
            folder.fine(&format!("match frames/j.zarr t --mask {mask}")).lines().map(String::from).collect::<Vec<_>>()
        };
        let told = run("m.npy");
        assert_eq!(told, run("m.zarr"));
        assert_eq!((told.len(), told[0].replace("a.npy", "b.zarr")), (2, told[1].clone()));
        let lines = folder.fine("stream t/b.zarr frames");
        let peaks = |line: &str| serde_json::from_str::<Value>(line).unwrap()["peaks"].clone();
        let places: Vec<Value> = lines.lines().map(peaks).collect();
        assert_eq!((places.len(), &places[0]), (2, &places[1]), "{lines}");
        assert_eq!(folder.fine("stream t/b.zarr frames/j.zarr").lines().count(), 1);
        // A stack of templates.
        folder.zarr("s.zarr", &second(&code, &[3, 5, 2], &[1, 5, 2], "C", &Value::Null), Some(&small));
        let (status, out, err) = folder.said("match frames/i.npy s.zarr --stack");
        assert!(status == 0 && out.lines().count() == 3 && err.contains("a stack of 3 templates of 5x2"), "{err}");
    }

    #[test]
    fn what_is_no_sound_array_is_told() {
        let folder = Folder::new();
        let code = format!("{NATIVE}u2");
        folder.npy("t.npy", &code, &[3, 3], &bytes_of(&draw(9, 40_000, 2)));
        let shape = [40, 30];
        let data = bytes_of(&draw(1200, 40_000, 1));
        // As image, by regions and by a part.
        let told = |name: &str| {
            let line = folder.wrong(&format!("match {name} t.npy"), 1);
            for more in ["--memory-limit 1K -o o.npy", "--tile 1/2 -o p.json"] {
                let (status, out, err) = folder.said(&format!("match {name} t.npy {more}"));
                assert!(
                    (1..=2).contains(&status) && out.is_empty() && !err.contains("panicked"),
                    "{name} {more}: {err}"
                );
            }
            assert!(!folder.at("o.npy").exists() && !folder.at("p.json").exists());
            let start = format!("IMAGE {name:?}: expected ");
            line.strip_prefix(&start).unwrap_or_else(|| panic!("{line}")).to_string()
        };
        let zstd_of = |shape: &[usize], chunk: &[usize], dtype: &str| {
            third(dtype, shape, chunk, &json!([bytes_codec(), zstd()]), &json!(0))
        };
        let meta = zstd_of(&shape, &[16, 16], "uint16");

        std::fs::create_dir(folder.at("bare.zarr")).unwrap();
        assert_eq!(told("bare.zarr"), "a zarr array, with a file zarr.json or .zarray, got a folder without either");
        folder.write("group.zarr/zarr.json", "{\"zarr_format\":3,\"node_type\":\"group\"}");
        folder.zarr("group.zarr/0", &meta, Some(&data));
        assert_eq!(told("group.zarr"), "a zarr array, as one of a group by its own name, got a zarr group");
        assert!(!folder.fine("match group.zarr/0 t.npy").is_empty());
        for (name, text) in
            [("a", ""), ("b", "{"), ("c", "[1, 2]"), ("d", "{\"zarr_format\":4,\"node_type\":\"array\"}")]
        {
            folder.write(&format!("{name}.zarr/zarr.json"), text);
            assert!(told(&format!("{name}.zarr")).starts_with("a zarr array that can be read, got "), "{name}");
        }

        // Types and axes that are not read.
        for (dtype, fill) in [("complex64", json!([0, 0])), ("string", json!("")), ("r16", json!([0, 0]))] {
            let name = format!("{dtype}.zarr");
            let codec = if dtype == "string" { json!({"name": "vlen-utf8"}) } else { bytes_codec() };
            folder.zarr(&name, &third(dtype, &shape, &[16, 16], &json!([codec]), &fill), None);
            let line = told(&name);
            assert!(line.contains(&format!("dtype {dtype}")) && line.starts_with("an array of dtype u1, "), "{line}");
        }
        folder.zarr("unknown.zarr", &zstd_of(&shape, &[16, 16], "quaternion"), None);
        assert!(told("unknown.zarr").contains("quaternion"));
        folder.zarr("none.zarr", &zstd_of(&[], &[], "uint16"), None);
        assert_eq!(told("none.zarr"), "an array of 1 to 3 axes, got a single value (0 axes)");
        folder.zarr("four.zarr", &zstd_of(&[1, 2, 40, 30], &[1, 1, 16, 16], "uint16"), None);
        assert_eq!(told("four.zarr"), "an array of 1 to 3 axes, got 4 axes (1x2x40x30)");
        folder.zarr("dims.zarr", &zstd_of(&shape, &[16, 16, 16], "uint16"), None);
        assert!(told("dims.zarr").starts_with("a zarr array that can be read, got "));
        let (status, _, err) = {
            folder.zarr("line.zarr", &zstd_of(&[1200], &[100], "uint16"), Some(&data));
            folder.said("match line.zarr t.npy")
        };
        assert!(status == 2 && err.contains("TEMPLATE: expected 1 axis, as the image"), "{err}");

        // Codecs that are not there, chunks that are no memory.
        folder.zarr(
            "codec.zarr",
            &third("uint16", &shape, &[16, 16], &json!([bytes_codec(), {"name": "lzma"}]), &json!(0)),
            None,
        );
        assert!(told("codec.zarr").contains("lzma"));
        for chunk in [[1usize << 40, 1 << 20], [usize::MAX >> 1, 3]] {
            folder.zarr("vast.zarr", &zstd_of(&shape, &chunk, "uint16"), None);
            assert!(told("vast.zarr").starts_with("at most the memory, got "));
        }
        folder.zarr("huge.zarr", &zstd_of(&[1 << 40, 1 << 15], &[16, 16], "uint16"), None);
        assert!(folder.wrong("match huge.zarr t.npy", 1).contains("expected at most "));
        folder.write("zero.zarr/zarr.json", zstd_of(&shape, &[16, 0], "uint16").to_string());
        assert!(told("zero.zarr").starts_with("a zarr array that can be read, got "));

        // Chunks that are cut short, too long, of other bytes.
        for (name, meta) in kinds(&shape) {
            let chunk = if name.starts_with("v2") { "1.1" } else { "c/1/0" };
            let path = format!("{name}/{chunk}");
            folder.zarr(name, &meta, Some(&data));
            let whole = folder.contents(&path);
            let other: Vec<u8> = whole.iter().map(|byte| !byte).collect();
            for bytes in [&whole[..whole.len() / 2], &whole[..1], &[], &other[..]] {
                folder.write(&path, bytes);
                let (status, _, err) = folder.said(&format!("match {name} t.npy"));
                // Without a code any bytes of the right number are samples.
                let sound = name == "v2-plain" && bytes.len() == whole.len();
                assert_eq!(
                    (status, err.contains("panicked")),
                    (i32::from(!sound), false),
                    "{name} {}: {err}",
                    bytes.len()
                );
                let start = format!("error: IMAGE {name:?}: expected a zarr array that can be read, got ");
                assert!(sound || err.starts_with(&start) && err.lines().count() == 1, "{err}");
            }
        }
    }

    #[test]
    fn chunks_that_ask_for_more_than_they_have_are_refused() {
        let folder = Folder::new();
        folder.npy("t.npy", "|u1", &[3, 3], &[1, 2, 3, 4, 5, 6, 7, 8, 0]);
        let of = |side: usize, codec: &Value| {
            third("uint8", &[side, side], &[side, side], &json!([{"name": "bytes"}, codec]), &json!(0))
        };
        let told = |codec: &Value, chunk: &[u8]| {
            folder.zarr("bomb.zarr", &of(64, codec), None);
            folder.write("bomb.zarr/c/0/0", chunk);
            let line = folder.wrong("match bomb.zarr t.npy", 1);
            let start = "IMAGE \"bomb.zarr\": expected a zarr array that can be read, got ";
            line.strip_prefix(start).unwrap_or_else(|| panic!("{line}")).to_string()
        };
        // A frame of zstd, of a window of 8 MiB, which may tell how many bytes it has; its blocks repeat a byte 131072
        // times each.
        let frame = |told: Option<u64>, blocks: usize| {
            let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, if told.is_some() { 0xc0 } else { 0 }, 0x68];
            bytes.extend(told.into_iter().flat_map(u64::to_le_bytes));
            for block in 1..=blocks {
                bytes.extend(&((131_072u32 << 3 | 1 << 1 | u32::from(block == blocks)).to_le_bytes()[..3]));
                bytes.push(7);
            }
            bytes
        };
        // Two gigabytes in 64 kilobytes, and more than there is in 18 bytes.
        for chunk in [frame(Some(2 << 30), 16_384), frame(None, 16_384), frame(Some(1 << 52), 1)] {
            let line = told(&zstd(), &chunk);
            assert!(line.contains("Destination buffer is too small"), "{line}");
        }
        // A larger chunk in the place of one.
        let named = |name: &str| json!({"name": name, "configuration": {"level": 6}});
        let blosc = json!({"name": "blosc", "configuration":
            {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0}});
        for codec in [named("gzip"), named("numcodecs.zlib"), blosc] {
            folder.zarr("large.zarr", &of(4096, &codec), Some(&vec![7; 4096 * 4096]));
            let chunk = folder.contents("large.zarr/c/0/0");
            assert_eq!(told(&codec, &chunk), "a chunk of more than the 4096 bytes that belong to it", "{codec}");
        }
    }

    #[test]
    fn only_arrays_are_replaced() {
        let folder = Folder::new();
        let code = format!("{NATIVE}u2");
        let data = bytes_of(&draw(1200, 40_000, 1));
        folder.npy("i.npy", &code, &[40, 30], &data);
        folder.npy("t.npy", &code, &[3, 3], &bytes_of(&draw(9, 40_000, 2)));
        folder.zarr("i.zarr", &second(&code, &[40, 30], &[16, 16], "C", &Value::Null), Some(&data));
        folder.fine("corr i.npy t.npy -o o.zarr");
        // An array of either version is replaced by another, of which nothing else is left.
        folder.fine("corr i.npy t.npy --mode valid -o o.npy");
        for _ in 0..2 {
            folder.fine("corr i.npy t.npy --mode valid -o o.zarr");
            assert!(folder.same("o.zarr", "o.npy"));
            std::fs::remove_dir_all(folder.at("o.zarr")).unwrap();
            folder.zarr("o.zarr", &second(&code, &[40, 30], &[16, 16], "C", &Value::Null), Some(&data));
        }
        // What is read is not.
        let line = folder.wrong("corr i.zarr t.npy -o i.zarr", 2);
        assert_eq!(line, "-o: expected another file than IMAGE names, got i.zarr");
        std::fs::create_dir(folder.at("there")).unwrap();
        let line = folder.wrong("corr i.zarr t.npy -o there/../i.zarr", 2);
        assert_eq!(line, "-o: expected another file than IMAGE names, got there/../i.zarr");
        // What is no array stays.
        folder.write("mine.zarr/notes.txt", "mine");
        folder.write("group.zarr/.zgroup", "{}");
        folder.write("file.zarr", "mine");
        folder.fine("corr i.npy t.npy -o with.zarr");
        folder.write("with.zarr/notes.txt", "mine");
        std::fs::create_dir(folder.at("empty.zarr")).unwrap();
        for (name, got) in [
            ("mine", "a folder that is no array"),
            ("empty", "a folder that is no array"),
            ("group", "a zarr group"),
            ("file", "a file"),
            ("with", "an array that \"notes.txt\" lies in"),
        ] {
            for call in ["corr i.npy t.npy", "corr i.npy t.npy --tile 1/1", "local sum --window 3x3 i.npy"] {
                assert_eq!(
                    folder.wrong(&format!("{call} -o {name}.zarr"), 1),
                    format!(
                        "-o \"{name}.zarr\": expected a writable file, got: {got} is there, and only a zarr array is \
                         replaced by one"
                    )
                );
            }
        }
        assert!(folder.contents("mine.zarr/notes.txt") == b"mine" && folder.contents("file.zarr") == b"mine");
        assert!(folder.wrong("corr i.npy t.npy -o none/o.zarr", 1).contains("none/o.zarr\": expected a writable file"));
    }

    #[test]
    fn parts_are_of_the_array_that_they_are_of() {
        let folder = Folder::new();
        let code = format!("{NATIVE}u2");
        let data = bytes_of(&draw(900 * 60, 40_000, 1));
        folder.npy("t.npy", &code, &[5, 5], &bytes_of(&draw(25, 40_000, 2)));
        let meta = third("uint16", &[900, 60], &[64, 64], &json!([bytes_codec(), zstd()]), &json!(0));
        folder.zarr("i.zarr", &meta, Some(&data));
        folder.fine("match i.zarr t.npy --tile 1/2 -o 1.json");
        folder.fine("match i.zarr t.npy --tile 2/2 -o 2.json");
        assert!(!folder.fine("merge 1.json 2.json").is_empty());
        let array = folder.array("i.zarr");
        array.store_array_subset(&ArraySubset::new_with_ranges(&[400..401, 0..1]), vec![1u16]).unwrap();
        folder.fine("match i.zarr t.npy --tile 2/2 -o 2.json");
        assert!(folder.wrong("merge 1.json 2.json", 2).ends_with("got one of another image"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_does_not_grow_with_the_array() {
        let folder = Folder::new();
        let shape = [200, 200, 200];
        let data = bytes_of(&draw(8_000_000, 60_000, 1));
        let code = format!("{NATIVE}u2");
        let kind = |chunk: &[usize]| third("uint16", &shape, chunk, &json!([bytes_codec(), zstd()]), &json!(0));
        folder.zarr("i.zarr", &kind(&[32, 32, 32]), Some(&data));
        folder.npy("i.npy", &code, &shape, &data);
        folder.npy("t.npy", &code, &[7, 7, 7], &bytes_of(&draw(343, 60_000, 2)));
        let call = "t.npy --top 20000 --min-distance 0 --memory-limit 8M";
        let npy = folder.peak(&format!("match i.npy {call} -o map.npy"));
        let zarr = folder.peak(&format!("match i.zarr {call} -o map.zarr"));
        println!("{npy} KiB from .npy to .npy, {zarr} from .zarr to .zarr");
        // The array has 16 MB, its map 29; pieces that are read take 4 MiB and chunks that are decoded beside.
        assert!(zarr < npy + 25_000, "{npy} {zarr}");
        assert!(folder.same("map.zarr", "map.npy"));
    }
}
