/*
 * The floor of a socket for each transfer: one thread, epoll, recvfrom and
 * sendto packet by packet, each socket read until it is empty. This is how a
 * native event loop in Go would go about it, so the difference between the two
 * is what the language costs, and the difference to batch.c what batching
 * is worth.
 *
 * A yardstick, not a server: see tftp.h.
 */
#define _GNU_SOURCE
#include "tftp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	EVENTS = 256,                  /* taken from epoll at once */
	MAX_TRANSFERS = 1 << 16,       /* sockets, and so file descriptors */
	TRANSFER_BUFFER = 1 << 20,     /* bytes of each socket's buffers */
	DALLY_MS = 300,                /* an upload's socket stays, to repeat the last ACK */
	MAX_DALLYING = 4096,           /* of those; more, and the oldest goes early */
};

struct conn {
	struct transfer t;
	int socket;
	struct conn *next;             /* of those that dally, by age */
};

static struct {
	struct conn *oldest, *newest;
	int n;
} dallying;

static struct conn *conns[MAX_TRANSFERS]; /* by file descriptor */
static unsigned char packet[MAX_PACKET];

static void emit(void *ctx, struct transfer *t, const unsigned char *p, size_t len, size_t segment, bool copy)
{
	(void)ctx, (void)copy;
	int s = ((struct conn *)t)->socket; /* t is a conn's first member */
	do {
		size_t n = segment && len > segment ? segment : len;
		/* A packet that cannot be sent is as good as lost. */
		if (sendto(s, p, n, 0, (struct sockaddr *)&t->peer, sizeof t->peer) < 0 && errno == EINTR)
			continue;
		p += n;
		len -= n;
	} while (len > 0);
}

static void hang_up(struct conn *c)
{
	transfer_end(&c->t);
	conns[c->socket] = NULL;
	close(c->socket); /* which takes it out of epoll as well */
	free(c);
}

/* Closes what has dallied long enough. While nothing comes in, nothing closes:
 * a timer would be one more system call. */
static void close_dallying(uint32_t now)
{
	while (dallying.oldest && (dallying.n > MAX_DALLYING || now - dallying.oldest->t.since >= DALLY_MS)) {
		struct conn *c = dallying.oldest;
		dallying.oldest = c->next;
		dallying.n--;
		hang_up(c);
	}
}

static void dally(struct conn *c)
{
	if (dallying.oldest)
		dallying.newest->next = c;
	else
		dallying.oldest = c;
	dallying.newest = c;
	dallying.n++;
}

static void begin(struct floor *f, int ep, const struct sockaddr_in *local, const struct sockaddr_in *peer, const unsigned char *p, size_t n)
{
	struct conn *c = calloc(1, sizeof *c);
	int size = TRANSFER_BUFFER, s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (!c || s < 0 || s >= MAX_TRANSFERS) {
		perror("floor: a request goes unanswered: opening a socket for its transfer");
		free(c);
		if (s >= 0)
			close(s);
		return;
	}
	setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
	struct epoll_event e = {EPOLLIN, {.fd = s}};
	if (bind(s, (const struct sockaddr *)local, sizeof *local) || epoll_ctl(ep, EPOLL_CTL_ADD, s, &e))
		fail("bind", "a transfer's socket");
	c->t.peer = *peer;
	c->socket = s;
	conns[s] = c;
	if (!transfer_begin(f, &c->t, p, n))
		hang_up(c);
}

/* Reads a transfer's socket until it is empty. */
static void drain(struct floor *f, struct conn *c)
{
	struct sockaddr_in from;
	for (socklen_t len = sizeof from;; len = sizeof from) {
		ssize_t n = recvfrom(c->socket, packet, sizeof packet, MSG_DONTWAIT, (struct sockaddr *)&from, &len);
		if (n < 0)
			return;
		if (from.sin_port != c->t.peer.sin_port || from.sin_addr.s_addr != c->t.peer.sin_addr.s_addr)
			continue;
		if (c->t.over) {
			transfer_repeat(f, &c->t, packet, (size_t)n);
			continue;
		}
		if (!transfer_packet(f, &c->t, packet, (size_t)n)) {
			hang_up(c);
			return;
		}
		if (c->t.over)
			dally(c);
	}
}

static void accept_requests(struct floor *f, int ep, int requests, const struct sockaddr_in *local)
{
	struct sockaddr_in from;
	for (socklen_t len = sizeof from;; len = sizeof from) {
		ssize_t n = recvfrom(requests, packet, sizeof packet, MSG_DONTWAIT, (struct sockaddr *)&from, &len);
		if (n < 0)
			return;
		if (is_request(packet, (size_t)n))
			begin(f, ep, local, &from, packet, (size_t)n);
	}
}

/* Allows as many open files as there may be transfers, or as the hard limit
 * lets us: begin says so if that was too few. */
static void allow_files(void)
{
	struct rlimit most = {MAX_TRANSFERS, MAX_TRANSFERS};
	if (!setrlimit(RLIMIT_NOFILE, &most) || getrlimit(RLIMIT_NOFILE, &most))
		return;
	most.rlim_cur = most.rlim_max < MAX_TRANSFERS ? most.rlim_max : MAX_TRANSFERS;
	setrlimit(RLIMIT_NOFILE, &most);
}

int main(int argc, char **argv)
{
	struct floor f = {.emit = emit};
	struct sockaddr_in addr;
	floor_options(&f, argc, argv, &addr, NULL, NULL);
	allow_files();
	int requests = floor_socket(&addr), ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ready[EVENTS], e = {EPOLLIN, {.fd = requests}};
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, requests, &e))
		fail("watch", "the socket for requests");
	addr.sin_port = 0;
	for (;;) {
		int n = epoll_wait(ep, ready, EVENTS, -1);
		f.now = floor_now();
		close_dallying(f.now);
		for (int i = 0; i < n; i++) {
			int s = ready[i].data.fd;
			if (s == requests)
				accept_requests(&f, ep, requests, &addr);
			else if (conns[s])
				drain(&f, conns[s]);
		}
	}
}
