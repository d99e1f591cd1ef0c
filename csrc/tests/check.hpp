// A test program in a few lines: CHECK counts failures and says where; report() is the program's exit status.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdio>
#include <string>

namespace fastmm::test {

inline std::atomic<int> failures{0}, checks{0}; // workers check too

inline bool check(bool ok, const char* what, const char* file, int line) {
    ++checks;
    if (!ok) {
        ++failures;
        std::printf("%s:%d: failed: %s\n", file, line, what);
    }
    return ok;
}

inline bool close(double got, double want, double rtol, double atol = 0.0) {
    return got == want || std::fabs(got - want) <= rtol * std::fabs(want) + atol;
}

inline int report() {
    std::printf("%d checks, %d failed\n", checks.load(), failures.load());
    return failures == 0 && checks > 0 ? 0 : 1;
}

} // namespace fastmm::test

#define CHECK(condition) fastmm::test::check((condition), #condition, __FILE__, __LINE__)
