package serve

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store/cache"
	"github.com/haul-project/haul/tftp"
)

// Memory that SFTP needs, in bytes. Most connections wait. One that transfers a file may
// have an SSH window in memory (2 MiB), and requests and replies (272 KiB each). The sum
// does not assume that all of them do so at once: it limits garbage, and delays nobody.
const (
	memoryPerConn    = 96 << 10
	memoryPerSession = 3 << 20
	busySessions     = 64       // that move files at the same time
	memoryPerHash    = 20 << 20 // a password that is checked (argon2id)
)

func (cfg *SFTP) memory() int64 {
	return int64(cfg.MaxConns)*memoryPerConn + busySessions*memoryPerSession + int64(runtime.GOMAXPROCS(0))*memoryPerHash
}

// Threads: a call to a disk that hangs holds one. A session of SFTP and a request of HTTP
// have one such call at most. The Go runtime ends a process with more than 10,000
// threads, unless the limit is raised.
const (
	usualThreads = 10_000
	spareThreads = 1000 // for everything else
)

// boundThreads sets the limit of threads.
func (cfg *Config) boundThreads() {
	threads := spareThreads
	if cfg.ServesSFTP() {
		threads += cfg.SFTP.MaxConns * sftp.DefaultMaxChannels
	}
	if cfg.ServesHTTP() {
		threads += mostHTTPConns * httpStreams
	}
	debug.SetMaxThreads(max(usualThreads, threads))
}

// Descriptors: an SSH connection has its socket and its open files. Users decide how many
// files they open; the calculation assumes this many. One for the user's directory is
// added.
const (
	filesPerConn   = 4
	handlesPerUser = sftp.DefaultMaxHandles
)

// shareOf returns each service's share of the descriptors.
func (cfg *Config) shareOf(limit int) int {
	n := 0
	for _, served := range []bool{cfg.ServesTFTP(), cfg.ServesSFTP(), cfg.ServesHTTP()} {
		if served {
			n++
		}
	}
	return limit / n
}

// Memory that TFTP needs besides --memory, in bytes: docs/tftp.md, "Memory".
const (
	fixedMemory    = 24 << 20
	memoryPerCPU   = 20 << 20
	memoryPerEntry = 16 << 10 // for each transfer
)

// heapGrowth is how far, in percent, the heap of a server of SFTP or HTTP may grow before it
// is collected. So little stays live that by default a collection runs for every 4 MB: a
// fifth of the cost of an upload over SFTP, and a twentieth of a small file's over HTTP.
// It is not for a server with a cache of sources, whose blocks in memory are live: as much
// garbage as that is enough, and five times as much would be hundreds of megabytes.
const heapGrowth = 400

// boundHeap has the garbage collector work harder when the process comes near the
// documented size, and less before. GOMEMLIMIT and GOGC, if they are set, have precedence.
func (cfg *Config) boundHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		limit := int64(fixedMemory)
		if cfg.ServesTFTP() {
			cpus, transfers := int64(runtime.GOMAXPROCS(0)), int64(cfg.TFTP.MaxTransfers)
			limit += cpus*memoryPerCPU + transfers*memoryPerEntry + cfg.TFTP.Memory
		}
		if cfg.ServesSFTP() {
			limit += cfg.SFTP.memory()
		}
		if cfg.ServesHTTP() {
			limit += httpMemory
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

// Descriptors that TFTP needs: for a file that is read, by any number of clients; for an
// upload; and for sockets, directories, files that are being opened, and metrics.
const (
	filesPerRead  = 1
	filesPerWrite = 2
	spareFiles    = 128

	// Of TFTP, and of HTTP, so many small files stay open for the next reader, or an eighth
	// of the descriptors if that is less.
	smallFiles = 256

	// A limit that the descriptors impose is logged if it is below the flag's, or below
	// these.
	fewFiles = 1000
	fewConns = 100
)

// fitDescriptors limits the open files if there are too few descriptors for a file of
// each transfer.
func (cfg *Config) fitDescriptors(srv *tftp.Config, limit int) {
	each := filesPerRead
	if cfg.Files.Upload != site.UploadNone {
		each = filesPerWrite
	}
	most := max(1, (limit-min(spareFiles, limit/2))/each)
	if srv.MaxTransfers > most {
		srv.MaxFiles = most
		if srv.MaxTransfers != tftp.Defaults().MaxTransfers || most < fewFiles {
			srv.Log.Info(fmt.Sprintf("open-file limit %d allows transfers of %d different files at once; raise ulimit -n (LimitNOFILE=) for more", limit, most))
		}
	}
}
