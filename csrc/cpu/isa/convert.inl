// A run of values converted, in one pass with the check of what is lost by it.

template <class Target, class Source>
bool convert_values(const void* sources_of_any, void* targets_of_any, int64_t begin, int64_t end) {
  const Source* __restrict__ sources = static_cast<const Source*>(sources_of_any);
  Target* __restrict__ targets = static_cast<Target*>(targets_of_any);
  uint32_t lost = 0;
  for (int64_t index = begin; index < end; ++index) {
    const Target value = converted<Target>(sources[index]);
    targets[index] = value;
    lost |= is_lost(sources[index], value);
  }
  return lost != 0;
}

template <class Target>
constexpr ConvertKernels convert_kernels = {
    {convert_values<Target, float>, convert_values<Target, double>, convert_values<Target, BFloat16>,
     convert_values<Target, Float16>}};
