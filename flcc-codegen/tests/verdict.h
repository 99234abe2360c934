// What is wrong, and random numbers that are the same every time.
#pragma once

inline int wrong = 0;

// Twenty are enough to see what is wrong, and one where the question is whether something is.
#ifndef MOST_WRONG
#define MOST_WRONG 20
#endif
#define FAIL(...) (std::printf(__VA_ARGS__), std::printf("\n"), ++wrong < MOST_WRONG ? (void)0 : std::exit(1))

inline unsigned state = 12345;
static unsigned random_bits() {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}
static unsigned random_below(unsigned n) { return random_bits() % n; }

// From -1 to 1.
static double random_unit() { return random_bits() / 8388608.0 - 1; }
