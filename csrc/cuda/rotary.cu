// Rotary positions on CUDA: one block of threads for each position, whose angles turn all heads of query and key. The
// arithmetic is in burnlike/rotary.h.
#include <algorithm>
#include <tuple>

#include "burnlike/calls.h"
#include "burnlike/rotary.h"
#include "burnlike/rotary_check.h"
#include "launch.h"

namespace burnlike::cuda {
namespace {

CallCounter calls{"rotary"};

constexpr int kThreads = 256;

// Strides of [batch, heads, sequence], in values.
struct Strides {
  int64_t batch, head, position;
};

// Query or key.
template <class Element>
struct Heads {
  const Element* x;
  Element* y;
  int64_t count;
  Strides x_strides, y_strides;
};

template <class Table>
struct Tables {
  const Table* cosine;
  const Table* sine;
  Strides cosine_strides, sine_strides;
};

struct Layout {
  int64_t positions, sequence, width, half;
  bool inverse, whole;
};

// The angles of the pairs that a thread turns: of their first values and, in whole tables, of their second ones.
template <int kPack, bool kWhole, class Accumulate>
struct Angles {
  Accumulate cosine[kPack], sine[kPack];
  Accumulate second_cosine[kWhole ? kPack : 1], second_sine[kWhole ? kPack : 1];

  template <class Table>
  __device__ __forceinline__ void read(const Table* cosine_row, const Table* sine_row, const Layout& layout) {
    const Accumulate sign = layout.inverse ? Accumulate(-1) : Accumulate(1);
    // The transpose of the turn takes the sines the other way round.
    const int64_t first = kWhole && layout.inverse ? layout.half : 0;
    const int64_t second = layout.half - first;
    read(cosine, cosine_row, Accumulate(1));
    read(sine, sine_row + first, sign);
    if constexpr (kWhole) {
      read(second_cosine, cosine_row + layout.half, Accumulate(1));
      read(second_sine, sine_row + second, sign);
    }
  }

  __device__ __forceinline__ RotaryPair<Accumulate> turned(int pair, Accumulate first, Accumulate second) const {
    if constexpr (kWhole) {
      return rotary_turned<Accumulate>(
          first, second, cosine[pair], second_sine[pair], -sine[pair], second_cosine[pair]);
    } else {
      return rotary_turned<Accumulate>(first, second, cosine[pair], sine[pair], -sine[pair], cosine[pair]);
    }
  }

 private:
  template <class Table, int kCount>
  __device__ static __forceinline__ void read(Accumulate (&values)[kCount], const Table* row, Accumulate sign) {
    const auto pack = read_values<kCount>(row);
#pragma unroll
    for (int pair = 0; pair < kCount; ++pair) values[pair] = sign * Accumulate(load(pack.values[pair]));
  }
};

// The values that a thread turns: kPack pairs whose first and second values, or whose halves, are `gap` apart.
template <int kPack, bool kInterleaved, bool kWhole, class Element>
__device__ __forceinline__ void turn(
    const Element* x, Element* y, int64_t gap, const Angles<kPack, kWhole, accumulate_t<Element>>& angles) {
  using Accumulates = Pack<accumulate_t<Element>, kPack>;
  const Accumulates given[2] = {unpacked(read_values<kPack>(x)), unpacked(read_values<kPack>(x + gap))};
  Accumulates turned[2];
#pragma unroll
  for (int pair = 0; pair < kPack; ++pair) {
    // Neighbours are the values 2 * pair and 2 * pair + 1 of both packs together.
    constexpr int step = kInterleaved ? 2 : 1;
    const int first_pack = step * pair / kPack;
    const int second_pack = kInterleaved ? (2 * pair + 1) / kPack : 1;
    const int first_lane = step * pair % kPack;
    const int second_lane = kInterleaved ? (2 * pair + 1) % kPack : pair;
    const auto result =
        angles.turned(pair, given[first_pack].values[first_lane], given[second_pack].values[second_lane]);
    turned[first_pack].values[first_lane] = result.first;
    turned[second_pack].values[second_lane] = result.second;
  }
  write_values(y, rounded<Element>(turned[0]));
  write_values(y + gap, rounded<Element>(turned[1]));
}

// threadIdx.x counts packs of pairs, threadIdx.y heads: those of the query, then those of the key.
template <int kPack, bool kInterleaved, bool kWhole, class Element, class Table>
__global__ void __launch_bounds__(kThreads) rotary_kernel(
    const Heads<Element> query, const Heads<Element> key, const Tables<Table> tables, const Layout layout) {
  using Accumulate = accumulate_t<Element>;
  const int64_t heads = query.count + key.count;
  const int64_t turned = layout.half / kPack;
  const int64_t packs = turned + (layout.width - 2 * layout.half) / kPack;
  for (int64_t position = blockIdx.x; position < layout.positions; position += gridDim.x) {
    const int64_t batch = position / layout.sequence;
    const int64_t place = position - batch * layout.sequence;
    for (int64_t pack = threadIdx.x; pack < packs; pack += blockDim.x) {
      Angles<kPack, kWhole, Accumulate> angles;
      if (pack < turned) {
        const Table* cosine_row =
            tables.cosine + batch * tables.cosine_strides.batch + place * tables.cosine_strides.position;
        const Table* sine_row = tables.sine + batch * tables.sine_strides.batch + place * tables.sine_strides.position;
        angles.read(cosine_row + pack * kPack, sine_row + pack * kPack, layout);
      }
      for (int64_t head = threadIdx.y; head < heads; head += blockDim.y) {
        const bool is_query = head < query.count;
        const Heads<Element>& side = is_query ? query : key;
        const int64_t number = is_query ? head : head - query.count;
        const Strides& from = side.x_strides;
        const Strides& to = side.y_strides;
        const Element* x = side.x + batch * from.batch + number * from.head + place * from.position;
        Element* y = side.y + batch * to.batch + number * to.head + place * to.position;
        if (pack < turned) {
          const int64_t first = kInterleaved ? 2 * pack * kPack : pack * kPack;
          turn<kPack, kInterleaved, kWhole>(x + first, y + first, kInterleaved ? kPack : layout.half, angles);
        } else {
          const int64_t first = 2 * layout.half + (pack - turned) * kPack;
          write_values(y + first, read_values<kPack>(x + first));
        }
      }
    }
  }
}

Strides strides_of(const RotaryStrides& strides) { return {strides[0], strides[1], strides[2]}; }

template <class Element>
Heads<Element> heads_of(const Tensor& x, const Tensor& y) {
  return {
      data_of<Element>(x), mutable_data_of<Element>(y), x.size(1), strides_of(heads_strides(x)),
      strides_of(heads_strides(y))};
}

template <int kPack>
bool fit_packs(const Strides& strides) {
  return strides.batch % kPack == 0 && strides.head % kPack == 0 && strides.position % kPack == 0;
}

// A table whose rows begin where packs may, where they are as wide as the pairs of packs: itself, or a copy.
template <int kPack, class Table>
Tensor packed_table(const Tensor& table) {
  const bool fits =
      fit_packs<kPack>(strides_of(table_strides(table))) && is_packed<Table, kPack>(data_of<Table>(table));
  return fits ? table : contiguous_copy(table);
}

// Whether every row of x and y begins where a pack may.
template <int kPack, class Element>
bool has_packed_rows(const Heads<Element>& heads) {
  return is_packed<Element, kPack>(heads.x) && is_packed<Element, kPack>(heads.y) &&
         fit_packs<kPack>(heads.x_strides) && fit_packs<kPack>(heads.y_strides);
}

template <int kPack, class Element, class Table>
void launch_rotary(
    const Heads<Element>& query, const Heads<Element>& key, const Tables<Table>& tables, const Layout& layout,
    bool interleaved, cudaStream_t stream) {
  const int64_t packs = (layout.width - layout.half) / kPack;
  const auto columns = static_cast<unsigned>(std::clamp<int64_t>(packs, 1, kThreads));
  const auto rows =
      static_cast<unsigned>(std::clamp<int64_t>(query.count + key.count, 1, kThreads / static_cast<int>(columns)));
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(layout.positions, INT32_MAX));
  const auto kernel = interleaved    ? rotary_kernel<kPack, true, false, Element, Table>
                      : layout.whole ? rotary_kernel<kPack, false, true, Element, Table>
                                     : rotary_kernel<kPack, false, false, Element, Table>;
  launch(kernel, blocks, dim3(columns, rows), stream, query, key, tables, layout);
}

std::tuple<Tensor, Tensor> rotary(
    const Tensor& query_any, const Tensor& key_any, const Tensor& cosine_any, const Tensor& sine_any, bool interleaved,
    bool inverse) {
  calls.add();
  const RotarySizes sizes = rotary_sizes(query_any, key_any, cosine_any, sine_any, interleaved);
  const DeviceScope scope(query_any);
  const Tensor query = with_whole_rows(query_any);
  const Tensor key = with_whole_rows(key_any);
  const Tensor cosine = with_whole_rows(cosine_any);
  const Tensor sine = with_whole_rows(sine_any);
  const Tensor query_out = new_heads_like(query_any);
  const Tensor key_out = new_heads_like(key_any);
  const Layout layout{sizes.batch * sizes.sequence, sizes.sequence, sizes.width, sizes.half, inverse, sizes.whole};
  if (layout.positions == 0 || layout.width == 0) return {query_out, key_out};
  with_element_type(element_kind(query), [&](auto element) {
    using Element = decltype(element);
    constexpr int pack = 16 / sizeof(Element);
    const auto query_heads = heads_of<Element>(query, query_out);
    const auto key_heads = heads_of<Element>(key, key_out);
    const bool is_packed_whole = layout.half % pack == 0 && (layout.width - 2 * layout.half) % pack == 0 &&
                                 has_packed_rows<pack>(query_heads) && has_packed_rows<pack>(key_heads);
    const auto run = [&](auto table) {
      using Table = decltype(table);
      const auto launch_with = [&](auto count, const Tensor& cosines, const Tensor& sines) {
        const Tables<Table> tables{
            data_of<Table>(cosines), data_of<Table>(sines), strides_of(table_strides(cosines)),
            strides_of(table_strides(sines))};
        launch_rotary<count>(query_heads, key_heads, tables, layout, interleaved, scope.stream());
      };
      if (!is_packed_whole) return launch_with(std::integral_constant<int, 1>{}, cosine, sine);
      launch_with(
          std::integral_constant<int, pack>{}, packed_table<pack, Table>(cosine), packed_table<pack, Table>(sine));
    };
    if (element_kind(cosine) == kind_of<Element>) {
      run(element);
    } else {
      run(float{});
    }
  });
  return {query_out, key_out};
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) { library.impl("rotary", TORCH_BOX(&burnlike::cuda::rotary)); }
