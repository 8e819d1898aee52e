/* SPDX-License-Identifier: MIT */
/* run - see run.h. */
#include "client/bench/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/bench/cpu_watch.h"
#include "client/bench/disk.h"
#include "client/bench/scratch.h"
#include "client/bench/tcp_watch.h"
#include "client/bench/wire.h"
#include "client/cli/cmd.h"
#include "client/cli/interrupt.h"
#include "client/cli/progress.h"
#include "client/cli/show.h"
#include "mover/base/err.h"

#define BLOCK_BYTES	 (1u << 20) /* as the engine's chunks are, if memory allows it */
#define DEVICE_BYTES_MAX (UINT64_C(64) << 30)

/* ---- what is said meanwhile ---- */

static void step(void *ctx, const struct fm_bench_path *path, unsigned repeat)
{
	const struct fm_run *run = ctx;
	char name[FM_BENCH_TEXT_MAX], line[FM_BENCH_TEXT_MAX], text[96];

	if (run->is_quiet || !isatty(STDERR_FILENO))
		return;
	(void)fm_bench_path_name(path, name);
	(void)snprintf(text, sizeof(text), "%u of %u: %.70s", repeat + 1, run->repeats,
		       fm_show(name, strlen(name), line, sizeof(line)));
	fm_progress_put(text);
}

static void step_end(const struct fm_run *run)
{
	if (!run->is_quiet && isatty(STDERR_FILENO))
		(void)fprintf(stderr, "\r\033[K"); /* nobody is left to be told of an error */
}

/* 0, or the error if nothing more is to be measured. */
static int failed(struct fm_run *run, struct fm_bench_path *path, int code, struct fm_err *err)
{
	char name[FM_BENCH_TEXT_MAX];

	step_end(run);
	if (code == 0)
		return 0;
	if (code == -ECANCELED && !fm_is_interrupted())
		code = -EHOSTUNREACH; /* by a daemon that ends, and not by who asked */
	if (code == -ECANCELED || code == -ENOMEM)
		return code;
	path->invalid |= FM_BENCH_FAILED;
	(void)snprintf(path->why, sizeof(path->why), "%s", err->text);
	fm_say(FM_RUN_VERB ": %s: %s", fm_bench_path_name(path, name), err->text);
	if (run->first_error == 0)
		run->first_error = code;
	return 0;
}

static int no_room(struct fm_err *err)
{
	return fm_err_set(err, -ENOMEM, "more than %u paths", FM_BENCH_PATHS_MAX);
}

/* How often processors or their package were slowed down for their heat; what cannot be read is 0.
 */
static uint64_t throttled(void)
{
	char path[128], text[32];
	uint64_t sum = 0;
	FILE *f;

	for (unsigned i = 0; i < FM_CPU_CORES_MAX; i++) {
		(void)snprintf(path, sizeof(path),
			       "/sys/devices/system/cpu/cpu%u/thermal_throttle/core_throttle_count",
			       i);
		f = fopen(path, "re");
		if (!f)
			return sum;
		if (fgets(text, sizeof(text), f))
			sum += strtoull(text, NULL, 10);
		(void)fclose(f);
	}
	return sum;
}

/* ---- disks ---- */

static int disk_repeats(struct fm_run *run, struct fm_disk *disk, struct fm_bench_path *path,
			struct fm_err *err)
{
	struct fm_cpu_watch *watch = calloc(1, sizeof(*watch));
	struct fm_histogram *h = calloc(1, sizeof(*h));
	int ret = watch && h ? 0 : fm_err_set(err, -ENOMEM, "no memory");
	uint64_t before = throttled();

	for (unsigned i = 0; ret == 0 && i < run->repeats; i++) {
		step(run, path, i);
		watch->pid = getpid();
		fm_cpu_watch_begin(watch);
		ret = fm_disk_run(disk, path->op == FM_BENCH_WRITE, run->seconds,
				  &path->repeats[path->repeat_count], h, err);
		fm_cpu_watch_end(watch, path);
		path->repeat_count += ret == 0;
	}
	if (h)
		fm_histogram_latency(h, &path->latency);
	path->is_throttled = throttled() != before;
	free(watch);
	free(h);
	return ret;
}

static int disk_path(struct fm_run *run, struct fm_disk *disk, const struct fm_disk_opts *o,
		     enum fm_bench_kind kind, enum fm_bench_op op, const char *where,
		     struct fm_err *err)
{
	struct fm_bench_path *path = fm_bench_add(run->bench, kind, op, where);

	if (!path)
		return no_room(err);
	path->depth = o->depth;
	path->block_bytes = o->block_bytes;
	return failed(run, path, disk_repeats(run, disk, path, err), err);
}

/* At each depth; a disk that is only read has nothing of ours to compare. */
static int disk_depths(struct fm_run *run, enum fm_bench_kind kind, const char *where, int fd,
		       uint64_t size, bool is_foreign, struct fm_err *err)
{
	static const unsigned quick[] = {1, 16, 0}, thorough[] = {1, 4, 16, 64, 0};
	const unsigned *depth = run->is_thorough ? thorough : &quick[run->is_brief];
	int ret = 0;

	for (; ret == 0 && *depth; depth++) {
		const struct fm_disk_opts o = {.fd = fd,
					       .size = size,
					       .block_bytes = BLOCK_BYTES,
					       .depth = *depth,
					       .is_foreign = is_foreign};
		struct fm_disk *disk;

		ret = fm_disk_new(&o, &disk, err);
		if (ret < 0)
			return ret;
		ret = disk_path(run, disk, &o, kind, FM_BENCH_READ, where, err);
		if (ret == 0 && !is_foreign)
			ret = disk_path(run, disk, &o, kind, FM_BENCH_WRITE, where, err);
		fm_disk_free(disk);
	}
	return ret;
}

static int fill(struct fm_scratch *s, struct fm_err *err)
{
	const struct fm_disk_opts o = {
		.fd = s->fd, .size = s->size, .block_bytes = BLOCK_BYTES, .depth = 16};
	struct fm_disk *disk;
	int ret = fm_disk_new(&o, &disk, err);

	if (ret < 0)
		return ret;
	ret = fm_disk_fill(disk, err);
	fm_disk_free(disk);
	return ret;
}

/* A path without numbers, for what cannot begin. */
static int refused(struct fm_run *run, enum fm_bench_kind kind, enum fm_bench_op op,
		   const char *where, bool is_cached, int code, struct fm_err *err)
{
	struct fm_bench_path *path = fm_bench_add(run->bench, kind, op, where);

	if (!path)
		return no_room(err);
	path->is_cached = is_cached;
	return failed(run, path, code, err);
}

static int measure_dir(struct fm_run *run, enum fm_bench_kind kind, const char *dir,
		       struct fm_err *err)
{
	struct fm_scratch s;
	int ret = fm_scratch_open(dir, run->file_bytes, false, &s, err);
	bool is_cached = ret == 0 && s.is_cached;

	if (is_cached)
		ret = fm_err_set(err, -EOPNOTSUPP,
				 "cached: no O_DIRECT there, so memory would be measured");
	else if (ret == 0)
		ret = fill(&s, err);
	if (ret < 0)
		ret = refused(run, kind, FM_BENCH_READ, dir, is_cached, ret, err);
	else
		ret = disk_depths(run, kind, dir, s.fd, s.size, false, err);
	fm_scratch_close(&s);
	return ret;
}

/* Read only: it is not ours. */
static int measure_device(struct fm_run *run, struct fm_err *err)
{
	int fd = open(run->device, O_RDONLY | O_CLOEXEC), ret = 0;
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

	if (fd < 0)
		ret = fm_err_sys(err, -errno, "open");
	else if (size < (off_t)BLOCK_BYTES)
		ret = fm_err_set(err, -EINVAL, "smaller than a block");
	else if (!fm_scratch_is_direct(fd))
		ret = fm_err_set(err, -EOPNOTSUPP, "cached: no O_DIRECT there");
	if (size > (off_t)DEVICE_BYTES_MAX)
		size = (off_t)DEVICE_BYTES_MAX;
	if (ret < 0)
		ret = refused(run, FM_BENCH_NVME_TCP, FM_BENCH_READ, run->device, false, ret, err);
	else
		ret = disk_depths(run, FM_BENCH_NVME_TCP, run->device, fd,
				  (uint64_t)size - (uint64_t)size % BLOCK_BYTES, true, err);
	if (fd >= 0)
		(void)close(fd);
	return ret;
}

/* ---- peers ---- */

/* A number of a part is one only if that part alone carried it. */
static int prove(struct fm_bench_path *path, struct fm_err *err)
{
	int ret = fm_rails_prove(path, err);

	if (ret < 0)
		path->repeat_count = 0;
	else if (path->connections < path->only.connections)
		(void)snprintf(path->why, sizeof(path->why), "only %u of them carried anything",
			       path->connections);
	return ret;
}

static int wire_path(struct fm_run *run, const struct fm_wire_opts *o, enum fm_bench_op op,
		     bool is_latency, const char *from, const struct fm_bench_only *only,
		     struct fm_err *err)
{
	struct fm_bench_path *path = fm_bench_add(run->bench, o->kind, op, o->peer);
	uint64_t before = throttled();
	struct fm_rails was, is;
	struct fm_tcp_watch watch;
	int ret;

	if (!path)
		return no_room(err);
	if (only)
		path->only = *only;
	if (from)
		(void)snprintf(path->from, sizeof(path->from), "%s", from);
	if (is_latency)
		(void)snprintf(path->here.why, sizeof(path->here.why), "not measured of a latency");
	if (is_latency)
		path->there = path->here;
	fm_tcp_watch_begin(&watch);
	ret = fm_rails_read(o->conn, o->peer, &was, err);
	if (ret == 0)
		ret = is_latency ? fm_wire_latency(o, path, err) : fm_wire_measure(o, path, err);
	if (ret == 0)
		ret = fm_rails_read(o->conn, o->peer, &is, err);
	if (ret == 0)
		fm_rails_growth(&was, &is, path);
	if (ret == 0 && only)
		ret = prove(path, err);
	fm_tcp_watch_end(&watch, path);
	path->is_throttled = throttled() != before;
	return failed(run, path, ret, err);
}

static bool has_last_failed(const struct fm_run *run)
{
	return run->bench->paths[run->bench->path_count - 1].invalid & FM_BENCH_FAILED;
}

/* One transport: both directions, alone and at once, then latency. One that does not work is told
 * once. */
static int measure_transport(struct fm_run *run, const struct fm_wire_opts *o, struct fm_err *err)
{
	static const enum fm_bench_op ops[] = {FM_BENCH_SEND, FM_BENCH_RECEIVE, FM_BENCH_BOTH};
	int ret = 0;

	o->sizes[0] = o->sizes[1] = 0; /* of another transport */

	for (size_t i = 0; ret == 0 && i < sizeof(ops) / sizeof(ops[0]); i++) {
		ret = wire_path(run, o, ops[i], false, NULL, NULL, err);
		if (ret == 0 && has_last_failed(run))
			return 0;
	}
	if (ret < 0 || run->is_brief)
		return ret;
	return wire_path(run, o, FM_BENCH_SEND, true, NULL, NULL, err);
}

/* Some of its connections alone, in both directions. One that does not work is told once. */
static int measure_part(struct fm_run *run, const struct fm_wire_opts *o,
			const struct fm_bench_only *only, struct fm_err *err)
{
	const struct fmove_only names = {.struct_size = sizeof(names),
					 .device = only->device[0] ? only->device : NULL,
					 .local = only->local[0] ? only->local : NULL,
					 .remote = only->remote[0] ? only->remote : NULL,
					 .connections = only->connections};
	struct fm_wire_opts part = *o;
	int ret;

	part.only = &names;
	part.sizes[0] = part.sizes[1] = 0; /* of more, or other, connections */
	ret = wire_path(run, &part, FM_BENCH_SEND, false, NULL, only, err);
	if (ret < 0 || has_last_failed(run))
		return ret;
	return wire_path(run, &part, FM_BENCH_RECEIVE, false, NULL, only, err);
}

static bool is_asked(const struct fm_rails_wanted *w)
{
	return w->device || w->rail || w->connections > 0;
}

/* All together and each alone; or what was asked for. */
static int measure_wire(struct fm_run *run, const struct fm_wire_opts *o, struct fm_err *err)
{
	struct fm_bench_only parts[FM_RAILS_SINGLES_MAX];
	bool is_rdma = o->kind == FM_BENCH_RDMA;
	struct fm_rails rails;
	size_t count;
	int ret = is_asked(&run->only) ? 0 : measure_transport(run, o, err);

	if (ret < 0 || (!is_asked(&run->only) && (run->is_brief || has_last_failed(run))))
		return ret;
	ret = fm_rails_read(o->conn, o->peer, &rails, err);
	count = ret < 0 || is_asked(&run->only) ? 0 : fm_rails_singles(&rails, is_rdma, parts);
	if (ret == 0 && is_asked(&run->only)) {
		ret = fm_rails_pick(&rails, is_rdma, &run->only, &parts[0], err);
		count = ret == 0;
	}
	if (ret < 0)
		return refused(run, o->kind, FM_BENCH_SEND, o->peer, false, ret, err);
	/* A peer that hangs is waited for once. */
	for (size_t i = 0; ret == 0 && i < count && run->first_error != -ETIMEDOUT; i++)
		ret = measure_part(run, o, &parts[i], err);
	return ret;
}

/* From a file of ours, as production would. */
static int measure_put(struct fm_run *run, struct fm_wire_opts *o, const char *dir,
		       struct fm_err *err)
{
	struct fm_scratch s;
	int ret = fm_scratch_open(dir, run->file_bytes, false, &s, err);

	if (ret == 0)
		ret = fill(&s, err);
	if (ret < 0) {
		ret = refused(run, FM_BENCH_PUT, FM_BENCH_SEND, o->peer, false, ret, err);
	} else {
		o->fd = s.fd;
		o->file_bytes = s.size;
		ret = wire_path(run, o, FM_BENCH_SEND, false, dir, NULL, err);
		if (ret == 0)
			run->bench->paths[run->bench->path_count - 1].is_cached = s.is_cached;
		o->fd = 0;
	}
	fm_scratch_close(&s);
	return ret;
}

static int measure_peer(struct fm_run *run, const char *peer, struct fm_err *err)
{
	uint64_t sizes[2] = {0, 0};
	struct fm_wire_opts o = {.conn = run->conn,
				 .peer = peer,
				 .sizes = sizes,
				 .transport = run->transport,
				 .seconds = run->seconds,
				 .repeats = run->repeats,
				 .step = step,
				 .ctx = run};
	int ret = fm_wire_may(run->conn, peer, err);

	if (ret < 0) {
		o.kind = run->wants[FM_BENCH_RDMA]  ? FM_BENCH_RDMA
			 : run->wants[FM_BENCH_TCP] ? FM_BENCH_TCP
						    : FM_BENCH_PUT;
		return refused(run, o.kind, FM_BENCH_SEND, peer, false, ret, err);
	}
	for (o.kind = FM_BENCH_RDMA; ret == 0 && o.kind <= FM_BENCH_TCP; o.kind++)
		if (run->wants[o.kind])
			ret = measure_wire(run, &o, err);
	o.kind = FM_BENCH_PUT;
	if (ret == 0 && run->wants[FM_BENCH_PUT] && run->dir_count == 0)
		ret = measure_transport(run, &o, err);
	for (size_t i = 0; ret == 0 && run->wants[FM_BENCH_PUT] && i < run->dir_count; i++)
		ret = measure_put(run, &o, run->dirs[i], err);
	return ret;
}

int fm_run_all(struct fm_run *run, struct fm_err *err)
{
	enum fm_bench_kind kind = run->wants[FM_BENCH_DISK] ? FM_BENCH_DISK : FM_BENCH_NVME_TCP;
	int ret = 0;

	if (run->wants[FM_BENCH_DISK] || run->wants[FM_BENCH_NVME_TCP])
		for (size_t i = 0; ret == 0 && i < run->dir_count; i++)
			ret = measure_dir(run, kind, run->dirs[i], err);
	if (ret == 0 && run->device)
		ret = measure_device(run, err);
	for (size_t i = 0; ret == 0 && i < run->peer_count; i++)
		ret = measure_peer(run, run->peers[i], err);
	step_end(run);
	return ret;
}
