// What every CUDA op does around its kernels.
#pragma once

#include <cuda_runtime.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <type_traits>

#include "burnlike/tensors.h"

namespace burnlike::cuda {

inline constexpr int kWarp = 32;

// Makes a device current for a scope and knows the stream that the caller has set on it.
class DeviceScope {
 public:
  explicit DeviceScope(int32_t device_index) : device_(device_index), guard_(device_index) {
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_index, &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }
  explicit DeviceScope(const Tensor& tensor) : DeviceScope(tensor.get_device_index()) {}

  cudaStream_t stream() const { return stream_; }
  int32_t device() const { return device_; }

 private:
  int32_t device_;
  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_ = nullptr;
};

// Blocks of a kernel that a device, which is current, runs at a time. Asked for once, as that takes microseconds.
inline int64_t resident_blocks(const void* kernel, int threads, int32_t device) {
  static std::mutex mutex;
  static std::map<std::tuple<const void*, int, int32_t>, int64_t> known;
  const std::lock_guard lock(mutex);
  int64_t& blocks = known[{kernel, threads, device}];
  if (blocks == 0) {
    int each = 0;
    int processors = 0;
    STD_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0);
    if (error != cudaSuccess) cudaGetLastError();  // the launch will say what is wrong
    blocks = static_cast<int64_t>(std::max(1, each)) * processors;
  }
  return blocks;
}

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
