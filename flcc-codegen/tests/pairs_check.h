// Compares a correlation of pairs, from images and templates to results, with sums in f64. Included after the kernel's
// source; the test defines KERNEL and FLCC_BOUNDARY.
#include "images.h"

// What images, and templates, are made of that the error model is held against.
static double sample(int kind, int y, int x) {
  switch (kind) {
    case 1: return y == 20 && x == 17 ? 1 : 1e-4 * random_unit();
    case 2: return x > 30 ? 1 : 0.001;
    case 3: return std::cos(2 * M_PI * x / 8 + y);
    case 4: return (x + y) % 2 ? 1 : -1;
    case 5: return y == 13 ? 1 : 1e-3 * random_unit();
    case 6: return 1;
    case 7: return random_unit() > 0 ? 1.37 : -1.37;
    case 8: return x + 1e-3 * y;
    case 9: return std::cos(2 * M_PI * (3 * x + 5 * y) / LENGTH);
    case 10: return std::cos(2 * M_PI * x / 16);
    default: return random_unit();
  }
}
constexpr int KINDS = 11;

// What `Pairs::error` of cuda/pairs.rs lets results err by, over u |P| |t| with the largest norm of a panel.
static double model(int height, int width) {
  const double length = LENGTH, steps = (height + TOGETHER - 1) / TOGETHER * 2, run = TOGETHER / 2 + 1;
  const double covers = 2 * std::ceil(length / width), shown = (length + 1 - width) / length;
  const double results = 2 * (shown + 2 * (1 - shown));
  const double apart = run + steps / 2, chain = std::max(apart, apart / 3 + (run * run + steps * steps) / 24);
  const double noise =
      8 * 0.424661 * std::sqrt(std::log2(length) / 2 * (3 * covers / length + results) + chain * results);
  const double root = std::sqrt(2.0), copies = root * 5 * std::sqrt(2 * width / length * covers);
  return std::hypot(noise, copies) + root * 5;
}
static double largest_share = 0;

struct Picture {
  int height, width;  // of the template
  int lengths[2];     // of an image
  int origin[2], out[2];
  int passes, rows;   // of a block: of halves, and its outputs
  int step;           // between neighbours of a row
  bool flips;
  int kind, of_template;  // what images and templates are made of
  double amplitude, special, template_amplitude;
  bool extraordinary;
};

static void check(const Picture& p) {
  Images<float> images(p.lengths[0], p.lengths[1], p.step, 2.5);
  images.set([&](int y, int x) { return sample(p.kind, y, x) * p.amplitude; });
  if (p.special != 0) images.at(IMAGES - 1, p.lengths[0] / 4, p.lengths[1] / 4) = (float)p.special;
  FlccImage of = {};
  of.lengths[1] = p.height, of.lengths[2] = p.width;
  of.image_stride = p.height * (p.width + 1) + 2, of.stride[1] = p.width + 1, of.stride[2] = 1;
  std::vector<float> templates(IMAGES * of.image_stride, NAN);
  // Of a convolution the last tap comes first.
  const auto tap = [&](int number, int i, int j) -> float& {
    if (p.flips) i = p.height - 1 - i, j = p.width - 1 - j;
    return templates[number * of.image_stride + i * (p.width + 1) + j];
  };
  for (int number = 0; number < IMAGES; number++)
    for (int i = 0; i < p.height; i++)
      for (int j = 0; j < p.width; j++)
        tap(number, i, j) = (float)(sample(p.of_template, i, j) * p.template_amplitude);

  Results results(p.out[0], p.out[1]);
  if (p.flips) of.stride[1] *= -1, of.stride[2] *= -1;
  const int step[2] = {p.rows, LENGTH - p.width + 1};
  const int across = (p.out[1] + step[1] - 1) / step[1], blocks = (p.out[0] + step[0] - 1) / step[0] * across;
  std::vector<unsigned> extraordinary(IMAGES, 0);
  const double factor = 0.25;
  flcc_dynamic_bytes =
      sizeof(Complex) * PITCH * (2 * p.passes * TOGETHER + p.height - 1 + (p.height + 1) / 2);
  launch({(unsigned)blocks, 1, IMAGES}, {THREADS, 1, 1}, [&] {
    KERNEL(images.samples.data(), images.im, templates.data(), of, results.first(), results.r, p.out[0], p.out[1],
        p.origin[0], p.origin[1], step[0], step[1], across, p.passes, factor, extraordinary.data(), 1);
  });
  // The second image alone has the sample that is special.
  const bool first = p.extraordinary && p.special == 0;
  if ((extraordinary[0] != 0) != first || (extraordinary[1] != 0) != p.extraordinary)
    FAIL("amplitude %g, special %g: extraordinary %u %u", p.amplitude, p.special, extraordinary[0], extraordinary[1]);
  if (p.extraordinary) return;
  double largest = 0, off = 0;
  for (int number = 0; number < IMAGES; number++) {
    double energy = 0;
    for (int i = 0; i < p.height; i++)
      for (int j = 0; j < p.width; j++) energy += (double)tap(number, i, j) * tap(number, i, j);
    for (int y = 0; y < p.out[0]; y++)
      for (int x = 0; x < p.out[1]; x++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < p.height; i++)
          for (int j = 0; j < p.width; j++) {
            const double value = images.padded(number, y + i + p.origin[0], x + j + p.origin[1]);
            sum += value * tap(number, i, j), squares += value * value;
          }
        const double error = std::fabs(results.at(number, y, x) / factor - sum);
        largest = std::max(largest, squares * energy);
        if (!(error <= off)) off = error;
      }
  }
  results.end();
  const double share = off / (model(p.height, p.width) * std::ldexp(1.0, -24) * std::sqrt(largest));
  if (largest > 0) largest_share = std::max(largest_share, share);
  if (!(off <= 0 || share < 1))
    FAIL("%dx%d kinds %d %d boundary %d: %g of what pairs are granted", p.height, p.width, p.kind, p.of_template,
        FLCC_BOUNDARY, share);
}

int main() {
  // As in particle image velocimetry, of all rows in one block.
  const int side = LENGTH, small = LENGTH / 4, out = side - small + 1;
  const Picture plain = {small, small, {side, side}, {0, 0}, {out, out}, 2, out, 1, false, 0, 0, 1, 0, 1, false};
  check(plain);
  Picture other = plain;
  other.step = 2;
  check(other);
  other = plain, other.flips = true;
  check(other);
  for (int kind = 0; kind < KINDS; kind++)
    for (int of_template : {0, 3, 5, 6, 7, 10}) {
      other = plain, other.kind = kind, other.of_template = of_template;
      other.amplitude = 1 + 0.5 * std::fabs(random_unit());
      check(other);
    }
  // Several blocks down and across, one row, templates of odd sides, images smaller than a template, outputs that all
  // meet samples inside, and rows that fill no half.
  check({17, 12, {side + 9, side + 20}, {-16, -11}, {side + 25, side + 31}, 1, 26, 1, false, 0, 0, 1, 0, 1, false});
  check({LENGTH / 2 + 1, LENGTH / 3, {40, 30}, {-9, 3}, {35, 60}, 1, 25, 1, true, 0, 0, 1, 0, 1, false});
  check({20, 9, {5, 3}, {-19, -8}, {24, 11}, 1, 24, 1, false, 0, 0, 1, 0, 1, false});
  check({9, 14, {30, 50}, {0, 0}, {22, 37}, 1, 22, 1, false, 0, 0, 1, 0, 1, false});
  check({16, 16, {16, 20}, {0, 0}, {1, 5}, 1, 1, 1, false, 0, 0, 1, 0, 1, false});
  // Magnitudes at both ends of what is ordinary, beyond them, and nothing at all.
  const double reach = std::ldexp(1.0, REACH);
  for (const auto& [amplitude, special, of_template, extraordinary] :
      {std::tuple<double, double, double, bool>{1, reach, 1, false}, {1, 1.01 * reach, 1, true}, {1, NAN, 1, true},
          {1, -INFINITY, 1, true}, {0, 0, 1, false}, {1, 0, 0, false},
          {1e-3 / reach, 0, 1, FLCC_BOUNDARY != FLCC_CONSTANT}, {1, 0, 1e-3 / reach, true}, {1, 0, 2 * reach, true},
          {1, 0, NAN, true}}) {
    other = plain, other.amplitude = amplitude, other.special = special, other.extraordinary = extraordinary;
    other.template_amplitude = of_template;
    // With samples outside.
    other.origin[0] = other.origin[1] = 1 - small, other.out[0] = out, other.out[1] = LENGTH / 2;
    check(other);
  }
  std::printf("%d wrong, at most %.3f of what pairs are granted\n", wrong, largest_share);
  return wrong == 0 ? 0 : 1;
}
