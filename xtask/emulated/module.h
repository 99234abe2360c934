// What compiled sources and the emulated driver know of each other: the one symbol that a module exports.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulated {
// A kernel: its arguments are taken when it is launched, and it runs when its stream comes to it.
struct Kernel {
  const char* name;
  std::function<void()> (*bind)(void** arguments);
};

// A variable in constant memory.
struct Variable {
  const char* name;
  void* at;
  size_t bytes;
};

struct Module {
  const Kernel* kernels;
  size_t kernel_count;
  const Variable* variables;
  size_t variable_count;
  size_t shared_bytes;  // of a block, as the source declares them
  // Runs a kernel on a grid of blocks; one launch of a module at a time. `readable` tells whether bytes lie in memory
  // of the device.
  void (*run)(const std::function<void()>& kernel, const unsigned grid[3], const unsigned block[3],
              size_t dynamic_bytes, bool (*readable)(const char* at, int bytes));
};

// What machine code begins with; a shared object of so many bytes follows.
struct Header {
  char magic[8];
  uint64_t bytes;
};
constexpr char MAGIC[] = "FLCCEMU";
}  // namespace emulated
