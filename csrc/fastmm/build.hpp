// What this library was built with.
#pragma once

namespace fastmm {

struct BuildInfo {
    const char* version;
    const char* compiler;
    const char* flags;
    const char* build_type;
    bool assertions;
};

BuildInfo build_info();

} // namespace fastmm
