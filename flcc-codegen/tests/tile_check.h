// Compares a tile transform, from the image to the result, with sums in f64. Included after the kernel's source; the
// test defines KERNEL and FLCC_BOUNDARY.
#include "tiles.h"

// What docs/numerics.md lets the results of two tiles err by: 8 standard deviations, by the samples of both and the
// mean square of their results, and faint copies of the largest result and of waves that the template takes away.
static double estimate(const std::vector<Number>& tiles, const std::vector<double>& taps, int width, double largest) {
  std::vector<Number> values(LENGTH * LENGTH);
  double norm = 0, squares = 0, wave = 0, product = 0;
  for (size_t k = 0; k < taps.size(); k++) {
    values[k / width * LENGTH + k % width] = taps[k];
    norm += taps[k] * taps[k];
  }
  const double count = LENGTH * LENGTH, u = std::ldexp(1.0, -24), copies = 5 * u;
  const std::vector<Number> of_tiles = transformed(tiles), of_taps = transformed(values);
  for (const Number& value : tiles) squares += std::norm(value);
  for (int f = 0; f < LENGTH * LENGTH; f++) {
    wave = std::max(wave, std::abs(of_taps[f]));
    product += std::norm(of_tiles[f]) * std::norm(of_taps[f]) / count;
  }
  const double noise = 8 * 0.424661 * u * std::sqrt(std::log2(count) / 2);
  const double parts[] = {noise * std::sqrt(norm * squares / count), noise * std::sqrt(product / count),
      copies * wave * std::sqrt(2 * squares / count)};
  return std::hypot(parts[0], parts[1], parts[2]) + copies * largest;
}
static double largest_share = 0;

struct Picture {
  int height, width;     // of the template
  int lengths[2];        // of an image
  int origin[2], out[2];
  int step;              // between neighbours of a row
  int kind;              // what the image is made of
  double amplitude, special;
  bool extraordinary;
  bool modelled;         // errors are compared with what the model grants each pair of tiles
};

static void check(const Picture& p) {
  constexpr int IMAGES = 2, GUARD = 32;
  FlccImage im = {};
  im.lengths[0] = 1, im.lengths[1] = p.lengths[0], im.lengths[2] = p.lengths[1];
  im.stride[2] = p.step, im.stride[1] = p.lengths[1] * p.step + 3, im.image_stride = im.stride[1] * p.lengths[0] + 5;
  im.channels = 1, im.fill = 2.5;
  std::vector<float> image(IMAGES * im.image_stride, NAN);
  const auto at = [&](int number, int y, int x) -> float& {
    return image[number * im.image_stride + y * im.stride[1] + x * p.step];
  };
  for (int number = 0; number < IMAGES; number++)
    for (int y = 0; y < p.lengths[0]; y++)
      for (int x = 0; x < p.lengths[1]; x++) at(number, y, x) = (float)(sample(p.kind, y, x) * p.amplitude);
  if (p.special != 0) at(IMAGES - 1, p.lengths[0] / 2, p.lengths[1] / 2) = (float)p.special;
  std::vector<double> taps(p.height * p.width);
  double energy = 0;
  for (double& tap : taps) tap = random_unit(), energy += tap * tap;
  const std::vector<Complex> spectrum = spectrum_of(taps, p.height, p.width);

  FlccResult r = {};
  r.stride[2] = 1, r.stride[1] = p.out[1] + 3, r.image_stride = r.stride[1] * p.out[0] + 7;
  std::vector<float> got(IMAGES * r.image_stride + 2 * GUARD, NAN);
  std::vector<bool> expected(got.size(), false);
  const int step[2] = {LENGTH - p.height + 1, LENGTH - p.width + 1};
  const int across = (p.out[1] + step[1] - 1) / step[1], tiles = (p.out[0] + step[0] - 1) / step[0] * across;
  unsigned extraordinary = 0;
  const double factor = 0.25;
  std::vector<Two> aligned(spectrum.size() / 2);
  std::memcpy((void*)aligned.data(), spectrum.data(), spectrum.size() * sizeof(Complex));
  launch({(unsigned)(tiles + 1) / 2, 1, IMAGES}, {THREADS, 1, 1}, [&] {
    KERNEL(image.data(), im, got.data() + GUARD, r, p.out[0], p.out[1], p.origin[0], p.origin[1], step[0], step[1],
        across, tiles, aligned.data(), factor, &extraordinary);
  });
  if (extraordinary != p.extraordinary)
    FAIL("amplitude %g, special %g: extraordinary %u", p.amplitude, p.special, extraordinary);
  if (p.extraordinary) return;
  // What the conventions grant.
  double largest = 0, off = 0;
  const int pairs = (tiles + 1) / 2;
  std::vector<double> off_of(IMAGES * pairs), peak_of(IMAGES * pairs);
  const auto padded = [&](int number, int y, int x) -> double {
    const int fy = folded(y + p.origin[0], p.lengths[0]), fx = folded(x + p.origin[1], p.lengths[1]);
    return fy < 0 || fx < 0 ? (FLCC_BOUNDARY == FLCC_CONSTANT ? im.fill : 0.0) : (double)at(number, fy, fx);
  };
  for (int number = 0; number < IMAGES; number++)
    for (int y = 0; y < p.out[0]; y++)
      for (int x = 0; x < p.out[1]; x++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < p.height; i++)
          for (int j = 0; j < p.width; j++) {
            const double value = padded(number, y + i, x + j);
            sum += value * taps[i * p.width + j], squares += value * value;
          }
        const long long place = GUARD + number * r.image_stride + y * r.stride[1] + x;
        expected[place] = true;
        const double error = std::fabs(got[place] / factor - sum);
        largest = std::max(largest, squares);
        if (!(error <= off)) off = error;
        const int pair = number * pairs + (y / step[0] * across + x / step[1]) / 2;
        off_of[pair] = std::max(off_of[pair], error);
        peak_of[pair] = std::max(peak_of[pair], std::fabs(sum));
      }
  for (int pair = 0; pair < IMAGES * pairs && p.modelled; pair++) {
    std::vector<Number> both(LENGTH * LENGTH);
    for (int part = 0; part < 2; part++) {
      const int tile = pair % pairs * 2 + part, y0 = tile / across * step[0], x0 = tile % across * step[1];
      for (int y = 0; y < LENGTH && tile < tiles && y0 + y < p.out[0] + p.height - 1; y++)
        for (int x = 0; x < LENGTH && x0 + x < p.out[1] + p.width - 1; x++)
          both[y * LENGTH + x] += padded(pair / pairs, y0 + y, x0 + x) * (part ? Number(0, 1) : Number(1, 0));
    }
    const double share = off_of[pair] / estimate(both, taps, p.width, peak_of[pair]);
    largest_share = std::max(largest_share, share);
    if (!(share < 1)) FAIL("%dx%d kind %d: %g of what tiles are granted", p.height, p.width, p.kind, share);
  }
  for (size_t i = 0; i < got.size(); i++)
    if (!expected[i] && !std::isnan(got[i])) FAIL("element %ld was written", (long)i - GUARD);
  const double granted = (16 + std::sqrt((double)taps.size())) * std::ldexp(1.0, -24) * std::sqrt(largest * energy);
  if (!(off <= granted))
    FAIL("%dx%d kind %d boundary %d: off by %g, granted %g", p.height, p.width, p.kind, FLCC_BOUNDARY, off, granted);
}

int main() {
  const int side = 3 * LENGTH / 2 + 5;
  const Picture plain = {17, 12, {side, side + 9}, {-16, -11}, {side + 16, side + 20}, 1, 0, 1, 0, false, false};
  check(plain);
  Picture other = plain;
  other.step = 2;
  check(other);
  for (int kind = 0; kind < 10; kind++) {
    other = plain, other.kind = kind, other.modelled = true, other.amplitude = 1 + 0.5 * std::fabs(random_unit());
    check(other);
  }
  // Templates of another size, images smaller than a template, outputs of which each meets samples inside.
  check({LENGTH / 2 + 1, LENGTH / 3, {40, 30}, {-9, 3}, {35, 60}, 1, 0, 1, 0, false, true});
  check({20, 9, {5, 3}, {-19, -8}, {24, 11}, 1, 0, 1, 0, false, false});
  check({9, 14, {2 * LENGTH, 3 * LENGTH}, {0, 0}, {2 * LENGTH - 8, 3 * LENGTH - 13}, 1, 0, 1, 0, false, false});
  // Magnitudes at both ends of what is ordinary, beyond them, and nothing at all.
  const double reach = std::ldexp(1.0, REACH);
  for (const auto& [amplitude, special, extraordinary] : {std::tuple<double, double, bool>{1, reach, false},
           {1, 1.01 * reach, true}, {1, NAN, true}, {1, -INFINITY, true}, {0, 0, false}, {0, 2 / reach, false}}) {
    other = plain;
    other.amplitude = amplitude, other.special = special, other.extraordinary = extraordinary;
    check(other);
  }
  // Two tiles of nothing but faint samples. Beside the fill value they are not alone.
  other = plain;
  other.amplitude = 1e-3 / reach, other.extraordinary = true;
  if (FLCC_BOUNDARY != FLCC_CONSTANT) check(other);
  std::printf("%d wrong, at most %.3f of what pairs of tiles are granted\n", wrong, largest_share);
  return wrong == 0 ? 0 : 1;
}
