/* SPDX-License-Identifier: MIT */
/*
 * collect_config - what the configuration says, and what is in force of it: stores, secrets,
 * identity. See collect_priv.h.
 */
#include "mover/facts/collect_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mover/facts/given_up.h"
#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/mountinfo.h"

#define MODE_BITS 07777u
#define FILES_TRIED 4096u /* entries of a directory */

/* The disk that a device number belongs to: of a partition the one that it is a part of. */
static void disk_of(struct fm_collect *c, struct fm_fact *disk, dev_t dev)
{
	char path[PATH_MAX], real[PATH_MAX], part[PATH_MAX];
	struct stat st;

	if (fm_collect_path(c, path, "/sys/dev/block/%u:%u", major(dev), minor(dev)) < 0 ||
	    !realpath(path, real)) {
		fm_fact_unknown(disk, "its file system is on no single block device");
		return;
	}
	if (snprintf(part, sizeof(part), "%s/partition", real) < (int)sizeof(part) &&
	    stat(part, &st) == 0)
		*strrchr(real, '/') = '\0';
	fm_fact_text(disk, FM_FACT_NAME, strrchr(real, '/') + 1);
}

/* Of the mounts with that device. */
static void type_of(struct fm_collect *c, struct fm_fact *type, dev_t dev)
{
	struct fm_mountinfo_more more;
	struct fm_mountinfo mount;
	const char *at, *end;
	char *text, word[64];
	int ret = fm_collect_file(c, &text, FM_MOUNTINFO);

	if (ret < 0) {
		fm_collect_failed(type, ret, FM_MOUNTINFO);
		return;
	}
	fm_fact_unknown(type, "its device is in no line of " FM_MOUNTINFO);
	end = text + strlen(text);
	for (at = text; fm_mountinfo_next(&at, end, &mount);)
		if (mount.device == dev && fm_mountinfo_more(&mount, &more) &&
		    fm_mountinfo_string(more.type, word, sizeof(word)))
			fm_fact_text(type, FM_FACT_TEXT, word);
	free(text);
}

/* What its file system says of a directory. */
struct looked {
	struct stat st;
	struct statvfs fs;
	int direct; /* 1: its files can be read past the page cache; 0, or -errno: not known */
};

/* Of the first file that is there and may be read: nothing is made to find it out. */
static int has_direct(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	int fd = -1, ret = dir ? -ENOENT : -errno;

	for (unsigned i = 0; dir && fd < 0 && i < FILES_TRIED && (e = readdir(dir)); i++) {
		if (e->d_type != DT_REG)
			continue;
		fd = openat(dirfd(dir), e->d_name,
			    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
		ret = fd < 0 ? -errno : 0;
	}
	if (fd >= 0 && fcntl(fd, F_SETFL, O_DIRECT) == 0)
		ret = 1;
	else if (fd >= 0 && errno != EINVAL)
		ret = -errno;
	if (fd >= 0)
		(void)close(fd); /* it was read only */
	if (dir)
		(void)closedir(dir);
	return ret;
}

/* In another process: the server of a file system may be dead. */
static int look(void *ctx, char *out, size_t cap)
{
	struct looked l;

	if (cap < sizeof(l))
		return -EMSGSIZE;
	if (stat(ctx, &l.st) < 0 || statvfs(ctx, &l.fs) < 0)
		return -errno;
	l.direct = has_direct(ctx);
	memcpy(out, &l, sizeof(l));
	return (int)sizeof(l);
}

static void store_unasked(struct fm_facts_store *s)
{
	struct fm_fact *const facts[] = { &s->mode, &s->type, &s->disk, &s->size_bytes,
					  &s->free_bytes, &s->direct, &s->read_only };

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		fm_fact_unknown(facts[i], "a daemon does not ask a file system for peers; fmove df "
					  "does, and fmove doctor at that node");
}

static void store(struct fm_collect *c, const struct fm_config_store *from)
{
	struct fm_facts_store *s;
	struct looked l;
	char path[PATH_MAX];
	int ret;

	if (from->directory[0] != '/')
		return; /* "null:" */
	s = fm_facts_add(c->facts, c->facts->stores, &c->facts->stores_count);
	if (!s)
		return;
	fm_fact_text(&s->name, FM_FACT_TEXT, from->name);
	fm_fact_number(&s->writers, from->write && from->write[0]);
	if (c->options->is_within_daemon) {
		fm_fact_unknown(&s->directory, FM_COLLECT_NOT_FOR_PEERS);
		store_unasked(s);
		return;
	}
	fm_fact_text(&s->directory, FM_FACT_TEXT, from->directory);
	ret = fm_collect_path(c, path, "%s", from->directory);
	if (ret == 0)
		ret = fm_ask_or_give_up(look, path, (char *)&l, sizeof(l));
	if (ret < 0) {
		fm_collect_failed(&s->mode, ret, from->directory);
		fm_collect_failed(&s->size_bytes, ret, from->directory);
		fm_collect_failed(&s->free_bytes, ret, from->directory);
		fm_collect_failed(&s->direct, ret, from->directory);
		fm_collect_failed(&s->read_only, ret, from->directory);
		return;
	}
	fm_fact_number(&s->mode, l.st.st_mode & MODE_BITS);
	fm_fact_number(&s->size_bytes, (uint64_t)l.fs.f_blocks * l.fs.f_frsize);
	fm_fact_number(&s->free_bytes, (uint64_t)l.fs.f_bavail * l.fs.f_frsize);
	fm_fact_number(&s->read_only, (l.fs.f_flag & ST_RDONLY) != 0);
	if (l.direct < 0)
		fm_fact_unknown(&s->direct, "%s: no file there that could be tried: %s",
				from->directory, fm_err_name(l.direct));
	else
		fm_fact_number(&s->direct, (uint64_t)l.direct);
	type_of(c, &s->type, l.st.st_dev);
	disk_of(c, &s->disk, l.st.st_dev);
}

/* The path of the configuration has the root in it already, and what is relative to it, too. */
static void file(struct fm_collect *c, const char *role, const char *path)
{
	size_t root = strlen(c->root);
	const char *below = strncmp(path, c->root, root) == 0 ? path + root : path;
	struct fm_facts_file *f;
	char real[PATH_MAX];
	struct stat st;
	int ret;

	if (!*path || !(f = fm_facts_add(c->facts, c->facts->files, &c->facts->files_count)))
		return;
	fm_fact_text(&f->role, FM_FACT_TEXT, role);
	fm_fact_text(&f->path, FM_FACT_TEXT, below);
	ret = fm_collect_path(c, real, "%s", below);
	if (ret == 0 && stat(real, &st) < 0)
		ret = -errno;
	if (ret < 0)
		fm_collect_failed(&f->mode, ret, below);
	else
		fm_fact_number(&f->mode, st.st_mode & MODE_BITS);
}

static void identity(struct fm_collect *c, struct fm_fact *fact, const char *said, const char *path)
{
	size_t root = strlen(c->root);

	if (*said)
		fm_fact_text(fact, FM_FACT_TEXT, said);
	else
		fm_collect_text(c, fact, FM_FACT_TEXT, "%s",
				strncmp(path, c->root, root) == 0 ? path + root : path);
}

/*
 * Who knows the name of a host can be that host to a target that asks for nothing else; and a
 * stat() of a file may never return.
 */
static void for_peers(struct fm_facts *f)
{
	fm_fact_unknown(&f->daemon.host_nqn, FM_COLLECT_NOT_FOR_PEERS);
	fm_fact_unknown(&f->daemon.host_id, FM_COLLECT_NOT_FOR_PEERS);
	fm_fact_unknown(&f->files_read, FM_COLLECT_NOT_FOR_PEERS);
}

static void all_of(struct fm_collect *c, const struct fm_config *cfg)
{
	struct fm_facts_daemon *d = &c->facts->daemon;

	fm_fact_text(&d->listen, FM_FACT_TEXT, cfg->node.listen);
	fm_fact_number(&d->total_bytes, cfg->memory.total_bytes);
	fm_fact_number(&d->arena_bytes, cfg->memory.arena_bytes);
	fm_fact_number(&d->volumes, cfg->volume_count);
	for (unsigned i = 0; i < cfg->store_count; i++)
		store(c, &cfg->stores[i]);
	if (c->options->is_within_daemon) {
		for_peers(c->facts);
		return;
	}
	identity(c, &d->host_nqn, cfg->nvme.host_nqn, cfg->nvme.host_nqn_file);
	identity(c, &d->host_id, cfg->nvme.host_id, cfg->nvme.host_id_file);
	file(c, "key", cfg->node.key_file);
	for (unsigned i = 0; i < cfg->volume_count; i++) {
		file(c, "secret", cfg->volumes[i].secret_file);
		file(c, "secret", cfg->volumes[i].controller_secret_file);
	}
}

/* A section of which nothing was read: one reason for all. */
static void all_unknown(struct fm_collect *c, const char *reason)
{
	struct fm_facts_daemon *d = &c->facts->daemon;
	struct fm_fact *const facts[] = {
		&d->listen,   &d->total_bytes, &d->arena_bytes,	       &d->volumes,
		&d->host_nqn, &d->host_id,     &c->facts->stores_read, &c->facts->files_read
	};

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		fm_fact_unknown(facts[i], "%s", reason);
}

void fm_collect_config(struct fm_collect *c)
{
	const char *name = c->options->config ? c->options->config : FM_COLLECT_CONFIG;
	struct fm_config *cfg;
	struct fm_err err = { 0 };
	char path[PATH_MAX];

	fm_fact_text(&c->facts->daemon.config, FM_FACT_TEXT, name);
	if (fm_collect_path(c, path, "%s", name) < 0 ||
	    fm_config_load_alone(path, &cfg, &err) < 0) {
		all_unknown(c, err.text);
		return;
	}
	fm_fact_number(&c->facts->stores_read, 1);
	fm_fact_number(&c->facts->files_read, 1);
	all_of(c, cfg);
	fm_config_free(cfg);
}
