/* SPDX-License-Identifier: MIT */
/* tree - see tree.h. */
#include "staging/run/tree.h"

#include "staging/run/message.h"

/* The place of the node that the one at `place` gets it from; the root is at 0. */
static unsigned place_above(unsigned place, bool is_direct)
{
	unsigned first = is_direct ? 1 : 2; /* of those who have many below them */

	if (place < first)
		return 0;
	if (place < first + FM_RUN_FANOUT)
		return first - 1;
	return first + (place - first - FM_RUN_FANOUT) % FM_RUN_FANOUT;
}

uint64_t fm_run_tree_below(unsigned me, unsigned root, uint64_t wants, uint32_t extent,
			   uint8_t shape)
{
	uint8_t node[FM_RUN_NODES_MAX];
	uint64_t below = 0;
	unsigned count = 0, mine = 0, turn;

	wants &= ~(UINT64_C(1) << root);
	for (unsigned n = 0; n < FM_RUN_NODES_MAX; n++)
		if (wants >> n & 1)
			node[count++] = (uint8_t)n;
	if (count == 0)
		return 0;
	turn = (extent + shape / FM_RUN_TREE_TURN) % count;
	for (unsigned i = 0; i < count; i++)
		if (node[(i + turn) % count] == me)
			mine = i + 1;
	if (mine == 0 && me != root)
		return 0;
	for (unsigned i = 0; i < count; i++)
		if (place_above(i + 1, shape & FM_RUN_TREE_DIRECT) == mine)
			below |= UINT64_C(1) << node[(i + turn) % count];
	return below;
}
