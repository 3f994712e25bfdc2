// Sums of rows have a fixed number of lanes that are added in a fixed order, so that every instruction set gives the
// same bits.

namespace {

template <class Accumulate>
constexpr int64_t kLanes = 128 / sizeof(Accumulate);

// One sum for each lane, 0 at first.
template <class Accumulate>
struct Lanes {
  typedef Accumulate Part __attribute__((vector_size(16)));
  Accumulate values[kLanes<Accumulate>];

  // By parts: of `= {}` GCC makes `rep stos`, which takes longer than to sum a row of 200 values.
  BURNLIKE_INLINE Lanes() {
    constexpr int64_t step = sizeof(Part) / sizeof(Accumulate);
    const Part zeros{};
#pragma GCC unroll 8
    for (int64_t lane = 0; lane < kLanes<Accumulate>; lane += step)
      __builtin_memcpy(values + lane, &zeros, sizeof(zeros));
  }

  BURNLIKE_INLINE Accumulate& operator[](int64_t lane) { return values[lane]; }
};

struct Sum {
  template <class Accumulate>
  static inline Accumulate of(Accumulate lower, Accumulate upper) {
    return lower + upper;
  }
};

struct Larger {
  template <class Accumulate>
  static inline Accumulate of(Accumulate lower, Accumulate upper) {
    return upper > lower ? upper : lower;
  }
};

// Joins the upper half of `kCount` lanes with the lower one, until one is left. Each half is a loop of its own, whose
// length is known: in one over all of them values are stored one by one and read as vectors, for which a CPU waits.
template <class Join, int64_t kCount, class Accumulate>
BURNLIKE_INLINE Accumulate join_lanes(Accumulate* lanes) {
  if constexpr (kCount == 1) {
    return lanes[0];
  } else {
    constexpr int64_t half = kCount / 2;
#pragma GCC unroll 32
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] = Join::of(lanes[lane], lanes[lane + half]);
    return join_lanes<Join, half>(lanes);
  }
}

template <class Accumulate>
inline Accumulate sum_of_lanes(Lanes<Accumulate>& lanes) {
  return join_lanes<Sum, kLanes<Accumulate>>(lanes.values);
}

// The largest of whole lanes. NaN is passed over: it comes back with the sum of exponentials.
template <class Accumulate>
inline Accumulate largest_of_lanes(const Accumulate* values, int64_t whole) {
  constexpr int64_t lanes = kLanes<Accumulate>;
  Accumulate largest[lanes];
  for (int64_t lane = 0; lane < lanes; ++lane) largest[lane] = -static_cast<Accumulate>(__builtin_inff());
  for (int64_t start = 0; start < whole; start += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) largest[lane] = Larger::of(largest[lane], values[start + lane]);
  }
  return join_lanes<Larger, lanes>(largest);
}

// Vectors of what is computed in; a sum over a row has so many, as `Lanes` has.
template <class Accumulate>
using RowPart = decltype(load_vector(static_cast<const Accumulate*>(nullptr)));
template <class Accumulate>
constexpr int kPart = sizeof(RowPart<Accumulate>) / sizeof(Accumulate);
template <class Accumulate>
constexpr int kParts = kLanes<Accumulate> / kPart<Accumulate>;

// A sum whose lanes stay in registers: of lanes in memory the sum takes longer than of the values of a short row.
template <class Accumulate>
struct RowSum {
  static constexpr int kTogether = kParts<Accumulate>;
  RowPart<Accumulate> parts[kTogether];

  BURNLIKE_INLINE RowSum() {
#pragma GCC unroll 8
    for (int part = 0; part < kTogether; ++part) parts[part] = RowPart<Accumulate>{};
  }

  BURNLIKE_INLINE void add(int part, RowPart<Accumulate> values) { parts[part] += values; }

  BURNLIKE_INLINE Accumulate total() {
#pragma GCC unroll 4
    for (int half = kTogether / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
      for (int part = 0; part < half; ++part) parts[part] += parts[part + half];
    }
    return sum_of(parts[0]);
  }
};

// Adds what `row` makes of its columns. `Sums` says how many parts of it registers hold: the others are added in a walk
// over the row of their own.
template <class Sums, class Row>
BURNLIKE_INLINE void add_row(Sums& sums, const Row& row, int64_t width) {
  using Accumulate = typename Row::Accumulate;
  constexpr int parts = kParts<Accumulate>, together = Sums::kTogether;
  const int64_t whole = width - width % kLanes<Accumulate>;
#pragma GCC unroll 8
  for (int first = 0; first < parts; first += together) {
    for (int64_t column = 0; column < whole; column += kLanes<Accumulate>) {
#pragma GCC unroll 8
      for (int part = first; part < first + together; ++part)
        sums.add(part, row.part(column + part * kPart<Accumulate>));
    }
  }
  if (whole == width) return;
#pragma GCC unroll 8
  for (int part = 0; part < parts; ++part) {
    const int64_t column = whole + part * kPart<Accumulate>;
    if (column + kPart<Accumulate> <= width) {
      sums.add(part, row.part(column));
    } else if (column < width) {
      sums.add(part, row.rest(column, width));
    }
  }
}

// What a row makes of its last columns, and zeros, which change no sum that began with zero. Not by way of memory, for
// which a CPU waits, as values are stored one by one there and read as vectors.
template <class Row>
BURNLIKE_INLINE RowPart<typename Row::Accumulate> last_part(const Row& row, int64_t begin, int64_t end) {
  RowPart<typename Row::Accumulate> part{};
#pragma GCC unroll 16
  for (int lane = 0; lane < kPart<typename Row::Accumulate>; ++lane) {
    if (begin + lane >= end) break;
    part[lane] = row.value(begin + lane);
  }
  return part;
}

// x * y.
template <class Element, class Other>
struct ProductRow {
  using Accumulate = accumulate_t<Element>;
  const Element* x;
  const Other* y;

  BURNLIKE_INLINE Accumulate value(int64_t column) const { return Accumulate(load(x[column])) * load(y[column]); }
  BURNLIKE_INLINE auto part(int64_t column) const { return load_vector(x + column) * load_vector(y + column); }
  BURNLIKE_INLINE auto rest(int64_t begin, int64_t end) const { return last_part(*this, begin, end); }
};

}  // namespace
