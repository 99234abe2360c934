// Compares each kernel of the pipeline, and all of them in a row, with plain loops over random images. Included after
// the source.
#include <algorithm>
#include <cfloat>
#include <limits>

typedef long double Wide;
constexpr bool EXACT = FLCC_INTEGERS != 0, SINGLE = FLCC_REAL == FLCC_F32;
constexpr double POISON = -12345.5;
static int wrong = 0;

static unsigned state = 12345;
static unsigned random_below(unsigned n) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % n;
}
static double random_unit() { return random_below(1 << 24) / (double)(1 << 24); }

// Twenty are enough to see what is wrong.
#define FAIL(...) (std::printf(__VA_ARGS__), std::printf("\n"), ++wrong < 20 ? (void)0 : std::exit(1))

// A buffer between guards, all of it poison; aligned as the host's buffers are.
template <class T>
struct Buffer {
  static constexpr size_t GUARD = 64;
  std::vector<T> all;
  size_t first, count;

  explicit Buffer(size_t count) : all(count + 3 * GUARD, (T)POISON), count(count) {
    if (std::is_unsigned<T>::value) std::fill(all.begin(), all.end(), (T)0xa5a5a5a5a5a5a5a5ull);
    first = GUARD;
    while ((uintptr_t)&all[first] % 64 != 0) first++;
    poison = all;
  }
  T* data() { return &all[first]; }
  T& operator[](size_t i) { return all[first + i]; }
  void zero() { std::fill_n(data(), count, (T)0); }
  void check(const char* what) {
    for (size_t i = 0; i < all.size(); i++)
      if ((i < first || i >= first + count) && std::memcmp(&all[i], &poison[i], sizeof(T)) != 0)
        return FAIL("%s: written outside", what);
  }

 private:
  std::vector<T> poison;
};

// The boundary rules one step at a time; -1: the value stands there.
static int plain_fold(int i, int n) {
  while (i < 0 || i >= n) {
    if (FLCC_BOUNDARY <= 1) return -1;
    if (FLCC_BOUNDARY == 2) i = i < 0 ? 0 : n - 1;
    if (FLCC_BOUNDARY == 3) i = i < 0 ? -1 - i : 2 * n - 1 - i;
    if (FLCC_BOUNDARY == 4) i = n == 1 ? 0 : (i < 0 ? -i : 2 * n - 2 - i);
    if (FLCC_BOUNDARY == 5) i = i < 0 ? i + n : i - n;
  }
  return i;
}

// The last two: an image at one end of the range and a template towards the other, or for ssd cut from the image.
enum Data { PLAIN, OFFSET, CONSTANT, BLOCKS, HUGE_ONE, HUGE_ALL, SMALL_ALL, FAINT_PART, HOLES, LOW, HIGH, KINDS };
enum Mask { NONE, BINARY, WEIGHTS };

struct Case {
  int image[3], tmpl[3], tile[3], channels, images;
  Mask mask;
  Data data;
  bool strided;
};

static double random_pixel(Data data, int i) {
  if (FLCC_PIXEL == FLCC_U8 || FLCC_PIXEL == FLCC_U16) {
    const int top = FLCC_PIXEL == FLCC_U8 ? 255 : 65535;
    if (data == CONSTANT) return top - 3;
    if (data == BLOCKS) return i / 7 % 2 ? top : random_below(3) ? 0 : random_below(9);
    if (data == OFFSET) return top - 5 + random_below(5);
    return random_below(top + 1);
  }
  const double noise = random_unit() - 0.3, f64 = FLCC_PIXEL == FLCC_F64;
  const bool product = FLCC_MEASURE == FLCC_SSD || FLCC_MEASURE == FLCC_CC;
  switch (data) {
    case OFFSET: return 1e4 + noise;
    case CONSTANT: return 0.1f;
    case BLOCKS: return i / 13 % 2 ? 0.7f : random_below(4) ? 0 : noise;
    case HUGE_ONE: return i == 11 ? (f64 ? 1e90 : 1e15) : noise;
    case HUGE_ALL: return noise * (f64 ? (product ? 1e120 : 1e300) : 1e30);
    case SMALL_ALL: return noise * (f64 ? 1e-310 : 1e-40);
    case FAINT_PART: return i % 400 < 300 ? noise * (f64 ? 1e-161 : 1e-43) : noise;
    case LOW: return noise * (f64 ? 1e-321 : 1e-43);
    case HIGH: return noise * (f64 ? 2e308 : 4e38);
    case HOLES: return random_below(60) == 0 ? (random_below(2) ? NAN : -INFINITY) : noise;
    default: return noise;
  }
}

static double plain_power(int e) { return std::ldexp(1.0, std::min(std::max(e, -1022), 1023)); }
static double plain_scale(double largest) { return plain_power(-std::ilogb(largest) - 1); }
static bool close(double got, Wide expected, Wide error) {
  if (std::isnan((double)expected)) return std::isnan(got);
  return got == (double)expected || std::fabs((Wide)got - expected) <= error;
}

struct Problem {
  Case c;
  FlccImage im = {};
  FlccLayout l = {};
  FlccResult r = {};
  FlccConstants k = {};
  std::vector<FlccTile> tiles;
  std::vector<Pixel> image;
  std::vector<double> weights, values, raw;  // values, raw: channel after channel
  int outputs[3], region[3][2], samples;
  double forced = 0;

  double pixel(int image_number, int channel, const int at[3], bool* outside = nullptr) const {
    int from[3];
    for (int a = 0; a < 3; a++) {
      from[a] = plain_fold(at[a], im.lengths[a]);
      if (from[a] < 0) {
        if (outside) *outside = true;
        return FLCC_BOUNDARY == FLCC_CONSTANT ? im.fill : 0;
      }
    }
    long long i = image_number * im.image_stride + channel * im.channel_stride;
    for (int a = 0; a < 3; a++) i += from[a] * im.stride[a];
    return (double)image[i];
  }
  double weight(int i) const { return c.mask == NONE ? 1.0 : weights[i]; }
};

static Problem make(const Case& c) {
  Problem p;
  p.c = c;
  p.samples = c.tmpl[0] * c.tmpl[1] * c.tmpl[2];
  FlccImage& im = p.im;
  const int gap = c.strided ? 2 : 1;
  im.stride[2] = gap;
  im.stride[1] = c.image[2] * gap + (c.strided ? 3 : 0);
  im.stride[0] = c.image[1] * im.stride[1];
  im.channel_stride = c.image[0] * im.stride[0] + 5;
  im.image_stride = c.channels * im.channel_stride;
  im.channels = c.channels;
  im.fill = FLCC_BOUNDARY == FLCC_CONSTANT ? 7 : 0;
  std::copy_n(c.image, 3, im.lengths);
  p.image.resize(c.images * im.image_stride);
  for (size_t i = 0; i < p.image.size(); i++) p.image[i] = (Pixel)random_pixel(c.data, (int)i);

  // Tiles of the full extent, anchored at its origin; a region of it is asked for.
  for (int a = 0; a < 3; a++) {
    p.outputs[a] = c.image[a] + c.tmpl[a] - 1;
    p.region[a][0] = p.outputs[a] > 4 ? random_below(3) : 0;
    p.region[a][1] = p.outputs[a] > 4 ? p.outputs[a] - random_below(2) : p.outputs[a];
  }
  for (int number = 0; number < c.images; number++)
    for (int z = 0; z < p.outputs[0]; z += c.tile[0])
      for (int y = 0; y < p.outputs[1]; y += c.tile[1])
        for (int x = 0; x < p.outputs[2]; x += c.tile[2]) {
          FlccTile tile = {};
          const int origin[3] = {z, y, x};
          for (int a = 0; a < 3; a++) {
            tile.begin[a] = origin[a] - (c.tmpl[a] - 1);
            tile.shape[a] = std::min(c.tile[a], p.outputs[a] - origin[a]);
            tile.len[a] = tile.shape[a] + c.tmpl[a] - 1;
            const int from = std::max(origin[a], p.region[a][0]),
                      to = std::min(origin[a] + tile.shape[a], p.region[a][1]);
            tile.keep_from[a] = from - origin[a];
            tile.keep_to[a] = std::max(to - origin[a], tile.keep_from[a]);
            tile.place[a] = from - p.region[a][0];
          }
          tile.image = number;
          p.tiles.push_back(tile);
        }

  FlccLayout& l = p.l;
  l.channels = c.channels;
  l.tiles = (int)p.tiles.size();
  for (int a = 0; a < 3; a++) {
    l.out_shape[a] = std::min(c.tile[a], p.outputs[a]);
    l.template_[a] = c.tmpl[a];
    l.in_shape[a] = l.out_shape[a] + c.tmpl[a] - 1 + (a > 0 || c.image[0] > 1 ? (int)random_below(3) : 0);
  }
  l.in_row = (l.in_shape[2] + 15) / 16 * 16;
  l.in_plane = l.in_shape[1] * l.in_row + 16;
  l.in_channel = l.in_shape[0] * l.in_plane;
  l.in_tile = c.channels * l.in_channel + 32;
  l.out_row = l.out_shape[2] + 1;
  l.out_plane = l.out_shape[1] * l.out_row + 2;
  l.out_channel = l.out_shape[0] * l.out_plane;
  l.out_tile = c.channels * l.out_channel + 3;
  l.cross_row = l.out_row + 2;
  l.cross_plane = l.out_shape[1] * l.cross_row;
  l.cross_channel = l.out_shape[0] * l.cross_plane + 1;
  l.cross_tile = c.channels * l.cross_channel;
  p.r.stride[2] = 1;
  p.r.stride[1] = p.region[2][1] - p.region[2][0] + 2;
  p.r.stride[0] = (p.region[1][1] - p.region[1][0]) * p.r.stride[1];
  p.r.image_stride = (p.region[0][1] - p.region[0][0]) * p.r.stride[0];

  // The template as bind.rs makes it ready.
  double n = 0;
  for (int i = 0; i < p.samples; i++) {
    p.weights.push_back(
        c.mask == BINARY ? (i == p.samples / 2 || random_below(3) ? 1 : 0) : i % 5 == 1 ? 0 : 0.25 + random_unit());
    if (c.mask == BINARY && i == 0) p.weights[0] = p.samples > 2 ? 0 : 1;
    n += p.weight(i);
  }
  p.k.n = n;
  p.k.masked = c.mask != NONE;
  const bool f64 = FLCC_PIXEL == FLCC_F64, product = FLCC_MEASURE == FLCC_SSD || FLCC_MEASURE == FLCC_CC;
  const double size = f64 && c.data == HUGE_ALL ? (product ? 1e120 : 1e299)
      : FLCC_MEASURE == FLCC_CC && c.data == LOW ? (f64 ? 1e155 : 1e33)
      : FLCC_MEASURE == FLCC_CC && c.data == HIGH ? (f64 ? 1e-163 : 1e-33)
                                                  : 1;
  for (int i = 0; i < c.channels * p.samples; i++) {
    const double value = FLCC_PIXEL <= FLCC_U16 ? (double)(Pixel)random_below(FLCC_PIXEL == FLCC_U8 ? 256 : 65536)
                                                : (random_unit() - 0.4) * size;
    const int of = i % p.samples, at[3] = {of / (c.tmpl[1] * c.tmpl[2]), of / c.tmpl[2] % c.tmpl[1], of % c.tmpl[2]};
    const bool cut = FLCC_MEASURE == FLCC_SSD && c.data == HIGH;
    p.raw.push_back(p.weight(of) > 0 ? cut ? p.pixel(0, i / p.samples, at) : value : 0);
  }
  p.values = p.raw;
  __int128 exact_energy = 0;
  for (int channel = 0; EXACT && channel < c.channels; channel++) {
    __int128 sum = 0, square = 0;
    for (int i = 0; i < p.samples; i++) {
      const long long t = (long long)p.raw[channel * p.samples + i], w = (long long)p.weight(i);
      sum += w * t;
      square += (__int128)(w * t) * t;
    }
    exact_energy += FLCC_MEASURE == FLCC_ZNCC ? (__int128)n * square - sum * sum : square;
    p.k.exact_sum[channel][0] = (long long)sum;
    p.k.exact_sum[channel][1] = (long long)(sum >> 64);
  }
  p.k.exact_energy[0] = (long long)exact_energy;
  p.k.exact_energy[1] = (long long)(exact_energy >> 64);
  double largest = 0;
  for (double t : p.raw) largest = std::max(largest, std::fabs(t));
  const bool unit = FLCC_MEASURE == FLCC_ZNCC || FLCC_MEASURE == FLCC_NCC;
  double scale = unit || std::abs(std::ilogb(largest)) > 100 ? plain_scale(largest) : 1;
  if (EXACT) scale = 1;
  for (double& t : p.values) t *= scale;
  p.k.template_scale = scale;
  if (FLCC_MEASURE == FLCC_SSD || FLCC_MEASURE == FLCC_NSSD || FLCC_MEASURE == FLCC_SAD) p.forced = scale;
  const auto energy_of = [&] {
    double energy = 0;
    for (int i = 0; i < c.channels * p.samples; i++) energy += p.weight(i % p.samples) * p.values[i] * p.values[i];
    return energy;
  };
  if (unit && !EXACT) {
    for (int channel = 0; FLCC_MEASURE == FLCC_ZNCC && channel < c.channels; channel++)
      for (int pass = 0; pass < 2; pass++) {
        double mean = 0;
        for (int i = 0; i < p.samples; i++) mean += p.weight(i) * p.values[channel * p.samples + i];
        for (int i = 0; i < p.samples; i++)
          if (p.weight(i) > 0) p.values[channel * p.samples + i] -= mean / n;
      }
    const double norm = std::sqrt(energy_of());
    for (double& t : p.values) t /= norm;
  }
  p.k.energy = energy_of();
  if (unit && !EXACT) p.k.energy = 1;
  p.k.doubt[0] = SINGLE ? 1e-70 : 1e-300;
  p.k.doubt[1] = SINGLE ? 1e-4 : 1e-9;
  return p;
}

// What a panel is worth, from the image, in numbers wide enough for anything; `error`: what rounding may add.
static Wide plain_score(const Problem& p, int image, const int begin[3], Wide* error) {
  const Case& c = p.c;
  std::vector<Wide> panel;
  bool finite = true, constant = true, zero = true;
  for (int channel = 0; channel < c.channels; channel++) {
    bool any = false;
    Wide first = 0;
    for (int i = 0; i < p.samples; i++) {
      const int at[3] = {begin[0] + i / (c.tmpl[1] * c.tmpl[2]), begin[1] + i / c.tmpl[2] % c.tmpl[1],
          begin[2] + i % c.tmpl[2]};
      const double value = p.weight(i) > 0 ? p.pixel(image, channel, at) : 0;
      finite = finite && std::isfinite(value);
      if (p.weight(i) > 0) {
        if (!any) first = value;
        any = true;
        constant = constant && value == first;
        zero = zero && value == 0;
      }
      panel.push_back(value);
    }
  }
  *error = 0;
  if (!finite) return NAN;
  Wide pp = 0, tt = 0, pt = 0, ssd = 0, sad = 0, size = 0, products = 0;
  __int128 ipp = 0, itt = 0, ipt = 0;
  for (int channel = 0; channel < c.channels; channel++) {
    Wide mean_p = 0, mean_t = 0;
    __int128 spp = 0, stt = 0, spt = 0, sp = 0, st = 0;
    for (int i = 0; i < p.samples; i++) {
      const Wide w = p.weight(i), v = panel[channel * p.samples + i], t = p.raw[channel * p.samples + i];
      mean_p += w * v / p.k.n;
      mean_t += w * t / p.k.n;
      if (EXACT) {
        const long long iv = (long long)v, it = (long long)t, iw = (long long)w;
        spp += iw * iv * iv, stt += iw * it * it, spt += iw * iv * it, sp += iw * iv, st += iw * it;
      }
    }
    if (FLCC_MEASURE != FLCC_ZNCC) mean_p = mean_t = 0;
    const __int128 n = (__int128)p.k.n;
    const bool centred = FLCC_MEASURE == FLCC_ZNCC;
    ipp += centred ? n * spp - sp * sp : spp, itt += centred ? n * stt - st * st : stt,
        ipt += centred ? n * spt - sp * st : spt;
    for (int i = 0; i < p.samples; i++) {
      const Wide w = p.weight(i), v = panel[channel * p.samples + i] - mean_p,
                 t = p.raw[channel * p.samples + i] - mean_t;
      pp += w * v * v, tt += w * t * t, pt += w * v * t, ssd += w * (v - t) * (v - t), sad += w * std::fabs(v - t);
      size += w * (std::fabs(v) + std::fabs(t)) * (std::fabs(v) + std::fabs(t));
      products += w * std::fabs(v * t);
    }
  }
  const Wide part = SINGLE ? 4e-6L : 1e-13L;
  // Exact: each integer rounded once, then single operations.
  const auto whole = [&](Wide numerator) {
    return (double)numerator / (std::sqrt((double)ipp) * std::sqrt((double)itt));
  };
  switch (FLCC_MEASURE) {
    case FLCC_CC:
      *error = EXACT ? 0 : part * products;
      return EXACT ? (Wide)(double)ipt : pt;
    case FLCC_SSD:
      // Differences beside squares that the result does not hold are known by themselves.
      *error = EXACT ? 0 : pp + tt > std::numeric_limits<Out>::max() ? 1e-3L * ssd : part * size;
      return EXACT ? (Wide)(double)(ipp - 2 * ipt + itt) : ssd;
    case FLCC_SAD:
      *error = EXACT ? 0 : part * std::sqrt(size * p.samples * c.channels * 2);
      return sad;
    case FLCC_NSSD:
      if (zero) return 1;
      if (EXACT) return std::min(whole((double)(ipp - 2 * ipt + itt)), 1.0);
      *error = SINGLE ? 1e-4L : 1e-9L;
      return std::min(ssd / (std::sqrt(pp) * std::sqrt(tt)), (Wide)1);
    case FLCC_NCC:
    default:
      if (FLCC_MEASURE == FLCC_NCC ? zero : constant) return 0;
      if (EXACT) return std::min(std::max(whole((double)ipt), -1.0), 1.0);
      *error = SINGLE ? 1e-4L : 1e-9L;
      return pt / (std::sqrt(pp) * std::sqrt(tt));
  }
}

static size_t line_blocks(const FlccLayout& l) {
  const int k = l.template_[2], run = 8 * (256 - (std::min(k, 1024) + 6) / 8);
  const long long line = (l.out_shape[0] + l.template_[0] - 2) * l.in_plane +
      (l.out_shape[1] + l.template_[1] - 2) * l.in_row + l.out_shape[2] + k - 1;
  return (line + run - 1) / run;
}

static void run_axis(const FlccLayout& l, int axis, const double* from, double* to, int to_out) {
  if (l.template_[axis] >= 32 && l.template_[axis] < 1040) {
    const int strips = (l.out_shape[axis] + 511) / 512;
    const int others = axis == 1 ? l.out_shape[0] + l.template_[0] - 1 : l.out_shape[1];
    return launch({(unsigned)(l.out_shape[2] + 31) / 32, (unsigned)(strips * others), (unsigned)(l.tiles * l.channels)},
        {256, 1, 1}, [=] { flcc_sum_groups(l, axis, from, to, to_out); });
  }
  const int k = l.template_[axis], strip = k * ((32 + k - 1) / k), strips = (l.out_shape[axis] + strip - 1) / strip;
  const int others = axis == 1 ? l.out_shape[0] + l.template_[0] - 1 : l.out_shape[1];
  launch({(unsigned)(l.out_shape[2] + 63) / 64, (unsigned)(strips * others), (unsigned)(l.tiles * l.channels)},
      {64, 1, 1}, [=] { flcc_sum_axis(l, axis, from, to, to_out); });
}

// Sums over the windows of a batch whose samples lie in `samples`.
static void run_sums(const FlccLayout& l, Buffer<Real>& samples, Buffer<double>& sum, Buffer<double>& square) {
  Buffer<double> first(l.tiles * l.in_tile), second(l.tiles * l.in_tile), between(l.tiles * l.in_tile);
  launch({(unsigned)line_blocks(l), (unsigned)(l.tiles * l.channels), 1}, {256, 1, 1},
      [&] { flcc_sum_rows(l, samples.data(), FLCC_MEASURE == FLCC_ZNCC ? first.data() : nullptr, second.data()); });
  first.check("sum_rows sum"), second.check("sum_rows square");
  for (int quantity = FLCC_MEASURE == FLCC_ZNCC ? 0 : 1; quantity < 2; quantity++) {
    double *from = (quantity == 0 ? first : second).data(), *to = (quantity == 0 ? sum : square).data();
    if (l.template_[0] == 1 && l.out_shape[0] == 1) {
      run_axis(l, 1, from, to, 1);
    } else {
      run_axis(l, 1, from, between.data(), 0);
      run_axis(l, 0, between.data(), to, 1);
    }
  }
  sum.check("sum_axis sum"), square.check("sum_axis square"), between.check("sum_axis between");
}

static void compare_sums(const FlccLayout& l, Buffer<Real>& samples, Buffer<double>& sum, Buffer<double>& square,
    const int shape[3], int tile) {
  for (int channel = 0; channel < l.channels; channel++)
    for (int z = 0; z < shape[0]; z++)
      for (int y = 0; y < shape[1]; y++)
        for (int x = 0; x < shape[2]; x++) {
          Wide s = 0, ss = 0, size = 0;
          for (int a = 0; a < l.template_[0]; a++)
            for (int b = 0; b < l.template_[1]; b++)
              for (int c = 0; c < l.template_[2]; c++) {
                const Wide v = samples[tile * l.in_tile + channel * l.in_channel + (z + a) * l.in_plane +
                    (y + b) * l.in_row + x + c];
                s += v, ss += v * v, size += std::fabs(v);
              }
          const size_t at = tile * l.out_tile + channel * l.out_channel + z * l.out_plane + y * l.out_row + x;
          const Wide part = EXACT ? 0 : 1e-14L;
          if (FLCC_MEASURE == FLCC_ZNCC && !close(sum[at], s, part * size))
            FAIL("sum at %d %d %d: %g, expected %Lg", z, y, x, sum[at], s);
          // Each square may be too small for its type.
          if (!close(square[at], ss, part * ss + 1e-319L))
            FAIL("square at %d %d %d: %g, expected %Lg", z, y, x, square[at], ss);
        }
}

// Windows of every kind of length on their own.
static void check_windows(int depth, int height, int width, int kd, int kh, int kw) {
  FlccLayout l = {};
  const int shape[3] = {depth, height, width}, tmpl[3] = {kd, kh, kw};
  for (int a = 0; a < 3; a++) {
    l.out_shape[a] = shape[a];
    l.template_[a] = tmpl[a];
    l.in_shape[a] = shape[a] + tmpl[a] - 1;
  }
  l.channels = 1, l.tiles = 1;
  l.in_row = (l.in_shape[2] + 15) / 16 * 16, l.in_plane = l.in_row * l.in_shape[1];
  l.in_channel = l.in_tile = l.in_plane * l.in_shape[0];
  l.out_row = width, l.out_plane = width * height, l.out_channel = l.out_tile = depth * l.out_plane;
  Buffer<Real> samples(l.in_tile);
  for (int z = 0; z < l.in_shape[0]; z++)
    for (int y = 0; y < l.in_shape[1]; y++)
      for (int x = 0; x < l.in_shape[2]; x++)
        samples[z * l.in_plane + y * l.in_row + x] =
            (Real)(FLCC_REAL == FLCC_U8 || EXACT ? random_below(256) : random_below(500) ? random_unit() - 0.5 : 1e12);
  Buffer<double> sum(l.out_tile), square(l.out_tile);
  run_sums(l, samples, sum, square);
  const int before = wrong;
  compare_sums(l, samples, sum, square, shape, 0);
  if (wrong > before) std::printf("window %d %d %d\n", kd, kh, kw);
}

static void check(const Case& c) {
  Problem p = make(c);
  const FlccLayout& l = p.l;
  const int batch = l.tiles * l.channels, before = wrong;
  const unsigned quads = (l.in_shape[2] + 3) / 4, cells = (l.in_shape[0] * l.in_shape[1] * quads + 255) / 256;
  const unsigned outputs = (l.out_shape[0] * l.out_shape[1] * l.out_shape[2] + 255) / 256;
  const Index3 of_cells = {cells, (unsigned)batch, 1}, of_outputs = {outputs, (unsigned)l.tiles, 1},
               block = {256, 1, 1};
  const Pixel* image = p.image.data();
  const FlccTile* tiles = p.tiles.data();
  const bool free = FLCC_MEASURE == FLCC_ZNCC && !EXACT;

  // Offsets.
  Buffer<double> offset(batch);
  const Index3 of_channels = {(unsigned)batch, 1, 1};
  std::vector<double> own(l.channels);
  for (int c = 0; c < l.channels; c++) own[c] = 1.5 + c;
  launch(of_channels, {32, 1, 1}, [&] { flcc_offset(image, p.im, tiles, own.data(), offset.data()); });
  for (int i = 0; i < batch; i++)
    if (offset[i] != own[i % l.channels]) FAIL("given offset %d: %g, expected %g", i, offset[i], own[i % l.channels]);
  launch(of_channels, {32, 1, 1}, [&] { flcc_offset(image, p.im, tiles, nullptr, offset.data()); });
  offset.check("offset");
  for (int i = 0; i < batch; i++) {
    const FlccTile& tile = tiles[i / l.channels];
    std::vector<double> found;
    for (int j = 0; j < 27; j++) {
      const int part[3] = {j / 9, j / 3 % 3, j % 3};
      int at[3];
      bool outside = false;
      for (int a = 0; a < 3; a++) at[a] = tile.begin[a] + tile.len[a] * (2 * part[a] + 1) / 6;
      const double value = p.pixel(tile.image, i % l.channels, at, &outside);
      if (!outside && std::isfinite(value)) found.push_back(value);
    }
    std::sort(found.begin(), found.end());
    const double expected = found.empty() ? 0 : found[found.size() / 2];
    if (offset[i] != expected) FAIL("offset %d: %g, expected %g", i, offset[i], expected);
  }
  double* shift = free ? offset.data() : nullptr;

  // Samples.
  Buffer<Real> samples(l.tiles * l.in_tile);
  Buffer<u64> largest(batch), span(batch);
  Buffer<unsigned> marked(l.tiles);
  Buffer<double> scale(batch);
  Buffer<u8> marks(l.tiles * l.in_tile), scratch(l.tiles * l.in_channel), hits(l.tiles * l.out_channel);
  largest.zero(), span.zero(), marked.zero();
  const bool surveys = FLCC_REAL != FLCC_U8 && !EXACT;
  launch(of_cells, block, [&] {
    flcc_load(image, p.im, tiles, l, shift, samples.data(), surveys ? largest.data() : nullptr);
  });
#if FLCC_REAL != FLCC_U8
  if (surveys) {
    launch(of_cells, block, [&] {
      flcc_survey(image, p.im, tiles, l, shift, p.forced, largest.data(), span.data(), marked.data());
    });
    launch(of_cells, block, [&] {
      flcc_reload(image, p.im, tiles, l, shift, p.forced, largest.data(), span.data(), marked.data(),
          samples.data(), marks.data(), scale.data());
    });
  }
#endif
  samples.check("load"), largest.check("largest"), span.check("span"), marked.check("marked");
  scale.check("scale"), marks.check("marks");
  const int reach = SINGLE ? 40 : 200;
  for (int i = 0; i < batch; i++) {
    const FlccTile& tile = tiles[i / l.channels];
    const double o = free ? offset[i] : 0;
    // gather.rs, sample by sample: what lies outside counts where a tile reaches there.
    const auto difference = [&](double value) { return std::min(std::fabs(value - o), DBL_MAX); };
    double most = 0, widest = 0;
    bool bad = false;
    const auto each = [&](auto see) {
      for (int z = 0; z < l.in_shape[0]; z++)
        for (int y = 0; y < l.in_shape[1]; y++)
          for (int x = 0; x < l.in_shape[2]; x++) {
            const int at[3] = {tile.begin[0] + z, tile.begin[1] + y, tile.begin[2] + x};
            bool outside = false;
            const bool of_tile = z < tile.len[0] && y < tile.len[1] && x < tile.len[2];
            const double value = of_tile ? p.pixel(tile.image, i % l.channels, at, &outside) : 0;
            see(i / l.channels * l.in_tile + i % l.channels * l.in_channel + z * l.in_plane + y * l.in_row + x, of_tile,
                outside, value);
          }
    };
    const auto centred = [&](double value, bool outside) -> Real {
      if (SINGLE && FLCC_PIXEL != FLCC_F64 && !outside) return (Real)((float)value - (float)o);
      return (Real)(value - o);
    };
    each([&](size_t, bool of_tile, bool outside, double value) {
      if (!of_tile) return;
      const double magnitude = std::fabs((double)centred(value, outside));
      most = std::isnan(magnitude) || std::isnan(most) ? NAN : std::max(most, magnitude);
      if (!std::isfinite(value)) bad = true;
      if (std::isfinite(value)) widest = std::max(widest, difference(value));
    });
    const bool natural = most == 0 || (most >= std::ldexp(1.0, -reach) && most <= std::ldexp(1.0, reach));
    const bool plain =
        !surveys || ((p.forced == 0 || p.forced == 1) && (natural || (p.forced == 1 && most < INFINITY)));
    const int e = widest > 0 ? std::ilogb(widest) : 0;
    const double factor =
        plain ? 1 : p.forced != 0 ? p.forced : widest == 0 || std::abs(e) <= reach ? 1 : plain_power(-e);
    if (surveys && scale[i] != factor) FAIL("scale %d: %g, expected %g", i, scale[i], factor);
    if (surveys && bad && !marked[i / l.channels]) FAIL("tile %d is not marked", i / l.channels);
    each([&](size_t at, bool of_tile, bool outside, double value) {
      Real expected = 0;
      if (of_tile && plain) expected = centred(value, outside);
      if (of_tile && !plain && std::isfinite(value)) expected = (Real)(value * factor - o * factor);
      if (!(samples[at] == expected)) FAIL("sample %zu: %g, expected %g", at, (double)samples[at], (double)expected);
      if (surveys && marked[i / l.channels] && marks[at] != (of_tile && !std::isfinite(value))) FAIL("mark %zu", at);
    });
  }

  // Panels that touch a marked sample.
  if (surveys) {
    if (c.mask == NONE) {
      const Index3 grid = {cells, (unsigned)l.tiles, 1};
      launch(grid, block, [&] { flcc_hits_x(l, marked.data(), marks.data(), scratch.data()); });
      launch(grid, block, [&] { flcc_hits_y(l, marked.data(), scratch.data(), marks.data()); });
      launch(of_outputs, block, [&] { flcc_hits_z(l, marked.data(), marks.data(), hits.data()); });
    } else {
      launch(of_outputs, block, [&] {
        flcc_hits_masked(l, marked.data(), marks.data(), p.weights.data(), hits.data());
      });
    }
    marks.check("marks"), scratch.check("scratch"), hits.check("hits");
  }

  // Window sums, and the cross term by plain loops.
  const size_t out_room = l.tiles * l.out_tile;
  Buffer<double> sum(out_room), square(out_room);
  Buffer<Cross> cross(l.tiles * l.cross_tile);
  // What wraps round lies beyond the outputs.
  for (int i = 0; i < l.tiles * l.cross_tile; i++) cross[i] = (Cross)(90 * random_unit());
  const bool squares = Formula::SQUARE;
  if (squares && c.mask == NONE) {
    run_sums(l, samples, sum, square);
    for (int tile = 0; tile < l.tiles; tile++) compare_sums(l, samples, sum, square, tiles[tile].shape, tile);
  }
  const auto output = [&](auto see) {
    for (int tile = 0; tile < l.tiles; tile++)
      for (int z = 0; z < tiles[tile].shape[0]; z++)
        for (int y = 0; y < tiles[tile].shape[1]; y++)
          for (int x = 0; x < tiles[tile].shape[2]; x++) see(tile, z, y, x);
  };
  output([&](int tile, int z, int y, int x) {
    for (int channel = 0; channel < c.channels; channel++) {
      Wide it = 0, s = 0, ss = 0;
      for (int i = 0; i < p.samples; i++) {
        const int a = i / (c.tmpl[1] * c.tmpl[2]), b = i / c.tmpl[2] % c.tmpl[1], d = i % c.tmpl[2];
        const Wide v = samples[tile * l.in_tile + channel * l.in_channel + (z + a) * l.in_plane + (y + b) * l.in_row +
            x + d];
        const Wide t = p.values[channel * p.samples + i], w = p.weight(i);
        it += FLCC_MEASURE == FLCC_SAD ? w * std::fabs(v - t) : w * v * t;
        s += w * v, ss += w * v * v;
      }
      const size_t at = tile * l.out_tile + channel * l.out_channel + z * l.out_plane + y * l.out_row + x;
      if (c.mask != NONE) sum[at] = (double)s, square[at] = (double)ss;
      // What a transform leaves of an integer is near it.
      cross[tile * l.cross_tile + channel * l.cross_channel + z * l.cross_plane + y * l.cross_row + x] =
          (Cross)(it + (FLCC_ROUNDS ? 0.3L * random_unit() : 0));
    }
  });

  // Figures. What thresholds follow from them, flcc-runtime/tests/rule.rs sees.
  {
    // More blocks than a warp has threads.
    constexpr int SLICES = 40;
    const unsigned of_warps = (l.tiles + 7) / 8;
    Buffer<double> partial(2 * SLICES * batch), of_samples(2 * l.tiles), of_cross(2 * l.tiles);
    const auto at = [](Buffer<double>& buffer) { return (FlccFigures*)buffer.data(); };
    double* scales = surveys ? scale.data() : nullptr;
    Buffer<double> of_channels(batch);
    launch({SLICES, (unsigned)l.tiles, 1}, block, [&] { flcc_figures(l, tiles, samples.data(), at(partial)); });
    launch({of_warps, 1, 1}, block,
        [&] { flcc_fold(at(partial), SLICES, scales, at(of_samples), of_channels.data(), l.tiles, l.channels, 0); });
    launch({SLICES, (unsigned)l.tiles, 1}, block, [&] { flcc_cross_figures(l, cross.data(), at(partial)); });
    launch({of_warps, 1, 1}, block,
        [&] { flcc_fold(at(partial), SLICES, scales, at(of_cross), nullptr, l.tiles, l.channels, 1); });
    partial.check("partial"), of_samples.check("figures"), of_cross.check("cross figures");
    of_channels.check("largest of channels");
    // A lower bar than in use, so that it has samples above it.
    constexpr double ABOVE = 1.25;
    const int parts = SLICES * l.channels;
    Buffer<double> strong(l.tiles * (1 + parts));
    launch({SLICES, (unsigned)l.tiles, 1}, block,
        [&] { flcc_strong(l, tiles, samples.data(), scales, at(of_samples), ABOVE, strong.data()); });
    strong.check("strong");
    for (int tile = 0; tile < l.tiles; tile++) {
      double smallest = INFINITY;
      for (int channel = 0; channel < c.channels; channel++)
        smallest = std::min(smallest, surveys ? scale[tile * l.channels + channel] : 1);
      Wide squares[2] = {}, largest[2] = {};
      const double* of_tile = &strong[tile * (1 + parts)];
      Wide strong_sum = 0, strong_got = 0;
      for (int part = 0; part < parts; part++) strong_got += of_tile[1 + part];
      for (int channel = 0; channel < c.channels; channel++) {
        const Wide factor = surveys ? smallest / scale[tile * l.channels + channel] : 1;
        const auto add = [&](auto& buffer, size_t base, long long plane, long long row, const int* shape, int of) {
          Wide most = 0;
          for (int z = 0; z < shape[0]; z++)
            for (int y = 0; y < shape[1]; y++)
              for (int x = 0; x < shape[2]; x++) {
                const Wide v = factor * buffer[base + z * plane + y * row + x];
                squares[of] += v * v;
                most = std::max(most, std::fabs(v));
                if (of == 0 && std::fabs(v) > of_tile[0]) strong_sum += std::fabs(v);
              }
          largest[of] = of == 1 ? largest[of] + most : std::max(largest[of], most);
        };
        const Wide others = largest[0];
        largest[0] = 0;
        add(samples, tile * l.in_tile + channel * l.in_channel, l.in_plane, l.in_row, tiles[tile].len, 0);
        const double most = of_channels[tile * l.channels + channel];
        if (!close(most * factor, largest[0], 1e-15L * largest[0]))
          FAIL("largest of channel %d of %d: %g, expected %Lg", channel, tile, most, largest[0] / factor);
        largest[0] = std::max(largest[0], others);
        const int all[3] = {l.out_shape[0], l.out_shape[1], (int)l.cross_row};
        add(cross, tile * l.cross_tile + channel * l.cross_channel, l.cross_plane, l.cross_row, all, 1);
      }
      for (int of = 0; of < 2; of++) {
        const FlccFigures got = at(of == 0 ? of_samples : of_cross)[tile];
        const char* what = of == 0 ? "samples" : "cross term";
        if (!close(got.squares, squares[of], 1e-13L * squares[of] + 1e-300L))
          FAIL("squares of the %s %d: %g, expected %Lg", what, tile, got.squares, squares[of]);
        if (!close(got.largest, largest[of], 1e-15L * largest[of]))
          FAIL("largest of the %s %d: %g, expected %Lg", what, tile, got.largest, largest[of]);
      }
      // In doubles, of squares as they were found, which may have lost bits to underflow: any bar will do.
      const int* len = tiles[tile].len;
      const double count = (double)len[0] * len[1] * len[2] * l.channels;
      const double usual = ABOVE * std::sqrt(at(of_samples)[tile].squares / count);
      if (of_tile[0] != usual) FAIL("samples of %d count above %g, expected %g", tile, of_tile[0], usual);
      if (!close(strong_got, strong_sum, 1e-13L * strong_sum))
        FAIL("strong samples of %d: %Lg, expected %Lg", tile, strong_got, strong_sum);
    }
  }

  // Scores.
  const size_t results = c.images * p.r.image_stride;
  Buffer<Out> result(results);
  Buffer<unsigned> doubtful(l.tiles * l.out_channel), count(1);
  count.zero();
  FlccLayout of_finish = l;
  launch(of_outputs, block, [&] {
    flcc_finish(p.k, of_finish, tiles, cross.data(), sum.data(), square.data(), surveys ? marked.data() : nullptr,
        hits.data(), surveys ? scale.data() : nullptr, nullptr, result.data(), p.r, doubtful.data(), count.data());
  });
  result.check("finish"), doubtful.check("doubtful");
  if (EXACT && count[0] != 0) FAIL("integers are in no doubt");
#if FLCC_MEASURE == FLCC_NCC || FLCC_MEASURE == FLCC_ZNCC || FLCC_MEASURE == FLCC_SSD || FLCC_MEASURE == FLCC_NSSD
#if !FLCC_INTEGERS
  launch({3, 1, 1}, {TEAM, 1, 1}, [&] {
    flcc_repair(p.k, image, p.im, l, tiles, doubtful.data(), count.data(), p.values.data(), p.raw.data(),
        c.mask == NONE ? nullptr : p.weights.data(), result.data(), p.r);
  });
  result.check("repair");
#endif
#endif
  std::vector<bool> wanted(results, false);
  output([&](int tile, int z, int y, int x) {
    const int at[3] = {z, y, x};
    int begin[3];
    size_t place = tiles[tile].image * p.r.image_stride;
    for (int a = 0; a < 3; a++) {
      const int full = tiles[tile].begin[a] + c.tmpl[a] - 1 + at[a];
      if (full < p.region[a][0] || full >= p.region[a][1]) return;
      begin[a] = full - (c.tmpl[a] - 1);
      place += (full - p.region[a][0]) * p.r.stride[a];
    }
    wanted[place] = true;
    Wide error;
    Wide expected = plain_score(p, tiles[tile].image, begin, &error);
    if (sizeof(Out) == 4) expected = (Out)(double)expected, error += std::fabs(expected) * 6e-8L * (EXACT ? 0 : 1);
    if (c.data == HUGE_ONE && FLCC_MEASURE != FLCC_ZNCC && FLCC_MEASURE != FLCC_NCC)
      error += std::fabs(expected) * 1e-5L;
    if (!close(result[place], expected, error))
      FAIL("score of tile %d at %d %d %d: %.17g, expected %.17Lg, error %Lg", tile, z, y, x,
          (double)result[place], expected, error);
  });
  for (size_t i = 0; i < results; i++)
    if (!wanted[i] && result[i] != (Out)POISON) FAIL("result %zu was not asked for", i);
  if (wrong > before)
    std::printf("image %dx%dx%d template %dx%dx%d tile %dx%dx%d channels %d mask %d data %d strided %d: %u doubtful\n",
        c.image[0], c.image[1], c.image[2], c.tmpl[0], c.tmpl[1], c.tmpl[2], c.tile[0], c.tile[1], c.tile[2],
        c.channels, c.mask, c.data, c.strided, count[0]);
}

static void check_fourier() {
  const int count = 700;
#if FLCC_CROSS >= FLCC_CROSS_F32
  const int channels = 2, tiles = 2;
  // Transforms of 7x10x18 samples: 7x10x10 numbers.
  FlccLayout l = {};
  l.in_shape[0] = 7, l.in_shape[1] = 10, l.in_shape[2] = 18, l.channels = channels, l.tiles = tiles;
  l.in_channel = 7 * 10 * 18, l.in_tile = channels * l.in_channel;
  const auto small = [] { return (Cross)random_below(9); };
  std::vector<Complex> a(tiles * channels * count), b(channels * count), out(a.size());
  for (Complex& v : a) v = {small(), small()};
  for (Complex& v : b) v = {small(), small()};
  // Numbers so small that products are exact: spectra of planes, rows and half a line of columns, then numbers.
  std::vector<Complex> table(7 + 10 + 10 + (7 + 10 + 18 + 1) / 2);
  for (Complex& v : table) v = {small(), small()};
  std::vector<double> largest(tiles * channels);
  for (double& v : largest) v = 1 + random_below(4);
  for (const Complex* noise : {(const Complex*)nullptr, (const Complex*)table.data()}) {
    launch({3, channels * tiles, 1}, {256, 1, 1},
        [&] { flcc_multiply(l, a.data(), b.data(), out.data(), count, noise ? largest.data() : nullptr, noise); });
    for (int i = 0; i < (int)a.size(); i++) {
      Complex f = a[i];
      const Complex g = b[i % b.size()];
      if (noise) {
        const int k = i % count;
        const Complex p = noise[k / 100], q = noise[7 + k / 10 % 10], r = noise[17 + k % 10];
        const double re = p.re * q.re - p.im * q.im, im = p.re * q.im + p.im * q.re, by = largest[i / count];
        f = {(Cross)(f.re - by * (re * r.re - im * r.im)), (Cross)(f.im - by * (re * r.im + im * r.re))};
      }
      if (out[i].re != f.re * g.re - f.im * g.im || out[i].im != f.re * g.im + f.im * g.re) FAIL("multiply %d", i);
    }
  }
  Buffer<Real> plain(tiles * l.in_tile);
  Buffer<Cross> noisy(tiles * l.in_tile);
  for (int i = 0; i < tiles * l.in_tile; i++) plain[i] = (Real)random_below(9);
  launch({5, channels * tiles, 1}, {256, 1, 1},
      [&] { flcc_noise(l, plain.data(), largest.data(), table.data(), noisy.data()); });
  noisy.check("noise");
  const Cross* numbers = (const Cross*)&table[27];
  for (int i = 0; i < tiles * l.in_tile; i++) {
    const int k = i % l.in_channel;
    const double noise = largest[i / l.in_channel] * numbers[k / 180] * numbers[7 + k / 18 % 10] * numbers[17 + k % 18];
    if (noisy[i] != (Cross)(plain[i] + noise)) FAIL("noise %d", i);
  }
#endif
  Buffer<Real> from(count + 2), to(count + 2);
  for (int i = 0; i < count + 2; i++) from[i] = (Real)random_below(16);
  launch({1, 1, 1}, {256, 1, 1}, [&] { flcc_square(from.data(), to.data(), count + 2); });
  to.check("square");
  for (int i = 0; i < count + 2; i++)
    if (to[i] != (Real)(from[i] * from[i])) FAIL("square %d", i);
}

static void check_rounding() {
#if FLCC_INTEGERS == 2
  for (int i = 0; i < 200000; i++) {
    // 53 bits, then what makes a tie, or one above or below it.
    __int128 value = ((__int128)1 << 52 | (__int128)(random_unit() * (1ll << 52))) << 1 | random_below(2);
    const int shift = random_below(72);
    value = (value << shift) + (int)random_below(3) - 1;
    if (random_below(2)) value = -value;
    if (rounded(value) != (double)value) FAIL("rounding of %g", (double)value);
  }
  for (int bit = 0; bit < 127; bit++)
    for (int near = -1; near <= 1; near++) {
      const __int128 value = ((__int128)1 << bit) + near;
      if (rounded(value) != (double)value || rounded(-value) != -(double)value) FAIL("rounding of 2^%d%+d", bit, near);
    }
#endif
}

static void check_exponents() {
#if FLCC_REAL != FLCC_U8
  for (double value : {1.0, 1.9, 2.0, 0.75, 1e-310, 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308})
    if (exponent(value) != std::ilogb(value)) FAIL("exponent of %g", value);
#endif
}

int main() {
  check_rounding();
  check_exponents();
  check_fourier();
  for (int window : {1, 2, 7, 8, 9, 16, 17, 31, 64, 71, 72}) check_windows(1, 3, 40, 1, 1, window);
  for (int window : {1024, 1025, 2100}) check_windows(1, 1, 1100, 1, 1, window);
  for (int window : {2, 9, 31, 32, 33, 47, 100}) check_windows(1, 70, 9, 1, window, 2);
  for (int window : {40, 1039, 1040}) check_windows(1, 530, 3, 1, window, 1);
  check_windows(1, 20, 40, 1, 150, 1);
  for (int window : {2, 33}) check_windows(40, 3, 66, window, 3, 1);

  for (int data = 0; data < KINDS; data++) {
    if (FLCC_PIXEL <= FLCC_U16 && data > BLOCKS) break;
    const auto mask = [&](int turn) {
      return EXACT && (data + turn) % 3 == WEIGHTS ? BINARY : (Mask)((data + turn) % 3);
    };
    check({{1, 1, 90}, {1, 1, 13}, {1, 1, 64}, 1, 1, mask(0), (Data)data, false});
    // Some tiles of which nothing lies outside.
    check({{1, 1, 90}, {1, 1, 5}, {1, 1, 16}, 1, 1, NONE, (Data)data, false});
    check({{1, 1, 5}, {1, 1, 17}, {1, 1, 64}, 2, 1, NONE, (Data)data, false});
    check({{1, 21, 34}, {1, 5, 6}, {1, 16, 24}, 1, 2, NONE, (Data)data, false});
    check({{1, 13, 17}, {1, 4, 3}, {1, 32, 32}, 3, 1, mask(1), (Data)data, true});
    check({{1, 3, 4}, {1, 9, 11}, {1, 8, 12}, 1, 1, mask(2), (Data)data, false});
    check({{5, 7, 9}, {3, 2, 4}, {4, 8, 8}, 2, 1, mask(0), (Data)data, false});
  }
  // Rows of several stretches.
  check({{1, 1, 1300}, {1, 1, 5}, {1, 1, 1200}, 1, 1, NONE, OFFSET, false});
  // A panel that repair cannot remember.
  check({{1, 2, 2}, {1, 39, 37}, {1, 16, 16}, 3, 1, NONE, OFFSET, false});
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
