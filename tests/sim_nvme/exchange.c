/* SPDX-License-Identifier: MIT */
/*
 * What nodes hear of each other, as fmoved passes it on: a question to each peer, read there at
 * some moment between question and answer, and one answer with all that came, the reason where
 * nothing did.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/json.h"
#include "nvmetcp/peers.h"
#include "tests/sim_nvme/nvme_sim.h"

#define PEER_NS (2 * S)			/* as long as fmoved waits for a peer */
#define DEADLINE_NS (4 * S)		/* as long as fmove-nvmed waits for fmoved */

static bool is_reachable(const struct node *from, const struct node *to)
{
	return to->has_power && !sim.is_cut[from->number][to->number] &&
	       sim.now_ns >= to->deaf_ns && sim.now_ns >= to->late_ns &&
	       sim.now_ns >= from->late_ns;
}

static const char *text_of(const struct fm_json *said, const char *key)
{
	return fm_json_as_text(fm_json_get(said, key));
}

static bool is_said_written(const struct fm_json *said, unsigned volume)
{
	const struct fm_json *at;
	size_t i;

	for (i = 0; (at = fm_json_at(said, i)); i++)
		if (fm_json_is_true(fm_json_get(at, "read_write")) &&
		    (strcmp(text_of(at, "wwid"), sim_wwids[volume]) == 0 ||
		     strcmp(text_of(at, "name"), sim_volumes[volume]) == 0))
			return true;
	return false;
}

static void note_told(struct node *n)
{
	for (unsigned v = 0; v < sim.volume_count; v++) {
		struct mounted *m = &n->device[v].mount;

		m->is_told = m->is_told || is_said_written(n->published, v);
	}
}

/* Of what this node mounts itself it hears as well; that is checked where it begins. */
static void note_heard(struct node *n, unsigned peer)
{
	for (unsigned v = 0; v < sim.volume_count; v++) {
		const struct device *d = &sim.node[peer].device[v];

		n->has_heard_hand[peer][v] = is_said_written(n->question[peer].heard, v) &&
					     d->mount.is_there && d->mount.is_by_hand;
	}
}

static int world_publish(void *ctx, const char *text, struct fm_err *err)
{
	struct node *n = ctx;
	struct fm_json *said;

	if (n->is_dying || (n->is_save_broken && sim_is_one_in(50)))
		return fm_err_set(err, -EIO, "broken");
	if (sim_mutant == MUTANT_SAY_NOTHING_BEFORE && sim_is_one_in(50))
		return 0;
	said = fm_json_load(text);
	fm_json_free(n->published);
	n->published = fm_json_share(fm_json_get(said, "volumes"));
	memcpy(n->was_out, n->is_out, sizeof(n->was_out));
	fm_json_free(said);
	note_told(n);
	if (sim_is_tracing)
		sim_trace("%s says %s", n->name, text);
	return 0;
}

static void world_ask_peers(void *ctx)
{
	struct node *n = ctx;

	if (n->is_dying)
		return;
	if (n->is_asking)
		sim_violate("%s: asks its peers twice at once", n->name);
	n->is_asking = true;
	n->answer_ns = sim.now_ns + sim_below(4) * MS;
	if (sim.now_ns < n->deaf_ns) {
		n->answer_ns = sim_is_one_in(50) ? sim.now_ns + MS : sim.now_ns + DEADLINE_NS;
		return;
	}
	for (unsigned p = 0; p < sim.node_count; p++) {
		bool is_lost = sim_is_one_in(sim.loss_percent),
		     is_answer_lost = sim_is_one_in(sim.loss_percent);
		uint64_t there_ns = sim.now_ns + (1 + sim_below(sim.loss_percent ? 1900 : 20)) * MS,
			 back_ns;

		if (p == n->number)
			continue;
		back_ns = there_ns + sim_below(50) * MS;
		n->question[p] = (struct question){.at_ns = is_lost ? FM_NEVER : there_ns,
						   .is_answer_lost = is_answer_lost};
		if (is_lost || is_answer_lost)
			back_ns = sim.now_ns + PEER_NS;
		n->answer_ns = back_ns > n->answer_ns ? back_ns : n->answer_ns;
	}
}

void exchange_fill_world(struct fm_supervisor_world *world)
{
	world->publish = world_publish;
	world->ask_peers = world_ask_peers;
}

void exchange_drop(struct node *n)
{
	n->is_asking = false;
	for (unsigned p = 0; p < NODES_MAX; p++) {
		n->question[p].at_ns = FM_NEVER;
		fm_json_free(n->question[p].heard);
		n->question[p].heard = NULL;
	}
}

void exchange_read(struct node *n, unsigned peer)
{
	struct node *to = &sim.node[peer];
	struct question *q = &n->question[peer];

	q->at_ns = FM_NEVER;
	if (!is_reachable(n, to))
		return;
	q->heard = fm_json_share(to->published);
}

static bool is_answered(const struct node *n, unsigned peer)
{
	const struct question *q = &n->question[peer];

	return q->heard && !q->is_answer_lost && !sim.is_cut[n->number][peer] &&
	       sim.now_ns >= n->deaf_ns;
}

/* ---- answers ---- */

static struct fm_json *event_of(const struct node *n, unsigned peer)
{
	const struct question *q = &n->question[peer];

	if (is_answered(n, peer))
		return fm_json_pack("{s:s, s:O}", "node", sim.node[peer].name, "volumes", q->heard);
	return fm_json_pack("{s:s, s:[], s:s, s:s}", "node", sim.node[peer].name, "volumes", "code",
			    "EHOSTUNREACH", "text", "is not connected");
}

/* As the bytes that fmoved sends. event is taken over. */
static int hear(struct fm_peers *peers, struct fm_json *event)
{
	char *text = fm_json_dump(event, FM_JSON_ONE_LINE);
	struct fm_json *json = NULL;
	int ret = text ? fm_json_parse(text, strlen(text), &json, NULL) : -ENOMEM;

	if (ret == 0)
		ret = fm_peers_add(peers, json);
	fm_json_free(json);
	free(text);
	fm_json_free(event);
	return ret;
}

void exchange_answer(struct node *n)
{
	struct fm_peers peers = { 0 };
	bool is_deaf = sim.now_ns < n->deaf_ns;

	for (unsigned p = 0; p < sim.node_count && !is_deaf; p++) {
		if (p == n->number)
			continue;
		if (is_answered(n, p))
			note_heard(n, p);
		if (hear(&peers, event_of(n, p)) < 0)
			sim_violate("%s: what %s says is not understood", n->name,
				    sim.node[p].name);
	}
	if (is_deaf)
		strcpy(peers.why, "fmoved does not answer in time");
	exchange_drop(n);
	node_enter(n);
	fm_supervisor_peers(n->sup, &peers);
	node_leave(n);
}
