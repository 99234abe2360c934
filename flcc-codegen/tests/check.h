// Compares a kernel with a plain loop that adds the same products in the same order: every bit must agree.
// Included after the kernel's source; the test defines KERNEL, OP, DEPTH, HEIGHT, WIDTH (0: any size), TAPS_STRIDE, CHUNK_H, CHUNK_W.
#include "samples.h"

#define CORR 0
#define SAD 1
#define MASKED 2

constexpr int RESULTS = OP == MASKED ? 3 : 1;
typedef std::conditional<FLOATS, Out, unsigned long long>::type Sum;

// The three sums of one output. Chunks of taps come in order, and within a chunk its rows.
static void plain(Sum (&sums)[3], const Case& c, const Pixel* from, const FlccCross& g, const Pixel* taps, const Pixel* weights) {
  sums[0] = sums[1] = sums[2] = 0;
  for (int d = 0; d < c.size[0]; d++)
    for (int top = 0; top < c.size[1]; top += CHUNK_H)
      for (int left = 0; left < c.size[2]; left += CHUNK_W)
        for (int i = top; i < std::min(c.size[1], top + CHUNK_H); i++)
          for (int j = left; j < std::min(c.size[2], left + CHUNK_W); j++) {
            const Sum p = from[d * g.in_plane + i * g.in_row + j];
            const int tap = (d * c.size[1] + i) * c.size[2] + j;
            const Sum t = taps[tap], w = weights[tap];
#if OP == SAD
            sums[0] = std::fma(w, std::fabs(p - t), sums[0]);
#elif OP == MASKED
            sums[0] = std::fma(p, t, sums[0]);
            sums[1] = std::fma(p, w, sums[1]);
            sums[2] = std::fma(p * w, p, sums[2]);
#else
            sums[0] = FLOATS ? (Sum)std::fma(p, t, sums[0]) : p * t + sums[0];
#endif
          }
}

static void run(
    Index3 grid, const Case& c, const Pixel* samples, Out* const* out, const FlccCross& g, const Pixel* taps, const Pixel* weights) {
  const Index3 block = {BLOCK_W, BLOCK_H, 1};
  const int depth = c.size[0], height = c.size[1], width = c.size[2];
  (void)depth, (void)height, (void)width, (void)weights;
#if WIDTH > 0
  std::memset(flcc_taps, 0, sizeof(flcc_taps));
  for (int r = 0; r < depth * height; r++) std::memcpy((Pixel*)flcc_taps + r * TAPS_STRIDE, taps + r * width, width * sizeof(Pixel));
  launch(grid, block, [=] { KERNEL(samples, out[0], g); });
#elif OP == SAD
  launch(grid, block, [=] { KERNEL(samples, out[0], g, taps, weights, depth, height, width); });
#elif OP == MASKED
  launch(grid, block, [=] { KERNEL(samples, out[0], out[1], out[2], g, taps, weights, depth, height, width); });
#else
  launch(grid, block, [=] { KERNEL(samples, out[0], g, taps, depth, height, width); });
#endif
}

static int check(const Case& c) {
  Field field(c);
  const FlccCross& g = field.g;
  const Pixel* samples = field.samples;

  const int count = c.size[0] * c.size[1] * c.size[2], guard = 64;
  std::vector<Pixel> taps(count + 2 * guard, poison()), weights(count + 2 * guard, poison());
  for (int i = guard; i < guard + count; i++) taps[i] = random_pixel(), weights[i] = (Pixel)(random_below(4) / (FLOATS ? 2.0 : 1.0));

  const Out untouched = FLOATS ? (Out)NAN : (Out)0xdeadbeef;
  std::vector<Out> out[3];
  Out* at[3];
  for (int n = 0; n < 3; n++) {
    out[n].assign((size_t)(c.tiles * g.out_tile) + 2 * guard, untouched);
    at[n] = out[n].data() + guard;
  }
  run(field.grid(c), c, samples, at, g, taps.data() + guard, weights.data() + guard);

  std::vector<Out> expected[3];
  for (int n = 0; n < 3; n++) expected[n].assign(out[n].size(), untouched);
  for (int tile = 0; tile < c.tiles; tile++)
    for (int z = 0; z < c.out[0]; z++)
      for (int y = 0; y < c.out[1]; y++)
        for (int x = 0; x < c.out[2]; x++) {
          Sum sums[3];
          plain(sums, c, samples + tile * g.in_tile + z * g.in_plane + y * g.in_row + x, g, taps.data() + guard, weights.data() + guard);
          for (int n = 0; n < RESULTS; n++) expected[n][guard + tile * g.out_tile + z * g.out_plane + y * g.out_row + x] = (Out)sums[n];
        }
  int wrong = 0;
  for (int n = 0; n < RESULTS; n++)
    for (size_t i = 0; i < out[n].size(); i++)
      if (std::memcmp(&out[n][i], &expected[n][i], sizeof(Out)) != 0 && wrong++ < 3)
        std::printf("template %dx%dx%d outputs %dx%dx%d tiles %d slack %d: result %d element %ld: expected %.17g got %.17g\n", c.size[0],
            c.size[1], c.size[2], c.out[0], c.out[1], c.out[2], c.tiles, c.slack, n, (long)i - guard, (double)expected[n][i],
            (double)out[n][i]);
  return wrong;
}

int main() {
  // One output; whole blocks; some outputs beyond a block, in a batch.
  const bool flat = HEIGHT == 1 && DEPTH == 1, volume = DEPTH != 1;
  const int depth = volume ? 2 : 1;
  const Case shapes[] = {
      {{}, {1, 1, 1}, 1, 0},
      {{}, {1, flat ? 1 : TILE_H, TILE_W}, 1, 0},
      {{}, {depth, flat ? 2 : TILE_H + 3, TILE_W + 5}, 2, 3},
  };
  // The kernels of any size: chunks that are full, cut short, and several along each axis.
#ifdef FLCC_TH
  const int sizes[][3] = {{FLCC_TD, FLCC_TH, FLCC_TW}};
#else
  const int sizes[][3] = {{1, 1, 1}, {1, 1, 300}, {1, 3, 19}, {1, 21, 5}, {1, 16, 16}, {1, 33, 17}, {3, 2, 5}, {2, 17, 18}};
#endif
  int wrong = 0;
  for (const Case& shape : shapes) {
    Case c = shape;
    if (WIDTH > 0) {
      c.size[0] = DEPTH, c.size[1] = HEIGHT, c.size[2] = WIDTH;
      wrong += check(c);
    } else {
      for (const auto& size : sizes) {
        std::memcpy(c.size, size, sizeof(size));
        wrong += check(c);
      }
    }
  }
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
