// Spectra in the order of the kernels of volumes, and volumes to try these with. Included after the kernel's source.
#pragma once
#include <complex>

#include "folded.h"
#include "verdict.h"

constexpr int IMAGES = 2;
typedef std::complex<double> Number;
constexpr int SIDES[3] = {DEPTH, LENGTH, LENGTH};

// The transform of a tile of numbers by the sums that define it, along one axis after the other.
static std::vector<Number> transformed(std::vector<Number> from) {
  for (int axis = 0; axis < 3; axis++) {
    const int side = SIDES[axis], step = axis == 0 ? LENGTH * LENGTH : axis == 1 ? LENGTH : 1;
    std::vector<Number> to(from.size()), turns(side);
    for (int i = 0; i < side; i++) turns[i] = std::polar(1.0, -2 * M_PI * i / side);
    for (int at = 0; at < SAMPLES; at++) {
      const int f = at / step % side, first = at - f * step;
      for (int i = 0; i < side; i++) to[at] += from[first + i * step] * turns[i * f % side];
    }
    from = to;
  }
  return from;
}

// A template's values in a tile of zeros.
static std::vector<Number> in_tile(const std::vector<double>& values, const int (&taps)[3]) {
  std::vector<Number> all(SAMPLES);
  for (size_t k = 0; k < values.size(); k++) {
    const int x = k % taps[2], y = k / taps[2] % taps[1], z = k / (taps[2] * taps[1]);
    all[(z * LENGTH + y) * LENGTH + x] = values[k];
  }
  return all;
}

// A template's spectrum over the number of samples, turned to correlate, in the order of the last stage; then the
// turns.
static std::vector<Two> spectrum_of(const std::vector<Number>& all) {
  std::vector<Two> spectrum((SAMPLES + LENGTH) / 2);
  const auto set = [&](int at, Number value) {
    spectrum[at / 2].at[at % 2] = {(float)value.real(), (float)value.imag()};
  };
  for (int t = 0; t < THREADS; t++)
    for (int i = 0; i < VALUES; i++) {
      const Thread thread(t);
      const int z = thread.z + LANES * (i / 16), y = thread.y + LANES * (i / 4 % 4), x = thread.x + LANES * (i % 4);
      set((i / 2 * THREADS + t) * 2 + i % 2, std::conj(all[(z * LENGTH + y) * LENGTH + x]) / (double)SAMPLES);
    }
  for (int i = 0; i < LENGTH; i++) set(SAMPLES + i, std::polar(1.0, -2 * M_PI * i / LENGTH));
  return spectrum;
}

// What volumes are made of that the error model is held against.
static double sample(int kind, int z, int y, int x) {
  switch (kind) {
    case 1: return z == 9 && y == 20 && x == 17 ? 1 : 1e-4 * random_unit();
    case 2: return x > 30 ? 1 : 0.001;
    case 3: return std::cos(2 * M_PI * z / 8 + y);
    case 4: return (x + y + z) % 2 ? 1 : -1;
    case 5: return z == 7 ? 1 : 1e-3 * random_unit();
    case 6: return 1;
    case 7: return random_unit() > 0 ? 1.37 : -1.37;
    case 8: return std::cos(2 * M_PI * (3 * x / 32.0 + 5 * y / 32.0 + 2 * z / 16.0));
    // Rounded to f32, what is left of the patch less the level around it is the same everywhere.
    case 9: return z > 3 && y > 5 && y < 17 && x > 5 && x < 17 ? -999 + 1e-6 * random_unit() : 0;
    default: return random_unit();
  }
}
