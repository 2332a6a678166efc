// The environment's part of a replication on a GPU: contexts, rewards and costs, for one shape, whose sizes the host defines before
// compiling. Every kernel begins with this text.
//
// Draws and their keys are those of `tightrope.kernels`. Uniforms are 53-bit whole numbers m standing for m / 2^53, and every
// probability p is the whole number ceil(p 2^53): m < ceil(p 2^53) exactly when m / 2^53 < p.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define RESTRICT __restrict__
#define SHARED_ROOM(type, name) extern __shared__ type name[]
#endif

#define K_ROOM (K > 0 ? K : 1)
// The least value that ties with the best.
#define TIED_WITH(type, best) ((best) - (type)TIE * ((best) < 0 ? -(best) : (best)))

struct Reward {
    double mean;
    u64 threshold;
};

// The environment. Costs come in COST_TABLES different tables (J, K_STRIDE), one of which belongs to each context.
struct World {
    const u64* cdf;
    const u32* guide;
    const Reward* rewards;
    const u32* cost_table;
    const double* cost_means;
    const double* cost_locations;
    const u64* cost_thresholds;
    const double* spans;
    const u8* available;
    double reward_scale;
    double cost_scale;
};

#define WORLD_ARGUMENTS                                                                                               \
    const u64 *RESTRICT cdf, const u32 *RESTRICT guide, const Reward *RESTRICT rewards, const u32 *RESTRICT cost_table, \
        const double *RESTRICT cost_means, const double *RESTRICT cost_locations, const u64 *RESTRICT cost_thresholds,  \
        const double *RESTRICT spans, const u8 *RESTRICT available, double reward_scale, double cost_scale
#define WORLD                                                                                                     \
    const World world = {cdf,   guide,     rewards,      cost_table, cost_means, cost_locations, cost_thresholds, \
                         spans, available, reward_scale, cost_scale};

struct Words {
    u64 a, b;
};

// Philox4x32-10 (Salmon et al. 2011), both words shifted to 53 bits; keys(i) are the two of its i-th round.
template <typename Keys>
DEVICE Words philox(u32 c0, u32 c1, u32 c2, u32 c3, Keys keys) {
#pragma unroll
    for (int i = 0; i < PHILOX_ROUNDS; i++) {
        const u64 p0 = (u64)PHILOX_M0 * c0, p1 = (u64)PHILOX_M1 * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ keys(2 * i);
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ keys(2 * i + 1);
        c3 = (u32)p0;
    }
    return {(c0 | ((u64)c1 << 32)) >> 11, (c2 | ((u64)c3 << 32)) >> 11};
}

// The keys that the seed gives, ready to be read as operands.
__constant__ u32 seed_keys[2 * PHILOX_ROUNDS];

DEVICE Words draw(u32 replication, u32 t, u32 slot) {
    return philox(t, 0, slot, replication, [](int i) { return seed_keys[i]; });
}

// A draw of a policy's own, keyed by its own seed.
DEVICE Words own_draw(u64 own_seed, u64 number, u32 slot) {
    return philox((u32)number, (u32)(number >> 32), slot, 0, [own_seed](int i) {
        return i % 2 ? (u32)(own_seed >> 32) + i / 2 * PHILOX_W1 : (u32)own_seed + i / 2 * PHILOX_W0;
    });
}

// Box-Muller, in double whatever REAL is.
DEVICE double normal(u32 replication, u32 t, u32 slot) {
    const Words w = draw(replication, t, slot);
    const double u = w.a * TO_UNIT, v = w.b * TO_UNIT;
    return sqrt(-2.0 * log(1.0 - u)) * cos(2.0 * 3.141592653589793 * v);
}

// The first index whose threshold exceeds m, from the first one that the leading bits of m admit.
DEVICE u32 pick(const World& world, u64 m) {
#if C == 1
    return 0;
#else
    u32 c = world.guide[m >> (53 - GUIDE_BITS)];
    while (world.cdf[c] <= m) c++;
    return c;
#endif
}

DEVICE double draw_reward(const World& world, u32 replication, u32 t, u64 m, Reward r) {
#if REWARD_KIND == BERNOULLI
    return m < r.threshold ? 1.0 : 0.0;
#elif REWARD_KIND == GAUSSIAN
    return r.mean + world.reward_scale * normal(replication, t, GAUSSIAN_REWARD_SLOT);
#else
    return r.mean;
#endif
}

#define COST_ENTRY(table, j, k) (((size_t)(table) * J + (j)) * K_STRIDE + (k))

DEVICE double draw_cost(const World& world, u32 replication, u32 t, u32 table, int action, int k) {
    const size_t at = COST_ENTRY(table, action, k);
#if COST_KIND == FIXED
    return world.cost_means[at];
#else
    const double low = world.spans[2 * k], high = world.spans[2 * k + 1];
    if (low == high) return world.cost_locations[at];
    const u32 slot = COST_SLOT + action * K + k;
#if COST_KIND == BERNOULLI
    return draw(replication, t, slot).a < world.cost_thresholds[at] ? high : low;
#else
    const double z = world.cost_locations[at] + world.cost_scale * normal(replication, t, slot);
    return z < low ? low : z > high ? high : z;
#endif
#endif
}

struct alignas(4 * sizeof(REAL)) Four {
    REAL v[4];
};
