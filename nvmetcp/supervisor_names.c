/* SPDX-License-Identifier: MIT */
/*
 * Volumes that are called something else than before. Each entry of the files of state says which
 * volume it is of, as the configuration said it. A start or a reload gives it to the name that this
 * volume has now. The entry alone decides, file by file, also where another volume had that name:
 * all of it can be done again after a kill in between, or a file that could not be written. What is
 * of no volume that is configured waits for that one to come back: under its name, or beside the
 * names where another volume has got that.
 *
 * An fmove-nvmed of before wrote no such words, and what is down may not be written again for
 * months. A start adds them while the name is still the one of then.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "nvmetcp/supervisor_priv.h"

#define FILES 3
/* Before a name that another volume has got; no name of a volume has a slash. */
#define GIVEN_AWAY "/given-away/"

/* Where they disagree, what was mounted last counts. */
struct files {
	struct fm_state_file *at[FILES];
};

static struct files files_of(struct fm_supervisor *sup)
{
	return (struct files){{&sup->mounted, &sup->sealed, &sup->wishes}};
}

/* Borrows, as the volume that find_identity() fills in does. */
static bool read_identity(const struct fm_json *entry, struct fm_volume *was, const char **wwid)
{
	long long nsid;

	*was = (struct fm_volume){ 0 };
	if (fm_json_unpack(entry, "{s:s, s:I, s:s, s:s, s:s, s:s}", "subsystem", &was->subsystem,
			   "nsid", &nsid, "uuid", &was->uuid, "nguid", &was->nguid, "mount_point",
			   &was->mount_point, "wwid", wwid) < 0 ||
	    nsid < 0 || nsid > UINT32_MAX)
		return false;
	was->nsid = (uint32_t)nsid;
	return true;
}

static bool is_known(const struct fm_json *entry)
{
	struct fm_volume was;
	const char *wwid;

	return read_identity(entry, &was, &wwid);
}

/* Whether the entry is of the volume that is configured now, under whichever name. */
static bool is_of(const struct fm_json *entry, const struct fm_volume *now)
{
	struct fm_volume was;
	const char *wwid;

	return read_identity(entry, &was, &wwid) && fm_volume_is_it_now(now, &was, wwid);
}

bool fm_supervisor_is_of_another(const struct fm_json *entry, const struct fm_volume *volume)
{
	return is_known(entry) && !is_of(entry, volume);
}

/* Whether the entry says that it is of another namespace than the volume is configured as. */
static bool is_of_other_namespace(const struct fm_json *entry, const struct fm_volume *now)
{
	struct fm_volume was;
	const char *wwid;

	return read_identity(entry, &was, &wwid) && fm_volume_is_other_namespace(now, &was, wwid);
}

static bool is_own(const struct fm_state_file *file, const struct fm_volume *now)
{
	return is_of(fm_json_get(file->entries, now->name), now);
}

const struct fm_volume *fm_supervisor_find_named(const struct fm_supervisor_config *config,
						 const char *name)
{
	for (unsigned i = 0; i < config->count; i++)
		if (strcmp(config->volumes[i].name, name) == 0)
			return &config->volumes[i];
	return NULL;
}

static bool is_configured(const struct fm_supervisor_config *config, const struct fm_json *entry)
{
	struct fm_volume was;
	const char *wwid;

	return read_identity(entry, &was, &wwid) && fm_supervisor_is_configured(config, &was, wwid);
}

/* Another name, under which the file has it. NULL: there is none. */
static const char *find_other_name(const struct fm_state_file *file, const struct fm_volume *now)
{
	const char *key;
	struct fm_json *entry;

	for (void *it = NULL; fm_json_next(file->entries, &it, &key, &entry);)
		if (strcmp(key, now->name) != 0 && is_of(entry, now))
			return key;
	return NULL;
}

static bool is_given_away(const char *name)
{
	return strncmp(name, GIVEN_AWAY, strlen(GIVEN_AWAY)) == 0;
}

/* The key says which volume it is: several may have had the name. */
int fm_supervisor_give_away(struct fm_json *all, const char *name, const struct fm_json *entry)
{
	struct fm_volume was;
	const char *wwid;
	char *key;
	int ret;

	if (!read_identity(entry, &was, &wwid))
		return 0;
	if (asprintf(&key, GIVEN_AWAY "%s/%s/%u/%s/%s/%s", name, was.subsystem, was.nsid, was.uuid,
		     was.nguid, was.mount_point) < 0)
		return -ENOMEM;
	ret = fm_json_set(all, key, fm_json_share(entry));
	free(key);
	return ret;
}

const char *fm_supervisor_find_given(const struct fm_state_file *file,
				     const struct fm_volume *volume)
{
	const char *key;
	struct fm_json *entry;

	for (void *it = NULL; fm_json_next(file->entries, &it, &key, &entry);)
		if (is_given_away(key) && is_of(entry, volume))
			return key;
	return NULL;
}

/* What the files have it under, if that is another name. It holds as long as the files. */
static const char *find_former_name(const struct files *files, const struct fm_volume *now)
{
	const char *name = NULL;

	if (is_own(files->at[0], now))
		return NULL;
	for (unsigned i = 0; i < FILES && !name; i++)
		name = find_other_name(files->at[i], now);
	return name;
}

/* ---- what an fmove-nvmed of before wrote ---- */

static const char *text_in(const struct fm_json *entry, const char *key)
{
	return fm_json_as_text(fm_json_get(entry, key));
}

static bool is_subsystem(const struct fm_json *entry, const struct fm_volume *volume)
{
	const char *its = text_in(entry, "subsystem");

	return !its || strcmp(its, volume->subsystem) == 0;
}

/* Whether another namespace was mounted by that name than the volume is configured as. */
static bool is_other_namespace(const struct fm_supervisor *sup, const char *name,
			       const struct fm_volume *volume)
{
	const char *wwid = text_in(fm_json_get(sup->mounted.entries, name), "wwid");

	return wwid && fm_volume_is_no_wwid(volume, wwid);
}

/* Whether something stands under its name of now that may be its own. */
static bool may_have_own(struct fm_supervisor *sup, const struct fm_volume *now)
{
	struct files files = files_of(sup);

	for (unsigned i = 0; i < FILES; i++)
		if (fm_json_get(files.at[i]->entries, now->name))
			return !is_other_namespace(sup, now->name, now);
	return false;
}

/*
 * The volume of the namespace that was mounted by that name, if that is configured, and nothing is
 * known by its name of now. NULL: there is none.
 */
static const struct fm_volume *find_mounted(struct fm_supervisor *sup,
					    const struct fm_supervisor_config *config,
					    const char *name)
{
	const struct fm_json *entry = fm_json_get(sup->mounted.entries, name);
	const char *subsystem = text_in(entry, "subsystem"), *wwid = text_in(entry, "wwid");

	for (unsigned i = 0; subsystem && wwid && i < config->count; i++) {
		const struct fm_volume *now = &config->volumes[i];
		struct fm_volume was = {.subsystem = subsystem, .mount_point = now->mount_point};

		if (fm_volume_is_named_by_now(now, &was, wwid) && !may_have_own(sup, now))
			return now;
	}
	return NULL;
}

/*
 * The volume that has the name now, unless that is known to have had another one, or another
 * namespace was mounted by the name. NULL: it is not that one.
 */
static const struct fm_volume *find_unchanged(struct fm_supervisor *sup,
					      const struct fm_supervisor_config *config,
					      const char *name, const struct fm_json *entry)
{
	const struct fm_volume *now = fm_supervisor_find_named(config, name);
	struct files files = files_of(sup);

	return now && is_subsystem(entry, now) && !find_former_name(&files, now) &&
			       !is_other_namespace(sup, name, now)
		       ? now
		       : NULL;
}

/*
 * Which volume the name meant: what another file says, else the configuration, else what was
 * mounted by that name.
 */
static bool find_identity(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
			  const char *name, const struct fm_json *entry, struct fm_volume *was,
			  const char **wwid)
{
	const struct fm_volume *now = find_unchanged(sup, config, name, entry);
	struct files files = files_of(sup);

	for (unsigned i = 0; i < FILES; i++)
		if (read_identity(fm_json_get(files.at[i]->entries, name), was, wwid) &&
		    is_subsystem(entry, was))
			return true;
	if (!now && fm_supervisor_find_left(sup, name, was, wwid) && is_subsystem(entry, was))
		return true;
	if (!now)
		now = find_mounted(sup, config, name);
	if (!now || !is_subsystem(entry, now))
		return false;
	*was = *now;
	*wwid = "";
	return true;
}

/* The entry, which is taken over, with the words for which volume it is. NULL: no memory. */
static struct fm_json *with_identity(struct fm_json *entry, const struct fm_volume *volume,
				     const char *wwid)
{
	struct fm_json *words =
		fm_json_pack("{s:s, s:I, s:s, s:s, s:s, s:s}", "subsystem", volume->subsystem,
			     "nsid", (long long)volume->nsid, "uuid", volume->uuid, "nguid",
			     volume->nguid, "mount_point", volume->mount_point, "wwid", wwid);

	if (entry && words && fm_json_set_all(entry, words) == 0)
		return entry;
	if (!entry)
		fm_json_free(words);
	fm_json_free(entry);
	return NULL;
}

/* NULL: it says so already, nobody knows, or there is no memory. */
static struct fm_json *complete_entry(struct fm_supervisor *sup,
				      const struct fm_supervisor_config *config, const char *name,
				      const struct fm_json *entry)
{
	bool is_word = fm_json_is(entry, FM_JSON_TEXT);
	struct fm_volume was;
	const char *wwid;

	if (is_known(entry) || (!is_word && !text_in(entry, "subsystem")) ||
	    !find_identity(sup, config, name, entry, &was, &wwid))
		return NULL;
	if (text_in(entry, "wwid"))
		wwid = text_in(entry, "wwid");
	return with_identity(is_word ? fm_json_pack("{s:O}", "want", entry) : fm_json_copy(entry),
			     &was, wwid);
}

/* The file is to be written again, as one whose last write failed. */
static void replace_all(struct fm_state_file *file, struct fm_json *all)
{
	if (!all || fm_json_is_equal(all, file->entries)) {
		fm_json_free(all);
		return;
	}
	fm_json_free(file->entries);
	file->entries = all;
	file->is_in_doubt = true;
}

static void complete_file(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
			  struct fm_state_file *file)
{
	struct fm_json *all = fm_json_object(), *entry;
	const char *name;
	int ret = 0;

	for (void *it = NULL; ret == 0 && fm_json_next(file->entries, &it, &name, &entry);) {
		struct fm_json *whole = complete_entry(sup, config, name, entry);

		ret = fm_json_set(all, name, whole ? whole : fm_json_share(entry));
	}
	if (ret < 0) {		/* the next start does it */
		fm_json_free(all);
		all = NULL;
	}
	replace_all(file, all);
}

/* ---- what is called something else now ---- */

/*
 * Whether the entry of a volume that has another name now is an old one: the volume was mounted by
 * both names since. Where one name alone was given anew, and taken back before all was written,
 * mounted.json has not the other one: it goes last.
 */
static bool is_old(struct fm_supervisor *sup, const struct fm_state_file *file, const char *name,
		   const struct fm_volume *now)
{
	return file == &sup->wishes && is_own(&sup->mounted, now) &&
	       is_of(fm_json_get(sup->mounted.entries, name), now);
}

/* The entry of a volume, wherever it stands. NULL: there is none. */
static const struct fm_json *find_entry(struct fm_supervisor *sup, const struct fm_state_file *file,
					const struct fm_volume *now)
{
	const char *name;
	struct fm_json *entry;

	if (is_own(file, now))
		return fm_json_get(file->entries, now->name);
	for (void *it = NULL; fm_json_next(file->entries, &it, &name, &entry);)
		if (is_of(entry, now) && !is_old(sup, file, name, now))
			return entry;
	return NULL;
}

/*
 * Whether another volume than that of the entry has got the name. Of which volume nobody knows may
 * be its own, and so may be what no identity tells apart from it, as with another mount point.
 */
static bool is_taken(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
		     const struct fm_json *all, const char *name, const struct fm_json *entry)
{
	const struct fm_volume *now = fm_supervisor_find_named(config, name);
	struct files files = files_of(sup);

	return fm_json_get(all, name) ||
	       (now && (is_of_other_namespace(entry, now) ||
			(is_known(entry) && find_former_name(&files, now))));
}

/* Of no volume that is configured, since that one may come back by whichever name. */
static int keep_one(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
		    const char *name, struct fm_json *entry, struct fm_json *all, unsigned *given)
{
	bool is_given = is_given_away(name);

	if (!is_given && !is_taken(sup, config, all, name, entry))
		return fm_json_set(all, name, fm_json_share(entry));
	if (*given == FM_VOLUMES_MAX)
		return 0;
	++*given;
	return is_given ? fm_json_set(all, name, fm_json_share(entry))
			: fm_supervisor_give_away(all, name, entry);
}

/*
 * Keeps what is of no volume that is configured. Of those whose names others have got, no more than
 * there can be volumes, and first those whose names are got now.
 */
static int keep_unconfigured(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
			     const struct fm_state_file *file, struct fm_json *all)
{
	unsigned given = 0;
	const char *name;
	struct fm_json *entry;
	int ret = 0;

	for (int of_before = 0; of_before <= 1; of_before++)
		for (void *it = NULL; ret == 0 && fm_json_next(file->entries, &it, &name, &entry);)
			if (is_given_away(name) == of_before &&
			    !is_configured(config, entry))	/* it has its own elsewhere */
				ret = keep_one(sup, config, name, entry, all, &given);
	return ret;
}

/*
 * Adds the entry of a volume: its own, or, as its own, the wish of one that is configured no more,
 * if that had the name: who was to be down stays so when the configuration says another target of
 * it. What was mounted, and the seal, are of a namespace.
 */
static int add_entry(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
		     const struct fm_state_file *file, const struct fm_volume *now,
		     struct fm_json *all)
{
	const struct fm_json *its = find_entry(sup, file, now);
	const struct fm_json *former = fm_json_get(file->entries, now->name);
	struct files files = files_of(sup);

	if (its)
		return fm_json_set(all, now->name, fm_json_share(its));
	if (file != &sup->wishes || !is_of_other_namespace(former, now) ||
	    is_configured(config, former) || find_former_name(&files, now))
		return 0;
	return fm_json_set(all, now->name, with_identity(fm_json_copy(former), now, ""));
}

/* The entries of the file, each under the name of now. NULL: no memory. */
static struct fm_json *sort_file(struct fm_supervisor *sup,
				 const struct fm_supervisor_config *config,
				 const struct fm_state_file *file)
{
	struct fm_json *all = fm_json_object();
	int ret = all ? 0 : -ENOMEM;

	for (unsigned i = 0; i < config->count && ret == 0; i++)
		ret = add_entry(sup, config, file, &config->volumes[i], all);
	if (ret == 0)
		ret = keep_unconfigured(sup, config, file, all);
	if (ret == 0)
		return all;
	fm_json_free(all);
	return NULL;
}

/*
 * Who is forgotten in it goes with the name. What stands there does not say of which volume it is:
 * where names move along, who is forgotten is waited for again. By a name that a reload gave away,
 * it is of the volume that has got it.
 */
static void take_forgotten(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
			   const struct fm_volume *now, const char *from)
{
	if (!is_given_away(from) && !fm_supervisor_find_named(config, from) &&
	    !is_configured(config, fm_json_get(sup->mounted.entries, now->name))) {
		fm_supervisor_take_forgotten(sup, from, now->name);
		return;
	}
	fm_supervisor_end_forgetting(sup, from);
	fm_supervisor_end_forgetting(sup, now->name);
}

/* Whether all that is written by its name is of another namespace; false: nothing is. */
static bool is_new_by_name(const struct files *files, const struct fm_volume *now)
{
	bool is_any = false;

	for (unsigned i = 0; i < FILES; i++) {
		const struct fm_json *entry = fm_json_get(files->at[i]->entries, now->name);

		if (entry && !is_of_other_namespace(entry, now))
			return false;
		is_any = is_any || entry;
	}
	return is_any;
}

static void take_names(struct fm_supervisor *sup, const struct fm_supervisor_config *config)
{
	struct files files = files_of(sup);
	struct fm_json *sorted[FILES];

	for (unsigned i = 0; i < config->count; i++) {
		const struct fm_volume *now = &config->volumes[i];
		const char *from = find_former_name(&files, now), *as = from;

		if (!from) {
			if (is_new_by_name(&files, now))
				fm_supervisor_end_forgetting(sup, now->name);
			continue;
		}
		if (is_given_away(from))
			as += strlen(GIVEN_AWAY);
		fm_log_info("volume %s: what is known of it as %.*s is of that name now", now->name,
			    (int)strcspn(as, "/"), as);
		take_forgotten(sup, config, now, from);
	}
	for (unsigned i = 0; i < FILES; i++)
		sorted[i] = sort_file(sup, config, files.at[i]);
	for (unsigned i = 0; i < FILES; i++)
		replace_all(files.at[i], sorted[i]);
}

void fm_supervisor_take_names(struct fm_supervisor *sup, const struct fm_supervisor_config *config)
{
	struct files files = files_of(sup);
	struct fm_err err = { 0 };

	for (unsigned i = 0; i < FILES; i++)
		complete_file(sup, config, files.at[i]);
	take_names(sup, config);
	for (unsigned i = FILES; i-- > 0;)	/* what was mounted goes last */
		if (fm_supervisor_settle_file(sup, files.at[i], &err) < 0)
			fm_log_warn("state: which volumes the names mean now is not written "
				    "down: %s",
				    err.text);
}
