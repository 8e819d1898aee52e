/* SPDX-License-Identifier: MIT */
/* What the supervisor keeps in files and in memory: its state, and its own copies of volumes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "nvmetcp/identity.h"
#include "nvmetcp/supervisor_priv.h"

static const char *const wants[] = {
	[FM_WANT_DOWN] = "down", [FM_WANT_CONNECTED] = "connected", [FM_WANT_UP] = "up"};
#define SEALS 3
static const char *const seals[SEALS] = {
	[FM_SEAL_OPEN] = "open", [FM_SEAL_WANTED] = "wanted", [FM_SEAL_DONE] = "sealed"};

/*
 * A key beside those of the volumes, whose names have no slash: an earlier file could not be read.
 */
#define LOST "/lost"

/* ---- files ---- */

/* *is_lost: there is a file, and nobody can say what stood in it. */
static void load_file(struct fm_supervisor *sup, struct fm_state_file *file, const char *name,
		      bool *is_lost)
{
	struct fm_err err = { 0 };
	char *text = NULL;
	struct fm_json *object = NULL;
	int ret = sup->world->load(sup->world->ctx, name, &text, &err);

	*is_lost = false;
	if (ret == 0) {
		object = fm_json_load(text);
		if (!fm_json_is(object, FM_JSON_OBJECT)) {
			fm_log_warn("state: %s is no JSON object: taken for empty", name);
			fm_json_free(object);
			object = NULL;
			*is_lost = true;
		}
	} else if (ret != -ENOENT) {
		fm_log_warn("state: %s: %s; taken for empty", name, err.text);
		*is_lost = true;
	}
	free(text);
	*file = (struct fm_state_file){.name = name, .entries = object ? object : fm_json_object()};
}

/*
 * Reads what peers said before. Entries that make no sense cannot forbid anything, so the log says
 * that they are lost.
 */
static int recall_heard(struct fm_supervisor *sup)
{
	struct fm_err err = { 0 };
	char *text = NULL;
	int ret = sup->world->load(sup->world->ctx, FM_SUPERVISOR_HEARD, &text, &err), read = 0;

	if (ret == 0)
		read = fm_peers_read(&sup->peers, text, &err);
	free(text);
	if (ret < 0 && ret != -ENOENT)
		fm_log_warn("state: " FM_SUPERVISOR_HEARD ": %s; taken for empty", err.text);
	else if (read == -EINVAL)
		fm_log_warn("state: " FM_SUPERVISOR_HEARD " is no JSON object: taken for empty");
	else if (read < 0 && read != -ENOMEM)
		fm_log_warn("state: " FM_SUPERVISOR_HEARD
			    " makes no sense: what some peers said before is not known");
	(void)snprintf(sup->peers.why, sizeof(sup->peers.why),
		       "fmoved of this node has not been asked yet");
	/* Of what was not understood the file is rid with the next answers. */
	sup->heard_text = read == 0 || read == -EINVAL ? fm_peers_write(&sup->peers) : NULL;
	return read == -ENOMEM ? read : 0;
}

int fm_supervisor_load(struct fm_supervisor *sup, struct fm_err *err)
{
	struct fm_err why = { 0 };
	char *text = NULL;
	bool is_lost;
	int ret;

	load_file(sup, &sup->wishes, FM_SUPERVISOR_WISHES, &is_lost);
	load_file(sup, &sup->mounted, FM_SUPERVISOR_MOUNTED, &is_lost);
	ret = recall_heard(sup);
	load_file(sup, &sup->nodes, FM_SUPERVISOR_NODES, &is_lost);
	load_file(sup, &sup->sealed, FM_SUPERVISOR_SEALED, &is_lost);
	fm_supervisor_recall_begun(sup);
	fm_supervisor_recall_left(sup);
	/* Written down with the first volume's, so that it holds for the others after a restart,
	 * too. */
	if (is_lost)
		(void)fm_json_set(sup->sealed.entries, LOST, fm_json_of_bool(true));
	if (!sup->wishes.entries || !sup->mounted.entries || !sup->sealed.entries ||
	    !sup->nodes.entries || ret < 0)
		return fm_err_set(err, -ENOMEM, "no memory for the state of volumes");
	ret = sup->world->load(sup->world->ctx, FM_SUPERVISOR_OWNED, &text, &why);
	if (ret == 0)
		ret = fm_owned_read(&sup->owned, text, sup->world->boot, &why);
	if (ret < 0 && ret != -ENOENT)
		fm_log_warn("state: " FM_SUPERVISOR_OWNED
			    ": %s; what is connected is taken for others'",
			    why.text);
	free(text);
	return ret == -ENOMEM ? fm_err_set(err, ret, "%s", why.text) : 0;
}

void fm_supervisor_forget_state(struct fm_supervisor *sup)
{
	fm_json_free(sup->wishes.entries);
	fm_json_free(sup->mounted.entries);
	fm_json_free(sup->sealed.entries);
	fm_json_free(sup->nodes.entries);
	fm_json_free(sup->left);
	fm_json_free(sup->used_strangers);
	fm_json_free(sup->strangers);
	free(sup->heard_text);
	free(sup->owned_text);
	free(sup->held_text);
}

void fm_supervisor_save_owned(struct fm_supervisor *sup)
{
	char *text =
		FM_FAULT("supervisor.owned") ? NULL : fm_owned_write(&sup->owned, sup->world->boot);
	struct fm_err err = { 0 };
	int ret = text ? 0 : fm_err_set(&err, -ENOMEM, "out of memory");

	if (ret == 0 && sup->owned_text && strcmp(sup->owned_text, text) == 0) {
		free(text);
		return;
	}
	if (ret == 0)
		ret = sup->world->save(sup->world->ctx, FM_SUPERVISOR_OWNED, text, false, &err);
	if (ret < 0) {
		fm_log_error("state: %s; a supervisor started after this one may not know what it "
			     "connected",
			     err.text);
		free(text);
		return;
	}
	free(sup->owned_text);
	sup->owned_text = text;
}

static int write_file(struct fm_supervisor *sup, const struct fm_state_file *file,
		      struct fm_err *err)
{
	char *text = fm_json_dump(file->entries, FM_JSON_SORTED_FILE);
	int ret = text ? sup->world->save(sup->world->ctx, file->name, text, true, err)
		       : fm_err_set(err, -ENOMEM, "out of memory");

	free(text);
	return ret;
}

/*
 * mounted.json goes last: where it has a volume under both names, a start takes a wish under the
 * former one for old. So it waits for what could not be written of the others.
 */
static int save_file(struct fm_supervisor *sup, const struct fm_state_file *file,
		     struct fm_err *err)
{
	int ret = 0;

	if (file == &sup->mounted)
		ret = fm_supervisor_settle_file(sup, &sup->wishes, err);
	if (file == &sup->mounted && ret == 0)
		ret = fm_supervisor_settle_file(sup, &sup->sealed, err);
	return ret < 0 ? ret : write_file(sup, file, err);
}

int fm_supervisor_settle_file(struct fm_supervisor *sup, struct fm_state_file *file,
			      struct fm_err *err)
{
	int ret = file->is_in_doubt ? save_file(sup, file, err) : 0;

	file->is_in_doubt = ret < 0;
	return ret;
}

void fm_supervisor_save_heard(struct fm_supervisor *sup)
{
	char *now = fm_peers_write(&sup->peers);
	bool was_in_doubt = sup->is_heard_in_doubt;
	struct fm_err err = { 0 };
	int ret;

	if (now && sup->heard_text && strcmp(now, sup->heard_text) == 0 && !was_in_doubt) {
		free(now);
		return;
	}
	if (now) {
		free(sup->heard_text);
		sup->heard_text = now;
	}
	ret = now ? sup->world->save(sup->world->ctx, FM_SUPERVISOR_HEARD, now, true, &err)
		  : fm_err_set(&err, -ENOMEM, "out of memory");
	sup->is_heard_in_doubt = ret < 0;
	if (ret < 0 && !was_in_doubt)
		fm_log_warn("state: what peers said of their volumes is not written down, a "
			    "restart would forget it: %s",
			    err.text);
}

int fm_supervisor_save_nodes(struct fm_supervisor *sup)
{
	struct fm_err err = { 0 };
	int ret = sup->nodes.is_in_doubt ? save_file(sup, &sup->nodes, &err) : 0;

	sup->nodes.is_in_doubt = ret < 0;
	if (ret < 0)
		fm_log_warn("state: which nodes there are is not written down: %s", err.text);
	return ret;
}

/* Where the file has what is of the volume: of one that is configured no more, whose name another
 * one has got, beside those of names. */
static const char *key_of(const struct fm_supervised *v, const struct fm_state_file *file)
{
	const char *given = v->is_retired ? fm_supervisor_find_given(file, v->volume) : NULL;

	return given ? given : v->volume->name;
}

/*
 * What is no longer configured neither reads nor changes what is known of another volume, which has
 * got its name meanwhile.
 */
static bool is_anothers(const struct fm_supervised *v, const struct fm_state_file *file)
{
	return v->is_retired &&
	       fm_supervisor_is_of_another(fm_json_get(file->entries, key_of(v, file)), v->volume);
}

static const struct fm_json *entry_of(const struct fm_supervised *v,
				      const struct fm_state_file *file)
{
	return is_anothers(v, file) ? NULL : fm_json_get(file->entries, key_of(v, file));
}

/*
 * Each entry of a volume says which one that is, as the configuration said it: a start finds those
 * of one that is called something else now (fm_supervisor_take_names).
 */

/*
 * A volume's entry, taken over; NULL is no memory for it. Nothing is written if it is there
 * already. What could not be written down is as before: with another volume's next change it would
 * be written down all the same.
 */
static int replace_entry(const struct fm_supervised *v, struct fm_state_file *file,
			 struct fm_json *entry, struct fm_err *err)
{
	struct fm_supervisor *sup = v->sup;
	const char *key = key_of(v, file);
	struct fm_json *before = fm_json_share(fm_json_get(file->entries, key));
	int ret;

	if (is_anothers(v, file) ||
	    (entry && fm_json_is_equal(entry, before) && !file->is_in_doubt)) {
		fm_json_free(entry);
		fm_json_free(before);
		return 0;
	}
	ret = fm_json_set(file->entries, key, entry) < 0
		      ? fm_err_set(err, -ENOMEM, "out of memory")
		      : save_file(sup, file, err);
	file->is_in_doubt = ret < 0;
	if (ret < 0 && before)
		(void)fm_json_set(file->entries, key, fm_json_share(before));
	else if (ret < 0)
		(void)fm_json_delete(file->entries, key);
	fm_json_free(before);
	return ret;
}

static bool is_wished(const struct fm_supervisor *sup, const char *volume, const char *want)
{
	const struct fm_json *entry = fm_json_get(sup->wishes.entries, volume);
	/* an fmove-nvmed of before wrote the word alone */
	const char *wish = fm_json_as_text(
		fm_json_is(entry, FM_JSON_TEXT) ? entry : fm_json_get(entry, "want"));

	return wish && strcmp(wish, want) == 0;
}

int fm_supervisor_save_wish(struct fm_supervisor *sup, const struct fm_supervised *v,
			    struct fm_err *err)
{
	const struct fm_volume *vol = v->volume;
	struct fm_json *now = fm_json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s}", "want",
					   wants[v->want], "subsystem", vol->subsystem, "nsid",
					   (long long)vol->nsid, "uuid", vol->uuid, "nguid",
					   vol->nguid, "mount_point", vol->mount_point, "wwid",
					   v->last_wwid);
	bool was_in_doubt = sup->wishes.is_in_doubt;
	int ret = replace_entry(v, &sup->wishes, now, err);

	if (ret == 0)
		return 0;
	/* Written or not, the file has this wish, and differs in what it says of the volume. */
	if (!was_in_doubt && is_wished(sup, vol->name, wants[v->want])) {
		sup->wishes.is_in_doubt = false;
		return 0;
	}
	return fm_err_wrap(err, "the wish is in force, but would not survive a restart");
}

int fm_supervisor_save_mounted(struct fm_supervisor *sup, const struct fm_supervised *v)
{
	long long heard = v->has_heard || v->epoch > 0 ? (long long)v->epoch : -1;
	struct fm_json *now = fm_json_pack(
		"{s:s, s:I, s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:s, s:I, s:b, s:b, s:b, s:b, s:b, "
		"s:b, s:b}",
		"subsystem", v->volume->subsystem, "nsid", (long long)v->volume->nsid, "uuid",
		v->volume->uuid, "nguid", v->volume->nguid, "mount_point", v->volume->mount_point,
		"wwid", v->last_wwid, "size_bytes", (long long)v->last_size_bytes, "set_read_only",
		v->read_only_wwid, "epoch", (long long)v->mounted_epoch, "writer",
		v->volume->writer, "writer_epoch", heard, "writer_sealed", v->is_heard_sealed,
		"write_protected", v->is_write_protected, "protect_confirmed",
		v->is_protect_confirmed, "reserved", v->is_reserved, "asked",
		v->is_keep_asked || v->is_doubtful, "taken", v->is_taken, "untold_written",
		v->is_untold_written);
	struct fm_err err = {0};
	int ret = replace_entry(v, &sup->mounted, now, &err);

	if (ret < 0)
		fm_log_warn("state: %s", err.text);
	return ret;
}

int fm_supervisor_save_seal(struct fm_supervisor *sup, const struct fm_supervised *v,
			    struct fm_err *err)
{
	bool has_readers = v->seal != FM_SEAL_OPEN;
	bool has_sum = v->seal == FM_SEAL_DONE && v->has_sealed_sum;
	struct fm_json *now = fm_json_pack(
		"{s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:O*, s:b, s:I, s:b}", "subsystem",
		v->volume->subsystem, "nsid", (long long)v->volume->nsid, "uuid", v->volume->uuid,
		"nguid", v->volume->nguid, "mount_point", v->volume->mount_point, "wwid",
		v->last_wwid, "state", seals[v->seal], "epoch", (long long)v->epoch, "readers",
		has_readers ? v->readers : NULL, "are_readers_lost",
		has_readers && v->are_readers_lost, "superblock",
		has_sum ? (long long)v->sealed_sum : -1, "unheard",
		v->seal == FM_SEAL_WANTED && v->is_unheard);

	return replace_entry(v, &sup->sealed, now, err);
}

void fm_supervised_note_read_only(struct fm_supervised *v, const char *wwid)
{
	if (strcmp(v->read_only_wwid, wwid) == 0)
		return;
	v->is_write_protected = v->is_write_protected && wwid[0];
	(void)snprintf(v->read_only_wwid, sizeof(v->read_only_wwid), "%s", wwid);
	(void)fm_supervisor_save_mounted(v->sup, v);
}

/*
 * Recalls the last mount of a volume. An entry of another subsystem is ignored: the volume has
 * become another one.
 */
static void recall_mounted(struct fm_supervised *v)
{
	const struct fm_json *mounted = entry_of(v, &v->sup->mounted);
	const char *subsystem, *wwid, *read_only, *writer = "";
	long long size, epoch = 0, heard = -1;
	int is_sealed = 0, is_write_protected = 0, is_protect_confirmed = 0, is_reserved = 0,
	    is_asked = 0, is_taken = 0, is_untold_written = 0;

	v->is_reserved_unknown = true;
	if (fm_json_unpack(mounted,
			   "{s:s, s:s, s:I, s:s, s?I, s?s, s?I, s?b, s?b, s?b, s?b, s?b, s?b, s?b}",
			   "subsystem", &subsystem, "wwid", &wwid, "size_bytes", &size,
			   "set_read_only", &read_only, "epoch", &epoch, "writer", &writer,
			   "writer_epoch", &heard, "writer_sealed", &is_sealed, "write_protected",
			   &is_write_protected, "protect_confirmed", &is_protect_confirmed,
			   "reserved", &is_reserved, "asked", &is_asked, "taken", &is_taken,
			   "untold_written", &is_untold_written) < 0 ||
	    strcmp(subsystem, v->volume->subsystem) != 0 || strlen(wwid) >= sizeof(v->last_wwid) ||
	    strlen(read_only) >= sizeof(v->read_only_wwid))
		return;
	strcpy(v->last_wwid, wwid);
	strcpy(v->read_only_wwid, read_only);
	/* no writer ever says one as high: it would be waited for without end */
	if (heard >= FM_SUPERVISED_EPOCH_MAX)
		heard = -1;
	v->last_size_bytes = size > 0 ? (uint64_t)size : 0;
	v->mounted_epoch = epoch > 0 ? (uint64_t)epoch : 0;
	v->has_heard = heard >= 0 && strcmp(writer, v->volume->writer) == 0;
	v->is_heard_sealed = v->has_heard && is_sealed;
	v->epoch = heard > 0 ? (uint64_t)heard : 0;
	v->is_write_protected = is_write_protected;
	v->is_protect_confirmed = is_protect_confirmed;
	v->is_reserved = is_reserved;
	v->is_reserved_unknown = false;
	v->is_doubtful = is_asked;
	v->is_taken = is_taken;
	v->is_untold_written = is_untold_written;
}

/*
 * The file of seals is lost. The volume may have been sealed, and silent readers may have it
 * mounted. So it is sealed anew, with a number that no reader knows.
 */
static void recall_lost_seal(struct fm_supervised *v)
{
	if (v->volume->mode != FM_VOLUME_SHARED_READ ||
	    !fm_guard_is_writer(v->volume, v->sup->node))
		return;
	fm_log_warn("volume %s: whether it is sealed was to be read in " FM_SUPERVISOR_SEALED
		    ", which is lost: it is sealed anew",
		    v->volume->name);
	v->seal = FM_SEAL_WANTED;
	v->are_readers_lost = true;
}

void fm_supervised_forget_seal(struct fm_supervised *v)
{
	struct fm_supervisor *sup = v->sup;
	struct fm_err err = { 0 };

	fm_json_free(v->raised);
	v->raised = NULL;
	v->has_number = v->has_heard = v->is_heard_sealed = v->is_heard_now = false;
	v->hears_from = 0;
	v->seal = FM_SEAL_OPEN;
	v->is_unheard = false;
	v->unsealed_why[0] = '\0';
	if (!is_anothers(v, &sup->sealed) &&
	    fm_json_delete(sup->sealed.entries, key_of(v, &sup->sealed)) == 0 &&
	    save_file(sup, &sup->sealed, &err) < 0) {
		sup->sealed.is_in_doubt = true;
		fm_log_warn("state: %s", err.text);
	}
}

static bool are_names(const struct fm_json *readers)
{
	const struct fm_json *at;
	size_t i;

	for (i = 0; (at = fm_json_at(readers, i)); i++)
		if (!fm_json_is(at, FM_JSON_TEXT))
			return false;
	return fm_json_count(readers) <= FM_PEERS_NODES_MAX;
}

static void recall_seal(struct fm_supervised *v)
{
	const struct fm_json *entry = entry_of(v, &v->sup->sealed), *readers = NULL;
	const char *subsystem, *state;
	long long epoch, sum = -1;
	int are_readers_lost = 0, is_unheard = 0;
	unsigned seal = 0;

	if (!entry && !fm_json_get(v->sup->sealed.entries, LOST))
		return;
	if (fm_json_unpack(entry, "{s:s, s:s, s:I, s?o, s?b, s?I, s?b}", "subsystem",
			   &subsystem, "state", &state, "epoch", &epoch, "readers", &readers,
			   "are_readers_lost", &are_readers_lost, "superblock", &sum, "unheard",
			   &is_unheard) < 0 ||
	    epoch < 0 || epoch >= FM_SUPERVISED_EPOCH_MAX || !are_names(readers)) {
		recall_lost_seal(v);
		return;
	}
	/* Of another subsystem it says nothing: the volume has become another one. */
	if (strcmp(subsystem, v->volume->subsystem) != 0)
		return;
	/* Nor of who does not write it now: should this node be named again, others may have
	 * written meanwhile. */
	if (!fm_guard_is_writer(v->volume, v->sup->node)) {
		fm_supervised_forget_seal(v);
		return;
	}
	while (seal < SEALS && strcmp(state, seals[seal]) != 0)
		seal++;
	if (seal == SEALS) {
		recall_lost_seal(v);
		return;
	}
	v->seal = (enum fm_seal)seal;
	/* A higher one was heard since: the file is an old one. */
	v->has_number = (uint64_t)epoch >= v->epoch;
	v->epoch = v->has_number ? (uint64_t)epoch : v->epoch;
	v->readers = fm_json_share(readers);
	v->are_readers_lost = are_readers_lost;
	v->has_sealed_sum = v->seal == FM_SEAL_DONE && sum >= 0;
	v->sealed_sum = v->has_sealed_sum ? (uint64_t)sum : 0;
	v->is_unheard = v->seal == FM_SEAL_WANTED && is_unheard;
	if (v->is_unheard)
		fm_supervised_end_restarted_seal(v);
}

/* NULL: it keeps the name, unless that is given to another one. */
static const char *find_new_name(const struct fm_renamed *names, unsigned count, const char *name,
				 bool *is_given)
{
	const char *to = NULL;

	*is_given = false;
	for (unsigned i = 0; i < count; i++) {
		*is_given = *is_given || strcmp(names[i].to, name) == 0;
		if (strcmp(names[i].from, name) == 0)
			to = names[i].to;
	}
	return to;
}

struct fm_json *fm_supervisor_rename_all(const struct fm_json *entries,
					 const struct fm_renamed *names, unsigned count)
{
	struct fm_json *all = fm_json_object(), *entry;
	const char *name;
	int ret = all ? 0 : -ENOMEM;

	for (void *it = NULL; ret == 0 && fm_json_next(entries, &it, &name, &entry);) {
		bool is_given;
		const char *to = find_new_name(names, count, name, &is_given);

		if (!to && is_given)
			ret = fm_supervisor_give_away(all, name, entry);
		else
			ret = fm_json_set(all, to ? to : name, fm_json_share(entry));
	}
	if (ret == 0)
		return all;
	fm_json_free(all);
	return NULL;
}

static void rename_entries(struct fm_supervisor *sup, struct fm_state_file *file,
			   const struct fm_renamed *names, unsigned count)
{
	struct fm_json *all = fm_supervisor_rename_all(file->entries, names, count);
	struct fm_err err = { 0 };
	int ret;

	if (all && fm_json_is_equal(all, file->entries)) {
		fm_json_free(all);
		return;
	}
	if (all) {
		fm_json_free(file->entries);
		file->entries = all;
	}
	ret = all ? save_file(sup, file, &err) : fm_err_set(&err, -ENOMEM, "out of memory");
	file->is_in_doubt = ret < 0;
	if (ret < 0)
		fm_log_warn("state: what volumes are called now is not written down: %s",
			    err.text);
}

void fm_supervisor_rename_state(struct fm_supervisor *sup, const struct fm_renamed *names,
				unsigned count)
{
	if (count == 0)
		return;
	rename_entries(sup, &sup->wishes, names, count);
	rename_entries(sup, &sup->sealed, names, count);
	rename_entries(sup, &sup->mounted, names, count);
	fm_supervisor_rename_forgotten(sup, names, count);
}

void fm_supervised_recall(struct fm_supervised *v)
{
	for (unsigned i = 0; i < sizeof(wants) / sizeof(wants[0]); i++)
		if (is_wished(v->sup, v->volume->name, wants[i]))
			v->want = (enum fm_plan_want)i;
	recall_mounted(v);
	recall_seal(v);
}

/* ---- volumes ---- */

/* Every text that a volume points to, in the order of the structure. */
#define TEXTS_MAX (13 + 2 * FM_VOLUME_PATHS_MAX + FM_VOLUME_NODES_MAX)

static unsigned list_texts(struct fm_volume *v, const char **at[TEXTS_MAX])
{
	const char **texts[] = {&v->name,	    &v->subsystem,   &v->host_address,
				&v->host_interface, &v->secret_file, &v->controller_secret_file,
				&v->iopolicy,	    &v->uuid,	     &v->nguid,
				&v->mount_point,    &v->fs_type,     &v->mount_options,
				&v->writer};
	unsigned count = 0;

	for (; count < sizeof(texts) / sizeof(texts[0]); count++)
		at[count] = texts[count];
	for (unsigned i = 0; i < v->address_count; i++) {
		at[count++] = &v->address[i].host;
		at[count++] = &v->address[i].port;
	}
	for (unsigned i = 0; i < v->node_count; i++)
		at[count++] = &v->node[i];
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
	return strcmp(a->subsystem, b->subsystem) == 0 && a->nsid == b->nsid &&
	       strcmp(a->uuid, b->uuid) == 0 && strcmp(a->nguid, b->nguid) == 0 &&
	       strcmp(a->mount_point, b->mount_point) == 0;
}

bool fm_volume_is_same_place(const struct fm_volume *a, const struct fm_volume *b)
{
	return strcmp(a->subsystem, b->subsystem) == 0 &&
	       strcmp(a->mount_point, b->mount_point) == 0;
}

/* The kernel makes it of the UUID, else of the NGUID. */
static bool is_wwid_of(const struct fm_volume *volume, const char *wwid)
{
	return (volume->uuid[0] && strncmp(wwid, "uuid.", 5) == 0 &&
		strcmp(wwid + 5, volume->uuid) == 0) ||
	       (volume->nguid[0] && strncmp(wwid, "eui.", 4) == 0 &&
		fm_identity_is_same_nguid(wwid + 4, volume->nguid));
}

bool fm_volume_is_no_wwid(const struct fm_volume *volume, const char *wwid)
{
	bool is_said = (volume->uuid[0] && strncmp(wwid, "uuid.", 5) == 0) ||
		       (volume->nguid[0] && strncmp(wwid, "eui.", 4) == 0);

	return is_said && !is_wwid_of(volume, wwid);
}

bool fm_volume_is_other_namespace(const struct fm_volume *now, const struct fm_volume *was,
				  const char *wwid)
{
	if (strcmp(now->subsystem, was->subsystem) != 0 || fm_volume_is_no_wwid(now, wwid))
		return true;
	if (is_wwid_of(now, wwid))
		return false;
	if (now->uuid[0] && was->uuid[0])
		return strcmp(now->uuid, was->uuid) != 0;
	if (now->nguid[0] && was->nguid[0])
		return !fm_identity_is_same_nguid(now->nguid, was->nguid);
	return now->nsid && was->nsid && now->nsid != was->nsid;
}

bool fm_volume_is_named_by_now(const struct fm_volume *now, const struct fm_volume *was,
			       const char *wwid)
{
	return is_wwid_of(now, wwid) && fm_volume_is_same_place(now, was);
}

bool fm_volume_is_it_now(const struct fm_volume *now, const struct fm_volume *was,
			 const char *wwid)
{
	return fm_volume_is_same_thing(now, was) || fm_volume_is_named_by_now(now, was, wwid);
}

bool fm_supervisor_is_configured(const struct fm_supervisor_config *config,
				 const struct fm_volume *was, const char *wwid)
{
	for (unsigned i = 0; i < config->count; i++)
		if (fm_volume_is_it_now(&config->volumes[i], was, wwid))
			return true;
	return false;
}
