// Threads for one call: numbered work items are handed out to workers that end with the call.
//
// There is no pool: nothing outlives the call, so a process may fork at any time and no setting of it is changed.
// Results never depend on which worker takes an item; the caller keeps one workspace a worker.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace fastmm {

// The calling thread's view of the outside world (signals, progress); asked every few milliseconds.
class Monitor {
public:
    virtual ~Monitor() = default;
    // `done` is the amount of work reported so far; returns true when the call shall end early.
    virtual bool poll(std::int64_t done) = 0;
};

// What a worker holds: it reports work and learns whether to stop. Cheap enough to call every ten microseconds.
class Pulse {
public:
    Pulse(std::atomic<bool>& stop, std::atomic<std::int64_t>& done, Monitor* monitor)
        : stop_(stop), done_(done), monitor_(monitor), last_(std::chrono::steady_clock::now()) {}

    // Reports `work` units and returns true when the worker shall stop. Only the calling thread has a monitor.
    bool beat(std::int64_t work = 0) {
        if (work != 0) done_.fetch_add(work, std::memory_order_relaxed);
        if (monitor_ != nullptr) ask();
        return stop_.load(std::memory_order_relaxed);
    }

private:
    void ask() {
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < interval) return;
        if (monitor_->poll(done_.load(std::memory_order_relaxed))) stop_.store(true, std::memory_order_relaxed);
        last_ = std::chrono::steady_clock::now();
    }

    static constexpr std::chrono::milliseconds interval{20};
    std::atomic<bool>& stop_;
    std::atomic<std::int64_t>& done_;
    Monitor* monitor_;
    std::chrono::steady_clock::time_point last_;
};

// Calls body(item, worker, pulse) once for each item in [0, count), 0 <= worker < threads. Returns true when the
// monitor asked to stop (items not begun by then are left out). An exception in any worker ends the call and is thrown
// again from here. A thread that cannot be started is done without.
using Body = std::function<void(std::int64_t item, int worker, Pulse& pulse)>;
bool parallel_for(std::int64_t count, int threads, Monitor* monitor, const Body& body);

} // namespace fastmm
