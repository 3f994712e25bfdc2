// A step of AdamW over many tensors on CUDA: one launch for a list of chunks, whose addresses travel as the kernel's
// argument. Nothing is copied to the device, so that nothing waits. The arithmetic is in burnlike/adamw_step.h.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "burnlike/adamw_lists.h"
#include "burnlike/calls.h"
#include "launch.h"

namespace burnlike::cuda {
namespace {

CallCounter calls{"adamw_step_"};

constexpr int kThreads = 512;
constexpr int kPack = 4;
constexpr int64_t kChunkValues = 32768;
constexpr int kMaxTensors = 256;
constexpr int kMaxChunks = 2048;

template <class Element, class Moment>
struct Chunks {
  AdamwScalars<accumulate_t<Element>> scalars;
  Element* params[kMaxTensors];
  const Element* grads[kMaxTensors];
  Moment* moments_1[kMaxTensors];
  Moment* moments_2[kMaxTensors];
  Moment* max_moments_2[kMaxTensors];
  int64_t counts[kMaxTensors];
  AdamwCorrections corrections[kMaxTensors];
  int32_t chunk_starts[kMaxChunks];  // in chunks
  uint8_t chunk_tensors[kMaxChunks];
};

// Kernel arguments may have 32,764 bytes from CUDA 12.1 and compute capability 7.0 on.
static_assert(sizeof(Chunks<double, double>) <= 32764);

template <class Type>
__device__ __forceinline__ Pack<Type, kPack> read(const Type* data, int64_t index) {
  return *reinterpret_cast<const Pack<Type, kPack>*>(data + index);
}

template <class Type>
__device__ __forceinline__ void write(Type* data, int64_t index, const Pack<Type, kPack>& values) {
  *reinterpret_cast<Pack<Type, kPack>*>(data + index) = values;
}

template <bool kCautious, bool kAmsgrad, class Element, class Moment>
__global__ void __launch_bounds__(kThreads) adamw_kernel(const __grid_constant__ Chunks<Element, Moment> chunks) {
  using Accumulate = accumulate_t<Element>;
  const int tensor = chunks.chunk_tensors[blockIdx.x];
  Element* params = chunks.params[tensor];
  const Element* grads = chunks.grads[tensor];
  Moment* moments_1 = chunks.moments_1[tensor];
  Moment* moments_2 = chunks.moments_2[tensor];
  Moment* max_moments_2 = kAmsgrad ? chunks.max_moments_2[tensor] : nullptr;
  AdamwScalars<Accumulate> scalars = chunks.scalars;
  scalars.correction_1 = static_cast<Accumulate>(chunks.corrections[tensor].moment_1);
  scalars.correction_2 = static_cast<Accumulate>(chunks.corrections[tensor].moment_2);

  const int64_t begin = static_cast<int64_t>(chunks.chunk_starts[blockIdx.x]) * kChunkValues;
  const int64_t end = min(begin + kChunkValues, chunks.counts[tensor]);
  const bool packed = is_packed<Element, kPack>(params) && is_packed<Element, kPack>(grads) &&
                      is_packed<Moment, kPack>(moments_1) && is_packed<Moment, kPack>(moments_2) &&
                      (!kAmsgrad || is_packed<Moment, kPack>(max_moments_2));
  const int64_t packed_end = packed ? end - (end - begin) % kPack : begin;
  for (int64_t index = begin + threadIdx.x * kPack; index < packed_end; index += kThreads * kPack) {
    Pack<Element, kPack> p_values = read(params, index);
    const Pack<Element, kPack> g_values = read(grads, index);
    Pack<Moment, kPack> m_values = read(moments_1, index);
    Pack<Moment, kPack> v_values = read(moments_2, index);
    Pack<Moment, kPack> max_values{};
    if constexpr (kAmsgrad) max_values = read(max_moments_2, index);
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      Accumulate p = load(p_values.values[lane]);
      Accumulate m = load(m_values.values[lane]);
      Accumulate v = load(v_values.values[lane]);
      Accumulate v_max = load(max_values.values[lane]);
      adamw_value<kCautious, kAmsgrad>(p, Accumulate(load(g_values.values[lane])), m, v, v_max, scalars);
      p_values.values[lane] = store<Element>(p);
      m_values.values[lane] = store<Moment>(m);
      v_values.values[lane] = store<Moment>(v);
      max_values.values[lane] = store<Moment>(v_max);
    }
    write(params, index, p_values);
    write(moments_1, index, m_values);
    write(moments_2, index, v_values);
    if constexpr (kAmsgrad) write(max_moments_2, index, max_values);
  }
  for (int64_t index = packed_end + threadIdx.x; index < end; index += kThreads) {
    Accumulate p = load(params[index]);
    Accumulate m = load(moments_1[index]);
    Accumulate v = load(moments_2[index]);
    Accumulate v_max = 0;
    if constexpr (kAmsgrad) v_max = load(max_moments_2[index]);
    adamw_value<kCautious, kAmsgrad>(p, Accumulate(load(grads[index])), m, v, v_max, scalars);
    params[index] = store<Element>(p);
    moments_1[index] = store<Moment>(m);
    moments_2[index] = store<Moment>(v);
    if constexpr (kAmsgrad) max_moments_2[index] = store<Moment>(v_max);
  }
}

// Collects chunks of tensors of one pair of types and launches whenever the argument is full.
template <class Element, class Moment>
class Launcher {
 public:
  Launcher(const AdamwArguments& arguments, bool cautious, bool amsgrad, cudaStream_t stream)
      : cautious_(cautious), amsgrad_(amsgrad), stream_(stream) {
    chunks_.scalars = adamw_scalars<accumulate_t<Element>>(arguments, AdamwCorrections{});
  }

  void add(const AdamwTensor& tensor) {
    const int64_t chunks = (tensor.count + kChunkValues - 1) / kChunkValues;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (chunk == 0 || chunk_count_ == kMaxChunks) {
        if (chunk_count_ == kMaxChunks || tensor_count_ == kMaxTensors) launch();
        put(tensor);
      }
      chunks_.chunk_starts[chunk_count_] = static_cast<int32_t>(chunk);
      chunks_.chunk_tensors[chunk_count_] = static_cast<uint8_t>(tensor_count_ - 1);
      ++chunk_count_;
    }
  }

  void launch() {
    if (chunk_count_ == 0) return;
    const auto kernel = cautious_ ? (amsgrad_ ? adamw_kernel<true, true, Element, Moment>
                                              : adamw_kernel<true, false, Element, Moment>)
                                  : (amsgrad_ ? adamw_kernel<false, true, Element, Moment>
                                              : adamw_kernel<false, false, Element, Moment>);
    kernel<<<chunk_count_, kThreads, 0, stream_>>>(chunks_);
    STD_CUDA_KERNEL_LAUNCH_CHECK();
    chunk_count_ = tensor_count_ = 0;
  }

 private:
  void put(const AdamwTensor& tensor) {
    chunks_.params[tensor_count_] = static_cast<Element*>(tensor.param);
    chunks_.grads[tensor_count_] = static_cast<const Element*>(tensor.grad);
    chunks_.moments_1[tensor_count_] = static_cast<Moment*>(tensor.moment_1);
    chunks_.moments_2[tensor_count_] = static_cast<Moment*>(tensor.moment_2);
    chunks_.max_moments_2[tensor_count_] = static_cast<Moment*>(tensor.max_moment_2);
    chunks_.counts[tensor_count_] = tensor.count;
    chunks_.corrections[tensor_count_] = tensor.corrections;
    ++tensor_count_;
  }

  Chunks<Element, Moment> chunks_;
  int tensor_count_ = 0;
  int chunk_count_ = 0;
  bool cautious_;
  bool amsgrad_;
  cudaStream_t stream_;
};

void adamw_step_(
    StableListHandle params, StableListHandle grads, StableListHandle moments_1, StableListHandle moments_2,
    StableListHandle max_moments_2, const std::vector<int64_t>& times, double lr, double beta_1, double beta_2,
    double epsilon, double weight_decay, bool cautious, double grad_scale) {
  calls.add();
  const AdamwArguments arguments{lr, beta_1, beta_2, epsilon, weight_decay, grad_scale};
  AdamwLists lists{params, grads, moments_1, moments_2, max_moments_2, times, arguments};
  if (lists.tensors().empty()) return;
  STD_TORCH_CHECK(lists.device_type() == aoti_torch_device_type_cuda(), "adamw_step_: parameters are not on CUDA");
  const DeviceScope scope(lists.device_index());

  constexpr ElementKind kinds[][2] = {
      {ElementKind::kFloat32, ElementKind::kFloat32},   {ElementKind::kFloat64, ElementKind::kFloat64},
      {ElementKind::kBFloat16, ElementKind::kBFloat16}, {ElementKind::kBFloat16, ElementKind::kFloat32},
      {ElementKind::kFloat16, ElementKind::kFloat16},   {ElementKind::kFloat16, ElementKind::kFloat32}};
  for (const auto& [kind, moment_kind] : kinds) {
    with_adamw_types(kind, moment_kind, [&](auto element, auto moment) {
      Launcher<decltype(element), decltype(moment)> launcher(arguments, cautious, lists.amsgrad(), scope.stream());
      for (const AdamwTensor& tensor : lists.tensors()) {
        if (tensor.kind == kind && tensor.moment_kind == moment_kind) launcher.add(tensor);
      }
      launcher.launch();
    });
  }
  lists.copy_back();
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("adamw_step_", TORCH_BOX(&burnlike::cuda::adamw_step_));
}
