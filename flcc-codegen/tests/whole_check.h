// Checks what stands around transforms of a whole image: which samples are transformed, products of spectra, and where
// results come from. Included after the kernel's source; the test defines KERNEL and FLCC_BOUNDARY.
#include "folded.h"
#include "verdict.h"

struct Case {
  int lengths[3], taps[3], origin[3], out[3];
  int step;  // between neighbours of a row
  float amplitude, special;
  bool extraordinary;
};

static void check(const Case& c) {
  const bool wraps = FLCC_BOUNDARY == FLCC_ZERO || FLCC_BOUNDARY == FLCC_CONSTANT;
  FlccImage im = {};
  FlccResult r = {};
  Whole g = {};
  for (int i = 0; i < 3; i++) {
    im.lengths[i] = c.lengths[i], g.out[i] = c.out[i], g.origin[i] = c.origin[i];
    g.begin[i] = wraps ? std::max(c.origin[i], 0) : c.origin[i];
    const int reach = c.origin[i] + c.out[i] + c.taps[i] - 1;
    g.needed[i] = reach - g.begin[i];
    // As long as what wraps round meets nothing but what lies outside.
    const int least = std::max(g.needed[i], std::min(c.lengths[i], reach) - std::min(c.origin[i], 0));
    g.side[i] = least + (c.out[i] > 1 ? 2 : 0);
    if (wraps) g.needed[i] = g.side[i];
  }
  im.stride[2] = c.step, im.stride[1] = c.lengths[2] * c.step + 3, im.stride[0] = im.stride[1] * c.lengths[1] + 1;
  im.channels = 1, im.fill = 2.5;
  std::vector<float> image(im.stride[0] * c.lengths[0], NAN);
  const auto at = [&](int z, int y, int x) -> float& {
    return image[z * im.stride[0] + y * im.stride[1] + x * c.step];
  };
  for (int z = 0; z < c.lengths[0]; z++)
    for (int y = 0; y < c.lengths[1]; y++)
      for (int x = 0; x < c.lengths[2]; x++) at(z, y, x) = c.amplitude * (1 + z * 10000 + y * 100 + x);
  if (c.special != 0) at(c.lengths[0] / 2, c.lengths[1] / 2, c.lengths[2] / 2) = c.special;
  unsigned extraordinary = 0;
  const auto grid = [](const int (&sides)[3]) {
    return Index3{(unsigned)(sides[2] + COLUMNS - 1) / COLUMNS, (unsigned)(sides[1] + ROWS - 1) / ROWS,
        (unsigned)sides[0]};
  };
  const size_t count = (size_t)g.side[0] * g.side[1] * g.side[2];
  std::vector<float> samples(count, NAN);
  launch(grid(g.side), {BLOCK, 1, 1}, [&] { flcc_pad(image.data(), im, samples.data(), g, &extraordinary); });
  if (extraordinary != c.extraordinary) FAIL("amplitude %g, special %g: %u", c.amplitude, c.special, extraordinary);
  if (c.extraordinary) return;
  const auto value = [&](int axis_z, int axis_y, int axis_x) -> float {
    const int fz = folded(axis_z, c.lengths[0]), fy = folded(axis_y, c.lengths[1]), fx = folded(axis_x, c.lengths[2]);
    if (fz < 0 || fy < 0 || fx < 0) return FLCC_BOUNDARY == FLCC_CONSTANT ? (float)im.fill : 0;
    return at(fz, fy, fx);
  };
  // Every sample that a tap of a result meets lies where the correlation, which wraps round, finds it.
  const auto in = [&](int axis, int i) { return ((i - g.begin[axis]) % g.side[axis] + g.side[axis]) % g.side[axis]; };
  for (int z = c.origin[0]; z < c.origin[0] + c.out[0] + c.taps[0] - 1; z++)
    for (int y = c.origin[1]; y < c.origin[1] + c.out[1] + c.taps[1] - 1; y++)
      for (int x = c.origin[2]; x < c.origin[2] + c.out[2] + c.taps[2] - 1; x++) {
        const float got = samples[((size_t)in(0, z) * g.side[1] + in(1, y)) * g.side[2] + in(2, x)];
        if (got != value(z, y, x)) FAIL("sample %d %d %d: %g, not %g", z, y, x, got, value(z, y, x));
      }
  for (size_t i = 0; i < count; i++) {
    const int x = i % g.side[2], y = i / g.side[2] % g.side[1], z = i / g.side[2] / g.side[1];
    const bool met = z < g.needed[0] && y < g.needed[1] && x < g.needed[2];
    if (std::isnan(samples[i]) || (!met && samples[i] != 0)) FAIL("sample %d %d %d: %g", z, y, x, samples[i]);
  }
  // Sums that tell where they lie come to the results whose first tap is there.
  std::vector<float> sums(count);
  for (size_t i = 0; i < count; i++) sums[i] = (float)i;
  r.stride[2] = 1, r.stride[1] = c.out[2] + 3, r.stride[0] = r.stride[1] * c.out[1] + 2;
  std::vector<float> got(r.stride[0] * c.out[0] + 8, NAN);
  launch(grid(g.out), {BLOCK, 1, 1}, [&] { KERNEL(sums.data(), g, got.data(), r, 0.5, &extraordinary); });
  size_t written = 0;
  for (float one : got) written += !std::isnan(one);
  if (written != (size_t)c.out[0] * c.out[1] * c.out[2] || extraordinary) FAIL("%zu results were written", written);
  for (int z = 0; z < c.out[0]; z++)
    for (int y = 0; y < c.out[1]; y++)
      for (int x = 0; x < c.out[2]; x++) {
        const int place[3] = {in(0, c.origin[0] + z), in(1, c.origin[1] + y), in(2, c.origin[2] + x)};
        const float wanted = 0.5f * (((size_t)place[0] * g.side[1] + place[1]) * g.side[2] + place[2]);
        const float one = got[z * r.stride[0] + y * r.stride[1] + x];
        if (one != wanted) FAIL("result %d %d %d: %g, not %g", z, y, x, one, wanted);
      }
  sums[in(2, c.origin[2])] = NAN;
  launch(grid(g.out), {BLOCK, 1, 1}, [&] { KERNEL(sums.data(), g, got.data(), r, 0.5, &extraordinary); });
  if (c.out[0] == 1 && c.out[1] == 1 && !extraordinary) FAIL("a sum that is no number was not told of");
}

int main() {
  // Modes full, same and valid of an image, a signal, a volume; results that all meet samples outside, or none.
  const Case image = {{1, 20, 700}, {1, 5, 9}, {0, -4, -8}, {1, 24, 708}, 1, 1, 0, false};
  check(image);
  Case other = image;
  other.step = 2;
  check(other);
  check({{1, 20, 700}, {1, 5, 9}, {0, -2, -4}, {1, 20, 700}, 1, 1, 0, false});
  check({{1, 20, 700}, {1, 5, 9}, {0, 0, 0}, {1, 16, 692}, 1, 1, 0, false});
  check({{1, 20, 700}, {1, 5, 9}, {0, 2, 17}, {1, 7, 600}, 1, 1, 0, false});
  check({{1, 1, 3000}, {1, 1, 40}, {0, 0, -39}, {1, 1, 3039}, 1, 1, 0, false});
  check({{7, 9, 30}, {3, 4, 5}, {-2, -3, -4}, {9, 12, 34}, 1, 1, 0, false});
  check({{4, 3, 5}, {3, 4, 5}, {-2, -3, -4}, {6, 6, 9}, 1, 1, 0, false});
  const float reach = std::ldexp(1.0f, REACH);
  for (const auto& [amplitude, special, extraordinary] : {std::tuple<float, float, bool>{1, 1.01f * reach, true},
           {1, -INFINITY, true}, {0, 0, false}, {0, 2 / reach, false}}) {
    other = image, other.amplitude = amplitude, other.special = special, other.extraordinary = extraordinary;
    check(other);
  }
  // Nothing but faint samples. Beside the fill value they are not alone.
  other = image;
  other.lengths[1] = 3, other.lengths[2] = 300, other.amplitude = 1e-4f / reach, other.extraordinary = true;
  if (FLCC_BOUNDARY != FLCC_CONSTANT) check(other);
  std::vector<Number> a(300), b(300), product(300);
  for (int i = 0; i < 300; i++) a[i] = {1.0f + i, 2.0f}, b[i] = {0.5f, -1.0f * i};
  launch({2, 1, 1}, {BLOCK, 1, 1}, [&] { flcc_times(a.data(), b.data(), product.data(), 299); });
  for (int i = 0; i < 299; i++)
    if (product[i].re != 0.5f * (1 + i) + 2.0f * i || product[i].im != 1.0f - (1.0f + i) * i) FAIL("product %d", i);
  if (product[299].re != 0) FAIL("a product beyond the last");
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
