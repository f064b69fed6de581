package serve

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/tftp"
)

// What SFTP needs of memory, in bytes. Most connections wait; one that moves a
// file may have a window of SSH in memory (2 MiB), and requests and replies
// (272 KiB each). That all of them do so at once is not planned for: the bound
// is one that garbage may not pass, and not one that keeps anybody waiting.
const (
	memoryPerConn    = 96 << 10
	memoryPerSession = 3 << 20
	busySessions     = 64       // that move files at the same time
	memoryPerHash    = 20 << 20 // a password that is checked (argon2id)
)

func (cfg *SFTP) memory() int64 {
	return int64(cfg.MaxConns)*memoryPerConn + busySessions*memoryPerSession + int64(runtime.GOMAXPROCS(0))*memoryPerHash
}

// Threads: a call to a disk that hangs keeps one, and each session of SFTP, and each
// request of HTTP, has one such call at most. The Go runtime ends a process that has
// more than 10,000, unless the limit is raised.
const (
	usualThreads = 10_000
	spareThreads = 1000 // for all others
)

// boundThreads allows for the threads of all of them.
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

// Descriptors: an SSH connection has its socket, and the files that are open by
// it. How many these are is for the users to know; so many are allowed for. That of
// its user's directory comes on top.
const (
	filesPerConn   = 4
	handlesPerUser = sftp.DefaultMaxHandles
)

// shareOf returns how many of the descriptors one of the services may count on.
func (cfg *Config) shareOf(limit int) int {
	n := 0
	for _, served := range []bool{cfg.ServesTFTP(), cfg.ServesSFTP(), cfg.ServesHTTP()} {
		if served {
			n++
		}
	}
	return limit / n
}

// What TFTP needs besides --memory, in bytes: docs/tftp.md, "Memory".
const (
	fixedMemory    = 24 << 20
	memoryPerCPU   = 20 << 20
	memoryPerEntry = 16 << 10 // for each transfer
)

// sftpGarbage is how much larger, in percent, the heap of an SFTP server may
// grow before it is collected. x/crypto allocates for each packet, and what lives
// is so little that by default it is collected for every 4 MB that are uploaded:
// a fifth of what an upload costs.
const sftpGarbage = 400

// boundHeap has the garbage collector work harder before the process outgrows
// what is documented, and less before. GOMEMLIMIT and GOGC, if they are set, go
// first.
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
		debug.SetMemoryLimit(limit)
	}
	if cfg.ServesSFTP() && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(sftpGarbage)
	}
}

// Descriptors: what a file that is read needs, however many read it, what an
// upload needs, and what is kept for sockets, directories, files that are being
// opened, and metrics.
const (
	filesPerRead  = 1
	filesPerWrite = 2
	spareFiles    = 128

	// What descriptors allow is logged if it is less than was asked for by a flag, or
	// fewer than these.
	fewFiles = 1000
	fewConns = 100
)

// fitDescriptors opens fewer files where there would not be descriptors for a
// file of each transfer.
func (cfg *Config) fitDescriptors(srv *tftp.Server, limit int) {
	each := filesPerRead
	if cfg.Files.Upload != site.UploadNone {
		each = filesPerWrite
	}
	most := max(1, (limit-min(spareFiles, limit/2))/each)
	if srv.MaxTransfers > most {
		srv.MaxFiles = most
		if srv.MaxTransfers != tftp.DefaultMaxTransfers || most < fewFiles {
			srv.Log.Info(fmt.Sprintf("open-file limit %d allows transfers of %d different files at once; raise ulimit -n (LimitNOFILE=) for more", limit, most))
		}
	}
}
