// Conversion of many tensors on the CPU: checks and threads. The arithmetic is in isa/convert.inl.
#include <torch/csrc/stable/library.h>

#include <atomic>
#include <cstdint>

#include "burnlike/calls.h"
#include "burnlike/convert_lists.h"
#include "isa/convert.h"
#include "list_ranges.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"convert_"};

// Tensors are cut at multiples of it: of a cache line at least, so that threads don't write to the same one.
constexpr int64_t kUnitValues = 64;

void run(const Conversion& conversion, int64_t begin, int64_t end) {
  const auto kernel =
      convert_kernels()[static_cast<size_t>(conversion.target_kind)].from[static_cast<size_t>(conversion.source_kind)];
  if (kernel(conversion.source, conversion.target, begin, end)) {
    // Several threads may note the same.
    std::atomic_ref<int32_t>(*conversion.lost).store(1, std::memory_order_relaxed);
  }
}

void convert_(StableListHandle targets, StableListHandle sources, const Tensor& lost) {
  calls.add();
  const ConvertLists lists{targets, sources, lost};
  if (lists.conversions().empty()) return;
  STD_TORCH_CHECK(lists.device_type_of_all() == aoti_torch_device_type_cpu(), "convert_: tensors are not on the CPU");

  ListRanges ranges(kUnitValues, lists.conversions().size());
  for (const Conversion& conversion : lists.conversions()) ranges.add(conversion.count);
  ranges.run([&](size_t index, int64_t begin, int64_t end) { run(lists.conversions()[index], begin, end); });
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("convert_(Tensor(a!)[] targets, Tensor[] sources, Tensor(b!) lost) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) { library.impl("convert_", TORCH_BOX(&burnlike::cpu::convert_)); }
