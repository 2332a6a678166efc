// Prices of the shadow-price policy on a GPU: `tightrope.kernels.prices` by all lanes of a replication, and the remembered rounds that
// they are made from.

#if K_POLICY > 0

DEVICE REAL typical_size(const Hot& hot, int k) {
    const REAL m = hot.size[k] > SMALLEST ? (REAL)hot.square[k] / (REAL)hot.size[k] : (REAL)0;
    return m > SMALLEST ? m : (REAL)0;
}

DEVICE REAL exp_of_negative(REAL x) { return x > (REAL)-36 ? exp(x) : (REAL)0; }

// Entry e of a lower triangle, by a rectangle of two rows in one.
DEVICE void triangle_entry(int e, int& k, int& l) {
    const int width = K + 1 - K % 2, r = e / width, c = e % width, first = r + 1 - K % 2;
    k = c < first ? first - 1 : K - 1 - r;
    l = c < first ? c : c - first;
}

// A pass over the sample at hot.point by all lanes: Σ n_i τ log Σ exp, and the sums that `accept` makes gradient and curvature of.
#if COMMON_COSTS
// Costs are the same in every context: of each action and of each pair the likelihood is enough, and a lane takes whole rounds.
DEVICE double add_rounds(Hot& hot, Cold& cold, const World& world, const Offers& offers, int n, REAL tau, int lane) {
    const REAL scale = 1 / tau;
    double value = 0;
    LANES_TAKE(j, J) {
        REAL sum = 0;
        for (int k = 0; k < K; k++) sum += COST_OF(0, k, j) * hot.point[k];
        hot.value[j] = sum;
    }
    lanes_meet();
    REAL penalty[J], share[J], pair[PAIRS + 1];
#pragma unroll
    for (int j = 0; j < J; j++) {
        penalty[j] = hot.value[j];
        share[j] = 0;
    }
#pragma unroll
    for (int i = 0; i < PAIRS; i++) pair[i] = 0;
    LANES_TAKE(i, n) {
        const REAL weight = (REAL)cold.sample_weights[i];
        REAL e[J], best = -HIGHEST, z = 0;
#pragma unroll
        for (int j = 0; j < J; j++) {
            e[j] = SAMPLED_REWARD(i, j) - penalty[j];
            best = fmax(best, e[j]);
        }
#pragma unroll
        for (int j = 0; j < J; j++) {
            e[j] = exp_of_negative((e[j] - best) * scale);
            z += e[j];
        }
        const REAL of_one = 1 / z;
        int at = 0;
#pragma unroll
        for (int j = 0; j < J; j++) {
            e[j] *= of_one;
            const REAL weighted = weight * e[j];
            share[j] += weighted;
#pragma unroll
            for (int i = 0; i < j; i++) pair[at++] += weighted * e[i];
        }
        value += weight * (best + tau * log(z));
    }
#pragma unroll
    for (int j = 0; j < J; j++) {
        share[j] = sum_of_lanes(share[j]);
        if (lane == 0) hot.share[j] = share[j];
    }
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        pair[i] = sum_of_lanes(pair[i]);
        if (lane == 0) hot.pair[i] = pair[i];
    }
    value = sum_of_lanes(value);
    lanes_meet();
    return value;
}
#else
#if LATE
#define SAMPLED_COST(row, k) cold.costs[((size_t)i * J + (row)) * K + (k)]
#else
#define SAMPLED_COST(row, k) COST_OF(TABLE_OF(c), k, ACTION(c, row))
#endif
// The curvature of `rows` likely rows that stand in hot.likely; lanes take pairs of rules.
DEVICE void add_products(Hot& hot, int rows, int lane) {
    lanes_meet();
    LANES_TAKE(entry, K * (K + 1) / 2) {
        int k, l;
        triangle_entry(entry, k, l);
        REAL sum = 0;
        for (int r = 0; r < rows; r++) sum += hot.likely[r * K + k] * hot.likely[r * K + l];
        hot.curvature[k * K + l] += sum;
    }
    lanes_meet();
}

// Lanes take whole rounds for the likelihood of their rows, then rules, and many rows at a time for pairs of rules.
DEVICE double add_rounds(Hot& hot, Cold& cold, const World& world, const Offers& offers, int n, REAL tau, int lane) {
    const REAL scale = 1 / tau;
    double value = 0;
    LANES_TAKE(e, K * K) hot.curvature[e] = 0;
    LANES_TAKE(i, n) {
        const u32 c = cold.sample_contexts[i];
        const int rows = OFFERED(c);
        const REAL weight = (REAL)cold.sample_weights[i];
        REAL* const likelihood = cold.likelihood + i * J;
        REAL best = -HIGHEST, z = 0;
        for (int row = 0; row < rows; row++) {
            REAL v = SAMPLED_REWARD(i, row);
            for (int k = 0; k < K; k++) v -= SAMPLED_COST(row, k) * hot.point[k];
            likelihood[row] = v;
            best = fmax(best, v);
        }
        for (int row = 0; row < rows; row++) {
            likelihood[row] = exp_of_negative((likelihood[row] - best) * scale);
            z += likelihood[row];
        }
        const REAL of_one = 1 / z;
        for (int row = 0; row < rows; row++) likelihood[row] *= of_one;
        value += weight * (best + tau * log(z));
    }
    value = sum_of_lanes(value);
    lanes_meet();
    REAL cost_sum[K_LANES] = {}, square_sum[K_LANES] = {};
    int waiting = 0;
    for (int i = 0; i < n; i++) {
        const u32 c = cold.sample_contexts[i];
        const int rows = OFFERED(c);
        const REAL weight = (REAL)cold.sample_weights[i];
        const REAL* const likelihood = cold.likelihood + i * J;
        int likely = 0;
        for (int row = 0; row < rows; row++) likely += likelihood[row] > UNLIKELY;
        // Of one likely row alone the curvature is 0.
        if (likely == 1) likely = 0;
        if (waiting + likely > LIKELY_ROWS) {
            add_products(hot, waiting, lane);
            waiting = 0;
        }
#pragma unroll
        for (int m = 0; m < K_LANES; m++) {
            const int k = m * LANES + lane;
            if (k >= K) break;
            REAL bar = 0, square = 0;
            for (int row = 0; row < rows; row++) {
                const REAL e = likelihood[row];
                if (e > UNLIKELY) {
                    const REAL w = SAMPLED_COST(row, k);
                    bar += e * w;
                    square += e * w * w;
                }
            }
            cost_sum[m] += weight * bar;
            square_sum[m] += weight * square;
            if (likely > 0) {
                // About the mean: differences of large sums would lose the digits that single precision has.
                int at = waiting;
                for (int row = 0; row < rows; row++) {
                    const REAL e = likelihood[row];
                    if (e > UNLIKELY) hot.likely[at++ * K + k] = sqrt(weight * e) * (SAMPLED_COST(row, k) - bar);
                }
            }
        }
        waiting += likely;
    }
    add_products(hot, waiting, lane);
#pragma unroll
    for (int m = 0; m < K_LANES; m++) {
        const int k = m * LANES + lane;
        if (k >= K) break;
        hot.cost_sum[k] = cost_sum[m];
        hot.square_sum[k] = square_sum[m];
    }
    return value;
}
#endif

// hot.point becomes hot.solved, with its gradient, mean squares and curvature.
DEVICE void accept(Hot& hot, const Offers& offers, REAL weight, REAL tau, REAL unit, int lane) {
    const REAL scale = 1 / (weight * tau);
    LANES_TAKE(k, K) {
#if COMMON_COSTS
        REAL cost_sum = 0, square_sum = 0;
        for (int j = 0; j < J; j++) {
            const REAL w = COST_OF(0, k, j);
            cost_sum += hot.share[j] * w;
            square_sum += hot.share[j] * w * w;
        }
#else
        const REAL cost_sum = hot.cost_sum[k], square_sum = hot.square_sum[k];
#endif
        hot.solved[k] = hot.point[k];
        hot.gradient[k] = -cost_sum / weight;
        hot.mean_square[k] = square_sum / weight;
    }
    LANES_TAKE(entry, K * (K + 1) / 2) {
        int k, l;
        triangle_entry(entry, k, l);
#if COMMON_COSTS
        // The covariance of two costs is that of pairs of actions: Σ e_i e_j (w_ik − w_jk)(w_il − w_jl).
        REAL sum = 0;
        const REAL *left = &COST_OF(0, k, 0), *right = &COST_OF(0, l, 0);
        int at = 0;
#pragma unroll
        for (int j = 0; j < J; j++)
#pragma unroll
            for (int i = 0; i < j; i++) sum += hot.pair[at++] * (left[j] - left[i]) * (right[j] - right[i]);
#else
        const REAL sum = hot.curvature[k * K + l];
#endif
        REAL c = sum * scale;
        if (k == l) c += (REAL)LEAST_CURVATURE * hot.scale[k] * hot.scale[k] / unit;
        hot.curvature[k * K + l] = c;
        hot.curvature[l * K + k] = c;
    }
    lanes_meet();
}

// The step to the least value of the quadratic model within the bounds, one price at a time, and its point; the gain it promises.
DEVICE double newton_step(Hot& hot, REAL unit, int lane) {
    REAL slope[K_LANES], point[K_LANES];
#pragma unroll
    for (int i = 0; i < K_LANES; i++) {
        const int k = i * LANES + lane;
        slope[i] = k < K ? hot.gradient[k] : (REAL)0;
        point[i] = k < K ? hot.solved[k] : (REAL)0;
    }
    REAL moved = HIGHEST;
    for (int sweep = 0; sweep < SWEEPS && moved > (REAL)STILL * unit; sweep++) {
        moved = 0;
#pragma unroll
        for (int i = 0; i < K_LANES; i++) {
            for (int owner = 0; owner < LANES && i * LANES + owner < K; owner++) {
                const int k = i * LANES + owner;
                const REAL* row = hot.curvature + k * K;
                const REAL old = from_lane(point[i], owner);
                const REAL wanted = old - from_lane(slope[i], owner) / row[k];
                const REAL now = fmax((REAL)0, fmin(wanted, hot.cap[k]));
                if (now != old) {
                    const REAL by = now - old;
                    if (lane == owner) point[i] = now;
#pragma unroll
                    for (int m = 0; m < K_LANES; m++)
                        if (m * LANES + lane < K) slope[m] += by * row[m * LANES + lane];
                    moved = fmax(moved, (by > 0 ? by : -by) * hot.scale[k]);
                }
            }
        }
    }
    double promised = 0;
#pragma unroll
    for (int i = 0; i < K_LANES; i++) {
        const int k = i * LANES + lane;
        if (k < K) {
            const REAL s = point[i] - hot.solved[k];
            hot.step[k] = s;
            hot.point[k] = point[i];
            promised -= 0.5 * s * (hot.gradient[k] + slope[i]);
        }
    }
    promised = sum_of_lanes(promised);
    lanes_meet();
    return promised;
}

// Prices of the sample into hot.solved, with gradient, mean squares and caps: `tightrope.kernels.prices` in one go.
DEVICE void solve_prices(Hot& hot, Cold& cold, const World& world, const Offers& offers, int n, double weight, double rho,
                         int lane) {
    const REAL unit = (REAL)rho, last_tau = (REAL)(LAST_SMOOTHING * rho);
    LANES_TAKE(k, K) {
        const REAL m = typical_size(hot, k);
        hot.scale[k] = m > 0 ? m : (REAL)1;
        hot.cap[k] = m > 0 ? (REAL)CAP * unit / m : (REAL)0;
        hot.solved[k] = hot.point[k] = fmax((REAL)0, fmin(hot.price[k], hot.cap[k]));
    }
    lanes_meet();
    REAL tau = (REAL)(FIRST_SMOOTHING * rho);
    double value = 0;
    int trial = -1, iteration = 0;
    for (;;) {
        const double here = add_rounds(hot, cold, world, offers, n, tau, lane) / weight;
        bool going_on = trial < 0, better = going_on;
        if (trial >= 0) {
            double expected = 0;
            LANES_TAKE(k, K) expected += (double)hot.gradient[k] * (hot.point[k] - hot.solved[k]);
            better = here <= value + ENOUGH_DESCENT * sum_of_lanes(expected);
            if (better) {
                iteration++;
                going_on = value - here >= ENOUGH_GAIN * rho && iteration < STEPS;
            } else if (trial + 1 < TRIALS) {
                trial++;
                LANES_TAKE(k, K) {
                    hot.step[k] *= (REAL)SHORTER;
                    hot.point[k] = hot.solved[k] + hot.step[k];
                }
                lanes_meet();
                continue;
            }
        }
        if (better) {
            accept(hot, offers, (REAL)weight, tau, unit, lane);
            value = here;
        }
        if (going_on) {
            going_on = newton_step(hot, unit, lane) >= ENOUGH_GAIN * rho;
            trial = 0;
        }
        if (!going_on) {
            if (tau <= last_tau) return;
            tau = fmax((REAL)SMOOTHING_FACTOR * tau, last_tau);
            iteration = 0;
            trial = -1;
            LANES_TAKE(k, K) hot.point[k] = hot.solved[k];
            lanes_meet();
        }
    }
}

// What is remembered

DEVICE void begin_memory(Cold& cold, int lane) {
    LANES_TAKE(i, CAPACITY) cold.slots[i] = ~0u;
    LANES_TAKE(i, ENTRIES) cold.counts[i] = 0;
    LANES_TAKE(i, C) cold.entry_of[i] = ~0u;
    if (lane == 0) cold.used = cold.holes = 0;
    lanes_meet();
}

// Context c into a slot, by one lane; the lowest free entry is taken.
DEVICE void remember(Cold& cold, u32 slot, u32 c) {
    const u32 old = cold.slots[slot];
    if (old != ~0u && --cold.counts[old] == 0) {
        cold.entry_of[cold.contexts[old]] = ~0u;
        cold.holes++;
    }
    u32 e = cold.entry_of[c];
    if (e == ~0u) {
        if (cold.holes > 0) {
            cold.holes--;
            for (e = 0; cold.counts[e] > 0;) e++;
        } else {
            e = cold.used++;
        }
        cold.contexts[e] = c;
        cold.entry_of[c] = e;
    }
    cold.counts[e]++;
    cold.slots[slot] = e;
}

// The sample of a solve: how many distinct rounds it has (0: no solve in progress) and how many of them are drawn; when it began and
// when its prices take effect; the sums of weighted spreads and of weights, and ρ.
struct Sample {
    int rounds, drawn;
    u32 begun, deadline;
    double spread, weight, rho;
    bool solved;
};

// Each distinct remembered round with its weight, in the order of entries, as many as may.
DEVICE Sample begin_sample(Cold& cold, const Offers& offers, u32 t, int lane) {
    const double most_rows = floor(BUDGET * (t / 2 + LAST_BUDGETS) / SOLVE_WORK);
    int n = 0, rows = 0;
    for (u32 first = 0; first < cold.used; first += LANES) {
        const u32 e = first + lane;
        const u32 count = e < cold.used ? cold.counts[e] : 0, c = count > 0 ? cold.contexts[e] : 0;
        const int own_rows = count > 0 ? OFFERED(c) : 0;
        int at = n, row = rows;
        for (int other = 0; other < LANES; other++) {
            const int its_rows = from_lane(own_rows, other);
            const bool taken = its_rows > 0 && (n == 0 || rows < most_rows);
            if (other < lane) {
                at += taken;
                row += taken ? its_rows : 0;
            }
            if (other == lane && taken) {
                cold.sample_contexts[at] = c;
                cold.sample_weights[at] = count;
                cold.sample_offsets[at] = row;
            }
            n += taken;
            rows += taken ? its_rows : 0;
        }
    }
    if (lane == 0) cold.sample_offsets[n] = rows;
    lanes_meet();
    const double rounds = ceil(rows * SOLVE_WORK / BUDGET) - 1.0;
    return {n, 0, t, t + (u32)fmin(rounds, (double)(t / 2)), 0.0, 0.0, 0.0, false};
}

// Draw rounds of the sample from `drawn` to `end` with the models as they are now.
DEVICE void draw_rounds(const Hot& hot, Cold& cold, const Offers& offers, const Beliefs& beliefs, u64 own_seed, Sample& sample,
                        int end, int lane) {
    double spread = 0, weight = 0;
    for (int i = sample.drawn + lane; i < end; i += LANES) {
        const u32 c = cold.sample_contexts[i];
        const int rows = OFFERED(c), its_weight = cold.sample_weights[i];
        Normals normals(own_seed, sample.begun, SOLVE_SLOT);
        REAL high, low, most = 0, x[QP];
        Known known;
        // Once more where an action stands out, with the others likened to it.
        for (bool likens = false;; likens = true) {
            high = -HIGHEST;
            low = HIGHEST;
            for (int row = 0; row < rows; row++) {
                const int a = ACTION(c, row);
                const u32 number = (cold.sample_offsets[i] + row) * NORMALS;
                REAL mean, sd, unknown;
                load_row<P>(row_of<P>(offers.rows, c, ROWS, a), beliefs.units, BLOCKS > 1 ? a : 0, x);
                predict_reward(hot, a, x, beliefs.reward, mean, sd, unknown);
                sd *= beliefs.explore;
                if (likens) {
                    known.liken(unknown, mean, sd, beliefs.explore);
                } else {
                    known.add(mean, unknown);
                    most = fmax(most, fabs(mean));
                }
                mean += beliefs.reward.centre;
                high = fmax(high, mean + sd);
                low = fmin(low, mean - sd);
                SAMPLED_REWARD(i, row) = mean + sd * normals(number);
#if LATE
                REAL z[COST_QP], whole, hidden;
                load_row<COST_P>(row_of<COST_P>(offers.cost_rows, c, COST_ROWS, a), beliefs.cost_units, COST_BLOCKS > 1 ? a : 0, z);
                predict_costs(hot, a, z, whole, hidden);
                for (int k = 0; k < K; k++) {
                    const REAL s = (REAL)COST_DRAWS * beliefs.explore * deviation(hot.noise[k], hot.signal[k], whole, hidden);
                    cold.costs[((size_t)i * J + row) * K + k] = mean_cost(hot, a, z, k) + s * normals(number + 1 + k);
                }
#endif
            }
            if (!LIKENS || likens || !stands_out(most, beliefs.reward) || !known.stand_out(beliefs.reward)) break;
        }
        const REAL range = high - low;
        if (range > (REAL)SAME * fmax(fabs(high), fabs(low))) spread += its_weight * (double)range;
        weight += its_weight;
    }
    sample.spread += sum_of_lanes(spread);
    sample.weight += sum_of_lanes(weight);
    sample.drawn = end;
    lanes_meet();
}

// Go on with a solve as far as a decision of round t may wait for it; at its deadline prices and ρ take effect.
DEVICE void work_on_prices(Hot& hot, Cold& cold, const World& world, const Offers& offers, const Beliefs& beliefs, u64 own_seed, u32 t,
                           Sample& sample, REAL& rho, int lane) {
    if (!sample.solved) {
        int end = sample.drawn;
        double budget = t < sample.deadline ? BUDGET : 1e300;
        while (end < sample.rounds && budget > 0) {
            budget -= (cold.sample_offsets[end + 1] - cold.sample_offsets[end]) * DRAW_WORK;
            end++;
        }
        draw_rounds(hot, cold, offers, beliefs, own_seed, sample, end, lane);
        if (end == sample.rounds) {
            const double least = fmax(LEAST_RHO * rho, LEAST_RHO_UNIT);
            sample.rho = sample.spread > 0 ? fmax(sample.spread / sample.weight, least) : (double)rho;
            solve_prices(hot, cold, world, offers, sample.rounds, sample.weight, sample.rho, lane);
            sample.solved = true;
        }
    }
    if (t < sample.deadline) return;
    const REAL fall = (REAL)sample.rho / rho;
    const REAL kept = (REAL)CARRY_KEPT * (fall * UNIT_OFF < 1 ? fall : (REAL)1);
    LANES_TAKE(k, K) {
        const REAL mean = -hot.gradient[k], top = hot.cap[k];
        const REAL error = sqrt(fmax((REAL)0, hot.mean_square[k] - mean * mean) / (REAL)sample.weight);
        const bool at_cap = top > 0 && hot.solved[k] >= (REAL)AT_CAP * top;
        hot.infeasible[k] = at_cap && sample.weight >= ENOUGH_ROUNDS && mean > (REAL)ERRORS_ABOVE * error;
        hot.price[k] = hot.solved[k];
        hot.correction[k] = fmin(kept * hot.correction[k], top);
    }
    rho = (REAL)sample.rho;
    sample.rounds = 0;
}
#endif
