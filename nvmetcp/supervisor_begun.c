/* SPDX-License-Identifier: MIT */
/*
 * Mounts and unmounts that helper processes are at. One that hangs in the kernel does not die of
 * SIGKILL, outlives fmove-nvmed, and mounts the volume when the kernel lets go of it; an unmount
 * that hangs writes until then. So each is written down, synced, before its helper begins, and an
 * fmove-nvmed that finds such a note goes on saying that it is mounted, and mounts nothing itself,
 * until that process has ended (its number and the moment of its start: numbers are given again)
 * and a look has seen what came of it. A note of another boot says nothing: what hung is gone.
 *
 * A file that is not there or makes no sense may have said anything. Then everything is said to be
 * mounted as long as a process is there that may be a helper of an earlier fmove-nvmed, which is
 * hardly ever.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "nvmetcp/supervisor_priv.h"

/* ---- the file ---- */

static struct fm_json *write_one(const struct fm_begun *b)
{
	return fm_json_pack("{s:I, s:I, s:s, s:s, s:s, s:b, s:I}", "pid", (long long)b->process.pid,
			    "start", (long long)b->process.start, "name", b->name, "subsystem",
			    b->subsystem, "wwid", b->wwid, "read_write", b->is_read_write, "epoch",
			    (long long)b->epoch);
}

static char *write_all(const struct fm_supervisor *sup)
{
	struct fm_json *all = fm_json_array(), *whole;
	char *text;

	for (unsigned i = 0; i < sup->begun_count; i++)
		if (fm_json_add(all, write_one(&sup->begun[i])) < 0) {
			fm_json_free(all);
			return NULL;
		}
	whole = fm_json_pack("{s:s, s:b, s:o}", "boot", sup->world->boot, "unknown",
			     sup->is_begun_unknown, "begun", all);
	text = whole ? fm_json_dump(whole, FM_JSON_SORTED_FILE) : NULL;
	fm_json_free(whole);
	return text;
}

static int save(struct fm_supervisor *sup, bool is_durable, struct fm_err *err)
{
	char *text = FM_FAULT("supervisor.begun") ? NULL : write_all(sup);
	int ret =
		text ? sup->world->save(sup->world->ctx, FM_SUPERVISOR_BEGUN, text, is_durable, err)
		     : fm_err_set(err, -ENOMEM, "out of memory");

	free(text);
	return ret;
}

static int take_text(const char *from, char *to, size_t cap)
{
	if (strlen(from) >= cap)
		return -EBADMSG;
	strcpy(to, from);
	return 0;
}

static int read_one(const struct fm_json *from, struct fm_begun *b)
{
	const char *name, *subsystem, *wwid;
	long long pid, start, epoch;
	int is_read_write;

	*b = (struct fm_begun){ .is_inherited = true };
	if (fm_json_unpack_strict(from, NULL, "{s:I, s:I, s:s, s:s, s:s, s:b, s:I}", "pid", &pid,
				  "start", &start, "name", &name, "subsystem", &subsystem, "wwid",
				  &wwid, "read_write", &is_read_write, "epoch", &epoch) < 0)
		return -EBADMSG;
	if (pid <= 0 || pid > INT32_MAX || start < 0 || epoch < 0 ||
	    epoch >= FM_SUPERVISED_EPOCH_MAX || !name[0])
		return -EBADMSG;
	b->process = (struct fm_process){ .pid = (pid_t)pid, .start = (uint64_t)start };
	b->is_read_write = is_read_write;
	b->epoch = (uint64_t)epoch;
	if (take_text(name, b->name, sizeof(b->name)) < 0 ||
	    take_text(subsystem, b->subsystem, sizeof(b->subsystem)) < 0)
		return -EBADMSG;
	return take_text(wwid, b->wwid, sizeof(b->wwid));
}

bool fm_supervisor_is_of_another_boot(const struct fm_supervisor *sup, const char *boot)
{
	return boot[0] && sup->world->boot[0] && strcmp(boot, sup->world->boot) != 0;
}

/* -EBADMSG: it makes no sense, and what of it does is taken. */
static int read_all(struct fm_supervisor *sup, const struct fm_json *whole)
{
	const char *boot;
	const struct fm_json *all, *at;
	int is_unknown;
	size_t i;

	if (fm_json_unpack_strict(whole, NULL, "{s:s, s:b, s:o}", "boot", &boot, "unknown",
				  &is_unknown, "begun", &all) < 0)
		return -EBADMSG;
	if (fm_supervisor_is_of_another_boot(sup, boot))
		return 0;
	if (!fm_json_is(all, FM_JSON_ARRAY) || is_unknown)
		return -EBADMSG;
	for (i = 0; (at = fm_json_at(all, i)); i++) {
		if (sup->begun_count == FM_SUPERVISED_BEGUN_MAX ||
		    read_one(at, &sup->begun[sup->begun_count]) < 0)
			return -EBADMSG;
		sup->begun_count++;
	}
	return 0;
}

void fm_supervisor_recall_begun(struct fm_supervisor *sup)
{
	struct fm_err err = { 0 };
	struct fm_json *whole = NULL;
	char *text = NULL;

	if (sup->world->load(sup->world->ctx, FM_SUPERVISOR_BEGUN, &text, &err) == 0)
		whole = fm_json_load(text);
	sup->is_begun_unknown = sup->was_begun_unknown = !whole || read_all(sup, whole) < 0;
	fm_json_free(whole);
	free(text);
}

/* ---- what this fmove-nvmed begins ---- */

int fm_supervised_note_begun(struct fm_supervised *v, const struct fm_process *process,
			     bool is_read_write, struct fm_err *err)
{
	struct fm_supervisor *sup = v->sup;
	struct fm_begun *b = &sup->begun[sup->begun_count];
	int ret;

	if (sup->begun_count == FM_SUPERVISED_BEGUN_MAX)
		return fm_err_set(err, -EAGAIN, "%u mounts and unmounts hang in the kernel",
				  sup->begun_count);
	*b = (struct fm_begun){
		.process = *process, .is_read_write = is_read_write, .epoch = v->epoch};
	(void)snprintf(b->name, sizeof(b->name), "%s", v->volume->name);
	(void)snprintf(b->subsystem, sizeof(b->subsystem), "%s", v->volume->subsystem);
	(void)snprintf(b->wwid, sizeof(b->wwid), "%s", fm_supervised_wwid(v));
	sup->begun_count++;
	ret = save(sup, true, err);
	if (ret == 0)
		return 0;
	sup->begun_count--;
	return fm_err_wrap(err, "it cannot be written down that this begins, so that a restart "
				"would not know of it");
}

/* ---- what an earlier one has left ---- */

static bool is_of(const struct fm_begun *b, const struct fm_supervised *v)
{
	return fm_supervised_is_same(v, b->wwid, b->name, b->subsystem);
}

/* Whether a configured volume has that namespace, and so publishes it itself. */
static bool is_anybodys(const struct fm_supervisor *sup, const struct fm_begun *b)
{
	fm_list_each(at, next, &sup->volumes)
		if (is_of(b, fm_container_of(at, struct fm_supervised, link)))
			return true;
	return false;
}

bool fm_supervised_is_left_hanging(const struct fm_supervised *v, bool *is_read_write)
{
	const struct fm_supervisor *sup = v->sup;
	bool is_hanging = sup->is_begun_unknown;

	*is_read_write = is_hanging && v->volume->mode != FM_VOLUME_READ_ONLY;
	for (unsigned i = 0; i < sup->begun_count; i++) {
		const struct fm_begun *b = &sup->begun[i];

		if (!b->is_inherited || !is_of(b, v))
			continue;
		is_hanging = true;
		*is_read_write = *is_read_write || b->is_read_write;
	}
	return is_hanging;
}

static struct fm_json *say_one(const struct fm_begun *b)
{
	return fm_json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:I}", "name", b->name,
			    "subsystem", b->subsystem, "wwid", b->wwid, "writer", "", "mounted", 1,
			    "read_write", b->is_read_write, "sealed", 0, "epoch",
			    (long long)b->epoch);
}

bool fm_supervisor_say_begun(const struct fm_supervisor *sup, struct fm_json *all)
{
	bool is_whole = true;

	for (unsigned i = 0; i < sup->begun_count; i++) {
		const struct fm_begun *b = &sup->begun[i];

		if (b->is_inherited && !is_anybodys(sup, b))
			is_whole = fm_json_add(all, say_one(b)) == 0 && is_whole;
	}
	return is_whole;
}

/* ---- whether it is over ---- */

void fm_supervisor_watch_begun(struct fm_supervisor *sup)
{
	const struct fm_supervisor_world *world = sup->world;

	for (unsigned i = 0; i < sup->begun_count; i++)
		sup->begun[i].is_over = !world->may_live(world->ctx, &sup->begun[i].process);
	sup->is_begun_known_now = !sup->is_begun_unknown || !world->may_stray(world->ctx);
}

/*
 * Whether a begun mount succeeded, and no volume that is configured has that namespace: then nobody
 * else would publish it.
 */
static bool is_left_mounted(const struct fm_supervisor *sup, const struct fm_begun *b)
{
	for (unsigned i = 0; i < sup->inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &sup->inv->namespaces[i];

		if (b->wwid[0] && strcmp(ns->wwid, b->wwid) == 0 &&
		    fm_mounts_of(&sup->mounts, ns->dev, NULL))
			return !is_anybodys(sup, b);
	}
	return false;
}

static void lift(struct fm_supervisor *sup, const struct fm_begun *b)
{
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (!b->is_inherited || !is_of(b, v))
			continue;
		fm_log_info(
			"volume %s: what process %d was at when fmove-nvmed was restarted is over",
			v->volume->name, (int)b->process.pid);
		fm_supervised_doubt_unit(v, b->is_read_write);
		if (b->is_read_write)
			fm_supervised_end_restarted_seal(v);
		v->mount_hold = (struct fm_hold){ 0 };
	}
}

/*
 * Drops the notes of mounts that are over. This needs no sync: after a power cut notes of another
 * boot say nothing.
 */
void fm_supervisor_settle_begun(struct fm_supervisor *sup)
{
	bool is_changed = sup->is_begun_unknown && sup->is_begun_known_now;
	struct fm_err err = { 0 };
	unsigned kept = 0;

	sup->is_begun_unknown = sup->is_begun_unknown && !sup->is_begun_known_now;
	for (unsigned i = 0; i < sup->begun_count; i++) {
		if (!sup->begun[i].is_over || is_left_mounted(sup, &sup->begun[i])) {
			sup->begun[kept++] = sup->begun[i];
			continue;
		}
		lift(sup, &sup->begun[i]);
		is_changed = true;
	}
	sup->begun_count = kept;
	if (!is_changed)
		return;
	/* what no volume's word tells of may have been among them */
	sup->is_published = false;
	if (save(sup, false, &err) < 0)
		fm_log_warn("state: %s", err.text);
}
