// Launches the kernels of large transforms one after the other, as one that goes from images to results, and lays out
// what they take of a template. Included after the kernel's source; the test defines LARGE_TILES and SHARED.
#pragma once

// A template's spectrum over the number of samples, turned to correlate, row by row; then the turns.
static std::vector<Two> spectrum_of(const std::vector<double>& taps, int height, int width) {
  std::vector<Number> values(LENGTH * LENGTH);
  for (int k = 0; k < height * width; k++) values[k / width * LENGTH + k % width] = taps[k];
  const std::vector<Number> all = transformed(values);
  std::vector<Two> found((LENGTH * LENGTH + LENGTH) / 2);
  const auto set = [&](int at, Number value) { found[at / 2].at[at % 2] = {(float)value.real(), (float)value.imag()}; };
  for (int i = 0; i < LENGTH * LENGTH; i++) set(i, std::conj(all[i]) / (double)(LENGTH * LENGTH));
  for (int i = 0; i < LENGTH; i++) set(LENGTH * LENGTH + i, turn(i));
  return found;
}

// Pairs whose numbers have room at a time.
constexpr int ROOM = 3;

// Numbers of ROOM pairs, none of them yet.
struct Numbers {
  std::vector<Complex> all = std::vector<Complex>((size_t)ROOM * SAMPLES + 1, Complex{NAN, NAN});

  void end() const {
    if (!std::isnan(all.back().re)) FAIL("a number was written behind the last: %g", all.back().re);
    for (size_t i = SHARED; i < sizeof(flcc_dynamic); i++)
      if (flcc_dynamic[i] != 0xff) FAIL("byte %zu of shared memory, behind the last, was written", i);
  }
};

#ifndef FLCC_SCORED
// Sums of images.
static void correlate(const float* image, const FlccImage& im, float* result, const FlccResult& r, int height,
    int width, int y, int x, int step_y, int step_x, int across, int tiles, const Two* spectrum, double factor,
    unsigned* extraordinary) {
  const Shares shares = {height, width, y, x, step_y, step_x, across, tiles};
  const int pairs = (tiles + 1) / 2 * IMAGES;
  const Complex* turns = (const Complex*)spectrum + SAMPLES;
  for (int first = 0; first < pairs; first += ROOM) {
    Numbers numbers;
    const Index3 grid = {LENGTH / LINES, (unsigned)std::min(ROOM, pairs - first), 1}, block = {THREADS, 1, 1};
    launch(grid, block, [&] { KERNEL(image, im, shares, first, numbers.all.data(), turns, extraordinary); });
    launch(grid, block, [&] { flcc_columns(numbers.all.data(), (const Complex*)spectrum, nullptr); });
    launch(grid, block,
        [&] { flcc_rows_back(numbers.all.data(), turns, shares, first, result, r, factor, extraordinary); });
    numbers.end();
  }
}
#else
// Cross terms of images, and what is known of their tiles.
static void cross_terms(const Pixel* image, const FlccImage& im, const FlccLayout& l, const FlccTile* wholes,
    int transforms, const FlccDoubt& d, const Two* spectrum, Out* result, const FlccResult& r, Low* lows) {
  const int each = transforms / 2, pairs = each * IMAGES;
  const Complex* turns = (const Complex*)spectrum + SAMPLES;
  const float* of_noise = (const float*)(turns + LENGTH) + (1 + 2 * LENGTH + 3) / 4 * 4;
  const unsigned across = (l.out_row - 1 + l.template_[2] - 2) / STRETCH + 1;
  const unsigned bands = (l.out_plane / l.out_row + l.template_[1] - 2) / BAND + 1;
  std::vector<Extent> extents(IMAGES * across * bands, Extent{NAN, NAN});
  launch({across, bands, IMAGES}, {THREADS, 1, 1}, [&] { flcc_look(image, im, l, wholes, extents.data()); });
  for (int first = 0; first < pairs; first += ROOM) {
    Numbers numbers;
    const unsigned count = std::min(ROOM, pairs - first), blocks = LENGTH / LINES;
    std::vector<unsigned> wanted(ROOM, 77);
    std::vector<About> abouts(ROOM, About{{NAN, NAN}, NAN, 1});
    std::vector<Rows> samples(ROOM * blocks * WARPS, Rows{NAN, NAN, NAN}), results = samples;
    const Index3 grid = {blocks, count, 1}, block = {THREADS, 1, 1};
    launch({count, 1, 1}, {64, 1, 1}, [&] {
      flcc_about(image, im, l, wholes, each, first, extents.data(), across, bands, wanted.data(), abouts.data());
    });
    launch(grid, block, [&] {
      flcc_rows_there(
          image, im, l, wholes, each, first, numbers.all.data(), turns, wanted.data(), abouts.data(), samples.data());
    });
    launch(grid, block, [&] { flcc_columns(numbers.all.data(), (const Complex*)spectrum, wanted.data()); });
    launch(grid, block, [&] {
      flcc_cross(numbers.all.data(), turns, of_noise, l, wholes, each, first, wanted.data(), abouts.data(), result, r,
          samples.data(), results.data(), d, lows);
    });
    numbers.end();
  }
}
#endif
