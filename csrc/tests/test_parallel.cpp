// parallel_for: every item once, exceptions and stops come through, more threads than items do no harm.
#include "check.hpp"

#include "fastmm/parallel.hpp"

#include <stdexcept>
#include <thread>
#include <vector>

using namespace fastmm;

namespace {

struct StopAtOnce final : Monitor {
    bool poll(std::int64_t) override { return true; }
};

void every_item_once() {
    for (const int threads : {1, 2, 3, 7, 64}) {
        std::vector<int> hits(1001, 0);
        const bool stopped = parallel_for(1001, threads, nullptr, [&](std::int64_t item, int worker, Pulse&) {
            CHECK(worker >= 0 && worker < threads);
            ++hits[static_cast<std::size_t>(item)];
        });
        CHECK(!stopped);
        bool once = true;
        for (const int hit : hits) once = once && hit == 1;
        CHECK(once);
    }
    parallel_for(0, 4, nullptr, [](std::int64_t, int, Pulse&) { CHECK(false); });
}

void exceptions_come_through() {
    for (const int threads : {1, 3}) {
        bool thrown = false;
        try {
            parallel_for(100, threads, nullptr, [](std::int64_t item, int, Pulse&) {
                if (item == 57) throw std::runtime_error("item 57");
            });
        } catch (const std::runtime_error& error) {
            thrown = std::string(error.what()) == "item 57";
        }
        CHECK(thrown);
    }
}

void monitor_stops() {
    StopAtOnce monitor;
    for (const int threads : {1, 2}) {
        std::atomic<int> begun{0};
        const bool stopped = parallel_for(1000, threads, &monitor, [&](std::int64_t, int, Pulse& pulse) {
            ++begun;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            pulse.beat(1);
        });
        CHECK(stopped);
        CHECK(begun < 1000);
    }
}

} // namespace

int main() {
    every_item_once();
    exceptions_come_through();
    monitor_stops();
    return test::report();
}
