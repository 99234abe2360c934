// What is wrong, and random numbers that are the same every time.
#pragma once

inline int wrong = 0;

// Twenty are enough to see what is wrong.
#define FAIL(...) (std::printf(__VA_ARGS__), std::printf("\n"), ++wrong < 20 ? (void)0 : std::exit(1))

inline unsigned state = 12345;
static unsigned random_bits() {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}
static unsigned random_below(unsigned n) { return random_bits() % n; }

// From -1 to 1.
static double random_unit() { return random_bits() / 8388608.0 - 1; }
