// Attention in bfloat16, both passes, on processors that multiply it: blocks of keys with blocks of queries, of which
// those that causality hides are left out. Work is cut by the shapes alone, so that every number of threads gives the
// same bits.
#pragma once

#include <algorithm>
#include <limits>

#include "attention_bf16_call.h"

namespace burnlike::cpu {

struct Bf16AttentionForward : Bf16Attention {
  static constexpr int64_t kKeys = 128;  // of a block

  Heads<const BFloat16> query, key, value;
  Heads<BFloat16> output;
  Heads<float> largest, logarithms;

  void run(const Bf16AttentionKernels& kernels) const {
    // A block from the front with one from the back: together they see as many keys as any other two.
    const int64_t couples = (blocks() + 1) / 2;
    torch::stable::parallel_for(0, sizes.problems() * couples, 1, [&](int64_t begin, int64_t end) {
      const Memory memory(*this);
      int64_t packed = -1;
      for (int64_t item = begin; item < end; ++item) {
        const int64_t problem = item / couples, first = item % couples, last = blocks() - 1 - first;
        if (problem != packed) pack_keys(kernels, memory, problem);
        packed = problem;
        run_block(kernels, memory, problem, first);
        if (last != first) run_block(kernels, memory, problem, last);
      }
    });
  }

 private:
  // A thread's memory.
  struct Memory {
    Scratch<BFloat16> keys, rows;
    Scratch<uint32_t> values, queries, weights;
    Scratch<float> scores, output, largest, sums, bias, noise;

    explicit Memory(const Bf16Attention& call)
        : keys(lanes(call.sizes.keys) * call.width()),
          rows(kBf16Columns * call.width()),
          values(lanes(call.sizes.keys) / 2 * call.width()),
          queries(call.width() / 2 * kBf16Columns),
          weights(kKeys / 2 * kBf16Columns),
          scores(kKeys * kBf16Columns),
          output(kBf16Columns * call.width()),
          largest(kBf16Columns),
          sums(kBf16Columns),
          bias(call.bias.data == nullptr ? 0 : kKeys * kBf16Columns),
          noise(call.noise.data == nullptr ? 0 : kKeys * kBf16Columns) {}
  };

  void pack_keys(const Bf16AttentionKernels& kernels, const Memory& memory, int64_t problem) const {
    pack_rows(key, problem, {0, sizes.keys}, memory.keys);
    for (int64_t begin = 0; begin < sizes.keys; begin += kBf16Columns) {
      const int64_t end = std::min(begin + kBf16Columns, sizes.keys);
      pack_rows(value, problem, {begin, end}, memory.rows);
      kernels.to_pairs(memory.rows, lanes(end - begin), width(), memory.values + begin / 2 * width());
    }
  }

  void run_block(const Bf16AttentionKernels& kernels, const Memory& memory, int64_t problem, int64_t block) const {
    const int64_t begin = block * kBf16Columns, count = columns(block);
    pack_rows(query, problem, {begin, begin + count}, memory.rows);
    kernels.to_lanes(memory.rows, lanes(count), width(), memory.queries);
    std::fill_n(static_cast<float*>(memory.largest), kBf16Columns, -std::numeric_limits<float>::infinity());
    std::fill_n(static_cast<float*>(memory.sums), kBf16Columns, 0.0f);
    const int64_t keys = causal ? std::min((begin + count - 1) / sizes.group() + 1, sizes.keys) : sizes.keys;
    for (int64_t first = 0; first < keys; first += kKeys) {
      const int64_t rows = std::min(kKeys, keys - first);
      kernels.forward({
          .keys = words(memory.keys + first * width()),
          .queries = memory.queries,
          .values = memory.values + first / 2 * width(),
          .options = options(kernels, problem, first, rows, block, memory.bias, memory.noise),
          .scores = memory.scores,
          .weights = memory.weights,
          .largest = memory.largest,
          .sums = memory.sums,
          .output = memory.output,
          .width = width(),
          .seen = seen(block, first, rows),
          .is_first = first == 0,
      });
    }
    float factors[kBf16Columns], sums[kBf16Columns];
    kernels.finish(memory.largest, memory.sums, factors, sums);
    const auto write = [&](int64_t batch, int64_t head, int64_t place, int64_t row) {
      const int64_t column = row - begin;
      kernels.round(memory.output + column * width(), factors[column], output.row(batch, head, place), sizes.width);
      *largest.row(batch, head, place) = memory.largest[column];
      *logarithms.row(batch, head, place) = sums[column];
    };
    for_rows(sizes.heads, sizes, problem, {begin, begin + count}, write);
  }
};

struct Bf16AttentionBackward : Bf16Attention {
  static constexpr int64_t kKeys = 64;        // of a block
  static constexpr int64_t kLeastItems = 16;  // with fewer heads, their keys are divided

  Heads<const BFloat16> grad, query, key, value, output;
  Heads<const float> largest, logarithms;
  Heads<BFloat16> grad_query, grad_key, grad_value;

  void run(const Bf16AttentionKernels& kernels) const {
    const int64_t parts = parts_of_a_problem();
    const int64_t values = blocks() * kBf16Columns * width();
    const Scratch<float> partial(parts == 1 ? 0 : sizes.problems() * parts * values);
    torch::stable::parallel_for(0, sizes.problems() * parts, 1, [&](int64_t begin, int64_t end) {
      const Memory memory(*this, kernels);
      const Scratch<float> own(parts == 1 ? values : 0);
      int64_t packed = -1;
      for (int64_t item = begin; item < end; ++item) {
        const int64_t problem = item / parts;
        if (problem != packed) pack_queries(memory, problem);
        packed = problem;
        float* grads = parts == 1 ? own : partial + item * values;
        run_part(memory, problem, item % parts, parts, grads);
        if (parts == 1) write(kernels, grads, scale, grad_query, problem, 0, sizes.columns());
      }
    });
    if (parts == 1) return;
    torch::stable::parallel_for(0, sizes.problems() * blocks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t problem = item / blocks(), block = item % blocks();
        float* sums = partial + problem * parts * values + block * kBf16Columns * width();
        for (int64_t part = 1; part < parts; ++part) {
          for (int64_t index = 0; index < columns(block) * width(); ++index) sums[index] += sums[part * values + index];
        }
        write(kernels, sums, scale, grad_query, problem, block * kBf16Columns, columns(block));
      }
    });
  }

 private:
  // A thread's memory.
  struct Memory {
    const Bf16AttentionKernels& kernels;
    Scratch<BFloat16> rows, keys, values, weights;
    Scratch<uint32_t> queries, query_pairs, grads, grad_pairs, key_pairs, grad_score_pairs;
    Scratch<float> largest, logarithms, deltas, scores, grad_key, grad_value, bias, noise;

    Memory(const Bf16Attention& call, const Bf16AttentionKernels& kernels)
        : Memory(kernels, call.width(), call.blocks() * kBf16Columns, call.bias.data, call.noise.data) {}

    Memory(
        const Bf16AttentionKernels& kernels, int64_t width, int64_t columns, const void* has_bias,
        const void* has_noise)
        : kernels(kernels),
          rows(kBf16Columns * width),
          keys(kKeys * width),
          values(kKeys * width),
          weights(2 * kBf16Lanes * kBf16Columns),
          queries(columns / 2 * width),
          query_pairs(columns / 2 * width),
          grads(columns / 2 * width),
          grad_pairs(columns / 2 * width),
          key_pairs(kKeys / 2 * width),
          grad_score_pairs(kKeys / 2 * kBf16Columns),
          largest(columns),
          logarithms(columns),
          deltas(columns),
          scores(2 * kBf16Lanes * kBf16Columns),
          grad_key(kKeys * width),
          grad_value(kKeys * width),
          bias(has_bias == nullptr ? 0 : kKeys * kBf16Columns),
          noise(has_noise == nullptr ? 0 : kKeys * kBf16Columns) {}
  };

  int64_t key_blocks() const { return (sizes.keys + kKeys - 1) / kKeys; }

  int64_t parts_of_a_problem() const {
    return std::clamp<int64_t>(kLeastItems / sizes.problems(), 1, std::max<int64_t>(1, key_blocks() / 2));
  }

  void pack_queries(const Memory& memory, int64_t problem) const {
    for (int64_t block = 0; block < blocks(); ++block) {
      const int64_t begin = block * kBf16Columns, count = columns(block), offset = begin / 2 * width();
      pack_rows(query, problem, {begin, begin + count}, memory.rows);
      memory.kernels.to_lanes(memory.rows, lanes(count), width(), memory.queries + offset);
      memory.kernels.to_pairs(memory.rows, lanes(count), width(), memory.query_pairs + offset);
      pack_rows(grad, problem, {begin, begin + count}, memory.rows);
      memory.kernels.to_lanes(memory.rows, lanes(count), width(), memory.grads + offset);
      memory.kernels.to_pairs(memory.rows, lanes(count), width(), memory.grad_pairs + offset);
      const auto of_column = [&](int64_t batch, int64_t head, int64_t place, int64_t column) {
        memory.largest[column] = *largest.row(batch, head, place);
        memory.logarithms[column] = *logarithms.row(batch, head, place);
        memory.deltas[column] =
            memory.kernels.dot(memory.rows + (column - begin) * width(), output.row(batch, head, place), sizes.width);
      };
      for_rows(sizes.heads, sizes, problem, {begin, begin + count}, of_column);
    }
  }

  // Every so many blocks of keys, from the front and then from the back, as later ones are seen by fewer queries.
  void run_part(const Memory& memory, int64_t problem, int64_t part, int64_t parts, float* grads) const {
    std::fill_n(grads, blocks() * kBf16Columns * width(), 0.0f);
    for (int64_t round = 0; round * parts < key_blocks(); ++round) {
      const int64_t block = round * parts + (round % 2 == 0 ? part : parts - 1 - part);
      if (block < key_blocks()) run_keys(memory, problem, block * kKeys, grads);
    }
  }

  void run_keys(const Memory& memory, int64_t problem, int64_t begin, float* grads) const {
    const int64_t rows = std::min(kKeys, sizes.keys - begin);
    pack_rows(key, problem, {begin, begin + rows}, memory.keys);
    pack_rows(value, problem, {begin, begin + rows}, memory.values);
    memory.kernels.to_pairs(memory.keys, lanes(rows), width(), memory.key_pairs);
    std::fill_n(static_cast<float*>(memory.grad_key), kKeys * width(), 0.0f);
    std::fill_n(static_cast<float*>(memory.grad_value), kKeys * width(), 0.0f);
    for (int64_t block = causal ? begin * sizes.group() / kBf16Columns : 0; block < blocks(); ++block) {
      const int64_t column = block * kBf16Columns, offset = column / 2 * width();
      memory.kernels.backward({
          .keys = words(memory.keys),
          .key_pairs = memory.key_pairs,
          .values = words(memory.values),
          .queries = memory.queries + offset,
          .query_pairs = memory.query_pairs + offset,
          .grads = memory.grads + offset,
          .grad_pairs = memory.grad_pairs + offset,
          .options = options(memory.kernels, problem, begin, rows, block, memory.bias, memory.noise),
          .largest = memory.largest + column,
          .logarithms = memory.logarithms + column,
          .deltas = memory.deltas + column,
          .scores = memory.scores,
          .weights = memory.weights,
          .grad_score_pairs = memory.grad_score_pairs,
          .grad_key = memory.grad_key,
          .grad_value = memory.grad_value,
          .grad_query = grads + column * width(),
          .width = width(),
          .seen = seen(block, begin, rows),
      });
    }
    write(memory.kernels, memory.grad_key, scale, grad_key, problem, begin, rows);
    write(memory.kernels, memory.grad_value, 1.0f, grad_value, problem, begin, rows);
  }

  // `count` rows of a problem from `begin` on.
  void write(
      const Bf16AttentionKernels& kernels, const float* sums, float factor, const Heads<BFloat16>& heads,
      int64_t problem, int64_t begin, int64_t count) const {
    const auto round = [&](int64_t batch, int64_t head, int64_t place, int64_t row) {
      kernels.round(sums + (row - begin) * width(), factor, heads.row(batch, head, place), sizes.width);
    };
    for_rows(heads.heads, sizes, problem, {begin, begin + count}, round);
  }
};

}  // namespace burnlike::cpu
