// Work in phases, shared out to threads tile by tile. A phase begins when the one before it is done.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace burnlike::cpu {

// One call of torch's threads for many phases: between them a thread waits for tiles that others have begun, so any
// number of threads that come, also one after the other, finish the work.
class Phases {
 public:
  explicit Phases(size_t most) : states_(most) {}

  // Calls `program(runner)` in up to `threads` threads; it has the same calls of `runner.run` in each.
  template <class Program>
  void start(int64_t threads, const Program& program) {
    const auto run = [&](int64_t, int64_t) { program(Runner(states_)); };
    if (threads <= 1) return run(0, 1);
    torch::stable::parallel_for(0, threads, 1, run);
  }

  class Runner {
   public:
    // Calls `tile(index)` for each of `tiles`, at least one, in some thread, and then `finish()` in one. A thread that
    // waits for others calls `ahead(turn)` meanwhile, again and again.
    template <class Tile, class Finish>
    void run(int64_t tiles, const Tile& tile, const Finish& finish) {
      run(tiles, tile, finish, [](int64_t) {});
    }

    template <class Tile, class Finish, class Ahead>
    void run(int64_t tiles, const Tile& tile, const Finish& finish, const Ahead& ahead) {
      State& state = states_[phase_++];
      for (int64_t index; (index = state.next.fetch_add(1, std::memory_order_relaxed)) < tiles;) {
        tile(index);
        if (state.done.fetch_add(1, std::memory_order_acq_rel) + 1 < tiles) continue;
        finish();
        state.is_finished.store(true, std::memory_order_release);
      }
      for (int64_t turn = 0; !state.is_finished.load(std::memory_order_acquire); ++turn) {
        ahead(turn);
        pause(turn);
      }
    }

   private:
    friend Phases;
    struct alignas(64) State {
      std::atomic<int64_t> next{0};
      std::atomic<int64_t> done{0};
      std::atomic<bool> is_finished{false};
    };

    explicit Runner(std::vector<State>& states) : states_(states) {}

    static void pause(int64_t turn) {
      constexpr int64_t kTurnsBeforeYield = 4000;
      if (turn >= kTurnsBeforeYield) return std::this_thread::yield();
#if defined(__x86_64__)
      _mm_pause();
#endif
    }

    std::vector<State>& states_;
    size_t phase_ = 0;
  };

 private:
  std::vector<Runner::State> states_;
};

}  // namespace burnlike::cpu
