// Stands in front of each CUDA source that is compiled for the emulated device, and is compiled once ahead of them: the
// functions of CUDA, as the tests of single kernels have them, and how kernels are called by the addresses of their
// arguments.
#pragma once
#include "shim.h"

#include "module.h"

namespace emulated {
template <class... Types, size_t... At>
static std::function<void()> bound(void (*kernel)(Types...), void** arguments, std::index_sequence<At...>) {
  std::tuple<std::remove_cv_t<Types>...> values(*(const std::remove_cv_t<Types>*)arguments[At]...);
  return [kernel, values] { std::apply(kernel, values); };
}
template <class... Types>
static std::function<void()> bind(void (*kernel)(Types...), void** arguments) {
  return bound(kernel, arguments, std::index_sequence_for<Types...>());
}

static void run(const std::function<void()>& kernel, const unsigned grid[3], const unsigned block[3],
                size_t dynamic_bytes, bool (*is_readable)(const char* at, int bytes)) {
  readable = is_readable;
  flcc_dynamic_bytes = dynamic_bytes;
  unsigned char* behind = flcc_dynamic + dynamic_bytes;
  const size_t rest = std::min(sizeof(flcc_dynamic) - dynamic_bytes, (size_t)4096);
  std::memset(behind, 0x5a, rest);
  launch({grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, kernel);
  fibres::body = nullptr;
  if (std::any_of(behind, behind + rest, [](unsigned char byte) { return byte != 0x5a; }))
    give_up("bytes behind the shared memory of a block were written");
}
}  // namespace emulated
