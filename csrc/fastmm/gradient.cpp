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

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Inputs of a chunk: decided by the shape alone, so that the order of summation never depends on threads.
std::int64_t inputs_of_chunk(std::int64_t n, std::int64_t T, std::int64_t d) {
    constexpr std::int64_t entries = 32768, most_chunks = 4096;
    return std::min(n, std::max(ceil_div(entries, T * d), ceil_div(n, most_chunks)));
}

// Adds up parts e^scale[c] * parts[c] in order, and splits the sum into unit direction and log norm.
void combine(const double* parts, const double* scale, std::int64_t chunks, std::int64_t d, std::int64_t n,
             Factored& out) {
    const std::int64_t stride = padded(d);
    double common = -infinity;
    for (std::int64_t c = 0; c < chunks; ++c) common = std::max(common, scale[c]);
    std::fill(out.unit, out.unit + d, 0.0);
    if (out.natural != nullptr) std::fill(out.natural, out.natural + d, 0.0);
    out.log_norm = -infinity;
    if (common == -infinity) return;
    for (std::int64_t c = 0; c < chunks; ++c) {
        if (scale[c] == -infinity) continue;
        const double factor = std::exp(scale[c] - common);
        for (std::int64_t j = 0; j < d; ++j) out.unit[j] += factor * parts[c * stride + j];
    }
    double largest = 0.0;
    for (std::int64_t j = 0; j < d; ++j)
        if (!(std::fabs(out.unit[j]) <= largest)) largest = std::fabs(out.unit[j]); // NaN stays
    if (largest == 0.0) return;
    if (out.natural != nullptr) { // e^common may lie outside the doubles where the product does not
        const double half = std::exp(common / 2);
        for (std::int64_t j = 0; j < d; ++j)
            if (out.unit[j] != 0.0) out.natural[j] = -(half * (out.unit[j] / static_cast<double>(n))) * half;
    }
    double square = 0.0;
    for (std::int64_t j = 0; j < d; ++j) {
        out.unit[j] /= largest;
        square += out.unit[j] * out.unit[j];
    }
    const double norm = std::sqrt(square);
    for (std::int64_t j = 0; j < d; ++j) out.unit[j] /= norm;
    out.log_norm = common + std::log(largest) + std::log(norm) - std::log(static_cast<double>(n));
}

} // namespace

template <class R> GradientOfOne<R>::GradientOfOne(const GradientBatch<R>& batch)
    : batch_(batch), inputs_(inputs_of_chunk(batch.tokens.n, batch.tokens.T, batch.tokens.d)),
      chunks_(ceil_div(batch.tokens.n, inputs_)), p_(static_cast<std::size_t>(padded(batch.tokens.d))),
      scale_p_(static_cast<std::size_t>(chunks_)), scale_v_(scale_p_), losses_(scale_p_),
      parts_p_(static_cast<std::size_t>(chunks_ * padded(batch.tokens.d))),
      parts_v_(static_cast<std::size_t>(batch.values ? chunks_ * padded(batch.d_v) : 0)) {}

template <class R> void GradientOfOne<R>::chunk(std::int64_t b, std::int64_t c, double* scratch) {
    const auto& tokens = batch_.tokens;
    const std::int64_t from = c * inputs_;
    GradientRows<R> rows{};
    rows.inputs = std::min(inputs_, tokens.n - from);
    rows.T = tokens.T;
    rows.d = tokens.d;
    rows.d_v = batch_.d_v;
    rows.loss = batch_.loss;
    rows.keys = tokens.keys[b] + from * tokens.T * tokens.d;
    rows.scores = tokens.scores[b] + from * tokens.T;
    rows.lengths = tokens.lengths ? tokens.lengths[b] + from : nullptr;
    rows.p = p_.data();
    rows.direction = parts_p_.data() + c * padded(tokens.d);
    if (batch_.values) {
        rows.values = batch_.values[b] + from * tokens.T * batch_.d_v;
        rows.labels = batch_.labels[b] + from;
        rows.direction_v = parts_v_.data() + c * padded(batch_.d_v);
    }
    rows.workspace = scratch;
    KernelsOf<R>::gradient(kernels(), rows);
    const auto at = static_cast<std::size_t>(c);
    scale_p_[at] = rows.scale;
    scale_v_[at] = rows.scale_v;
    losses_[at] = rows.loss_sum;
}

template <class R> double GradientOfOne<R>::operator()(std::int64_t b, const double* p, Factored& of_p, Factored* of_v,
                                                       int threads, Monitor* monitor) {
    std::copy(p, p + batch_.tokens.d, p_.begin());
    const std::int64_t scratch = rows_workspace(batch_.tokens.T);
    if (threads <= 1 && monitor == nullptr) {
        std::vector<double> own(static_cast<std::size_t>(scratch));
        for (std::int64_t c = 0; c < chunks_; ++c) chunk(b, c, own.data());
    } else {
        std::vector<double> own(static_cast<std::size_t>(scratch * threads));
        const bool stopped = parallel_for(chunks_, threads, monitor, [&](std::int64_t c, int worker, Pulse& pulse) {
            chunk(b, c, own.data() + worker * scratch);
            pulse.beat();
        });
        if (stopped) return std::numeric_limits<double>::quiet_NaN();
    }
    combine(parts_p_.data(), scale_p_.data(), chunks_, batch_.tokens.d, batch_.tokens.n, of_p);
    if (of_v != nullptr) combine(parts_v_.data(), scale_v_.data(), chunks_, batch_.d_v, batch_.tokens.n, *of_v);
    double loss = 0.0;
    for (const double part : losses_) loss += part;
    return loss / static_cast<double>(batch_.tokens.n);
}

template <class R>
bool gradient_batch(const GradientBatch<R>& batch, const GradientOutputs& out, int threads, Monitor* monitor) {
    const auto& tokens = batch.tokens;
    const auto offset = [](double* base, std::int64_t at) { return base != nullptr ? base + at : nullptr; };
    const auto element = [&](GradientOfOne<R>& gradient, std::int64_t b, int inner, Monitor* own) {
        Factored of_p{0.0, out.unit_p + b * tokens.d, offset(out.natural_p, b * tokens.d)};
        Factored of_v{0.0, offset(out.unit_v, b * batch.d_v), offset(out.natural_v, b * batch.d_v)};
        out.loss[b] = gradient(b, batch.p[b], of_p, batch.values ? &of_v : nullptr, inner, own);
        out.log_norm_p[b] = of_p.log_norm;
        if (batch.values) out.log_norm_v[b] = of_v.log_norm;
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
    const std::int64_t work = tokens.batch * tokens.n * tokens.T * tokens.d;
    const int useful = static_cast<int>(std::min<std::int64_t>(threads, 1 + work / (1 << 17)));
    std::vector<std::unique_ptr<GradientOfOne<R>>> workers(static_cast<std::size_t>(useful));
    return parallel_for(groups, useful, monitor, [&](std::int64_t g, int worker, Pulse& pulse) {
        auto& gradient = workers[static_cast<std::size_t>(worker)];
        if (!gradient) gradient = std::make_unique<GradientOfOne<R>>(batch);
        const std::int64_t end = std::min(tokens.batch, (g + 1) * group);
        for (std::int64_t b = g * group; b < end && !pulse.beat(); ++b) element(*gradient, b, 1, nullptr);
    });
}

template class GradientOfOne<double>;
template class GradientOfOne<float>;
template bool gradient_batch<double>(const GradientBatch<double>&, const GradientOutputs&, int, Monitor*);
template bool gradient_batch<float>(const GradientBatch<float>&, const GradientOutputs&, int, Monitor*);

} // namespace fastmm
