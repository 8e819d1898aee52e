/* SPDX-License-Identifier: MIT */
/* libnvme - see libnvme.h. */
#include <assert.h>
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <libnvme.h>

#include "mover/base/err.h"
#include "nvmetcp/libnvme.h"

/* of one command; a helper's deadline is longer, so that it can clean up */
#define TIMEOUT_MS 5000
#define TRIES_MAX 5		/* the log may change while it is read */
#define PAGE_BYTES 4096u	/* of one transfer: every controller takes that */

const char *fm_libnvme_built(void)
{
	return FM_LIBNVME_VERSION;
}

const char *fm_libnvme_loaded(void)
{
	return nvme_get_version(NVME_VERSION_PROJECT);
}

int fm_libnvme_check(struct fm_err *err)
{
	const char *loaded = fm_libnvme_loaded();

	if (strcmp(loaded, FM_LIBNVME_VERSION) != 0)
		return fm_err_set(err, -ENOTSUP,
				  "libnvme %s is loaded, this was built against %s: the two "
				  "differ: build anew",
				  loaded, FM_LIBNVME_VERSION);
	return 0;
}

static int read_part(int fd, uint64_t offset, void *to, uint32_t len, struct fm_err *err)
{
	struct nvme_get_log_args args = {
		.lpo = offset,
		.log = to,
		.args_size = sizeof(args),
		.fd = fd,
		.timeout = TIMEOUT_MS,
		.lid = NVME_LOG_LID_DISCOVER,
		.len = len,
		.nsid = NVME_NSID_NONE,
		.csi = NVME_CSI_NVM,
		.lsi = NVME_LOG_LSI_NONE,
		.lsp = NVME_LOG_LSP_NONE,
		.uuidx = NVME_UUID_NONE,
	};
	int ret = nvme_get_log(&args);

	if (ret < 0)
		return fm_err_sys(err, errno ? -errno : -EIO, "read the discovery log");
	if (ret > 0)
		return fm_err_set(err, -EIO,
				  "the target refused to show its discovery log: NVMe status 0x%x",
				  (unsigned)ret);
	return 0;
}

/* A fixed array of the wire as text: no NUL need be in it, blanks may pad it. Whether it has a text
 * that can be shown. */
static bool copy_text(char *to, size_t room, const char *from, size_t len)
{
	len = strnlen(from, len);
	while (len > 0 && from[len - 1] == ' ')
		len--;
	if (len == 0 || len >= room)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)from[i]))
			return false;
	memcpy(to, from, len);
	to[len] = '\0';
	return true;
}

static bool take_entry(const struct nvmf_disc_log_entry *e, struct fm_discovered *out)
{
	if (e->trtype != NVMF_TRTYPE_TCP || e->subtype != NVME_NQN_NVME)
		return false;
	if (e->adrfam != NVMF_ADDR_FAMILY_IP4 && e->adrfam != NVMF_ADDR_FAMILY_IP6)
		return false;
	out->is_ipv6 = e->adrfam == NVMF_ADDR_FAMILY_IP6;
	out->wants_secure = (e->treq & 3) == NVMF_TREQ_REQUIRED;
	return copy_text(out->subsystem, sizeof(out->subsystem), e->subnqn, sizeof(e->subnqn)) &&
	       copy_text(out->address, sizeof(out->address), e->traddr, sizeof(e->traddr)) &&
	       copy_text(out->port, sizeof(out->port), e->trsvcid, sizeof(e->trsvcid));
}

static void take_entries(const struct nvmf_disc_log_entry *entries, unsigned count,
			 struct fm_discovery *out)
{
	for (unsigned i = 0; i < count; i++) {
		if (take_entry(&entries[i], &out->entry[out->count]))
			out->count++;
		else
			out->left_out++;
	}
}

/* Reads the log once. *changed: it changed meanwhile, so the pages do not belong together. */
static int read_log(int fd, void *page, struct fm_discovery *out, bool *changed, struct fm_err *err)
{
	const unsigned per_page = PAGE_BYTES / sizeof(struct nvmf_disc_log_entry);
	struct nvmf_discovery_log *head = page;
	uint64_t generation, count;
	int ret = read_part(fd, 0, page, sizeof(*head), err);

	if (ret < 0)
		return ret;
	generation = le64toh(head->genctr);
	count = le64toh(head->numrec);
	*out = (struct fm_discovery){ .is_cut = count > FM_LIBNVME_ENTRIES_MAX };
	if (out->is_cut)
		count = FM_LIBNVME_ENTRIES_MAX;
	for (uint64_t i = 0; i < count; i += per_page) {
		unsigned n = count - i < per_page ? (unsigned)(count - i) : per_page;

		ret = read_part(fd, sizeof(*head) + i * sizeof(struct nvmf_disc_log_entry), page,
				n * (uint32_t)sizeof(struct nvmf_disc_log_entry), err);
		if (ret < 0)
			return ret;
		take_entries(page, n, out);
	}
	ret = read_part(fd, 0, page, sizeof(*head), err);
	*changed = le64toh(head->genctr) != generation;
	return ret;
}

int fm_libnvme_discover(int fd, struct fm_discovery *out, struct fm_err *err)
{
	void *page = aligned_alloc(PAGE_BYTES, PAGE_BYTES);
	bool changed = true;
	int ret = 0;

	_Static_assert(sizeof(struct nvmf_disc_log_entry) == 1024, "an entry is 1 KiB on the wire");
	_Static_assert(sizeof(struct nvmf_discovery_log) == 1024, "the head is 1 KiB on the wire");
	assert(out);
	if (!page)
		return fm_err_set(err, -ENOMEM, "no memory for the discovery log");
	for (unsigned i = 0; i < TRIES_MAX && ret == 0 && changed; i++)
		ret = read_log(fd, page, out, &changed, err);
	free(page);
	if (ret == 0 && changed)
		ret = fm_err_set(err, -EAGAIN,
				 "the discovery log changed each time it was read: try again");
	return ret;
}
