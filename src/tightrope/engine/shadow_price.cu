// Replications of the shadow-price policy on a GPU: the loop of `tightrope.kernels.shadow_loop` for one shape, whose sizes the host
// defines before compiling.
//
// LANES threads side by side are one replication. Its models, totals and prices are in shared memory where they fit (`Hot`), the
// remembered rounds and the sample of a solve in global memory (`Cold`). Lanes take the actions on offer, the rules, the remembered
// rounds or the rows of a matrix, whichever there are; nothing is waited for beyond the replication's own lanes.
//
// Rows of the sample are drawn in the rounds in which the CPU's loop draws them, which matters, since models go on learning. What
// comes then depends on the sample alone and is done at once; its prices take effect at the deadline, as everywhere.
//
// REAL is the type of what is estimated and of the prices; sums over rounds are doubles in either precision.

#define Q (P + 1)
#define QP PADDED(Q)
#define COST_Q (COST_P + 1)
#define COST_QP PADDED(COST_Q)
#define J_ROOM PADDED(J)
#define K_LANES ((K + LANES - 1) / LANES)
#define PAIRS (J * (J - 1) / 2)
#define NORMALS (1 + LATE * K)

// ---------------------------------------------------------------------------------------------- lanes of a replication

#if LANES == 1
DEVICE int lane_of_thread() { return 0; }
DEVICE void lanes_meet() {}
template <typename T>
DEVICE T from_lane(T x, int) {
    return x;
}
#define FROM_PARTNER(x, step) (x)
#else
DEVICE int lane_of_thread() { return threadIdx.x % LANES; }
DEVICE u32 lanes_mask() {
    return LANES == 32 ? 0xffffffffu : ((1u << (LANES % 32)) - 1) << (threadIdx.x % 32 / LANES * LANES);
}
DEVICE void lanes_meet() { __syncwarp(lanes_mask()); }
template <typename T>
DEVICE T from_lane(T x, int lane) {
    return __shfl_sync(lanes_mask(), x, lane, LANES);
}
#define FROM_PARTNER(x, step) __shfl_xor_sync(lanes_mask(), x, step)
#endif

template <typename T>
DEVICE T sum_of_lanes(T x) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) x += FROM_PARTNER(x, step);
    return x;
}

template <typename T>
DEVICE T largest_of_lanes(T x) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) {
        const T other = FROM_PARTNER(x, step);
        x = other > x ? other : x;
    }
    return x;
}

#define LANES_TAKE(i, n) for (int i = lane; i < (n); i += LANES)

// ------------------------------------------------------------------------------------------------------------- memory

struct Hot {
    double total[K_ROOM];
#if SEPARATE_MEANS
    double mean_total[K_ROOM];
#endif
#if K_POLICY > 0
    // Σ mean size, Σ mean square size, and what `moved²` was when the correction last moved
    double size[K], square[K], clock[K];
#endif
#if LATE
    double moved[K], cost_mean[K], cost_squares[K], cost_errors[K];
#endif
    alignas(4 * sizeof(REAL)) REAL inverse[BLOCKS * Q * QP];
    REAL theta[BLOCKS * 2 * QP];
    REAL product[QP];
    REAL above[J_ROOM], value[J_ROOM];
#if K_POLICY > 0
    // By rule: λ, T/z + 1, 1/z, and ½ z ρ/m, which multiplies the wall
    Four rule[K];
    REAL price[K], correction[K];
    // A solve: K numbers each, then the curvature
    REAL solved[K], point[K], step[K], gradient[K], mean_square[K], cap[K], scale[K];
    REAL curvature[K * K];
#if COMMON_COSTS
    REAL share[J], pair[PAIRS + 1];
#else
    REAL cost_sum[K], square_sum[K], bar[K];
#endif
#endif
#if LATE
    alignas(4 * sizeof(REAL)) REAL cost_inverse[COST_BLOCKS * COST_Q * COST_QP];
    REAL cost_theta[COST_BLOCKS * (K + 1) * COST_QP];
    REAL cost_product[COST_QP];
    REAL cost[J * K], spread[J * K], whole[J], hidden[J];
    REAL noise[K], signal[K], drawn_part[K], outcome[K];
#endif
    int last[K_ROOM], chosen[J];
#if K_POLICY > 0
    int infeasible[K];
#endif
};
static_assert(sizeof(Hot) <= HOT, "the host's sum of a replication's shared memory is too small");

// Slots hold entries, entries contexts; `used` entries were ever in use, `holes` of which are free.
struct Cold {
#if K_POLICY > 0
    REAL rewards[ENTRIES * J];
#if LATE
    REAL costs[(size_t)ENTRIES * J * K];
#endif
    u32 slots[CAPACITY];
    u32 contexts[ENTRIES], counts[ENTRIES], entry_of[C];
    u32 used, holes;
    u32 sample_contexts[ENTRIES], sample_weights[ENTRIES], sample_offsets[ENTRIES + 1];
#else
    int none;
#endif
};
static_assert(sizeof(Cold) <= COLD, "the host's sum of a replication's global memory is too small");

// What kernel arguments say of the offers: actions on offer where some sleep, rows, costs by (table, rule, action), the first
// context that offers just the same, and Σ_j |w|/J and Σ_j w²/J of the costs on offer.
struct Offers {
    const u32* offsets;
    const u16* ids;
    const REAL* rows;
    const REAL* cost_rows;
    const REAL* costs;
    const u32* twins;
    const double* sizes;
};

#if SLEEPING
#define OFFERED(c) (int)(offers.offsets[(c) + 1] - offers.offsets[c])
#define ACTION(c, row) (int)offers.ids[offers.offsets[c] + (row)]
#define SIZES_AT(c) (c)
#else
#define OFFERED(c) J
#define ACTION(c, row) (row)
#define SIZES_AT(c) (COST_TABLES > 1 ? world.cost_table[c] : 0)
#endif
#define TABLE_OF(c) (COST_TABLES > 1 ? world.cost_table[c] : 0)
#define COST_OF(table, k, a) offers.costs[((size_t)(table) * K + (k)) * J_ROOM + (a)]
#if COMMON_COSTS
#define SAMPLED_REWARD(i, row) cold.rewards[(row) * ENTRIES + (i)]
#else
#define SAMPLED_REWARD(i, row) cold.rewards[(i) * J + (row)]
#endif

// ------------------------------------------------------------------------------------------------------------- models

// What outcomes vary by around their prediction (σ̂²), what they vary by at all (s²), and what predictions are centred on
struct Spread {
    REAL noise, signal, centre;
};

DEVICE Spread spread_of(double n, double mean, double squares, double errors, REAL prior, bool centred) {
    Spread out = {1, 1, centred ? (REAL)mean : (REAL)0};
    const REAL learnt = (REAL)n, declared = prior * prior;
    if (prior > 0) {
        out.noise = (declared + (REAL)errors) / (learnt + 1);
        out.signal = fmax(out.noise, (declared + (REAL)squares) / (learnt + 1));
    } else if (n > 0) {
        const REAL signal = (REAL)squares / learnt, noise = (signal + (REAL)errors) / learnt;
        if (noise > 0) {
            out.noise = noise;
            out.signal = fmax(noise, signal);
        }
    }
    return out;
}

// A row of N features in the model's unit, with the constant and zeros up to PADDED(N + 1).
template <int N>
DEVICE void load_row(const REAL* rows, u32 c, int shown, int action, REAL per_unit, REAL* x) {
    const Four* from = (const Four*)(rows + ((size_t)c * shown + (shown > 1 ? action : 0)) * PADDED(N));
#pragma unroll
    for (int i = 0; i < PADDED(N + 1); i += 4) {
        Four four = {};
        if (i < N) four = from[i / 4];
#pragma unroll
        for (int k = 0; k < 4; k++) x[i + k] = i + k < N ? four.v[k] * per_unit : i + k == N ? (REAL)1 : (REAL)0;
    }
}

template <int NP>
DEVICE REAL inner_product(const REAL* a, const REAL* x) {
    REAL sum = 0;
#pragma unroll
    for (int i = 0; i < NP; i += 4) {
        const Four four = ((const Four*)a)[i / 4];
#pragma unroll
        for (int k = 0; k < 4; k++) sum += four.v[k] * x[i + k];
    }
    return sum;
}

// xᵀΣ⁻¹x, and λ‖Σ⁻¹x‖² of it that the ridge hides.
template <int N, int NP>
DEVICE void uncertainty(const REAL* A, const REAL* x, REAL ridge, REAL& whole, REAL& hidden) {
    whole = hidden = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const REAL u = inner_product<NP>(A + i * NP, x);
        whole += x[i] * u;
        hidden += u * u;
    }
    whole = fmax((REAL)0, whole);
    hidden = fmin(whole, ridge * hidden);
}

DEVICE REAL deviation(const Spread& s, REAL whole, REAL hidden) {
    return sqrt(s.noise * (whole - hidden) + s.signal * hidden);
}

// By how much a reward's mean is above its centre, and its standard deviation.
DEVICE void predict_reward(const Hot& hot, int block, const REAL* x, const Spread& s, REAL& above, REAL& sd) {
    REAL whole, hidden;
    uncertainty<Q, QP>(hot.inverse + block * Q * QP, x, (REAL)RIDGE, whole, hidden);
    const REAL* theta = hot.theta + block * 2 * QP;
    above = inner_product<QP>(theta, x) - s.centre * inner_product<QP>(theta + QP, x);
    sd = deviation(s, whole, hidden);
}

// Sherman-Morrison by all lanes, M outcomes and the constant 1 into M + 1 rows of theta; 1 / (1 + xᵀΣ⁻¹x).
template <int N, int NP, int M>
DEVICE REAL learn_row(REAL* A, REAL* theta, REAL* u, const REAL* x, const REAL* y, int lane) {
    LANES_TAKE(i, NP) u[i] = i < N ? inner_product<NP>(A + i * NP, x) : (REAL)0;
    lanes_meet();
    const REAL s = 1 / (1 + fmax((REAL)0, inner_product<NP>(u, x)));
    LANES_TAKE(i, N) {
        const REAL left = u[i];
#pragma unroll
        // u_i u_k first: the two halves of A then stay equal to the bit, without which rounding errors grow.
        for (int k = 0; k < NP; k++) A[i * NP + k] -= s * (left * u[k]);
    }
    LANES_TAKE(m, M + 1) {
        REAL* row = theta + m * NP;
        const REAL gain = s * ((m < M ? y[m] : (REAL)1) - inner_product<NP>(row, x));
#pragma unroll
        for (int i = 0; i < NP; i++) row[i] += gain * u[i];
    }
    return s;
}

// One outcome into the running mean, the squares about it and the errors; `error` is that of its prediction.
DEVICE void count_outcome(double n, double y, REAL error, REAL shrink, bool centred, double& mean, double& squares,
                          double& errors) {
    if (n > 0 || !centred) errors += error * error * shrink;
    const double delta = y - (centred ? mean : 0.0);
    mean += (REAL)(y - mean) / (REAL)(n + 1);
    squares += delta * (y - (centred ? mean : 0.0));
}

DEVICE double unit_of(const REAL* rows, int shown, int n, int features, const u16* ids) {
    double total = 0;
    for (int row = 0; row < n; row++) {
        const REAL* x = rows + (size_t)(shown > 1 ? (ids ? ids[row] : row) : 0) * PADDED(features);
        for (int i = 0; i < features; i++) total += (double)x[i] * x[i];
    }
    total /= n;
    return total > 0 ? sqrt(total) : 1.0;
}

// -------------------------------------------------------------------------------------------------------------- draws

// Two standard normals (Box-Muller).
DEVICE void two_normals(u64 seed, u32 t, u32 slot, REAL& a, REAL& b) {
    const Words w = own_draw(seed, t, slot);
    const REAL u = (REAL)((1ull << 53) - w.a) * (REAL)TO_UNIT;
    const REAL radius = sqrt((REAL)-2 * log(u)), angle = (REAL)(2.0 * 3.141592653589793) * ((REAL)w.b * (REAL)TO_UNIT);
    a = radius * cos(angle);
    b = radius * sin(angle);
}

// Normals of one round by their number, two in each slot; those asked for one after the other are drawn once.
struct Normals {
    u64 seed;
    u32 t, first_slot;
    u32 drawn;
    REAL even, odd;
    DEVICE_MEMBER Normals(u64 seed, u32 t, u32 first_slot) : seed(seed), t(t), first_slot(first_slot), drawn(~0u) {}
    DEVICE_MEMBER REAL operator()(u32 number) {
        if (number / 2 != drawn) two_normals(seed, t, first_slot + number / 2, even, odd);
        drawn = number / 2;
        return number % 2 ? odd : even;
    }
};

#if K_POLICY > 0
// ------------------------------------------------------------------------------------------------------------- prices

DEVICE REAL typical_size(const Hot& hot, int k) { return hot.size[k] > 0 ? (REAL)hot.square[k] / (REAL)hot.size[k] : (REAL)0; }

DEVICE REAL exp_of_negative(REAL x) { return x > (REAL)-36 ? exp(x) : (REAL)0; }

// Entry e of a lower triangle, by a rectangle of two rows in one.
DEVICE void triangle_entry(int e, int& k, int& l) {
    const int width = K + 1 - K % 2, r = e / width, c = e % width, first = r + 1 - K % 2;
    k = c < first ? first - 1 : K - 1 - r;
    l = c < first ? c : c - first;
}

// Value and sums of a pass over the sample at hot.point, by all lanes: Σ n_i τ log Σ exp.
DEVICE double add_rounds(Hot& hot, const Cold& cold, const World& world, const Offers& offers, int n, REAL tau, int lane) {
    const REAL scale = 1 / tau;
    double value = 0;
#if COMMON_COSTS
    // Costs are the same in every context: a pass needs the likelihood of each action and of each pair alone, and a lane takes
    // whole rounds.
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
        REAL e[J], best = (REAL)-3e38, z = 0;
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
#else
#if LATE
#define SAMPLED_COST(row, k) cold.costs[((size_t)i * J + (row)) * K + (k)]
#else
#define SAMPLED_COST(row, k) COST_OF(TABLE_OF(c), k, ACTION(c, row))
#endif
    LANES_TAKE(k, K) hot.cost_sum[k] = hot.square_sum[k] = 0;
    LANES_TAKE(e, K * K) hot.curvature[e] = 0;
    lanes_meet();
    for (int i = 0; i < n; i++) {
        const u32 c = cold.sample_contexts[i];
        const int rows = OFFERED(c);
        const REAL weight = (REAL)cold.sample_weights[i];
        REAL best = (REAL)-3e38, z = 0;
        LANES_TAKE(row, rows) {
            REAL v = SAMPLED_REWARD(i, row);
            for (int k = 0; k < K; k++) v -= SAMPLED_COST(row, k) * hot.point[k];
            hot.value[row] = v;
            best = fmax(best, v);
        }
        best = largest_of_lanes(best);
        LANES_TAKE(row, rows) {
            hot.value[row] = exp_of_negative((hot.value[row] - best) * scale);
            z += hot.value[row];
        }
        z = sum_of_lanes(z);
        lanes_meet();
        const REAL of_one = 1 / z;
        int likely = 0;
        for (int row = 0; row < rows; row++) likely += hot.value[row] * of_one > (REAL)NEGLIGIBLE;
        LANES_TAKE(k, K) {
            REAL bar = 0, square = 0;
            for (int row = 0; row < rows; row++) {
                const REAL e = hot.value[row] * of_one;
                if (e > (REAL)NEGLIGIBLE) {
                    const REAL w = SAMPLED_COST(row, k);
                    bar += e * w;
                    square += e * w * w;
                }
            }
            hot.bar[k] = bar;
            hot.cost_sum[k] += weight * bar;
            hot.square_sum[k] += weight * square;
        }
        if (likely > 1) {
            // About the mean: differences of large sums would lose the digits that single precision has.
            lanes_meet();
            LANES_TAKE(entry, K * (K + 1) / 2) {
                int k, l;
                triangle_entry(entry, k, l);
                REAL sum = 0;
                for (int row = 0; row < rows; row++) {
                    const REAL e = hot.value[row] * of_one;
                    if (e > (REAL)NEGLIGIBLE) sum += e * (SAMPLED_COST(row, k) - hot.bar[k]) * (SAMPLED_COST(row, l) - hot.bar[l]);
                }
                hot.curvature[k * K + l] += weight * sum;
            }
        }
        value += weight * (best + tau * log(z));
        lanes_meet();
    }
#endif
    return value;
}

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
    REAL moved = 3e38;
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
DEVICE void solve_prices(Hot& hot, const Cold& cold, const World& world, const Offers& offers, int n, double weight, double rho,
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

// ---------------------------------------------------------------------------------------------------- remembered rounds

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

// The sample of a solve: how many distinct rounds (0: no solve in progress), rows and weight of them, how many are drawn, ...
struct Sample {
    int rounds, drawn;
    u32 begun, deadline;
    double spread, weight;
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
    return {n, 0, t, t + (u32)fmin(rounds, (double)(t / 2)), 0.0, 0.0, false};
}
#endif

// --------------------------------------------------------------------------------------------------------------- loop

extern "C" __global__ void LAUNCH_BOUNDS shadow_price(
    WORLD_ARGUMENTS, const u32* RESTRICT offsets, const u16* RESTRICT ids, const REAL* RESTRICT rows,
    const REAL* RESTRICT cost_rows, const REAL* RESTRICT costs, const u32* RESTRICT twins, const double* RESTRICT sizes,
    const double* RESTRICT settings, const u64* RESTRICT policy_seeds, u32 first, u32 replications, int rounds,
    const int* RESTRICT grid, int points, int blocks_a_setting, char* work, double* RESTRICT records,
    int* RESTRICT last_violation, u16* RESTRICT choices) {
    WORLD
    const Offers offers = {offsets, ids, rows, cost_rows, costs, twins, sizes};
    const int lane = lane_of_thread(), setting = blockIdx.x / blocks_a_setting, together = blockDim.x / LANES;
    const u32 index = (blockIdx.x % blocks_a_setting) * together + threadIdx.x / LANES;
    if (index >= replications) return;
    const u32 replication = first + index;
    const u64 own_seed = policy_seeds[(size_t)setting * replications + index];
    settings += (size_t)setting * (SETTINGS_PRIORS + 1 + K);
    const REAL explore = (REAL)settings[SETTINGS_EXPLORE], caution = (REAL)settings[SETTINGS_CAUTION];
    const REAL prior = (REAL)settings[SETTINGS_PRIORS];

    char* const own = work + ((size_t)blockIdx.x * together + threadIdx.x / LANES) * (HOT_IN_SHARED ? COLD : COLD + HOT);
#if HOT_IN_SHARED
    SHARED_ROOM(Four, shared);
    Hot& hot = *(Hot*)((char*)shared + (size_t)(threadIdx.x / LANES) * HOT);
#else
    Hot& hot = *(Hot*)(own + COLD);
#endif
    for (int i = lane; i < (int)(sizeof(Hot) / 4); i += LANES) ((int*)&hot)[i] = 0;
    lanes_meet();
    LANES_TAKE(i, BLOCKS * Q) hot.inverse[i * QP + i % Q] = 1 / (REAL)RIDGE;
#if LATE
    LANES_TAKE(i, COST_BLOCKS * COST_Q) hot.cost_inverse[i * COST_QP + i % COST_Q] = 1 / (REAL)COST_RIDGE;
    REAL cost_per_unit = 1;
#endif
    double reward_mean = 0, reward_squares = 0, reward_errors = 0, reward_mean_total = 0, reward_total = 0;
    REAL per_unit = 1;
#if K_POLICY > 0
    Cold& cold = *(Cold*)own;
    begin_memory(cold, lane);
    REAL rho = 1;
    Sample sample = {};
    u32 next_solve = FIRST_SOLVE, remembered = 0, capacity = 0;
#endif
    lanes_meet();

    Words drawn = {};
    int point = 0, next = grid[0];
    for (int t = 1; t <= rounds; t++) {
        if ((t - 1) % LANES == 0) drawn = draw(replication, t + lane, CONTEXT_SLOT);
        const u64 reward_word = from_lane(drawn.b, (t - 1) % LANES);
        const u32 c = pick(world, from_lane(drawn.a, (t - 1) % LANES));
        const int n = OFFERED(c);
        const u32 table = TABLE_OF(c);
        const double learnt = t - 1;
        if (t == 1) {
            const u16* on_offer = SLEEPING ? ids + offsets[c] : 0;
            per_unit = (REAL)(1.0 / unit_of(rows + (size_t)c * ROWS * PADDED(P), ROWS, ROWS > 1 ? n : 1, P, on_offer));
#if LATE
            cost_per_unit =
                (REAL)(1.0 / unit_of(cost_rows + (size_t)c * COST_ROWS * PADDED(COST_P), COST_ROWS, COST_ROWS > 1 ? n : 1, COST_P, on_offer));
#endif
#if K_POLICY > 0
            const u32 most = MOST_NUMBERS / (n * (1 + K));
            capacity = most > LEAST_CAPACITY ? most : LEAST_CAPACITY;
            capacity = capacity < MEMORY ? capacity : MEMORY;
#endif
        }
        const Spread reward_spread = spread_of(learnt, reward_mean, reward_squares, reward_errors, prior, CENTRED);
#if LATE
        LANES_TAKE(k, K) {
            const Spread s = spread_of(learnt, hot.cost_mean[k], hot.cost_squares[k], hot.cost_errors[k],
                                       (REAL)settings[SETTINGS_PRIORS + 1 + k], COST_CENTRED);
            hot.noise[k] = s.noise;
            hot.signal[k] = s.signal;
        }
        lanes_meet();
#define COST_CENTRE(k) (COST_CENTRED ? (REAL)hot.cost_mean[k] : (REAL)0)
#define COST_ABOVE(theta, x, k)                       \
    (inner_product<COST_QP>((theta) + (k) * COST_QP, x) - \
     (COST_CENTRED ? COST_CENTRE(k) * inner_product<COST_QP>((theta) + K * COST_QP, x) : (REAL)0))
#define COST_DEVIATION(k, whole, hidden) deviation({hot.noise[k], hot.signal[k], 0}, whole, hidden)
#endif

#if K_POLICY > 0
        // A solve: where it is time, and as far as a decision may wait for it.
        if (t >= next_solve && remembered > 0) {
            sample = begin_sample(cold, offers, t, lane);
            next_solve = 2 * t;
        }
        if (sample.rounds > 0 && !sample.solved) {
            int end = sample.drawn;
            double budget = t < sample.deadline ? BUDGET : 1e300;
            while (end < sample.rounds && budget > 0) {
                budget -= (cold.sample_offsets[end + 1] - cold.sample_offsets[end]) * DRAW_WORK;
                end++;
            }
            double spread = 0, weight = 0;
            for (int i = sample.drawn + lane; i < end; i += LANES) {
                const u32 met = cold.sample_contexts[i];
                const int its_rows = OFFERED(met), its_weight = cold.sample_weights[i];
                Normals normals(own_seed, sample.begun, SOLVE_SLOT);
                REAL high = (REAL)-3e38, low = (REAL)3e38;
                REAL x[QP];
                for (int row = 0; row < its_rows; row++) {
                    const int a = ACTION(met, row);
                    const u32 number = (cold.sample_offsets[i] + row) * NORMALS;
                    REAL mean, sd;
                    if (row == 0 || ROWS > 1) load_row<P>(rows, met, ROWS, a, per_unit, x);
                    predict_reward(hot, BLOCKS > 1 ? a : 0, x, reward_spread, mean, sd);
                    mean += reward_spread.centre;
                    sd *= explore;
                    high = fmax(high, mean + sd);
                    low = fmin(low, mean - sd);
                    SAMPLED_REWARD(i, row) = mean + sd * normals(number);
#if LATE
                    REAL z[COST_QP], whole, hidden;
                    load_row<COST_P>(cost_rows, met, COST_ROWS, a, cost_per_unit, z);
                    const int block = COST_BLOCKS > 1 ? a : 0;
                    uncertainty<COST_Q, COST_QP>(hot.cost_inverse + block * COST_Q * COST_QP, z, (REAL)COST_RIDGE, whole, hidden);
                    const REAL* theta = hot.cost_theta + block * (K + 1) * COST_QP;
                    for (int k = 0; k < K; k++)
                        cold.costs[((size_t)i * J + row) * K + k] =
                            COST_CENTRE(k) + COST_ABOVE(theta, z, k) +
                            (REAL)COST_DRAWS * explore * COST_DEVIATION(k, whole, hidden) * normals(number + 1 + k);
#endif
                }
                spread += its_weight * (double)(high - low);
                weight += its_weight;
            }
            sample.spread += sum_of_lanes(spread);
            sample.weight += sum_of_lanes(weight);
            sample.drawn = end;
            lanes_meet();
            if (end == sample.rounds) {
                sample.spread = fmax(LEAST_RHO, sample.spread / sample.weight);
                solve_prices(hot, cold, world, offers, sample.rounds, sample.weight, sample.spread, lane);
                sample.solved = true;
            }
        }
        if (sample.rounds > 0 && t >= sample.deadline) {
            LANES_TAKE(k, K) {
                const REAL mean = -hot.gradient[k], top = hot.cap[k];
                const REAL error = sqrt(fmax((REAL)0, hot.mean_square[k] - mean * mean) / (REAL)sample.weight);
                const bool at_cap = top > 0 && hot.solved[k] >= (REAL)AT_CAP * top;
                hot.infeasible[k] = at_cap && sample.weight >= ENOUGH_ROUNDS && mean > (REAL)ERRORS_ABOVE * error;
                hot.price[k] = hot.solved[k];
                hot.correction[k] *= (REAL)CARRY_KEPT;
            }
            rho = (REAL)sample.spread;
            sample.rounds = 0;
        }
#endif

        // Rewards, and the costs that are seen after acting.
        LANES_TAKE(row, n) {
            const int a = ACTION(c, row);
            REAL x[QP], sd;
            load_row<P>(rows, c, ROWS, a, per_unit, x);
            predict_reward(hot, BLOCKS > 1 ? a : 0, x, reward_spread, hot.above[row], sd);
            hot.value[row] = explore * sd;
#if LATE
            REAL z[COST_QP];
            load_row<COST_P>(cost_rows, c, COST_ROWS, a, cost_per_unit, z);
            uncertainty<COST_Q, COST_QP>(hot.cost_inverse + (COST_BLOCKS > 1 ? a : 0) * COST_Q * COST_QP, z, (REAL)COST_RIDGE,
                                         hot.whole[row], hot.hidden[row]);
#endif
        }
#if LATE
        lanes_meet();
        LANES_TAKE(item, n * K) {
            const int row = item / K, k = item % K, a = ACTION(c, row);
            REAL z[COST_QP];
            load_row<COST_P>(cost_rows, c, COST_ROWS, a, cost_per_unit, z);
            const REAL* theta = hot.cost_theta + (COST_BLOCKS > 1 ? a : 0) * (K + 1) * COST_QP;
            hot.cost[item] = COST_CENTRE(k) + COST_ABOVE(theta, z, k);
            hot.spread[item] = COST_DEVIATION(k, hot.whole[row], hot.hidden[row]);
        }
        lanes_meet();
#endif

#if K_POLICY > 0
        // Sizes, then λ and the wall of every rule.
        LANES_TAKE(k, K) {
#if LATE
            REAL size = 0, squares = 0;
            for (int row = 0; row < n; row++) {
                const REAL w = hot.cost[row * K + k], s = hot.spread[row * K + k], s2 = w * w + s * s;
                squares += s2;
                size += sqrt(s2);
            }
            hot.size[k] += size / n;
            hot.square[k] += squares / n;
            const double moved2 = fmax(hot.moved[k], hot.square[k]);
            const REAL noise = sqrt(fmax((REAL)1, hot.square[k] > 0 ? (REAL)hot.moved[k] / (REAL)hot.square[k] : (REAL)1));
#else
            // Of costs that are known before, the total moves by their size.
            hot.size[k] += sizes[((size_t)SIZES_AT(c) * K + k) * 2];
            hot.square[k] += sizes[((size_t)SIZES_AT(c) * K + k) * 2 + 1];
            const double moved2 = hot.square[k];
            const REAL noise = 1;
#endif
            const REAL m = typical_size(hot, k), total = (REAL)hot.total[k], p = hot.price[k];
            Four rule = {};
#if LATE
            hot.drawn_part[k] = 0;
#endif
            if (m > 0) {
                const REAL moved = sqrt((REAL)moved2), buffer = caution * noise * sqrt(moved * m);
                const bool unmet = hot.infeasible[k];
                REAL feedback = (total + buffer) * rho / ((REAL)GAIN * moved * m);
                if (unmet) feedback = fmin(feedback, (REAL)0);
                const REAL passed = (REAL)(moved2 - hot.clock[k]);
                hot.clock[k] = moved2;
                REAL q = fmax(-p, hot.correction[k] + feedback * passed / ((REAL)CARRY * moved * m));
                if (unmet) q = fmin(q, (REAL)0);
                hot.correction[k] = q;
                const REAL price = fmax((REAL)0, p + q + feedback), start = (REAL)WALL * buffer;
                rule.v[0] = price;
                if (start > 0 && !unmet) {
                    rule.v[2] = 1 / start;
                    rule.v[1] = total * rule.v[2] + 1;
                    rule.v[3] = (REAL)0.5 * start * rho / m;
                }
#if LATE
                const REAL slack = start > 0 ? (total > 0 ? total : -total) * (REAL)WALL / start : (REAL)1;
                hot.drawn_part[k] = explore * (REAL)COST_DRAWS * fmin((REAL)1, fmax((REAL)LEAST_DRAWS, slack)) * price;
#endif
            }
            hot.rule[k] = rule;
        }
        lanes_meet();
#endif

        // A value for each action, and the lowest row among the highest.
        Normals normals(own_seed, t, CHOICE_SLOT);
        REAL best = (REAL)-3e38;
#if K_POLICY > 0 && GUARD && !LATE
        REAL least = (REAL)3e38;
#define EXCESS_OF(row, excess)                                             \
    REAL excess = 0;                                                       \
    for (int k = 0; k < K; k++) {                                          \
        const REAL m = typical_size(hot, k);                               \
        const double over = hot.total[k] + COST_OF(table, k, ACTION(c, row)); \
        if (over > 0 && m > 0) excess += (REAL)over / m;                   \
    }
        LANES_TAKE(row, n) {
            EXCESS_OF(row, excess)
            least = fmin(least, excess);
        }
        least = -largest_of_lanes(-least);
#endif
        LANES_TAKE(row, n) {
            REAL mean = reward_spread.centre + hot.above[row], sd = hot.value[row];
#if K_POLICY > 0
#if LATE
            REAL variance = sd * sd;
#endif
            for (int k = 0; k < K; k++) {
                const Four rule = hot.rule[k];
#if LATE
                const REAL w = hot.cost[row * K + k], part = hot.drawn_part[k] * hot.spread[row * K + k];
                variance += part * part;
#else
                const REAL w = COST_OF(table, k, ACTION(c, row));
#endif
                const REAL before = fmax((REAL)0, rule.v[1]), after = fmax((REAL)0, rule.v[1] + w * rule.v[2]);
                mean -= rule.v[0] * w + rule.v[3] * (after * after - before * before);
            }
#if LATE
            sd = sqrt(variance);
#endif
#endif
            REAL value = mean + sd * normals(row);
#if K_POLICY > 0 && GUARD && !LATE
            EXCESS_OF(row, excess)
            if (!(excess <= least + (REAL)TIE)) value = (REAL)-3e38;
#endif
            hot.value[row] = value;
            best = fmax(best, value);
        }
        best = largest_of_lanes(best);
        int lowest = J;
        LANES_TAKE(row, n) {
            if (lowest == J && hot.value[row] >= best - (REAL)TIE) lowest = row;
        }
        const int row = -largest_of_lanes(-lowest), a = ACTION(c, row);
        lanes_meet();

        const Reward entry = world.rewards[(size_t)c * J + a];
        const double reward = draw_reward(world, replication, t, reward_word, entry);
        reward_mean_total += entry.mean;
        reward_total += reward;
        if (lane == 0) hot.chosen[a]++;
        LANES_TAKE(k, K) {
            const double w = draw_cost(world, replication, t, table, a, k);
            hot.total[k] += w;
            if (hot.total[k] > VIOLATION) hot.last[k] = t;
#if SEPARATE_MEANS
            hot.mean_total[k] += world.cost_means[COST_ENTRY(table, a, k)];
#endif
#if LATE
            hot.moved[k] += w * w;
            hot.outcome[k] = (REAL)w;
#endif
        }

#if K_POLICY > 0
        // The round enters the memory, in place of another one where that is full.
        if (remembered < capacity) {
            if (lane == 0) remember(cold, remembered, twins[c]);
            remembered++;
        } else {
            const Words w = own_draw(own_seed, t, MEMORY_SLOT);
            if (w.a * TO_UNIT * t < FADE * capacity && lane == 0) remember(cold, (u32)(w.b * TO_UNIT * capacity), twins[c]);
        }
#endif

        // Learn.
        {
            // In this order equal rewards leave no error at all, which the noise is told by.
            const REAL y = (REAL)reward, error = (y - reward_spread.centre) - hot.above[row];
            const int block = BLOCKS > 1 ? a : 0;
            REAL x[QP];
            load_row<P>(rows, c, ROWS, a, per_unit, x);
            const REAL s =
                learn_row<Q, QP, 1>(hot.inverse + block * Q * QP, hot.theta + block * 2 * QP, hot.product, x, &y, lane);
            count_outcome(learnt, reward, error, s, CENTRED, reward_mean, reward_squares, reward_errors);
        }
#if LATE
        {
            const int block = COST_BLOCKS > 1 ? a : 0;
            REAL z[COST_QP];
            load_row<COST_P>(cost_rows, c, COST_ROWS, a, cost_per_unit, z);
            lanes_meet();
            const REAL s = learn_row<COST_Q, COST_QP, K>(hot.cost_inverse + block * COST_Q * COST_QP,
                                                         hot.cost_theta + block * (K + 1) * COST_QP, hot.cost_product, z,
                                                         hot.outcome, lane);
            LANES_TAKE(k, K) {
                const REAL y = hot.outcome[k];
                count_outcome(learnt, y, (y - COST_CENTRE(k)) - (hot.cost[row * K + k] - COST_CENTRE(k)), s, COST_CENTRED, hot.cost_mean[k], hot.cost_squares[k],
                              hot.cost_errors[k]);
            }
        }
#endif
        lanes_meet();

#if KEEP_CHOICES
        if (lane == 0) choices[((size_t)setting * rounds + t - 1) * replications + index] = (u16)a;
#endif
        if (t == next) {
            double* out = records + ((size_t)setting * points + point) * FIELDS * replications + index;
            if (lane == 0) {
                out[TALLY_MEAN_REWARD * (size_t)replications] = reward_mean_total;
                out[TALLY_REWARD * (size_t)replications] = reward_total;
            }
            LANES_TAKE(k, K) {
                out[(TALLY_COSTS + k) * (size_t)replications] = hot.total[k];
#if SEPARATE_MEANS
                out[(TALLY_MEAN_COSTS + k) * (size_t)replications] = hot.mean_total[k];
#endif
            }
            LANES_TAKE(j, J) out[(TALLY_CHOICES + j) * (size_t)replications] = hot.chosen[j];
            point++;
            next = point < points ? grid[point] : 0;
        }
    }
    LANES_TAKE(k, K) last_violation[((size_t)setting * K + k) * replications + index] = hot.last[k];
}
