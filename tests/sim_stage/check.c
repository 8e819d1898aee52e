/* SPDX-License-Identifier: MIT */
/* check - what must hold: when something is published, when a run ends, in the end. */
#include <errno.h>

#include "tests/sim_stage/stage_sim.h"

#define UNEVEN_MAX 2.5 /* what one node sends, of what all send on average */

/* A storage that gives wrong bytes, where no manifest says what is right: nobody can know. What all
 * have must be the same, if they met. */
static bool is_as_others(uint32_t extent, uint32_t content)
{
	if (sim.has[FAULT_CRASH] || sim.has[FAULT_CUT] || sim.has[FAULT_LOSS] ||
	    sim.has[FAULT_STALL])
		return true;
	for (unsigned n = 0; n < sim.node_count; n++)
		if (sim.node[n].is_ready && !sim.node[n].is_rotten[extent] &&
		    sim.node[n].disk[extent] != content)
			return false;
	return true;
}

static bool is_content_right(uint32_t extent, uint32_t content)
{
	if (content == sim.truth[extent])
		return true;
	return sim.is_storage_ever_bad && !sim.has_expected && is_as_others(extent, content);
}

/* What rotted on a disk after it was written nobody has looked at since; that is not the
 * protocol's. */
void check_publish(unsigned node)
{
	const struct node *n = &sim.node[node];

	for (uint32_t e = 0; e < sim.extent_count; e++) {
		if (!n->is_durable[e])
			sim_violate("n%u becomes READY without extent %u", node, e);
		else if (!n->is_rotten[e] && !is_content_right(e, n->disk[e]))
			sim_violate("n%u becomes READY with a wrong extent %u", node, e);
	}
}

/*
 * Reports that may be asked for again where nothing went wrong. What is on its way over a node that
 * ends its run and begins another one is lost: here its peers do not hear of that. The service's
 * do, and report anew (unit.stage_run); so what that costs here, 3 s, is not looked at.
 */
static unsigned asked_again_max(void)
{
	return sim.is_even ? 0 : sim.node_count;
}

/* Nothing is held behind the end where nothing went wrong. */
void check_end(unsigned node, int code)
{
	struct fm_run_show show;

	if (!sim.node[node].run || sim.is_faulty)
		return;
	fm_run_show(sim.node[node].run, &show);
	if (code != 0)
		sim_violate("nothing went wrong, and n%u ends with %d", node, code);
	if (show.leases > 0 || show.uploads > 0 || show.leases_given > 0)
		sim_violate("n%u ends with %u leases, %u uploads, %u leases given", node,
			    show.leases, show.uploads, show.leases_given);
	if (show.revoked + show.forgotten > 0 || show.resynced > asked_again_max())
		sim_violate("nothing went wrong, and n%u revoked %u leases, forgot %u members, "
			    "asked %u again",
			    node, show.revoked, show.forgotten, show.resynced);
}

static bool has_reader(void)
{
	for (unsigned n = 0; n < sim.node_count; n++)
		if (sim.node[n].can_read && !sim.node[n].is_gone && !sim.node[n].does_hang)
			return true;
	return false;
}

/* Storage gave wrong bytes, and somebody has them: no more nodes get an extent of two contents. */
static bool is_torn(void)
{
	for (unsigned n = 0; n < sim.node_count; n++)
		for (uint32_t e = 0; e < sim.extent_count && !sim.has_expected; e++)
			if (sim.node[n].is_ready && sim.node[n].journal[e] != sim.truth[e])
				return sim.is_storage_ever_bad;
	return false;
}

/* Whether the node can have it in the end: it is there, its disk has room, and the source is as it
 * was. */
static bool can_finish(const struct node *n)
{
	return n->is_asked && !n->is_gone && !n->does_disk_hang &&
	       n->disk_room > sim.extent_count && sim.change_ns == FM_NEVER && has_reader() &&
	       !sim.is_storage_gone && !(n->code == -EBADMSG && is_torn());
}

bool check_is_over(void)
{
	for (unsigned n = 0; n < sim.node_count; n++) {
		const struct node *node = &sim.node[n];

		if (node->run || (node->is_running && can_finish(node) && !node->is_ready))
			return false;
	}
	return true;
}

/*
 * Whether each node has its share in what is sent. Those who come when all has been read fetch it
 * in step, so that none has what another one lacks: where uploads are unequal the one who read it
 * may send it all.
 */
static bool is_shared(void)
{
	return sim.is_even && !sim.has_late &&
	       (unsigned)__builtin_popcountll(sim.asked) == sim.node_count &&
	       sim.extent_count >= 6 * sim.node_count &&
	       (sim_has_equal_uploads() || sim.read_before < sim.extent_count);
}

static void check_sent(void)
{
	uint64_t sent = 0;
	double even;

	if (!is_shared())
		return;
	for (unsigned n = 0; n < sim.node_count; n++)
		sent += sim.node[n].sent;
	even = (double)sent / sim.node_count;
	for (unsigned n = 0; n < sim.node_count; n++)
		if ((double)sim.node[n].sent > UNEVEN_MAX * even + 4)
			sim_violate("n%u sends %llu extents, all %llu", n,
				    (unsigned long long)sim.node[n].sent, (unsigned long long)sent);
}

static void check_reads(void)
{
	if (sim.reads != sim.extent_count)
		sim_violate("nothing went wrong, and %llu extents were read of %u",
			    (unsigned long long)sim.reads, sim.extent_count);
}

static void check_node(unsigned number)
{
	const struct node *n = &sim.node[number];

	if (n->is_gone)
		return;
	if (n->run) {
		struct fm_run_show show;

		fm_run_show(n->run, &show);
		sim_violate("n%u's run does not end: place %u, %u of %u extents, %u slots, %u "
			    "leases, takes n%u for the coordinator",
			    number, show.place, show.have_count, sim.extent_count, show.slots_used,
			    show.leases, show.coordinator);
	} else if (can_finish(n) && !n->is_ready) {
		sim_violate("n%u could have it, and does not: %d", number, n->code);
	} else if (n->is_asked && !n->is_ready && n->code == 0) {
		sim_violate("n%u does not have it, and says that all is well", number);
	}
}

/* Whose disk hangs is in nobody's way for long: what it was to read, another one reads. */
static void check_hung(void)
{
	double most = 100 + 3.0 * sim.extent_count;

	for (unsigned n = 0; n < sim.node_count; n++) {
		const struct node *node = &sim.node[n];
		double took = (double)(node->ready_ns - node->asked_ns) / (double)S;

		if (node->is_asked && !node->does_disk_hang && node->is_ready && took > most)
			sim_violate("n%u took %.0f s beside disks that hang; %.0f s would do", n,
				    took, most);
	}
}

static bool is_liar_ready(void)
{
	for (unsigned n = 0; n < sim.node_count; n++)
		if (sim.node[n].lie != LIE_NONE && sim.node[n].lies_ready)
			return true;
	return false;
}

/*
 * Who lies is in nobody's way for long: what cannot be had from it is read. But if it says that it
 * is READY, with other bytes than others that are: nobody gets either (staging/run), and who asks
 * then hears so. One that refuses may do so 64 times, which takes one sink that lacks one extent
 * 128 s, since it asks every 2 s; with two extents it asks for both at once.
 */
static void check_liar(void)
{
	bool may_tear = is_liar_ready();
	double most = (sim.extent_count == 1 ? 130 : 100) + 3.0 * sim.extent_count;

	for (unsigned n = 0; n < sim.node_count; n++) {
		const struct node *node = &sim.node[n];
		double took = (double)(node->ready_ns - node->asked_ns) / (double)S;

		if (may_tear && node->was_torn)
			continue;
		if (node->is_asked && node->is_ready && took > most)
			sim_violate("n%u took %.0f s beside one who lies; %.0f s would do", n,
				    took, most);
	}
}

/*
 * Who is not slow loses the time of two sends for an extent at most, when a slow one is to pass it
 * on; and at the end that of four fetches, when what it missed is on slow disks.
 */
static void check_slow(void)
{
	double most = 80 + 10.0 * sim.extent_count;

	for (unsigned n = 0; n < sim.node_count; n++) {
		const struct node *node = &sim.node[n];
		double took = (double)(node->ready_ns - node->asked_ns) / (double)S;

		if (node->is_asked && !node->is_slow && node->is_ready && took > most)
			sim_violate("n%u took %.0f s beside others that are slow; %.0f s would do",
				    n, took, most);
	}
}

void check_last(void)
{
	if (sim.has_slow)
		check_slow();
	if (sim.has_hung)
		check_hung();
	if (sim.has_liar)
		check_liar();
	for (unsigned n = 0; n < sim.node_count; n++)
		check_node(n);
	if (sim.is_faulty)
		return;
	check_reads();
	check_sent();
}
