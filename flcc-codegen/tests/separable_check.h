// Compares sums of products of lines, from the image to the result, with plain loops that add in the same order, bit
// for bit, and with sums over the template in more than the kernel's precision. Included after the kernel's source; the
// test defines KERNEL and FLCC_BOUNDARY.
#include "ends.h"
#include "images.h"

struct Picture {
  int height, width, terms;  // of the template
  int lengths[2];            // of an image
  int origin[2], out[2];
  int step;                  // between neighbours of a row
  double amplitude, special;
  bool extraordinary;
};

// A template as the kernel takes it, lines in whole fours.
struct Lines {
  int height, width, fours_y, fours_x;
  std::vector<Taps> all;

  Lines(int height, int width, int terms) : height(height), width(width) {
    fours_y = (height + FOUR - 1) / FOUR, fours_x = (width + FOUR - 1) / FOUR;
    all.assign(terms * (fours_y + fours_x), Taps{});
    for (int term = 0; term < terms; term++) {
      for (int j = 0; j < width; j++) at(term, j) = (Real)random_unit();
      for (int i = 0; i < height; i++) at(term, fours_x * FOUR + i) = (Real)random_unit();
    }
  }
  Real& at(int term, int place) { return all[term * (fours_y + fours_x) + place / FOUR].at[place % FOUR]; }
  Real row(int term, int j) { return at(term, j); }
  Real column(int term, int i) { return at(term, fours_x * FOUR + i); }
};

// The sum of a line's products, in runs of so many.
constexpr int TOGETHER = sizeof(Real) == 4 ? 16 : 8;
template <typename Of, typename Tap>
static Real sum_of_line(int count, Of of, Tap tap) {
  Real sum = 0;
  for (int begin = 0; begin < count; begin += TOGETHER) {
    Real run = 0;
    for (int j = begin; j < std::min(count, begin + TOGETHER); j++) run = std::fma(tap(j), of(j), run);
    sum += run;
  }
  return sum;
}

// The most roundings of such a sum that a product goes through.
static int roundings(int count) { return std::min(count, TOGETHER) + (count + TOGETHER - 1) / TOGETHER - 1; }

static double largest_share = 0;

static void check(const Picture& p) {
  Images<Real> images(p.lengths[0], p.lengths[1], p.step, 2.5);
  images.set([&](int, int) { return random_unit() * p.amplitude; });
  if (p.special != 0) images.at(IMAGES - 1, p.lengths[0] / 2, p.lengths[1] / 2) = (Real)p.special;
  Lines lines(p.height, p.width, p.terms);
  Results<Real> results(p.out[0], p.out[1]);
  const double factor = 0.25;
  unsigned extraordinary = 0;
  const auto run = [&](unsigned* told) {
    launch({(unsigned)(p.out[1] + COLUMNS - 1) / COLUMNS, (unsigned)(p.out[0] + ROWS - 1) / ROWS, IMAGES},
        {COLUMNS, GROUPS, 1}, [&] {
          KERNEL(images.samples.data(), images.im, results.first(), results.r, p.out[0], p.out[1], p.origin[0],
              p.origin[1], p.height, p.width, lines.all.data(), p.terms, factor, told);
        });
  };
  run(&extraordinary);
  if (extraordinary != p.extraordinary)
    FAIL("amplitude %g, special %g: extraordinary %u", p.amplitude, p.special, extraordinary);
  if (p.extraordinary) return;
  // Of gathered samples it tells nothing.
  run(nullptr);
  const auto padded = [&](int number, int y, int x) {
    return (Real)images.padded(number, y + p.origin[0], x + p.origin[1]);
  };
  const double u = std::ldexp(1.0, sizeof(Real) == 4 ? -24 : -53);
  const int chain = roundings(p.height) + roundings(p.width) + p.terms;
  std::vector<Real> rows(p.out[0] + p.height - 1);
  for (int number = 0; number < IMAGES; number++)
    for (int x = 0; x < p.out[1]; x++) {
      std::vector<Real> sums(p.out[0]);
      for (int term = 0; term < p.terms; term++) {
        for (size_t y = 0; y < rows.size(); y++)
          rows[y] = sum_of_line(
              p.width, [&](int j) { return padded(number, (int)y, x + j); }, [&](int j) { return lines.row(term, j); });
        for (int y = 0; y < p.out[0]; y++)
          sums[y] += sum_of_line(
              p.height, [&](int i) { return rows[y + i]; }, [&](int i) { return lines.column(term, i); });
      }
      for (int y = 0; y < p.out[0]; y++) {
        const Real got = results.at(number, y, x), expected = sums[y] * (Real)factor;
        if (got != expected)
          FAIL("%dx%d, %d products, boundary %d: at %d,%d expected %.17g got %.17g", p.height, p.width, p.terms,
              FLCC_BOUNDARY, y, x, (double)expected, (double)got);
        // All of them would take long.
        if ((y + x) % 7 != 0) continue;
        long double sum = 0, most = 0;
        for (int i = 0; i < p.height; i++)
          for (int j = 0; j < p.width; j++)
            for (int term = 0; term < p.terms; term++) {
              const long double product =
                  (long double)lines.column(term, i) * lines.row(term, j) * padded(number, y + i, x + j);
              sum += product, most += std::fabs(product);
            }
        const double off = (double)std::fabs(got / factor - sum), least = sizeof(Real) == 4 ? 1e-43 : 1e-320;
        const double share = off <= least ? 0 : off / (u * chain * (double)most);
        largest_share = std::max(largest_share, share);
        if (!(share <= 1)) FAIL("%dx%d, %d products: %g of the worst case", p.height, p.width, p.terms, share);
      }
    }
  results.end();
}

int main() {
  const Picture plain = {
      17, 12, 2, {ROWS + 21, COLUMNS + 30}, {-16, -11}, {ROWS + 37, COLUMNS + 41}, 1, 1, 0, false};
  check(plain);
  Picture other = plain;
  other.step = 2;
  check(other);
  // Blocks that lie inside; templates of one row, one column and one tap; several runs; images smaller than these.
  check({5, 6, 3, {2 * ROWS + 5, 2 * COLUMNS + 9}, {0, 0}, {2 * ROWS + 1, 2 * COLUMNS + 4}, 1, 1, 0, false});
  check({7, 3, 1, {ROWS + 20, 2 * COLUMNS}, {2, -3}, {ROWS, COLUMNS + 5}, 1, 1, 0, false});
  check({3, 7, 1, {2 * ROWS, COLUMNS + 20}, {-3, 2}, {ROWS + 5, COLUMNS}, 1, 1, 0, false});
  check({1, 33, 1, {9, 70}, {0, -7}, {9, 64}, 1, 1, 0, false});
  check({40, 1, 1, {50, 31}, {-39, 3}, {60, 20}, 1, 1, 0, false});
  check({1, 1, 2, {3, 5}, {0, 0}, {3, 5}, 1, 1, 0, false});
  check({16, 36, 3, {7, 5}, {-15, -35}, {22, 40}, 1, 1, 0, false});
  for (int round = 0; round < 6; round++) {
    const int height = 1 + (int)random_below(35), width = 1 + (int)random_below(35);
    const int rows = 1 + (int)random_below(ROWS + 30), columns = 1 + (int)random_below(COLUMNS + 30);
    check({height, width, 1 + round % 3, {1 + (int)random_below(2 * ROWS), 1 + (int)random_below(2 * COLUMNS)},
        {(int)random_below(9) - height, (int)random_below(9) - width}, {rows, columns}, 1, 1, 0, false});
  }
  at_the_ends([&](double amplitude, double special, bool extraordinary) {
    other = plain;
    other.amplitude = amplitude, other.special = special, other.extraordinary = extraordinary;
    check(other);
  });
  std::printf("%d wrong, at most %.3f of the worst case\n", wrong, largest_share);
  return wrong == 0 ? 0 : 1;
}
