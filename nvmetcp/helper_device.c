/* SPDX-License-Identifier: MIT */
/* The calls of a helper process that look at a block device, and what they share with mounting. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/base64.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "nvmetcp/helper_calls.h"
#include "nvmetcp/inventory.h"
#include "nvmetcp/superblock.h"

#define LOGPRINT_BYTES_MAX (4u << 20)	/* of xfs_logprint's output; the state stands at its top */

/* Whether an open device is the one that was meant. */
static int check_device(int fd, const char *path, const struct fm_json *rdev, const char *wwid,
			struct fm_err *err)
{
	struct fm_inv_namespace ns;
	struct stat st;
	int want_major, want_minor, ret;

	if (fstat(fd, &st) < 0)
		return fm_err_sys(err, -errno, "look at %s", path);
	if (!S_ISBLK(st.st_mode))
		return fm_err_set(err, -ENOTBLK, "%s is no block device", path);
	if (rdev) {
		ret = fm_helper_unpack(rdev, err, "[i, i]", &want_major, &want_minor);
		if (ret < 0)
			return ret;
		if (makedev((unsigned)want_major, (unsigned)want_minor) != st.st_rdev)
			return fm_err_set(
				err, -ESTALE, "%s is device %u:%u now, not %d:%d: left alone", path,
				major(st.st_rdev), minor(st.st_rdev), want_major, want_minor);
	}
	if (!wwid)
		return 0;
	ret = fm_inventory_identify("", st.st_rdev, &ns, err);
	if (ret == 0 && strcmp(ns.wwid, wwid) != 0)
		ret = fm_err_set(err, -ESTALE, "%s is %s now, not %s: left alone", path,
				 ns.wwid[0] ? ns.wwid : "without a name", wwid);
	return ret;
}

int fm_helper_open_device(const char *path, const struct fm_json *rdev, const char *wwid, int flags,
			  struct fm_err *err)
{
	int ret, fd = FM_FAULT("helper.open") ? (errno = EPERM, -1)
					      : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY |
								   O_NONBLOCK | flags);

	/* systemd looks up what a unit may open when that starts (DeviceAllow=). */
	if (fd < 0 && errno == EPERM)
		return fm_err_sys(err, -errno,
				  "open %s (if the kernel has devices of its kind since "
				  "fmove-nvmed started: systemctl restart fmove-nvmed)",
				  path);
	if (fd < 0)
		return fm_err_sys(err, -errno, "open %s", path);
	ret = check_device(fd, path, rdev, wwid, err);
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}

int fm_helper_check_unused(const char *path, const struct fm_json *rdev, struct fm_err *err)
{
	int fd = fm_helper_open_device(path, rdev, NULL, O_EXCL, err);

	if (fd >= 0)
		close(fd);
	else if (fd == -EBUSY)
		return fm_err_set(
			err, -EBUSY,
			"%s is still in use, or being written out; --force does not wait for that",
			path);
	else if (fd != -ENOENT && fd != -ENXIO && fd != -ENODEV && fd != -ESTALE)
		return fd;
	return 0;
}

int fm_helper_device_name(int fd, char out[static 64], struct fm_err *err)
{
	char link[64], target[PATH_MAX];
	struct stat st, named;
	const char *name;
	ssize_t len;

	if (fstat(fd, &st) < 0)
		return fm_err_sys(err, -errno, "look at the device");
	(void)snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(st.st_rdev),
		       minor(st.st_rdev));
	len = readlink(link, target, sizeof(target) - 1);
	if (len < 0)
		return fm_err_sys(err, -errno, "look for %s", link);
	target[len] = '\0';
	name = strrchr(target, '/');
	if ((size_t)snprintf(out, 64, "/dev/%s", name ? name + 1 : target) >= 64 ||
	    stat(out, &named) < 0 || !S_ISBLK(named.st_mode) || named.st_rdev != st.st_rdev)
		return fm_err_set(err, -ESTALE, "/dev/%s is not device %u:%u: is udev behind?",
				  name ? name + 1 : target, major(st.st_rdev), minor(st.st_rdev));
	return 0;
}

/* ---------------------------------------------------------------------------------------- probe */

int fm_helper_put_start(int fd, struct fm_json *answer, struct fm_err *err)
{
	char text[FM_BASE64_ROOM(FM_SUPERBLOCK_BYTES)];
	void *bytes = aligned_alloc(FM_SUPERBLOCK_BYTES, FM_SUPERBLOCK_BYTES);
	ssize_t got;

	if (!bytes)
		return fm_err_set(err, -ENOMEM, "no memory to read the device");
	got = pread(fd, bytes, FM_SUPERBLOCK_BYTES, 0);
	if (got == FM_SUPERBLOCK_BYTES)
		fm_base64_encode(FM_BASE64, bytes, FM_SUPERBLOCK_BYTES, text);
	free(bytes);
	if (got < 0)
		return fm_err_sys(err, -errno, "read the device");
	if (got != FM_SUPERBLOCK_BYTES)
		return fm_err_set(err, -EIO, "the device has only %zd bytes", got);
	return fm_helper_put(answer, "superblock", fm_json_of_text(text), err);
}

static int put_identity(dev_t dev, struct fm_json *answer, struct fm_err *err)
{
	struct fm_inv_namespace ns;
	int ret = fm_inventory_identify("", dev, &ns, err);

	/* No NVMe: what is asked for by hand may be any device. */
	if (ret < 0)
		return ret == -ENODEV ? 0 : ret;
	ret = fm_helper_put(answer, "wwid", fm_json_of_text(ns.wwid), err);
	if (ret == 0)
		ret = fm_helper_put(answer, "uuid", fm_json_of_text(ns.uuid), err);
	if (ret == 0)
		ret = fm_helper_put(answer, "nguid", fm_json_of_text(ns.nguid), err);
	return ret == 0 ? fm_helper_put(answer, "nsid", fm_json_of_i64(ns.nsid), err) : ret;
}

static int put_device(int fd, struct fm_json *answer, struct fm_err *err)
{
	struct stat st;
	uint64_t size;
	int is_ro, ret;

	if (fstat(fd, &st) < 0 || ioctl(fd, BLKGETSIZE64, &size) < 0 ||
	    ioctl(fd, BLKROGET, &is_ro) < 0)
		return fm_err_sys(err, -errno, "look at the device");
	ret = fm_helper_put(answer, "rdev", fm_helper_rdev(st.st_rdev), err);
	if (ret == 0)
		ret = fm_helper_put(answer, "size", fm_json_of_i64((int64_t)size), err);
	if (ret == 0)
		ret = fm_helper_put(answer, "read_only", fm_json_of_bool(is_ro), err);
	return ret == 0 ? put_identity(st.st_rdev, answer, err) : ret;
}

int fm_helper_probe(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	const char *path, *wwid = NULL;
	const struct fm_json *rdev = NULL;
	int fd, ret = fm_helper_unpack(request, err, "{s:s, s?o, s?s}", "device", &path, "rdev",
				       &rdev, "wwid", &wwid);

	if (ret < 0)
		return ret;
	fd = fm_helper_open_device(path, rdev, wwid, O_DIRECT, err);
	if (fd < 0)
		return fd;
	ret = fm_helper_put_start(fd, answer, err);
	if (ret == 0)
		ret = put_device(fd, answer, err);
	if (ret < 0)
		(void)fm_err_wrap(err, "%s", path);
	close(fd);
	return ret;
}

/* The device of a request that says nothing else. */
static int open_asked(struct fm_json *request, struct fm_err *err)
{
	const char *path;
	const struct fm_json *rdev = NULL;
	int ret = fm_helper_unpack(request, err, "{s:s, s?o}", "device", &path, "rdev", &rdev);

	return ret < 0 ? ret : fm_helper_open_device(path, rdev, NULL, 0, err);
}

/* ------------------------------------------------------------------------------------ xfs_state */

/*
 * Starts xfs_logprint with its output to `out`. It runs in the C locale, and with no signal
 * blocked: when enough was read, SIGPIPE must end it.
 */
static int spawn_logprint(const char *device, int out, pid_t *pid)
{
	char program[] = "xfs_logprint", flag[] = "-t", locale[] = "LC_ALL=C",
	     path[] = "PATH=/usr/sbin:/sbin:/usr/bin:/bin", copy[64];
	char *argv[] = { program, flag, copy, NULL }, *env[] = { locale, path, NULL };
	/* posix_spawnp() looks in our own PATH, which need not have sbin. */
	const char *file =
		access("/usr/sbin/xfs_logprint", X_OK) == 0 ? "/usr/sbin/xfs_logprint" : program;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int ret;

	(void)snprintf(copy, sizeof(copy), "%s", device);
	ret = posix_spawn_file_actions_init(&actions);
	if (ret != 0)
		return -ret;
	ret = posix_spawnattr_init(&attr);
	if (ret != 0)
		goto destroy_actions;
	sigemptyset(&none);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	ret = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (ret == 0)
		ret = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (ret == 0)
		ret = posix_spawnp(pid, file, &actions, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
destroy_actions:
	posix_spawn_file_actions_destroy(&actions);
	return -ret;
}

/* *out: what its output is read from. */
static int start_logprint(const char *device, int *out, pid_t *pid, struct fm_err *err)
{
	int fds[2], ret;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return fm_err_sys(err, -errno, "make a pipe for xfs_logprint");
	ret = spawn_logprint(device, fds[1], pid);
	close(fds[1]);
	if (ret == 0) {
		*out = fds[0];
		return 0;
	}
	close(fds[0]);
	return fm_err_sys(err, ret, "run xfs_logprint (of the package xfsprogs)");
}

/* "    log tail: 4 head: 4 state: <CLEAN>". 1 clean, 0 dirty, -1: neither was found. */
static int read_state(FILE *from)
{
	size_t bytes = 0;
	char line[512];
	int state = -1;

	while (state < 0 && bytes < LOGPRINT_BYTES_MAX && fgets(line, sizeof(line), from)) {
		bytes += strlen(line);
		if (strstr(line, "state: <CLEAN>"))
			state = 1;
		else if (strstr(line, "state: <DIRTY>"))
			state = 0;
	}
	return state;
}

static int logprint_state(const char *device, int *state, struct fm_err *err)
{
	int fd = -1, status = 0, ret;
	FILE *from;
	pid_t pid;

	ret = start_logprint(device, &fd, &pid, err);
	if (ret < 0)
		return ret;
	from = fdopen(fd, "r");
	*state = from ? read_state(from) : -1;
	if (from)
		/* it was only read; what is still written there is not wanted */
		(void)fclose(from);
	else
		close(fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (*state >= 0)
		return 0;
	return fm_err_set(
		err, -EIO,
		"xfs_logprint -t %s did not say whether the log is clean (status %d): is it XFS?",
		device, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static int put_state(int fd, struct fm_json *answer, struct fm_err *err)
{
	char name[64];
	int state, ret = fm_helper_device_name(fd, name, err);

	if (ret == 0)
		ret = logprint_state(name, &state, err);
	return ret == 0 ? fm_helper_put(answer, "clean", fm_json_of_bool(state), err) : ret;
}

int fm_helper_xfs_state(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	int ret, fd = open_asked(request, err);

	if (fd < 0)
		return fd;
	ret = put_state(fd, answer, err);
	close(fd);
	return ret;
}

/* Adds whether the XFS is clean. If nobody can say, the key is left out. */
int fm_helper_put_xfs_state(int fd, struct fm_json *answer, struct fm_err *err)
{
	int ret = put_state(fd, answer, err);

	return ret == -ENOENT ? 0 : ret;
}
