// Logarithm of one and a fraction, in vector lanes.
#pragma once

#include "lanes.hpp"

namespace fastmm::FASTMM_ISA {

// log(1 + u) for u in [0, 1], to two units in the last place: 2 artanh(s) = 2 s + s^3 q(s^2) with s = u / (2 + u), q a
// polynomial through the Chebyshev points of [0, 1/9] (relative error of the logarithm 7.2e-18).
inline Doubles log_of_one_and(Doubles u) {
    constexpr double c[10] = {0.6666666666666666,  0.40000000000014585, 0.2857142856710876,  0.22222222717427864,
                              0.18181789436132859, 0.15385570064958623, 0.13314144209654935, 0.12001072809590713,
                              0.08800738486144674, 0.1616404561194353};
    const auto at = [&c](int k, Doubles z) { return fma(splat(c[k + 1]), z, splat(c[k])); };
    const Doubles s = u / (splat(2.0) + u), z = s * s, z2 = z * z, z4 = z2 * z2;
    const Doubles low = fma(at(2, z), z2, at(0, z)), middle = fma(at(6, z), z2, at(4, z));
    const Doubles q = fma(fma(at(8, z), z4, middle), z4, low);
    return fma(s * z, q, s + s);
}

} // namespace fastmm::FASTMM_ISA
