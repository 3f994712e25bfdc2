#include "isa.h"

#include <atomic>
#include <stdexcept>

#include "kernels.h"

namespace burnlike::cpu {
namespace {

std::vector<const Kernels*> tables_available() {
  std::vector<const Kernels*> tables{&default_kernels};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
      __builtin_cpu_supports("pclmul")) {
    tables.push_back(&avx2_kernels);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      tables.push_back(&avx512_kernels);
    }
  }
#endif
  return tables;
}

std::atomic<const Kernels*>& chosen() {
  static std::atomic<const Kernels*> table{tables_available().back()};
  return table;
}

}  // namespace

const Kernels& kernels() { return *chosen().load(std::memory_order_relaxed); }

std::vector<std::string> isas_available() {
  std::vector<std::string> names;
  for (const Kernels* table : tables_available()) names.emplace_back(table->isa);
  return names;
}

std::string isa_in_use() { return kernels().isa; }

void choose_isa(const std::string& name) {
  const std::vector<const Kernels*> tables = tables_available();
  if (name.empty()) {
    chosen() = tables.back();
    return;
  }
  for (const Kernels* table : tables) {
    if (name == table->isa) {
      chosen() = table;
      return;
    }
  }
  throw std::runtime_error("this machine does not run the instruction set " + name);
}

}  // namespace burnlike::cpu
