// The kernels of conversion: their bodies are in convert.inl.
#pragma once

#include <array>
#include <cstdint>

#include "burnlike/convert.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Converts values [begin, end); whether a finite one became infinite. One for each type of source, by its ElementKind.
struct ConvertKernels {
  bool (*from[4])(const void* sources, void* targets, int64_t begin, int64_t end);
};
// For each type of target, by its ElementKind.
using ConvertTable = std::array<ConvertKernels, 4>;

BURNLIKE_KERNELS(ConvertTable, convert_kernels)

}  // namespace burnlike::cpu
