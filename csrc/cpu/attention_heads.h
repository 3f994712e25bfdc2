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

// Calls `run(batch, head, place, row)` for each row of a problem.
template <class Element, class Run>
void for_rows_of(const Heads<Element>& heads, const AttentionSizes& sizes, int64_t problem, const Run& run) {
  const int64_t group = heads.heads / sizes.heads_kv;
  const int64_t batch = problem / sizes.heads_kv;
  const int64_t first = problem % sizes.heads_kv * group;
  for (int64_t place = 0; place < heads.length; ++place) {
    for (int64_t head = 0; head < group; ++head) run(batch, first + head, place, place * group + head);
  }
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

// `values[key, column]` of keys [first_key, end_key) and of the columns from that of a query on. Some columns at a
// time, as values that lie a power of two apart would push each other out of the cache.
template <class Accumulate>
void read_bias(
    const AttentionBias& bias, const AttentionSizes& sizes, int64_t problem, int64_t first_key, int64_t end_key,
    int64_t first_query, Accumulate* values) {
  constexpr int64_t kColumns = 16;
  const int64_t group = sizes.group();
  const int64_t first_column = first_query * group;
  const int64_t columns = sizes.columns() - first_column;
  const int64_t batch = problem / sizes.heads_kv;
  const int64_t first_head = problem % sizes.heads_kv * group;
  with_element_type(bias.kind, [&](auto element) {
    using Element = decltype(element);
    const Element* head = static_cast<const Element*>(bias.data) + batch * bias.strides[0] +
                          first_head * bias.strides[1] + first_key * bias.strides[3];
    for (int64_t begin = 0; begin < columns; begin += kColumns) {
      const int64_t count = std::min(kColumns, columns - begin);
      const Element* sources[kColumns];
      for (int64_t index = 0; index < count; ++index) {
        const int64_t column = first_column + begin + index;
        sources[index] = head + column % group * bias.strides[1] + column / group * bias.strides[2];
      }
      for (int64_t key = 0; key < end_key - first_key; ++key) {
        Accumulate* target = values + key * columns + begin;
        for (int64_t index = 0; index < count; ++index) {
          target[index] = static_cast<Accumulate>(load(sources[index][key * bias.strides[3]]));
        }
      }
    }
  });
}

}  // namespace burnlike::cpu
