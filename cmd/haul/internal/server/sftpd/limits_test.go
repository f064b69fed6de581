package sftpd

import (
	"log/slog"
	"testing"

	"github.com/haul-project/haul/sftp"
)

// If users have directories of their own, a connection also holds the directory of its user open.
// There are enough descriptors for that.
func TestRootsTakeDescriptors(t *testing.T) {
	for each, conns := range map[int]int{0: 224, 1: 179} {
		srv := &sftp.Server{MaxConns: 1000}
		if fitDescriptors(srv, 1024, each, slog.New(slog.DiscardHandler)); srv.MaxConns != conns {
			t.Errorf("%d descriptors for a directory: %d connections, want %d", each, srv.MaxConns, conns)
		}
	}
}
