/* SPDX-License-Identifier: MIT */
/*
 * rdma_mem - what memory hangs from: devices, a session's protection domains on them, the regions
 * lent to a connection, or to all of a session's on one device.
 *
 * Devices are opened by us, not taken from librdmacm: its contexts go away with the last id bound
 * to them, while a domain has to outlive its connections. The kernel does not mind a queue pair of
 * one context under an id of another.
 *
 * ibv_fork_init() is not called: nothing here forks without exec at once (vfork or posix_spawn), so
 * no page is ever copied on write under a region, and the call would cost a madvise() per
 * registration on kernels before 5.12.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/transport/rdma_priv.h"

#define MIB (1u << 20)

/* ---- devices ---- */

static void device_close(struct rdma_device *device)
{
	fm_watch_del(device->rdma->loop, &device->async);
	fm_list_del(&device->link);
	if (ibv_close_device(device->verbs))
		fm_log_error("rdma: close a device: %s", fm_err_name(errno));
	pthread_mutex_destroy(&device->lock);
	free(device);
}

/* The connection's thread finds it there when the flushed requests reach it, and has a better
 * reason than "flushed". */
static void device_note_qp(const struct ibv_async_event *event)
{
	struct rdma_conn *c = event->element.qp->qp_context;

	/* c is alive: ibv_destroy_qp() waits until this event is acknowledged. */
	atomic_store(&c->async_event, (int)event->event_type);
}

static void device_dispatch(struct rdma_device *device, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		device_note_qp(event);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		fm_log_warn("rdma: %s failed or was removed",
			    ibv_get_device_name(device->verbs->device));
		device->is_dead = true;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		fm_log_info("rdma: %s port %d: %s", ibv_get_device_name(device->verbs->device),
			    event->element.port_num, ibv_event_type_str(event->event_type));
		break;
	default:
		fm_log_debug("rdma: %s: %s", ibv_get_device_name(device->verbs->device),
			     ibv_event_type_str(event->event_type));
		break;
	}
}

static void device_async_ready(struct fm_watch *watch, uint32_t events)
{
	struct rdma_device *device = fm_container_of(watch, struct rdma_device, async);
	struct ibv_async_event event;

	(void)events;
	while (ibv_get_async_event(device->verbs, &event) == 0) {
		device_dispatch(device, &event);
		ibv_ack_async_event(&event);
	}
	/* unplugged: the descriptor would stay readable for ever */
	if (errno != EAGAIN && errno != EINTR) {
		device->is_dead = true;
		fm_watch_del(device->rdma->loop, &device->async);
	}
}

int fm_rdma_set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* The library's errno is not the one of the open that failed, and rights are what is usually
 * missing: ask again. */
static int device_explain(struct ibv_device *dev, int error, struct fm_err *err)
{
	char path[IBV_SYSFS_PATH_MAX];

	snprintf(path, sizeof(path), "/dev/infiniband/%s", dev->dev_name);
	if (access(path, R_OK | W_OK) < 0 && errno == EACCES)
		return fm_err_set(
			err, -EACCES,
			"RDMA device %s: permission denied for %s: it must be readable and "
			"writable for the service's user (0666 by rdma-core's udev rules)",
			ibv_get_device_name(dev), path);
	return fm_err_sys(err, error ? -error : -EIO, "open RDMA device %s (%s)",
			  ibv_get_device_name(dev), path);
}

static int device_open(struct fm_rdma *rdma, struct ibv_device *dev, struct rdma_device **out,
		       struct fm_err *err)
{
	struct rdma_device *device;
	int ret;

	if (rdma->device_count == RDMA_DEVICES_MAX)
		return fm_err_set(err, -ENOSPC, "more than %d RDMA devices", RDMA_DEVICES_MAX);
	device = FM_FAULT("rdma.device_alloc") ? NULL : calloc(1, sizeof(*device));
	if (!device)
		return fm_err_set(err, -ENOMEM, "allocate RDMA device");
	device->rdma = rdma;
	fm_list_init(&device->link);
	fm_list_init(&device->qps);
	pthread_mutex_init(&device->lock, NULL);
	device->verbs = FM_FAULT("rdma.device_open") ? NULL : ibv_open_device(dev);
	if (!device->verbs) {
		ret = device_explain(dev, errno, err);
		goto free_device;
	}
	ret = fm_rdma_set_nonblocking(device->verbs->async_fd);
	if (ret < 0) {
		fm_err_sys(err, ret, "events of RDMA device %s", ibv_get_device_name(dev));
		goto close_verbs;
	}
	device->async.ready = device_async_ready;
	device->async.fd = device->verbs->async_fd;
	device->async.events = EPOLLIN;
	ret = fm_watch_add(rdma->loop, &device->async, err);
	if (ret < 0)
		goto close_verbs;
	fm_list_append(&rdma->devices, &device->link);
	rdma->device_count++;
	*out = device;
	return 0;

close_verbs:
	ibv_close_device(device->verbs);
free_device:
	pthread_mutex_destroy(&device->lock);
	free(device);
	return ret;
}

/* Why ibv_get_device_list() is empty. */
static int explain_no_device(struct fm_err *err)
{
	DIR *dir = opendir("/sys/class/infiniband");
	const struct dirent *entry;
	bool has_device = false;

	while (dir && !has_device && (entry = readdir(dir)))
		has_device = entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	if (!has_device)
		return fm_err_set(err, -ENODEV,
				  "no RDMA device (nothing in /sys/class/infiniband)");
	return fm_err_set(err, -ENODEV, "no verbs: load the kernel module ib_uverbs");
}

int fm_rdma_devices_open(struct fm_rdma *rdma, struct fm_err *err)
{
	struct rdma_device *device;
	struct ibv_device **list;
	int count = 0;

	list = FM_FAULT("rdma.device_list") ? NULL : ibv_get_device_list(&count);
	if (!list || count == 0) {
		if (list)
			ibv_free_device_list(list);
		return explain_no_device(err);
	}
	for (int i = 0; i < count; i++)
		/* one is enough; else err is that of the last */
		(void)device_open(rdma, list[i], &device, err);
	ibv_free_device_list(list);
	if (rdma->device_count == 0) {
		if (err)
			/* what a caller checks; the text has the real reason */
			err->code = -ENODEV;
		return -ENODEV;
	}
	fm_err_clear(err);
	return 0;
}

void fm_rdma_devices_close(struct fm_rdma *rdma)
{
	fm_list_each(at, next, &rdma->devices)
		device_close(fm_container_of(at, struct rdma_device, link));
	rdma->device_count = 0;
}

/* ---- devices that go ---- */

/* Their requests are flushed; each connection's thread finds out why. */
static void device_break(struct rdma_device *device)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	pthread_mutex_lock(&device->lock);
	fm_list_each(at, next, &device->qps)
		/* dead already, else */
		(void)ibv_modify_qp(fm_container_of(at, struct rdma_conn, device_at)->qp, &attr,
				    IBV_QP_STATE);
	pthread_mutex_unlock(&device->lock);
}

static void pd_unref(struct rdma_pd *pd)
{
	int ret;

	if (atomic_fetch_sub(&pd->refs, 1) > 1)
		return;
	ret = ibv_dealloc_pd(pd->pd);
	if (ret && !pd->device->is_dead)
		fm_log_error("rdma: free a protection domain: %s", fm_err_name(ret));
	free(pd);
}

static void device_drop_pds(struct rdma_device *device)
{
	fm_list_each(at, next, &device->rdma->domains) {
		struct fm_rdma_domain *domain = fm_container_of(at, struct fm_rdma_domain, link);

		fm_list_each(pd_at, pd_next, &domain->pds) {
			struct rdma_pd *pd = fm_container_of(pd_at, struct rdma_pd, link);

			if (pd->device != device)
				continue;
			fm_list_del(&pd->link);
			pd_unref(pd);
		}
	}
}

/*
 * librdmacm has opened the device too. A device whose driver cannot take its users away (rxe) is
 * removed when the last one has closed it, and who removes it waits. It was seen that librdmacm has
 * closed one that is gone once it was asked for the list of all devices, if there is another one.
 * The only device of a machine stayed open until we ended; why is not known.
 */
static void cm_let_go(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	if (list)
		rdma_free_devices(list);
}

static void device_look(struct rdma_device *device)
{
	if (!device->is_dead && access(device->verbs->device->dev_path, F_OK) < 0 &&
	    errno == ENOENT) {
		fm_log_warn("rdma: %s is being removed",
			    ibv_get_device_name(device->verbs->device));
		device->is_dead = true;
	}
	if (!device->is_dead)
		return;
	device_break(device);
	if (atomic_load(&device->users) > 0)
		return;
	device_drop_pds(device);
	device->rdma->device_count--;
	device_close(device);
	cm_let_go();
}

void fm_rdma_devices_look(struct fm_rdma *rdma)
{
	fm_list_each(at, next, &rdma->devices)
		device_look(fm_container_of(at, struct rdma_device, link));
}

static int device_open_late(struct fm_rdma *rdma, const char *name, struct rdma_device **out,
			    struct fm_err *err)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int ret = -ENODEV;

	for (struct ibv_device **at = list; at && *at; at++) {
		if (strcmp(ibv_get_device_name(*at), name) != 0)
			continue;
		ret = device_open(rdma, *at, out, err);
		goto free_list;
	}
	fm_err_set(err, ret, "RDMA device %s is gone", name);
free_list:
	if (list)
		ibv_free_device_list(list);
	return ret;
}

int fm_rdma_device_get(struct fm_rdma *rdma, const char *name, struct rdma_device **out,
		       struct fm_err *err)
{
	fm_list_each(at, next, &rdma->devices) {
		struct rdma_device *device = fm_container_of(at, struct rdma_device, link);

		if (!device->is_dead &&
		    strcmp(ibv_get_device_name(device->verbs->device), name) == 0) {
			*out = device;
			return 0;
		}
	}
	return device_open_late(rdma, name, out, err);
}

/* sysfs says it in one number, "200 Gb/sec (4X HDR)"; verbs in two codes, to which new ones are
 * added. */
uint32_t fm_rdma_port_speed(const char *device, unsigned port)
{
	char path[160], text[64];
	double gbps = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/rate", device, port);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fgets(text, sizeof(text), f))
		gbps = strtod(text, NULL);
	fclose(f);
	return gbps > 0 && gbps < 1e6 ? (uint32_t)(gbps * 1000) : 0;
}

/* ---- domains ---- */

int fm_rdma_domain_new(struct fm_rdma *rdma, struct fm_rdma_domain **out)
{
	struct fm_rdma_domain *domain =
		FM_FAULT("rdma.domain_alloc") ? NULL : calloc(1, sizeof(*domain));

	if (!domain)
		return -ENOMEM;
	domain->rdma = rdma;
	fm_list_init(&domain->pds);
	fm_list_append(&rdma->domains, &domain->link);
	rdma->domain_count++;
	*out = domain;
	return 0;
}

void fm_rdma_domain_free(struct fm_rdma_domain *domain)
{
	if (!domain)
		return;
	fm_list_each(at, next, &domain->pds) {
		fm_list_del(at);
		pd_unref(fm_container_of(at, struct rdma_pd, link));
	}
	assert(domain->rdma->domain_count > 0);
	fm_list_del(&domain->link);
	domain->rdma->domain_count--;
	free(domain);
}

int fm_rdma_domain_pd(struct fm_rdma_domain *domain, struct rdma_device *device,
		      struct rdma_pd **out, struct fm_err *err)
{
	struct rdma_pd *pd;
	int ret;

	fm_list_each(at, next, &domain->pds) {
		pd = fm_container_of(at, struct rdma_pd, link);
		if (pd->device == device) {
			*out = pd;
			return 0;
		}
	}
	pd = FM_FAULT("rdma.pd_struct") ? NULL : calloc(1, sizeof(*pd));
	if (!pd)
		return fm_err_set(err, -ENOMEM, "allocate protection domain");
	pd->lender.ops = &fm_rdma_lender_ops;
	atomic_init(&pd->refs, 1);
	pd->device = device;
	pd->pd = FM_FAULT("rdma.pd") ? (errno = ENOMEM, NULL) : ibv_alloc_pd(device->verbs);
	if (!pd->pd) {
		ret = fm_err_sys(err, -errno, "allocate protection domain on %s",
				 ibv_get_device_name(device->verbs->device));
		free(pd);
		return ret;
	}
	fm_list_append(&domain->pds, &pd->link);
	*out = pd;
	return 0;
}

/* ---- regions ---- */

static int explain_memlock(const struct rdma_device *device, size_t len, int code,
			   struct fm_err *err)
{
	unsigned long long now = atomic_load(&device->rdma->bytes_registered);
	const char *name = ibv_get_device_name(device->verbs->device);
	unsigned long long need = (now + len + MIB - 1) / MIB;
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return fm_err_sys(err, code, "register %zu MiB with %s (%llu MiB are registered)",
				  len / MIB, name, now / MIB);
	return fm_err_sys(err, code,
			  "register %zu MiB with %s: RLIMIT_MEMLOCK is %llu KiB, at least %llu MiB "
			  "are needed",
			  len / MIB, name, (unsigned long long)limit.rlim_cur / 1024, need);
}

static int explain_reg(const struct rdma_device *device, size_t len, int code, struct fm_err *err)
{
	if (code == -ENOMEM || code == -EAGAIN)
		return explain_memlock(device, len, code, err);
	return fm_err_sys(err, code, "register %zu MiB with %s", len / MIB,
			  ibv_get_device_name(device->verbs->device));
}

int fm_rdma_lend(struct rdma_conn *c, void *memory, size_t len, bool is_rx, struct fm_region *out,
		 struct fm_err *err)
{
	/* Relaxed ordering is safe since nobody polls memory: a completion makes all data before it
	 * visible. */
	unsigned access = is_rx ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					  IBV_ACCESS_RELAXED_ORDERING
				: IBV_ACCESS_RELAXED_ORDERING;
	struct rdma_region *region;
	int ret;

	assert(memory && len > 0);
	region = FM_FAULT("rdma.region_alloc") ? NULL : calloc(1, sizeof(*region));
	if (!region)
		return fm_err_set(err, -ENOMEM, "allocate region");
	region->mr = FM_FAULT("rdma.reg_mr") ? (errno = ENOMEM, NULL)
					     : ibv_reg_mr(c->pd, memory, len, access);
	if (!region->mr) {
		ret = -errno;
		free(region);
		return explain_reg(c->device, len, ret, err);
	}
	region->is_rx = is_rx;
	fm_list_append(&c->regions, &region->link);
	atomic_fetch_add(&c->rdma->bytes_registered, len);
	*out = (struct fm_region){
		.memory = memory,
		.len = len,
		.remote = (uintptr_t)memory,
		.rkey = region->mr->rkey,
		.lkey = region->mr->lkey,
		.handle = region,
	};
	return 0;
}

void fm_rdma_take_back(struct rdma_conn *c, struct rdma_region *region)
{
	size_t len = region->mr->length;
	int ret = ibv_dereg_mr(region->mr);

	if (ret && !c->device->is_dead)
		fm_log_error("rdma: %s: deregister %zu MiB: %s", c->info.local, len / MIB,
			     fm_err_name(ret));
	atomic_fetch_sub(&c->rdma->bytes_registered, len);
	fm_list_del(&region->link);
	free(region);
}

/* ---- what is lent to all connections of a domain on one device ---- */

static struct rdma_pd *pd_of(const struct fm_lender *lender)
{
	return fm_container_of(lender, struct rdma_pd, lender);
}

struct fm_lender *fm_rdma_lender(struct rdma_pd *pd)
{
	atomic_fetch_add(&pd->refs, 1);
	atomic_fetch_add(&pd->device->users, 1);
	atomic_fetch_add(&pd->device->rdma->lenders, 1);
	return &pd->lender;
}

/* No access but the card's own reading, so there is no key for anybody else. */
static int lender_lend(struct fm_lender *lender, const void *memory, size_t len,
		       struct fm_region *out, struct fm_err *err)
{
	struct rdma_pd *pd = pd_of(lender);
	/* verbs has no const: nothing is written there */
	void *at = (void *)(uintptr_t)memory;
	struct ibv_mr *mr;

	assert(memory && len > 0);
	mr = FM_FAULT("rdma.reg_lent") ? (errno = ENOMEM, NULL)
				       : ibv_reg_mr(pd->pd, at, len, IBV_ACCESS_RELAXED_ORDERING);
	if (!mr)
		return explain_reg(pd->device, len, -errno, err);
	atomic_fetch_add(&pd->device->rdma->bytes_registered, len);
	*out = (struct fm_region){ .memory = at, .len = len, .lkey = mr->lkey, .handle = mr };
	return 0;
}

static void lender_take_back(struct fm_lender *lender, struct fm_region *region)
{
	struct rdma_device *device = pd_of(lender)->device;
	int ret = ibv_dereg_mr(region->handle);

	if (ret && !device->is_dead)
		fm_log_error("rdma: %s: deregister %zu MiB: %s",
			     ibv_get_device_name(device->verbs->device), region->len / MIB,
			     fm_err_name(ret));
	atomic_fetch_sub(&device->rdma->bytes_registered, region->len);
	region->handle = NULL;
}

static const char *lender_name(const struct fm_lender *lender)
{
	return ibv_get_device_name(pd_of(lender)->device->verbs->device);
}

static void lender_put(struct fm_lender *lender)
{
	struct rdma_pd *pd = pd_of(lender);
	struct rdma_device *device = pd->device;
	struct fm_rdma *rdma = device->rdma;

	pd_unref(pd);
	atomic_fetch_sub(&device->users, 1);	/* from now on it may be closed */
	atomic_fetch_sub(&rdma->lenders, 1);
}

const struct fm_lender_ops fm_rdma_lender_ops = {
	.lend = lender_lend,
	.take_back = lender_take_back,
	.name = lender_name,
	.put = lender_put,
};
