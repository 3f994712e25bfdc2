// A run of values converted, in one pass with the check of what is lost by it.

namespace {

template <class Target, class Source>
bool any_is_lost(const Source* sources, const Target* targets, int64_t count) {
  uint32_t lost = 0;
  for (int64_t index = 0; index < count; ++index) lost |= is_lost(sources[index], targets[index]);
  return lost != 0;
}

template <class Target, class Source>
bool convert_run(const Source* __restrict__ sources, Target* __restrict__ targets, int64_t count) {
  uint32_t not_finite = 0;
  for (int64_t index = 0; index < count; ++index) {
    targets[index] = converted<Target>(sources[index]);
    not_finite |= static_cast<uint32_t>(!is_finite(targets[index]));
  }
  // Rare enough to look again; with the sources looked at above, too, GCC does not vectorize the loop.
  return not_finite != 0 && any_is_lost(sources, targets, count);
}

template <class Target, class Source>
bool convert_values(const void* sources, void* targets, int64_t begin, int64_t end) {
  return convert_run(static_cast<const Source*>(sources) + begin, static_cast<Target*>(targets) + begin, end - begin);
}

template <class Target>
constexpr ConvertKernels convert_functions = {
    {convert_values<Target, float>, convert_values<Target, double>, convert_values<Target, BFloat16>,
     convert_values<Target, Float16>}};

}  // namespace

constinit const ConvertTable convert_kernels = {BURNLIKE_PER_ELEMENT(convert_functions)};
