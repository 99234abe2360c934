// Compares the scores of a listed size with plain loops. Included after its two sources; the test defines TAPS_STRIDE.
#include "samples.h"

typedef long double Wide;
typedef pipeline::Out Result;
constexpr bool REALS = !FLCC_INTEGERS;
static int wrong = 0;

// Twenty are enough to see what is wrong.
#define FAIL(...) (std::printf(__VA_ARGS__), std::printf("\n"), ++wrong < 20 ? (void)0 : std::exit(1))

struct Panel {
  Wide sum, square, cross;
};
static Panel plain(Field& f, int tile, int z, int y, int x, const std::vector<Pixel>& taps) {
  Panel panel = {};
  for (int i = 0; i < (int)taps.size(); i++) {
    const Wide p = *f.at(tile, z + i / WIDTH / HEIGHT, y + i / WIDTH % HEIGHT, x + i % WIDTH);
    panel.sum += p, panel.square += p * p, panel.cross += p * (Wide)taps[i];
  }
  return panel;
}

// What a case has of its own: marks and scales; thresholds of doubt; what samples are multiplied by.
struct Rules {
  bool careful;
  double low, slope, amplitude;
};

static void check(const Case& c, const Rules& rules) {
  const bool careful = rules.careful;
  Field f(c);
  // Panels of zeros, of one other value, and of little contrast.
  for (int tile = 0; tile < c.tiles; tile++)
    for (int z = 0; z < f.planes; z++)
      for (int y = 0; y < f.rows; y++)
        for (int x = 0; x < f.columns; x++) {
          Pixel* sample = f.at(tile, z, y, x);
          if (x >= 40 && x < 90) *sample = y < f.rows / 2 ? 0 : (Pixel)(REALS && (x + y) % 2 ? 100.001 : 100);
          if (REALS) *sample *= (Pixel)rules.amplitude;
        }

  const int n = DEPTH * HEIGHT * WIDTH;
  std::vector<Pixel> taps(n);
  Wide sum = 0, square = 0;
  // The template is a part of the image, so that one score is 1 but for rounding.
  for (int i = 0; i < n; i++) taps[i] = *f.at(0, i / WIDTH / HEIGHT, i / WIDTH % HEIGHT, i % WIDTH);
  if (REALS) for (Pixel& tap : taps) tap /= (Pixel)rules.amplitude;
  if (REALS) {
    for (Pixel tap : taps) sum += tap;
    for (Pixel& tap : taps) tap -= (Pixel)(sum / n);
  }
  sum = 0;
  for (Pixel tap : taps) sum += tap, square += (Wide)tap * tap;
  std::memset(flcc_taps, 0, sizeof(flcc_taps));
  for (int r = 0; r < DEPTH * HEIGHT; r++)
    std::memcpy((Pixel*)flcc_taps + r * TAPS_STRIDE, &taps[r * WIDTH], WIDTH * sizeof(Pixel));

  pipeline::FlccConstants k = {};
  k.n = n;
  k.energy = (double)square;
  k.doubt[0] = rules.low, k.doubt[1] = rules.slope;
  k.exact_sum[0][0] = (long long)sum;
  k.exact_energy[0] = (long long)(n * square - sum * sum);
  pipeline::FlccLayout l = {};
  l.out_row = c.out[2] + 1, l.out_plane = c.out[1] * l.out_row, l.out_channel = l.out_tile = c.out[0] * l.out_plane + 3;
  l.channels = 1, l.tiles = c.tiles;
  std::copy_n(c.out, 3, l.out_shape);
  // Of every tile all but its first column and last row are asked for; tiles lie behind each other.
  pipeline::FlccResult r = {};
  r.stride[2] = 1, r.stride[1] = c.out[2], r.stride[0] = c.out[1] * c.out[2];
  r.image_stride = c.out[0] * r.stride[0] + 7;
  std::vector<pipeline::FlccTile> tiles(c.tiles);
  const int from = c.out[2] > 1, last = c.out[1] - (c.out[1] > 1);
  for (int tile = 0; tile < c.tiles; tile++) {
    pipeline::FlccTile& t = tiles[tile];
    t.image = tile;
    for (int axis = 0; axis < 3; axis++) t.keep_to[axis] = c.out[axis];
    t.keep_from[2] = from, t.keep_to[1] = last;
  }
  std::vector<pipeline::u8> hits(c.tiles * l.out_channel);
  std::vector<unsigned> marked(c.tiles), doubtful(c.tiles * l.out_channel, 0xdeadbeef);
  std::vector<double> scale(c.tiles, 1.0);
  if (careful) {
    marked[0] = 1;
    for (size_t i = 0; i < hits.size(); i++) hits[i] = random_below(5) == 0;
    scale[c.tiles - 1] = 0.5;
  }
  unsigned count = 0;
  const int guard = 64;
  const Result untouched = (Result)-7;
  std::vector<Result> results(c.tiles * r.image_stride + 2 * guard, untouched);
  launch(f.grid(c), {BLOCK_W, BLOCK_H, 1}, [&] {
    pipeline::flcc_zncc(f.samples, f.g, k, l, tiles.data(), careful ? marked.data() : nullptr,
        careful ? hits.data() : nullptr, careful ? scale.data() : nullptr, results.data() + guard, r,
        doubtful.data(), &count);
  });

  std::vector<bool> listed(c.tiles * l.out_channel), written(results.size());
  if (FLCC_INTEGERS && count > 0) FAIL("%u integers are in doubt", count);
  for (unsigned i = 0; i < count; i++) listed[doubtful[i]] = true;
  for (int tile = 0; tile < c.tiles; tile++)
    for (int z = 0; z < c.out[0]; z++)
      for (int y = 0; y < last; y++)
        for (int x = from; x < c.out[2]; x++) {
          const long long place = guard + tile * r.image_stride + z * r.stride[0] + y * r.stride[1] + x - from;
          const long long at = tile * l.out_channel + z * l.out_plane + y * l.out_row + x;
          const Panel p = plain(f, tile, z, y, x, taps);
          const double got = results[place];
          written[place] = true;
          if (careful && marked[tile] && hits[at]) {
            if (!std::isnan(got) || listed[at]) FAIL("tile %d (%d, %d, %d): a marked panel is %g", tile, z, y, x, got);
            continue;
          }
#if FLCC_INTEGERS
          const Wide energy = n * p.square - p.sum * p.sum, cross = n * p.cross - p.sum * sum;
          const double root = std::sqrt((double)energy) * std::sqrt((double)(n * square - sum * sum));
          const double expected = energy == 0 ? 0 : (Result)std::min(1.0, std::max(-1.0, (double)cross / root));
          if (got != expected) FAIL("tile %d (%d, %d, %d): expected %.17g got %.17g", tile, z, y, x, expected, got);
#else
          const bool scaled = careful && scale[tile] != 1;
          const Wide limit = k.doubt[0] + k.doubt[1] * p.square;
          const Wide energy = p.square - p.sum * p.sum / n;
          const bool faint = energy <= limit * (1 + 1e-9), clear = energy >= limit * (1 - 1e-9), zeros = p.square == 0;
          const bool constant = zeros && FLCC_PIXEL != FLCC_F64 && !scaled;
          if (listed[at] ? constant || !faint : !constant && !clear)
            FAIL("tile %d (%d, %d, %d): doubt %d", tile, z, y, x, (int)listed[at]);
          const double expected =
              constant ? 0 : std::min(1.0, std::max(-1.0, (double)(p.cross / std::sqrt(energy * square))));
// What cancels in the energy is lost in f64, what cancels in the cross term in its own type.
          const double shaky = constant ? 1 : (double)(p.square / energy);
          const double error = (FLCC_REAL == FLCC_F32 ? 1e-6 * std::sqrt(shaky) : 0) + 4e-15 * shaky + 1e-14;
          if (!listed[at] && !(std::fabs(got - expected) <= error && std::fabs(got) <= 1))
            FAIL("tile %d (%d, %d, %d): expected %.17g got %.17g", tile, z, y, x, expected, got);
#endif
        }
  for (size_t i = 0; i < results.size(); i++)
    if (!written[i] && results[i] != untouched) FAIL("element %ld is written", (long)i - guard);
}

int main() {
  // One output; some outputs beyond a block, in a batch.
  const bool flat = HEIGHT == 1 && DEPTH == 1;
  const Case one = {{DEPTH, HEIGHT, WIDTH}, {1, 1, 1}, 1, 0};
  const Case more = {{DEPTH, HEIGHT, WIDTH}, {DEPTH > 1 ? 2 : 1, flat ? 1 : TILE_H + 3, TILE_W + 5}, 2, 3};
  const Rules plain_rules = {false, 1e-9, 1e-3, 1};
  check(one, plain_rules);
  check(more, plain_rules);
  if (REALS) {
    check(more, {true, 1e-9, 1e-3, 1});
    // Nothing but what is faint is in doubt; then everything is.
    const double faint = FLCC_REAL == FLCC_F32 ? 1e-36 : 1e-280;
    check(more, {false, faint, 0, FLCC_REAL == FLCC_F32 ? 1e-16 : 1e-138});
    check(more, {true, faint, 0, FLCC_REAL == FLCC_F32 ? 1e-25 : 1e-145});
    check(more, {false, INFINITY, 1e-3, 1});
  }
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
