// Counts the calls of each op, so that a user can see that the native path ran.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace burnlike {

// One op's counter. Objects of static storage form a list that `call_counts` walks.
class CallCounter {
 public:
  explicit CallCounter(const char* op) : op_(op), next_(first()) { first() = this; }
  CallCounter(const CallCounter&) = delete;
  CallCounter& operator=(const CallCounter&) = delete;

  void add() { count_.fetch_add(1, std::memory_order_relaxed); }

  // "rms_norm=3 adamw_step_=1", of all ops of this library.
  static std::string all() {
    std::string text;
    for (const CallCounter* counter = first(); counter != nullptr; counter = counter->next_) {
      if (!text.empty()) text += ' ';
      text += std::string(counter->op_) + '=' + std::to_string(counter->count_.load(std::memory_order_relaxed));
    }
    return text;
  }

 private:
  static CallCounter*& first() {
    static CallCounter* counter = nullptr;
    return counter;
  }

  const char* op_;
  CallCounter* next_;
  std::atomic<int64_t> count_{0};
};

}  // namespace burnlike
