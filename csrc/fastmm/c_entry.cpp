// One problem a call, with scratch space that the thread keeps; see c_entry.hpp.
#include "fastmm/c_entry.hpp"

#include "fastmm/gradient.hpp"

#include <array>
#include <limits>
#include <memory>

namespace fastmm {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t only = 0; // index of the one block there is

// What a thread keeps between calls: made anew when the shape is another one.
struct Caller {
    GradientBatch<double> batch{};
    std::array<std::int64_t, 5> shape{};
    std::unique_ptr<GradientOfOne<double>> gradient;

    void take(std::int64_t loss, std::int64_t n, std::int64_t T, std::int64_t d, std::int64_t d_v, const double* keys,
              const std::int64_t* lengths) {
        batch.loss = static_cast<LossKind>(loss);
        batch.tokens.batch = 1;
        batch.tokens.n = n;
        batch.tokens.T = T;
        batch.tokens.d = d;
        batch.tokens.keys = {keys, &only, n * T * d};
        batch.tokens.lengths = {lengths, &only, n};
        batch.d_v = d_v;
    }

    // To be called when the batch is complete: scratch space depends on what it has.
    GradientOfOne<double>& ready() {
        const auto& tokens = batch.tokens;
        const std::array<std::int64_t, 5> own{tokens.n, tokens.T, tokens.d, batch.d_v, batch.values ? 1 : 0};
        if (!gradient || own != shape) {
            gradient = nullptr;
            gradient = std::make_unique<GradientOfOne<double>>(batch);
            shape = own;
        }
        return *gradient;
    }
};

Caller& caller() {
    thread_local Caller own;
    return own;
}

} // namespace
} // namespace fastmm

double fastmm_gradient_p(std::int64_t loss, std::int64_t n, std::int64_t T, std::int64_t d, const double* keys,
                         const double* scores, const std::int64_t* lengths, const double* p, double* gradient,
                         double* direction, double* log_norm) noexcept {
    using namespace fastmm;
    try {
        Caller& own = caller();
        own.take(loss, n, T, d, 0, keys, lengths);
        own.batch.tokens.scores = {scores, &only, n * T};
        own.batch.values = own.batch.labels = {};
        Factored of_p{0.0, direction, gradient};
        Point point;
        point.p = p;
        Wanted wanted;
        wanted.p = &of_p;
        const double risk = own.ready()(0, point, wanted, 1, nullptr);
        *log_norm = of_p.log_norm;
        return of_p.log_norm == of_p.log_norm ? risk : nan;
    } catch (...) { // no memory
        *log_norm = nan;
        return nan;
    }
}

double fastmm_gradient_pv(std::int64_t loss, std::int64_t n, std::int64_t T, std::int64_t d, std::int64_t d_v,
                          const double* keys, const double* values, const double* labels, const std::int64_t* lengths,
                          const double* p, const double* v, double* gradient_p, double* direction_p, double* log_norm_p,
                          double* gradient_v, double* direction_v, double* log_norm_v) noexcept {
    using namespace fastmm;
    try {
        Caller& own = caller();
        own.take(loss, n, T, d, d_v, keys, lengths);
        own.batch.tokens.scores = {};
        own.batch.values = {values, &only, n * T * d_v};
        own.batch.labels = {labels, &only, n};
        Factored of_p{0.0, direction_p, gradient_p}, of_v{0.0, direction_v, gradient_v};
        Point point;
        point.p = p;
        point.v = v;
        Wanted wanted;
        wanted.p = &of_p;
        wanted.v = &of_v;
        const double risk = own.ready()(0, point, wanted, 1, nullptr);
        *log_norm_p = of_p.log_norm;
        *log_norm_v = of_v.log_norm;
        const bool fine = of_p.log_norm == of_p.log_norm && of_v.log_norm == of_v.log_norm;
        return fine ? risk : nan;
    } catch (...) { // no memory
        *log_norm_p = *log_norm_v = nan;
        return nan;
    }
}
