//! Results by parts: of images that are larger than the memory limit, and of calls that each compute one part.
//!
//! An array in Fortran order is read whole, so the same image in both orders is computed both ways by the same kernel.

mod common;

use common::{Folder, draw, npy};

/// What is told of an image that is read whole where memory is limited to less.
const HELD: &str = "held whole, beyond --memory-limit";

impl Folder {
    /// Writes samples of few levels as `name.npy` in C order and `name-whole.npy` in Fortran order.
    fn image(&self, name: &str, kind: &str, shape: &[usize], levels: u64, seed: u64) {
        let values = draw(shape.iter().product(), levels, seed);
        let encode = |value: u64| match kind {
            "|u1" => vec![value as u8],
            "<u2" => (value as u16).to_le_bytes().to_vec(),
            ">u2" => (value as u16).to_be_bytes().to_vec(),
            ">f4" => (value as f32 - 2.5).to_be_bytes().to_vec(),
            _ => (value as f32 - 2.5).to_le_bytes().to_vec(),
        };
        let padded: Vec<usize> = std::iter::repeat_n(1, 3 - shape.len()).chain(shape.iter().copied()).collect();
        let [d, h, w] = [padded[0], padded[1], padded[2]];
        let turned = |index: usize| (index % d * h + index / d % h) * w + index / (d * h);
        for (end, fortran) in [("", false), ("-whole", true)] {
            let at = |index: usize| if fortran { turned(index) } else { index };
            let data: Vec<u8> = (0..values.len()).flat_map(|index| encode(values[at(index)])).collect();
            self.write(&format!("{name}{end}.npy"), npy(kind, fortran, shape, &data));
        }
    }

    /// What a command that ends well prints. All it may tell is that an image in Fortran order is held whole.
    fn fine(&self, args: &str) -> String {
        let (status, out, err) = self.said(args);
        let whole = |line: &str| line.starts_with("note: IMAGE \"i-whole.npy\": ") && line.contains(HELD);
        let told: Vec<&str> = err.lines().filter(|line| !whole(line)).collect();
        assert_eq!((status, told), (0, Vec::new()), "flcc {args}");
        out
    }
}

/// Kind and shape of an image, shape of the template, levels of the samples, and the memory limit: less than the image
/// takes.
type Image = (&'static str, &'static [usize], &'static [usize], u64, &'static str);

const IMAGES: [Image; 6] = [
    ("<u2", &[60, 40, 44], &[5, 6, 7], 40_000, "200K"),
    (">u2", &[90, 30, 30], &[4, 4, 4], 5, "150K"),
    ("<f4", &[900, 120], &[9, 8], 300, "300K"),
    (">f4", &[2000, 40], &[30, 7], 6, "300K"),
    ("|u1", &[1500, 300], &[12, 14], 256, "400K"),
    ("<f4", &[400_000], &[60], 6, "1M"),
];

const EXTENTS: [&str; 6] = [
    "--mode valid",
    "--mode full --boundary constant --cval 7.5",
    "--mode same --boundary reflect",
    "--mode full --boundary wrap",
    "--mode same --boundary mirror",
    "--mode full --boundary replicate",
];

#[test]
fn a_larger_image_is_computed_as_it_is_whole() {
    for (number, (kind, shape, template, levels, limit)) in IMAGES.into_iter().enumerate() {
        let folder = Folder::new();
        folder.image("i", kind, shape, levels, number as u64);
        folder.image("t", kind, template, levels, 77);
        for (turn, extent) in EXTENTS.iter().enumerate().filter(|(turn, _)| (turn + number) % 2 == 0) {
            let command = ["conv", "corr", "lcc"][(turn / 2 + number) % 3];
            let run = |image: &str, out: &str| {
                folder.fine(&format!("{command} {image} t.npy {extent} --memory-limit {limit} -o {out}.npy"))
            };
            assert_eq!(run("i.npy", "parts"), run("i-whole.npy", "whole"));
            assert!(
                folder.contents("parts.npy") == folder.contents("whole.npy"),
                "{command} {kind} {shape:?} {extent}"
            );
        }
    }
}

/// What is looked for.
const SEARCHES: [&str; 6] = [
    "",
    "--top 7 --min-distance 3 --count",
    "--threshold 0.25 --subpixel",
    "--top 50 --min-distance 20 --exclude-border 2 --subpixel=quadratic --count",
    "--measure ssd --top 9 --min-distance 0 --count",
    "--top 4 --exclusive",
];

#[test]
fn peaks_of_a_larger_image_are_those_of_the_whole() {
    for (number, (kind, shape, template, levels, limit)) in IMAGES.into_iter().enumerate() {
        let folder = Folder::new();
        folder.image("i", kind, shape, levels, number as u64);
        folder.image("t", kind, template, levels, 77);
        folder.image("u", kind, template, levels, 78);
        let more: Vec<usize> = template.iter().map(|length| length + 1).collect();
        folder.image("v", kind, &more, levels, 79);
        for (turn, search) in SEARCHES.iter().enumerate() {
            let extent = EXTENTS[(turn + number) % EXTENTS.len()];
            let output = if turn % 2 == 0 { "" } else { "-o OUT.npy" };
            let run = |image: &str, out: &str| {
                folder.fine(&format!(
                    "match {image} t.npy --template u.npy --template v.npy {extent} {search} {} --memory-limit {limit} \
                     --peaks {out}.csv",
                    output.replace("OUT", out)
                ))
            };
            assert_eq!(run("i.npy", "parts"), run("i-whole.npy", "whole"), "{kind} {shape:?} {extent} {search}");
            assert_eq!(folder.contents("parts.csv"), folder.contents("whole.csv"));
            if !output.is_empty() {
                for of in 1..4 {
                    let [parts, whole] = ["parts", "whole"].map(|name| folder.contents(&format!("{name}-{of}.npy")));
                    assert!(parts == whole, "{kind} {shape:?} {extent} {of}");
                }
            }
        }
    }
}

/// As many parts as a call can be split into, but no more than some.
fn most(folder: &Folder, call: &str, some: usize) -> usize {
    let line = folder.wrong(&format!("{call} --tile 1/1000000 -o none.npy"), 2);
    let rows = line.strip_prefix("--tile: expected at most ").and_then(|rest| rest.split(' ').next());
    rows.unwrap_or_else(|| panic!("{line}")).parse::<usize>().unwrap().min(some)
}

#[test]
fn parts_of_calls_make_the_whole() {
    let mut all = 0;
    for (number, (kind, shape, template, levels, limit)) in IMAGES.into_iter().enumerate() {
        let folder = Folder::new();
        folder.image("i", kind, shape, levels, number as u64);
        folder.image("t", kind, template, levels, 77);
        folder.image("u", kind, template, levels, 78);
        let extent = format!("{} --memory-limit {limit}", EXTENTS[number]);
        let call = format!("corr i.npy t.npy {extent}");
        folder.fine(&format!("corr i-whole.npy t.npy {extent} -o whole.npy"));
        let of = most(&folder, &call, 3);
        // In any order.
        let parts: Vec<String> = (1..=of).rev().map(|tile| format!("part-{tile}.json")).collect();
        for tile in 1..=of {
            assert_eq!(folder.fine(&format!("{call} --tile {tile}/{of} -o part-{tile}.npy")), "");
        }
        assert_eq!(folder.fine(&format!("merge {} -o merged.npy", parts.join(" "))), "");
        assert!(folder.contents("merged.npy") == folder.contents("whole.npy"), "{kind} {shape:?} {extent}");
        for (turn, search) in SEARCHES.iter().enumerate() {
            let place = shape.iter().map(|length| (length / 3).to_string()).collect::<Vec<_>>().join(",");
            let sides = template.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
            let rest = format!("t.npy --template u.npy --template-at {place}:{sides} {extent} {search}");
            let whole = folder.fine(&format!("match i-whole.npy {rest} --peaks whole.csv"));
            let (call, end) = (format!("match i.npy {rest}"), if turn % 2 == 0 { "json" } else { "npy" });
            let of = most(&folder, &call, 4 + turn);
            all += of;
            let parts: Vec<String> = (1..=of).map(|tile| format!("peaks-{tile}.json")).collect();
            for tile in 1..=of {
                assert_eq!(folder.fine(&format!("{call} --tile {tile}/{of} -o peaks-{tile}.{end}")), "");
            }
            assert_eq!(folder.fine(&format!("merge {} --peaks merged.csv", parts.join(" "))), whole, "{call}");
            assert_eq!(folder.contents("merged.csv"), folder.contents("whole.csv"), "{call}");
        }
    }
    assert!(all > 3 * IMAGES.len() * SEARCHES.len(), "{all} parts");
}

#[test]
fn what_is_no_part_is_told() {
    let folder = Folder::new();
    folder.image("i", "<f4", &[900, 60], 300, 1);
    folder.image("j", "<f4", &[900, 60], 300, 2);
    folder.image("t", "<f4", &[5, 5], 300, 3);
    for (tile, image) in [(1, "i"), (2, "i"), (3, "j")] {
        folder.fine(&format!("match {image}.npy t.npy --tile {tile}/3 -o {tile}.json"));
    }
    folder.fine("corr i.npy t.npy --tile 3/3 -o c.npy");
    assert_eq!(folder.wrong("merge 1.json 2.json", 2), "PART: expected all 3 parts, got none of 3/3");
    assert_eq!(
        folder.wrong("merge 1.json 2.json 3.json", 2),
        "PART \"3.json\": expected a part of the same result as \"1.json\", got one of another image"
    );
    assert_eq!(
        folder.wrong("merge 1.json 2.json c.json", 2),
        "PART \"c.json\": expected a part of the same result as \"1.json\", got one of another command"
    );
    std::fs::copy(folder.at("2.json"), folder.at("again.json")).unwrap();
    assert_eq!(
        folder.wrong("merge 1.json 2.json again.json", 2),
        "PART \"again.json\": expected each part once, got 2/3 again, which is \"2.json\""
    );
    let line = folder.wrong("merge 1.json c.npy", 1);
    assert!(line.starts_with("PART \"c.npy\": expected the .json file that a call with --tile wrote, got "), "{line}");
    assert!(folder.wrong("merge none.json", 1).starts_with("PART \"none.json\": expected a readable file, got: "));
    folder.fine("match i.npy t.npy --tile 3/3 -o 3.json");
    let three = "merge 1.json 2.json 3.json";
    assert_eq!(
        folder.wrong(&format!("{three} -o x.npy"), 2),
        "-o: expected parts with values, which --tile writes with -o PART.npy, got parts with peaks alone"
    );
    let endings = if cfg!(feature = "zarr") { ".npy or .zarr" } else { ".npy" };
    assert_eq!(
        folder.wrong(&format!("{three} -o x.tif"), 2),
        format!("-o: expected a name that ends in {endings}, got x.tif")
    );
    assert!(!folder.fine(three).is_empty());
    // Values that are not those of the part.
    for tile in 1..3 {
        folder.fine(&format!("corr i.npy t.npy --tile {tile}/3 -o c{tile}.npy"));
    }
    let all = "merge c1.json c2.json c.json -o x.npy";
    folder.fine(all);
    assert_eq!(folder.wrong("merge c1.json c2.json c.json", 2), "-o: expected -o OUT.npy for parts of corr, got none");
    assert!(folder.wrong("merge c1.json c2.json c.json -o c1.npy", 2).contains("another file than PART names"));
    std::fs::copy(folder.at("t.npy"), folder.at("c2.npy")).unwrap();
    let line = folder.wrong(all, 1);
    assert!(line.starts_with("PART \"c2.npy\": expected an array of f32 ") && line.contains(", got f32 "), "{line}");
    std::fs::remove_file(folder.at("c2.npy")).unwrap();
    assert!(folder.wrong(all, 1).starts_with("PART \"c2.npy\": expected a readable file, got: "));

    // Calls that make no part.
    let tile = |args: &str, status| folder.wrong(&format!("match i.npy t.npy --tile {args}"), status);
    assert!(tile("4/3 -o p.json", 2).contains("expected I/N, from 1/N to N/N, as 2/16, got 4/3"));
    assert!(tile("1/900 -o p.json", 2).starts_with("--tile: expected at most "));
    assert_eq!(tile("1/2", 2), "-o: expected -o PART.npy or -o PART.json with --tile, got none");
    assert_eq!(tile("1/2 -o p.tif", 2), "-o: expected -o PART.npy or -o PART.json with --tile, got p.tif");
    assert!(tile("1/2 -o p.json --heatmap h.png", 2).starts_with("--heatmap: expected none with --tile"));
    assert!(tile("1/2 -o p.json --platform cuda", 3).contains("parts are computed on platform cpu"));
    assert_eq!(
        folder.wrong("match i-whole.npy t.npy --tile 1/2 -o p.json", 2),
        "IMAGE: expected a .npy file in C order or a zarr array with --tile, of which parts are read, got i-whole.npy"
    );
    assert!(
        tile("1/2 -o p.json --template-at 899,0:2x2", 2).starts_with("--template-at: expected a part of the image")
    );
}

/// Ends a file of floats with one that is no number.
fn end_with_nan(folder: &Folder, name: &str) {
    let mut bytes = folder.contents(name);
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(folder.at(name), bytes).unwrap();
}

#[test]
fn samples_that_hide_peaks_are_told_once() {
    let folder = Folder::new();
    folder.image("i", "<f4", &[900, 120], 300, 1);
    folder.image("t", "<f4", &[9, 8], 300, 2);
    folder.image("u", "<f4", &[10, 8], 300, 3);
    ["i.npy", "i-whole.npy"].iter().for_each(|name| end_with_nan(&folder, name));
    let note = |image: &str| {
        format!("note: IMAGE \"{image}\": NaN or infinite samples: no peak where the template covers one\n")
    };
    let rest = "t.npy --template u.npy --memory-limit 300K";
    let [parts, whole] = ["i.npy", "i-whole.npy"].map(|image| folder.said(&format!("match {image} {rest}")));
    assert_eq!((parts.0, whole.0), (0, 0));
    let held = format!("note: IMAGE \"i-whole.npy\": 432000 bytes {HELD} (flcc help match says what is not)\n");
    assert_eq!((parts.2, whole.2), (note("i.npy"), note("i-whole.npy") + &held));
    assert_eq!(parts.1, whole.1);
    // A part that does not look at them is not hidden by them; values are not searched.
    assert_eq!(folder.fine(&format!("match i.npy {rest} --tile 1/3 -o 1.json")), "");
    assert_eq!(folder.said(&format!("match i.npy {rest} --tile 3/3 -o 3.json")), (0, String::new(), note("i.npy")));
    assert_eq!(folder.fine("corr i.npy t.npy --memory-limit 300K -o corr.npy"), "");
}

#[test]
fn an_older_part_is_replaced_and_no_other_file() {
    let folder = Folder::new();
    folder.image("i", "<f4", &[3000, 300], 300, 1);
    folder.image("t", "<f4", &[5, 5], 300, 2);
    folder.image("u", "<f4", &[61, 63], 300, 3);
    let (own, part) = (folder.at("c.json"), || folder.contents("c.json"));
    std::fs::write(&own, "{\"mine\": 1}").unwrap();
    assert_eq!(
        folder.wrong("corr i.npy t.npy --tile 1/2 -o c.npy", 1),
        "-o \"c.json\": expected none or the .json file that a call with --tile wrote, since what the part is of is \
         written there, got 11 other bytes"
    );
    assert!(part() == b"{\"mine\": 1}" && !folder.at("c.npy").exists());
    std::fs::remove_file(&own).unwrap();
    folder.fine("corr i.npy t.npy --tile 1/2 -o c.npy");
    let first = part();
    folder.fine("corr i.npy t.npy --tile 2/2 -o c.npy");
    assert!(part() != first);
    // What is refused leaves the part as it was.
    folder.wrong("corr i.npy none.npy --tile 1/2 -o c.npy", 1);
    assert!(part() != first && folder.at("c.npy").exists());

    // Killed between the values of one template and those of the next, it leaves no part.
    let call = "corr i.npy t.npy --template u.npy --method direct --tile 1/2 -o c.npy";
    let mut child = folder.command(call).spawn().unwrap();
    while own.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the old part was there until all was written");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!own.exists());
}

#[test]
fn a_part_is_read_within_a_bound() {
    let folder = Folder::new();
    std::fs::File::create(folder.at("large.json")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(
        folder.wrong("merge large.json", 1),
        "PART \"large.json\": expected the .json file that a call with --tile wrote, got a file of more than 256 MiB"
    );
}

#[test]
fn parts_of_one_kernel_that_were_not_computed_alike_are_told() {
    let folder = Folder::new();
    folder.image("i", "<f4", &[900, 300], 300, 1);
    folder.image("t", "<f4", &[40, 40], 300, 2);
    let plan = folder.fine("plan zncc:f32:900x300*40x40:valid --method fourier --threads 1 --json");
    let number = |name: &str| -> usize {
        let (_, rest) = plan.split_once(&format!("\"{name}\":")).unwrap();
        rest.split([',', '}']).next().unwrap().parse().unwrap()
    };
    let limit = number("scratch_bytes") + number("template_bytes") - 1;
    let call = "match i.npy t.npy --method fourier --threads 1";
    folder.fine(&format!("{call} --tile 1/2 -o 1.json"));
    folder.fine(&format!("{call} --tile 2/2 -o 2.json --memory-limit {limit}"));
    assert_eq!(
        folder.wrong("merge 1.json 2.json", 2),
        "PART \"2.json\": expected a part of the same result as \"1.json\", got one of another memory limit, which \
         left less room"
    );
    // And parts of another build.
    folder.fine(&format!("{call} --tile 2/2 -o 2.json"));
    folder.fine("merge 1.json 2.json");
    let text = String::from_utf8(folder.contents("2.json")).unwrap();
    std::fs::write(folder.at("2.json"), text.replacen("\"source\":\"flcc-", "\"source\":\"other-", 1)).unwrap();
    assert!(folder.wrong("merge 1.json 2.json", 2).ends_with("got one of another build of flcc"));
}

/// Where there is a GPU, auto would take it for the whole of this.
#[test]
fn parts_are_planned_for_the_cpu() {
    let folder = Folder::new();
    folder.image("t", "|u1", &[31, 31], 256, 2);
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (40000, 40000), }\n";
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    std::fs::write(folder.at("i.npy"), &bytes).unwrap();
    // All zeros, and no room on the disk.
    let file = std::fs::OpenOptions::new().write(true).open(folder.at("i.npy")).unwrap();
    file.set_len(bytes.len() as u64 + 40_000 * 40_000).unwrap();
    let kernel = |platform: &str| {
        folder.fine(&format!("match i.npy t.npy --platform {platform} --tile 7/120 -o {platform}.json"));
        let text = String::from_utf8(folder.contents(&format!("{platform}.json"))).unwrap();
        text.split_once("\"kernel\":\"").unwrap().1.split('"').next().unwrap().to_string()
    };
    assert_eq!(kernel("auto"), kernel("cpu"));
}

#[cfg(target_os = "linux")]
mod memory {
    use super::*;

    #[test]
    fn memory_does_not_grow_with_templates_that_share_places() {
        let folder = Folder::new();
        folder.image("i", "|u1", &[300, 300], 256, 1);
        folder.image("few", "|u1", &[50, 5, 5], 256, 2);
        folder.image("many", "|u1", &[400, 5, 5], 256, 2);
        let of = |stack: &str| {
            folder.peak(&format!("match i.npy {stack}.npy --stack --exclusive --top 100 --min-distance 0"))
        };
        let (few, many) = (of("few"), of("many"));
        println!("{few} KiB with 50 templates, {many} with 400");
        // All peaks of a template take 8 MB, 2.8 GB of so many; results of a tile of each take 60 to 120 MB.
        assert!(many < few + 400_000, "{few} {many}");
    }

    #[test]
    fn memory_does_not_grow_with_maps_to_write() {
        let folder = Folder::new();
        folder.image("i", "|u1", &[1_000_000], 256, 1);
        folder.image("few", "|u1", &[12, 9], 256, 2);
        folder.image("many", "|u1", &[60, 9], 256, 2);
        let of =
            |stack: &str| folder.peak(&format!("match i.npy {stack}.npy --stack --top 2000 --min-distance 0 -o m.npy"));
        let (few, many) = (of("few"), of("many"));
        println!("{few} KiB with 12 templates, {many} with 60");
        // The maps of 60 take 240 MB.
        assert!(many < few + 70_000, "{few} {many}");
    }

    #[test]
    fn memory_does_not_grow_with_the_image() {
        let folder = Folder::new();
        folder.image("i", "<u2", &[200, 200, 200], 60_000, 1);
        folder.image("small", "<u2", &[40, 50, 50], 60_000, 1);
        folder.image("t", "<u2", &[7, 7, 7], 60_000, 2);
        let call = "t.npy --top 20000 --min-distance 0 --memory-limit 8M";
        let base = folder.peak(&format!("match small.npy {call}"));
        let parts = folder.peak(&format!("match i.npy {call} -o map.npy"));
        let whole = folder.peak(&format!("match i-whole.npy {call}"));
        println!("{base} KiB for a small image, {parts} for a large one by parts, {whole} whole");
        // The image has 16 MB, its map 29.
        assert!(parts < base + 10_000 && parts + 12_000 < whole, "{base} {parts} {whole}");
    }
}
