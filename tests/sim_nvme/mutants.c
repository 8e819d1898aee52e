/* SPDX-License-Identifier: MIT */
/*
 * Mistakes that the code does not have, one at a time: a simulator that does not find them finds
 * nothing. The code is as it is; the linker puts these functions before its own (--wrap), and the
 * simulated machine has the others (MUTANT_ in node.c, kernel.c, exchange.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmetcp/guard.h"
#include "nvmetcp/supervisor_priv.h"
#include "tests/sim_nvme/nvme_sim.h"

enum mutant sim_mutant;

static const char *const names[MUTANTS] = {
	[MUTANT_NONE] = "none",
	[MUTANT_SILENCE_LIFTS] = "silence_lifts",
	[MUTANT_READERS_UNSEEN] = "readers_unseen",
	[MUTANT_DEAF_GUARD] = "deaf_guard",
	[MUTANT_UNSEALED_READERS] = "unsealed_readers",
	[MUTANT_SAY_NOTHING_BEFORE] = "say_nothing_before",
	[MUTANT_HUNG_FORGOTTEN] = "hung_forgotten",
	[MUTANT_ORPHAN_FORGOTTEN] = "orphan_forgotten",
	[MUTANT_STRAY_FORGOTTEN] = "stray_forgotten",
	[MUTANT_NEVER_LIFTS] = "never_lifts",
	[MUTANT_SILENCE_PERMITS] = "silence_permits",
	[MUTANT_KEEP_PERMISSION] = "keep_permission",
	[MUTANT_SAME_NUMBER] = "same_number",
	[MUTANT_UNHEARD_READERS] = "unheard_readers",
	[MUTANT_LOST_PERMITS] = "lost_permits",
	[MUTANT_OWN_SEAL_UNASKED] = "own_seal_unasked",
	[MUTANT_SEAL_UNASKED] = "seal_unasked",
	[MUTANT_UNMOUNT_IS_OVER] = "unmount_is_over",
	[MUTANT_LEFT_FORGOTTEN] = "left_forgotten",
	[MUTANT_REMOVED_FORGOTTEN] = "removed_forgotten",
	[MUTANT_FORCE_STORED] = "force_stored",
	[MUTANT_HANDS_UNSEEN] = "hands_unseen",
	[MUTANT_ALARM_UNSEEN] = "alarm_unseen",
	[MUTANT_TAKEN_AGAIN] = "taken_again",
	[MUTANT_SAME_HOST] = "same_host",
	[MUTANT_MISSED] = "missed",
	[MUTANT_LOST_UNTOLD] = "lost_untold",
	[MUTANT_SEAL_UNWATCHED] = "seal_unwatched",
	[MUTANT_SAVED_LATE] = "saved_late",
};

static bool was_refused[NODES_MAX];

bool mutant_choose(const char *name)
{
	for (unsigned i = 0; i < MUTANTS; i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		sim_mutant = (enum mutant)i;
		return true;
	}
	return false;
}

void mutant_show_all(void)
{
	for (unsigned i = 1; i < MUTANTS; i++)
		printf("%s\n", names[i]);
}

void mutant_forget(void)
{
	memset(was_refused, 0, sizeof(was_refused));
}

/* The names that --wrap wants. */
void __real_fm_guard_decide(const struct fm_guard_facts *facts, struct fm_guard_answer *answer);
void __wrap_fm_guard_decide(const struct fm_guard_facts *facts, struct fm_guard_answer *answer);

/* Whether the guard is not told of it at all. */
static bool is_dropped(const struct fm_guard_peer *p)
{
	return sim_mutant == MUTANT_DEAF_GUARD ||
	       (sim_mutant == MUTANT_SILENCE_LIFTS && p->silent_why[0]) ||
	       (sim_mutant == MUTANT_READERS_UNSEEN && p->is_mounted && !p->is_read_write);
}

/* What it is to seal it has written itself, and knows no reason to ask about. */
static bool is_just_written(const struct node *n, const struct fm_guard_facts *facts)
{
	const struct fm_supervised *v = fm_supervisor_find(n->sup, facts->volume->name);

	return v->seal == FM_SEAL_WANTED && v->is_written;
}

/* Whether who does not answer has permitted it, as far as the guard is told. */
static bool is_silence_enough(const struct node *n, const struct fm_guard_facts *facts)
{
	if (sim_mutant == MUTANT_OWN_SEAL_UNASKED)
		return facts->is_sealed && !facts->is_sealing;
	if (sim_mutant == MUTANT_SEAL_UNASKED)
		return is_just_written(n, facts);
	return sim_mutant == MUTANT_SILENCE_PERMITS ||
	       (sim_mutant == MUTANT_LOST_PERMITS && n->is_heard_lost);
}

static void twist(const struct node *n, struct fm_guard_facts *facts, struct fm_guard_peer *peers)
{
	unsigned count = 0;

	for (unsigned i = 0; i < facts->peer_count; i++) {
		if (is_dropped(&facts->peers[i]))
			continue;
		peers[count] = facts->peers[i];
		if (facts->peers[i].silent_why[0] && is_silence_enough(n, facts))
			peers[count].counts = false;
		if (sim_mutant == MUTANT_FORCE_STORED)
			peers[count].has_spoken = false;
		if (sim_mutant == MUTANT_SAME_HOST)
			peers[count].is_same_host = false;
		count++;
	}
	facts->peers = peers;
	facts->peer_count = count;
	if (sim_mutant == MUTANT_UNSEALED_READERS &&
	    !fm_guard_is_writer(facts->volume, facts->node))
		facts->is_sealed = facts->has_heard = true;
	facts->has_heard = facts->has_heard || sim_mutant == MUTANT_UNHEARD_READERS;
	if (sim_mutant == MUTANT_FORCE_STORED && strcmp(facts->volume->name, sim_volumes[0]) == 0)
		facts->is_forced = facts->is_forced || n->is_nothing_forced;
}

void __wrap_fm_guard_decide(const struct fm_guard_facts *facts, struct fm_guard_answer *answer)
{
	unsigned node = (unsigned)(facts->node[1] - '1');
	struct fm_guard_facts twisted = *facts;
	struct fm_guard_peer *peers;

	if (sim_mutant == MUTANT_NONE) {
		__real_fm_guard_decide(facts, answer);
		return;
	}
	peers = calloc(facts->peer_count + 1, sizeof(*peers));
	twist(&sim.node[node], &twisted, peers);
	__real_fm_guard_decide(&twisted, answer);
	free(peers);
	if (sim_mutant != MUTANT_NEVER_LIFTS)
		return;
	was_refused[node] = was_refused[node] || answer->verdict == FM_GUARD_REFUSED;
	if (was_refused[node])
		*answer = (struct fm_guard_answer){.verdict = FM_GUARD_REFUSED,
						   .why = "once and for all"};
}

unsigned sim_known_hosts(const struct node *n)
{
	char host[FM_PEER_HOST_LEN + 1];
	unsigned known = 0;

	fm_peers_host(n->id, host);
	for (unsigned i = 0; n->sup && i < sim.node_count; i++)
		if (fm_peers_is_host(&n->sup->peers, sim.node[i].name, host))
			known |= 1u << i;
	return known;
}

/* As if it had no number of its own. */
void mutant_unsealed(struct fm_supervisor *sup, const char *volume)
{
	struct fm_supervised *v = fm_supervisor_find(sup, volume);
	struct fm_err err;

	if (sim_mutant != MUTANT_SAME_NUMBER || v->seal != FM_SEAL_OPEN || v->epoch == 0)
		return;
	v->epoch--;
	(void)fm_supervisor_save_seal(sup, v, &err);
}

void __real_fm_supervised_drop_answers(struct fm_supervised *v);
void __wrap_fm_supervised_drop_answers(struct fm_supervised *v);

void __wrap_fm_supervised_drop_answers(struct fm_supervised *v)
{
	if (sim_mutant != MUTANT_KEEP_PERMISSION)
		__real_fm_supervised_drop_answers(v);
}

void __real_fm_supervised_hold_found(struct fm_supervised *v);
void __wrap_fm_supervised_hold_found(struct fm_supervised *v);

void __wrap_fm_supervised_hold_found(struct fm_supervised *v)
{
	if (sim_mutant != MUTANT_LEFT_FORGOTTEN)
		__real_fm_supervised_hold_found(v);
}

void __real_fm_supervised_watch_seal(struct fm_supervised *v);
void __wrap_fm_supervised_watch_seal(struct fm_supervised *v);

void __wrap_fm_supervised_watch_seal(struct fm_supervised *v)
{
	if (sim_mutant != MUTANT_SEAL_UNWATCHED)
		__real_fm_supervised_watch_seal(v);
}

bool __real_fm_supervised_watch_writers(struct fm_supervised *v);
bool __wrap_fm_supervised_watch_writers(struct fm_supervised *v);

bool __wrap_fm_supervised_watch_writers(struct fm_supervised *v)
{
	return sim_mutant != MUTANT_ALARM_UNSEEN && __real_fm_supervised_watch_writers(v);
}

int __real_fm_supervisor_take_left(struct fm_supervisor *sup,
				   const struct fm_supervisor_config *config);
int __wrap_fm_supervisor_take_left(struct fm_supervisor *sup,
				   const struct fm_supervisor_config *config);

int __wrap_fm_supervisor_take_left(struct fm_supervisor *sup,
				   const struct fm_supervisor_config *config)
{
	if (sim_mutant != MUTANT_REMOVED_FORGOTTEN)
		return __real_fm_supervisor_take_left(sup, config);
	(void)fm_json_clear(sup->left);
	return 0;
}
