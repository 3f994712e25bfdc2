// Rotary positions on the CPU: checks, outputs and threads. The arithmetic is in isa/rotary.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <tuple>

#include "burnlike/calls.h"
#include "burnlike/rotary_check.h"
#include "isa/rotary.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"rotary"};

// Rows are taken in the order of memory: heads of a position, or positions of a head, one after the other.
RotaryRows rows_of(const Tensor& x, const Tensor& y, const Tensor& cosine, const Tensor& sine) {
  const bool heads_inside = has_heads_inside(x);
  const auto ordered = [&](const RotaryStrides& strides) {
    const auto [batch, heads, sequence] = strides;
    return heads_inside ? RowStrides{batch, sequence, heads} : RowStrides{batch, heads, sequence};
  };
  RotaryRows rows{};
  rows.outer_size = x.size(heads_inside ? 2 : 1);
  rows.inner_size = x.size(heads_inside ? 1 : 2);
  rows.x = ordered(heads_strides(x));
  rows.y = ordered(heads_strides(y));
  rows.cosine = ordered(table_strides(cosine));
  rows.sine = ordered(table_strides(sine));
  return rows;
}

std::tuple<Tensor, Tensor> rotary(
    const Tensor& query_any, const Tensor& key_any, const Tensor& cosine_any, const Tensor& sine_any, bool interleaved,
    bool inverse) {
  calls.add();
  const RotarySizes sizes = rotary_sizes(query_any, key_any, cosine_any, sine_any, interleaved);
  const Tensor inputs[2] = {with_whole_rows(query_any), with_whole_rows(key_any)};
  const Tensor outputs[2] = {new_heads_like(query_any), new_heads_like(key_any)};
  const Tensor cosine = with_whole_rows(cosine_any);
  const Tensor sine = with_whole_rows(sine_any);
  with_element_type(element_kind(query_any), [&](auto element) {
    using Element = decltype(element);
    const auto run = [&](auto table, auto kernel) {
      using Table = decltype(table);
      const Table* cosine_data = data_of<Table>(cosine);
      const Table* sine_data = data_of<Table>(sine);
      for (int index = 0; index < 2; ++index) {
        RotaryRows rows = rows_of(inputs[index], outputs[index], cosine, sine);
        rows.width = sizes.width;
        rows.half = sizes.half;
        rows.interleaved = interleaved;
        rows.whole = sizes.whole;
        rows.sign = inverse ? -1 : 1;
        rows.minus_sign = inverse ? 1 : -1;
        const Element* x = data_of<Element>(inputs[index]);
        Element* y = mutable_data_of<Element>(outputs[index]);
        for_rows(sizes.batch * rows.outer_size * rows.inner_size, sizes.width, [&](int64_t begin, int64_t end) {
          kernel(rows, x, cosine_data, sine_data, y, begin, end);
        });
      }
    };
    const auto& table_kernels = rotary_kernels()(element);
    if (element_kind(cosine) == kind_of<Element>) {
      run(element, table_kernels.own_tables);
    } else {
      run(float{}, table_kernels.float32_tables);
    }
  });
  return {outputs[0], outputs[1]};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "rotary(Tensor query, Tensor key, Tensor cos, Tensor sin, bool interleaved, bool inverse) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) { library.impl("rotary", TORCH_BOX(&burnlike::cpu::rotary)); }
