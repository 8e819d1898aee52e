/* SPDX-License-Identifier: MIT */
/* tune - see tune.h. */
#include "mover/daemon/tune.h"

#include "config/check.h"
#include "config/config.h"
#include "mover/data/flow.h"
#include "mover/data/slab.h"
#include "mover/transport/addr.h"

_Static_assert(FM_CONFIG_SLOTS_MAX == FM_FLOW_SLOTS_MAX && FM_CONFIG_SLABS_MAX == FM_SLABS_MAX,
	       "what the configuration may say is what the engine takes");

static unsigned count_rails(void)
{
	struct fm_addr addr[FM_ADDRS_MAX];
	int count = fm_addr_list(NULL, addr, FM_ADDRS_MAX);

	return fm_tuning_rails(addr, count < 0 ? 0 : (size_t)count);
}

void fm_tune(const struct fm_config *cfg, struct fm_tune *out)
{
	struct fm_machine machine = {
		.arena_bytes = cfg->memory.arena_bytes,
		.budget_bytes = cfg->memory.total_bytes - cfg->memory.arena_bytes -
				FM_CONFIG_OVERHEAD_BYTES,
		.rails = count_rails(),
		.peers = cfg->peer_count,
	};
	struct fm_tuning_why why;

	fm_cores_read(&machine.cores);
	out->is = (struct fm_tuning){
		.lanes = cfg->mover.lanes,
		.tcp_conns = cfg->mover.tcp_conns,
		.rdma_conns = cfg->mover.rdma_conns,
		.chunk_bytes = (uint32_t)cfg->mover.chunk_bytes,
		.slab_bytes = (uint32_t)cfg->memory.slab_bytes,
	};
	fm_tuning_choose(&machine, &out->is, &why);
	fm_tuning_print(&machine, &out->is, &why, out->text);
}
