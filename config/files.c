/* SPDX-License-Identifier: MIT */
/* files - see files.h. */
#include "config/files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

int fm_path_join(const char *dir, const char *name, char out[static PATH_MAX], struct fm_err *err)
{
	size_t len = strlen(dir), name_len = strlen(name);

	if (len + 1 + name_len >= PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", dir);
	memmove(out, dir, len);
	out[len] = '/';
	memcpy(out + len + 1, name, name_len + 1);
	return 0;
}

static int write_all(int fd, const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t n = FM_FAULT("config.write") ? (errno = ENOSPC, -1) : write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Gives a file that root writes to the owner of the directory it is in: the service's user. */
static int give_to_owner(int fd, int dir)
{
	struct stat st;

	if (geteuid() != 0)
		return 0;
	if (fstat(dir, &st) < 0 || fchown(fd, st.st_uid, st.st_gid) < 0)
		return -errno;
	return 0;
}

static int write_temporary(int dir, const char *name, const struct fm_file_write *how,
			   const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write_all(fd, text);
	if (ret == 0)
		ret = give_to_owner(fd, dir);
	if (ret == 0 && (fchmod(fd, how->mode) < 0 || (!how->is_volatile && fsync(fd) < 0)))
		ret = -errno;
	if (close(fd) < 0 && ret == 0)
		ret = -errno;
	return ret;
}

/*
 * Gives the file its name. Some file systems (NFS, 9p) cannot rename to a name only if it is free;
 * a link never replaces anything.
 */
static int give_name(int dir, const char *temporary, const char *name, bool may_replace)
{
	int ret;

	if (may_replace)
		return renameat(dir, temporary, dir, name) < 0 ? -errno : 0;
	ret = FM_FAULT("config.noreplace")
		      ? (errno = EINVAL, -1)
		      : renameat2(dir, temporary, dir, name, RENAME_NOREPLACE);
	if (ret < 0 && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
		ret = linkat(dir, temporary, dir, name, 0);
		if (ret == 0)
			(void)unlinkat(dir, temporary, 0);	/* a name too many is no harm */
	}
	return ret < 0 ? -errno : 0;
}

static int write_in(int dir, const char *name, const struct fm_file_write *how, const char *text)
{
	char temporary[NAME_MAX + 1];
	int ret;

	if (snprintf(temporary, sizeof(temporary), ".%s.%ld", name, (long)getpid()) >=
	    (int)sizeof(temporary))
		return -ENAMETOOLONG;
	ret = write_temporary(dir, temporary, how, text);
	if (ret == 0)
		ret = give_name(dir, temporary, name, how->may_replace);
	if (ret == 0 && !how->is_volatile && fsync(dir) < 0) {
		ret = -errno;
		if (!how->may_replace)
			(void)unlinkat(dir, name, 0);	/* whoever is told of the error has none */
		return ret;
	}
	if (ret < 0)
		(void)unlinkat(dir, temporary, 0);	/* the first error is the one to tell */
	return ret;
}

int fm_file_write(const struct fm_file_write *how, const char *text, struct fm_err *err)
{
	const char *slash = strrchr(how->path, '/');
	char parent[PATH_MAX] = ".";
	int dir, ret;

	assert(text);
	if (slash && (size_t)(slash - how->path) < sizeof(parent))
		snprintf(parent, sizeof(parent), "%.*s",
			 slash == how->path ? 1 : (int)(slash - how->path), how->path);
	dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT
			       ? fm_err_set(err, -ENOENT, "there is no directory %s: make it first",
					    parent)
			       : fm_err_sys(err, -errno, "open %s", parent);
	ret = write_in(dir, slash ? slash + 1 : how->path, how, text);
	close(dir);
	if (ret == -EEXIST)
		return fm_err_set(err, ret, "%s is there already", how->path);
	return ret < 0 ? fm_err_sys(err, ret, "write %s", how->path) : 0;
}

/* Makes the directories above the path. The last part is the caller's to make. */
static int make_parents(const char *path)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path + 1, '/'); slash && slash[1];
	     slash = strchr(slash + 1, '/')) {
		if ((size_t)(slash - path) >= sizeof(part))
			return -ENAMETOOLONG;
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

int fm_dir_make(const char *path, mode_t mode, struct fm_err *err)
{
	struct stat st;
	int ret = make_parents(path);

	if (ret < 0)
		return fm_err_sys(err, ret, "make %s", path);
	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return fm_err_sys(err, -errno, "make %s", path);
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return fm_err_set(err, -ENOTDIR, "%s is there and no directory", path);
	return 0;
}

#define PEER_FILE_MAX (FM_VALUE_NAME_MAX + sizeof(".conf"))

static void peer_file_name(const char *name, char file[static PEER_FILE_MAX])
{
	assert(fm_value_is_name(name));
	snprintf(file, PEER_FILE_MAX, "%s.conf", name);
}

static int peer_path(const char *dir, const char *name, char path[static PATH_MAX],
		     struct fm_err *err)
{
	char file[PEER_FILE_MAX], below[sizeof(FM_CONFIG_PEERS_DIR "/") + PEER_FILE_MAX];

	peer_file_name(name, file);
	snprintf(below, sizeof(below), FM_CONFIG_PEERS_DIR "/%s", file);
	return fm_path_join(dir, below, path, err);
}

#define ADDRESSES_TEXT_MAX (32 + FM_CONFIG_PEER_ADDRESSES_MAX * (FM_PEER_FILE_FURTHER_MAX + 4))
#define PEER_TEXT_MAX (660 + ADDRESSES_TEXT_MAX)

/* Prints "addresses = [ ... ];" and a line end; nothing if there are none. */
static void print_addresses(const struct fm_peer_file *peer, char *out, size_t max)
{
	size_t len = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < peer->address_count; i++) {
		if (strcmp(peer->addresses[i], peer->address) == 0)
			continue;
		len += (size_t)snprintf(out + len, max - len, "%s\"%.*s\"",
					len ? ", " : "addresses = [ ", FM_PEER_FILE_FURTHER_MAX,
					peer->addresses[i]);
	}
	if (len)
		(void)snprintf(out + len, max - len, " ];\n");
}

static void print_peer(const struct fm_peer_file *peer, char text[static PEER_TEXT_MAX])
{
	char key[FM_VALUE_KEY_TEXT_MAX], addresses[ADDRESSES_TEXT_MAX];

	fm_value_key_print(peer->key, key);
	print_addresses(peer, addresses, sizeof(addresses));
	snprintf(text, PEER_TEXT_MAX,
		 "# Remove this file and reload fmoved to revoke this peer.\n"
		 "name = \"%s\";\naddress = \"%s\";\n%skey = \"%s\";\n%s",
		 peer->name, peer->address, addresses, key,
		 peer->may_bench ? "bench = true;\n" : "");
}

int fm_peer_file_try(const char *config_file, const struct fm_peer_file *peer, struct fm_err *err)
{
	char file[PEER_FILE_MAX], text[PEER_TEXT_MAX];

	peer_file_name(peer->name, file);
	print_peer(peer, text);
	return fm_config_try_peer(config_file, &(struct fm_config_peer_text){file, text}, err);
}

int fm_peer_file_write(const char *dir, const struct fm_peer_file *peer, struct fm_err *err)
{
	char path[PATH_MAX], peers[PATH_MAX], text[PEER_TEXT_MAX];
	struct fm_file_write how = { .path = path, .mode = 0644, .may_replace = peer->may_replace };
	int ret = peer_path(dir, peer->name, path, err);

	if (ret == 0)
		ret = fm_path_join(dir, FM_CONFIG_PEERS_DIR, peers, err);
	if (ret == 0)
		ret = fm_dir_make(peers, 0755, err);
	if (ret < 0)
		return ret;
	print_peer(peer, text);
	return fm_file_write(&how, text, err);
}

void fm_peer_file_remove(const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (peer_path(dir, name, path, NULL) == 0)
		(void)unlink(path);	/* not there is as good */
}
