// libcufft of the emulated device: real transforms of one to three axes of any length, there and back, of dense batches.
//
// Transforms are computed in the type of their numbers with turns rounded once, by factors of the length; a prime
// factor takes the sum that defines it. As NVIDIA's does, a transform back loses its spectra and every transform what
// lies in its work area: both become NaN. Work is put into the stream as the driver puts it there.

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

// The driver's: 0 where it took the work.
extern "C" int flcc_emulated_put(void* stream, const std::function<void()>& work);

namespace {
enum Result { SUCCESS = 0, INVALID_PLAN = 1, INVALID_TYPE = 3, INVALID_VALUE = 4, EXEC_FAILED = 6, INVALID_SIZE = 8 };
enum Type { R2C = 0x2a, C2R = 0x2c, D2Z = 0x6a, Z2D = 0x6c };

template <class T>
using Complex = std::complex<T>;

// One length's transform.
template <class T>
class Line {
  size_t length;
  std::vector<Complex<T>> turns;  // e^(-2 pi i k / length)

  Complex<T> turn(size_t k) const { return turns[k % length]; }

  static size_t factor(size_t n) {
    if (n % 4 == 0) return 4;
    for (size_t p = 2; p * p <= n; p++)
      if (n % p == 0) return p;
    return n;
  }

  // out(k) = sum over j < n of in(j * step) e^(-2 pi i j k / n), where n divides the length.
  void part(size_t n, const Complex<T>* in, size_t step, Complex<T>* out, std::vector<Complex<T>>& terms) const {
    if (n == 1) {
      out[0] = in[0];
      return;
    }
    const size_t p = factor(n), m = n / p, of_n = length / n;
    for (size_t r = 0; r < p; r++) part(m, in + r * step, step * p, out + r * m, terms);
    for (size_t k = 0; k < m; k++) {
      for (size_t r = 0; r < p; r++) terms[r] = r == 0 ? out[k] : product(out[r * m + k], turn(of_n * r * k));
      if (p == 2) {
        out[k] = terms[0] + terms[1];
        out[m + k] = terms[0] - terms[1];
      } else if (p == 4) {
        const Complex<T> a = terms[0] + terms[2], b = terms[0] - terms[2], c = terms[1] + terms[3],
                         d = terms[1] - terms[3];
        const Complex<T> turned(d.imag(), -d.real());
        out[k] = a + c;
        out[m + k] = b + turned;
        out[2 * m + k] = a - c;
        out[3 * m + k] = b - turned;
      } else {
        for (size_t q = 0; q < p; q++) {
          Complex<T> sum = terms[0];
          for (size_t r = 1; r < p; r++) sum += product(terms[r], turn(length / p * (q * r % p)));
          out[q * m + k] = sum;
        }
      }
    }
  }

 public:
  explicit Line(size_t n) : length(n), turns(n) {
    for (size_t k = 0; k < n; k++) {
      const double angle = -2 * M_PI * (double)k / (double)n;
      turns[k] = Complex<T>((T)std::cos(angle), (T)std::sin(angle));
    }
  }

  // Without what the language asks of infinities.
  static Complex<T> product(Complex<T> a, Complex<T> b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }

  void there(const Complex<T>* in, Complex<T>* out) const {
    std::vector<Complex<T>> terms(length);
    part(length, in, 1, out, terms);
  }
};

struct Plan {
  Type type;
  size_t sides[3] = {1, 1, 1}, batch = 0, work_bytes = 0;
  void* stream = nullptr;
  void* work = nullptr;
};

std::mutex books;
std::map<int, std::shared_ptr<Plan>> plans;

std::shared_ptr<Plan> plan_of(int handle) {
  const std::lock_guard<std::mutex> lock(books);
  const auto found = plans.find(handle);
  return found == plans.end() ? nullptr : found->second;
}

template <class T>
struct Volume {
  size_t depth, height, width, half;
  Line<T> across, down, through;

  explicit Volume(const Plan& plan)
      : depth(plan.sides[0]),
        height(plan.sides[1]),
        width(plan.sides[2]),
        half(width / 2 + 1),
        across(width),
        down(height),
        through(depth) {}

  // Transforms the columns of a spectrum: `count` numbers that lie `step` apart, from each place on.
  void along(const Line<T>& line, Complex<T>* spectrum, size_t count, size_t step) const {
    if (count == 1) return;
    std::vector<Complex<T>> in(count), out(count);
    for (size_t i = 0; i < count; i++) in[i] = spectrum[i * step];
    line.there(in.data(), out.data());
    for (size_t i = 0; i < count; i++) spectrum[i * step] = out[i];
  }
  void columns(Complex<T>* spectrum) const {
    for (size_t z = 0; z < depth; z++)
      for (size_t x = 0; x < half; x++) along(down, spectrum + z * height * half + x, height, half);
    for (size_t at = 0; at < height * half; at++) along(through, spectrum + at, depth, height * half);
  }

  void there(const T* from, Complex<T>* to) const {
    std::vector<Complex<T>> in(width), out(width);
    for (size_t row = 0; row < depth * height; row++) {
      for (size_t x = 0; x < width; x++) in[x] = from[row * width + x];
      across.there(in.data(), out.data());
      std::copy(out.begin(), out.begin() + (ptrdiff_t)half, to + row * half);
    }
    columns(to);
  }

  // The way back is the way there of conjugates, conjugated.
  void back(Complex<T>* from, T* to) const {
    const size_t all = depth * height * half;
    for (size_t i = 0; i < all; i++) from[i] = std::conj(from[i]);
    columns(from);
    std::vector<Complex<T>> in(width), out(width);
    for (size_t row = 0; row < depth * height; row++) {
      for (size_t x = 0; x < width; x++)
        in[x] = x < half ? from[row * half + x] : std::conj(from[row * half + width - x]);
      across.there(in.data(), out.data());
      for (size_t x = 0; x < width; x++) to[row * width + x] = out[x].real();
    }
    std::memset((void*)from, 0xff, all * sizeof(Complex<T>));
  }
};

template <class T>
Result run(int handle, Type type, void* from, void* to) {
  const auto plan = plan_of(handle);
  if (!plan) return INVALID_PLAN;
  if (plan->type != type) return INVALID_TYPE;
  if (!from || !to || !plan->work) return INVALID_VALUE;
  const int put = flcc_emulated_put(plan->stream, [plan, type, from, to] {
    const Volume<T> volume(*plan);
    std::memset(plan->work, 0xff, plan->work_bytes);
    const size_t reals = volume.depth * volume.height * volume.width;
    const size_t complexes = volume.depth * volume.height * volume.half;
    for (size_t number = 0; number < plan->batch; number++) {
      if (type == R2C || type == D2Z)
        volume.there((const T*)from + number * reals, (Complex<T>*)to + number * complexes);
      else
        volume.back((Complex<T>*)from + number * complexes, (T*)to + number * reals);
    }
  });
  return put == 0 ? SUCCESS : EXEC_FAILED;
}
}  // namespace

EXPORTED Result cufftCreate(int* handle) {
  const std::lock_guard<std::mutex> lock(books);
  static int last = 0;
  *handle = ++last;
  plans[*handle] = std::make_shared<Plan>();
  return SUCCESS;
}

EXPORTED Result cufftDestroy(int handle) {
  const std::lock_guard<std::mutex> lock(books);
  return plans.erase(handle) == 1 ? SUCCESS : INVALID_PLAN;
}

// Plans never take memory by themselves here.
EXPORTED Result cufftSetAutoAllocation(int handle, int on) {
  return !plan_of(handle) ? INVALID_PLAN : on ? INVALID_VALUE : SUCCESS;
}

EXPORTED Result cufftMakePlanMany(int handle, int axes, const int* sides, const int* in_embed, int, int,
                                  const int* out_embed, int, int, Type type, int batch, size_t* work_bytes) {
  const auto plan = plan_of(handle);
  if (!plan) return INVALID_PLAN;
  if (type != R2C && type != C2R && type != D2Z && type != Z2D) return INVALID_TYPE;
  // Dense ones alone.
  if (axes < 1 || axes > 3 || in_embed || out_embed || batch < 1) return INVALID_VALUE;
  for (int axis = 0; axis < axes; axis++) {
    if (sides[axis] < 1) return INVALID_SIZE;
    plan->sides[3 - axes + axis] = (size_t)sides[axis];
  }
  plan->type = type;
  plan->batch = (size_t)batch;
  const size_t half = plan->sides[2] / 2 + 1, number = type == R2C || type == C2R ? 8 : 16;
  plan->work_bytes = plan->sides[0] * plan->sides[1] * half * number * plan->batch;
  *work_bytes = plan->work_bytes;
  return SUCCESS;
}

EXPORTED Result cufftSetStream(int handle, void* stream) {
  const auto plan = plan_of(handle);
  if (plan) plan->stream = stream;
  return plan ? SUCCESS : INVALID_PLAN;
}

EXPORTED Result cufftSetWorkArea(int handle, void* work) {
  const auto plan = plan_of(handle);
  if (plan) plan->work = work;
  return plan ? SUCCESS : INVALID_PLAN;
}

EXPORTED Result cufftExecR2C(int handle, void* from, void* to) { return run<float>(handle, R2C, from, to); }
EXPORTED Result cufftExecC2R(int handle, void* from, void* to) { return run<float>(handle, C2R, from, to); }
EXPORTED Result cufftExecD2Z(int handle, void* from, void* to) { return run<double>(handle, D2Z, from, to); }
EXPORTED Result cufftExecZ2D(int handle, void* from, void* to) { return run<double>(handle, Z2D, from, to); }
