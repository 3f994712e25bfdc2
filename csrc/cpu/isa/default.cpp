// The kernels for whatever the compiler takes as its baseline: SSE2 on x86-64, NEON on aarch64.
#include "../kernels.h"
#include "burnlike/blockwise.h"
#include "burnlike/convert.h"
#include "burnlike/crc32.h"
#include "burnlike/random.h"
#include "burnlike/rms_norm.h"

#define BURNLIKE_ISA "default"
#define BURNLIKE_TABLE default_kernels
#include "table.inl"
