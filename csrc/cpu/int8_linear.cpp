// Products of two matrices whose rows and columns are rounded to 8 bits, on the CPU: shapes and threads. The arithmetic
// is in isa/int8_linear.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <optional>

#include "attention_heads.h"
#include "burnlike/calls.h"
#include "isa.h"
#include "isa/int8_linear.h"
#include "phases.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"int8_linear"};

// 127 * 127 times as many fit into 32 bits.
constexpr int64_t kLongestSum = int64_t{1} << 17;
// Of a tile: few rows, whose results lie on few pages; and columns whose packed values stay in a core's second cache.
constexpr int64_t kTileRows = 4 * kInt8Rows;
constexpr int64_t kTileBytes = int64_t{1} << 19;
constexpr int64_t kLeastProducts = 1 << 18;  // below, a second thread costs more than it saves

bool has_vnni() {
#if defined(__x86_64__)
  static const bool has_512 = __builtin_cpu_supports("avx512vnni");
  static const bool has_256 = __builtin_cpu_supports("avxvnni");
  return isa() >= Isa::kAvx512 ? has_512 : isa() == Isa::kAvx2 && has_256;
#else
  return false;
#endif
}

int64_t whole(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }

// `[lanes, depth]`, packed: the left side of a product, or the transpose of its right side.
class Side {
 public:
  Side(const Tensor& given, bool is_left)
      : lanes(given.size(0)),
        depth(given.size(1)),
        groups(whole(depth, kInt8Group)),
        units(whole(lanes, kInt8Lanes)),
        strips(lanes_in_units() * groups * kInt8Group),
        scales(lanes_in_units()),
        offsets(is_left ? lanes_in_units() : 0),
        values_(in_place(given)),
        is_left_(is_left),
        is_along_depth_(values_.stride(1) == 1) {}

  // Packs a unit of lanes.
  void pack(int64_t unit) const {
    with_float_or_bfloat16(element_kind(values_), [&](auto element) {
      using Element = decltype(element);
      const int64_t lane = unit * kInt8Lanes;
      int8_linear_kernels()(element).pack({
          .values = data_of<Element>(values_) + lane * values_.stride(0),
          .stride = values_.stride(is_along_depth_ ? 0 : 1),
          .is_along_depth = is_along_depth_,
          .lanes = std::min(kInt8Lanes, lanes - lane),
          .depth = depth,
          .is_left = is_left_,
          .strips = strips + lane * groups * kInt8Group,
          .scales = scales + lane,
          .offsets = is_left_ ? offsets + lane : nullptr,
      });
    });
  }

  const int64_t lanes, depth, groups, units;
  const Scratch<uint8_t> strips;
  const Scratch<float> scales;
  const Scratch<int32_t> offsets;

 private:
  int64_t lanes_in_units() const { return units * kInt8Lanes; }

  // The tensor itself if its rows or its columns lie side by side.
  static Tensor in_place(const Tensor& tensor) {
    const bool is_plain = tensor.stride(1) == 1 || tensor.stride(0) == 1;
    const bool is_whole = is_aligned(tensor.const_data_ptr(), element_size(element_kind(tensor)));
    return is_plain && is_whole ? tensor : contiguous_copy(tensor);
  }

  const Tensor values_;
  const bool is_left_, is_along_depth_;
};

template <class Element>
void multiply(const Side& left, const Side& right, const float* bias, const Tensor& product) {
  const auto& kernels = int8_linear_kernels()(Element{});
  const auto kernel = has_vnni() ? kernels.multiply_by_vnni : kernels.multiply;
  Element* data = mutable_data_of<Element>(product);
  const int64_t rows = left.lanes, columns = right.lanes, groups = left.groups;
  const int64_t tile_columns = std::max<int64_t>(1, kTileBytes / (groups * kInt8Group + 1) / kInt8Panel) * kInt8Panel;
  const int64_t down = whole(rows, kTileRows), tiles = down * whole(columns, tile_columns);
  const auto run_tile = [&](int64_t tile) {
    const int64_t first_row = tile % down * kTileRows, first_column = tile / down * tile_columns;
    const int64_t last_row = std::min(first_row + kTileRows, rows);
    const int64_t last_column = std::min(first_column + tile_columns, columns);
    for (int64_t column = first_column; column < last_column; column += kInt8Panel) {
      for (int64_t row = first_row; row < last_row; row += kInt8Rows) {
        kernel({
            .left = left.strips + row * groups * kInt8Group,
            .right = right.strips + column * groups * kInt8Group,
            .groups = groups,
            .offsets = left.offsets + row,
            .row_scales = left.scales + row,
            .column_scales = right.scales + column,
            .bias = bias == nullptr ? nullptr : bias + column,
            .product = data + row * columns + column,
            .stride = columns,
            .rows = std::min(kInt8Rows, last_row - row),
            .columns = std::min(kInt8Panel, last_column - column),
        });
      }
    }
  };
  const auto pack = [&](int64_t unit) {
    if (unit < left.units) return left.pack(unit);
    right.pack(unit - left.units);
  };
  const bool is_small = rows * columns * left.depth < kLeastProducts;
  const auto nothing = [] {};
  Phases phases(2);
  phases.start(is_small ? 1 : torch::stable::get_num_threads(), [&](Phases::Runner runner) {
    runner.run(left.units + right.units, pack, nothing);
    runner.run(tiles, run_tile, nothing);
  });
}

Tensor int8_linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, bool to_bfloat16) {
  calls.add();
  for (const Tensor& it : {x, weight}) {
    const ElementKind kind = element_kind(it);
    STD_TORCH_CHECK(
        it.dim() == 2 && (kind == ElementKind::kFloat32 || kind == ElementKind::kBFloat16),
        "int8_linear: expected matrices in float32 or bfloat16");
    check_storage(it);
  }
  if (bias) check_storage(*bias);
  STD_TORCH_CHECK(x.size(1) == weight.size(1), "int8_linear: expected [rows, d_input] and [d_output, d_input]");
  STD_TORCH_CHECK(x.size(1) <= kLongestSum, "int8_linear: sums are too long for 32 bits");
  STD_TORCH_CHECK(
      !bias.has_value() || (bias->dim() == 1 && bias->size(0) == weight.size(0)),
      "int8_linear: bias: expected [d_output]");
  const ElementKind kind = to_bfloat16 ? ElementKind::kBFloat16 : ElementKind::kFloat32;
  const Tensor product = new_contiguous({x.size(0), weight.size(0)}, kind, x);
  if (product.numel() == 0) return product;
  std::vector<float> storage;
  const float* added = nullptr;
  const Tensor own_bias = bias.has_value() ? as_contiguous(*bias) : x;
  if (bias.has_value()) added = values_of(own_bias, storage);
  const Side left(x, true), right(weight, false);
  with_float_or_bfloat16(kind, [&](auto element) { multiply<decltype(element)>(left, right, added, product); });
  return product;
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("int8_linear(Tensor x, Tensor weight, Tensor? bias, bool to_bfloat16) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("int8_linear", TORCH_BOX(&burnlike::cpu::int8_linear));
}
