// Compares the operations of two floats that stand for one wide number with integers of 128 bits, and products with
// long doubles. Included after a source that has them; the test defines WIDE_ROUNDOFF.
#include "verdict.h"

typedef __int128 Exact;
typedef long double Long;
constexpr int SHIFT = 88;  // an integer is this power of two times what it stands for
constexpr Long UNIT = 0x1p-48L;

static Exact exact(float value) { return (Exact)std::ldexp((Long)value, SHIFT); }
static Exact exact(const Wide& value) { return exact(value.high) + exact(value.low); }
static Long magnitude_of(Exact value) { return value < 0 ? -(Long)value : (Long)value; }
static Long long_of(const Wide& value) { return (Long)value.high + (Long)value.low; }

// A float of 24 random bits, and one of few, about a power of two.
static float any_float(int exponent) {
  const double random = random_unit();
  const float bits = (float)(random < 0 ? random - 1 : random + 1);
  const int kind = (int)(std::fabs(random_unit()) * 4);
  return std::ldexp(kind == 0 ? (bits < 0 ? -1.0f : 1.0f) : kind == 1 ? bits * 0.25f + bits : bits, exponent);
}
static int any_exponent(int reach) { return (int)(random_unit() * (reach + 0.99)); }

// A wide number, whose low part may be as large as it can be, or nothing.
static Wide any_wide(int exponent) {
  const float high = any_float(exponent);
  const int kind = (int)(std::fabs(random_unit()) * 4);
  const float low = kind == 0 ? 0 : kind == 1 ? std::ldexp(high, -24) : any_float(exponent - 26 - any_exponent(2));
  return ordered_sum(high, low);
}

struct Worst {
  const char* name;
  Long granted;
  Long ratio = 0, squares = 0;
  long count = 0;

  // `off` of what `of` came to.
  void see(Long off, Long of) {
    const Long found = of > 0 ? off / of / UNIT : off > 0 ? INFINITY : 0;
    ratio = std::max(ratio, found), squares += found * found, count++;
    if (!(found <= granted)) FAIL("%s: off by %.3Lg u^2, more than %.3Lg", name, found, granted);
  }
  ~Worst() {
    std::printf("%s: off by %.3Lg u^2 at most, %.3Lg in the root mean square of %ld\n", name, ratio,
        std::sqrt(squares / count), count);
  }
};

static void check_normal(const Wide& value) {
  if (value.high + value.low != value.high) FAIL("(%g, %g) is not one number rounded", value.high, value.low);
}

// Sums of squares down columns of few levels, whose errors may agree: what they are off by, over what the error model
// grants so many roundings of the size of the largest sum so far. Every tenth column has a bright part.
static Long largest_drift() {
  Long most = 0;
  for (int turn = 0; turn < 20000; turn++) {
    const int height = 5 + (int)(std::fabs(random_unit()) * 115), levels = 1 + turn % 3, period = 1 + turn % 7;
    float level[3];
    for (float& value : level) value = any_float(any_exponent(turn % 2 ? 6 : 0));
    Wide sum = {0, 0};
    Exact of_all = 0;
    Long largest = 0;
    std::vector<float> column;
    for (int row = 0; row < height + 64; row++) {
      float value = level[(turn % 5 == 0 ? (int)random_below(levels) : row / period % levels)];
      if (turn % 10 == 0 && row > height && row < height + 9) value *= 1000;
      column.push_back(value);
      const auto squared = [](float v) { return exact(v * v) + exact(std::fma(v, v, -(v * v))); };
      if (row >= height) {
        const float old = column[row - height];
        sum = take_square(sum, old), of_all -= squared(old);
      }
      sum = add_square(sum, value), of_all += squared(value);
      largest = std::max(largest, magnitude_of(of_all));
      const Long granted = 8 * 0.4247L * WIDE_ROUNDOFF * std::sqrt((Long)(2 * 64 + height)) * largest;
      most = std::max(most, magnitude_of(exact(sum) - of_all) / granted);
    }
  }
  return most;
}

int main() {
  const Long of_sum = WIDE_ROUNDOFF / UNIT;
  {
    Worst floats = {"sum with a float", 2.001L}, sums = {"sum of two of one sign", of_sum * 1.001L},
          differences = {"sum of any two", of_sum * 1.001L}, squared = {"sum with a square", of_sum * 1.001L},
          square = {"square", 4.001L}, product = {"product", 6.001L};
    for (int i = 0; i < 400000; i++) {
      const int place = any_exponent(15), apart = any_exponent(i % 2 ? 20 : 2);
      const float a = any_float(place), b = any_float(place + apart);
      const Wide both = exact_sum(a, b);
      if (exact(both) != exact(a) + exact(b)) FAIL("exact_sum of %g and %g", a, b);
      check_normal(both);
      const Wide x = any_wide(place);
      Wide y = any_wide(place + apart);
      // Most of it cancels.
      if (i % 5 == 0) y = ordered_sum(-x.high, i % 2 ? x.low : any_float(place - 24 - (i % 7) * 4));
      if (i % 35 == 0) y = ordered_sum(std::nextafter(-x.high, i % 2 ? 0 : -INFINITY), any_float(place - 30));
      const Wide less = x + b, sum = x + y, difference = x - y;
      check_normal(less), check_normal(sum), check_normal(difference);
      floats.see(magnitude_of(exact(less) - exact(x) - exact(b)), magnitude_of(exact(x) + exact(b)));
      const Long magnitudes = magnitude_of(exact(x)) + magnitude_of(exact(y));
      Worst& of = (x.high < 0) == (y.high < 0) ? sums : differences;
      of.see(magnitude_of(exact(sum) - exact(x) - exact(y)), magnitudes);
      differences.see(magnitude_of(exact(difference) - exact(x) + exact(y)), magnitudes);
      // Squares have 48 bits; those of small numbers reach below what the integers hold.
      const float value = any_float(any_exponent(10));
      const Exact squared_value = exact(value * value) + exact(std::fma(value, value, -(value * value)));
      const Wide add = add_square(x, value), take = take_square(x, value);
      const Long with_square = magnitude_of(exact(x)) + magnitude_of(squared_value);
      squared.see(magnitude_of(exact(add) - exact(x) - squared_value), with_square);
      squared.see(magnitude_of(exact(take) - exact(x) + squared_value), with_square);
      // A long double is off by 2^-16 u^2 itself.
      const Long long_square = long_of(x) * long_of(x), long_product = long_of(x) * long_of(y);
      square.see(std::fabs(long_of(square_of(x)) - long_square), long_square);
      product.see(std::fabs(long_of(x * y) - long_product), std::fabs(long_product));
      const double limit = std::fabs((double)value * (1 + random_unit()));
      if (!(threshold(limit) >= limit)) FAIL("a threshold of %g became %g", limit, threshold(limit));
    }
  }
  // Whole numbers and their squares come and go, and nothing is lost.
  for (int turn = 0; turn < 400; turn++) {
    Wide plain = {0, 0}, square = {0, 0};
    long long sum = 0, squares = 0;
    std::vector<int> held;
    const double most = turn % 2 ? 65535 : 4194303;
    for (int step = 0; step < 600; step++) {
      const int value = (int)(random_unit() * most);
      const bool leaves = step > 100 && step % 2 == 0;
      if (!leaves && (double)squares + (double)value * value >= 0x1p46) continue;
      if (leaves) {
        const long long old = held.back();
        held.pop_back();
        plain = plain - (float)old, square = take_square(square, (float)old), sum -= old, squares -= old * old;
      } else {
        held.push_back(value);
        plain = plain + (float)value, square = add_square(square, (float)value);
        sum += value, squares += (long long)value * value;
      }
      if (held.empty()) break;
      if ((long long)plain.high + (long long)plain.low != sum) FAIL("sums of whole numbers: %lld", sum);
      if ((long long)square.high + (long long)square.low != squares) FAIL("sums of their squares: %lld", squares);
      const Wide twice = square + square, none = twice - square - square;
      if (squares < 0x1p45 && (none.high != 0 || none.low != 0)) FAIL("twice %lld less it, twice", squares);
    }
  }
  const Long drift = largest_drift();
  std::printf("running sums: off by %.3Lg of what is granted\n", drift);
  if (!(drift < 1)) FAIL("running sums are off by %.3Lg of what is granted", drift);
  // Energies of equal whole numbers, and of those with another one among them, as `CLOSE` has it.
  for (int count = 25; count < 14000; count += 1 + count / 7)
    for (float value = 1; (double)value * value * count < (double)CLOSE; value = std::floor(value * 1.3f + 1)) {
      Wide plain = {0, 0}, square = {0, 0};
      for (int i = 0; i + 1 < count; i++) plain = plain + value, square = add_square(square, value);
      const Wide share = wide_of(1.0 / count);
      const float equal = energy_of(plain + value, add_square(square, value), share);
      const float other = energy_of(plain + (value - 1), add_square(square, value - 1), share);
      if (!(std::fabs(equal) < 0.25f) || !(other > 0.5f)) FAIL("%d times %g: %g and %g", count, value, equal, other);
    }
  // Beyond what f32 holds a square is infinite; what is limited is not, and no number stays none.
  if (limited(1e30f, LARGE) != LARGE || limited(-INFINITY, LARGE) != -LARGE || !std::isnan(limited(NAN, LARGE)) ||
      limited(-3, LARGE) != -3)
    FAIL("limited to %g", LARGE);
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
