package httpd

import (
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/web"
)

// Memory is the memory that the service needs, in bytes: buffers, open connections and
// listings.
const Memory = 512 << 20

// Threads is how many threads the service may need: each request may have a call to a disk that
// hangs.
const Threads = maxConns * streams

// Bounds of a connection of HTTP.
const (
	headerTime  = 10 * time.Second // until the header of a request is complete
	idleTime    = 2 * time.Minute  // between requests
	headerBytes = 16 << 10
	clientFirst = 30 * time.Second // one that sends nothing for so long is never accepted
	maxConns    = 1 << 14
	streams     = 64 // requests at a time on one connection of HTTP/2

	// filesPerRequest are the descriptors of a request: a file and its variants; or for
	// an upload its file, directory and checkpoint, and the file of its conditions. One for
	// the user's directory is added.
	filesPerRequest = 4
)

// bounds returns how many connections each port may have, how many small files are kept
// open, and how many requests with open files all ports have together, for HTTP's share of
// the descriptors. A request takes each of them. A connection of HTTP/2 has many requests,
// so the two are bounded separately.
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
