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
    const REAL caution = (REAL)settings[SETTINGS_CAUTION], prior = (REAL)settings[SETTINGS_PRIORS];

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
    LANES_TAKE(i, BLOCKS) {
        hot.drawn[i] = (REAL)DRAWN_PART;
        hot.renewal[i] = 2;
    }
#if LATE
    LANES_TAKE(i, COST_BLOCKS * COST_Q) hot.cost_inverse[i * COST_QP + i % COST_Q] = 1 / (REAL)COST_RIDGE;
    LANES_TAKE(i, COST_BLOCKS) hot.cost_renewal[i] = 2;
    const Units cost_units = {hot.cost_per_unit, hot.cost_shift, hot.cost_row_squares, 0};
#else
    const Units cost_units = {};
#endif
    Beliefs beliefs = {{1, 1, 0}, (REAL)settings[SETTINGS_EXPLORE], {hot.per_unit, hot.shift, hot.row_squares, 0}, cost_units};
    Cold& cold = *(Cold*)own;
    LANES_TAKE(i, (BLOCKS + 1) * Q * QP) cold.moments[i] = 0;
    int next_look = (int)FIRST_LOOK;
    double reward_mean = 0, reward_squares = 0, reward_errors = 0, reward_mean_total = 0, reward_total = 0;
    double error_weights = 0, cost_error_weights = 0;
#if K_POLICY > 0
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
        beliefs.units.learnt = beliefs.cost_units.learnt = learnt;
#if K_POLICY > 0
        if (t == 1) {
            const u32 most = MOST_NUMBERS / (n * (1 + K));
            capacity = most > LEAST_CAPACITY ? most : LEAST_CAPACITY;
            capacity = capacity < MEMORY ? capacity : MEMORY;
        }
#endif
        beliefs.reward = spread_of(learnt, error_weights, reward_mean, reward_squares, reward_errors, prior, CENTRED);
#if LATE
        LANES_TAKE(k, K) {
            const Spread s = spread_of(learnt, cost_error_weights, hot.cost_mean[k], hot.cost_squares[k], hot.cost_errors[k],
                                       (REAL)settings[SETTINGS_PRIORS + 1 + k], COST_CENTRED);
            hot.noise[k] = s.noise;
            hot.signal[k] = s.signal;
        }
        lanes_meet();
#endif

#if K_POLICY > 0
        // A solve: where it is time, and as far as a decision may wait for it.
        if (t >= next_solve && remembered > 0) {
            sample = begin_sample(cold, offers, t, lane);
            next_solve = 2 * t;
        }
        if (sample.rounds > 0) work_on_prices(hot, cold, world, offers, beliefs, own_seed, t, sample, rho, lane);
#endif

        // Rewards, and the costs that are seen after acting.
        LANES_TAKE(row, n) {
            const int a = ACTION(c, row);
            REAL x[QP], sd;
            load_row<P>(row_of<P>(rows, c, ROWS, a), beliefs.units, BLOCKS > 1 ? a : 0, x);
            predict_reward(hot, a, x, beliefs.reward, hot.above[row], sd, hot.mean[row]);
            hot.value[row] = beliefs.explore * sd;
#if LATE
            REAL z[COST_QP];
            load_row<COST_P>(row_of<COST_P>(cost_rows, c, COST_ROWS, a), beliefs.cost_units, COST_BLOCKS > 1 ? a : 0, z);
            predict_costs(hot, a, z, hot.whole[row], hot.hidden[row]);
#endif
        }
#if LIKENS
        // hot.mean has the part of each action that is unknown here, and then by how much its mean is expected to be above the centre.
        REAL most = 0;
        LANES_TAKE(row, n) most = fmax(most, fabs(hot.above[row]));
        bool likens = stands_out(largest_of_lanes(most), beliefs.reward);
        Known known;
        if (likens) {
            lanes_meet();
            for (int row = 0; row < n; row++) known.add(hot.above[row], hot.mean[row]);
            likens = known.stand_out(beliefs.reward);
            lanes_meet();
        }
        LANES_TAKE(row, n) {
            const REAL unknown = hot.mean[row];
            hot.mean[row] = hot.above[row];
            if (likens) known.liken(unknown, hot.mean[row], hot.value[row], beliefs.explore);
        }
#define EXPECTED_ABOVE(row) hot.mean[row]
#else
#define EXPECTED_ABOVE(row) hot.above[row]
#endif
#if LATE
        lanes_meet();
        LANES_TAKE(item, n * K) {
            const int row = item / K, k = item % K, a = ACTION(c, row);
            REAL z[COST_QP];
            load_row<COST_P>(row_of<COST_P>(cost_rows, c, COST_ROWS, a), beliefs.cost_units, COST_BLOCKS > 1 ? a : 0, z);
            hot.cost[item] = mean_cost(hot, a, z, k);
            hot.spread[item] = deviation(hot.noise[k], hot.signal[k], hot.whole[row], hot.hidden[row]);
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
                const REAL moved = sqrt((REAL)moved2), highest = fmax(hot.highest[k], hot.earlier[k]);
                const REAL buffer = fmax(caution * noise * sqrt(moved * m), (REAL)RISES * caution * highest);
                hot.target[k] = -buffer;
                const bool unmet = hot.infeasible[k];
                REAL feedback = (total + buffer) * rho / ((REAL)GAIN * moved * m);
                feedback = WITHIN(FARTHEST * rho / m, feedback);
                if (unmet) feedback = fmin(feedback, (REAL)0);
                const REAL passed = (REAL)(moved2 - hot.clock[k]);
                hot.clock[k] = moved2;
                REAL q = fmax(-p, hot.correction[k] + feedback * passed / ((REAL)CARRY * moved * m));
                if (unmet) q = fmin(q, (REAL)0);
                hot.correction[k] = q;
                const REAL price = fmax((REAL)0, p + q + feedback), start = (REAL)WALL * buffer;
                rule.v[0] = price;
                if (start > 0) {
                    rule.v[2] = 1 / start;
                    rule.v[1] = total * rule.v[2] + 1;
                    rule.v[3] = unmet ? (REAL)0 : (REAL)0.5 * start * rho / m;
                }
#if LATE
                const REAL slack = start > 0 ? (total > 0 ? total : -total) * (REAL)WALL / start : (REAL)1;
                hot.drawn_part[k] = beliefs.explore * (REAL)COST_DRAWS * fmin((REAL)1, fmax((REAL)LEAST_DRAWS, slack)) * price;
#endif
            }
            hot.rule[k] = rule;
        }
        lanes_meet();
#endif

        // A value for each action, and the lowest row among the highest.
        Normals normals(own_seed, t, CHOICE_SLOT);
        REAL best = -HIGHEST, best_mean = -HIGHEST;
#if BLOCKED
        REAL best_open = -HIGHEST, best_mean_open = -HIGHEST, open = 0;
#endif
#if GUARDED
        double least = 1e308;
#define EXCESS_OF(row, excess)                                                               \
    double excess = 0;                                                                       \
    for (int k = 0; k < K; k++) {                                                            \
        const double w = world.cost_means[COST_ENTRY(table, ACTION(c, row), k)];              \
        const double over = total_after(hot.exact[k], hot.rest[k], w).total;                 \
        const double m = typical_size(hot, k);                                               \
        if (over > 0) excess += fmax(LEAST_EXCESS, m > 0 ? over / m : over);                 \
    }
        LANES_TAKE(row, n) {
            EXCESS_OF(row, excess)
            least = fmin(least, excess);
        }
        least = -largest_of_lanes(-least);
#endif
        LANES_TAKE(row, n) {
            REAL mean = beliefs.reward.centre + EXPECTED_ABOVE(row), sd = hot.value[row];
#if K_POLICY > 0
#if LATE
            REAL variance = sd * sd;
#endif
#if BLOCKED
            bool barred = false;
#endif
            for (int k = 0; k < K; k++) {
                const Four rule = hot.rule[k];
#if LATE
                const REAL w = hot.cost[row * K + k], part = hot.drawn_part[k] * hot.spread[row * K + k];
                variance += part * part;
#else
                const REAL w = COST_OF(table, k, ACTION(c, row));
#endif
                const REAL before = fmin(FARTHEST, fmax((REAL)0, rule.v[1]));
                const REAL after = fmin(FARTHEST, fmax((REAL)0, rule.v[1] + w * rule.v[2]));
                mean -= rule.v[0] * w + rule.v[3] * (after * after - before * before);
#if BLOCKED
                const REAL most = 1 + ROUNDED_ABOVE;
                barred = barred || (after > most && (rule.v[3] > 0 || rule.v[1] <= most));
#endif
            }
#if LATE
            sd = sqrt(variance);
#endif
#endif
            REAL value = mean + sd * normals(row);
#if GUARDED
            EXCESS_OF(row, excess)
            if (excess > least) value = mean = -HIGHEST;
#endif
            hot.value[row] = value;
            hot.mean[row] = mean;
            best_mean = fmax(best_mean, mean);
            best = fmax(best, value);
#if BLOCKED
            hot.barred[row] = barred;
            if (!barred) {
                open = 1;
                best_mean_open = fmax(best_mean_open, mean);
                best_open = fmax(best_open, value);
            }
#endif
        }
#if BLOCKED
        // Where some action leads no total above zero, no other one is taken.
        open = largest_of_lanes(open);
        if (open > 0) {
            best = best_open;
            best_mean = best_mean_open;
            LANES_TAKE(row, n) {
                if (hot.barred[row]) hot.value[row] = hot.mean[row] = -HIGHEST;
            }
        }
#endif
        best = TIED_WITH(REAL, largest_of_lanes(best));
        int lowest = J;
        LANES_TAKE(row, n) {
            if (lowest == J && hot.value[row] >= best) lowest = row;
        }
        lowest = -largest_of_lanes(-lowest);
        const int row = lowest < n ? lowest : 0, a = ACTION(c, row);
        lanes_meet();

        // Look ahead: what the estimates would choose, and from time to time how much of their deviation rewards are drawn with.
        if (t > 1) {
            best_mean = TIED_WITH(REAL, largest_of_lanes(best_mean));
            int top = n - 1;
            LANES_TAKE(row, n) {
                if (row < top && hot.mean[row] >= best_mean) top = row;
            }
            top = ACTION(c, -largest_of_lanes(-top));
            const double looked = t - 1;
            const int one = ACTION(c, ROWS > 1 ? (t - 1) % n : 0);
            add_row(cold.moments, row_of<P>(rows, c, ROWS, one), (REAL)looked, lane);
            add_row(cold.moments + (1 + (BLOCKS > 1 ? top : 0)) * Q * QP, row_of<P>(rows, c, ROWS, top), (REAL)looked, lane);
            lanes_meet();
            if (t - 1 >= next_look) {
                next_look = (int)floor(LOOK_GROWTH * looked) + 1;
                for (int block = 0; block < BLOCKS; block++) {
                    const REAL left = part_left(hot, cold, beliefs.units, block, looked, lane);
                    if (lane == 0) hot.drawn[block] = (REAL)DRAWN_PART * left;
                }
                lanes_meet();
            }
        }

#if K_POLICY > 0
        // Rises, as far as they are sure.
        LANES_TAKE(k, K) {
#if LATE
            const REAL step = hot.cost[row * K + k] - hot.spread[row * K + k];
#else
            const REAL step = COST_OF(table, k, a);
#endif
            REAL rise = hot.rise[k];
            if ((REAL)hot.total[k] > hot.target[k] || step < 0) rise = fmax((REAL)0, rise + step);
            hot.rise[k] = rise;
            hot.highest[k] = fmax(rise, hot.highest[k]);
            if ((t & (t - 1)) == 0) {
                hot.earlier[k] = hot.highest[k];
                hot.highest[k] = 0;
            }
        }
#endif

        const Reward entry = world.rewards[(size_t)c * J + a];
        const double reward = draw_reward(world, replication, t, reward_word, entry);
        reward_mean_total += entry.mean;
        reward_total += reward;
        if (lane == 0) hot.chosen[a]++;
        LANES_TAKE(k, K) {
            const double w = draw_cost(world, replication, t, table, a, k);
            hot.total[k] += w;
#if GUARDED
            const Sum sum = total_after(hot.exact[k], hot.rest[k], w);
            hot.exact[k] = sum.total;
            hot.rest[k] = sum.rest;
#endif
            if (hot.total[k] > VIOLATION) hot.last[k] = t;
#if SEPARATE_MEANS
            hot.mean_total[k] += world.cost_means[COST_ENTRY(table, a, k)];
#endif
#if LATE
#if K_POLICY > 0
            // The first cost of a rule without a declared range: where it is far from the size that was guessed, all is as if its own
            // had been.
            const REAL guessed = typical_size(hot, k);
            if (fabs(w) > SMALLEST && settings[SETTINGS_PRIORS + 1 + k] == 0 && hot.cost_squares[k] == 0 && guessed > 0) {
                const double ratio = fabs(w) / guessed;
                if (ratio > UNIT_OFF || ratio * UNIT_OFF < 1) {
                    hot.size[k] *= ratio;
                    hot.square[k] *= ratio * ratio;
                    hot.clock[k] *= ratio * ratio;
                    hot.price[k] /= (REAL)ratio;
                    hot.correction[k] /= (REAL)ratio;
                }
            }
#endif
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

        // Learn. The first reward above SMALLEST says what the unit of all is, in which prices are then.
#if K_POLICY > 0
        if (fabs(reward) > SMALLEST && prior == 0 && reward_mean == 0 && reward_squares == 0) {
            const REAL unit = (REAL)fabs(reward);
            rho *= unit;
            LANES_TAKE(k, K) {
                hot.price[k] *= unit;
                hot.correction[k] *= unit;
            }
        }
#endif
        {
            // In this order equal rewards leave no error at all, which the noise is told by.
            const REAL y = (REAL)reward, error = (y - beliefs.reward.centre) - hot.above[row];
            const int block = BLOCKS > 1 ? a : 0;
            REAL x[QP], *const A = hot.inverse + block * Q * QP, *const theta = hot.theta + block * 2 * QP;
            const REAL* const own_row = row_of<P>(rows, c, ROWS, a);
            note_row<P>(own_row, t, hot.per_unit + block * QP, hot.row_squares, hot.row_sums, lane);
            load_row<P>(own_row, beliefs.units, block, x);
            const REAL leverage = learn_row<Q, QP, 1>(A, theta, hot.product, x, &y, lane);
            lanes_meet();
            renew_units<Q, QP, 1>(A, theta, hot.product, hot.per_unit + block * QP, hot.shift + block * QP, hot.row_squares,
                                  hot.row_sums, t, (REAL)RIDGE, hot.learnt[block], hot.renewal[block], lane);
            count_outcome(learnt, reward, error, leverage, CENTRED, reward_mean, reward_squares, reward_errors);
            if (t > 1 || !CENTRED) error_weights += error_weight(leverage);
        }
#if LATE
        {
            const int block = COST_BLOCKS > 1 ? a : 0;
            REAL z[COST_QP];
            const REAL* const own_row = row_of<COST_P>(cost_rows, c, COST_ROWS, a);
            note_row<COST_P>(own_row, t, hot.cost_per_unit + block * COST_QP, hot.cost_row_squares, hot.cost_row_sums, lane);
            load_row<COST_P>(own_row, beliefs.cost_units, block, z);
            REAL *const A = hot.cost_inverse + block * COST_Q * COST_QP, *const theta = hot.cost_theta + block * (K + 1) * COST_QP;
            const REAL leverage = learn_row<COST_Q, COST_QP, K>(A, theta, hot.cost_product, z, hot.outcome, lane);
            lanes_meet();
            renew_units<COST_Q, COST_QP, K>(A, theta, hot.cost_product, hot.cost_per_unit + block * COST_QP,
                                            hot.cost_shift + block * COST_QP, hot.cost_row_squares, hot.cost_row_sums, t,
                                            (REAL)COST_RIDGE, hot.cost_learnt[block], hot.cost_renewal[block], lane);
            if (t > 1 || !COST_CENTRED) cost_error_weights += error_weight(leverage);
            LANES_TAKE(k, K) {
                const REAL y = hot.outcome[k];
                count_outcome(learnt, y, y - hot.cost[row * K + k], leverage, COST_CENTRED, hot.cost_mean[k], hot.cost_squares[k],
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
