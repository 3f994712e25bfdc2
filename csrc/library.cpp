// The ops that say what this library is.
//
// The schemas of the others are in cpu/, with their CPU kernels; CUDA kernels are registered in the second library,
// from cuda/. Fakes (shapes without data) and derivatives are in Python, beside each op's function in burnlike/ops.
#include <torch/csrc/stable/library.h>

#include <string>

#include "burnlike/calls.h"
#include "cpu/isa.h"

#ifndef BURNLIKE_VERSION
#error "BURNLIKE_VERSION comes from setup.py"
#endif

STABLE_TORCH_LIBRARY(burnlike, library) {
  library.def("library_version() -> str");
  library.def("cpu_isa() -> str");
  library.def("cpu_isas_available() -> str");
  library.def("choose_cpu_isa(str name) -> ()");
  library.def("call_counts() -> str");
  library.def("cuda_library_version() -> str");
  library.def("cuda_call_counts() -> str");
  library.def("cuda_archs() -> str");
}

namespace {

std::string library_version() { return BURNLIKE_VERSION; }

std::string cpu_isa() { return burnlike::cpu::isa_in_use(); }

std::string cpu_isas_available() {
  std::string text;
  for (const std::string& name : burnlike::cpu::isas_available()) text += text.empty() ? name : ' ' + name;
  return text;
}

void choose_cpu_isa(const std::string& name) { burnlike::cpu::choose_isa(name); }

std::string call_counts() { return burnlike::CallCounter::all(); }

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(burnlike, CompositeExplicitAutograd, library) {
  library.impl("library_version", TORCH_BOX(&library_version));
  library.impl("cpu_isa", TORCH_BOX(&cpu_isa));
  library.impl("cpu_isas_available", TORCH_BOX(&cpu_isas_available));
  library.impl("choose_cpu_isa", TORCH_BOX(&choose_cpu_isa));
  library.impl("call_counts", TORCH_BOX(&call_counts));
}
