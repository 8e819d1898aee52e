/* SPDX-License-Identifier: MIT */
/*
 * Volumes that the configuration names no more, over restarts. What is no longer configured is
 * taken down, and until its device is free peers are told that it is mounted. An fmove-nvmed that
 * starts meanwhile finds no such volume in its configuration: peers would hear of it from nobody,
 * and one of them could write to it. So whatever peers are told to be mounted here is written down
 * before they are told (held.json), with what it takes to find it again, and what of that is not
 * configured at the next start is taken down from there on.
 *
 * What is configured is looked for by its wwid as well: which namespace a volume is may not be
 * known then, because something else is at its mount point, or another namespace has come.
 *
 * Of another boot it says nothing: nothing is mounted from before. Without the file, or if it makes
 * no sense, what is configured is found by its device (supervisor_held.c), and of the rest what is
 * mounted: every namespace that came over the network and is mounted here, by whomever, is told by
 * its wwid, also if no volume here has it, or none is known to be it. Out of the table of mounts it
 * is held as a volume's is, and noted as well.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "nvmetcp/supervisor_priv.h"

#define STRANGER "-"	/* the subsystem of what is no volume */

/* ---- the file ---- */

static int add_device(struct fm_json *all, const char *name, dev_t dev)
{
	return fm_json_add(all, fm_json_pack("[s, i, i]", name, (int)major(dev), (int)minor(dev)));
}

/*
 * The devices that it has, or is about to have. What is mounted of one that is gone is known by
 * that to be the volume's.
 */
static struct fm_json *devices_of(const struct fm_supervised *v)
{
	struct fm_json *all = fm_json_array();
	int ret = 0;

	for (unsigned i = 0; i < v->held_count && ret == 0; i++)
		ret = add_device(all, v->held[i].name, v->held[i].dev);
	if (v->held_count == 0 && v->ns.dev != 0)
		ret = add_device(all, v->ns.name, v->ns.dev);
	if (ret == 0)
		return all;
	fm_json_free(all);
	return NULL;
}

/* The wwid of the device that is held for the volume. The volume may have another namespace now. */
static const char *wwid_of_held(const struct fm_supervised *v)
{
	for (unsigned i = 0; i < v->held_count; i++)
		if (v->held[i].wwid[0] && strcmp(v->held[i].wwid, v->word.wwid) != 0)
			return v->held[i].wwid;
	return v->word.wwid;
}

static struct fm_json *write_one(const struct fm_supervised *v)
{
	const struct fm_volume *vol = v->volume;

	return fm_json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:i, s:s, s:s, s:b, s:o}", "name",
			    vol->name, "subsystem", vol->subsystem, "nsid", (long long)vol->nsid,
			    "uuid", vol->uuid, "nguid", vol->nguid, "mount_point", vol->mount_point,
			    "mode", (int)vol->mode, "writer", vol->writer, "wwid", wwid_of_held(v),
			    "read_write", v->word.is_read_write, "devices", devices_of(v));
}

/* A volume for a namespace that nobody configured. It has no address; it is found by its wwid. */
static struct fm_volume volume_of_stranger(const struct fm_json *said)
{
	return (struct fm_volume){
		.name = fm_json_as_text(fm_json_get(said, "name")),
		.subsystem = STRANGER,
		.uuid = "",
		.nguid = "",
		.mount_point = "",
		.writer = "",
	};
}

static struct fm_json *write_stranger(const struct fm_json *said)
{
	const struct fm_volume vol = volume_of_stranger(said);

	return fm_json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:i, s:s, s:O, s:O}", "name", vol.name,
			    "subsystem", vol.subsystem, "nsid", (long long)vol.nsid, "uuid",
			    vol.uuid, "nguid", vol.nguid, "mount_point", vol.mount_point, "mode",
			    (int)vol.mode, "writer", vol.writer, "wwid", fm_json_get(said, "wwid"),
			    "read_write", fm_json_get(said, "read_write"));
}

/*
 * The text of held.json. Entries that were not looked at yet stay: nothing says that they are free.
 */
static char *write_all(const struct fm_supervisor *sup)
{
	struct fm_json *all = sup->left ? fm_json_copy(sup->left) : fm_json_array(), *whole;
	const struct fm_json *said;
	char *text;
	size_t i;

	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (v->word.is_mounted && fm_json_add(all, write_one(v)) < 0) {
			fm_json_free(all);
			return NULL;
		}
	}
	for (i = 0; (said = fm_json_at(sup->used_strangers, i)); i++)
		if (fm_json_add(all, write_stranger(said)) < 0) {
			fm_json_free(all);
			return NULL;
		}
	whole = fm_json_pack("{s:s, s:o}", "boot", sup->world->boot, "held", all);
	text = whole ? fm_json_dump(whole, FM_JSON_SORTED_FILE) : NULL;
	fm_json_free(whole);
	return text;
}

static bool is_any_unnoted(const struct fm_supervisor *sup)
{
	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (v->word.is_mounted && !v->is_noted)
			return true;
	}
	return false;
}

/*
 * The file could not be written. That is an error only if something in it is missing: an entry too
 * many is found free by whoever reads it.
 */
static int failed(struct fm_supervisor *sup, int ret)
{
	free(sup->held_text);
	sup->held_text = NULL;
	return is_any_unnoted(sup) ? ret : 0;
}

int fm_supervisor_note_held(struct fm_supervisor *sup, struct fm_err *err)
{
	char *text = FM_FAULT("supervisor.held") ? NULL : write_all(sup);
	int ret = text ? 0 : fm_err_set(err, -ENOMEM, "out of memory");

	if (ret < 0)
		return failed(sup, ret);
	if (sup->held_text && strcmp(sup->held_text, text) == 0) {
		free(text);
		return 0;
	}
	ret = sup->world->save(sup->world->ctx, FM_SUPERVISOR_HELD, text, false, err);
	if (ret < 0) {
		free(text);
		return failed(sup, ret);
	}
	free(sup->held_text);
	sup->held_text = text;
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		v->is_noted = v->word.is_mounted;
	}
	return 0;
}

void fm_supervisor_recall_left(struct fm_supervisor *sup)
{
	struct fm_err err = { 0 };
	struct fm_json *whole = NULL, *all;
	char *text = NULL;
	const char *boot;
	int ret = sup->world->load(sup->world->ctx, FM_SUPERVISOR_HELD, &text, &err);

	if (ret == 0)
		whole = fm_json_load(text);
	free(text);
	if (fm_json_unpack(whole, "{s:s, s:o}", "boot", &boot, "held", &all) < 0 ||
	    !fm_json_is(all, FM_JSON_ARRAY)) {
		if (ret != -ENOENT)
			fm_log_warn("state: " FM_SUPERVISOR_HELD
				    " makes no sense: what was mounted here, and is not configured "
				    "now, is not known");
	} else if (!fm_supervisor_is_of_another_boot(sup, boot)) {
		sup->left = fm_json_share(all);
	}
	fm_json_free(whole);
}

/* ---- what is held by its wwid ---- */

static void note_left(struct fm_supervised *v, const char *wwid, bool is_read_write)
{
	(void)snprintf(v->left_wwid, sizeof(v->left_wwid), "%s", wwid);
	v->is_left_written = is_read_write;
}

/* An fmove-nvmed of before did not write them down. */
static void note_left_devices(struct fm_supervised *v, const struct fm_json *one)
{
	const struct fm_json *at, *all = fm_json_get(one, "devices");
	const char *name;
	int first, second;
	size_t i;

	v->left_count = 0;
	for (i = 0; (at = fm_json_at(all, i)) && v->left_count < FM_SUPERVISED_HELD_MAX; i++) {
		struct fm_plan_device *d = &v->left[v->left_count];

		if (fm_json_unpack(at, "[s, i, i]", &name, &first, &second) < 0 || first <= 0 ||
		    second < 0 || strlen(name) >= sizeof(d->name))
			continue;
		d->dev = makedev((unsigned)first, (unsigned)second);
		strcpy(d->name, name);
		v->left_count++;
	}
}

/*
 * Adds an unconfigured volume that is published as mounted until its device is found to be free.
 * NULL: no memory.
 */
static struct fm_supervised *hold_by_wwid(struct fm_supervisor *sup, const struct fm_volume *volume,
					  const char *wwid, bool is_read_write)
{
	struct fm_supervised *v = fm_supervisor_add_retired(sup, volume);

	if (!v)
		return NULL;
	if (wwid[0])
		(void)snprintf(v->last_wwid, sizeof(v->last_wwid), "%s", wwid);
	note_left(v, wwid, is_read_write);
	fm_supervised_doubt_unit(v, is_read_write);
	return v;
}

/* ---- what is mounted, and of no volume here ---- */

/*
 * Whether some volume is known to be this namespace now. A volume that once was it does not count:
 * what is published of it is about another namespace.
 */
static bool is_anybodys(const struct fm_supervisor *sup, const struct fm_inv_namespace *ns)
{
	fm_list_each(at, next, &sup->volumes) {
		const struct fm_inv_namespace *its =
			fm_supervised_ns(fm_container_of(at, struct fm_supervised, link));

		if (its && strcmp(its->wwid, ns->wwid) == 0)
			return true;
	}
	return false;
}

/* This machine's own. One without a path may be the network's, and be written when a path is
 * back. */
static bool is_local(const struct fm_inventory *inv, const struct fm_inv_namespace *ns)
{
	for (unsigned i = 0; i < ns->path_count; i++)
		if (strcmp(inv->controllers[ns->path[i].controller].transport, "pcie") == 0)
			return true;
	return false;
}

/*
 * Peers know it by its wwid. Its target's other words are not passed on: of who says what makes no
 * sense they would take nothing.
 */
static struct fm_json *say_stranger(const char *name, const char *wwid, bool is_read_write)
{
	return fm_json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:I}", "name", name, "subsystem",
			    STRANGER, "wwid", wwid, "writer", "", "mounted", 1, "read_write",
			    is_read_write, "sealed", 0, "epoch", (long long)0);
}

/*
 * Publishes devices that are held for a volume whose namespace is another one now: what is
 * published of the volume is about the new one.
 */
static bool say_former(const struct fm_supervised *v, struct fm_json *all)
{
	bool is_whole = true;

	for (unsigned i = 0; i < v->held_count; i++) {
		const struct fm_held *h = &v->held[i];

		if (h->wwid[0] && strcmp(h->wwid, fm_supervised_wwid(v)) != 0 &&
		    fm_json_add(all, say_stranger(h->name, h->wwid, h->is_read_write)) < 0)
			is_whole = false;
	}
	return is_whole;
}

/*
 * Whether the namespace may be in use. While a helper of an earlier fmove-nvmed may hang and nobody
 * knows with what, every namespace may be.
 */
static bool may_be_used(const struct fm_supervisor *sup, const struct fm_inv_namespace *ns,
			bool *may_write)
{
	bool is_used = fm_supervisor_is_used(sup, ns, may_write);

	*may_write = *may_write || (sup->is_begun_unknown && !ns->is_read_only);
	return is_used || sup->is_begun_unknown;
}

/* NULL: no memory. */
static struct fm_json *list_used(const struct fm_supervisor *sup)
{
	struct fm_json *used = fm_json_array();
	bool may_write;

	for (unsigned i = 0; sup->inv && i < sup->inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &sup->inv->namespaces[i];

		if (ns->wwid[0] && may_be_used(sup, ns, &may_write) && !is_local(sup->inv, ns) &&
		    !is_anybodys(sup, ns) &&
		    fm_json_add(used, say_stranger(ns->name, ns->wwid, may_write)) < 0) {
			fm_json_free(used);
			return NULL;
		}
	}
	return used;
}

static const char *wwid_of(const struct fm_json *said)
{
	return fm_json_as_text(fm_json_get(said, "wwid"));
}

static bool has_wwid(const struct fm_json *all, const char *wwid)
{
	const struct fm_json *said;
	size_t i;

	for (i = 0; (said = fm_json_at(all, i)); i++)
		if (strcmp(wwid_of(said), wwid) == 0)
			return true;
	return false;
}

bool fm_supervised_is_stranger(const struct fm_supervised *v)
{
	return strcmp(v->volume->subsystem, STRANGER) == 0;
}

/* NULL: neither is it any volume's, nor was it held before. */
static struct fm_supervised *find_holder(const struct fm_supervisor *sup, const char *wwid)
{
	fm_list_each(at, next, &sup->volumes) {
		struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);
		const struct fm_inv_namespace *its = fm_supervised_ns(v);

		if ((its && strcmp(its->wwid, wwid) == 0) ||
		    (fm_supervised_is_stranger(v) && strcmp(v->last_wwid, wwid) == 0))
			return v;
	}
	return NULL;
}

static bool may_be_there(const struct fm_inventory *inv, const char *wwid)
{
	for (unsigned i = 0; i < inv->namespace_count; i++)
		if (strcmp(inv->namespaces[i].wwid, wwid) == 0)
			return true;
	return inv->is_cut;
}

/* Out of the table of mounts, which is not free: held as a volume's is, by what it is now. */
static void hold_stranger(struct fm_supervisor *sup, const struct fm_json *said)
{
	bool may_write = fm_json_is_true(fm_json_get(said, "read_write"));
	struct fm_volume volume = volume_of_stranger(said);
	struct fm_supervised *v = find_holder(sup, wwid_of(said));

	if (!may_be_there(sup->inv, wwid_of(said)))
		return;
	if (v)
		note_left(v, wwid_of(said), may_write);
	else
		v = hold_by_wwid(sup, &volume, wwid_of(said), may_write);
	if (v)
		fm_supervised_doubt_unit(v, may_write);
	fm_supervisor_look_soon(sup);
}

bool fm_supervisor_watch_strangers(struct fm_supervisor *sup)
{
	struct fm_json *used = FM_FAULT("supervisor.strangers") ? NULL : list_used(sup),
		       *now = fm_json_copy(used);
	const struct fm_json *said;
	bool is_new, is_whole = now;
	size_t i;

	for (i = 0; (said = fm_json_at(sup->used_strangers, i)); i++)
		if (used && !has_wwid(used, wwid_of(said)))
			hold_stranger(sup, said);
	if (used) {
		fm_json_free(sup->used_strangers);
		sup->used_strangers = used;
	}
	fm_list_each(at, next, &sup->volumes)
		is_whole = say_former(fm_container_of(at, struct fm_supervised, link), now) &&
			   is_whole;
	if (!is_whole) {	/* what is told next cannot be made, and is not */
		fm_json_free(now);
		now = NULL;
	}
	is_new = sup->strangers ? !fm_json_is_equal(now, sup->strangers) : fm_json_count(now) > 0;
	fm_json_free(sup->strangers);
	sup->strangers = now;
	return is_new;
}

/*
 * More than peers take: then they take nothing of this node, and it is as one that does not answer.
 * What is left out instead would be told to be free.
 */
bool fm_supervisor_say_strangers(struct fm_supervisor *sup, struct fm_json *all)
{
	bool was_too_much = sup->is_too_much_said,
	     is_whole = fm_json_add_all(all, sup->strangers) == 0;

	sup->is_too_much_said = fm_json_count(all) > FM_PEERS_EACH_MAX;
	if (sup->is_too_much_said && !was_too_much)
		fm_log_warn(FM_SUPERVISOR_TOO_MUCH, FM_SUPERVISOR_SAID_MAX);
	return is_whole;
}

/* ---- what of it is not configured ---- */

/* Borrows. -EBADMSG. */
static int read_one(const struct fm_json *from, struct fm_volume *volume, const char **wwid,
		    int *is_read_write)
{
	long long nsid;
	int mode;

	*volume = (struct fm_volume){ 0 };
	if (fm_json_unpack(from, "{s:s, s:s, s:I, s:s, s:s, s:s, s:i, s:s, s:s, s:b}", "name",
			   &volume->name, "subsystem", &volume->subsystem, "nsid", &nsid, "uuid",
			   &volume->uuid, "nguid", &volume->nguid, "mount_point",
			   &volume->mount_point, "mode", &mode, "writer", &volume->writer, "wwid",
			   wwid, "read_write", is_read_write) < 0)
		return -EBADMSG;
	if (nsid < 0 || nsid > UINT32_MAX || mode < 0 || mode > FM_VOLUME_SHARED_READ ||
	    !volume->name[0] || strlen(volume->name) > FM_VOLUME_NAME_MAX)
		return -EBADMSG;
	volume->nsid = (uint32_t)nsid;
	volume->mode = (enum fm_volume_mode)mode;
	return 0;
}

bool fm_supervisor_find_left(const struct fm_supervisor *sup, const char *name,
			     struct fm_volume *volume, const char **wwid)
{
	const struct fm_json *one;
	int is_read_write;

	for (size_t i = 0; (one = fm_json_at(sup->left, i)); i++)
		if (read_one(one, volume, wwid, &is_read_write) == 0 &&
		    strcmp(volume->name, name) == 0 && strcmp(volume->subsystem, STRANGER) != 0)
			return true;
	return false;
}

static int take_down(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
		     const struct fm_volume *volume, const char *wwid, bool is_read_write,
		     const struct fm_json *one)
{
	struct fm_supervised *v = hold_by_wwid(sup, volume, wwid, is_read_write);

	if (v)
		note_left_devices(v, one);
	if (!fm_supervisor_find_named(config, volume->name))
		fm_supervisor_end_forgetting(sup, volume->name);
	if (v && !fm_supervised_is_stranger(v))
		fm_log_info("volume %s: it is configured no more, and had %s when fmove-nvmed ran "
			    "last: it is taken down",
			    volume->name, volume->mount_point);
	return v ? 0 : -ENOMEM;
}

int fm_supervisor_take_left(struct fm_supervisor *sup, const struct fm_supervisor_config *config)
{
	size_t i = 0;

	while (i < fm_json_count(sup->left)) {
		struct fm_volume volume;
		const char *wwid;
		int is_read_write;

		if (read_one(fm_json_at(sup->left, i), &volume, &wwid, &is_read_write) < 0) {
			fm_log_warn("state: " FM_SUPERVISOR_HELD
				    " makes no sense: something that was mounted here may not be "
				    "known");
		} else if (fm_supervisor_is_configured(config, &volume, wwid)) {
			i++;
			continue;
		} else if (take_down(sup, config, &volume, wwid, is_read_write,
				     fm_json_at(sup->left, i)) < 0) {
			return -ENOMEM;
		}
		(void)fm_json_remove(sup->left, i);
	}
	return 0;
}

void fm_supervisor_give_left(struct fm_supervisor *sup)
{
	struct fm_volume volume;
	const char *wwid;
	int is_read_write;
	const struct fm_json *one;
	size_t i;

	for (i = 0; (one = fm_json_at(sup->left, i)); i++) {
		if (read_one(one, &volume, &wwid, &is_read_write) < 0)
			continue;
		fm_list_each(at, next, &sup->volumes) {
			struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

			if (v->is_retired || !fm_volume_is_it_now(v->volume, &volume, wwid))
				continue;
			note_left(v, wwid, is_read_write);
			note_left_devices(v, one);
		}
	}
	(void)fm_json_clear(sup->left);
}
