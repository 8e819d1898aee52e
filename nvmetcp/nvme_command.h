/* SPDX-License-Identifier: MIT */
/*
 * nvme_command - commands of the NVMe base specification that the kernel has no call for, through
 * an open block device of a namespace. Needs CAP_SYS_ADMIN. Blocking, as long as the target takes:
 * for a helper process.
 */
#ifndef FM_NVMETCP_NVME_COMMAND_H
#define FM_NVMETCP_NVME_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_err;
struct nvme_passthru_cmd;

enum fm_nvme_identify {
	FM_NVME_IDENTIFY_NAMESPACE = 0,
	FM_NVME_IDENTIFY_CONTROLLER = 1,
};

/* Of a status as the kernel hands it up: the status code and its type, without "do not retry" and
 * the like. */
#define FM_NVME_STATUS_MASK 0x7ff
#define FM_NVME_INVALID_OPCODE 0x001
#define FM_NVME_INVALID_FIELD 0x002
#define FM_NVME_RESERVATION_CONFLICT 0x083
#define FM_NVME_IS_PATH_ERROR(status) (((status) & 0x700) == 0x300)

/*
 * Completes the command with the namespace's number and sends it, as an admin command or one of the
 * I/O set. `what` is for the error: "set ...". 0; -ENOTTY: the device is no NVMe; -errno, or -EIO
 * for a status of the target, which *status has (0 otherwise; NULL: not wanted).
 */
int fm_nvme_command(int fd, bool is_admin, struct nvme_passthru_cmd *cmd, const char *what,
		    int *status, struct fm_err *err);

/* Whether Identify has one of these bits in that byte, below 4096: 1, 0, or an error as above. */
int fm_nvme_offers(int fd, enum fm_nvme_identify what, size_t byte, uint8_t bits,
		   struct fm_err *err);

#endif
