// The error model of pairs of tiles, or of stretches of signals. Included after `transformed`, the transform of as many
// numbers as a part has.
#pragma once
#include "ends.h"

#ifdef LARGE_TILES
constexpr double COPIES = 10;

// The largest sum of squares of a row.
static double strongest_row(const std::vector<Number>& all) {
  double most = 0;
  for (int y = 0; y < LENGTH; y++) {
    double squares = 0;
    for (int x = 0; x < LENGTH; x++) squares += std::norm(all[y * LENGTH + x]);
    most = std::max(most, squares);
  }
  return most;
}
#else
constexpr double COPIES = 5;
#endif

// What docs/numerics.md lets the results of two parts err by: 8 standard deviations, by the samples of both and the
// mean square of their results, and faint copies of the largest result and of waves that the template takes away. The
// template's values come as long as a part.
static double estimate(const std::vector<Number>& both, const std::vector<Number>& values, double largest) {
  const std::vector<Number> of_both = transformed(both), of_values = transformed(values);
  double norm = 0, squares = 0, all = 0, wave = 0, product = 0;
  for (const Number& value : values) norm += std::norm(value);
  for (const Number& value : both) squares += std::norm(value);
  all = squares;
  const double count = both.size(), u = std::ldexp(1.0, -24), copies = COPIES * u;
  for (size_t f = 0; f < both.size(); f++) {
    wave = std::max(wave, std::abs(of_values[f]));
    product += std::norm(of_both[f]) * std::norm(of_values[f]) / count;
  }
#ifdef LARGE_TILES
  // Half of what is rounded stays in its row, so the strongest counts.
  squares = (squares + LENGTH * strongest_row(both)) / 2;
  std::vector<Number> results(both.size());
  for (size_t f = 0; f < both.size(); f++) results[f] = of_both[f] * std::conj(of_values[f]) / count;
  // The way back is the way there of what lies the other way round.
  product = (product + LENGTH * strongest_row(transformed(results))) / 2;
#endif
  const double noise = 8 * 0.424661 * u * std::sqrt(std::log2(count) / 2);
  return std::hypot(noise * std::sqrt(norm * squares / count), noise * std::sqrt(product / count),
             copies * wave * std::sqrt(2 * all / count)) +
         copies * largest;
}

// The largest part of what is granted that results have erred by.
static double largest_share = 0;

// What the conventions grant results of so many products, over the norms of panel and template.
static double granted(size_t taps, double squares, double energy) {
  return (16 + std::sqrt((double)taps)) * std::ldexp(1.0, -24) * std::sqrt(squares * energy);
}
