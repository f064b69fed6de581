package httpd

import (
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/web"
)

// Memory is how much memory the service needs, in bytes: for buffers, open connections and
// listings.
const Memory = 512 << 20

// Threads is how many threads the service may need at most: each request may occupy one while it
// waits for a disk that hangs.
const Threads = maxConns * streams

// These constants bound an HTTP connection.
const (
	headerTime  = 10 * time.Second // how long the header of a request may take to arrive
	idleTime    = 2 * time.Minute  // how long a connection may be idle between two requests
	headerBytes = 16 << 10
	// clientFirst is how long a client may take to send its first byte. Until then, the connection
	// does not reach the server.
	clientFirst = 30 * time.Second
	maxConns    = 1 << 14
	streams     = 64 // maximum number of requests under way on one HTTP/2 connection

	// filesPerRequest is how many descriptors a request needs. A download needs them for a file and
	// its variants. An upload needs them for its file, directory and checkpoint, and for the file
	// that its conditions refer to. One more descriptor is needed for the user's directory.
	filesPerRequest = 4
)

// bounds divides HTTP's share of the descriptors. conns is how many connections each port may have,
// small is how many small files are kept open, and open is how many requests with open files all
// ports together may have. The argument each is the number of descriptors that a request needs. An
// HTTP/2 connection carries many requests, so connections and requests are bounded separately.
func bounds(cfg *settings.Config, limit, each int) (conns, small, open int) {
	share := service.Share(cfg, limit)
	share -= min(service.SpareDescriptors, share/2)
	small = min(service.SmallFiles, share/8)
	share -= small
	ports := 0
	for _, addrs := range [][]string{cfg.HTTP.Listen, cfg.HTTP.ListenTLS} {
		if settings.AnyAddr(addrs) {
			ports++
		}
	}
	conns = max(1, min(maxConns, share/3/ports))
	return conns, small, max(1, min(web.DefaultMaxOpen, (share-ports*conns)/each))
}
