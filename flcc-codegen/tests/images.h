// Images and results for kernels that go from one to the other, with what they must neither read nor write between
// rows. Included after the kernel's source; the test defines FLCC_BOUNDARY.
#pragma once
#include "folded.h"
#include "verdict.h"

constexpr int IMAGES = 2, GUARD = 32;

// Images of one plane. What is between their samples is no number, or 99 in bytes.
template <typename T>
struct Images {
  FlccImage im = {};
  std::vector<T> samples;

  // Samples of a row lie `step` apart.
  Images(int height, int width, int step, double fill) {
    im.lengths[0] = 1, im.lengths[1] = height, im.lengths[2] = width;
    // Rows of whole fours stay so, in the first image.
    im.stride[2] = step, im.stride[1] = width * step + (width % 4 ? 3 : 4), im.image_stride = im.stride[1] * height + 5;
    im.channels = 1, im.fill = fill;
    samples.assign(IMAGES * im.image_stride, std::is_floating_point<T>::value ? (T)NAN : (T)99);
  }
  // Sets all samples, in order, to what `of` a row and a column is.
  template <typename Of>
  void set(Of of) {
    for (int number = 0; number < IMAGES; number++)
      for (int y = 0; y < im.lengths[1]; y++)
        for (int x = 0; x < im.lengths[2]; x++) at(number, y, x) = (T)of(y, x);
  }
  T& at(int number, int y, int x) {
    return samples[number * im.image_stride + y * im.stride[1] + x * im.stride[2]];
  }
  // The sample at a place that may lie outside.
  double padded(int number, int y, int x) {
    const int fy = folded(y, im.lengths[1]), fx = folded(x, im.lengths[2]);
    return fy < 0 || fx < 0 ? (FLCC_BOUNDARY == FLCC_CONSTANT ? im.fill : 0.0) : (double)at(number, fy, fx);
  }
};

// Results of one plane, of each image.
template <typename T = float>
struct Results {
  FlccResult r = {};
  T untouched;
  std::vector<T> got;
  std::vector<bool> due;

  // What no result is written to stays `untouched`.
  Results(int height, int width, T untouched = NAN) : untouched(untouched) {
    r.stride[2] = 1, r.stride[1] = width + 3, r.image_stride = r.stride[1] * height + 7;
    got.assign(IMAGES * r.image_stride + 2 * GUARD, untouched);
    due.assign(got.size(), false);
  }
  T* first() { return got.data() + GUARD; }
  // The result at a place where one is due.
  T at(int number, int y, int x) {
    const long long place = GUARD + number * r.image_stride + y * r.stride[1] + x;
    due[place] = true;
    return got[place];
  }
  // Once all that are due were asked for: no other was written.
  void end() const {
    for (size_t i = 0; i < got.size(); i++)
      if (!due[i] && !(std::isnan(untouched) ? std::isnan(got[i]) : got[i] == untouched))
        FAIL("element %ld was written", (long)i - GUARD);
  }
};
