// libnvrtc of the emulated device: compiles CUDA sources for the host by g++, into shared objects that the emulated
// driver loads as machine code.
//
// A source is preprocessed by itself, so that its kernels and its variables in constant memory can be told by the words
// in front of them. entry.h goes in front of the rest, and a table of what was found behind it.

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "module.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

extern char** environ;

namespace {
enum Result { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, COMPILATION = 6, INTERNAL = 11 };

struct Program {
  std::string source, log, code;
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  return bool(file.flush());
}

// The folder of this library; the headers lie beside it.
std::string home() {
  Dl_info about;
  if (dladdr((void*)&home, &about) == 0) return ".";
  const std::string path = about.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// A folder of its own, removed again with what lies in it.
struct Folder {
  std::string path;
  Folder() {
    const char* where = std::getenv("TMPDIR");
    std::string name = std::string(where ? where : "/tmp") + "/flcc-emulated-XXXXXX";
    path = mkdtemp(&name[0]) ? name : "";
  }
  ~Folder() {
    for (const char* name : {"source.cpp", "plain.ii", "whole.cpp", "code.so", "log"})
      unlink((path + "/" + name).c_str());
    rmdir(path.c_str());
  }
};

// Runs a program, its messages into a file; whether it succeeded.
bool run(std::vector<std::string> words, const std::string& log) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(&word[0]);
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child;
  const bool started = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  int status = 1;
  if (!started) return false;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_part_of_a_name(char c) { return std::isalnum((unsigned char)c) || c == '_'; }

// The name that a declaration gives: the last one in front of a parenthesis that no `__launch_bounds__` opens, or in
// front of what `ends` a variable's.
std::string name_behind(const std::string& text, size_t at, const char* ends) {
  std::string last;
  while (at < text.size()) {
    const char c = text[at];
    if (is_part_of_a_name(c)) {
      size_t end = at;
      while (end < text.size() && is_part_of_a_name(text[end])) end++;
      last = text.substr(at, end - at);
      at = end;
    } else if (std::strchr(ends, c)) {
      if (last != "__launch_bounds__") return last;
      int depth = 0;
      do {
        depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
        at++;
      } while (depth > 0 && at < text.size());
    } else {
      at++;
    }
  }
  return "";
}

std::vector<std::string> names(const std::string& text, const std::string& word, const char* ends) {
  std::vector<std::string> found;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    found.push_back(name_behind(text, at + word.size(), ends));
  return found;
}

// What stands behind a source: the table of its kernels and variables.
std::string table(const std::string& source) {
  std::ostringstream text;
  text << "\n";
  for (const std::string& space : names(source, "namespace ", "{;"))
    if (!space.empty()) text << "using namespace " << space << ";\n";
  text << "static const emulated::Kernel flcc_kernels[] = {\n";
  const auto kernels = names(source, "__global__", "(");
  for (const std::string& name : kernels)
    text << "  {\"" << name << "\", [](void** arguments) { return emulated::bind(" << name << ", arguments); }},\n";
  text << "  {}};\nstatic const emulated::Variable flcc_variables[] = {\n";
  const auto variables = names(source, "__constant__", "[;=");
  for (const std::string& name : variables)
    text << "  {\"" << name << "\", (void*)&" << name << ", sizeof(" << name << ")},\n";
  text << "  {}};\nextern \"C\" __attribute__((visibility(\"default\"))) const emulated::Module flcc_module;\n"
       << "const emulated::Module flcc_module = {flcc_kernels, " << kernels.size() << ", flcc_variables, "
       << variables.size() << ",\n  (size_t)(__stop_flcc_shared - __start_flcc_shared), emulated::run};\n";
  return text.str();
}

Result compile(Program& program, const std::vector<std::string>& options) {
  const Folder folder;
  const std::string source = folder.path + "/source.cpp", plain = folder.path + "/plain.ii";
  const std::string whole = folder.path + "/whole.cpp", code = folder.path + "/code.so", log = folder.path + "/log";
  if (folder.path.empty() || !write(source, program.source)) return INTERNAL;
  // Of the options those that a source sees; the others are NVRTC's own.
  std::vector<std::string> words = {"g++", "-std=c++17", "-E", "-P", "-DFLCC_HOST=1", "-o", plain, source};
  for (const std::string& option : options)
    if (option.rfind("-D", 0) == 0) words.push_back(option);
  const bool preprocessed = run(words, log);
  program.log = read(log);
  if (!preprocessed) return COMPILATION;
  const std::string text = read(plain);
  if (!write(whole, "#include \"entry.h\"\n#line 1 \"preprocessed\"\n" + text + table(text))) return INTERNAL;
  std::istringstream flags(FLCC_FLAGS);
  words = {"g++"};
  for (std::string flag; flags >> flag;) words.push_back(flag);
  words.insert(words.end(), {"-shared", "-s", "-I", home(), "-o", code, whole});
  const bool compiled = run(words, log);
  program.log += read(log);
  if (!compiled) return COMPILATION;
  const std::string object = read(code);
  emulated::Header header;
  std::memcpy(header.magic, emulated::MAGIC, sizeof(header.magic));
  header.bytes = object.size();
  program.code.assign((const char*)&header, sizeof(header));
  program.code += object;
  return SUCCESS;
}

// A text's hash by FNV-1a, as a version: what was compiled with other headers or flags is compiled again.
int version_of(const std::string& text) {
  uint32_t hash = 2166136261u;
  for (const unsigned char byte : text) hash = (hash ^ byte) * 16777619u;
  return (int)(hash >> 1);
}
}  // namespace

EXPORTED Result nvrtcVersion(int* major, int* minor) {
  static const int version =
      version_of(FLCC_FLAGS + read(home() + "/shim.h") + read(home() + "/entry.h") + read(home() + "/module.h"));
  *major = 1000;
  *minor = version;
  return SUCCESS;
}

EXPORTED Result nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return SUCCESS;
}

EXPORTED Result nvrtcGetSupportedArchs(int* architectures) {
  *architectures = 90;
  return SUCCESS;
}

EXPORTED Result nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*,
                                   const char* const*) {
  *program = new Program{source, "", ""};
  return SUCCESS;
}

EXPORTED Result nvrtcDestroyProgram(Program** program) {
  if (!*program) return INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return SUCCESS;
}

EXPORTED Result nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  return compile(*program, std::vector<std::string>(options, options + count));
}

EXPORTED Result nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return SUCCESS;
}

EXPORTED Result nvrtcGetProgramLog(Program* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return SUCCESS;
}

EXPORTED Result nvrtcGetCUBINSize(Program* program, size_t* bytes) {
  *bytes = program->code.size();
  return program->code.empty() ? INVALID_PROGRAM : SUCCESS;
}

EXPORTED Result nvrtcGetCUBIN(Program* program, char* code) {
  if (program->code.empty()) return INVALID_PROGRAM;
  std::memcpy(code, program->code.data(), program->code.size());
  return SUCCESS;
}

EXPORTED const char* nvrtcGetErrorString(Result result) {
  switch (result) {
    case SUCCESS: return "NVRTC_SUCCESS";
    case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case COMPILATION: return "NVRTC_ERROR_COMPILATION";
    default: return "NVRTC_ERROR_INTERNAL_ERROR";
  }
}
