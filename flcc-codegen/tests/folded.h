// A slow twin of fold. The test defines FLCC_BOUNDARY.
#pragma once

// Where sample i of n is, one step at a time; -1: outside.
static int folded(int i, int n) {
  while (i < 0 || i >= n) {
    switch (FLCC_BOUNDARY) {
      case FLCC_REPLICATE: i = i < 0 ? 0 : n - 1; break;
      case FLCC_REFLECT: i = i < 0 ? -1 - i : 2 * n - 1 - i; break;
      case FLCC_MIRROR: i = n == 1 ? 0 : i < 0 ? -i : 2 * n - 2 - i; break;
      case FLCC_WRAP: i = i < 0 ? i + n : i - n; break;
      default: return -1;
    }
  }
  return i;
}
