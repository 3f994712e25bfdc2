// Attention's forward pass where two products of matrices and a softmax are faster than torch's: in bfloat16, some
// queries at a time with all of the keys that they see.
#pragma once

#include <algorithm>

#include "attention_backward.h"

namespace burnlike::cpu {

// How the work is cut, by the shapes alone.
template <class Product>
struct AttentionCuts {
  using Blocks = AttentionBlocks<Product>;
  static constexpr int64_t kLeastRows = 32;
  static constexpr int64_t kMostCausalRows = 256;
  static constexpr int64_t kLeastPanels = 4;

  int64_t problems;  // that are computed together
  int64_t rows;      // queries of all heads of a problem, of a panel
  int64_t panels;    // of a problem that are computed with one copy of its keys

  AttentionCuts(const AttentionSizes& sizes, bool causal) {
    const int64_t columns = sizes.columns();
    const bool whole = columns * sizes.keys <= Blocks::kMostValues && (!causal || columns <= kMostCausalRows);
    problems = whole ? Blocks::together(sizes) : 1;
    const int64_t some = std::max(kLeastRows, Blocks::kMostValues / sizes.keys);
    rows = whole ? columns : std::min({columns, some, causal ? kMostCausalRows : columns});
    panels = std::max(kLeastPanels, sizes.keys / rows);
  }
};

template <class Element>
struct AttentionForward {
  using Product = product_t<Element>;
  using Accumulate = accumulate_t<Element>;
  static constexpr bool kTwoParts = AttentionBackward<Element>::kTwoParts;
  static constexpr int64_t kLanesAtMost = 32;

  AttentionSizes sizes;
  bool causal;
  Accumulate scale;
  Heads<const Element> query, key, value;
  Heads<Element> output;
  Heads<Accumulate> logsumexp;

  void run() const {
    const AttentionCuts<Product> cuts(sizes, causal);
    const int64_t chunks = (sizes.problems() + cuts.problems - 1) / cuts.problems;
    const int64_t rows = cuts.rows * cuts.panels;
    const int64_t parts = (sizes.columns() + rows - 1) / rows;
    const int64_t items = chunks * parts;
    // Two ranges at least: in each, torch's products have one thread, as more could change their bits.
    torch::stable::parallel_for(0, std::max<int64_t>(2, items), 1, [&](int64_t begin, int64_t end) {
      if (begin >= items) return;
      const Memory memory(sizes, cuts);
      for (int64_t item = begin; item < std::min(end, items); ++item) {
        const int64_t first = item / parts * cuts.problems;
        const int64_t first_row = item % parts * rows;
        run_problems(
            memory, cuts, first, std::min(cuts.problems, sizes.problems() - first), first_row,
            std::min(first_row + rows, sizes.columns()));
      }
    });
  }

 private:
  // A thread's memory.
  struct Memory {
    Scratch<Product> query, key, value, output, output_low, scores, scores_low;
    Scratch<Accumulate> row, sums;

    Memory(const AttentionSizes& sizes, const AttentionCuts<Product>& cuts)
        : query(cuts.problems * sizes.columns() * sizes.width),
          key(cuts.problems * sizes.keys * sizes.width),
          value(cuts.problems * sizes.keys * sizes.width),
          output(cuts.problems * cuts.rows * sizes.width),
          output_low(kTwoParts ? cuts.problems * cuts.rows * sizes.width : 0),
          scores(cuts.problems * cuts.rows * sizes.keys),
          scores_low(kTwoParts ? cuts.problems * cuts.rows * sizes.keys : 0),
          row(sizes.keys + kLanesAtMost),
          sums(cuts.problems * cuts.rows) {}
  };

  // Rows [begin, end) of `count` problems; more than one only if a panel has all rows.
  void run_problems(
      const Memory& memory, const AttentionCuts<Product>& cuts, int64_t first, int64_t count, int64_t begin,
      int64_t end) const {
    for (int64_t index = 0; index < count; ++index) {
      pack(query, sizes, first + index, memory.query + index * sizes.columns() * sizes.width);
      pack(key, sizes, first + index, memory.key + index * sizes.keys * sizes.width);
      pack(value, sizes, first + index, memory.value + index * sizes.keys * sizes.width);
    }
    for (int64_t row = begin; row < end; row += cuts.rows) {
      run_panel(memory, first, count, row, std::min(row + cuts.rows, end));
    }
  }

  void run_panel(const Memory& memory, int64_t first, int64_t count, int64_t begin, int64_t end) const {
    const int64_t rows = end - begin;
    const int64_t seen = causal ? std::min((end - 1) / sizes.group() + 1, sizes.keys) : sizes.keys;
    Product* queries = memory.query + begin * sizes.width;
    const Tensor x = matrices<Product>(queries, count, rows, sizes.width);
    const Tensor y = transposed_matrices<Product>(memory.key, count, seen, sizes.width);
    const Tensor rounded = matrices<Product>(memory.scores, count, rows, seen);
    multiply(x, y, rounded);
    if constexpr (kTwoParts) multiply_rest(x, y, rounded, matrices<Product>(memory.scores_low, count, rows, seen));
    for (int64_t row = 0; row < count * rows; ++row) {
      const int64_t place = (begin + row % rows) / sizes.group();
      const AttentionSum<Accumulate> sum = attention_kernels()(Element{}).softmax({
          .scores = memory.scores + row * seen,
          .scores_low = kTwoParts ? memory.scores_low + row * seen : nullptr,
          .row = memory.row,
          .scale = scale,
          .seen = causal ? std::min(place + 1, seen) : seen,
          .count = seen,
      });
      *at(logsumexp, first + row / rows, begin + row % rows) = sum.logsumexp;
      memory.sums[row] = sum.sum;
    }
    const Tensor values = matrices<Product>(memory.value, count, seen, sizes.width);
    const Tensor product = matrices<Product>(memory.output, count, rows, sizes.width);
    multiply(rounded, values, product);
    if constexpr (kTwoParts) {
      multiply_rest(rounded, values, product, matrices<Product>(memory.output_low, count, rows, sizes.width));
    }
    for (int64_t row = 0; row < count * rows; ++row) {
      const int64_t offset = row * sizes.width;
      attention_kernels()(Element{}).divide(
          memory.output + offset, kTwoParts ? memory.output_low + offset : nullptr, memory.sums[row],
          at(output, first + row / rows, begin + row % rows), sizes.width);
    }
  }

  // A row of the queries that share a head of keys.
  template <class Value>
  Value* at(const Heads<Value>& heads, int64_t problem, int64_t row) const {
    const int64_t head = problem % sizes.heads_kv * sizes.group() + row % sizes.group();
    return heads.row(problem / sizes.heads_kv, head, row / sizes.group());
  }
};

}  // namespace burnlike::cpu
