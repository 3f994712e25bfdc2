// Weights of gates as torch's recurrent kernels take them: the transposes below each other. And their gradients apart.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/tensor_list.h"
#include "rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"join_gates"};
CallCounter backward_calls{"join_gates_backward"};

// Values that are a line of a cache both ways in float32.
constexpr int64_t kTile = 16;

// A matrix `[rows, columns]` and where its transpose goes.
template <class Element>
struct Transpose {
  const Element* from;
  Element* to;
  int64_t rows, columns;

  void tile(int64_t first_row, int64_t first_column) const {
    const int64_t last_row = std::min(first_row + kTile, rows), last_column = std::min(first_column + kTile, columns);
#if defined(__x86_64__)
    if constexpr (kind_of<Element> == ElementKind::kFloat32) {
      if (last_row - first_row == kTile && last_column - first_column == kTile) {
        for (int64_t block = 0; block < kTile * kTile / 16; ++block) {
          four_by_four(first_row + block / 4 * 4, first_column + block % 4 * 4);
        }
        return;
      }
    }
#endif
    for (int64_t column = first_column; column < last_column; ++column) {
      for (int64_t row = first_row; row < last_row; ++row) to[column * rows + row] = from[row * columns + column];
    }
  }

#if defined(__x86_64__)
  void four_by_four(int64_t row, int64_t column) const {
    const float* x = from + row * columns + column;
    float* y = to + column * rows + row;
    __m128 a = _mm_loadu_ps(x), b = _mm_loadu_ps(x + columns);
    __m128 c = _mm_loadu_ps(x + 2 * columns), d = _mm_loadu_ps(x + 3 * columns);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(y, a), _mm_storeu_ps(y + rows, b), _mm_storeu_ps(y + 2 * rows, c), _mm_storeu_ps(y + 3 * rows, d);
  }
#endif
};

// All of them, of one shape, in torch's threads.
template <class Element>
void transpose(const std::vector<Transpose<Element>>& matrices) {
  const int64_t rows = matrices[0].rows, columns = matrices[0].columns;
  const int64_t bands = (columns + kTile - 1) / kTile;
  for_rows(static_cast<int64_t>(matrices.size()) * bands, kTile * rows, [&](int64_t begin, int64_t end) {
    for (int64_t band = begin; band < end; ++band) {
      for (int64_t row = 0; row < rows; row += kTile) matrices[band / bands].tile(row, band % bands * kTile);
    }
  });
}

// A matrix, or a vector as a matrix of one column.
struct Sizes {
  explicit Sizes(const TensorFacts& facts)
      : dim(facts.dim), rows(dim == 0 ? 0 : facts.sizes[0]), columns(dim == 2 ? facts.sizes[1] : 1) {}

  int64_t dim, rows, columns;
};

void check(const TensorFacts& one, const TensorFacts& first, const char* op) {
  STD_TORCH_CHECK(
      (one.dim == 1 || one.dim == 2) && one.dtype == first.dtype && one.same_place(first), op,
      ": expected matrices and vectors of one dtype and device");
  STD_TORCH_CHECK(one.data != nullptr || one.count == 0, op, ": expected contiguous tensors");
}

std::vector<Tensor> join_gates(StableListHandle list, int64_t gates) {
  forward_calls.add();
  const TensorList tensors(list);
  const int64_t count = static_cast<int64_t>(tensors.size());
  STD_TORCH_CHECK(
      count > 0 && gates > 0 && count % gates == 0, "join_gates: expected ", gates, " tensors of each kind");
  const ElementKind kind = element_kind(tensors[0].dtype);
  const Tensor like = TensorList::tensor_of(tensors[0]);
  std::vector<Tensor> found;
  for (int64_t begin = 0; begin < count; begin += gates) {
    const TensorFacts& first = tensors[begin];
    for (int64_t index = begin; index < begin + gates; ++index) {
      check(tensors[index], tensors[0], "join_gates");
      STD_TORCH_CHECK(tensors[index].same_shape(first), "join_gates: expected gates of one shape");
    }
    const Sizes sizes(first);
    const bool is_matrix = sizes.dim == 2;
    found.push_back(
        is_matrix ? new_contiguous({gates * sizes.columns, sizes.rows}, kind, like)
                  : new_contiguous({gates * sizes.rows}, kind, like));
    if (first.count == 0) continue;
    with_element_type(kind, [&](auto element) {
      using Element = decltype(element);
      std::vector<Transpose<Element>> matrices;
      for (int64_t gate = 0; gate < gates; ++gate) {
        Element* to = mutable_data_of<Element>(found.back()) + gate * first.count;
        matrices.push_back({static_cast<const Element*>(tensors[begin + gate].data), to, sizes.rows, sizes.columns});
      }
      transpose(matrices);
    });
  }
  return found;
}

std::vector<Tensor> join_gates_backward(StableListHandle list, int64_t gates) {
  backward_calls.add();
  const TensorList grads(list);
  STD_TORCH_CHECK(!grads.empty() && gates > 0, "join_gates_backward: expected gradients");
  const ElementKind kind = element_kind(grads[0].dtype);
  const Tensor like = TensorList::tensor_of(grads[0]);
  std::vector<Tensor> found;
  for (size_t index = 0; index < grads.size(); ++index) {
    const TensorFacts& grad = grads[index];
    check(grad, grads[0], "join_gates_backward");
    const Sizes sizes(grad);
    STD_TORCH_CHECK(sizes.rows % gates == 0, "join_gates_backward: expected rows of ", gates, " gates");
    const int64_t rows = sizes.rows / gates;
    found.push_back(
        sizes.dim == 2 ? new_contiguous({gates, sizes.columns, rows}, kind, like)
                       : new_contiguous({gates, rows}, kind, like));
    if (grad.count == 0) continue;
    with_element_type(kind, [&](auto element) {
      using Element = decltype(element);
      std::vector<Transpose<Element>> matrices;
      for (int64_t place = 0; place < grad.count; place += rows * sizes.columns) {
        matrices.push_back(
            {static_cast<const Element*>(grad.data) + place, mutable_data_of<Element>(found.back()) + place, rows,
             sizes.columns});
      }
      transpose(matrices);
    });
  }
  return found;
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("join_gates(Tensor[] tensors, int gates) -> Tensor[]");
  library.def("join_gates_backward(Tensor[] grads, int gates) -> Tensor[]");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("join_gates", TORCH_BOX(&burnlike::cpu::join_gates));
  library.impl("join_gates_backward", TORCH_BOX(&burnlike::cpu::join_gates_backward));
}
