/* SPDX-License-Identifier: MIT */
/* reservation - see reservation.h. NVM Express Base Specification 2.0, "Reservations". */
#include "nvmetcp/reservation.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/nvme_ioctl.h>
#include <linux/pr.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>

#include "mover/base/err.h"
#include "nvmetcp/nvme_command.h"

#define RESERVATION_REGISTER 0x0d
#define RESERVATION_REPORT 0x0e
#define UNREGISTER 1			/* an action of the first */
#define EXTENDED 1			/* the second tells host ids whole */
#define REPORT_BYTES 4096
#define RESCAP 31			/* of Identify Namespace: what the namespace offers of it */
#define RESCAP_WRITE_EXCLUSIVE 0x02

/* enum pr_status of linux/pr.h since 6.3; a failed path is one of the bits above. */
#define PR_CONFLICT 0x18
#define PR_PATH_FAILED 0xff0000

#define NVME_DO_NOT_RETRY 0x4000

/* ---- what the kernel says ---- */

enum fm_reservation_status fm_reservation_status(int ret)
{
	int nvme = ret & FM_NVME_STATUS_MASK;

	if (ret == 0)
		return FM_RESERVATION_OK;
	if (ret == -EOPNOTSUPP || ret == -ENOTTY || ret == -EINVAL)
		return FM_RESERVATION_NOT_OFFERED;
	if (ret < 0)
		return ret == -EAGAIN ? FM_RESERVATION_NO_PATH : FM_RESERVATION_FAILED;
	if (ret == PR_CONFLICT || nvme == FM_NVME_RESERVATION_CONFLICT)
		return FM_RESERVATION_CONFLICT;
	if ((ret & PR_PATH_FAILED) || FM_NVME_IS_PATH_ERROR(nvme))
		return FM_RESERVATION_NO_PATH;
	/* An invalid field of NVMe and an I/O error of the block layer have the same number, but
	 * for a bit. */
	if (nvme == FM_NVME_INVALID_OPCODE ||
	    (nvme == FM_NVME_INVALID_FIELD && (ret & NVME_DO_NOT_RETRY)))
		return FM_RESERVATION_NOT_OFFERED;
	return FM_RESERVATION_FAILED;
}

static int call(int fd, unsigned long request, void *arg)
{
	int ret = ioctl(fd, request, arg);

	return ret < 0 ? -errno : ret;
}

static int fail(int ret, const char *what, struct fm_err *err)
{
	if (fm_reservation_status(ret) == FM_RESERVATION_NO_PATH)
		return fm_err_set(err, -EAGAIN, "%s: the target was not reached", what);
	return ret < 0 ? fm_err_sys(err, ret, "%s", what)
		       : fm_err_set(err, -EIO, "%s: the device answers 0x%x", what, (unsigned)ret);
}

/* ---- the steps ---- */

/*
 * Whether the namespace offers reservations. For a device that is not NVMe nobody can say
 * beforehand: its first command tells.
 */
static int is_offered(int fd, struct fm_err *err)
{
	int ret =
		fm_nvme_offers(fd, FM_NVME_IDENTIFY_NAMESPACE, RESCAP, RESCAP_WRITE_EXCLUSIVE, err);

	return ret == -ENOTTY ? 1 : ret;
}

/* A host that is known by another key, which it had before, has that one replaced. */
static int enroll(int fd, uint64_t key)
{
	struct pr_registration r = { .new_key = key, .flags = PR_FL_IGNORE_KEY };
	int ret = call(fd, IOC_PR_REGISTER, &r);

	if (fm_reservation_status(ret) != FM_RESERVATION_CONFLICT)
		return ret;
	r.old_key = key;
	return call(fd, IOC_PR_REGISTER, &r);
}

/* The kernel would have NVMe replace the key by 0, which leaves the host known. */
static int leave(int fd, uint64_t key)
{
	struct pr_registration r = { .old_key = key };
	uint64_t keys[2] = { htole64(key) };	/* the present one; the new one is none */
	struct nvme_passthru_cmd cmd = {.opcode = RESERVATION_REGISTER,
					.cdw10 = UNREGISTER,
					.addr = (uintptr_t)keys,
					.data_len = sizeof(keys)};
	int status, ret = fm_nvme_command(fd, false, &cmd, "unregister", &status, NULL);

	if (ret == -ENOTTY)
		return call(fd, IOC_PR_REGISTER, &r);
	return ret < 0 && status ? status : ret;
}

/* ---- who has it ---- */

/* Of the extended data structure. */
enum { HEADER = 64, ENTRY = 64, COUNT = 5, STATUS = 2, HAS_IT = 0x01, KEY = 8, HOST_ID = 16 };

static size_t count_of(const uint8_t *report, size_t len)
{
	return len >= HEADER ? report[COUNT] | (size_t)report[COUNT + 1] << 8 : 0;
}

/* NULL: it is not there, or cut. */
static const uint8_t *entry_of(const uint8_t *report, size_t len, size_t i)
{
	return i < count_of(report, len) && HEADER + (i + 1) * ENTRY <= len
		       ? report + HEADER + i * ENTRY
		       : NULL;
}

static void write_host(const uint8_t *entry, char out[static FM_RESERVATION_HOLDER_MAX])
{
	for (unsigned b = 0; b < 16; b++)
		out += sprintf(out, "%s%02x", b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "",
			       entry[HOST_ID + b]);
}

bool fm_reservation_holder(const uint8_t *report, size_t len,
			   char out[static FM_RESERVATION_HOLDER_MAX])
{
	const uint8_t *entry;

	out[0] = '\0';
	for (size_t i = 0; (entry = entry_of(report, len, i)); i++)
		if (entry[STATUS] & HAS_IT) {
			write_host(entry, out);
			return true;
		}
	return false;
}

/* By its key, and by its id where the target says one. */
static bool is_host(const uint8_t *entry, uint64_t key, const char *host_id)
{
	static const uint8_t none[16];
	char id[FM_RESERVATION_HOLDER_MAX];
	uint64_t its;

	memcpy(&its, entry + KEY, sizeof(its));
	write_host(entry, id);
	return le64toh(its) == key &&
	       (memcmp(entry + HOST_ID, none, sizeof(none)) == 0 || strcasecmp(id, host_id) == 0);
}

/* A host that is known is so with each of its controllers. */
static bool is_alone(const uint8_t *report, size_t len, uint64_t key, const char *host_id)
{
	const uint8_t *entry;
	size_t i;

	for (i = 0; (entry = entry_of(report, len, i)); i++)
		if (!is_host(entry, key, host_id))
			return false;
	return i > 0 && i == count_of(report, len);
}

/*
 * The target counts each time that a host makes itself known or unknown, and begins at 0 when it
 * has forgotten them. That this host made itself known, and got no further, is no other host.
 */
bool fm_reservation_tells_missed(const uint8_t *report, size_t len, uint64_t key,
				 const char *host_id)
{
	char holder[FM_RESERVATION_HOLDER_MAX];
	uint32_t generation;

	if (len < HEADER || fm_reservation_holder(report, len, holder))
		return false;
	memcpy(&generation, report, sizeof(generation));
	return le32toh(generation) > is_alone(report, len, key, host_id);
}

/* status: as of fm_nvme_command(). */
static int read_report(int fd, uint8_t report[static REPORT_BYTES], int *status, struct fm_err *err)
{
	struct nvme_passthru_cmd cmd = {.opcode = RESERVATION_REPORT,
					.cdw10 = REPORT_BYTES / 4 - 1,
					.cdw11 = EXTENDED,
					.addr = (uintptr_t)report,
					.data_len = REPORT_BYTES};

	memset(report, 0, REPORT_BYTES);
	return fm_nvme_command(fd, false, &cmd, "ask who has it reserved", status, err);
}

/* -EBADE: of another host. */
static int refuse(int fd, struct fm_err *err)
{
	char holder[FM_RESERVATION_HOLDER_MAX] = "";
	uint8_t report[REPORT_BYTES];

	if (read_report(fd, report, NULL, NULL) == 0)
		(void)fm_reservation_holder(report, sizeof(report), holder);
	return fm_err_set(err, -EBADE,
			  "the target keeps it reserved for another host%s%s: unmount it there "
			  "(fmove nvme down); should "
			  "that host be gone for good, see RESERVATIONS in fmove-nvme(1)",
			  holder[0] ? ", host id " : "", holder);
}

/* ---- public ---- */

/* A target that refuses the command does not tell. One that was not reached is to be asked again:
 * what it counts says nothing any more once this host has the reservation. */
int fm_reservation_is_missed(int fd, uint64_t key, const char *host_id, struct fm_err *err)
{
	uint8_t report[REPORT_BYTES];
	int status, ret = read_report(fd, report, &status, err);

	if (ret == 0)
		return fm_reservation_tells_missed(report, sizeof(report), key, host_id);
	switch (fm_reservation_status(status ? status : ret)) {
	case FM_RESERVATION_NOT_OFFERED:
		return 0;
	case FM_RESERVATION_NO_PATH:
		return fail(status ? status : ret, "ask who had it reserved", err);
	default:
		return status ? 0 : ret;
	}
}

int fm_reservation_key(const char *host_id, uint64_t *key, struct fm_err *err)
{
	uint64_t half[2];
	unsigned p[4];
	int end = 0;

	if (sscanf(host_id, "%8x-%4x-%4x-%4x-%12" SCNx64 "%n", &p[0], &p[1], &p[2], &p[3], &half[1],
		   &end) != 5 ||
	    end != 36 || host_id[end])
		return fm_err_set(err, -EINVAL, "the host's id \"%.40s\" is no UUID", host_id);
	half[0] = (uint64_t)p[0] << 32 | p[1] << 16 | p[2];
	half[1] |= (uint64_t)p[3] << 48;
	*key = half[0] ? half[0] : half[1];
	return *key ? 0 : fm_err_set(err, -EINVAL, "the host's id is all zeros");
}

int fm_reservation_take(int fd, uint64_t key, struct fm_err *err)
{
	struct pr_reservation r = { .key = key, .type = PR_WRITE_EXCLUSIVE };
	int ret = is_offered(fd, err), said;

	if (ret <= 0)
		return ret;
	said = enroll(fd, key);
	if (fm_reservation_status(said) == FM_RESERVATION_NOT_OFFERED)
		return 0;
	if (said != 0)
		return fail(said, "make the host known for a reservation", err);
	said = call(fd, IOC_PR_RESERVE, &r);
	if (said == 0)
		return 1;
	if (fm_reservation_status(said) == FM_RESERVATION_NOT_OFFERED)
		ret = 0;
	else if (fm_reservation_status(said) == FM_RESERVATION_CONFLICT)
		ret = refuse(fd, err);
	else	/* this host may have it, from before or by now */
		return fail(said, "reserve it", err);
	(void)leave(fd, key);	/* err says what went wrong first */
	return ret;
}

/*
 * Gives the reservation back by unregistering this host: a target releases what an unregistered
 * host had. IOC_PR_RELEASE is not used, because kernels before 2022 sent a command that some
 * targets refuse. A conflict means that this host is not registered, so it had no reservation. A
 * device that is not NVMe may not know any of these commands.
 */
int fm_reservation_release(int fd, uint64_t key, struct fm_err *err)
{
	int ret = is_offered(fd, err), said;
	enum fm_reservation_status status;

	if (ret <= 0)
		return ret;
	said = leave(fd, key);
	status = fm_reservation_status(said);
	if (said == 0 || status == FM_RESERVATION_CONFLICT ||
	    (said < 0 && status == FM_RESERVATION_NOT_OFFERED))
		return 0;
	return fail(said, "give the reservation back", err);
}
