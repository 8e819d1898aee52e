/* SPDX-License-Identifier: MIT */
/*
 * plan - what the coordinator decides, from what members said: who reads what, who fetches what
 * from whom, who may publish, when it is over. It is asked after each event and remembers nothing
 * but orders that were given.
 *
 * An extent is read from the source only if no member of a part has it and none is about to get it.
 * A part is members that reach each other; mostly there is one.
 */
#include "staging/run/run_priv.h"

#include <errno.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "staging/run/tree.h"

#define FIND_MAX 65536	/* extents that one decision passes over, for each part */
#define COMING_MAX (FM_RUN_SLOTS - FM_RUN_LEASES)

static uint64_t sinks_of(const struct coordinator *co)
{
	return fm_run_in_place(co, FM_RUN_SINK);
}

/* The nodes that pass extents on (CARRY). */
static uint64_t carriers_of(const struct coordinator *co)
{
	return fm_run_in_place(co, FM_RUN_SINK) | fm_run_in_place(co, FM_RUN_READY);
}

/* ---- members that are gone, leases that take too long ---- */

static void forget_silent(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;

	for (unsigned n = 0; n < run->node_count; n++) {
		if (!co->seat[n].is_here || !fm_run_is_silent(run, &co->seat[n]))
			continue;
		fm_run_seat_forget(run, n);
		co->forgotten++;
	}
}

static unsigned lease_count(const struct seat *seat, bool is_revoked_only)
{
	unsigned count = 0;

	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		count += seat->lease[i].is_used && (seat->lease[i].is_revoked || !is_revoked_only);
	return count;
}

/*
 * Whether a member can read, as far as is known: not all of its leases are used up, and its storage
 * did not fail a moment ago.
 */
static bool does_read(const struct fm_run *run, unsigned node)
{
	const struct seat *seat = &run->coordinator.seat[node];

	return seat->is_here && seat->state.can_read && run->now_ns >= seat->read_after_ns &&
	       lease_count(seat, true) < FM_RUN_LEASES;
}

static bool may_lease(const struct fm_run *run, unsigned node)
{
	return does_read(run, node) &&
	       lease_count(&run->coordinator.seat[node], false) < FM_RUN_LEASES;
}

static bool is_other_free(const struct fm_run *run, unsigned node)
{
	for (unsigned n = 0; n < run->node_count; n++)
		if (n != node && may_lease(run, n))
			return true;
	return false;
}

static void revoke(struct fm_run *run, unsigned node, struct seat_lease *l)
{
	struct coordinator *co = &run->coordinator;
	struct fm_run_msg msg = {.type = FM_RUN_REVOKE, .extent = l->extent};

	l->is_revoked = true;
	co->busy[l->extent]--;
	fm_run_order(run, node, &msg);
}

/*
 * Whether nobody needs what the lease is for: every sink has the extent, or every sink that its
 * carrier reaches got it from another one. A carrier would keep it for ever, since nobody takes it.
 */
static bool is_needless(const struct fm_run *run, unsigned node, const struct seat_lease *l)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t lack = sinks_of(co) & ~co->holders[l->extent];

	if (l->is_carry && run->now_ns > l->since_ns + run->times->quiet)
		lack &= co->seat[node].state.up | bit(node);
	return lack == 0;
}

/* Revokes leases: those that nobody needs, and those that take too long, if another member can
 * read the extent. */
static void revoke_leases(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;

	for (unsigned i = 0; i < run->node_count * FM_RUN_LEASES; i++) {
		unsigned n = i / FM_RUN_LEASES;
		struct seat_lease *l = &co->seat[n].lease[i % FM_RUN_LEASES];

		if (!l->is_used || l->is_revoked)
			continue;
		if (is_needless(run, n, l)) {
			revoke(run, n, l);
		} else if (fm_run_is_overdue(run, l) && is_other_free(run, n)) {
			revoke(run, n, l);
			co->seat[n].is_late = true;
			co->tries[l->extent] = (uint8_t)(co->tries[l->extent] +
							 (co->tries[l->extent] < 4));
			co->revoked++;
		}
	}
}

/* ---- who reads ---- */

/*
 * READY members that lost an extent. They serve what they have, but write nothing any more, so
 * nothing reaches others by way of their disk.
 */
static uint64_t ends_of(const struct fm_run *run)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t ends = 0, ready = fm_run_in_place(co, FM_RUN_READY);

	for (unsigned n = 0; n < run->node_count; n++)
		if (ready & bit(n) && co->seat[n].is_whole &&
		    co->seat[n].have_count < run->extent_count)
			ends |= bit(n);
	return ends;
}

/* The carriers that this one reaches over others of them. */
static uint64_t part_of(const struct coordinator *co, uint64_t carriers, uint64_t ends,
			unsigned node)
{
	uint64_t part = bit(node), before = 0;

	while (part != before) {
		before = part;
		for (unsigned n = 0; n < FM_RUN_NODES_MAX; n++)
			if (carriers & ~part & bit(n) && co->seat[n].state.up & part & ~ends)
				part |= bit(n);
	}
	return part;
}

static unsigned parts_of(const struct fm_run *run, uint64_t carriers,
			 uint64_t parts[FM_RUN_NODES_MAX])
{
	const struct coordinator *co = &run->coordinator;
	uint64_t left = carriers, ends = ends_of(run);
	unsigned count = 0;

	while (left) {
		parts[count] = part_of(co, carriers, ends, (unsigned)__builtin_ctzll(left));
		left &= ~parts[count++];
	}
	return count;
}

static uint64_t near_to(const struct coordinator *co, uint64_t part)
{
	uint64_t near = part;

	for (unsigned n = 0; n < FM_RUN_NODES_MAX; n++)
		if (co->seat[n].is_here && co->seat[n].state.up & part)
			near |= bit(n);
	return near;
}

/*
 * Whoever is near the part, for this extent: a READY member that is not believed of it takes none
 * from those near to it, and so passes none on. Where another one of the part is believed nothing
 * is read, so it does not matter.
 */
static uint64_t near_for(const struct fm_run *run, uint32_t extent, uint64_t part, uint64_t near)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t past = co->holders[extent] & part;

	if (!past || fm_run_is_held(co, extent, part))
		return near;
	past &= fm_run_in_place(co, FM_RUN_READY);
	return past ? part | near_to(co, part & ~past) : near;
}

static bool is_put_off(const struct fm_run *run, uint32_t extent)
{
	return run->coordinator.not_before_ms[extent] > run->now_ns / 1000000;
}

static bool is_to_read(const struct fm_run *run, uint32_t extent, uint64_t sinks, uint64_t part,
		       uint64_t near)
{
	const struct coordinator *co = &run->coordinator;

	return sinks & part & ~co->holders[extent] && !fm_run_is_held(co, extent, part) &&
	       !is_put_off(run, extent) && !fm_run_is_under_way(co, extent, near);
}

/*
 * The members that may be chosen to read an extent: those whose last lease did not take too long if
 * there are any, and of these sinks if one of them reads. A member that has the extent is left out:
 * it would answer at once, and be ordered again for ever.
 */
static uint64_t readers_for(const struct fm_run *run, uint32_t extent, uint64_t near)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t able = 0, quick = 0;

	for (unsigned n = 0; n < run->node_count; n++) {
		if (!(near & bit(n)) || !does_read(run, n))
			continue;
		able |= bit(n);
		if (!fm_run_is_late(&co->seat[n]))
			quick |= bit(n);
	}
	if (quick & ~co->holders[extent])
		able = quick;
	if (able & sinks_of(co))
		able &= sinks_of(co);
	return able & ~co->holders[extent];
}

/* Chooses the member that reads an extent: the fewest leases, then each in turn. */
static int reader(const struct fm_run *run, uint32_t extent, uint64_t near)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t able = readers_for(run, extent, near);
	int best = -1;

	for (unsigned i = 0; i < run->node_count; i++) {
		unsigned n = (extent + i) % run->node_count;

		if (!(able & bit(n)) || !may_lease(run, n))
			continue;
		if (best < 0 ||
		    lease_count(&co->seat[n], false) < lease_count(&co->seat[best], false))
			best = (int)n;
	}
	return best;
}

/* Whether it is known which bytes come from there: of one that reads the extent just now nobody
 * knows, if it was not read before. Who is not believed is to send what it said all the same. */
static bool is_known_of(const struct coordinator *co, uint32_t extent, unsigned server)
{
	return server != FM_RUN_NOBODY &&
	       (co->was_read[extent] || co->holders[extent] & bit(server));
}

/* server FM_RUN_NOBODY: from the source. */
static void give_lease(struct fm_run *run, unsigned node, uint32_t extent, unsigned server)
{
	struct coordinator *co = &run->coordinator;
	struct fm_run_msg msg = {.type = server == FM_RUN_NOBODY ? FM_RUN_LEASE : FM_RUN_CARRY,
				 .extent = extent,
				 .node = server == FM_RUN_NOBODY ? 0 : (uint8_t)server,
				 .number = is_known_of(co, extent, server),
				 .crc = co->crc[extent]};
	uint64_t wants = sinks_of(co) & ~co->holders[extent];
	bool is_direct = true;

	for (unsigned n = 0; n < run->node_count; n++)
		is_direct = is_direct && (!(wants & bit(n)) || co->seat[n].state.can_read);
	msg.nodes = wants;
	msg.shape = is_direct || server != FM_RUN_NOBODY ? FM_RUN_TREE_DIRECT : 0;
	for (unsigned i = 0; i < FM_RUN_LEASES; i++) {
		struct seat_lease *l = &co->seat[node].lease[i];

		if (l->is_used)
			continue;
		*l = (struct seat_lease){.is_used = true,
					 .is_carry = server != FM_RUN_NOBODY,
					 .server = (uint8_t)server,
					 .is_read = server == FM_RUN_NOBODY,
					 .extent = extent,
					 .since_ns = run->now_ns};
		co->busy[extent]++;
		break;
	}
	fm_run_order(run, node, &msg);
}

static uint64_t readers_of(const struct coordinator *co, uint32_t extent)
{
	uint64_t nodes = 0;

	for (unsigned n = 0; n < FM_RUN_NODES_MAX && co->busy[extent]; n++)
		for (unsigned i = 0; i < FM_RUN_LEASES; i++)
			if (co->seat[n].lease[i].is_used && !co->seat[n].lease[i].is_revoked &&
			    co->seat[n].lease[i].extent == extent)
				nodes |= bit(n);
	return nodes;
}

static bool is_stuck(const struct fm_run *run, const struct seat *seat)
{
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		if (fm_run_is_overdue(run, &seat->lease[i]))
			return true;
	return false;
}

/* Whether the extent is so far behind what a part lacks first that it was not looked at yet. */
static bool is_far_behind(const struct fm_run *run, uint32_t extent)
{
	const struct coordinator *co = &run->coordinator;

	for (unsigned i = 0; i < co->part_count && co->part_count > 1; i++)
		if (co->next_read[i] < run->extent_count && extent > co->next_read[i] &&
		    extent - co->next_read[i] >= run->scan_max)
			return true;
	return false;
}

/*
 * Whether the extent is about to be read: it is, or who can read it has other things to read first,
 * or gets to it when what is before it has come.
 */
static bool is_read_soon(const struct fm_run *run, uint32_t extent)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t able = readers_for(run, extent, UINT64_MAX);
	bool is_behind = is_far_behind(run, extent);

	for (unsigned n = 0; n < run->node_count; n++)
		if (able & bit(n) && (is_behind || !may_lease(run, n)) &&
		    !is_stuck(run, &co->seat[n]))
			return true;
	return co->busy[extent] > 0;
}

/*
 * No member that has or reads the extent is a peer of those that want it. Orders a node that is a
 * peer of both to pass it on from one of these through its memory. Returns whether there is such a
 * node; it may have no room just now. One that says that it has the extent, believed or not, is not
 * asked: it would answer at once, and be ordered again for ever.
 */
static bool carry_from(struct fm_run *run, uint32_t extent, uint64_t near, uint64_t has)
{
	struct coordinator *co = &run->coordinator;
	uint64_t holders = has | co->holders[extent];
	bool is_one = false;

	for (unsigned n = 0; n < run->node_count && has; n++) {
		const struct seat *seat = &co->seat[n];
		uint64_t from = has & seat->state.up & ~bit(n);

		if (!(near & bit(n)) || !seat->is_here || !from || holders & bit(n))
			continue;
		is_one = true;
		if (lease_count(seat, false) >= FM_RUN_LEASES)
			continue;
		give_lease(run, n, extent, (unsigned)__builtin_ctzll(from));
		return true;
	}
	return is_one;
}

/* From one that is believed, or reads it. */
static bool carry(struct fm_run *run, uint32_t extent, uint64_t near)
{
	const struct coordinator *co = &run->coordinator;

	return carry_from(run, extent, near,
			  fm_run_trusted(co, extent) | readers_of(co, extent));
}

/* Where nobody can read it, it is carried from those who are not believed, as it is fetched from
 * them if they are near. */
static bool carry_all_the_same(struct fm_run *run, uint32_t extent, uint64_t part, uint64_t near)
{
	uint64_t holders = run->coordinator.holders[extent];

	return holders && !(holders & part) && !is_read_soon(run, extent) &&
	       carry_from(run, extent, near, holders);
}

/*
 * Brings an extent to nodes that lack it: passed on if some member has it. Reading the source comes
 * last: by a peer of theirs, else by a node that a peer of theirs reaches.
 */
static bool read_or_carry(struct fm_run *run, uint32_t extent, uint64_t part, uint64_t near)
{
	uint64_t far = near_to(&run->coordinator, near);
	int node;

	if (carry(run, extent, near))
		return true;
	node = reader(run, extent, near);
	if (node < 0 && !readers_of(&run->coordinator, extent))
		node = reader(run, extent, far);
	if (node < 0)
		return carry_all_the_same(run, extent, part, near);
	give_lease(run, (unsigned)node, extent, FM_RUN_NOBODY);
	return true;
}

/*
 * What was read for those who are no peers of its reader. It keeps its lease until one of them has
 * it, so it goes first: an extent before it may wait for that lease.
 */
static void plan_carries(struct fm_run *run, uint64_t sinks, const uint64_t *parts,
			 const uint64_t *near, unsigned count)
{
	const struct coordinator *co = &run->coordinator;

	for (unsigned i = 0; i < run->node_count * FM_RUN_LEASES; i++) {
		const struct seat_lease l = co->seat[i / FM_RUN_LEASES].lease[i % FM_RUN_LEASES];

		if (!l.is_used || l.is_revoked)
			continue;
		for (unsigned p = 0; p < count; p++) {
			uint64_t around = near_for(run, l.extent, parts[p], near[p]);

			if (is_to_read(run, l.extent, sinks, parts[p], around))
				(void)carry(run, l.extent, around);
		}
	}
}

/* Whether a sink of the part needs it to be read: another one's disk in the part does as well. */
static bool is_lacking(const struct coordinator *co, uint32_t extent, uint64_t sinks, uint64_t part)
{
	return sinks & part & ~co->holders[extent] && !fm_run_is_held(co, extent, part);
}

/* Of other parts, or other sinks in them, nothing is known. */
static void begin_anew_for(struct coordinator *co, uint64_t sinks, const uint64_t *parts,
			   unsigned count)
{
	uint32_t crc = fm_crc32c(fm_crc32c(0, &sinks, sizeof(sinks)), parts,
				 count * sizeof(*parts));

	if (crc == co->parts_crc && count == co->part_count)
		return;
	co->parts_crc = crc;
	co->part_count = count;
	fm_run_look_again(co, 0);
}

/*
 * Goes on to the first extent that each part lacks; where that is far, at the next decision.
 * Returns how many extents from there on are left, of the part that has most.
 */
static uint32_t find_lacking(struct fm_run *run, uint64_t sinks, const uint64_t *parts)
{
	struct coordinator *co = &run->coordinator;
	uint32_t left = 0;

	for (unsigned i = 0; i < co->part_count; i++) {
		uint32_t *e = &co->next_read[i], seen = 0;

		while (*e < run->extent_count && seen++ < FIND_MAX &&
		       !is_lacking(co, *e, sinks, parts[i]))
			(*e)++;
		if (run->extent_count - *e > left)
			left = run->extent_count - *e;
	}
	return left;
}

/*
 * Where there is one part, nothing behind an extent that nobody can read just now can be read
 * either. Of several each is seen some way beyond what it lacks first, in turn: something else may
 * be carried to it meanwhile.
 */
static void plan_reads(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;
	uint64_t parts[FM_RUN_NODES_MAX], near[FM_RUN_NODES_MAX], sinks = sinks_of(co);
	unsigned count = sinks ? parts_of(run, carriers_of(co), parts) : 0;
	uint32_t left;

	if (!sinks)
		return;
	for (unsigned i = 0; i < count; i++)
		near[i] = near_to(co, parts[i]);
	plan_carries(run, sinks, parts, near, count);
	begin_anew_for(co, sinks, parts, count);
	left = find_lacking(run, sinks, parts);
	if (count > 1 && left > run->scan_max)
		left = run->scan_max;
	for (uint32_t n = 0; n < left; n++)
		for (unsigned i = 0; i < count; i++) {
			uint32_t e = co->next_read[i] + n;
			uint64_t around;

			if (e >= run->extent_count)
				continue;
			around = near_for(run, e, parts[i], near[i]);
			if (is_to_read(run, e, sinks, parts[i], around) &&
			    !read_or_carry(run, e, parts[i], around) && count == 1)
				return;
		}
}

/* ---- who fetches ---- */

static bool is_coming_to(const struct seat *seat, uint32_t extent)
{
	for (unsigned i = 0; i < seat->coming_count; i++)
		if (seat->coming[i].extent == extent)
			return true;
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		if (seat->lease[i].is_used && !seat->lease[i].is_revoked &&
		    seat->lease[i].extent == extent)
			return true;
	return false;
}

static void give_fetch(struct fm_run *run, unsigned node, uint32_t extent, unsigned server)
{
	struct seat *seat = &run->coordinator.seat[node];
	struct fm_run_msg msg = {.type = FM_RUN_FETCH,
				 .extent = extent,
				 .node = (uint8_t)server,
				 .crc = run->coordinator.crc[extent]};

	fm_run_coming_add(run, seat, extent, (uint8_t)server);
	fm_run_order(run, node, &msg);
}

/* Several at once of which none comes in time would not do so if they were tried again. */
static bool may_fetch(const struct seat *seat)
{
	unsigned count = 0;

	for (unsigned i = 0; i < seat->coming_count; i++)
		count += seat->coming[i].from < FM_RUN_NODES_MAX;
	return count + seat->fewer < FM_RUN_FETCHES && seat->coming_count < COMING_MAX;
}

static uint64_t servers_of(const struct fm_run *run)
{
	uint64_t servers = 0;

	for (unsigned n = 0; n < run->node_count; n++)
		if (fm_run_may_serve(&run->coordinator, n))
			servers |= bit(n);
	return servers;
}

/*
 * Whether what is read of the extent can come to the node, or it is about to come to one that it
 * can get it from. It comes by nodes that do not say that they have it: one that does takes no
 * offer of it, and carries none.
 */
static bool can_come_to(const struct fm_run *run, unsigned node, uint32_t extent)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t near = part_of(co, ~co->holders[extent], 0, node);

	return readers_for(run, extent, near) || fm_run_is_under_way(co, extent, near);
}

/*
 * Whether nobody who has the extent is believed, and it is about to be read instead. If nobody can
 * read it, or only where it does not come to the node from, those who are not believed are asked
 * again: bytes may have been damaged on their way.
 */
static bool is_read_instead(const struct fm_run *run, unsigned node, uint32_t extent)
{
	return !fm_run_trusted(&run->coordinator, extent) && is_read_soon(run, extent) &&
	       can_come_to(run, node, extent);
}

static void plan_fetches_of(struct fm_run *run, unsigned node)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[node];

	/* the former mostly, beside slow ones */
	if (!(servers_of(run) & seat->state.up) || run->now_ns < seat->fetch_after_ns)
		return;
	for (uint32_t i = 0; i < run->extent_count && i < FM_RUN_SCAN && may_fetch(seat); i++) {
		uint32_t e = seat->next_fetch;
		int server;

		seat->next_fetch = e + 1 < run->extent_count ? e + 1 : 0;
		if (!co->holders[e] || co->holders[e] & bit(node) || is_put_off(run, e) ||
		    is_coming_to(seat, e) || is_read_instead(run, node, e))
			continue;
		server = fm_run_server(run, node, e);
		if (server >= 0)
			give_fetch(run, node, e, (unsigned)server);
	}
}

/* How long it had uploads of others, of all its fetches together. */
static uint64_t all_fetched_ns(const struct fm_run *run, const struct seat *seat)
{
	uint64_t ns = seat->fetched_ns;

	for (unsigned i = 0; i < seat->coming_count; i++)
		if (seat->coming[i].from < FM_RUN_NODES_MAX)	/* as where it ends */
			ns += run->now_ns - seat->coming[i].since_ns;
	return ns;
}

static uint64_t fetchers_of(const struct fm_run *run)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t sinks = sinks_of(co), nodes = 0;

	for (unsigned n = 0; n < run->node_count; n++)
		if (sinks & bit(n) && co->seat[n].is_whole &&
		    co->seat[n].have_count < run->extent_count)
			nodes |= bit(n);
	return nodes;
}

/*
 * The sinks that lack something, those first that took least of others' time so far. One to which
 * an extent comes slowly would have the uploads of a node that gives few, one after the other, as
 * long as it lacks any, and who needs a moment for each would wait for all of them. So would one
 * that takes nothing, since its disk has not answered for what it holds already.
 */
static unsigned in_turn(const struct fm_run *run, uint64_t nodes, uint8_t node[FM_RUN_NODES_MAX])
{
	uint64_t ns[FM_RUN_NODES_MAX];
	unsigned count = 0, i;

	for (unsigned n = 0; n < run->node_count; n++) {
		uint64_t own = all_fetched_ns(run, &run->coordinator.seat[n]);

		if (!(nodes & bit(n)))
			continue;
		for (i = count++; i > 0 && ns[i - 1] > own; i--) {
			node[i] = node[i - 1];
			ns[i] = ns[i - 1];
		}
		node[i] = (uint8_t)n;
		ns[i] = own;
	}
	return count;
}

/*
 * Who comes late, or lacked nothing for long, is not so far behind the next one in what it took
 * that it has all uploads for as long as the run goes on already: who was there would have none.
 * Those that are further ahead are all taken back as far, so their order stays, and how far they
 * are apart. What a node took is what it says is coming to it: one that says too much is far ahead
 * of the others, and moves nobody but itself.
 */
static void limit_leads(struct fm_run *run, const uint8_t *node, unsigned count)
{
	uint64_t lead_max = run->times->stall / 2, before = 0, back = 0;

	for (unsigned i = 0; i < count; i++) {
		struct seat *seat = &run->coordinator.seat[node[i]];
		uint64_t own = all_fetched_ns(run, seat);

		if (i > 0 && own - before > lead_max)
			back += own - before - lead_max;
		before = own;
		if (back > seat->fetched_ns)	/* what it has now counts from its order on */
			back = seat->fetched_ns;
		seat->fetched_ns -= back;
	}
}

static void plan_fetches(struct fm_run *run)
{
	uint8_t node[FM_RUN_NODES_MAX];
	unsigned count = in_turn(run, fetchers_of(run), node);

	limit_leads(run, node, count);
	for (unsigned i = 0; i < count; i++)
		plan_fetches_of(run, node[i]);
}

/* ---- is it right, may it be published ---- */

/* A node that reads lists the source again: the coordinator, if it can. Another one if that takes
 * too long. */
static void plan_check(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;
	struct fm_run_msg msg = {.type = FM_RUN_CHECK};

	if (co->covered < run->extent_count || fm_run_is_sealed(co) || !sinks_of(co) ||
	    run->now_ns < co->check_after_ns)
		return;
	for (unsigned i = 0; i < run->node_count; i++) {
		unsigned n = (run->self + co->check_turn++) % run->node_count;

		if (!co->seat[n].is_here || !co->seat[n].state.can_read)
			continue;
		co->check_version = msg.number = co->version;
		co->check_after_ns = run->now_ns + run->times->check;
		fm_run_order(run, n, &msg);
		return;
	}
}

static void plan_commits(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;
	struct fm_run_msg msg = {.type = FM_RUN_COMMIT};
	uint64_t sinks = sinks_of(co);
	bool has_crc = false;

	if (!fm_run_is_sealed(co) || co->covered < run->extent_count)
		return;
	for (unsigned n = 0; n < run->node_count; n++) {
		struct seat *seat = &co->seat[n];

		if (!(sinks & bit(n)) || !seat->is_whole ||
		    seat->have_count < run->extent_count || run->now_ns < seat->commit_after_ns)
			continue;
		if (!has_crc)
			msg.crc = fm_crc32c(0, co->crc, run->extent_count * sizeof(*co->crc));
		has_crc = true;
		seat->commit_after_ns = run->now_ns + run->times->silent;
		fm_run_order(run, n, &msg);
	}
}

/* ---- requests, and the end ---- */

/* The nodes that were asked for. */
uint64_t fm_run_wanted(const struct coordinator *co)
{
	uint64_t nodes = 0;

	for (unsigned n = 0; n < FM_RUN_NODES_MAX; n++)
		nodes |= co->seat[n].is_here ? co->seat[n].state.wanted : 0;
	return nodes;
}

static void plan_invites(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;
	uint64_t nodes = fm_run_wanted(co) & fm_run_in_place(co, FM_RUN_PASSIVE);

	for (unsigned n = 0; n < run->node_count; n++) {
		struct fm_run_msg msg = {.type = FM_RUN_INVITE};

		if (!(nodes & bit(n)) || run->now_ns < co->seat[n].invite_after_ns)
			continue;
		co->seat[n].invite_after_ns = run->now_ns + run->times->silent;
		fm_run_order(run, n, &msg);
	}
}

/*
 * Whether the run is over. Nodes that are here and have not refused are waited for, however long it
 * takes. A new coordinator may not have heard of all requests: it waits a moment, unless it knows
 * of one whose nodes all have it.
 */
static bool is_done(const struct fm_run *run)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t wanted = fm_run_wanted(co);
	uint64_t missing = wanted & ~fm_run_in_place(co, FM_RUN_READY);
	uint64_t undone = missing & ~fm_run_in_place(co, FM_RUN_OUT);
	bool has_all = wanted && !missing && fm_run_is_settled(run);

	if (sinks_of(co) || (!has_all && run->now_ns < co->began_ns + run->times->settle))
		return false;
	for (unsigned n = 0; n < run->node_count; n++)
		if (undone & bit(n) && (co->seat[n].is_here || fm_run_is_awaited(run, n)))
			return false;
	return true;
}

/* First those that peers pass it on to: a peer that has ended passes on nothing. */
static void end_all(struct fm_run *run, int code)
{
	struct coordinator *co = &run->coordinator;
	struct fm_run_msg msg = {.type = FM_RUN_END,
				 .code = code,
				 .nodes = fm_run_wanted(co) & ~fm_run_in_place(co, FM_RUN_READY)};

	fm_run_msg_set_ready(&msg, fm_run_in_place(co, FM_RUN_READY));
	for (unsigned i = 0; i < 2 * run->node_count; i++) {
		unsigned n = i % run->node_count;
		bool is_peer = run->up & bit(n) || n == run->self;
		struct fm_run_msg copy = msg;

		if (!co->seat[n].is_here || is_peer != (i >= run->node_count))
			continue;
		fm_run_order(run, n, &copy);
		fm_run_seat_forget(run, n);
	}
	co->is_wanted = false; /* if this node goes on, all others begin anew */
}

void fm_run_plan(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;

	forget_silent(run);
	if (co->code == 0 && sinks_of(co) && run->now_ns > co->progress_ns + run->times->stall)
		co->code = -ETIMEDOUT;
	if (co->code == 0 && sinks_of(co) && co->is_torn)
		co->code = -EBADMSG;
	if (co->code != 0 || is_done(run)) {
		end_all(run, co->code);
		return;
	}
	revoke_leases(run);
	plan_invites(run);
	if (!fm_run_is_settled(run))
		return;
	plan_reads(run);
	plan_fetches(run);
	plan_check(run);
	plan_commits(run);
}
