//! A scene as a moving picture, for the front page of the repository.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{go, open, pictures, player};
use crate::devtools::{Browser, Screen};

const NAME: &str = "playground.png";
const FRAMES: u32 = 40;
/// The width of the picture, in pixels.
const WIDTH: u32 = 720;
/// The width of the page, which is shown smaller.
const PAGE_WIDTH: u32 = 900;
/// The index of the colour that leaves what the frame before shows.
const UNCHANGED: u8 = 0;

/// The pixels of a frame, with its width and height.
struct Frame {
    size: (u32, u32),
    pixels: Vec<[u8; 3]>,
}

async fn frame(browser: &mut Browser, top: f64, height: f64) -> Frame {
    let scale = f64::from(WIDTH) / f64::from(PAGE_WIDTH);
    let clip = json!({ "x": 0, "y": top, "width": PAGE_WIDTH, "height": height, "scale": scale });
    let answer = browser.call("Page.captureScreenshot", json!({ "format": "png", "clip": clip })).await;
    let png = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!(info.bit_depth, png::BitDepth::Eight);
    let pixels = bytes.chunks_exact(info.color_type.samples()).map(|one| [one[0], one[1], one[2]]).collect();
    Frame { size: (info.width, info.height), pixels }
}

/// The most frequent colours, as many as a picture with one byte per pixel has beside [`UNCHANGED`].
fn palette(frames: &[Frame]) -> Vec<[u8; 3]> {
    let mut counts: HashMap<[u8; 3], u32> = HashMap::new();
    for pixel in frames.iter().flat_map(|frame| &frame.pixels) {
        *counts.entry(*pixel).or_default() += 1;
    }
    let mut colours: Vec<_> = counts.into_iter().collect();
    colours.sort_unstable_by_key(|&(colour, count)| (std::cmp::Reverse(count), colour));
    colours.into_iter().map(|(colour, _)| colour).take(255).collect()
}

/// The indices of the colours that are nearest to those of a frame.
fn indices(frame: &Frame, palette: &[[u8; 3]], known: &mut HashMap<[u8; 3], u8>) -> Vec<u8> {
    let distance = |a: [u8; 3], b: [u8; 3]| -> u32 {
        a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
    };
    let nearest = |pixel: [u8; 3]| {
        let index = (0..palette.len()).min_by_key(|&i| distance(palette[i], pixel)).unwrap();
        u8::try_from(index + 1).unwrap()
    };
    frame.pixels.iter().map(|&pixel| *known.entry(pixel).or_insert_with(|| nearest(pixel))).collect()
}

/// Writes the frames as an animated PNG, each as what differs from the one before. Returns how many of them differ.
fn write(frames: &[Frame], file: File) -> usize {
    let (width, height) = frames[0].size;
    let palette = palette(frames);
    let mut encoder = png::Encoder::new(BufWriter::new(file), width, height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette([&[[0; 3]], &palette[..]].concat().concat());
    encoder.set_trns(&[0][..]);
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::NoFilter);
    encoder.set_animated(FRAMES, 0).unwrap();
    encoder.set_sep_def_img(true).unwrap();
    encoder.set_frame_delay(1, 8).unwrap();
    encoder.set_blend_op(png::BlendOp::Over).unwrap();
    let mut writer = encoder.write_header().unwrap();
    let (mut shown, mut known, mut changed) = (Vec::new(), HashMap::new(), 0);
    // What a viewer shows that knows no moving pictures.
    writer.write_image_data(&indices(frames.last().unwrap(), &palette, &mut known)).unwrap();
    for (i, frame) in frames.iter().enumerate() {
        let next = indices(frame, &palette, &mut known);
        let mut written = next.clone();
        for (one, before) in written.iter_mut().zip(&shown) {
            if one == before {
                *one = UNCHANGED;
            }
        }
        changed += usize::from(written.iter().any(|&one| one != UNCHANGED));
        if i + 1 == frames.len() {
            // The end is shown for longer.
            writer.set_frame_delay(3, 1).unwrap();
        }
        writer.write_image_data(&written).unwrap();
        shown = next;
    }
    writer.finish().unwrap();
    changed
}

#[tokio::test]
async fn scene_is_recorded() {
    let (_server, mut browser) = open("recording", "").await;
    browser.resize(Screen { width: PAGE_WIDTH, height: 1_400, scale: 1, scheme: "light" }).await;
    go(&mut browser, "edge").await;
    let edge = |element: &str, edge: &str| {
        format!("scrollY + document.querySelector('#edge {element}').getBoundingClientRect().{edge}")
    };
    let top = browser.eval(&edge(".legend", "top")).await.as_f64().unwrap() - 8.0;
    let bottom = browser.eval(&edge(".lanes", "bottom")).await.as_f64().unwrap() + 12.0;
    let mut frames = Vec::new();
    for i in 0..FRAMES {
        let moment = f64::from(i) / f64::from(FRAMES - 1);
        let seek =
            format!("{0}.seek({0}.view.from + ({0}.view.to - {0}.view.from) * {moment})", player("edge"));
        browser.eval(&seek).await;
        frames.push(frame(&mut browser, top, bottom - top).await);
    }
    std::fs::create_dir_all(pictures()).unwrap();
    let path = pictures().join(NAME);
    let changed = write(&frames, File::create(&path).unwrap());
    assert!(changed >= 38, "{changed} of {FRAMES} frames differ");

    let size = path.metadata().unwrap().len();
    assert!(size < 600_000, "{size} bytes");
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images").join(NAME);
    if std::env::var_os("UPDATE_SCREENSHOTS").is_some() {
        std::fs::copy(&path, &committed).unwrap();
    }
    for path in [path, committed] {
        let reader = png::Decoder::new(BufReader::new(File::open(&path).unwrap())).read_info().unwrap();
        let found = (reader.info().size(), reader.info().animation_control().unwrap().num_frames);
        assert_eq!(
            found,
            (frames[0].size, FRAMES),
            "{}: set UPDATE_SCREENSHOTS=1 to replace it",
            path.display()
        );
    }
    assert_eq!(frames[0].size.0, WIDTH);
    assert_eq!(browser.complaints, [""; 0]);
}
