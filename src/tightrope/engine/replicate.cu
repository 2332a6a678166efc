// Replications on a GPU: the loops of `tightrope.kernels` for one shape, whose sizes the host defines before compiling.
//
//   one_thread   small shapes: a thread is a replication; its models in shared memory, element by element side by side, so
//                that every thread reads its own bank whatever action it chose; queues and tallies in registers
//   one_block    large shapes: a block is a replication, its state in global memory
//   comparators  policies that look at neither features nor costs before acting: a thread is a replication
//
// Formulas are those of `tightrope.kernels`, and every place in an array comes from its `layout`. Schedules and radii depend on the
// round alone and come as a table. REAL is the type of what is estimated; queues and values of known costs are doubles, since ties
// among actions are part of the algorithm there, and so are all tallies.

#if K_POLICY > 0 && KNOWN_COSTS
typedef double QREAL;
#else
typedef REAL QREAL;
#endif

#define SLEEPS (-3e38)
#define RANDOM_KNOWN_COSTS (K_POLICY > 0 && KNOWN_COSTS && COST_KIND != FIXED)

// What a round's number decides, by setting: 1 / V_t, eps_t, and what multiplies the widths of the reward and of the costs.
struct alignas(4 * sizeof(QREAL)) Step {
    QREAL STEP_COLUMNS;
};

// max(0, Q + W + eps_t), in the precision of the queues.
template <typename Queue>
DEVICE Queue queue_update(Queue Q, Queue w, Queue eps) {
    const Queue moved = Q + w + eps;
    return moved > 0 ? moved : 0;
}

DEVICE REAL clip(REAL x, REAL low, REAL high) { return fmax(low, fmin(high, x)); }

DEVICE REAL root(REAL x) { return x > (REAL)0 ? sqrt(x) : (REAL)0; }

// ------------------------------------------------------------------------------------------------------- one thread
#if KERNEL == ONE_THREAD

// An entry of a triangle of N rows: a large one is read again by every pass, where the compiler would keep it in registers and
// spill.
template <int N>
DEVICE REAL entry_of(const REAL* A, int at) {
    if constexpr (TRIANGLE(N) > 64)
        return *(const volatile REAL*)(A + at);
    else
        return A[at];
}
#define AT(i, k) ((TRIANGLE(i) + (k)) * STRIDE)

struct alignas(16) Two {
    double v[2];
};

template <int N>
DEVICE void load_row(const REAL* row, REAL* x) {
    const Four* from = (const Four*)row;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const Four four = from[i / 4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < N) x[i + k] = four.v[k];
    }
}

// x'Ax of M rows at once from A's lower triangle, so that A is read once.
template <int N, int M>
DEVICE void quadratic_forms(const REAL* A, const REAL (&x)[M][N], REAL (&q)[M]) {
#pragma unroll
    for (int m = 0; m < M; m++) q[m] = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        REAL inner[M];
#pragma unroll
        for (int m = 0; m < M; m++) inner[m] = 0;
#pragma unroll
        for (int k = 0; k < i; k++) {
            const REAL a = entry_of<N>(A, AT(i, k));
#pragma unroll
            for (int m = 0; m < M; m++) inner[m] += a * x[m][k];
        }
        const REAL a = entry_of<N>(A, AT(i, i));
#pragma unroll
        for (int m = 0; m < M; m++) q[m] += x[m][i] * (a * x[m][i] + 2 * inner[m]);
    }
}

template <int N>
DEVICE REAL inner_product(const REAL* theta, const REAL* x) {
    REAL sum = 0;
#pragma unroll
    for (int i = 0; i < N; i++) sum += theta[i * STRIDE] * x[i];
    return sum;
}

// Sherman-Morrison on block A, and M outcomes into M rows of theta.
template <int N, int M>
DEVICE void ridge_learn(REAL* A, REAL* theta, const REAL* x, const REAL* y) {
    REAL u[N];
#pragma unroll
    for (int i = 0; i < N; i++) u[i] = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int k = 0; k < i; k++) {
            const REAL a = entry_of<N>(A, AT(i, k));
            u[i] += a * x[k];
            u[k] += a * x[i];
        }
        u[i] += entry_of<N>(A, AT(i, i)) * x[i];
    }
    REAL q = 0;
#pragma unroll
    for (int i = 0; i < N; i++) q += x[i] * u[i];
    const REAL s = 1 / (1 + q);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const REAL a = s * u[i];
#pragma unroll
        for (int k = 0; k <= i; k++) A[AT(i, k)] = entry_of<N>(A, AT(i, k)) - a * u[k];
    }
    for (int m = 0; m < M; m++) {
        REAL* row = theta + m * N * STRIDE;
        const REAL gain = s * (y[m] - inner_product<N>(row, x));
#pragma unroll
        for (int i = 0; i < N; i++) row[i * STRIDE] += gain * u[i];
    }
}

// use(j, x, width) for every action: MODELS matrices, one for all or one for each, and SHOWN rows, likewise.
template <int N, int MODELS, int SHOWN, typename Use>
DEVICE void with_widths(const REAL* A, const REAL* rows, u32 c, Use use) {
    if constexpr (MODELS > 1) {
        REAL x[1][N], q[1];
#pragma unroll
        for (int j = 0; j < J; j++) {
            if (j == 0 || SHOWN > 1) load_row<N>(rows + ((size_t)c * SHOWN + (SHOWN > 1 ? j : 0)) * PADDED(N), x[0]);
            quadratic_forms<N, 1>(A + j * TRIANGLE(N) * STRIDE, x, q);
            use(j, x[0], root(q[0]));
        }
    } else {
#pragma unroll
        for (int j = 0; j < J; j += TILE) {
            REAL x[TILE][N], q[TILE];
#pragma unroll
            for (int m = 0; m < TILE; m++)
                load_row<N>(rows + ((size_t)c * J + (j + m < J ? j + m : J - 1)) * PADDED(N), x[m]);
            quadratic_forms<N, TILE>(A, x, q);
#pragma unroll
            for (int m = 0; m < TILE; m++)
                if (j + m < J) use(j + m, x[m], root(q[m]));
                }
    }
}

// M outcomes of each arm: N, their sums, and what these give, mean and 1/sqrt(N).
template <int M>
struct Arms {
    REAL* const at;
    DEVICE_MEMBER explicit Arms(REAL* from) : at(from) {}
    DEVICE_MEMBER REAL& n(int j) const { return at[ARM_COUNT(j) * STRIDE]; }
    DEVICE_MEMBER REAL& spread(int j) const { return at[ARM_SPREAD(j) * STRIDE]; }
    DEVICE_MEMBER REAL& sum(int j, int m) const { return at[ARM_SUM(j, m, M) * STRIDE]; }
    DEVICE_MEMBER REAL& mean(int j, int m) const { return at[ARM_MEAN(j, m, M) * STRIDE]; }

    DEVICE_MEMBER REAL count(int j) const {
        const REAL pulls = n(j) + 1;
        n(j) = pulls;
        spread(j) = 1 / sqrt(pulls);
        return pulls;
    }
    DEVICE_MEMBER void learn(int j, const REAL* y, REAL pulls) const {
#pragma unroll
        for (int m = 0; m < M; m++) {
            const REAL gained = sum(j, m) + y[m];
            sum(j, m) = gained;
            mean(j, m) = gained / pulls;
        }
    }
};

#if SAME_COUNTS
#define COST_SPREAD(j) arms.spread(j)
#else
#define COST_SPREAD(j) cost_arms.spread(j)
#endif

#if KNOWN_COSTS && K_POLICY > 0 && COST_KIND == FIXED && COST_TABLES == 1
__constant__ double known_costs[J * K];
#endif

extern "C" __global__ void LAUNCH_BOUNDS one_thread(
    WORLD_ARGUMENTS, const REAL* RESTRICT rows, const REAL* RESTRICT cost_rows, const Step* RESTRICT steps,
    const REAL* RESTRICT start, const QREAL* RESTRICT start_queue, const REAL* RESTRICT ranges, u32 first,
    u32 replications, int rounds, const int* RESTRICT grid, int points, int blocks_a_setting, REAL* RESTRICT work,
    double* RESTRICT records, int* RESTRICT last_violation, u16* RESTRICT choices) {
    WORLD
    const int setting = blockIdx.x / blocks_a_setting;
    const u32 index = (blockIdx.x % blocks_a_setting) * blockDim.x + threadIdx.x;
    if (index >= replications) return;
    const u32 replication = first + index;
    steps += (size_t)setting * rounds;
    start += (size_t)setting * STATE;
    ranges += (size_t)setting * 2 * K_ROOM;

#if STATE_IN_SHARED
    SHARED_ROOM(REAL, shared);
    REAL* const state = shared + threadIdx.x;
#else
    REAL* const state = work + (size_t)blockIdx.x * STRIDE * STATE + threadIdx.x;
#endif
    for (int i = 0; i < STATE; i++) state[i * STRIDE] = start[i];

#if REWARD_MODEL == RIDGE_MODEL
    REAL* const A = state + REWARD_AT * STRIDE;
    REAL* const theta = state + REWARD_THETA_AT * STRIDE;
#else
    const Arms<1> arms(state + REWARD_AT * STRIDE);
#endif
#if COST_MODEL == RIDGE_MODEL
    REAL* const cost_A = state + COST_AT * STRIDE;
    REAL* const cost_theta = state + COST_THETA_AT * STRIDE;
#elif COST_MODEL == ARM_MODEL
    const Arms<K> cost_arms(state + COST_AT * STRIDE);
#endif
    QREAL Q[K_ROOM];
    double total[K_ROOM], reward_mean_total = 0, reward_total = 0;
#if SEPARATE_MEANS
    double mean_total[K_ROOM];
#endif
    int last[K_ROOM], count[J];
#if REWARD_KIND == BERNOULLI
    int successes = 0;
#endif
#pragma unroll
    for (int k = 0; k < K; k++) {
        Q[k] = K_POLICY > 0 ? start_queue[(size_t)setting * K + k] : (QREAL)0;
        total[k] = 0;
        last[k] = 0;
#if SEPARATE_MEANS
        mean_total[k] = 0;
#endif
    }
#pragma unroll
    for (int j = 0; j < J; j++) count[j] = 0;
#if RANDOM_KNOWN_COSTS
    double W[J][K];
#elif K_POLICY > 0 && !KNOWN_COSTS
    REAL W[J][K];
#endif

    int point = 0, next = grid[0];
    for (int t = 1; t <= rounds; t++) {
        const Words words = draw(replication, t, CONTEXT_SLOT);
        const u32 c = pick(world, words.a);
        const Step step = steps[t - 1];
        const u32 table = COST_TABLES > 1 ? world.cost_table[c] : 0;

        // r̂, or -inf where an action is not on offer.
        QREAL value[J];
#if REWARD_MODEL == RIDGE_MODEL
        {
            const REAL bonus = (REAL)step.reward_bonus;
            with_widths<P, BLOCKS, ROWS>(A, rows, c, [&](int j, const REAL* x, REAL width) {
                value[j] = CLIPPED_REWARD(inner_product<P>(theta + (BLOCKS > 1 ? j * P * STRIDE : 0), x) + bonus * width);
            });
        }
#else
#pragma unroll
        for (int j = 0; j < J; j++) {
            value[j] = CLIPPED_REWARD(arms.mean(j, 0) + (REAL)step.reward_bonus * arms.spread(j));
        }
#endif

#if K_POLICY > 0
        // W, or its estimate, and the penalty.
#if COST_MODEL == RIDGE_MODEL
        {
            const REAL bonus = (REAL)step.cost_bonus;
            with_widths<COST_P, COST_BLOCKS, COST_ROWS>(cost_A, cost_rows, c, [&](int j, const REAL* x, REAL width) {
                const REAL* mu = cost_theta + (COST_BLOCKS > 1 ? j * K * COST_P * STRIDE : 0);
                for (int k = 0; k < K; k++)
                    W[j][k] = clip(inner_product<COST_P>(mu + k * COST_P * STRIDE, x) - bonus * width, ranges[2 * k],
                                   ranges[2 * k + 1]);
            });
        }
#elif COST_MODEL == ARM_MODEL
#pragma unroll
        for (int j = 0; j < J; j++)
#pragma unroll
            for (int k = 0; k < K; k++)
                W[j][k] = clip(cost_arms.mean(j, k) - (REAL)step.cost_bonus * COST_SPREAD(j), ranges[2 * k], ranges[2 * k + 1]);
#elif RANDOM_KNOWN_COSTS
        for (int j = 0; j < J; j++)
            for (int k = 0; k < K; k++) W[j][k] = draw_cost(world, replication, t, table, j, k);
#endif
        QREAL price[K];
#pragma unroll
        for (int k = 0; k < K; k++) price[k] = K < J ? Q[k] * step.inverse_V : Q[k];
#pragma unroll
        for (int j = 0; j < J; j++) {
            QREAL penalty = 0;
#if RANDOM_KNOWN_COSTS || !KNOWN_COSTS
#pragma unroll
            for (int k = 0; k < K; k++) penalty += W[j][k] * price[k];
#elif COST_TABLES == 1
#pragma unroll
            for (int k = 0; k < K; k++) penalty += known_costs[j * K + k] * price[k];
#else
            const Two* row = (const Two*)(world.cost_means + COST_ENTRY(table, j, 0));
#pragma unroll
            for (int k = 0; k < K; k += 2) {
                const Two two = row[k / 2];
                penalty += two.v[0] * price[k];
                if (k + 1 < K) penalty += two.v[1] * price[k + 1 < K ? k + 1 : k];
            }
#endif
            value[j] -= K < J ? penalty : penalty * step.inverse_V;
        }
#endif

        // The lowest action whose value ties with the best.
        QREAL best = (QREAL)SLEEPS;
#pragma unroll
        for (int j = 0; j < J; j++) {
#if SLEEPING
            if (!world.available[(size_t)c * J + j]) value[j] = (QREAL)SLEEPS;
#endif
            best = value[j] > best ? value[j] : best;
        }
        const QREAL tied = TIED_WITH(QREAL, best);
        int a = 0;
#pragma unroll
        for (int j = J - 1; j >= 0; j--) a = value[j] >= tied ? j : a;

        const Reward entry = world.rewards[(size_t)c * J + a];
        const double reward = draw_reward(world, replication, t, words.b, entry);
#if C > 1
        reward_mean_total += entry.mean;
#endif
#if REWARD_KIND == BERNOULLI
        successes += words.b < entry.threshold;
#else
        reward_total += reward;
#endif
#if REWARD_MODEL == RIDGE_MODEL
#pragma unroll
        for (int j = 0; j < J; j++) count[j] += j == a;
#endif

        // Queues and tallies.
#if K > 0 && K_POLICY > 0 && KNOWN_COSTS
#pragma unroll
        for (int k = 0; k < K; k++) {
#if RANDOM_KNOWN_COSTS
            const double w = W[a][k];
#else
            const double w = world.cost_means[COST_ENTRY(table, a, k)];
#endif
            Q[k] = queue_update<QREAL>(Q[k], w, step.eps);
            total[k] += w;
            if (total[k] > VIOLATION) last[k] = t;
        }
#elif K > 0
        REAL drawn[K];
#pragma unroll
        for (int k = 0; k < K; k++) {
            const double w = draw_cost(world, replication, t, table, a, k);
            drawn[k] = (REAL)w;
            total[k] += w;
            if (total[k] > VIOLATION) last[k] = t;
#if SEPARATE_MEANS && C > 1
            mean_total[k] += world.cost_means[COST_ENTRY(table, a, k)];
#endif
        }
#if K_POLICY > 0
#pragma unroll
        for (int k = 0; k < K; k++) {
#if COST_MODEL == ARM_MODEL
            REAL w = W[0][k];
#pragma unroll
            for (int j = 1; j < J; j++) w = j == a ? W[j][k] : w;
#else
            const REAL w = W[a][k];
#endif
            Q[k] = queue_update<QREAL>(Q[k], w, step.eps);
        }
#endif
#endif

        // Learn.
        const REAL y = (REAL)reward;
#if REWARD_MODEL == RIDGE_MODEL
        {
            REAL x[P];
            load_row<P>(rows + ((size_t)c * ROWS + (ROWS > 1 ? a : 0)) * PADDED(P), x);
            const int g = BLOCKS > 1 ? a : 0;
            ridge_learn<P, 1>(A + g * TRIANGLE(P) * STRIDE, theta + g * P * STRIDE, x, &y);
        }
#else
        const REAL pulls = arms.count(a);
        arms.learn(a, &y, pulls);
#endif
#if COST_MODEL == RIDGE_MODEL
        {
            REAL x[COST_P];
            load_row<COST_P>(cost_rows + ((size_t)c * COST_ROWS + (COST_ROWS > 1 ? a : 0)) * PADDED(COST_P), x);
            const int g = COST_BLOCKS > 1 ? a : 0;
            ridge_learn<COST_P, K>(cost_A + g * TRIANGLE(COST_P) * STRIDE, cost_theta + g * K * COST_P * STRIDE, x, drawn);
        }
#elif COST_MODEL == ARM_MODEL
#if SAME_COUNTS
        cost_arms.learn(a, drawn, pulls);
#else
        cost_arms.learn(a, drawn, cost_arms.count(a));
#endif
#endif

#if KEEP_CHOICES
        choices[((size_t)setting * rounds + t - 1) * replications + index] = (u16)a;
#endif
        if (t == next) {
#if REWARD_MODEL == ARM_MODEL
#pragma unroll
            for (int j = 0; j < J; j++) count[j] = (int)(arms.n(j) - start[REWARD_AT + ARM_COUNT(j)]);
#endif
#if REWARD_KIND == BERNOULLI
            reward_total = successes;
#endif
#if C == 1
            // With one context the means follow from the counts.
            reward_mean_total = 0;
#pragma unroll
            for (int j = 0; j < J; j++) reward_mean_total += count[j] * world.rewards[j].mean;
#if SEPARATE_MEANS
#pragma unroll
            for (int k = 0; k < K; k++) {
                mean_total[k] = 0;
#pragma unroll
                for (int j = 0; j < J; j++) mean_total[k] += count[j] * world.cost_means[COST_ENTRY(0, j, k)];
            }
#endif
#endif
            double* out = records + ((size_t)setting * points + point) * FIELDS * replications + index;
            out[TALLY_MEAN_REWARD * (size_t)replications] = reward_mean_total;
            out[TALLY_REWARD * (size_t)replications] = reward_total;
#pragma unroll
            for (int k = 0; k < K; k++) out[(TALLY_COSTS + k) * (size_t)replications] = total[k];
#if SEPARATE_MEANS
#pragma unroll
            for (int k = 0; k < K; k++) out[(TALLY_MEAN_COSTS + k) * (size_t)replications] = mean_total[k];
#endif
#pragma unroll
            for (int j = 0; j < J; j++) out[(TALLY_CHOICES + j) * (size_t)replications] = count[j];
            point++;
            next = point < points ? grid[point] : 0;
        }
    }
#pragma unroll
    for (int k = 0; k < K; k++) last_violation[((size_t)setting * K + k) * replications + index] = last[k];
}
#endif

// -------------------------------------------------------------------------------------------------------- one block
#if KERNEL == ONE_BLOCK

DEVICE double warp_sum(double x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

DEVICE double warp_max(double x) {
    for (int step = 16; step > 0; step /= 2) {
        const double other = __shfl_xor_sync(0xffffffffu, x, step);
        x = other > x ? other : x;
    }
    return x;
}

// ‖x_m‖_A of M rows by one warp: lanes own columns, two at a time, so that no sum crosses lanes but the last. Rows are padded
// with zeros to a multiple of four.
template <int N, int M>
DEVICE void warp_widths(const REAL* A, const REAL* const (&x)[M], int lane, REAL (&width)[M]) {
    REAL q[M];
    for (int m = 0; m < M; m++) q[m] = 0;
    for (int at = 0; at < N; at += 64) {
        const int left = at + lane < N ? at + lane : N - 1, right = at + 32 + lane < N ? at + 32 + lane : N - 1;
        REAL u[M] = {}, v[M] = {};
        for (int i = 0; i < N; i += 4) {
            Four four[M];
#pragma unroll
            for (int m = 0; m < M; m++) four[m] = ((const Four*)x[m])[i / 4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int row = i + k < N ? i + k : N - 1;
                const REAL a = A[row * N + left], b = A[row * N + right];
#pragma unroll
                for (int m = 0; m < M; m++) {
                    u[m] += a * four[m].v[k];
                    v[m] += b * four[m].v[k];
                }
            }
        }
#pragma unroll
        for (int m = 0; m < M; m++) {
            if (at + lane < N) q[m] += u[m] * x[m][left];
            if (at + 32 + lane < N) q[m] += v[m] * x[m][right];
        }
    }
#pragma unroll
    for (int m = 0; m < M; m++) width[m] = root((REAL)warp_sum(q[m]));
}

template <int N>
DEVICE REAL warp_inner_product(const REAL* theta, const REAL* x, int lane) {
    REAL sum = 0;
    for (int i = lane; i < N; i += 32) sum += theta[i] * x[i];
    return (REAL)warp_sum(sum);
}

// All threads of the block; `u` is room for N numbers.
template <int N, int M>
DEVICE void block_learn(REAL* A, REAL* theta, REAL* u, const REAL* x, const REAL* y) {
    const int thread = threadIdx.x, threads = blockDim.x, lane = thread % 32;
    for (int k = thread; k < N; k += threads) {
        REAL sum = 0;
        for (int i = 0; i < N; i++) sum += A[i * N + k] * x[i];
        u[k] = sum;
    }
    __syncthreads();
    REAL q = 0;
    for (int i = lane; i < N; i += 32) q += x[i] * u[i];
    const REAL s = 1 / (1 + (REAL)warp_sum(q));
    for (int i = thread / 32; i < N; i += threads / 32) {
        // u_i u_k first: the two halves of A then stay equal to the bit, without which rounding errors grow.
        for (int k = lane; k < N; k += 32) A[i * N + k] -= s * (u[i] * u[k]);
    }
    for (int m = thread / 32; m < M; m += threads / 32) {
        REAL* row = theta + m * N;
        const REAL gain = s * (y[m] - warp_inner_product<N>(row, x, lane));
        for (int i = lane; i < N; i += 32) row[i] += gain * u[i];
    }
}

extern "C" __global__ void one_block(
    WORLD_ARGUMENTS, const REAL* RESTRICT rows, const REAL* RESTRICT cost_rows, const Step* RESTRICT steps,
    const REAL* RESTRICT start, const QREAL* RESTRICT start_queue, const REAL* RESTRICT ranges, u32 first,
    u32 replications, int rounds, const int* RESTRICT grid, int points, int blocks_a_setting, double* work,
    double* RESTRICT records, int* RESTRICT last_violation, u16* RESTRICT choices) {
    WORLD
    const int setting = blockIdx.x / blocks_a_setting;
    const u32 index = blockIdx.x % blocks_a_setting;
    const u32 replication = first + index;
    const int thread = threadIdx.x, threads = blockDim.x, lane = thread % 32, warp = thread / 32, warps = threads / 32;
    steps += (size_t)setting * rounds;
    start += (size_t)setting * STATE;
    ranges += (size_t)setting * 2 * K_ROOM;

    work += (size_t)blockIdx.x * WORK;
    double* const value = work + WORK_VALUES;
    double* const W = work + WORK_COSTS;
    double* const Q = work + WORK_QUEUE;
    double* const total = work + WORK_TOTALS;
    double* const mean_total = work + WORK_MEAN_TOTALS;
    double* const last = work + WORK_LAST_VIOLATION;
    double* const count = work + WORK_CHOICES;
    REAL* const state = (REAL*)(work + WORK_REALS);
    REAL* const u = state + REALS_PRODUCT;
    REAL* const drawn = state + REALS_DRAWN;
    for (int i = thread; i < STATE; i += threads) state[i] = start[i];
    for (int k = thread; k < K; k += threads) {
        Q[k] = K_POLICY > 0 ? (double)start_queue[(size_t)setting * K + k] : 0.0;
        total[k] = mean_total[k] = 0;
        last[k] = 0;
    }
    for (int j = thread; j < J; j += threads) count[j] = 0;
    __syncthreads();

    REAL* const reward_state = state + REWARD_AT;
    REAL* const cost_state = state + COST_AT;
    double reward_mean_total = 0, reward_total = 0;
    int point = 0, next = grid[0];
    for (int t = 1; t <= rounds; t++) {
        const Words words = draw(replication, t, CONTEXT_SLOT);
        const u32 c = pick(world, words.a);
        const Step step = steps[t - 1];
        const u32 table = COST_TABLES > 1 ? world.cost_table[c] : 0;

        for (int tile = warp * ACTION_TILE; tile < J; tile += warps * ACTION_TILE) {
#if REWARD_MODEL == RIDGE_MODEL
            const REAL* x[ACTION_TILE];
            REAL width[ACTION_TILE];
            for (int m = 0; m < ACTION_TILE; m++)
                x[m] = rows + ((size_t)c * ROWS + (ROWS > 1 ? (tile + m < J ? tile + m : J - 1) : 0)) * PADDED(P);
            warp_widths<P, ACTION_TILE>(reward_state + (BLOCKS > 1 ? tile : 0) * P * P, x, lane, width);
#endif
#if COST_MODEL == RIDGE_MODEL
            const REAL* psi[ACTION_TILE];
            REAL cost_width[ACTION_TILE];
            for (int m = 0; m < ACTION_TILE; m++)
                psi[m] = cost_rows +
                         ((size_t)c * COST_ROWS + (COST_ROWS > 1 ? (tile + m < J ? tile + m : J - 1) : 0)) * PADDED(COST_P);
            warp_widths<COST_P, ACTION_TILE>(cost_state + (COST_BLOCKS > 1 ? tile : 0) * COST_P * COST_P, psi, lane,
                                             cost_width);
#endif
#pragma unroll
            for (int m = 0; m < ACTION_TILE; m++) {
                const int j = tile + m;
                if (j >= J) break;
#if SLEEPING
                if (!world.available[(size_t)c * J + j]) {
                    if (lane == 0) value[j] = SLEEPS;
                    continue;
                }
#endif
                REAL guess;
#if REWARD_MODEL == RIDGE_MODEL
                guess = warp_inner_product<P>(state + REWARD_THETA_AT + (BLOCKS > 1 ? j : 0) * P, x[m], lane) +
                        (REAL)step.reward_bonus * width[m];
#else
                const REAL n = reward_state[ARM_COUNT(j)];
                guess = n > 0 ? reward_state[BLOCK_ARM_SUM(j, 0, 1)] / n + (REAL)step.reward_bonus / sqrt(n) : (REAL)1;
#endif
                double penalty = 0;
#if K_POLICY > 0
                for (int k = lane; k < K; k += 32) {
                    double w;
#if COST_MODEL == RIDGE_MODEL
                    const REAL* mu =
                        state + COST_THETA_AT + ((COST_BLOCKS > 1 ? j : 0) * K + k) * COST_P;
                    REAL estimate = 0;
                    for (int i = 0; i < COST_P; i++) estimate += mu[i] * psi[m][i];
                    w = clip(estimate - (REAL)step.cost_bonus * cost_width[m], ranges[2 * k], ranges[2 * k + 1]);
#elif COST_MODEL == ARM_MODEL
                    const REAL pulls = cost_state[ARM_COUNT(j)];
                    w = ranges[2 * k];
                    if (pulls > 0)
                        w = clip(cost_state[BLOCK_ARM_SUM(j, k, K)] / pulls - (REAL)step.cost_bonus / sqrt(pulls), ranges[2 * k],
                                 ranges[2 * k + 1]);
#else
                    w = draw_cost(world, replication, t, table, j, k);
#endif
                    W[j * K + k] = w;
                    penalty += w * Q[k];
                }
                penalty = warp_sum(penalty) * step.inverse_V;
#endif
                if (lane == 0) value[j] = CLIPPED_REWARD(guess) - penalty;
            }
        }
        __syncthreads();

        // Every warp finds the same action by itself.
        double best = SLEEPS;
        for (int j = lane; j < J; j += 32) best = value[j] > best ? value[j] : best;
        best = warp_max(best);
        int a = J;
        for (int j = lane; j < J && a == J; j += 32)
            if (value[j] >= TIED_WITH(double, best)) a = j;
        a = -(int)warp_max(-(double)a);

        const Reward entry = world.rewards[(size_t)c * J + a];
        const double reward = draw_reward(world, replication, t, words.b, entry);
        reward_mean_total += entry.mean;
        reward_total += reward;
        if (thread == 0) count[a] += 1;
        for (int k = thread; k < K; k += threads) {
            double w = K_POLICY > 0 ? W[a * K + k] : 0.0;
            if (K_POLICY > 0) Q[k] = queue_update<double>(Q[k], w, step.eps);
            if (!(K_POLICY > 0 && KNOWN_COSTS)) w = draw_cost(world, replication, t, table, a, k);
            drawn[k] = (REAL)w;
            total[k] += w;
            mean_total[k] += world.cost_means[COST_ENTRY(table, a, k)];
            if (total[k] > VIOLATION) last[k] = t;
        }
        __syncthreads();

        const REAL y = (REAL)reward;
#if REWARD_MODEL == RIDGE_MODEL
        {
            const int g = BLOCKS > 1 ? a : 0;
            block_learn<P, 1>(reward_state + g * P * P, state + REWARD_THETA_AT + g * P, u,
                              rows + ((size_t)c * ROWS + (ROWS > 1 ? a : 0)) * PADDED(P), &y);
        }
#else
        if (thread == 0) {
            reward_state[ARM_COUNT(a)] += 1;
            reward_state[BLOCK_ARM_SUM(a, 0, 1)] += y;
        }
#endif
#if COST_MODEL == RIDGE_MODEL
        {
            __syncthreads();
            const int g = COST_BLOCKS > 1 ? a : 0;
            block_learn<COST_P, K>(cost_state + g * COST_P * COST_P,
                                   state + COST_THETA_AT + g * K * COST_P, u,
                                   cost_rows + ((size_t)c * COST_ROWS + (COST_ROWS > 1 ? a : 0)) * PADDED(COST_P), drawn);
        }
#elif COST_MODEL == ARM_MODEL
        if (thread == 0) cost_state[ARM_COUNT(a)] += 1;
        for (int k = thread; k < K; k += threads) cost_state[BLOCK_ARM_SUM(a, k, K)] += drawn[k];
#endif
        if (KEEP_CHOICES && thread == 0)
            choices[((size_t)setting * rounds + t - 1) * replications + index] = (u16)a;
        if (t == next) {
            double* out = records + ((size_t)setting * points + point) * FIELDS * replications + index;
            for (int f = thread; f < FIELDS; f += threads) {
                out[(size_t)f * replications] = f == TALLY_MEAN_REWARD ? reward_mean_total
                                                : f == TALLY_REWARD    ? reward_total
                                                : f >= TALLY_CHOICES   ? count[f - TALLY_CHOICES]
                                                : f < TALLY_COSTS + K  ? total[f - TALLY_COSTS]
                                                                       : mean_total[f - TALLY_MEAN_COSTS];
            }
            point++;
            next = point < points ? grid[point] : 0;
        }
        __syncthreads();
    }
    for (int k = thread; k < K; k += threads)
        last_violation[((size_t)setting * K + k) * replications + index] = (int)last[k];
}
#endif

// ------------------------------------------------------------------------------------------------------ comparators
#if KERNEL == COMPARATORS

#define N_AT(j) state[ARM_COUNT(j) * STRIDE]
#define SUM_AT(j, i) state[BLOCK_ARM_SUM(j, i, 2) * STRIDE]

extern "C" __global__ void comparators(
    WORLD_ARGUMENTS, const u64* RESTRICT tables, const double* RESTRICT start, const double* RESTRICT settings,
    const u64* RESTRICT policy_seeds, const u64* RESTRICT made, u32 first, u32 replications, int rounds,
    const int* RESTRICT grid, int points, int blocks_a_setting, double* RESTRICT work, double* RESTRICT records,
    int* RESTRICT last_violation, u16* RESTRICT choices) {
    WORLD
    const int setting = blockIdx.x / blocks_a_setting;
    const u32 index = (blockIdx.x % blocks_a_setting) * blockDim.x + threadIdx.x;
    if (index >= replications) return;
    const u32 replication = first + index;
    start += (size_t)setting * STATE;
    settings += (size_t)setting * SETTINGS;
    tables += (size_t)setting * C * J;
    const u64 own_seed = policy_seeds[(size_t)setting * replications + index];
    double* const state = work + (size_t)blockIdx.x * STRIDE * STATE + threadIdx.x;
    for (int i = 0; i < STATE; i++) state[i * STRIDE] = start[i];
    double n_total = 1;
    for (int j = 0; j < J; j++) n_total += N_AT(j);
    double total[K_ROOM], mean_total[K_ROOM], reward_mean_total = 0, reward_total = 0;
    int last[K_ROOM];
    for (int k = 0; k < K; k++) {
        total[k] = mean_total[k] = 0;
        last[k] = 0;
    }
    int point = 0, next = grid[0];
    for (int t = 1; t <= rounds; t++) {
        const Words words = draw(replication, t, CONTEXT_SLOT);
        const u32 c = pick(world, words.a);
        const u32 table = COST_TABLES > 1 ? world.cost_table[c] : 0;
#if COMPARATOR != ROUND_ROBIN
        const u64 number = made[setting] + t - 1;
        const u64 own = own_draw(own_seed, number, 0).a;
#endif
        int a;
#if COMPARATOR == UNIFORM
        {
            int offered = J;
#if SLEEPING
            offered = 0;
            for (int j = 0; j < J; j++) offered += world.available[(size_t)c * J + j] != 0;
#endif
            int row = (int)((double)own * TO_UNIT * offered);
            row = row < offered - 1 ? row : offered - 1;
            a = row;
#if SLEEPING
            for (a = 0; row > 0 || !world.available[(size_t)c * J + a]; a++)
                row -= world.available[(size_t)c * J + a] != 0;
#endif
        }
#elif COMPARATOR == STATIC
        a = 0;
        while (a < J - 1 && tables[(size_t)c * J + a] <= own) a++;
#elif COMPARATOR == ROUND_ROBIN
        {
            a = -1;
            double behind = 0;
            for (int j = 0; j < J; j++) {
                if (SLEEPING && !world.available[(size_t)c * J + j]) continue;
                const double gap = settings[j] * n_total - N_AT(j);
                if (a < 0 || gap > behind + TIE) {
                    a = j;
                    behind = gap;
                }
            }
        }
#else
        {
            // OPB: `settings` are those of `kernels.opb_mixture`.
            double u_r[J], u_w[J];
            const int safe = (int)settings[OPB_THRESHOLD_ARM];
            for (int j = 0; j < J; j++) {
                const double pulls = N_AT(j), n = pulls > 1 ? pulls : 1.0, w = sqrt(settings[OPB_LOG] / n);
                u_r[j] = SUM_AT(j, 0) / n + settings[OPB_ALPHA_REWARD] * w;
                const double pessimistic = SUM_AT(j, 1) / n + settings[OPB_ALPHA_COST] * w;
                const double high = settings[OPB_HIGH];
                u_w[j] = j == safe ? settings[OPB_SAFE_COST] : pulls == 0 || pessimistic > high ? high : pessimistic;
            }
            int at_i = safe, at_j = safe;
            double weight = 0, best = u_r[safe];
            for (int i = 0; i < J; i++) {
                if (u_w[i] > 0) continue;
                if (TIED_WITH(double, u_r[i]) > best) {
                    best = u_r[i];
                    at_i = at_j = i;
                    weight = 0;
                }
                for (int j = 0; j < J; j++) {
                    if (!(u_w[j] > 0)) continue;
                    const double p = -u_w[i] / (u_w[j] - u_w[i]);
                    const double mixed = (1 - p) * u_r[i] + p * u_r[j];
                    if (TIED_WITH(double, mixed) > best) {
                        best = mixed;
                        at_i = i;
                        at_j = j;
                        weight = p;
                    }
                }
            }
            a = (double)own * TO_UNIT < weight ? at_j : at_i;
        }
#endif
        const Reward entry = world.rewards[(size_t)c * J + a];
        const double reward = draw_reward(world, replication, t, words.b, entry);
        reward_mean_total += entry.mean;
        reward_total += reward;
        N_AT(a) += 1;
        n_total += 1;
        for (int k = 0; k < K; k++) {
            const double w = draw_cost(world, replication, t, table, a, k);
            total[k] += w;
            mean_total[k] += world.cost_means[COST_ENTRY(table, a, k)];
            if (total[k] > VIOLATION) last[k] = t;
#if COMPARATOR == OPB
            SUM_AT(a, 1) += w;
#endif
        }
#if COMPARATOR == OPB
        SUM_AT(a, 0) += reward;
#endif
#if KEEP_CHOICES
        choices[((size_t)setting * rounds + t - 1) * replications + index] = (u16)a;
#endif
        if (t == next) {
            double* out = records + ((size_t)setting * points + point) * FIELDS * replications + index;
            out[TALLY_MEAN_REWARD * (size_t)replications] = reward_mean_total;
            out[TALLY_REWARD * (size_t)replications] = reward_total;
            for (int k = 0; k < K; k++) out[(TALLY_COSTS + k) * (size_t)replications] = total[k];
            if (SEPARATE_MEANS)
                for (int k = 0; k < K; k++) out[(TALLY_MEAN_COSTS + k) * (size_t)replications] = mean_total[k];
            for (int j = 0; j < J; j++) out[(TALLY_CHOICES + j) * (size_t)replications] = N_AT(j) - start[ARM_COUNT(j)];
            point++;
            next = point < points ? grid[point] : 0;
        }
    }
    for (int k = 0; k < K; k++) last_violation[((size_t)setting * K + k) * replications + index] = last[k];
}
#endif
