/* SPDX-License-Identifier: MIT */
/* write_protect - see write_protect.h. NVM Express Base Specification 2.0, "Namespace Write
 * Protection". */
#include "nvmetcp/write_protect.h"

#include <errno.h>
#include <linux/nvme_ioctl.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/err.h"
#include "nvmetcp/nvme_command.h"

#define SET_FEATURES 0x09
#define GET_FEATURES 0x0a
#define FEATURE 0x84
#define NWPC 531			/* of Identify Controller: what of it the target offers; */
#define NWPC_OFFERED 0x01		/* the states 0 and 1 */

enum state {
	NOT_PROTECTED = 0,
	PROTECTED = 1,
	UNTIL_POWER_CYCLE = 2,
	PERMANENT = 3,
};
#define STATE_MASK 0x07

static int is_offered(int fd, struct fm_err *err)
{
	int ret = fm_nvme_offers(fd, FM_NVME_IDENTIFY_CONTROLLER, NWPC, NWPC_OFFERED, err);

	return ret == -ENOTTY ? 0 : ret;
}

static int get_state(int fd, uint32_t *state, struct fm_err *err)
{
	struct nvme_passthru_cmd cmd = { .opcode = GET_FEATURES, .cdw10 = FEATURE };
	int ret = fm_nvme_command(fd, true, &cmd, "ask whether the target protects it", NULL, err);

	*state = cmd.result & STATE_MASK;
	return ret;
}

int fm_write_protect_set(int fd, bool is_protected, struct fm_err *err)
{
	struct nvme_passthru_cmd cmd = {.opcode = SET_FEATURES,
					.cdw10 = FEATURE,
					.cdw11 = is_protected ? PROTECTED : NOT_PROTECTED};
	const char *what =
		is_protected ? "have the target protect it" : "have the target protect it no more";
	uint32_t state = NOT_PROTECTED;
	int ret = is_offered(fd, err);

	if (ret <= 0)
		return ret;
	ret = get_state(fd, &state, err);
	if (ret < 0)
		return ret;
	if (is_protected == (state != NOT_PROTECTED))
		return 1;
	if (state != NOT_PROTECTED && state != PROTECTED)
		return fm_err_set(err, -EROFS, "the target protects it %s, and not because of us",
				  state == PERMANENT ? "for ever" : "until its next power cycle");
	ret = fm_nvme_command(fd, true, &cmd, what, NULL, err);
	return ret < 0 ? ret : 1;
}
