/* SPDX-License-Identifier: MIT */
/* world - see world.h. */
#include "nvmetcp/daemon/world.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/files.h"
#include "mover/base/err.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/daemon/fmoved.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/inventory.h"
#include "nvmetcp/mounts.h"
#include "nvmetcp/process.h"
#include "nvmetcp/sysfs.h"

static int read_inventory(void *ctx, struct fm_inventory **out, struct fm_err *err)
{
	(void)ctx;
	return fm_inventory_read("", out, err);
}

static void read_settings(void *ctx, const char *controller, struct fm_inv_settings *out)
{
	(void)ctx;
	fm_inventory_settings("", controller, out);
}

static int read_mounts(void *ctx, struct fm_mounts *out, struct fm_err *err)
{
	(void)ctx;
	return fm_mounts_read("", out, err);
}

static int start(void *ctx, struct fm_helper *helper, const char *key, struct fm_json *request,
		 uint64_t timeout_ns, struct fm_err *err)
{
	return fm_helper_start(((struct fm_world *)ctx)->helpers, helper, key, request, timeout_ns,
			       err);
}

static void give_up(void *ctx, struct fm_helper *helper)
{
	fm_helper_give_up(((struct fm_world *)ctx)->helpers, helper);
}

static bool has_helper(void *ctx, const char *key)
{
	return fm_helper_is_any(((struct fm_world *)ctx)->helpers, key);
}

static bool may_live(void *ctx, const struct fm_process *process)
{
	(void)ctx;
	return fm_process_may_live("", process);
}

static bool may_stray(void *ctx)
{
	(void)ctx;
	return fm_process_may_stray("", FM_HELPER_NAME, getpid());
}

static int set_iopolicy(void *ctx, const char *subsystem, const char *policy, struct fm_err *err)
{
	struct fm_sysfs_dir sys;
	char path[96];
	int ret = fm_sysfs_root("", &sys, err);

	(void)ctx;
	if (ret < 0)
		return ret;
	(void)snprintf(path, sizeof(path), "class/nvme-subsystem/%.32s/iopolicy", subsystem);
	ret = fm_sysfs_write(&sys, path, policy);
	fm_sysfs_close(&sys);
	if (ret == -EINVAL)
		return fm_err_set(err, -EINVAL, "this kernel does not know it");
	return ret < 0 ? fm_err_sys(err, ret, "/sys/%s", path) : 0;
}

static void rescan(void *ctx, const char *controller)
{
	(void)ctx;
	fm_connection_rescan("", controller);
}

/* Up to max bytes and a NUL. */
static int read_text(const char *path, size_t max, char **text, struct fm_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t len = 0;
	ssize_t got = 1;
	char *to;

	if (fd < 0)
		return fm_err_sys(err, -errno, "%s", path);
	to = malloc(max + 1);
	while (to && got > 0 && len < max) {
		got = read(fd, to + len, max - len);
		len += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	if (!to || got < 0 || len == max) {
		free(to);
		return fm_err_set(err, !to ? -ENOMEM : -EIO, "%s cannot be read, or is too long",
				  path);
	}
	to[len] = '\0';
	*text = to;
	return 0;
}

static int load(void *ctx, const char *name, char **text, struct fm_err *err)
{
	const struct fm_world *world = ctx;
	char path[PATH_MAX];
	int ret;

	if (!world->directory[0])
		return -ENOENT;
	ret = fm_path_join(world->directory, name, path, err);
	return ret < 0 ? ret : read_text(path, FM_SUPERVISOR_STATE_BYTES_MAX, text, err);
}

static int save(void *ctx, const char *name, const char *text, bool is_durable, struct fm_err *err)
{
	const struct fm_world *world = ctx;
	char path[PATH_MAX];
	struct fm_file_write how = {
		.path = path, .mode = 0600, .may_replace = true, .is_volatile = !is_durable};
	int ret;

	if (world->broken[0])
		return fm_err_set(err, -EROFS, "%s: mend that, then systemctl restart fmove-nvmed",
				  world->broken);
	if (!world->directory[0])
		return 0;
	ret = fm_path_join(world->directory, name, path, err);
	return ret < 0 ? ret : fm_file_write(&how, text, err);
}

static int publish(void *ctx, const char *text, struct fm_err *err)
{
	return fm_fmoved_publish(((struct fm_world *)ctx)->fmoved, text, err);
}

static void ask_peers(void *ctx)
{
	fm_fmoved_ask(((struct fm_world *)ctx)->fmoved);
}

static uint64_t wall_ms(void *ctx)
{
	struct timespec now;

	(void)ctx;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void fm_world_init(struct fm_world *world, struct fm_helpers *helpers, struct fm_fmoved *fmoved,
		   const char *directory, const char *broken)
{
	*world = (struct fm_world){ .helpers = helpers, .fmoved = fmoved };
	if (directory && strlen(directory) < sizeof(world->directory))
		strcpy(world->directory, directory);
	if (broken)
		(void)snprintf(world->broken, sizeof(world->broken), "%s", broken);
	/* Without it what an earlier boot connected could be taken for this one's: it would not be
	 * there. */
	(void)fm_boot_id(world->boot);
	world->table = (struct fm_supervisor_world){
		.read_inventory = read_inventory,
		.read_settings = read_settings,
		.read_mounts = read_mounts,
		.start = start,
		.give_up = give_up,
		.has_helper = has_helper,
		.may_live = may_live,
		.may_stray = may_stray,
		.set_iopolicy = set_iopolicy,
		.rescan = rescan,
		.load = load,
		.save = save,
		.publish = publish,
		.ask_peers = ask_peers,
		.wall_ms = wall_ms,
		.boot = world->boot,
		.ctx = world,
	};
}
