#include "isa.h"

#include <atomic>
#include <stdexcept>

#include "isa/kernel_table.h"

namespace burnlike::cpu {
namespace {

constexpr const char* kNames[] = {"default", "avx2", "avx512", "avx512_bf16"};

// How many of them this machine can run: each comes with those before it.
int count_available() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
      __builtin_cpu_supports("pclmul")) {
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!has_avx512) return 2;
    return __builtin_cpu_supports("avx512bf16") ? 4 : 3;
  }
#endif
  return 1;
}

std::atomic<Isa>& chosen() {
  static std::atomic<Isa> isa{static_cast<Isa>(count_available() - 1)};
  return isa;
}

}  // namespace

Isa isa() { return chosen().load(std::memory_order_relaxed); }

std::vector<std::string> isas_available() { return {kNames, kNames + count_available()}; }

std::string isa_in_use() { return kNames[static_cast<int>(isa())]; }

void choose_isa(const std::string& name) {
  const int count = count_available();
  for (int index = 0; index < count; ++index) {
    if (name == kNames[index] || (name.empty() && index == count - 1)) {
      chosen() = static_cast<Isa>(index);
      return;
    }
  }
  throw std::runtime_error("this machine does not run the instruction set " + name);
}

}  // namespace burnlike::cpu
