package sftpd

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/sftp"
)

// These constants estimate the memory that SFTP needs, in bytes. Most connections are idle. A
// connection that transfers a file may have an SSH window in memory (2 MiB), and requests and
// replies (272 KiB each). The sum assumes that only some connections are busy at once. It limits
// the garbage in memory, and does not delay any connection.
const (
	memoryPerConn    = 96 << 10
	memoryPerSession = 3 << 20
	busySessions     = 64       // the number of sessions that are assumed to transfer files at the same time
	memoryPerHash    = 20 << 20 // memory to check one password (argon2id)
)

// Memory returns the memory that the service needs, in bytes.
func Memory(cfg *settings.SFTP) int64 {
	return int64(cfg.MaxConns)*memoryPerConn + busySessions*memoryPerSession + int64(runtime.GOMAXPROCS(0))*memoryPerHash
}

// Threads returns how many threads the service may need at most: each session may occupy one while
// it waits for a disk that hangs.
func Threads(cfg *settings.SFTP) int { return cfg.MaxConns * sftp.DefaultMaxChannels }

// These constants estimate how many descriptors an SSH connection needs for its socket and its open
// files. Users decide how many files they open, so filesPerConn is an assumption.
const (
	filesPerConn   = 4
	handlesPerUser = sftp.DefaultMaxHandles

	// fewConns decides when a limit that follows from the number of descriptors is logged: if the
	// limit is below the setting, or below fewConns.
	fewConns = 100
)

// fitDescriptors lowers the maximum numbers of connections and of handles, so that `limit`
// descriptors are enough. perVisit is how many descriptors a connection needs in addition, for the
// user's directory.
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
