//! The built command on small files: every command, exit status, error line and option.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::Folder;
use flcc_cli::io::{load, save_npy, save_png_gray8, save_png_rgb8};
use flcc_runtime::Pixels;
use proptest::prelude::*;
use serde_json::{Value, json};

impl Folder {
    /// The names of what is in it, in order.
    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// An array file; its values are numbered by `value`.
    fn array(&self, name: &str, shape: &[usize], value: impl Fn(usize) -> f64) -> PathBuf {
        let values = Pixels::F64((0..shape.iter().product()).map(value).collect());
        save_npy(&self.at(name), shape, &values.cast(flcc_runtime::DType::F32)).unwrap();
        self.at(name)
    }

    fn bytes(&self, name: &str, height: usize, width: usize, value: impl Fn(usize) -> u8) -> PathBuf {
        let data: Vec<u8> = (0..height * width).map(value).collect();
        save_png_gray8(&self.at(name), width, height, &data).unwrap();
        self.at(name)
    }
}

/// What a run said.
#[derive(Debug)]
struct Said {
    status: i32,
    out: String,
    err: String,
}

fn flcc(folder: &Folder, args: &str) -> Said {
    flcc_with(folder, args, &[], None)
}

/// Runs the command in the folder; arguments are separated by spaces.
fn flcc_with(folder: &Folder, args: &str, input: &[u8], wisdom: Option<&Path>) -> Said {
    let mut command = folder.command(args);
    command.env_remove("FLCC_ISA");
    if let Some(wisdom) = wisdom {
        command.env("FLCC_WISDOM", wisdom);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that ends early reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { status: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

impl Said {
    fn fine(self) -> Said {
        assert_eq!(self.status, 0, "{self:?}");
        self
    }

    /// The one line of an error with this status.
    fn fails(self, status: i32) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let lines: Vec<&str> = self.err.lines().filter(|line| !line.starts_with("note: ")).collect();
        assert!(lines.len() == 1 && lines[0].starts_with("error: "), "{self:?}");
        lines[0].to_string()
    }

    fn json(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }
}

/// Noise in which no part repeats.
fn noise(k: usize) -> u8 {
    let mut bits = (k as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits >> 40) as u8
}

fn photo(folder: &Folder) {
    folder.bytes("image.png", 40, 50, noise);
    folder.bytes("template.png", 7, 9, |k| noise((12 + k / 9) * 50 + 20 + k % 9));
}

#[test]
fn match_prints_rank_position_and_score() {
    let folder = Folder::new();
    photo(&folder);
    assert_eq!(flcc(&folder, "match image.png template.png --accuracy exact").fine().out, "1 12,20 1\n");
    let said =
        flcc(&folder, "match image.png --template-at 12,20:7x9 --top 3 --count --subpixel --accuracy exact").fine();
    let lines: Vec<Vec<&str>> = said.out.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[0][1].starts_with("12.0") || lines[0][1].starts_with("11.9"), "{said:?}");
    assert_eq!((lines[0][2], &lines[3][..]), ("1", &["count", "1", "1"][..]));
    assert!(lines[1][2].parse::<f64>().unwrap() < 0.9);
}

#[test]
fn positions_below_a_sample_by_every_fit() {
    let folder = Folder::new();
    // A smooth scene, and the same shifted by 0.25 down and 0.4 left.
    let scene =
        |y: f64, x: f64| (0.9 * y + 0.3 * x).sin() + (0.2 * y - 0.7 * x).cos() + (0.5 * x).sin() * (0.4 * y).cos();
    folder.array("image.npy", &[40, 50], |k| scene((k / 50) as f64 - 0.25, (k % 50) as f64 + 0.4));
    folder.array("template.npy", &[16, 16], |k| scene((12 + k / 16) as f64, (20 + k % 16) as f64));
    let found = |args: &str| {
        let said = flcc(&folder, &format!("match {args} --json")).fine();
        let refined = said.json()[0]["peaks"][0]["refined"].clone();
        [0, 1].map(|axis| refined[axis].as_f64().unwrap())
    };
    let error = |at: [f64; 2]| (at[0] - 12.25).abs().max((at[1] - 19.6).abs());
    let files = "image.npy template.npy";
    for (fit, bound) in [("quadratic", 0.03), ("gauss", 0.03), ("cubic", 0.015), ("septic", 0.002)] {
        let at = found(&format!("{files} --subpixel {fit}"));
        assert!(error(at) < bound, "{fit} {at:?}");
        assert_eq!(found(&format!("{files} --subpixel={fit}")), at);
        // ssd has its minimum there.
        assert!(error(found(&format!("{files} --subpixel {fit} --measure ssd"))) < 0.05, "{fit}");
    }
    // The default is the most exact one, and what follows is not its value.
    let default = found(&format!("{files} --subpixel"));
    assert_eq!(found(&format!("--subpixel {files}")), default);
    assert_eq!(found(&format!("{files} --subpixel=septic")), default);
    assert_ne!(found(&format!("{files} --subpixel=quadratic")), default);
    let wrong = flcc(&folder, &format!("match {files} --subpixel=cubical")).fails(2);
    assert!(wrong.contains("--subpixel") && wrong.contains("quadratic, gauss, cubic or septic"), "{wrong}");
}

#[test]
fn a_minimum_is_found_as_a_maximum_is() {
    let folder = Folder::new();
    photo(&folder);
    for measure in ["ssd", "sad", "nssd"] {
        let said = flcc(
            &folder,
            &format!(
                "match image.png template.png --measure {measure} --accuracy exact --threshold 0 --min-distance 1"
            ),
        )
        .fine();
        assert_eq!(said.out, "1 12,20 0\n", "{measure}");
    }
    assert_eq!(flcc(&folder, "match image.png template.png --threshold 2").fine().out, "");
}

#[test]
fn a_region_keeps_positions_and_values() {
    let folder = Folder::new();
    photo(&folder);
    assert_eq!(
        flcc(&folder, "match image.png template.png --roi 10,18:5x6 -o part.npy --accuracy exact").fine().out,
        "1 12,20 1\n"
    );
    flcc(&folder, "match image.png template.png -o whole.npy --accuracy exact").fine();
    let (part, whole) = (load(&folder.at("part.npy")).unwrap(), load(&folder.at("whole.npy")).unwrap());
    assert_eq!((part.shape, whole.shape), (vec![5, 6], vec![34, 42]));
    let (part, whole) = (part.pixels.to_f64(), whole.pixels.to_f64());
    for (k, value) in part.iter().enumerate() {
        assert_eq!(*value, whole[(10 + k / 6) * 42 + 18 + k % 6]);
    }
    let line = flcc(&folder, "match image.png template.png --roi -1,0:5x6").fails(2);
    let due =
        "error: --roi: expected a part of 0,0:34x42, where the template's first sample may lie in mode valid, got ";
    assert_eq!(line, format!("{due}-1,0:5x6"));
}

#[test]
fn one_system_of_coordinates() {
    let folder = Folder::new();
    photo(&folder);
    let pair = |value: &Value| [value[0].as_f64().unwrap(), value[1].as_f64().unwrap()];
    // What is found lies where it was asked for, in every mode.
    for mode in ["valid", "same", "full"] {
        let call = format!("match image.png template.png --mode {mode} --accuracy exact");
        assert_eq!(flcc(&folder, &call).fine().out, "1 12,20 1\n", "{mode}");
        let regions: &[([f64; 2], [f64; 2])] = match mode {
            "valid" => &[([2.0, 30.0], [5.0, 6.0]), ([0.0, 0.0], [1.0, 1.0])],
            _ => &[([2.0, 30.0], [5.0, 6.0]), ([-3.0, -4.0], [3.0, 4.0])],
        };
        for &(origin, shape) in regions {
            let roi = format!("{},{}:{}x{}", origin[0], origin[1], shape[0], shape[1]);
            let said = flcc(&folder, &format!("{call} --roi {roi} --json --subpixel --top 2 -o p.npy")).fine().json();
            let whole = flcc(&folder, &format!("{call} --json -o w.npy --top 1")).fine().json();
            assert_eq!(load(&folder.at("p.npy")).unwrap().shape, shape.map(|length| length as usize));
            for peak in said[0]["peaks"].as_array().unwrap() {
                let (position, index) = (pair(&peak["position"]), pair(&peak["index"]));
                assert_eq!(peak["origin"], peak["position"]);
                for axis in 0..2 {
                    assert!(position[axis] >= origin[axis] && position[axis] < origin[axis] + shape[axis], "{peak}");
                    assert_eq!(index[axis], position[axis] - origin[axis]);
                    assert!((pair(&peak["refined"])[axis] - position[axis]).abs() <= 1.0, "{peak}");
                }
            }
            // The index is that of the file.
            let index = pair(&whole[0]["peaks"][0]["index"]);
            let map = load(&folder.at("w.npy")).unwrap();
            assert_eq!(map.pixels.to_f64()[index[0] as usize * map.shape[1] + index[1] as usize], 1.0, "{mode}");
        }
    }
    let text = flcc(&folder, "match image.png template.png --roi 20,3:4x5").fine().out;
    let place: Vec<usize> = text.split(' ').nth(1).unwrap().split(',').map(|at| at.parse().unwrap()).collect();
    assert!((20..24).contains(&place[0]) && (3..8).contains(&place[1]), "{text}");
    for command in ["match", "conv", "corr", "lcc"] {
        assert!(flcc(&folder, &format!("{command} --help")).fine().out.contains("--roi 1,2:2x3"), "{command}");
    }
}

#[test]
fn conv_and_corr_write_literal_results() {
    let folder = Folder::new();
    folder.array("x.npy", &[3], |k| [1.0, 2.0, 3.0][k]);
    folder.array("t.npy", &[3], |k| [0.0, 1.0, 0.5][k]);
    let result = |args: &str| {
        assert_eq!(flcc(&folder, &format!("{args} -o out.npy")).fine().out, "");
        load(&folder.at("out.npy")).unwrap().pixels
    };
    assert_eq!(result("conv x.npy t.npy"), Pixels::F32(vec![0.0, 1.0, 2.5, 4.0, 1.5]));
    assert_eq!(result("corr x.npy t.npy"), Pixels::F32(vec![0.5, 2.0, 3.5, 3.0, 0.0]));
    assert_eq!(result("corr x.npy t.npy --mode valid --precision f64"), Pixels::F64(vec![3.5]));
    assert_eq!(
        result("corr --mode same --boundary constant --cval -1 x.npy t.npy --method direct"),
        Pixels::F32(vec![2.0, 3.5, 2.5])
    );
    assert_eq!(result("corr --mode same --boundary edge x.npy t.npy"), Pixels::F32(vec![2.0, 3.5, 4.5]));
    assert_eq!(result("lcc x.npy t.npy").len(), 1);
    assert_eq!(result("lcc --mode full --measure zncc x.npy t.npy").len(), 5);
}

#[test]
fn wrong_calls_are_one_line_with_status_2() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("line.npy", &[5], |k| k as f64);
    folder.array("flat.npy", &[3, 3], |_| 4.0);
    folder.array("mask.npy", &[3, 3], |k| k as f64 - 1.0);
    for (args, words) in [
        ("", "expected one of conv, corr"),
        ("frobnicate", "frobnicate"),
        ("match", "IMAGE"),
        ("wisdom --wisdom w", "show, merge, forget"),
        ("match image.png", "--template-at"),
        ("match image.png template.png --mode vaild", "full, same or valid"),
        ("match image.png template.png --top -1", "'--top <K>': number: expected a whole number"),
        ("match image.png template.png --top 0", "'--top <K>': number: expected a whole number, at least 1, got 0"),
        ("stream template.png image.png --top 0", "'--top <K>': number: expected a whole number, at least 1, got 0"),
        ("match image.png template.png --frob", "--frob"),
        ("match image.png template.png --memory-limit 1.5", "a number of bytes, as 4096, 512K, 64M or 1.5G, got 1.5"),
        ("plan zncc:f32:9x9*3:valid", "template: expected 2 axes, as the image, got 1 axis"),
        ("plan zncc:f32", "sizes, IMAGE*TEMPLATE, as the third field, as in zncc:f32:2000x2000*16x16:valid"),
        ("match image.png template.png --threshold nan", "--threshold"),
        ("match image.png line.npy", "2 axes"),
        ("match template.png image.png", "at most 7x9"),
        ("match image.png flat.npy", "not all equal"),
        ("match image.png template.png --mask line.npy", "--mask"),
        ("match image.png --template-at 0,0:3x3 --mask mask.npy", "weights >= 0"),
        ("match image.png --template-at 39,0:3x3", "--template-at"),
        ("match image.png --template-at 0:3", "--template-at"),
        ("match image.png --template-at 0,0:0x3", "--template-at"),
        ("conv image.png template.png", "-o OUT (or --heatmap OUT.png)"),
        ("conv image.png template.png --measure ncc -o x.npy", "--measure"),
        ("lcc image.png template.png --measure ssd -o x.npy", "--measure"),
        ("corr image.png template.png --boundary bounce -o x.npy", "replicate"),
        ("corr image.png template.png --boundary constant --cval inf -o x.npy", "finite"),
        (
            "corr image.png template.png --boundary constant --cval nan -o x.npy",
            "'--cval <C>': number: expected a number",
        ),
        ("corr image.png template.png --cval 2 -o x.npy", "--cval"),
        ("stream template.png", "--frame"),
        ("stream template.png --frame u8:0x3", "--frame \"u8:0x3\""),
        ("stream template.png --frame u8:3x3 image.png", "FRAMES"),
        ("local median --window 3x3 image.png -o x.npy", "sum, mean, var, min or max"),
        ("local mean --window 3 image.png -o x.npy", "axes"),
        ("plan zncc:f32:9*3", "a mode (full, same or valid) as the fourth field, as in zncc:f32:9*3:valid, got none"),
        ("plan zncc:f32:9*3:valid,bounce", "maskw"),
        ("bench", "SPEC"),
        ("bench zncc:f32:9*3:valid --seconds -1", "--seconds"),
        ("devices --threads many", "--threads"),
        ("devices --memory-limit 3X", "--memory-limit"),
        ("wisdom show", "FLCC_WISDOM"),
        ("wisdom forget --machine a --spec b --wisdom w", "--spec"),
    ] {
        let line = flcc(&folder, args).fails(2);
        assert!(line.contains(words), "{args}: {line}");
        assert!(line.matches("--memory-limit").count() < 2, "{line}");
    }
}

#[cfg(unix)]
#[test]
fn a_name_does_not_split_a_line() {
    let folder = Folder::new();
    photo(&folder);
    for name in ["a\nb.png", "cubic"] {
        std::fs::copy(folder.at("template.png"), folder.at(name)).unwrap();
    }
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_flcc")).args(args).current_dir(&folder.0).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let call = ["match", "image.png", "template.png", "--accuracy", "exact", "--template"];
    assert_eq!(run(&[&call[..], &["a\nb.png"]].concat()), "1 12,20 1 template.png\n1 12,20 1 a\\nb.png\n");
    assert_eq!(run(&["match", "image.png", "--accuracy", "exact", "--", "cubic"]), "1 12,20 1\n");
    assert!(run(&["match", "image.png", "--accuracy", "exact", "--subpixel", "./cubic"]).starts_with("1 12.0"));
}

#[test]
fn failures_have_status_1() {
    let folder = Folder::new();
    photo(&folder);
    std::fs::write(folder.at("noise.png"), b"\x89PNG\r\n\x1a\nnothing").unwrap();
    std::fs::write(folder.at("wisdom"), "flcc-wisdom 2\nrubbish\nend 0\n").unwrap();
    for (args, words) in [
        ("match missing.png template.png", "missing.png"),
        ("match noise.png template.png", "noise.png"),
        ("match image.png template.png -o no/such/folder/x.npy", "x.npy"),
        ("match image.png template.png --memory-limit 10", "--memory-limit"),
        ("match image.png template.png --wisdom wisdom", "line 2"),
        ("wisdom show --wisdom wisdom", "line 2"),
        ("wisdom show --wisdom nothing", "nothing"),
        ("conformance .", "index.json"),
        ("stream template.png no/such/frame.png", ""),
    ] {
        let said = flcc(&folder, args);
        if words.is_empty() {
            assert!(said.status == 1 && said.json()[0]["error"].is_string(), "{said:?}");
            continue;
        }
        let line = said.fails(1);
        assert!(line.contains(words), "{args}: {line}");
    }
}

#[test]
fn refusals_have_status_3() {
    let folder = Folder::new();
    photo(&folder);
    for args in [
        "match image.png template.png --platform cuda",
        "match image.png template.png --measure sad --method fourier",
        "plan sad:u8:90x90*9x9:valid --method fourier",
        "bench zncc:f32:9*3:valid --platform cuda",
        "stream template.png image.png --platform cuda",
        "local mean --window 3x3 image.png -o x.npy --platform cuda",
    ] {
        let line = flcc(&folder, args).fails(3);
        assert!(line.contains(" refuses: ") && line.len() > 30, "{args}: {line}");
    }
}

#[test]
fn several_templates_of_several_shapes() {
    let folder = Folder::new();
    photo(&folder);
    folder.bytes("other.png", 7, 9, |k| noise((3 + k / 9) * 50 + 4 + k % 9));
    folder.bytes("small.png", 5, 5, |k| noise((30 + k / 5) * 50 + 40 + k % 5));
    let said = flcc(
        &folder,
        "match image.png template.png --template small.png --template other.png --template-at 1,2:6x6 \
         --accuracy exact -o out.npy",
    )
    .fine();
    assert_eq!(said.out, "1 12,20 1 template.png\n1 30,40 1 small.png\n1 3,4 1 other.png\n1 1,2 1 1,2:6x6\n");
    let shapes: Vec<Vec<usize>> = (1..5).map(|n| load(&folder.at(&format!("out-{n}.npy"))).unwrap().shape).collect();
    assert_eq!(shapes, [[34, 42], [36, 46], [34, 42], [35, 45]]);
    assert!(!folder.at("out.npy").exists());
    // As each alone.
    flcc(&folder, "match image.png other.png --accuracy exact -o alone.npy").fine();
    assert_eq!(load(&folder.at("alone.npy")).unwrap(), load(&folder.at("out-3.npy")).unwrap());
    let lines =
        flcc(&folder, "match image.png --template other.png --template small.png --json --top 2 --count").fine().json();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["spec"], "zncc:u8:40x50*7x9:valid");
    assert_eq!(lines[0]["peaks"][0]["position"], json!([3, 4]));
    assert_eq!(lines[1]["peaks"][0]["rank"], 1);
    assert_eq!(lines[1]["optimum"]["count"], 1);
    assert!(lines[1]["kernel"].is_string() && lines[1]["ns"].as_u64().unwrap() > 0);
}

#[test]
fn templates_are_found_in_poses() {
    let folder = Folder::new();
    photo(&folder);
    // What stands in the image, turned by a quarter clockwise: it stands there turned back.
    folder.bytes("turned.png", 9, 7, |k| noise((12 + 6 - k % 7) * 50 + 20 + k / 7));
    let said = flcc(&folder, "match image.png turned.png --rotate 0:360:90 --accuracy exact").fine();
    assert_eq!(said.out, "1 15.000,24.000 1 angle 90 scale 1\n");
    let said = flcc(
        &folder,
        "match image.png turned.png --template template.png --rotate 0:180:90 --top 2 --json --peaks peaks.csv \
         --annotate found.png",
    )
    .fine();
    let lines = said.json();
    assert_eq!((lines[0]["poses"].clone(), lines[0]["left_out"].clone()), (json!(3), json!(0)));
    let [first, second] = [0, 1].map(|peak| lines[0]["peaks"][peak].clone());
    assert_eq!((first["angle"].clone(), first["position"].clone()), (json!(90.0), json!([12, 20])));
    assert_eq!((first["shape"].clone(), first["middle"].clone()), (json!([7, 9]), json!([15.0, 24.0])));
    assert!(second["rank"] == 2 && second["score"].as_f64().unwrap() < 0.9);
    assert_eq!(lines[1]["peaks"][0]["angle"], json!(0.0));
    let table = std::fs::read_to_string(folder.at("peaks.csv")).unwrap();
    assert!(table.starts_with("template,rank,y,x,angle,scale,score\nturned.png,1,15.000,24.000,90,1,"), "{table}");
    assert!(folder.at("found.png").exists());
    // Steps of which none is named are as fine as the template asks for: of 7x9 11.46 degrees, 32 in a circle.
    let fine = flcc(&folder, "match image.png turned.png --rotate 0:360 --json").fine().json();
    assert_eq!(fine[0]["poses"], json!(32));
    let even = flcc(&folder, "match image.png template.png --rotate=-30:30 --json").fine().json();
    assert_eq!((even[0]["poses"].clone(), even[0]["peaks"][0]["angle"].clone()), (json!(7), json!(0.0)));
    let scaled = flcc(&folder, "match image.png template.png --scale 1:8:1 --json").fine();
    assert_eq!((scaled.json()[0]["poses"].clone(), scaled.json()[0]["left_out"].clone()), (json!(6), json!(2)));
    assert!(scaled.err.contains("2 of 8 poses are larger than the image and were left out"), "{scaled:?}");
    // A smaller image leads to the same place: of waves, which it shows.
    let wave = |y: f64, x: f64| (100.0 + 60.0 * (0.13 * x + 0.05 * y).sin() + 50.0 * (0.11 * y - 0.09 * x).cos()) as u8;
    folder.bytes("waves.png", 160, 200, |k| wave((k / 200) as f64, (k % 200) as f64));
    folder.bytes("part.png", 40, 48, |k| wave(60.0 + (k / 48) as f64, 70.0 + (k % 48) as f64));
    let found = flcc(&folder, "match waves.png part.png --rotate=-30:30 --coarse 4 --json").fine().json();
    let peak = &found[0]["peaks"][0];
    assert_eq!((peak["middle"].clone(), peak["angle"].as_f64().unwrap().abs()), (json!([79.5, 93.5]), 0.0));
    assert!(found[0]["poses"].as_u64().unwrap() < 12, "{found:?}");
    // A template that is larger than the image, of what it shows eight times as large.
    folder.bytes("large.png", 57, 73, |k| noise((12 + k / 73 / 8) * 50 + 20 + k % 73 / 8));
    let large = flcc(&folder, "match image.png large.png --scale 0.125:1:0.875 --json").fine();
    let found = &large.json()[0]["peaks"][0];
    assert_eq!((found["middle"].clone(), found["scale"].clone()), (json!([15.0, 24.0]), json!(0.125)));
    assert!(large.err.contains("1 of 2 poses are larger than the image"), "{large:?}");
    for (args, error) in [
        ("--rotate 0:360:90 --roi 1,1:3x3", "--roi: expected none where poses are looked for"),
        ("--scale 0.5:2:0 -o out.npy", "--output: expected none where poses are looked for"),
        ("--scale 0.5:2:0", "--scale: expected FROM:TO:STEP"),
        ("--rotate x", "expected FROM:TO or FROM:TO:STEP"),
        ("--rotate 0 --boundary wrap", "--boundary: expected none where poses"),
        ("--rotate 0 --boundary unknown", "--boundary: expected none where poses"),
        ("--rotate 0 --measure ssd", "measure: expected a normalised measure"),
        ("--rotate 0:90:45 --finest 0", "finest: expected degrees above 0"),
        ("--finest 1", "finest: expected none of poses that have one angle and one scale"),
        ("--scale 90", "scale: expected"),
        ("--coarse 2", "coarse: expected none for a template of 7x9"),
    ] {
        let said = flcc(&folder, &format!("match image.png template.png {args}"));
        assert!(said.status == 2 && said.err.contains(error), "{args}: {said:?}");
    }
}

#[test]
fn masks_of_images_and_of_arrays() {
    let folder = Folder::new();
    photo(&folder);
    // A template that agrees only under the mask.
    let under = |k: usize| !k.is_multiple_of(3);
    folder.bytes("spoilt.png", 7, 9, |k| if under(k) { noise((12 + k / 9) * 50 + 20 + k % 9) } else { 99 });
    folder.bytes("mask.png", 7, 9, |k| if under(k) { 255 } else { 0 });
    folder.array("mask.npy", &[7, 9], |k| f64::from(u8::from(under(k))));
    folder.array("weights.npy", &[7, 9], |k| if under(k) { 255.0 } else { 0.0 });
    for mask in ["mask.png", "mask.npy"] {
        let said = flcc(&folder, &format!("match image.png spoilt.png --mask {mask} --accuracy exact --json")).fine();
        assert_eq!(said.json()[0]["peaks"][0]["position"], json!([12, 20]));
        assert_eq!(said.json()[0]["spec"], "zncc:u8:40x50*7x9:valid,mask01,acc=exact");
    }
    let said = flcc(&folder, "match image.png spoilt.png --mask weights.npy --json").fine();
    assert_eq!(said.json()[0]["spec"], "zncc:u8:40x50*7x9:valid,maskw");
    assert!(flcc(&folder, "conv image.png template.png --mask mask.png -o x.npy").fails(2).contains("mask"));
    // Of 16 bits, and grey that a painting program stored as colour.
    let mut deep = b"P5 9 7 65535\n".to_vec();
    deep.extend((0..63).flat_map(|k| if under(k) { [255, 255] } else { [0, 0] }));
    std::fs::write(folder.at("deep.pgm"), deep).unwrap();
    let rgb: Vec<u8> = (0..63).flat_map(|k| [if under(k) { 255 } else { 0 }; 3]).collect();
    save_png_rgb8(&folder.at("rgb.png"), 9, 7, &rgb).unwrap();
    folder.bytes("soft.png", 7, 9, |k| if under(k) { 255 } else { 3 });
    let score = |mask: &str| {
        let said = flcc(&folder, &format!("match image.png template.png --measure ssd --mask {mask} --json")).fine();
        (said.json()[0]["spec"].as_str().unwrap().to_string(), said.json()[0]["peaks"].clone(), said.err)
    };
    let (spec, peaks, silent) = score("mask.png");
    assert_eq!((spec.as_str(), silent.as_str()), ("ssd:u8:40x50*7x9:valid,mask01", ""));
    for (mask, note) in [
        ("deep.pgm", String::new()),
        ("rgb.png", "note: --mask \"rgb.png\": colour folded to grey by Rec. 601 luma\n".into()),
    ] {
        assert_eq!(score(mask), (spec.clone(), peaks.clone(), note));
    }
    let words = "weights up to 255 taken as they are: of 0 and 255 alone 255 would count as 1";
    assert_eq!(score("soft.png").2, format!("note: --mask \"soft.png\": {words}\n"));
    save_png_rgb8(&folder.at("red.png"), 9, 7, &[255, 0, 0].repeat(63)).unwrap();
    let line = flcc(&folder, "match image.png template.png --mask red.png").fails(2);
    assert!(line.starts_with("error: --mask: expected 7x9 with 1 channel"), "{line}");
}

#[test]
fn what_is_unknown_of_an_image_does_not_matter() {
    let folder = Folder::new();
    photo(&folder);
    // A part of the template's place is spoilt, and known to be.
    let spoilt = |k: usize| (13..16).contains(&(k / 50)) && (20..50).contains(&(k % 50));
    folder.bytes("spoilt.png", 40, 50, |k| if spoilt(k) { 255 - noise(k) } else { noise(k) });
    folder.bytes("known.png", 40, 50, |k| if spoilt(k) { 0 } else { 255 });
    folder.array("known.npy", &[40, 50], |k| f64::from(u8::from(!spoilt(k))));
    folder.array("spoilt.npy", &[40, 50], |k| if spoilt(k) { f64::NAN } else { f64::from(noise(k)) });
    let plain = flcc(&folder, "match image.png template.png").fine().out;
    let place = plain.split(' ').nth(1).unwrap().to_string();
    let found = |args: &str| {
        let said = flcc(&folder, args).fine();
        assert_eq!(said.err, "", "{args}");
        let words: Vec<String> = said.out.lines().next().unwrap().split(' ').map(String::from).collect();
        (words[1].clone(), words[2].parse::<f64>().unwrap())
    };
    for args in ["spoilt.png template.png --image-mask known.png", "spoilt.npy template.png --image-mask known.npy"] {
        for options in ["", " --threads 1 --min-overlap 0.5", " --boundary unknown --mode full --min-overlap 0.5"] {
            let (at, score) = found(&format!("match {args}{options}"));
            assert!(at == place && (score - 1.0).abs() < 1e-5, "{args}{options}: {at} {score}");
        }
    }
    // With all that goes with a search.
    let call = "match spoilt.png template.png --template-at 2,3:5x6 --image-mask known.png --exclusive --count --top 2 \
                --peaks p.csv --annotate a.png --heatmap h.png -o s.npy --subpixel --json";
    let said = flcc(&folder, call).fine();
    let lines = said.json();
    assert_eq!((lines.len(), lines[0]["method"].as_str()), (2, Some("masked")));
    assert_eq!(lines[1]["optimum"]["count"], 1);
    let known = |line: &Value| ["image_mask", "outside", "min_overlap"].map(|field| line[field].clone());
    assert_eq!(known(&lines[0]), [json!("known.png"), json!("boundary"), json!(0.0)]);
    let said = flcc(&folder, "match image.png template.png --boundary unknown --min-overlap 0.5 --json").fine();
    assert_eq!(known(&said.json()[0]), [json!(null), json!("unknown"), json!(0.5)]);
    assert!(flcc(&folder, "match image.png template.png --json").fine().json()[0].get("outside").is_none());
    for name in ["p.csv", "a.png", "h-1.png", "h-2.png", "s-1.npy", "s-2.npy"] {
        assert!(folder.names().contains(&name.to_string()), "{name}: {:?}", folder.names());
    }
    flcc(&folder, "lcc spoilt.npy template.png --image-mask known.npy -o l.npy").fine();
    let (lcc, matched) = (load(&folder.at("l.npy")).unwrap(), load(&folder.at("s-1.npy")).unwrap());
    assert_eq!(lcc.shape, matched.shape);
    for roi in ["0,0:5x7", "12,20:3x4"] {
        let (at, _) = found(&format!("match spoilt.png template.png --image-mask known.png --roi {roi}"));
        assert!(!at.is_empty());
    }
    folder.array("zero.npy", &[40, 50], |_| 0.0);
    let said = flcc(&folder, "match image.png template.png --image-mask zero.npy").fine();
    assert!(said.out.ends_with(" 0\n") && said.err.contains("every weight is 0"), "{said:?}");
    // The same of frames, each by itself; one of another size is told, and the stream goes on.
    let call = "stream template.png spoilt.png spoilt.npy template.png image.png --image-mask known.png --json --top 2";
    let said = flcc(&folder, &format!("{call} --min-overlap 0.5 --count"));
    let lines = said.json();
    assert_eq!((said.status, lines.len()), (1, 4), "{said:?}");
    for (line, name) in [(0, "spoilt.png"), (1, "spoilt.npy"), (3, "image.png")] {
        let alone =
            format!("match {name} template.png --image-mask known.png --min-overlap 0.5 --count --json --top 2");
        let alone = flcc(&folder, &alone).fine().json();
        for field in ["peaks", "optimum", "image_mask", "outside", "min_overlap"] {
            assert_eq!(lines[line][field], alone[0][field], "{name}: {field}");
        }
    }
    let words = lines[2]["error"].as_str().unwrap();
    assert!(words.starts_with("--image-mask: expected 7x9 with 1 channel"), "{words}");
    let said = flcc(&folder, "stream template.png image.png --boundary unknown --mode full --min-overlap 0.5").fine();
    assert_eq!((&said.json()[0]["outside"], said.err.as_str()), (&json!("unknown"), ""));
    assert!(flcc(&folder, "stream template.png image.png").fine().json()[0].get("outside").is_none());
    // What does not go with it.
    folder.array("other.npy", &[4, 5], |_| 1.0);
    folder.array("wrong.npy", &[40, 50], |k| 1.0 - k as f64);
    let with = "match image.png template.png --image-mask known.png";
    for (call, status, words) in [
        ("match image.png template.png --image-mask other.npy", 2, "--image-mask: expected 40x50 with 1 channel"),
        ("match image.png template.png --image-mask wrong.npy", 2, "--image-mask: expected finite weights >= 0"),
        ("match image.png template.png --image-mask none.npy", 1, "--image-mask \"none.npy\""),
        ("match image.png template.png --min-overlap 0.5", 2, "--min-overlap: expected --image-mask or --boundary"),
        (&format!("{with} --min-overlap 1.5"), 2, "--min-overlap: expected a share from 0 to 1"),
        (&format!("{with} --accuracy exact"), 2, "--accuracy: expected promised or fast"),
        (&format!("{with} --memory-limit 10K"), 1, "--memory-limit: expected at least "),
        (&format!("{with} --effort measure"), 2, "--effort: expected estimate with --image-mask"),
        (&format!("{with} --tile 1/2 -o x.npy"), 2, "--image-mask: expected none with --tile"),
        (&format!("{with} --method direct"), 3, "--image-mask refuses: no --method but auto"),
        (&format!("{with} --platform cuda"), 3, "--image-mask refuses: no --platform cuda"),
        (&format!("{with} --kernel corr_f64_w9_portable"), 3, "--image-mask refuses: no --kernel"),
        ("stream template.png image.png --image-mask other.npy", 2, "--image-mask: expected 40x50 with 1 channel"),
        ("stream template.png image.png --image-mask wrong.npy", 2, "--image-mask: expected finite weights >= 0"),
        ("stream template.png image.png --min-overlap 0.5", 2, "--min-overlap: expected --image-mask or --boundary"),
        (
            "stream template.png image.png --image-mask known.png --method direct",
            3,
            "--image-mask refuses: no --method",
        ),
        ("match image.png template.png --boundary unknown --cval 3", 2, "--cval: expected --boundary constant"),
        ("conv image.png template.png --image-mask known.png -o x.npy", 2, "--image-mask: expected none for conv"),
        ("local mean --window 3x3 image.png --boundary unknown -o x.npy", 2, "--boundary: expected zero, constant"),
    ] {
        let line = flcc(&folder, call).fails(status);
        assert!(line.contains(words), "{call}: {line}");
    }
}

#[test]
fn colour_is_matched_or_folded() {
    let folder = Folder::new();
    let rgb: Vec<u8> = (0..30 * 30 * 3).map(noise).collect();
    save_png_rgb8(&folder.at("colour.png"), 30, 30, &rgb).unwrap();
    folder.bytes("grey.png", 5, 5, noise);
    let said = flcc(&folder, "match colour.png --template-at 8,9:6x5 --json --accuracy exact").fine();
    assert_eq!(said.json()[0]["spec"], "zncc:u8:30x30*6x5:valid,acc=exact,channels=3");
    assert_eq!(said.json()[0]["peaks"][0]["position"], json!([8, 9]));
    assert!(flcc(&folder, "match colour.png grey.png").fails(2).contains("3 channels"));
    let said = flcc(&folder, "match colour.png grey.png --gray --json").fine();
    assert_eq!(said.json()[0]["spec"], "zncc:u8:30x30*5x5:valid");
    assert!(said.err.starts_with("note: "), "{said:?}");
    assert!(flcc(&folder, "local mean --window 3x3 colour.png -o x.npy").fails(2).contains("--gray"));
    flcc(&folder, "local mean --window 3x3 colour.png -o x.npy --gray").fine();
}

#[test]
fn pictures_of_planes_lines_and_volumes() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("line.npy", &[500], |k| f64::from(noise(k)));
    folder.array("volume.npy", &[9, 20, 24], |k| f64::from(noise(k)));
    folder.array("bad.npy", &[20, 20], |k| if k == 7 { f64::NAN } else { f64::from(noise(k)) });
    for (image, part) in
        [("image.png", "12,20:7x9"), ("line.npy", "100:30"), ("volume.npy", "2,3,4:4x5x6"), ("bad.npy", "10,10:4x4")]
    {
        for mode in ["valid", "full"] {
            flcc(
                &folder,
                &format!("match {image} --template-at {part} --top 4 --mode {mode} --annotate a.png --heatmap h.png"),
            )
            .fine();
            for name in ["a.png", "h.png"] {
                let picture = load(&folder.at(name)).unwrap();
                assert!(picture.channels == 3 && picture.shape[1] >= 300, "{image} {name} {:?}", picture.shape);
                std::fs::remove_file(folder.at(name)).unwrap();
            }
        }
    }
    flcc(&folder, "match image.png template.png --template-at 1,1:4x4 --measure ssd --heatmap h.png --annotate a.png")
        .fine();
    assert!(folder.at("h-1.png").exists() && folder.at("h-2.png").exists() && folder.at("a.png").exists());
    flcc(&folder, "conv image.png template.png --heatmap c.png").fine();
}

/// Height and width of a picture, and its bytes.
fn pixels(folder: &Folder, name: &str) -> ([usize; 2], Vec<u8>) {
    let picture = load(&folder.at(name)).unwrap();
    let Pixels::U8(data) = picture.pixels else { panic!("{name}: 8-bit samples") };
    ([picture.shape[0], picture.shape[1]], data)
}

#[cfg(target_os = "linux")]
#[test]
fn pictures_of_long_narrow_images_have_bounds() {
    let folder = Folder::new();
    for (image, shape, part) in [
        ("row.npy", [1, 3_000_000], "0,100:1x50"),
        ("column.npy", [3_000_000, 1], "100,0:50x1"),
        ("strip.npy", [1, 50_000], "0,100:1x50"),
    ] {
        folder.array(image, &shape, |k| f64::from(noise(k)));
        let call = format!("flcc match {image} --template-at {part} --top 2 --heatmap h.png --annotate a.png");
        let said = limited(&folder, 6_000_000, &call);
        assert!(said.status == 0 && said.out.lines().count() == 2, "{image}: {} {}", said.out, said.err);
        for name in ["h.png", "a.png"] {
            let ([height, width], data) = pixels(&folder, name);
            assert!(height.max(width) <= 30_000 && height.min(width) < 500, "{image} {name}: {height}x{width}");
            // The image can be seen between boxes, and margins do not take all.
            let white = data.chunks(3).filter(|pixel| *pixel == [255; 3]).count();
            assert!(white * 20 < height * width * 19, "{image} {name}: {white} of {height}x{width}");
            let bright = data.chunks(3).filter(|pixel| *pixel == [255, 196, 0]).count();
            assert!(name == "h.png" || bright > 50 && bright * 50 < height * width, "{image}: {bright}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn peaks_are_told_though_a_picture_does_not_fit() {
    let folder = Folder::new();
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (6000, 8000), }";
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").into_bytes());
    bytes.extend((0..48_000_000).map(noise));
    std::fs::write(folder.at("large.npy"), bytes).unwrap();
    let call = "flcc match large.npy --template-at 10,20:5x5 --top 2 --threads 1 --annotate a.png";
    let said = limited(&folder, 500_000, call);
    // The last digit of a score depends on the instruction set.
    let best = said.out.lines().next().and_then(|line| line.strip_prefix("1 10,20 ")?.parse::<f64>().ok());
    assert!(best.is_some_and(|score| (score - 1.0).abs() < 1e-5), "{}", said.out);
    assert!(said.status == 1 && said.out.lines().count() == 2, "{}", said.out);
    assert!(said.err.starts_with("error: memory: expected at most ") && said.err.lines().count() == 1, "{}", said.err);
    assert!(said.err.contains("a picture of ") && !folder.at("a.png").exists(), "{}", said.err);
}

#[test]
fn pictures_show_boxes_at_edges_and_small_ones() {
    let folder = Folder::new();
    folder.array("small.npy", &[30, 30], |k| f64::from(noise(k)));
    flcc(&folder, "match small.npy --template-at 0,0:30x30 --annotate a.png").fine();
    let (_, data) = pixels(&folder, "a.png");
    // A box as large as the image, 600 pixels a side, has four sides of a few pixels.
    let bright = data.chunks(3).filter(|pixel| *pixel == [255, 196, 0]).count();
    assert!(bright > 4 * 590 * 2, "{bright}");
    // Boxes of 8 x 8 are enlarged to 24 pixels or more; large ones leave the image as it is.
    folder.array("wide.npy", &[170, 450], |k| f64::from(noise(k)));
    flcc(&folder, "match wide.npy --template-at 20,20:8x8 --top 9 --annotate a.png").fine();
    flcc(&folder, "match wide.npy --template-at 20,20:80x80 --annotate b.png").fine();
    let ([_, a], [_, b]) = (pixels(&folder, "a.png").0, pixels(&folder, "b.png").0);
    assert!((3 * 450..2000).contains(&a) && b < 700, "{a} {b}");
}

#[test]
fn one_slice_is_drawn_once_and_cc_is_titled_so() {
    let folder = Folder::new();
    folder.array("one.npy", &[1, 60, 80], |k| f64::from(noise(k)));
    folder.array("two.npy", &[2, 60, 80], |k| f64::from(noise(k)));
    for (image, planes) in [("one.npy", 1), ("two.npy", 2)] {
        let call = format!("match {image} --template-at 0,9,9:1x9x9 --annotate a.png --heatmap h.png");
        flcc(&folder, &call).fine();
        for name in ["a.png", "h.png"] {
            let ([_, width], _) = pixels(&folder, name);
            assert_eq!(width > 1000, planes == 2, "{image} {name}: {width}");
        }
    }
    // The measure is told by its own name; the scores are the same, and so is all else.
    folder.array("image.npy", &[30, 40], |k| f64::from(noise(k)));
    folder.array("part.npy", &[5, 5], |k| f64::from(noise(k)));
    flcc(&folder, "match image.npy part.npy --measure cc --heatmap cc.png").fine();
    flcc(&folder, "corr image.npy part.npy --mode valid --heatmap corr.png").fine();
    let (cc, corr) = (pixels(&folder, "cc.png"), pixels(&folder, "corr.png"));
    assert!(cc.0 == corr.0 && cc.1 != corr.1);
}

#[test]
fn pictures_have_room_for_what_they_tell() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("line.npy", &[500], |k| f64::from(noise(k)));
    folder.array("volume.npy", &[9, 20, 24], |k| f64::from(noise(k)));
    folder.array("small.npy", &[9, 9], |k| f64::from(noise(k)));
    folder.array("row.npy", &[1, 300], |k| f64::from(noise(k)));
    folder.array("holes.npy", &[20, 20], |k| if k == 7 { f64::NAN } else { f64::from(noise(k)) });
    folder.array("none.npy", &[9, 9], |_| f64::NAN);
    // Height and width of both pictures.
    let sizes = |args: &str| {
        flcc(&folder, &format!("match {args} --annotate a.png --heatmap h.png")).fine();
        let size = |name: &str| {
            let shape = load(&folder.at(name)).unwrap().shape;
            [shape[0], shape[1]]
        };
        (size("a.png"), if args.contains("--template ") { [0, 0] } else { size("h.png") })
    };
    // 5 x 5 scores are 480 pixels wide, and their axes and bar lie around them.
    let (image, scores) = sizes("small.npy --template-at 2,2:5x5");
    assert!(image.iter().all(|&side| side > 9 * 67) && scores[0] > 480 && scores[1] > 480 + 60, "{scores:?}");
    // A row is high enough to be seen.
    let (row, _) = sizes("row.npy --template-at 0,100:1x20");
    assert!(row[0] > 40 && row[1] > 600, "{row:?}");
    // A volume has two planes beside each other: 24 columns, or 19 scores.
    let (planes, scores) = sizes("volume.npy --template-at 2,3,4:4x5x6");
    assert!(planes[1] > 2 * 24 * 25 && scores[1] > 2 * 19 * 31, "{planes:?} {scores:?}");
    // Of a line, signal and scores lie above each other, as wide; the scores alone are about half as high.
    let (both, scores) = sizes("line.npy --template-at 100:30 --top 4");
    assert!(both[1] == scores[1] && both[0] > scores[0] + 200, "{both:?} {scores:?}");
    // A second template has a legend, and so has what is no number.
    let (one, _) = sizes("image.png --template-at 12,20:7x9");
    let (two, _) = sizes("image.png --template-at 12,20:7x9 --template template.png");
    assert!(two[0] > one[0] && two[1] == one[1], "{one:?} {two:?}");
    folder.array("whole.npy", &[20, 20], |k| f64::from(noise(k)));
    let (whole, _) = sizes("whole.npy --template-at 10,10:4x4");
    let (holes, _) = sizes("holes.npy --template-at 10,10:4x4");
    assert!(holes[0] > whole[0] && holes[1] == whole[1], "{whole:?} {holes:?}");
    // Nothing to show is shown too.
    sizes("none.npy small.npy");
    sizes("small.npy small.npy");
    sizes("small.npy --template-at 2,2:5x5 --threshold 7");
}

#[test]
fn a_stream_of_files_and_folders() {
    let folder = Folder::new();
    photo(&folder);
    std::fs::create_dir(folder.at("frames")).unwrap();
    folder.bytes("frames/b.png", 30, 30, |k| noise(k + 500));
    folder.bytes("frames/a.png", 40, 50, noise);
    folder.bytes("frames/c.png", 3, 3, noise);
    folder.array("frames/d.npy", &[41, 50], |k| f64::from(noise(k)));
    std::fs::write(folder.at("frames/readme.txt"), "no frame").unwrap();
    let said = flcc(&folder, "stream template.png frames image.png --accuracy exact --count");
    assert_eq!(said.status, 1, "{said:?}");
    let lines = said.json();
    let names: Vec<&str> = lines.iter().map(|line| line["frame"].as_str().unwrap()).collect();
    assert_eq!(names, ["frames/a.png", "frames/b.png", "frames/c.png", "frames/d.npy", "image.png"]);
    assert!(lines[2]["error"].as_str().unwrap().contains("at most 3x3"));
    for k in [0, 3, 4] {
        assert_eq!(lines[k]["peaks"][0]["position"], json!([12, 20]), "{said:?}");
        assert!((lines[k]["peaks"][0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-6);
    }
    assert_eq!(lines[3]["shape"], json!([41, 50]));
    assert!(lines[0]["ns"].as_u64().unwrap() > 0 && lines[0]["optimum"]["count"] == 1);
}

#[test]
fn a_note_of_many_frames_is_told_once_and_counted() {
    let folder = Folder::new();
    photo(&folder);
    let rgb: Vec<u8> = (0..12 * 12 * 3).map(noise).collect();
    save_png_rgb8(&folder.at("colour.png"), 12, 12, &rgb).unwrap();
    std::fs::copy(folder.at("colour.png"), folder.at("b.tif")).unwrap();
    std::fs::write(folder.at("bad.png"), "rubbish").unwrap();
    let call = "stream template.png image.png colour.png b.tif bad.png colour.png --gray";
    let said = flcc(&folder, call);
    assert!(said.status == 1 && said.json().len() == 5, "{said:?}");
    let folded = "colour folded to grey by Rec. 601 luma";
    let lines = [
        format!("note: FRAMES \"colour.png\": {folded}"),
        "note: FRAMES \"b.tif\": named .tif, read as PNG".into(),
        format!("note: FRAMES: {folded}: 3 of 5 frames"),
    ];
    assert_eq!(said.err.lines().collect::<Vec<_>>(), lines);
    let piped = flcc_with(&folder, "stream template.png --gray --frame rgb24:12x12", &rgb.repeat(40), None).fine();
    let lines = [format!("note: FRAMES \"0\": {folded}"), format!("note: FRAMES: {folded}: 40 of 40 frames")];
    assert_eq!(piped.err.lines().collect::<Vec<_>>(), lines);
    let said = flcc(&folder, "match colour.png template.png --gray --json").fine();
    assert_eq!(said.err, format!("note: IMAGE \"colour.png\": {folded}\n"));
}

#[test]
fn what_no_number_hides_is_told() {
    let folder = Folder::new();
    photo(&folder);
    let sample = |k: usize, odd: f64| if k == 14 * 50 + 22 { odd } else { f64::from(noise(k)) };
    folder.array("nan.npy", &[40, 50], |k| sample(k, f64::NAN));
    folder.array("inf.npy", &[40, 50], |k| sample(k, f64::INFINITY));
    folder.array("all.npy", &[40, 50], |_| f64::NAN);
    folder.array("fine.npy", &[40, 50], |k| f64::from(noise(k)));
    let note = "NaN or infinite samples: no peak where the template covers one";
    for (name, noted) in [("nan.npy", true), ("inf.npy", true), ("all.npy", true), ("fine.npy", false)] {
        let due = if noted { format!("note: IMAGE {name:?}: {note}\n") } else { String::new() };
        let said = flcc(&folder, &format!("match {name} template.png")).fine();
        assert_eq!((said.err, said.out.starts_with("1 12,20 ")), (due, !noted));
        assert_eq!(flcc(&folder, &format!("lcc {name} template.png -o x.npy")).fine().err, "");
    }
    // Only where they are known.
    for (unknown, noted) in [(14 * 50 + 22, false), (0, true)] {
        folder.array("known.npy", &[40, 50], |k| if k == unknown { 0.0 } else { 1.0 });
        let due = if noted { format!("note: IMAGE \"nan.npy\": {note}\n") } else { String::new() };
        let said = flcc(&folder, "match nan.npy template.png --image-mask known.npy").fine();
        assert_eq!((said.err, said.out.starts_with("1 12,20 ")), (due, !noted));
    }
    for known in ["", " --image-mask known.npy"] {
        let said = flcc(&folder, &format!("stream template.png nan.npy fine.npy all.npy{known}")).fine();
        assert_eq!(said.err, format!("note: FRAMES \"nan.npy\": {note}\nnote: FRAMES: {note}: 2 of 3 frames\n"));
    }
}

#[test]
fn a_stream_of_raw_frames() {
    let folder = Folder::new();
    photo(&folder);
    let frame: Vec<u8> = (0..40 * 50).map(noise).collect();
    let two = [frame.as_slice(), frame.as_slice()].concat();
    for args in ["stream template.png - --frame u8:40x50", "stream template.png --frame u8:40x50 --top 2"] {
        let said = flcc_with(&folder, args, &two, None).fine();
        assert_eq!(said.json().len(), 2);
        assert_eq!(said.json()[1]["frame"], 1);
        assert_eq!(said.json()[1]["peaks"][0]["position"], json!([12, 20]));
    }
    for (frame, status, words) in [
        ("u8:9999999x9999999", 1, "(half of the free memory), got 99999980000001 (u8:9999999x9999999)"),
        ("u8:99999999x999999999", 1, "(half of the free memory), got 99999998900000001 (u8:99999999x999999999)"),
        ("u8:4294967296x2147483647", 2, "expected at most 576460752303423487 samples, got 4294967296x2147483647"),
        ("f64:4294967296x4294967296", 2, "expected a frame that an address can span, got \"4294967296x4294967296\""),
    ] {
        let line = flcc_with(&folder, &format!("stream template.png --frame {frame}"), &two, None).fails(status);
        assert!(line.starts_with("error: --frame") && line.contains(words), "{line}");
    }
    // What should have written them may have failed.
    std::fs::write(folder.at("none.y4m"), "YUV4MPEG2 W50 H40\n").unwrap();
    for (call, input, frame, name) in [
        ("--frame u8:40x50", "", Value::from(0), "standard input"),
        ("", "YUV4MPEG2 W50 H40\n", Value::from(0), "standard input"),
        ("none.y4m", "", "none.y4m[0]".into(), "none.y4m"),
    ] {
        let said = flcc_with(&folder, &format!("stream template.png {call}"), input.as_bytes(), None);
        let line = json!({
            "frame": frame, "error": format!("FRAMES {name:?}: expected at least one frame, got none")
        });
        assert_eq!((said.status, said.json()), (1, vec![line]), "{call}");
    }
    let vast = b"YUV4MPEG2 W9999999 H9999999\n";
    let line = flcc_with(&folder, "stream template.png", vast, None).fails(1);
    assert!(line.starts_with("error: FRAMES: expected frames of at most "), "{line}");
    let said = flcc_with(&folder, "stream template.png --frame u8:40x50", &two[..3000], None);
    assert!(
        said.status == 1 && said.json().len() == 2 && said.json()[1]["error"].as_str().unwrap().contains("1000 bytes"),
        "{said:?}"
    );
}

/// A stream of YUV4MPEG2 whose luma is these frames, with chroma of 4:2:0.
fn y4m(height: usize, width: usize, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C420jpeg\n").into_bytes();
    for luma in frames {
        bytes.extend(b"FRAME\n");
        bytes.extend(luma);
        bytes.extend(vec![128; 2 * height.div_ceil(2) * width.div_ceil(2)]);
    }
    bytes
}

#[test]
fn results_of_cases_replace_none_of_their_files() {
    let folder = Folder::new();
    folder.array("a.npy", &[9, 9], |k| f64::from(noise(k)));
    folder.array("t.npy", &[3, 3], |k| f64::from(noise(k + 7)));
    std::fs::create_dir(folder.at("out")).unwrap();
    let before = std::fs::read(folder.at("a.npy")).unwrap();
    let index = |id: &str| {
        let text = format!(
            r#"{{"cases": [{{"id": "{id}", "op": "corr", "dims": 2, "mode": "valid", "boundary": "zero",
                "image": "a.npy", "template": "t.npy"}}]}}"#
        );
        std::fs::write(folder.at("index.json"), text).unwrap();
    };
    index("a");
    let line = flcc(&folder, "conformance . --results .").fails(2);
    assert!(line.contains(r#"another file than case "a" names"#), "{line}");
    assert_eq!(std::fs::read(folder.at("a.npy")).unwrap(), before);
    index("../a");
    let line = flcc(&folder, "conformance . --results out").fails(2);
    assert!(line.contains("id: expected the name of a file") && folder.names().len() == 4, "{line}");
    index("a");
    flcc(&folder, "conformance . --results out");
    assert_eq!(load(&folder.at("out/a.npy")).unwrap().shape, [7, 7]);
}

/// What a call reads, or is about to write, no picture of a stream replaces: templates of a folder and the wisdom file
/// among it. Standard input is read once.
#[test]
fn pictures_of_a_stream_replace_nothing_that_the_call_names() {
    let folder = Folder::new();
    folder.array("frame.npy", &[20, 30], |k| f64::from(noise(k)));
    std::fs::create_dir(folder.at("parts")).unwrap();
    let part = folder.bytes("parts/x-0.png", 4, 5, noise);
    let before = std::fs::read(&part).unwrap();
    let line = flcc(&folder, "stream parts frame.npy --annotate parts/x-%d.png").fails(2);
    assert!(line.contains("--annotate") && line.contains("another file than TEMPLATE names"), "{line}");
    assert_eq!(std::fs::read(&part).unwrap(), before);
    let frames = [b"YUV4MPEG2 W30 H20 F1:1 Cmono\n".to_vec(), frame_of(600), frame_of(600)].concat();
    std::fs::write(folder.at("two.y4m"), frames).unwrap();
    let call = "stream parts/x-0.png two.y4m --effort measure --wisdom w-1.png --annotate w-%d.png";
    let said = flcc(&folder, call);
    assert!(said.status == 2 && said.err.contains("another file than --wisdom names"), "{said:?}");
    assert!(folder.at("w-0.png").exists() && !folder.at("w-1.png").exists());
    for call in ["match - -", "match frame.npy - --mask -", "stream - --frame u8:20x30"] {
        let line = flcc(&folder, call).fails(2);
        assert!(line.contains("standard input, which is read once"), "{call}: {line}");
    }
}

/// A frame of YUV4MPEG2 of so many samples.
fn frame_of(samples: usize) -> Vec<u8> {
    [b"FRAME\n".to_vec(), (0..samples).map(noise).collect()].concat()
}

#[test]
fn a_stream_of_yuv4mpeg2() {
    let folder = Folder::new();
    photo(&folder);
    let frame = |shift: usize| (0..40 * 50).map(|k| noise(k + 50 * shift)).collect::<Vec<u8>>();
    let two = y4m(40, 50, &[frame(0), frame(3)]);
    std::fs::create_dir(folder.at("frames")).unwrap();
    std::fs::write(folder.at("frames/clip.y4m"), &two).unwrap();
    let places = |lines: &[Value]| lines.iter().map(|line| line["peaks"][0]["position"][0].clone()).collect::<Vec<_>>();
    let said = flcc_with(&folder, "stream template.png --accuracy exact", &two, None).fine().json();
    assert_eq!((&said[0]["frame"], &said[1]["frame"]), (&json!(0), &json!(1)));
    assert_eq!(places(&said), [12, 9]);
    let said = flcc(&folder, "stream template.png image.png frames --accuracy exact").fine().json();
    let names: Vec<&str> = said.iter().map(|line| line["frame"].as_str().unwrap()).collect();
    assert_eq!(names, ["image.png", "frames/clip.y4m[0]", "frames/clip.y4m[1]"]);
    assert_eq!(places(&said), [12, 12, 9]);
    // Cut short: the whole frames, and a line that says so.
    let said = flcc_with(&folder, "stream template.png -", &two[..two.len() - 1], None);
    let lines = said.json();
    assert!(said.status == 1 && lines.len() == 2, "{said:?}");
    let words = "FRAMES \"standard input\": expected 1000 bytes of chroma in frame 1, got 999 bytes before the end";
    assert_eq!(lines[1]["error"], words);
    let refused = |input: &[u8], status: i32| flcc_with(&folder, "stream template.png", input, None).fails(status);
    let line = refused(b"YUV4MPEG2 W50 H40 C420p10\nFRAME\n", 1);
    assert!(line.starts_with("error: FRAMES \"standard input\": expected YUV4MPEG2 of 8 bits (420, "), "{line}");
    assert!(line.ends_with("got \"C420p10\""), "{line}");
    assert!(refused(b"YUV4MPEG2 W999999999999 H999999999999\n", 1).contains("a frame that an address can span"));
    assert!(refused(b"YUV4MPEG2 W3 H3\n", 2).contains("at most 3x3"));
    assert!(refused(b"rubbish", 2).starts_with("error: --frame: expected TYPE:SHAPE of the frames on standard input"));
    // It is told by its first bytes, whatever its name.
    std::fs::copy(folder.at("image.png"), folder.at("no.y4m")).unwrap();
    std::fs::write(folder.at("clip.png"), &two).unwrap();
    std::fs::write(folder.at("clip"), &two).unwrap();
    let said = flcc(&folder, "stream template.png no.y4m clip.png clip no/such.y4m --accuracy exact");
    assert_eq!(places(&said.json()[..5]), [12, 12, 9, 12, 9], "{said:?}");
    assert!(said.json()[5]["error"].as_str().unwrap().contains("expected a readable file"), "{said:?}");
    for note in ["\"no.y4m\": named .y4m, read as PNG\n", "\"clip.png[0]\": named .png, read as YUV4MPEG2\n"] {
        assert!(said.err.contains(&format!("note: FRAMES {note}")), "{said:?}");
    }
    assert_eq!(said.err.lines().count(), 2, "{said:?}");
    // Its lines are no samples.
    let said = flcc_with(&folder, "stream template.png --frame u8:40x50", &two, None);
    let words = "expected raw frames (u8:40x50), got YUV4MPEG2, which tells its sizes itself";
    assert!(said.status == 1 && said.json().len() == 1, "{said:?}");
    assert_eq!(said.json()[0]["error"], format!("FRAMES \"standard input\": {words}"));
    assert!(flcc(&folder, "match frames/clip.y4m template.png").fails(1).contains("got YUV4MPEG2 (flcc stream takes"));
}

#[test]
fn a_stream_in_colour_is_matched_as_images_are() {
    let folder = Folder::new();
    let rgb: Vec<u8> = (0..30 * 32 * 3).map(noise).collect();
    save_png_rgb8(&folder.at("colour.png"), 32, 30, &rgb).unwrap();
    let part: Vec<u8> = (0..6 * 5 * 3).map(|k| rgb[((8 + k / 15) * 32 + 9) * 3 + k % 15]).collect();
    save_png_rgb8(&folder.at("part.png"), 5, 6, &part).unwrap();
    folder.bytes("grey.png", 5, 5, noise);
    for options in ["", "--gray"] {
        let call = format!("stream part.png --frame rgb24:30x32 --precision f64 {options}");
        let piped = flcc_with(&folder, &call, &rgb, None).fine().json();
        let matched =
            flcc(&folder, &format!("match colour.png part.png --json --precision f64 {options}")).fine().json();
        assert_eq!(piped[0]["peaks"], matched[0]["peaks"], "{options}");
        assert_eq!(piped[0]["peaks"][0]["position"], json!([8, 9]));
    }
    let line = flcc_with(&folder, "stream grey.png --frame rgb24:30x32", &rgb, None).fails(2);
    assert!(line.starts_with("error: TEMPLATE: expected 3 channels, as the image (--gray folds"), "{line}");
    let line = flcc_with(&folder, "stream part.png --frame u8:30x32", &rgb, None).fails(2);
    assert!(line.starts_with("error: TEMPLATE: expected 1 channel, as the image"), "{line}");
    flcc_with(&folder, "stream grey.png --frame rgb24:30x32 --gray", &rgb, None).fine();
}

#[test]
fn a_stream_for_several_templates() {
    let folder = Folder::new();
    photo(&folder);
    std::fs::create_dir(folder.at("templates")).unwrap();
    folder.bytes("templates/b.png", 7, 9, |k| noise((3 + k / 9) * 50 + 4 + k % 9));
    folder.bytes("templates/a.png", 5, 5, |k| noise((30 + k / 5) * 50 + 40 + k % 5));
    folder.bytes("low.png", 6, 50, noise);
    folder.bytes("flat.png", 4, 4, |_| 7);
    let call = "stream template.png image.png low.png image.png --template templates --accuracy exact --top 2";
    let said = flcc(&folder, call);
    let lines = said.json();
    assert!(said.status == 1 && lines.len() == 9, "{said:?}");
    let names = ["template.png", "templates/a.png", "templates/b.png"];
    let alone =
        flcc(&folder, "match image.png template.png --template templates --accuracy exact --top 2 --json").fine();
    for (k, line) in lines.iter().enumerate() {
        assert_eq!(line["frame"], if k / 3 == 1 { "low.png" } else { "image.png" });
        assert_eq!(line["template"], names[k % 3]);
        // The frame of 6 rows holds the template of 5.
        let fails = k / 3 == 1 && k % 3 != 1;
        assert_eq!(line.get("error").is_some(), fails, "{line}");
        assert!(!fails || line["error"].as_str().unwrap().contains("at most 6x50"), "{line}");
        if k / 3 != 1 {
            assert_eq!(line["peaks"], alone.json()[k % 3]["peaks"]);
        }
    }
    // Which of them is wrong.
    let line = flcc(&folder, "stream template.png image.png --template flat.png").fails(2);
    assert!(line.starts_with("error: --template \"flat.png\": expected "), "{line}");
    let line = flcc(&folder, "match image.png template.png --template flat.png").fails(2);
    assert!(line.starts_with("error: --template \"flat.png\": expected "), "{line}");
    std::fs::create_dir(folder.at("none")).unwrap();
    assert!(flcc(&folder, "match image.png none").fails(1).contains("TEMPLATE \"none\": expected a folder of images"));
}

#[test]
fn a_file_with_one_axis_more_is_a_stack_of_templates() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("line.npy", &[300], |k| f64::from(noise(k)));
    folder.array("lines.npy", &[3, 20], |k| f64::from(noise(50 * (k / 20) + 7 + k % 20)));
    folder.array("one.npy", &[20], |k| f64::from(noise(57 + k)));
    folder.array("none.npy", &[0, 20], |_| 0.0);
    let out = |args: &str| flcc(&folder, &format!("{args} --accuracy exact")).fine().out;
    let lines = "1 7 1 lines.npy[0]\n1 57 1 lines.npy[1]\n1 107 1 lines.npy[2]\n";
    assert_eq!(out("match line.npy lines.npy --stack"), lines);
    // Unless it is said to be one, it is a template of other axes than the image's.
    let expected = "error: TEMPLATE: expected 1 axis, as the image, or --stack for a stack of templates, got 2 axes in";
    assert_eq!(flcc(&folder, "match line.npy lines.npy").fails(2), format!("{expected} \"lines.npy\""));
    assert_eq!(flcc(&folder, "stream lines.npy line.npy").fails(2), format!("{expected} \"lines.npy\""));
    let line = flcc(&folder, "match image.png --template template.png --template one.npy").fails(2);
    assert_eq!(line, "error: --template: expected 2 axes, as the image, got 1 axis in \"one.npy\"");
    assert_eq!(
        out("match line.npy --template lines.npy --template one.npy --stack"),
        format!("{lines}1 57 1 one.npy\n")
    );
    assert_eq!(out("match line.npy lines.npy -o o.npy --stack"), lines);
    assert_eq!(load(&folder.at("o-3.npy")).unwrap().shape, [281]);
    assert!(!folder.at("o.npy").exists() && !folder.at("o-4.npy").exists());
    // Pages of a TIFF are templates for an image, and one template for a volume.
    folder.array("volume.npy", &[2, 7, 9], |k| f64::from(noise((5 * (k / 63) + k % 63 / 9) * 50 + 3 + k % 9)));
    let stack = load(&folder.at("volume.npy")).unwrap();
    flcc_cli::io::save_tiff(&folder.at("pages.tif"), &stack.shape, &stack.pixels).unwrap();
    folder.array("block.npy", &[3, 40, 50], |k| f64::from(noise(k)));
    assert_eq!(out("match image.png pages.tif --stack"), "1 0,3 1 pages.tif[0]\n1 5,3 1 pages.tif[1]\n");
    assert_eq!(out("match block.npy pages.tif --stack").lines().count(), 1);
    // In a stream it is what the axes of the frame say.
    let said = flcc(&folder, "stream pages.tif image.png block.npy --accuracy exact --top 1 --stack").fine().json();
    let told: Vec<(&str, &Value)> =
        said.iter().map(|line| (line["template"].as_str().unwrap(), &line["template_shape"])).collect();
    let (plane, block) = (json!([7, 9]), json!([2, 7, 9]));
    assert_eq!(told, [("pages.tif[0]", &plane), ("pages.tif[1]", &plane), ("pages.tif", &block)]);
    let bytes: Vec<u8> = (0..300).map(noise).collect();
    let said =
        flcc_with(&folder, "stream lines.npy --frame u8:300 --accuracy exact --stack", &bytes, None).fine().json();
    assert_eq!((said.len(), &said[2]["peaks"][0]["position"]), (3, &json!([107])));
    for (args, words) in [
        (
            "match line.npy none.npy --stack",
            "TEMPLATE: expected a stack of at least one template, got none in \"none.npy\", 0x20",
        ),
        ("match line.npy volume.npy", "TEMPLATE: expected 1 axis, as the image, got 3 axes"),
        ("match line.npy lines.npy -o - --stack", "-o: expected a file"),
        ("conv line.npy lines.npy -o - --stack", "-o: expected a file (standard output, -, takes one result"),
    ] {
        let line = flcc(&folder, args).fails(2);
        assert!(line.contains(words), "{args}: {line}");
    }
}

#[test]
fn files_without_a_header_are_told_by_raw() {
    let folder = Folder::new();
    photo(&folder);
    let wide: Vec<u8> = (0..40 * 50).flat_map(|k| (u16::from(noise(k)) * 7).to_le_bytes()).collect();
    let part: Vec<u8> = (0..63).flat_map(|k| f32::from(noise((12 + k / 9) * 50 + 20 + k % 9)).to_le_bytes()).collect();
    let rgb: Vec<u8> = (0..40 * 50 * 3).map(noise).collect();
    for (name, bytes) in [("image.raw", &wide), ("part", &part), ("rgb.bin", &rgb), ("short.raw", &wide[..7].to_vec())]
    {
        std::fs::write(folder.at(name), bytes).unwrap();
    }
    let said = |args: &str, input: &[u8]| flcc_with(&folder, &format!("{args} --accuracy exact"), input, None);
    let found = |args: &str, input: &[u8]| assert_eq!(said(args, input).fine().out, "1 12,20 1\n", "{args}");
    // Files of a known extension are read as ever.
    found("match image.raw template.png --raw u16:40x50", &[]);
    found("match image.png part --raw f32:7x9", &[]);
    found("match image.raw part --raw u16:40x50 --raw f32:7x9", &[]);
    found("match image.raw --template-at 12,20:7x9 --raw u16:40x50 --raw u16:40x50", &[]);
    found("match rgb.bin --template-at 12,20:7x9 --raw rgb24:40x50", &[]);
    found("match - template.png --raw u16:40x50", &wide);
    found("match - part --raw u16:40x50 --raw f32:7x9", &wide);
    found("match - template.png", &std::fs::read(folder.at("image.png")).unwrap());
    flcc(&folder, "local mean image.raw --window 3x3 --raw u16:40x50 -o x.npy").fine();
    let streamed = flcc(&folder, "stream part image.raw image.png --raw f32:7x9 --raw u16:40x50").fine().json();
    assert!(streamed.iter().all(|line| line["peaks"][0]["position"] == json!([12, 20])));
    let sizes = "expected 4000 bytes (u16:40x50) or 252 bytes (f32:7x9), got";
    let both = "--raw u16:40x50 --raw f32:7x9";
    for (args, input, status, words) in [
        (format!("match short.raw part {both}"), &wide[..0], 1, format!("IMAGE \"short.raw\": {sizes} 7")),
        (format!("match image.png short.raw {both}"), &wide[..0], 1, format!("TEMPLATE \"short.raw\": {sizes} 7")),
        (format!("match - part {both}"), &wide[..9], 1, format!("IMAGE \"-\": {sizes} 9")),
        (format!("match - part {both}"), &rgb[..], 1, format!("IMAGE \"-\": {sizes} more than 4000")),
        (format!("match image.png template.png --mask short.raw {both}"), &wide[..0], 1, "--mask \"short.raw\"".into()),
        ("match image.raw part".into(), &wide[..0], 1, "IMAGE \"image.raw\": expected PNG".into()),
        (
            "match image.raw part --raw u16:40x50 --raw u16:50x40".into(),
            &wide[..0],
            2,
            "--raw: expected formats of several sizes, not the 4000 bytes of u16:40x50 again, got u16:50x40".into(),
        ),
        ("match image.raw part --raw i8:3x3".into(), &wide[..0], 2, "a type u8, u16, f32, f64 or rgb24".into()),
        ("match image.raw part --raw u8:0x3".into(), &wide[..0], 2, "'--raw <TYPE:SHAPE>'".into()),
        (
            "match image.raw part --raw f64:99999999x9999999".into(),
            &wide[..0],
            1,
            "(f64:99999999x9999999), got 4000".into(),
        ),
    ] {
        let line = said(&args, input).fails(status);
        assert!(line.contains(&words), "{args}: {line}");
    }
}

#[test]
fn raw_files_in_a_folder_are_read() {
    let folder = Folder::new();
    photo(&folder);
    for name in ["frames", "parts", "texts"] {
        std::fs::create_dir(folder.at(name)).unwrap();
    }
    let wide = |shift: usize| (0..40 * 50).flat_map(|k| u16::from(noise(k + shift)).to_le_bytes()).collect::<Vec<u8>>();
    let part = |y: usize| (0..63).map(|k| noise((y + k / 9) * 50 + 20 + k % 9)).collect::<Vec<u8>>();
    for (name, bytes) in [
        ("frames/b.raw", wide(150)),
        ("frames/a.raw", wide(0)),
        ("frames/short.raw", wide(0)[..100].to_vec()),
        ("frames/notes.txt", b"no frame".to_vec()),
        ("frames/.hidden", wide(0)),
        ("parts/one", part(12)),
        ("parts/two", part(3)),
        ("texts/notes.txt", b"no frame".to_vec()),
    ] {
        std::fs::write(folder.at(name), bytes).unwrap();
    }
    std::fs::copy(folder.at("image.png"), folder.at("frames/c.png")).unwrap();
    let raw = "--raw u16:40x50 --raw u8:7x9 --accuracy exact";
    let said = flcc(&folder, &format!("stream template.png frames {raw}"));
    let lines = said.json();
    let names: Vec<&str> = lines.iter().map(|line| line["frame"].as_str().unwrap()).collect();
    assert_eq!(names, ["frames/a.raw", "frames/b.raw", "frames/c.png", "frames/short.raw"], "{said:?}");
    let rows: Vec<&Value> = lines[..3].iter().map(|line| &line["peaks"][0]["position"][0]).collect();
    assert_eq!((rows, said.status), (vec![&12.into(), &9.into(), &12.into()], 1));
    assert!(lines[3]["error"].as_str().unwrap().contains("expected 4000 bytes (u16:40x50) or"), "{said:?}");
    let out = flcc(&folder, &format!("match image.png parts {raw}")).fine().out;
    assert_eq!(out, "1 12,20 1 parts/one\n1 3,20 1 parts/two\n");
    let none = "a folder of images (.png, .jpg, .tif, .pgm, .ppm, .npy)";
    let line = flcc(&folder, "stream template.png texts").fails(1);
    assert_eq!(line, format!("error: FRAMES \"texts\": expected {none}, got none"));
    let line = flcc(&folder, "match image.png --template texts --raw u16:40x50").fails(1);
    assert_eq!(
        line,
        format!("error: --template \"texts\": expected {none}, or files of 4000 bytes (u16:40x50), got none")
    );
}

#[test]
fn exclusive_leaves_no_place_to_two_templates() {
    let folder = Folder::new();
    photo(&folder);
    // The template's own middle, and the template with a stranger's rows.
    folder.bytes("inner.png", 5, 5, |k| noise((13 + k / 5) * 50 + 22 + k % 5));
    folder.bytes("like.png", 7, 9, |k| if k / 9 < 6 { noise((12 + k / 9) * 50 + 20 + k % 9) } else { noise(9 * k) });
    let places = |said: &Said| -> Vec<(String, Value, f64)> {
        said.json()
            .iter()
            .flat_map(|line| {
                let name = line["template"].as_str().unwrap();
                let peaks = line["peaks"].as_array().unwrap().iter();
                peaks.map(move |peak| (name.into(), peak["position"].clone(), peak["score"].as_f64().unwrap()))
            })
            .collect()
    };
    let all = "--template like.png --template inner.png --accuracy exact";
    let shared = places(&flcc(&folder, &format!("match image.png template.png {all} --json")).fine());
    let position = |y: usize, x: usize| json!([y, x]);
    assert_eq!((&shared[1].1, &shared[2].1), (&position(12, 20), &position(13, 22)));
    let own = places(&flcc(&folder, &format!("match image.png template.png {all} --exclusive --json")).fine());
    // Of equal scores the earlier template's stays; the others are told their next best.
    assert_eq!((own.len(), &own[0].1), (3, &position(12, 20)));
    assert!(own[1].2 < shared[1].2 && own[2].2 < shared[2].2, "{own:?}");
    let streamed = flcc(&folder, &format!("stream template.png image.png {all} --exclusive")).fine();
    assert_eq!(places(&streamed), own);
    // With a threshold nothing else is left of them.
    let call = "match image.png template.png --template like.png --accuracy exact --threshold 0.6";
    assert_eq!(flcc(&folder, call).fine().out.lines().count(), 2);
    assert_eq!(flcc(&folder, &format!("{call} --exclusive")).fine().out, "1 12,20 1 template.png\n");
    // Half of 7 is 3: middles that are 4 apart are two places.
    let call = "match image.png --template-at 12,20:7x7 --template-at 12,24:7x7 --template-at 15,27:7x7";
    let two = flcc(&folder, &format!("{call} --accuracy exact --exclusive")).fine().out;
    assert_eq!(two.lines().filter(|line| line.contains(" 1 ")).count(), 2, "{two}");
    assert!(two.starts_with("1 12,20 1 ") && two.contains("1 12,24 1 "), "{two}");
    let alone = flcc(&folder, "match image.png template.png --accuracy exact --top 4").fine().out;
    assert_eq!(flcc(&folder, "match image.png template.png --accuracy exact --top 4 --exclusive").fine().out, alone);
}

#[test]
fn exclusive_looks_for_more_where_another_template_takes_the_best() {
    let folder = Folder::new();
    // Dots, 6400 of them, amid noise. One template is all of them; 63 others find one in each.
    let inside = |k: usize| (20..180).contains(&(k / 200)) && (20..180).contains(&(k % 200));
    let dot = |k: usize| if (k / 200).is_multiple_of(2) && k.is_multiple_of(2) { 255 } else { 0 };
    let image = |k: usize| f64::from(if inside(k) { dot(k) } else { noise(k) / 2 });
    folder.array("image.npy", &[200, 200], image);
    folder.array("all.npy", &[160, 160], |k| image((20 + k / 160) * 200 + 20 + k % 160));
    folder.array("one.npy", &[2, 2], |k| [255.0, 0.0, 0.0, 9.0][k]);
    folder.array("stack.npy", &[63, 2, 2], |k| [255.0, 0.0, 0.0, 9.0][k % 4]);
    let positions = |said: Said| -> Vec<Vec<i64>> {
        let lines = said.fine().json();
        let peaks = lines.iter().flat_map(|line| line["peaks"].as_array().unwrap());
        peaks.map(|peak| serde_json::from_value(peak["position"].clone()).unwrap()).collect()
    };
    let mut expected = positions(flcc(&folder, "match image.npy one.npy --top 20000 --accuracy exact --json"));
    // Of a middle more than 80 from that of all dots nothing is taken: the first lists of 64 templates have too few.
    let is_free = |at: &Vec<i64>| at.iter().any(|at| (2 * at + 1 - 199).abs() > 160);
    let first = (1 << 18) / 64;
    assert!(expected[..first].iter().filter(|at| is_free(at)).count() < 63);
    expected.retain(is_free);
    expected.truncate(63);
    expected.insert(0, vec![20, 20]);
    let templates = "all.npy --template stack.npy --stack --exclusive --accuracy exact --json";
    assert_eq!(positions(flcc(&folder, &format!("match image.npy {templates}"))), expected);
    // With maps to write, which are larger than the limit, by parts.
    assert_eq!(positions(flcc(&folder, &format!("match image.npy {templates} --memory-limit 3M -o m.npy"))), expected);
    let streamed =
        positions(flcc(&folder, &format!("stream {} ", templates.replacen(' ', " image.npy image.npy ", 1))));
    assert_eq!(streamed, [&expected[..], &expected[..]].concat());
}

#[test]
fn frames_are_drawn_into_numbered_files() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("line.npy", &[60], |k| f64::from(noise(k)));
    folder.array("part.npy", &[9], |k| f64::from(noise(k + 7)));
    std::fs::write(folder.at("bad.png"), "rubbish").unwrap();
    flcc(&folder, "match image.png template.png --annotate one.png").fine();
    let said = flcc(&folder, "stream template.png image.png bad.png image.png --annotate f-%03d.png");
    assert!(said.status == 1 && said.json().len() == 3, "{said:?}");
    assert_eq!(
        folder.names().iter().filter(|name| name.starts_with("f-")).collect::<Vec<_>>(),
        ["f-000.png", "f-002.png"]
    );
    let read = |name: &str| std::fs::read(folder.at(name)).unwrap();
    assert!(read("f-000.png") == read("one.png") && read("f-002.png") == read("one.png"));
    flcc(&folder, "stream part.npy line.npy --annotate l%d.png").fine();
    flcc(&folder, "match line.npy part.npy --annotate both.png").fine();
    let height = |name: &str| pixels(&folder, name).0[0];
    assert!(height("l0.png") < 350 && height("both.png") > 500);
    for (name, words) in [
        ("a.png", "name: expected a name with one %d, or as %05d, for the number of the frame, got a.png"),
        ("%d.jpg", "--annotate: expected a name that ends in .png, got 0.jpg"),
        ("none/%d.png", "--annotate \"none/0.png\": expected a writable file"),
    ] {
        let said = flcc(&folder, &format!("stream template.png image.png --annotate {name}"));
        assert!(said.status != 0 && said.err.contains(words) && said.out.is_empty(), "{said:?}");
    }
    // No frame that is still to be read is replaced.
    std::fs::copy(folder.at("image.png"), folder.at("i1.png")).unwrap();
    let line = flcc(&folder, "stream template.png image.png i1.png --annotate i%d.png").fails(2);
    assert!(line.ends_with("--annotate: expected another file than FRAMES names, got i1.png"), "{line}");
    assert!(!folder.at("i0.png").exists());
    // Nor is a template, however many frames come.
    std::fs::copy(folder.at("template.png"), folder.at("t12.png")).unwrap();
    let call = "stream t12.png --frame u8:40x50 --annotate t%d.png";
    let line = flcc_with(&folder, call, &[7; 2000], None).fails(2);
    assert!(line.ends_with("--annotate: expected another file than TEMPLATE names, got t12.png"), "{line}");
    assert!(!folder.at("t0.png").exists());
    // What cannot be written is told before.
    std::fs::create_dir(folder.at("p1.png")).unwrap();
    let said = flcc(&folder, "stream template.png image.png image.png image.png --annotate p%d.png");
    assert!(said.status == 1 && said.out.is_empty() && said.err.contains("p1.png"), "{said:?}");
}

#[test]
fn local_statistics() {
    let folder = Folder::new();
    folder.array("x.npy", &[2, 3], |k| k as f64);
    let result = |args: &str| {
        flcc(&folder, &format!("local {args} x.npy -o out.npy")).fine();
        load(&folder.at("out.npy")).unwrap()
    };
    assert_eq!(result("sum --window 2x2 --mode valid").pixels, Pixels::F32(vec![8.0, 12.0]));
    assert_eq!(result("mean --window 2x3 --mode valid --precision f64").pixels, Pixels::F64(vec![2.5]));
    assert_eq!(result("max --window 1x3 --boundary replicate").pixels, Pixels::F32(vec![1.0, 2.0, 2.0, 4.0, 5.0, 5.0]));
    assert_eq!(result("min --window 2x2 --mode full").shape, [3, 4]);
    assert_eq!(
        result("var --window 1x3 --mode valid").pixels.to_f64().iter().map(|v| (v * 3.0).round()).collect::<Vec<_>>(),
        [2.0, 2.0]
    );
    let said = flcc(&folder, "local var --window 1x3 x.npy -o out.npy --json").fine();
    assert_eq!(said.json()[0]["shape"], json!([2, 3]));
}

#[test]
fn plans_devices_and_help() {
    let folder = Folder::new();
    let spec = "zncc:f32:200x200*16x16:valid";
    let kernel = flcc(&folder, &format!("plan {spec}")).fine().out;
    let explained = flcc(&folder, &format!("plan {spec} --explain")).fine().out;
    assert!(explained.contains(kernel.trim()) && explained.contains("cuda"), "{explained}");
    let json =
        flcc(&folder, &format!("plan {spec} --json --precision f64 --threads 1 --memory-limit 64M")).fine().json();
    assert_eq!((&json[0]["spec"], &json[0]["threads"]), (&"zncc:f32>f64:200x200*16x16:valid".into(), &1.into()));
    assert!(json[0]["candidates"].as_array().unwrap().len() > 2);
    let several = flcc(&folder, &format!("plan {spec} corr:f32:9*3:valid --json")).fine().json();
    let specs: Vec<&Value> = several.iter().map(|plan| &plan["spec"]).collect();
    assert_eq!(specs, [spec, "corr:f32:9*3:valid"]);
    assert_eq!(flcc(&folder, "plan").status, 2);
    assert!(flcc(&folder, "devices").fine().out.contains("instruction sets"));
    assert!(flcc(&folder, "devices --json").fine().json()[0]["cores"].as_u64().unwrap() >= 1);
    assert!(flcc(&folder, "--help").fine().out.contains("match"));
    assert!(flcc(&folder, "match --help").fine().out.contains("--min-distance"));
    assert!(flcc(&folder, "--version").fine().out.starts_with("flcc "));
}

#[test]
fn costs_are_fitted_and_kept() {
    let folder = Folder::new();
    let drawn = flcc(&folder, "tune --dry-run --count 4 --seed 5").fine().out;
    assert_eq!(drawn.lines().count(), 5);
    assert!(drawn.lines().next_back().unwrap().starts_with("# about "), "{drawn}");
    assert_eq!(drawn, flcc(&folder, "tune --dry-run --count 4 --seed 5").fine().out);
    let spec = drawn.lines().next().unwrap();
    let estimate = |args: &str| {
        let plan = &flcc(&folder, &format!("plan {spec} --json {args}")).fine().json()[0];
        let chosen = |candidate: &&Value| candidate["kernel"] == plan["kernel"];
        let candidate = plan["candidates"].as_array().unwrap().iter().find(chosen).unwrap();
        candidate["estimate_ns"].as_f64().unwrap()
    };
    let before = estimate("");
    let tuned = flcc(&folder, "tune --count 4 --seed 5 --wisdom w --samples samples.csv").fine().out;
    assert!(tuned.contains("held out") && tuned.lines().any(|line| line.starts_with("tap_f32 = ")), "{tuned}");
    let samples = std::fs::read_to_string(folder.0.join("samples.csv")).unwrap();
    assert!(tuned.contains(", timed as whole calls\n"), "{tuned}");
    let columns = ["spec,kernel,timed,estimate_ns,ns,overlaps,call,", ",tile,"];
    assert!(samples.starts_with(columns[0]) && samples.lines().next().unwrap().contains(columns[1]), "{samples}");
    assert!(samples.lines().count() > 8, "{samples}");
    // What was timed is not timed again: a file that is cut short is completed, and a whole one read.
    let cut =
        samples.lines().filter(|line| !line.starts_with(&format!("\"{spec}"))).collect::<Vec<_>>().join("\n") + "\n";
    assert!(cut.len() < samples.len());
    std::fs::write(folder.at("cut.csv"), &cut).unwrap();
    flcc(&folder, "tune --count 4 --seed 5 --samples cut.csv").fine();
    let completed = std::fs::read_to_string(folder.at("cut.csv")).unwrap();
    assert!(completed.starts_with(&cut) && completed.lines().any(|line| line.starts_with(&format!("\"{spec}"))));
    let costs = |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect::<Vec<_>>();
    let again = flcc(&folder, "tune --count 4 --seed 5 --samples samples.csv").fine().out;
    assert_eq!((costs(&again), samples), (costs(&tuned), std::fs::read_to_string(folder.at("samples.csv")).unwrap()));
    let told = &flcc(&folder, "tune --count 4 --seed 5 --samples samples.csv --json").fine().json()[0];
    assert_eq!(told["timed"], "as whole calls", "{told}");
    std::fs::write(folder.at("other.csv"), "a,b\n").unwrap();
    assert!(flcc(&folder, "tune --count 4 --samples other.csv").fails(2).contains("a file of samples of this version"));
    // Specs that are given are measured and remembered.
    flcc(&folder, "tune zncc:f32:60x50*7x7:valid --count 1 --wisdom given").fine();
    let kept = flcc(&folder, "wisdom show --wisdom given").fine().out;
    assert!(kept.contains("\ncosts\t") && kept.contains("plan\tzncc:f32:60x50*7x7:valid\t"), "{kept}");
    assert!(flcc(&folder, "wisdom show --wisdom w").fine().out.contains("\ncosts\t"));
    let after = estimate("--wisdom w");
    assert!(after > 0.0 && after != before, "{before} {after}");
    assert!(flcc(&folder, "tune --count 4 --threads 2").fails(2).contains("--threads: expected one thread"));
}

#[test]
fn plans_are_judged_on_a_grid() {
    let folder = Folder::new();
    let table = flcc(&folder, "bench --grid --count 2 --seed 5 --threads 1").fine().out;
    assert!(table.contains("measure : within") && table.contains("estimate: within"), "{table}");
    let lines = flcc(&folder, "bench --grid --count 2 --seed 5 --threads 1 --json").fine().json();
    assert_eq!(lines.len(), 2);
    let rest = flcc(&folder, "bench --grid --count 2 --seed 5 --skip 1 --threads 1 --json").fine().json();
    assert_eq!((rest.len(), &rest[0]["spec"]), (1, &lines[1]["spec"]));
    for line in lines {
        assert!(line["measure_ratio"].as_f64().unwrap() >= 1.0 && line["best_ns"].as_f64().unwrap() > 0.0, "{line}");
        assert_eq!(line["timed"], "as whole calls", "{line}");
    }
    let own = flcc(&folder, "bench --grid zncc:f32:90*3:valid corr:u8:40x50*3x4:full --threads 1 --json").fine().json();
    let specs: Vec<_> = own.iter().map(|line| line["spec"].as_str().unwrap()).collect();
    assert_eq!(specs, ["zncc:f32:90*3:valid", "corr:u8:40x50*3x4:full"]);
    // What is made up is no matter then.
    for option in ["--count 3", "--seed 3", "--skip 1"] {
        let refused = flcc(&folder, &format!("bench --grid zncc:f32:90*3:valid {option}"));
        assert_eq!(refused.status, 2, "{option}");
    }
}

#[test]
fn a_kernel_is_taken_by_its_name() {
    let folder = Folder::new();
    let plan = |options: &str| flcc(&folder, &format!("plan corr:f32:90x90*5x5:valid --json {options}"));
    let kernel = |options: &str| plan(options).fine().json()[0]["kernel"].as_str().unwrap().to_string();
    let own = kernel("--method direct");
    let [_, _, size, isa, tile] = own.split('_').collect::<Vec<_>>()[..] else { panic!("{own}") };
    assert_eq!(size, "w5");
    // Of a name without a tile the best one is taken.
    assert_eq!(kernel(&format!("--kernel corr_f32_w5_{isa}")), own);
    assert!(kernel(&format!("--kernel corr_f32_any_{isa}")).starts_with(&format!("corr_f32_any_{isa}_t")));
    let named = format!("corr_f32_any_{isa}_{tile}");
    assert_eq!(kernel(&format!("--kernel {named}")), named);
    // Nobody else takes the kernel for any size where the size has its own.
    assert!(!plan("").fine().out.contains("_any_"));
    let refused = plan("--kernel corr_f32_w6_portable");
    assert_eq!(refused.status, 3);
    assert!(refused.err.contains("no method offers the kernel corr_f32_w6_portable"), "{}", refused.err);
    assert_eq!(plan("--kernel Nonsense").status, 2);
}

#[test]
fn what_would_be_tuned_of_the_unroll_range_is_listed() {
    let folder = Folder::new();
    let listed = flcc(&folder, "tune --unroll --dry-run").fine().out;
    for spec in ["corr:f32:300x300*2x2:valid", "corr:f64:300x300*32x32:valid", "corr:f32:100000*64:valid"] {
        assert!(listed.lines().any(|line| line == spec), "{spec}: {listed}");
    }
    assert_eq!(flcc(&folder, "tune --unroll --samples x.csv").status, 2);
    let line = flcc(&folder, "tune --count 4 --samples one --wisdom one").fails(2);
    assert!(line.ends_with("--wisdom: expected another file than --samples names, got one"), "{line}");
}

#[test]
fn what_is_told_of_a_choice_is_what_decided() {
    let folder = Folder::new();
    let spec = "zncc:f32:300x300*8x8:valid";
    let chosen = flcc(&folder, &format!("plan {spec} --effort measure --wisdom w")).fine().out;
    for args in [format!("plan {spec} --effort measure --json"), format!("plan {spec} --wisdom w --json")] {
        let plan = &flcc(&folder, &args).fine().json()[0];
        let timings: Vec<(u64, bool)> = plan["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|candidate| Some((candidate["least_ns"].as_u64()?, candidate["kernel"] == plan["kernel"])))
            .collect();
        let least = timings.iter().map(|(ns, _)| *ns).min().unwrap();
        assert!(timings.len() > 1 && timings.contains(&(least, true)), "{plan}");
    }
    for entry in flcc(&folder, "wisdom show --wisdom w --json").fine().json() {
        let others = entry["others"].as_object().unwrap().values().map(|ns| ns.as_u64().unwrap());
        assert!(others.min() >= entry["least_ns"].as_u64(), "{entry}");
    }
    let explained = flcc(&folder, &format!("plan {spec} --effort measure --explain")).fine().out;
    assert!(explained.contains("decided  chosen by measurement: the least median of"), "{explained}");
    let marked = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with('>') && line.ends_with("  chosen"));
        lines.map(|line| line.split_whitespace().nth(1).unwrap().to_string()).collect()
    };
    let kernel = explained.lines().nth(1).unwrap().split_whitespace().nth(1).unwrap();
    assert_eq!(marked(&explained), [kernel], "{explained}");
    let explained = flcc(&folder, &format!("plan {spec} --explain --wisdom w")).fine().out;
    assert!(explained.contains("chosen by wisdom") && explained.contains("an image, measured:"), "{explained}");
    assert_eq!(marked(&explained), [chosen.trim()], "{explained}");
}

#[test]
fn a_plan_is_explained_beside_what_the_hardware_allows() {
    let folder = Folder::new();
    let plan = &flcc(&folder, "plan zncc:f32:300x300*16x16:valid --method direct --json").fine().json()[0];
    let floor = |name: &str| plan["floor"][name].as_f64().unwrap();
    assert_eq!(floor("operations"), (285 * 285 * 256) as f64);
    assert!([0.0, ((300 * 300 + 285 * 285) * 4) as f64].contains(&floor("bytes")), "{plan}");
    assert!(floor("operations_ns") > 0.0 && floor("bytes_ns") >= 0.0 && plan["ns"].as_f64().unwrap() > 0.0, "{plan}");
    for candidate in plan["candidates"].as_array().unwrap() {
        let refuses = candidate["outcome"] == "refused";
        assert!(refuses == candidate["bytes"].is_null() && refuses == candidate["reason"].is_string(), "{candidate}");
        let chosen = candidate["kernel"] == plan["kernel"];
        let bytes = plan["scratch_bytes"].as_u64().unwrap() + plan["template_bytes"].as_u64().unwrap();
        assert!(!chosen || candidate["bytes"] == bytes, "{candidate}");
    }
    let place = |options: &str| {
        let spec = "zncc:f32:300x300*16x16:valid";
        flcc(&folder, &format!("plan {spec} --json {options}")).fine().json()[0]["place"].as_str().unwrap().to_string()
    };
    assert_eq!(place("--platform cpu"), "CPU, which was asked for");
    assert!(place("").contains("GPU"), "{}", place(""));
}

#[test]
fn wisdom_that_is_ignored_is_told() {
    let folder = Folder::new();
    let spec = "zncc:f32:80x80*9x9:valid";
    flcc(&folder, &format!("plan {spec} --threads 1 --effort measure --wisdom w")).fine();
    let known = std::fs::read_to_string(folder.at("w")).unwrap();
    let machine = known.lines().find_map(|line| line.strip_prefix("machine ")).unwrap();
    let (fingerprint, code) = machine.split_once(' ').unwrap();
    let kernel = known.lines().find(|line| line.starts_with("plan")).unwrap().split('\t').nth(3).unwrap();
    let other_threads = known.replace("threads=1", "threads=3");
    for (name, text, expected) in [
        (
            "code",
            known.replace(code, "flcc-0.1.0-0123456789abcdef"),
            "it is of other code, flcc-0.1.0-0123456789abcdef",
        ),
        ("machine", known.replace(fingerprint, "x86_64/other"), "it is of another machine, x86_64/other"),
        ("threads", other_threads, "it is of 3 threads and not 1"),
        ("kernel", known.replace(kernel, "corr_f32_w999_avx512"), "it names corr_f32_w999_avx512"),
    ] {
        std::fs::write(folder.at(name), text).unwrap();
        let explain = format!("plan {spec} --threads 1 --wisdom {name} --explain");
        let explained = flcc(&folder, &explain).fine().out;
        let note = format!("note     wisdom of this spec is ignored: {expected}");
        assert!(explained.contains(&note) && explained.contains("chosen by estimate"), "{name}: {explained}");
    }
    let taken = flcc(&folder, &format!("plan {spec} --threads 1 --wisdom w --explain")).fine().out;
    assert!(!taken.contains("ignored") && taken.contains("chosen by wisdom"), "{taken}");
}

#[test]
fn what_an_accuracy_leaves_out_is_explained() {
    let folder = Folder::new();
    let explained = flcc(&folder, "plan corr:u16:900x900*64x64:valid --explain").fine().out;
    let left = |line: &&str| line.contains("refuses: f32 does not keep accuracy promised here; acc=fast takes it");
    let lines: Vec<&str> = explained.lines().filter(left).map(str::trim_start).collect();
    assert!(lines.iter().any(|line| line.starts_with("fourier_f32")), "{explained}");
    for spec in
        ["corr:u16:900x900*64x64:valid,acc=fast", "corr:u16:900x900*64x64:valid,acc=exact", "zncc:f32:90x90*9x9:valid"]
    {
        let explained = flcc(&folder, &format!("plan {spec} --explain")).fine().out;
        assert!(!explained.lines().any(|line| left(&line)), "{explained}");
    }
}

/// Where there is a GPU, it is taken.
#[test]
fn the_cpu_goes_on_where_there_is_no_gpu() {
    let folder = Folder::new();
    photo(&folder);
    let devices = flcc(&folder, "devices --json").fine().json();
    if !devices[0]["devices"].as_array().unwrap().is_empty() {
        println!("absent: a machine without a GPU");
        return;
    }
    let why = devices[0]["cuda"].as_str().unwrap();
    let note = format!("note: {why}; the CPU goes on\n");
    let call = "match image.png template.png --accuracy exact";
    for option in ["--platform cuda", "--devices 0", "--platform cuda --devices 0,1"] {
        let said = flcc(&folder, &format!("{call} {option} --fall-back")).fine();
        assert_eq!((said.out.as_str(), &said.err), ("1 12,20 1\n", &note), "{option}");
        let said = flcc(&folder, &format!("stream template.png image.png image.png {option} --fall-back")).fine();
        assert_eq!((said.json().len(), &said.err), (2, &note), "{option}");
    }
    flcc(&folder, &format!("{call} --platform cuda")).fails(3);
    let line = flcc(&folder, &format!("{call} --devices 0")).fails(2);
    let due = format!("error: --devices: expected numbers of NVIDIA GPUs, of which there are none ({why}), got 0");
    assert_eq!(line, due);
    // What the CPU does not serve either is refused.
    flcc(&folder, &format!("{call} --platform cuda --fall-back --measure sad --method fourier")).fails(3);
}

#[test]
fn bench_checks_and_times() {
    let folder = Folder::new();
    let specs = "zncc:f32:60x60*7x7:valid ssd:u8/f32:3@40x40*2@5x6:same,reflect conv:f64:300*9:full \
                 sad:u16:30x30*4x4:valid,mask01 corr:u8:20x20x20*3x3x3:valid,rank=1 \
                 ncc:f32:30x30*5x5:full,maskw,channels=3,roi=2,3:9x9";
    let said = flcc(&folder, &format!("bench {specs} --seconds 0.01 --json --effort estimate")).fine();
    let lines = said.json();
    assert_eq!(lines.len(), 6);
    for line in &lines {
        for name in [
            "spec",
            "method",
            "kernel",
            "threads",
            "plan_ns",
            "warm_plan_ns",
            "median_ns",
            "min_ns",
            "runs",
            "gflops",
            "max_error",
            "checked",
        ] {
            assert!(!line[name].is_null(), "{name} {line}");
        }
        assert!(line["max_error"].as_f64().unwrap() < 1e-5, "{line}");
        assert!(line["min_ns"].as_u64() <= line["median_ns"].as_u64());
    }
    // Without --json, a table of the same.
    let said = flcc(&folder, &format!("bench {specs} --seconds 0.01 --effort estimate")).fine();
    let table: Vec<&str> = said.out.lines().collect();
    assert_eq!(
        table[0].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>(),
        ["spec", "kernel", "threads", "median ms", "min ms", "GFLOP/s", "max error"]
    );
    assert_eq!(table.len(), 7);
    for (row, line) in table[1..].iter().zip(&lines) {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.len(), 7, "{row}");
        assert_eq!(cells[..2], [line["spec"].as_str().unwrap(), line["kernel"].as_str().unwrap()]);
        assert!(cells[2..].iter().all(|cell| cell.parse::<f64>().is_ok()), "{row}");
        assert_eq!(
            cells[6].parse::<f64>().unwrap(),
            format!("{:.1e}", line["max_error"].as_f64().unwrap()).parse::<f64>().unwrap()
        );
        assert_eq!(row.len(), table[0].len(), "{row}");
    }
    assert_eq!(lines[0]["checked"], 54 * 54);
    assert_eq!(lines[1]["checked"], 40 * 40 * 6);
    let said = flcc(&folder, "bench zncc:f32:5@40x40*9x9:valid --pairs --seconds 0.01 --json --effort estimate").fine();
    assert_eq!(said.json()[0]["checked"], 5 * 32 * 32);
    assert!(flcc(&folder, "bench zncc:f32:40x40*2@9x9:valid --pairs").fails(2).contains("one template"));
    let said = flcc(&folder, "bench zncc:f32:40x40*2@9x9:valid --bind --seconds 0.01 --json --method fourier").fine();
    assert_eq!(said.json()[0]["checked"], 2 * 32 * 32);
    let said =
        flcc(&folder, "bench zncc:f32:40x40*9x9:full --positions 50 --seconds 0 --json --effort estimate").fine();
    let checked = said.json()[0]["checked"].as_u64().unwrap();
    assert!((50..48 * 48).contains(&checked), "{checked}");
    assert!(flcc(&folder, "bench zncc:f32:40x40*9x9:valid --positions 0").fails(2).contains("at least 1"));
    assert!(flcc(&folder, "bench zncc:f32:40x40*9x9:valid --bind --pairs").fails(2).contains("--pairs"));
    assert!(flcc(&folder, "bench zncc:f32:10000000x10000000*3x3:valid").fails(1).contains("memory"));
}

/// What `cargo xtask emulated` makes up is device enough.
#[test]
fn bench_times_what_lies_on_a_gpu() {
    let folder = Folder::new();
    let specs = "corr:f32:60x61*2@8x8:full zncc:u8:40x41*7x7:valid corr:f32:500*30:same,reflect";
    let call = "--resident --seconds 0 --effort estimate";
    let refused = flcc(&folder, &format!("bench {specs} {call} --platform cpu")).fails(2);
    assert!(refused.contains("--resident: expected a plan for a GPU"), "{refused}");
    for other in ["--pairs", "--bind", "--direct-copies"] {
        assert!(flcc(&folder, &format!("bench {specs} {call} {other}")).fails(2).contains(other));
    }
    let devices = flcc(&folder, "devices --json").fine().json();
    if devices[0]["devices"].as_array().unwrap().is_empty() {
        assert!(!std::env::var("FLCC_REQUIRE").unwrap_or_default().contains("cuda"), "absent: {}", devices[0]["cuda"]);
        println!("absent: a GPU");
        flcc(&folder, &format!("bench {specs} {call} --platform cuda")).fails(3);
        return;
    }
    let call = format!("{call} --platform cuda");
    let lines = flcc(&folder, &format!("bench {specs} {call} --json")).fine().json();
    assert_eq!(lines.len(), 3);
    for line in &lines {
        let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("{name} {line}"));
        assert!(number("kernel_min_ns") <= number("kernel_median_ns"), "{line}");
        assert!(number("kernel_median_ns") <= number("kernel_max_ns"), "{line}");
        assert!(number("kernel_batches") >= 1 && number("kernel_runs") >= number("buffers"), "{line}");
        assert!(number("buffers") > 1 && line["queued"].is_boolean() && line["kernel_gflops"].is_f64(), "{line}");
        assert!(line["max_error"].as_f64().unwrap() < 1e-5, "{line}");
    }
    // Every result of every template.
    assert_eq!(lines[0]["checked"], 2 * 67 * 68);
    let table = flcc(&folder, &format!("bench corr:f32:60x61*8x8:full {call}")).fine().out;
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows.len() == 2 && rows[0].ends_with("kernels ms      min ms      max ms"), "{table}");
    assert_eq!(rows[0].len(), rows[1].len(), "{table}");
    let several = flcc(&folder, &format!("bench corr:f32:3@60x61*8x8:full {call}")).fails(2);
    assert!(several.contains("--resident: expected a spec of one image, got 3"), "{several}");
    // Pairs whose kernel takes them where they lie, and those whose templates are bound.
    // Where plans are measured the device times kernels; what is told is what whole calls take.
    let planned = "plan zncc:f32:60x61*8x8:valid --effort patient --platform cuda --json";
    let candidates = &flcc(&folder, planned).fine().json()[0]["candidates"];
    let outcomes = |outcome| candidates.as_array().unwrap().iter().filter(move |one| one["outcome"] == outcome);
    assert!(outcomes("measured").all(|one| one["least_ns"].as_u64() > Some(0)), "{candidates}");
    assert!(outcomes("measured").count() > 1 && outcomes("failed").count() == 0, "{candidates}");
    let pairs = flcc(&folder, &format!("bench corr:f32:3@128x128*32x32:valid,pairs {call} --json")).fine().json();
    assert!(pairs[0]["kernel"].as_str().unwrap().starts_with("pairs"), "{}", pairs[0]);
    assert_eq!(pairs[0]["checked"], 3 * 97 * 97);
    let bound = flcc(&folder, &format!("bench corr:f32:3@60x61*8x8:full,pairs {call}")).fails(2);
    assert!(bound.contains("expected one whose kernel takes pairs where they lie"), "{bound}");
}

#[test]
fn wisdom_is_kept_shown_merged_and_forgotten() {
    let folder = Folder::new();
    let spec = "zncc:f32:80x80*9x9:valid";
    flcc(&folder, &format!("plan {spec} --effort measure --wisdom one")).fine();
    flcc_with(&folder, "plan conv:f32:80x80*9x9:full --effort measure", &[], Some(&folder.at("two"))).fine();
    let shown = flcc(&folder, "wisdom show --wisdom one").fine().out;
    assert!(shown.starts_with("flcc-wisdom 2\n") && shown.contains(spec), "{shown}");
    let explained = flcc(&folder, &format!("plan {spec} --explain --wisdom one")).fine().out;
    assert!(explained.contains("wisdom"), "{explained}");
    flcc(&folder, "wisdom merge one two --wisdom both").fine();
    let both = flcc_with(&folder, "wisdom show --json", &[], Some(&folder.at("both"))).fine().json();
    assert_eq!(both.len(), 2);
    assert!(both.iter().any(|entry| entry["spec"] == spec && entry["least_ns"].as_u64().unwrap() > 0));
    assert!(flcc(&folder, "wisdom forget --spec zncc: --wisdom both").fine().out.starts_with("1 entry forgotten"));
    assert_eq!(flcc(&folder, "wisdom forget --wisdom both --json").fine().json()[0]["forgotten"], 1);
    assert_eq!(flcc(&folder, "wisdom show --wisdom both").fine().out, "flcc-wisdom 2\nend 0\n");
    // By estimate nothing is learnt, and nothing written.
    flcc(&folder, &format!("plan {spec} --wisdom three")).fine();
    assert!(!folder.at("three").exists());
}

#[test]
fn a_border_that_leaves_no_position_is_told() {
    let folder = Folder::new();
    photo(&folder);
    let note = "--exclude-border 17 leaves none of 34x42 positions, at most 16 leaves some";
    let told = |args: &str, output: &str, lines: &str| {
        let said = flcc(&folder, args).fine();
        assert_eq!((said.out.as_str(), said.err.as_str()), (output, lines), "{args}");
    };
    let of_template = format!("note: TEMPLATE \"template.png\": {note}\n");
    told("match image.png template.png --exclude-border 17", "", &of_template);
    told("match image.png template.png --exclude-border 17 --threshold 0.5 --count", "count 0 nan\n", &of_template);
    let several = format!("note: TEMPLATE \"template.png\": {note}; the same of 1 other template\n");
    told("match image.png template.png --template-at 1,2:7x9 --exclude-border 17", "", &several);
    let said = flcc(&folder, "stream template.png image.png image.png --exclude-border 17").fine();
    assert_eq!(said.err, format!("note: FRAMES \"image.png\": {note}\nnote: FRAMES: {note}: 2 of 2 frames\n"));
    for fine in ["--exclude-border 16 --threshold -1", "--exclude-border 0"] {
        assert_eq!(flcc(&folder, &format!("match image.png template.png {fine}")).fine().err, "", "{fine}");
    }
    // An axis of one position has no ends.
    let said = flcc(&folder, "match image.png --template-at 0,20:40x9 --exclude-border 20").fine();
    assert!(said.err.is_empty() && said.out.starts_with("1 0,20 "), "{said:?}");
}

#[test]
fn a_fit_that_is_misspelt_is_told_as_one() {
    let folder = Folder::new();
    photo(&folder);
    for call in ["match image.png --template template.png --subpixel cubik", "stream template.png --subpixel cubik"] {
        let line = flcc(&folder, call).fails(2);
        let due = "expected quadratic, gauss, cubic or septic, got cubik";
        assert!(line.contains("--subpixel") && line.contains(due), "{line}");
    }
    // A file of such a name is a file.
    std::fs::copy(folder.at("template.png"), folder.at("cubik")).unwrap();
    let found = flcc(&folder, "match image.png --subpixel cubik").fine().out;
    assert!(found.starts_with("1 12.") || found.starts_with("1 11.9"), "{found}");
    let line = flcc(&folder, "match image.png --subpixel none.png").fails(1);
    assert!(line.contains("TEMPLATE \"none.png\": expected a readable file"), "{line}");
}

#[test]
fn what_an_option_would_read_is_hinted_at() {
    let folder = Folder::new();
    photo(&folder);
    folder.write("image.raw", [7; 2000]);
    let line = flcc(&folder, "match image.raw template.png").fails(1);
    assert!(line.ends_with("; samples without a header need --raw TYPE:SHAPE"), "{line}");
    // A name of a format is that of a damaged file.
    folder.write("damaged.png", [7; 2000]);
    let line = flcc(&folder, "match damaged.png template.png").fails(1);
    assert!(line.contains("got an unknown format") && !line.contains("--raw"), "{line}");
    let said = flcc(&folder, "match image.png template.png --stack --accuracy exact").fine();
    let note = "--stack: one template, with 2 axes as the image; a stack of templates has 3 axes";
    let due = format!("note: TEMPLATE \"template.png\": {note}\n");
    assert_eq!((said.out.as_str(), said.err), ("1 12,20 1\n", due));
    // Beside a stack a single one is meant.
    folder.array("stack.npy", &[2, 3, 4], |k| f64::from(noise(k)));
    folder.array("one.npy", &[3, 4], |k| f64::from(noise(k)));
    folder.array("x.npy", &[9, 9], |k| f64::from(noise(k)));
    let said = flcc(&folder, "match x.npy one.npy --template stack.npy --stack").fine();
    assert!(said.out.lines().count() == 3 && !said.err.contains("one template"), "{said:?}");
    for command in ["show w.txt", "show w.txt --wisdom v.txt", "forget w.txt"] {
        let line = flcc(&folder, &format!("wisdom {command}")).fails(2);
        let due = "; the wisdom file is given as --wisdom FILE";
        assert!(line.contains("unexpected argument 'w.txt'") && line.ends_with(due), "{line}");
    }
    let line = flcc(&folder, "devices w.txt").fails(2);
    assert!(line.contains("unexpected argument 'w.txt'") && !line.contains("wisdom file"), "{line}");
}

#[test]
fn conformance_of_a_folder() {
    let folder = Folder::new();
    folder.array("x.npy", &[3], |k| [1.0, 2.0, 3.0][k]);
    folder.array("t.npy", &[2], |k| [1.0, 2.0][k]);
    folder.array("good.npy", &[4], |k| [2.0, 5.0, 8.0, 3.0][k]);
    folder.array("bad.npy", &[4], |k| [2.0, 5.0, 8.0, 4.0][k]);
    let case = |id: &str, expected: &str, error: &str| {
        format!(
            r#"{{"id":"{id}","op":"corr","measure":null,"dims":1,"mode":"full","boundary":"zero","cval":0.0,
            "image":"x.npy","template":"t.npy","mask":null,"expected":"{expected}","error":{error},"cond":null,
            "tol":{{"f32":{{"atol":1e-6,"power":0}},"f64":null}}}}"#
        )
    };
    let index = |cases: &[String]| {
        std::fs::write(folder.at("index.json"), format!(r#"{{"cases":[{}]}}"#, cases.join(","))).unwrap()
    };
    index(&[case("a", "good.npy", "null")]);
    let said = flcc(&folder, "conformance .").fine();
    assert!(
        said.out.lines().last().unwrap().starts_with("RESULT cases 1 pass 1 fail 0 skip 0; worst error 0"),
        "{said:?}"
    );
    let said = flcc(&folder, "conformance . --precision f64").fine();
    assert!(said.out.lines().last().unwrap().starts_with("RESULT cases 1 pass 0 fail 0 skip 1"), "{said:?}");
    index(&[case("a", "good.npy", "null"), case("b", "bad.npy", "null"), case("c", "good.npy", "\"empty_input\"")]);
    let said = flcc(&folder, "conformance . --json");
    assert_eq!((said.status, &said.json()[0]["fail"]), (1, &2.into()));
    // Another error than the one that is due is a failure, not a pass.
    let small = |error: &str| case("d", "good.npy", error).replace("\"full\"", "\"valid\"").replace("x.npy", "one.npy");
    folder.array("one.npy", &[1], |_| 1.0);
    index(&[small("\"template_larger_than_image\"")]);
    flcc(&folder, "conformance .").fine();
    index(&[small("\"constant_template\"")]);
    let said = flcc(&folder, "conformance .");
    assert!(said.status == 1 && said.out.contains("the error constant_template was due, got: "), "{said:?}");
    std::fs::write(folder.at("index.json"), "[]").unwrap();
    assert!(flcc(&folder, "conformance .").fails(1).contains("index.json"));
}

#[test]
fn a_case_says_how_it_is_computed() {
    let folder = Folder::new();
    folder.array("x.npy", &[9], |k| [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0][k]);
    folder.array("t.npy", &[2], |k| [1.0, 2.0][k]);
    std::fs::create_dir(folder.at("out")).unwrap();
    let run = |own: &str| {
        let case = format!(
            r#"{{"id":"a","op":"corr","dims":1,"mode":"full","boundary":"zero",
            "image":"x.npy","template":"t.npy"{own}}}"#
        );
        std::fs::write(folder.at("index.json"), format!(r#"{{"cases":[{case}]}}"#)).unwrap();
        let said = flcc(&folder, "conformance . --results out --json");
        (said.json()[0]["results"][0].clone(), said.status)
    };
    // Without an expected result it is computed, written and not judged.
    let (result, status) = run("");
    assert_eq!((status, &result["state"], &result["status"]), (0, &"skip".into(), &0.into()));
    flcc(&folder, "corr x.npy t.npy -o whole.npy").fine();
    assert_eq!(std::fs::read(folder.at("out/a.npy")).unwrap(), std::fs::read(folder.at("whole.npy")).unwrap());
    // As the options of a command, and by a kernel of those that serve.
    assert!(result["kernels"].as_array().unwrap().contains(&result["kernel"]), "{result}");
    // A case's region is in coordinates of the full result, a command's in those of the image.
    let (result, _) = run(&format!(r#","kernel":{},"threads":1"#, result["kernel"]));
    assert_eq!(result["kernels"], json!([result["kernel"]]));
    run(r#","method":"fourier","precision":"f64","accuracy":"exact","memory_limit":"64M","roi":"3:4""#);
    flcc(&folder, "corr x.npy t.npy --method fourier --precision f64 --accuracy exact --roi 2:4 -o part.npy").fine();
    assert_eq!(std::fs::read(folder.at("out/a.npy")).unwrap(), std::fs::read(folder.at("part.npy")).unwrap());
    // A refusal and a wrong call tell the status that a command would end with.
    for (own, wanted) in [
        (r#","method":"separable""#, 3),
        (r#","kernel":"corr_f32_w2_nowhere_t64""#, 3),
        (r#","kernel":"a kernel""#, 2),
        (r#","roi":"8:9""#, 2),
        (r#","method":"guess""#, 2),
        (r#","memory_limit":"1""#, 1),
    ] {
        let (result, _) = run(own);
        assert_eq!(result["status"], wanted, "{result}");
    }
}

#[test]
fn an_output_that_is_closed_is_no_panic() {
    let folder = Folder::new();
    photo(&folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_flcc"));
    command
        .args(["match", "image.png", "template.png"])
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.code() != Some(101) && output.stderr.is_empty(), "{output:?}");
}

/// So many cases, unless PROPTEST_CASES names another number.
fn cases(count: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { ProptestConfig { cases: count, ..config } }
}

#[test]
fn errors_name_the_argument() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("flat.npy", &[3, 3], |_| 4.0);
    for (args, status, start) in [
        ("match none.png template.png", 1, "IMAGE \"none.png\": expected a readable file"),
        ("match image.png none.png", 1, "TEMPLATE \"none.png\": expected a readable file"),
        ("match image.png --template none.png", 1, "--template \"none.png\": expected"),
        ("match image.png template.png --mask none.png", 1, "--mask \"none.png\": expected"),
        ("conv image.png template.png -o none/x.npy", 1, "-o \"none/x.npy\": expected a writable file"),
        ("match image.png template.png --heatmap none/x.png", 1, "--heatmap \"none/x.png\": expected a writable file"),
        (
            "match image.png template.png --annotate none/x.png",
            1,
            "--annotate \"none/x.png\": expected a writable file",
        ),
        ("local sum --window 3x3 image.png -o none/x.npy", 1, "-o \"none/x.npy\": expected a writable file"),
        ("stream none.png image.png", 1, "TEMPLATE \"none.png\": expected a readable file"),
        (
            "match image.png template.png --wisdom none/w",
            1,
            "--wisdom \"none/w\": expected a file in a folder that is there",
        ),
        ("match image.png flat.npy", 2, "TEMPLATE: expected"),
        ("match image.png --template flat.npy", 2, "--template: expected"),
        ("match image.png template.png --mask flat.npy", 2, "--mask: expected"),
        ("match image.png template.png --roi -7,0:5x6", 2, "--roi: expected"),
        (
            "match image.png template.png --template flat.npy --roi 34,0:3x3",
            2,
            "--roi: expected a part of 0,0:34x42, where the template's first sample may lie in mode valid \
             (TEMPLATE \"template.png\"), got 34,0:3x3",
        ),
        ("match image.png template.png --roi 7:5", 2, "--roi: expected 2 axes, as the image"),
        ("match image.png template.png --roi 7,8:5x0", 2, "--roi: expected"),
        ("corr image.png template.png --boundary constant --cval inf -o x.npy", 2, "--"),
        ("local sum --window 3 image.png -o x.npy", 2, "--window: expected"),
        ("match image.png template.png --memory-limit 10", 1, "--memory-limit: expected at least"),
        ("stream template.png --frame u8", 2, "--frame \"u8\": expected TYPE:SHAPE"),
    ] {
        let line = flcc(&folder, args).fails(status);
        assert!(line.starts_with(&format!("error: {start}")), "{args}: {line}");
    }
    assert!(!folder.at("none").exists());
}

#[test]
fn local_refuses_what_it_does_not_have() {
    let folder = Folder::new();
    photo(&folder);
    for (option, status, words) in [
        ("--method fourier", 3, "one method"),
        ("--method direct", 3, "one method"),
        ("--effort measure", 2, "--effort: expected none"),
        ("--wisdom w", 2, "--wisdom: expected none"),
        ("--memory-limit 10", 1, "--memory-limit: expected at least"),
        ("--accuracy exact --boundary constant --cval 0.5", 2, "--cval: expected an integer of u8"),
    ] {
        let line = flcc(&folder, &format!("local mean --window 3x4 image.png -o x.npy {option}")).fails(status);
        assert!(line.contains(words), "{option}: {line}");
    }
    for threads in [1, 2, 3] {
        flcc(
            &folder,
            &format!(
                "local var --window 9x8 image.png -o {threads}.npy --threads {threads} --accuracy exact --platform any"
            ),
        )
        .fine();
    }
    assert_eq!(load(&folder.at("1.npy")).unwrap(), load(&folder.at("2.npy")).unwrap());
    assert_eq!(load(&folder.at("1.npy")).unwrap(), load(&folder.at("3.npy")).unwrap());
}

#[test]
fn a_template_that_fits_no_frame_is_told_once() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("line.npy", &[3], |k| k as f64);
    for args in
        ["stream line.npy image.png image.png", "stream line.npy --frame u8:4x4", "stream template.png --frame u8:4x4"]
    {
        let said = flcc_with(&folder, args, &[7; 64], None);
        assert_eq!(said.out, "", "{args}");
        assert!(said.fails(2).starts_with("error: TEMPLATE: expected"), "{args}");
    }
}

#[test]
fn a_count_knows_the_border() {
    let folder = Folder::new();
    folder.array("x.npy", &[6], |k| [9.0, 1.0, 5.0, 5.0, 2.0, 9.0][k]);
    folder.array("t.npy", &[1], |_| 1.0);
    let count = |options: &str| {
        flcc(&folder, &format!("match x.npy t.npy --measure cc --count --threshold 100 {options}")).fine().out
    };
    assert_eq!(count(""), "count 2 9\n");
    assert_eq!(count("--exclude-border 1 --top 1"), "count 2 5\n");
    assert_eq!(count("--exclude-border 3"), "count 0 nan\n");
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_memory_does_not_hold_is_one_line() {
    let folder = Folder::new();
    let zeros = |name: &str, shape: &[usize]| {
        save_npy(&folder.at(name), shape, &Pixels::U8(vec![1; shape.iter().product()])).unwrap()
    };
    zeros("row.npy", &[1, 30_000]);
    zeros("column.npy", &[30_000, 1]);
    zeros("square.npy", &[3000, 3000]);
    zeros("dot.npy", &[1, 1]);
    for args in [
        "conv row.npy column.npy -o x.npy",
        "match row.npy column.npy --mode full --measure cc -o x.npy",
        "match row.npy column.npy --mode full --measure cc --threshold 0 --min-distance 0",
        "match row.npy column.npy --mode full --measure cc --threshold 0 --min-distance 0 --top 100000000",
        "local sum --window 30000x1 --mode full row.npy -o x.npy",
        "stream dot.npy square.npy --measure cc --threshold 0 --min-distance 0",
    ] {
        let mut command = Command::new("sh");
        let limited = format!("ulimit -v 3000000; exec {} {args}", env!("CARGO_BIN_EXE_flcc"));
        let output = command.args(["-c", &limited]).current_dir(&folder.0).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(
            output.status.code() == Some(1) && text.lines().count() == 1 && text.contains("memory: expected at most"),
            "{args}: {text}"
        );
    }
}

/// Runs a line of a shell in the folder, under a limit of the address space in KiB.
#[cfg(target_os = "linux")]
fn limited(folder: &Folder, kilobytes: usize, line: &str) -> Said {
    let line = format!("ulimit -v {kilobytes}; {}", line.replace("flcc ", concat!(env!("CARGO_BIN_EXE_flcc"), " ")));
    let output =
        Command::new("sh").args(["-c", &line]).current_dir(&folder.0).env_remove("FLCC_WISDOM").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { status: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

#[cfg(target_os = "linux")]
#[test]
fn what_has_no_end_is_an_error_that_names_the_argument() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("head.npy", &[40, 50], |k| f64::from(noise(k)));
    for (args, start) in [
        (
            "match /dev/zero template.png",
            "IMAGE \"/dev/zero\": expected PNG, JPEG, TIFF, PGM, PPM or .npy, got an unknown format (the first",
        ),
        ("match image.png /dev/full", "TEMPLATE \"/dev/full\": expected PNG"),
        ("match image.png --template /dev/zero", "--template \"/dev/zero\": expected PNG"),
        ("match image.png template.png --mask /dev/zero", "--mask \"/dev/zero\": expected PNG"),
        (
            "match image.png template.png --wisdom /dev/zero",
            "--wisdom \"/dev/zero\": expected a file, or none yet, got a device or a pipe",
        ),
        (
            "plan zncc:f32:9*3:valid --wisdom /dev/full",
            "--wisdom \"/dev/full\": expected a file, or none yet, got a device",
        ),
        ("plan zncc:f32:9*3:valid --wisdom .", "--wisdom \".\": expected a file, or none yet, got a folder"),
        ("wisdom forget --wisdom /dev/full", "--wisdom \"/dev/full\": expected a file, or none yet, got a device"),
        (
            "wisdom show --wisdom /dev/zero",
            "--wisdom /dev/zero: cannot read wisdom: expected at most 67108864 bytes, got more",
        ),
        (
            "wisdom merge /dev/full --wisdom w",
            "FILES /dev/full: cannot read wisdom: expected at most 67108864 bytes, got more",
        ),
    ] {
        let line = limited(&folder, 1_000_000, &format!("flcc {args}")).fails(1);
        assert!(line.starts_with(&format!("error: {start}")), "{args}: {line}");
    }
    // What begins as an image does, and goes on for ever.
    for head in ["head.npy", "image.png"] {
        let line =
            limited(&folder, 800_000, &format!("cat {head} /dev/zero | flcc match /dev/stdin template.png")).fails(1);
        let words = "bytes (half of the free memory, from a pipe or device), got more";
        assert!(line.starts_with("error: IMAGE \"/dev/stdin\": expected at most ") && line.ends_with(words), "{line}");
    }
    let line = limited(&folder, 800_000, "flcc stream template.png --frame u8:99999x9999 < /dev/zero").fails(1);
    let words = "bytes (half of the free memory), got 999890001 (u8:99999x9999)";
    assert!(line.starts_with("error: --frame: expected frames of at most ") && line.ends_with(words), "{line}");
    std::fs::write(folder.at("head.y4m"), "YUV4MPEG2 W99999 H9999 Cmono\nFRAME\n").unwrap();
    let said = limited(&folder, 800_000, "cat head.y4m /dev/zero | flcc stream template.png /dev/stdin");
    let line = &said.json()[0]["error"].as_str().unwrap().to_string();
    assert!(
        said.status == 1 && line.starts_with("FRAMES \"/dev/stdin\": expected at most ") && line.contains("in frame 0"),
        "{line}"
    );
    std::os::unix::fs::symlink("/dev/zero", folder.at("index.json")).unwrap();
    let line = limited(&folder, 800_000, "flcc conformance .").fails(1);
    assert!(line.contains("index.json\": ") && line.ends_with("expected at most 67108864 bytes, got more"), "{line}");
    assert!(std::fs::metadata("/dev/full").is_ok_and(|meta| !meta.is_file()));
}

#[cfg(unix)]
#[test]
fn a_folder_leaves_out_what_is_hidden_and_no_link_to_nothing() {
    let folder = Folder::new();
    photo(&folder);
    for name in ["frames", "parts"] {
        std::fs::create_dir(folder.at(name)).unwrap();
        // As Macs leave beside a file on a disk of another system.
        std::fs::write(folder.at(name).join("._a.png"), "no image").unwrap();
    }
    std::fs::copy(folder.at("image.png"), folder.at("frames/a.png")).unwrap();
    std::fs::copy(folder.at("template.png"), folder.at("parts/a.png")).unwrap();
    let said = flcc(&folder, "stream parts frames").fine().json();
    assert_eq!((said.len(), &said[0]["frame"]), (1, &"frames/a.png".into()));
    std::os::unix::fs::symlink("nothing", folder.at("frames/b.png")).unwrap();
    let said = flcc(&folder, "stream parts frames");
    assert!(said.status == 1 && said.json().len() == 2, "{said:?}");
    assert!(
        said.json()[1]["error"].as_str().unwrap().contains("\"frames/b.png\": expected a readable file"),
        "{said:?}"
    );
}

#[cfg(unix)]
#[test]
fn pipes_are_read_as_files_are() {
    let folder = Folder::new();
    photo(&folder);
    let pipe = folder.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let image = std::fs::read(folder.at("image.png")).unwrap();
    assert_eq!(
        flcc_with(&folder, "match /dev/stdin template.png --accuracy exact", &image, None).fine().out,
        "1 12,20 1\n"
    );
    let through = |args: &str, bytes: &[u8]| {
        std::thread::scope(|scope| {
            scope.spawn(|| std::fs::write(&pipe, bytes).unwrap());
            flcc(&folder, args).fine()
        })
    };
    assert_eq!(through("match pipe template.png --accuracy exact", &image).out, "1 12,20 1\n");
    let frame = through("stream template.png image.png pipe", &image).json();
    assert_eq!((&frame[1]["frame"], &frame[1]["peaks"][0]["position"]), (&"pipe".into(), &json!([12, 20])));
    let two = y4m(40, 50, &[(0..2000).map(noise).collect(), (150..2150).map(noise).collect()]);
    let frames = through("stream template.png pipe --accuracy exact", &two).json();
    assert_eq!((&frames[1]["frame"], &frames[1]["peaks"][0]["position"][0]), (&"pipe[1]".into(), &9.into()));
    let wisdom =
        b"flcc-wisdom 2\nmachine m s\nplan\tcorr:f32:9*3:full\tthreads=1\tcorr_f32_3_avx2\tleast_ns=5\nend 1\n";
    assert_eq!(through("wisdom merge pipe --wisdom w", wisdom).out, "1 entry in w\n");
    assert_eq!(through("wisdom show --wisdom pipe", wisdom).out.as_bytes(), wisdom);
    // A mask is an array or a raster by what it holds, not by where it comes from.
    let weights = Pixels::U8((0..63).map(|k| if k % 3 == 0 { 255 } else { 0 }).collect());
    save_npy(&folder.at("mask.npy"), &[7, 9], &weights).unwrap();
    let array = std::fs::read(folder.at("mask.npy")).unwrap();
    let spec = |said: Said| said.json()[0]["spec"].as_str().unwrap().to_string();
    assert_eq!(
        spec(through("match image.png template.png --mask pipe --json", &array)),
        "zncc:u8:40x50*7x9:valid,maskw"
    );
    assert_eq!(
        spec(flcc(&folder, "match image.png template.png --mask mask.npy --json").fine()),
        "zncc:u8:40x50*7x9:valid,maskw"
    );
    // What would be replaced is no pipe, and nobody waits for what comes out of it.
    for args in ["plan zncc:f32:9*3:valid --wisdom pipe", "wisdom forget --wisdom pipe", "wisdom merge w --wisdom pipe"]
    {
        assert!(
            flcc(&folder, args)
                .fails(1)
                .contains("--wisdom \"pipe\": expected a file, or none yet, got a device or a pipe"),
            "{args}"
        );
    }
}

#[test]
fn an_image_that_contradicts_itself_is_an_error_that_names_the_file() {
    let folder = Folder::new();
    photo(&folder);
    // Two pixels of a palette of two colours: the indices 1 and 2.
    let crc = |data: &[u8]| {
        let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        !data.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
    };
    let chunk = |kind: &[u8], data: &[u8]| {
        let body = [kind, data].concat();
        [&(data.len() as u32).to_be_bytes()[..], &body, &crc(&body).to_be_bytes()].concat()
    };
    let adler = |data: &[u8]| {
        let (a, b) = data.iter().fold((1u32, 0u32), |(a, b), &byte| (a + u32::from(byte), a + u32::from(byte) + b));
        b << 16 | a
    };
    let png = |indices: [u8; 2]| {
        let row = [&[0], &indices[..]].concat();
        let data = [&[0x78, 0x01, 0x01, 3, 0, 0xfc, 0xff][..], &row, &adler(&row).to_be_bytes()].concat();
        let header = [&2u32.to_be_bytes()[..], &1u32.to_be_bytes(), &[8, 3, 0, 0, 0]].concat();
        let palette = [10, 20, 30, 40, 50, 60];
        [
            b"\x89PNG\r\n\x1a\n".to_vec(),
            chunk(b"IHDR", &header),
            chunk(b"PLTE", &palette),
            chunk(b"IDAT", &data),
            chunk(b"IEND", &[]),
        ]
        .concat()
    };
    std::fs::write(folder.at("good.png"), png([1, 0])).unwrap();
    assert_eq!(load(&folder.at("good.png")).unwrap().pixels, Pixels::U8(vec![40, 50, 60, 10, 20, 30]));
    std::fs::write(folder.at("bad.png"), png([1, 2])).unwrap();
    std::fs::write(folder.at("bad.pgm"), b"P5 2 1 100\n\x05\xff").unwrap();
    for (args, expected) in [
        (
            "match bad.png good.png",
            "IMAGE \"bad.png\": expected palette indices below 2, the colours of its palette, got 2",
        ),
        (
            "match good.png bad.png",
            "TEMPLATE \"bad.png\": expected palette indices below 2, the colours of its palette, got 2",
        ),
        ("match bad.pgm good.png", "IMAGE \"bad.pgm\": expected samples of at most 100, as its header says, got 255"),
    ] {
        assert_eq!(flcc(&folder, args).fails(1), format!("error: {expected}"), "{args}");
    }
    let said = flcc(&folder, "stream template.png bad.png");
    assert!(
        said.status == 1
            && said.json()[0]["error"].as_str().unwrap().starts_with("FRAMES \"bad.png\": expected palette"),
        "{said:?}"
    );
}

#[test]
fn a_jpeg_that_was_cut_short_is_told() {
    let folder = Folder::new();
    folder.bytes("part.png", 4, 5, noise);
    let mut usual = Vec::new();
    let encoder = image::codecs::jpeg::JpegEncoder::new(&mut usual);
    let data: Vec<u8> = (0..32 * 24).map(noise).collect();
    image::ImageEncoder::write_image(encoder, &data, 32, 24, image::ExtendedColorType::L8).unwrap();
    // By scans, a restart marker after every two blocks.
    for bytes in [usual.as_slice(), include_bytes!("progressive.jpg")] {
        let run = |bytes: &[u8]| {
            std::fs::write(folder.at("a.jpg"), bytes).unwrap();
            flcc(&folder, "match a.jpg part.png")
        };
        assert_eq!(run(bytes).fine().err, "");
        let words = format!("a JPEG that ends with its end marker, got {} bytes without it", bytes.len() - 20);
        let line = run(&bytes[..bytes.len() - 20]).fails(1);
        assert!(line.starts_with("error: IMAGE \"a.jpg\": ") && line.contains(&words), "{line}");
        // In the data of the last scan.
        let scan = bytes.windows(2).rposition(|pair| pair == b"\xff\xda").unwrap() + 10;
        for end in (scan..bytes.len() - 4).step_by(7) {
            let said = run(&[&bytes[..end], b"\xff\xd9"].concat()).fine();
            let words = "note: IMAGE \"a.jpg\": damaged or cut short, and filled in where something is missing: ";
            assert!(said.err.lines().count() == 1 && said.err.starts_with(words), "{end}: {said:?}");
        }
    }
}

#[test]
fn processes_that_measure_at_once_lose_no_wisdom() {
    const PROCESSES: usize = 8;
    let folder = Folder::new();
    let spec = |process: usize, n: usize| format!("zncc:f32:{}x{}*5x5:valid", 40 + process, 40 + n);
    std::thread::scope(|scope| {
        for process in 0..PROCESSES {
            let folder = &folder;
            scope.spawn(move || {
                // One after another, then several in one process, which writes after each.
                for n in 0..3 {
                    flcc(folder, &format!("plan {} --effort measure --threads 1 --wisdom w", spec(process, n))).fine();
                }
                let three = [3, 4, 5].map(|n| spec(process, n)).join(" ");
                flcc(folder, &format!("bench {three} --seconds 0 --threads 1 --wisdom ./w")).fine();
            });
        }
    });
    let known = flcc(&folder, "wisdom show --wisdom w --json").fine().json();
    let known: Vec<&str> = known.iter().map(|entry| entry["spec"].as_str().unwrap()).collect();
    let all = (0..PROCESSES).flat_map(|process| (0..6).map(move |n| spec(process, n)));
    let lost: Vec<String> = all.filter(|spec| !known.contains(&spec.as_str())).collect();
    assert!(lost.is_empty() && known.len() == 6 * PROCESSES, "{} of {} are lost: {lost:?}", lost.len(), 6 * PROCESSES);
    assert!(!cfg!(unix) || folder.names() == ["w"], "{:?}", folder.names());
}

#[cfg(unix)]
#[test]
fn what_killed_processes_left_is_removed_and_blocks_nobody() {
    let folder = Folder::new();
    photo(&folder);
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let plant = |name: &str| std::fs::write(folder.at(&format!(".{name}.{}-0.tmp", dead.id())), b"half").unwrap();
    plant("w");
    plant("x.npy");
    plant("h.png");
    std::fs::write(folder.at(".w.lock"), b"").unwrap();
    flcc(&folder, "match image.png template.png --effort measure --wisdom w -o x.npy --heatmap h.png").fine();
    assert_eq!(folder.names(), ["h.png", "image.png", "template.png", "w", "x.npy"]);
    // Killed at any moment, they leave wisdom that is whole, and the next writer leaves nothing else.
    for round in 0..20u64 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flcc"));
        let specs = (0..20).map(|n| format!("corr:f32:{}*3:valid", 100 + 100 * round + n));
        command.arg("bench").args(specs).args([
            "--seconds",
            "0",
            "--threads",
            "1",
            "--effort",
            "patient",
            "--wisdom",
            "w",
        ]);
        let mut child = command.current_dir(&folder.0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10 + 3 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        flcc(&folder, "wisdom show --wisdom w").fine();
    }
    flcc(&folder, "plan corr:f32:99*3:valid --effort patient --threads 1 --wisdom w").fine();
    assert_eq!(folder.names(), ["h.png", "image.png", "template.png", "w", "x.npy"]);
}

#[cfg(unix)]
#[test]
fn a_writer_of_wisdom_waits_for_the_one_before() {
    let folder = Folder::new();
    let held = std::fs::File::create(folder.at(".w.lock")).unwrap();
    held.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| flcc(&folder, "plan corr:f32:99*3:valid --effort patient --threads 1 --wisdom w").fine());
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(!waiting.is_finished() && !folder.at("w").exists());
        // As the end of its process would.
        drop(held);
        waiting.join().unwrap();
    });
    assert_eq!(folder.names(), ["w"]);
}

#[cfg(target_os = "linux")]
#[test]
fn wisdom_that_cannot_be_written_is_told_after_the_result() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    photo(&folder);
    std::fs::write(folder.at("w"), "flcc-wisdom 2\nend 0\n").unwrap();
    std::fs::set_permissions(folder.at("w"), std::fs::Permissions::from_mode(0o444)).unwrap();
    for (call, result) in [
        ("match image.png template.png --accuracy exact", "1 12,20 "),
        // Whichever method is the faster one here, a line says which.
        ("plan corr:f32:99*3:valid --method direct", "corr_"),
        ("bench corr:f32:99*3:valid --seconds 0 --json", "{\"spec\":\"corr"),
        ("stream template.png image.png --accuracy exact", "{\"frame\":"),
    ] {
        let said = flcc(&folder, &format!("{call} --effort patient --wisdom w"));
        assert!(said.out.starts_with(result), "{call}: {said:?}");
        assert_eq!(said.fails(1), "error: --wisdom w: cannot write wisdom: the file is read-only", "{call}");
        // A folder in which nobody, not even the superuser, makes files.
        let said = flcc(&folder, &format!("{call} --effort patient --wisdom /proc/flcc-wisdom"));
        assert!(said.out.starts_with(result), "{call}: {said:?}");
        let line = said.fails(1);
        assert!(
            line.starts_with("error: --wisdom /proc/flcc-wisdom: cannot write wisdom: ") && line.contains("os error"),
            "{call}: {line}"
        );
    }
    // What is known already needs no writing.
    assert_eq!(std::fs::read_to_string(folder.at("w")).unwrap(), "flcc-wisdom 2\nend 0\n");
    flcc(&folder, "plan corr:f32:99*3:valid --wisdom w").fine();
}

#[cfg(unix)]
#[test]
fn no_output_takes_the_place_of_what_the_call_names() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("x.npy", &[40, 50], |k| f64::from(noise(k)));
    folder.array("out-2.npy", &[3, 3], |k| f64::from(noise(k)));
    std::fs::create_dir(folder.at("sub")).unwrap();
    std::fs::hard_link(folder.at("image.png"), folder.at("hard.png")).unwrap();
    std::os::unix::fs::symlink("image.png", folder.at("soft.png")).unwrap();
    std::os::unix::fs::symlink("new.png", folder.at("dangling.png")).unwrap();
    let all = || {
        folder
            .names()
            .into_iter()
            .filter(|name| name != "sub")
            .map(|name| (std::fs::read(folder.at(&name)).ok(), name))
            .collect::<Vec<_>>()
    };
    let before = all();
    let call = "match image.png template.png";
    for (args, argument, other) in [
        (format!("{call} --annotate image.png"), "--annotate", "IMAGE"),
        (format!("{call} --annotate ./image.png"), "--annotate", "IMAGE"),
        (format!("{call} --annotate sub/../image.png"), "--annotate", "IMAGE"),
        (format!("{call} --annotate {}", folder.at("image.png").display()), "--annotate", "IMAGE"),
        (format!("{call} --annotate hard.png"), "--annotate", "IMAGE"),
        (format!("{call} --annotate soft.png"), "--annotate", "IMAGE"),
        ("match soft.png template.png --heatmap hard.png".into(), "--heatmap", "IMAGE"),
        (format!("{call} --heatmap template.png"), "--heatmap", "TEMPLATE"),
        ("match image.png --template template.png --heatmap template.png".into(), "--heatmap", "--template"),
        (
            "match image.png --template-at 1,1:7x9 --mask template.png --heatmap template.png".into(),
            "--heatmap",
            "--mask",
        ),
        ("conv x.npy template.png -o x.npy".into(), "-o", "IMAGE"),
        ("corr x.npy template.png -o ./x.npy".into(), "-o", "IMAGE"),
        ("lcc x.npy template.png -o x.npy".into(), "-o", "IMAGE"),
        ("local mean --window 3x3 x.npy -o ./x.npy".into(), "-o", "IMAGE"),
        ("match x.npy --template out-2.npy --template-at 1,1:3x3 -o out.npy".into(), "-o", "--template"),
        (format!("{call} --heatmap h.png --annotate h.png"), "--annotate", "--heatmap"),
        (format!("{call} --heatmap h.png --annotate ./h.png"), "--annotate", "--heatmap"),
        (format!("{call} --heatmap new.png --annotate dangling.png"), "--annotate", "--heatmap"),
        (format!("{call} --template-at 1,1:4x4 --heatmap h.png --annotate h-2.png"), "--annotate", "--heatmap"),
        (format!("{call} -o r.png --heatmap r.png"), "--heatmap", "-o"),
        (format!("{call} --peaks r.csv -o r.csv"), "--peaks", "-o"),
        ("match image.png --template-at 0,0:3x3 --mask image.png -o image.png".into(), "-o", "IMAGE"),
        ("conv image.png template.png -o /dev/stdout --heatmap /dev/stdout".into(), "--heatmap", "-o"),
        ("conv image.png template.png -o - --heatmap /dev/stdout".into(), "--heatmap", "-o"),
        (format!("{call} -o w.npy --wisdom w.npy --effort measure"), "--wisdom", "-o"),
        (format!("{call} --wisdom image.png"), "--wisdom", "IMAGE"),
    ] {
        let line = flcc(&folder, &args).fails(2);
        assert!(
            line.starts_with(&format!("error: {argument}: expected another file than {other} names, got ")),
            "{args}: {line}"
        );
        assert_eq!(all(), before, "{args}");
    }
    // One file may be read twice, and what is no file be read and written.
    flcc(&folder, "match image.png image.png --mode full --heatmap h.png --annotate a.png -o r.npy").fine();
    let image = std::fs::read(folder.at("image.png")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_flcc"));
    let child = command
        .args(["conv", "/dev/stdin", "template.png", "-o", "/dev/stdout", "--heatmap", "h.png"])
        .current_dir(&folder.0);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&image).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"\x93NUMPY"));
    flcc(&folder, "conv image.png template.png -o /dev/null").fine();
    // Standard output by its other name, also where it is a file.
    let line = format!("{} conv image.png template.png -o /dev/stdout > r.bin", env!("CARGO_BIN_EXE_flcc"));
    assert!(Command::new("sh").args(["-c", &line]).current_dir(&folder.0).status().unwrap().success());
    assert!(std::fs::read(folder.at("r.bin")).unwrap().starts_with(b"\x93NUMPY"));
}

#[test]
fn an_output_is_what_its_name_says() {
    let folder = Folder::new();
    photo(&folder);
    let call = "match image.png template.png";
    let (results, planes) = match cfg!(feature = "zarr") {
        true => (
            ".npy, .tif, .tiff, .png, .csv or .zarr (or - for standard output)",
            ".npy, .tif, .tiff, .png or .zarr for a result of 2 axes (.csv holds 1 axis)",
        ),
        false => (
            ".npy, .tif, .tiff, .png or .csv (or - for standard output)",
            ".npy, .tif, .tiff or .png for a result of 2 axes (.csv holds 1 axis)",
        ),
    };
    for (args, argument, endings) in [
        (format!("{call} -o o"), "-o", results),
        (format!("{call} -o o.txt"), "-o", results),
        (format!("{call} -o o.jpg"), "-o", results),
        (format!("{call} -o o.npz"), "-o", results),
        (format!("{call} -o o.npy.gz"), "-o", results),
        ("conv image.png template.png -o o.bmp".into(), "-o", results),
        ("local mean --window 3x3 image.png -o o.txt".into(), "-o", results),
        (format!("{call} -o o.csv"), "-o", planes),
        ("local mean --window 3x3 image.png -o o.csv".into(), "-o", planes),
        (format!("{call} --heatmap h"), "--heatmap", ".png"),
        (format!("{call} --heatmap h.jpg"), "--heatmap", ".png"),
        (format!("{call} --heatmap -"), "--heatmap", ".png"),
        ("lcc image.png template.png --heatmap h.npy".into(), "--heatmap", ".png"),
        (format!("{call} -o o.npy --heatmap h.png --annotate x.jpg"), "--annotate", ".png"),
        (format!("{call} --peaks p.json"), "--peaks", ".csv"),
    ] {
        let line = flcc(&folder, &args).fails(2);
        let start = format!("error: {argument}: expected a name that ends in {endings}, got ");
        assert!(line.starts_with(&start), "{args}: {line}");
        assert_eq!(folder.names(), ["image.png", "template.png"], "{args}");
    }
    // What an output cannot be is told before another is written.
    for args in ["-o o.npy --annotate none/a.png", "-o o.npy --heatmap .", "--heatmap h.png -o none/o.npy"] {
        assert!(flcc(&folder, &format!("{call} {args}")).status > 0);
        assert_eq!(folder.names(), ["image.png", "template.png"], "{args}");
    }
    flcc(&folder, &format!("{call} -o O.NPY --heatmap H.PNG --annotate a.png")).fine();
    let begins = |name: &str, with: &[u8]| std::fs::read(folder.at(name)).unwrap().starts_with(with);
    assert!(begins("O.NPY", b"\x93NUMPY") && begins("H.PNG", b"\x89PNG") && begins("a.png", b"\x89PNG"));
}

#[test]
fn every_format_holds_the_same_result() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("line.npy", &[60], |k| f64::from(noise(k)));
    folder.array("volume.npy", &[9, 20, 24], |k| f64::from(noise(k)));
    // f32 and f64, exactly; a line is one row, a plane of a volume a page.
    for (call, shape) in [
        ("match image.png template.png", vec![34, 42]),
        ("lcc image.png template.png --precision f64", vec![34, 42]),
        ("conv image.png template.png --precision f64", vec![46, 58]),
        ("corr line.npy --template-at 9:5", vec![1, 64]),
        ("lcc volume.npy --template-at 1,2,3:3x4x5", vec![7, 17, 20]),
        ("local var --window 3x3 image.png", vec![40, 50]),
    ] {
        for name in ["o.npy", "o.tif", "o.tiff", "o.png"] {
            flcc(&folder, &format!("{call} -o {name}")).fine();
        }
        let array = load(&folder.at("o.npy")).unwrap();
        for name in ["o.tif", "o.tiff"] {
            let pages = load(&folder.at(name)).unwrap();
            assert_eq!(pages.shape, shape, "{call}");
            assert!(pages.pixels == array.pixels, "{call}");
        }
        // The picture is the heat map.
        if !call.starts_with("local") {
            flcc(&folder, &format!("{call} --heatmap h.png")).fine();
            assert_eq!(std::fs::read(folder.at("o.png")).unwrap(), std::fs::read(folder.at("h.png")).unwrap());
        }
        // Standard output takes the array alone.
        if !call.starts_with("match") {
            let mut command = Command::new(env!("CARGO_BIN_EXE_flcc"));
            let said = command.args(format!("{call} -o -").split(' ')).current_dir(&folder.0).output().unwrap();
            assert_eq!((said.status.code(), said.stdout), (Some(0), std::fs::read(folder.at("o.npy")).unwrap()));
        }
        assert!(!folder.at("-").exists());
    }
    let table = |call: &str| {
        flcc(&folder, &format!("{call} -o o.csv")).fine();
        std::fs::read_to_string(folder.at("o.csv")).unwrap()
    };
    folder.array("x.npy", &[3], |k| [1.0, 2.0, 3.0][k]);
    folder.array("t.npy", &[2], |k| [0.5, 1.0][k]);
    assert_eq!(table("corr x.npy t.npy --mode valid"), "position,score\n0,2.5\n1,4\n");
    assert_eq!(table("local max x.npy --window 2 --mode valid"), "position,max\n0,2\n1,3\n");
    let line = flcc(&folder, "match image.png template.png -o -").fails(2);
    assert!(line.ends_with("takes one result and nothing else), got -, where the peaks go"), "{line}");
    let line = flcc(&folder, "lcc image.png template.png -o - --json").fails(2);
    assert!(line.ends_with("got -, where the fields of --json go"), "{line}");
    let line = flcc(&folder, "local mean image.png --window 3x3 -o - --json").fails(2);
    assert!(line.ends_with("got -, where the fields of --json go"), "{line}");
    let line = flcc(&folder, "lcc image.png template.png --template-at 1,1:3x3 -o -").fails(2);
    assert!(line.ends_with("got - for 2 results"), "{line}");
}

#[test]
fn peaks_are_written_as_a_table() {
    let folder = Folder::new();
    photo(&folder);
    std::fs::copy(folder.at("template.png"), folder.at("a,b.png")).unwrap();
    folder.array("line.npy", &[60], |k| f64::from(noise(k)));
    folder.array("volume.npy", &[9, 20, 24], |k| f64::from(noise(k)));
    let table = |call: &str| {
        flcc(&folder, &format!("match {call} --accuracy exact --peaks p.csv")).fine();
        std::fs::read_to_string(folder.at("p.csv")).unwrap()
    };
    assert_eq!(table("image.png template.png"), "template,rank,y,x,score\ntemplate.png,1,12,20,1\n");
    assert_eq!(
        table("image.png --template-at 3,4:6x5 --template a,b.png"),
        "template,rank,y,x,score\n\"a,b.png\",1,12,20,1\n\"3,4:6x5\",1,3,4,1\n"
    );
    assert_eq!(table("line.npy --template-at 7:9"), "template,rank,x,score\n7:9,1,7,1\n");
    assert!(
        table("volume.npy --template-at 2,3,4:3x4x5")
            .starts_with("template,rank,z,y,x,score\n\"2,3,4:3x4x5\",1,2,3,4,")
    );
    let refined = table("image.png template.png --subpixel --top 2");
    let lines: Vec<Vec<&str>> = refined.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0], ["template", "rank", "y", "x", "refined_y", "refined_x", "score"]);
    assert!(lines.len() == 3 && lines[1][..4] == ["template.png", "1", "12", "20"] && lines[2][1] == "2");
    assert!((lines[1][4].parse::<f64>().unwrap() - 12.0).abs() < 0.5);
}

#[test]
fn help_is_a_command_too() {
    let folder = Folder::new();
    assert_eq!(flcc(&folder, "help").fine().out, flcc(&folder, "--help").fine().out);
    for (asked, as_if) in [
        ("wisdom help", "wisdom --help"),
        ("wisdom help show", "wisdom show --help"),
        ("help wisdom show", "wisdom show --help"),
        ("help match --help", "match --help"),
        ("help --help", "help help"),
        ("help -h", "help help"),
    ] {
        assert_eq!(flcc(&folder, asked).fine().out, flcc(&folder, as_if).fine().out, "{asked}");
    }
    for command in [
        "conv",
        "corr",
        "lcc",
        "match",
        "merge",
        "stream",
        "local",
        "conformance",
        "plan",
        "bench",
        "devices",
        "wisdom",
        "wisdom show",
        "wisdom merge",
        "completions",
        "man",
    ] {
        let asked = flcc(&folder, &format!("help {command}")).fine().out;
        assert_eq!(asked, flcc(&folder, &format!("{command} --help")).fine().out, "{command}");
        assert!(asked.contains("Usage: flcc "), "{asked}");
    }
    for args in ["help frobnicate", "help wisdom frobnicate"] {
        assert!(flcc(&folder, args).fails(2).contains("frobnicate"), "{args}");
    }
}

#[test]
fn the_fields_of_json_are_those_of_the_help() {
    let folder = Folder::new();
    photo(&folder);
    // The names at the beginning of a line of the list, or behind one of them.
    let documented = |command: &str| -> Vec<String> {
        let help = flcc(&folder, &format!("{command} --help")).fine().out;
        let list = help.split_once("Fields").unwrap().1.lines().skip(1);
        let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names = names.filter_map(|line| line.trim().split("  ").next().map(|names| names.replace(',', " ")));
        names.flat_map(|names| names.split_whitespace().map(str::to_string).collect::<Vec<_>>()).collect()
    };
    let options = "--top 2 --count --subpixel --json";
    for (call, measure) in [
        (format!("match image.png template.png {options} -o o.npy"), Some("zncc")),
        (format!("match image.png template.png {options} --measure ssd"), Some("ssd")),
        ("conv image.png template.png -o o.npy --json".into(), None),
        ("corr image.png template.png -o o.npy --json".into(), Some("cc")),
        ("lcc image.png template.png -o o.npy --json".into(), Some("zncc")),
        (format!("stream template.png image.png {options} --measure sad"), Some("sad")),
    ] {
        let line = &flcc(&folder, &call).fine().json()[0];
        assert_eq!(line["template_shape"], json!([7, 9]), "{call}");
        assert_eq!(line["measure"].as_str(), measure, "{call}");
        let command = call.split(' ').next().unwrap();
        let help = flcc(&folder, &format!("{command} --help")).fine().out;
        let documented = documented(command);
        for name in line.as_object().unwrap().keys() {
            assert!(documented.contains(name), "{call}: {name} of {documented:?}");
        }
        for peak in line["peaks"].as_array().into_iter().flatten() {
            let fields = help.split_once("  peaks ").unwrap().1;
            assert!(peak.as_object().unwrap().keys().all(|name| fields.contains(name.as_str())), "{call}: {peak}");
        }
    }
}

/// The fields of JSON that a command's help lists, with what it says of them.
fn documented(folder: &Folder, command: &str) -> Vec<(String, String)> {
    let help = flcc(folder, &format!("{command} --help")).fine().out;
    let mut fields: Vec<(Vec<String>, String)> = Vec::new();
    for line in help.split_once("Fields of").unwrap_or_else(|| panic!("{command}: no fields")).1.lines() {
        match line.strip_prefix("  ") {
            Some(entry) if !entry.starts_with(' ') => {
                let (names, words) = entry.split_once("  ").unwrap_or((entry, ""));
                let named = |name: &str| name.split_whitespace().next().unwrap_or("").to_string();
                fields.push((names.split(',').map(named).collect(), words.into()));
            }
            Some(more) => fields.iter_mut().last().map_or((), |(_, words)| words.extend([" ", more.trim()])),
            None => {}
        }
    }
    fields.into_iter().flat_map(|(names, words)| names.into_iter().map(move |name| (name, words.clone()))).collect()
}

#[test]
fn every_command_documents_the_fields_of_its_json() {
    let folder = Folder::new();
    photo(&folder);
    folder.array("i.npy", &[2, 3], |k| k as f64);
    let case = r#"{"cases":[{"id":"a","op":"corr","measure":null,"dims":2,"mode":"full","boundary":"zero","cval":0.0,
        "image":"i.npy","template":"i.npy","mask":null,"expected":null,"error":null,"cond":null,"tol":null}]}"#;
    folder.write("index.json", case);
    flcc(&folder, "match i.npy i.npy --tile 1/1 -o part.npy").fine();
    let spec = "zncc:u8:40x50*7x9:valid";
    let of_command = |command: &str, line: &Value| {
        let documented = documented(&folder, command);
        for (name, value) in line.as_object().unwrap() {
            let said = documented.iter().find(|(documented, _)| documented == name);
            let (_, words) = said.unwrap_or_else(|| panic!("{command}: {name} of {documented:?}"));
            // Kernels and kinds of work are names of their own.
            let inside = if ["others", "costs"].contains(&name.as_str()) { None } else { Some(value) };
            let items = inside.map_or(Vec::new(), |value| value.as_array().cloned().unwrap_or(vec![value.clone()]));
            for field in items.iter().filter_map(Value::as_object).flat_map(|item| item.keys()) {
                let word = |word: &str| word.trim_matches(['(', ')', ',', ';', '.', ':']) == field;
                assert!(words.split_whitespace().any(word), "{command}: {name}.{field} of {words:?}");
            }
        }
    };
    for (command, options) in [
        ("plan", format!("{spec} --effort measure --platform cpu --wisdom w.txt")),
        ("plan", spec.into()),
        ("devices", String::new()),
        ("wisdom show", "--wisdom w.txt".into()),
        ("wisdom merge", "w.txt --wisdom w.txt".into()),
        ("wisdom forget", "--spec nothing --wisdom w.txt".into()),
        ("local", "mean image.png --window 3x3 -o o.npy".into()),
        ("tune", "--count 2 --seed 5".into()),
        ("bench", "--grid --count 1 --seed 5 --threads 1".into()),
        ("merge", "part.json -o o.npy".into()),
        ("conformance", ".".into()),
    ] {
        let lines = flcc(&folder, &format!("{command} {options} --json")).fine().json();
        assert!(!lines.is_empty(), "{command} {options}");
        lines.iter().for_each(|line| of_command(command, line));
    }
    // All kernels take minutes; one is enough.
    let mut unroll = folder.command("tune --unroll --json").stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(unroll.stdout.take().unwrap()).read_line(&mut first).unwrap();
    unroll.kill().unwrap();
    unroll.wait().unwrap();
    of_command("tune", &serde_json::from_str(&first).unwrap());
    // Those of bench stand in sentences.
    let help = flcc(&folder, "bench --help").fine().out;
    let line = &flcc(&folder, &format!("bench {spec} --seconds 0.01 --json")).fine().json()[0];
    let word = |name: &str| help.split(|c: char| c.is_whitespace() || ",;".contains(c)).any(|word| word == name);
    line.as_object().unwrap().keys().for_each(|name| assert!(word(name), "bench: {name}"));
}

#[test]
fn the_places_of_window_statistics_are_where_windows_begin() {
    let folder = Folder::new();
    folder.array("line.npy", &[40], |k| k as f64);
    flcc(&folder, "local max line.npy --window 15 -o max.csv").fine();
    let table = std::fs::read_to_string(folder.at("max.csv")).unwrap();
    // The window at -7 ends with sample 7.
    assert!(table.starts_with("position,max\n-7,7\n-6,8\n"), "{table}");
    let help = flcc(&folder, "help local").fine().out;
    assert!(
        help.contains("where its window begins") && help.contains("15x15 the first window begins at -7,-7"),
        "{help}"
    );
}

#[test]
fn completions_and_manual_pages() {
    let folder = Folder::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = flcc(&folder, &format!("completions {shell}")).fine().out;
        assert!(text.len() > 1000 && text.contains("match") && text.contains("--min-distance"), "{shell}: {text}");
    }
    // What an argument takes is offered, though the help tells it in words.
    for values in
        ["auto direct fourier separable", "full same valid", "cc ncc zncc ssd nssd sad", "sum mean var min max"]
    {
        for shell in ["bash", "zsh"] {
            let text = flcc(&folder, &format!("completions {shell}")).fine().out;
            assert!(text.contains(values), "{shell}: {values}");
        }
        assert!(!flcc(&folder, "help match").fine().out.contains("possible values"));
    }
    let line = flcc(&folder, "completions csh").fails(2);
    assert!(line.contains("csh") && line.contains("zsh"), "{line}");
    let page = flcc(&folder, "man").fine().out;
    assert!(page.contains(".TH flcc 1") && page.contains("flcc\\-match(1)"), "{page}");
    let page = flcc(&folder, "man match").fine().out;
    assert!(
        page.contains(&format!(".TH flcc-match 1  \"match {}\"", env!("CARGO_PKG_VERSION")))
            && page.contains("min\\-distance")
            && page.contains("roi 1,2:2x3"),
        "{page}"
    );
    for option in ["threads", "method"] {
        assert!(page.contains(&format!("\\-\\-{option}")), "{option} {page}");
    }
    for command in ["show", "merge", "forget"] {
        let page = flcc(&folder, &format!("man wisdom {command}")).fine().out;
        assert!(page.contains(&format!(".TH flcc-wisdom-{command} 1")), "{page}");
    }
    assert!(
        flcc(&folder, "man wisdom frob").fails(2).contains("COMMAND: expected one of show, merge, forget, got frob")
    );
    assert!(flcc(&folder, "man match frob").fails(2).contains("COMMAND: expected no more words, got frob"));
    let line = flcc(&folder, "man frobnicate").fails(2);
    assert!(
        line.starts_with("error: COMMAND: expected one of conv, corr, lcc, match, ")
            && line.ends_with("got frobnicate")
    );
}

#[test]
fn help_offers_what_is_accepted() {
    let folder = Folder::new();
    photo(&folder);
    folder.bytes("mask.png", 7, 9, |_| 255);
    let all = ["cc", "ncc", "zncc", "ssd", "nssd", "sad"];
    for (command, offered) in [("conv", &all[..0]), ("corr", &all[..1]), ("lcc", &all[2..3]), ("match", &all[..])] {
        let help = flcc(&folder, &format!("{command} --help")).fine().out;
        let values = format!("--measure <{}>", offered.join("|"));
        assert!(
            help.contains(&values) != offered.is_empty() && help.contains("--measure <") != offered.is_empty(),
            "{command}: {help}"
        );
        for measure in all {
            let said = flcc(&folder, &format!("{command} image.png template.png --measure {measure} -o x.npy"));
            match offered.contains(&measure) {
                true => drop(said.fine()),
                false => assert!(said.fails(2).starts_with("error: --measure: expected "), "{command} {measure}"),
            }
        }
        let said = flcc(&folder, &format!("{command} image.png template.png --mask mask.png -o x.npy"));
        assert_eq!(
            (help.contains("--mask <MASK>"), said.status),
            if command == "conv" { (false, 2) } else { (true, 0) },
            "{command}"
        );
    }
    let help = flcc(&folder, "stream --help").fine().out;
    assert!(help.contains(&format!("--measure <{}>", all.join("|"))), "{help}");
}

#[test]
fn sums_are_exact_by_every_method_that_is_chosen() {
    let folder = Folder::new();
    let ramp = |count: usize, seed: usize| {
        (0..count).map(|k| u16::from(noise(k + seed)) << 8 | u16::from(noise(k + seed + 7))).collect()
    };
    save_npy(&folder.at("x.npy"), &[200, 200], &Pixels::U16(ramp(200 * 200, 0))).unwrap();
    save_npy(&folder.at("t.npy"), &[60, 60], &Pixels::U16(ramp(60 * 60, 99))).unwrap();
    let sums = |options: &str| {
        flcc(&folder, &format!("corr x.npy t.npy --mode valid --precision f64 -o s.npy {options}")).fine();
        load(&folder.at("s.npy")).unwrap().pixels.to_f64()
    };
    let exact = sums("--accuracy exact");
    assert!(exact.iter().all(|sum| sum.fract() == 0.0) && sums("") == exact && sums("--method direct") == exact);
    // Its error bound is above 1/4: what docs/numerics.md says of it.
    let refused = flcc(&folder, "corr x.npy t.npy --mode valid -o s.npy --method fourier --accuracy exact").fails(3);
    assert!(refused.contains("is not below 0.25, so its sums cannot be rounded"), "{refused}");
    for method in ["fourier", "separable"] {
        let explained = flcc(&folder, "plan corr:u16:200x200*60x60:valid --explain").fine().out;
        let reason = "its sums would not be the exact integers that other methods give; it can be forced";
        assert!(
            explained.lines().any(|line| line.trim_start().starts_with(method) && line.contains(reason)),
            "{explained}"
        );
        let forced = sums(&format!("--method {method}"));
        // A template of noise is taken line by line by the separable method, which is exact.
        let rounded = forced.iter().any(|sum| sum.fract() != 0.0);
        assert_eq!(rounded, method == "fourier", "{method}: docs/numerics.md says otherwise");
        assert!(forced.iter().zip(&exact).all(|(forced, exact)| (forced - exact).abs() < 1e-9 * exact), "{method}");
    }
    // Of bytes the same problem is within the bound.
    let spec = "corr:u8:200x200*60x60:valid --method fourier --accuracy exact";
    assert!(flcc(&folder, &format!("plan {spec}")).fine().out.starts_with("fourier_f64"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(150) })]

    #[test]
    fn any_arguments_end_in_order(words in prop::collection::vec(prop::sample::select(VOCABULARY), 0..9)) {
        let folder = Folder::new();
        photo(&folder);
        folder.array("line.npy", &[5], |k| k as f64);
        let said = flcc(&folder, &words.join(" "));
        prop_assert!((0..=3).contains(&said.status), "{words:?} {said:?}");
        if said.status >= 2 {
            let errors = said.err.lines().filter(|line| !line.starts_with("note: ")).count();
            prop_assert_eq!(errors, 1, "{:?} {:?}", words, said);
        }
    }

    #[test]
    fn any_options_of_a_sound_call_end_in_order(
        call in prop::sample::select(CALLS),
        options in prop::collection::vec(prop::sample::select(OPTIONS), 0..6),
    ) {
        let folder = Folder::new();
        photo(&folder);
        folder.array("line.npy", &[5], |k| k as f64);
        folder.array("volume.npy", &[6, 7, 8], |k| f64::from(noise(k)));
        let said = flcc(&folder, &format!("{call} {}", options.join(" ")));
        prop_assert!((0..=3).contains(&said.status), "{call} {options:?} {said:?}");
        prop_assert!(!said.err.contains("panicked"), "{call} {options:?} {said:?}");
    }
}

/// Calls that work.
const CALLS: &[&str] = &[
    "match image.png template.png",
    "match volume.npy --template-at 1,2,3:3x3x3",
    "match line.npy --template-at 1:2",
    "conv image.png template.png -o out.npy",
    "corr volume.npy --template-at 1,2,3:2x3x4 -o out.npy",
    "lcc image.png template.png -o out.npy",
    "stream template.png image.png image.png",
    "local var --window 5x4 image.png -o out.npy",
    "plan zncc:u8:300x300*9x9:valid --explain",
    "bench ssd:u16:30x30*4x5:same,mirror --seconds 0",
];

/// Options of which some go with each of them.
const OPTIONS: &[&str] = &[
    "--mode full",
    "--mode same",
    "--boundary wrap",
    "--boundary constant --cval -3.5",
    "--measure ncc",
    "--measure sad",
    "--measure ssd",
    "--measure nssd",
    "--mask template.png",
    "--top 5",
    "--top 0",
    "--top 18446744073709551615",
    "--threshold -0.5",
    "--threshold inf",
    "--min-distance 0",
    "--min-distance 18446744073709551615",
    "--exclude-border 3",
    "--exclude-border 18446744073709551615",
    "--count",
    "--exclusive",
    "--subpixel",
    "--subpixel quadratic",
    "--subpixel=gauss",
    "--subpixel=cubic",
    "--annotate a.png",
    "--annotate a%d.png",
    "--heatmap h.png",
    "--template small.npy",
    "--template-at 3,3:1x1",
    "--template-at 0,0:40x50",
    "--roi 8,9:3x3",
    "--method direct",
    "--method fourier",
    "--method separable",
    "--threads 1",
    "--threads 7",
    "--effort measure",
    "--memory-limit 100K",
    "--precision f64",
    "--precision f32",
    "--accuracy exact",
    "--accuracy fast",
    "--tile 1/2 -o p.json",
    "--json",
    "--gray",
    "--wisdom w",
];

const VOCABULARY: &[&str] = &[
    "match",
    "match",
    "conv",
    "corr",
    "lcc",
    "stream",
    "local",
    "plan",
    "bench",
    "devices",
    "wisdom",
    "conformance",
    "merge",
    "--tile",
    "2/3",
    "image.png",
    "image.png",
    "template.png",
    "template.png",
    "line.npy",
    "missing.png",
    ".",
    "-",
    "--mode",
    "full",
    "same",
    "valid",
    "--boundary",
    "reflect",
    "constant",
    "--cval",
    "-1e308",
    "1e999",
    "--measure",
    "ssd",
    "sad",
    "nssd",
    "--mask",
    "--top",
    "0",
    "3",
    "18446744073709551615",
    "--threshold",
    "-0.5",
    "--min-distance",
    "--exclude-border",
    "--count",
    "--exclusive",
    "--subpixel",
    "--subpixel=gauss",
    "cubic",
    "--annotate",
    "a.png",
    "a%d.png",
    "--heatmap",
    "-o",
    "out.npy",
    "--template",
    "--template-at",
    "0,0:3x3",
    "1:2",
    "18446744073709551615,0:1x1",
    "--roi",
    "5,5:2x2",
    "--method",
    "direct",
    "fourier",
    "separable",
    "--platform",
    "cuda",
    "--threads",
    "1",
    "--effort",
    "--memory-limit",
    "1",
    "1M",
    "--precision",
    "f64",
    "--accuracy",
    "exact",
    "fast",
    "--json",
    "--window",
    "2x2",
    "99x99",
    "mean",
    "var",
    "zncc:f32:30x30*4x4:valid",
    "ssd:u8:9x9x9*3x3x3:full,wrap",
    "zncc:u8:4000000000x4000000000*9x9:full",
    "corr:f64:0@20x20*3@4x4:same,maskw",
    "--explain",
    "show",
    "forget",
    "merge",
    "--wisdom",
    "w",
    "--frame",
    "--raw",
    "u8:4x4",
    "rgb24:4x4",
    "u8:999999999x999999999",
    "--gray",
    "--seconds",
    "0",
    "--help",
];
