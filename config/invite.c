/* SPDX-License-Identifier: MIT */
/* invite - see invite.h. */
#include "config/invite.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/base64.h"
#include "mover/base/boot.h"
#include "config/files.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

#define HASH_LEN 32
#define HASH_HEX (2 * HASH_LEN)
/* the file's name: enough of the hash to be unique */
#define ID_HEX 16
/* until then an old one is called too late, not wrong */
#define FORGET_S (24 * 60 * 60)

struct entry {
	char id[ID_HEX + 1];
	char hash[HASH_HEX + 1];
	int64_t ends;				/* as struct moment */
	char boot[FM_BOOT_ID_LEN + 1];
};

/* A time that nobody sets: another boot's says nothing about this one's. */
struct moment {
	int64_t s;				/* of CLOCK_BOOTTIME */
	char boot[FM_BOOT_ID_LEN + 1];
};

/* ---- the token ---- */

#define TOKEN_LEN (FM_INVITE_SECRET_LEN + FM_CONFIG_KEY_LEN)

_Static_assert(TOKEN_LEN % 3 == 0 && FM_BASE64_ROOM(TOKEN_LEN) == FM_INVITE_TEXT_MAX,
	       "a token's text needs no padding");

#define MINUS 62		/* what "-" stands for in FM_BASE64_URL */

void fm_invite_print(const struct fm_invite *invite, char text[static FM_INVITE_TEXT_MAX])
{
	uint8_t both[TOKEN_LEN];

	memcpy(both, invite->secret, FM_INVITE_SECRET_LEN);
	memcpy(both + FM_INVITE_SECRET_LEN, invite->key, FM_CONFIG_KEY_LEN);
	fm_base64_encode(FM_BASE64_URL, both, sizeof(both), text);
}

int fm_invite_parse(const char *text, struct fm_invite *invite)
{
	uint8_t both[TOKEN_LEN];

	if (fm_base64_decode(FM_BASE64_URL, text, both, sizeof(both)) < 0)
		return -EINVAL;
	memcpy(invite->secret, both, FM_INVITE_SECRET_LEN);
	memcpy(invite->key, both + FM_INVITE_SECRET_LEN, FM_CONFIG_KEY_LEN);
	return 0;
}

/* ---- the directory ---- */

static int hash_secret(const uint8_t secret[static FM_INVITE_SECRET_LEN],
		       char hex[static HASH_HEX + 1])
{
	uint8_t hash[HASH_LEN];
	unsigned len = sizeof(hash);

	if (EVP_Digest(secret, FM_INVITE_SECRET_LEN, hash, &len, EVP_sha256(), NULL) != 1)
		return -EIO;
	for (size_t i = 0; i < sizeof(hash); i++)
		snprintf(hex + 2 * i, 3, "%02x", hash[i]);
	return 0;
}

static int look_at_clock(struct moment *now, struct fm_err *err)
{
	int ret = fm_boot_id(now->boot);
	struct timespec up;

	if (ret < 0)
		return fm_err_sys(err, ret, "read the boot's ID");
	(void)clock_gettime(CLOCK_BOOTTIME, &up);	/* it exists */
	now->s = (int64_t)up.tv_sec;
	return 0;
}

/*
 * Reads an invitation, if it is one of ours and well formed. Anything else in the directory is left
 * alone.
 */
static int read_entry(int dir, const char *id, struct entry *e)
{
	char text[HASH_HEX + 32 + FM_BOOT_ID_LEN] = "";
	int fd = openat(dir, id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	ssize_t len;

	if (fd < 0)
		return -errno;
	e->boot[0] = '\0';	/* an earlier version named none */
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len < 0 || strlen(id) != ID_HEX ||
	    sscanf(text, "%64[0-9a-f] %" SCNd64 " %36[0-9a-f-]", e->hash, &e->ends, e->boot) < 2)
		return -EINVAL;
	if (strlen(e->hash) != HASH_HEX || strncmp(e->hash, id, ID_HEX) != 0)
		return -EINVAL;
	memcpy(e->id, id, sizeof(e->id));
	return 0;
}

struct walk {
	/* other than 0 ends the walk */
	int (*visit)(struct walk *w, int dir, const struct entry *e);
	struct moment now;
	char want[HASH_HEX + 1];
	unsigned open_count;
	int64_t left;			/* seconds */
};

static int walk_entries(const char *dir, struct walk *w, struct fm_err *err)
{
	char path[PATH_MAX];
	struct dirent *de;
	int ret = 0;
	DIR *d;

	ret = fm_path_join(dir, FM_CONFIG_INVITES_DIR, path, err);
	if (ret == 0)
		ret = look_at_clock(&w->now, err);
	if (ret < 0)
		return ret;
	d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : fm_err_sys(err, -errno, "open %s", path);
	while (ret == 0 && (de = readdir(d))) {
		struct entry e;

		if (read_entry(dirfd(d), de->d_name, &e) == 0)
			ret = w->visit(w, dirfd(d), &e);
	}
	closedir(d);
	return ret;
}

/* The seconds that an invitation is still valid. 0 or less: it has expired. */
static int64_t time_left(const struct walk *w, const struct entry *e)
{
	bool is_of_now = strcmp(e->boot, w->now.boot) == 0 && e->ends >= 0 &&
			 e->ends - w->now.s <= FM_INVITE_VALID_S;	/* that is what it had */

	return is_of_now ? e->ends - w->now.s : INT64_MIN;
}

/* Removes the invitations that expired long ago, and counts those that are valid. */
static int count_open(struct walk *w, int dir, const struct entry *e)
{
	int64_t left = time_left(w, e);

	if (left > 0)
		w->open_count++;
	else if (left < -FORGET_S)
		(void)unlinkat(dir, e->id, 0);	/* it opens nothing; the next walk tries again */
	return 0;
}

static int entry_path(const char *dir, const char *hash, char path[static PATH_MAX],
		      struct fm_err *err)
{
	char name[sizeof(FM_CONFIG_INVITES_DIR) + 1 + ID_HEX];

	snprintf(name, sizeof(name), FM_CONFIG_INVITES_DIR "/%.*s", ID_HEX, hash);
	return fm_path_join(dir, name, path, err);
}

/*
 * Makes a token that does not begin with "-", because join would take it for an option. The first
 * character comes from the first six bits.
 */
static void make_secret(uint8_t secret[static FM_INVITE_SECRET_LEN])
{
	do
		fm_random_real.fill(fm_random_real.ctx, secret, FM_INVITE_SECRET_LEN);
	while (secret[0] >> 2 == MINUS);
}

int fm_invite_new(const char *dir, struct fm_invite *invite, struct fm_err *err)
{
	char path[PATH_MAX], hex[HASH_HEX + 1], text[HASH_HEX + 32 + FM_BOOT_ID_LEN];
	struct fm_file_write how = { .path = path, .mode = 0600 };
	struct walk w = { .visit = count_open };
	int ret;

	ret = fm_path_join(dir, FM_CONFIG_INVITES_DIR, path, err);
	if (ret == 0)
		ret = fm_dir_make(path, 0700, err);
	if (ret == 0)
		ret = walk_entries(dir, &w, err);
	if (ret < 0)
		return ret;
	if (w.open_count >= FM_INVITES_MAX)
		return fm_err_set(
			err, -ENOSPC,
			"%u invitations are open already; each ends by itself after %d minutes",
			w.open_count, FM_INVITE_VALID_S / 60);
	make_secret(invite->secret);
	if (hash_secret(invite->secret, hex) < 0)
		return fm_err_set(err, -EIO, "SHA-256: OpenSSL refuses");
	ret = entry_path(dir, hex, path, err);
	if (ret < 0)
		return ret;
	snprintf(text, sizeof(text), "%s %" PRId64 " %s\n", hex, w.now.s + FM_INVITE_VALID_S,
		 w.now.boot);
	return fm_file_write(&how, text, err);
}

static int find_longest(struct walk *w, int dir, const struct entry *e)
{
	int64_t left = time_left(w, e);

	(void)dir;
	if (left > w->left)
		w->left = left;
	return 0;
}

int fm_invite_left(const char *dir, struct fm_err *err)
{
	struct walk w = { .visit = find_longest };
	int ret = walk_entries(dir, &w, err);

	return ret < 0 ? ret : (int)w.left;	/* at most FM_INVITE_VALID_S */
}

enum found { FOUND_NONE, FOUND_OPEN, FOUND_LATE };

static int find_wanted(struct walk *w, int dir, const struct entry *e)
{
	(void)dir;
	if (CRYPTO_memcmp(e->hash, w->want, HASH_HEX) != 0)
		return FOUND_NONE;
	return time_left(w, e) > 0 ? FOUND_OPEN : FOUND_LATE;
}

static int check(const char *dir, struct walk *w, const uint8_t secret[static FM_INVITE_SECRET_LEN],
		 struct fm_err *err)
{
	int ret;

	w->visit = find_wanted;
	if (hash_secret(secret, w->want) < 0)
		return fm_err_set(err, -EIO, "SHA-256: OpenSSL refuses");
	ret = walk_entries(dir, w, err);
	if (ret < 0 || ret == FOUND_OPEN)
		return ret < 0 ? ret : 0;
	if (ret == FOUND_LATE)
		return fm_err_set(err, -ETIME,
				  "the token is too old: it was good for %d minutes; \"fmove "
				  "invite\" makes a new one",
				  FM_INVITE_VALID_S / 60);
	return fm_err_set(
		err, -ENOENT,
		"the token is wrong, or was used already; \"fmove invite\" makes a new one");
}

int fm_invite_check(const char *dir, const uint8_t secret[static FM_INVITE_SECRET_LEN],
		    struct fm_err *err)
{
	struct walk w = { 0 };

	return check(dir, &w, secret, err);
}

/* Syncs the directory, so that a used token stays used if the power fails. */
static int sync_dir(const char *path, struct fm_err *err)
{
	char dir[PATH_MAX];
	int fd, ret;

	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ret = fd < 0 || FM_FAULT("invite.sync") || fsync(fd) < 0 ? -EIO : 0;
	if (fd >= 0)
		(void)close(fd);	/* only synced */
	return ret < 0 ? fm_err_sys(err, ret, "sync %s", dir) : 0;
}

int fm_invite_use(const char *dir, const uint8_t secret[static FM_INVITE_SECRET_LEN],
		  struct fm_err *err)
{
	struct walk w = { 0 };
	char path[PATH_MAX];
	int ret = check(dir, &w, secret, err);

	if (ret < 0)
		return ret;
	ret = entry_path(dir, w.want, path, err);
	if (ret < 0)
		return ret;
	if (unlink(path) == 0)
		return sync_dir(path, err);
	/* Not removed is not used up: it must not open anything then. */
	if (errno != ENOENT)
		return fm_err_sys(err, -errno, "remove %s", path);
	return fm_err_set(err, -ENOENT,
			  "the token was used already; \"fmove invite\" makes a new one");
}
