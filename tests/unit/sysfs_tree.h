/* SPDX-License-Identifier: MIT */
/*
 * sysfs_tree - a directory that looks like the root of a machine with NVMe: sys/ and proc/ as
 * kernels fill them.
 *
 * Names, links and texts are those of a real /sys (5.15 to 6.18), not all of them: what nobody
 * reads is left out.
 */
#ifndef FM_SYSFS_TREE_H
#define FM_SYSFS_TREE_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fm_test.h"

#define DISCOVERY "nqn.2014-08.org.nvmexpress.discovery"
#define HOST_UUID "11111111-2222-3333-4444-555555555555"

static char tree_root[] = "/tmp/fmove-sysfs-XXXXXX";

static inline void tree_must(bool is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		abort();
	}
}

static inline void tree_path(char path[PATH_MAX], const char *name)
{
	tree_must(snprintf(path, PATH_MAX, "%s/%s", tree_root, name) < PATH_MAX, name);
}

static inline void tree_mkdirs(const char *name)
{
	char path[PATH_MAX];

	tree_path(path, name);
	if (mkdir(path, 0755) == 0 || errno == EEXIST)
		return;
	for (char *slash = path + strlen(tree_root) + 1; (slash = strchr(slash, '/')) != NULL;
	     *slash++ = '/') {
		*slash = '\0';
		tree_must(mkdir(path, 0755) == 0 || errno == EEXIST, path);
	}
	tree_must(mkdir(path, 0755) == 0 || errno == EEXIST, path);
}

/* A file with these bytes; NULL: there is none. Its directory is made if need be. */
static inline void tree_put_bytes(const char *name, const char *bytes, size_t len)
{
	char path[PATH_MAX], dir[PATH_MAX];
	int fd;

	tree_must(snprintf(dir, sizeof(dir), "%s", name) < PATH_MAX && strchr(dir, '/'), name);
	*strrchr(dir, '/') = '\0';
	tree_mkdirs(dir);
	tree_path(path, name);
	tree_must(unlink(path) == 0 || errno == ENOENT, path);
	if (!bytes)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	tree_must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len, path);
	close(fd);
}

/* DIR/ATTR with text and a newline, as the kernel writes it; NULL takes it away. */
static inline void tree_attr(const char *dir, const char *attr, const char *text)
{
	char name[PATH_MAX], line[2048];
	int len = snprintf(line, sizeof(line), "%s\n", text ? text : "");

	tree_must(snprintf(name, sizeof(name), "%s/%s", dir, attr) < PATH_MAX, attr);
	tree_put_bytes(name, text ? line : NULL, (size_t)len);
}

static inline void tree_link(const char *target, const char *name)
{
	char path[PATH_MAX];

	tree_path(path, name);
	tree_must(symlink(target, path) == 0, path);
}

static inline int tree_remove_one(const char *path, const struct stat *st, int flag,
				  struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static inline void tree_remove(const char *name)
{
	char path[PATH_MAX];

	tree_path(path, name);
	tree_must(nftw(path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, path);
}

/* A machine without NVMe. */
static inline void tree_make(void)
{
	strcpy(strrchr(tree_root, '-'), "-XXXXXX");
	tree_must(mkdtemp(tree_root) != NULL, tree_root);
	tree_mkdirs("sys/class");
	tree_mkdirs("sys/dev/block");
}

static inline void tree_free(void)
{
	tree_remove("");
}

#define FABRICS "sys/devices/virtual/nvme-fabrics/ctl"
#define SUBSYSTEMS "sys/devices/virtual/nvme-subsystem"
#define PCI "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme"

/* What every controller has, of a kernel of 5.15; where is the directory that it is in. */
static inline void tree_controller(const char *where, const char *name, const char *nqn,
				   const char *transport)
{
	char dir[PATH_MAX], link[PATH_MAX], target[PATH_MAX];

	tree_mkdirs("sys/class/nvme");
	tree_must(snprintf(dir, sizeof(dir), "%s/%s", where, name) < PATH_MAX, name);
	tree_attr(dir, "state", "live");
	tree_attr(dir, "transport", transport);
	tree_attr(dir, "subsysnqn", nqn);
	tree_attr(dir, "cntlid", "1");
	tree_attr(dir, "queue_count", "3");
	tree_attr(dir, "kato", "0");
	tree_attr(dir, "numa_node", "-1");
	tree_must(snprintf(link, sizeof(link), "sys/class/nvme/%s", name) < PATH_MAX, name);
	tree_must(snprintf(target, sizeof(target), "../../%s/%s", where + strlen("sys/"), name) <
			  PATH_MAX,
		  name);
	tree_link(target, link);
}

/*
 * Connected over TCP, as a kernel of 6.x shows it. Its `address` is a trap: it says another one,
 * since reading it may break the kernel (inventory.c).
 */
static inline void tree_tcp(const char *name, const char *nqn, const char *host, const char *port)
{
	char dir[PATH_MAX], variables[512];

	tree_controller(FABRICS, name, nqn, "tcp");
	tree_must(snprintf(dir, sizeof(dir), FABRICS "/%s", name) < PATH_MAX, name);
	tree_attr(dir, "address", "traddr=192.0.2.66,trsvcid=66,src_addr=192.0.2.66");
	tree_must(snprintf(variables, sizeof(variables),
			   "MAJOR=241\nMINOR=1\nDEVNAME=%s\nNVME_TRTYPE=tcp\nNVME_TRADDR=%s\n"
			   "NVME_TRSVCID=%s\nNVME_HOST_TRADDR=none\nNVME_HOST_IFACE=none",
			   name, host, port) < (int)sizeof(variables),
		  host);
	tree_attr(dir, "uevent", variables);
	tree_attr(dir, "hostnqn", "nqn.2014-08.org.nvmexpress:uuid:" HOST_UUID);
	tree_attr(dir, "kato", "5");
	tree_attr(dir, "reconnect_delay", "10");
	tree_attr(dir, "ctrl_loss_tmo", "600");
	tree_attr(dir, "fast_io_fail_tmo", "off");
}

static inline void tree_subsystem(const char *name, const char *nqn)
{
	char dir[PATH_MAX], link[PATH_MAX], target[PATH_MAX];

	tree_mkdirs("sys/class/nvme-subsystem");
	tree_must(snprintf(dir, sizeof(dir), SUBSYSTEMS "/%s", name) < PATH_MAX, name);
	tree_attr(dir, "subsysnqn", nqn);
	tree_attr(dir, "iopolicy", "numa");
	tree_must(snprintf(link, sizeof(link), "sys/class/nvme-subsystem/%s", name) < PATH_MAX,
		  name);
	tree_must(snprintf(target, sizeof(target), "../../devices/virtual/nvme-subsystem/%s",
			   name) < PATH_MAX,
		  name);
	tree_link(target, link);
}

/* The link by which a subsystem says that a controller is its own. */
static inline void tree_join(const char *subsystem, const char *controller)
{
	char link[PATH_MAX], target[PATH_MAX];

	tree_must(snprintf(link, sizeof(link), SUBSYSTEMS "/%s/%s", subsystem, controller) <
			  PATH_MAX,
		  subsystem);
	tree_must(snprintf(target, sizeof(target), "../../nvme-fabrics/ctl/%s", controller) <
			  PATH_MAX,
		  controller);
	tree_link(target, link);
}

/* A block device below DIR, without a UUID; dev "259:0", or NULL: hidden, or no device node yet. */
static inline void tree_namespace(const char *dir, const char *name, const char *dev,
				  const char *wwid)
{
	char path[PATH_MAX], link[PATH_MAX], target[PATH_MAX];

	tree_must(snprintf(path, sizeof(path), "%s/%s", dir, name) < PATH_MAX, name);
	tree_attr(path, "size", "524288");
	tree_attr(path, "ro", "0");
	tree_attr(path, "nsid", "1");
	tree_attr(path, "wwid", wwid);
	tree_attr(path, "dev", dev);
	if (!dev)
		return;
	tree_must(snprintf(link, sizeof(link), "sys/dev/block/%s", dev) < PATH_MAX, dev);
	tree_must(snprintf(target, sizeof(target), "../../%s", path + strlen("sys/")) < PATH_MAX,
		  path);
	tree_link(target, link);
}

#endif
