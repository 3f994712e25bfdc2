// Conversion of many tensors on CUDA, in one launch for each pair of types. Targets that lie in one buffer are packed
// by it. The arithmetic is in burnlike/convert.h.
#include <cstdint>

#include "burnlike/calls.h"
#include "burnlike/convert_lists.h"
#include "chunks.h"
#include "launch.h"

namespace burnlike::cuda {
namespace {

CallCounter calls{"convert_"};

constexpr int kThreads = 256;
// Blocks of threads that a multiprocessor has at least at a time: bounds the registers of a thread.
constexpr int kMinBlocks = 4;
// Values that a thread reads as one: 16 bytes of the wider type.
template <class Target, class Source>
constexpr int kPackOf = 16 / static_cast<int>(sizeof(Target) > sizeof(Source) ? sizeof(Target) : sizeof(Source));
// Packs that a thread reads before it writes the first.
constexpr int kPacks = 2;
// Kernels are short: a table that travels fast is worth more than a launch less.
constexpr int kMaxTensors = 112;

struct Table {
  void* targets[kMaxTensors];
  const void* sources[kMaxTensors];
  int32_t* lost[kMaxTensors];
  int64_t counts[kMaxTensors];
  uint32_t chunk_ends[kMaxTensors];
  int32_t tensor_count;
};

static_assert(sizeof(Table) <= kFewArgumentBytes);

template <class Target, class Source>
__global__ void __launch_bounds__(kThreads, kMinBlocks) convert_kernel(const __grid_constant__ Table table) {
  constexpr int kPack = kPackOf<Target, Source>;
  const int tensor = tensor_of_chunk(table.chunk_ends, table.tensor_count, blockIdx.x);
  Target* __restrict__ targets = static_cast<Target*>(table.targets[tensor]);
  const Source* __restrict__ sources = static_cast<const Source*>(table.sources[tensor]);
  const int64_t begin = (blockIdx.x - (tensor == 0 ? 0 : table.chunk_ends[tensor - 1])) * kChunkValues;
  const int64_t end = min(begin + kChunkValues, table.counts[tensor]);
  const bool packed = is_packed<Target, kPack>(targets) && is_packed<Source, kPack>(sources);
  const int64_t packed_end = packed ? end - (end - begin) % kPack : begin;
  uint32_t lost = 0;
  for (int64_t index = begin + threadIdx.x * kPack; index < packed_end; index += kThreads * kPack * kPacks) {
    Pack<Source, kPack> from[kPacks];
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const int64_t place = index + pack * kThreads * kPack;
      if (place < packed_end) from[pack] = *reinterpret_cast<const Pack<Source, kPack>*>(sources + place);
    }
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const int64_t place = index + pack * kThreads * kPack;
      if (place >= packed_end) continue;
      Pack<Target, kPack> to;
#pragma unroll
      for (int lane = 0; lane < kPack; ++lane) {
        to.values[lane] = converted<Target>(from[pack].values[lane]);
        lost |= is_lost(from[pack].values[lane], to.values[lane]);
      }
      *reinterpret_cast<Pack<Target, kPack>*>(targets + place) = to;
    }
  }
  for (int64_t index = packed_end + threadIdx.x; index < end; index += kThreads) {
    targets[index] = converted<Target>(sources[index]);
    lost |= is_lost(sources[index], targets[index]);
  }
  // Blocks may write the same 1; none writes anything else.
  if (__syncthreads_or(lost != 0) && threadIdx.x == 0) *table.lost[tensor] = 1;
}

// Collects tensors of one pair of types and launches whenever the table is full.
template <class Target, class Source>
class Launcher {
 public:
  explicit Launcher(cudaStream_t stream) : stream_(stream) { table_.tensor_count = 0; }

  void add(const Conversion& conversion) {
    if (table_.tensor_count == kMaxTensors) launch_all();
    const int32_t place = table_.tensor_count++;
    table_.targets[place] = conversion.target;
    table_.sources[place] = conversion.source;
    table_.lost[place] = conversion.lost;
    table_.counts[place] = conversion.count;
    chunks_ += chunk_count(conversion.count);
    table_.chunk_ends[place] = chunks_;
  }

  void launch_all() {
    if (chunks_ > 0) launch(convert_kernel<Target, Source>, chunks_, kThreads, stream_, table_);
    chunks_ = 0;
    table_.tensor_count = 0;
  }

 private:
  Table table_;
  cudaStream_t stream_;
  uint32_t chunks_ = 0;
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
        launcher.launch_all();
      });
    }
  }
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) { library.impl("convert_", TORCH_BOX(&burnlike::cuda::convert_)); }
