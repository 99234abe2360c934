// Compares scores by transforms of tiles, from the image on, with sums in double. Included after the kernel's
// source; the test defines KERNEL, FLCC_BOUNDARY, REST, SHARED, the bytes of dynamic shared memory, and WIDE_ROUNDOFF,
// what sums of windows round.
#include "tiles.h"

// A template's spectrum and turns, then 1 and numbers of rows and columns, whose product is the noise of tiles whose
// largest sample is 1, and what the template makes of that.
static std::vector<Two> with_noise(const std::vector<double>& taps, int height, int width) {
  std::vector<Two> all = spectrum_of(taps, height, width);
  float rows[LENGTH], columns[LENGTH];
  std::vector<float> made(LENGTH * LENGTH);
  for (int i = 0; i < LENGTH; i++) rows[i] = (float)(0.25 / LENGTH * random_unit()), columns[i] = (float)random_unit();
  std::vector<double> of_rows(height * LENGTH);
  for (int i = 0; i < height; i++)
    for (int x = 0; x < LENGTH; x++)
      for (int j = 0; j < width; j++) of_rows[i * LENGTH + x] += taps[i * width + j] * columns[(x + j) % LENGTH];
  for (int y = 0; y < LENGTH; y++)
    for (int x = 0; x < LENGTH; x++) {
      double sum = 0;
      for (int i = 0; i < height; i++) sum += of_rows[i * LENGTH + x] * rows[(y + i) % LENGTH];
      made[y * LENGTH + x] = (float)sum;
    }
  std::vector<float> behind(1, 1);
  behind.insert(behind.end(), rows, rows + LENGTH);
  behind.insert(behind.end(), columns, columns + LENGTH);
  behind.resize((behind.size() + 3) / 4 * 4);
#ifdef LARGE_TILES
  behind.insert(behind.end(), made.begin(), made.end());
#else
  for (int i = 0; i < LENGTH * LENGTH; i++) {
    const Thread at(i / 4 % THREADS);
    const int value = i / 4 / THREADS * 4 + i % 4;
    behind.push_back(made[(at.y + ROWS * (value / OUTER_X)) * LENGTH + at.x + LANES * (value % OUTER_X)]);
  }
#endif
  for (size_t i = 0; i < behind.size(); i += 4)
    all.push_back({{{behind[i], behind[i + 1]}, {behind[i + 2], behind[i + 3]}}});
  return all;
}

// Thresholds of a template of mean 0 and norm 1, as docs/numerics.md derives them for pairs of tiles and f32.
static FlccDoubt doubt_for(const std::vector<double>& taps, int height, int width) {
  const double u = std::ldexp(1.0, -24), half = WIDE_ROUNDOFF, budget = 0.8e-5, rest = 0.2e-5;
  const double n = LENGTH * LENGTH;
  double wave = 0, largest = 0;
  for (double tap : taps) largest = std::max(largest, std::fabs(tap));
  for (const Number& value : transformed(in_tile(taps, width))) wave = std::max(wave, std::abs(value));
  const double sigma = 8 * 0.424661, epsilon = sigma * u * std::sqrt(std::log2(n) / 2);
  const auto roundings = [&](double steps) { return sigma * std::sqrt(steps); };
  FlccDoubt d = {};
#ifdef LARGE_TILES
  const double copies = 10 * u;
#else
  const double copies = 5 * u;
#endif
  d.of_tile = std::hypot(epsilon / std::sqrt(n), copies * wave * std::sqrt(2 / n)) / budget;
  d.of_result = epsilon / budget;
  d.of_peak = copies / budget;
  const double stretch = std::sqrt((double)STRIP / width);
  d.of_energy = (3 * roundings(height + 2 * 64) + (1 + 2 * stretch) * roundings(28)) * half / rest;
  d.share = 2 * std::pow(u / budget, 2) + 16 * half / rest;
  d.least = std::ldexp(1.0, -120);
  d.largest_tap = largest;
  return d;
}

struct Picture {
  int height, width;     // of the template
  int lengths[2];        // of an image
  int origin[2], out[2];
  int step;              // between neighbours of a row
  int part;              // rows of outputs of a strip
  int kind;              // what the image is made of
  double amplitude, level;  // of what varies, and what it is added to
  double special;        // a sample of the last image, if it is not 0
  double most;           // the share of panels that may be in doubt
};

static double largest_error = 0;

static void check(const Picture& p) {
  constexpr bool FLOATS = std::is_floating_point<Pixel>::value;
  Images<Pixel> images(p.lengths[0], p.lengths[1], p.step, p.level + 0.3 * p.amplitude);
  images.set([&](int y, int x) {
    const double value = sample(p.kind, y, x) * p.amplitude + p.level;
    return FLOATS ? (Pixel)value : (Pixel)(long long)std::min(255.0, std::max(0.0, value));
  });
  if (p.special != 0) images.at(IMAGES - 1, p.lengths[0] / 2, p.lengths[1] / 2) = (Pixel)p.special;
  std::vector<double> taps(p.height * p.width);
  double mean = 0, energy = 0;
  for (double& tap : taps) tap = random_unit(), mean += tap / taps.size();
  for (double& tap : taps) tap -= mean, energy += tap * tap;
  for (double& tap : taps) tap /= std::sqrt(energy);
  const std::vector<Two> spectrum = with_noise(taps, p.height, p.width);
  const FlccDoubt d = doubt_for(taps, p.height, p.width);

  // Of every whole tile all but its first column and last row are asked for.
  FlccLayout l = {};
  l.template_[0] = 1, l.template_[1] = p.height, l.template_[2] = p.width;
  l.out_row = p.out[1] + 1, l.out_channel = l.out_plane = p.out[0] * l.out_row + 3;
  const int from = p.out[1] > 1, last = p.out[0] - (p.out[0] > 1);
  Results<float> results(p.out[0], p.out[1], -7);
  std::vector<FlccTile> wholes(IMAGES);
  for (int number = 0; number < IMAGES; number++) {
    FlccTile& whole = wholes[number];
    whole.image = number;
    for (int axis = 1; axis < 3; axis++)
      whole.begin[axis] = p.origin[axis - 1], whole.shape[axis] = whole.keep_to[axis] = p.out[axis - 1];
    whole.shape[0] = whole.keep_to[0] = 1, whole.keep_from[2] = from, whole.keep_to[1] = last;
  }
  std::vector<unsigned> doubtful(IMAGES * l.out_channel, 0xdeadbeef);
  unsigned count = 0;
  const int step[2] = {LENGTH - p.height + 1, LENGTH - p.width + 1};
  const int across = (p.out[1] + step[1] - 1) / step[1], tiles = (p.out[0] + step[0] - 1) / step[0] * across;
  const int transforms = tiles + tiles % 2;
  std::vector<Low> lows(IMAGES * transforms + 1, Low{-7, -7});
#ifdef LARGE_TILES
  cross_terms(images.samples.data(), images.im, l, wholes.data(), transforms, d, spectrum.data(), results.first(),
      results.r, lows.data());
#else
  launch({(unsigned)transforms / 2, 1, IMAGES}, {THREADS, 1, 1}, [&] {
    KERNEL(images.samples.data(), images.im, l, wholes.data(), d, spectrum.data(), results.first(), results.r,
        lows.data());
  });
#endif
  for (size_t i = SHARED; i < sizeof(flcc_dynamic); i++)
    if (flcc_dynamic[i] != 0xff) FAIL("byte %zu of shared memory, behind the last, was written", i);
  if (lows.back().low != -7) FAIL("a threshold was written behind the last: %g", lows.back().low);
  WindowsOf w = {};
  const int side = (STRIP + 1 - p.width) / 4 * 4;
  w.part = p.part, w.across = (p.out[1] + 3 + side - 1) / side, w.tiles = transforms, w.norm = 1;
  w.share = 1.0 / taps.size();
  // Parts of a region begin within bands.
  w.region = TEAM > 1 ? 3 * p.part : p.part, w.regions = (p.out[0] + w.region - 1) / w.region;
  std::vector<Sums> bands;
#if FLCC_TEAM > 1
  w.band = 3, w.bands = (w.region + p.height - 1) / w.band;
  const size_t sums = (size_t)IMAGES * w.regions * w.bands * w.across * STRIP;
  Sums poison;
  std::memset(&poison, 0xff, sizeof poison);
  bands.assign(sums + 1, poison);
  launch({(unsigned)(w.regions * w.bands * w.across), 1, IMAGES}, {WINDOW_THREADS, 1, 1}, [&] {
    flcc_bands(images.samples.data(), images.im, l, wholes.data(), w, bands.data());
  });
  if (std::memcmp(&bands[sums], &poison, sizeof poison) != 0) FAIL("sums were written behind the last band");
#endif
  const int strips = w.across * ((p.out[0] + p.part - 1) / p.part);
  launch({(unsigned)(strips + TEAMS - 1) / TEAMS, 1, IMAGES}, {WINDOW_THREADS, 1, 1}, [&] {
    flcc_windows(images.samples.data(), images.im, l, wholes.data(), d, w, lows.data(), results.first(), results.r,
        doubtful.data(), &count, bands.data());
  });
  std::vector<bool> listed(doubtful.size());
  for (unsigned i = 0; i < count; i++) listed[doubtful[i]] = true;
  double off = 0, panels = 0, doubted = 0;
  const int columns = p.out[1] + p.width - 1, rows = last + p.height - 1;
  std::vector<double> samples(rows * columns);
  for (int number = 0; number < IMAGES; number++) {
    for (int y = 0; y < rows; y++)
      for (int x = 0; x < columns; x++)
        samples[y * columns + x] = images.padded(number, y + p.origin[0], x + p.origin[1]);
    for (int y = 0; y < last; y++)
      for (int x = from; x < p.out[1]; x++) {
        double sum = 0, squares = 0, cross = 0, first = 0;
        bool constant = true, no_number = false;
        for (int i = 0; i < p.height; i++)
          for (int j = 0; j < p.width; j++) {
            const double value = samples[(y + i) * columns + x + j];
            if (i == 0 && j == 0) first = value;
            constant = constant && value == first;
            no_number = no_number || !std::isfinite(value);
            sum += value - first, squares += (value - first) * (value - first),
                cross += (value - first) * taps[i * p.width + j];
          }
        const double of_panel = squares - sum * sum / taps.size();
        const double exact = constant ? 0 : cross / std::sqrt(of_panel);
        const float got = results.at(number, y, x - from);
        const bool in_doubt = listed[number * l.out_channel + y * l.out_row + x];
        panels++, doubted += in_doubt;
        if (no_number) {
          if (in_doubt || !std::isnan(got)) FAIL("(%d, %d): a panel with a NaN is %g", y, x, got);
          continue;
        }
        if (in_doubt) continue;
        const double error = std::fabs(got - exact);
        if (!(error <= off)) off = error;
        if (!(std::fabs(got) <= 1)) FAIL("(%d, %d): %g", y, x, got);
      }
  }
  results.end();
  largest_error = std::max(largest_error, off);
  std::printf("%dx%d kind %d of %g at %g, special %g: off by %.3g, %.4f in doubt\n", p.height, p.width, p.kind,
      p.amplitude, p.level, p.special, off, doubted / panels);
  if (!(off <= 1e-5)) FAIL("%dx%d kind %d boundary %d: off by %g", p.height, p.width, p.kind, FLCC_BOUNDARY, off);
  if (doubted > p.most * panels) FAIL("%dx%d kind %d: %g are in doubt", p.height, p.width, p.kind, doubted / panels);
}

// A template's width about this one that leaves REST over eight.
static int wide(int width) { return width / 8 * 8 + REST; }

int main() {
  const int side = 3 * LENGTH / 2 + 5, width = wide(12);
  constexpr bool FLOATS = std::is_floating_point<Pixel>::value;
  const double amplitude = FLOATS ? 1 : 40, level = FLOATS ? 0 : 128;
  const Picture plain = {17, width, {side, side + 9}, {-16, 1 - width}, {side + 16, side + 8 + width}, 1, 16, 0,
      amplitude, level, 0, 0.1};
  check(plain);
  Picture other = plain;
  other.step = 2, other.part = 7;
  check(other);
  for (int kind = 0; kind < 10; kind += KINDS_APART)
    for (double offset : {0.0, 300.0}) {
      if (!FLOATS && offset > 0) continue;
      other = plain, other.kind = kind, other.amplitude *= 1 + 0.5 * std::fabs(random_unit()), other.level += offset;
      other.most = 1;
      check(other);
    }
  // Templates of another size, images smaller than a template, outputs of which each meets samples inside.
  const int across = wide(std::min(LENGTH / 3, 200));
  check({LENGTH / 2 + 1, across, {40, 30}, {-9, 3}, {35, 60}, 1, 30, 0, amplitude, level, 0, 1});
  check({20, wide(9), {5, 3}, {-19, -8}, {24, 11}, 1, 16, 0, amplitude, level, 0, 1});
  // Several strips of teams.
  if (TEAM > 1)
    check({9, wide(200), {30, 1300}, {0, 0}, {22, 1301 - wide(200)}, 1, 8, 0, amplitude, level, 0, 0.1});
  if (ALL)
    check({9, width, {2 * LENGTH, 3 * LENGTH}, {0, 0}, {2 * LENGTH - 8, 3 * LENGTH + 1 - width}, 1, 16, 0, amplitude,
        level, 0, 0});
  check({8, width, {2 * LENGTH, 2 * LENGTH}, {0, 0}, {2 * LENGTH - 7, LENGTH + 1 - width}, 1, 64, 0, amplitude, level,
      0, 0});
  if (ALL && FLOATS) {
    check({17, width, {120, 120}, {0, 0}, {104, 121 - width}, 1, 20, 10, 1, 1000, 0, 1});
    // Magnitudes at both ends of what is ordinary, beyond them, samples that are no numbers, and nothing at all.
    const double reach = std::ldexp(1.0, REACH);
    const int inside[2] = {2 * LENGTH - 16, 2 * LENGTH + 1 - width};
    // Whole numbers, and one whose square is too large for exact sums.
    check({17, width, {2 * LENGTH, 2 * LENGTH}, {0, 0}, {inside[0], inside[1]}, 1, 64, 4, 1, 1000, reach, 1});
    for (const auto& [size, special] :
        {std::pair<double, double>{1, reach}, {1, 0.7 * reach}, {1, 5e4}, {1, 1e30}, {1, NAN}, {1, -INFINITY},
             {0, 0}, {0, 2 / reach}, {1e-3 / reach, 0}, {1e-37, 0}, {1e-43, 0}, {1e20, 0}, {1e38, 0}, {1e38, NAN}}) {
      // Strips are long enough to run over a special sample and on to tiles that do not have it.
      other = {17, width, {2 * LENGTH, 2 * LENGTH}, {0, 0}, {inside[0], inside[1]}, 1, 64, 0, size, 0, special, 1};
      if (std::isnan(special) && size == 1) other.most = 0;
      check(other);
    }
  }
  std::printf("%d wrong, off by %.3g at most\n", wrong, largest_error);
  return wrong == 0 ? 0 : 1;
}
