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
#include "pack.h"

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

// Shared memory that is given when a kernel is started: by default up to 48 KB.
inline constexpr int64_t kDefaultSharedBytes = 48 << 10;

extern __shared__ double dynamic_shared_memory[];

template <class Value>
__device__ __forceinline__ Value* dynamic_shared() {
  return reinterpret_cast<Value*>(dynamic_shared_memory);
}

// The most of it that a block on a device may have, beside what kernels have of their own.
inline int64_t most_shared_bytes(int32_t device) {
  constexpr int64_t kOwnBytes = 4 << 10;
  int most = 0;
  STD_CUDA_CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return most - kOwnBytes;
}

// The threads of a block, and the shared memory that it is given.
struct Block {
  Block(int threads_) : threads(threads_) {}
  Block(const dim3& threads_, int64_t shared_bytes_ = 0) : threads(threads_), shared_bytes(shared_bytes_) {}

  dim3 threads;
  int64_t shared_bytes = 0;
};

// Blocks of a kernel that a device, which is current, runs at a time. Asked for once, as that takes microseconds; then
// the kernel is also allowed the shared memory of such a block.
inline int64_t resident_blocks(const void* kernel, const Block& block, int32_t device) {
  const auto threads = static_cast<int>(block.threads.x * block.threads.y);
  const int64_t shared_bytes = block.shared_bytes;
  static std::mutex mutex;
  static std::map<std::tuple<const void*, int, int64_t, int32_t>, int64_t> known;
  const std::lock_guard lock(mutex);
  int64_t& blocks = known[{kernel, threads, shared_bytes, device}];
  if (blocks == 0) {
    int each = 0;
    int processors = 0;
    if (shared_bytes > kDefaultSharedBytes) {
      const auto most = static_cast<int>(most_shared_bytes(device));  // for all widths that may follow
      STD_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    }
    STD_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared_bytes);
    if (error != cudaSuccess) cudaGetLastError();  // the launch will say what is wrong
    blocks = static_cast<int64_t>(std::max(1, each)) * processors;
  }
  return blocks;
}

// Starts a kernel. A function of its own, so that the kernels can also be run by tests/ops/cuda_emulation.
template <class... Parameters>
void launch(
    void (*kernel)(Parameters...), uint32_t blocks, const Block& block, cudaStream_t stream,
    const std::type_identity_t<Parameters>&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = block.threads;
  config.dynamicSmemBytes = static_cast<size_t>(block.shared_bytes);
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

}  // namespace burnlike::cuda
