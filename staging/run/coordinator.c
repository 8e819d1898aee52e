/* SPDX-License-Identifier: MIT */
/*
 * coordinator - what the coordinator knows: of each member a seat, of each extent who has it. All
 * of it is what members said, so that another node that begins knows the same when they have said
 * it again. Here nothing is decided but whose CRC counts (plan.c has the rest).
 *
 * Numbers keep both ends together: a member's report has a number (join), orders are counted, and a
 * pulse says how many orders and extents the member has. Where all orders have arrived the pulse is
 * right: a lease or a fetch that it does not name is over. Where the count of extents is another
 * one, something was lost, and the member reports again.
 */
#include "staging/run/run_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 16 /* reads of an extent that gave wrong bytes */
#define FAILED_MAX 4 /* fetches from one node that are counted */
/* Fetches with other bytes, or words that it takes back: then a node is believed nothing more. */
#define WRONG_MAX 4
/* The same for fetches of which nothing comes, in a row; one that takes too long counts more. One
 * that has no memory to send from refuses many. */
#define SILENT_MAX 64
#define SILENT_LATE 16

#define SIZE_OF(type, array) sizeof(*((struct type *)NULL)->array)

/* and a bit in `have` */
_Static_assert(SIZE_OF(coordinator, holders) + SIZE_OF(coordinator, doubted) +
		       SIZE_OF(coordinator, crc) + SIZE_OF(coordinator, was_read) +
		       SIZE_OF(coordinator, not_before_ms) + SIZE_OF(coordinator, busy) +
		       SIZE_OF(coordinator, tries) + SIZE_OF(member, crc) +
		       SIZE_OF(member, giver_of) + SIZE_OF(fm_run, expected) <
		       FM_RUN_EXTENT_MEMORY,
	       "what is known of an extent");

int fm_run_coordinator_init(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;

	co->holders = calloc(run->extent_count, sizeof(*co->holders));
	co->doubted = calloc(run->extent_count, sizeof(*co->doubted));
	co->crc = calloc(run->extent_count, sizeof(*co->crc));
	co->was_read = calloc(run->extent_count, sizeof(*co->was_read));
	co->not_before_ms = calloc(run->extent_count, sizeof(*co->not_before_ms));
	co->busy = calloc(run->extent_count, sizeof(*co->busy));
	co->tries = calloc(run->extent_count, sizeof(*co->tries));
	return co->holders && co->doubted && co->crc && co->was_read && co->not_before_ms &&
			       co->busy && co->tries
		       ? 0
		       : -ENOMEM;
}

void fm_run_coordinator_free(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;

	free(co->holders);
	free(co->doubted);
	free(co->crc);
	free(co->was_read);
	free(co->not_before_ms);
	free(co->busy);
	free(co->tries);
}

void fm_run_coordinator_begin(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;
	struct coordinator new = {.is_on = true,
				  .holders = co->holders,
				  .doubted = co->doubted,
				  .crc = co->crc,
				  .was_read = co->was_read,
				  .not_before_ms = co->not_before_ms,
				  .busy = co->busy,
				  .tries = co->tries,
				  .began_ns = run->now_ns,
				  .progress_ns = run->now_ns};

	memset(co->holders, 0, run->extent_count * sizeof(*co->holders));
	memset(co->doubted, 0, run->extent_count * sizeof(*co->doubted));
	memset(co->was_read, 0, run->extent_count * sizeof(*co->was_read));
	memset(co->not_before_ms, 0, run->extent_count * sizeof(*co->not_before_ms));
	memset(co->busy, 0, run->extent_count * sizeof(*co->busy));
	memset(co->tries, 0, run->extent_count * sizeof(*co->tries));
	*co = new;
}

/* Orders are counted, so that a member notices one that was lost. */
void fm_run_order(struct fm_run *run, unsigned node, struct fm_run_msg *msg)
{
	struct seat *seat = &run->coordinator.seat[node];

	msg->join = seat->join;
	msg->order = ++seat->order;
	fm_run_send(run, node, msg);
}

/* ---- who has what ---- */

uint64_t fm_run_in_place(const struct coordinator *co, enum fm_run_place place)
{
	uint64_t nodes = 0;

	for (unsigned n = 0; n < FM_RUN_NODES_MAX; n++)
		if (co->seat[n].is_here && co->seat[n].state.place == place)
			nodes |= bit(n);
	return nodes;
}

static void put_off(struct fm_run *run, uint32_t extent, uint64_t ns)
{
	run->coordinator.not_before_ms[extent] = (uint32_t)((run->now_ns + ns) / 1000000);
}

/* It, and what is behind it, may be lacking in any part. */
void fm_run_look_again(struct coordinator *co, uint32_t extent)
{
	for (unsigned i = 0; i < co->part_count; i++)
		if (extent < co->next_read[i])
			co->next_read[i] = extent;
}

static void unhold(struct coordinator *co, unsigned node, uint32_t extent)
{
	if (!(co->holders[extent] & bit(node)))
		return;
	co->holders[extent] &= ~bit(node);
	co->seat[node].have_count--;
	fm_run_look_again(co, extent);	/* no other one may be in its part */
	if (co->holders[extent])
		return;
	co->covered--;
	co->version++;
	co->is_sealed = false;
}

static void unhold_block(const struct fm_run *run, struct coordinator *co, unsigned node,
			 uint32_t first)
{
	for (uint32_t e = first; e < first + BLOCK && e < run->extent_count; e++)
		unhold(co, node, e);
	co->looked += BLOCK;
}

/*
 * Looks only where it said that it has something: one that reports anew all the time is not to cost
 * others more than it says.
 */
static void unhold_all(const struct fm_run *run, struct coordinator *co, unsigned node)
{
	struct seat *seat = &co->seat[node];

	for (uint32_t b = 0; b * BLOCK < run->extent_count; b++)
		if (seat->held[b / 64] >> (b % 64) & 1)
			unhold_block(run, co, node, b * BLOCK);
	memset(seat->held, 0, sizeof(seat->held));
}

static void note_held(struct seat *seat, uint32_t extent)
{
	uint32_t block = extent / BLOCK;

	seat->held[block / 64] |= UINT64_C(1) << (block % 64);
}

static void discard(struct fm_run *run, unsigned node, uint32_t extent, uint32_t right)
{
	struct fm_run_msg msg = {.type = FM_RUN_DISCARD, .extent = extent, .crc = right};

	unhold(&run->coordinator, node, extent);
	run->coordinator.seat[node].fetch_after_ns = run->now_ns + run->times->retry;
	fm_run_order(run, node, &msg);
}

/*
 * What a member read from the source counts more than what members say that they have; else the
 * first CRC of an extent counts. After the source was looked at nothing changes, unless nobody who
 * has the extent is believed.
 */
static bool is_stronger(const struct coordinator *co, unsigned node, uint32_t extent,
			uint64_t ready, bool is_read)
{
	uint64_t trusted = fm_run_trusted(co, extent);

	if (trusted)
		return is_read && !co->was_read[extent] && !co->is_sealed && !(trusted & ready);
	return is_read || !(co->was_read[extent] || co->distrusted & bit(node));
}

/*
 * Whether the source gave two contents to this coordinator itself, and one who has the first is
 * READY. Whether that one is believed does not matter: the first CRC was read, it is not its word.
 */
static bool is_read_otherwise(const struct coordinator *co, uint32_t extent, bool is_read)
{
	return is_read && co->was_read[extent] &&
	       co->holders[extent] & fm_run_in_place(co, FM_RUN_READY);
}

/*
 * A node that is READY counts more than others, since for it the source was looked at. If the
 * source was looked at for both CRCs, or both were read, it gave other bytes without a change that
 * shows: nobody knows which are right, and no more nodes get them. Who is not believed is not READY
 * here, but where both were read. false: this one does not count.
 */
static bool settle_conflict(struct fm_run *run, unsigned node, uint32_t extent, uint32_t crc,
			    bool is_read)
{
	struct coordinator *co = &run->coordinator;
	uint64_t ready = fm_run_in_place(co, FM_RUN_READY) & ~co->distrusted;

	if (is_read_otherwise(co, extent, is_read) ||
	    (ready & bit(node) && (co->is_sealed || fm_run_trusted(co, extent) & ready))) {
		co->is_torn = true;
		return false;
	}
	if (!(ready & bit(node)) && !is_stronger(co, node, extent, ready, is_read)) {
		discard(run, node, extent, co->crc[extent]);
		return false;
	}
	for (unsigned n = 0; n < run->node_count; n++)
		if (co->holders[extent] & bit(n))
			discard(run, n, extent, crc);
	co->was_read[extent] = false;
	return true;
}

/* Forgets that the node has the extent: what was known of it does not hold. */
static void doubt(struct coordinator *co, unsigned node, uint32_t extent)
{
	co->doubted[extent] |= bit(node);
	fm_run_look_again(co, extent);
}

static uint8_t add_up(unsigned count, unsigned more, unsigned most)
{
	return (uint8_t)(count + more < most ? count + more : most);
}

/* After some words of it that were wrong, or fetches that it let wait, nothing that it says is
 * believed. */
static void count_wrong(struct coordinator *co, unsigned node, unsigned wrong, unsigned silent)
{
	co->wrong_of[node] = add_up(co->wrong_of[node], wrong, WRONG_MAX);
	co->silent_of[node] = add_up(co->silent_of[node], silent, SILENT_MAX);
	if ((co->wrong_of[node] < WRONG_MAX && co->silent_of[node] < SILENT_MAX) ||
	    co->distrusted & bit(node))
		return;
	co->distrusted |= bit(node);
	fm_run_look_again(co, 0);
}

/* is_read: it read the extent from the source. Returns whether this is news. */
static bool note_have(struct fm_run *run, unsigned node, uint32_t extent, uint32_t crc,
		      bool is_read)
{
	struct coordinator *co = &run->coordinator;
	bool is_new = !(co->holders[extent] & bit(node));

	if (!fm_run_is_right(run, extent, crc))
		return false;
	if (!is_new && crc != co->crc[extent]) {	/* and did not say that it lost it */
		unhold(co, node, extent);
		doubt(co, node, extent);
		count_wrong(co, node, 1, 0);
		return false;
	}
	if (fm_run_is_conflict(co, extent, crc) &&
	    !settle_conflict(run, node, extent, crc, is_read))
		return false;
	if (!co->holders[extent]) {
		co->crc[extent] = crc;
		co->covered++;
		co->version++;
		co->is_sealed = false;
	}
	co->was_read[extent] = co->was_read[extent] || is_read;
	co->seat[node].have_count += !(co->holders[extent] & bit(node));
	co->holders[extent] |= bit(node);
	note_held(&co->seat[node], extent);
	return is_new;
}

/* ---- what members are at ---- */

static void lease_drop(struct coordinator *co, struct seat_lease *l)
{
	if (!l->is_used)
		return;
	if (!l->is_revoked)
		co->busy[l->extent]--;
	l->is_used = false;
}

static bool lease_over(struct coordinator *co, struct seat *seat, uint32_t extent)
{
	for (unsigned i = 0; i < FM_RUN_LEASES; i++) {
		if (!seat->lease[i].is_used || seat->lease[i].extent != extent)
			continue;
		lease_drop(co, &seat->lease[i]);
		return true;
	}
	return false;
}

void fm_run_coming_add(struct fm_run *run, struct seat *seat, uint32_t extent, uint8_t from)
{
	struct coordinator *co = &run->coordinator;

	seat->coming[seat->coming_count++] =
		(struct seat_coming){.extent = extent, .from = from, .since_ns = run->now_ns};
	co->busy[extent]++;
	if (from < FM_RUN_NODES_MAX)
		co->uploads[from]++;
}

/* The node sent the extent as it said: what failed before is forgotten, but for wrong bytes. */
static void note_came(struct coordinator *co, unsigned from, uint32_t extent)
{
	if (from >= FM_RUN_NODES_MAX)
		return;
	co->failed_of[from] = co->silent_of[from] = 0;
	co->doubted[extent] &= ~bit(from);
	if (co->wrong_of[from] < WRONG_MAX)
		co->distrusted &= ~bit(from);
}

/* How a fetch of this member ended; of what was offered nothing is noted. */
static void note_fetch(struct coordinator *co, const struct seat *seat, uint32_t extent, bool came)
{
	for (unsigned i = 0; i < seat->coming_count; i++) {
		unsigned from = seat->coming[i].from;

		if (seat->coming[i].extent != extent || from >= FM_RUN_NODES_MAX)
			continue;
		if (came)
			note_came(co, from, extent);
		else if (co->failed_of[from] < FAILED_MAX)
			co->failed_of[from]++;
	}
}

/* It comes no more, whatever came of it. A fetch had an upload of another node until now. */
static void coming_drop(struct fm_run *run, struct seat *seat, uint32_t extent)
{
	struct coordinator *co = &run->coordinator;

	for (unsigned i = 0; i < seat->coming_count; i++) {
		const struct seat_coming *c = &seat->coming[i];

		if (c->extent != extent)
			continue;
		co->busy[extent]--;
		if (c->from < FM_RUN_NODES_MAX) {
			co->uploads[c->from]--;
			seat->fetched_ns += run->now_ns - c->since_ns;
		}
		seat->coming[i] = seat->coming[--seat->coming_count];
		return;
	}
}

static const struct seat_lease *lease_of(const struct seat_lease *lease, uint32_t extent)
{
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		if (lease[i].is_used && lease[i].extent == extent)
			return &lease[i];
	return NULL;
}

/* Replaces what was known of a member by what it says now. */
static void take_work(struct fm_run *run, struct seat *seat, const struct fm_run_state *st)
{
	struct coordinator *co = &run->coordinator;
	struct seat_lease old[FM_RUN_LEASES];

	memcpy(old, seat->lease, sizeof(old));
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		lease_drop(co, &seat->lease[i]);
	while (seat->coming_count > 0)
		coming_drop(run, seat, seat->coming[0].extent);
	for (unsigned i = 0; i < st->lease_count; i++) {
		uint32_t extent = st->lease[i].extent;
		const struct seat_lease *known = lease_of(old, extent);

		seat->lease[i] =
			(struct seat_lease){.is_used = true,
					    .is_revoked = st->lease[i].is_revoked,
					    .is_carry = known && known->is_carry,
					    .server = known ? known->server : FM_RUN_NOBODY,
					    .is_read = known && known->is_read,
					    .extent = extent,
					    .since_ns = known ? known->since_ns : run->now_ns};
		co->busy[extent] = (uint16_t)(co->busy[extent] + !st->lease[i].is_revoked);
	}
	for (unsigned i = 0; i < st->coming_count; i++)
		fm_run_coming_add(run, seat, st->coming[i].extent, st->coming[i].from);
}

/* Forgets a member: its leases, and the extents that only it had, are open again. */
void fm_run_seat_forget(struct fm_run *run, unsigned node)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[node];
	struct fm_run_state none = {0};

	unhold_all(run, co, node);
	take_work(run, seat, &none);
	*seat = (struct seat){.heard_ns = seat->heard_ns,
			      .fetched_ns = seat->fetched_ns,
			      .fewer = seat->fewer,
			      .fewer_ns = seat->fewer_ns};
}

/* ---- what they say ---- */

static bool is_sound_state(const struct fm_run *run, const struct fm_run_state *st)
{
	if (st->place >= FM_RUN_PLACES || st->lease_count > FM_RUN_LEASES ||
	    st->coming_count > FM_RUN_SLOTS || st->have_count > run->extent_count ||
	    st->uploads == 0 || st->uploads > FM_RUN_UPLOADS_MAX)
		return false;
	for (unsigned i = 0; i < st->lease_count; i++)
		if (st->lease[i].extent >= run->extent_count)
			return false;
	for (unsigned i = 0; i < st->coming_count; i++)
		if (st->coming[i].extent >= run->extent_count)
			return false;
	return true;
}

static void answer(struct fm_run *run, const struct fm_run_msg *msg, enum fm_run_msg_type type)
{
	struct fm_run_msg say = {.type = (uint8_t)type,
				 .join = msg->join,
				 .order = run->coordinator.seat[msg->from].order};

	fm_run_send(run, msg->from, &say);
}

static void on_join(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[msg->from];

	fm_run_seat_forget(run, msg->from);
	seat->is_here = true;
	seat->join = msg->join;
	seat->state = msg->state;
	seat->heard_ns = seat->page_ns = run->now_ns;
	take_work(run, seat, &msg->state);
	if (!(co->seen & bit(msg->from)))
		co->progress_ns = run->now_ns;
	co->seen |= bit(msg->from);
}

static void on_page(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[msg->from];
	const struct fm_run_page *page = &msg->page;

	if (page->first % FM_RUN_PAGE != 0 || page->first >= run->extent_count || seat->is_whole)
		return;
	seat->page_ns = run->now_ns;
	for (uint32_t i = 0; i < FM_RUN_PAGE && page->first + i < run->extent_count; i++)
		if (page->bits[i / 8] >> (i % 8) & 1)
			(void)note_have(run, msg->from, page->first + i, page->crc[i], false);
	if (!page->is_last)
		return;
	seat->is_whole = true;
	co->is_sealed = co->is_sealed || (seat->state.place == FM_RUN_READY &&
					  !(co->distrusted & bit(msg->from)) &&
					  seat->have_count == run->extent_count);
}

/* A page of its report, which may be later than a pulse on another way, or a word since then. */
static bool is_report_lost(const struct fm_run *run, const struct seat *seat,
			   const struct fm_run_state *st)
{
	if (!seat->is_whole)
		return run->now_ns > seat->page_ns + run->times->quiet;
	return (st->order == seat->order && st->place != FM_RUN_READY &&
				   st->have_count != seat->have_count);
}

static void on_pulse(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[msg->from];
	bool is_changed = seat->state.place != msg->state.place;
	uint64_t wanted;

	if (!seat->is_here || seat->join != msg->join) {
		answer(run, msg, FM_RUN_RESYNC);
		return;
	}
	seat->heard_ns = run->now_ns;
	wanted = seat->state.wanted;
	seat->state = msg->state;
	seat->state.wanted |= wanted; /* this pulse may be older, and have come another way */
	if (is_changed && msg->state.place == FM_RUN_OUT)
		unhold_all(run, co, msg->from);
	if (is_changed)
		co->progress_ns = run->now_ns;
	if (is_report_lost(run, seat, &msg->state)) {
		co->resynced++;
		answer(run, msg, FM_RUN_RESYNC);
		return;
	}
	if (seat->is_whole && msg->state.order == seat->order)
		take_work(run, seat, &msg->state);
	answer(run, msg, FM_RUN_NOTED);
}

static void on_have(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[msg->from];
	const struct seat_lease *l = lease_of(seat->lease, msg->extent);
	bool was_held = co->holders[msg->extent] != 0;
	bool is_other = fm_run_is_conflict(co, msg->extent, msg->crc);

	/* who is READY writes nothing more, so it never has other bytes than it reported */
	if (is_other && seat->is_whole && seat->state.place == FM_RUN_READY &&
	    !(co->holders[msg->extent] & bit(msg->from)))
		count_wrong(co, msg->from, 1, 0);
	if (note_have(run, msg->from, msg->extent, msg->crc, l && l->is_read)) {
		co->progress_ns = run->now_ns;
		seat->fewer -= seat->fewer > 0;
	}
	note_fetch(co, seat, msg->extent, true);
	coming_drop(run, seat, msg->extent);
	if (l && l->is_carry)
		note_came(co, l->server, msg->extent);
	if (lease_over(co, seat, msg->extent))
		seat->reads_failed = 0;
	seat->is_late = false;
	if (!was_held && fm_run_trusted(co, msg->extent))
		put_off(run, msg->extent, run->times->quiet);
}

/* What a member read that keeps nothing counts as much as what another one read. */
static void on_sent(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[msg->from];
	const struct seat_lease *l = lease_of(seat->lease, msg->extent);
	bool is_read = l && l->is_read && fm_run_is_right(run, msg->extent, msg->crc);

	if (!l)
		return;
	if (is_read && (!fm_run_is_conflict(co, msg->extent, msg->crc) ||
			settle_conflict(run, msg->from, msg->extent, msg->crc, true))) {
		co->crc[msg->extent] = msg->crc;
		co->was_read[msg->extent] = true;
	}
	if (l->is_carry)
		note_came(co, l->server, msg->extent);
	(void)lease_over(co, seat, msg->extent);
	seat->is_late = false;
	put_off(run, msg->extent, run->times->quiet);
}

/*
 * Other bytes than those that the node said it has, or none in time for the second time in a row:
 * others read the extent then. After some such the node is believed nothing more. What a member
 * says of a node that it was not to fetch from, or of a CRC that counts no more, is nothing.
 */
static void note_server(struct coordinator *co, unsigned node, const struct fm_run_msg *msg)
{
	bool is_wrong = msg->code == -EBADMSG && msg->crc == co->crc[msg->extent];
	bool is_late = msg->code == -ETIMEDOUT;

	if (node >= FM_RUN_NODES_MAX || !(co->holders[msg->extent] & bit(node)))
		return;
	if (is_wrong || (is_late && co->silent_of[node] >= SILENT_LATE))
		doubt(co, node, msg->extent);
	count_wrong(co, node, is_wrong, is_late ? SILENT_LATE : msg->code == -EBUSY);
}

static void on_read_failed(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[msg->from];
	const struct seat_lease *l = lease_of(seat->lease, msg->extent);
	bool is_carry = l && l->is_carry;

	if (is_carry)
		note_server(co, l->server, msg);
	(void)lease_over(co, seat, msg->extent);
	put_off(run, msg->extent, is_carry || msg->code == -EBUSY ? run->times->retry : 0);
	if (is_carry) /* that says nothing of its storage: it may read what cannot be carried */
		return;
	if (msg->code == -ESTALE)
		co->code = -ESTALE;
	else if (msg->code == -EBADMSG && ++co->tries[msg->extent] >= TRIES_MAX)
		co->code = -EBADMSG;
	/* Who refuses a lease is left alone as well: while orders flow, no pulse says what it is
	 * at. */
	seat->read_after_ns = run->now_ns + (run->times->retry
					     << (seat->reads_failed < 4 ? seat->reads_failed : 4));
	seat->reads_failed++;
}

static bool is_fetched_from(const struct seat *seat, uint32_t extent, unsigned node)
{
	for (unsigned i = 0; i < seat->coming_count; i++)
		if (seat->coming[i].extent == extent && seat->coming[i].from == node)
			return true;
	return false;
}

/*
 * Half as many at once, for each round that was late: on a slow wire the others keep each from
 * coming in time, however often they are tried. Of those that began together one counts.
 */
static void note_late_round(const struct fm_run *run, struct seat *seat)
{
	if (seat->fewer > 0 && run->now_ns < seat->fewer_ns + run->times->fetch)
		return;
	seat->fewer = (seat->fewer + FM_RUN_FETCHES) / 2;
	seat->fewer_ns = run->now_ns;
}

static void on_fetch_failed(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[msg->from];

	if (is_fetched_from(seat, msg->extent, msg->node)) {
		note_server(co, msg->node, msg);
		if (msg->code == -ETIMEDOUT)
			note_late_round(run, seat);
	}
	note_fetch(co, seat, msg->extent, false);
	coming_drop(run, seat, msg->extent);
	co->failed++;
	seat->avoid |= bit(msg->node);
	seat->avoid_until_ns = run->now_ns + 2 * run->times->retry;
}

/*
 * CHECKED: the source was listed again. The answer counts only for the CRCs that were known when
 * the check was ordered.
 */
static void on_checked(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;

	if (msg->code == -ESTALE) {
		co->code = -ESTALE;
		return;
	}
	if (co->check_version == 0 || msg->number != co->check_version)
		return;
	co->check_version = 0;
	co->check_after_ns = run->now_ns + 2 * run->times->retry;
	co->is_sealed =
		msg->code == 0 && msg->number == co->version && co->covered == run->extent_count;
}

/* Takes a message that only a member which has joined may send. */
static void take_report(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;
	struct seat *seat = &co->seat[msg->from];

	seat->heard_ns = run->now_ns;
	if (msg->type == FM_RUN_PAGE_OF)
		on_page(run, msg);
	else if (msg->type == FM_RUN_HAVE)
		on_have(run, msg);
	else if (msg->type == FM_RUN_LOST)
		unhold(co, msg->from, msg->extent);
	else if (msg->type == FM_RUN_SENT)
		on_sent(run, msg);
	else if (msg->type == FM_RUN_READ_FAILED)
		on_read_failed(run, msg);
	else if (msg->type == FM_RUN_FETCH_FAILED)
		on_fetch_failed(run, msg);
	else if (msg->type == FM_RUN_CHECKED)
		on_checked(run, msg);
}

/*
 * The time that a new coordinator gives others to report begins when somebody wants the dataset.
 * A run may have been made by a late word of the one before it, of which the others know nothing
 * until then.
 */
static void note_wanted(struct fm_run *run)
{
	struct coordinator *co = &run->coordinator;

	if (co->is_wanted || !(fm_run_wanted(co) | fm_run_in_place(co, FM_RUN_SINK)))
		return;
	co->is_wanted = true;
	co->began_ns = run->now_ns;
}

void fm_run_coordinator_take(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct coordinator *co = &run->coordinator;
	bool has_state = msg->type == FM_RUN_JOIN || msg->type == FM_RUN_PULSE;

	if (!co->is_on || (has_state && !is_sound_state(run, &msg->state)))
		return;
	if (msg->type == FM_RUN_JOIN)
		on_join(run, msg);
	else if (msg->type == FM_RUN_PULSE)
		on_pulse(run, msg);
	else if (co->seat[msg->from].is_here && co->seat[msg->from].join == msg->join)
		take_report(run, msg);
	if (has_state)
		note_wanted(run);
}
