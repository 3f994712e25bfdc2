// Attention's backward pass in blocks of keys that stay in the cache (Dao 2023, "FlashAttention-2", algorithm 2).
//
// Scores are products of keys with queries, transposed, so that the gradients of a block's keys and values are complete
// with the block. The gradients of queries are sums over all keys: those of scores are kept for them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_heads.h"
#include "burnlike/tensors.h"
#include "isa/attention.h"
#include "products.h"

namespace burnlike::cpu {

// How the work is cut, by the shapes alone, so that every number of threads gives the same bits. Each call of a product
// costs as much as some ten thousand of its values, so they are of many values as far as these stay in the cache.
struct AttentionBlocks {
  static constexpr int64_t kMostValues = 65536;
  static constexpr int64_t kLeastKeys = 128;

  int64_t problems;  // that are computed together
  int64_t keys;      // of a block

  AttentionBlocks(const AttentionSizes& sizes, bool causal) {
    const int64_t scores = sizes.keys * sizes.columns();
    const bool whole = scores <= kMostValues && (!causal || sizes.keys <= kLeastKeys);
    problems = whole ? std::clamp<int64_t>(kMostValues / scores, 1, sizes.problems()) : 1;
    keys = whole ? sizes.keys : std::min(sizes.keys, std::max(kLeastKeys, kMostValues / sizes.columns()));
  }
};

// The gradients of scores by all keys, in panels of the queries that begin with a block of keys: those of later keys do
// not see them if attention is causal.
struct AttentionPanels {
  int64_t count;
  int64_t queries;  // of a panel
  const AttentionSizes& sizes;
  bool causal;

  // `keys`: of a block.
  AttentionPanels(const AttentionSizes& sizes, int64_t keys, bool causal)
      : queries(causal ? keys : sizes.queries), sizes(sizes), causal(causal) {
    count = (sizes.queries + queries - 1) / queries;
  }

  int64_t end_query(int64_t panel) const { return std::min((panel + 1) * queries, sizes.queries); }
  int64_t keys(int64_t panel) const { return causal ? std::min(end_query(panel), sizes.keys) : sizes.keys; }
  int64_t columns(int64_t panel) const { return (end_query(panel) - panel * queries) * sizes.group(); }

  // Where a panel's values begin; that of `count` is behind the last.
  int64_t offset(int64_t panel) const {
    int64_t values = 0;
    for (int64_t before = 0; before < panel; ++before) values += keys(before) * columns(before);
    return values;
  }
};

template <class Element>
struct AttentionBackward {
  using Accumulate = accumulate_t<Element>;
  // Above, float32 loses more than 2^-16 of the sums of exponentials beside their largest.
  static constexpr Accumulate kMostLogarithm = 256;

  AttentionSizes sizes;
  bool causal;
  Accumulate scale;
  AttentionBias bias;
  Heads<const Element> grad, query, key, value, output;
  Heads<const Accumulate> logsumexp;
  Heads<Element> grad_query, grad_key, grad_value;

  void run() const {
    const AttentionBlocks blocks(sizes, causal);
    const int64_t chunks = (sizes.problems() + blocks.problems - 1) / blocks.problems;
    // Two ranges at least: in each, torch's products have one thread, as more could change their bits.
    torch::stable::parallel_for(0, std::max<int64_t>(2, chunks), 1, [&](int64_t begin, int64_t end) {
      if (begin >= chunks) return;
      const Memory memory(*this, blocks);
      for (int64_t chunk = begin; chunk < std::min(end, chunks); ++chunk) {
        const int64_t first = chunk * blocks.problems;
        run_problems(memory, blocks, first, std::min(blocks.problems, sizes.problems() - first));
      }
    });
  }

 private:
  // A thread's memory.
  struct Memory {
    Scratch<Accumulate> query, grad, key, value, grad_query, grad_key, grad_value;
    Scratch<Accumulate> scores, grads, kept, largest, logarithms, deltas, bias;

    Memory(const AttentionBackward& call, const AttentionBlocks& blocks)
        : Memory(
              call, blocks, blocks.problems * call.sizes.columns(), blocks.problems * call.sizes.keys,
              AttentionPanels(call.sizes, blocks.keys, call.causal)) {}

    Memory(
        const AttentionBackward& call, const AttentionBlocks& blocks, int64_t columns, int64_t keys,
        const AttentionPanels& panels)
        : query(columns * call.sizes.width),
          grad(columns * call.sizes.width),
          key(keys * call.sizes.width),
          value(keys * call.sizes.width),
          grad_query(columns * call.sizes.width),
          grad_key(keys * call.sizes.width),
          grad_value(keys * call.sizes.width),
          scores(blocks.keys * columns),
          grads(blocks.keys * columns),
          kept(blocks.keys < call.sizes.keys ? panels.offset(panels.count) : 0),
          largest(columns),
          logarithms(columns),
          deltas(columns),
          bias(call.bias.data == nullptr ? 0 : blocks.keys * columns) {}
  };

  // `count` problems; more than one only if a block has all keys.
  void run_problems(const Memory& memory, const AttentionBlocks& blocks, int64_t first, int64_t count) const {
    for (int64_t index = 0; index < count; ++index) read(memory, first + index, index);
    separate_logarithms(memory, blocks, first, count);
    for (int64_t key = 0; key < sizes.keys; key += blocks.keys) {
      run_block(memory, blocks, first, count, key, std::min(key + blocks.keys, sizes.keys));
    }
    if (blocks.keys < sizes.keys) {
      finish_queries(memory, AttentionPanels(sizes, blocks.keys, causal));
    } else {
      multiply(
          transposed_matrices<Accumulate>(memory.grads, count, sizes.keys, sizes.columns()),
          matrices<Accumulate>(memory.key, count, sizes.keys, sizes.width),
          matrices<Accumulate>(memory.grad_query, count, sizes.columns(), sizes.width));
    }
    for (int64_t index = 0; index < count; ++index) write(memory, first + index, index);
  }

  void read(const Memory& memory, int64_t problem, int64_t index) const {
    const int64_t column = index * sizes.columns();
    pack(query, sizes, problem, memory.query + column * sizes.width);
    pack(grad, sizes, problem, memory.grad + column * sizes.width);
    pack(key, sizes, problem, memory.key + index * sizes.keys * sizes.width);
    pack(value, sizes, problem, memory.value + index * sizes.keys * sizes.width);
    const auto dot = attention_kernels()(Element{}).dot;
    const auto of_column = [&](int64_t batch, int64_t head, int64_t place, int64_t row) {
      memory.largest[column + row] = *logsumexp.row(batch, head, place);  // as one number, if it holds both
      memory.logarithms[column + row] = Accumulate{};
      memory.deltas[column + row] = dot(grad.row(batch, head, place), output.row(batch, head, place), sizes.width);
    };
    for_rows_of(grad, sizes, problem, of_column);
  }

  // Of columns whose logarithm is large, as with masks of -1e9, or of no number: the largest score and the logarithm of
  // the sum again, apart from each other.
  void separate_logarithms(const Memory& memory, const AttentionBlocks& blocks, int64_t first, int64_t count) const {
    const int64_t columns = count * sizes.columns();
    const auto is_exact = [](Accumulate logarithm) { return std::abs(logarithm) <= kMostLogarithm; };
    if (std::all_of(memory.largest + int64_t{0}, memory.largest + columns, is_exact)) return;
    const Scratch<Accumulate> largest(columns), sums(columns);
    std::fill_n(static_cast<Accumulate*>(largest), columns, -std::numeric_limits<Accumulate>::infinity());
    std::fill_n(static_cast<Accumulate*>(sums), columns, Accumulate{});
    for (int64_t begin = 0; begin < sizes.keys; begin += blocks.keys) {
      const int64_t end = std::min(begin + blocks.keys, sizes.keys);
      const int64_t first_column = first_seeing(begin);
      const Shape shape{count, end - begin, sizes.columns() - first_column, sizes.width};
      if (shape.columns == 0) break;
      multiply_keys(memory.key + begin * sizes.width, memory.query + first_column * sizes.width, shape, memory.scores);
      for (int64_t index = 0; index < count; ++index) {
        const int64_t column = index * sizes.columns() + first_column;
        attention_kernels()(Element{}).add(
            tile_of(memory, first, index, {begin, end}, first_column), largest + column, sums + column);
      }
    }
    for (int64_t column = 0; column < columns; ++column) {
      if (is_exact(memory.largest[column])) continue;
      const bool is_blind = sums[column] == Accumulate{};  // without a weight, so that there is none here
      memory.largest[column] = is_blind ? Accumulate{} : largest[column];
      memory.logarithms[column] = is_blind ? std::numeric_limits<Accumulate>::infinity()
                                           : static_cast<Accumulate>(logarithm(static_cast<double>(sums[column])));
    }
  }

  // The first column that sees the keys from `begin` on.
  int64_t first_seeing(int64_t begin) const { return causal ? std::min(begin, sizes.queries) * sizes.group() : 0; }

  // Keys with the columns from one on, of one of the problems whose scores are in memory.
  AttentionTile<Accumulate> tile_of(
      const Memory& memory, int64_t first, int64_t index, Range keys, int64_t first_column) const {
    const int64_t rows = keys.end - keys.begin, columns = sizes.columns() - first_column;
    const int64_t values = index * rows * columns, column = index * sizes.columns() + first_column;
    if (bias.data != nullptr) {
      read_bias<Accumulate>(bias, sizes, first + index, keys, {first_column, sizes.columns()}, columns, memory.bias);
    }
    return {
        .scores = memory.scores + values,
        .grads = memory.grads + values,
        .bias = bias.data == nullptr ? nullptr : static_cast<const Accumulate*>(memory.bias),
        .largest = memory.largest + column,
        .logarithms = memory.logarithms + column,
        .deltas = memory.deltas + column,
        .scale = scale,
        .rows = rows,
        .columns = columns,
        .hidden_step = causal ? sizes.group() : 0,
    };
  }

  void write(const Memory& memory, int64_t problem, int64_t index) const {
    unpack(memory.grad_query + index * sizes.columns() * sizes.width, grad_query, sizes, problem);
    unpack(memory.grad_key + index * sizes.keys * sizes.width, grad_key, sizes, problem);
    unpack(memory.grad_value + index * sizes.keys * sizes.width, grad_value, sizes, problem);
  }

  // Keys [begin, end) with the queries that see any of them: the gradients of these keys and values.
  void run_block(
      const Memory& memory, const AttentionBlocks& blocks, int64_t first, int64_t count, int64_t begin,
      int64_t end) const {
    const int64_t width = sizes.width;
    const int64_t first_column = first_seeing(begin);
    const int64_t rows = end - begin;
    const int64_t columns = sizes.columns() - first_column;
    Accumulate* grad_key = memory.grad_key + begin * width;
    Accumulate* grad_value = memory.grad_value + begin * width;
    if (columns == 0) {
      std::fill_n(grad_key, rows * width, Accumulate{});
      std::fill_n(grad_value, rows * width, Accumulate{});
      return;
    }
    Accumulate* queries = memory.query + first_column * width;
    Accumulate* slopes = memory.grad + first_column * width;
    const Shape shape{count, rows, columns, width};
    multiply_keys(memory.key + begin * width, queries, shape, memory.scores);
    multiply_keys(memory.value + begin * width, slopes, shape, memory.grads);
    for (int64_t index = 0; index < count; ++index) {
      attention_kernels()(Element{}).tile(tile_of(memory, first, index, {begin, end}, first_column));
    }
    multiply_queries(memory.scores, slopes, shape, grad_value);
    multiply_queries(memory.grads, queries, shape, grad_key);
    if (rows < sizes.keys) keep(memory, AttentionPanels(sizes, blocks.keys, causal), begin, end, first_column);
  }

  struct Shape {
    int64_t count, rows, columns, width;
  };

  // keys queries^T
  static void multiply_keys(Accumulate* keys, Accumulate* queries, const Shape& shape, Accumulate* product) {
    multiply(
        matrices(keys, shape.count, shape.rows, shape.width),
        transposed_matrices(queries, shape.count, shape.columns, shape.width),
        matrices(product, shape.count, shape.rows, shape.columns));
  }

  static void multiply_queries(Accumulate* tile, Accumulate* queries, const Shape& shape, Accumulate* product) {
    multiply(
        matrices(tile, shape.count, shape.rows, shape.columns),
        matrices(queries, shape.count, shape.columns, shape.width),
        matrices(product, shape.count, shape.rows, shape.width));
  }

  // Copies the gradients of a block's scores into the panels of their queries.
  void keep(
      const Memory& memory, const AttentionPanels& panels, int64_t begin, int64_t end, int64_t first_column) const {
    const int64_t columns = sizes.columns() - first_column;
    for (int64_t panel = first_column / (panels.queries * sizes.group()); panel < panels.count; ++panel) {
      const int64_t count = panels.columns(panel);
      const Accumulate* source = memory.grads + panel * panels.queries * sizes.group() - first_column;
      Accumulate* target = memory.kept + panels.offset(panel) + begin * count;
      for (int64_t key = begin; key < std::min(end, panels.keys(panel)); ++key) {
        std::copy_n(source, count, target);
        source += columns;
        target += count;
      }
    }
  }

  void finish_queries(const Memory& memory, const AttentionPanels& panels) const {
    for (int64_t panel = 0; panel < panels.count; ++panel) {
      const int64_t columns = panels.columns(panel);
      multiply(
          transposed_matrices<Accumulate>(memory.kept + panels.offset(panel), 1, panels.keys(panel), columns),
          matrices<Accumulate>(memory.key, 1, panels.keys(panel), sizes.width),
          matrices<Accumulate>(
              memory.grad_query + panel * panels.queries * sizes.group() * sizes.width, 1, columns, sizes.width));
    }
  }
};

}  // namespace burnlike::cpu
