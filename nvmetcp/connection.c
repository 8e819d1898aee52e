/* SPDX-License-Identifier: MIT */
/* Making and removing a controller: the files of the kernel. What their texts mean is in
 * connection_text.c. */
#include "nvmetcp/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "nvmetcp/sysfs.h"

#define TRIES_MAX 5		/* of a write that a signal interrupted */
#define POLL_MS 20
#define CONTROLLERS_MAX 1024
#define ERESTARTSYS_RAW 512	/* some kernels let it through */
#define AUTH_FUNCTION " nvme_auth_init_ctrl"

static int open_below(const char *root, const char *path, int flags)
{
	char full[PATH_MAX];
	int fd;

	if (FM_FAULT("connection.open"))
		return -EMFILE;
	if ((size_t)snprintf(full, sizeof(full), "%s%s", strcmp(root, "/") == 0 ? "" : root,
			     path) >= sizeof(full))
		return -ENAMETOOLONG;
	fd = open(full, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* ---------------------------------------------------------------------- what this kernel can do */

static void read_known(const char *root, char known[static FM_CONNECTION_OPTIONS_MAX])
{
	int fd = open_below(root, "/dev/nvme-fabrics", O_RDONLY);
	ssize_t got;

	known[0] = '\0';
	if (fd < 0)
		return;
	/* Before 5.17 this is an error, and then nothing is known. */
	got = read(fd, known, FM_CONNECTION_OPTIONS_MAX - 1);
	known[got > 0 ? got : 0] = '\0';
	close(fd);
}

/* Whether the kernel's list of functions has AUTH_FUNCTION. A list that cannot be read says yes. */
static bool has_auth_function(const char *root)
{
	char buf[65536];
	size_t keep = 0;
	bool is_found = false;
	ssize_t got;
	int fd = open_below(root, "/proc/kallsyms", O_RDONLY);

	if (fd < 0)
		return true;
	while (!is_found && (got = read(fd, buf + keep, sizeof(buf) - keep - 1)) > 0) {
		size_t len = keep + (size_t)got;

		buf[len] = '\0';
		is_found = strstr(buf, AUTH_FUNCTION) != NULL;
		/* It may lie across two reads. */
		keep = len < sizeof(AUTH_FUNCTION) ? len : sizeof(AUTH_FUNCTION);
		memmove(buf, buf + len - keep, keep);
	}
	close(fd);
	return is_found;
}

/* Debian's 6.1 takes a secret and does nothing with it, so the list of options alone does not
 * tell. */
static bool has_auth(const char *root, struct fm_sysfs_dir *sys, const char *known)
{
	return fm_connection_knows(known, "dhchap_secret") &&
	       (faccessat(sys->fd, "module/nvme_auth", F_OK, 0) == 0 ||
		faccessat(sys->fd, "module/nvme_common", F_OK, 0) == 0 || has_auth_function(root));
}

static bool is_set(const char *text)
{
	return text && text[0];
}

static int check_kernel(const char *root, struct fm_sysfs_dir *sys,
			const struct fm_connection_opts *o, struct fm_err *err)
{
	char known[FM_CONNECTION_OPTIONS_MAX];

	read_known(root, known);
	if ((is_set(o->secret) || is_set(o->controller_secret)) && !has_auth(root, sys, known))
		return fm_err_set(err, -EOPNOTSUPP,
				  "this kernel cannot authenticate NVMe (no DH-HMAC-CHAP): use a "
				  "newer kernel, or take "
				  "the secret out of the configuration and of the target");
	if (o->has_tls && !fm_connection_knows(known, "tls"))
		return fm_err_set(err, -EOPNOTSUPP,
				  "this kernel has no TLS for NVMe: use a newer kernel, or take "
				  "tls out of the "
				  "configuration");
	if (is_set(o->host_interface) && !fm_connection_knows(known, "host_iface"))
		return fm_err_set(err, -EOPNOTSUPP,
				  "this kernel cannot bind NVMe to an interface: give the address "
				  "of the host instead");
	return 0;
}

/* ----------------------------------------------------------------------------------- connecting */

/*
 * Writes the options to the kernel and reads its answer, each in one call. *answer_len: bytes of
 * the answer, 0 after an error.
 */
static int tell_kernel_once(const char *root, const char *text, char answer[static 128],
			    size_t *answer_len, bool *was_opened)
{
	int ret = 0, fd = open_below(root, "/dev/nvme-fabrics", O_RDWR);
	ssize_t got;

	*answer_len = 0;
	*was_opened = fd >= 0;
	if (fd < 0)
		return fd;
	if (FM_FAULT("connection.write"))
		ret = -ETIMEDOUT;
	else if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	if (ret == 0) {
		got = FM_FAULT("connection.answer") ? 0 : read(fd, answer, 127);
		*answer_len = got > 0 ? (size_t)got : 0;
	}
	close(fd);
	return ret == -ERESTARTSYS_RAW ? -EINTR : ret;
}

static int tell_kernel(const char *root, const char *text, char answer[static 128],
		       size_t *answer_len, bool *was_opened)
{
	int ret = -EINTR;

	for (unsigned i = 0; i < TRIES_MAX && ret == -EINTR; i++)
		ret = tell_kernel_once(root, text, answer, answer_len, was_opened);
	return ret;
}

/*
 * The kernel's log from now on, or -1. Only the log says why a target refused: a wrong NQN and a
 * host that is not allowed are both EIO.
 */
static int open_kernel_log(const char *root)
{
	int fd = open_below(root, "/dev/kmsg", O_RDONLY | O_NONBLOCK);

	if (fd >= 0)
		/* or it is read from its beginning, which would do, too */
		(void)lseek(fd, 0, SEEK_END);
	return fd;
}

static void read_kernel_log(int fd, char log[static FM_CONNECTION_KERNEL_LOG_MAX])
{
	size_t len = 0;

	while (fd >= 0 && len < FM_CONNECTION_KERNEL_LOG_MAX - 1) {
		ssize_t got = read(fd, log + len, FM_CONNECTION_KERNEL_LOG_MAX - 1 - len);

		/* EPIPE: records were overwritten before they were read; the next read goes on
		 * behind them. */
		if (got == 0 || (got < 0 && errno != EPIPE && errno != EINTR))
			break;
		len += got > 0 ? (size_t)got : 0;
	}
	log[len] = '\0';
}

static bool is_controller(const char *name)
{
	return strncmp(name, "nvme", 4) == 0 && name[4] &&
	       name[4 + strspn(name + 4, "0123456789")] == '\0' && strlen(name) < 16;
}

static bool is_same_address(const char *a, const char *b)
{
	char one[FM_CONNECTION_ADDRESS_MAX], other[FM_CONNECTION_ADDRESS_MAX];

	return fm_connection_address(a, one) == 0 && fm_connection_address(b, other) == 0 &&
	       strcmp(one, other) == 0;
}

/* `address` is not read: see read_address() of inventory.c. */
static bool is_address_of(struct fm_sysfs_dir *dir, const struct fm_connection_opts *o)
{
	char address[FM_CONNECTION_ADDRESS_MAX], port[16];
	const struct fm_sysfs_variable wanted[] = {
		{ "NVME_TRADDR", address, sizeof(address) },
		{ "NVME_TRSVCID", port, sizeof(port) },
	};

	fm_sysfs_variables(dir, wanted, sizeof(wanted) / sizeof(wanted[0]));
	return is_same_address(address, o->address) && strcmp(port, o->port) == 0;
}

static bool is_ours(struct fm_sysfs_dir *dir, const struct fm_connection_opts *o)
{
	char text[FM_SYSFS_TEXT_MAX];

	if (!fm_sysfs_text(dir, "subsysnqn", text, sizeof(text)) || strcmp(text, o->subsystem) != 0)
		return false;
	if (fm_sysfs_text(dir, "hostnqn", text, sizeof(text)) && strcmp(text, o->host_nqn) != 0)
		return false;
	return is_address_of(dir, o);
}

/* The controller that the kernel says is there already. */
static int find_existing(struct fm_sysfs_dir *sys, const struct fm_connection_opts *o,
			 struct fm_connection *out, struct fm_err *err)
{
	struct fm_sysfs_dir class, dir;
	struct fm_sysfs_names names;
	uint64_t cntlid = 0;
	bool is_found = false;
	int ret = fm_sysfs_open(sys, "class/nvme", &class);

	if (ret < 0)
		return fm_err_sys(err, ret, "look for the controller in /sys/class/nvme");
	ret = fm_sysfs_list(&class, is_controller, CONTROLLERS_MAX, &names);
	for (unsigned i = 0; ret == 0 && i < names.count && !is_found; i++) {
		if (fm_sysfs_open(&class, names.name[i], &dir) < 0)
			continue;
		is_found = is_ours(&dir, o);
		if (is_found && fm_sysfs_u64(&dir, "cntlid", &cntlid))
			out->cntlid = (int)cntlid;
		if (is_found)
			(void)snprintf(out->controller, sizeof(out->controller), "%s",
				       names.name[i]);
		fm_sysfs_close(&dir);
	}
	if (ret == 0)
		fm_sysfs_names_free(&names);
	fm_sysfs_close(&class);
	if (!is_found)
		return fm_err_set(err, -EAGAIN,
				  "the kernel has a connection to %s already, and it is not to be "
				  "found: try again",
				  o->subsystem);
	return 0;
}

/*
 * Sets what the kernel does not take as an option, and checks that it used the rest: a kernel
 * without authentication ignores a secret.
 */
static int finish(struct fm_sysfs_dir *sys, const struct fm_connection_opts *o, const char *name,
		  struct fm_err *err)
{
	struct fm_sysfs_dir dir;
	char path[64], value[16];
	int ret;

	(void)snprintf(path, sizeof(path), "class/nvme/%s", name);
	ret = fm_sysfs_open(sys, path, &dir);
	if (ret < 0)
		return fm_err_sys(err, ret, "the controller %s has gone again", name);
	if (is_set(o->secret) && faccessat(dir.fd, "dhchap_secret", F_OK, 0) < 0)
		ret = fm_err_set(err, -EOPNOTSUPP,
				 "this kernel took the secret and cannot authenticate (no "
				 "DH-HMAC-CHAP): use a newer "
				 "kernel");
	(void)snprintf(value, sizeof(value), "%d", o->fast_io_fail_s);
	if (ret == 0 && strcmp(o->subsystem, FM_CONNECTION_DISCOVERY_NQN) != 0) {
		ret = fm_sysfs_write(&dir, "fast_io_fail_tmo", value);
		/* Kernels before 5.11 have no such thing; "off" is what they do. */
		if (ret == -ENOENT && o->fast_io_fail_s < 0)
			ret = 0;
		else if (ret < 0)
			(void)fm_err_sys(err, ret, "set the fast_io_fail_tmo of %s", name);
	}
	fm_sysfs_close(&dir);
	return ret;
}

/* The kernel said yes: which controller it is, and the rest of its settings. */
static int take_new(const char *root, struct fm_sysfs_dir *sys, const struct fm_connection_opts *o,
		    const char *answer, size_t len, struct fm_connection *out, struct fm_err *err)
{
	int instance, ret = fm_connection_answer_parse(answer, len, &instance, &out->cntlid);

	if (ret == 0)
		(void)snprintf(out->controller, sizeof(out->controller), "nvme%d", instance);
	else
		ret = find_existing(sys, o, out, err);
	if (ret < 0)
		return ret;
	ret = finish(sys, o, out->controller, err);
	/* Not half a connection: err keeps what went wrong first. */
	if (ret < 0)
		(void)fm_connection_close(root, out->controller, o->subsystem, 0, NULL);
	return ret;
}

static enum fm_connection_trouble trouble_before(int ret)
{
	return ret == -EINVAL || ret == -E2BIG ? FM_TROUBLE_VALUE
	       : ret == -EOPNOTSUPP	       ? FM_TROUBLE_KERNEL
					       : FM_TROUBLE_OTHER;
}

static int open_with(const char *root, struct fm_sysfs_dir *sys, const struct fm_connection_opts *o,
		     const char *text, struct fm_connection *out,
		     enum fm_connection_trouble *trouble, struct fm_err *err)
{
	char answer[128], log[FM_CONNECTION_KERNEL_LOG_MAX] = "";
	int ret, log_fd;
	bool was_opened;
	size_t len;

	log_fd = open_kernel_log(root);
	ret = tell_kernel(root, text, answer, &len, &was_opened);
	if (ret < 0 && ret != -EALREADY)
		read_kernel_log(log_fd, log);
	if (log_fd >= 0)
		close(log_fd);
	if (ret == -EALREADY) {
		out->was_there = true;
		ret = find_existing(sys, o, out, err);
		*trouble = trouble_before(ret);
	} else if (ret == 0) {
		ret = take_new(root, sys, o, answer, len, out, err);
		*trouble = trouble_before(ret);
	} else if (!was_opened && ret == -EACCES) {
		*trouble = fm_connection_explain(-EPERM, "", o, err);
	} else if (ret == -EINVAL && faccessat(sys->fd, "module/nvme_tcp", F_OK, 0) < 0) {
		*trouble = fm_connection_explain(-ENOENT, "", o,
						 err); /* what loads the transport is not there */
	} else {
		*trouble = fm_connection_explain(ret, log, o, err);
	}
	return ret;
}

int fm_connection_open(const char *root, const struct fm_connection_opts *opts,
		       struct fm_connection *out, enum fm_connection_trouble *trouble,
		       struct fm_err *err)
{
	char text[FM_CONNECTION_OPTIONS_MAX];
	struct fm_sysfs_dir sys;
	struct fm_connection got = { 0 };
	int ret;

	assert(root && opts && out && trouble);
	*trouble = FM_TROUBLE_OTHER;
	ret = fm_sysfs_root(root, &sys, err);
	if (ret < 0)
		return ret;
	ret = fm_connection_options(opts, text, err);
	if (ret == 0)
		ret = check_kernel(root, &sys, opts, err);
	if (ret < 0)
		*trouble = trouble_before(ret);
	else
		ret = open_with(root, &sys, opts, text, &got, trouble, err);
	explicit_bzero(text, sizeof(text));
	fm_sysfs_close(&sys);
	if (ret < 0)
		return ret;
	*trouble = FM_TROUBLE_NONE;
	*out = got;
	return 0;
}

/* -------------------------------------------------------------------------------- disconnecting */

static bool is_namespace(const char *name)
{
	size_t digits = strncmp(name, "nvme", 4) == 0 ? strspn(name + 4, "0123456789") : 0;

	return digits > 0 && name[4 + digits] == 'n';
}

static unsigned count_of(const struct fm_sysfs_dir *dir, bool (*wanted)(const char *name))
{
	struct fm_sysfs_names names;
	unsigned count = 0;

	if (fm_sysfs_list(dir, wanted, CONTROLLERS_MAX, &names) == 0) {
		count = names.count;
		fm_sysfs_names_free(&names);
	}
	return count;
}

static bool is_subsystem(const char *name)
{
	return strncmp(name, "nvme-subsys", 11) == 0;
}

/* The subsystem that has this controller and no other; fd -1: there is none such. */
static void open_sole_subsystem(struct fm_sysfs_dir *sys, const char *controller,
				struct fm_sysfs_dir *out)
{
	struct fm_sysfs_dir class, dir;
	struct fm_sysfs_names names;

	*out = (struct fm_sysfs_dir){ .fd = -1 };
	if (fm_sysfs_open(sys, "class/nvme-subsystem", &class) < 0)
		return;
	if (fm_sysfs_list(&class, is_subsystem, CONTROLLERS_MAX, &names) == 0) {
		for (unsigned i = 0; i < names.count && out->fd < 0; i++) {
			if (fm_sysfs_open(&class, names.name[i], &dir) < 0)
				continue;
			if (faccessat(dir.fd, controller, F_OK, 0) == 0 &&
			    count_of(&dir, is_controller) == 1)
				*out = dir;
			else
				fm_sysfs_close(&dir);
		}
		fm_sysfs_names_free(&names);
	}
	fm_sysfs_close(&class);
}

static bool is_there(struct fm_sysfs_dir *dir)
{
	return dir->fd >= 0 && faccessat(dir->fd, "state", F_OK, 0) == 0;
}

/* The directories are held open: whoever gets the same name afterwards is not taken for the one
 * that was. */
static int wait_gone(struct fm_sysfs_dir *dir, struct fm_sysfs_dir *subsystem, unsigned wait_ms,
		     const char *name, struct fm_err *err)
{
	const struct timespec pause = { .tv_nsec = POLL_MS * 1000000L };
	bool has_controller = true, has_devices = true;

	for (unsigned waited = 0;; waited += POLL_MS) {
		has_controller = is_there(dir);
		has_devices = subsystem->fd >= 0 && count_of(subsystem, is_namespace) > 0;
		if (!has_controller && !has_devices)
			return 0;
		if (waited >= wait_ms)
			break;
		(void)nanosleep(&pause, NULL);
	}
	if (has_controller)
		return fm_err_set(err, -ETIMEDOUT, "the kernel has not removed %s within %u ms",
				  name, wait_ms);
	return fm_err_set(
		err, -EBUSY,
		"%s is gone and its block device is not: somebody still holds it; is it mounted?",
		name);
}

/* Whether it is what the caller thinks it is: names are given anew. */
static int check_controller(struct fm_sysfs_dir *dir, const char *name, const char *subsystem,
			    struct fm_err *err)
{
	char text[FM_SYSFS_TEXT_MAX];

	if (!fm_sysfs_text(dir, "transport", text, sizeof(text)))
		return is_there(dir)
			       ? fm_err_set(err, -EAGAIN,
					    "the kernel does not say what %s is: try again", name)
			       : -ENOENT;
	if (strcmp(text, "tcp") != 0)
		return fm_err_set(err, -EINVAL,
				  "%s is no connection over TCP (it is %s): left alone", name,
				  text);
	/* During its first connect the kernel does not know yet. */
	if (!fm_sysfs_text(dir, "subsysnqn", text, sizeof(text)))
		return is_there(dir)
			       ? fm_err_set(
					 err, -EAGAIN,
					 "the kernel does not say yet where %s leads to: try again",
					 name)
			       : -ENOENT;
	if (strcmp(text, subsystem) != 0)
		return fm_err_set(err, -ESTALE,
				  "%s is a connection to %s now, not to %s: left alone", name, text,
				  subsystem);
	return 0;
}

static int remove_controller(struct fm_sysfs_dir *sys, struct fm_sysfs_dir *dir, const char *name,
			     const char *subsystem, unsigned wait_ms, struct fm_err *err)
{
	struct fm_sysfs_dir sole;
	int ret = check_controller(dir, name, subsystem, err);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	open_sole_subsystem(sys, name, &sole);
	ret = fm_sysfs_write(dir, "delete_controller", "1");
	/* Going already, or gone. */
	if (ret == -ENOENT || ret == -ENODEV)
		ret = 0;
	if (ret == 0)
		ret = wait_gone(dir, &sole, wait_ms, name, err);
	else
		(void)fm_err_sys(err, ret, "disconnect %s", name);
	fm_sysfs_close(&sole);
	return ret;
}

int fm_connection_close(const char *root, const char *name, const char *subsystem, unsigned wait_ms,
			struct fm_err *err)
{
	struct fm_sysfs_dir sys, dir;
	char path[64];
	int ret;

	assert(root && name && subsystem);
	if (!is_controller(name))
		return fm_err_set(err, -EINVAL, "\"%.32s\" is no name of a controller", name);
	ret = fm_sysfs_root(root, &sys, err);
	if (ret < 0)
		return ret;
	(void)snprintf(path, sizeof(path), "class/nvme/%s", name);
	ret = fm_sysfs_open(&sys, path, &dir);
	if (ret == 0) {
		ret = remove_controller(&sys, &dir, name, subsystem, wait_ms, err);
		fm_sysfs_close(&dir);
	} else if (ret == -ENOENT) {
		ret = 0;
	} else {
		(void)fm_err_sys(err, ret, "look at %s", name);
	}
	fm_sysfs_close(&sys);
	return ret;
}

void fm_connection_rescan(const char *root, const char *name)
{
	struct fm_sysfs_dir sys;
	char path[64];

	assert(root && is_controller(name));
	if (fm_sysfs_root(root, &sys, NULL) < 0)
		return;
	(void)snprintf(path, sizeof(path), "class/nvme/%s/rescan_controller", name);
	(void)fm_sysfs_write(&sys, path, "1");
	fm_sysfs_close(&sys);
}
