package sftpd

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/sftp"
)

// These constants describe the memory that SFTP needs, in bytes. Most connections are idle. A
// connection that transfers a file may have an SSH window in memory (2 MiB), and requests and
// replies (272 KiB each). The sum does not assume that all connections are busy at once. It limits
// garbage, and does not delay any connection.
const (
	memoryPerConn    = 96 << 10
	memoryPerSession = 3 << 20
	busySessions     = 64       // sessions that transfer files at the same time
	memoryPerHash    = 20 << 20 // for checking a password (argon2id)
)

// Memory returns the memory that the service needs, in bytes.
func Memory(cfg *settings.SFTP) int64 {
	return int64(cfg.MaxConns)*memoryPerConn + busySessions*memoryPerSession + int64(runtime.GOMAXPROCS(0))*memoryPerHash
}

// Threads returns how many threads the service may need: each session may wait for a disk that
// hangs.
func Threads(cfg *settings.SFTP) int { return cfg.MaxConns * sftp.DefaultMaxChannels }

// An SSH connection needs descriptors for its socket and its open files. Users decide how many
// files they open; the calculation assumes filesPerConn. One more descriptor is needed for the
// user's directory.
const (
	filesPerConn   = 4
	handlesPerUser = sftp.DefaultMaxHandles

	// fewConns: a limit that follows from the number of descriptors is logged if it is below the
	// setting, or below this number.
	fewConns = 100
)

// fitDescriptors lowers the number of connections so that there are enough descriptors.
func fitDescriptors(srv *sftp.Server, limit, perVisit int, log *slog.Logger) {
	most := max(1, (limit-min(service.SpareDescriptors, limit/2))/(filesPerConn+perVisit))
	if srv.MaxConns > most {
		if srv.MaxConns != settings.DefaultSFTPConns || most < fewConns {
			log.Info(fmt.Sprintf("open-file limit %d allows %d SSH connections; raise ulimit -n (LimitNOFILE=) for more", limit, most))
		}
		srv.MaxConns = most
	}
	srv.MaxHandles = min(handlesPerUser, max(16, limit/16))
}
