// The ops that say what the CUDA library is. Its schemas are in csrc/library.cpp.
#include <torch/csrc/stable/library.h>

#include <string>

#include "burnlike/calls.h"

namespace {

std::string cuda_library_version() { return BURNLIKE_VERSION; }

std::string cuda_call_counts() { return burnlike::CallCounter::all(); }

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(burnlike, CompositeExplicitAutograd, library) {
  library.impl("cuda_library_version", TORCH_BOX(&cuda_library_version));
  library.impl("cuda_call_counts", TORCH_BOX(&cuda_call_counts));
}
