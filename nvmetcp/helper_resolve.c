/* SPDX-License-Identifier: MIT */
/* The call of a helper process that asks the resolver, which may take its time. */
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include "mover/base/err.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/helper_calls.h"

#define ADDRESSES_MAX 16

/* Adds an address in its canonical spelling, unless it is in the list. */
static int add_address(struct fm_json *addresses, const struct addrinfo *ai)
{
	char text[NI_MAXHOST], address[FM_CONNECTION_ADDRESS_MAX];
	const struct fm_json *seen;
	size_t i;

	if (getnameinfo(ai->ai_addr, ai->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) !=
		    0 ||
	    fm_connection_address(text, address) < 0)
		return 0;
	for (i = 0; (seen = fm_json_at(addresses, i)); i++)
		if (strcmp(fm_json_as_text(seen), address) == 0)
			return 0;
	return fm_json_add(addresses, fm_json_of_text(address));
}

int fm_helper_resolve(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	struct fm_json *addresses;
	const char *host;
	int ret = fm_helper_unpack(request, err, "{s:s}", "host", &host);

	if (ret < 0)
		return ret;
	ret = getaddrinfo(host, NULL, &hints, &list);
	if (ret != 0)
		return fm_err_set(err, ret == EAI_AGAIN ? -EAGAIN : -ENOENT, "%s: %s", host,
				  gai_strerror(ret));
	addresses = fm_json_array();
	for (const struct addrinfo *ai = list;
	     addresses && ai && fm_json_count(addresses) < ADDRESSES_MAX; ai = ai->ai_next)
		if (add_address(addresses, ai) < 0)
			ret = -ENOMEM;
	freeaddrinfo(list);
	if (ret == 0 && addresses && fm_json_count(addresses) == 0)
		ret = fm_err_set(err, -ENOENT, "%s has neither an IPv4 nor an IPv6 address", host);
	if (ret == 0)
		return fm_helper_put(answer, "addresses", addresses, err);
	fm_json_free(addresses);
	return ret == -ENOMEM ? fm_err_set(err, ret, "no memory for the addresses of %s", host)
			      : ret;
}
