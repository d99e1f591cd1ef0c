// Workers of one call; see parallel.hpp.
#include "fastmm/parallel.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace fastmm {

bool parallel_for(std::int64_t count, int threads, Monitor* monitor, const Body& body) {
    std::atomic<bool> stop{false};
    std::atomic<std::int64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable ended;
    std::exception_ptr error;
    int running = 0;

    const auto work = [&](int worker, Monitor* own) {
        try {
            Pulse pulse(stop, done, own);
            while (!stop.load(std::memory_order_relaxed)) {
                const std::int64_t item = next.fetch_add(1, std::memory_order_relaxed);
                if (item >= count) break;
                body(item, worker, pulse);
            }
        } catch (...) {
            stop = true;
            const std::lock_guard<std::mutex> lock(mutex);
            if (!error) error = std::current_exception();
        }
    };

    std::vector<std::thread> others;
    const auto wanted = static_cast<int>(std::min<std::int64_t>(threads, count)) - 1;
    if (wanted > 0) others.reserve(static_cast<std::size_t>(wanted));
    for (int worker = 1; worker <= wanted; ++worker) {
        try {
            {
                const std::lock_guard<std::mutex> lock(mutex);
                ++running;
            }
            others.emplace_back([&, worker] {
                work(worker, nullptr);
                const std::lock_guard<std::mutex> lock(mutex);
                --running;
                ended.notify_one();
            });
        } catch (const std::system_error&) { // no more threads to be had: the ones we have do the work
            const std::lock_guard<std::mutex> lock(mutex);
            --running;
            break;
        }
    }

    work(0, monitor);
    {
        std::unique_lock<std::mutex> lock(mutex);
        while (running > 0) { // the others finish; signals are still looked at
            ended.wait_for(lock, std::chrono::milliseconds(20));
            if (running > 0 && monitor != nullptr && !stop) {
                lock.unlock();
                bool ask = false;
                try {
                    ask = monitor->poll(done.load(std::memory_order_relaxed));
                } catch (...) {
                    ask = true;
                    const std::lock_guard<std::mutex> guard(mutex);
                    if (!error) error = std::current_exception();
                }
                if (ask) stop = true;
                lock.lock();
            }
        }
    }
    for (auto& thread : others) thread.join();
    if (error) std::rethrow_exception(error);
    return stop;
}

} // namespace fastmm
