/* SPDX-License-Identifier: MIT */
/* second_owner - who else there is on this machine that connects volumes. */
#ifndef FM_NVMETCP_DAEMON_SECOND_OWNER_H
#define FM_NVMETCP_DAEMON_SECOND_OWNER_H

/* The unit of nvme-cli that connects at boot what its own files name, if it is enabled; else "". */
const char *fm_nvmed_second_owner(void);

#endif
