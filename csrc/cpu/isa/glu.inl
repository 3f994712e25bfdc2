// Gated linear units, row by row. Loops over columns are functions that are not inlined: otherwise GCC asks before the
// first row whether rows of one tensor lie among those of another, as halves of a matrix do, and then vectorizes none.
//
// Of a run of values all exponentials are computed before the rest: a chain of operations is long, and a processor
// waits for so many of them at once that hardly two vectors are under way. On a Zen 5 that takes 0.6 of the time.

namespace {

// What is loaded and stored at once: a value, or two of bfloat16 as the halves of a word, by a shift and a mask in
// place of widening and packing.
template <class Element>
struct Piece {
  static constexpr int64_t kValues = 1;
  accumulate_t<Element> first;

  BURNLIKE_INLINE static Piece at(const Element* place) { return {accumulate_t<Element>(load(*place))}; }
  BURNLIKE_INLINE void to(Element* place) const { *place = store<Element>(first); }
};

template <>
struct Piece<BFloat16> {
  static constexpr int64_t kValues = 2;
  float first;
  float second;

  BURNLIKE_INLINE static Piece at(const BFloat16* place) {
    uint32_t word;
    std::memcpy(&word, place, sizeof(word));
    return {detail::float_of(word << 16), detail::float_of(word & 0xFFFF0000u)};
  }
  BURNLIKE_INLINE void to(BFloat16* place) const {
    const uint32_t word = store<BFloat16>(first).bits | static_cast<uint32_t>(store<BFloat16>(second).bits) << 16;
    std::memcpy(place, &word, sizeof(word));
  }
};

constexpr int64_t kRunValues = 512;

template <class Activation>
constexpr bool kIsByDecay = std::is_base_of_v<ByDecay<Activation>, Activation>;

// The exponentials of a run, those of second values behind all first ones.
template <class Element>
struct Decays {
  static constexpr int64_t kSecond = kRunValues / 2;
  alignas(64) accumulate_t<Element> values[kRunValues];
};

template <class Activation, class Element>
__attribute__((noinline)) void glu_decays(const Element* __restrict__ gate, Decays<Element>& decays, int64_t pieces) {
  using Values = Piece<Element>;
  for (int64_t index = 0; index < pieces; ++index) {
    const Values gates = Values::at(gate + index * Values::kValues);
    decays.values[index] = Activation::decayed(gates.first);
    if constexpr (Values::kValues == 2) decays.values[decays.kSecond + index] = Activation::decayed(gates.second);
  }
}

template <class Activation, class Element>
__attribute__((noinline)) void glu_outputs(
    const Element* __restrict__ gate, const Element* __restrict__ up, const Decays<Element>& decays,
    Element* __restrict__ y, int64_t pieces) {
  using Values = Piece<Element>;
  for (int64_t index = 0; index < pieces; ++index) {
    const int64_t place = index * Values::kValues;
    const Values gates = Values::at(gate + place);
    const Values ups = Values::at(up + place);
    Values outputs;
    outputs.first = glu_output_by<Activation>(gates.first, ups.first, decays.values[index]);
    if constexpr (Values::kValues == 2) {
      outputs.second = glu_output_by<Activation>(gates.second, ups.second, decays.values[decays.kSecond + index]);
    }
    outputs.to(y + place);
  }
}

template <class Activation, class Element>
__attribute__((noinline)) void glu_gradients(
    const Element* __restrict__ grad, const Element* __restrict__ gate, const Element* __restrict__ up,
    const Decays<Element>& decays, Element* __restrict__ grad_gate, Element* __restrict__ grad_up, int64_t pieces) {
  using Values = Piece<Element>;
  for (int64_t index = 0; index < pieces; ++index) {
    const int64_t place = index * Values::kValues;
    const Values grads = Values::at(grad + place);
    const Values gates = Values::at(gate + place);
    const Values ups = Values::at(up + place);
    Values of_gates, of_ups;
    const auto firsts = glu_grads_by<Activation>(grads.first, gates.first, ups.first, decays.values[index]);
    of_gates.first = firsts.gate;
    of_ups.first = firsts.up;
    if constexpr (Values::kValues == 2) {
      const auto seconds =
          glu_grads_by<Activation>(grads.second, gates.second, ups.second, decays.values[decays.kSecond + index]);
      of_gates.second = seconds.gate;
      of_ups.second = seconds.up;
    }
    of_gates.to(grad_gate + place);
    of_ups.to(grad_up + place);
  }
}

// Values [begin, end) one by one.
template <class Activation, class Element>
__attribute__((noinline)) void glu_forward_each(
    const Element* __restrict__ gate, const Element* __restrict__ up, Element* __restrict__ y, int64_t begin,
    int64_t end) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t column = begin; column < end; ++column) {
    y[column] = store<Element>(glu_output<Activation>(Accumulate(load(gate[column])), Accumulate(load(up[column]))));
  }
}

template <class Activation, class Element>
__attribute__((noinline)) void glu_backward_each(
    const Element* __restrict__ grad, const Element* __restrict__ gate, const Element* __restrict__ up,
    Element* __restrict__ grad_gate, Element* __restrict__ grad_up, int64_t begin, int64_t end) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t column = begin; column < end; ++column) {
    const GluGrads<Accumulate> grads = glu_grads<Activation>(
        Accumulate(load(grad[column])), Accumulate(load(gate[column])), Accumulate(load(up[column])));
    grad_gate[column] = store<Element>(grads.gate);
    grad_up[column] = store<Element>(grads.up);
  }
}

// Calls `run(place, pieces)` for the runs of a row. Returns how many values they have: all but an odd one.
template <class Element, class Run>
BURNLIKE_INLINE int64_t over_runs(int64_t width, const Run& run) {
  constexpr int64_t kValues = Piece<Element>::kValues;
  const int64_t whole = width - width % kValues;
  for (int64_t place = 0; place < whole; place += kRunValues) {
    const int64_t rest = whole - place;
    run(place, (rest < kRunValues ? rest : kRunValues) / kValues);
  }
  return whole;
}

template <class Element, class Activation>
void glu_forward_row(const Element* gate, const Element* up, Element* y, int64_t width) {
  int64_t done = 0;
  if constexpr (kIsByDecay<Activation>) {
    Decays<Element> decays;
    done = over_runs<Element>(width, [&](int64_t place, int64_t pieces) {
      glu_decays<Activation>(gate + place, decays, pieces);
      glu_outputs<Activation>(gate + place, up + place, decays, y + place, pieces);
    });
  }
  if (done < width) glu_forward_each<Activation>(gate, up, y, done, width);
}

template <class Element, class Activation>
void glu_backward_row(
    const Element* grad, const Element* gate, const Element* up, Element* grad_gate, Element* grad_up, int64_t width) {
  int64_t done = 0;
  if constexpr (kIsByDecay<Activation>) {
    Decays<Element> decays;
    done = over_runs<Element>(width, [&](int64_t place, int64_t pieces) {
      glu_decays<Activation>(gate + place, decays, pieces);
      glu_gradients<Activation>(
          grad + place, gate + place, up + place, decays, grad_gate + place, grad_up + place, pieces);
    });
  }
  if (done < width) glu_backward_each<Activation>(grad, gate, up, grad_gate, grad_up, done, width);
}

template <class Element, class Activation>
void glu_forward_rows(
    const RowPlaces<const Element>& gate, const RowPlaces<const Element>& up, Element* y, int64_t begin, int64_t end,
    int64_t width) {
  for (int64_t row = begin; row < end; ++row) {
    glu_forward_row<Element, Activation>(
        gate.data + row * gate.stride, up.data + row * up.stride, y + row * width, width);
  }
}

template <class Element, class Activation>
void glu_backward_rows(
    const RowPlaces<const Element>& grad, const RowPlaces<const Element>& gate, const RowPlaces<const Element>& up,
    const RowPlaces<Element>& grad_gate, const RowPlaces<Element>& grad_up, int64_t begin, int64_t end, int64_t width) {
  for (int64_t row = begin; row < end; ++row) {
    glu_backward_row<Element, Activation>(
        grad.data + row * grad.stride, gate.data + row * gate.stride, up.data + row * up.stride,
        grad_gate.data + row * grad_gate.stride, grad_up.data + row * grad_up.stride, width);
  }
}

template <class Element, class Activation>
constexpr GluKernels<Element> glu_kernels = {
    glu_forward_rows<Element, Activation>, glu_backward_rows<Element, Activation>};

template <class Element>
constexpr GluKernels<Element> swiglu_functions = glu_kernels<Element, Silu>;

template <class Element>
constexpr GluKernels<Element> geglu_functions = glu_kernels<Element, Gelu>;

template <class Element>
constexpr GluKernels<Element> tanh_geglu_functions = glu_kernels<Element, TanhGelu>;

}  // namespace

constinit const PerElement<GluKernels> swiglu_kernels = BURNLIKE_PER_ELEMENT(swiglu_functions);
constinit const PerElement<GluKernels> geglu_kernels = BURNLIKE_PER_ELEMENT(geglu_functions);
constinit const PerElement<GluKernels> tanh_geglu_kernels = BURNLIKE_PER_ELEMENT(tanh_geglu_functions);
