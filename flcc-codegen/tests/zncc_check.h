// Compares the scores of a listed size with plain loops over the image. Included after its two sources; the test
// defines TAPS_STRIDE, FLCC_BOUNDARY and WIDE_ROUNDOFF, what sums of windows round.
#include "folded.h"
#include "samples.h"

// Wider than what is checked, and no wider: long doubles take four times as long.
#if FLCC_REAL == FLCC_F64 || FLCC_PIXEL == FLCC_U16
typedef long double Wide;
#else
typedef double Wide;
#endif
typedef pipeline::Out Result;
typedef pipeline::Pixel Raw;
constexpr bool REALS = !FLCC_INTEGERS;

// An image, how its samples lie, what is done to them, and what makes a panel doubtful.
struct Picture {
  int lengths[3], origin[3];
  int step;          // between neighbours of a row; what lies between is nobody's
  bool whole;        // rows begin at multiples of a piece
  double amplitude;  // of all samples
  double special;    // one sample, if it is not 0
  double low, slope;
};

// Images and a tile each, with what of its outputs is asked for.
struct Scene {
  const Picture& p;
  std::vector<Raw> buffer;
  pipeline::FlccImage im = {};
  int align;

  explicit Scene(const Picture& p, int images) : p(p) {
    std::copy_n(p.lengths, 3, im.lengths);
    im.stride[2] = p.step;
    im.stride[1] = p.whole ? round_up(p.lengths[2], 4) : p.lengths[2] * p.step + 3;
    im.stride[0] = im.stride[1] * (p.lengths[1] + 1);
    im.image_stride = round_up((int)im.stride[0] * p.lengths[0] + 5, 4);
    im.channels = 1, im.fill = REALS ? 2.5 * p.amplitude : 7;
    buffer.assign(images * im.image_stride + 16, (Raw)poison());
    align = (int)(-(intptr_t)buffer.data() & 15) / (int)sizeof(Raw);
    for (int number = 0; number < images; number++)
      for (int z = 0; z < p.lengths[0]; z++)
        for (int y = 0; y < p.lengths[1]; y++)
          for (int x = 0; x < p.lengths[2]; x++) {
            // Panels of zeros, of one other value, and of little contrast.
            double value = (double)random_pixel();
            if (x >= 40 && x < 90) value = y < p.lengths[1] / 2 ? 0 : REALS && (x + y) % 2 ? 100.001 : 100;
            if (REALS && x >= 70 && x < 90 && value != 0) value = 100 + 0.3 * random_unit();
            at(number, z, y, x) = (Raw)(REALS ? value * p.amplitude : value);
          }
    if (p.special != 0) at(images - 1, p.lengths[0] / 2, p.lengths[1] / 2, p.lengths[2] / 2) = (Raw)p.special;
  }
  const Raw* first() const { return buffer.data() + align; }
  Raw& at(int number, int z, int y, int x) {
    return buffer[align + number * im.image_stride + z * im.stride[0] + y * im.stride[1] + x * im.stride[2]];
  }
  // The place of a sample in tile coordinates; false: outside.
  bool place(const int (&from)[3], int (&to)[3]) const {
    for (int axis = 0; axis < 3; axis++) to[axis] = folded(from[axis] + p.origin[axis], p.lengths[axis]);
    return to[0] >= 0 && to[1] >= 0 && to[2] >= 0;
  }
  double fill() const { return FLCC_BOUNDARY == FLCC_CONSTANT ? im.fill : 0; }
  // The offset of a block whose first sample and number of samples are given.
  double offset(int number, const int (&begin)[3], const int (&len)[3]) {
    std::vector<double> found;
    for (int t = 0; t < 27; t++) {
      const int part[3] = {t / 9, t / 3 % 3, t % 3};
      int from[3], to[3];
      for (int axis = 0; axis < 3; axis++) from[axis] = begin[axis] + len[axis] * (2 * part[axis] + 1) / 6;
      if (place(from, to) && std::isfinite((double)at(number, to[0], to[1], to[2])))
        found.push_back((double)at(number, to[0], to[1], to[2]));
    }
    std::sort(found.begin(), found.end());
    return found.empty() || !REALS ? 0 : found[found.size() / 2];
  }
  // A sample, in the type that is computed in.
  ::Pixel sample(int number, int z, int y, int x) {
    int to[3];
    return place({z, y, x}, to) ? (::Pixel)at(number, to[0], to[1], to[2]) : (::Pixel)fill();
  }
  // The samples under a block of outputs less an offset, row by row.
  std::vector<::Pixel> samples(int number, const int (&begin)[3], const int (&len)[3], double offset) {
    std::vector<::Pixel> found;
    for (int z = 0; z < len[0]; z++)
      for (int y = 0; y < len[1]; y++)
        for (int x = 0; x < len[2]; x++) {
          int to[3];
          found.push_back(!place({begin[0] + z, begin[1] + y, begin[2] + x}, to)
                              ? (::Pixel)(fill() - offset)
                              : (::Pixel)((::Pixel)at(number, to[0], to[1], to[2]) - (::Pixel)offset));
        }
    return found;
  }
};

static void check(const Case& c, const Picture& p) {
  Scene scene(p, c.tiles);
  const int n = DEPTH * HEIGHT * WIDTH, before = p.origin[2] & 3;
  std::vector<::Pixel> taps(n);
  Wide sum = 0, square = 0;
  // The template is a part of the image, so that one score is 1 but for rounding.
  for (int i = 0; i < n; i++) {
    const int z = i / WIDTH / HEIGHT, y = i / WIDTH % HEIGHT, x = i % WIDTH;
    taps[i] = scene.sample(0, z + DEPTH - 1, y + HEIGHT - 1, x + WIDTH - 1);
  }
  if (REALS) {
    for (::Pixel& tap : taps) tap /= (::Pixel)p.amplitude, sum += tap;
    for (::Pixel& tap : taps) tap -= (::Pixel)(sum / n);
  }
  // A constant template has no scores.
  if (n > 1 && std::all_of(taps.begin(), taps.end(), [&](::Pixel tap) { return tap == taps[0]; })) taps[0] += 1;
  sum = 0;
  for (::Pixel tap : taps) sum += tap, square += (Wide)tap * tap;
  std::memset(flcc_taps, 0, sizeof(flcc_taps));
  for (int r = 0; r < DEPTH * HEIGHT; r++)
    std::memcpy((::Pixel*)flcc_taps + r * TAPS_STRIDE, &taps[r * WIDTH], WIDTH * sizeof(::Pixel));

  pipeline::FlccConstants k = {};
  k.n = n;
  k.energy = (double)square;
  k.doubt[0] = p.low, k.doubt[1] = p.slope;
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
    for (int axis = 0; axis < 3; axis++) t.keep_to[axis] = t.shape[axis] = c.out[axis], t.begin[axis] = p.origin[axis];
    t.keep_from[2] = from, t.keep_to[1] = last;
  }
  std::vector<unsigned> doubtful(c.tiles * l.out_channel, 0xdeadbeef);
  unsigned count = 0;
  const int guard = 64;
  const Result untouched = (Result)-7;
  std::vector<Result> results(c.tiles * r.image_stride + 2 * guard, untouched);
  const Index3 grid = {(unsigned)round_up(c.out[2] + 3, TILE_W) / TILE_W, (unsigned)round_up(c.out[1], TILE_H) / TILE_H,
      (unsigned)(c.tiles * c.out[0])};
  const double norm = 1 / std::sqrt(REALS ? (double)square : (double)k.exact_energy[0]);
  launch(grid, {BLOCK_W, BLOCK_H, 1}, [&] {
    pipeline::flcc_zncc(scene.first(), scene.im, k, l, tiles.data(), 1.0 / n, norm, results.data() + guard, r,
        doubtful.data(), &count);
  });

  std::vector<bool> listed(c.tiles * l.out_channel), written(results.size());
  if (FLCC_INTEGERS && count > 0) FAIL("%u integers are in doubt", count);
  for (unsigned i = 0; i < count; i++) listed[doubtful[i]] = true;
  for (int tile = 0; tile < c.tiles; tile++)
    for (int z = 0; z < c.out[0]; z++)
      for (int top = 0; top < c.out[1]; top += TILE_H)
        for (int left = -before; left < c.out[2]; left += TILE_W) {
          const int len[3] = {DEPTH, std::min(TILE_H, c.out[1] - top) + HEIGHT - 1,
              std::min(TILE_W, c.out[2] - left) + WIDTH - 1};
          const double offset = scene.offset(tile, {z, top, left}, len);
          const std::vector<::Pixel> samples = scene.samples(tile, {z, top, left}, len, offset);
          for (int y = top; y < std::min(last, top + TILE_H); y++)
            for (int x = std::max(from, left); x < std::min(c.out[2], left + TILE_W); x++) {
              const long long place = guard + tile * r.image_stride + z * r.stride[0] + y * r.stride[1] + x - from;
              const long long at = tile * l.out_channel + z * l.out_plane + y * l.out_row + x;
              const double got = results[place];
              written[place] = true;
              struct {
                Wide sum, square, cross;
              } p = {};
              bool no_number = false;
              for (int r = 0; r < DEPTH * HEIGHT; r++) {
                const ::Pixel* row =
                    &samples[(r / HEIGHT * len[1] + y - top + r % HEIGHT) * len[2] + x - left];
                for (int j = 0; j < WIDTH; j++) {
                  const Wide value = row[j];
                  no_number = no_number || std::isnan(value);
                  p.sum += value, p.square += value * value, p.cross += value * (Wide)taps[r * WIDTH + j];
                }
              }
#if FLCC_INTEGERS
              const Wide energy = n * p.square - p.sum * p.sum, cross = n * p.cross - p.sum * sum;
              const double root = std::sqrt((double)energy) * std::sqrt((double)(n * square - sum * sum));
              const double expected = energy == 0 ? 0 : (Result)std::min(1.0, std::max(-1.0, (double)cross / root));
              if (got != expected)
                FAIL("tile %d (%d, %d, %d): expected %.17g got %.17g", tile, z, y, x, expected, got);
#else
              if (no_number) {
                if (!std::isnan(got) || listed[at])
                  FAIL("tile %d (%d, %d, %d): a panel with a NaN is %g", tile, z, y, x, got);
                continue;
              }
              // What may be too large for its type is in doubt whatever its energy.
              const Wide most = FLCC_REAL == FLCC_F32 ? 8.3e34 : 1e300;
              const Wide limit = p.square < most ? k.doubt[0] + k.doubt[1] * p.square : (Wide)INFINITY;
              const Wide energy = p.square - p.sum * p.sum / n;
              // In two floats thresholds are a bit higher, and what is lost of tiny squares is no part of them.
              const Wide more = pipeline::IN_TWO ? 3e-6 : 1e-9, less = pipeline::IN_TWO ? 1e-6 : 1e-9,
                         lost = pipeline::IN_TWO ? n * 0x1p-149 : 0;
              const bool faint = !(energy > limit * (1 + more) + lost), clear = energy >= limit * (1 - less) - lost,
                         constant = p.square == 0 && FLCC_PIXEL != FLCC_F64;
              // Beside samples that are too faint to be squared in f32 panels of nothing may be in doubt.
              const bool sure = constant && !(pipeline::IN_TWO && scene.p.amplitude < 1e-20);
              if (listed[at] ? sure || !faint : !constant && !clear)
                FAIL("tile %d (%d, %d, %d): doubt %d", tile, z, y, x, (int)listed[at]);
              const double expected =
                  constant ? 0 : std::min(1.0, std::max(-1.0, (double)(p.cross / std::sqrt(energy * square))));
              // What cancels in the energy is lost in f64, what cancels in the cross term in its own type.
              const double shaky = constant ? 1 : (double)(p.square / energy);
              // Equal products in f64 are rounded to the same side, each time by half a last place at most.
              const double cross = FLCC_REAL == FLCC_F32 ? 1e-6 : n * 0x1p-53;
              const double error = cross * std::sqrt(shaky) + 36 * WIDE_ROUNDOFF * shaky + 1e-14;
              if (!listed[at] && !(std::fabs(got - expected) <= error && std::fabs(got) <= 1))
                FAIL("tile %d (%d, %d, %d): expected %.17g got %.17g", tile, z, y, x, expected, got);
#endif
            }
        }
  for (size_t i = 0; i < results.size(); i++)
    if (!written[i] && results[i] != untouched) FAIL("element %ld is written", (long)i - guard);
}

int main() {
  const bool flat = HEIGHT == 1 && DEPTH == 1, volume = DEPTH != 1;
  const int rows = flat ? 1 : 2 * TILE_H + 3, columns = 2 * TILE_W + 37, planes = volume ? 3 : 1;
  // Whole blocks inside, and blocks that reach beyond each side.
  const Case full = {{DEPTH, HEIGHT, WIDTH}, {planes + DEPTH - 1, rows + HEIGHT - 1, columns + WIDTH - 1}, 2, 0};
  const Case one = {{DEPTH, HEIGHT, WIDTH}, {1, 1, 1}, 1, 0};
  const int all[3] = {1 - DEPTH, 1 - HEIGHT, 1 - WIDTH};
  const Picture whole = {{planes, rows, columns}, {all[0], all[1], all[2]}, 1, true, 1, 0, 1e-9, 1e-3};
  check(full, whole);
  check(one, {{DEPTH, HEIGHT, WIDTH}, {0, 0, 0}, 1, false, 1, 0, 1e-9, 1e-3});
  Picture other = whole;
  other.step = 3, other.whole = false;
  check(full, other);
  if (REALS) {
    // Energies that are little beside their squares are known too.
    other = whole;
    other.slope = 1e-7;
    check(full, other);
    const bool single = FLCC_REAL == FLCC_F32;
    for (double special : {(double)NAN, -(double)INFINITY, single ? 1e30 : 1e160}) {
      other = whole;
      other.special = special;
      check(full, other);
    }
    // Nothing but what is faint is in doubt; then everything is.
    const Case few = {{DEPTH, HEIGHT, WIDTH}, {1, flat ? 1 : TILE_H, TILE_W + 5}, 1, 0};
    const double faint = single ? 1e-36 : 1e-280;
    for (const auto& [low, slope, amplitude] : {std::tuple<double, double, double>{faint, 0, single ? 1e-16 : 1e-138},
             {faint, 0, single ? 1e-25 : 1e-145}, {INFINITY, 1e-3, 1}}) {
      other = whole;
      other.low = low, other.slope = slope, other.amplitude = amplitude;
      check(few, other);
    }
  }
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
