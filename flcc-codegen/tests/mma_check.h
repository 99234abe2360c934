// Compares scores of bytes on tensor cores, from the image on, with exact integers: every bit must agree. Included
// after the kernel's source; the test defines KERNEL, FLCC_BOUNDARY, FLCC_TH and FLCC_TW.
#include "folded.h"

static int wrong = 0;
#define FAIL(...) (wrong++ < 5 ? (void)(std::printf(__VA_ARGS__), std::printf("\n")) : (void)0)

static unsigned state = 12345;
static unsigned random_below(unsigned n) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % n;
}

// What an image, and a template, is made of.
enum Kind { RANDOM, SATURATED, FEW, BOARD, LONE, BRIGHT, PARTS, KINDS_OF_BYTES };
static unsigned char byte_of(int kind, int y, int x) {
  switch (kind) {
    case RANDOM: return (unsigned char)random_below(256);
    case SATURATED: return random_below(2) ? 255 : 0;
    case FEW: return (unsigned char)(250 + random_below(6));
    case BOARD: return (x + y) % 2 ? 255 : 0;
    case LONE: return y % 61 == 7 && x % 67 == 11 ? 201 : 200;  // one pixel of a window differs, or none
    case BRIGHT: return 255;
    default: return (unsigned char)(x >= 40 && x < 120 ? y < 30 ? 0 : 255 : random_below(256));
  }
}

struct Picture {
  int lengths[2];  // of an image
  int origin[2], out[2];
  int step;    // between neighbours of a row
  bool whole;  // rows begin at multiples of a piece
  int kind, of_template;
};

static void check(const Picture& p) {
  constexpr int IMAGES = 2, GUARD = 64, TAPS = HEIGHT * WIDTH;
  typedef long long Wide;
  pipeline::FlccImage im = {};
  im.lengths[0] = 1, im.lengths[1] = p.lengths[0], im.lengths[2] = p.lengths[1];
  im.stride[2] = p.step, im.stride[1] = p.whole ? (p.lengths[1] + 3) / 4 * 4 : p.lengths[1] * p.step + 3;
  im.stride[0] = im.stride[1] * p.lengths[0], im.image_stride = (im.stride[0] + 7) / 4 * 4;
  im.channels = 1, im.fill = 7;
  std::vector<Pixel> image(IMAGES * im.image_stride + 16, 99);
  const Pixel* first = image.data() + (-(intptr_t)image.data() & 15);
  const auto at = [&](int number, int y, int x) -> Pixel& {
    return const_cast<Pixel*>(first)[number * im.image_stride + y * im.stride[1] + x * p.step];
  };
  for (int number = 0; number < IMAGES; number++)
    for (int y = 0; y < p.lengths[0]; y++)
      for (int x = 0; x < p.lengths[1]; x++) at(number, y, x) = byte_of(p.kind, y, x);
  const auto sample = [&](int number, int y, int x) -> Wide {
    const int fy = folded(y + p.origin[0], p.lengths[0]), fx = folded(x + p.origin[1], p.lengths[1]);
    return fy < 0 || fx < 0 ? FLCC_BOUNDARY == FLCC_CONSTANT ? (Wide)im.fill : 0 : at(number, fy, fx);
  };
  std::vector<Pixel> taps(TAPS);
  for (int i = 0; i < TAPS; i++) taps[i] = byte_of(p.of_template, i / WIDTH, i % WIDTH);
  // A constant template has no scores.
  if (std::all_of(taps.begin(), taps.end(), [&](Pixel tap) { return tap == taps[0]; })) taps[TAPS / 2] ^= 1;
  Wide sum = 0, square = 0;
  for (Pixel tap : taps) sum += tap, square += (Wide)tap * tap;

  // As flcc-runtime's cuda/tensor.rs makes it, at a multiple of 16 bytes.
  std::vector<unsigned> room(pipeline::TABLE + 8);
  unsigned* table = room.data() + (-(intptr_t)room.data() & 15) / 4;
  for (int i = 0; i < pipeline::TABLE; i++) {
    const int row = i / pipeline::LINE, copy = i / pipeline::APART % 4, word = i % pipeline::APART;
    unsigned bytes = 0;
    for (int b = 0; b < 4; b++) {
      const int column = 4 * (word - 4) + copy + b;
      if (column < 0 || column >= WIDTH || row == HEIGHT) continue;
      bytes |= (row > HEIGHT ? 1u : taps[row * WIDTH + column]) << 8 * b;
    }
    table[i] = bytes;
  }
  readable = [&](const char* from, int bytes) {
    const auto within = [&](const void* begin, size_t count) {
      return from >= (const char*)begin && from + bytes <= (const char*)begin + count;
    };
    return within(table, sizeof(unsigned) * pipeline::TABLE) || within(first, IMAGES * im.image_stride);
  };

  pipeline::FlccConstants k = {};
  k.n = TAPS;
  k.exact_sum[0][0] = sum, k.exact_energy[0] = TAPS * square - sum * sum;
  // Of every tile all but its first column and last row are asked for.
  const int from = p.out[1] > 1, last = p.out[0] - (p.out[0] > 1);
  pipeline::FlccResult r = {};
  r.stride[2] = 1, r.stride[1] = p.out[1] + 3, r.image_stride = r.stride[1] * p.out[0] + 7;
  std::vector<pipeline::FlccTile> tiles(IMAGES);
  for (int number = 0; number < IMAGES; number++) {
    pipeline::FlccTile& tile = tiles[number];
    tile.image = number;
    for (int axis = 1; axis < 3; axis++)
      tile.begin[axis] = p.origin[axis - 1], tile.shape[axis] = tile.keep_to[axis] = p.out[axis - 1];
    tile.shape[0] = tile.keep_to[0] = 1, tile.keep_from[2] = from, tile.keep_to[1] = last;
  }
  const float untouched = -7;
  std::vector<float> got(IMAGES * r.image_stride + 2 * GUARD, untouched);
  std::vector<bool> written(got.size());
  const double norm = 1 / std::sqrt((double)k.exact_energy[0]);
  const Index3 grid = {
      (unsigned)(p.out[1] + 3 + TILE_W - 1) / TILE_W, (unsigned)(p.out[0] + TILE_H - 1) / TILE_H, IMAGES};
  launch(grid, {BLOCK_W, BLOCK_H, 1}, [&] {
    pipeline::KERNEL(first, im, k, tiles.data(), norm, table, got.data() + GUARD, r);
  });

  for (size_t i = 4 * pipeline::SHARED_WORDS; i < sizeof(flcc_dynamic); i++)
    if (flcc_dynamic[i] != 0xff) FAIL("byte %zu of shared memory, behind the last, was written", i);
  for (int number = 0; number < IMAGES; number++)
    for (int y = 0; y < last; y++)
      for (int x = from; x < p.out[1]; x++) {
        struct {
          Wide sum, square, cross;
        } of = {};
        for (int i = 0; i < TAPS; i++) {
          const Wide value = sample(number, y + i / WIDTH, x + i % WIDTH);
          of.sum += value, of.square += value * value, of.cross += value * taps[i];
        }
        const Wide energy = TAPS * of.square - of.sum * of.sum, cross = TAPS * of.cross - of.sum * sum;
        const double root = std::sqrt((double)energy) * std::sqrt((double)k.exact_energy[0]);
        const float expected = energy == 0 ? 0 : (float)std::min(1.0, std::max(-1.0, (double)cross / root));
        const long long place = GUARD + number * r.image_stride + y * r.stride[1] + x - from;
        written[place] = true;
        if (got[place] != expected)
          FAIL("image %d (%d, %d): expected %.9g got %.9g", number, y, x, expected, got[place]);
      }
  for (size_t i = 0; i < got.size(); i++)
    if (!written[i] && got[i] != untouched) FAIL("element %ld is written", (long)i - GUARD);
}

int main() {
  // Whole blocks inside, and blocks that reach beyond each side.
  const int h = 2 * TILE_H + 5, w = TILE_W + 67;
  const Picture full = {{h, w}, {1 - HEIGHT, 1 - WIDTH}, {h + HEIGHT - 1, w + WIDTH - 1}, 1, true, RANDOM, RANDOM};
  check(full);
  Picture other = full;
  other.step = 2, other.whole = false;
  check(other);
  // All samples inside, blocks whose first columns are no outputs, one output, and an image below a template.
  for (int column : {0, 1, 3})
    check({{h + HEIGHT, w + WIDTH + 300}, {2, column + 5}, {h - 9, w + 200}, 1, true, PARTS, RANDOM});
  check({{HEIGHT, WIDTH}, {0, 0}, {1, 1}, 1, false, RANDOM, RANDOM});
  check({{3, 2}, {1 - HEIGHT, 1 - WIDTH}, {HEIGHT + 2, WIDTH + 1}, 1, false, RANDOM, RANDOM});
  for (int kind = SATURATED; kind < KINDS_OF_BYTES; kind++)
    for (int of_template : {(int)RANDOM, (int)SATURATED, (int)FEW, (int)BRIGHT})
      check({{41, 150}, {1 - HEIGHT, 2 - WIDTH}, {HEIGHT + 12, WIDTH + 70}, 1, false, kind, of_template});
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
