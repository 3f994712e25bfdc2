// Conversion of many tensors on CUDA: one launch for a list of chunks, whose addresses travel as the kernel's argument,
// so that nothing is copied to the device and nothing waits. Targets that lie in one buffer are packed by it. The
// arithmetic is in burnlike/convert.h.
#include <algorithm>
#include <cstdint>

#include "burnlike/calls.h"
#include "burnlike/convert_lists.h"
#include "launch.h"

namespace burnlike::cuda {
namespace {

CallCounter calls{"convert_"};

constexpr int kThreads = 256;
// Values that a thread takes at a time: at most 16 bytes of either type.
template <class Target, class Source>
constexpr int kPackOf = sizeof(Target) == 8 || sizeof(Source) == 8 ? 2 : 4;
constexpr int64_t kChunkValues = 32768;
constexpr int kMaxTensors = 256;
constexpr int kMaxChunks = 2048;

struct Chunks {
  void* targets[kMaxTensors];
  const void* sources[kMaxTensors];
  int32_t* lost[kMaxTensors];
  int64_t counts[kMaxTensors];
  int32_t chunk_starts[kMaxChunks];  // in chunks
  uint8_t chunk_tensors[kMaxChunks];
};

// Kernel arguments may have 32,764 bytes from CUDA 12.1 and compute capability 7.0 on.
static_assert(sizeof(Chunks) <= 32764);

template <class Target, class Source>
__global__ void __launch_bounds__(kThreads) convert_kernel(const __grid_constant__ Chunks chunks) {
  constexpr int kPack = kPackOf<Target, Source>;
  const int tensor = chunks.chunk_tensors[blockIdx.x];
  Target* targets = static_cast<Target*>(chunks.targets[tensor]);
  const Source* sources = static_cast<const Source*>(chunks.sources[tensor]);
  const int64_t begin = static_cast<int64_t>(chunks.chunk_starts[blockIdx.x]) * kChunkValues;
  const int64_t end = min(begin + kChunkValues, chunks.counts[tensor]);
  const bool packed = is_packed<Target, kPack>(targets) && is_packed<Source, kPack>(sources);
  const int64_t packed_end = packed ? end - (end - begin) % kPack : begin;
  uint32_t lost = 0;
  for (int64_t index = begin + threadIdx.x * kPack; index < packed_end; index += kThreads * kPack) {
    const auto from = *reinterpret_cast<const Pack<Source, kPack>*>(sources + index);
    Pack<Target, kPack> to;
#pragma unroll
    for (int lane = 0; lane < kPack; ++lane) {
      to.values[lane] = converted<Target>(from.values[lane]);
      lost |= is_lost(from.values[lane], to.values[lane]);
    }
    *reinterpret_cast<Pack<Target, kPack>*>(targets + index) = to;
  }
  for (int64_t index = packed_end + threadIdx.x; index < end; index += kThreads) {
    targets[index] = converted<Target>(sources[index]);
    lost |= is_lost(sources[index], targets[index]);
  }
  // Blocks may write the same 1; none writes anything else.
  if (__syncthreads_or(lost != 0) && threadIdx.x == 0) *chunks.lost[tensor] = 1;
}

// Collects chunks of tensors of one pair of types and launches whenever the argument is full.
template <class Target, class Source>
class Launcher {
 public:
  explicit Launcher(cudaStream_t stream) : stream_(stream) {}

  void add(const Conversion& conversion) {
    const int64_t chunks = (conversion.count + kChunkValues - 1) / kChunkValues;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (chunk == 0 || chunk_count_ == kMaxChunks) {
        if (chunk_count_ == kMaxChunks || tensor_count_ == kMaxTensors) launch();
        put(conversion);
      }
      chunks_.chunk_starts[chunk_count_] = static_cast<int32_t>(chunk);
      chunks_.chunk_tensors[chunk_count_] = static_cast<uint8_t>(tensor_count_ - 1);
      ++chunk_count_;
    }
  }

  void launch() {
    if (chunk_count_ == 0) return;
    convert_kernel<Target, Source><<<chunk_count_, kThreads, 0, stream_>>>(chunks_);
    STD_CUDA_KERNEL_LAUNCH_CHECK();
    chunk_count_ = tensor_count_ = 0;
  }

 private:
  void put(const Conversion& conversion) {
    chunks_.targets[tensor_count_] = conversion.target;
    chunks_.sources[tensor_count_] = conversion.source;
    chunks_.lost[tensor_count_] = conversion.lost;
    chunks_.counts[tensor_count_] = conversion.count;
    ++tensor_count_;
  }

  Chunks chunks_;
  int tensor_count_ = 0;
  int chunk_count_ = 0;
  cudaStream_t stream_;
};

void convert_(StableListHandle targets, StableListHandle sources, const Tensor& lost) {
  calls.add();
  const ConvertLists lists{targets, sources, lost};
  if (lists.conversions().empty()) return;
  STD_TORCH_CHECK(lists.device_type_of_all() == aoti_torch_device_type_cuda(), "convert_: tensors are not on CUDA");
  const DeviceScope scope(lists.device_index());

  constexpr ElementKind kinds[] = {
      ElementKind::kFloat32, ElementKind::kFloat64, ElementKind::kBFloat16, ElementKind::kFloat16};
  for (const ElementKind target_kind : kinds) {
    for (const ElementKind source_kind : kinds) {
      with_conversion_types(target_kind, source_kind, [&](auto target, auto source) {
        Launcher<decltype(target), decltype(source)> launcher(scope.stream());
        for (const Conversion& conversion : lists.conversions()) {
          if (conversion.target_kind == target_kind && conversion.source_kind == source_kind) launcher.add(conversion);
        }
        launcher.launch();
      });
    }
  }
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("convert_", TORCH_BOX(&burnlike::cuda::convert_));
}
