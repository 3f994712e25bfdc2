// The steps of an LSTM over whole sequences: checks, memory and threads. The arithmetic is in isa/lstm.inl.
//
// A thread computes all steps of some rows of the batch, so that no thread waits for another between steps. The weights
// are packed once for all.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/tensors.h"
#include "packed_product.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"lstm_"};
CallCounter backward_calls{"lstm_backward"};

// Rows of a batch below which another thread gains less than it reads of the weight.
constexpr int64_t kRowsOfThread = 4;

// Rows of x that are multiplied together, of several steps: so often is its weight read, which may be a large one.
constexpr int64_t kInputRows = 64;

struct Sizes {
  int64_t time, batch, size;

  int64_t rows() const { return time * batch; }
};

// `[time, batch, width]` whose rows lie in one piece each; all zeros without data.
template <class Element>
struct Sequence {
  Element* data;
  int64_t of_step, of_row;

  Element* row(int64_t step, int64_t row) const { return data + step * of_step + row * of_row; }
};

template <class Element>
Sequence<Element> contiguous_sequence(const Tensor& tensor) {
  return {mutable_data_of<Element>(tensor), tensor.stride(0), tensor.stride(1)};
}

void check_sizes(const Tensor& tensor, const std::vector<int64_t>& sizes, const Tensor& like, const char* name) {
  const auto actual = tensor.sizes();
  STD_TORCH_CHECK(
      std::equal(actual.begin(), actual.end(), sizes.begin(), sizes.end()) && tensor.is_cpu() == like.is_cpu(),
      "lstm: ", name, " has another shape or device");
}

void check_like(const Tensor& tensor, const std::vector<int64_t>& sizes, const Tensor& like, const char* name) {
  check_sizes(tensor, sizes, like, name);
  STD_TORCH_CHECK(element_kind(tensor) == element_kind(like), "lstm: ", name, " has another dtype");
}

// A sequence whose rows can be read where they are, or a copy.
Tensor with_rows(const Tensor& tensor) {
  const bool has_rows =
      tensor.stride(2) == 1 && is_aligned(tensor.const_data_ptr(), element_size(element_kind(tensor)));
  return has_rows ? tensor : as_contiguous(tensor);
}

// Which steps of which rows are read; all without a mask.
class Kept {
 public:
  Kept(const std::optional<Tensor>& mask, const Sizes& sizes, const Tensor& like) {
    if (!mask) return;
    check_sizes(*mask, {sizes.time, sizes.batch}, like, "kept");
    int32_t dtype = 0;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(mask->get(), &dtype));
    STD_TORCH_CHECK(dtype == aoti_torch_dtype_bool(), "lstm: expected kept of booleans");
    check_storage(*mask);
    data_ = static_cast<const bool*>(mask->const_data_ptr());
    of_step_ = mask->stride(0), of_row_ = mask->stride(1);
  }

  bool is_all() const { return data_ == nullptr; }

  bool operator()(int64_t step, int64_t row) const { return is_all() || data_[step * of_step_ + row * of_row_]; }

 private:
  const bool* data_ = nullptr;
  int64_t of_step_ = 0, of_row_ = 0;
};

// Calls `run(begin, end)` for parts of the rows of the batch, each in a thread.
template <class Run>
void for_batch(const Sizes& sizes, const Run& run) {
  const int64_t parts = std::min<int64_t>(torch::stable::get_num_threads(), sizes.batch / kRowsOfThread);
  if (parts <= 1 || sizes.rows() * sizes.size * sizes.size <= kGrainValues) return run(0, sizes.batch);
  torch::stable::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      run(sizes.batch * part / parts, sizes.batch * (part + 1) / parts);
    }
  });
}

// The gates of some rows at a step, to be asked for.
template <class Element>
StepAhead gates_ahead(const Sequence<Element>& gates, int64_t step, int64_t row, int64_t rows, int64_t size) {
  const int64_t bytes = 4 * size * static_cast<int64_t>(sizeof(Element));
  constexpr int64_t kBytes = 256;  // of several lines, as a product has few strips
  return {reinterpret_cast<const char*>(gates.row(step, row)), rows * bytes / kBytes, kBytes, kBytes};
}

template <class Element>
void copy_row(const Element* from, Element* to, int64_t size) {
  std::copy(from, from + size, to);
}

template <class Element>
void run_forward(
    const Sizes& sizes, const Tensor& x_any, const Tensor& of_input, const std::optional<Tensor>& bias_any,
    const Tensor& of_hidden, const Tensor& hidden, const Tensor& gates_any, const Tensor& states_any,
    const Tensor& cells_any, const Kept& kept, bool reverse) {
  using Accumulate = accumulate_t<Element>;
  const auto& kernels = lstm_kernels()(Element{});
  const PackedProduct<Element> input(of_input, 1, true), product(of_hidden, 1, sizes.size % 2 == 0);
  const Sequence<const Element> x{data_of<Element>(x_any), x_any.stride(0), x_any.stride(1)};
  const auto gates = contiguous_sequence<Element>(gates_any);
  const auto states = contiguous_sequence<Element>(states_any);
  const auto cells = contiguous_sequence<Accumulate>(cells_any);
  const Element* first = data_of<Element>(hidden);
  const int64_t size = sizes.size, width = x_any.size(2), stride = product.stride();
  std::vector<Accumulate> storage(4 * size);
  const Accumulate* bias = bias_any ? values_of<Accumulate>(*bias_any, storage) : storage.data();
  for_batch(sizes, [&](int64_t begin, int64_t end) {
    const int64_t rows = end - begin, together = std::max<int64_t>(kInputRows / std::max<int64_t>(rows, 1), 1);
    // Not a power of two, or rows would share lines of the caches; pairs are read to their ends.
    const int64_t read_stride = (width + 1) / 2 * 2 + 32;
    std::vector<Element> read(together * rows * read_stride);
    std::vector<Accumulate> all_sums(together * rows * stride);
    for (int64_t index = 0; index < sizes.time; ++index) {
      const int64_t step = reverse ? sizes.time - 1 - index : index;
      const int64_t last = reverse ? step + 1 : step - 1;
      Accumulate* sums = all_sums.data() + index % together * rows * stride;
      if (index % together == 0) {
        const int64_t steps = std::min(together, sizes.time - index);
        for (int64_t place = 0; place < steps * rows; ++place) {
          const int64_t ahead = place / rows;
          copy_row(
              x.row(reverse ? step - ahead : step + ahead, begin + place % rows), read.data() + place * read_stride,
              width);
        }
        input.run(read.data(), read_stride, sums, steps * rows);
      }
      const auto before = [&](int64_t row) { return index == 0 ? first + row * size : states.row(last, row); };
      product.run(before(begin), size, sums, rows, true, gates_ahead(gates, step, begin, rows, size));
      for (int64_t row = begin; row < end; ++row) {
        if (kept(step, row)) {
          kernels.forward(
              {sums + (row - begin) * stride, bias, gates.row(step, row), cells.row(index, row),
               cells.row(index + 1, row), states.row(step, row), size});
        } else {
          copy_row(before(row), states.row(step, row), size);
          copy_row(cells.row(index, row), cells.row(index + 1, row), size);
          std::fill_n(gates.row(step, row), 4 * size, Element{});
        }
      }
    }
  });
}

ElementKind accumulate_kind(ElementKind kind) {
  return kind == ElementKind::kFloat64 ? ElementKind::kFloat64 : ElementKind::kFloat32;
}

std::tuple<Tensor, Tensor, Tensor> lstm(
    const Tensor& x_any, const Tensor& of_input, const std::optional<Tensor>& bias, const Tensor& of_hidden,
    const Tensor& hidden_any, const Tensor& cell_any, const std::optional<Tensor>& mask, bool reverse) {
  forward_calls.add();
  STD_TORCH_CHECK(
      x_any.dim() == 3 && of_hidden.dim() == 2, "lstm: expected x [time, batch, d_input] and weights [4 * size, ..]");
  const Sizes sizes{x_any.size(0), x_any.size(1), of_hidden.size(1)};
  check_like(of_input, {4 * sizes.size, x_any.size(2)}, x_any, "of_input");
  check_like(of_hidden, {4 * sizes.size, sizes.size}, x_any, "of_hidden");
  check_like(hidden_any, {sizes.batch, sizes.size}, x_any, "hidden");
  check_like(cell_any, {sizes.batch, sizes.size}, x_any, "cell");
  if (bias) check_like(*bias, {4 * sizes.size}, x_any, "bias");
  check_storage(of_input);
  check_storage(of_hidden);
  const Kept kept(mask, sizes, x_any);
  const Tensor x = with_rows(x_any), hidden = as_contiguous(hidden_any), cell = as_contiguous(cell_any);
  const std::optional<Tensor> biases = bias ? std::optional<Tensor>(as_contiguous(*bias)) : std::nullopt;
  const ElementKind kind = element_kind(x);
  const Tensor gates = new_contiguous({sizes.time, sizes.batch, 4 * sizes.size}, kind, x);
  const Tensor states = new_contiguous({sizes.time, sizes.batch, sizes.size}, kind, x);
  const Tensor cells = new_contiguous({sizes.time + 1, sizes.batch, sizes.size}, accumulate_kind(kind), x);
  with_element_type(kind, [&](auto element) {
    using Element = decltype(element);
    const Element* values = data_of<Element>(cell);
    auto* initial = mutable_data_of<accumulate_t<Element>>(cells);
    for (int64_t index = 0; index < sizes.batch * sizes.size; ++index) initial[index] = load(values[index]);
    run_forward<Element>(sizes, x, of_input, biases, of_hidden, hidden, gates, states, cells, kept, reverse);
  });
  return {gates, states, cells};
}

template <class Element>
struct Gradients {
  Sequence<const Element> output;  // or none
  const Element* hidden;           // of the last state, or null
  const Element* cell;             // or null
};

template <class Element>
void run_backward(
    const Sizes& sizes, const Gradients<Element>& grads, const Tensor& gates_any, const Tensor& cells_any,
    const Tensor& weight, const Kept& kept, bool reverse, Element* grad_hidden, Element* grad_cell,
    Element* grad_bias) {
  using Accumulate = accumulate_t<Element>;
  const auto& kernels = lstm_kernels()(Element{});
  const PackedProduct<Element> product(weight, 0, true);
  const auto gates = contiguous_sequence<Element>(gates_any);
  const auto cells = contiguous_sequence<Accumulate>(cells_any);
  const int64_t size = sizes.size, stride = product.stride();
  // Of each row over its steps: the order in which they are added is the same for any number of threads.
  std::vector<Accumulate> of_biases(std::max<int64_t>(sizes.batch, 1) * 4 * size);
  Accumulate* biases = of_biases.data();
  for_batch(sizes, [&](int64_t begin, int64_t end) {
    const int64_t rows = end - begin;
    std::vector<Accumulate> sums(rows * stride), of_cells(rows * size), passed(rows * size);
    const std::vector<Element> zeros(size);
    for (int64_t place = 0; place < rows * size; ++place) {
      if (grads.cell != nullptr) of_cells[place] = load(grads.cell[begin * size + place]);
      if (grads.hidden != nullptr) passed[place] = load(grads.hidden[begin * size + place]);
    }
    // `passed` is what rows that did not read the step after have of its state, and `sums` what the others have.
    const auto add_passed = [&](int64_t row) {
      Accumulate* __restrict__ sum = sums.data() + row * stride;
      Accumulate* __restrict__ more = passed.data() + row * size;
      for (int64_t unit = 0; unit < size; ++unit) sum[unit] += more[unit], more[unit] = 0;
    };
    for (int64_t index = sizes.time - 1; index >= 0; --index) {
      const int64_t step = reverse ? sizes.time - 1 - index : index;
      for (int64_t row = begin; row < end; ++row) {
        Accumulate* sum = sums.data() + (row - begin) * stride;
        const Element* grad = grads.output.data == nullptr ? zeros.data() : grads.output.row(step, row);
        if (!kept.is_all() || index == sizes.time - 1) add_passed(row - begin);
        if (kept(step, row)) {
          kernels.backward(
              {sum, grad, gates.row(step, row), cells.row(index, row), cells.row(index + 1, row),
               of_cells.data() + (row - begin) * size, biases + row * 4 * size, size});
        } else {
          for (int64_t unit = 0; unit < size; ++unit)
            passed[(row - begin) * size + unit] = sum[unit] + load(grad[unit]);
          std::fill_n(gates.row(step, row), 4 * size, Element{});
        }
      }
      const int64_t next = index == 0 ? step : reverse ? step + 1 : step - 1;
      const StepAhead ahead = gates_ahead(gates, next, begin, rows, size);
      product.run(gates.row(step, begin), 4 * size, sums.data(), rows, false, ahead);
    }
    for (int64_t row = 0; row < rows; ++row) {
      add_passed(row);
      for (int64_t unit = 0; unit < size; ++unit) {
        grad_hidden[(begin + row) * size + unit] = store<Element>(sums[row * stride + unit]);
        grad_cell[(begin + row) * size + unit] = store<Element>(of_cells[row * size + unit]);
      }
    }
  });
  for (int64_t row = 1; row < sizes.batch; ++row) {
    for (int64_t unit = 0; unit < 4 * size; ++unit) biases[unit] += biases[row * 4 * size + unit];
  }
  for (int64_t unit = 0; unit < 4 * size; ++unit) grad_bias[unit] = store<Element>(biases[unit]);
}

std::tuple<Tensor, Tensor, Tensor> lstm_backward(
    const std::optional<Tensor>& grad_any, const std::optional<Tensor>& grad_hidden_any,
    const std::optional<Tensor>& grad_cell_any, const Tensor& gates, const Tensor& cells, const Tensor& weight,
    const std::optional<Tensor>& mask, bool reverse) {
  backward_calls.add();
  STD_TORCH_CHECK(
      gates.dim() == 3 && weight.dim() == 2 && gates.is_contiguous(), "lstm: expected gates of the forward pass");
  const Sizes sizes{gates.size(0), gates.size(1), weight.size(1)};
  check_sizes(gates, {sizes.time, sizes.batch, 4 * sizes.size}, gates, "gates");
  check_like(weight, {4 * sizes.size, sizes.size}, gates, "weight");
  check_storage(weight);
  const ElementKind kind = element_kind(gates);
  check_sizes(cells, {sizes.time + 1, sizes.batch, sizes.size}, gates, "cells");
  STD_TORCH_CHECK(
      element_kind(cells) == accumulate_kind(kind) && cells.is_contiguous(),
      "lstm: expected cells of the forward pass");
  const Kept kept(mask, sizes, gates);
  const auto usable = [&](const std::optional<Tensor>& tensor, const std::vector<int64_t>& shape) {
    if (!tensor) return std::optional<Tensor>();
    check_like(*tensor, shape, gates, "a gradient");
    return std::optional<Tensor>(tensor->dim() == 3 ? with_rows(*tensor) : as_contiguous(*tensor));
  };
  const auto grad = usable(grad_any, {sizes.time, sizes.batch, sizes.size});
  const auto of_hidden = usable(grad_hidden_any, {sizes.batch, sizes.size});
  const auto of_cell = usable(grad_cell_any, {sizes.batch, sizes.size});
  const Tensor grad_hidden = new_contiguous({sizes.batch, sizes.size}, kind, gates);
  const Tensor grad_cell = new_contiguous({sizes.batch, sizes.size}, kind, gates);
  const Tensor grad_bias = new_contiguous({4 * sizes.size}, kind, gates);
  with_element_type(kind, [&](auto element) {
    using Element = decltype(element);
    const auto data = [](const std::optional<Tensor>& tensor) { return tensor ? data_of<Element>(*tensor) : nullptr; };
    const Gradients<Element> grads{
        {data(grad), grad ? grad->stride(0) : 0, grad ? grad->stride(1) : 0}, data(of_hidden), data(of_cell)};
    run_backward<Element>(
        sizes, grads, gates, cells, weight, kept, reverse, mutable_data_of<Element>(grad_hidden),
        mutable_data_of<Element>(grad_cell), mutable_data_of<Element>(grad_bias));
  });
  return {grad_hidden, grad_cell, grad_bias};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def(
      "lstm_(Tensor x, Tensor of_input, Tensor? bias, Tensor of_hidden, Tensor hidden, Tensor cell, Tensor? kept,"
      " bool reverse) -> (Tensor, Tensor, Tensor)");
  library.def(
      "lstm_backward(Tensor? grad, Tensor? grad_hidden, Tensor? grad_cell, Tensor(a!) gates, Tensor cells, Tensor "
      "weight,"
      " Tensor? kept, bool reverse) -> (Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("lstm_", TORCH_BOX(&burnlike::cpu::lstm));
  library.impl("lstm_backward", TORCH_BOX(&burnlike::cpu::lstm_backward));
}
