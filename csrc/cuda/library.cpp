// The ops that say what the CUDA library is. Its schemas are in csrc/library.cpp.
#include <torch/csrc/stable/library.h>

#include <string>

#include "burnlike/calls.h"

#ifndef BURNLIKE_CUDA_ARCHS
#error "BURNLIKE_CUDA_ARCHS comes from setup.py"
#endif

namespace {

// What the kernels were built for: "80 90 100 100+PTX".
std::string cuda_archs() { return BURNLIKE_CUDA_ARCHS; }

std::string cuda_library_version() { return BURNLIKE_VERSION; }

std::string cuda_call_counts() { return burnlike::CallCounter::all(); }

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(burnlike, CompositeExplicitAutograd, library) {
  library.impl("cuda_library_version", TORCH_BOX(&cuda_library_version));
  library.impl("cuda_archs", TORCH_BOX(&cuda_archs));
  library.impl("cuda_call_counts", TORCH_BOX(&cuda_call_counts));
}
