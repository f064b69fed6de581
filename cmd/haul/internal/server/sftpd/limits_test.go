package sftpd

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/users"
)

// If users have directories of their own, each connection may hold a different one, and there are
// descriptors for these as well.
func TestRootsTakeDescriptors(t *testing.T) {
	const limit = 1024
	served := t.TempDir()
	for _, test := range []struct {
		what, text string
		conns      int
	}{
		{"all have DIR", "user a\n  root .\nuser b\nuser c\n  root " + served + "\n", 224},
		{"one below DIR", "user a\nuser b\n  root b\n", 179},
		{"one elsewhere", "user a\n  root " + t.TempDir() + "\n", 179},
		{"each their own", "root %u\nuser a\nuser b\n", 179},
		{"of one who may not come", "user a\nuser b\n  disabled\n  root b\n", 224},
	} {
		file := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, err := users.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		roots, err := userroots.Open(served, nil, userroots.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer roots.Close()
		srv := &sftp.Server{MaxConns: 1000}
		fitDescriptors(srv, limit, roots.FilesPerVisit(dir), slog.New(slog.DiscardHandler))
		if srv.MaxConns != test.conns {
			t.Errorf("%s: %d connections, want %d", test.what, srv.MaxConns, test.conns)
		}
	}
}
