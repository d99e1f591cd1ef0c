// Step rules: how far one group of parameters of one run moves, given its gradient in factored form.
#pragma once

#include <cstdint>
#include <vector>

namespace fastmm {

enum class RuleKind : int { normalized = 0, gradient = 1, polyak = 2, sign = 3, momentum = 4, adam = 5 };

struct RuleSettings {
    RuleKind kind = RuleKind::normalized;
    double momentum = 0.0;                          // of RuleKind::momentum
    double beta1 = 0.0, beta2 = 0.0, epsilon = 0.0; // of RuleKind::adam
};

// What the steps of all groups share.
struct StepFacts {
    double rate;       // lr, times the schedule
    double log_excess; // log of the risk above its infimum, for RuleKind::polyak
    double log_norm;   // of the whole gradient, all groups together
};

// The state of one group: averages of past gradients, kept as e^scale_ times numbers of moderate size, because the
// gradients of a long run underflow while their ratios matter.
class StepRule {
public:
    StepRule(const RuleSettings& settings, std::int64_t size);

    void restart();

    // The next step: `unit` is the direction of steepest descent (zeros for a zero gradient), e^log_norm the size.
    void move(const double* unit, double log_norm, const StepFacts& facts, double* step);

private:
    void rescale(double log_norm);
    void momentum_step(const double* unit, double log_norm, double rate, double* step);
    void adam_step(const double* unit, double log_norm, double rate, double* step);

    RuleSettings settings_;
    std::size_t size_;
    std::vector<double> first_, second_; // averages of the gradient and of its squares
    double scale_;
    double decay1_, decay2_; // products of the betas so far
};

// rate * e^log_size, also where e^log_size alone lies outside the doubles.
double scaled_rate(double rate, double log_size);

} // namespace fastmm
