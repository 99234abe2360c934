// Compares a transform of signals, from the signal to the result, with sums in f64. Included after the kernel's source;
// the test defines KERNEL, SHARED and FLCC_BOUNDARY.
#include <complex>

#include "images.h"

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

#include "model.h"

// A template's values in a stretch of zeros.
static std::vector<Number> in_stretch(const std::vector<double>& taps) {
  std::vector<Number> values(LENGTH);
  std::copy(taps.begin(), taps.end(), values.begin());
  return values;
}

// A template's spectrum over the number of samples, turned to correlate, two numbers of a thread together; then the
// turns.
static std::vector<Two> spectrum_of(const std::vector<double>& taps) {
  const std::vector<Number> all = transformed(in_stretch(taps));
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

struct Case {
  int taps, length, origin, outputs;
  int step;  // between neighbouring samples
  int kind;  // what the signal is made of
  double amplitude, special;
  bool extraordinary;
  bool modelled;  // errors are compared with what the model grants each pair of stretches
};

static void check(const Case& c) {
  Images<float> signals(1, c.length, c.step, 2.5);
  signals.set([&](int, int x) { return sample(c.kind, x) * c.amplitude; });
  if (c.special != 0) signals.at(IMAGES - 1, 0, c.length / 2) = (float)c.special;
  std::vector<double> taps(c.taps);
  double energy = 0;
  for (double& tap : taps) tap = (float)random_unit(), energy += tap * tap;
  const std::vector<Two> spectrum = spectrum_of(taps);
  Results results(1, c.outputs);
  const int step = LENGTH - c.taps + 1, stretches = (c.outputs + step - 1) / step, pairs = (stretches + 1) / 2;
  unsigned extraordinary = 0;
  const double factor = 0.25;
  launch({(unsigned)pairs, 1, IMAGES}, {THREADS, 1, 1}, [&] {
    KERNEL(signals.samples.data(), signals.im, results.first(), results.r, c.outputs, c.origin, step, spectrum.data(),
        nullptr, factor, 1, 1, 0, &extraordinary);
  });
  if (extraordinary != c.extraordinary)
    FAIL("amplitude %g, special %g: extraordinary %u", c.amplitude, c.special, extraordinary);
  if (c.extraordinary) return;
  double largest = 0, off = 0;
  for (int number = 0; number < IMAGES; number++) {
    // The samples that outputs meet, in order.
    std::vector<double> met(c.outputs + c.taps - 1);
    for (size_t i = 0; i < met.size(); i++) met[i] = signals.padded(number, 0, (int)i + c.origin);
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
          const double error = std::fabs(results.at(number, 0, x) / factor - sum);
          largest = std::max(largest, squares), peak = std::max(peak, std::fabs(sum));
          if (!(error <= most)) most = error;
        }
      }
      if (!(most <= off)) off = most;
      if (!c.modelled) continue;
      const double share = most / estimate(both, in_stretch(taps), peak);
      largest_share = std::max(largest_share, share);
      if (!(share < 1)) FAIL("%d taps, kind %d: %g of what stretches are granted", c.taps, c.kind, share);
    }
  }
  results.end();
  const double most = granted(taps.size(), largest, energy);
  if (!(off <= most))
    FAIL("%d taps, kind %d, boundary %d: off by %g, granted %g", c.taps, c.kind, FLCC_BOUNDARY, off, most);
}

// Several templates of one call have the bits that each has alone.
static void check_several(int templates, int each) {
  const int taps = 70, length = 2 * LENGTH, outputs = length - taps + 1, step = LENGTH - taps + 1;
  Images<float> signals(1, length, 1, 0);
  signals.set([&](int, int) { return random_unit(); });
  std::vector<Two> spectra;
  std::vector<double> factors;
  for (int number = 0; number < templates; number++) {
    std::vector<double> values(taps);
    for (double& value : values) value = random_unit();
    const std::vector<Two> own = spectrum_of(values);
    spectra.insert(spectra.end(), own.begin(), own.end());
    factors.push_back(std::ldexp(1.0, number));
  }
  FlccResult r = {};
  const long long apart = outputs + 3;
  r.stride[2] = 1, r.stride[1] = outputs, r.image_stride = templates * apart;
  std::vector<float> together(IMAGES * r.image_stride, -1), alone = together;
  unsigned extraordinary = 0;
  const unsigned pairs = ((outputs + step - 1) / step + 1) / 2;
  const auto run = [&](int first, int count, int of_block, std::vector<float>& to) {
    launch({pairs, (unsigned)((count + of_block - 1) / of_block), IMAGES}, {THREADS, 1, 1}, [&] {
      KERNEL(signals.samples.data(), signals.im, to.data() + first * apart, r, outputs, 0, step,
          spectra.data() + first * LENGTH, factors.data() + first, 0, count, of_block, apart, &extraordinary);
    });
  };
  run(0, templates, each, together);
  for (int number = 0; number < templates; number++) run(number, 1, 1, alone);
  if (together != alone || extraordinary) FAIL("%d templates, %d to a block, have other bits", templates, each);
}

int main() {
  flcc_dynamic_bytes = SHARED;
  check_several(5, 1);
  // With several to a block, where shared memory has the room.
  if (2 * SHARED <= sizeof(flcc_dynamic)) {
    flcc_dynamic_bytes = 2 * SHARED;
    check_several(5, 2);
    check_several(3, 3);
    flcc_dynamic_bytes = SHARED;
  }
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
  at_the_ends([&](double amplitude, double special, bool extraordinary) {
    other = plain;
    // Two stretches of nothing but faint samples are those of the whole signal.
    if (special != 0 || !extraordinary) other.length = LENGTH, other.outputs = LENGTH;
    other.amplitude = amplitude, other.special = special, other.extraordinary = extraordinary;
    check(other);
  });
  std::printf("%d wrong, at most %.3f of what pairs of stretches are granted\n", wrong, largest_share);
  return wrong == 0 ? 0 : 1;
}
