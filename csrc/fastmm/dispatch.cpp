// Choice of the instruction set; see dispatch.hpp.
#include "fastmm/dispatch.hpp"

#include <cstdlib>
#include <stdexcept>

namespace fastmm {

namespace baseline {
extern const Kernels table;
}
#ifdef FASTMM_VECTORS
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

namespace {

std::vector<const Kernels*> available() {
    std::vector<const Kernels*> sets{&baseline::table};
#ifdef FASTMM_VECTORS
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sets.push_back(&avx2::table);
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
            sets.push_back(&avx512::table);
    }
#endif
    return sets;
}

const Kernels& choose() {
    const auto sets = available();
    const char* wanted = std::getenv("FASTMM_ISA");
    if (wanted == nullptr || *wanted == '\0') return *sets.back();
    std::string names;
    for (const Kernels* set : sets) {
        if (std::string(set->name) == wanted) return *set;
        names += (names.empty() ? "" : ", ") + std::string(set->name);
    }
    throw std::runtime_error("environment variable FASTMM_ISA is '" + std::string(wanted) +
                             "'; this CPU can run: " + names);
}

} // namespace

const Kernels& kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

std::vector<std::string> available_instruction_sets() {
    std::vector<std::string> names;
    for (const Kernels* set : available()) names.emplace_back(set->name);
    return names;
}

} // namespace fastmm
