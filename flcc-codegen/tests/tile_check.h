// Compares a tile transform, from the image to the result, with sums in f64. Included after the kernel's source; the
// test defines KERNEL and FLCC_BOUNDARY.
#include "tiles.h"

#include "model.h"

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
  Images<float> images(p.lengths[0], p.lengths[1], p.step, 2.5);
  images.set([&](int y, int x) { return sample(p.kind, y, x) * p.amplitude; });
  if (p.special != 0) images.at(IMAGES - 1, p.lengths[0] / 2, p.lengths[1] / 2) = (float)p.special;
  std::vector<double> taps(p.height * p.width);
  double energy = 0;
  for (double& tap : taps) tap = random_unit(), energy += tap * tap;
  const std::vector<Two> spectrum = spectrum_of(taps, p.height, p.width);
  Results results(p.out[0], p.out[1]);
  const int step[2] = {LENGTH - p.height + 1, LENGTH - p.width + 1};
  const int across = (p.out[1] + step[1] - 1) / step[1], tiles = (p.out[0] + step[0] - 1) / step[0] * across;
  unsigned extraordinary = 0;
  const double factor = 0.25;
#ifdef LARGE_TILES
  correlate(images.samples.data(), images.im, results.first(), results.r, p.out[0], p.out[1], p.origin[0], p.origin[1],
      step[0], step[1], across, tiles, spectrum.data(), factor, &extraordinary);
#else
  launch({(unsigned)(tiles + 1) / 2, 1, IMAGES}, {THREADS, 1, 1}, [&] {
    KERNEL(images.samples.data(), images.im, results.first(), results.r, p.out[0], p.out[1], p.origin[0], p.origin[1],
        step[0], step[1], across, tiles, spectrum.data(), factor, &extraordinary);
  });
#endif
  if (extraordinary != p.extraordinary)
    FAIL("amplitude %g, special %g: extraordinary %u", p.amplitude, p.special, extraordinary);
  if (p.extraordinary) return;
  double largest = 0, off = 0;
  const int pairs = (tiles + 1) / 2;
  std::vector<double> off_of(IMAGES * pairs), peak_of(IMAGES * pairs);
  const auto padded = [&](int number, int y, int x) { return images.padded(number, y + p.origin[0], x + p.origin[1]); };
  for (int number = 0; number < IMAGES; number++)
    for (int y = 0; y < p.out[0]; y++)
      for (int x = 0; x < p.out[1]; x++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < p.height; i++)
          for (int j = 0; j < p.width; j++) {
            const double value = padded(number, y + i, x + j);
            sum += value * taps[i * p.width + j], squares += value * value;
          }
        const double error = std::fabs(results.at(number, y, x) / factor - sum);
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
    const double share = off_of[pair] / estimate(both, in_tile(taps, p.width), peak_of[pair]);
    largest_share = std::max(largest_share, share);
    if (!(share < 1)) FAIL("%dx%d kind %d: %g of what tiles are granted", p.height, p.width, p.kind, share);
  }
  results.end();
  const double most = granted(taps.size(), largest, energy);
  if (!(off <= most))
    FAIL("%dx%d kind %d boundary %d: off by %g, granted %g", p.height, p.width, p.kind, FLCC_BOUNDARY, off, most);
}

int main() {
  const int side = 3 * LENGTH / 2 + 5;
  const Picture plain = {17, 12, {side, side + 9}, {-16, -11}, {side + 16, side + 20}, 1, 0, 1, 0, false, false};
  check(plain);
  Picture other = plain;
  other.step = 2;
  check(other);
  for (int kind = 0; kind < 10; kind += KINDS_APART) {
    other = plain, other.kind = kind, other.modelled = true, other.amplitude = 1 + 0.5 * std::fabs(random_unit());
    check(other);
  }
  // Templates of another size, images smaller than a template, outputs of which each meets samples inside.
  check({LENGTH / 2 + 1, LENGTH / 3, {40, 30}, {-9, 3}, {35, 60}, 1, 0, 1, 0, false, true});
  check({20, 9, {5, 3}, {-19, -8}, {24, 11}, 1, 0, 1, 0, false, false});
  if (ALL) check({9, 14, {LENGTH + 8, LENGTH + 13}, {0, 0}, {LENGTH, LENGTH}, 2, 0, 1, 0, false, false});
  if (ALL)
    check({9, 14, {2 * LENGTH, 3 * LENGTH}, {0, 0}, {2 * LENGTH - 8, 3 * LENGTH - 13}, 1, 0, 1, 0, false, false});
  if (ALL) at_the_ends([&](double amplitude, double special, bool extraordinary) {
    other = plain;
    other.amplitude = amplitude, other.special = special, other.extraordinary = extraordinary;
    check(other);
  });
  std::printf("%d wrong, at most %.3f of what pairs of tiles are granted\n", wrong, largest_share);
  return wrong == 0 ? 0 : 1;
}
