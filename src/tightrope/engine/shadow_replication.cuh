// One replication of the shadow-price policy on a GPU: the lanes that share it, its memory, its models and its draws.

#define Q (P + 1)
#define QP PADDED(Q)
#define COST_Q (COST_P + 1)
#define COST_QP PADDED(COST_Q)
#define J_ROOM PADDED(J)
#define K_LANES ((K + LANES - 1) / LANES)
#define PAIRS (J * (J - 1) / 2)
// Rows less likely than this are left out of sums; what single precision can't tell is left out too.
#define UNLIKELY (REAL)(sizeof(REAL) == 4 ? 1e-9 : NEGLIGIBLE)
#define NORMALS (1 + LATE * K)
#define DRAWN_PART (BLOCKS > 1 ? DRAWN : DRAWN_OF_ONE)
// Bounds of extreme numbers. Single precision has squares and reciprocals of fewer numbers than double precision has.
#define LEAST_RHO_UNIT (sizeof(REAL) == 4 ? 1e-30 : SMALLEST)
#define LARGEST_FEATURE (REAL)(sizeof(REAL) == 4 ? 1e6 : LARGEST_RATIO)
#define FARTHEST (REAL)(sizeof(REAL) == 4 ? 1e12 : MOST_STEPS)
#define ROUNDED_ABOVE (REAL)(sizeof(REAL) == 4 ? 1e-6 : BARELY)
#define WITHIN(bound, x) fmax(-(bound), fmin((bound), (x)))
#define HIGHEST (REAL)(sizeof(REAL) == 4 ? 3e38 : 1e308)

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

// ---------------------------------------------------------------------------------------------------------- exact sums

#define GUARDED (K_POLICY > 0 && GUARD && !LATE)
#define BLOCKED (K_POLICY > 0 && !GUARD && !LATE)

#if GUARDED
struct Sum {
    double total, rest;
};

DEVICE Sum two_sum(double a, double b) {
    const double s = a + b, c = s - a;
    return {s, (a - (s - c)) + (b - c)};
}

DEVICE Sum total_after(double total, double rest, double cost) {
    const Sum sum = two_sum(total, cost), low = two_sum(rest, sum.rest);
    return two_sum(sum.total, low.rest > 0 ? nextafter(low.total, 1e308) : low.total);
}
#endif

// ------------------------------------------------------------------------------------------------------------- memory

struct Hot {
    double total[K_ROOM];
#if GUARDED
    // The same sum, never below the exact one: see `kernels/exact_sums.py`
    double exact[K], rest[K];
#endif
#if SEPARATE_MEANS
    double mean_total[K_ROOM];
#endif
#if K_POLICY > 0
    // Σ mean size, Σ mean square size, and what `moved²` was when the correction last moved
    double size[K], square[K], clock[K];
#endif
#if LATE
    double moved[K], cost_mean[K], cost_squares[K], cost_errors[K];
    double cost_row_squares[COST_P + 1], cost_row_sums[COST_P + 1];
#endif
    double row_squares[P + 1], row_sums[P + 1];
    alignas(4 * sizeof(REAL)) REAL inverse[BLOCKS * Q * QP];
    REAL theta[BLOCKS * 2 * QP];
    REAL product[2 * QP];
    REAL per_unit[BLOCKS * QP], shift[BLOCKS * QP], drawn[BLOCKS];
    REAL above[J_ROOM], value[J_ROOM], mean[J_ROOM];
#if K_POLICY > 0
    // By rule: λ, T/z + 1, 1/z, and ½ z ρ/m, which multiplies the wall
    Four rule[K];
    REAL price[K], correction[K];
    // Where the total is steered to, its present rise, and the highest of this window of rounds and of the one before
    REAL target[K], rise[K], highest[K], earlier[K];
    // A solve: K numbers each, then the curvature
    REAL solved[K], point[K], step[K], gradient[K], mean_square[K], cap[K], scale[K];
    REAL curvature[K * K];
#if COMMON_COSTS
    REAL share[J], pair[PAIRS + 1];
#else
    REAL cost_sum[K], square_sum[K], likely[LIKELY_ROWS * K];
#endif
#endif
#if LATE
    alignas(4 * sizeof(REAL)) REAL cost_inverse[COST_BLOCKS * COST_Q * COST_QP];
    REAL cost_theta[COST_BLOCKS * (K + 1) * COST_QP];
    REAL cost_product[2 * COST_QP];
    REAL cost_per_unit[COST_BLOCKS * COST_QP], cost_shift[COST_BLOCKS * COST_QP];
    REAL cost[J * K], spread[J * K], whole[J], hidden[J];
    REAL noise[K], signal[K], drawn_part[K], outcome[K];
#endif
    int last[K_ROOM], chosen[J];
    int learnt[BLOCKS], renewal[BLOCKS];
#if LATE
    int cost_learnt[COST_BLOCKS], cost_renewal[COST_BLOCKS];
#endif
#if BLOCKED
    // Whether a row leads a total above zero
    int barred[J];
#endif
#if K_POLICY > 0
    int infeasible[K];
#endif
};
static_assert(sizeof(Hot) <= HOT, "the host's sum of a replication's shared memory is too small");

// Slots hold entries, entries contexts; `used` entries were ever in use, `holes` of which are free. `moments` are the sums of the look
// ahead, over all rows and over those where the estimates choose each block, `work` is room for a matrix.
struct Cold {
    alignas(4 * sizeof(REAL)) REAL moments[(BLOCKS + 1) * Q * QP];
    REAL work[Q * QP];
#if K_POLICY > 0
    REAL rewards[ENTRIES * J];
#if !COMMON_COSTS
    REAL likelihood[ENTRIES * J];
#endif
#if LATE
    REAL costs[(size_t)ENTRIES * J * K];
#endif
    u32 slots[CAPACITY];
    u32 contexts[ENTRIES], counts[ENTRIES], entry_of[C];
    u32 used, holes;
    u32 sample_contexts[ENTRIES], sample_weights[ENTRIES], sample_offsets[ENTRIES + 1];
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

DEVICE Spread spread_of(double n, double weight, double mean, double squares, double errors, REAL prior, bool centred) {
    Spread out = {1, 1, centred ? (REAL)mean : (REAL)0};
    const REAL learnt = (REAL)n, declared = prior * prior, observations = (REAL)(weight + 1.0);
    if (prior > 0) {
        out.noise = (declared + (REAL)errors) / observations;
        out.signal = fmax(out.noise, (declared + (REAL)squares) / (learnt + 1));
    } else if (n > 0) {
        const REAL signal = (REAL)squares / learnt, noise = (signal + (REAL)errors) / observations;
        // Equal outcomes tell nothing of their noise but the unit; what is left of it then is rounding, which is coarser in single precision.
        const REAL least = sizeof(REAL) == 4 ? (REAL)1e-11 : (REAL)ROUNDING, size = (REAL)(mean * mean);
        if (noise > least * (size + signal)) {
            out.noise = noise;
            out.signal = fmax(noise, signal);
        } else if (size > 0) {
            out.noise = out.signal = size;
        }
    }
    return out;
}

// What rows of a model are multiplied with: by block and feature 1/unit, 0 where there is none yet, then the unit of all rows that were
// learnt, or the one that the feature would have if it were learnt now. And what is added then.
struct Units {
    const REAL *per_unit, *shift;
    const double* squares;
    double learnt;
};

// The features of an action in context c, in the user's units.
template <int N>
DEVICE const REAL* row_of(const REAL* rows, u32 c, int shown, int action) {
    return rows + ((size_t)c * shown + (shown > 1 ? action : 0)) * PADDED(N);
}

// The constant that is appended to N features.
DEVICE REAL constant_of(int N) {
    return N > 0 ? (REAL)CONSTANT : (REAL)1;
}

// A row of N features in the units of a block, with the constant and zeros up to PADDED(N + 1).
template <int N>
DEVICE void load_row(const REAL* row, const Units& units, int block, REAL* x) {
    const Four* from = (const Four*)row;
    const REAL *per_unit = units.per_unit + block * PADDED(N + 1), *shift = units.shift + block * PADDED(N + 1);
#pragma unroll
    for (int i = 0; i < PADDED(N + 1); i += 4) {
        Four four = {};
        if (i < N) four = from[i / 4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            REAL scale = i + k < N ? per_unit[i + k] : (REAL)0;
            if (i + k < N && scale == 0 && four.v[k] != 0) {
                const double squares = units.squares[i + k];
                scale = (REAL)(squares > 0 ? sqrt(units.learnt / squares) : sqrt(units.learnt + 1) / fabs((double)four.v[k]));
            }
            x[i + k] = i + k < N ? WITHIN(LARGEST_FEATURE, four.v[k] * scale + shift[i + k]) : i + k == N ? constant_of(N) : (REAL)0;
        }
    }
}

// A row that a block is about to learn, number n of all: its sums, and units of features that the block has not learnt before.
template <int N>
DEVICE void note_row(const REAL* row, double n, REAL* per_unit, double* squares, double* sums, int lane) {
    LANES_TAKE(i, N) {
        if (row[i] != 0) {
            squares[i] += (double)row[i] * row[i];
            sums[i] += row[i];
            if (per_unit[i] == 0) per_unit[i] = (REAL)sqrt(n / squares[i]);
        }
    }
    lanes_meet();
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
    const REAL over = fmax((REAL)1, whole / (REAL)WIDEST);
    whole /= over;
    hidden /= over;
}

DEVICE REAL deviation(REAL noise, REAL signal, REAL whole, REAL hidden) {
    REAL unknown = whole > 0 ? hidden / whole : (REAL)0;
    unknown *= unknown;
    return sqrt(whole * (noise + (signal - noise) * unknown * unknown));
}

// What predictions need beside the models: of the rewards their spread, and the units of the rows.
struct Beliefs {
    Spread reward;
    REAL explore;
    Units units, cost_units;
};

// By how much a reward's mean is above its centre, the standard deviation that it is drawn with, and u², the part that is unknown here.
DEVICE void predict_reward(const Hot& hot, int action, const REAL* x, const Spread& s, REAL& above, REAL& sd, REAL& unknown) {
    const int block = BLOCKS > 1 ? action : 0;
    REAL whole, hidden;
    uncertainty<Q, QP>(hot.inverse + block * Q * QP, x, (REAL)RIDGE, whole, hidden);
    const REAL* theta = hot.theta + block * 2 * QP;
    above = inner_product<QP>(theta, x) - s.centre * inner_product<QP>(theta + QP, x);
    sd = (hot.learnt[block] > 0 ? hot.drawn[block] : (REAL)1) * deviation(s.noise, s.signal, whole, hidden);
    unknown = whole > 0 ? hidden / whole : (REAL)0;
    unknown *= unknown;
}

// What to expect of an action that was never tried where others stand out: see `kernels/rare.py`. `most` is how far the mean of any
// is from the centre.
#define LIKENS (BLOCKS > 1 && P > 0)
struct Known {
    REAL weight, above, square;
    DEVICE_MEMBER Known() : weight(0), above(0), square(0) {}
    DEVICE_MEMBER void add(REAL its_above, REAL unknown) {
        weight += 1 - unknown;
        above += (1 - unknown) * its_above;
        square += (1 - unknown) * (its_above * its_above);
    }
    DEVICE_MEMBER bool stand_out(const Spread& s) const { return square > (REAL)(FAR * FAR) * s.signal * weight; }
    DEVICE_MEMBER void liken(REAL unknown, REAL& its_above, REAL& sd, REAL explore) const {
        its_above += unknown * (above / weight - its_above);
        sd = sqrt(sd * sd + explore * explore * (unknown * (square / weight)));
    }
};

DEVICE bool stands_out(REAL most, const Spread& s) { return most * most > (REAL)(FAR * FAR) * s.signal; }

#if LATE
// The same for the costs: first what all of them share, then the mean of cost k.
DEVICE void predict_costs(const Hot& hot, int action, const REAL* x, REAL& whole, REAL& hidden) {
    const int block = COST_BLOCKS > 1 ? action : 0;
    uncertainty<COST_Q, COST_QP>(hot.cost_inverse + block * COST_Q * COST_QP, x, (REAL)COST_RIDGE, whole, hidden);
}

DEVICE REAL mean_cost(const Hot& hot, int action, const REAL* x, int k) {
    const REAL* theta = hot.cost_theta + (COST_BLOCKS > 1 ? action : 0) * (K + 1) * COST_QP;
    const REAL above = inner_product<COST_QP>(theta + k * COST_QP, x);
    if (!COST_CENTRED) return above;
    const REAL centre = (REAL)hot.cost_mean[k];
    return centre + above - centre * inner_product<COST_QP>(theta + K * COST_QP, x);
}
#endif

// Sherman-Morrison by all lanes, M outcomes and the constant 1 into M + 1 rows of theta; the row's leverage xᵀΣ⁻¹x before that.
// A row by which Σ⁻¹ would no longer be positive is too large for the digits there are, and is left out.
template <int N, int NP, int M>
DEVICE REAL learn_row(REAL* A, REAL* theta, REAL* u, const REAL* x, const REAL* y, int lane) {
    LANES_TAKE(i, NP) u[i] = i < N ? inner_product<NP>(A + i * NP, x) : (REAL)0;
    lanes_meet();
    const REAL leverage = fmax((REAL)0, inner_product<NP>(u, x)), s = 1 / (1 + leverage);
    int lost = 0;
    LANES_TAKE(i, N) lost |= !(A[i * NP + i] > s * (u[i] * u[i]));
    if (largest_of_lanes(lost)) return leverage;
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
    return leverage;
}

// How much the error of an outcome counts for, by the leverage of its row.
DEVICE REAL error_weight(REAL leverage) { return sqrt(2 * leverage / (1 + leverage)); }


// One outcome into the running mean, the squares about it and the errors; `error` is that of its prediction.
DEVICE void count_outcome(double n, double y, REAL error, REAL leverage, bool centred, double& mean, double& squares,
                          double& errors) {
    if (n > 0 || !centred) errors += error_weight(leverage) * error * error / (1 + leverage);
    const double delta = y - (centred ? mean : 0.0);
    mean += (REAL)(y - mean) / (REAL)(n + 1);
    squares += delta * (y - (centred ? mean : 0.0));
}

// The inverse of a symmetric positive definite matrix in its place, by all lanes (Gauss-Jordan); its two halves equal to the bit.
template <int N, int NP>
DEVICE void invert_in_place(REAL* A, int lane) {
    for (int k = 0; k < N; k++) {
        const REAL pivot = 1 / A[k * NP + k];
        lanes_meet();
        LANES_TAKE(i, N) {
            if (i == k) continue;
            const REAL factor = A[i * NP + k] * pivot;
            for (int j = 0; j < N; j++)
                if (j != k) A[i * NP + j] -= factor * A[k * NP + j];
            A[i * NP + k] = -factor;
        }
        lanes_meet();
        LANES_TAKE(j, N) A[k * NP + j] = j == k ? pivot : A[k * NP + j] * pivot;
        lanes_meet();
    }
    LANES_TAKE(i, N) {
        for (int j = 0; j < i; j++) A[j * NP + i] = A[i * NP + j];
    }
    lanes_meet();
}

// M + 1 rows of theta become A times themselves.
template <int N, int NP, int M>
DEVICE void multiply_rows(const REAL* A, REAL* theta, int lane) {
    LANES_TAKE(m, M + 1) {
        REAL* row = theta + m * NP;
        REAL out[NP] = {};
        for (int i = 0; i < N; i++) out[i] = inner_product<NP>(A + i * NP, row);
        for (int i = 0; i < NP; i++) row[i] = out[i];
    }
    lanes_meet();
}

// One block, of which n rows were learnt by all: where it has learnt enough, Sigma and b for features of mean 0 and standard deviation 1,
// with the ridge as it was in the units before, and the inverse and theta from them. `factor` has room for 2 NP numbers.
template <int N, int NP, int M>
DEVICE void renew_units(REAL* A, REAL* theta, REAL* factor, REAL* per_unit, REAL* shift, const double* squares, const double* sums,
                        double n, REAL ridge, int& learnt, int& renewal, int lane) {
    const int rows = learnt + 1, last = N - 1;
    const bool due = N > 1 && rows >= renewal;
    lanes_meet();
    if (lane == 0) {
        learnt = rows;
        if (due) renewal = (int)floor(UNITS_GROWTH * rows) + 1;
    }
    if (!due) return;
    // What a feature was becomes factor * feature + term * constant.
    REAL* const term = factor + NP;
    LANES_TAKE(i, NP) {
        factor[i] = i < N ? (REAL)1 : (REAL)0;
        term[i] = 0;
        if (i < last && per_unit[i] > 0) {
            const double square = squares[i] / n, mean = sums[i] / n, variance = square - mean * mean;
            const double scale = 1 / sqrt(variance > UNVARIED * square ? variance : square);
            factor[i] = (REAL)(scale / per_unit[i]);
            term[i] = (REAL)((-mean * scale - scale / per_unit[i] * shift[i]) / constant_of(last));
            per_unit[i] = (REAL)scale;
            shift[i] = (REAL)(-mean * scale);
        }
    }
    invert_in_place<N, NP>(A, lane);
    multiply_rows<N, NP, M>(A, theta, lane);
    LANES_TAKE(item, (M + 1) * last) {
        REAL* const b = theta + item / last * NP;
        b[item % last] = factor[item % last] * b[item % last] + term[item % last] * b[last];
    }
    const REAL corner = A[last * NP + last] - ridge;
    LANES_TAKE(i, last) {
        const REAL edge = A[i * NP + last];
        for (int k = 0; k < last; k++) {
            const REAL own = i == k ? ridge : (REAL)0;
            const REAL column = factor[k] * (A[i * NP + k] - own) + term[k] * edge;
            const REAL corner_column = factor[k] * A[last * NP + k] + term[k] * corner;
            A[i * NP + k] = factor[i] * column + term[i] * corner_column + own;
        }
        A[i * NP + last] = factor[i] * edge + term[i] * corner;
    }
    lanes_meet();
    LANES_TAKE(k, last) A[last * NP + k] = factor[k] * A[last * NP + k] + term[k] * corner;
    lanes_meet();
    invert_in_place<N, NP>(A, lane);
    multiply_rows<N, NP, M>(A, theta, lane);
}

// ------------------------------------------------------------------------------------------------------ the look ahead

// weight * xx', x with the constant, into a matrix.
DEVICE void add_row(REAL* out, const REAL* row, REAL weight, int lane) {
    LANES_TAKE(i, Q) {
        const REAL left = weight * (i < P ? row[i] : (REAL)1);
        for (int k = 0; k < P; k++) out[i * QP + k] += left * row[k];
        out[i * QP + P] += left;
    }
}

// Entry (i, k) of a sum of xx', x with the constant last, times weight, in units: scales, then what is added.
DEVICE REAL in_units(const REAL* sums, const REAL* scale, const REAL* shift, REAL weight, int i, int k) {
    const REAL one = scale[k] * sums[i * QP + k] + shift[k] * sums[i * QP + P];
    const REAL other = scale[k] * sums[P * QP + k] + shift[k] * sums[P * QP + P];
    return weight * (scale[i] * one + shift[i] * other);
}

// e of a block after t rounds: the part of its deviation that would be left.
DEVICE REAL part_left(Hot& hot, Cold& cold, const Units& units, int block, double t, int lane) {
    if (hot.learnt[block] == 0) return 1;
    const REAL *A = hot.inverse + block * Q * QP, *all = cold.moments, *chosen = cold.moments + (1 + block) * Q * QP;
    const REAL* per_unit = hot.per_unit + block * QP;
    const REAL of_all = (REAL)(2 / (t * (t + 1))), ahead = (REAL)(LOOK * t);
    REAL *const scale = hot.product, *const shift = hot.product + QP;
    LANES_TAKE(i, Q) {
        REAL own = i < P ? per_unit[i] : constant_of(P);
        if (i < P && own == 0 && units.squares[i] > 0) own = (REAL)sqrt(units.learnt / units.squares[i]);
        scale[i] = own;
        shift[i] = i < P ? units.shift[block * QP + i] : (REAL)0;
    }
    LANES_TAKE(i, Q * QP) cold.work[i] = A[i];
    lanes_meet();
    invert_in_place<Q, QP>(cold.work, lane);
    REAL now = 0, left = 0;
    LANES_TAKE(i, Q) {
        for (int k = 0; k < Q; k++) {
            now += A[i * QP + k] * in_units(all, scale, shift, of_all, i, k);
            cold.work[i * QP + k] += ahead * in_units(chosen, scale, shift, of_all, i, k);
        }
    }
    lanes_meet();
    invert_in_place<Q, QP>(cold.work, lane);
    LANES_TAKE(i, Q) {
        for (int k = 0; k < Q; k++) left += cold.work[i * QP + k] * in_units(all, scale, shift, of_all, i, k);
    }
    now = sum_of_lanes(now);
    left = sum_of_lanes(left);
    lanes_meet();
    return now > 0 ? sqrt(fmin((REAL)1, fmax((REAL)0, left / now))) : (REAL)1;
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
