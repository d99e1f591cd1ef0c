// One W-SVM after the other in one workspace; see weight_batch.hpp.
#pragma once

#include "fastmm/aligned.hpp"
#include "fastmm/margin_worker.hpp"
#include "fastmm/nuclear.hpp"
#include "fastmm/span.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace fastmm {

class WeightWorker {
public:
    // For programs of n inputs of T tokens with `queries` (n or 1) different queries.
    WeightWorker(std::int64_t n, std::int64_t T, std::int64_t queries, std::int64_t d_q, std::int64_t d, bool nuclear);

    // Where the differences of a program are written, one a row: the vector, its input and its place in the answer.
    double* difference(std::int64_t row) { return differences_.data() + row * d_; }
    std::int64_t* input() { return input_.data(); }
    std::int64_t* place() { return place_.data(); }

    // Solves the program of these `rows` and queries Z (queries, d_q) from a start as in MarginWorker.
    void solve(const double* Z, std::int64_t rows, const double* dual, const double* point, const Limits& limits,
               Pulse& pulse, const Answers& out);

private:
    std::int64_t query(std::int64_t row) const { return queries_ == 1 ? 0 : input_[static_cast<std::size_t>(row)]; }
    bool representable() const;
    void solve_reduced(const double* dual, const double* point, const Limits& limits, Pulse& pulse, const Answers& out);
    void solve_whole(const double* dual, const double* point, const Limits& limits, Pulse& pulse, const Answers& out);
    void fill(MarginWorker& worker, const double* z, std::int64_t d_q, const double* delta, std::int64_t d);
    void to_coordinates(const double* W, double* out);
    void from_coordinates(const double* M, double* out);
    bool judge(const Answers& out);
    bool proves(const double* farkas);
    void nuclear(const Limits& limits, Pulse& pulse, const Answers& out);

    std::int64_t n_, T_, queries_, d_q_, d_, rows_ = 0;
    bool nuclear_;
    const double* Z_ = nullptr;
    AlignedVector<double> differences_, point_, start_, mixed_, made_, size_, sums_, z_, delta_;
    std::vector<std::int64_t> input_, place_, query_of_;
    Span span_q_, span_;
    std::unique_ptr<MarginWorker> reduced_, whole_;
    std::unique_ptr<NuclearNorm> norm_;
};

} // namespace fastmm
