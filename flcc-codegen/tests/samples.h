// Random samples of a batch of tiles, between what must not be read. Included after the kernel's source.
#pragma once
#include "verdict.h"

constexpr bool FLOATS = std::is_floating_point<Pixel>::value;

// Floats, bytes, or integers of 16 bits that come as floats.
#if defined(FLCC_FUSED) && FLCC_INTEGERS
static Pixel random_pixel() { return (Pixel)random_below(FLOATS ? 65536 : 256); }
#else
static Pixel random_pixel() {
  return FLOATS ? (Pixel)((random_below(20001) - 10000.0) / 777) : (Pixel)random_below(256);
}
#endif
static int round_up(int value, int step) { return (value + step - 1) / step * step; }

// What must not be read holds a NaN, or 99 in bytes.
static Pixel poison() { return FLOATS ? (Pixel)NAN : (Pixel)99; }

struct Case {
  int size[3];  // of the template
  int out[3];
  int tiles, slack;  // slack: elements between rows, planes and tiles that are nobody's
};

// How the samples and the results of a case lie, and the samples.
struct Field {
  FlccCross g = {};
  int planes, rows, columns;
  std::vector<Pixel> buffer;
  Pixel* samples;

  explicit Field(const Case& c) {
    // The samples that the host promises: whole blocks, the template beyond them, and four columns.
    planes = c.out[0] + c.size[0] - 1, rows = round_up(c.out[1], TILE_H) + c.size[1] - 1;
    columns = round_up(c.out[2], TILE_W) + round_up(c.size[2] - 1, 4) + 4;
    g.in_row = round_up(columns, 16) + 16 * c.slack;
    g.in_plane = (rows + c.slack) * g.in_row;
    g.in_tile = (planes + c.slack) * g.in_plane;
    g.out_row = c.out[2] + c.slack;
    g.out_plane = (c.out[1] + c.slack) * g.out_row + c.slack;
    g.out_tile = (c.out[0] + c.slack) * g.out_plane + c.slack;
    for (int axis = 0; axis < 3; axis++) g.out_shape[axis] = c.out[axis];
    g.out_depth = c.out[0];

    buffer.assign((size_t)(c.tiles * g.in_tile) + 64, poison());
    samples = (Pixel*)(((uintptr_t)buffer.data() + 15) & ~(uintptr_t)15);
    for (int tile = 0; tile < c.tiles; tile++)
      for (int z = 0; z < planes; z++)
        for (int y = 0; y < rows; y++)
          for (int x = 0; x < columns; x++) *at(tile, z, y, x) = random_pixel();
    // Bytes are copied by 16, up to the end of a row's last 16.
    const int end = FLOATS ? columns : round_up(columns, 16), tiles = c.tiles;
    readable = [this, end, tiles](const char* from, int bytes) {
      const long long at = (const Pixel*)from - samples, in_tile = at % g.in_tile, in_plane = in_tile % g.in_plane;
      return at >= 0 && at / g.in_tile < tiles && in_tile / g.in_plane < planes && in_plane / g.in_row < rows &&
             in_plane % g.in_row + bytes / (long long)sizeof(Pixel) <= end;
    };
  }
  Pixel* at(int tile, int z, int y, int x) { return samples + tile * g.in_tile + z * g.in_plane + y * g.in_row + x; }
  // The blocks that cover the results.
  Index3 grid(const Case& c) const {
    return {(unsigned)(round_up(c.out[2], TILE_W) / TILE_W), (unsigned)(round_up(c.out[1], TILE_H) / TILE_H),
        (unsigned)(c.tiles * c.out[0])};
  }
};
