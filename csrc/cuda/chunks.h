// How the values of many tensors are given to blocks of threads: each tensor is cut into chunks, which are numbered
// through the list; the block of a chunk finds its tensor by the number. The table of tensors travels as the kernel's
// argument: nothing is copied to the device, so that nothing waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "burnlike/macros.h"

namespace burnlike::cuda {

// Kernel arguments may have this many bytes from CUDA 12.1 and compute capability 7.0 on.
inline constexpr size_t kMaxArgumentBytes = 32764;
// As all of them travel to the device with every launch, few tensors have a table of at most this size.
inline constexpr size_t kFewArgumentBytes = 4096;

// Values of a chunk: enough that finding its tensor costs little, few enough that small models have many.
inline constexpr int64_t kChunkValues = 16384;

inline uint32_t chunk_count(int64_t count) { return static_cast<uint32_t>((count + kChunkValues - 1) / kChunkValues); }

// The place of the tensor that a chunk belongs to. `ends` has for each tensor the number of the first chunk after it.
BURNLIKE_INLINE int tensor_of_chunk(const uint32_t* ends, int tensors, uint32_t chunk) {
  int low = 0;
  int high = tensors - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (chunk < ends[middle]) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace burnlike::cuda
