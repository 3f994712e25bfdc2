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

}  // namespace
