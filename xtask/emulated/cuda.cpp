// libcuda of the emulated device: devices like an sm_90 whose memory is that of the host and whose kernels run there.
//
// FLCC_EMULATED_DEVICES says how many devices there are, one if it is not set. Each has 2 GiB. Memory is all ones when
// it is taken and again when it is given back, and has guards in front and behind, which are looked at after each
// kernel and copy. What is put into a stream is done at once, or with FLCC_EMULATED_LATE=1 only when somebody waits for
// it, so that a missing wait shows.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "module.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {
enum Result {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  CAPTURE_UNSUPPORTED = 900,
  ILLEGAL_STATE = 401,
};

constexpr size_t MEMORY = (size_t)2 << 30, GUARD = 256, MOST_SHARED = 227 << 10, STATIC_SHARED = 48 << 10;
constexpr int MULTIPROCESSORS = 4, MOST_DEVICES = 8;
constexpr unsigned char GUARDED = 0xa5;

[[noreturn]] void give_up(const std::string& reason) {
  std::fprintf(stderr, "emulated device: %s\n", reason.c_str());
  std::fflush(stderr);
  std::_Exit(1);
}

long number(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? std::strtol(text, nullptr, 10) : otherwise;
}

struct Device {
  size_t used = 0;
};
Device devices[MOST_DEVICES];

int device_count() {
  static const int count = (int)std::min(std::max(number("FLCC_EMULATED_DEVICES", 1), 0L), (long)MOST_DEVICES);
  return count;
}

// A context is its device; each device has one.
thread_local Device* current = nullptr;

bool is_late() {
  static const bool late = number("FLCC_EMULATED_LATE", 0) != 0;
  return late;
}

// ---- memory
struct Piece {
  size_t bytes;
  Device* device;        // none of memory of the host
  unsigned char* taken;  // with its guards; none of a variable of a module
};
std::mutex books;
std::map<uintptr_t, Piece> pieces;

const std::pair<const uintptr_t, Piece>* find(uintptr_t at) {
  auto next = pieces.upper_bound(at);
  if (next == pieces.begin()) return nullptr;
  const auto& piece = *--next;
  return at - piece.first < piece.second.bytes ? &piece : nullptr;
}

// Whether so many bytes lie in one piece of memory. Kernels ask for most bytes where they asked before.
bool is_ours(const char* at, int bytes) {
  static thread_local uintptr_t from = 0;
  static thread_local size_t room = 0;
  static thread_local unsigned long seen = ~0ul;
  extern unsigned long changes;
  const uintptr_t address = (uintptr_t)at;
  if (seen != __atomic_load_n(&changes, __ATOMIC_ACQUIRE) || address - from >= room ||
      room - (address - from) < (size_t)bytes) {
    const std::lock_guard<std::mutex> lock(books);
    const auto* piece = find(address);
    if (!piece) return false;
    from = piece->first, room = piece->second.bytes, seen = changes;
  }
  return room - (address - from) >= (size_t)bytes;
}
unsigned long changes = 0;

void check(uintptr_t at, const Piece& piece, const char* when) {
  if (!piece.taken) return;
  const unsigned char* front = (unsigned char*)at - GUARD;
  const unsigned char* behind = (unsigned char*)at + piece.bytes;
  for (const unsigned char* guard : {front, behind})
    for (size_t i = 0; i < GUARD; i++)
      if (guard[i] != GUARDED)
        give_up(std::string(when) + " wrote " + (guard == front ? "in front of" : "behind") + " a piece of " +
                std::to_string(piece.bytes) + " bytes");
}

void check_all(const char* when) {
  const std::lock_guard<std::mutex> lock(books);
  for (const auto& [at, piece] : pieces) check(at, piece, when);
}

// As much as shows a read of what nobody wrote, without the time of filling the memory of a device.
void poison(uintptr_t at, size_t bytes) { std::memset((void*)at, 0xff, std::min(bytes, (size_t)64 << 20)); }

Result take(size_t bytes, Device* device, uintptr_t* at) {
  const std::lock_guard<std::mutex> lock(books);
  if (bytes == 0) return INVALID_VALUE;
  if (device && bytes > MEMORY - device->used) return OUT_OF_MEMORY;
  auto* taken = (unsigned char*)std::aligned_alloc(4096, (bytes + 4096 + GUARD + 4095) / 4096 * 4096);
  if (!taken) return OUT_OF_MEMORY;
  *at = (uintptr_t)taken + 4096;
  std::memset((void*)(*at - GUARD), GUARDED, GUARD);
  std::memset((void*)(*at + bytes), GUARDED, GUARD);
  poison(*at, bytes);
  if (device) device->used += bytes;
  pieces[*at] = {bytes, device, taken};
  __atomic_add_fetch(&changes, 1, __ATOMIC_RELEASE);
  return SUCCESS;
}

Result give_back(uintptr_t at, bool of_device) {
  const std::lock_guard<std::mutex> lock(books);
  const auto found = pieces.find(at);
  if (found == pieces.end() || !found->second.taken || (found->second.device != nullptr) != of_device)
    return INVALID_VALUE;
  const Piece piece = found->second;
  check(at, piece, "somebody");
  if (piece.device) piece.device->used -= piece.bytes;
  pieces.erase(found);
  __atomic_add_fetch(&changes, 1, __ATOMIC_RELEASE);
  poison(at, piece.bytes);
  std::free(piece.taken);
  return SUCCESS;
}

// ---- streams
struct Function;

// Kinds of work, by the numbers of CUDA's graphs. A transform of the library counts as work of the host.
enum Kind { KERNEL = 0, COPY = 1, FILL = 2, TRANSFORM = 3, GRAPH = 4, WAIT = 6, GIVE_BACK = 11 };

// Work that a stream has recorded, and the function of a kernel.
struct Node {
  std::function<void()> work;
  Kind kind;
  Function* function;
};

// What a stream has recorded.
struct Graph {
  std::vector<std::shared_ptr<Node>> nodes;
};

struct Stream {
  Device* device;
  std::deque<std::function<void()>> queue;
  size_t done = 0;  // of all that was ever put in
  std::shared_ptr<Graph> recorded;  // while it records
};

// A place in a stream, and the time when it was put there.
struct Event {
  std::weak_ptr<Stream> stream;
  size_t place = 0;
  std::chrono::steady_clock::time_point time;
};

std::recursive_mutex order;  // guards streams and events, and what runs late
std::map<Stream*, std::shared_ptr<Stream>> streams;
std::map<Event*, std::shared_ptr<Event>> events;
std::map<Graph*, std::shared_ptr<Graph>> graphs;

// Whether a stream records: then memory is neither taken nor given back, and nothing is waited for.
bool is_recording() {
  const std::lock_guard<std::recursive_mutex> lock(order);
  for (const auto& stream : streams)
    if (stream.second->recorded) return true;
  return false;
}

// Does what lies in a stream, up to a place.
void drain(Stream& stream, size_t place) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  while (stream.done < place && !stream.queue.empty()) {
    const std::function<void()> work = std::move(stream.queue.front());
    stream.queue.pop_front();
    work();
    stream.done++;
  }
}

void drain_all() {
  const std::lock_guard<std::recursive_mutex> lock(order);
  for (auto& [_, stream] : streams) drain(*stream, ~(size_t)0);
}

// The stream of a handle; null is the one of a device that needs no making.
std::shared_ptr<Stream> stream_of(Stream* handle) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  if (!handle) {
    static std::map<Device*, std::shared_ptr<Stream>> of_devices;
    auto& stream = of_devices[current];
    if (!stream) {
      stream = std::make_shared<Stream>();
      stream->device = current;
      streams[stream.get()] = stream;
    }
    return stream;
  }
  const auto found = streams.find(handle);
  return found == streams.end() ? nullptr : found->second;
}

Result put(Stream* handle, Kind kind, std::function<void()> work, Function* function = nullptr) {
  if (!current) return INVALID_CONTEXT;
  const auto stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  {
    const std::lock_guard<std::recursive_mutex> lock(order);
    if (stream->recorded) {
      stream->recorded->nodes.push_back(std::make_shared<Node>(Node{std::move(work), kind, function}));
      return SUCCESS;
    }
  }
  if (!is_late()) {
    work();
    return SUCCESS;
  }
  const std::lock_guard<std::recursive_mutex> lock(order);
  stream->queue.push_back(std::move(work));
  return SUCCESS;
}

Result wait(Stream* handle) {
  const auto stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (is_recording()) return CAPTURE_UNSUPPORTED;
  drain(*stream, ~(size_t)0);
  return SUCCESS;
}

// ---- modules
struct Loaded {
  Device* device;
  void* object;
  const emulated::Module* module;
  std::mutex running;
};

struct Function {
  Loaded* loaded;
  const emulated::Kernel* kernel;
  size_t most_dynamic = STATIC_SHARED;
};

std::mutex loading;
std::map<Loaded*, std::unique_ptr<Loaded>> modules;
std::map<Function*, std::unique_ptr<Function>> functions;

Function* known(Function* function) {
  const std::lock_guard<std::mutex> lock(loading);
  return functions.count(function) ? function : nullptr;
}

Loaded* known(Loaded* module) {
  const std::lock_guard<std::mutex> lock(loading);
  return modules.count(module) ? module : nullptr;
}

// Copies within the memory that is known; what does not lie there is the host's, which nobody can look at.
Result copy(void* to, const void* from, size_t bytes, bool to_device, bool from_device, Stream* stream) {
  for (const auto& [at, is] : {std::pair<const void*, bool>{to, to_device}, {from, from_device}})
    if (is && bytes > 0) {
      const std::lock_guard<std::mutex> lock(books);
      const auto* piece = find((uintptr_t)at);
      if (!piece || piece->second.bytes - ((uintptr_t)at - piece->first) < bytes) return INVALID_VALUE;
    }
  const bool pinned = [&] {
    const std::lock_guard<std::mutex> lock(books);
    return find((uintptr_t)(to_device ? from : to)) != nullptr;
  }();
  const auto work = [=] { std::memcpy(to, from, bytes); };
  if (!pinned && to_device != from_device && is_recording()) return CAPTURE_UNSUPPORTED;
  if (!is_late() || pinned) return put(stream, COPY, work);
  // The driver reads memory that is not pinned before it returns, and writes it before it returns.
  if (to_device && !from_device) {
    const auto held = std::make_shared<std::string>((const char*)from, bytes);
    return put(stream, COPY, [=] { std::memcpy(to, held->data(), bytes); });
  }
  const Result result = put(stream, COPY, work);
  return result == SUCCESS ? wait(stream) : result;
}
}  // namespace

EXPORTED Result cuInit(unsigned) { return SUCCESS; }

EXPORTED Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return SUCCESS;
}

EXPORTED Result cuGetErrorName(Result error, const char** name) {
  switch (error) {
    case SUCCESS: *name = "CUDA_SUCCESS"; break;
    case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; break;
    case INVALID_IMAGE: *name = "CUDA_ERROR_INVALID_IMAGE"; break;
    case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case ILLEGAL_STATE: *name = "CUDA_ERROR_ILLEGAL_STATE"; break;
    case CAPTURE_UNSUPPORTED: *name = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; break;
    case INVALID_HANDLE: *name = "CUDA_ERROR_INVALID_HANDLE"; break;
    case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; break;
    default: *name = nullptr; return INVALID_VALUE;
  }
  return SUCCESS;
}

EXPORTED Result cuGetErrorString(Result error, const char** text) { return cuGetErrorName(error, text); }

// ---- devices and contexts
EXPORTED Result cuDeviceGetCount(int* count) {
  *count = device_count();
  return SUCCESS;
}

EXPORTED Result cuDeviceGet(int* device, int number) {
  *device = number;
  return number >= 0 && number < device_count() ? SUCCESS : INVALID_DEVICE;
}

EXPORTED Result cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, (size_t)bytes, "emulated device");
  return SUCCESS;
}

EXPORTED Result cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = MEMORY;
  return SUCCESS;
}

EXPORTED Result cuDeviceGetAttribute(int* value, int attribute, int) {
  static const std::map<int, int> values = {
      {1, 1024},            // threads of a block
      {2, 1024},            // along x
      {3, 1024},            // along y
      {4, 64},              // along z
      {5, 0x7fffffff},      // blocks of a grid along x
      {6, 65535},           // along y
      {7, 65535},           // along z
      {8, STATIC_SHARED},   // bytes of shared memory of a block
      {10, 32},             // threads of a warp
      {16, MULTIPROCESSORS},
      {39, 2048},           // threads of a multiprocessor
      {41, 1},              // host and devices share their addresses
      {75, 9},              // compute capability
      {76, 0},
      {97, MOST_SHARED},    // bytes of shared memory of a block that asks for them
      {115, 1},             // memory is taken and given back in a stream's order
  };
  const auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  return SUCCESS;
}

EXPORTED Result cuDevicePrimaryCtxRetain(Device** context, int device) {
  if (device < 0 || device >= device_count()) return INVALID_DEVICE;
  *context = &devices[device];
  return SUCCESS;
}

EXPORTED Result cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }

EXPORTED Result cuCtxGetCurrent(Device** context) {
  *context = current;
  return SUCCESS;
}

EXPORTED Result cuCtxSetCurrent(Device* context) {
  if (context && (context < devices || context >= devices + device_count())) return INVALID_CONTEXT;
  current = context;
  return SUCCESS;
}

EXPORTED Result cuCtxSynchronize() {
  if (is_recording()) return CAPTURE_UNSUPPORTED;
  drain_all();
  return SUCCESS;
}

// ---- memory
EXPORTED Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (!current) return INVALID_CONTEXT;
  const std::lock_guard<std::mutex> lock(books);
  *free = MEMORY - current->used;
  *total = MEMORY;
  return SUCCESS;
}

EXPORTED Result cuMemAlloc_v2(uintptr_t* at, size_t bytes) {
  if (is_recording()) return CAPTURE_UNSUPPORTED;
  return current ? take(bytes, current, at) : INVALID_CONTEXT;
}

EXPORTED Result cuMemAllocAsync(uintptr_t* at, size_t bytes, Stream* handle) {
  if (is_recording()) return CAPTURE_UNSUPPORTED;
  const auto stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  Result result = take(bytes, stream->device, at);
  if (result == OUT_OF_MEMORY) {
    // What lies in streams may give some back.
    drain_all();
    result = take(bytes, stream->device, at);
  }
  return result;
}

EXPORTED Result cuMemFree_v2(uintptr_t at) {
  if (is_recording()) return CAPTURE_UNSUPPORTED;
  drain_all();
  return give_back(at, true);
}

EXPORTED Result cuMemFreeAsync(uintptr_t at, Stream* stream) {
  {
    const std::lock_guard<std::mutex> lock(books);
    if (!pieces.count(at)) return INVALID_VALUE;
  }
  return put(stream, GIVE_BACK, [at] {
    if (give_back(at, true) != SUCCESS) give_up("memory was given back twice");
  });
}

EXPORTED Result cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  if (is_recording()) return CAPTURE_UNSUPPORTED;
  return current ? take(bytes, nullptr, (uintptr_t*)at) : INVALID_CONTEXT;
}

EXPORTED Result cuMemFreeHost(void* at) {
  if (is_recording()) return CAPTURE_UNSUPPORTED;
  drain_all();
  return give_back((uintptr_t)at, false);
}

EXPORTED Result cuPointerGetAttributes(unsigned count, const int* attributes, void** answers, uintptr_t at) {
  const std::lock_guard<std::mutex> lock(books);
  const auto* piece = find(at);
  for (unsigned i = 0; i < count; i++) {
    Device* device = piece ? piece->second.device : nullptr;
    switch (attributes[i]) {
      case 2: *(unsigned*)answers[i] = !piece ? 0 : device ? 2 : 1; break;
      case 9: *(int*)answers[i] = !piece ? -2 : device ? (int)(device - devices) : 0; break;
      default: return INVALID_VALUE;
    }
  }
  return SUCCESS;
}

EXPORTED Result cuMemsetD8Async(uintptr_t at, unsigned char value, size_t bytes, Stream* stream) {
  if (bytes > 0 && !is_ours((const char*)at, 1)) return INVALID_VALUE;
  return put(stream, FILL, [=] {
    std::memset((void*)at, value, bytes);
    check_all("a fill");
  });
}

EXPORTED Result cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t bytes, Stream* stream) {
  return copy((void*)to, from, bytes, true, false, stream);
}

EXPORTED Result cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t bytes, Stream* stream) {
  return copy(to, (const void*)from, bytes, false, true, stream);
}

EXPORTED Result cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, Stream* stream) {
  return copy((void*)to, (const void*)from, bytes, true, true, stream);
}

// ---- streams and events
EXPORTED Result cuStreamCreate(Stream** handle, unsigned) {
  if (!current) return INVALID_CONTEXT;
  const auto stream = std::make_shared<Stream>();
  stream->device = current;
  const std::lock_guard<std::recursive_mutex> lock(order);
  streams[stream.get()] = stream;
  *handle = stream.get();
  return SUCCESS;
}

EXPORTED Result cuStreamCreateWithPriority(Stream** handle, unsigned flags, int) {
  return cuStreamCreate(handle, flags);
}

// What lies in the stream is done before it goes.
EXPORTED Result cuStreamDestroy_v2(Stream* handle) {
  const Result waited = wait(handle);
  const std::lock_guard<std::recursive_mutex> lock(order);
  if (waited == SUCCESS) streams.erase(handle);
  return waited;
}

EXPORTED Result cuStreamSynchronize(Stream* stream) { return wait(stream); }

// ---- graphs
EXPORTED Result cuStreamBeginCapture_v2(Stream* handle, int) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  const auto stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (stream->recorded) return ILLEGAL_STATE;
  stream->recorded = std::make_shared<Graph>();
  return SUCCESS;
}

EXPORTED Result cuStreamEndCapture(Stream* handle, Graph** graph) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  const auto stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (!stream->recorded) return ILLEGAL_STATE;
  *graph = stream->recorded.get();
  graphs[*graph] = std::move(stream->recorded);
  stream->recorded = nullptr;
  return SUCCESS;
}

EXPORTED Result cuStreamIsCapturing(Stream* handle, int* status) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  const auto stream = stream_of(handle);
  *status = stream && stream->recorded ? 1 : 0;
  return stream ? SUCCESS : INVALID_HANDLE;
}

EXPORTED Result cuGraphInstantiateWithFlags(Graph** made, Graph* graph, unsigned long long) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  const auto found = graphs.find(graph);
  if (found == graphs.end()) return INVALID_HANDLE;
  const auto copy = std::make_shared<Graph>(*found->second);
  *made = copy.get();
  graphs[*made] = copy;
  return SUCCESS;
}

EXPORTED Result cuGraphLaunch(Graph* graph, Stream* stream) {
  std::shared_ptr<Graph> held;
  {
    const std::lock_guard<std::recursive_mutex> lock(order);
    const auto found = graphs.find(graph);
    if (found == graphs.end()) return INVALID_HANDLE;
    held = found->second;
  }
  return put(stream, GRAPH, [held] {
    for (const auto& node : held->nodes) node->work();
  });
}

EXPORTED Result cuGraphDestroy(Graph* graph) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  return graphs.erase(graph) == 1 ? SUCCESS : INVALID_HANDLE;
}

EXPORTED Result cuGraphExecDestroy(Graph* graph) { return cuGraphDestroy(graph); }

// As many as there is room for; without room, how many there are.
EXPORTED Result cuGraphGetNodes(Graph* graph, Node** nodes, size_t* count) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  const auto found = graphs.find(graph);
  if (found == graphs.end()) return INVALID_HANDLE;
  const auto& all = found->second->nodes;
  *count = nodes ? std::min(*count, all.size()) : all.size();
  for (size_t i = 0; nodes && i < *count; i++) nodes[i] = all[i].get();
  return SUCCESS;
}

EXPORTED Result cuGraphNodeGetType(Node* node, int* type) {
  *type = node->kind;
  return SUCCESS;
}

// Of the parameters the first alone, which is the function.
EXPORTED Result cuGraphKernelNodeGetParams_v2(Node* node, Function** parameters) {
  *parameters = node->function;
  return node->function ? SUCCESS : INVALID_VALUE;
}

EXPORTED Result cuFuncGetName(const char** name, Function* function) {
  if (!known(function)) return INVALID_HANDLE;
  *name = function->kernel->name;
  return SUCCESS;
}

EXPORTED Result cuEventCreate(Event** handle, unsigned) {
  const auto event = std::make_shared<Event>();
  const std::lock_guard<std::recursive_mutex> lock(order);
  events[event.get()] = event;
  *handle = event.get();
  return SUCCESS;
}

EXPORTED Result cuEventDestroy_v2(Event* handle) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  return events.erase(handle) == 1 ? SUCCESS : INVALID_HANDLE;
}

EXPORTED Result cuEventRecord(Event* handle, Stream* of) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  const auto stream = stream_of(of);
  if (!events.count(handle) || !stream) return INVALID_HANDLE;
  handle->stream = stream;
  handle->place = stream->done + stream->queue.size();
  handle->time = std::chrono::steady_clock::now();
  return SUCCESS;
}

EXPORTED Result cuEventSynchronize(Event* handle) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  if (!events.count(handle)) return INVALID_HANDLE;
  if (const auto stream = handle->stream.lock()) drain(*stream, handle->place);
  return SUCCESS;
}

EXPORTED Result cuEventQuery(Event* handle) { return cuEventSynchronize(handle); }

EXPORTED Result cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  if (!events.count(from) || !events.count(to)) return INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return SUCCESS;
}

EXPORTED Result cuEventElapsedTime_v2(float* milliseconds, Event* from, Event* to) {
  return cuEventElapsedTime(milliseconds, from, to);
}

EXPORTED Result cuStreamWaitEvent(Stream* handle, Event* event, unsigned) {
  const std::lock_guard<std::recursive_mutex> lock(order);
  if (!events.count(event)) return INVALID_HANDLE;
  const auto [of, place] = std::pair(event->stream, event->place);
  return put(handle, WAIT, [of = of, place = place] {
    if (const auto other = of.lock()) drain(*other, place);
  });
}

// ---- modules and kernels
EXPORTED Result cuModuleLoadData(Loaded** handle, const void* image) {
  if (!current) return INVALID_CONTEXT;
  emulated::Header header;
  std::memcpy(&header, image, sizeof(header.magic));
  if (std::memcmp(header.magic, emulated::MAGIC, sizeof(header.magic)) != 0) return INVALID_IMAGE;
  std::memcpy(&header, image, sizeof(header));
  const char* where = std::getenv("TMPDIR");
  std::string name = std::string(where ? where : "/tmp") + "/flcc-emulated-XXXXXX";
  const int file = mkstemp(&name[0]);
  if (file < 0) return OUT_OF_MEMORY;
  const char* rest = (const char*)image + sizeof(header);
  bool written = true;
  for (size_t at = 0; written && at < header.bytes;) {
    const ssize_t count = ::write(file, rest + at, header.bytes - at);
    written = count > 0;
    at += written ? (size_t)count : 0;
  }
  close(file);
  // Each load is an object of its own with its own variables.
  void* object = written ? dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(name.c_str());
  if (!object) {
    std::fprintf(stderr, "emulated device: %s\n", dlerror());
    return INVALID_IMAGE;
  }
  auto loaded = std::make_unique<Loaded>();
  loaded->device = current;
  loaded->object = object;
  loaded->module = (const emulated::Module*)dlsym(object, "flcc_module");
  const std::lock_guard<std::mutex> lock(loading);
  *handle = loaded.get();
  modules[loaded.get()] = std::move(loaded);
  return SUCCESS;
}

EXPORTED Result cuModuleUnload(Loaded* module) {
  drain_all();
  if (!known(module)) return INVALID_HANDLE;
  const std::lock_guard<std::mutex> lock(loading);
  for (auto function = functions.begin(); function != functions.end();)
    function = function->first->loaded == module ? functions.erase(function) : std::next(function);
  {
    const std::lock_guard<std::mutex> lock_of_books(books);
    for (size_t i = 0; i < module->module->variable_count; i++) pieces.erase((uintptr_t)module->module->variables[i].at);
    __atomic_add_fetch(&changes, 1, __ATOMIC_RELEASE);
  }
  dlclose(module->object);
  modules.erase(module);
  return SUCCESS;
}

EXPORTED Result cuModuleGetFunction(Function** handle, Loaded* module, const char* name) {
  if (!known(module)) return INVALID_HANDLE;
  const std::lock_guard<std::mutex> lock(loading);
  const emulated::Module& about = *module->module;
  for (size_t i = 0; i < about.kernel_count; i++) {
    if (std::strcmp(about.kernels[i].name, name) != 0) continue;
    // Everyone who asks gets the same one, and what one sets of it holds for all.
    for (const auto& [at, there] : functions)
      if (there->loaded == module && there->kernel == &about.kernels[i]) {
        *handle = at;
        return SUCCESS;
      }
    auto function = std::make_unique<Function>();
    function->loaded = module;
    function->kernel = &about.kernels[i];
    *handle = function.get();
    functions[function.get()] = std::move(function);
    return SUCCESS;
  }
  return NOT_FOUND;
}

// What was asked for is memory of the device as long as its module is loaded, so that copies go there.
EXPORTED Result cuModuleGetGlobal_v2(uintptr_t* at, size_t* bytes, Loaded* module, const char* name) {
  if (!known(module)) return INVALID_HANDLE;
  const emulated::Module& about = *module->module;
  for (size_t i = 0; i < about.variable_count; i++) {
    if (std::strcmp(about.variables[i].name, name) != 0) continue;
    const std::lock_guard<std::mutex> lock(books);
    pieces[(uintptr_t)about.variables[i].at] = {about.variables[i].bytes, module->device, nullptr};
    if (at) *at = (uintptr_t)about.variables[i].at;
    if (bytes) *bytes = about.variables[i].bytes;
    return SUCCESS;
  }
  return NOT_FOUND;
}

EXPORTED Result cuFuncGetAttribute(int* value, int attribute, Function* function) {
  if (!known(function)) return INVALID_HANDLE;
  switch (attribute) {
    case 0: *value = 1024; break;
    case 1: *value = (int)function->loaded->module->shared_bytes; break;
    case 4: *value = 64; break;
    case 8: *value = (int)function->most_dynamic; break;
    default: *value = 0;
  }
  return SUCCESS;
}

EXPORTED Result cuFuncSetAttribute(Function* function, int attribute, int value) {
  if (!known(function)) return INVALID_HANDLE;
  if (attribute != 8 || value < 0 || (size_t)value + function->loaded->module->shared_bytes > MOST_SHARED)
    return INVALID_VALUE;
  function->most_dynamic = (size_t)value;
  return SUCCESS;
}

EXPORTED Result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function* function, int threads,
                                                                     size_t dynamic, unsigned) {
  if (!known(function) || threads <= 0) return INVALID_VALUE;
  const size_t shared = function->loaded->module->shared_bytes + dynamic + 1024;
  *blocks = (int)std::min({(size_t)2048 / (size_t)threads, ((size_t)228 << 10) / shared, (size_t)32});
  return SUCCESS;
}

EXPORTED Result cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned dynamic, Stream* stream, void** arguments,
                               void**) {
  if (!known(function)) return INVALID_HANDLE;
  const bool fits = grid_x > 0 && grid_y > 0 && grid_z > 0 && grid_x <= 0x7fffffffu && grid_y <= 65535 &&
                    grid_z <= 65535 && block_x > 0 && block_y > 0 && block_z > 0 &&
                    (size_t)block_x * block_y * block_z <= 1024 && block_z <= 64 && dynamic <= function->most_dynamic;
  if (!fits) return INVALID_VALUE;
  const std::function<void()> kernel = function->kernel->bind(arguments);
  const auto work = [=] {
    const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    {
      const std::lock_guard<std::mutex> lock(function->loaded->running);
      function->loaded->module->run(kernel, grid, block, dynamic, is_ours);
    }
    check_all(function->kernel->name);
  };
  return put(stream, KERNEL, work, function);
}

// What other libraries put into a stream: those beside this one.
EXPORTED int flcc_emulated_put(Stream* stream, const std::function<void()>& work) {
  return put(stream, TRANSFORM, [work] {
    work();
    check_all("a transform");
  });
}
