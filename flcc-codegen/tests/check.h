// Compares a kernel with a plain loop that adds the same products in the same order: every bit must agree.
// Included after the kernel's source; the test defines KERNEL, OP, DEPTH, HEIGHT, WIDTH (0: any size), TAPS_STRIDE,
// CHUNK_H, CHUNK_W, RUN_OF_ANY, MOST_ROUNDINGS, and of a listed size TOGETHER_RUN, TOGETHER_ROWS, TOGETHER_PLANES.
#include "samples.h"

#define CORR 0
#define SAD 1
#define MASKED 2

constexpr int RESULTS = OP == MASKED ? 3 : 1;
typedef std::conditional<FLOATS, Out, unsigned long long>::type Sum;

// A sum and the most roundings that one of its products went through; of integers none is counted.
struct Counted {
  Sum value;
  int roundings;
};
static void add(Counted& to, Counted& from) {
  const bool both = to.roundings > 0 && from.roundings > 0;
  to = {to.value + from.value, std::max(to.roundings, from.roundings) + both};
  from = {};
}
static void add_product(Counted& to, Sum p, Sum t, Sum w, int number) {
#if OP == SAD
  to.value = std::fma(w, std::fabs(p - t), to.value);
#elif OP == MASKED
  // The kernel's order of factors: (P w) P.
  to.value = number == 2 ? std::fma(p * w, p, to.value) : std::fma(p, t, to.value);
#else
  to.value = FLOATS ? (Sum)std::fma(p, t, to.value) : p * t + to.value;
#endif
  to.roundings += FLOATS;
}

// One of the sums of one output, in runs and subtotals as the kernel takes them.
struct Adder {
  Counted run = {}, subtotal = {}, total = {};
  int runs = 0, taken = 0, side = 1;

  void end_run() { add(subtotal, run), taken = 0; }
  void end_subtotal() { add(total, subtotal), runs = 0; }
  // Before a kernel for any size takes `count` taps at once.
  void before(int count) {
    if (taken + count > RUN_OF_ANY) {
      end_run();
      if (++runs == side) end_subtotal();
    }
    taken += count;
  }
};

// The sums of one output. Chunks of taps come in order, and within a chunk its rows.
static void plain(
    Sum (&sums)[3], const Case& c, const Pixel* from, const FlccCross& g, const Pixel* taps, const Pixel* weights) {
  const int all = c.size[0] * c.size[1] * c.size[2];
  for (int number = 0; number < RESULTS; number++) {
    Adder adder;
    while ((long long)adder.side * adder.side * (RUN_OF_ANY / 2) < all) adder.side++;
    for (int d = 0; d < c.size[0]; d++) {
      for (int top = 0; top < c.size[1]; top += CHUNK_H)
        for (int left = 0; left < c.size[2]; left += CHUNK_W)
          for (int i = top; i < std::min(c.size[1], top + CHUNK_H); i++) {
            const int end = std::min(c.size[2], left + CHUNK_W);
            for (int j = left; j < end; j++) {
#if WIDTH == 0
              if ((j - left) % PATCH_W == 0) adder.before(std::min(end - j, PATCH_W));
#else
              if (TOGETHER_RUN > 0 && j % TOGETHER_RUN == 0) adder.end_run();
#endif
              const int tap = (d * c.size[1] + i) * c.size[2] + j;
              const Sum p = from[d * g.in_plane + i * g.in_row + j], w = weights[tap];
              add_product(adder.run, p, number == 0 ? (Sum)taps[tap] : w, w, number);
            }
#if WIDTH > 0
            if (TOGETHER_RUN > 0) adder.end_run();
            if (TOGETHER_ROWS > 0 && (i + 1) % TOGETHER_ROWS == 0) adder.end_subtotal();
#endif
          }
      if (WIDTH > 0 && TOGETHER_PLANES) adder.end_subtotal();
    }
    adder.end_run();
    adder.end_subtotal();
    sums[number] = adder.total.value;
    if (adder.total.roundings > MOST_ROUNDINGS) {
      std::printf("%d roundings of %d products follow each other\n", adder.total.roundings, all);
      std::exit(1);
    }
  }
}

static void run(Index3 grid, const Case& c, const Pixel* samples, Out* const* out, const FlccCross& g,
    const Pixel* taps, const Pixel* weights) {
  const Index3 block = {BLOCK_W, BLOCK_H, 1};
  const int depth = c.size[0], height = c.size[1], width = c.size[2];
  (void)depth, (void)height, (void)width, (void)weights;
#if WIDTH > 0
  std::memset(flcc_taps, 0, sizeof(flcc_taps));
  for (int r = 0; r < depth * height; r++)
    std::memcpy((Pixel*)flcc_taps + r * TAPS_STRIDE, taps + r * width, width * sizeof(Pixel));
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
  for (int i = guard; i < guard + count; i++)
    taps[i] = random_pixel(), weights[i] = (Pixel)(random_below(4) / (FLOATS ? 2.0 : 1.0));

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
          plain(sums, c, samples + tile * g.in_tile + z * g.in_plane + y * g.in_row + x, g, taps.data() + guard,
              weights.data() + guard);
          for (int n = 0; n < RESULTS; n++)
            expected[n][guard + tile * g.out_tile + z * g.out_plane + y * g.out_row + x] = (Out)sums[n];
        }
  int wrong = 0;
  for (int n = 0; n < RESULTS; n++)
    for (size_t i = 0; i < out[n].size(); i++)
      if (std::memcmp(&out[n][i], &expected[n][i], sizeof(Out)) != 0 && wrong++ < 3)
        std::printf("template %dx%dx%d outputs %dx%dx%d tiles %d slack %d: "
                    "result %d element %ld: expected %.17g got %.17g\n",
            c.size[0], c.size[1], c.size[2], c.out[0], c.out[1], c.out[2], c.tiles, c.slack, n, (long)i - guard,
            (double)expected[n][i], (double)out[n][i]);
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
  const int sizes[][3] = {{1, 1, 1}, {1, 1, 300}, {1, 3, 19}, {1, 21, 5}, {1, 16, 16}, {1, 33, 17}, {3, 2, 5},
      {2, 17, 18}};
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
