// Compares a transform of parts of volumes, from the image to the result, with sums in f64. Included after the kernel's
// source; the test defines KERNEL and FLCC_BOUNDARY.
#include "volumes.h"

#include "model.h"

struct Volume {
  int taps[3], lengths[3], origin[3], out[3];
  int step;  // between neighbours of a row
  int kind;  // what the image is made of
  double amplitude, special;
  bool extraordinary;
};

static void check(const Volume& c) {
  FlccImage im = {};
  FlccResult r = {};
  Parts g = {};
  int pairs = 1, outputs = 1;
  for (int i = 0; i < 3; i++) {
    im.lengths[i] = c.lengths[i], g.out[i] = c.out[i], g.begin[i] = c.origin[i];
    g.step[i] = SIDES[i] + 1 - c.taps[i], g.tiles[i] = (c.out[i] + g.step[i] - 1) / g.step[i];
    pairs *= g.tiles[i], outputs *= c.out[i];
  }
  pairs = (pairs + 1) / 2;
  im.stride[2] = c.step, im.stride[1] = c.lengths[2] * c.step + 3, im.stride[0] = im.stride[1] * c.lengths[1] + 1;
  im.image_stride = im.stride[0] * c.lengths[0] + 5, im.channels = 1, im.fill = 2.5;
  std::vector<float> images(IMAGES * im.image_stride, NAN);
  const auto at = [&](int number, int z, int y, int x) -> float& {
    return images[number * im.image_stride + z * im.stride[0] + y * im.stride[1] + x * c.step];
  };
  for (int number = 0; number < IMAGES; number++)
    for (int z = 0; z < c.lengths[0]; z++)
      for (int y = 0; y < c.lengths[1]; y++)
        for (int x = 0; x < c.lengths[2]; x++) at(number, z, y, x) = (float)(sample(c.kind, z, y, x) * c.amplitude);
  if (c.special != 0) at(IMAGES - 1, c.lengths[0] / 2, c.lengths[1] / 2, c.lengths[2] / 2) = (float)c.special;
  const auto padded = [&](int number, int z, int y, int x) -> double {
    const int fz = folded(z + c.origin[0], im.lengths[0]), fy = folded(y + c.origin[1], im.lengths[1]),
              fx = folded(x + c.origin[2], im.lengths[2]);
    if (fz >= 0 && fy >= 0 && fx >= 0) return at(number, fz, fy, fx);
    return FLCC_BOUNDARY == FLCC_CONSTANT ? im.fill : 0.0;
  };

  // The template's spectrum, over the number of samples and turned to correlate.
  std::vector<double> taps(c.taps[0] * c.taps[1] * c.taps[2]);
  double energy = 0;
  for (double& tap : taps) tap = random_unit(), energy += tap * tap;
  const std::vector<Number> values = in_tile(taps, c.taps);
  const std::vector<Two> spectrum = spectrum_of(transformed(values));

  r.stride[2] = 1, r.stride[1] = c.out[2] + 3, r.stride[0] = r.stride[1] * c.out[1] + 2;
  r.image_stride = r.stride[0] * c.out[0] + 7;
  std::vector<float> got(IMAGES * r.image_stride, NAN);
  unsigned extraordinary = 0;
  const double factor = 0.25;
  launch({(unsigned)pairs, IMAGES, 1}, {THREADS, 1, 1}, [&] {
    KERNEL(images.data(), im, got.data(), r, g, spectrum.data(), factor, &extraordinary);
  });
  if (extraordinary != c.extraordinary)
    FAIL("amplitude %g, special %g: extraordinary %u", c.amplitude, c.special, extraordinary);
  if (c.extraordinary) return;

  double largest = 0, off = 0;
  size_t written = 0;
  for (float value : got) written += !std::isnan(value);
  if (written != (size_t)IMAGES * outputs) FAIL("%zu elements were written, expected %d", written, IMAGES * outputs);
  std::vector<double> off_of(IMAGES * pairs), peak_of(IMAGES * pairs);
  for (int number = 0; number < IMAGES; number++)
    for (int z = 0; z < c.out[0]; z++)
      for (int y = 0; y < c.out[1]; y++)
        for (int x = 0; x < c.out[2]; x++) {
          double sum = 0, squares = 0;
          for (size_t k = 0; k < taps.size(); k++) {
            const double value = padded(number, z + k / (c.taps[2] * c.taps[1]), y + k / c.taps[2] % c.taps[1],
                x + k % c.taps[2]);
            sum += value * taps[k], squares += value * value;
          }
          const float result = got[number * r.image_stride + z * r.stride[0] + y * r.stride[1] + x];
          const double error = std::fabs(result / factor - sum);
          if (!(error <= off)) off = error;
          largest = std::max(largest, squares);
          const int tile = (z / g.step[0] * g.tiles[1] + y / g.step[1]) * g.tiles[2] + x / g.step[2];
          double& most = off_of[number * pairs + tile / 2];
          most = std::max(most, error);
          peak_of[number * pairs + tile / 2] = std::max(peak_of[number * pairs + tile / 2], std::fabs(sum));
        }
  for (int pair = 0; pair < IMAGES * pairs; pair++) {
    std::vector<Number> both(SAMPLES);
    for (int part = 0; part < 2; part++) {
      const int tile = pair % pairs * 2 + part, z0 = tile / g.tiles[2] / g.tiles[1] * g.step[0],
                y0 = tile / g.tiles[2] % g.tiles[1] * g.step[1], x0 = tile % g.tiles[2] * g.step[2];
      for (int at = 0; at < SAMPLES && z0 < c.out[0]; at++) {
        const int z = z0 + at / LENGTH / LENGTH, y = y0 + at / LENGTH % LENGTH, x = x0 + at % LENGTH;
        if (z < c.out[0] + c.taps[0] - 1 && y < c.out[1] + c.taps[1] - 1 && x < c.out[2] + c.taps[2] - 1)
          both[at] += padded(pair / pairs, z, y, x) * (part ? Number(0, 1) : Number(1, 0));
      }
    }
    // Of nothing it is nothing.
    const double share = off_of[pair] == 0 ? 0 : off_of[pair] / estimate(both, values, peak_of[pair]);
    largest_share = std::max(largest_share, share);
    if (!(share < 1))
      FAIL("%dx%dx%d kind %d: %g of what tiles are granted", c.taps[0], c.taps[1], c.taps[2], c.kind, share);
  }
  const double most = granted(taps.size(), largest, energy);
  if (!(off <= most))
    FAIL("%dx%dx%d kind %d boundary %d: off by %g, granted %g", c.taps[0], c.taps[1], c.taps[2], c.kind, FLCC_BOUNDARY,
        off, most);
}

int main() {
  const Volume plain = {{5, 7, 8}, {17, 30, 33}, {-4, -6, -7}, {21, 36, 40}, 1, 0, 1, 0, false};
  check(plain);
  Volume other = plain;
  other.step = 2;
  check(other);
  for (int kind = 1; kind < 9; kind++) {
    other = plain, other.kind = kind, other.amplitude = 1 + 0.5 * std::fabs(random_unit());
    check(other);
  }
  // Templates of another size, images smaller than a template, outputs of which each meets samples inside.
  check({{12, 6, 11}, {9, 40, 12}, {-3, 2, -5}, {11, 30, 25}, 1, 0, 1, 0, false});
  check({{9, 8, 7}, {3, 5, 4}, {-8, -7, -6}, {11, 12, 10}, 1, 0, 1, 0, false});
  check({{4, 9, 6}, {34, 40, 70}, {0, 0, 0}, {31, 32, 65}, 1, 0, 1, 0, false});
  // A tile of whose samples none but planes lie outside.
  check({{5, 7, 8}, {17, 40, 45}, {-4, 2, 3}, {12, 26, 25}, 1, 0, 1, 0, false});
  at_the_ends([&](double amplitude, double special, bool extraordinary) {
    other = plain;
    other.amplitude = amplitude, other.special = special, other.extraordinary = extraordinary;
    check(other);
  });
  std::printf("%d wrong, at most %.3f of what pairs of tiles are granted\n", wrong, largest_share);
  return wrong == 0 ? 0 : 1;
}
