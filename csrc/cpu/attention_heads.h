// How attention's backward pass reads and writes heads: keys and values of one head each, and the queries of all heads
// that share them as the rows of one matrix, ordered by query, then by head.
#pragma once

#include <algorithm>
#include <type_traits>

#include "burnlike/tensors.h"
#include "isa/attention.h"
#include "isa/convert.h"

namespace burnlike::cpu {

struct AttentionSizes {
  int64_t batch;
  int64_t heads;
  int64_t heads_kv;
  int64_t queries;
  int64_t keys;
  int64_t width;

  int64_t group() const { return heads / heads_kv; }
  int64_t problems() const { return batch * heads_kv; }  // each a head of keys with its queries
  int64_t columns() const { return queries * group(); }
};

// Values that are not initialized.
template <class Value>
class Scratch {
 public:
  explicit Scratch(int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(Value));
    const int64_t stride = 1;
    AtenTensorHandle handle = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
        1, &bytes, &stride, aoti_torch_dtype_uint8(), aoti_torch_device_type_cpu(), 0, &handle));
    tensor_ = Tensor(handle);
    data_ = static_cast<Value*>(tensor_.mutable_data_ptr());
  }

  operator Value*() const { return data_; }

 private:
  Tensor tensor_;
  Value* data_;
};

// `[batch, heads, length, width]` whose rows are contiguous.
template <class Element>
struct Heads {
  Element* data;
  int64_t strides[3];
  int64_t heads;
  int64_t length;

  Element* row(int64_t batch, int64_t head, int64_t place) const {
    return data + batch * strides[0] + head * strides[1] + place * strides[2];
  }
};

template <class Element>
Heads<Element> heads_of(const Tensor& tensor, Element* data) {
  return {data, {tensor.stride(0), tensor.stride(1), tensor.stride(2)}, tensor.size(1), tensor.size(2)};
}

struct Range {
  int64_t begin, end;
};

// Calls `run(batch, head, place, row)` for some rows of a problem, of a tensor with so many heads.
template <class Run>
void for_rows(int64_t heads, const AttentionSizes& sizes, int64_t problem, Range rows, const Run& run) {
  const int64_t group = heads / sizes.heads_kv;
  const int64_t batch = problem / sizes.heads_kv;
  const int64_t first = problem % sizes.heads_kv * group;
  int64_t place = rows.begin / group;
  int64_t head = rows.begin % group;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    run(batch, first + head, place, row);
    if (++head < group) continue;
    head = 0;
    ++place;
  }
}

// The same for all rows of a problem.
template <class Element, class Run>
void for_rows_of(const Heads<Element>& heads, const AttentionSizes& sizes, int64_t problem, const Run& run) {
  for_rows(heads.heads, sizes, problem, {0, heads.heads / sizes.heads_kv * heads.length}, run);
}

template <class Source, class Target>
void copy_row(const Source* source, Target* target, int64_t width) {
  if constexpr (std::is_same_v<Source, Target>) {
    std::copy_n(source, width, target);
  } else {
    const auto& to_target = convert_kernels()[static_cast<size_t>(kind_of<Target>)];
    to_target.from[static_cast<size_t>(kind_of<Source>)](source, target, 0, width);
  }
}

// Makes one matrix of a problem's rows.
template <class Element, class Product>
void pack(const Heads<const Element>& heads, const AttentionSizes& sizes, int64_t problem, Product* matrix) {
  for_rows_of(heads, sizes, problem, [&](int64_t batch, int64_t head, int64_t place, int64_t row) {
    copy_row(heads.row(batch, head, place), matrix + row * sizes.width, sizes.width);
  });
}

template <class Element, class Product>
void unpack(const Product* matrix, const Heads<Element>& heads, const AttentionSizes& sizes, int64_t problem) {
  for_rows_of(heads, sizes, problem, [&](int64_t batch, int64_t head, int64_t place, int64_t row) {
    copy_row(matrix + row * sizes.width, heads.row(batch, head, place), sizes.width);
  });
}

// What is added to scores: `[batch, heads, queries, keys]` of any float, with any strides.
struct AttentionBias {
  const void* data;  // null without one
  ElementKind kind;
  int64_t strides[4];
};

// `values[key, column]` of keys with columns, rows `stride` apart. Some columns at a time, as values that lie a power
// of two apart would push each other out of the cache.
template <class Accumulate>
void read_bias(
    const AttentionBias& bias, const AttentionSizes& sizes, int64_t problem, Range keys, Range columns, int64_t stride,
    Accumulate* values) {
  constexpr int64_t kColumns = 16;
  const int64_t group = sizes.group();
  const int64_t batch = problem / sizes.heads_kv;
  const int64_t first_head = problem % sizes.heads_kv * group;
  with_element_type(bias.kind, [&](auto element) {
    using Element = decltype(element);
    const Element* head = static_cast<const Element*>(bias.data) + batch * bias.strides[0] +
                          first_head * bias.strides[1] + keys.begin * bias.strides[3];
    for (int64_t begin = columns.begin; begin < columns.end; begin += kColumns) {
      const int64_t count = std::min(kColumns, columns.end - begin);
      const Element* sources[kColumns];
      for (int64_t index = 0; index < count; ++index) {
        const int64_t column = begin + index;
        sources[index] = head + column % group * bias.strides[1] + column / group * bias.strides[2];
      }
      for (int64_t key = 0; key < keys.end - keys.begin; ++key) {
        Accumulate* target = values + key * stride + begin - columns.begin;
        for (int64_t index = 0; index < count; ++index) {
          target[index] = static_cast<Accumulate>(load(sources[index][key * bias.strides[3]]));
        }
      }
    }
  });
}

}  // namespace burnlike::cpu
