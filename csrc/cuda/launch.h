// What every CUDA op does around its kernels.
#pragma once

#include <cuda_runtime.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>

#include <cstdint>
#include <type_traits>

#include "burnlike/tensors.h"

namespace burnlike::cuda {

inline constexpr int kWarp = 32;

// Makes a device current for a scope and knows the stream that the caller has set on it.
class DeviceScope {
 public:
  explicit DeviceScope(int32_t device_index) : guard_(device_index) {
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_index, &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }
  explicit DeviceScope(const Tensor& tensor) : DeviceScope(tensor.get_device_index()) {}

  cudaStream_t stream() const { return stream_; }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_ = nullptr;
};

// Starts a kernel. A function of its own, so that the kernels can also be run by tests/ops/cuda_emulation.
template <class... Parameters>
void launch(
    void (*kernel)(Parameters...), uint32_t blocks, dim3 threads, cudaStream_t stream,
    const std::type_identity_t<Parameters>&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = threads;
  config.stream = stream;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error == cudaErrorNoKernelImageForDevice) {
    cudaGetLastError();  // or the next call of CUDA would report it
    STD_TORCH_CHECK(
        false,
        "burnlike's CUDA kernels were not built for this GPU: expected one of compute capability 8.0 or newer, or of "
        "TORCH_CUDA_ARCH_LIST while building; build with this GPU's in it, or with BURNLIKE_CUDA=0 for plain torch");
  }
  STD_CUDA_CHECK(error);
}

// The sum of a value over a warp, known to each of its threads.
template <class Value>
__device__ __forceinline__ Value warp_sum(Value value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
  return value;
}

// Several values that are read or written as one.
template <class Element, int kCount>
struct alignas(sizeof(Element) * kCount) Pack {
  Element values[kCount];
};

template <class Element, int kCount>
__host__ __device__ __forceinline__ bool is_packed(const Element* data) {
  return reinterpret_cast<uintptr_t>(data) % sizeof(Pack<Element, kCount>) == 0;
}

}  // namespace burnlike::cuda
