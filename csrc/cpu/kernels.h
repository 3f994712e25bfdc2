// The table of CPU kernels: one function per op and element type, compiled once for each instruction set.
//
// An op finds its kernel in `kernels()`. To add one: a member here, its body in `isa/<op>.inl` and a line in
// `isa/table.inl`.
#pragma once

#include <cstdint>

#include "burnlike/adamw_step.h"
#include "burnlike/cross_entropy.h"
#include "burnlike/dropout_add.h"
#include "burnlike/element.h"
#include "burnlike/lion_step.h"
#include "burnlike/masked_softmax.h"
#include "burnlike/norms.h"
#include "burnlike/row_places.h"
#include "burnlike/sgd_step.h"
#include "burnlike/storage.h"

namespace burnlike::cpu {

// The kernels of an op for each element type: `table(element)` finds them by a value of the type.
template <template <class> class OpKernels>
struct PerElement {
  OpKernels<float> float32;
  OpKernels<double> float64;
  OpKernels<BFloat16> bfloat16;
  OpKernels<Float16> float16;

  const OpKernels<float>& operator()(float) const { return float32; }
  const OpKernels<double>& operator()(double) const { return float64; }
  const OpKernels<BFloat16>& operator()(BFloat16) const { return bfloat16; }
  const OpKernels<Float16>& operator()(Float16) const { return float16; }
};

// The type in which products of matrices are formed: float32 for float16, which few processors multiply.
template <class Element>
struct ProductType {
  using type = Element;
};
template <>
struct ProductType<Float16> {
  using type = float;
};
template <class Element>
using product_t = typename ProductType<Element>::type;

// Some keys (rows) of one head with some of its queries (columns). What a product lost when it was rounded is in
// `_low`, or null. In each row the first `row * hidden_step` columns are hidden.
template <class Product>
struct AttentionTile {
  using Accumulate = accumulate_t<Product>;

  Product* scores;  // k q^T, becomes the weights
  Product* grads;   // v dO^T, the gradients of the weights, becomes those of k q^T
  const Product* scores_low;
  const Product* grads_low;
  const Accumulate* bias;       // added to the scaled scores, or null
  const Accumulate* logsumexp;  // of each column
  const Accumulate* deltas;     // of each column
  Accumulate scale;
  int64_t rows;
  int64_t columns;
  int64_t hidden_step;
};

// The scores of one query with `count` keys, of which it sees the first ones; they become the weights, before they are
// divided by their sum. `row` has place for them and 31 more.
template <class Product>
struct AttentionRow {
  using Accumulate = accumulate_t<Product>;

  Product* scores;
  const Product* scores_low;
  Accumulate* row;
  Accumulate scale;
  int64_t seen;
  int64_t count;
};

// Of a row's weights: their sum, and the logarithm of the sum of the scores' exponentials.
template <class Accumulate>
struct AttentionSum {
  Accumulate sum, logsumexp;
};

template <class Element>
struct AttentionKernels {
  void (*tile)(const AttentionTile<product_t<Element>>&);

  AttentionSum<accumulate_t<Element>> (*softmax)(const AttentionRow<product_t<Element>>&);

  // A row of the output from the weights' product, and what it lost when it was rounded, or null.
  void (*divide)(
      const product_t<Element>* product, const product_t<Element>* low, accumulate_t<Element> sum, Element* output,
      int64_t width);

  accumulate_t<Element> (*dot)(const Element* x, const Element* y, int64_t count);
};

// Rows [begin, end) of contiguous logits [rows, classes]; statistics have two values for each row.
template <class Element>
struct CrossEntropyKernels {
  using Accumulate = accumulate_t<Element>;
  using Options = CrossEntropyOptions<Accumulate>;

  // Adds the losses and the targets' weights to `sums`; `losses` may be null.
  void (*forward)(
      const Element* logits, const int64_t* targets, const Options& options, Accumulate* statistics, Accumulate* losses,
      double* sums, int64_t begin, int64_t end);

  // `grad` has one value for each row, or one for all if grad_step is 0; `grads` may be the logits.
  void (*backward)(
      const Accumulate* grad, int64_t grad_step, double divisor, const Element* logits, const int64_t* targets,
      const Options& options, const Accumulate* statistics, Element* grads, int64_t begin, int64_t end);
};

template <class Element>
using CpuNormForward = NormForward<Element, accumulate_t<Element>>;
template <class Element>
using CpuNormBackward = NormBackward<Element, accumulate_t<Element>>;

// Rows [begin, end) of a normalization.
template <class Element>
struct NormKernels {
  void (*forward)(const CpuNormForward<Element>&, int64_t begin, int64_t end);

  // Writes the gradient of x and adds those of gamma and, behind them, of beta to `sums`, `width` values each.
  void (*backward)(const CpuNormBackward<Element>&, accumulate_t<Element>* sums, int64_t begin, int64_t end);
};

// Strides of rows [batch, outer, inner], in values.
struct RowStrides {
  int64_t batch, outer, inner;

  BURNLIKE_INLINE int64_t at(int64_t batch_index, int64_t outer_index, int64_t inner_index) const {
    return batch * batch_index + outer * outer_index + inner * inner_index;
  }
};

// The rows of a tensor of heads: `outer` and `inner` are its heads and its sequence, whichever memory has inside. Sines
// are multiplied by `sign`; a compiler that knew `minus_sign` to be its negative would subtract.
struct RotaryRows {
  int64_t outer_size, inner_size, width, half;
  RowStrides x, y, cosine, sine;
  float sign, minus_sign;
  bool interleaved, whole;
};

// Turns rows [begin, end) of x, by tables of its own type or of float32.
template <class Element>
struct RotaryKernels {
  template <class Table>
  using Turn = void (*)(
      const RotaryRows& rows, const Element* x, const Table* cosine, const Table* sine, Element* y, int64_t begin,
      int64_t end);

  Turn<Element> own_tables;
  Turn<float> float32_tables;
};

// Rows [begin, end) of `width` values; y is contiguous.
template <class Element>
struct GluKernels {
  using Input = const RowPlaces<const Element>&;
  using Output = const RowPlaces<Element>&;

  void (*forward)(Input gate, Input up, Element* y, int64_t begin, int64_t end, int64_t width);
  void (*backward)(
      Input grad, Input gate, Input up, Output grad_gate, Output grad_up, int64_t begin, int64_t end, int64_t width);
};

// Rows [begin, end) of `width` values; y and grad_x are contiguous.
template <class Element>
struct BiasGeluKernels {
  using Accumulate = accumulate_t<Element>;
  using Input = const RowPlaces<const Element>&;

  void (*forward)(Input x, const Accumulate* bias, Element* y, int64_t begin, int64_t end, int64_t width);

  // Adds the gradient of the bias to `sums`.
  void (*backward)(
      Input grad, Input x, const Accumulate* bias, Element* grad_x, Accumulate* sums, int64_t begin, int64_t end,
      int64_t width);
};

// Values [begin, end). The residual, the result and its gradient have the element type or, for `mixed`, that which is
// computed in.
template <class Element>
struct DropoutAddKernels {
  using Accumulate = accumulate_t<Element>;
  using Drop = const Dropping<Accumulate>&;

  void (*forward)(const Element* x, const Element* residual, Element* y, int64_t begin, int64_t end, Drop drop);
  void (*mixed_forward)(
      const Element* x, const Accumulate* residual, Accumulate* y, int64_t begin, int64_t end, Drop drop);
  void (*backward)(const Element* grad, Element* grad_x, int64_t begin, int64_t end, Drop drop);
  void (*mixed_backward)(const Accumulate* grad, Element* grad_x, int64_t begin, int64_t end, Drop drop);
};

// Rows [begin, end); `scratch` has room for a row, in whole lanes of 128 bytes.
template <class Element>
struct MaskedSoftmaxKernels {
  using Accumulate = accumulate_t<Element>;

  void (*forward)(const SoftmaxForward<Element>& pass, Accumulate* scratch, int64_t begin, int64_t end);
  void (*backward)(const SoftmaxBackward<Element>& pass, int64_t begin, int64_t end);
};

// Some values of one parameter, in the type that is computed in; `states` are null for moments a rule goes without.
template <class Accumulate>
struct StepValues {
  Accumulate* p;
  const Accumulate* g;
  Accumulate* states[kMaxStates];
  int64_t count;
};

// How values are rounded to fewer bits: to nearest, or by chance. `block` is that of the first value.
struct Rounding {
  bool stochastic;
  uint32_t key;
  int64_t block;
};

// The rules, and the ways from and to memory. Values to load or store begin with a block of codes.
template <class Accumulate>
struct StepKernels {
  void (*adamw)(const StepValues<Accumulate>&, const AdamwScalars<Accumulate>&, Decay, bool amsgrad);
  void (*sgd)(const StepValues<Accumulate>&, const SgdScalars<Accumulate>&, Momentum, bool decays);
  void (*lion)(const StepValues<Accumulate>&, const LionScalars<Accumulate>&);

  // For each storage; `scales` are read and written for codes only.
  void (*load[kStorages])(const void* source, const float* scales, Accumulate* values, int64_t count);
  void (*store[kStorages])(
      const Accumulate* values, void* target, float* scales, int64_t count, const Rounding& rounding);
};

// The sum of squares of `count` values, of at most kSquaresTile. For each element type, by its ElementKind.
using SumOfSquares = double (*)(const void* values, int64_t count);

// Converts values [begin, end); whether a finite one became infinite. One for each type of source, by its ElementKind.
struct ConvertKernels {
  bool (*from[4])(const void* sources, void* targets, int64_t begin, int64_t end);
};

// A checksum's state (all bits flipped) after `count` bytes more.
using Crc32 = uint32_t (*)(uint32_t state, const uint8_t* bytes, int64_t count);

struct Kernels {
  const char* isa;

  PerElement<AttentionKernels> attention;
  PerElement<CrossEntropyKernels> cross_entropy;
  PerElement<NormKernels> rms_norm;
  PerElement<NormKernels> layer_norm;
  PerElement<RotaryKernels> rotary;
  PerElement<GluKernels> swiglu;
  PerElement<GluKernels> geglu;
  PerElement<GluKernels> tanh_geglu;
  PerElement<BiasGeluKernels> bias_gelu;
  PerElement<BiasGeluKernels> tanh_bias_gelu;
  PerElement<DropoutAddKernels> dropout_add;
  PerElement<MaskedSoftmaxKernels> masked_softmax;

  StepKernels<float> step_float32;
  StepKernels<double> step_float64;

  SumOfSquares sum_of_squares[4];

  ConvertKernels convert[4];  // for each type of target, by its ElementKind

  Crc32 crc32;
};

// The kernels of the instruction set in use: the best one that this machine has, unless one was chosen.
const Kernels& kernels();

extern const Kernels default_kernels;
#if defined(__x86_64__)
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
#endif

}  // namespace burnlike::cpu
