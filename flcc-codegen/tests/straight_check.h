// Compares the kernel from the image to the result with the source's own kernel on gathered samples: every bit must
// agree. Included after a listed source in floats and what follows it; the test defines KERNEL, TAPS_STRIDE and
// FLCC_BOUNDARY.
#include "folded.h"
#include "samples.h"

// An image, how its samples lie, and what is done to one of them.
struct Picture {
  int lengths[3], origin[3];
  int step;           // between neighbours of a row; what lies between is nobody's
  double amplitude;   // of all samples
  double special;     // one sample, if it is not 0
  bool extraordinary;
  int before;         // columns of the first blocks before the first output
  int last = 0;       // where the special sample lies in its row, from the end; 0: in the middle
  int row = -1;       // its row; -1: the middle one
};

static void check(const Case& c, const Picture& p) {
  straight::FlccImage im = {};
  for (int axis = 0; axis < 3; axis++) im.lengths[axis] = p.lengths[axis];
  // Rows that begin at a multiple of a piece are read in pieces.
  im.stride[2] = p.step;
  im.stride[1] = p.before > 0 ? round_up(p.lengths[2] * p.step, 4) : p.lengths[2] * p.step + 2;
  im.stride[0] = im.stride[1] * (p.lengths[1] + 1);
  im.image_stride = im.stride[0] * p.lengths[0] + 5;
  im.channels = 1, im.fill = 2.5;
  if (p.before > 0) im.image_stride = round_up((int)im.image_stride, 4);
  std::vector<Pixel> image(c.tiles * im.image_stride + 4, poison());
  const int align = (int)(-(intptr_t)image.data() & 15) / (int)sizeof(Pixel);
  const auto at = [&](int number, int z, int y, int x) -> Pixel& {
    return image[align + number * im.image_stride + z * im.stride[0] + y * im.stride[1] + x * im.stride[2]];
  };
  for (int number = 0; number < c.tiles; number++)
    for (int z = 0; z < p.lengths[0]; z++)
      for (int y = 0; y < p.lengths[1]; y++)
        for (int x = 0; x < p.lengths[2]; x++) at(number, z, y, x) = random_pixel() * (Pixel)p.amplitude;
  if (p.special != 0) {
    const int row = p.row >= 0 ? p.row : p.lengths[1] / 2;
    const int column = p.last > 0 ? p.lengths[2] - p.last : p.lengths[2] / 2;
    at(c.tiles - 1, p.lengths[0] / 2, row, column) = (Pixel)p.special;
  }

  Field f(c);
  for (int number = 0; number < c.tiles; number++)
    for (int z = 0; z < f.planes; z++)
      for (int y = 0; y < f.rows; y++)
        for (int x = 0; x < f.columns; x++) {
          const int fz = folded(z + p.origin[0], p.lengths[0]), fy = folded(y + p.origin[1], p.lengths[1]),
                    fx = folded(x + p.origin[2], p.lengths[2]);
          *f.at(number, z, y, x) = fz < 0 || fy < 0 || fx < 0 ? (Pixel)(FLCC_BOUNDARY == FLCC_CONSTANT ? im.fill : 0)
                                                              : at(number, fz, fy, fx);
        }
  std::memset(flcc_taps, 0, sizeof(flcc_taps));
  for (int r = 0; r < DEPTH * HEIGHT; r++)
    for (int j = 0; j < WIDTH; j++) ((Pixel*)flcc_taps)[r * TAPS_STRIDE + j] = random_pixel();

  const Index3 block = {BLOCK_W, BLOCK_H, 1};
  const int guard = 64;
  std::vector<Out> own((size_t)(c.tiles * f.g.out_tile) + 2 * guard, (Out)NAN), got = own;
  launch(f.grid(c), block, [&] { KERNEL(f.samples, own.data() + guard, f.g); });
  for (double factor : {1.0, 0.25}) {
    unsigned extraordinary = 0;
    got.assign(got.size(), (Out)NAN);
    Index3 grid = f.grid(c);
    grid.x = round_up(c.out[2] + p.before, TILE_W) / TILE_W;
    grid.y = round_up(c.out[1], straight::OWN_TILE_H) / straight::OWN_TILE_H;
    launch(grid, {BLOCK_W, straight::OWN_ROWS, 1}, [&] {
      flcc_straight(image.data() + align, im, got.data() + guard, f.g, p.origin[0], p.origin[1],
          p.origin[2] - p.before, p.before, factor, &extraordinary);
    });
    if (extraordinary != p.extraordinary)
      FAIL("amplitude %g, special %g: extraordinary %u", p.amplitude, p.special, extraordinary);
    if (p.extraordinary) continue;
    for (size_t i = 0; i < got.size(); i++) {
      const Out expected = own[i] * (Out)factor;
      if (std::isnan(expected) ? !std::isnan(got[i]) : std::memcmp(&expected, &got[i], sizeof(Out)) != 0)
        FAIL("image %dx%dx%d from %d,%d,%d step %d boundary %d: element %ld: expected %.17g got %.17g", p.lengths[0],
            p.lengths[1], p.lengths[2], p.origin[0], p.origin[1], p.origin[2], p.step, FLCC_BOUNDARY, (long)i - guard,
            (double)expected, (double)got[i]);
    }
  }
}

int main() {
  const bool flat = HEIGHT == 1 && DEPTH == 1, volume = DEPTH != 1;
  const int rows = flat ? 1 : 2 * TILE_H + 3, columns = 2 * TILE_W + 37, planes = volume ? 3 : 1;
  // Whole blocks inside, and blocks that reach beyond each side.
  const Case full = {{DEPTH, HEIGHT, WIDTH}, {planes + DEPTH - 1, rows + HEIGHT - 1, columns + WIDTH - 1}, 2, 1};
  const Case tiny = {{DEPTH, HEIGHT, WIDTH}, {DEPTH, HEIGHT, WIDTH}, 1, 0};
  const Picture plain = {{planes, rows, columns}, {1 - DEPTH, 1 - HEIGHT, 1 - WIDTH}, 1, 1, 0, false, 0};
  check(full, plain);
  Picture other = plain;
  other.step = 3;
  check(full, other);
  other = plain;
  other.before = (4 + (1 - WIDTH) % 4) % 4 + 4 * (WIDTH % 4 == 1);
  check(full, other);
  other.step = 3;
  check(full, other);
  other = {{1, 1, 1}, {1 - DEPTH, 1 - HEIGHT, 1 - WIDTH}, 1, 1, 0, false, 0};
  check(tiny, other);
  // Magnitudes at both ends of what is ordinary, beyond them, and nothing at all.
  const double reach = std::ldexp(1.0, straight::REACH);
  const bool constant = FLCC_BOUNDARY == FLCC_CONSTANT;
  for (const auto& [amplitude, special, extraordinary] : {std::tuple<double, double, bool>{1, reach, false},
           {1, 1.01 * reach, true}, {1, NAN, true}, {1, -INFINITY, true}, {0, 0, false}, {0, 2 / reach, false}}) {
    other = plain;
    other.amplitude = amplitude, other.special = special, other.extraordinary = extraordinary;
    check(full, other);
  }
  // The last sample that the only block meets in a row, read in whole pieces, in the first row and in the last.
  for (int row : {0, TILE_H + HEIGHT - 2}) {
    other = {{DEPTH, TILE_H + HEIGHT - 1, straight::COLUMNS}, {0, 0, 4}, 1, 1, 1.01 * reach, true, 4,
        straight::COLUMNS - TILE_W - WIDTH + 2, row};
    check({{DEPTH, HEIGHT, WIDTH}, {1, TILE_H, TILE_W - 4}, 1, 0}, other);
  }
  // A sample of the last row that the first block of three meets.
  other = {{DEPTH, TILE_H + HEIGHT - 1, 3 * TILE_W + straight::COLUMNS}, {0, 0, 4}, 1, 1, 1.01 * reach, true, 4,
      5 * TILE_W / 2 + straight::COLUMNS, TILE_H + HEIGHT - 2};
  check({{DEPTH, HEIGHT, WIDTH}, {1, TILE_H, 3 * TILE_W - 4}, 1, 0}, other);
  // A block of nothing but faint samples; beside the fill value they are not alone.
  other = plain;
  other.amplitude = 1e-3 / reach, other.extraordinary = true;
  if (!constant) check(full, other);
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
