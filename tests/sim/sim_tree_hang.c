/* SPDX-License-Identifier: MIT */
/*
 * sim_tree_hang - a tree's disk that hangs now and then: a pack takes up to some minutes to be made
 * or applied, its end is late or its beginning, and it keeps its slots meanwhile. Either that pack
 * alone or all packs of the node. stop() does not end it, as it does not end a system call.
 */
#include "tests/sim/sim_tree_priv.h"

/* several times as long than a peer that is asked for its slots may keep them */
#define HANG_NS (150 * SIM_S)

struct hung {
	struct sim *sim;
	uint64_t until_ns;
	struct fm_file *file;
	const struct fm_lane_io *lane;
	struct fm_io *io;		/* the lane's */
	struct fm_io own;		/* what the tree has instead, where its end is to be late */
	void (*start)(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io);
};

static void begin_late(void *ctx)
{
	struct hung *h = ctx;

	h->start(h->file, h->lane, h->io);
}

static void end_late(void *ctx)
{
	struct hung *h = ctx;

	h->io->res = h->own.res;
	h->io->done(h->io);
}

static void own_done(struct fm_io *io)
{
	struct hung *h = fm_container_of(io, struct hung, own);

	(void)sim_at(h->sim, h->lane->loop, h->until_ns, end_late, h);
}

void sim_disk_hangs(struct sim *s, unsigned count)
{
	sim_disk_world(s)->hangs_left = count;
}

uint64_t sim_disk_hung(struct sim *s, uint64_t *until_ns)
{
	*until_ns = sim_disk_world(s)->hung_until_ns;
	return sim_disk_world(s)->hung_ns;
}

/* Until when a pack that is begun now hangs; 0: it does not. */
static uint64_t hung_until(struct sim_node *n)
{
	struct sim *s = n->sim;
	struct sim_disk_world *disk = sim_disk_world(s);
	uint64_t until_ns;

	if (n->hung_until_ns > sim_now(s))
		return n->hung_until_ns;
	if (disk->hangs_left == 0 || !sim_one_in(s, sim_faults(s)->tree_hangs))
		return 0;
	disk->hangs_left--;
	sim_fired(s, SIM_FIRED_HANG);
	until_ns = sim_now(s) + 1 + sim_below(s, HANG_NS);
	disk->hung_ns += until_ns - sim_now(s);
	if (until_ns > disk->hung_until_ns)
		disk->hung_until_ns = until_ns;
	if (sim_one_in(s, 2))
		n->hung_until_ns = until_ns;
	return until_ns;
}

void sim_tree_io(struct sim_node *n, struct fm_file *file, const struct fm_lane_io *lane,
		 struct fm_io *io,
		 void (*start)(struct fm_file *file, const struct fm_lane_io *lane,
			       struct fm_io *io))
{
	uint64_t until_ns = hung_until(n);
	struct hung *h;

	if (until_ns == 0) {
		start(file, lane, io);
		return;
	}
	sim_trace(n->sim, "%s: pack %llu hangs until %.3f s", n->name,
		  (unsigned long long)io->offset, (double)until_ns / 1e9);
	h = sim_alloc(n->sim, sizeof(*h));
	*h = (struct hung){.sim = n->sim,
			   .until_ns = until_ns,
			   .file = file,
			   .lane = lane,
			   .io = io,
			   .own = *io,
			   .start = start};
	h->own.done = own_done;
	if (sim_one_in(n->sim, 2))
		(void)sim_at(n->sim, lane->loop, until_ns, begin_late, h);
	else
		start(file, lane, &h->own);
}
