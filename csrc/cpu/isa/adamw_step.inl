// A run of values of one parameter, in one pass: everything between load and store stays in registers.

template <bool kCautious, bool kAmsgrad, class Element, class Moment>
void adamw_values(
    Element* __restrict__ params, const Element* __restrict__ grads, Moment* __restrict__ moments_1,
    Moment* __restrict__ moments_2, Moment* __restrict__ max_moments_2, int64_t count,
    const AdamwScalars<accumulate_t<Element>> scalars) {
  using Accumulate = accumulate_t<Element>;
  for (int64_t index = 0; index < count; ++index) {
    Accumulate p = load(params[index]);
    Accumulate m = load(moments_1[index]);
    Accumulate v = load(moments_2[index]);
    Accumulate v_max = 0;
    if constexpr (kAmsgrad) v_max = load(max_moments_2[index]);
    adamw_value<kCautious, kAmsgrad>(p, Accumulate(load(grads[index])), m, v, v_max, scalars);
    params[index] = store<Element>(p);
    moments_1[index] = store<Moment>(m);
    moments_2[index] = store<Moment>(v);
    if constexpr (kAmsgrad) max_moments_2[index] = store<Moment>(v_max);
  }
}

template <class Element, class Moment>
void adamw_run(
    Element* params, const Element* grads, Moment* moments_1, Moment* moments_2, Moment* max_moments_2, int64_t begin,
    int64_t end, const AdamwScalars<accumulate_t<Element>>& scalars, bool cautious) {
  const bool amsgrad = max_moments_2 != nullptr;
  const auto values = cautious ? (amsgrad ? adamw_values<true, true, Element, Moment>
                                          : adamw_values<true, false, Element, Moment>)
                               : (amsgrad ? adamw_values<false, true, Element, Moment>
                                          : adamw_values<false, false, Element, Moment>);
  values(
      params + begin, grads + begin, moments_1 + begin, moments_2 + begin, amsgrad ? max_moments_2 + begin : nullptr,
      end - begin, scalars);
}
