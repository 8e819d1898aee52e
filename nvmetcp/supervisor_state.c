/* SPDX-License-Identifier: MIT */
/* What the supervisor keeps in files and in memory: its state, and its own copies of volumes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "nvmetcp/supervisor_priv.h"

static const char *const wants[] = { [FM_WANT_DOWN] = "down", [FM_WANT_CONNECTED] = "connected", [FM_WANT_UP] = "up" };
static const char *const seals[] = { [FM_SEAL_OPEN] = "open", [FM_SEAL_WANTED] = "wanted", [FM_SEAL_DONE] = "sealed" };

/* ---- files ---- */

static json_t *load_object(struct fm_supervisor *sup, const char *name)
{
	struct fm_err err = { 0 };
	char *text = NULL;
	json_t *object = NULL;
	int ret = sup->world->load(sup->world->ctx, name, &text, &err);

	if (ret == 0) {
		object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
		if (!json_is_object(object)) {
			fm_log_warn("state: %s is no JSON object: taken for empty", name);
			json_decref(object);
			object = NULL;
		}
	} else if (ret != -ENOENT) {
		fm_log_warn("state: %s: %s; taken for empty", name, err.text);
	}
	free(text);
	return object ? object : json_object();
}

int fm_supervisor_load(struct fm_supervisor *sup, struct fm_err *err)
{
	struct fm_err why = { 0 };
	char *text = NULL;
	int ret;

	sup->wishes = load_object(sup, FM_SUPERVISOR_WISHES);
	sup->mounted = load_object(sup, FM_SUPERVISOR_MOUNTED);
	sup->sealed = load_object(sup, FM_SUPERVISOR_SEALED);
	if (!sup->wishes || !sup->mounted || !sup->sealed)
		return fm_err_set(err, -ENOMEM, "no memory for the state of volumes");
	ret = sup->world->load(sup->world->ctx, FM_SUPERVISOR_OWNED, &text, &why);
	if (ret == 0)
		ret = fm_owned_read(&sup->owned, text, sup->world->boot, &why);
	if (ret < 0 && ret != -ENOENT)
		fm_log_warn("state: " FM_SUPERVISOR_OWNED ": %s; what is connected is taken for others'", why.text);
	free(text);
	return ret == -ENOMEM ? fm_err_set(err, ret, "%s", why.text) : 0;
}

void fm_supervisor_forget_state(struct fm_supervisor *sup)
{
	json_decref(sup->wishes);
	json_decref(sup->mounted);
	json_decref(sup->sealed);
	free(sup->owned_text);
}

void fm_supervisor_save_owned(struct fm_supervisor *sup)
{
	char *text = FM_FAULT("supervisor.owned") ? NULL : fm_owned_write(&sup->owned, sup->world->boot);
	struct fm_err err = { 0 };
	int ret = text ? 0 : fm_err_set(&err, -ENOMEM, "out of memory");

	if (ret == 0 && sup->owned_text && strcmp(sup->owned_text, text) == 0) {
		free(text);
		return;
	}
	if (ret == 0)
		ret = sup->world->save(sup->world->ctx, FM_SUPERVISOR_OWNED, text, false, &err);
	if (ret < 0) {
		fm_log_error("state: %s; a supervisor started after this one may not know what it connected", err.text);
		free(text);
		return;
	}
	free(sup->owned_text);
	sup->owned_text = text;
}

static int save_object(struct fm_supervisor *sup, const char *name, const json_t *object, struct fm_err *err)
{
	char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
	int ret = text ? sup->world->save(sup->world->ctx, name, text, true, err) : fm_err_set(err, -ENOMEM, "out of memory");

	free(text);
	return ret;
}

int fm_supervisor_save_wish(struct fm_supervisor *sup, const struct fm_supervised *v, struct fm_err *err)
{
	const char *before = json_string_value(json_object_get(sup->wishes, v->volume->name));
	int ret = 0;

	if (before && strcmp(before, wants[v->want]) == 0)
		return 0;
	if (json_object_set_new(sup->wishes, v->volume->name, json_string(wants[v->want])) < 0)
		ret = fm_err_set(err, -ENOMEM, "out of memory");
	if (ret == 0)
		ret = save_object(sup, FM_SUPERVISOR_WISHES, sup->wishes, err);
	return ret < 0 ? fm_err_wrap(err, "the wish is in force, but would not survive a restart") : 0;
}

void fm_supervisor_save_mounted(struct fm_supervisor *sup, const struct fm_supervised *v)
{
	json_t *now = json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:I}", "subsystem", v->volume->subsystem, "wwid", v->last_wwid,
				"size_bytes", (json_int_t)v->last_size_bytes, "set_read_only", v->read_only_wwid, "epoch",
				(json_int_t)v->mounted_epoch, "writer", v->volume->writer, "writer_epoch",
				v->has_heard ? (json_int_t)v->heard_epoch : -1);
	struct fm_err err = { 0 };
	int ret = 0;

	if (now && json_equal(now, json_object_get(sup->mounted, v->volume->name))) {
		json_decref(now);
		return;
	}
	if (json_object_set_new(sup->mounted, v->volume->name, now) < 0)
		ret = fm_err_set(&err, -ENOMEM, "out of memory");
	if (ret == 0)
		ret = save_object(sup, FM_SUPERVISOR_MOUNTED, sup->mounted, &err);
	if (ret < 0)
		fm_log_warn("state: %s", err.text);
}

int fm_supervisor_save_seal(struct fm_supervisor *sup, const struct fm_supervised *v, struct fm_err *err)
{
	if (json_object_set_new(sup->sealed, v->volume->name,
				json_pack("{s:s, s:s, s:I}", "subsystem", v->volume->subsystem, "state", seals[v->seal], "epoch",
					  (json_int_t)v->epoch)) < 0)
		return fm_err_set(err, -ENOMEM, "out of memory");
	return save_object(sup, FM_SUPERVISOR_SEALED, sup->sealed, err);
}

void fm_supervised_note_read_only(struct fm_supervised *v, const char *wwid)
{
	if (strcmp(v->read_only_wwid, wwid) == 0)
		return;
	(void)snprintf(v->read_only_wwid, sizeof(v->read_only_wwid), "%s", wwid);
	fm_supervisor_save_mounted(v->sup, v);
}

/* Of another subsystem it says nothing: the volume has become another one. */
static void recall_mounted(struct fm_supervised *v)
{
	json_t *mounted = json_object_get(v->sup->mounted, v->volume->name);
	const char *subsystem, *wwid, *read_only, *writer = "";
	json_int_t size, epoch = 0, heard = -1;

	if (json_unpack(mounted, "{s:s, s:s, s:I, s:s, s?I, s?s, s?I}", "subsystem", &subsystem, "wwid", &wwid, "size_bytes", &size,
			"set_read_only", &read_only, "epoch", &epoch, "writer", &writer, "writer_epoch", &heard) < 0 ||
	    strcmp(subsystem, v->volume->subsystem) != 0 || strlen(wwid) >= sizeof(v->last_wwid) ||
	    strlen(read_only) >= sizeof(v->read_only_wwid))
		return;
	strcpy(v->last_wwid, wwid);
	strcpy(v->read_only_wwid, read_only);
	v->last_size_bytes = size > 0 ? (uint64_t)size : 0;
	v->mounted_epoch = epoch > 0 ? (uint64_t)epoch : 0;
	v->has_heard = heard >= 0 && strcmp(writer, v->volume->writer) == 0;
	v->heard_epoch = v->has_heard ? (uint64_t)heard : 0;
}

/* What makes no sense is open: a writer that need not have been one harms nobody, one that should be would wait for ever. */
static void recall_seal(struct fm_supervised *v)
{
	const char *subsystem, *state;
	json_int_t epoch;

	if (json_unpack(json_object_get(v->sup->sealed, v->volume->name), "{s:s, s:s, s:I}", "subsystem", &subsystem, "state", &state,
			"epoch", &epoch) < 0 ||
	    strcmp(subsystem, v->volume->subsystem) != 0)
		return;
	v->epoch = epoch > 0 ? (uint64_t)epoch : 0;
	for (unsigned i = 0; i < sizeof(seals) / sizeof(seals[0]); i++)
		if (strcmp(state, seals[i]) == 0)
			v->seal = (enum fm_seal)i;
}

void fm_supervised_recall(struct fm_supervised *v)
{
	const char *wish = json_string_value(json_object_get(v->sup->wishes, v->volume->name));

	for (unsigned i = 0; wish && i < sizeof(wants) / sizeof(wants[0]); i++)
		if (strcmp(wish, wants[i]) == 0)
			v->want = (enum fm_plan_want)i;
	recall_mounted(v);
	recall_seal(v);
}

/* ---- volumes ---- */

/* Every text that a volume points to, in the order of the structure. */
#define TEXTS_MAX (13 + 2 * FM_VOLUME_PATHS_MAX)

static unsigned list_texts(struct fm_volume *v, const char **at[TEXTS_MAX])
{
	const char **texts[] = { &v->name, &v->subsystem, &v->host_address, &v->host_interface, &v->secret_file,
				 &v->controller_secret_file, &v->iopolicy, &v->uuid, &v->nguid, &v->mount_point, &v->fs_type,
				 &v->mount_options, &v->writer };
	unsigned count = 0;

	for (; count < sizeof(texts) / sizeof(texts[0]); count++)
		at[count] = texts[count];
	for (unsigned i = 0; i < v->address_count; i++) {
		at[count++] = &v->address[i].host;
		at[count++] = &v->address[i].port;
	}
	return count;
}

struct fm_volume *fm_volume_copy(const struct fm_volume *from)
{
	struct fm_volume plain = *from, *copy;
	const char **at[TEXTS_MAX];
	unsigned count = list_texts(&plain, at);
	size_t len = sizeof(*copy);
	char *to;

	for (unsigned i = 0; i < count; i++)
		len += (*at[i] ? strlen(*at[i]) : 0) + 1;
	copy = FM_FAULT("supervisor.volume") ? NULL : malloc(len);
	if (!copy)
		return NULL;
	*copy = plain;
	to = (char *)(copy + 1);
	count = list_texts(copy, at);
	for (unsigned i = 0; i < count; i++) {
		const char *text = *at[i] ? *at[i] : "";

		*at[i] = to;
		to = stpcpy(to, text) + 1;
	}
	return copy;
}

bool fm_volume_is_same_thing(const struct fm_volume *a, const struct fm_volume *b)
{
	return strcmp(a->subsystem, b->subsystem) == 0 && a->nsid == b->nsid && strcmp(a->uuid, b->uuid) == 0 &&
	       strcmp(a->nguid, b->nguid) == 0 && strcmp(a->mount_point, b->mount_point) == 0;
}
