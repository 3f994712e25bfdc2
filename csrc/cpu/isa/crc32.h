// The kernels of CRC-32: their bodies are in crc32.inl.
#pragma once

#include <cstdint>

#include "burnlike/crc32.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// A checksum's state (all bits flipped) after `count` bytes more.
using Crc32 = uint32_t (*)(uint32_t state, const uint8_t* bytes, int64_t count);

BURNLIKE_KERNELS(Crc32, crc32_kernels)

}  // namespace burnlike::cpu
