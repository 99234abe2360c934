// Compares scores of volumes by transforms and windows, from the image on, with sums in double. Included after the
// kernels' source; the test defines KERNEL, FLCC_BOUNDARY, the template's sides as FLCC_TD, FLCC_TH and FLCC_TW, and
// CROSS_SHARED, the bytes of dynamic shared memory of the first kernel.
#include <algorithm>

#include "volumes.h"

constexpr int TAPS[3] = {FLCC_TD, FLCC_TH, FLCC_TW}, COUNT = FLCC_TD * FLCC_TH * FLCC_TW;

// A template's spectrum and turns, then numbers of planes, rows and columns, whose product is the noise of tiles whose
// largest sample is 1, and what the template makes of that.
static std::vector<Two> with_noise(const std::vector<Number>& values) {
  const std::vector<Number> of_template = transformed(values);
  std::vector<Two> all = spectrum_of(of_template);
  std::vector<float> behind;
  for (int i = 0; i < DEPTH + 2 * LENGTH; i++)
    behind.push_back((float)((i < DEPTH ? 0.1 / LENGTH : 1.0) * random_unit()));
  const float *planes = behind.data(), *rows = planes + DEPTH, *columns = rows + LENGTH;
  std::vector<Number> noise(SAMPLES);
  for (int at = 0; at < SAMPLES; at++)
    noise[at] = (double)planes[at / (LENGTH * LENGTH)] * rows[at / LENGTH % LENGTH] * columns[at % LENGTH];
  // The transform of the conjugate of a product of spectra is that product turned, which correlates.
  std::vector<Number> product = transformed(noise);
  for (int f = 0; f < SAMPLES; f++) product[f] = std::conj(product[f]) * of_template[f] / (double)SAMPLES;
  const std::vector<Number> made = transformed(product);
  for (int i = 0; i < SAMPLES; i++) {
    const Thread at(i / 4 % THREADS);
    const int value = i / 4 / THREADS * 4 + i % 4, z = at.z + LANES * (value / (OUTER * OUTER)),
              y = at.y + LANES * (value / OUTER % OUTER), x = at.x + LANES * (value % OUTER);
    behind.push_back((float)made[(z * LENGTH + y) * LENGTH + x].real());
  }
  for (size_t i = 0; i < behind.size(); i += 4)
    all.push_back({{{behind[i], behind[i + 1]}, {behind[i + 2], behind[i + 3]}}});
  return all;
}

// Thresholds of a template of mean 0 and norm 1, as docs/numerics.md derives them for pairs of tiles and f32.
static FlccDoubt doubt_for(const std::vector<Number>& values) {
  const double u = std::ldexp(1.0, -24), half = WIDE_ROUNDOFF, budget = 0.8e-5, rest = 0.2e-5, n = SAMPLES;
  double wave = 0, largest = 0;
  for (const Number& value : values) largest = std::max(largest, std::fabs(value.real()));
  for (const Number& value : transformed(values)) wave = std::max(wave, std::abs(value));
  const double sigma = 8 * 0.424661, epsilon = sigma * u * std::sqrt(std::log2(n) / 2);
  const auto roundings = [&](double steps) { return sigma * std::sqrt(steps); };
  FlccDoubt d = {};
  d.of_tile = std::hypot(epsilon / std::sqrt(n), 5 * u * wave * std::sqrt(2 / n)) / budget;
  d.of_result = epsilon / budget;
  d.of_peak = 5 * u / budget;
  const double stretch = std::sqrt((FLCC_TW + SEGMENT) / (double)FLCC_TW);
  d.of_energy = (3 * roundings(2 * (64 + SEGMENT) + FLCC_TD + FLCC_TH) +
                    (1 + 2 * stretch) * roundings(2 * SEGMENT + FLCC_TW)) * half / rest;
  d.share = 2 * std::pow(u / budget, 2) + 16 * half / rest;
  d.least = std::ldexp(1.0, -120);
  d.largest_tap = largest;
  return d;
}

struct Volume {
  int lengths[3], origin[3], out[3];
  int step;    // between neighbours of a row
  int planes;  // of outputs of a block of windows
  int kind;    // what the image is made of
  double amplitude, level;  // of what varies, and what it is added to
  double special;           // a sample of the last image, if it is not 0
  double most;              // the share of panels that may be in doubt
};

static double largest_error = 0;

static void check(const Volume& c) {
  constexpr bool FLOATS = std::is_floating_point<Pixel>::value;
  FlccImage im = {};
  FlccResult r = {};
  FlccLayout l = {};
  WindowsOf w = {};
  int transforms = 1, step[3], tiles[3];
  for (int i = 0; i < 3; i++) {
    im.lengths[i] = c.lengths[i], l.template_[i] = TAPS[i];
    step[i] = SIDES[i] + 1 - TAPS[i], tiles[i] = (c.out[i] + step[i] - 1) / step[i], transforms *= tiles[i];
  }
  transforms += transforms % 2;
  im.stride[2] = c.step, im.stride[1] = c.lengths[2] * c.step + 3, im.stride[0] = im.stride[1] * c.lengths[1] + 1;
  im.image_stride = im.stride[0] * c.lengths[0] + 5, im.channels = 1, im.fill = c.level + 0.3 * c.amplitude;
  std::vector<Pixel> images(IMAGES * im.image_stride, FLOATS ? (Pixel)NAN : (Pixel)99);
  const auto at = [&](int number, int z, int y, int x) -> Pixel& {
    return images[number * im.image_stride + z * im.stride[0] + y * im.stride[1] + x * c.step];
  };
  for (int number = 0; number < IMAGES; number++)
    for (int z = 0; z < c.lengths[0]; z++)
      for (int y = 0; y < c.lengths[1]; y++)
        for (int x = 0; x < c.lengths[2]; x++) {
          const double value = sample(c.kind, z, y, x) * c.amplitude + c.level;
          at(number, z, y, x) = FLOATS ? (Pixel)value : (Pixel)(long long)std::min(255.0, std::max(0.0, value));
        }
  if (c.special != 0) at(IMAGES - 1, c.lengths[0] / 2, c.lengths[1] / 2, c.lengths[2] / 2) = (Pixel)c.special;
  const auto padded = [&](int number, int z, int y, int x) -> double {
    const int fz = folded(z + c.origin[0], im.lengths[0]), fy = folded(y + c.origin[1], im.lengths[1]),
              fx = folded(x + c.origin[2], im.lengths[2]);
    if (fz >= 0 && fy >= 0 && fx >= 0) return (double)at(number, fz, fy, fx);
    return FLCC_BOUNDARY == FLCC_CONSTANT ? im.fill : 0.0;
  };
  std::vector<double> taps(COUNT);
  double mean = 0, energy = 0;
  for (double& tap : taps) tap = random_unit(), mean += tap / COUNT;
  for (double& tap : taps) tap -= mean, energy += tap * tap;
  for (double& tap : taps) tap /= std::sqrt(energy);
  const std::vector<Number> values = in_tile(taps, TAPS);
  const std::vector<Two> spectrum = with_noise(values);
  const FlccDoubt d = doubt_for(values);

  // Of every whole tile all but its first plane and column and its last row are asked for.
  const int from[3] = {c.out[0] > 1, 0, c.out[2] > 1}, to[3] = {c.out[0], c.out[1] - (c.out[1] > 1), c.out[2]};
  l.out_row = c.out[2] + 1, l.out_plane = c.out[1] * l.out_row + 3, l.out_channel = c.out[0] * l.out_plane + 2;
  r.stride[2] = 1, r.stride[1] = c.out[2] + 3, r.stride[0] = r.stride[1] * c.out[1] + 2;
  r.image_stride = r.stride[0] * c.out[0] + 7;
  constexpr float GUARD = -7;
  std::vector<float> results(IMAGES * r.image_stride, GUARD);
  std::vector<FlccTile> wholes(IMAGES);
  for (int number = 0; number < IMAGES; number++) {
    FlccTile& whole = wholes[number];
    whole.image = number;
    for (int i = 0; i < 3; i++)
      whole.begin[i] = c.origin[i], whole.shape[i] = c.out[i], whole.keep_from[i] = from[i], whole.keep_to[i] = to[i];
  }
  std::vector<unsigned> doubtful(IMAGES * l.out_channel, 0xdeadbeef);
  std::vector<Low> lows(IMAGES * transforms + 1, Low{GUARD, GUARD});
  unsigned count = 0;
  const auto kept_its_room = [&](size_t bytes) {
    for (size_t i = bytes; i < sizeof(flcc_dynamic); i++)
      if (flcc_dynamic[i] != 0xff) FAIL("byte %zu of shared memory, behind the last, was written", i);
  };
  launch({(unsigned)transforms / 2, 1, IMAGES}, {THREADS, 1, 1}, [&] {
    KERNEL(images.data(), im, l, wholes.data(), d, spectrum.data(), results.data(), r, lows.data());
  });
  kept_its_room(CROSS_SHARED);
  w.part = c.planes, w.across = (c.out[2] + SIDE - 1) / SIDE, w.tiles = transforms, w.norm = 1, w.share = 1.0 / COUNT;
  const int of_plane = w.across * ((c.out[1] + SIDE - 1) / SIDE), chunks = (c.out[0] + c.planes - 1) / c.planes;
  launch({(unsigned)of_plane, (unsigned)chunks, IMAGES}, {WINDOW_THREADS, 1, 1}, [&] {
    flcc_windows(images.data(), im, l, wholes.data(), d, w, lows.data(), results.data(), r, doubtful.data(), &count);
  });
  kept_its_room((DOWN * ALONG + SIDE * PITCH) * sizeof(Sums) + SIDE * (SIDE + 1) * sizeof(Spread));
  if (lows.back().low != GUARD) FAIL("a threshold was written behind the last: %g", lows.back().low);

  std::vector<bool> listed(doubtful.size());
  for (unsigned i = 0; i < count; i++) listed[doubtful[i]] = true;
  double off = 0, panels = 0, doubted = 0;
  size_t kept = 0;
  for (float value : results) kept += value != GUARD;
  for (int number = 0; number < IMAGES; number++)
    for (int z = from[0]; z < to[0]; z++)
      for (int y = from[1]; y < to[1]; y++)
        for (int x = from[2]; x < to[2]; x++) {
          double sum = 0, squares = 0, cross = 0, first = 0;
          bool constant = true, no_number = false;
          for (int k = 0; k < COUNT; k++) {
            const double value =
                padded(number, z + k / (TAPS[2] * TAPS[1]), y + k / TAPS[2] % TAPS[1], x + k % TAPS[2]);
            if (k == 0) first = value;
            constant = constant && value == first;
            no_number = no_number || !std::isfinite(value);
            sum += value - first, squares += (value - first) * (value - first), cross += (value - first) * taps[k];
          }
          const double exact = constant ? 0 : cross / std::sqrt(squares - sum * sum / COUNT);
          const float got = results[number * r.image_stride + (z - from[0]) * r.stride[0] +
                                    (y - from[1]) * r.stride[1] + x - from[2]];
          const bool in_doubt = listed[number * l.out_channel + z * l.out_plane + y * l.out_row + x];
          panels++, doubted += in_doubt;
          if (no_number) {
            if (in_doubt || !std::isnan(got)) FAIL("(%d, %d, %d): a panel with a NaN is %g", z, y, x, got);
            continue;
          }
          if (in_doubt) continue;
          const double error = std::fabs(got - exact);
          if (!(error <= off)) off = error;
          if (!(std::fabs(got) <= 1)) FAIL("(%d, %d, %d): %g", z, y, x, got);
        }
  if (kept != (size_t)panels) FAIL("%zu elements were written, expected %g", kept, panels);
  largest_error = std::max(largest_error, off);
  std::printf("kind %d of %g at %g, special %g: off by %.3g, %.4f in doubt\n", c.kind, c.amplitude, c.level, c.special,
      off, doubted / panels);
  if (!(off <= 1e-5)) FAIL("kind %d, boundary %d: off by %g", c.kind, FLCC_BOUNDARY, off);
  if (doubted > c.most * panels) FAIL("kind %d: %g are in doubt", c.kind, doubted / panels);
}

// A panel of two levels, as the template's signs, in a volume far above nine samples of nothing: transforms take their
// samples less the volume's level, a block of windows less nothing, since those nine are what it looks at. The rounding
// of the one is not that of the other.
static void offsets_apart() {
  const int lengths[3] = {16, 32, 50}, place[3] = {0, 8, 18};
  FlccImage im = {};
  FlccResult r = {};
  FlccLayout l = {};
  WindowsOf w = {};
  FlccTile whole = {};
  int transforms = 1;
  for (int i = 0; i < 3; i++) {
    im.lengths[i] = lengths[i], l.template_[i] = TAPS[i];
    whole.shape[i] = whole.keep_to[i] = lengths[i] + 1 - TAPS[i];
    transforms *= (whole.shape[i] + SIDES[i] - TAPS[i]) / (SIDES[i] + 1 - TAPS[i]);
  }
  transforms += transforms % 2;
  im.stride[2] = 1, im.stride[1] = lengths[2], im.stride[0] = lengths[1] * lengths[2];
  im.image_stride = im.stride[0] * lengths[0], im.channels = 1;
  l.out_row = r.stride[1] = whole.shape[2], l.out_plane = r.stride[0] = l.out_row * whole.shape[1];
  l.out_channel = r.image_stride = l.out_plane * whole.shape[0], r.stride[2] = 1;
  w.part = 8, w.across = 1, w.tiles = transforms, w.norm = 1, w.share = 1.0 / COUNT;
  std::vector<double> taps(COUNT);
  for (int k = 0; k < COUNT; k++) taps[k] = (k % 2 ? -1 : 1) / std::sqrt((double)COUNT);
  for (int k = COUNT - 1; k > 0; k--) std::swap(taps[k], taps[(int)(std::fabs(random_unit()) * k)]);
  const std::vector<Number> values = in_tile(taps, TAPS);
  const std::vector<Two> spectrum = with_noise(values);
  const FlccDoubt d = doubt_for(values);
  for (double level : {1052672.0, 4194304.0 + 65536})
    for (double sigma = 500; sigma < 20000; sigma *= 1.2) {
      std::vector<Pixel> image(im.image_stride, (Pixel)level);
      const auto at = [&](int z, int y, int x) -> Pixel& { return image[z * im.stride[0] + y * im.stride[1] + x]; };
      for (int k = 0; k < COUNT; k++)
        at(place[0] + k / (TAPS[1] * TAPS[2]), place[1] + k / TAPS[2] % TAPS[1], place[2] + k % TAPS[2]) =
            (Pixel)(taps[k] > 0 ? sigma + 0.0624 : -sigma - 0.0624);
      for (int z : {2, 8, 13})
        for (int y : {5, 16, 26}) at(z, y, 8) = 0;
      std::vector<float> results(r.image_stride);
      std::vector<unsigned> doubtful(l.out_channel);
      std::vector<Low> lows(transforms);
      unsigned count = 0;
      launch({(unsigned)transforms / 2, 1, 1}, {THREADS, 1, 1}, [&] {
        KERNEL(image.data(), im, l, &whole, d, spectrum.data(), results.data(), r, lows.data());
      });
      launch({1, 1, 1}, {WINDOW_THREADS, 1, 1}, [&] {
        flcc_windows(image.data(), im, l, &whole, d, w, lows.data(), results.data(), r, doubtful.data(), &count);
      });
      const unsigned index = place[0] * l.out_plane + place[1] * l.out_row + place[2];
      const bool listed = std::find(doubtful.begin(), doubtful.begin() + count, index) != doubtful.begin() + count;
      const double error = std::fabs(1 - results[index]);
      std::printf("levels of %g beside %g: off by %.3g, %s\n", sigma, level, error, listed ? "in doubt" : "certain");
      if (!listed && !(error <= 1e-5)) FAIL("levels of %g beside %g: off by %g", sigma, level, error);
    }
}

int main() {
#ifdef OFFSETS_APART
  offsets_apart();
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
#endif
  constexpr bool FLOATS = std::is_floating_point<Pixel>::value;
  const double amplitude = FLOATS ? 1 : 40, level = FLOATS ? 0 : 128;
  const int before[3] = {1 - TAPS[0], 1 - TAPS[1], 1 - TAPS[2]};
  // All of a volume of several tiles and blocks, in all directions.
  const Volume plain = {{13, 40, 37}, {before[0], before[1], before[2]},
      {13 - before[0], 40 - before[1], 37 - before[2]}, 1, 8, 0, amplitude, level, 0, 0.1};
  check(plain);
  Volume other = plain;
  other.step = 2, other.planes = 5;
  check(other);
  // Inside, with more planes than a block has, and a pair of tiles whose samples are all in the image.
  const Volume inside = {{29, 36, 66}, {0, 0, 0}, {29 + before[0], 36 + before[1], 66 + before[2]}, 1, 9, 0, amplitude,
      level, 0, 0};
  check(inside);
  other = inside, other.step = 2, other.level += 3;
  check(other);
  for (int kind = 1; kind < 9; kind++) {
    other = inside, other.lengths[0] = 17, other.out[0] = 17 + before[0];
    other.kind = kind, other.amplitude *= 1 + 0.5 * std::fabs(random_unit());
    // Of nearly nothing beside something bright most are.
    other.most = kind == 1 || kind == 2 || kind == 5 ? 1 : kind == 7 ? 0.02 : 0;
    if (kind == 6) other.amplitude = 3;
    check(other);
    if (FLOATS) other.level = 300, check(other);
  }
  // A volume smaller than the template.
  check({{3, 4, 2}, {before[0], before[1], before[2]}, {3 - before[0], 4 - before[1], 2 - before[2]}, 1, 8, 0,
      amplitude, level, 0, 1});
  if (FLOATS) {
    other = inside, other.kind = 9, other.level = 1000, other.most = 1;
    check(other);
    // Magnitudes at both ends of what is ordinary, beyond them, samples that are no numbers, and nothing at all.
    const double reach = std::ldexp(1.0, REACH);
    for (const auto& [size, special] : {std::pair<double, double>{1, 1e3}, {1, 1e6}, {1, reach}, {1, 1e30}, {1, NAN},
             {1, -INFINITY}, {0, 0}, {0, 2 / reach}, {1e-3 / reach, 0}, {1e-37, 0}, {1e-43, 0}, {1e20, 0}, {1e38, 0},
             {1e38, NAN}}) {
      other = inside, other.lengths[0] = 21, other.out[0] = 21 + before[0];
      other.amplitude = size, other.special = special, other.most = 1;
      if (std::isnan(special) && size == 1) other.most = 0;
      if (special == 1e3) other.most = 0.4;
      check(other);
    }
  }
  std::printf("%d wrong, off by %.3g at most\n", wrong, largest_error);
  return wrong == 0 ? 0 : 1;
}
