// The kernels of sums of squares: their bodies are in gradient_squares.inl.
#pragma once

#include <array>
#include <cstdint>

#include "kernel_table.h"

namespace burnlike::cpu {

// The sum of squares of `count` values, of at most kSquaresTile. For each element type, by its ElementKind.
using SumOfSquares = double (*)(const void* values, int64_t count);
using SumsOfSquares = std::array<SumOfSquares, 4>;

BURNLIKE_KERNELS(SumsOfSquares, gradient_squares_kernels)

}  // namespace burnlike::cpu
