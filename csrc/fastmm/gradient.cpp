// Chunks of inputs, each in one pass, combined in order; see gradient.hpp.
#include "fastmm/gradient.hpp"

#include "fastmm/dispatch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace fastmm {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Inputs of a chunk: decided by the shape alone, so that the order of summation never depends on threads.
std::int64_t inputs_of_chunk(std::int64_t n, std::int64_t T, std::int64_t d) {
    constexpr std::int64_t entries = 131072, most_chunks = 4096;
    return std::min(n, std::max(ceil_div(entries, T * d), ceil_div(n, most_chunks)));
}

std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

// log of the mean of n terms, whose sum is that of e^scale[c] * sum[c].
double log_mean(const std::vector<double>& scale, const std::vector<double>& sum, std::int64_t n) {
    double common = -infinity, total = 0.0;
    for (const double own : scale)
        if (std::isnan(own) || own > common) common = own;
    if (!(common > -infinity)) return common;
    for (std::size_t c = 0; c < scale.size(); ++c)
        if (scale[c] > -infinity) total += std::exp(scale[c] - common) * sum[c];
    return common + std::log(total) - std::log(static_cast<double>(n));
}

} // namespace

template <class R> GradientOfOne<R>::GradientOfOne(const GradientBatch<R>& batch)
    : batch_(batch), inputs_(inputs_of_chunk(batch.tokens.n, batch.tokens.T, batch.tokens.d)),
      chunks_(ceil_div(batch.tokens.n, inputs_)), p_(size_of(padded(batch.tokens.d))), v_(size_of(padded(batch.d_v))),
      along_(p_.size()), parts_p_(size_of(chunks_) * p_.size()),
      parts_v_(batch.values ? size_of(chunks_) * v_.size() : 0), scale_p_(size_of(chunks_)), scale_v_(scale_p_),
      losses_(scale_p_), saturation_(scale_p_), excess_scale_(scale_p_), excess_(scale_p_) {}

template <class R> void GradientOfOne<R>::chunk(std::int64_t b, std::int64_t c, const Point& point,
                                                const Wanted& wanted, double* scratch) {
    const auto& tokens = batch_.tokens;
    const std::int64_t from = c * inputs_;
    GradientRows<R> rows{};
    rows.inputs = std::min(inputs_, tokens.n - from);
    rows.T = tokens.T;
    rows.d = tokens.d;
    rows.d_v = batch_.d_v;
    rows.loss = batch_.loss;
    rows.keys = tokens.keys[b] + from * tokens.T * tokens.d;
    if (batch_.values && (point.v != nullptr || wanted.v != nullptr)) {
        const bool same = batch_.values[b] == tokens.keys[b] && batch_.d_v == tokens.d;
        rows.values = same ? rows.keys : batch_.values[b] + from * tokens.T * batch_.d_v;
        rows.labels = batch_.labels[b] + from;
    }
    if (point.v == nullptr) rows.scores = tokens.scores[b] + from * tokens.T;
    rows.lengths = tokens.lengths ? tokens.lengths[b] + from : nullptr;
    rows.p = point.p != nullptr ? p_.data() : nullptr;
    rows.queries = point.queries != nullptr ? point.queries + from * tokens.d : nullptr;
    rows.v = point.v != nullptr ? v_.data() : nullptr;
    rows.along = point.along != nullptr ? along_.data() : nullptr;
    rows.direction = wanted.p != nullptr ? parts_p_.data() + c * padded(tokens.d) : nullptr;
    rows.direction_v = wanted.v != nullptr ? parts_v_.data() + c * padded(batch_.d_v) : nullptr;
    rows.pulls = wanted.pulls != nullptr ? wanted.pulls + from * tokens.d : nullptr;
    rows.exponents = wanted.pulls != nullptr ? wanted.exponents + from : nullptr;
    rows.wants_excess = wanted.log_excess != nullptr;
    rows.above_zero = wanted.above_zero;
    rows.workspace = scratch;
    KernelsOf<R>::gradient(kernels(), rows);
    const auto at = size_of(c);
    scale_p_[at] = rows.scale;
    scale_v_[at] = rows.scale_v;
    losses_[at] = rows.loss_sum;
    saturation_[at] = rows.saturation;
    excess_scale_[at] = rows.excess_scale;
    excess_[at] = rows.excess;
}

template <class R> double GradientOfOne<R>::operator()(std::int64_t b, const Point& point, const Wanted& wanted,
                                                       int threads, Monitor* monitor) {
    const std::int64_t d = batch_.tokens.d, n = batch_.tokens.n;
    if (point.p != nullptr) std::copy(point.p, point.p + d, p_.begin());
    if (point.v != nullptr) std::copy(point.v, point.v + batch_.d_v, v_.begin());
    if (point.along != nullptr) std::copy(point.along, point.along + d, along_.begin());
    const std::int64_t scratch = rows_workspace(batch_.tokens.T, d, batch_.d_v);
    if (scratch_.size() < size_of(scratch * threads)) scratch_.resize(size_of(scratch * threads));
    if (threads <= 1 && monitor == nullptr) {
        for (std::int64_t c = 0; c < chunks_; ++c) chunk(b, c, point, wanted, scratch_.data());
    } else {
        const bool stopped = parallel_for(chunks_, threads, monitor, [&](std::int64_t c, int worker, Pulse& pulse) {
            chunk(b, c, point, wanted, scratch_.data() + worker * scratch);
            pulse.beat();
        });
        if (stopped) return nan;
    }
    if (wanted.p != nullptr) combine(parts_p_.data(), padded(d), scale_p_.data(), chunks_, d, n, *wanted.p);
    if (wanted.v != nullptr)
        combine(parts_v_.data(), padded(batch_.d_v), scale_v_.data(), chunks_, batch_.d_v, n, *wanted.v);
    if (wanted.saturation != nullptr) {
        double least = infinity;
        for (const double own : saturation_)
            if (std::isnan(own) || own < least) least = own; // NaN stays
        *wanted.saturation = least;
    }
    if (wanted.log_excess != nullptr) *wanted.log_excess = log_mean(excess_scale_, excess_, n);
    double loss = 0.0;
    for (const double part : losses_) loss += part;
    return loss / static_cast<double>(n);
}

template <class R> bool gradient_batch(const GradientBatch<R>& batch, const GradientPoints& points,
                                       const GradientOutputs& out, int threads, Monitor* monitor) {
    const auto& tokens = batch.tokens;
    const std::int64_t n = tokens.n, d = tokens.d;
    const auto offset = [](double* base, std::int64_t at) { return base != nullptr ? base + at : nullptr; };
    const auto element = [&](GradientOfOne<R>& gradient, std::int64_t b, int inner, Monitor* own) {
        const auto block = [b](const Blocks<double>& blocks) { return blocks ? blocks[b] : nullptr; };
        const Point point{block(points.p), block(points.queries), block(points.v), block(points.along)};
        Factored of_p{0.0, offset(out.unit_p, b * d), offset(out.natural_p, b * d)};
        Factored of_v{0.0, offset(out.unit_v, b * batch.d_v), offset(out.natural_v, b * batch.d_v)};
        Wanted wanted;
        if (out.log_norm_p != nullptr) wanted.p = &of_p;
        if (out.log_norm_v != nullptr) wanted.v = &of_v;
        wanted.pulls = offset(out.pulls, b * n * d);
        wanted.exponents = offset(out.exponents, b * n);
        wanted.saturation = offset(out.saturation, b);
        wanted.log_excess = offset(out.log_excess, b);
        out.loss[b] = gradient(b, point, wanted, inner, own);
        if (out.log_norm_p != nullptr) out.log_norm_p[b] = of_p.log_norm;
        if (out.log_norm_v != nullptr) out.log_norm_v[b] = of_v.log_norm;
    };
    if (tokens.batch == 1) { // threads share the chunks of the one problem
        GradientOfOne<R> gradient(batch);
        const int useful = static_cast<int>(std::min<std::int64_t>(threads, 1 + gradient.work() / (1 << 20)));
        bool stopped = false;
        struct Watch final : Monitor {
            Monitor* monitor;
            bool& stopped;
            Watch(Monitor* m, bool& s) : monitor(m), stopped(s) {}
            bool poll(std::int64_t done) override { return stopped = monitor->poll(done); }
        } watch(monitor, stopped);
        element(gradient, 0, useful, monitor != nullptr ? &watch : nullptr);
        return stopped;
    }
    constexpr std::int64_t group = 16; // elements taken at a time: small problems are cheaper than handing them out
    const std::int64_t groups = ceil_div(tokens.batch, group);
    const std::int64_t work = tokens.batch * n * tokens.T * d;
    const int useful = static_cast<int>(std::min<std::int64_t>(threads, 1 + work / (1 << 17)));
    std::vector<std::unique_ptr<GradientOfOne<R>>> workers(size_of(useful));
    return parallel_for(groups, useful, monitor, [&](std::int64_t g, int worker, Pulse& pulse) {
        auto& gradient = workers[size_of(worker)];
        if (!gradient) gradient = std::make_unique<GradientOfOne<R>>(batch);
        const std::int64_t end = std::min(tokens.batch, (g + 1) * group);
        for (std::int64_t b = g * group; b < end && !pulse.beat(); ++b) element(*gradient, b, 1, nullptr);
    });
}

template class GradientOfOne<double>;
template class GradientOfOne<float>;
template bool gradient_batch<double>(const GradientBatch<double>&, const GradientPoints&, const GradientOutputs&, int,
                                     Monitor*);
template bool gradient_batch<float>(const GradientBatch<float>&, const GradientPoints&, const GradientOutputs&, int,
                                    Monitor*);

} // namespace fastmm
