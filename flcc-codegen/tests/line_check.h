// Compares a transform of signals, from the signal to the result, with sums in f64. Included after the kernel's source;
// the test defines KERNEL, SHARED and FLCC_BOUNDARY.
#include "folded.h"
#include <complex>

static int wrong = 0;
#define FAIL(...) (std::printf(__VA_ARGS__), std::printf("\n"), ++wrong < 20 ? (void)0 : std::exit(1))

static unsigned state = 12345;
static double random_unit() {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) / 8388608.0 - 1;
}

typedef std::complex<double> Number;

// The transform of LENGTH numbers, a power of two.
static std::vector<Number> transformed(std::vector<Number> from) {
  static const std::vector<Number> turns = [] {
    std::vector<Number> found(LENGTH);
    for (int i = 0; i < LENGTH; i++) found[i] = std::polar(1.0, -2 * M_PI * i / LENGTH);
    return found;
  }();
  std::vector<Number> to(LENGTH);
  for (int count = 1; count < LENGTH; count *= 2) {
    const int half = LENGTH / 2, apart = half / count;
    for (int j = 0; j < apart; j++)
      for (int k = 0; k < count; k++) {
        const Number a = from[k * 2 * apart + j], b = from[k * 2 * apart + apart + j] * turns[k * apart];
        to[k * apart + j] = a + b, to[k * apart + j + half] = a - b;
      }
    std::swap(from, to);
  }
  return from;
}

// A template's spectrum over the number of samples, turned to correlate, two numbers of a thread together; then the
// turns.
static std::vector<Two> spectrum_of(const std::vector<double>& taps) {
  std::vector<Number> values(LENGTH);
  std::copy(taps.begin(), taps.end(), values.begin());
  const std::vector<Number> all = transformed(values);
  std::vector<Two> found(LENGTH);
  const auto set = [&](int at, Number value) { found[at / 2].at[at % 2] = {(float)value.real(), (float)value.imag()}; };
  for (int t = 0; t < THREADS; t++)
    for (int i = 0; i < VALUES; i++)
      set((i / 2 * THREADS + t) * 2 + i % 2, std::conj(all[t + i * THREADS]) / (double)LENGTH);
  for (int i = 0; i < LENGTH; i++) set(LENGTH + i, std::polar(1.0, -2 * M_PI * i / LENGTH));
  return found;
}

// What signals are made of that the error model is held against.
static double sample(int kind, int x) {
  switch (kind) {
    case 1: return x == 1037 ? 1 : 1e-4 * random_unit();
    case 2: return x > 2050 ? 1 : 0.001;
    case 3: return std::cos(2 * M_PI * x / 8);
    case 4: return x % 2 ? 1 : -1;
    case 5: return x / 100 == 20 ? 1 : 1e-3 * random_unit();
    case 6: return 1;
    case 7: return random_unit() > 0 ? 1.37 : -1.37;
    case 8: return x;
    case 9: return std::cos(2 * M_PI * 3 * x / LENGTH);
    default: return random_unit();
  }
}

// What docs/numerics.md lets the results of two stretches err by: 8 standard deviations, by the samples of both and the
// mean square of their results, and faint copies of the largest result and of waves that the template takes away.
static double estimate(const std::vector<Number>& both, const std::vector<double>& taps, double largest) {
  std::vector<Number> values(LENGTH);
  std::copy(taps.begin(), taps.end(), values.begin());
  const std::vector<Number> of_both = transformed(both), of_taps = transformed(values);
  double norm = 0, squares = 0, wave = 0, product = 0;
  for (double tap : taps) norm += tap * tap;
  for (const Number& value : both) squares += std::norm(value);
  const double count = LENGTH, u = std::ldexp(1.0, -24), copies = 5 * u;
  for (int f = 0; f < LENGTH; f++) {
    wave = std::max(wave, std::abs(of_taps[f]));
    product += std::norm(of_both[f]) * std::norm(of_taps[f]) / count;
  }
  const double noise = 8 * 0.424661 * u * std::sqrt(std::log2(count) / 2);
  return std::hypot(noise * std::sqrt(norm * squares / count), noise * std::sqrt(product / count),
             copies * wave * std::sqrt(2 * squares / count)) +
         copies * largest;
}
static double largest_share = 0;

struct Case {
  int taps, length, origin, outputs;
  int step;  // between neighbouring samples
  int kind;  // what the signal is made of
  double amplitude, special;
  bool extraordinary;
  bool modelled;  // errors are compared with what the model grants each pair of stretches
};

static void check(const Case& c) {
  constexpr int SIGNALS = 2, GUARD = 32;
  FlccImage im = {};
  im.lengths[0] = im.lengths[1] = 1, im.lengths[2] = c.length;
  im.stride[2] = c.step, im.image_stride = (long long)c.length * c.step + 5;
  im.channels = 1, im.fill = 2.5;
  std::vector<float> signal(SIGNALS * im.image_stride, NAN);
  for (int number = 0; number < SIGNALS; number++)
    for (int x = 0; x < c.length; x++)
      signal[number * im.image_stride + x * c.step] = (float)(sample(c.kind, x) * c.amplitude);
  if (c.special != 0) signal[im.image_stride + c.length / 2 * c.step] = (float)c.special;
  std::vector<double> taps(c.taps);
  double energy = 0;
  for (double& tap : taps) tap = (float)random_unit(), energy += tap * tap;
  const std::vector<Two> spectrum = spectrum_of(taps);
  FlccResult r = {};
  r.stride[2] = 1, r.image_stride = c.outputs + 7;
  std::vector<float> got(SIGNALS * r.image_stride + 2 * GUARD, NAN);
  const int step = LENGTH - c.taps + 1, stretches = (c.outputs + step - 1) / step, pairs = (stretches + 1) / 2;
  unsigned extraordinary = 0;
  const double factor = 0.25;
  launch({(unsigned)pairs, 1, SIGNALS}, {THREADS, 1, 1}, [&] {
    KERNEL(signal.data(), im, got.data() + GUARD, r, c.outputs, c.origin, step, spectrum.data(), factor,
        &extraordinary);
  });
  if (extraordinary != c.extraordinary)
    FAIL("amplitude %g, special %g: extraordinary %u", c.amplitude, c.special, extraordinary);
  if (c.extraordinary) return;
  double largest = 0, off = 0;
  for (int number = 0; number < SIGNALS; number++) {
    // The samples that outputs meet, in order.
    std::vector<double> met(c.outputs + c.taps - 1);
    for (size_t i = 0; i < met.size(); i++) {
      const int at = folded((int)i + c.origin, c.length);
      met[i] = at >= 0 ? signal[number * im.image_stride + at * c.step] : FLCC_BOUNDARY == FLCC_CONSTANT ? im.fill : 0;
    }
    for (int pair = 0; pair < pairs; pair++) {
      double peak = 0, most = 0;
      std::vector<Number> both(LENGTH);
      for (int part = 0; part < 2; part++) {
        const int begin = (2 * pair + part) * step, outputs = std::max(0, std::min(step, c.outputs - begin));
        for (int i = 0; i < LENGTH && outputs > 0 && i < outputs + c.taps - 1; i++)
          both[i] += met[begin + i] * (part ? Number(0, 1) : Number(1, 0));
        for (int x = begin; x < begin + outputs; x++) {
          double sum = 0, squares = 0;
          for (int j = 0; j < c.taps; j++) sum += met[x + j] * taps[j], squares += met[x + j] * met[x + j];
          const double error = std::fabs(got[GUARD + number * r.image_stride + x] / factor - sum);
          largest = std::max(largest, squares), peak = std::max(peak, std::fabs(sum));
          if (!(error <= most)) most = error;
        }
      }
      if (!(most <= off)) off = most;
      if (!c.modelled) continue;
      const double share = most / estimate(both, taps, peak);
      largest_share = std::max(largest_share, share);
      if (!(share < 1)) FAIL("%d taps, kind %d: %g of what stretches are granted", c.taps, c.kind, share);
    }
  }
  for (size_t i = 0; i < got.size(); i++) {
    const long long at = (long long)i - GUARD, in = at % r.image_stride;
    const bool expected = at >= 0 && at < SIGNALS * r.image_stride && in < c.outputs;
    if (!expected && !std::isnan(got[i])) FAIL("element %lld was written", at);
  }
  const double granted = (16 + std::sqrt((double)c.taps)) * std::ldexp(1.0, -24) * std::sqrt(largest * energy);
  if (!(off <= granted))
    FAIL("%d taps, kind %d, boundary %d: off by %g, granted %g", c.taps, c.kind, FLCC_BOUNDARY, off, granted);
}

int main() {
  flcc_dynamic_bytes = SHARED;
  const int length = 5 * LENGTH / 2;
  const Case plain = {70, length, -69, length + 69, 1, 0, 1, 0, false, false};
  check(plain);
  Case other = plain;
  other.step = 2;
  check(other);
  for (int kind = 0; kind < 10; kind++) {
    other = plain, other.kind = kind, other.modelled = true, other.amplitude = 1 + 0.5 * std::fabs(random_unit());
    other.taps = kind % 2 ? LENGTH / 8 : 70, other.origin = 1 - other.taps, other.outputs = length + other.taps - 1;
    other.length = LENGTH + LENGTH / 2;
    other.outputs = other.length + other.taps - 1;
    check(other);
  }
  // A signal shorter than its template, outputs of which each meets samples inside, and one stretch alone.
  check({200, 90, -199, 289, 1, 0, 1, 0, false, false});
  check({99, 2 * LENGTH, 0, 2 * LENGTH - 98, 1, 0, 1, 0, false, true});
  check({99, LENGTH / 2, 3, LENGTH / 2 - 101, 1, 0, 1, 0, false, true});
  // A last stretch that has all its outputs and reaches beyond the signal.
  check({70, 2 * LENGTH - 207, -69, 2 * LENGTH - 138, 1, 0, 1, 0, false, true});
  // Magnitudes at both ends of what is ordinary, beyond them, and nothing at all.
  const double reach = std::ldexp(1.0, REACH);
  for (const auto& [amplitude, special, extraordinary] : {std::tuple<double, double, bool>{1, reach, false},
           {1, 1.01 * reach, true}, {1, NAN, true}, {1, -INFINITY, true}, {0, 0, false}, {0, 2 / reach, false}}) {
    other = plain, other.length = LENGTH, other.outputs = LENGTH;
    other.amplitude = amplitude, other.special = special, other.extraordinary = extraordinary;
    check(other);
  }
  // Two stretches of nothing but faint samples. Beside the fill value they are not alone.
  other = plain;
  other.amplitude = 1e-3 / reach, other.extraordinary = true;
  if (FLCC_BOUNDARY != FLCC_CONSTANT) check(other);
  std::printf("%d wrong, at most %.3f of what pairs of stretches are granted\n", wrong, largest_share);
  return wrong == 0 ? 0 : 1;
}
