/*
 * The little TFTP that the floors share: enough of RFC 1350, 2347, 2348, 2349
 * and 7440 that real clients finish, and nothing that costs time.
 *
 * A floor is a yardstick, not a server. It shows what the system calls of a
 * transfer cost when nothing else is done: files lie in memory as the packets
 * they will be sent in, no timer runs, nothing is sent again unless the client
 * asks, nobody is logged or limited. No real server can be cheaper with the
 * same calls; how close one comes is the figure of interest.
 */
#ifndef FLOOR_TFTP_H
#define FLOOR_TFTP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MAX_PACKET = 65536,          /* bytes; the largest block is 65464 (RFC 2348) */
	MAX_WINDOW = 256,            /* blocks granted to a client that asks for more */
	MAX_NAME = 255,              /* bytes of a file's name */
	MAX_IMAGES = 65536,          /* pairs of file and block size held in memory */
	MAX_SEGMENTS = 64,           /* of one UDP_SEGMENT message, by kernels before 6.9 */
	MAX_SEGMENT = 1472,          /* bytes; more would need fragments on Ethernet */
	MAX_MESSAGE = 65507,         /* bytes of one UDP message */
	REPEAT_MS = 100,             /* see transfer_packet */
	SOCKET_BUFFER = 32 << 20,    /* bytes; 10,000 small packets count as 8 to 13 MB */
};

/* An image is a file cut into DATA packets of one block size, back to back. */
struct image {
	struct image *next;          /* of those in the same bucket */
	char name[MAX_NAME + 1];
	uint32_t block;              /* bytes of a full block */
	uint64_t size;               /* bytes of the file */
	int64_t blocks;              /* including the last, short one */
	unsigned char *packets;
	uint32_t users;              /* transfers under way */
	bool stale;                  /* replaced by an upload; freed with its last user */
};

/* A transfer is what is known of one client. All zero means none. */
struct transfer {
	struct sockaddr_in peer;
	struct image *image;         /* of a download; NULL for an upload */
	int64_t acked;               /* blocks: the last the receiver is known to have */
	int64_t sent;                /* blocks: the last a download has sent */
	uint32_t block, window;
	uint32_t since;              /* ms: when something was last sent */
	bool gap;                    /* an upload's gap has been reported already */
	bool over;                   /* nothing more to do but repeat the last ACK */
	unsigned char *kept;         /* an upload's bytes, if they are stored */
	uint64_t kept_len, kept_cap;
	char *kept_name;
};

/*
 * An emitter sends len bytes to a client: one packet, or, where segment is not
 * 0, packets of that many bytes each, of which the last may be shorter. The
 * bytes stay valid until the emitter's owner reads from a socket again, except
 * where copy is set: those are gone when it returns.
 */
typedef void emitter(void *ctx, struct transfer *t, const unsigned char *p, size_t len, size_t segment, bool copy);

struct floor {
	int dir;                     /* what is served */
	bool store;                  /* keep uploads in memory; otherwise discard them */
	uint32_t now;                /* ms; coarse, set by the owner once per batch */
	emitter *emit;
	void *ctx;
};

/* Reads the command line: --address, --port, --store, DIR and, if they are
 * not NULL, --batch and --single-port. Exits with a message if it is wrong. */
void floor_options(struct floor *f, int argc, char **argv, struct sockaddr_in *addr, int *batch, bool *single);

/* Opens a UDP socket bound to addr, with large buffers. Exits on failure. */
int floor_socket(const struct sockaddr_in *addr);

/* Milliseconds of a coarse clock, read without a system call. */
uint32_t floor_now(void);

/* Whether a packet is a RRQ or WRQ. */
bool is_request(const unsigned char *p, size_t n);

/* Begins the transfer that a request asks for and answers it. False if it was
 * refused, in which case t holds nothing. t->peer must be set. */
bool transfer_begin(struct floor *f, struct transfer *t, const unsigned char *p, size_t n);

/* Takes a packet of a transfer and answers it. False once it has ended. */
bool transfer_packet(struct floor *f, struct transfer *t, const unsigned char *p, size_t n);

/* Takes a packet that comes after the end of an upload: a block whose ACK was
 * lost is acknowledged again, anything else ignored. */
void transfer_repeat(struct floor *f, struct transfer *t, const unsigned char *p, size_t n);

/* Forgets a transfer, ended or not. */
void transfer_end(struct transfer *t);

/* Says what failed, on what and, from errno, why; and exits. */
_Noreturn void fail(const char *what, const char *on);

#endif
