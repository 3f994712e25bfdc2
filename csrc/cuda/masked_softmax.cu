// softmax(scale * scores) with hidden columns on CUDA: one block of threads for a row, or a warp where it is enough.
// The arithmetic is in burnlike/masked_softmax.h.
#include "burnlike/masked_softmax.h"

#include <optional>

#include "burnlike/calls.h"
#include "burnlike/masked_softmax_check.h"
#include "row_packs.h"

namespace burnlike::cuda {
namespace {

CallCounter forward_calls{"masked_softmax"};
CallCounter backward_calls{"masked_softmax_backward"};

// The values of a thread, of a row in registers.
template <int kPacks, class Element>
using Held = accumulate_t<Element>[kPacks][kRowPack<Element>];

// What a row's exponentials need: the largest score, and whether any is seen. A row of which all is hidden is blind:
// its weights are equal.
template <class Accumulate>
struct Scan {
  Accumulate largest = hidden_score<Accumulate>();
  bool sees = false;
  bool is_blind = false;

  __device__ __forceinline__ void add(Accumulate score, bool hidden) {
    largest = score > largest ? score : largest;
    sees = sees || !hidden;
  }

  // Over the row's threads, which all agree.
  __device__ __forceinline__ void finish(Accumulate* shared) {
    largest = over_block(largest, shared, Larger{});
    is_blind = largest == hidden_score<Accumulate>() && over_block(Accumulate(sees), shared, Larger{}) == Accumulate(0);
  }
};

// Which of the columns [first, first + kLanes) are hidden, a bit for each; a mask that lies well is read as one.
template <int kLanes>
__device__ __forceinline__ uint32_t hidden_lanes(const SeenColumns& seen, int64_t first) {
  constexpr uint32_t kAll = (1u << kLanes) - 1;
  using Bytes = std::conditional_t<kLanes == 8, uint64_t, uint32_t>;
  static_assert(sizeof(Bytes) == kLanes);
  if (first >= seen.end) return kAll;
  uint32_t bits = first + kLanes <= seen.end ? 0 : kAll & kAll << (seen.end - first);
  if (seen.mask == nullptr) return bits;
  const uint8_t* mask = seen.mask + first;
  Bytes bytes = 0;
  if (reinterpret_cast<uintptr_t>(mask) % kLanes == 0) {
    bytes = *reinterpret_cast<const Bytes*>(mask);
  } else {
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) bytes |= static_cast<Bytes>(mask[lane]) << 8 * lane;
  }
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) {
    bits |= static_cast<uint32_t>((bytes >> 8 * lane & 0xFF) != 0) << lane;
  }
  return bits;
}

template <int kPacks, class Element>
__global__ void __launch_bounds__(kMaxRowThreads)
    packed_forward_kernel(const SoftmaxForward<Element> pass, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  constexpr int lanes = kRowPack<Element>;
  __shared__ Accumulate shared[kWarp];
  const int64_t columns = pass.hidden.columns;
  const int64_t packs = columns / lanes;
  for (int64_t row = first_row(); row < rows; row += row_step()) {
    const Element* scores = pass.scores + row * columns;
    Element* y = pass.y + row * columns;
    const SeenColumns seen = pass.hidden.row(row);
    Held<kPacks, Element> values;
    Scan<Accumulate> scan;
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      const uint32_t hidden = hidden_lanes<lanes>(seen, pack * lanes);
      Pack<Accumulate, lanes> read{};
      if (pack * lanes < seen.end) read = unpacked(read_values<lanes>(scores + pack * lanes));
      for (int lane = 0; lane < lanes; ++lane) {
        const bool hides = (hidden >> lane & 1u) != 0;
        values[index][lane] = seen_score(read.values[lane], pass.scale, hides);
        scan.add(values[index][lane], hides);
      }
    });
    scan.finish(shared);
    Accumulate sum = 0;
    for_packs<kPacks>(packs, [&](int index, int64_t) {
      for (int lane = 0; lane < lanes; ++lane) {
        values[index][lane] =
            scan.is_blind ? Accumulate(1) : decay_of_values<Element>(values[index][lane] - scan.largest);
        sum += values[index][lane];
      }
    });
    const Accumulate factor = Accumulate(1) / over_block(sum, shared, Add{});
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      Pack<Accumulate, lanes> written;
      for (int lane = 0; lane < lanes; ++lane) written.values[lane] = values[index][lane] * factor;
      write_values(y + pack * lanes, rounded<Element>(written));
    });
  }
}

// Of double one block at least, not several: else sm_120 spills registers.
template <class Element>
__global__ void __launch_bounds__(kMaxRowThreads, sizeof(Element) == 8 ? 1 : 3)
    plain_forward_kernel(const SoftmaxForward<Element> pass, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  __shared__ Accumulate shared[kWarp];
  const int64_t columns = pass.hidden.columns;
  for (int64_t row = first_row(); row < rows; row += row_step()) {
    const Element* scores = pass.scores + row * columns;
    Element* y = pass.y + row * columns;
    const SeenColumns seen = pass.hidden.row(row);
    const auto score = [&](int64_t column) {
      return seen_score(Accumulate(load(scores[column])), pass.scale, seen.hides(column));
    };
    Scan<Accumulate> scan;
    for (int64_t column = threadIdx.x; column < seen.end; column += blockDim.x) {
      scan.add(score(column), seen.hides(column));
    }
    scan.finish(shared);
    Accumulate sum = 0;
    for (int64_t column = threadIdx.x; column < seen.end; column += blockDim.x)
      sum += decay_of_values<Element>(score(column) - scan.largest);
    sum = over_block(sum, shared, Add{});
    const Accumulate factor = Accumulate(1) / (scan.is_blind ? static_cast<Accumulate>(columns) : sum);
    for (int64_t column = threadIdx.x; column < columns; column += blockDim.x) {
      const Accumulate weight =
          column < seen.end ? decay_of_values<Element>(score(column) - scan.largest) : Accumulate(0);
      y[column] = store<Element>((scan.is_blind ? Accumulate(1) : weight) * factor);
    }
  }
}

template <int kPacks, class Element>
__global__ void __launch_bounds__(kMaxRowThreads, 1)
    packed_backward_kernel(const SoftmaxBackward<Element> pass, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  constexpr int lanes = kRowPack<Element>;
  __shared__ Accumulate shared[kWarp];
  const int64_t columns = pass.hidden.columns;
  const int64_t packs = columns / lanes;
  for (int64_t row = first_row(); row < rows; row += row_step()) {
    const Element* grad = pass.grad + row * columns;
    const Element* y = pass.y + row * columns;
    Element* grad_scores = pass.grad_scores + row * columns;
    const SeenColumns seen = pass.hidden.row(row);
    RawPack<Element, lanes> grads[kPacks];
    RawPack<Element, lanes> weights[kPacks];
    uint32_t hidden[kPacks] = {};  // a bit for each lane
    Accumulate sum = 0;
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      hidden[index] = hidden_lanes<lanes>(seen, pack * lanes);
      grads[index] = weights[index] = {};
      if (pack * lanes < seen.end) {
        grads[index] = read_raw<lanes>(grad + pack * lanes);
        weights[index] = read_raw<lanes>(y + pack * lanes);
      }
      const auto upper = grads[index].unpacked();
      const auto outputs = weights[index].unpacked();
      for (int lane = 0; lane < lanes; ++lane) {
        sum += softmax_product(upper.values[lane], outputs.values[lane], (hidden[index] >> lane & 1u) != 0);
      }
    });
    sum = over_block(sum, shared, Add{});
    for_packs<kPacks>(packs, [&](int index, int64_t pack) {
      const auto upper = grads[index].unpacked();
      const auto outputs = weights[index].unpacked();
      Pack<Accumulate, lanes> written;
      for (int lane = 0; lane < lanes; ++lane) {
        const bool hides = (hidden[index] >> lane & 1u) != 0;
        written.values[lane] = softmax_grad(upper.values[lane], outputs.values[lane], sum, pass.scale, hides);
      }
      write_values(grad_scores + pack * lanes, rounded<Element>(written));
    });
  }
}

// Three blocks, not as many as fit: for more, sm_100 spills registers.
template <class Element>
__global__ void __launch_bounds__(kMaxRowThreads, 3)
    plain_backward_kernel(const SoftmaxBackward<Element> pass, int64_t rows) {
  using Accumulate = accumulate_t<Element>;
  __shared__ Accumulate shared[kWarp];
  const int64_t columns = pass.hidden.columns;
  for (int64_t row = first_row(); row < rows; row += row_step()) {
    const Element* grad = pass.grad + row * columns;
    const Element* y = pass.y + row * columns;
    Element* grad_scores = pass.grad_scores + row * columns;
    const SeenColumns seen = pass.hidden.row(row);
    Accumulate sum = 0;
    for (int64_t column = threadIdx.x; column < seen.end; column += blockDim.x) {
      sum += softmax_product(Accumulate(load(grad[column])), Accumulate(load(y[column])), seen.hides(column));
    }
    sum = over_block(sum, shared, Add{});
    for (int64_t column = threadIdx.x; column < columns; column += blockDim.x) {
      const bool hidden = column >= seen.end || seen.hides(column);
      grad_scores[column] = store<Element>(
          softmax_grad(Accumulate(load(grad[column])), Accumulate(load(y[column])), sum, pass.scale, hidden));
    }
  }
}

// The most packs that a thread has registers for.
constexpr int kMostForwardPacks = 4;
constexpr int kMostBackwardPacks = 2;

Tensor masked_softmax(const Tensor& scores_any, const std::optional<Tensor>& mask_any, double scale, bool causal) {
  forward_calls.add();
  const ElementKind kind = element_kind(scores_any);
  const DeviceScope scope(scores_any);
  const std::optional<Tensor> mask = readable_mask(mask_any, scores_any);
  const HiddenColumns hidden = hidden_columns(mask, scores_any, causal);
  const int packs = packs_of_thread(hidden.columns, kind, kMostForwardPacks);
  const Tensor scores = packed(scores_any, packs);
  const Tensor y = new_like(scores);
  if (scores.numel() == 0) return y;
  with_element_type(kind, [&](auto element) {
    using Element = decltype(element);
    const SoftmaxForward<Element> pass{
        data_of<Element>(scores), mutable_data_of<Element>(y), hidden, static_cast<accumulate_t<Element>>(scale)};
    auto kernel = plain_forward_kernel<Element>;
    if constexpr (sizeof(Element) < sizeof(double)) {
      if (packs == 1) kernel = packed_forward_kernel<1, Element>;
      if (packs == 2) kernel = packed_forward_kernel<2, Element>;
      if (packs == 4) kernel = packed_forward_kernel<4, Element>;
    }
    const int64_t rows = scores.numel() / hidden.columns;
    const dim3 block = row_block(row_pack_threads(hidden.columns, kind, packs));
    launch(kernel, row_blocks(rows, block), block, scope.stream(), pass, rows);
  });
  return y;
}

Tensor masked_softmax_backward(
    const Tensor& grad_any, const Tensor& y_any, const std::optional<Tensor>& mask_any, double scale, bool causal) {
  backward_calls.add();
  const ElementKind kind = element_kind(y_any);
  check_alike(grad_any, y_any);
  const DeviceScope scope(y_any);
  const std::optional<Tensor> mask = readable_mask(mask_any, y_any);
  const HiddenColumns hidden = hidden_columns(mask, y_any, causal);
  const int packs = packs_of_thread(hidden.columns, kind, kMostBackwardPacks);
  const Tensor grad = packed(grad_any, packs);
  const Tensor y = packed(y_any, packs);
  const Tensor grad_scores = new_like(y);
  if (y.numel() == 0) return grad_scores;
  with_element_type(kind, [&](auto element) {
    using Element = decltype(element);
    const SoftmaxBackward<Element> pass{
        data_of<Element>(grad), data_of<Element>(y), mutable_data_of<Element>(grad_scores), hidden,
        static_cast<accumulate_t<Element>>(scale)};
    auto kernel = plain_backward_kernel<Element>;
    if constexpr (sizeof(Element) < sizeof(double)) {
      if (packs == 1) kernel = packed_backward_kernel<1, Element>;
      if (packs == 2) kernel = packed_backward_kernel<2, Element>;
    }
    const int64_t rows = y.numel() / hidden.columns;
    const dim3 block = row_block(row_pack_threads(hidden.columns, kind, packs));
    launch(kernel, row_blocks(rows, block), block, scope.stream(), pass, rows);
  });
  return grad_scores;
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("masked_softmax", TORCH_BOX(&burnlike::cuda::masked_softmax));
  library.impl("masked_softmax_backward", TORCH_BOX(&burnlike::cuda::masked_softmax_backward));
}
