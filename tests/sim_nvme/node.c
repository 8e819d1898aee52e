/* SPDX-License-Identifier: MIT */
/* A node's daemon: its life, its files of state, its clocks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim_nvme/nvme_sim.h"

/* ---- clocks and chance ---- */

static uint64_t clock_now(void *ctx)
{
	const struct node *n = ctx;

	return sim.now_ns - n->booted_ns + S;
}

static uint64_t world_wall(void *ctx)
{
	const struct node *n = ctx;

	return (uint64_t)((int64_t)(sim.now_ns / MS) + n->wall_ms);
}

static void random_fill(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)(sim_chance() >> 11);
}

static const struct fm_random chance = { random_fill, NULL };

/* ---- files ---- */

static struct file *file_of(struct node *n, const char *name)
{
	for (unsigned i = 0; i < FILES_MAX; i++) {
		struct file *f = &n->file[i];

		if (!f->name)
			f->name = name;	/* the supervisor's constants */
		if (strcmp(f->name, name) == 0)
			return f;
	}
	abort();
}

static int world_load(void *ctx, const char *name, char **text, struct fm_err *err)
{
	const struct file *f = file_of(ctx, name);

	if (!f->text)
		return fm_err_set(err, -ENOENT, "none");
	*text = strdup(f->text);
	return 0;
}

static void put_file(struct file *f, const char *text, bool is_durable)
{
	free(f->text);
	f->text = strdup(text);
	if (!is_durable)
		return;
	free(f->durable);
	f->durable = strdup(text);
}

/* What it was said to be before the node's next write: written then, or lost with its daemon. */
static void put_late(struct node *n, bool is_written)
{
	for (unsigned i = 0; i < FILES_MAX; i++) {
		struct file *f = &n->file[i];
		char *late = f->late;

		f->late = NULL;
		if (late && is_written)
			put_file(f, late, true);
		free(late);
	}
}

static void note_lost(struct node *n, const struct file *f)
{
	n->is_held_lost = n->is_held_lost || strcmp(f->name, FM_SUPERVISOR_HELD) == 0;
	memcpy(sim.is_hand_lost, sim.was_by_hand, sizeof(sim.is_hand_lost));
	n->is_heard_lost = n->is_heard_lost || strcmp(f->name, FM_SUPERVISOR_HEARD) == 0;
}

/* The file that replaces the one of before has its name, and half of its text reached the disk. */
static void tear(struct node *n, struct file *f, const char *text)
{
	char *half = strndup(text, strlen(text) / 2);

	put_file(f, half, true);
	free(half);
	note_lost(n, f);
}

/* What is synced gets its name when it is on the disk, and not before. */
static void crash(struct node *n, struct file *f, const char *text, bool is_durable)
{
	static const char *const hows[] = { "before it writes", "while it writes",
					    "after it has written" };

	sim_trace("%s: ends %s %s", n->name, hows[sim_crash.how], f->name);
	sim.crashed_at = f->name;
	n->is_dying = true;
	n->is_losing_power = sim_crash.how == CRASH_TORN;
	if (sim_crash.how == CRASH_AFTER)
		put_file(f, text, is_durable);
	else if (sim_crash.how == CRASH_TORN && !is_durable)
		tear(n, f, text);
}

/* Killed at a write it has written, or not. One that failed may have done so at its last step, a
 * sync: then it is there all the same. */
static int world_save(void *ctx, const char *name, const char *text, bool is_durable,
		      struct fm_err *err)
{
	struct node *n = ctx;

	if (n->is_dying)
		return fm_err_set(err, -EIO, "dead");
	if (++sim.writes == sim_crash.write) {
		crash(n, file_of(n, name), text, is_durable);
		return fm_err_set(err, -EIO, "dead");
	}
	put_late(n, true);
	if (n->saves_left > 0 && --n->saves_left == 0) {
		n->is_dying = true;
		sim_trace("%s: killed while it writes %s", n->name, name);
	}
	if (sim_mutant == MUTANT_SAVED_LATE && !n->is_dying && !n->is_save_broken)
		file_of(n, name)->late = strdup(text);
	else if ((!n->is_dying && !n->is_save_broken) || sim_is_one_in(50))
		put_file(file_of(n, name), text, is_durable);
	return n->is_dying || n->is_save_broken ? fm_err_set(err, -EIO, "broken") : 0;
}

static void lose(struct node *n, struct file *f, bool is_damaged)
{
	sim_trace("%s: %s is %s", n->name, f->name, is_damaged ? "damaged" : "lost");
	free(f->text);
	free(f->durable);
	f->text = is_damaged ? strdup("{") : NULL;
	f->durable = is_damaged ? strdup("{") : NULL;
	note_lost(n, f);
}

void node_lose_files(struct node *n, bool is_damaged)
{
	for (unsigned i = 0; i < FILES_MAX; i++)
		if (n->file[i].text && !sim_is_one_in(50))
			lose(n, &n->file[i], is_damaged);
}

void node_lose_file(struct node *n, const char *name, bool is_damaged)
{
	lose(n, file_of(n, name), is_damaged);
}

bool node_has_forgotten(struct node *n, const struct node *other)
{
	const struct file *f = file_of(n, FM_SUPERVISOR_NODES);
	struct fm_json *nodes = f->text ? fm_json_load(f->text) : NULL;
	bool has =
		fm_json_member_count(fm_json_get(fm_json_get(nodes, other->name), "forgotten")) > 0;

	fm_json_free(nodes);
	return has;
}

/* ---- its life ---- */

void node_init(struct node *n, unsigned number)
{
	struct fm_loop *loop = n->loop;
	struct fm_loop_opts opts = { .clock = &n->clock, .is_simulated = true };

	*n = (struct node){ .number = number, .loop = loop, .has_power = true };
	n->booted_ns = sim.now_ns;
	n->clock = (struct fm_clock){ clock_now, n };
	(void)snprintf(n->name, sizeof(n->name), "n%u", number + 1);
	(void)snprintf(n->id, sizeof(n->id), "11111111-2222-3333-4444-%012u",
		       sim.is_cloned ? 0 : number);
	(void)snprintf(n->nqn, sizeof(n->nqn), "nqn.2014-08.org.nvmexpress:uuid:%s", n->id);
	(void)snprintf(n->boot, sizeof(n->boot), "boot-%u-0", number);
	n->world = (struct fm_supervisor_world){.load = world_load,
						.save = world_save,
						.wall_ms = world_wall,
						.boot = n->boot,
						.ctx = n};
	kernel_fill_world(&n->world);
	exchange_fill_world(&n->world);
	for (unsigned i = 0; i < NODES_MAX; i++)
		n->question[i].at_ns = FM_NEVER;
	if (!n->loop && fm_loop_new(&opts, &n->loop, NULL) < 0)
		abort();
}

static void settle(struct node *n)
{
	while (fm_loop_step(n->loop, 0))
		;
}

void node_enter(struct node *n)
{
	(void)fm_loop_step(n->loop, 0);
}

void node_leave(struct node *n)
{
	if (!n->is_dying)
		return;
	if (!n->is_losing_power) {
		node_kill(n);
		return;
	}
	n->is_losing_power = false;
	node_cut_power(n);
	sim_power_on(n);
}

/* The others that have it. */
static void name_nodes(const struct node *n, unsigned volume, struct fm_volume *to)
{
	to->has_nodes = sim.has_nodes[volume];
	for (unsigned i = 0; i < sim.node_count && to->has_nodes; i++)
		if (i != n->number && sim.is_user[volume][i])
			to->node[to->node_count++] = sim.node[i].name;
}

void node_configure(struct node *n)
{
	struct fm_volume volumes[VOLUMES_MAX];
	struct fm_supervisor_config config = {.node = n->name,
					      .host_nqn = n->nqn,
					      .host_id = n->id,
					      .volumes = volumes,
					      .count = 0};
	struct fm_err err;

	for (unsigned v = 0; v < sim.volume_count; v++) {
		if (!sim.is_user[v][n->number] || n->is_out[v])
			continue;
		kernel_fill_volume(&volumes[config.count], v);
		name_nodes(n, v, &volumes[config.count]);
		volumes[config.count++].writer = sim.node[n->writer[v]].name;
	}
	if (fm_supervisor_set(n->sup, &config, &err) < 0)
		sim_violate("%s: the configuration is not taken: %s", n->name, err.text);
}

void node_start(struct node *n)
{
	struct fm_supervisor_opts opts = { .loop = n->loop, .world = &n->world, .random = &chance };
	struct fm_err err;

	sim_trace("%s: fmove-nvmed starts", n->name);
	node_enter(n);
	if (fm_supervisor_new(&opts, &n->sup, &err) < 0) {
		sim_violate("%s does not start: %s", n->name, err.text);
		return;
	}
	node_configure(n);
	for (unsigned v = 0; v < sim.volume_count && sim.is_calm; v++)
		(void)fm_supervisor_wish(n->sup, sim_volumes[v], FM_WANT_UP, false, &err);
	node_leave(n);
}

/* Between steps, or after the one in which it died. */
void node_kill(struct node *n)
{
	if (!n->sup)
		return;
	sim_trace("%s: fmove-nvmed is killed", n->name);
	n->is_dying = true;
	fm_supervisor_stop(n->sup);
	kernel_kill_helpers(n);
	settle(n);
	fm_supervisor_free(n->sup);
	n->sup = NULL;
	exchange_drop(n);
	n->is_dying = false;
	put_late(n, false);
	memset(n->has_heard_hand, 0, sizeof(n->has_heard_hand));
	n->saves_left = 0;
	n->stalled_ns = 0;
	n->start_ns = sim.now_ns + sim_below(sim_is_one_in(50) ? 100 : 5000) * MS;
}

void node_cut_power(struct node *n)
{
	if (!n->has_power)
		return;
	sim_trace("%s: its power is cut", n->name);
	kernel_cut_power(n);
	node_kill(n);
	fm_json_free(n->published);
	n->published = NULL;
	n->has_power = false;
	for (unsigned i = 0; i < FILES_MAX; i++) {
		struct file *f = &n->file[i];

		if (!f->text || (f->durable && strcmp(f->text, f->durable) == 0) ||
		    sim_is_one_in(50))
			continue;
		free(f->text);
		f->text = f->durable ? strdup(f->durable) : NULL;
	}
}

void node_clear(struct node *n)
{
	kernel_cut_power(n);
	node_kill(n);
	exchange_drop(n);
	fm_json_free(n->published);
	for (unsigned i = 0; i < FILES_MAX; i++) {
		free(n->file[i].text);
		free(n->file[i].durable);
	}
}
