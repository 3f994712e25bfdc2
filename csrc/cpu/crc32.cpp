// CRC-32 of bytes on the CPU. The arithmetic is in isa/crc32.inl.
#include <torch/csrc/stable/library.h>

#include <cstdint>

#include "burnlike/calls.h"
#include "burnlike/tensors.h"
#include "isa/crc32.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"crc32"};

int64_t crc32(const Tensor& bytes, int64_t start) {
  calls.add();
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(bytes.get(), &dtype));
  STD_TORCH_CHECK(dtype == aoti_torch_dtype_uint8(), "crc32: expected bytes as uint8");
  STD_TORCH_CHECK(bytes.is_contiguous(), "crc32: the bytes are not contiguous");
  STD_TORCH_CHECK(0 <= start && start <= UINT32_MAX, "crc32: expected a start from 0 to 2^32 - 1");
  const uint8_t* data = data_of<uint8_t>(bytes);
  return ~crc32_kernels()(~static_cast<uint32_t>(start), data, bytes.numel()) & UINT32_MAX;
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) { library.def("crc32(Tensor bytes, int start) -> int"); }

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) { library.impl("crc32", TORCH_BOX(&burnlike::cpu::crc32)); }
