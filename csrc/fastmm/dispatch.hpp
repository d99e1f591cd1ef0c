// The kernels that exist once for each instruction set, and the choice among them at run time.
#pragma once

#include "fastmm/joint_kernels.hpp"
#include "fastmm/kernels.hpp"
#include "fastmm/margin_kernels.hpp"

#include <string>
#include <vector>

namespace fastmm {

struct Kernels {
    const char* name;
    int width64, width32; // lanes of a vector of doubles and of floats

    // Entries of DescentLanes::workspace.
    std::int64_t (*descend_workspace64)(std::int64_t n, std::int64_t T, std::int64_t d);
    std::int64_t (*descend_workspace32)(std::int64_t n, std::int64_t T, std::int64_t d);
    void (*descend64)(const DescentLanes<double>&);
    void (*descend32)(const DescentLanes<float>&);

    void (*gradient64)(GradientRows<double>&);
    void (*gradient32)(GradientRows<float>&);

    // Logits of one input: (k_t - k_0) p for its T tokens; p is padded with zeros and out has room to whole vectors.
    void (*logits64)(const double* keys, std::int64_t T, std::int64_t d, const double* p, double* out);
    void (*logits32)(const float* keys, std::int64_t T, std::int64_t d, const double* p, double* out);

    // Scores label * (x_t v) of the tokens of one input, rounded to their precision; v and out as above. Products and
    // sums are rounded one by one in a fixed order, with every set the same.
    void (*scores64)(const double* values, std::int64_t T, std::int64_t d, const double* v, double label, double* out);
    void (*scores32)(const float* values, std::int64_t T, std::int64_t d, const double* v, double label, double* out);

    // Softmax or its logarithm of one row of T logits, -inf being a mask. False when an entry is NaN or +inf.
    bool (*softmax64)(const double* logits, std::int64_t T, bool logarithm, double* out, double* workspace);

    // Entries of JointLanes::data.workspace; the data laid out in it; gradients at the present parameters.
    std::int64_t (*joint_workspace)(const JointLanes&);
    void (*joint_load)(const JointLanes&);
    void (*joint_gradient)(const JointLanes&);

    const MarginKernels* margin;
};

// The set in use: the best this CPU has, or the one named by the environment variable FASTMM_ISA (baseline, avx2,
// avx512). Chosen once. Throws std::runtime_error when the variable names a set that is unknown or that this CPU lacks.
const Kernels& kernels();

// Names of the sets this CPU can run, slowest first.
std::vector<std::string> available_instruction_sets();

// The entries of one precision.
template <class R> struct KernelsOf;
template <> struct KernelsOf<double> {
    static int width(const Kernels& k) { return k.width64; }
    static std::int64_t workspace(const Kernels& k, std::int64_t n, std::int64_t T, std::int64_t d) {
        return k.descend_workspace64(n, T, d);
    }
    static void descend(const Kernels& k, const DescentLanes<double>& a) { k.descend64(a); }
    static void gradient(const Kernels& k, GradientRows<double>& a) { k.gradient64(a); }
    static void logits(const Kernels& k, const double* keys, std::int64_t T, std::int64_t d, const double* p,
                       double* out) {
        k.logits64(keys, T, d, p, out);
    }
    static void scores(const Kernels& k, const double* values, std::int64_t T, std::int64_t d, const double* v,
                       double label, double* out) {
        k.scores64(values, T, d, v, label, out);
    }
};
template <> struct KernelsOf<float> {
    static int width(const Kernels& k) { return k.width32; }
    static std::int64_t workspace(const Kernels& k, std::int64_t n, std::int64_t T, std::int64_t d) {
        return k.descend_workspace32(n, T, d);
    }
    static void descend(const Kernels& k, const DescentLanes<float>& a) { k.descend32(a); }
    static void gradient(const Kernels& k, GradientRows<float>& a) { k.gradient32(a); }
    static void logits(const Kernels& k, const float* keys, std::int64_t T, std::int64_t d, const double* p,
                       double* out) {
        k.logits32(keys, T, d, p, out);
    }
    static void scores(const Kernels& k, const float* values, std::int64_t T, std::int64_t d, const double* v,
                       double label, double* out) {
        k.scores32(values, T, d, v, label, out);
    }
};

} // namespace fastmm
