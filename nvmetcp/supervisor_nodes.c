/* SPDX-License-Identifier: MIT */
/*
 * Which other nodes there are, who of them was heard, and who is forgotten.
 *
 * fmoved names its peers with each answer. Who was named once counts until a person forgets it:
 * nodes.json has them, in a directory that root alone writes to. A word counts as a permission only
 * if it was asked for after the peers could read what this node's configuration says now: a peer
 * that says "not mounted" before it knows that may mount right after. That is kept in memory only,
 * so it is never older than the boot.
 *
 * To forget a node is about what this node says now, so it ends with that: when the configuration
 * names another writer, and when the volume is unsealed or sealed anew. Otherwise it ends when the
 * node speaks.
 */
#include <errno.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "nvmetcp/supervisor_priv.h"

static const char *writer_of(const struct fm_volume *volume)
{
	return volume->mode == FM_VOLUME_READ_ONLY ? "" : volume->writer;
}

/* ---- who is waited for ---- */

bool fm_supervised_counts(const struct fm_supervised *v, const char *node)
{
	const struct fm_volume *volume = v->volume;

	if (!volume->has_nodes)
		return true;
	for (unsigned i = 0; i < volume->node_count; i++)
		if (strcmp(volume->node[i], node) == 0)
			return true;
	return false;
}

bool fm_supervised_has_answered(const struct fm_supervised *v, const char *node)
{
	return fm_json_get(v->answered, node);
}

const char *fm_supervised_peers_why(const struct fm_supervised *v)
{
	return v->volume->has_nodes || v->sup->has_listed ? "" : v->sup->peers.why;
}

/* ---- forgotten ---- */

static const struct fm_json *forgotten_of(const struct fm_supervisor *sup, const char *node)
{
	return fm_json_get(fm_json_get(sup->nodes.entries, node), "forgotten");
}

bool fm_supervised_is_forgotten(const struct fm_supervised *v, const char *node)
{
	const char *writer =
		fm_json_as_text(fm_json_get(forgotten_of(v->sup, node), v->volume->name));

	return writer && strcmp(writer, writer_of(v->volume)) == 0;
}

uint64_t fm_supervisor_forgotten_ms(const struct fm_supervisor *sup, const char *node)
{
	return (uint64_t)fm_json_as_i64(
		fm_json_get(fm_json_get(sup->nodes.entries, node), "since_ms"));
}

void fm_supervisor_end_forgetting(struct fm_supervisor *sup, const char *volume)
{
	const char *node;
	struct fm_json *entry;

	for (void *it = NULL; fm_json_next(sup->nodes.entries, &it, &node, &entry);) {
		if (fm_json_delete(fm_json_part(entry, "forgotten"), volume) < 0)
			continue;
		fm_log_info("volume %s: that %s is forgotten ends here", volume, node);
		sup->nodes.is_in_doubt = true;
	}
	fm_supervisor_save_nodes(sup);
}

/* The name may be another one's by then. */
void fm_supervised_end_forgetting(struct fm_supervised *v)
{
	if (!v->is_retired)
		fm_supervisor_end_forgetting(v->sup, v->volume->name);
}

void fm_supervisor_rename_forgotten(struct fm_supervisor *sup, const struct fm_renamed *names,
				    unsigned count)
{
	const char *node;
	struct fm_json *entry;

	for (void *it = NULL; fm_json_next(sup->nodes.entries, &it, &node, &entry);) {
		const struct fm_json *forgotten = fm_json_get(entry, "forgotten");
		struct fm_json *all = fm_supervisor_rename_all(forgotten, names, count);

		if (!forgotten || (all && fm_json_is_equal(all, forgotten))) {
			fm_json_free(all);
			continue;
		}
		sup->nodes.is_in_doubt = true;
		if (fm_json_set(entry, "forgotten", all) < 0)	/* it is waited for */
			(void)fm_json_delete(entry, "forgotten");
	}
	fm_supervisor_save_nodes(sup);
}

void fm_supervisor_take_forgotten(struct fm_supervisor *sup, const char *from, const char *to)
{
	struct fm_renamed renamed = {.from = from, .to = to};
	const char *node;
	struct fm_json *entry;
	bool is_any = false;

	for (void *it = NULL; fm_json_next(sup->nodes.entries, &it, &node, &entry);)
		if (fm_json_get(fm_json_get(entry, "forgotten"), from))
			is_any = true;
	if (is_any)
		fm_supervisor_rename_forgotten(sup, &renamed, 1);
}

/* Another writer was configured while nobody looked. */
void fm_supervised_check_forgetting(struct fm_supervised *v)
{
	const char *node;
	struct fm_json *entry;

	for (void *it = NULL; fm_json_next(v->sup->nodes.entries, &it, &node, &entry);)
		if (fm_json_get(fm_json_get(entry, "forgotten"), v->volume->name) &&
		    !fm_supervised_is_forgotten(v, node)) {
			fm_supervised_end_forgetting(v);
			return;
		}
}

static struct fm_json *everything(const struct fm_supervisor *sup)
{
	struct fm_json *volumes = fm_json_object();

	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (!v->is_retired)
			(void)fm_json_set(volumes, v->volume->name,
					  fm_json_of_text(writer_of(v->volume)));
	}
	return fm_json_pack("{s:I, s:o}", "since_ms",
			    (long long)sup->world->wall_ms(sup->world->ctx), "forgotten", volumes);
}

static void drop_reader(struct fm_supervised *v, const char *node)
{
	struct fm_err err = { 0 };
	size_t i = 0;

	while (i < fm_json_count(v->readers))
		if (strcmp(fm_json_as_text(fm_json_at(v->readers, i)), node) != 0 ||
		    fm_json_remove(v->readers, i) < 0)
			i++;
	if (v->readers && fm_supervisor_save_seal(v->sup, v, &err) < 0)
		fm_log_warn("volume %s: who reads it is not written down: %s", v->volume->name,
			    err.text);
}

/* Drops what a node said: it is no peer any more, so it will not speak again. */
static void drop_word(struct fm_supervisor *sup, const char *node)
{
	fm_peers_drop(&sup->peers, node);
	fm_supervisor_save_heard(sup);
	fm_list_each(at, next, &sup->volumes)
		drop_reader(fm_container_of(at, struct fm_supervised, link), node);
}

/*
 * Whether a forgotten node must stay known: it may speak again, or a configuration waits for it by
 * name.
 */
static bool is_to_be_known(const struct fm_supervisor *sup, const char *node)
{
	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (v->volume->has_nodes && fm_supervised_counts(v, node))
			return true;
	}
	return fm_peers_are_listed(&sup->peers, node) ||
	       (sup->peers.why[0] && fm_json_get(sup->nodes.entries, node));
}

/*
 * Whether anything that the node said is kept. It may forbid a mount, even if the file of the nodes
 * that count is lost.
 */
static bool has_word(const struct fm_supervisor *sup, const char *node)
{
	for (unsigned i = 0; i < sup->peers.volume_count; i++)
		if (strcmp(sup->peers.volumes[i].node, node) == 0)
			return true;
	return false;
}

static int check_forget(struct fm_supervisor *sup, const char *node, struct fm_err *err)
{
	if (!fm_json_get(sup->nodes.entries, node) && !is_to_be_known(sup, node) &&
	    !has_word(sup, node))
		return fm_err_set(err, -ENOENT,
				  "no node \"%.64s\" was ever a peer of this one; fmove ls lists "
				  "those that are",
				  node);
	if (!fm_peers_silent_why(&sup->peers, node)[0])
		return fm_err_set(err, -EBUSY,
				  "%.64s answers: what it says counts; take its volumes down there",
				  node);
	/* Should it come back, it must not act upon what this node said before. */
	if (!sup->host_nqn || fm_supervisor_publish(sup) < 0)
		return fm_err_set(
			err, -EAGAIN,
			"what this node says of its volumes cannot be published now: try again");
	return 0;
}

int fm_supervisor_forget(struct fm_supervisor *sup, const char *node, struct fm_err *err)
{
	struct fm_json *before;
	int ret = check_forget(sup, node, err);

	if (ret < 0)
		return ret;
	before = fm_json_share(fm_json_get(sup->nodes.entries, node));
	if (is_to_be_known(sup, node))
		ret = fm_json_set(sup->nodes.entries, node, everything(sup));
	else
		(void)fm_json_delete(sup->nodes.entries, node); /* it may not be there */
	sup->nodes.is_in_doubt = true;
	if (ret == 0)
		ret = fm_supervisor_save_nodes(sup);
	if (ret < 0 && before)
		(void)fm_json_set(sup->nodes.entries, node, fm_json_share(before));
	else if (ret < 0)
		(void)fm_json_delete(sup->nodes.entries, node);
	fm_json_free(before);
	if (ret < 0)
		return fm_err_set(
			err, -EIO,
			"it cannot be written down, the log says why; nothing is changed");
	fm_log_warn("%s is forgotten by order of a person: it counts no more, until it speaks",
		    node);
	if (!fm_json_get(sup->nodes.entries, node))
		drop_word(sup, node);
	sup->peers_version++;
	fm_supervisor_look_soon(sup);
	return 0;
}

/* ---- what fmoved says of them ---- */

/* The node speaks, so it is not forgotten any more. This must work without memory. */
static void end_forgotten(struct fm_supervisor *sup, const char *node)
{
	struct fm_json *entry = fm_json_part(sup->nodes.entries, node);

	if (!forgotten_of(sup, node))
		return;
	fm_log_info("%s speaks: it is not forgotten any more", node);
	fm_json_clear(entry);
	sup->nodes.is_in_doubt = true;
}

static bool note_answer(struct fm_supervised *v, const char *node)
{
	if (v->answers_from == 0 || v->sup->asks_done < v->answers_from ||
	    fm_supervised_has_answered(v, node))
		return false;
	if (!v->answered)
		v->answered = fm_json_object();
	return fm_json_set(v->answered, node, fm_json_of_bool(true)) == 0;
}

void fm_supervised_note_speakers(struct fm_supervised *v)
{
	const struct fm_peers *peers = &v->sup->peers;

	for (unsigned i = 0; v->is_mount_forced && i < peers->node_count; i++) {
		if (peers->nodes[i].why[0])
			continue;
		if (!v->spoken)
			v->spoken = fm_json_object();
		/* Without memory nobody could tell what force is about. */
		if (fm_json_set(v->spoken, peers->nodes[i].node, fm_json_of_bool(true)) < 0)
			v->is_mount_forced = false;
	}
}

bool fm_supervisor_note_nodes(struct fm_supervisor *sup)
{
	const struct fm_peers *peers = &sup->peers;
	bool is_new = !sup->has_listed && !peers->why[0];

	sup->has_listed = sup->has_listed || !peers->why[0];
	for (unsigned i = 0; i < peers->node_count; i++) {
		const char *node = peers->nodes[i].node;

		if (!fm_json_get(sup->nodes.entries, node)) {
			(void)fm_json_set(sup->nodes.entries, node, fm_json_object());
			sup->nodes.is_in_doubt = true;
		}
		if (peers->nodes[i].why[0])
			continue;
		end_forgotten(sup, node);
		fm_list_each(at, next, &sup->volumes)
			is_new = note_answer(fm_container_of(at, struct fm_supervised, link),
					     node) ||
				 is_new;
	}
	fm_list_each(at, next, &sup->volumes)
		fm_supervised_note_speakers(fm_container_of(at, struct fm_supervised, link));
	if (sup->nodes.is_in_doubt)
		(void)fm_supervisor_save_nodes(sup);
	return is_new;
}

bool fm_supervisor_answers_begin(struct fm_supervisor *sup)
{
	bool is_to_ask = false;

	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (v->answers_from == 0)
			v->answers_from = sup->asks_begun + 1;
		is_to_ask = fm_supervised_said(v) || is_to_ask;
	}
	return is_to_ask;
}

void fm_supervised_void_answers(struct fm_supervised *v)
{
	fm_json_free(v->answered);
	v->answered = NULL;
}

void fm_supervised_drop_answers(struct fm_supervised *v)
{
	fm_supervised_void_answers(v);
	v->answers_from = 0;
	/* what is said may be the same as before: it is said again, and answers begin to count */
	v->sup->is_published = false;
	fm_supervised_end_forgetting(v);
}
