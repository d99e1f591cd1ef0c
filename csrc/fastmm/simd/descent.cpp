// Whole gradient-descent runs in p, one instance a vector lane; the gradient is factored and free of cancellation.
#include "descent.hpp"

#include "descent_tiles.hpp"
#include "loss_lanes.hpp"

#include "fastmm/losses.hpp"

namespace fastmm::FASTMM_ISA {
namespace {

// Bounds between which a sum of squares is neither overflown nor worn by subnormals.
template <class R> constexpr R square_low() { return sizeof(R) == 8 ? R(1e-280) : R(1e-28f); }
template <class R> constexpr R square_high() { return sizeof(R) == 8 ? R(1e280) : R(1e30f); }

// How far the common exponent may be from the true one: far from overflow, and what is cut off is nothing beside the
// sum.
template <class R> constexpr R shift_slack() { return sizeof(R) == 8 ? R(200) : R(20); }

// Far from the largest number; and the largest argument that exp_cut() takes.
template <class R> constexpr R most_safe() { return sizeof(R) == 8 ? R(1e300) : R(1e30f); }
template <class R> constexpr R largest_half() { return sizeof(R) == 8 ? R(700) : R(80); }

template <class R> class LanesRun {
    using V = Vec<R>;
    using M = Mask<R>;
    static constexpr int width = Lanes<R>::width;

public:
    explicit LanesRun(const DescentLanes<R>& lanes) : job(lanes), block(lanes), n(lanes.n), T(lanes.T), d(lanes.d) {
        block.load();
        for (int lane = 0; lane < width; ++lane) {
            rate[lane] = job.lr[lane];
            active[lane] = -1;
            job.steps_done[lane] = job.steps;
            job.reason[lane] = StopReason::steps;
            R farthest = static_cast<R>(job.steps) * job.lr[lane];
            for (std::int64_t j = 0; j < d; ++j) {
                const R start = job.p[lane][j];
                farthest += start < 0 ? -start : start;
            }
            careful[lane] = farthest < most_safe<R>() ? 0 : -1;
        }
        may_overflow = any(careful);
        if (!job.normalized) rate = rate / splat(static_cast<R>(n));
        all_active = true;
    }

    void run() {
        const std::int64_t work = n * T * d, period = work < 100000 ? 100000 / work + 1 : 1;
        std::int64_t next_record = 0;
        for (std::int64_t step = 0; step < job.steps; ++step) {
            if (next_record < job.records && job.record[next_record] == step) write_record(next_record++);
            if (step % period == 0 && job.beat(job.context, step == 0 ? 0 : period)) {
                stop(active, StopReason::interrupted, step);
                break;
            }
            gradient();
            update(step);
            if (!all_active && !any(active)) break;
        }
        // a run that ended on its own stays where it is; after an interruption the rest was never reached
        const bool reached = !interrupted;
        for (; reached && next_record < job.records; ++next_record) write_record(next_record);
        for (int lane = 0; lane < width; ++lane)
            for (std::int64_t j = 0; j < d; ++j) job.p[lane][j] = block.p[j][lane];
    }

private:
    void write_record(std::int64_t row) {
        for (int lane = 0; lane < width; ++lane) {
            R* to = job.recorded[lane] + row * job.record_stride[lane];
            for (std::int64_t j = 0; j < d; ++j) to[j] = block.p[j][lane];
        }
    }

    void stop(M lanes, StopReason reason, std::int64_t step) {
        for (int lane = 0; lane < width; ++lane) {
            if (lanes[lane] == 0) continue;
            active[lane] = 0;
            job.steps_done[lane] = step;
            job.reason[lane] = reason;
        }
        all_active = false;
        interrupted = interrupted || reason == StopReason::interrupted;
    }

    const V* keys_of(std::int64_t i) const { return block.keys + i * T * d; }
    const V* gaps_of(std::int64_t i) const { return block.gaps + i * T; }
    const V* skips_of(std::int64_t i) const { return block.skips + i * T; }
    V* logits_of(std::int64_t i) const { return block.logits + i * T; }

    // Minus the gradient of the sum of losses, divided by e^shift. The shift is the largest exponent of the step
    // before: from one step to the next it moves little, and a pass over the keys is saved. Where it moved far (a first
    // step, a long one) the pass is made again with the exponent it found.
    void gradient() {
        pass();
        const V none = splat(-static_cast<R>(__builtin_inf()));
        const M stale = active & (exponent != none) & (absolute<R>(exponent - shift) > splat(shift_slack<R>()));
        if (any(stale)) {
            shift = choose<R>(stale, exponent, shift);
            pass();
        }
        used_shift = shift;
        shift = zero_where<R>(exponent == none, exponent);
    }

    void pass() {
        const R infinity = static_cast<R>(__builtin_inf());
        exponent = splat(-infinity);
        least = splat(R(1));
        const V unit = exp_cut<R>(shift);
        for (std::int64_t j = 0; j < d; ++j) block.g[j] = splat(R(0));
        for (std::int64_t i = 0; i < n; ++i) {
            V counted = splat(-infinity), highest = splat(R(0));
            const Logits<R> logits{block, keys_of(i), block.masks + i * T, skips_of(i), logits_of(i), counted, highest};
            for_tiles(block.tiling, logits);
            if (any(highest > splat(base_lead<R>()))) {
                block.move_base(i, highest, [](int) {});
                counted = splat(-infinity);
                highest = splat(R(0));
                for_tiles(block.tiling, logits);
            }
            V own_shift = shift;
            if (job.wide) {
                counted += log_slope(i);
                own_shift -= block.slopes[i];
            }
            exponent = larger(counted, exponent);

            V sum = splat(R(0)), skipped = splat(R(0)), gain = splat(R(0));
            for_tiles(block.tiling,
                      Weights<R>{block, gaps_of(i), skips_of(i), logits_of(i), own_shift, sum, skipped, gain});
            V factor, mean, scaled_mean;
            if (job.wide) {
                factor = splat(R(1)) / block.totals[i];
                mean = block.means[i];
                scaled_mean = gain * factor;
                if (job.hook != nullptr) note(i, factor, highest, mean);
            } else {
                factor = splat(R(1)) / fma(unit, sum, block.merged[i] + skipped);
                scaled_mean = gain * factor;
                mean = unit * scaled_mean;
                if (job.hook != nullptr) note(i, factor, highest, mean);
                factor *= slope_size<R>(job.loss, block.base_score[i] + mean);
            }
            for_tiles(block.tiling,
                      Pull<R>{block, keys_of(i), gaps_of(i), skips_of(i), logits_of(i), factor, mean, scaled_mean});
        }
    }

    // For scores so large that the slope of the loss underflows: margins first, by weights in their natural size.
    V log_slope(std::int64_t i) {
        V total = block.merged[i], gain = splat(R(0));
        for (std::int64_t t = 0; t < T; ++t) {
            const V e = exp_cut<R>(logits_of(i)[t]);
            total += e;
            gain = fma(e, gaps_of(i)[t], gain);
        }
        block.totals[i] = total;
        block.means[i] = gain / total;
        V out = total;
        for (int lane = 0; lane < width; ++lane)
            out[lane] = static_cast<R>(loss_log_slope(job.loss, block.base_score[i][lane] + block.means[i][lane]));
        block.slopes[i] = out;
        return out;
    }

    void update(std::int64_t step) {
        V square = splat(R(0));
        for (std::int64_t j = 0; j < d; ++j) square = fma(block.g[j], block.g[j], square);
        const M good = (square > splat(square_low<R>())) & (square < splat(square_high<R>()));
        if (any(active & ~good)) square = settle(square, good, step);
        if (job.hook != nullptr) return ask_hook(step);
        if (job.normalized && !may_overflow) {
            const V length = rate / root(square);
            for (std::int64_t j = 0; j < d; ++j) advance(j, length * block.g[j]);
            return;
        }
        const V length = job.normalized ? careful_length(square) : plain_length();
        M finite = active;
        for (std::int64_t j = 0; j < d; ++j)
            finite &= absolute<R>(fma(length, block.g[j], block.p[j])) < splat(static_cast<R>(__builtin_inf()));
        if (any(active & ~finite)) stop(active & ~finite, StopReason::overflow, step);
        for (std::int64_t j = 0; j < d; ++j) advance(j, length * block.g[j]);
    }

    // What a hook wants to know of an input; the weight of its base token is `factor`.
    void note(std::int64_t i, V factor, V highest, V mean) {
        block.margins[i] = block.base_score[i] + mean;
        least = -larger(-(factor * exp_cut<R>(highest)), -least);
    }

    void ask_hook(std::int64_t step) {
        bool lanes[width];
        StopReason verdict[width];
        for (int lane = 0; lane < width; ++lane) {
            lanes[lane] = active[lane] != 0;
            verdict[lane] = StopReason::steps;
        }
        const auto plain = [](const V* vectors) { return reinterpret_cast<const R*>(vectors); };
        job.hook(job.context, {step, width, lanes, reinterpret_cast<R*>(block.p), plain(block.g), plain(&used_shift),
                               plain(block.margins), plain(&least), verdict});
        for (int lane = 0; lane < width; ++lane) {
            if (verdict[lane] == StopReason::steps) continue;
            M one = active & 0;
            one[lane] = -1;
            stop(one, verdict[lane], step);
        }
    }

    // Lengths of normalised steps; for lanes whose rate / norm may overflow where the step does not, g is scaled first.
    V careful_length(V square) {
        const V norm = root(square);
        for (std::int64_t j = 0; j < d; ++j) block.g[j] = choose<R>(careful, block.g[j] / norm, block.g[j]);
        return choose<R>(careful, rate, rate / norm);
    }

    // Lengths of plain steps, rate * e^used_shift; half of the power goes to g, because the power may lie outside the
    // numbers where the step does not.
    V plain_length() {
        const V half = -larger(-splat(R(0.5)) * used_shift, splat(-largest_half<R>()));
        const V root_of_power = exp_cut<R>(half);
        for (std::int64_t j = 0; j < d; ++j) block.g[j] *= root_of_power;
        return rate * root_of_power;
    }

    void advance(std::int64_t j, V change) {
        V moved;
        if constexpr (sizeof(R) == 4) { // floats: what a sum loses is carried along, so that long runs keep moving
            const V wanted = change - block.lost[j];
            moved = block.p[j] + wanted;
            const V lost = (moved - block.p[j]) - wanted;
            block.lost[j] = all_active ? lost : choose<R>(active, lost, block.lost[j]);
        } else {
            moved = block.p[j] + change;
        }
        block.p[j] = all_active ? moved : choose<R>(active, moved, block.p[j]);
    }

    // Lanes whose sum of squares is 0, very small, very large or not a number: each is scaled, or stopped with its
    // reason.
    V settle(V square, M good, std::int64_t step) {
        M zero = active & 0, overflow = active & 0;
        for (int lane = 0; lane < width; ++lane) {
            if (active[lane] == 0 || good[lane] != 0) continue;
            R largest = 0;
            bool number = true;
            for (std::int64_t j = 0; j < d; ++j) {
                const R size = block.g[j][lane] < 0 ? -block.g[j][lane] : block.g[j][lane];
                number = number && size < static_cast<R>(__builtin_inf());
                largest = size > largest ? size : largest;
            }
            const bool no_exponent = exponent[lane] == -static_cast<R>(__builtin_inf());
            if (!number || (no_exponent && block.has_terms(lane))) {
                overflow[lane] = -1;
            } else if (largest == 0) {
                zero[lane] = -1;
            } else if (job.normalized && job.hook == nullptr) {
                R sum = 0;
                for (std::int64_t j = 0; j < d; ++j) {
                    block.g[j][lane] /= largest;
                    sum += block.g[j][lane] * block.g[j][lane];
                }
                square[lane] = sum;
            }
        }
        if (any(zero)) stop(zero, StopReason::zero_gradient, step);
        if (any(overflow)) stop(overflow, StopReason::overflow, step);
        return square;
    }

    const DescentLanes<R>& job;
    DescentBlock<R> block;
    const std::int64_t n, T, d;
    V rate, exponent;
    V least; // of the inputs' largest attention weights
    V shift = splat(R(0)), used_shift = splat(R(0));
    M active;
    M careful; // lanes whose normalised steps could leave the numbers
    bool all_active, interrupted = false;
    bool may_overflow; // some lane is careful
};

} // namespace

template <class R> void descend(const DescentLanes<R>& lanes) { LanesRun<R>(lanes).run(); }

template <class R> std::int64_t descend_workspace(std::int64_t n, std::int64_t T, std::int64_t d) {
    return DescentBlock<R>::size(n, T, d);
}

template void descend<double>(const DescentLanes<double>&);
template void descend<float>(const DescentLanes<float>&);
template std::int64_t descend_workspace<double>(std::int64_t, std::int64_t, std::int64_t);
template std::int64_t descend_workspace<float>(std::int64_t, std::int64_t, std::int64_t);

} // namespace fastmm::FASTMM_ISA
