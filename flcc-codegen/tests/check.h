// Compares a kernel, in one namespace per boundary, with a plain loop over integer-valued images: every sum is exact, so must be
// every result. Included after the namespaces; the test defines KERNEL, SIDE (0: any size), FLOATS, TAPS_STRIDE.
typedef zero::Pixel Pixel;
typedef zero::Geometry Geometry;

static unsigned state = 12345;
static unsigned random_below(unsigned n) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % n;
}
static Pixel random_pixel() { return FLOATS ? (Pixel)((int)random_below(17) - 8) : (Pixel)random_below(256); }

// The boundary rules written another way than in parts/load: one step at a time.
static int plain_fold(int boundary, int i, int n) {
  while (i < 0 || i >= n) {
    if (boundary <= 1) return -1;
    if (boundary == 2) i = i < 0 ? 0 : n - 1;
    if (boundary == 3) i = i < 0 ? -1 - i : 2 * n - 1 - i;
    if (boundary == 4) i = n == 1 ? 0 : (i < 0 ? -i : 2 * n - 2 - i);
    if (boundary == 5) i = i < 0 ? i + n : i - n;
  }
  return i;
}

struct Case {
  int image_h, image_w, pad;        // pad: elements behind each image row
  int template_h, template_w;
  int origin_y, origin_x, out_h, out_w;
  int grid_y, grid_x, images;
  bool nan;
};

template <class Kernel>
static int check(int boundary, Kernel kernel, const Case& c) {
  const float POISON = -12345.5f;
  const int fill = boundary == 1 ? 3 : 0, out_row = c.out_w + 3, guard = 40;
  // Behind each row of the image lie values that must not count. A quad's alignment is the buffer's.
  const int image_row = c.image_w + c.pad, image_size = c.image_h * image_row;
  std::vector<float> buffer((size_t)c.images * image_size + 8);
  Pixel* image = (Pixel*)((uintptr_t)(buffer.data() + 3) & ~(uintptr_t)15);
  for (int i = 0; i < c.images * image_size; i++) image[i] = i % image_row < c.image_w ? random_pixel() : (Pixel)99;
  if (c.nan) image[c.image_h / 2 * image_row + c.image_w / 2] = (Pixel)NAN;
  std::vector<Pixel> taps((size_t)c.template_h * c.template_w);
  for (Pixel& tap : taps) tap = random_pixel();
  std::vector<float> out((size_t)c.images * c.out_h * out_row + 2 * guard, POISON);

  Geometry g = {};
  g.image_stride_z = image_size;
  g.image_stride_y = image_row;
  g.out_stride_z = (long long)c.out_h * out_row;
  g.out_stride_y = out_row;
  g.image_height = c.image_h;
  g.image_width = c.image_w;
  g.out_height = c.out_h;
  g.out_width = c.out_w;
  g.origin_y = c.origin_y;
  g.origin_x = c.origin_x;
  g.grid_y = c.grid_y;
  g.grid_x = c.grid_x;
  g.fill = (float)fill;
  const unsigned grid_x = (c.out_w - c.grid_x + zero::TILE_W - 1) / zero::TILE_W, grid_y = (c.out_h - c.grid_y + zero::TILE_H - 1) / zero::TILE_H;
  kernel({grid_x, grid_y, (unsigned)c.images}, image, out.data() + guard, g, taps.data(), c.template_h, c.template_w);

  int wrong = 0;
  for (size_t i = 0; i < out.size(); i++) {
    const long at = (long)i - guard;
    const int z = at < 0 ? -1 : (int)(at / ((long)c.out_h * out_row)), y = (int)(at / out_row) % c.out_h, x = (int)(at % out_row);
    double expected = POISON;
    if (at >= 0 && z < c.images && x < c.out_w) {
      expected = 0;
      for (int r = 0; r < c.template_h; r++)
        for (int s = 0; s < c.template_w; s++) {
          const int iy = plain_fold(boundary, c.origin_y + y + r, c.image_h), ix = plain_fold(boundary, c.origin_x + x + s, c.image_w);
          const double pixel = iy < 0 || ix < 0 ? fill : (double)image[z * image_size + iy * image_row + ix];
          expected += pixel * (double)taps[(size_t)r * c.template_w + s];
        }
    }
    const bool same = std::isnan(expected) ? std::isnan(out[i]) : out[i] == (float)expected;
    if (!same && wrong++ < 3)
      std::printf("boundary %d image %dx%d+%d template %dx%d origin %d,%d grid %d,%d: at z %d y %d x %d expected %g got %g\n", boundary,
          c.image_h, c.image_w, c.pad, c.template_h, c.template_w, c.origin_y, c.origin_x, c.grid_y, c.grid_x, z, y, x, expected, out[i]);
  }
  return wrong;
}

static Case full(int h, int w, int pad, int th, int tw) { return {h, w, pad, th, tw, 1 - th, 1 - tw, h + th - 1, w + tw - 1, 0, 0, 1, false}; }

// Shapes with and without inner tiles, aligned and not, templates longer than the image, every extent, a batch, a NaN.
template <class Kernel>
static int check_all(int boundary, Kernel kernel) {
  int wrong = 0;
  const int sides[][2] = {{SIDE, SIDE}, {1, 1}, {3, 19}, {21, 5}};
  for (const auto& side : sides) {
    const int th = SIDE > 0 ? SIDE : side[0] > 0 ? side[0] : 17, tw = SIDE > 0 ? SIDE : side[1] > 0 ? side[1] : 33;
    wrong += check(boundary, kernel, full(5, 7, 2, th, tw));
    wrong += check(boundary, kernel, full(1, 1, 0, th, tw));
    Case same = full(33, 131, 5, th, tw);
    same.origin_y = -(th / 2), same.origin_x = -(tw / 2), same.out_h = 33, same.out_w = 131, same.images = 2;
    wrong += check(boundary, kernel, same);
    // An inner tile, copied whole: the grid begins where an image column is a multiple of 4.
    Case region = full(3 * 32 + 2 * th, 3 * 128 + 2 * tw, 0, th, tw);
    region.pad = (4 - region.image_w % 4) % 4;
    region.origin_y = 30, region.origin_x = 121, region.out_h = 40, region.out_w = 140, region.grid_y = -3, region.grid_x = -1;
    region.nan = FLOATS;
    wrong += check(boundary, kernel, region);
    // The same tile from an image whose rows are not aligned.
    region.pad += 1;
    wrong += check(boundary, kernel, region);
    if (SIDE > 0) break;
  }
  return wrong;
}

#if SIDE > 0
#define RUN(boundary, space)                                                                                            \
  check_all(boundary, [](Index3 grid, const Pixel* image, float* out, const Geometry& g, const Pixel* taps, int, int) { \
    std::memset(space::flcc_taps, 0, sizeof(space::flcc_taps));                                                         \
    for (int r = 0; r < SIDE; r++) std::memcpy((Pixel*)space::flcc_taps + r * TAPS_STRIDE, taps + r * SIDE, SIDE * sizeof(Pixel)); \
    space::Geometry copy;                                                                                               \
    std::memcpy(&copy, &g, sizeof(copy));                                                                               \
    launch(grid, {space::BLOCK_W, space::BLOCK_H, 1}, [=] { space::KERNEL(image, out, copy); });                        \
  })
#else
#define RUN(boundary, space)                                                                                                    \
  check_all(boundary, [](Index3 grid, const Pixel* image, float* out, const Geometry& g, const Pixel* taps, int th, int tw) {   \
    space::Geometry copy;                                                                                                       \
    std::memcpy(&copy, &g, sizeof(copy));                                                                                       \
    launch(grid, {space::BLOCK_W, space::BLOCK_H, 1}, [=] { space::KERNEL(image, out, copy, taps, tw, th, tw); });              \
  })
#endif

int main() {
  int wrong = RUN(0, zero) + RUN(1, constant) + RUN(2, replicate) + RUN(3, reflect) + RUN(4, mirror) + RUN(5, wrap);
  std::printf("%d wrong, %ld quads copied\n", wrong, copied_quads);
  return wrong == 0 && copied_quads > 0 ? 0 : 1;
}
