// Magnitudes that kernels from images to results tell of. Included after the kernel's source; the test defines
// FLCC_BOUNDARY.
#pragma once

// Calls `check` with magnitudes at both ends of what is ordinary, beyond them, and with nothing at all: the amplitude
// of all samples, a special one, and whether they are extraordinary.
template <typename Check>
static void at_the_ends(Check check) {
  const double reach = std::ldexp(1.0, REACH);
  check(1, reach, false), check(1, 1.01 * reach, true), check(1, NAN, true), check(1, -INFINITY, true);
  check(0, 0, false), check(0, 2 / reach, false);
  // Nothing but faint samples. Beside the fill value they are not alone.
  if (FLCC_BOUNDARY != FLCC_CONSTANT) check(1e-3 / reach, 0, true);
}
