// What this library was built with; the strings come from CMake.
#include "fastmm/build.hpp"

#if defined(__clang__)
#define FASTMM_COMPILER "clang " __clang_version__
#else
#define FASTMM_COMPILER "gcc " __VERSION__
#endif

namespace fastmm {

BuildInfo build_info() {
#ifdef NDEBUG
    constexpr bool assertions = false;
#else
    constexpr bool assertions = true;
#endif
    return {FASTMM_VERSION, FASTMM_COMPILER, FASTMM_FLAGS, FASTMM_BUILD_TYPE, assertions};
}

} // namespace fastmm
