/* SPDX-License-Identifier: MIT */
/* cache_afar - see cache_afar.h. */
#include "staging/cache_afar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

#define NAME_LEN 16

static void name_of(uint64_t number, char name[static NAME_LEN + 1])
{
	(void)snprintf(name, NAME_LEN + 1, "%016" PRIx64, number);
}

uint64_t fm_cache_afar_number(void)
{
	return fm_cache_random();
}

/* Nothing is synced: a machine that lost its power has no such process any more. */
static int write_record(struct fm_cache *c, const struct fm_cache_afar_record *record)
{
	uint8_t bytes[FM_CACHE_AFAR_MAX];
	char name[NAME_LEN + 1];

	name_of(record->number, name);
	return fm_cache_file_write(c->dirs[FM_CACHE_AFAR], name, bytes,
				   fm_cache_put_afar(record, bytes, sizeof(bytes)),
				   FM_CACHE_SYNC_NONE);
}

int fm_cache_afar_save(struct fm_cache *c, const struct fm_cache_afar_record *record,
		       struct fm_err *err)
{
	int ret = write_record(c, record);

	if ((ret == -ENOENT && fm_cache_renew(c, err) == 0) || fm_cache_has_made_room(c, ret))
		ret = write_record(c, record);
	return ret < 0 ? fm_err_making(err, ret, c->root,
				       "cache %.200s: write down the hold on other nodes",
				       c->directory)
		       : 0;
}

void fm_cache_afar_drop(struct fm_cache *c, uint64_t number)
{
	char name[NAME_LEN + 1];

	name_of(number, name);
	/* One that stays is found to be over when a daemon starts. */
	(void)fm_cache_sys_unlink(c->dirs[FM_CACHE_AFAR], name, 0);
}

/* ---- a daemon's start ---- */

struct loading {
	struct fm_cache *c;
	void (*take)(void *ctx, const struct fm_cache_afar_record *record, int pidfd);
	void *ctx;
};

static int read_record(struct fm_cache *c, const char *name, struct fm_cache_afar_record *record)
{
	char own[NAME_LEN + 1];
	uint8_t *bytes;
	size_t len;
	int ret = fm_cache_file_read(c->dirs[FM_CACHE_AFAR], name, FM_CACHE_AFAR_MAX, &bytes, &len);

	if (ret < 0)
		return ret;
	ret = fm_cache_get_afar(bytes, len, record);
	fm_budget_free(bytes);
	if (ret < 0)
		return ret;
	name_of(record->number, own);
	return strcmp(own, name) == 0 ? 0 : -EBADMSG;
}

/* A process that is not shown to us holds nothing now. Its file stays for a later start. */
static int load_one(void *ctx, const char *name)
{
	struct loading *l = ctx;
	struct fm_cache_afar_record record;
	int pidfd = -1, ret = read_record(l->c, name, &record);

	if (ret == 0)
		ret = fm_hold_find_again(&record.process, &pidfd);
	if (ret == 0 || ret == -ESRCH)
		l->take(l->ctx, &record, ret == 0 ? pidfd : -1);
	if (ret == -EACCES)
		fm_log_warn("cache %s: the holder of afar/%s is not shown to this service: it does "
			    "not hold on other nodes any more",
			    l->c->directory, name);
	if (fm_cache_is_unreadable(ret)) {
		fm_log_warn("cache %s: the disk cannot read afar/%s (%s): nothing is held on other "
			    "nodes by it, and it stays for a later start",
			    l->c->directory, name, fm_err_name(ret));
		return 0;
	}
	if (ret == -EBADMSG)
		fm_log_warn("cache %s: a file in afar is damaged or no hold: it is removed",
			    l->c->directory);
	if (ret == -EBADMSG)
		ret = fm_cache_sys_unlink(l->c->dirs[FM_CACHE_AFAR], name, 0);
	return ret == -EACCES || ret == -ESRCH || ret == -EISDIR || ret == -ENOENT ? 0 : ret;
}

int fm_cache_afar_load(struct fm_cache *c,
		       void (*take)(void *ctx, const struct fm_cache_afar_record *record,
				    int pidfd),
		       void *ctx, struct fm_err *err)
{
	struct loading l = {.c = c, .take = take, .ctx = ctx};
	int ret = fm_cache_names(c->dirs[FM_CACHE_AFAR], load_one, &l);

	return ret < 0 ? fm_err_sys(err, ret, "cache %.200s: read what is held on other nodes",
				    c->directory)
		       : 0;
}
