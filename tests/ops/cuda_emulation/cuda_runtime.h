// As much of CUDA as csrc/cuda uses, for a CPU: the kernels themselves, compiled as C++, run in tests without a GPU.
//
// A thread of a block is a fiber (ucontext). It runs until it meets the others: in a shuffle those of its warp, at a
// barrier those of its block. Lanes that are not all in the same shuffle end the process: on a GPU they would be a bug.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "quick_float.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
// One block runs at a time. Not `static`, which could not be declared `extern`.
#define __shared__ thread_local

using std::max;
using std::min;

using cudaStream_t = void*;
enum cudaError_t : int { cudaSuccess = 0, cudaErrorNoKernelImageForDevice = 209 };

struct dim3 {
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

inline constexpr unsigned kWarp = 32;
inline constexpr size_t kStackBytes = 256 << 10;

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  dim3 index;
  bool done = true;
  unsigned shuffles = 0;
  uint64_t shuffled[2] = {};
};

inline std::vector<std::unique_ptr<Fiber>> fibers;
inline unsigned fiber_count = 0;
inline unsigned current = 0;
inline ucontext_t scheduler;
inline std::function<void()> body;
inline unsigned arrived = 0;
inline unsigned generation = 0;
inline int votes[2] = {};

inline void yield() { swapcontext(&fibers[current]->context, &scheduler); }

inline void run_fiber() {
  body();
  fibers[current]->done = true;
}

inline unsigned alive() {
  return static_cast<unsigned>(
      std::count_if(fibers.begin(), fibers.begin() + fiber_count, [](const auto& fiber) { return !fiber->done; }));
}

// All threads of the block that have not ended meet. Returns whether one of them votes.
inline int barrier(int vote) {
  const unsigned own = generation;
  votes[own % 2] |= vote;
  ++arrived;
  while (generation == own) yield();
  return votes[own % 2];
}

inline void run_block() {
  for (unsigned number = 0; number < fiber_count; ++number) {
    if (number == fibers.size()) fibers.push_back(std::make_unique<Fiber>());
    Fiber& fiber = *fibers[number];
    fiber.index = dim3(number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y);
    fiber.done = false;
    fiber.shuffles = 0;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &scheduler;
    makecontext(&fiber.context, run_fiber, 0);
  }
  arrived = 0;
  while (const unsigned left = alive()) {
    if (arrived == left) {
      arrived = 0;
      votes[(generation + 1) % 2] = 0;
      ++generation;
    }
    for (current = 0; current < fiber_count; ++current) {
      if (fibers[current]->done) continue;
      threadIdx = fibers[current]->index;
      swapcontext(&scheduler, &fibers[current]->context);
    }
  }
}

}  // namespace emulation

namespace burnlike {

// Memory that a block is given beside its own: as much as an H100 has, of which a kernel may have 48 KB unless it has
// asked for more.
inline constexpr int kMostSharedBytes = 227 << 10;
namespace cuda {
inline thread_local double dynamic_shared_memory[kMostSharedBytes / sizeof(double)];
}

}  // namespace burnlike

enum cudaDeviceAttr : int { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
enum cudaFuncAttribute : int { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

inline std::map<const void*, size_t> allowed_shared_bytes;

inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int bytes) {
  allowed_shared_bytes[kernel] = static_cast<size_t>(bytes);
  return cudaSuccess;
}

// Three multiprocessors, of which each runs two blocks at a time.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 3 : burnlike::kMostSharedBytes;
  return cudaSuccess;
}

inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 2;
  return cudaSuccess;
}

inline void __syncthreads() { emulation::barrier(0); }
inline int __syncthreads_or(int vote) { return emulation::barrier(vote); }

template <class Value>
Value __shfl_xor_sync(unsigned, Value value, int offset) {
  using namespace emulation;
  static_assert(sizeof(Value) <= sizeof(uint64_t));
  Fiber& own = *fibers[current];
  const unsigned turn = ++own.shuffles;
  std::memcpy(&own.shuffled[turn % 2], &value, sizeof(value));
  const unsigned lane = current % kWarp;
  const Fiber& other = *fibers[current - lane + (lane ^ static_cast<unsigned>(offset))];
  yield();
  // The other one may already be in the next shuffle, but no further.
  if (other.shuffles < turn || other.shuffles > turn + 1) {
    std::fprintf(stderr, "emulated CUDA: the lanes of a warp are not in the same shuffle\n");
    std::abort();
  }
  std::memcpy(&value, &other.shuffled[turn % 2], sizeof(value));
  return value;
}

// Lanes of a warp meet in a shuffle.
inline void __syncwarp() { __shfl_xor_sync(0xFFFFFFFFu, 0, 0); }

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(
    const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (std::getenv("EMULATED_OLD_GPU") != nullptr) return cudaErrorNoKernelImageForDevice;
  const size_t allowed = std::max<size_t>(48 << 10, allowed_shared_bytes[reinterpret_cast<const void*>(kernel)]);
  if (config->dynamicSmemBytes > allowed) {
    std::fprintf(stderr, "emulated CUDA: a kernel was given more shared memory than it was allowed\n");
    std::abort();
  }
  std::memset(burnlike::cuda::dynamic_shared_memory, 0xFF, config->dynamicSmemBytes);  // NaN, as it may be anything
  gridDim = config->gridDim;
  blockDim = config->blockDim;
  emulation::fiber_count = blockDim.x * blockDim.y * blockDim.z;
  emulation::body = [&] { kernel(arguments...); };
  for (blockIdx = dim3(0); blockIdx.x < gridDim.x; ++blockIdx.x) emulation::run_block();
  return cudaSuccess;
}

inline cudaError_t cudaGetLastError() { return cudaSuccess; }

inline cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}

inline AOTITorchError no_cuda_stream(int32_t, void** stream) {
  *stream = nullptr;
  return 0;
}

namespace torch::stable::accelerator {

struct NoDeviceGuard {
  explicit NoDeviceGuard(int32_t) {}
};

}  // namespace torch::stable::accelerator

// Tensors of the CPU take the place of those on a GPU.
#define DeviceGuard NoDeviceGuard
#define aoti_torch_get_current_cuda_stream no_cuda_stream
#define aoti_torch_device_type_cuda aoti_torch_device_type_cpu
#define CUDA CPU
