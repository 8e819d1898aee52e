/* SPDX-License-Identifier: MIT */
/* nvme_command - see nvme_command.h. */
#include "nvmetcp/nvme_command.h"

#include <errno.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>

#include "mover/base/err.h"

#define IDENTIFY 0x06
#define IDENTIFY_BYTES 4096

/* SCSI answers EINVAL to what it does not know, and so does a loop device. */
static int find_nsid(int fd, uint32_t *nsid, struct fm_err *err)
{
	int ret = ioctl(fd, NVME_IOCTL_ID);

	if (ret < 0 && (errno == ENOTTY || errno == EINVAL))
		return fm_err_set(err, -ENOTTY, "the device is no NVMe namespace");
	if (ret < 0)
		return fm_err_sys(err, -errno, "ask for the number of the namespace");
	*nsid = (uint32_t)ret;
	return 0;
}

int fm_nvme_command(int fd, bool is_admin, struct nvme_passthru_cmd *cmd, const char *what,
		    int *status, struct fm_err *err)
{
	int ret = find_nsid(fd, &cmd->nsid, err);

	if (status)
		*status = 0;
	if (ret < 0)
		return ret;
	ret = ioctl(fd, is_admin ? NVME_IOCTL_ADMIN_CMD : NVME_IOCTL_IO_CMD, cmd);
	if (ret < 0)
		return fm_err_sys(err, -errno, "%s", what);
	if (ret == 0)
		return 0;
	if (status)
		*status = ret & FM_NVME_STATUS_MASK;
	return fm_err_set(err, -EIO, "%s: the target answers NVMe status 0x%x", what,
			  (unsigned)ret & FM_NVME_STATUS_MASK);
}

int fm_nvme_offers(int fd, enum fm_nvme_identify what, size_t byte, uint8_t bits,
		   struct fm_err *err)
{
	uint8_t data[IDENTIFY_BYTES] = { 0 };
	struct nvme_passthru_cmd cmd = {.opcode = IDENTIFY,
					.cdw10 = what,
					.addr = (uintptr_t)data,
					.data_len = sizeof(data)};
	int ret = fm_nvme_command(fd, true, &cmd, "identify the namespace", NULL, err);

	return ret < 0 ? ret : (data[byte] & bits) != 0;
}
