package serve

import (
	"os"
	"runtime/debug"

	"github.com/haul-project/haul/cmd/haul/internal/server/httpd"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/sftpd"
	"github.com/haul-project/haul/cmd/haul/internal/server/tftpd"
	"github.com/haul-project/haul/store/cache"
)

// These constants bound the number of threads. Each call to a disk that hangs occupies a thread. An
// SFTP session and an HTTP request each make at most one such call at a time. The Go runtime aborts
// a process that has more than 10,000 threads, unless the limit is raised.
const (
	usualThreads = 10_000
	spareThreads = 1000 // threads for everything other than SFTP sessions and HTTP requests
)

// boundThreads raises the limit on threads, if sessions and requests may need more threads than
// usual.
func boundThreads(cfg *settings.Config) {
	threads := spareThreads
	if cfg.ServesSFTP() {
		threads += sftpd.Threads(&cfg.SFTP)
	}
	if cfg.ServesHTTP() {
		threads += httpd.Threads
	}
	debug.SetMaxThreads(max(usualThreads, threads))
}

// fixedMemory is the memory that every server needs, in bytes, whatever services it has.
const fixedMemory = 24 << 20

// heapGrowth is the growth of the heap of an SFTP or HTTP server between two garbage collections,
// in percent of the live heap. These servers keep so little memory live that with Go's default a
// collection would run for every 4 MB. That would cost a fifth of an upload over SFTP, and a
// twentieth of a download of a small file over HTTP.
//
// heapGrowth is not used with a cache of upstreams, because the cache's blocks in memory are live.
// Go's default is enough there: it lets garbage take as much memory as live data. With heapGrowth,
// garbage could take hundreds of megabytes.
const heapGrowth = 400

// boundHeap makes the garbage collector run more often when the process approaches the size that
// the documentation states, and less often before that. If GOMEMLIMIT and GOGC are set, they have
// precedence.
func boundHeap(cfg *settings.Config) {
	if os.Getenv("GOMEMLIMIT") == "" {
		limit := int64(fixedMemory)
		if cfg.ServesTFTP() {
			limit += tftpd.Memory(&cfg.TFTP)
		}
		if cfg.ServesSFTP() {
			limit += sftpd.Memory(&cfg.SFTP)
		}
		if cfg.ServesHTTP() {
			limit += httpd.Memory
		}
		if cfg.Cache.Dir != "" {
			limit += cache.DefaultMemory
		}
		debug.SetMemoryLimit(limit)
	}
	if (cfg.ServesSFTP() || cfg.ServesHTTP()) && cfg.Cache.Dir == "" && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}
