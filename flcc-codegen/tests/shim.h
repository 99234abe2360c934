// Runs rendered CUDA sources on a CPU: blocks one after another, the threads of a block as fibres, for tests only.
//
// A fibre runs until its next barrier or its end, then the next one does. Odd blocks run their threads in reverse
// order, so that a barrier too few shows. Shared memory is all ones (as floats NaN) before each block. Each function of
// parts/ptx has its twin here. The emulated device of xtask/emulated runs its kernels by this file too.
#pragma once
#define FLCC_HOST 1
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __constant__ static
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// One block runs at a time, so static variables are its shared memory; the linker names both ends of their section. One
// byte of its own keeps the section where a source has no shared memory.
#define __shared__ static __attribute__((section("flcc_shared")))
extern "C" __attribute__((visibility("hidden"))) char __start_flcc_shared[], __stop_flcc_shared[];
static unsigned char flcc_one_byte __attribute__((section("flcc_shared"), used));

// Dynamic shared memory, as much as a block can have, and how much of it the blocks at hand do have.
static unsigned char flcc_dynamic[227 << 10] __attribute__((aligned(16)));
static size_t flcc_dynamic_bytes = sizeof(flcc_dynamic);

// Ends the program: a kernel did what no kernel may do.
[[noreturn]] static void give_up(const char* reason) {
  std::printf("%s\n", reason);
  std::fflush(stdout);
  std::_Exit(1);
}

struct Index3 {
  unsigned x, y, z;
};
static Index3 threadIdx, blockIdx, blockDim, gridDim;
using std::fabs;
using std::fma;
using std::max;
using std::min;
using std::signbit;
template <class T>
static inline T rsqrt(T value) {
  return 1 / std::sqrt(value);
}

// ---- fibres
namespace fibres {
constexpr size_t STACK = 72 * 1024;
// A fibre is made once, by ucontext; from then on jumps change stacks, which unlike swapcontext ask nothing of the
// system. They are the compiler's own, a few instructions each: what the C library's do beside is most of the time of
// a kernel with many barriers.
struct Place {
  void* words[5];
};
[[noreturn]] static __attribute__((noipa)) void jump(Place& to) { __builtin_longjmp(to.words, 1); }

struct Fibre {
  ucontext_t context;
  Place place;
  std::unique_ptr<char[]> stack;
  Index3 thread;
  bool started, done;
  unsigned votes, exchanges, barriers;  // that it took part in
};
static Place scheduler;
static std::vector<Fibre> all;
static size_t current;
static std::function<void()> body;
static size_t threads, ended;          // of the block; of these at their end
static size_t ended_in_warp[32];
static unsigned arrived, in_warp[32];  // at barriers of the block, and of each warp, all of them
static bool voted[3];  // what the votes at hand came to; the one after the next is cleared meanwhile

static __attribute__((noipa)) void back_to_scheduler() {
  if (__builtin_setjmp(all[current].place.words) == 0) jump(scheduler);
}

// Comes back when `count` threads have been at a barrier as often as this one, of which `seen` counts all arrivals.
// Ends the program if one of them has `left` the kernel before.
static void meet(unsigned& seen, unsigned often, size_t count, const size_t& left) {
  seen++;
  do {
    if (left > 0) give_up("threads left the kernel, others wait at a barrier");
    back_to_scheduler();
  } while (seen < often * count);
}
static void meet_block() { meet(arrived, ++all[current].barriers, threads, ended); }
static void meet_warp() {
  const size_t warp = current / 32;
  meet(in_warp[warp], ++all[current].exchanges, std::min<size_t>(32, threads - warp * 32), ended_in_warp[warp]);
}

// One thread of one block after another.
static void enter() {
  for (;;) {
    body();
    all[current].done = true;
    back_to_scheduler();
  }
}

static __attribute__((noipa)) void resume(Fibre& fibre) {
  if (__builtin_setjmp(scheduler.words) != 0) return;
  if (fibre.started) jump(fibre.place);
  fibre.started = true;
  setcontext(&fibre.context);
}

// Stacks end at different lines of the cache: at one offset of a page those of a block would drive each other out.
static void make(Fibre& fibre, size_t number) {
  fibre.stack.reset(new char[STACK]);
  fibre.started = false;
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = fibre.stack.get();
  fibre.context.uc_stack.ss_size = STACK - number % 32 * 256;
  fibre.context.uc_link = nullptr;
  makecontext(&fibre.context, enter, 0);
}

// Runs one block; ends the program if some threads wait at a barrier that others have left the kernel without.
static void run_block(Index3 block, bool reversed) {
  std::memset(__start_flcc_shared, 0xff, __stop_flcc_shared - __start_flcc_shared);
  std::memset(flcc_dynamic, 0xff, flcc_dynamic_bytes);
  const size_t count = (size_t)block.x * block.y * block.z;
  if (all.size() < count) {
    all = std::vector<Fibre>(count);
    for (size_t i = 0; i < count; i++) make(all[i], i);
  }
  for (size_t i = 0; i < count; i++) {
    all[i].thread = {(unsigned)(i % block.x), (unsigned)(i / block.x % block.y), (unsigned)(i / block.x / block.y)};
    all[i].done = false;
    all[i].votes = all[i].exchanges = all[i].barriers = 0;
  }
  std::fill(voted, voted + 3, false);
  std::fill(in_warp, in_warp + 32, 0);
  std::fill(ended_in_warp, ended_in_warp + 32, 0);
  threads = count, ended = 0, arrived = 0;
  while (ended < count) {
    for (size_t step = 0; step < count; step++) {
      current = reversed ? count - 1 - step : step;
      if (all[current].done) continue;
      threadIdx = all[current].thread;
      resume(all[current]);
      ended += all[current].done;
      ended_in_warp[current / 32] += all[current].done;
    }
  }
}
}  // namespace fibres

static inline void __syncthreads() { fibres::meet_block(); }
static inline void __threadfence() {}
struct alignas(16) float4 {
  float x, y, z, w;
};
// A device traps where the address is no multiple of the size.
template <class T>
static inline T __ldg(const T* from) {
  if ((size_t)from % alignof(T) != 0) std::abort();
  return *from;
}
static inline void __syncwarp() { fibres::meet_warp(); }
static inline int __syncthreads_or(int value) {
  const unsigned vote = fibres::all[fibres::current].votes++;
  fibres::voted[vote % 3] |= value != 0;
  fibres::meet_block();
  fibres::voted[(vote + 2) % 3] = false;
  return fibres::voted[vote % 3];
}

// Values that threads of a warp give each other; of the last two exchanges, since a thread may be one ahead.
namespace fibres {
static unsigned long long given[2][1024];
}
template <class T>
static inline T value_of(T value, unsigned other) {
  static_assert(sizeof(T) <= 8, "a register or two");
  auto& given = fibres::given[fibres::all[fibres::current].exchanges % 2];
  std::memcpy(&given[fibres::current], &value, sizeof(T));
  fibres::meet_warp();
  std::memcpy(&value, &given[other], sizeof(T));
  return value;
}
template <class T>
static inline T __shfl_xor_sync(unsigned, T value, int by) {
  return value_of(value, (unsigned)fibres::current ^ (unsigned)by);
}
static inline int __any_sync(unsigned all, int value) {
  for (int by = 16; by > 0; by /= 2) value |= __shfl_xor_sync(all, value, by);
  return value != 0;
}
template <class T>
static inline T __shfl_down_sync(unsigned, T value, int by) {
  const unsigned t = (unsigned)fibres::current;
  return value_of(value, t % 32 + (unsigned)by < 32 ? t + (unsigned)by : t);
}
template <class T>
static inline T __shfl_up_sync(unsigned, T value, int by, int width = 32) {
  const unsigned t = (unsigned)fibres::current;
  return value_of(value, t % (unsigned)width >= (unsigned)by ? t - (unsigned)by : t);
}
template <class T>
static inline T __shfl_sync(unsigned, T value, int from) {
  return value_of(value, ((unsigned)fibres::current & ~31u) + (unsigned)from);
}

// Runs `kernel` for every block of the grid.
static void launch(Index3 grid, Index3 block, std::function<void()> kernel) {
  gridDim = grid;
  blockDim = block;
  fibres::body = kernel;
  unsigned number = 0;
  for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) fibres::run_block(block, number++ % 2 == 1);
}

// ---- twins of parts/ptx
static std::function<bool(const char*, int)> readable;  // whether a kernel may copy these bytes; the test says
template <int BYTES>
static inline void copy(void* to, const void* from) {
  if ((uintptr_t)to % BYTES != 0 || (uintptr_t)from % BYTES != 0) give_up("copy: not aligned");
  if (!readable((const char*)from, BYTES)) give_up("copy: reads beyond the samples");
  std::memcpy(to, from, BYTES);
}
static inline void wait_for_copies() {}
// Fibres come by in turn, so that all of a group are at the same barrier.
static inline void wait_for_group(int, int) { fibres::back_to_scheduler(); }
static inline int anew(int value) { return value; }
static inline void in_order() {}
static inline int __ffs(unsigned bits) { return __builtin_ffs((int)bits); }
static inline float normal_rsqrt(float value) { return 1 / std::sqrt(value); }
// Off by nearly as much as the instruction may be, to either side.
static inline float near_rsqrt(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return (float)((1 + (bits & 1 ? 0x1.1p-23 : -0x1.1p-23)) / std::sqrt((double)value));
}
static inline unsigned window_at(unsigned low, unsigned high, int bytes) {
  return (unsigned)((((uint64_t)high << 32) | low) >> (8 * bytes));
}
static inline unsigned dot4(unsigned a, unsigned b, unsigned sum) {
  for (int i = 0; i < 32; i += 8) sum += (a >> i & 255) * (b >> i & 255);
  return sum;
}

// Matrices and products of a warp: every thread gives what it has, then takes what it needs of the others'.
namespace fibres {
static unsigned fragments[2][1024][6];
}
template <int COUNT>
static inline void load_matrices(unsigned (&to)[COUNT], const void* row) {
  static_assert(COUNT == 2 || COUNT == 4, "one address for each row");
  auto& given = fibres::given[fibres::all[fibres::current].exchanges % 2];
  const size_t lane = fibres::current % 32, first = fibres::current - lane;
  if (lane < 8 * COUNT && (uintptr_t)row % 16 != 0) give_up("load_matrices: not aligned");
  given[fibres::current] = (uintptr_t)row;
  fibres::meet_warp();
  for (int i = 0; i < COUNT; i++)
    std::memcpy(&to[i], (const char*)(uintptr_t)given[first + 8 * i + lane / 4] + 4 * (lane % 4), 4);
}
template <int COUNT>
static inline void add_products(unsigned (&sums)[4], const unsigned (&a)[2 * COUNT], const unsigned (&b)[COUNT]) {
  auto& given = fibres::fragments[fibres::all[fibres::current].exchanges % 2];
  const size_t lane = fibres::current % 32, first = fibres::current - lane;
  std::memcpy(given[fibres::current], a, sizeof(a));
  std::memcpy(given[fibres::current] + 4, b, sizeof(b));
  fibres::meet_warp();
  for (size_t i = 0; i < 4; i++) {
    const size_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    // Words of a row lie with four lanes; those of rows from 8 on are their second and fourth.
    for (int half = 0; half < COUNT; half++)
      for (int k = 0; k < 4; k++) {
        const unsigned of_row = given[first + row % 8 * 4 + k][2 * half + row / 8];
        sums[i] = dot4(of_row, given[first + column * 4 + k][4 + half], sums[i]);
      }
  }
}

// ---- twins of CUDA's own functions. One thread runs at a time, so nothing more makes an operation atomic.
template <class To, class From>
static inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits of one size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
static inline long long __double_as_longlong(double value) { return same_bits<long long>(value); }
static inline double __longlong_as_double(long long bits) { return same_bits<double>(bits); }
static inline float __uint_as_float(unsigned bits) { return same_bits<float>(bits); }
static inline unsigned __float_as_uint(float value) { return same_bits<unsigned>(value); }
static inline double __ll2double_rn(long long value) { return (double)value; }
static inline double __ull2double_rn(unsigned long long value) { return (double)value; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned choice) {
  const uint64_t bytes = (uint64_t)b << 32 | a;
  unsigned chosen = 0;
  for (int i = 0; i < 4; i++) chosen |= (unsigned)(bytes >> 8 * (choice >> 4 * i & 7) & 255) << 8 * i;
  return chosen;
}
static inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz((unsigned)value); }
static inline int __clzll(long long value) { return value == 0 ? 64 : __builtin_clzll((unsigned long long)value); }
template <class T>
static inline T atomicMax(T* at, T value) {
  const T old = *at;
  if (old < value) *at = value;
  return old;
}
template <class T>
static inline T atomicAdd(T* at, T value) {
  const T old = *at;
  *at += value;
  return old;
}
