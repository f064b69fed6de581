package sftpd

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/sftp"
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

// Memory returns the memory that the service needs, in bytes.
func Memory(cfg *settings.SFTP) int64 {
	return int64(cfg.MaxConns)*memoryPerConn + busySessions*memoryPerSession + int64(runtime.GOMAXPROCS(0))*memoryPerHash
}

// Threads returns the threads that the service may need: each session may have a call to a disk
// that hangs.
func Threads(cfg *settings.SFTP) int { return cfg.MaxConns * sftp.DefaultMaxChannels }

// Descriptors: an SSH connection has its socket and its open files. Users decide how many
// files they open; the calculation assumes this many. One for the user's directory is
// added.
const (
	filesPerConn   = 4
	handlesPerUser = sftp.DefaultMaxHandles

	// A limit by the descriptors is logged if it is below the setting, or below this.
	fewConns = 100
)

// fitDescriptors lowers the number of connections to what the descriptors allow.
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
