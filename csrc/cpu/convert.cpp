// Conversion of many tensors on the CPU: checks and threads. The arithmetic is in isa/convert.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/convert_lists.h"
#include "kernels.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"convert_"};

// Values below which a second thread costs more than it saves.
constexpr int64_t kGrainValues = 32768;

void run(const Conversion& conversion, int64_t begin, int64_t end) {
  const auto kernel = kernels()
                          .convert[static_cast<size_t>(conversion.target_kind)]
                          .from[static_cast<size_t>(conversion.source_kind)];
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

  // One range over the values of all tensors, so that each thread gets the same share whatever the sizes.
  std::vector<int64_t> ends;
  ends.reserve(lists.conversions().size());
  int64_t total = 0;
  for (const Conversion& conversion : lists.conversions()) ends.push_back(total += conversion.count);
  const auto run_range = [&](int64_t begin, int64_t end) {
    size_t index = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    while (begin < end) {
      const Conversion& conversion = lists.conversions()[index];
      const int64_t start = ends[index] - conversion.count;
      const int64_t stop = std::min(end, ends[index]);
      run(conversion, begin - start, stop - start);
      begin = stop;
      ++index;
    }
  };
  if (total <= kGrainValues) {
    run_range(0, total);
  } else {
    torch::stable::parallel_for(0, total, kGrainValues, run_range);
  }
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("convert_", TORCH_BOX(&burnlike::cpu::convert_));
}
