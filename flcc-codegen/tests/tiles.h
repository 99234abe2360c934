// Spectra in the order of the kernels of tiles, and images to try these with. Included after the kernel's source.
#pragma once
#include <complex>

#include "images.h"

typedef std::complex<double> Number;
static Number turn(long long of) { return std::polar(1.0, -2 * M_PI * (double)(of % LENGTH) / LENGTH); }

#ifndef LARGE_TILES
// A template's spectrum over the number of samples, turned to correlate, in the order of the last stage; then the
// turns.
static std::vector<Two> spectrum_of(const std::vector<double>& taps, int height, int width) {
  std::vector<Number> rows(height * LENGTH), all(LENGTH * LENGTH);
  for (int i = 0; i < height; i++)
    for (int f = 0; f < LENGTH; f++)
      for (int j = 0; j < width; j++) rows[i * LENGTH + f] += taps[i * width + j] * turn((long long)f * j);
  for (int d = 0; d < LENGTH; d++)
    for (int f = 0; f < LENGTH; f++)
      for (int i = 0; i < height; i++) all[d * LENGTH + f] += rows[i * LENGTH + f] * turn((long long)d * i);
  std::vector<Two> found((LENGTH * LENGTH + LENGTH) / 2);
  const auto set = [&](int at, Number value) { found[at / 2].at[at % 2] = {(float)value.real(), (float)value.imag()}; };
  for (int t = 0; t < THREADS; t++) {
    const Thread at(t);
    for (int i = 0; i < VALUES; i++) {
      const int across = at.x + LANES * (i % OUTER_X), down = at.y + ROWS * (i / OUTER_X);
      const Number value = std::conj(all[down * LENGTH + across]) / (double)(LENGTH * LENGTH);
      set((i / 2 * THREADS + t) * 2 + i % 2, value);
    }
  }
  for (int i = 0; i < LENGTH; i++) set(LENGTH * LENGTH + i, turn(i));
  return found;
}
#endif

// A template's values in a tile of zeros.
static std::vector<Number> in_tile(const std::vector<double>& taps, int width) {
  std::vector<Number> values(LENGTH * LENGTH);
  for (size_t k = 0; k < taps.size(); k++) values[k / width * LENGTH + k % width] = taps[k];
  return values;
}

// Kinds of images from one that is tried to the next: all of them, or of large transforms few.
#ifdef FEW
constexpr int KINDS_APART = 10;
#else
constexpr int KINDS_APART = LENGTH > 256 ? 10 : 1;
#endif
// Whether images are tried besides of which nothing depends on the length of a transform.
constexpr bool ALL = LENGTH <= 256;

#ifdef LARGE_TILES
// The transform of a line of numbers that lie `apart`, by halves.
static void transform_line(Number* line, int count, int apart) {
  if (count == 1) return;
  std::vector<Number> even(count / 2), odd(count / 2);
  for (int i = 0; i < count / 2; i++) even[i] = line[2 * i * apart], odd[i] = line[(2 * i + 1) * apart];
  transform_line(even.data(), count / 2, 1);
  transform_line(odd.data(), count / 2, 1);
  for (int i = 0; i < count / 2; i++) {
    const Number other = odd[i] * turn(i * (long long)(LENGTH / count));
    line[i * apart] = even[i] + other, line[(i + count / 2) * apart] = even[i] - other;
  }
}
// The transform of LENGTH x LENGTH numbers, along one axis after the other.
static std::vector<Number> transformed(std::vector<Number> all) {
  for (int i = 0; i < LENGTH; i++) transform_line(&all[i * LENGTH], LENGTH, 1);
  for (int i = 0; i < LENGTH; i++) transform_line(&all[i], LENGTH, LENGTH);
  return all;
}
#include "large.h"
#else
// The transform of LENGTH x LENGTH numbers by the sums that define it, along one axis after the other.
static std::vector<Number> transformed(const std::vector<Number>& from) {
  std::vector<Number> rows(from.size()), all(from.size()), turns(LENGTH);
  for (int i = 0; i < LENGTH; i++) turns[i] = turn(i);
  for (int y = 0; y < LENGTH; y++)
    for (int f = 0; f < LENGTH; f++)
      for (int x = 0; x < LENGTH; x++) rows[y * LENGTH + f] += from[y * LENGTH + x] * turns[x * f % LENGTH];
  for (int y = 0; y < LENGTH; y++)
    for (int f = 0; f < LENGTH; f++)
      for (int x = 0; x < LENGTH; x++) all[f * LENGTH + x] += rows[y * LENGTH + x] * turns[y * f % LENGTH];
  return all;
}
#endif

// What images are made of that the error model is held against.
static double sample(int kind, int y, int x) {
  switch (kind) {
    case 1: return y == 40 && x == 37 ? 1 : 1e-4 * random_unit();
    case 2: return x > 50 ? 1 : 0.001;
    case 3: return std::cos(2 * M_PI * x / 8 + y);
    case 4: return (x + y) % 2 ? 1 : -1;
    case 5: return y == 33 ? 1 : 1e-3 * random_unit();
    case 6: return 1;
    case 7: return random_unit() > 0 ? 1.37 : -1.37;
    case 8: return x + 1e-3 * y;
    case 9: return std::cos(2 * M_PI * (3 * x + 5 * y) / LENGTH);
    // Rounded to f32, what is left of the patch less the level around it is the same everywhere.
    case 10: return y > 20 && y < 90 && x > 20 && x < 90 ? -999 + 1e-6 * random_unit() : 0;
    default: return random_unit();
  }
}
